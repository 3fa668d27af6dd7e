"""Arrays that a map of the latent space shows: glyphs, boundaries, chosen places, exact posteriors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import qr
from scipy.special import expit, logsumexp

from latentbits.core.errors import DataError
from latentbits.figures.windows import Window, boundary_ends

__all__ = [
    "Boundaries",
    "coincident",
    "data_window",
    "decode",
    "label_groups",
    "mass_levels",
    "posterior_grid",
    "spread_places",
    "telling_boundaries",
    "telling_items",
]


class Boundaries(NamedTuple):
    """Lines on which a bit is as likely one as zero: `components` (q, d), `intercept` (d,), `names` or None."""

    components: np.ndarray
    intercept: np.ndarray
    names: Sequence[str] | None = None


class Glyphs(NamedTuple):
    """Rows that coincide, as one: `places` (g, q), `counts` (g,) rows at each, `groups` (g,) their label's number.

    The largest come first, so that what is drawn later hides nothing.
    """

    places: np.ndarray
    counts: np.ndarray
    groups: np.ndarray


class PosteriorGrid(NamedTuple):
    """`log_density` (n, n) at x[j], y[i], so that the density times the area of a cell sums to 1; `extent` from the
    first to the last point; `mean` (2,) and `covariance` (2, 2) of the posterior."""

    log_density: np.ndarray
    extent: Window
    mean: np.ndarray
    covariance: np.ndarray


# --- rows ---


def label_groups(labels: Iterable[Any], label_names: Any = None) -> tuple[list[str], np.ndarray]:
    """Return the names of the labels, and the label of each row; -1 where it has none (None, NaN, "").

    `labels`: n values.  `label_names`: mapping from a label to its name, or sequence of names for labels 0, 1, ....

    >>> label_groups([2, 0, 2, None], ["cat", "dog", "owl"])
    (['cat', 'owl'], array([ 1,  0,  1, -1]))
    """
    values = labels.tolist() if isinstance(labels, np.ndarray) else list(labels)
    lacking = [value is None or value == "" or value != value for value in values]
    found = {value for value, lacks in zip(values, lacking) if not lacks}
    try:
        kinds = sorted(found, key=lambda value: (isinstance(value, str), value))
    except TypeError:  # of several types
        kinds = sorted(found, key=lambda value: (type(value).__name__, str(value)))
    if isinstance(label_names, Mapping):
        kinds = sorted(kinds, key=list(label_names).index)  # the order of the caller, not of the alphabet
    number = {kind: place for place, kind in enumerate(kinds)}
    groups = np.array([-1 if lacks else number[value] for value, lacks in zip(values, lacking)], dtype=int)
    return [str(kind if label_names is None else label_names[kind]) for kind in kinds], groups


def coincident(means: np.ndarray, groups: np.ndarray | None = None, decimals: int = 3) -> Glyphs:
    """Count rows that no picture could separate; rows of different groups stay apart.

    `means`: (n, q).  `groups`: (n,).  `decimals`: places that agree when rounded to this number of decimals are the
    same.

    >>> coincident(np.array([[0.0, 1.0], [2.0, 1.0], [2.0, 1.0]])).counts.tolist()
    [2, 1]
    """
    means = np.asarray(means, np.float64)
    groups = np.zeros(len(means), int) if groups is None else np.asarray(groups, int)
    keys = np.column_stack([np.round(means, decimals) + 0.0, groups])  # + 0.0: -0.0 would be another place
    _, first, counts = np.unique(keys, axis=0, return_index=True, return_counts=True)
    # among equals by lot, or the last group would lie on top of all others
    lot = np.random.default_rng(0).permutation(len(first))
    order = np.lexsort((lot, -counts))
    return Glyphs(means[first[order]], counts[order], groups[first[order]])


def data_window(places: np.ndarray, margin: float = 0.06) -> Window:
    """Choose the box round all places, with a margin; where there is no extent, that of the prior.

    >>> data_window(np.array([[0.0, 0.0], [10.0, 1.0]]), margin=0.1)
    (-1.0, 11.0, -1.0, 2.0)
    """
    low, high = (-2.0, 2.0) if len(places) == 0 else (places.min(axis=0), places.max(axis=0))
    extent = float(np.max(np.subtract(high, low)))
    room = margin * extent if extent > 0 else 1.0
    low, high = np.broadcast_to(np.subtract(low, room), 2), np.broadcast_to(np.add(high, room), 2)
    return float(low[0]), float(high[0]), float(low[1]), float(high[1])


# --- the lines at which a bit is as likely one as zero ---


def telling_boundaries(
    weights: np.ndarray, bias: np.ndarray, places: np.ndarray, most: int, window: Window
) -> np.ndarray:
    """Choose the bits whose lines are most informative about the rows: each adds to those before it.

    With more candidates than wanted, the next is always the bit whose P(bit = 1) at the rows is explained least by
    the bits already chosen, so that of many parallel lines one is drawn.

    `weights`, `bias`: (d, 2) and (d,).  `places` (n, 2): of the rows.  `window`: (left, right, bottom, top).  Returns
    (m,) array of bit numbers, ascending.
    """
    logits = places @ weights.T + bias
    split = (logits > 0).any(axis=0) & (logits < 0).any(axis=0)
    runs = ~np.isnan(boundary_ends(weights, bias, window)).any(axis=(1, 2))
    able = np.flatnonzero(split & runs)
    if len(able) <= most:
        return able
    probability = expit(logits[:, able])
    order = qr(probability - probability.mean(axis=0), mode="r", pivoting=True)[1]
    return np.sort(able[order[:most]])


def telling_items(weights: np.ndarray, bias: np.ndarray, most: int) -> np.ndarray:
    """Choose the items with most information on average over a standard Gaussian latent variable, ascending.

    `weights`, `bias`: (d,).

    >>> telling_items(np.array([1.0, -3.0, 2.0]), np.zeros(3), 2).tolist()
    [1, 2]
    """
    nodes, shares = np.polynomial.hermite_e.hermegauss(31)
    probability = expit(nodes[:, None] * weights + bias)
    information = np.square(weights) * (shares @ (probability * (1 - probability)))
    return np.sort(np.argsort(-information, kind="stable")[:most])


# --- places to look at ---


def spread_places(means: np.ndarray, n_places: int = 5) -> np.ndarray:
    """Choose rows that stand for the cloud: one in its middle, then always the one farthest from those chosen.

    Distances are in units of the cloud's standard deviation along its principal directions; the outermost rows
    stand for no cloud and are not chosen.

    Parameters
    ----------
    means : (n, q) array
    n_places : int

    Returns
    -------
    (m, q) array of places, in ascending order of the first coordinate; m <= n_places where rows coincide
    """
    means = np.unique(np.asarray(means, np.float64), axis=0)
    centred = means - means.mean(axis=0)
    left, scale, _ = np.linalg.svd(centred, full_matrices=False)
    round_cloud = left[:, scale > 1e-9 * max(scale.max(initial=0.0), 1e-300)]
    radius = np.square(round_cloud).sum(axis=1)
    able = np.flatnonzero(radius <= np.quantile(radius, 0.9))  # the farthest out are not typical of their side
    chosen = [able[np.argmin(radius[able])]]
    nearest = np.square(round_cloud[able] - round_cloud[chosen[0]]).sum(axis=1)
    while len(chosen) < n_places and nearest.max() > 0:
        chosen.append(able[np.argmax(nearest)])
        nearest = np.minimum(nearest, np.square(round_cloud[able] - round_cloud[chosen[-1]]).sum(axis=1))
    return means[np.sort(chosen)]  # np.unique has sorted the rows


def decode(components: np.ndarray, intercept: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Compute P(bit = 1) at places in the latent space, (m, d).

    Parameters
    ----------
    components, intercept : (q, d) and (d,) arrays
    places : (m, q) array

    Examples
    --------
    >>> decode(np.array([[0.0, 100.0]]), np.zeros(2), np.ones((1, 1))).tolist()
    [[0.5, 1.0]]
    """
    return expit(np.asarray(places, np.float64) @ np.asarray(components, np.float64) + intercept)


