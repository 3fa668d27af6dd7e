"""How good the truncated expectations (3) to (5) are, and what they cost: the claims of section 2."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.optimize import curve_fit
from scipy.stats import binom

from latentbits.core import tree
from latentbits.core.batch import Batch, make_batch
from latentbits.data.toys import linear_bars
from latentbits.models.binary_sparse_coding import equations
from latentbits.models.binary_sparse_coding.maximisation import Maximum, maximum
from latentbits.models.binary_sparse_coding.model import model
from latentbits.models.binary_sparse_coding.posterior import Expectations, Params, expectations, state_table
from latentbits.models.binary_sparse_coding.tuning import LEAST_LEARNABLE_ROWS, LEAST_NOISE_SHARE
from latentbits.papers.henniges_2010.bars import N_BARS, SIZE, STATES
from latentbits.papers.skeleton import kept

__all__ = ["N_CANDIDATES", "N_CAUSES", "accuracy", "counted", "exact_em", "exponent", "growth", "timed"]

PRIOR, NOISE = 0.2, 2.0  # of the bars
CLOSE_ERROR = 0.01  # an expectation, which lies between 0 and 1, is accurate to this
GAMMAS = (1, 2, 3, 4, 5)  # of 5 candidates


def accuracy(folder: Path, n_rows: int, n_sets: int) -> dict[str, Any]:
    """Compare truncated expectations of the bars with exact ones, with the true parameters.

    Returns for each gamma, of H' = 5 candidates, and set of rows: `close`, the share of rows in which <s> and <s
    s'> are off by less than `CLOSE_ERROR` everywhere; `close_within`, that of the N_cut rows of highest evidence.  With
    the paper's gamma `by_active`: the share by the number of active bars, 0 to 10, None where there is no such row.
    """
    return kept(folder, "accuracy", lambda: _accuracies(n_rows, n_sets), [n_rows, n_sets, GAMMAS, CLOSE_ERROR])


def _accuracies(n_rows: int, n_sets: int) -> dict[str, Any]:
    numbers = [{gamma: _accuracy(n_rows, seed, gamma) for gamma in GAMMAS} for seed in range(n_sets)]
    lists = {
        name: {str(gamma): [one[gamma][name] for one in numbers] for gamma in GAMMAS}
        for name in ("close", "close_within")
    }
    by_active = np.mean([one[STATES["max_active"]]["by_active"] for one in numbers], 0)
    return {"n_rows": n_rows, **lists, "by_active": [float(x) if np.isfinite(x) else None for x in by_active]}


def _accuracy(n_rows: int, seed: int, gamma: int) -> dict[str, Any]:
    toy = linear_bars(n_rows, size=SIZE, random_state=np.random.default_rng([seed, 7]))
    with tree.double():
        numbers = (toy.components, NOISE, PRIOR, 0.0, 0.0)
        params = Params(*(jnp.asarray(x, jnp.float64) for x in numbers))
        batch = _batch(toy.X, np.float64)
        few, first, second = _expected(params, batch, gamma, STATES["n_candidates"])
        _, exact_first, exact_second = _expected(params, batch, N_BARS, N_BARS)
    off = np.maximum(np.abs(first - exact_first).max(1), np.abs(second - exact_second).max((1, 2)))
    close, active = off < CLOSE_ERROR, toy.causes.sum(1)
    within = np.argsort(-few)[: round(n_rows * _share_within(gamma))]
    by_active = [close[active == n].mean() if (active == n).any() else np.nan for n in range(N_BARS + 1)]
    return {
        "close": float(close.mean()),
        "close_within": float(close[within].mean()),
        "by_active": by_active,
    }


def _share_within(gamma: int) -> float:
    return float(binom.cdf(gamma, N_BARS, PRIOR))


def _batch(X: np.ndarray, dtype: Any) -> Batch:
    n = jnp.uint32(len(X))
    batch = make_batch(jnp.asarray(X, dtype), jnp.uint32(0), n, jax.random.key(0), True, np.dtype(dtype))
    assert isinstance(batch, Batch)  # rows are not sparse
    return batch


@cache
def _program(n_causes: int, gamma: int, n_candidates: int) -> Callable[[Params, Batch], Expectations]:
    one, states = model(n_causes, gamma, n_candidates), state_table(n_candidates, gamma)
    return jax.jit(lambda params, batch: expectations(params, one.prepare(params, None, None), batch, states))


def _expected(params: Params, batch: Batch, gamma: int, n_candidates: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Compute log evidence, <s> (rows, H) and <s_i s_j> of i < j (rows, H, H)."""
    states, n_causes = state_table(n_candidates, gamma), len(params.components)
    found = _program(n_causes, gamma, n_candidates)(params, batch)
    evidence, means = np.asarray(found.log_evidence), np.asarray(found.means).T
    second = np.zeros((len(means), n_causes, n_causes))
    if found.pairs is None:
        assert found.posterior is not None
        first, other = np.triu_indices(n_causes, 1)
        bits = np.arange(2**n_causes)[:, None] >> np.arange(n_causes)[::-1] & 1
        both = (bits[:, first] & bits[:, other]).astype(float)
        second[:, first, other] = (np.asarray(found.posterior.weights) / np.asarray(found.posterior.total)).T @ both
    else:
        mine = np.asarray(found.candidates)
        low, high = (np.asarray(f(mine[states.first], mine[states.second])) for f in (np.minimum, np.maximum))
        np.put_along_axis(
            second.reshape(len(means), -1), (low * n_causes + high).T.astype(int), np.asarray(found.pairs).T, 1
        )
    return evidence, means, second


# --- gamma = H ---


