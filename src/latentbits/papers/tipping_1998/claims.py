"""Words of the paper as numbers: its posteriors, clusters, loops, a horseshoe, principal components."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import ndimage
from scipy.linalg import subspace_angles
from scipy.stats import rankdata
from sklearn.decomposition import PCA

from latentbits.core.nodes import gauss_hermite
from latentbits.data.toys import Prototypes
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.models.latent_trait import equations
from latentbits.models.latent_trait.column_kinds import Params
from latentbits.papers.pages import Measured

__all__ = ["area_under_curve", "bend", "divergence", "has_loop", "lines_apart", "principal_angles",
           "prototypes_evident", "rounds", "rounds_from_prior", "told_by_place", "two_are_enough"]  # fmt: skip

ROWS_AT_ONCE = 16
SETTLED_NATS = 0.01  # of a row's bound
MOST_ROUNDS = 20  # after which the bound of a row is at its end: no row of ours needed more than 5
N_ITERATIONS = 15  # of EM from the start; after 7 two rounds are enough for every row of the twos
N_ROWS_COMPARED = 200  # rows whose rounds are counted


def divergence(model: LatentTrait, X: np.ndarray) -> np.ndarray:
    """Compute the KL divergence of the approximate posterior (eqs. 6, 7) from the exact one of each row, in nats."""
    found, log_p = model.variational(X), model.score_samples(X)
    rule = gauss_hermite(21, 2)
    scale = np.linalg.cholesky(found.covariance)
    out = []
    for first in range(0, len(X), ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        points = found.mean[some, None] + rule.nodes @ np.swapaxes(scale[some], 1, 2)
        logits = points @ model.components_ + model.intercept_
        log_joint = np.einsum("nkd,nd->nk", logits, X[some]) - np.logaddexp(0, logits).sum(2) - (points**2).sum(2) / 2
        width = np.log(np.diagonal(scale[some], axis1=1, axis2=2)).sum(1)
        log_q = -(rule.nodes**2).sum(1) / 2 - width[:, None]
        out.append((log_q - log_joint) @ np.exp(rule.log_weights) + log_p[some])
    return np.concatenate(out)


def two_are_enough(params: Params, X: np.ndarray) -> float:
    """Compute the share of rows for which two rounds are enough in an E-step of EM, in the iteration with fewest.

    EM goes on for `N_ITERATIONS` from the parameters given, each E-step with two rounds, from the xi of the one before.
    The first has no such xi, starts from N(0, I), and is not counted; of rows the first `N_ROWS_COMPARED` are.
    """
    t, w, b = X.astype(np.float64), np.asarray(params.weights), np.asarray(params.bias)
    xi, shares = _xi_of_prior(len(t), w, b), []
    for _ in range(N_ITERATIONS):
        for _ in range(2):
            xi, mean, covariance = _round(t, xi, w, b)
        w, b = equations.weights_and_biases(t, xi, mean, covariance)
        shares.append(np.mean(rounds(t[:N_ROWS_COMPARED], xi[:N_ROWS_COMPARED], w, b) <= 2))
    return float(min(shares))


def rounds_from_prior(params: Params, X: np.ndarray) -> np.ndarray:
    """Count `rounds` of rows whose xi start from N(0, I), as those of rows that a fitted model has not seen."""
    t, w, b = X.astype(np.float64), np.asarray(params.weights), np.asarray(params.bias)
    return rounds(t, _xi_of_prior(len(t), w, b), w, b)


def rounds(t: np.ndarray, xi: np.ndarray, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Count how often each row takes (6, 7) and (8) until its bound is near that after `MOST_ROUNDS`."""
    bounds = []
    for _ in range(MOST_ROUNDS):
        xi, *_ = _round(t, xi, w, b)
        bounds.append(equations.bound(t, xi, w, b))
    return 1 + np.argmax(np.array(bounds) >= bounds[-1] - SETTLED_NATS, axis=0)