# --- the exact posterior of one row ---


def posterior_grid(
    components: np.ndarray,
    intercept: np.ndarray,
    row: np.ndarray,
    extent: Window | None = None,
    n_points: int = 121,
) -> PosteriorGrid:
    """Compute the posterior density of the two latent variables given one row, exact but for the grid.

    Parameters
    ----------
    components, intercept : (2, d) and (d,) arrays
    row : (d,) array
        Bits; NaN where one is missing, and then it says nothing.
    extent : (left, right, bottom, top), optional
        Else four standard deviations and a half to either side of the posterior mean.
    n_points : int
        Along each axis.

    Examples
    --------
    With no bit observed it is the prior:

    >>> prior = posterior_grid(np.ones((2, 3)), np.zeros(3), np.full(3, np.nan))
    >>> np.allclose(prior.covariance, np.eye(2), atol=1e-3)
    True
    """
    weights, row = np.asarray(components, np.float64).T, np.asarray(row, np.float64)
    if weights.shape[1:] != (2,) or row.shape != (len(weights),):
        raise DataError(
            f"a posterior is drawn over 2 latent variables for one row of bits; found components of shape "
            f"{np.shape(components)} and a row of shape {np.shape(row)}"
        )
    seen = ~np.isnan(row)
    weights, bias, bits = weights[seen], np.asarray(intercept, np.float64)[seen], row[seen]
    if extent is not None:
        return _posterior_on(weights, bias, bits, extent, n_points)
    # every posterior is narrower than the prior; a first look finds where it is
    window: Window = (-7.0, 7.0, -7.0, 7.0)
    for _ in range(3):
        found = _posterior_on(weights, bias, bits, window, n_points)
        reach = 4.5 * np.sqrt(np.diag(found.covariance)) + (window[1] - window[0]) / n_points
        (left, bottom), (right, top) = found.mean - reach, found.mean + reach
        window = (float(left), float(right), float(bottom), float(top))
    return _posterior_on(weights, bias, bits, window, n_points)


