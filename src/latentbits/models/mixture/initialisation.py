"""Where learning begins: the best of several short runs on a sample of rows; or by splitting components."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

from jaxtyping import Float, ScalarLike

from latentbits.core import keys
from latentbits.core.arrays import AnyKey, Array, namespace, normal, on_device, repeat, uniform
from latentbits.core.compilation import Program
from latentbits.core.model import Summary
from latentbits.core.special import TINY, log_probabilities
from latentbits.models.mixture import tuning
from latentbits.models.mixture.coordinates import Params

__all__ = ["Effort", "best_of_short_runs", "effort_for", "random_rows", "split", "split_sizes", "with_equal_weights"]


# Rows x columns x components x runs x iterations of short runs up to which NumPy does: it needs half a second
# of one core for so many, about as much as it takes to compile the runs.
MOST_TERMS_ON_HOST = 2**31


class _Runs(NamedTuple):
    """Short runs: the objective before the last step, and the parameters after it."""

    value: Float[Array, " starts"]
    weights: Float[Array, "starts components"]
    means: Float[Array, "starts components columns"]


class Effort(NamedTuple):
    """Number of runs, and of iterations in each."""

    n_starts: int
    n_iter: int


def effort_for(n_columns: int, n_components: int) -> Effort:
    """Choose an effort that costs little beside the fit itself.

    >>> effort_for(5, 3)
    Effort(n_starts=8, n_iter=20)
    """
    size = n_columns * n_components
    if n_components == 1:
        return Effort(1, 1)
    return Effort(8, 20) if size <= 256 else Effort(16, 25) if size <= 4096 else Effort(6, 8)


def random_rows(
    n_starts: int, n_components: int, key: AnyKey, summary: Summary
) -> Float[Array, "starts components columns"]:
    """Draw means of components: anywhere in every second start, else around rows, halfway to the column means.

    The first find classes that differ in few columns, the second those of many.
    """
    xp, (n, d) = namespace(summary), summary.sample.shape
    draws = uniform(key, (n_starts, n + n_components * d))
    if n_components <= n:
        drawn = xp.argsort(-draws[:, :n], axis=1)[:, :n_components]
    else:  # some rows more than once
        drawn = (draws[:, n : n + n_components] * n).astype("int32")
    row = xp.where(summary.sample_observed[drawn] > 0, summary.sample[drawn], summary.mean)
    jitter = draws[:, n:].reshape(row.shape)
    anywhere = (xp.arange(n_starts) % 2 == 1)[:, None, None]
    means = xp.where(anywhere, jitter, 0.25 * row + 0.25 * jitter + 0.5 * summary.mean)
    return xp.clip(means, 0.01, 0.99)


def with_equal_weights(means: Float[Array, "components columns"]) -> Params:
    """Give all components the same weight."""
    return Params(namespace(means).full(len(means), 1 / len(means), means.dtype), means)


def best_of_short_runs(strength: ScalarLike, n_components: int, key: AnyKey, summary: Summary) -> Params:
    """Run EM briefly on the sample of rows from several starts, and return the parameters with the best objective.

    On the host in NumPy, but where it would take seconds.
    """
    effort = effort_for(summary.sample.shape[1], n_components)
    terms = _n_sampled(summary, n_components) * summary.sample.shape[1] * n_components
    if on_device(summary) or terms * effort.n_starts * effort.n_iter <= MOST_TERMS_ON_HOST:
        return _best(strength, key, summary, n_components)
    return _compiled(strength, key, summary, n_components=n_components)


def _best(strength: ScalarLike, key: AnyKey, summary: Summary, n_components: int) -> Params:
    """Take all starts together through plain EM: their components are the rows of one product."""
    xp, k, d = namespace(summary), n_components, summary.sample.shape[1]
    effort, n = effort_for(d, k), _n_sampled(summary, n_components)
    counted = (xp.arange(n) < summary.n_rows).astype(summary.sample.dtype)  # each row of a small table once
    values, observed = summary.sample[:n], summary.sample_observed[:n].astype(summary.sample.dtype)
    ones, seen = counted @ values, counted @ observed
    table = xp.concatenate([values, observed, xp.ones((n, 1))], 1)  # one product takes less time than two and a sum
    mean = (ones + strength / 2) / xp.maximum(seen + strength, TINY)

    def step(at: _Runs) -> _Runs:
        log_weight, (log_one, log_zero) = xp.log(xp.maximum(at.weights, TINY)), log_probabilities(at.means)
        # float64 bears one product with the log-odds, whose terms may cancel
        logs = xp.concatenate([log_one - log_zero, log_zero, log_weight[:, :, None]], 2)
        log_joint = (logs.reshape(-1, 2 * d + 1) @ table.T).reshape(-1, k, n)
        top = log_joint.max(1, keepdims=True)
        scaled = xp.exp(log_joint - top)
        total = scaled.sum(1, keepdims=True)
        prior = log_weight.sum(1) + (log_one @ mean + log_zero @ (1 - mean)).sum(1)
        value = (top + xp.log(total))[:, 0] @ counted + strength * prior
        share = (scaled * (counted / total)).reshape(-1, n)
        sums = (share @ table).reshape(-1, k, 2 * d + 1)
        ones, seen = sums[:, :, :d] + strength * mean, sums[:, :, d : 2 * d] + strength
        members = sums[:, :, 2 * d] + strength
        means = xp.where(seen > TINY, ones / xp.maximum(seen, TINY), at.means)
        return _Runs(value, members / members.sum(1, keepdims=True), xp.clip(means, 0, 1))

    means = random_rows(effort.n_starts, k, key, summary)
    weights = xp.full((effort.n_starts, k), 1 / k, means.dtype)
    runs = repeat(effort.n_iter, step, _Runs(xp.full(effort.n_starts, -xp.inf, means.dtype), weights, means))
    # of the point before the last step: near enough
    best = xp.argmax(xp.where(xp.isnan(runs.value), -xp.inf, runs.value))
    return Params(runs.weights[best], runs.means[best])


@partial(Program, seldom=True)
def _compiled(strength: ScalarLike, key: Array, summary: Summary, *, n_components: int) -> Params:
    return _best(strength, keys.typed(key), summary, n_components)


def _n_sampled(summary: Summary, n_components: int) -> int:
    """Choose how many rows of the sample short runs learn from."""
    n, d = summary.sample.shape
    return min(n, max(2**19 // (d * n_components), tuning.START_ROWS_PER_COMPONENT * n_components))


def split_sizes(n_components: int) -> tuple[int, ...]:
    """List the numbers of components of the splitting schedule.

    >>> split_sizes(45)
    (1, 2, 4, 8, 16, 32, 45)
    """
    sizes = [1]
    while sizes[-1] < n_components:
        sizes.append(min(2 * sizes[-1], n_components))
    return tuple(sizes)


def split(key: AnyKey, params: Params, n_components: int, first: bool = False) -> Params:
    """Split components in two, up to `n_components`, both halves slightly perturbed.

    Where not all are to be split, those are whose rows differ most: the largest weight times the sum of the variances
    of the bits; or the `first`, as in the paper (three classes then often end as one and a half and a half).
    """
    xp, old = namespace(params), params.weights.shape[0]
    new = n_components - old
    if new <= 0:
        return params
    spread = params.weights * (params.means * (1 - params.means)).sum(1)
    chosen = xp.arange(new) if first or new == old else xp.sort(xp.argsort(-spread)[:new])
    touched = xp.append((xp.arange(old)[:, None] == chosen).any(1), xp.ones(new, bool))
    weights = xp.append(params.weights, params.weights[chosen]) * xp.where(touched, 0.5, 1)
    # in log-odds, so that rare bits stay rare: enough to break the tie, too little to forget what was learned
    log_one, log_zero = log_probabilities(xp.concatenate([params.means, params.means[chosen]]))
    noise = 0.4 * touched[:, None] * normal(key, log_one.shape)
    return Params(weights, 1 / (1 + xp.exp(log_zero - log_one - noise)))
