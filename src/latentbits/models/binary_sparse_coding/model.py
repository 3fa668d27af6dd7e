"""Binary sparse coding (Henniges, Puertas, Bornschein, Eggert & Luecke 2010), learned by Expectation Truncation.

Eq. (1): y = s W + noise, where each of H causes is on with probability pi and the noise has standard deviation sigma in
every column.  (The paper's W is ours transposed.)  `equations.py` has the numbered equations of the paper one by one,
in plain NumPy.  Sums (6) to (8) run over the rows M of highest evidence (`selection.py`).  With gamma = H all of it is
exact EM, which the estimator ends with where it can (`exact_em.py`).

A missing entry is one more latent: E[y_d s_h] = sum_j W_jd <s_j s_h> and E[y_d^2] = E[(s W)_d^2] + sigma^2 stand in for
what was not seen, so that (6) keeps its one H x H system for all columns.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Bool, Float, Int, Key

from latentbits.core.arrays import AnyKey, Array, fold_in, namespace, normal, uniform
from latentbits.core.batch import Batch
from latentbits.core.model import (
    EStep,
    Evaluate,
    LogLikelihood,
    Measure,
    Model,
    Progress,
    RowFloats,
    Schedule,
    Stage,
    Summary,
)
from latentbits.core.module import Module
from latentbits.core.tree import rounding
from latentbits.models.binary_sparse_coding.exact_em import settle
from latentbits.models.binary_sparse_coding.map_states import probable_states
from latentbits.models.binary_sparse_coding.maximisation import maximum, noise_about
from latentbits.models.binary_sparse_coding.posterior import Params, Shared, expectations, state_table
from latentbits.models.binary_sparse_coding.recipes import OURS, Recipe
from latentbits.models.binary_sparse_coding.reseed_units import draw_rows, first_drawn, renewed
from latentbits.models.binary_sparse_coding.selection import look_ahead, share_within
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.statistics import e_step as statistics
from latentbits.models.binary_sparse_coding.tuning import (
    DRAWN_ROWS,
    LEAST_LEARNABLE_ROWS,
    LEAST_LEARNED_SHARE,
    LEAST_NOISE_SHARE,
    LEAST_PRIOR,
    LEAST_USED_ROWS,
    MOST_ENUMERATED_CAUSES,
)

__all__ = ["Params", "Posterior", "State", "Stats", "model", "rounding_share"]


class State(Module):
    """The state that a pass hands to the next: which rows to use, and where the histogram of the evidence lies."""

    threshold: Float[Array, "*starts"]
    centre: Float[Array, "*starts"]
    width: Float[Array, "*starts"]
    drawn: Int[Array, "*starts drawn"]
    ranked: Bool[Array, "*starts"]  # by an exact ranking: the threshold belongs to the present parameters


class Posterior(Module):
    """P(s_h = 1 | y), and the most probable state."""

    mean: Float[Array, "rows causes"]
    mode: Float[Array, "rows causes"]


def _start(params: Params) -> State:
    xp, starts = namespace(params), params.prior.shape
    anywhere = xp.full(starts, xp.inf)
    drawn = xp.broadcast_to(xp.arange(DRAWN_ROWS, dtype="int32"), (*starts, DRAWN_ROWS))
    return State(-anywhere, xp.zeros(starts), anywhere, drawn, xp.zeros(starts, bool))


def _shared(params: Params, state: State | None, coldness: Array, progress: Progress | None = None) -> Shared:
    xp, W = namespace(params), params.components
    state = _start(params) if state is None else state
    gram = W @ W.mT
    precision = 1 / xp.square(params.noise_std)
    return Shared(
        constant=W.shape[-2] * xp.log1p(-params.prior),
        column=0.5 * xp.log(2 * np.pi / precision),
        logit=xp.log(params.prior) - xp.log1p(-params.prior),
        precision=precision,
        coldness=xp.broadcast_to(coldness, precision.shape),
        norms=xp.diagonal(gram, axis1=-2, axis2=-1),
        gram=gram,
        threshold=state.threshold,
        centre=state.centre,
        width=state.width,
        drawn=first_drawn(state.drawn, progress),
    )


def _at_rest(params: Params, state: object, progress: Progress | None) -> Shared:
    """Compute what a pass over all rows at temperature 1 shares."""
    return _shared(params, None, namespace(params).asarray(1.0))


def _objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, "*starts"]:
    return stats.free_energy.sum(-1)


def rounding_share(n_columns: int, dtype: np.dtype) -> float:
    """Return the error of a log-density as a part of |y|^2 / sigma^2, which is taken off and mostly comes back.

    Measured from 25 to 1500 columns, with 1 to 10^4 times more signal than noise: the root mean square over rows is 0.2
    to 0.9 of it.
    """
    return rounding(n_columns // 16, dtype)


def _rounding(params: Params, shared: Shared, batch: Batch) -> Float[Array, " rows"]:
    rows = batch.values
    return rounding_share(rows.shape[1], rows.dtype) * shared.precision * jnp.sum(jnp.square(rows), 1)


def _decode(params: Params, latents: Float[Array, "rows causes"]) -> Float[Array, "rows columns"]:
    return latents @ params.components


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    W = params.components

    def draw(key: Key[Array, ""]) -> tuple[Float[Array, " causes"], Float[Array, " columns"]]:
        which, noise = jax.random.split(key)
        on = jax.random.bernoulli(which, params.prior, (len(W),))
        return on.astype(W.dtype), jax.random.normal(noise, W.shape[1:], W.dtype)

    on, noise = jax.vmap(draw)(keys)
    return on @ W + params.noise_std * noise


class Beginning(Module):
    """Numbers that learning begins with: deviation of noise, as a part of the rows' rms and added to that, and pi H."""

    share: float
    scale: float
    sparseness: float