def _posterior_on(
    weights: np.ndarray, bias: np.ndarray, bits: np.ndarray, window: Window, n_points: int
) -> PosteriorGrid:
    """Compute the posterior of complete bits on a grid over a window."""
    x, y = np.linspace(window[0], window[1], n_points), np.linspace(window[2], window[3], n_points)
    points = np.stack(np.meshgrid(x, y), axis=-1).reshape(-1, 2)
    logits = points @ weights.T + bias
    log_joint = logits @ bits - np.logaddexp(0.0, logits).sum(axis=1) - np.square(points).sum(axis=1) / 2
    log_density = log_joint - logsumexp(log_joint) - np.log((x[1] - x[0]) * (y[1] - y[0]))
    share = np.exp(log_joint - logsumexp(log_joint))
    mean = share @ points
    covariance = (share[:, None] * (points - mean)).T @ (points - mean)
    return PosteriorGrid(log_density.reshape(n_points, n_points), window, mean, covariance)


def mass_levels(log_density: np.ndarray, masses: Sequence[float]) -> np.ndarray:
    """Find the log densities above which lie these shares of all probability, in the order of `masses`.

    `masses`: sequence of shares.

    >>> np.exp(mass_levels(np.log([0.5, 0.3, 0.15, 0.05]), [0.5, 0.8])).round(2).tolist()
    [0.5, 0.3]
    """
    falling = np.sort(np.ravel(log_density))[::-1]
    covered = np.exp(np.logaddexp.accumulate(falling) - logsumexp(falling))
    return falling[np.minimum(np.searchsorted(covered, np.asarray(masses) - 1e-12), len(falling) - 1)]
