"""Binary sparse coding (Henniges, Puertas, Bornschein, Eggert & Luecke 2010), learned by Expectation Truncation.

Eq. (1): y = s W + noise, where each of H causes is on with probability pi and the noise has standard deviation sigma in
every column.  (The paper's W is ours transposed.)

    (2) the free energy            sum_n log sum_{s in K_n} p(s, y_n): `Stats.free_energy`
    (3) truncated expectations     `posterior.expectations`
    (4) the states K_n             `posterior.state_table`, and states of one cause that is no candidate
    (5) candidates                 `posterior.terms`
    (6) W = (sum <s s'>)^-1 sum <s> y'        `_components`
    (7) sigma^2 = sum <|y - s W|^2> / (M D), with the new W    `_update`
    (8) pi = A pi / B <|s|>        `selection.correction`

Sums (6) to (8) run over the rows M of highest evidence (`selection.py`).  With gamma = H all of it is exact EM.

A missing entry is one more latent: E[y_d s_h] = sum_j W_jd <s_j s_h> and E[y_d^2] = E[(s W)_d^2] + sigma^2 stand in for
what was not seen, so that (6) keeps its one H x H system for all columns.
"""

from __future__ import annotations

from functools import cache

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood, Model, Progress, Stage, Summary
from latentbits.models.binary_sparse_coding.posterior import Params, Shared, States, expectations, state_table
from latentbits.models.binary_sparse_coding.selection import (
    FEWEST,
    SPREADS,
    correction,
    share_within,
    threshold_of,
)
from latentbits.models.binary_sparse_coding.statistics import Stats
from latentbits.models.binary_sparse_coding.statistics import e_step as statistics

__all__ = ["Params", "Posterior", "State", "Stats", "model"]

QUIETEST = 1e-4  # the noise stays above this part of the rows' root mean square: float32 has no more digits
RAREST = 1e-8  # and pi this far from 0 and 1
UNUSED = 0.5  # a cause that is expected in fewer rows than this is not used


class State(eqx.Module):
    """What a pass hands to the next: which rows to use, and where the histogram of the evidence lies."""

    threshold: Float[Array, ""]
    centre: Float[Array, ""]
    width: Float[Array, ""]
    ranked: Int[Array, ""]  # of "exact" ranking: 1 when the threshold belongs to the present parameters


class Posterior(eqx.Module):
    """P(s_h = 1 | y), and the most probable state."""

    mean: Float[Array, "rows causes"]
    mode: Float[Array, "rows causes"]


def _start(params: Params) -> State:
    nowhere = jnp.asarray(jnp.inf)
    return State(-nowhere, jnp.asarray(0.0), nowhere, jnp.asarray(0))


def _shared(params: Params, state: State | None, coldness: Array) -> Shared:
    state = _start(params) if state is None else state
    W = params.components
    gram = W @ W.T
    precision = 1 / jnp.square(params.noise_std)
    return Shared(
        constant=len(W) * jnp.log1p(-params.prior),
        column=0.5 * jnp.log(2 * np.pi / precision),
        logit=jnp.log(params.prior) - jnp.log1p(-params.prior),
        precision=precision,
        coldness=coldness,
        norms=jnp.diagonal(gram),
        gram=gram,
        threshold=state.threshold,
        centre=state.centre,
        width=state.width,
    )


def _components(
    params: Params, s: Float[Array, " causes"], ss: Float[Array, "causes causes"], sy: Float[Array, "causes columns"]
) -> tuple[Float[Array, "causes columns"], Float[Array, " causes"]]:
    """Eq. (6), solved for the causes that are used; and 1 for those."""
    used = (s > UNUSED).astype(s.dtype)
    both = used[:, None] * used
    system = ss * both + jnp.diag(1 - used)
    system = system + 1e-10 * jnp.mean(jnp.diagonal(system)) * jnp.eye(len(s))
    factor = jax.scipy.linalg.cho_factor(system, lower=True)
    solved = jax.scipy.linalg.cho_solve(factor, sy * used[:, None])
    return jnp.where(used[:, None] > 0, solved, params.components), used