class Course(Module):
    """Numbers of the schedule."""

    n_iter: float  # iterations
    # first, n_between: until `first` all rows are learned from, after `n_between` more N_cut; None where all always
    # are
    first: float | None
    n_between: float
    # share, noise: noise that is added to the components, as a part of sigma until the last tenth, and at every
    # iteration
    share: float
    noise: float
    temperature: float  # to begin with
    quietest: float  # least noise, as a part of the rows' root mean square


@cache
def _begin(n_causes: int, init: str, init_noise: str) -> Callable[..., Params]:
    def begin(settings: Beginning, key: AnyKey, summary: Summary) -> Params:
        xp, share = namespace(summary), summary.observed / summary.observed.sum()
        power = share @ (summary.variance + xp.square(summary.mean))
        rms = xp.where(power > 0, xp.sqrt(power), 1.0)
        variance = share @ summary.variance
        noise_std = rms if init_noise == "rms" else xp.where(variance > 0, xp.sqrt(variance), rms)
        noise = (settings.share * rms + settings.scale) * normal(key, (n_causes, len(summary.mean)))
        if init == "random":
            W = noise
        elif init == "mean":
            W = summary.mean + noise
        else:
            n = len(summary.sample)
            drawn = xp.argsort(uniform(fold_in(key, 0), (n,)))[np.arange(n_causes) % n]  # again where there are fewer
            W = xp.where(summary.sample_observed[drawn] > 0, summary.sample[drawn], summary.mean) + noise
        W = xp.where(summary.observed > 0, W, 0)  # nothing is known of a column that was never observed
        prior = xp.clip(xp.asarray(settings.sparseness / n_causes), LEAST_PRIOR, 1 - LEAST_PRIOR)
        return Params(W, noise_std, prior, xp.asarray(0.0), xp.asarray(0.0))

    return begin


class _Learning(NamedTuple):
    prepare: Callable[..., Shared]
    e_step: EStep
    update: Callable[..., tuple[State, Params]]


