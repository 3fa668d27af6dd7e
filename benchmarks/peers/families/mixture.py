"""Bits of a true mixture of classes, which all contenders fit with as many classes, each from its own random start.

Ours runs at its defaults.  Plain NumPy is what a careful user would write: two products an iteration, in float32, until
a pass gains less than 1e-6 nats a row.  Quality is the exact log-likelihood of test rows, in float64.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.growth import Growth

TITLE = "Bernoulli mixtures"


def bits(n: int, d: int, k: int, seed: int = 0) -> np.ndarray:
    """Rows of a mixture of k classes whose means spread over the whole range."""
    means = np.random.default_rng([seed, d, k]).beta(0.7, 0.7, (k, d)) * 0.96 + 0.02
    rng = np.random.default_rng([seed, n])
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 10_000):
        rows = min(10_000, n - first)
        X[first : first + rows] = rng.random((rows, d), dtype=np.float32) < means[rng.integers(k, size=rows)]
    return X


def tables(quick: bool) -> dict[str, Table]:
    n, d, k = (4_000, 50, 5) if quick else (100_000, 200, 20)
    X = bits(n + n // 5, d, k)
    return {f"{n} x {d}, {k} classes": Table(X[:n], X[n:], {"components": k})}


def latentbits_(X: np.ndarray, *, seed: int, components: int) -> dict[str, Any]:
    from latentbits.estimators.mixture import BernoulliMixture

    model = BernoulliMixture(components, random_state=seed).fit(X)
    return {"weights": model.weights_, "means": model.means_}


def numpy_(X: np.ndarray, *, seed: int, components: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    weights, means = np.full(components, 1 / components), rng.uniform(0.25, 0.75, (components, X.shape[1]))
    last = -np.inf
    for _ in range(1000):
        p = np.clip(means, 1e-6, 1 - 1e-6)
        odds = (np.log(p) - np.log1p(-p)).astype(X.dtype)
        joint = X @ odds.T + (np.log1p(-p).sum(1) + np.log(weights)).astype(X.dtype)
        top = joint.max(1, keepdims=True)
        np.exp(joint - top, out=joint)
        total = joint.sum(1, keepdims=True)
        reached = float(np.mean(np.log(total) + top, dtype=float))
        joint /= total
        members = joint.sum(0, dtype=float)
        means = (joint.T @ X) / members[:, None]
        weights = members / members.sum()
        if reached - last < 1e-6:
            break
        last = reached
    return {"weights": weights, "means": means}


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.mixture"),
    "plain NumPy": Contender(numpy_, "numpy", dtype=np.float32),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    p = np.clip(np.asarray(params["means"], float), 1e-6, 1 - 1e-6)
    weights = np.ravel(params["weights"]).astype(float)
    x = test.astype(float)
    joint = x @ np.log(p).T + (1 - x) @ np.log1p(-p).T + np.log(np.maximum(weights / weights.sum(), 1e-300))
    return float(np.logaddexp.reduce(joint, axis=1).mean())


def _passes(n: int, d: int, k: int) -> Any:
    """A fit of as many passes as asked for, whatever they gain."""
    from latentbits.estimators.mixture import BernoulliMixture

    X = bits(n, d, k)

    def fit() -> int:
        model = BernoulliMixture(k, random_state=0, n_init=1, accelerate=False, max_iter=20, tol=-1e9)
        return model.fit(X).n_iter_

    return fit


GROWTH = {
    "rows": Growth((25_000, 50_000, 100_000, 200_000), lambda n: _passes(n, 100, 10)),
    "columns": Growth((50, 100, 200, 400), lambda d: _passes(50_000, d, 10)),
    "causes": Growth((5, 10, 20, 40), lambda k: _passes(50_000, 100, k)),
}
WHY: dict[str, str] = {}
