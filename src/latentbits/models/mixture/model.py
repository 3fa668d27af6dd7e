"""Mixtures of Bernoulli products (latent classes): the model that Freund & Haussler compare with in section 4.

    p(x) = sum_k w_k prod_j m_kj^x_j (1 - m_kj)^(1 - x_j)

EM with responsibilities in log space.  A missing bit's term is left out, which marginalises it exactly.  Learning
starts either from the best of several short runs (`starts.py`), or by the paper's splitting schedule: one component,
EM, split every component into two that are slightly perturbed, EM, and so on; where doubling would give too many, only
some are split (45 = 32 + 13).  EM is accelerated, and where parameters are few Newton's method ends it (`newton.py`).
"""

from __future__ import annotations

from functools import cache, partial

import equinox as eqx
import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Key, ScalarLike

from latentbits.core import secants
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.model import Iterate, LogLikelihood, Model, Progress, Stage, Summary, Transform
from latentbits.core.products import over_rows, sum_over_rows
from latentbits.core.secants import Secants
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows
from latentbits.models.mixture import coordinates, newton, starts
from latentbits.models.mixture.coordinates import Counts, Params

__all__ = [
    "Params",
    "Posterior",
    "Settings",
    "Shared",
    "Stats",
    "column_means",
    "from_short_runs",
    "log_joint_of",
    "maximised",
    "model",
    "owned_by",
    "with_prior",
]

NEAR = 1e-4  # nats per row that are left where EM makes room for Newton's method
ROUNDING = 1e-7  # of a row's log-likelihood and shares, in float32


class Shared(eqx.Module):
    """Logs of the weights, of P(bit = 1) and P(bit = 0), and of a row without ones."""

    log_weight: Float[Array, " components"]
    log_one: Float[Array, "components columns"]
    log_zero: Float[Array, "components columns"]
    log_none: Float[Array, " components"]


