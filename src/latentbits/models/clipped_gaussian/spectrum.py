"""From correlations to weights: the spectrum of C^xx, how many components to take, and what does not fit.

The weights are W = V sqrt(lambda) of the largest eigenvalues, so that W W' is the best approximation of C^xx of its
rank (section "Translationally invariant example" of the paper).  C^xx is put together pair by pair and need not be a
correlation matrix at all; its negative eigenvalues are what no clipped Gaussian can produce, and noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.linalg import eigh
from scipy.optimize import minimize
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from latentbits.core import interrupts
from latentbits.core.batch import MISSING
from latentbits.core.errors import FitError
from latentbits.core.limits import TimeLeft, no_limit, watch
from latentbits.models.clipped_gaussian import tetrachoric
from latentbits.models.clipped_gaussian.bivariate import thresholds
from latentbits.models.clipped_gaussian.tetrachoric import Moments
from latentbits.models.clipped_gaussian.tuning import (
    LEAST_SQUARES_OPTIONS,
    MOST_SIMULATED_ENTRIES,
    MOST_SIMULATED_ROWS,
    MOST_SIMULATED_TWENTIES,
)

__all__ = [
    "Spectrum",
    "factor_weights",
    "leading",
    "lowest_by_chance",
    "n_above_chance",
    "nearest_correlation",
    "negative_share",
    "simulated_rows",
    "spectrum",
    "watch_factors",
    "within_bounds",
]


class Spectrum(NamedTuple):
    """Eigenvalues, largest first, and their eigenvectors as columns, each with a sum that is not negative."""

    values: np.ndarray
    vectors: np.ndarray

    def weights(self, n_components: int) -> np.ndarray:
        """Return W of the largest, (d, n_components); 0 for those that are not positive."""
        size = np.zeros(n_components)
        vectors = np.zeros((len(self.vectors), n_components))
        n = min(n_components, len(self.values))
        size[:n] = np.sqrt(np.maximum(self.values[:n], 0))
        vectors[:, :n] = self.vectors[:, :n]
        return vectors * size

    @property
    def n_positive(self) -> int:
        """Number of positive eigenvalues, rounding apart."""
        top = self.values[0] if len(self.values) else 0.0
        return int(np.sum(self.values > 1e-10 * max(top, 1e-300)))


def spectrum(matrix: np.ndarray) -> Spectrum:
    """Compute eigenvalues and eigenvectors of a symmetric matrix."""
    values, vectors = np.linalg.eigh(matrix)
    vectors = vectors * np.where(vectors.sum(0) < 0, -1.0, 1.0)
    return Spectrum(values[::-1].copy(), vectors[:, ::-1].copy())


def leading(
    matrix: np.ndarray, n: int, left: TimeLeft, less: np.ndarray | float = 0.0, start: np.ndarray | None = None
) -> Spectrum:
    """Find the n largest eigenvalues of a symmetric matrix, less something on its diagonal, by Lanczos' method.

    `matrix` (d, d): may be float32.  `n`: how many.  `left`: seconds left; `OutOfTimeError` when they are over.  `less`
    (d,): taken off the diagonal.  `start` (d,): a vector to begin with, near the wanted ones.
    """
    d = len(matrix)
    if d <= max(64, 4 * n):
        whole = spectrum(np.asarray(matrix, np.float64) - np.diag(np.broadcast_to(less, d)))
        return Spectrum(whole.values[:n], whole.vectors[:, :n])

    check = watch(f"finding the largest eigenvalues of a matrix of {d} columns", left)

    def times(x: np.ndarray) -> np.ndarray:
        check()
        x = np.asarray(x, np.float64).reshape(-1)
        return (matrix @ x.astype(matrix.dtype)).astype(np.float64) - less * x

    if start is None:
        start = np.random.default_rng(0).standard_normal(d)
    try:
        values, vectors = eigsh(
            LinearOperator((d, d), matvec=times, dtype=np.float64),
            n,
            which="LA",
            v0=start,
            tol=1e-5,  # relative residual
            ncv=4 * n,
        )
    except ArpackNoConvergence as error:
        raise FitError(f"the {n} largest eigenvalues of the correlations were not found: {error}") from error
    order = np.argsort(-values, kind="stable")
    vectors = vectors[:, order]
    return Spectrum(values[order], vectors * np.where(vectors.sum(0) < 0, -1.0, 1.0))


def negative_share(eigenvalues: np.ndarray) -> float:
    """Compute the sum of the negative eigenvalues over the sum of all, both by their size."""
    total = np.abs(eigenvalues).sum()
    return float(np.abs(eigenvalues[eigenvalues < 0]).sum() / total) if total > 0 else 0.0


def lowest_by_chance(matrix: np.ndarray, error: np.ndarray) -> float:
    """Estimate the smallest eigenvalue that sampling errors alone would make of a correlation matrix of low rank.

    For one direction v the errors add up to a variance of ``2 sum v_i^2 v_j^2 error_ij^2``.  The smallest of all
    directions is lower by the root of twice the number of columns that v has a part in (in a matrix of equal errors
    that is the end of Wigner's semicircle).  It is taken for the eigenvector of the smallest eigenvalue.
    """
    if not len(matrix):
        return 0.0
    square = np.linalg.eigh(matrix)[1][:, 0] ** 2
    variance = 2 * square @ np.nan_to_num(error**2) @ square
    return float(-np.sqrt(variance * 2 / np.sum(square**2)))


def n_above_chance(
    eigenvalues: np.ndarray,
    moments: Moments,
    seen: np.ndarray | None,
    rng: np.random.Generator,
    bias: bool,
    correction: float,
) -> int:
    """Count the eigenvalues, from the first, that are larger than those by chance: parallel analysis (Horn 1965).

    Chance is tables with the bits of each column shuffled, the holes where they are, taken through the same correction
    and inversion.  A table of independent bits is one more of these, and of all m + 1 each is the largest equally
    often: an eigenvalue counts if no more than one in twenty, itself among them, is as large.  With m + 1 a multiple of
    20, a component is found in noise in 5 % of tables whatever m is, where the 95th percentile of m = 20 gives 9 %.

    `eigenvalues`: of the latent correlations, largest first.  `moments`: counts of all rows.  `seen` (rows, d) of bool:
    where the table has bits, of as many rows as are simulated (`simulated_rows`); None where none is missing.  `rng`,
    `bias`, `correction`: source of the shuffling, and as in `tetrachoric.correlations`.
    """
    d = len(moments.ones)
    rows = simulated_rows(moments) if seen is None else len(seen)
    observed = np.full(d, rows) if seen is None else seen.sum(0)
    ones = np.round(moments.ones / np.maximum(moments.observed, 1) * observed)
    ordered = (np.arange(rows)[:, None] < ones).astype(np.uint8)
    # with fewer rows than there are, rare bits would meet too seldom, and the correction would pull them to 0
    whole = rows >= int(moments.n_rows)
    drawn = []
    for _ in range(20 * max(1, min(MOST_SIMULATED_TWENTIES, 10_000 // (20 * d), 2**27 // (20 * ordered.size))) - 1):
        interrupts.check()
        counts = tetrachoric.count(rng.permuted(ordered, axis=0) if seen is None else _fill(seen, ones, rng))
        if whole:
            latent = tetrachoric.correlations(counts, bias, correction).latent
        else:
            scale = np.sqrt(counts.pair_observed / np.maximum(moments.pair_observed, 1))
            np.fill_diagonal(scale, 1)
            latent = _near_zero(counts) * scale
        drawn.append(np.linalg.eigvalsh(latent)[::-1])
    limit = np.sort(drawn, axis=0)[-((len(drawn) + 1) // 20)]
    return int(np.argmin(np.append(eigenvalues > limit, False)))


def simulated_rows(moments: Moments) -> int:
    """Count the rows of a table that is simulated for parallel analysis: as many as there are, within bounds."""
    return int(min(moments.n_rows, max(MOST_SIMULATED_ROWS, MOST_SIMULATED_ENTRIES // len(moments.ones))))


def _fill(seen: np.ndarray, ones: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Fill a table with `ones` of each column anywhere in it, and holes where they are."""
    table = np.full(seen.shape, MISSING, np.uint8)
    for i, places in enumerate(np.flatnonzero(column) for column in seen.T):
        table[places, i] = rng.permuted(np.arange(len(places)) < ones[i])
    return table


def _near_zero(counts: Moments) -> np.ndarray:
    """Compute latent correlations near 0: the covariance of bits over the Gaussian's density at their thresholds."""
    p = counts.ones / np.maximum(counts.observed, 1)
    varies = (p > 0) & (p < 1)
    height = np.exp(-0.5 * thresholds(np.where(varies, p, 0.5)) ** 2) / np.sqrt(2 * np.pi)
    rows = np.maximum(counts.pair_observed, 1)
    left = counts.pair_left / rows
    latent = (counts.pair_ones / rows - left * left.T) / np.outer(height, height) * np.outer(varies, varies)
    np.fill_diagonal(latent, varies)
    return latent


def watch_factors(n_columns: int, left: TimeLeft) -> Callable[[], None]:
    """Watch the time while the factors of a matrix are found."""
    return watch(f"finding the factors of {n_columns} columns", left)


def factor_weights(matrix: np.ndarray, n_components: int, least_noise: float, left: TimeLeft = no_limit) -> np.ndarray:
    """Find weights whose W W' comes closest to correlations, the diagonal left out: factor analysis by least squares.

    Components take variances for correlations: with few columns, the noise on the diagonal lengthens them.  Here the
    noise psi of each column is taken off the diagonal first, and is what makes the rest smallest (minres, Harman &
    Jones 1966); the gradient is that of the eigenvalues left over.  Where that would leave a column less noise than
    `least_noise` (a Heywood case), weights are the best of those that leave it as much (Harman & Fukuda 1966).  When
    the seconds `left` are over, `OutOfTimeError` says so: every step takes an eigenvalue problem.
    """
    active = np.diag(matrix) > 0
    inner = matrix[np.ix_(active, active)]
    d = len(inner)
    n = min(n_components, d)

    diagonal = np.diag(inner)
    others = np.sum(inner**2) - np.sum(diagonal**2)
    check = watch_factors(d, left)

    def reproduced(psi: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        values, vectors = eigh(inner - np.diag(psi), subset_by_index=[d - n, d - 1])
        return np.maximum(values, 0), vectors

    def left_over(psi: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute the sum of squares of what W W' leaves, and its gradient; the largest eigenvalues do."""
        check()
        values, vectors = reproduced(psi)
        rest = diagonal - psi
        return float(others + np.sum(rest**2) - np.sum(values**2)), -2 * (rest - vectors**2 @ values)

    weights = np.zeros((len(matrix), n_components))
    if d:
        # Many are equally good if there are as many factors as columns: the noise stays near where it starts.
        start = np.clip(1 - np.sum(spectrum(inner).weights(n) ** 2, 1), max(least_noise, 0.1), 1)
        bounds = [(least_noise, 1)] * d
        psi = minimize(left_over, start, jac=True, method="L-BFGS-B", bounds=bounds, options=LEAST_SQUARES_OPTIONS).x
        values, vectors = (x[..., ::-1] for x in reproduced(psi))
        weights[active, :n] = within_bounds(inner, vectors * np.sqrt(values), 1 - least_noise, left)
    return weights * np.where(weights.sum(0) < 0, -1.0, 1.0)


def within_bounds(matrix: np.ndarray, weights: np.ndarray, most: float, left: TimeLeft = no_limit) -> np.ndarray:
    """Find weights that explain at most so much of each column, and come closest to correlations off the diagonal.

    `matrix` (d, d): may be float32.  `weights` (d, n): where to start; returned as they are if they explain no more,
    since they are taken to be the best then.  `most`: sum of squares of a row of weights.  `left`: seconds left;
    `OutOfTimeError` when they are over.  Returns (d, n) in the rotation in which W'W is diagonal, the longest first.
    """
    if np.all(np.sum(weights**2, 1) <= most):
        return weights
    diagonal = np.diag(matrix).astype(np.float64)[:, None]
    # the force with which the bound holds each row is found turn by turn (augmented Lagrangian)
    force = np.zeros((len(weights), 1))
    stiff = 10.0 + len(weights)
    check = watch_factors(len(weights), left)

    def left_over(flat: np.ndarray) -> tuple[float, np.ndarray]:
        """Compute half the squares off the diagonal, less those of the matrix, with the bounds; and the gradient."""
        check()
        w = flat.reshape(weights.shape)
        towards = (matrix @ w.astype(matrix.dtype)).astype(np.float64) - diagonal * w
        gram, explained = w.T @ w, np.sum(w**2, 1, keepdims=True)
        held = np.maximum(force + stiff * (explained - most), 0)
        value = np.sum(gram**2) / 2 - np.sum(explained**2) / 2 - np.sum(w * towards) + np.sum(held**2) / (2 * stiff)
        return float(value), (2 * (w @ gram + (held - explained) * w - towards)).ravel()

    rounding = float(np.finfo(matrix.dtype).eps)
    precise, value = rounding**0.4, np.inf
    ftol = max(LEAST_SQUARES_OPTIONS["ftol"], rounding / 10)  # below the rounding of a sum of products
    for _ in range(50):  # a test's matrices take 4 to 9
        found = minimize(
            left_over, weights.ravel(), jac=True, method="L-BFGS-B", options=LEAST_SQUARES_OPTIONS | {"ftol": ftol}
        )
        weights = found.x.reshape(weights.shape)
        explained = np.sum(weights**2, 1, keepdims=True)
        before, force = force, np.maximum(force + stiff * (explained - most), 0)
        gained, value = abs(found.fun - value), found.fun
        if np.max(np.abs(force - before)) < precise or gained < 10 * rounding * abs(value):
            break
    # rows at their bound are so exactly
    length = np.where(force > 0, np.sqrt(most / explained), np.sqrt(most / np.maximum(explained, most)))
    vectors, sizes, _ = np.linalg.svd(weights * length, full_matrices=False)
    return vectors * sizes


def nearest_correlation(matrix: np.ndarray, tol: float = 1e-8, max_iter: int = 500) -> np.ndarray:
    """Find the nearest matrix without negative eigenvalues that has the same diagonal (Higham 2002).

    Projections in turn, on the matrices without negative eigenvalues (with Dykstra's correction) and on those with the
    diagonal, until a turn changes entries by less than `tol`.
    """
    diagonal = np.diag(matrix).copy()
    nearest, correction = matrix.copy(), np.zeros_like(matrix)
    for _ in range(max_iter):
        apart = nearest - correction
        values, vectors = np.linalg.eigh(apart)
        positive = (vectors * np.maximum(values, 0)) @ vectors.T
        correction = positive - apart
        before, nearest = nearest, (positive + positive.T) / 2
        np.fill_diagonal(nearest, diagonal)
        if np.max(np.abs(nearest - before)) < tol:
            break
    return nearest
