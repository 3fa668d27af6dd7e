"""Mixtures of Bernoulli products (latent classes): the model that Freund & Haussler compare with in section 4.

    p(x) = sum_k w_k prod_j m_kj^x_j (1 - m_kj)^(1 - x_j)

EM with responsibilities in log space.  A missing bit's term is left out, which marginalises it exactly.  Learning
starts either from the best of several short runs (`initialisation.py`), or by the paper's splitting schedule: one
component, EM, split every component into two that are slightly perturbed, EM, and so on; where doubling would give
too many, only some are split (45 = 32 + 13).  EM is accelerated, and where parameters are few Newton's method ends it
(`newton.py`).

Annealing (Ueda & Nakano 1998) has rows shared by more components first: by r_k ~ (w_k p_k)^beta, with beta on its way
to 1.  Meanwhile the history has the objective of the parameters at beta = 1.
"""

from __future__ import annotations

import math
from functools import cache, partial
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Key, ScalarLike

from latentbits.core import secants
from latentbits.core.arrays import AnyKey, Array, namespace, times
from latentbits.core.batch import Batch, SparseBatch
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.model import (
    Abreast,
    Evaluate,
    Iterate,
    LogLikelihood,
    Measure,
    Model,
    Progress,
    Schedule,
    Stage,
    Summary,
    Transform,
)
from latentbits.core.module import Module, static
from latentbits.core.secants import Secants
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows
from latentbits.models.mixture import coordinates, initialisation, newton, smoothing, tuning
from latentbits.models.mixture.coordinates import Counts, Params
from latentbits.models.mixture.smoothing import Smoothed, moved, strength_of

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
    "posterior",
    "shares_of",
    "with_prior",
]


class Shared(Module):
    """Logs of the weights, of P(bit = 1) and P(bit = 0), and of a row without ones; beta, where it is not 1."""

    log_weight: Float[Array, "*starts components"]
    log_one: Float[Array, "*starts components columns"]
    log_zero: Float[Array, "*starts components columns"]
    log_none: Float[Array, "*starts components"]
    beta: Float[Array, ""] | None = None


