"""What the paper says in words, as numbers: how good its posteriors are, loops, a horseshoe, principal components."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from scipy import ndimage
from scipy.linalg import subspace_angles
from scipy.stats import rankdata
from sklearn.decomposition import PCA

from latentbits.core import tree
from latentbits.core.nodes import gauss_hermite
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.models.latent_trait import kinds, variational
from latentbits.models.latent_trait.kinds import ALL_BITS, Params
from latentbits.papers.pages import Measured

__all__ = ["area_under_curve", "bend", "divergence", "has_loop", "near", "principal_angles", "rounds", "told_by_place"]

NODES = 21  # a dimension, for the divergence
AT_ONCE = 16  # rows
NEIGHBOURS = 15
SMALLEST_LOOP = 2  # pixels: a hole of one is a gap in the ink
SETTLED = 0.01  # nats of a row's bound


def divergence(model: LatentTrait, X: np.ndarray) -> np.ndarray:
    """KL divergence of the approximate posterior (eqs. 6, 7) from the exact one of each row, in nats."""
    found, log_p = model.variational(X), model.score_samples(X)
    rule = gauss_hermite(NODES, 2)
    scale = np.linalg.cholesky(found.covariance)
    out = []
    for first in range(0, len(X), AT_ONCE):
        some = slice(first, first + AT_ONCE)
        points = found.mean[some, None] + rule.nodes @ np.swapaxes(scale[some], 1, 2)
        logits = points @ model.components_ + model.intercept_
        log_joint = np.einsum("nkd,nd->nk", logits, X[some]) - np.logaddexp(0, logits).sum(2) - (points**2).sum(2) / 2
        width = np.log(np.diagonal(scale[some], axis1=1, axis2=2)).sum(1)
        log_q = -(rule.nodes**2).sum(1) / 2 - width[:, None]
        out.append((log_q - log_joint) @ np.exp(rule.log_weights) + log_p[some])
    return np.concatenate(out)


def rounds(params: Params, X: np.ndarray, most: int = 30) -> np.ndarray:
    """How often each row takes (8) and (6, 7) in turn from N(0, I) until its bound is within `SETTLED` of the last."""

    def bounds(params: Params, values: Any) -> Any:
        rows = kinds.Rows(values, None, values[:, :0], values[:, :0], (), ())
        start = variational.prior(len(values), 2, values.dtype)

        def step(posterior: Any, nothing: None) -> Any:
            posterior, bound, _ = variational.improve(ALL_BITS, params, rows, posterior)
            return posterior, bound

        return jax.lax.scan(step, start, None, length=most)[1]

    with tree.double():
        found = np.asarray(jax.jit(bounds)(jax.tree.map(np.asarray, params), np.asarray(X, np.float64)))
    return 1 + np.argmax(found >= found[-1] - SETTLED, axis=0)


# --- loops and the horseshoe ---


def has_loop(X: np.ndarray, image_shape: tuple[int, int]) -> np.ndarray:
    """Which images have a hole: background that is shut off from the border by ink.

    >>> ring = np.array([[0, 1, 1, 0], [1, 0, 0, 1], [0, 1, 1, 0]])
    >>> has_loop(np.stack([ring.ravel(), 0 * ring.ravel()]), (3, 4)).tolist()
    [True, False]
    """
    found = []
    for image in X.reshape(-1, *image_shape):
        parts, n = ndimage.label(np.pad(image == 0, 1, constant_values=True))  # ink may touch at corners only
        sizes = np.bincount(parts.ravel(), minlength=n + 1)[1:]
        sizes[parts[0, 0] - 1] = 0
        found.append(bool((sizes >= SMALLEST_LOOP).any()))
    return np.array(found)


def near(means: np.ndarray, flags: np.ndarray) -> np.ndarray:
    """Share of flagged rows among the nearest neighbours of each row on the map, itself left out."""
    distance = np.square(means[:, None] - means).sum(2)
    np.fill_diagonal(distance, np.inf)
    return flags[np.argsort(distance, axis=1, kind="stable")[:, :NEIGHBOURS]].mean(1)


def area_under_curve(score: np.ndarray, flags: np.ndarray) -> Measured:
    """P(score of a flagged row > that of another), ties half; its error by Hanley & McNeil (1982).

    >>> round(area_under_curve(np.array([1.0, 2.0, 3.0]), np.array([False, True, True])).value, 3)
    1.0
    """
    n_on, n_off = int(flags.sum()), int((~flags).sum())
    area = (rankdata(score)[flags].sum() - n_on * (n_on + 1) / 2) / (n_on * n_off)
    q_on, q_off = area / (2 - area), 2 * area**2 / (1 + area)
    variance = area * (1 - area) + (n_on - 1) * (q_on - area**2) + (n_off - 1) * (q_off - area**2)
    return Measured(float(area), float(np.sqrt(max(variance, 0.0) / (n_on * n_off))), 1)


def told_by_place(means: np.ndarray, flags: np.ndarray) -> Measured:
    """How well the place on a map tells whether a row is flagged: 1/2 where not at all, 1 where wholly."""
    return area_under_curve(near(means, flags), flags)


def bend(means: np.ndarray) -> float:
    """How much of a map is a horseshoe: the largest share of one axis's variance that a parabola in the other explains.

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
    """Largest angle between the components for continuous columns and the principal subspace, in radians."""
    settings: dict[str, Any] = {"method": "variational", "noise": noise, "dtype": "float64", "tol": 1e-12}
    model = LatentTrait(2, column_types=["continuous"] * X.shape[1], random_state=0, **settings).fit(X)
    return float(subspace_angles(model.components_.T, PCA(2).fit(X).components_.T).max())