class Stats(eqx.Module):
    """Sums over rows, weighted by the responsibilities."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]  # see sum_rows
    owned: Counts
    missing: Float[Array, "size size"] | None = None  # information, where Newton's method asks for it


class Posterior(eqx.Module):
    """Responsibilities (their own posterior mean), and the most probable component as a one-hot row."""

    mean: Float[Array, "rows components"]
    mode: Float[Array, "rows components"]


def _prepare(params: Params, state: Secants | newton.State | None, progress: Progress | None) -> Shared:
    log_one, log_zero = log_probabilities(params.means)
    return Shared(jnp.log(jnp.maximum(params.weights, TINY)), log_one, log_zero, log_zero.sum(1))


def log_joint_of(shared: Shared, batch: Batch | SparseBatch) -> Float[Array, "rows components"]:
    """log P(x, component), by two products whose terms have one sign.

    One product with the log-odds would do, and be faster, but for means near 1 it cancels against sum(log_zero): in
    float32 that is wrong by whole nats at d = 784, and makes the fit depend on which of two values is called 1.  Of
    sparse rows few bits are 1, and log_none is summed in float64.
    """
    if isinstance(batch, SparseBatch):
        return batch.times((shared.log_one - shared.log_zero).T) + shared.log_none + shared.log_weight
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    return batch.values @ shared.log_one.T + zeros @ shared.log_zero.T + shared.log_weight


def _responsibilities(
    shared: Shared, batch: Batch | SparseBatch
) -> tuple[Float[Array, "rows components"], Float[Array, " rows"]]:
    """P(component | x) and log p(x)."""
    log_joint = log_joint_of(shared, batch)
    top = jnp.max(log_joint, axis=1, keepdims=True)
    scaled = jnp.exp(log_joint - top)
    total = jnp.sum(scaled, axis=1, keepdims=True)
    return scaled / total, (top + jnp.log(total))[:, 0]


def owned_by(params: Params, share: Float[Array, "rows components"], batch: Batch | SparseBatch) -> Counts:
    """What each component owns of the rows, by their responsibilities."""
    share = share * batch.weight[:, None]
    members = sum_over_rows(share)
    if batch.observed is None:
        observed = jnp.broadcast_to(members[:, None], params.means.shape)
    else:
        observed = over_rows(share, batch.observed)
    return Counts(members, batch.summed(share), observed)


def _e_step(params: Params, shared: Shared, batch: Batch | SparseBatch, row_state: None) -> tuple[Stats, None]:
    share, log_likelihood = _responsibilities(shared, batch)
    stats = Stats(batch.weight.sum(), sum_rows(batch.weight, log_likelihood), owned_by(params, share, batch))
    return stats, None


def _e_step_newton(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    share, _ = _responsibilities(shared, batch)
    stats, _ = _e_step(params, shared, batch, None)
    return eqx.tree_at(
        lambda s: s.missing,
        stats,
        newton.missing_information(shared.log_weight, shared.log_one - shared.log_zero, share, batch),
        is_leaf=lambda x: x is None,
    ), None


def _log_likelihood(params: Params, shared: Shared, batch: Batch | SparseBatch) -> LogLikelihood:
    return LogLikelihood.exact(_responsibilities(shared, batch)[1])


def _infer(params: Params, shared: Shared, batch: Batch | SparseBatch) -> Posterior:
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


def column_means(owned: Counts, smoothing: ScalarLike) -> Float[Array, " columns"]:
    # responsibilities sum to 1, so these are the plain column means, the same at every iteration
    return (owned.ones.sum(0) + smoothing / 2) / jnp.maximum(owned.observed.sum(0) + smoothing, TINY)


def with_prior(owned: Counts, smoothing: ScalarLike) -> Counts:
    """As if each component had seen so many more rows, each with the column means of the data."""
    ones = owned.ones + smoothing * column_means(owned, smoothing)
    return Counts(owned.members + smoothing, ones, owned.observed + smoothing)


def maximised(params: Params, counts: Counts) -> Params:
    """The M-step; a component that owns nothing keeps its means."""
    means = jnp.where(counts.observed > TINY, counts.ones / jnp.maximum(counts.observed, TINY), params.means)
    return Params(counts.members / counts.members.sum(), jnp.clip(means, 0, 1))


def _left(state: Secants | newton.State) -> Float[Array, ""]:
    return state.left


def _grown_to(size: int) -> Transform:
    def grow(key: Key[Array, ""], params: Params, state: Secants | newton.State | None) -> Params:
        return starts.split(key, params, size)

    return Transform("splitting", grow)


class Settings(eqx.Module):
    """Of a model: numbers are arguments of its programs, and what shapes depend on is a constant."""

    smoothing: ScalarLike
    n_components: int = eqx.field(static=True)  # to begin with


def _objective(settings: Settings, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    mean = column_means(stats.owned, settings.smoothing)
    pseudo = shared.log_weight + shared.log_one @ mean + shared.log_zero @ (1 - mean)
    return stats.log_likelihood.sum() + settings.smoothing * pseudo.sum()


def _start(params: Params) -> Secants:
    return secants.start(coordinates.of(params).ravel())


def _update(
    settings: Settings, state: Secants | None, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Secants | None, Params]:
    counts = with_prior(stats.owned, settings.smoothing)
    plain = maximised(params, counts)
    if state is None:
        return None, plain
    at, value = coordinates.of(params), _objective(settings, params, shared, stats)
    state, ahead = secants.advance(
        state,
        at.ravel(),
        value,
        coordinates.of(plain).ravel(),
        coordinates.gradient(params, counts).ravel(),
        jnp.sqrt(coordinates.complete_information(counts)).ravel(),
        slack=ROUNDING * jnp.abs(value),  # rows that are alike are rounded alike
        floor=ROUNDING**2 * 1000 * stats.n_rows * at.size,
    )
    return state, coordinates.params_at(ahead.reshape(at.shape))


def _update_newton(
    settings: Settings, state: newton.State, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[newton.State, Params]:
    assert stats.missing is not None
    value, counts = _objective(settings, params, shared, stats), with_prior(stats.owned, settings.smoothing)
    return newton.advance(state, params, value, counts, stats.missing)


def _one_iteration(settings: Settings, params: Params, batch: Batch) -> tuple[Float[Array, ""], Params]:
    shared = _prepare(params, None, None)
    stats, _ = _e_step(params, shared, batch, None)
    return _objective(settings, params, shared, stats), maximised(params, with_prior(stats.owned, settings.smoothing))


def from_short_runs(settings: Settings, key: Key[Array, ""], summary: Summary) -> Params:
    return starts.best_of_short_runs(partial(_one_iteration, settings), settings.n_components, key, summary)


def _from_random_rows(settings: Settings, key: Key[Array, ""], summary: Summary) -> Params:
    (means,) = starts.random_rows(1, settings.n_components, key, summary)
    return starts.with_equal_weights(means)


@cache
def model(
    n_components: int,
    smoothing: float = 0.0,
    init: str = "random",
    split_iter: int = 20,
    accelerate: bool = True,
    by_newton: bool = False,
) -> Model:
    """A mixture of Bernoulli products.

    Parameters
    ----------
    n_components
        Number of components, k.
    smoothing
        As if each component had seen so many more rows, each with the column means of the data (themselves smoothed by
        as many fair coins).
    init
        "random" starts from the best of several short runs around random rows; "split" grows from one component as
        Freund & Haussler do.
    split_iter
        Most EM iterations before each split; the last stage has the user's limits.
    accelerate
        Secants (`core/secants.py`).  Without, EM goes step by step, from random rows.
    by_newton
        Newton's method at the end, for mixtures of few parameters.
    """
    if init not in ("random", "split"):
        raise ValueError(f"init must be 'random' or 'split', got {init!r}")

    by_runs = init == "random" and accelerate
    settings = Settings(smoothing, 1 if init == "split" else n_components)
    stages: list[Stage] = []
    if init == "split":
        for size in starts.split_sizes(n_components)[:-1]:
            stages += [Iterate(f"EM, {size} of {n_components} components", max_iter=split_iter)]
            stages += [_grown_to(min(2 * size, n_components))]
    if by_newton:
        stages += [
            Iterate("EM", tol=NEAR, stops_early=True),
            Iterate(
                "Newton",
                e_step=_e_step_newton,
                update=Partial(_update_newton, settings),
                start=newton.start,
                left=_left,
                row_floats=lambda n_columns: 4 * n_components * (n_columns + 1),
                stops_early=True,
            ),
        ]
    else:
        stages += [Iterate("EM", stops_early=True)]
    return Model(
        name="Bernoulli mixture",
        init=Partial(from_short_runs if by_runs else _from_random_rows, settings),
        prepare=_prepare,
        e_step=_e_step,
        update=Partial(_update, settings),
        objective=Partial(_objective, settings),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 2 * n_columns + 3 * n_components,
        stages=tuple(stages),
        start=_start if accelerate else None,
        left=_left if accelerate else None,
        sparse=True,
    )