def _objective(params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    return stats.free_energy.sum()


def _infer(states: States, params: Params, shared: Shared, batch: Batch) -> Posterior:
    found = expectations(params, shared, batch, states)
    return Posterior(found.means.T, jnp.round(found.means.T))


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


@cache
def model(
    n_causes: int,
    max_active: int = 3,
    n_candidates: int = 5,
    *,
    init: str = "random",
    init_scale: float | None = None,
    init_sparseness: float | None = None,
    n_iter: int = 60,
    cut: tuple[int, int] | None = (20, 40),
    parameter_noise: float | None = None,
    temperature: float = 1.0,
    ranking: str = "previous",
    keep_components: bool = False,
) -> Model:
    """Binary sparse coding."""
    states = state_table(n_candidates, max_active)
    exact = max_active == n_causes
    exactly_ranked = ranking == "exact"
    passes = 2 if exactly_ranked else 1

    def begin(key: Key[Array, ""], summary: Summary) -> Params:
        power = jnp.average(summary.variance + jnp.square(summary.mean), weights=summary.observed)
        rms = jnp.sqrt(jnp.maximum(power, jnp.finfo(power.dtype).tiny))
        noise = jax.random.normal(key, (n_causes, len(summary.mean)))
        if init == "random":
            W = (rms / 3 if init_scale is None else init_scale) * noise
        elif init == "mean":
            W = summary.mean + (rms / 20 if init_scale is None else init_scale) * noise
        else:
            drawn = jax.random.choice(key, summary.sample.shape[0], (n_causes,), replace=n_causes > 1024)
            rows = jnp.where(summary.sample_observed[drawn] > 0, summary.sample[drawn], summary.mean)
            W = rows + (rms / 20 if init_scale is None else init_scale) * noise
        sparseness = min(5.0, n_causes / 2) if init_sparseness is None else init_sparseness
        prior = jnp.clip(jnp.asarray(sparseness / n_causes), RAREST, 1 - RAREST)
        return Params(W, rms, prior, jnp.asarray(0.0))

    def coldness(progress: Progress | None) -> Array:
        if progress is None or temperature == 1:
            return jnp.asarray(1.0)
        # down to 1 in the first third of the schedule
        done = jnp.minimum(progress.iteration / max(passes * n_iter / 3, 1), 1)
        return 1 / (temperature + (1 - temperature) * done)

    def prepare(params: Params, state: State | None, progress: Progress | None) -> Shared:
        return _shared(params, state, coldness(progress))

    def learned_share(prior: Array, iteration: Array) -> Array:
        """|M| / N: whole, a ramp, then N_cut."""
        if cut is None or exact:
            return jnp.asarray(1.0)
        first, last = cut
        way = jnp.clip((iteration - first + 1) / max(last - first, 1), 0, 1)
        within = jnp.maximum(share_within(prior, n_causes, max_active), FEWEST)
        return 1 + (within - 1) * way

    def e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
        return statistics(states, params, shared, batch), None

    def m_step(params: Params, stats: Stats, progress: Progress) -> Params:
        ss = stats.ss + stats.ss.T + jnp.diag(stats.s)
        W, used = _components(params, stats.s, ss, stats.sy)
        squares = stats.squares.sum() + stats.guessed + stats.missing * jnp.square(params.noise_std)
        residual = squares - 2 * jnp.sum(W * stats.sy) + jnp.sum((W @ W.T) * ss)
        n_entries = stats.used * W.shape[1]
        power = squares / n_entries
        variance = jnp.maximum(residual / n_entries, QUIETEST**2 * power)
        active = stats.s.sum() / stats.used
        prior = jnp.clip(correction(params.prior, n_causes, max_active) * active, RAREST, 1 - RAREST)
        sigma = jnp.sqrt(variance)
        scale = 0.025 * sigma if parameter_noise is None else parameter_noise
        W = W + scale * jax.random.normal(progress.key, W.shape)
        return Params(W, sigma, prior, params.reseeded + jnp.sum(1 - used))

    def update(state: State, params: Params, shared: Shared, stats: Stats, progress: Progress) -> tuple[State, Params]:
        learned = m_step(params, stats, progress)
        mean = stats.free_energy.sum() / stats.n_rows
        spread = jnp.sqrt(jnp.maximum(stats.spread.sum() / stats.n_rows - jnp.square(mean - state.centre), 0))
        share = learned_share(learned.prior, progress.iteration // passes)
        known = threshold_of(stats.counts, state.centre, state.width, share)
        threshold = jnp.where(jnp.isfinite(state.width), known, -jnp.inf)
        width = 2 * SPREADS * jnp.maximum(spread, 1e-6 * (1 + jnp.abs(mean)))
        return State(threshold, mean, width, state.ranked), learned

    def watch(params: Params) -> dict[str, Array]:
        return {"sparseness": params.prior * n_causes, "noise_std": params.noise_std}

    return Model(
        name="binary sparse coding",
        init=begin,
        prepare=prepare,
        e_step=e_step,
        update=update,
        objective=_objective,
        log_likelihood=lambda p, s, b: LogLikelihood.exact(expectations(p, s, b, states).log_evidence),
        infer=lambda p, s, b: _infer(states, p, s, b),
        decode=_decode,
        complete=lambda p, s, b: expectations(p, s, b, states).means.T @ p.components,
        sample=_sample,
        row_floats=lambda n_columns: n_columns + 4 * n_causes + 2 * len(states.bits),
        start=_start,
        watch=watch,
        stages=(
            Stage("truncated EM", tol=-np.inf, comparable=False, max_iter=passes * n_iter),
            Stage("evaluation", max_iter=0, overrides={"prepare": lambda p, s, g: _shared(p, None, jnp.asarray(1.0))}),
        ),
    )
