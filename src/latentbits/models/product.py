"""Independent bits: the product of Bernoulli distributions that every other model must beat.

    p(x) = prod_j m_j^x_j (1 - m_j)^(1 - x_j)

It has no hidden causes at all; its posterior is a point, its map is empty.  The maximum-likelihood fit is one pass.
"""

from __future__ import annotations

from functools import cache

import jax
from jax.tree_util import Partial
from jaxtyping import Float, Key, ScalarLike

from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.model import LogLikelihood, Model, OnePass, Progress, Summary
from latentbits.core.module import Module
from latentbits.core.special import log_probabilities

__all__ = ["Params", "Posterior", "Shared", "Stats", "model"]


class Params(Module):
    """P(bit = 1) of each column."""

    means: Float[Array, " columns"]


class Shared(Module):
    """log P(bit = 1) and log P(bit = 0) of each column; and of a row without ones."""

    log_one: Float[Array, " columns"]
    log_zero: Float[Array, " columns"]
    log_none: Float[Array, ""]


class Stats(Module):
    """Counts; they are sufficient, so the objective needs no part from the rows."""

    n_rows: Float[Array, ""]
    ones: Float[Array, " columns"]
    observed: Float[Array, " columns"]


class Posterior(Module):
    """Empty posterior: nothing is hidden, so both have no columns."""

    mean: Float[Array, "rows 0"]
    mode: Float[Array, "rows 0"]


def _prepare(params: Params, state: None, progress: Progress | None) -> Shared:
    log_one, log_zero = log_probabilities(params.means)
    return Shared(log_one, log_zero, log_zero.sum())


def _init(key: AnyKey, summary: Summary) -> Params:
    return Params(namespace(summary).full(summary.mean.shape, 0.5))


def _e_step(params: Params, shared: Shared, batch: Batch | SparseBatch, row_state: None) -> tuple[Stats, None]:
    xp, n_rows = namespace(batch), batch.weight.sum()
    (ones,) = batch.summed(batch.weight[:, None])
    if batch.observed is None:
        observed = xp.full_like(ones, n_rows)
    else:
        observed = batch.weight @ batch.observed
    return Stats(n_rows, ones, observed), None


def _log_likelihood(params: Params, shared: Shared, batch: Batch | SparseBatch) -> LogLikelihood:
    if isinstance(batch, SparseBatch):
        return LogLikelihood.exact(shared.log_none + batch.times((shared.log_one - shared.log_zero)[:, None])[:, 0])
    # two sums of one sign: one sum with the log-odds would cancel against sum(log_zero), and float32 cannot afford it
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    return LogLikelihood.exact(batch.values @ shared.log_one + zeros @ shared.log_zero)


def _infer(params: Params, shared: Shared, batch: Batch | SparseBatch) -> Posterior:
    nothing = namespace(batch).zeros((len(batch.weight), 0), batch.weight.dtype)
    return Posterior(nothing, nothing)


def _decode(params: Params, latents: Float[Array, "rows 0"]) -> Float[Array, "rows columns"]:
    return namespace(latents).broadcast_to(params.means, (latents.shape[0], *params.means.shape))


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    return namespace(batch).broadcast_to(params.means, batch.values.shape)


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    draw = jax.vmap(lambda key: jax.random.bernoulli(key, params.means))
    return draw(keys).astype(params.means.dtype)


def _update(
    smoothing: ScalarLike, state: None, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[None, Params]:
    xp, total = namespace(stats), stats.observed + smoothing
    return None, Params(xp.where(total > 0, (stats.ones + smoothing / 2) / xp.maximum(total, 1e-300), 0.5))


def _objective(smoothing: ScalarLike, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    ones = stats.ones + smoothing / 2
    total = stats.observed + smoothing
    return (ones * shared.log_one + (total - ones) * shared.log_zero).sum()


@cache
def model(smoothing: float = 0.0) -> Model:
    """Make a model of independent bits.

    Parameters
    ----------
    smoothing
        Pseudo-rows of fair coins beside the data: a Beta prior on every column.
    """
    return Model(
        name="Bernoulli product",
        init=_init,
        prepare=_prepare,
        e_step=_e_step,
        update=Partial(_update, smoothing),
        objective=Partial(_objective, smoothing),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 2 * n_columns,
        stages=(OnePass("counting"),),
        needs_summary=False,
        sparse=True,
        on_host=True,
        rows_on_host="always",
    )
