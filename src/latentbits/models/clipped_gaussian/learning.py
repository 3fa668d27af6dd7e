"""From counts of pairs to weights and biases: one pass over the rows, and then a function of each pair.

With few columns all matrices of pairs are kept; with very many the rows are packed as bits, and no such matrix outlives
the fit (`many_columns.py`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from latentbits.core import keys
from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.batch import MISSING, Batch
from latentbits.core.limits import Pace, TimeLeft, no_limit
from latentbits.core.model import Stage, Transform
from latentbits.core.pair_counts import COUNTING, Stats, count
from latentbits.models.clipped_gaussian import bivariate, many_columns, tetrachoric
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.params import Params
from latentbits.models.clipped_gaussian.spectrum import (
    factor_weights,
    n_above_chance,
    nearest_correlation,
    negative_share,
    simulated_rows,
    spectrum,
)
from latentbits.models.clipped_gaussian.tetrachoric import Correlations, Moments
from latentbits.models.clipped_gaussian.tuning import LEAST_COMPONENT_UNIQUENESS, LEAST_UNIQUENESS

__all__ = [
    "Recipe",
    "e_step",
    "from_correlations",
    "objective",
    "undetermined_words",
    "whole_bytes",
    "whole_stages",
    "wide_stages",
]


class Recipe(NamedTuple):
    """The way from moments to a model."""

    n_components: int | str = 2  # P; "positive": all positive eigenvalues; "parallel": those above chance
    noise: str = "unique"  # or "none"
    bias: bool = True  # False is the model of eq. 3, with phi = 0 and eq. 7
    correction: float = 0.5  # rows that a zero cell of a pair's table is taken to hold; 0 takes it at its word
    repair: bool = False  # whether C^xx is replaced by the nearest correlation matrix
    extraction: str = "auto"  # or "components", or "factors"

    def takes_factors(self, n_columns: int, n_components: int) -> bool:
        """Tell whether weights are factors; with fewer than ten columns for each, components are far too long."""
        few = self.noise == "unique" and n_columns < 10 * n_components
        return self.extraction == "factors" or (self.extraction == "auto" and few)


def from_correlations(
    recipe: Recipe,
    found: Correlations,
    n_components: int,
    least_mean: np.ndarray | float = 0.0,
    left: TimeLeft = no_limit,
) -> Params:
    """Find weights and biases from what is known of each pair, in the seconds that are left.

    `least_mean` is how near to 0 or 1 a mean is taken to be at most: half a row for a column that has been constant.
    """
    plain = spectrum(found.latent)
    correlation, whole = found.latent, plain
    if recipe.repair and plain.values[-1] < 0:
        correlation = nearest_correlation(found.latent)
        whole = spectrum(correlation)
    if recipe.takes_factors(len(correlation), n_components):
        weights, least = factor_weights(correlation, n_components, LEAST_UNIQUENESS, left), LEAST_UNIQUENESS
    else:
        weights, least = whole.weights(n_components), LEAST_COMPONENT_UNIQUENESS
    # from weights to the model
    constant = np.diag(found.latent) == 0
    weights, phi, psi = _model_of(weights, found.means, constant, recipe, least_mean, least)
    pairs = found.binary, correlation, found.error, found.undetermined, found.corrected
    values = whole.values, np.linalg.eigvalsh(found.binary)[::-1], negative_share(plain.values)
    arrays: Any = map(np.asarray, (weights, phi, psi, found.means, *pairs, *values))
    return Params(*arrays)


def _model_of(
    weights: np.ndarray,
    means: np.ndarray,
    constant: np.ndarray,
    recipe: Recipe,
    least_mean: np.ndarray | float,
    least_noise: float,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find W, phi and psi from the weights that reproduce the correlations."""
    weights = np.where(constant[:, None], 0.0, weights)  # but for rounding they are
    explained = np.sum(weights**2, 1)
    if recipe.noise == "unique":
        # x has variance 1; where nothing would be left of it for the noise, weights are shortened
        most = 1 - least_noise
        weights = weights * np.sqrt(np.minimum(1, most / np.maximum(explained, most)))[:, None]
        psi = 1 - np.minimum(explained, most)
    else:
        psi = np.zeros_like(explained)
    variance = np.where(constant, 1.0, np.sum(weights**2, 1) + psi)
    phi = np.sqrt(variance) * bivariate.thresholds(np.clip(means, least_mean, 1 - least_mean))  # eq. 9
    if not recipe.bias:
        phi = np.where(constant, phi, 0.0)
    return weights, phi, psi


def whole_bytes(n_columns: int) -> int:
    """Return the memory at the peak of learning with all matrices of pairs, as measured: some thirty in float64."""
    return 256 * n_columns**2


