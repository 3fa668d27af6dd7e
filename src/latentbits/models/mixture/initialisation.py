"""Where learning begins: the best of several short runs on a sample of rows; or by splitting components."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import Summary
from latentbits.core.special import log_probabilities
from latentbits.models.mixture import tuning
from latentbits.models.mixture.coordinates import Params

__all__ = ["Effort", "best_of_short_runs", "effort_for", "random_rows", "split", "split_sizes", "with_equal_weights"]


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
    n_starts: int, n_components: int, key: Key[Array, ""], summary: Summary
) -> Float[Array, "starts components columns"]:
    """Draw means of components: anywhere in every second start, else around rows, halfway to the column means.

    The first find classes that differ in few columns, the second those of many.  All starts at once, from one call of
    the generator: it is what compiles longest.
    """
    n, d = summary.sample.shape
    uniform = jax.random.uniform(key, (n_starts, n + n_components * d), summary.sample.dtype)
    if n_components <= n:
        _, drawn = jax.lax.top_k(uniform[:, :n], n_components)
    else:  # some rows more than once
        drawn = (uniform[:, n : n + n_components] * n).astype(jnp.int32)
    row = jnp.where(summary.sample_observed[drawn] > 0, summary.sample[drawn], summary.mean)
    jitter = uniform[:, n:].reshape(row.shape)
    anywhere = (jnp.arange(n_starts) % 2 == 1)[:, None, None]
    means = jnp.where(anywhere, jitter, 0.25 * row + 0.25 * jitter + 0.5 * summary.mean)
    return jnp.clip(means, 0.01, 0.99)


def with_equal_weights(means: Float[Array, "components columns"]) -> Params:
    """Give all components the same weight."""
    return Params(jnp.full(len(means), 1 / len(means), means.dtype), means)


Step = Callable[[Params, Batch], tuple[Float[Array, ""], Params]]


def best_of_short_runs(step: Step, n_components: int, key: Key[Array, ""], summary: Summary) -> Params:
    """Run EM briefly on the sample of rows from several starts, and return the parameters with the best objective.

    `step` gives the objective of parameters on a batch, and where an iteration of EM takes them.
    """
    effort = effort_for(summary.sample.shape[1], n_components)
    batch = _sampled(summary, n_components, key)
    means = random_rows(effort.n_starts, n_components, key, summary)

    def run(means: Float[Array, "components columns"]) -> tuple[Float[Array, ""], Params]:
        begin = (jnp.asarray(-jnp.inf, means.dtype), with_equal_weights(means))
        return jax.lax.fori_loop(0, effort.n_iter, lambda _, at: step(at[1], batch), begin)

    values, params = jax.vmap(run)(means)
    best = jnp.argmax(jnp.where(jnp.isnan(values), -jnp.inf, values))  # of the point before the last step: near enough
    return jax.tree.map(lambda x: x[best], params)


def _sampled(summary: Summary, n_components: int, key: Key[Array, ""]) -> Batch:
    """Make a batch of the sample, each row of a small table once."""
    n, d = summary.sample.shape
    n = min(n, max(2**19 // (d * n_components), tuning.START_ROWS_PER_COMPONENT * n_components))
    weight = (jnp.arange(n) < summary.n_rows).astype(summary.sample.dtype)
    observed = summary.sample_observed[:n].astype(summary.sample.dtype)
    return Batch(summary.sample[:n], observed, weight, jnp.arange(n, dtype=jnp.uint32), key)


def split_sizes(n_components: int) -> tuple[int, ...]:
    """List the numbers of components of the splitting schedule.

    >>> split_sizes(45)
    (1, 2, 4, 8, 16, 32, 45)
    """
    sizes = [1]
    while sizes[-1] < n_components:
        sizes.append(min(2 * sizes[-1], n_components))
    return tuple(sizes)


def split(key: Key[Array, ""], params: Params, n_components: int, first: bool = False) -> Params:
    """Split components in two, up to `n_components`, both halves slightly perturbed.

    Where not all are to be split, those are whose rows differ most: the largest weight times the sum of the variances
    of the bits; or the `first`, as in the paper (three classes then often end as one and a half and a half).
    """
    old = params.weights.shape[0]
    new = n_components - old
    if new <= 0:
        return params
    spread = params.weights * jnp.sum(params.means * (1 - params.means), 1)
    chosen = jnp.arange(new) if first or new == old else jnp.sort(jnp.argsort(-spread)[:new])
    weights = params.weights.at[chosen].multiply(0.5)
    weights = jnp.concatenate([weights, weights[chosen]])
    means = jnp.concatenate([params.means, params.means[chosen]])
    touched = jnp.ones(n_components).at[:old].set(0).at[chosen].set(1)
    # in log-odds, so that rare bits stay rare: enough to break the tie, too little to forget what was learned
    log_one, log_zero = log_probabilities(means)
    noise = 0.4 * touched[:, None] * jax.random.normal(key, means.shape, means.dtype)
    return Params(weights, jax.nn.sigmoid(log_one - log_zero + noise))