@cache
def _learning(
    n_causes: int,
    max_active: int,
    n_candidates: int,
    exact_ranking: bool,
    precision: str,
    renew: bool,
    noise_first: bool,
    noise_about_old: bool,
) -> _Learning:
    """Make the functions of truncated EM, whose numbers are a `Course`.

    `noise_first` begins with a pass for sigma alone; `noise_about_old` measures (7) about the components before (6).
    """
    states = state_table(n_candidates, max_active)
    passes = 2 if exact_ranking else 1

    def prepare(course: Course, params: Params, state: State | None, progress: Progress | None) -> Shared:
        xp = namespace(params)
        if progress is None:
            return _shared(params, state, xp.asarray(1.0))
        way = xp.minimum(progress.iteration // passes / xp.maximum(course.n_iter / 3, 1), 1)
        way = xp.where(progress.fraction < 1, way, 1)  # the last stage only evaluates
        return _shared(params, state, 1 / (course.temperature + (1 - course.temperature) * way), progress)

    def learned_share(course: Course, prior: Array, iteration: Array) -> Array:
        """Return |M| / N in this iteration: all, on the way to N_cut, or N_cut."""
        xp = namespace(prior)
        if course.first is None or max_active == n_causes:
            return xp.ones_like(prior)
        way = xp.clip((iteration - course.first + 1) / course.n_between, 0, 1)
        return 1 + (xp.maximum(share_within(prior, n_causes, max_active), LEAST_LEARNED_SHARE) - 1) * way

    def e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        return statistics(states, params, shared, batch, precision), None

    def learn(course: Course, params: Params, stats: Stats, progress: Progress) -> Params:
        """Make the M-step, and add noise."""
        xp, fewest = namespace(params), LEAST_USED_ROWS if renew else LEAST_LEARNABLE_ROWS
        W, sigma, prior, used = maximum(params, stats, max_active, course.quietest, fewest, noise_about_old)
        late = progress.iteration // passes >= 0.9 * course.n_iter
        scale = xp.where(late, 0, course.share * sigma[..., None]) + course.noise
        used = used | late | (not renew)  # too late for a new start
        scale = xp.where(used, scale, xp.maximum(scale, 0.1 * sigma[..., None]))
        W = renewed(W, used, stats.residuals) + scale[..., None] * normal(progress.key, W.shape)
        return Params(W, sigma, prior, params.reseeded + xp.sum(~used, -1), params.truncation_loss)

    def update(
        course: Course, state: State, params: Params, shared: Shared, stats: Stats, progress: Progress
    ) -> tuple[State, Params]:
        xp = namespace(params)
        # after a leap of the parameters the threshold of the pass before may leave too few rows to learn from
        ready = stats.used >= LEAST_LEARNED_SHARE / 2 * stats.n_rows
        if exact_ranking:  # every other pass learns
            ready, ahead = ready & state.ranked, progress.iteration // 2
        else:
            ahead = progress.iteration + 1
        before = params
        if noise_first:
            is_first = progress.step == 0
            ready = ready & ~is_first
            about = noise_about(params.components, params, stats, course.quietest)
            before = params.replace(noise_std=xp.where(is_first, about, params.noise_std))
        # the M-step, where enough rows were learned from
        new = learn(course, params, stats, progress)
        learned = _chosen(ready, new, before)
        # the rows of the next pass
        share = learned_share(course, learned.prior, ahead)
        mean = stats.scores.sum(-1) / stats.n_rows
        variance = stats.spread.sum(-1) / stats.n_rows - xp.square(mean - state.centre)
        spread = xp.sqrt(xp.maximum(variance, 0))
        threshold, centre, width = look_ahead(stats.counts, state.centre, state.width, mean, spread, share)
        drawn = draw_rows(fold_in(progress.key, 1), stats.n_rows, progress.rows)
        return State(threshold, centre, width, drawn, ~state.ranked), learned

    return _Learning(prepare, e_step, update)


def _chosen(ready: Bool[Array, "*starts"], new: Params, old: Params) -> Params:
    """Take for each start the new parameters, or keep the old ones."""
    xp, dims = namespace(new), ready.ndim

    def leaf(new: Array, old: Array) -> Array:
        return xp.where(ready.reshape((*ready.shape, *(1,) * (new.ndim - dims))), new, old)

    return jax.tree.map(leaf, new, old)


class _Uses(NamedTuple):
    log_likelihood: Callable[..., LogLikelihood]
    infer: Callable[..., Posterior]
    complete: Callable[..., Float[Array, "rows columns"]]
    row_floats: RowFloats


@cache
def _uses(n_causes: int, max_active: int, n_candidates: int) -> _Uses:
    """Make the functions of a model that is known."""
    states = state_table(n_candidates, max_active)

    def log_likelihood(params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
        value = expectations(params, shared, batch, states).log_evidence
        return LogLikelihood(value, jnp.zeros_like(value), params.truncation_loss)

    def infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
        found = expectations(params, shared, batch, states)
        return Posterior(found.means.T, probable_states(params, shared, batch, states, 1).states[:, 0])

    def complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
        return expectations(params, shared, batch, states).means.T @ params.components

    def row_floats(n_columns: int) -> int:
        return n_columns + 4 * n_causes + 2 * len(states.bits)

    return _Uses(log_likelihood, infer, complete, row_floats)


def _watch(params: Params) -> dict[str, Array]:
    return {"sparseness": params.prior * params.components.shape[-2], "noise_std": params.noise_std}


def _watch_components(params: Params) -> dict[str, Array]:
    return {**_watch(params), "components": params.components}


@cache
def model(
    n_causes: int,
    max_active: int = 3,
    n_candidates: int = 5,
    recipe: Recipe = OURS,
    *,
    n_iter: int = 60,
    keep_components: bool = False,
    precision: str = "highest",
    quietest: float = LEAST_NOISE_SHARE,
    settling: bool = False,
) -> Model:
    """Make the record of binary sparse coding.

    Parameters
    ----------
    n_causes, max_active, n_candidates
        H, gamma and H' of the paper.
    recipe
        Where learning starts, and its schedule.
    n_iter
        Iterations of the schedule.
    keep_components
        Whether the history keeps the components of every pass.
    precision
        Of the product W y in float32 on a GPU: "highest", "high" (three products of bfloat16) or "tf32".
    quietest
        The noise stays above this part of the rows' root mean square; it goes with the precision of the rows.
    settling
        Whether learning is exact EM until nothing is left to gain, from parameters that are given, in place of the
        schedule; with `max_active` and `n_candidates` of all causes.
    """
    exact_ranking = recipe.ranking == "exact"
    learning = _learning(
        n_causes,
        max_active,
        n_candidates,
        exact_ranking,
        precision,
        recipe.renew,
        recipe.init_noise == "residual",
        recipe.noise_about == "old",
    )
    # over all states of a row, where these are few: the same functions, however it was learned
    uses = _uses(*(n_causes,) * 3) if n_causes <= MOST_ENUMERATED_CAUSES else _uses(n_causes, max_active, n_candidates)
    beginning = Beginning(
        share=(1 / 3 if recipe.init == "random" else 1 / 20) if recipe.init_scale is None else 0.0,
        scale=recipe.init_scale or 0.0,
        sparseness=min(5.0, n_causes / 2) if recipe.init_sparseness is None else recipe.init_sparseness,
    )
    cut = recipe.cut_of(n_iter)
    course = Course(
        n_iter=float(n_iter),
        first=None if cut is None else float(cut[0]),
        n_between=1.0 if cut is None else float(max(cut[1] - cut[0], 1)),
        share=0.025 if recipe.parameter_noise is None else 0.0,
        noise=recipe.parameter_noise or 0.0,
        temperature=float(recipe.temperature),
        quietest=float(quietest),
    )
    if settling:
        stages: tuple[Stage, ...] = (settle(quietest, _at_rest),)
    else:
        measure = Measure.LIKELIHOOD if max_active == n_causes else Measure.BOUND
        stages = (
            Schedule("truncated EM", measure=measure, comparable=False, max_iter=(2 if exact_ranking else 1) * n_iter),
            Evaluate("evaluation", measure=measure),
        )

    return Model(
        name="binary sparse coding",
        init=Partial(_begin(n_causes, recipe.init, recipe.init_noise), beginning),
        prepare=Partial(learning.prepare, course),
        e_step=learning.e_step,
        update=Partial(learning.update, course),
        objective=_objective,
        log_likelihood=uses.log_likelihood,
        infer=uses.infer,
        decode=_decode,
        complete=uses.complete,
        sample=_sample,
        row_floats=uses.row_floats,
        start=_start,
        watch=_watch_components if keep_components else _watch,
        rounding=_rounding,
        stages=stages,
        on_host=True,
    )
