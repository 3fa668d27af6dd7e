"""The clipped Gaussian of Lee & Sompolinsky (1998): a few Gaussian variables, mixed and cut; the model record.

    y ~ N(0, I_P),    x = W y (+ noise),    s_i = sgn(phi_i + x_i)                 (1), (2), (3), (8)

The paper's equations, by their numbers, are in `equations.py`; the README of `papers/lee_sompolinsky_1998` says which
function computes each of them here.

Learning is one pass, which counts how often bits are 1 together (`core/pair_counts.py`), and then a scalar function of
each pair and one diagonalisation.  What P components leave over of a column's variance is either dropped, as in the
paper (`noise="none"`: bits are a function of y), or kept as noise of the column's own (`noise="unique"`: a probit
factor model, in which every row has a probability).  With noise the paper's alternative, maximum likelihood, can go on
from there (`em.py`).  Given a row, y is integrated over (`use.py`) by a lattice of nodes for all rows (`lattice.py`) or
by points of the row's own, around where expectation propagation (`expectation.py`) puts it (`likelihood.py`);
without noise the rows that can occur are the cells of an arrangement of hyperplanes (`cells.py`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from latentbits.core import tree
from latentbits.core.batch import MISSING, Batch
from latentbits.core.limits import Pace, TimeLeft, no_limit
from latentbits.core.model import Measure, Model, OnePass, Progress, Stage, Summary, Transform
from latentbits.core.pair_counts import Stats, count
from latentbits.models.clipped_gaussian import em, lattice, tetrachoric, wide
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.params import LEAST_UNIQUENESS, Params, signs_of
from latentbits.models.clipped_gaussian.spectrum import (
    factor_weights,
    n_above_chance,
    nearest_correlation,
    negative_share,
    simulated_rows,
    spectrum,
)
from latentbits.models.clipped_gaussian.tetrachoric import Correlations, Moments
from latentbits.models.clipped_gaussian.use import Posterior, use_of

__all__ = [
    "EXTRACTIONS",
    "LEARNERS",
    "LEAST_UNIQUENESS",
    "LIKELIHOODS",
    "NOISES",
    "Params",
    "Posterior",
    "from_correlations",
    "model",
    "signs_of",
    "untold",
    "whole_bytes",
    "whole_stages",
    "wide_stages",
]

NOISES = ("unique", "none")
LEARNERS = ("moments", "likelihood")
LIKELIHOODS = ("importance", "ep")
EXTRACTIONS = ("auto", "components", "factors")
FEW_COLUMNS = 10  # per component: with fewer, components are far too long
# Of a column with noise.  Components reproduce the variances too.  Where the spectrum has a negative part, its positive
# part has more than a column's variance, and rows that were not learned from say that there is noise all the same.
LEAST_NOISE = 0.1
SMALL = 400  # columns of a matrix that is diagonalised in no time


def from_correlations(
    found: Correlations,
    n_components: int,
    noise: str = "unique",
    bias: bool = True,
    repair: bool = False,
    extraction: str = "auto",
    least_mean: np.ndarray | float = 0.0,
    left: TimeLeft = no_limit,
) -> Params:
    """Weights and biases from what is known of each pair, in the seconds that are left.

    `least_mean` is how near to 0 or 1 a mean is taken to be at most: half a row for a column that has been constant.
    """
    plain = spectrum(found.latent)
    correlation, whole = found.latent, plain
    if repair and plain.values[-1] < 0:
        correlation = nearest_correlation(found.latent)
        whole = spectrum(correlation)
    few = noise == "unique" and len(correlation) < FEW_COLUMNS * n_components
    if extraction == "factors" or (extraction == "auto" and few):
        weights, least = factor_weights(correlation, n_components, LEAST_UNIQUENESS, left), LEAST_UNIQUENESS
    else:
        weights, least = whole.weights(n_components), LEAST_NOISE
    constant = np.diag(found.latent) == 0
    weights, phi, psi = _model_of(weights, found.means, constant, noise, bias, least_mean, least)
    with tree.double():
        return Params(
            jnp.asarray(weights),
            jnp.asarray(phi),
            jnp.asarray(psi),
            jnp.asarray(found.means),
            jnp.asarray(found.binary),
            jnp.asarray(correlation),
            jnp.asarray(found.error),
            jnp.asarray(found.undetermined),
            jnp.asarray(found.corrected),
            jnp.asarray(whole.values),
            jnp.asarray(np.linalg.eigvalsh(found.binary)[::-1]),
            jnp.asarray(negative_share(plain.values)),
        )


def _model_of(
    weights: np.ndarray,
    means: np.ndarray,
    constant: np.ndarray,
    noise: str,
    bias: bool,
    least_mean: np.ndarray | float,
    least_noise: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """W, phi and psi from the weights that reproduce the correlations."""
    weights = np.where(constant[:, None], 0.0, weights)  # but for rounding they are
    explained = np.sum(weights**2, 1)
    if noise == "unique":
        # x has variance 1; where nothing would be left of it for the noise, weights are shortened
        most = 1 - least_noise
        weights = weights * np.sqrt(np.minimum(1, most / np.maximum(explained, most)))[:, None]
        psi = 1 - np.minimum(explained, most)
    else:
        psi = np.zeros_like(explained)
    variance = np.where(constant, 1.0, np.sum(weights**2, 1) + psi)
    phi = np.sqrt(variance) * tetrachoric.thresholds(np.clip(means, least_mean, 1 - least_mean))  # eq. 9
    if not bias:
        phi = np.where(constant, phi, 0.0)
    return weights, phi, psi


def whole_bytes(n_columns: int) -> int:
    """Memory at the peak of learning with all matrices of pairs, as measured: some thirty of them in float64."""
    return 256 * n_columns**2


def wide_stages(
    rows: Callable[[], Iterable[np.ndarray]],
    n_components: int,
    noise: str,
    bias: bool,
    correction: float | int,
    extraction: str,
    weights: np.ndarray | None = None,
) -> tuple[Stage, ...]:
    """Learning without matrices of pairs that outlive it (`wide.py`), for very many columns.

    Parameters
    ----------
    rows
        Gives the encoded rows (uint8, 255 for missing), in blocks.
    n_components, noise, bias, correction, extraction
        As in `model`.
    weights
        How often each row counts; None for once.
    """
    weighing = weights

    def learn(key: Key[Array, ""], params: Params, state: None, left: TimeLeft) -> Params:
        d = params.phi.shape[0]
        found = wide.correlate(wide.pack(rows(), d, weighing), bias, correction, left)
        if found.n_undetermined:
            warnings.warn(untold(found.n_undetermined, found.n_pairs), UserWarning, stacklevel=2)
        latent, binary = found.spectra(n_components, left)
        few = noise == "unique" and d < FEW_COLUMNS * n_components
        if extraction == "factors" or (extraction == "auto" and few):
            least = LEAST_UNIQUENESS
            weights = wide.factor_weights(found, latent, n_components, least, left)
        else:
            weights, least = latent.weights(n_components), LEAST_NOISE
        constant = np.ones(d, bool)
        constant[found.columns] = False
        half_a_row = 0.5 / (found.observed + 1)
        weights, phi, psi = _model_of(weights, found.means, constant, noise, bias, half_a_row, least)
        nothing, no_flags = jnp.zeros((0, 0)), jnp.zeros((0, 0), bool)
        return Params(
            jnp.asarray(weights),
            jnp.asarray(phi),
            jnp.asarray(psi),
            jnp.asarray(found.means),
            *(nothing, nothing, nothing, no_flags, no_flags),
            jnp.asarray(latent.values),
            jnp.asarray(binary.values),
            jnp.asarray(np.nan),
        )

    return (Transform("counting and inverting pairs", learn, timed=True),)


def untold(n_untold: int, n_pairs: int) -> str:
    """A warning of pairs whose correlation the data cannot tell."""
    return (
        f"{n_untold} of {n_pairs} pairs of columns cannot be told (undetermined_): they were never seen "
        "together, one is constant where both are seen, or they are too rare. The spectrum and all that comes "
        "of it takes these correlations as they are, 0 for most"
    )


def _init(key: Key[Array, ""], summary: Summary) -> Params:
    """Nothing is known before the pairs are counted."""
    d = summary.mean.shape[0]
    each, pair = jnp.zeros(d), jnp.zeros((0, 0))
    return Params(
        jnp.zeros((d, 1)), each, each + 1, each, pair, pair, pair, pair > 0, pair > 0, each, each, jnp.zeros(())
    )


def _prepare(params: Params, state: Any, progress: Progress | None) -> Factors:
    return ep.factors_of(params.weights, params.phi, params.psi)


def _prepare_counting(params: Params, state: Any, progress: Progress | None) -> None:
    """Nothing: pairs are counted before there are any weights."""


def _no_state(params: Params) -> None:
    """Counting carries nothing from before."""


def _e_step(params: Params, shared: Factors | None, batch: Batch, row_state: None) -> tuple[Stats, None]:
    return count(batch), None


def _keep_counts(state: None, params: Params, shared: None, stats: Stats, progress: Progress) -> tuple[Stats, Params]:
    return stats, params


def _objective(params: Params, shared: Factors | None, stats: Stats) -> Float[Array, ""]:
    """Minus the squared error of W W' as an approximation of C^xx, the diagonal left out; there is no likelihood."""
    if not params.correlation.size:  # nothing is known yet, or pairs are not kept
        return jnp.zeros(())
    left = params.correlation - params.weights @ params.weights.T
    return -jnp.sum(left**2) / 2 + jnp.sum(jnp.diagonal(left) ** 2) / 2