class Stats(Module):
    """Sums over rows, weighted by the responsibilities."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "parts *starts"]  # a pair, see sum_rows
    owned: Counts
    missing: Float[Array, "size size"] | None = None  # information, where Newton's method asks for it


class Posterior(Module):
    """Responsibilities (their own posterior mean), and the most probable component as a one-hot row."""

    mean: Float[Array, "rows components"]
    mode: Float[Array, "rows components"]


def _prepare(params: Params, state: Secants | newton.State | None, progress: Progress | None) -> Shared:
    log_one, log_zero = log_probabilities(params.means)
    xp = namespace(params)
    return Shared(xp.log(xp.maximum(params.weights, TINY)), log_one, log_zero, log_zero.sum(-1))


def _prepare_annealing(warmest: ScalarLike, params: Params, state: None, progress: Progress | None) -> Shared:
    """Prepare a pass with beta on its way to 1, which it reaches after the last pass."""
    assert progress is not None, "annealing is a way of learning"
    plain = _prepare(params, state, progress)
    over = progress.iteration.astype(plain.log_weight.dtype) / namespace(params).maximum(progress.max_iter, 1)
    beta = warmest + (1 - warmest) * over
    return Shared(plain.log_weight, plain.log_one, plain.log_zero, plain.log_none, beta)


def log_joint_of(shared: Shared, batch: Batch | SparseBatch) -> Float[Array, "rows components"]:
    """Compute log P(x, component) by two products whose terms have one sign.

    One product with the log-odds would do, and be faster, but for means near 1 it cancels against sum(log_zero): in
    float32 that is wrong by whole nats at d = 784, and makes the fit depend on which of two values is called 1.  Of
    sparse rows few bits are 1, and log_none is summed in float64.
    """
    if isinstance(batch, SparseBatch):
        return batch.times((shared.log_one - shared.log_zero).T) + shared.log_none + shared.log_weight
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    return times(batch.values, shared.log_one.T) + times(zeros, shared.log_zero.T) + shared.log_weight


def shares_of(
    log_joint: Float[Array, "*rows components"],
) -> tuple[Float[Array, "*rows components"], Float[Array, "*rows"]]:
    """Compute P(component | x) and log p(x)."""
    xp = namespace(log_joint)
    top = log_joint.max(-1, keepdims=True)
    scaled = xp.exp(log_joint - top)
    total = scaled.sum(-1, keepdims=True)
    return scaled / total, (top + xp.log(total))[..., 0]


def _responsibilities(
    shared: Shared, batch: Batch | SparseBatch
) -> tuple[Float[Array, "rows components"], Float[Array, " rows"]]:
    """Compute P(component | x), tempered where there is a beta, and log p(x)."""
    log_joint = log_joint_of(shared, batch)
    share, log_likelihood = shares_of(log_joint)
    return share if shared.beta is None else shares_of(shared.beta * log_joint)[0], log_likelihood


def owned_by(params: Params, share: Float[Array, "rows components"], batch: Batch | SparseBatch) -> Counts:
    """Sum the rows, ones and observed entries that each component owns, by responsibilities."""
    share = share * batch.weight[:, None]
    members = sum_over_rows(share)
    if batch.observed is None:
        observed = namespace(members).broadcast_to(members[:, None], params.means.shape)
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
    return stats.replace(
        missing=newton.missing_information(shared.log_weight, shared.log_one - shared.log_zero, share, batch)
    ), None


def _log_likelihood(params: Params, shared: Shared, batch: Batch | SparseBatch) -> LogLikelihood:
    return LogLikelihood.exact(_responsibilities(shared, batch)[1])


def _infer(params: Params, shared: Shared, batch: Batch | SparseBatch) -> Posterior:
    share, _ = _responsibilities(shared, batch)
    return posterior(share)


def posterior(share: Float[Array, "rows components"]) -> Posterior:
    """Name the most probable component of each row beside its responsibilities."""
    most = namespace(share).arange(share.shape[1]) == share.argmax(1)[:, None]
    return Posterior(share, most.astype(share.dtype))


def _decode(params: Params, latents: Float[Array, "rows components"]) -> Float[Array, "rows columns"]:
    return latents @ params.means


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    # responsibilities sum to 1 but for rounding, and a probability above 1 is none
    filled = _responsibilities(shared, batch)[0] @ params.means
    return namespace(filled).clip(filled, 0, 1)


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    def draw(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, bits = jax.random.split(key)
        component = jax.random.categorical(which, shared.log_weight)
        return jax.random.bernoulli(bits, params.means[component]).astype(params.means.dtype)

    return jax.vmap(draw)(keys)


def column_means(owned: Counts, strength: ScalarLike) -> Float[Array, "*starts columns"]:
    # responsibilities sum to 1, so these are the plain column means, the same at every iteration
    return (owned.ones.sum(-2) + strength / 2) / namespace(owned).maximum(owned.observed.sum(-2) + strength, TINY)


def with_prior(owned: Counts, strength: ScalarLike) -> Counts:
    """Add `strength` pseudo-rows to each component, each with the column means of the data."""
    ones = owned.ones + strength * column_means(owned, strength)[..., None, :]
    return Counts(owned.members + strength, ones, owned.observed + strength)


def maximised(params: Params, counts: Counts) -> Params:
    """Maximise the expected log-likelihood (M-step); a component that owns nothing keeps its means."""
    xp = namespace(counts)
    means = xp.where(counts.observed > TINY, counts.ones / xp.maximum(counts.observed, TINY), params.means)
    return Params(counts.members / counts.members.sum(-1, keepdims=True), xp.clip(means, 0, 1))


def _left(state: newton.State) -> Float[Array, ""]:
    return state.left


def _grown_to(size: int, first: bool) -> Transform:
    def grow(key: AnyKey, params: Params, state: Secants | newton.State | None) -> Params:
        return moved(params, initialisation.split(key, params, size, first))

    return Transform("splitting", grow)


class Settings(Module):
    """Settings of a model: numbers are arguments of its programs; fields that shapes depend on are static."""

    smoothing: ScalarLike
    n_components: int = static()  # to begin with
    chosen: bool = static(default=False)  # `smoothing` is where the choice of it begins


def _objective(settings: Settings, params: Params, shared: Shared, stats: Stats) -> Float[Array, "*starts"]:
    strength = strength_of(settings.smoothing, params)
    mean = column_means(stats.owned, strength)[..., None, :]
    pseudo = shared.log_weight + (shared.log_one * mean + shared.log_zero * (1 - mean)).sum(-1)
    return stats.log_likelihood.sum(0) + strength * pseudo.sum(-1)


def _evidence(params: Smoothed, shared: Shared, stats: Stats) -> Float[Array, ""]:
    """Bound the log-probability of the rows, with all parameters but the strength integrated out.

    Unlike objectives with priors of different strengths, those of restarts can be compared.
    """
    owned, strength = stats.owned, params.smoothing
    zeros = owned.observed - owned.ones
    known = (owned.members * shared.log_weight).sum() + (owned.ones * shared.log_one + zeros * shared.log_zero).sum()
    entropy = stats.log_likelihood.sum() - known  # of the responsibilities
    return smoothing.log_evidence(strength, owned, column_means(owned, strength)) + entropy


def _no_state(params: Params) -> None:
    return None


def _start(params: Params) -> Secants:
    return secants.start(_flat(coordinates.of(params)))


def _flat(x: Float[Array, "*starts components coordinates"]) -> Float[Array, "*starts size"]:
    return x.reshape(*x.shape[:-2], -1)


def _update(
    settings: Settings, state: Secants | None, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Secants | None, Params]:
    counts = with_prior(stats.owned, strength_of(settings.smoothing, params))
    plain = maximised(params, counts)
    if state is None:
        return None, moved(params, plain)
    xp, at, value = namespace(stats), coordinates.of(params), _objective(settings, params, shared, stats)
    state, ahead = secants.advance(
        state,
        _flat(at),
        value,
        _flat(coordinates.of(plain)),
        _flat(coordinates.gradient(params, counts)),
        xp.sqrt(_flat(coordinates.complete_information(counts))),
        slack=tuning.FLOAT32_ROUNDING * xp.abs(value),  # rows that are alike are rounded alike
        floor=tuning.FLOAT32_ROUNDING**2 * 1000 * stats.n_rows * at.shape[-2] * at.shape[-1],
    )
    return state, moved(params, coordinates.params_at(ahead.reshape(at.shape)))


def _abreast(model: Model, n_starts: int) -> Abreast:
    """Let starts climb side by side on the host: what differs between them has an axis of starts in front."""

    def e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        (_, k, d), n, weight = params.means.shape, len(batch.weight), batch.weight.astype(np.float64)
        # bits, their complements and a one: a product gives log-joints, another all sums
        table = np.concatenate([batch.values, batch.mask - batch.values, np.ones((n, 1), batch.values.dtype)], 1)
        logs = np.concatenate([shared.log_one, shared.log_zero, shared.log_weight[..., None]], -1)
        weighted, some = weight[:, None] * table, max(1, tuning.ABREAST_NUMBERS // (n * k))

        def of_some(first: int) -> tuple[Array, Array]:
            log_joint = logs[first : first + some].reshape(-1, 2 * d + 1) @ table.T
            share, log_likelihood = shares_of(log_joint.reshape(-1, k, n).transpose(2, 0, 1))
            return weight @ log_likelihood, share.reshape(n, -1).T @ weighted

        value: Any
        found = zip(*map(of_some, range(0, n_starts, some)))
        value, sums = (np.concatenate(parts) for parts in found)
        cut: Any = np.split(sums.reshape(n_starts, k, -1), [d, 2 * d], -1)
        ones, zeros, members = cut
        return Stats(weight.sum(), value[None], Counts(members[..., 0], ones, ones + zeros)), None

    def objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
        value = model.objective(params, shared, stats)
        return value.max(where=value == value, initial=-math.inf)

    def left(state: Secants) -> Float[Array, ""]:
        """Return how much the best may still gain, or be surpassed by."""
        xp = namespace(state)
        return xp.where(xp.isfinite(state.value), state.value + secants.left(state), -xp.inf).max() - state.value.max()

    def ends(params: Params, state: Secants) -> tuple[Float[Array, " starts"], Params]:
        at = state.best.reshape(*params.weights.shape, -1)
        return state.value, coordinates.params_at(at)

    # the best gains nothing for a while, and others surpass it
    name, patience = f"EM from {n_starts} starts", 100
    climb = Iterate(name, patience=patience, e_step=e_step, objective=objective, left=left, rows_on_host="small")
    return Abreast(model._replace(stages=(climb,)), ends)


def _update_choosing(
    state: None, params: Smoothed, shared: Shared, stats: Stats, progress: Progress
) -> tuple[None, Smoothed]:
    """Take a step of EM, with the strength that the counts make most probable.

    The first passes keep it: components that are still alike would be taken for ones that should be, and be held so.
    """
    mean = column_means(stats.owned, params.smoothing)
    chosen = smoothing.most_probable(params.smoothing, stats.owned, mean)
    strength = namespace(stats).where(progress.iteration < tuning.SMOOTHING_FIXED_PASSES, params.smoothing, chosen)
    to = maximised(params, with_prior(stats.owned, strength))
    return None, Smoothed(to.weights, to.means, strength)


def _update_newton(
    settings: Settings, state: newton.State, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[newton.State, Params]:
    assert stats.missing is not None
    counts = with_prior(stats.owned, strength_of(settings.smoothing, params))
    state, to = newton.advance(state, params, _objective(settings, params, shared, stats), counts, stats.missing)
    return state, moved(params, to)


def from_short_runs(settings: Settings, key: AnyKey, summary: Summary) -> Params:
    found = initialisation.best_of_short_runs(settings.smoothing, settings.n_components, key, summary)
    return _ready(settings, found)


def _from_random_rows(settings: Settings, key: AnyKey, summary: Summary) -> Params:
    (means,) = initialisation.random_rows(1, settings.n_components, key, summary)
    return _ready(settings, initialisation.with_equal_weights(means))


def _ready(settings: Settings, params: Params) -> Params:
    """Attach the initial strength, where the strength is to be chosen."""
    if not settings.chosen:
        return params
    strength = namespace(params).asarray(settings.smoothing, params.means.dtype)
    return Smoothed(params.weights, params.means, strength)


@cache
def model(
    n_components: int,
    smoothing: float | str = 0.0,
    init: str = "random",
    split_iter: int = 20,
    accelerate: bool = True,
    by_newton: bool = False,
) -> Model:
    """Make a mixture of Bernoulli products.

    Parameters
    ----------
    n_components
        Number of components, k.
    smoothing
        Pseudo-rows that each component sees beside the data, each with the column means (themselves smoothed
        by as many fair coins).  "auto" chooses the number by the data (`smoothing.py`), and parameters are `Smoothed`.
    init
        "random" starts from the best of several short runs around random rows; "split" grows from one component as
        Freund & Haussler do, "split-first" to the letter; "anneal" cools from responsibilities that are nearly alike.
    split_iter
        Most EM iterations before each split; the last stage has the user's limits.
    accelerate
        Secants (`core/secants.py`).  Without, EM goes step by step, from random rows.
    by_newton
        Newton's method at the end, for mixtures of few parameters.
    """
    if init not in ("random", "split", "split-first", "anneal"):
        raise ValueError(f"init must be 'random', 'split', 'split-first' or 'anneal', got {init!r}")

    chosen = smoothing == "auto"
    by_runs = init == "random" and accelerate
    splits = init.startswith("split")
    first_rows = tuning.SMOOTHING_FIRST_ROWS if chosen else float(smoothing)
    settings = Settings(first_rows, 1 if splits else n_components, chosen)
    stages: list[Stage] = []
    if splits:
        for size in initialisation.split_sizes(n_components)[:-1]:
            stages += [Iterate(f"EM, {size} of {n_components} components", max_iter=split_iter)]
            stages += [_grown_to(min(2 * size, n_components), init == "split-first")]
    by_schedule = partial(
        Schedule,
        measure=Measure.PROGRESS,  # a pass may lower it
        start=_no_state,
        comparable=False,
        stops_early=True,
    )
    if init == "anneal":
        cooling = Partial(_prepare_annealing, tuning.ANNEALING_FIRST_BETA)
        stages += [
            by_schedule(
                "annealing", prepare=cooling, update=Partial(_update, settings), max_iter=tuning.ANNEALING_PASSES
            )
        ]
    if chosen:
        if init == "anneal":  # which ends near where all components are alike: a strength would hold them there
            stages += [Iterate("EM before the choice", tol=tuning.NEWTON_NATS_PER_ROW, stops_early=True)]
        stages += [
            by_schedule("choice of smoothing", update=_update_choosing, max_iter=tuning.SMOOTHING_PASSES),
            Evaluate("evidence", measure=Measure.BOUND, objective=_evidence, start=_no_state),
        ]
    n_heats = len(stages) if chosen else 0
    if by_newton:
        stages += [
            Iterate("EM", tol=tuning.NEWTON_NATS_PER_ROW, stops_early=True),
            Iterate(
                "Newton",
                e_step=_e_step_newton,
                update=Partial(_update_newton, settings),
                start=newton.start,
                left=_left,
                row_floats=lambda n_columns: 4 * n_components * (n_columns + 1),
                rows_on_host="small",
                stops_early=True,
            ),
        ]
    else:
        stages += [Iterate("EM", stops_early=True)]
    made = Model(
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
        left=secants.left if accelerate else None,
        heats=n_heats,
        sparse=True,
        on_host=True,
        rows_on_host="small",
    )
    return made._replace(abreast=partial(_abreast, made)) if by_newton and by_runs and not chosen else made
