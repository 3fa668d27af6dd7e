"""Combination machines, which others call restricted Boltzmann machines: as many hidden units for all.

Ours runs at its defaults.  scikit-learn's `BernoulliRBM` cannot tell the likelihood that it climbs, nor when to stop.
It gets a learning rate of 0.05 and 100 epochs (by default 0.1 and 10) on every table; what tuning both on validation
rows would bring, `benchmarks/combination_machine.py peers` tells.  Quality is the exact log-likelihood of test rows,
summed over all hidden states.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.growth import Growth
from benchmarks.peers.sets import COMPILED, public

TITLE = "Combination machines"


def states(m: int) -> np.ndarray:
    """All of m hidden bits."""
    return (np.arange(2**m)[:, None] >> np.arange(m) & 1).astype(float)


def log_softplus_sum(odds: np.ndarray) -> np.ndarray:
    return np.logaddexp(0, odds).sum(1)


def bits(n: int, d: int, m: int) -> np.ndarray:
    """Rows of a true machine, drawn exactly: a hidden state of all, then every bit given it."""
    rng = np.random.default_rng([1994, d, m])
    weights = 3 * rng.standard_normal((m, d)) * (rng.random((m, d)) < 0.2)
    visible = rng.normal(-1, 0.5, d)
    hidden = states(m)
    odds = hidden @ weights + visible
    log_share = log_softplus_sum(odds)
    log_share -= hidden @ (log_softplus_sum(visible + weights) - log_softplus_sum(visible[None]))  # none is always on
    share = np.exp(log_share - log_share.max())
    on = rng.choice(len(hidden), n, p=share / share.sum())
    return (rng.random((n, d)) < 1 / (1 + np.exp(-odds[on]))).astype(np.uint8)


def tables(quick: bool) -> dict[str, Table | str]:
    n, d, m = (500, 16, 4) if quick else (10_000, 64, 10)
    X = bits(n + n // 5, d, m)
    learned = {"hidden": m, "rate": 0.05, "epochs": 5 if quick else 100}
    made: dict[str, Table | str] = {f"simulated, {n} x {d}, {m} hidden": Table(X[:n], X[n:], learned)}
    if not quick:
        made["digits, 16 hidden"] = public("digits", hidden=16, rate=0.05, epochs=100)
        made["nltcs, 8 hidden"] = public("nltcs", hidden=8, rate=0.05, epochs=100)
    return made


def latentbits_(X: np.ndarray, *, seed: int, hidden: int, rate: float, epochs: int) -> dict[str, Any]:
    from latentbits.estimators.combination_machine import CombinationMachine

    model = CombinationMachine(hidden, random_state=seed).fit(X)
    w = model.components_
    # its inputs are -1 and +1
    return {"weights": 2 * w, "hidden": model.hidden_bias_ - w.sum(1), "visible": 2 * model.input_bias_}


def scikit_learn(X: np.ndarray, *, seed: int, hidden: int, rate: float, epochs: int) -> dict[str, Any]:
    from sklearn.neural_network import BernoulliRBM

    rbm = BernoulliRBM(hidden, learning_rate=rate, n_iter=epochs, random_state=seed).fit(X)
    return {"weights": rbm.components_, "hidden": rbm.intercept_hidden_, "visible": rbm.intercept_visible_}


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.combination_machine"),
    "BernoulliRBM": Contender(scikit_learn, "scikit-learn", module="sklearn.neural_network", dtype=np.float32),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    """`weights` (hidden, columns), biases `hidden` and `visible`, of bits 0 and 1."""
    weights, hidden, visible = (np.asarray(params[name], float) for name in ("weights", "hidden", "visible"))
    log_z = -np.inf
    for some in np.array_split(states(len(weights)), max(1, 2 ** (len(weights) - 12))):
        log_z = np.logaddexp(log_z, np.logaddexp.reduce(some @ hidden + log_softplus_sum(some @ weights + visible)))
    x = test.astype(float)
    return float((x @ visible + log_softplus_sum(x @ weights.T + hidden)).mean() - log_z)


def _passes(n: int, d: int, m: int) -> Any:
    from latentbits.estimators.combination_machine import CombinationMachine

    X = bits(n, d, min(m, 10))

    def fit() -> int:
        model = CombinationMachine(m, random_state=0, max_iter=20, tol=1e-300, validation_fraction=0.0)
        return len(model.fit(X).history_table_)

    return fit


GROWTH = {
    "rows": Growth((5_000, 10_000, 20_000, 40_000), lambda n: _passes(n, 64, 8)),
    "columns": Growth((32, 64, 128, 256), lambda d: _passes(10_000, d, 8)),
    "causes": Growth((2, 4, 8, 16), lambda m: _passes(10_000, 64, m)),
}
WHY = {
    "BernoulliRBM": "scikit-learn takes a fixed number of cheap random steps, at a rate that one has to choose; "
    "ours holds rows out to know when to stop, and finds the strength of its prior within the fit; " + COMPILED,
}
