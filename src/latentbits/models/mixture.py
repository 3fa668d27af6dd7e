"""Mixtures of Bernoulli products (latent classes): the model that Freund & Haussler compare with in section 4.

    p(x) = sum_k w_k prod_j m_kj^x_j (1 - m_kj)^(1 - x_j)

EM with responsibilities in log space.  A missing bit's term is left out, which marginalises it exactly.  Learning
starts either from random rows, or by the paper's splitting schedule: one component, EM, split every component into
two that are slightly perturbed, EM, and so on; where doubling would give too many, only the first are split
(45 = 32 + 13).
"""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from latentbits.core.batch import Batch
from latentbits.core.model import Iterate, LogLikelihood, Model, Progress, Stage, Summary, Transform
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows

__all__ = ["Params", "Posterior", "Shared", "Stats", "model", "split", "split_sizes"]


class Params(eqx.Module):
    """Weight of each component, and its P(bit = 1) for each column."""

    weights: Float[Array, " components"]
    means: Float[Array, "components columns"]


class Shared(eqx.Module):
    """Logs of the weights, and of P(bit = 1) and P(bit = 0)."""

    log_weight: Float[Array, " components"]
    log_one: Float[Array, "components columns"]
    log_zero: Float[Array, "components columns"]


class Stats(eqx.Module):
    """Sums over rows, weighted by the responsibilities."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]  # see sum_rows
    members: Float[Array, " components"]
    ones: Float[Array, "components columns"]
    observed: Float[Array, "components columns"]


class Posterior(eqx.Module):
    """Responsibilities (their own posterior mean), and the most probable component as a one-hot row."""

    mean: Float[Array, "rows components"]
    mode: Float[Array, "rows components"]


def _prepare(params: Params, state: None, progress: Progress | None) -> Shared:
    return Shared(jnp.log(jnp.maximum(params.weights, TINY)), *log_probabilities(params.means))


def _log_joint(shared: Shared, batch: Batch) -> Float[Array, "rows components"]:
    """log P(x, component), by two products whose terms have one sign.

    One product with the log-odds would do, and be faster, but for means near 1 it cancels against sum(log_zero): in
    float32 that is wrong by whole nats at d = 784, and makes the fit depend on which of two values is called 1.
    """
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    return batch.values @ shared.log_one.T + zeros @ shared.log_zero.T + shared.log_weight


def _responsibilities(shared: Shared, batch: Batch) -> tuple[Float[Array, "rows components"], Float[Array, " rows"]]:
    """P(component | x) and log p(x)."""
    log_joint = _log_joint(shared, batch)
    top = jnp.max(log_joint, axis=1, keepdims=True)
    scaled = jnp.exp(log_joint - top)
    total = jnp.sum(scaled, axis=1, keepdims=True)
    return scaled / total, (top + jnp.log(total))[:, 0]


def _e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    share, log_likelihood = _responsibilities(shared, batch)
    share = share * batch.weight[:, None]
    members = share.sum(0)
    if batch.observed is None:
        observed = jnp.broadcast_to(members[:, None], params.means.shape)
    else:
        observed = share.T @ batch.observed
    stats = Stats(
        n_rows=batch.weight.sum(),
        log_likelihood=sum_rows(batch.weight, log_likelihood),
        members=members,
        ones=share.T @ batch.values,
        observed=observed,
    )
    return stats, None


def _log_likelihood(params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
    return LogLikelihood.exact(_responsibilities(shared, batch)[1])


def _infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
    share, _ = _responsibilities(shared, batch)
    return Posterior(share, jax.nn.one_hot(jnp.argmax(share, axis=1), share.shape[1], dtype=share.dtype))


def _decode(params: Params, latents: Float[Array, "rows components"]) -> Float[Array, "rows columns"]:
    return latents @ params.means


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    # responsibilities sum to 1 but for rounding, and a probability above 1 is none
    return jnp.clip(_responsibilities(shared, batch)[0] @ params.means, 0, 1)


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    def draw(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, bits = jax.random.split(key)
        component = jax.random.categorical(which, shared.log_weight)
        return jax.random.bernoulli(bits, params.means[component]).astype(params.means.dtype)

    return jax.vmap(draw)(keys)


def split_sizes(n_components: int) -> tuple[int, ...]:
    """Numbers of components of the splitting schedule.

    >>> split_sizes(45)
    (1, 2, 4, 8, 16, 32, 45)
    """
    sizes = [1]
    while sizes[-1] < n_components:
        sizes.append(min(2 * sizes[-1], n_components))
    return tuple(sizes)


def split(key: Key[Array, ""], params: Params, n_components: int) -> Params:
    """Split the first components in two, up to `n_components`; both halves are slightly perturbed."""
    old = params.weights.shape[0]
    new = n_components - old
    if new <= 0:
        return params
    weights = params.weights.at[:new].multiply(0.5)
    weights = jnp.concatenate([weights, weights[:new]])
    means = jnp.concatenate([params.means, params.means[:new]])
    touched = (jnp.arange(n_components) < new) | (jnp.arange(n_components) >= old)
    # in log-odds, so that rare bits stay rare: enough to break the tie, too little to forget what was learned
    log_one, log_zero = log_probabilities(means)
    noise = 0.4 * touched[:, None] * jax.random.normal(key, means.shape, means.dtype)
    return Params(weights, jax.nn.sigmoid(log_one - log_zero + noise))


def _random_rows(n_components: int, key: Key[Array, ""], summary: Summary) -> Params:
    """Components around randomly drawn rows, each pulled half of the way to the column means and jittered."""
    rows, jitter = jax.random.split(key)
    drawn = jax.random.choice(
        rows, summary.sample.shape[0], (n_components,), replace=n_components > summary.sample.shape[0]
    )
    seen = summary.sample_observed[drawn] > 0
    row = jnp.where(seen, summary.sample[drawn], summary.mean)
    noise = jax.random.uniform(jitter, row.shape, row.dtype)
    means = 0.25 * row + 0.25 * noise + 0.5 * summary.mean
    return Params(jnp.full(n_components, 1 / n_components), jnp.clip(means, 0.01, 0.99))


def _grown_to(size: int, n_components: int, split_iter: int) -> tuple[Stage, ...]:
    """Split up to this number of components, and EM with them."""

    def grow(key: Key[Array, ""], params: Params, state: None) -> Params:
        return split(key, params, size)

    limit = None if size == n_components else split_iter
    return Transform("splitting", grow), Iterate(f"EM, {size} of {n_components} components", max_iter=limit)


@cache
def model(n_components: int, smoothing: float = 0.0, init: str = "random", split_iter: int = 20) -> Model:
    """A mixture of Bernoulli products.

    Parameters
    ----------
    n_components
        Number of components, k.
    smoothing
        As if each component had seen so many more rows, each with the column means of the data (themselves smoothed by
        as many fair coins).
    init
        "random" starts from random rows; "split" grows from one component as Freund & Haussler do.
    split_iter
        Most EM iterations before each split; the last stage has the user's limits.
    """

    def base(stats: Stats) -> Float[Array, " columns"]:
        # responsibilities sum to 1, so these are the plain column means, the same at every iteration
        ones, observed = stats.ones.sum(0), stats.observed.sum(0)
        return (ones + smoothing / 2) / jnp.maximum(observed + smoothing, TINY)

    def update(state: None, params: Params, shared: Shared, stats: Stats, progress: Progress) -> tuple[None, Params]:
        ones = stats.ones + smoothing * base(stats)
        observed = stats.observed + smoothing
        members = stats.members + smoothing
        # a component that owns nothing keeps its means
        means = jnp.where(observed > TINY, ones / jnp.maximum(observed, TINY), params.means)
        return None, Params(members / members.sum(), jnp.clip(means, 0, 1))

    def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        mean = base(stats)
        pseudo = shared.log_weight + shared.log_one @ mean + shared.log_zero @ (1 - mean)
        return stats.log_likelihood.sum() + smoothing * pseudo.sum()

    if init == "random":
        sizes: tuple[int, ...] = (n_components,)
        stages: tuple[Stage, ...] = (Iterate("EM"),)
    elif init == "split":
        sizes = split_sizes(n_components)
        stages = tuple(stage for size in sizes for stage in _grown_to(size, n_components, split_iter))
    else:
        raise ValueError(f"init must be 'random' or 'split', got {init!r}")

    def init_params(key: Key[Array, ""], summary: Summary) -> Params:
        return _random_rows(sizes[0], key, summary)

    return Model(
        name="Bernoulli mixture",
        init=init_params,
        prepare=_prepare,
        e_step=_e_step,
        update=update,
        objective=objective,
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 2 * n_columns + 3 * n_components,
        stages=stages,
    )