def _moments(stats: Stats) -> Moments:
    return Moments(
        float(stats.n_rows),
        *(
            np.asarray(x, np.float64)
            for x in (stats.ones, stats.observed, stats.pair_ones, stats.pair_left, stats.pair_observed)
        ),
    )


def _check_diagonalising(d: int, left: TimeLeft) -> None:
    """Diagonalising cannot be looked in upon: what it will take is told from a small matrix."""
    if d > SMALL and left() < np.inf:
        pace = Pace(f"diagonalising a matrix of {d} columns", 1, left)
        pace.expect(min(_seconds_for_small() for _ in range(3)) * (d / SMALL) ** 3)  # others may be at work, too


def _seconds_for_small() -> float:
    began = time.perf_counter()
    np.linalg.eigh(np.eye(SMALL) + 1 / SMALL)
    return time.perf_counter() - began


def whole_stages(
    n_components: int | str,
    noise: str,
    bias: bool,
    correction: float | int,
    repair: bool,
    extraction: str,
    rows: Callable[[], Iterable[np.ndarray]] | None = None,
    weights: np.ndarray | None = None,
) -> tuple[Stage, ...]:
    """Learning with all matrices of pairs: they are counted, then inverted and diagonalised.

    Parameters
    ----------
    n_components, noise, bias, correction, repair, extraction
        As in `model`.
    rows
        Gives the encoded rows (uint8, 255 for missing), in blocks: of a table that may have holes,
        ``n_components="parallel"`` must see once more where they are.
    weights
        How often each row counts; None for once.
    """

    def diagonalise(key: Key[Array, ""], params: Params, state: Stats, left: TimeLeft) -> Params:
        moments = _moments(state)
        found = tetrachoric.correlations(moments, bias, correction, left)
        _check_diagonalising(len(found.means), left)
        size = n_components
        if size == "positive":
            size = spectrum(found.latent).n_positive
        elif size == "parallel":
            rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
            values = np.linalg.eigvalsh(found.latent)[::-1]
            size = n_above_chance(values, moments, _seen(moments, rows, weights, rng), rng, bias, correction)
            if size == 0:
                warnings.warn(
                    "no eigenvalue of the correlations is larger than chance would make it: one component is kept "
                    "(n_components='parallel')",
                    UserWarning,
                    stacklevel=2,
                )
        half_a_row = 0.5 / (moments.observed + 1)
        learned = from_correlations(found, max(1, int(size)), noise, bias, repair, extraction, half_a_row, left)
        if n_components == "positive":  # fewer may be left where noise has been taken off the diagonal
            used = np.any(np.asarray(learned.weights) != 0, 0)
            used[0] = True
            learned = eqx.tree_at(lambda p: p.weights, learned, learned.weights[:, np.flatnonzero(used)])
        return learned

    counting = OnePass(
        "counting pairs",
        measure=Measure.PROGRESS,
        comparable=False,
        prepare=_prepare_counting,
        e_step=_e_step,
        objective=_objective,
        start=_no_state,
        update=_keep_counts,
        row_floats=lambda n_columns: max(1, n_columns // 4),  # bytes, which are packed
    )
    return counting, Transform("diagonalising", diagonalise, timed=True)


def _seen(
    moments: Moments,
    rows: Callable[[], Iterable[np.ndarray]] | None,
    weights: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Where a table has bits, (rows, columns) of some of its rows, or all; None if it has no holes."""
    if np.all(moments.observed == moments.n_rows):
        return None
    if rows is None:
        raise ValueError("n_components='parallel' must know where a table has its holes: see whole_stages")
    size = simulated_rows(moments)
    chosen = np.sort(rng.choice(int(moments.n_rows), size, replace=False))
    if weights is not None:  # a row is as many of them as it counts
        chosen = np.searchsorted(np.cumsum(weights), chosen, side="right")
    parts, first = [], 0
    for block in rows():
        here = chosen[(chosen >= first) & (chosen < first + len(block))] - first
        parts.append(np.asarray(block)[here] != MISSING)
        first += len(block)
    return np.concatenate(parts)


@cache
def model(
    n_components: int | str = 2,
    noise: str = "unique",
    bias: bool = True,
    correction: float = 0.5,
    repair: bool = False,
    extraction: str = "auto",
    likelihood: str = "importance",
    learner: str = "moments",
    weight_prior: float | None = None,
    accelerate: bool = True,
) -> Model:
    """The clipped Gaussian model.

    Parameters
    ----------
    n_components
        P; "positive" takes all positive eigenvalues, "parallel" those that are larger than chance would make them.
    noise
        "unique" or "none".
    bias
        False is the model of eq. 3, with phi = 0 and eq. 7.
    correction
        Rows that a zero cell of a pair's table is taken to hold; 0 takes it at its word.
    repair
        Whether C^xx is replaced by the nearest correlation matrix.
    extraction
        "components", "factors", or "auto": factors with noise and few columns per component, components otherwise.
    likelihood
        "importance" or "ep".
    learner
        "moments", or "likelihood", which goes on from there by EM (`em.py`) and needs noise.
    weight_prior
        Of that: standard deviation of a Gaussian prior on the slopes of a column, in units of its noise; None for none.
    accelerate
        Whether its steps are Newton's, expanded and extrapolated; without, each is one of EM that never falls.
    """
    for name, value, known in (
        ("noise", noise, NOISES),
        ("extraction", extraction, EXTRACTIONS),
        ("likelihood", likelihood, LIKELIHOODS),
        ("learner", learner, LEARNERS),
    ):
        if value not in known:
            raise ValueError(f"{name} must be one of {', '.join(known)}, got {value!r}")
    use = use_of(noise, likelihood)

    def row_floats(n_columns: int) -> int:
        latents = n_components if isinstance(n_components, int) else min(16, n_columns)
        return 12 * n_columns + 4 * latents**2 + 2 * lattice.BLOCK

    by_moments = Model(
        name="clipped Gaussian",
        init=_init,
        prepare=_prepare,
        e_step=_e_step,
        objective=_objective,
        log_likelihood=use.log_likelihood,
        infer=use.infer,
        decode=use.decode,
        complete=use.complete,
        sample=use.sample,
        row_floats=row_floats,
        stages=whole_stages(n_components, noise, bias, correction, repair, extraction),
        needs_summary=False,
    )
    if learner == "moments":
        if weight_prior is not None:
            raise ValueError("weight_prior is for learner='likelihood': moments have no prior")
        return by_moments
    if noise == "none":
        raise ValueError("learner='likelihood' needs noise='unique': without noise most rows have probability 0")
    if n_components == "positive":
        raise ValueError("learner='likelihood' needs a number of components, or 'parallel': 'positive' leaves no noise")
    return em.beyond(by_moments, n_components, bias, weight_prior, accelerate)