def exact_em(n_rows: int) -> float:
    """Compare an iteration with gamma = H' = H with one of exact EM, in float64.

    The first is the library's; the second sums over all 2^H states by `equations.py`, with the M-step that (2) has
    without truncation: all rows, and pi = sum <|s|> / (N H).

    Returns the largest difference of W, sigma and pi, as a part of the largest component, of sigma and of pi.
    """
    rng = np.random.default_rng(8)
    toy = linear_bars(n_rows, size=SIZE, random_state=rng)
    start = equations.Theta((toy.components + rng.normal(size=toy.components.shape)).T, 1.5 * NOISE, 1.5 * PRIOR)
    states = equations.all_states(N_BARS)
    q = [equations.posterior(y, states, start) for y in toy.X.astype(float)]
    W = equations.new_W(toy.X, q)
    sigma, pi = equations.new_sigma(toy.X, q, W), np.mean([one.mean for one in q])
    with tree.double():
        params = Params(*(jnp.asarray(x, jnp.float64) for x in (start.W.T, start.sigma, start.pi, 0.0, 0.0)))
        found = _iteration()(params, _batch(toy.X, np.float64))
    off = (
        np.abs(np.asarray(found.components) - W.T).max() / np.abs(W).max(),
        abs(float(found.noise_std) / sigma - 1),
        abs(float(found.prior) / pi - 1),
    )
    return float(max(off))


@cache
def _iteration() -> Callable[[Params, Batch], Maximum]:
    one = model(N_BARS, N_BARS, N_BARS)

    def iteration(params: Params, batch: Batch) -> Maximum:
        stats, _ = one.e_step(params, one.prepare(params, None, None), batch, None)
        return maximum(params, stats, N_BARS, LEAST_NOISE_SHARE, LEAST_LEARNABLE_ROWS)

    return jax.jit(iteration)


# --- what it costs ---

N_CANDIDATES = tuple(range(5, 11))  # H' of the paper: 5 for bars, 10 for images
N_CAUSES = (100, 200, 400, 600, 800, 1000, 1200, 1400, 1600)  # H of an E-step; from 3200 on its sum of H x H dominates


def counted(gamma: int) -> list[int]:
    """Count the states of at most gamma of H' candidates, which an E-step sums over, for each of `N_CANDIDATES`.

    The table that is counted is the one that the E-step multiplies by, so that no clock has a say.
    """
    return [len(state_table(n, gamma).bits) for n in N_CANDIDATES]


N_ROWS, N_COLUMNS = 1000, 100


def timed(folder: Path, sizes: Sequence[int] = N_CAUSES, n_rows: int = N_ROWS) -> list[float]:
    """Measure CPU seconds of an E-step over `n_rows` rows, compilation left out, for several H, with 3 of 6 candidates.

    Seconds are of all threads together: neither their number nor what else the machine does changes the exponent much.
    """

    def compute() -> list[float]:
        with jax.default_device(jax.local_devices(backend="cpu")[0]):
            steps = [_step(n_rows, n, 3, 6) for n in sizes]
            turns = [[_seconds(step) for step in steps] for _ in range(15)]  # by turns; the fastest counts
        return np.min(turns, axis=0).tolist()

    return kept(folder, "time_causes", compute, [sizes, n_rows])


def _step(n_rows: int, n_causes: int, gamma: int, n_candidates: int) -> Callable[[], Any]:
    """Compile an E-step, and do it once."""
    rng = np.random.default_rng(0)
    one = model(n_causes, gamma, n_candidates)
    numbers = (rng.normal(size=(n_causes, N_COLUMNS)), 1.0, 2.0 / n_causes, 0.0, 0.0)
    params = Params(*(jnp.asarray(x, jnp.float32) for x in numbers))
    batch = _batch(rng.normal(size=(n_rows, N_COLUMNS)), np.float32)
    shared = one.prepare(params, None, None)
    step: Callable[..., Any] = jax.jit(one.e_step)
    compiled = step.lower(params, shared, batch, None).compile()  # type: ignore[attr-defined]
    jax.block_until_ready(compiled(params, shared, batch, None))
    return lambda: compiled(params, shared, batch, None)


def _seconds(step: Callable[[], Any]) -> float:
    began = time.process_time()
    jax.block_until_ready(step())
    return time.process_time() - began


def exponent(sizes: Sequence[float], counts: Sequence[float]) -> float:
    """Fit the slope of log counts over log size.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0
    """
    return float(np.polyfit(np.log(sizes), np.log(counts), 1)[0])


def growth(sizes: Sequence[float], seconds: Sequence[float]) -> dict[str, float]:
    """Fit seconds = fixed + rate size^exponent, by least squares of the logarithms; with the exponent's standard error.

    >>> found = growth([1, 2, 4, 8, 16], [7, 9, 13, 21, 37])  # 5 + 2 size
    >>> {name: round(value, 3) for name, value in found.items()}
    {'fixed': 5.0, 'rate': 2.0, 'exponent': 1.0, 'error': 0.0}
    """

    def model(x: Any, fixed: float, rate: float, power: float) -> Any:
        return np.log(fixed + rate * x**power)

    scale, least = max(sizes), min(seconds)
    start = (least / 2, max(seconds) - least / 2, 1.0)
    x, y = np.asarray(sizes) / scale, np.log(seconds)
    (fixed, rate, power), covariance = curve_fit(model, x, y, start, bounds=((0, 0, 0), (least, np.inf, np.inf)))
    error = float(np.sqrt(covariance[2, 2]))
    return {"fixed": float(fixed), "rate": float(rate / scale**power), "exponent": float(power), "error": error}
