"""Numbers that psychometricians read off a latent trait: item parameters, their errors, rotations, information."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.reports.items import listed
from latentbits.reports.record import Report, Table

__all__ = ["RUNAWAY_SLOPE", "Rotation", "Scores", "StandardErrors", "canonical_axes", "difficulty",
           "discrimination", "item_errors", "item_information", "loadings", "rotate"]  # fmt: skip

RUNAWAY_SLOPE = 10.0  # |w|: a bit whose log-odds change by that much over one standard deviation is no longer random
ROTATIONS = ("varimax", "promax", "oblimin")


class Scores(NamedTuple):
    """Latents of each row and their standard errors, both (n_rows, n_components)."""

    value: np.ndarray
    error: np.ndarray


@dataclass(frozen=True)
class StandardErrors(Report):
    """Standard errors of the parameters, shaped like the attributes they belong to.

    `covariance` is that of all estimates, over (w_1, b_1, w_2, b_2, ...), column after column; `items` and `estimates`,
    slopes and intercept of each item, are what they are of.
    """

    components: np.ndarray
    intercept: np.ndarray
    difficulty: np.ndarray
    discrimination: np.ndarray
    covariance: np.ndarray
    items: tuple[str, ...]
    estimates: np.ndarray

    def table(self) -> Table:
        """Tabulate slopes, intercept and difficulty of each item, each with its error."""
        slopes, intercept = self.estimates[:, :-1], self.estimates[:, -1]
        q = slopes.shape[1]
        columns: dict[str, np.ndarray] = {}
        for k in range(q):
            name = "slope" if q == 1 else f"slope {k + 1}"
            columns |= {name: slopes[:, k], f"SE({name})": self.components[k]}
        columns |= {"intercept": intercept, "SE(intercept)": self.intercept}
        columns |= {"difficulty": difficulty(slopes, intercept), "SE(difficulty)": self.difficulty}
        none = [name for name, error in zip(self.items, self.intercept) if np.isnan(error)]
        notes = (f"without a standard error (NaN): {listed(none)}",) if none else ()
        return Table(list(self.items), columns, title="items and standard errors", notes=notes)


class Rotation(NamedTuple):
    """Components in rotated coordinates.

    Attributes
    ----------
    components : (k, d)
        Rotated.
    correlation : (k, k)
        Correlations of the rotated latents; the identity for an orthogonal rotation.
    matrix : (k, k)
        Rotated latents are ``Z @ matrix``, so that ``(Z @ matrix) @ components`` is what it was.
    """

    components: np.ndarray
    correlation: np.ndarray
    matrix: np.ndarray


def discrimination(weights: np.ndarray) -> np.ndarray:
    """Compute the slope of each item: w in one dimension (with its sign), |w| in several (Reckase's MDISC)."""
    return weights[:, 0].copy() if weights.shape[1] == 1 else np.linalg.norm(weights, axis=1)


def difficulty(weights: np.ndarray, bias: np.ndarray) -> np.ndarray:
    """Find where P = 1/2: -b / w in one dimension, -b / |w| along the item's direction in several (MDIFF).

    Infinite, or NaN, for an item that does not discriminate.
    """
    with np.errstate(divide="ignore", invalid="ignore"):
        return -bias / discrimination(weights)


def item_errors(weights: np.ndarray, bias: np.ndarray, covariance: np.ndarray, items: Sequence[str]) -> StandardErrors:
    """Compute standard errors from the covariance of the estimates; those of functions of them by the delta method."""
    d, q = weights.shape
    extended = covariance.reshape(d, q + 1, d, q + 1)
    own = extended[np.arange(d), :, np.arange(d)]  # (d, q + 1, q + 1)
    errors = np.sqrt(np.einsum("dii->di", own))
    slope = discrimination(weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        direction = weights / slope[:, None]
        to_slope = np.concatenate([direction, np.zeros((d, 1))], 1)
        to_place = np.concatenate([direction * (bias / slope**2)[:, None], -1 / slope[:, None]], 1)
        slope_error = np.sqrt(np.einsum("di,dij,dj->d", to_slope, own, to_slope))
        place_error = np.sqrt(np.einsum("di,dij,dj->d", to_place, own, to_place))
    estimates = np.column_stack([weights, bias])
    return StandardErrors(errors[:, :q].T, errors[:, q], place_error, slope_error, covariance, tuple(items), estimates)


def item_information(
    weights: np.ndarray, bias: np.ndarray, latents: np.ndarray, asymptote: np.ndarray | None = None
) -> np.ndarray:
    """Compute Fisher information of each item, |w|^2 P (1 - P), at given points of the latents: (n_points, d).

    In several dimensions it is the information along the item's own direction, where it is greatest.  With a lower
    asymptote g it is, for the P without, |w|^2 P (1 - P) times (1 - g) P / (g + (1 - g) P): the share of right answers
    that were not guessed.
    """
    z = latents @ weights.T + bias
    p = 1 / (1 + np.exp(-np.abs(z)))
    information = np.sum(weights**2, 1) * p * (1 - p)
    if asymptote is None:
        return information
    known = (1 - asymptote) * np.where(z < 0, 1 - p, p)
    return information * known / (asymptote + known)


def canonical_axes(weights: np.ndarray) -> np.ndarray:
    """Find the orthogonal R for which ``weights @ R`` has orthogonal columns, longest first, with sums >= 0.

    The likelihood fixes neither rotation nor signs of the latents; this does.
    """
    d, q = weights.shape
    # the axes of the columns, (d, d), are not wanted; those of the latents are all there only if columns are enough
    _, _, axes = np.linalg.svd(weights, full_matrices=bool(d < q))
    turned = weights @ axes.T
    signs = np.where(turned.sum(0) < 0, -1.0, 1.0)
    return axes.T * signs


def loadings(weights: np.ndarray) -> np.ndarray:
    """Compute loadings of factor analysis: correlations of a normal response below each bit with the latents.

    1.702 is the scale at which a logistic curve is closest to a normal one.
    """
    return weights / np.sqrt(1.702**2 + np.sum(weights**2, 1, keepdims=True))


def rotate(weights: np.ndarray, method: str, loadings: np.ndarray) -> Rotation:
    """Rotate (d, q) weights towards simple structure of their loadings, by statsmodels' gradient projection."""
    if method not in ROTATIONS:
        raise ValueError(f"method must be one of {', '.join(ROTATIONS)}, got {method!r}")
    q = weights.shape[1]
    if q == 1:
        return Rotation(weights.T.copy(), np.eye(1), np.eye(1))
    library = import_extra("statsmodels.multivariate.factor_rotation", extra="rotate", purpose="rotation")
    if method == "oblimin":
        _, latent = library.rotate_factors(loadings, "oblimin", 0.0, "oblique")  # gamma = 0: direct quartimin
    else:
        turned, latent = library.rotate_factors(loadings, "varimax")
    if method == "promax":
        # a least-squares fit to the varimax loadings, their contrast raised, and latents of variance 1
        transform = latent @ np.linalg.lstsq(turned, turned * np.abs(turned) ** 3, rcond=None)[0]
        transform = transform * np.sqrt(np.diag(np.linalg.inv(transform.T @ transform)))
        latent = np.linalg.inv(transform).T
    rotated = weights @ np.linalg.inv(latent).T
    order = np.argsort(-np.sum(rotated**2, 0))
    latent = (latent * np.where(rotated.sum(0) < 0, -1.0, 1.0))[:, order]
    return Rotation(np.linalg.solve(latent, weights.T), latent.T @ latent, latent)