def _round(t: np.ndarray, xi: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Take (6) and (7), then (8): the new xi, and the moments that it comes from."""
    covariance = equations.covariances(xi, w)
    mean = equations.means(t, xi, w, b, covariance)
    return equations.xi_of(mean, covariance, w, b), mean, covariance


def _xi_of_prior(n_rows: int, w: np.ndarray, b: np.ndarray) -> np.ndarray:
    q = w.shape[1]
    return equations.xi_of(np.zeros((n_rows, q)), np.tile(np.eye(q), (n_rows, 1, 1)), w, b)


# --- clusters ---


def prototypes_evident(toy: Prototypes) -> tuple[float, float]:
    """Compute the share of clusters whose most frequent vector is their prototype; and by how much it leads the next.

    The latter is a mean over the clusters, of the prototype against the most frequent of all other vectors.

    >>> rows = np.array([[0, 0], [0, 0], [0, 1], [1, 1], [1, 0], [1, 0]])
    >>> prototypes_evident(Prototypes(rows, np.array([0, 0, 0, 1, 1, 1]), np.array([[0, 0], [1, 1]])))
    (0.5, 1.25)
    """
    ahead = []
    for number, prototype in enumerate(toy.prototypes):
        vectors, counts = np.unique(toy.X[toy.labels == number], axis=0, return_counts=True)
        own = (vectors == prototype).all(axis=1)
        ahead.append(counts[own].sum() / counts[~own].max())
    return float(np.mean(np.array(ahead) > 1)), float(np.mean(ahead))


def lines_apart(model: LatentTrait, toy: Prototypes) -> float:
    """Compute the share of lines P(t_i | x) = 1/2, where prototypes differ, with each prototype on its side."""
    places = model.variational(toy.prototypes).mean
    right = (places @ model.components_ + model.intercept_ > 0) == (toy.prototypes == 1)
    telling = toy.prototypes.min(axis=0) < toy.prototypes.max(axis=0)
    return float(right[:, telling].all(axis=0).mean())


# --- loops and the horseshoe ---


def has_loop(X: np.ndarray, image_shape: tuple[int, int]) -> np.ndarray:
    """Find which images have a hole: background that is shut off from the border by ink.

    >>> ring = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]])
    >>> has_loop(np.stack([ring.ravel(), 0 * ring.ravel()]), (3, 4)).tolist()
    [True, False]
    """
    found = []
    for image in X.reshape(-1, *image_shape):
        parts, n = ndimage.label(np.pad(image == 0, 1, constant_values=True))  # ink may touch at corners only
        sizes = np.bincount(parts.ravel(), minlength=n + 1)[1:]
        sizes[parts[0, 0] - 1] = 0
        found.append(bool((sizes >= 2).any()))  # a hole of one pixel is a gap in the ink
    return np.array(found)


def near(means: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Compute the share of flagged rows among the nearest neighbours of each row on the map, itself left out."""
    distance = np.square(means[:, None] - means).sum(2)
    np.fill_diagonal(distance, np.inf)
    return flags[np.argsort(distance, axis=1, kind="stable")[:, :15]].mean(1)


def area_under_curve(score: np.ndarray, flags: np.ndarray) -> Measured:
    """Estimate P(score of a flagged row > that of another), ties half; its error by Hanley & McNeil (1982).

    >>> round(area_under_curve(np.array([1.0, 2.0, 3.0]), np.array([False, True, True])).value, 3)
    1.0
    """
    n_on, n_off = int(flags.sum()), int((~flags).sum())
    area = (rankdata(score)[flags].sum() - n_on * (n_on + 1) / 2) / (n_on * n_off)
    q_on, q_off = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (n_on - 1) * (q_on - area**2) + (n_off - 1) * (q_off - area**2)
    return Measured(float(area), float(np.sqrt(max(variance, 0.0) / (n_on * n_off))), 1)


def told_by_place(means: np.ndarray, flags: np.ndarray) -> Measured:
    """Measure how well the place on a map shows whether a row is flagged: 1/2 where not at all, 1 where wholly."""
    return area_under_curve(near(means, flags), flags)


def bend(means: np.ndarray) -> float:
    """Measure the horseshoe in a map: the largest share of an axis's variance that a parabola in the other explains.

    Over all rotations; of a Gaussian cloud it is near 0.
    """
    centred = means - means.mean(0)
    best = 0.0
    for angle in np.linspace(0, np.pi, 90, endpoint=False):
        x, y = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]]) @ centred.T
        line, curve = (np.polyval(np.polyfit(x, y, n), x) for n in (1, 2))
        best = max(best, float(1 - np.sum((y - curve) ** 2) / np.sum((y - line) ** 2)))
    return best


# --- principal components ---


def principal_angles(X: np.ndarray, noise: str) -> float:
    """Compute the largest angle between components for continuous columns and the principal subspace, in radians."""
    settings: dict[str, Any] = {"method": "variational", "noise": noise, "dtype": "float64", "tol": 1e-12}
    model = LatentTrait(2, column_types=["continuous"] * X.shape[1], random_state=0, **settings).fit(X)
    return float(subspace_angles(model.components_.T, PCA(2).fit(X).components_.T).max())