def whole_stages(
    recipe: Recipe,
    rows: Callable[[], Iterable[np.ndarray]] | None = None,
    weights: np.ndarray | None = None,
) -> tuple[Stage, ...]:
    """Learn with all matrices of pairs: they are counted, then inverted and diagonalised.

    `recipe`: how moments become a model.  `rows`: gives the encoded rows (uint8, 255 for missing), in blocks: of a
    table that may have holes, ``n_components="parallel"`` must see once more where they are.  `weights`: how often each
    row counts; None for once.
    """

    def diagonalise(key: AnyKey, params: Params, state: Stats, left: TimeLeft) -> Params:
        moments = _moments(state)
        found = tetrachoric.correlations(moments, recipe.bias, recipe.correction, left)
        _check_diagonalising(len(found.means), left)
        size = recipe.n_components
        if size == "positive":
            size = spectrum(found.latent).n_positive
        elif size == "parallel":
            rng = np.random.default_rng(keys.raw(key))
            values = np.linalg.eigvalsh(found.latent)[::-1]
            size = n_above_chance(
                values, moments, _seen(moments, rows, weights, rng), rng, recipe.bias, recipe.correction
            )
            if size == 0:
                warnings.warn(
                    "no eigenvalue of the correlations is larger than chance would make it: one component is kept "
                    "(n_components='parallel')",
                    UserWarning,
                    stacklevel=2,
                )
        half_a_row = 0.5 / (moments.observed + 1)
        learned = from_correlations(recipe, found, max(1, int(size)), half_a_row, left)
        if recipe.n_components == "positive":  # fewer may be left where noise has been taken off the diagonal
            used = np.any(np.asarray(learned.weights) != 0, 0)
            used[0] = True
            learned = learned.replace(weights=learned.weights[:, np.flatnonzero(used)])
        return learned

    return COUNTING, Transform("diagonalising", diagonalise, timed=True)


def _moments(stats: Stats) -> Moments:
    counts = stats.ones, stats.observed, stats.pair_ones, stats.pair_left, stats.pair_observed
    return Moments(float(stats.n_rows), *(np.asarray(x, np.float64) for x in counts))


def _seen(
    moments: Moments,
    rows: Callable[[], Iterable[np.ndarray]] | None,
    weights: np.ndarray | None,
    rng: np.random.Generator,
) -> np.ndarray | None:
    """Find where a table has bits, (rows, columns) of some of its rows, or all; None if it has no holes."""
    if np.all(moments.observed == moments.n_rows):
        return None
    if rows is None:
        raise ValueError("n_components='parallel' must know where a table has its holes: pass rows to whole_stages")
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


def _check_diagonalising(d: int, left: TimeLeft) -> None:
    """Check that time will do for diagonalising, which cannot be stopped; a small matrix shows what it takes."""
    small = 400  # columns
    if d <= small or left() == np.inf:
        return
    seconds = []
    for _ in range(3):  # others may be at work, too
        began = time.perf_counter()
        np.linalg.eigh(np.eye(small) + 1 / small)
        seconds.append(time.perf_counter() - began)
    Pace(f"diagonalising a matrix of {d} columns", 1, left).expect(min(seconds) * (d / small) ** 3)


def e_step(params: Params, shared: Factors | None, batch: Batch, row_state: None) -> tuple[Stats, None]:
    return count(batch), None


def objective(params: Params, shared: Factors | None, stats: Stats) -> Float[Array, ""]:
    """Return minus the squared error of W W' about C^xx, the diagonal left out; there is no likelihood."""
    if not params.correlation.size:  # nothing is known yet, or pairs are not kept
        return namespace(params).zeros(())
    left = params.correlation - params.weights @ params.weights.T
    return (left.diagonal() ** 2).sum() / 2 - (left**2).sum() / 2


def wide_stages(
    recipe: Recipe,
    rows: Callable[[], Iterable[np.ndarray]],
    weights: np.ndarray | None = None,
) -> tuple[Stage, ...]:
    """Learn without matrices of pairs that outlive it (`many_columns.py`), for very many columns.

    `recipe`: with a number of components, and without repair.  `rows`: gives the encoded rows (uint8, 255 for missing),
    in blocks.  `weights`: how often each row counts; None for once.
    """
    weighing = weights

    def learn(key: AnyKey, params: Params, state: None, left: TimeLeft) -> Params:
        d = params.phi.shape[0]
        found = many_columns.correlate(many_columns.pack(rows(), d, weighing), recipe.bias, recipe.correction, left)
        if found.n_undetermined:
            warnings.warn(undetermined_words(found.n_undetermined, found.n_pairs), UserWarning, stacklevel=2)
        n_components = int(recipe.n_components)
        latent, binary = found.spectra(n_components, left)
        if recipe.takes_factors(d, n_components):
            least = LEAST_UNIQUENESS
            weights = many_columns.factor_weights(found, latent, n_components, least, left)
        else:
            weights, least = latent.weights(n_components), LEAST_COMPONENT_UNIQUENESS
        # from weights to the model, without matrices of pairs
        constant = np.ones(d, bool)
        constant[found.columns] = False
        half_a_row = 0.5 / (found.observed + 1)
        weights, phi, psi = _model_of(weights, found.means, constant, recipe, half_a_row, least)
        no_pairs = (*np.zeros((3, 0, 0)), *np.zeros((2, 0, 0), bool))
        values = latent.values, binary.values, np.nan
        arrays: Any = map(np.asarray, (weights, phi, psi, found.means, *no_pairs, *values))
        return Params(*arrays)

    return (Transform("counting and inverting pairs", learn, timed=True),)


def undetermined_words(n_undetermined: int, n_pairs: int) -> str:
    """Word a warning of pairs whose correlation the data do not determine."""
    return (
        f"the correlations of {n_undetermined} of {n_pairs} pairs of columns are not determined (undetermined_): the "
        "two were never seen together, one is constant where both are seen, or they are too rare. The spectrum and "
        "all that comes of it takes these correlations as they are, 0 for most: leave such columns out, or add rows"
    )
