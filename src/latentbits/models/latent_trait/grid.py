"""Nodes that stand for all rows, close wherever any column is steep: integrals of eq. 1 in one dimension or two.

Nodes that are placed row by row stand around the posterior of the observed bits, as far apart as that is wide.  They
miss a steep sigmoid: of a column that is hidden, whose mean is then wrong, and of one that is observed, which cuts the
posterior off.  Here nodes are evenly spaced along a curve s(t) with

    ds / dt = sqrt(1 + sum_i w_i^2 / (4 + (w_i t + b_i)^2)) / step

which are a `step` apart where all columns are flat, a posterior's width over sqrt(d) where d are, and a fraction of
1 / w_i where column i is steep, with spacings that grow with the distance from there.  The trapezoidal rule converges
in s as exp(-2 pi (pi / 2) / step), however steep columns are, since the poles of a sigmoid, and of the root, are no
closer than pi / 2 to the real s; so a column without an error costs some twenty nodes.

In two dimensions there is such a rule along every line of a first direction, along which all steep columns change (a
pre-integration: Griewank, Kuo, Leovey & Sloan 2018).  Its result is smooth in the second direction but for kinks where
two steep columns cross, which are columns of that direction's own rule.

Nodes depend on the parameters alone, and are made here on the host, once; for a row there is left a product of its
bits with log-probabilities at the nodes.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicHermiteSpline

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.models.latent_trait import tuning

__all__ = ["Grid", "Integral", "covariance", "for_use", "integrate", "like"]

GAUSS = np.polynomial.legendre.leggauss(4)


_Nodes: TypeAlias = tuple[Array, Array, Array]  # points, log-weights and odd places of a block, or of blocks


class Grid(Module):
    """Nodes for all rows."""

    # points, log_weights: nodes of an expectation over N(0, I); the last ones may only fill a block, with weights of
    # 0
    points: Float[Array | np.ndarray, "points latents"]
    log_weights: Float[Array | np.ndarray, " points"]
    # whether each is at an odd place: of its line, and in two dimensions whether its line is
    odd: Float[Array | np.ndarray, "points latents"]
    # the least that is said of log p(row): a row's own estimate may be 0 by chance
    error: Float[Array | np.ndarray, ""]


class Integral(NamedTuple):
    """Sums over the nodes of a grid, for rows."""

    log_likelihood: Float[Array, " rows"]  # log p(t) of eq. 1.
    # error of it: where every other node is wrong by e, all of them are by about e squared
    error: Float[Array, " rows"]
    mean: Float[Array, "rows latents"]  # mean of the latents
    # P(t_i = 1 | observed bits) of each column, whether it is observed or not.  A third of the work: where it was not
    # asked for it has no columns.
    expected: Float[Array, "rows columns"]


class _Sigmoids(NamedTuple):
    """Columns along a line, sigmoid(slope t + offset); offsets may be those of many lines."""

    slopes: Float[np.ndarray, " columns"]
    offsets: Float[np.ndarray, "*lines columns"]


# ---------------------------------------------------------------- rows


def integrate(
    grid: Grid,
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
    filled: bool = True,
) -> Integral:
    """Integrate over the latents of each row; the means of columns where they are to be `filled` in."""
    n, dtype = len(values), values.dtype
    d, q = w.shape

    def add(carry: tuple[Array, Array], block: _Nodes) -> tuple[tuple[Array, Array], None]:
        (top, sums), (points, _, odd) = carry, block
        joint, a = _joint(block, w, b, values, seen)
        new = jnp.maximum(top, joint.max(1))
        one = jnp.ones((tuning.NODES_PER_BLOCK, 1), dtype)
        terms = jnp.concatenate([one, odd, points, *([jax.nn.sigmoid(a)] if filled else [])], 1)
        return (new, sums * jnp.exp(top - new)[:, None] + _product(jnp.exp(joint - new[:, None]), terms)), None

    nothing = jnp.full(n, jnp.finfo(dtype).min, dtype), jnp.zeros((n, 1 + 2 * q + (d if filled else 0)), dtype)
    (top, sums), _ = jax.lax.scan(add, nothing, _blocks(grid, dtype))
    total, odd, mean, expected = jnp.split(sums, [1, 1 + q, 1 + 2 * q], 1)
    error = jnp.asarray(grid.error, dtype) + jnp.sum((2 * odd / total - 1) ** 2, 1)
    return Integral(top + jnp.log(total[:, 0]), error, mean / total, expected / total)


def covariance(
    known: Integral,
    grid: Grid,
    w: Float[Array, "columns latents"],
    b: Float[Array, " columns"],
    values: Float[Array, "rows columns"],
    seen: Float[Array, "rows columns"],
) -> Float[Array, "rows latents latents"]:
    """Compute the covariance of each row's latents around their known mean: narrow posteriors lose no digits."""

    def add(total: Array, block: _Nodes) -> tuple[Array, None]:
        joint, _ = _joint(block, w, b, values, seen)
        share = jnp.exp(joint - known.log_likelihood[:, None])
        away = block[0] - known.mean[:, None]
        return total + jnp.einsum("nk,nki,nkj->nij", share, away, away), None

    q, dtype = w.shape[1], values.dtype
    return jax.lax.scan(add, jnp.zeros((len(values), q, q), dtype), _blocks(grid, dtype))[0]


def _joint(block: _Nodes, w: Array, b: Array, values: Array, seen: Array) -> tuple[Array, Array]:
    """Compute log weight of each node plus log P(t | x) there, terms of one sign; and the log-odds of the columns."""
    points, log_weights, _ = block
    a = _product(points, w.T) + b
    lost = jnp.log1p(jnp.exp(-jnp.abs(a)))
    ones = _product(values * seen, (jnp.minimum(a, 0) - lost).T)
    zeros = _product((1 - values) * seen, (jnp.minimum(-a, 0) - lost).T)
    return ones + zeros + log_weights, a


def _product(x: Array, y: Array) -> Array:
    return jnp.matmul(x, y, precision=jax.lax.Precision.HIGHEST)


def _blocks(grid: Grid, dtype: np.dtype) -> _Nodes:
    parts = grid.points, grid.log_weights, grid.odd
    points, log_weights, odd = (jnp.asarray(x, dtype).reshape(-1, tuning.NODES_PER_BLOCK, *x.shape[1:]) for x in parts)
    return points, log_weights, odd


# ---------------------------------------------------------------- nodes


def like(q: int) -> Grid:
    """Make a grid of the smallest size, for its shapes."""
    n = tuning.NODES_PER_BLOCK
    return Grid(np.zeros((n, q)), np.zeros(n), np.zeros((n, q)), np.zeros(()))


def for_use(weights: np.ndarray, bias: np.ndarray) -> Grid | None:
    """Make the grid for binary columns of one latent dimension or two, or take it from those made last.

    None where columns are too many, or too steep, for a grid of moderate size.
    """
    w, b = (np.ascontiguousarray(part, np.float64) for part in (weights, bias))
    return _made(w.tobytes(), b.tobytes(), w.shape)


@lru_cache(maxsize=16)
def _made(weights: bytes, bias: bytes, shape: tuple[int, int]) -> Grid | None:
    b, w = np.frombuffer(bias), np.frombuffer(weights).reshape(shape)
    on_line = _on_line, tuning.GRID_ERROR_BY_LINE_STEP
    make, steps = on_line if shape[1] == 1 else (_on_plane, tuning.GRID_ERROR_BY_PLANE_STEP)
    steep = np.linalg.norm(w, axis=1).max(initial=0) > tuning.GRID_STEEP_SLOPE
    for step, error in steps.items():
        made = make(w, b, step)
        if made is not None:
            return _filled(error if steep else 0.0, *made)
    return None


def _filled(error: float, points: np.ndarray, log_weights: np.ndarray, odd: np.ndarray) -> Grid:
    """Fill up to a whole number of blocks: a power of two times 4 to 7, or fewer than that."""
    n = -(-len(points) // tuning.NODES_PER_BLOCK)
    unit = 2 ** max(n.bit_length() - 3, 0)
    more = -(-n // unit) * unit * tuning.NODES_PER_BLOCK - len(points)
    return Grid(
        np.pad(points, [(0, more), (0, 0)]),
        np.pad(log_weights, (0, more), constant_values=-np.inf),
        np.pad(odd, [(0, more), (0, 0)]),
        np.asarray(error),
    )


def _on_line(w: np.ndarray, b: np.ndarray, step: float) -> tuple[np.ndarray, ...] | None:
    columns = _Sigmoids(w[:, 0], b)
    t, log_weight = _rule(columns, step, _range(*columns))
    too_many = t.size * len(b) > tuning.GRID_MOST_NODES_TIMES_COLUMNS
    return None if too_many else (t[:, None], log_weight, _odd(t)[:, None])


def _on_plane(w: np.ndarray, b: np.ndarray, step: float) -> tuple[np.ndarray, ...] | None:
    # nodes across the lines
    outside, along = _directions(w)
    first, second = w @ outside, w @ along
    shrink = 1 / np.sqrt(1 + np.pi / 8 * second**2)  # a sigmoid's mean over the line is about one of these slopes
    seen = _Sigmoids(shrink * first, shrink * b)
    slopes, offsets = _crossings(first, second, b)
    columns = _Sigmoids(np.append(seen.slopes, slopes), np.append(seen.offsets, offsets))
    x, log_weight = _rule(columns, step, _range(*seen))
    # nodes along each line, as long as there is room
    offsets, room = b + x[:, None] * first, tuning.GRID_MOST_NODES_TIMES_COLUMNS // len(b)
    low, high = _range(second, offsets)
    lines = []
    for at, *within in zip(offsets, low, high):
        lines.append(_rule(_Sigmoids(second, at), step, within))
        room -= lines[-1][0].size
        if room < 0:
            return None
    # all lines, one after the other
    number = np.repeat(np.arange(len(x)), [len(t) for t, _ in lines])
    t, log_weights = (np.concatenate(parts) for parts in zip(*lines))
    odd = np.stack([np.concatenate([_odd(t) for t, _ in lines]), number % 2], 1)
    return x[number, None] * outside + t[:, None] * along, log_weights + log_weight[number], odd


def _odd(t: np.ndarray) -> np.ndarray:
    return np.arange(len(t)) % 2.0


def _directions(w: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Choose two axes: across lines, and along them, where the steep column that changes least changes most."""
    angle = np.pi * (np.arange(48) + 0.5) / 48  # of half a circle
    along = np.stack([np.cos(angle), np.sin(angle)], 1)
    size = np.linalg.norm(w, axis=1, keepdims=True)
    share = np.abs(w @ along.T) / np.maximum(size, 1e-300) + (size < tuning.GRID_STEEP_SLOPE)
    best = along[np.argmax(share.min(0))]
    return np.array([best[1], -best[0]]), best


def _crossings(first: np.ndarray, second: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Make columns across the lines, where two steep columns cross: as steep as their integral bends there."""
    i, j = np.triu_indices(len(b), 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio, place, width = first / second, b / second, 1 / np.abs(second)
        slope = np.abs(ratio[i] - ratio[j]) / (width[i] + width[j])
        at = -(place[i] - place[j]) / (ratio[i] - ratio[j])
        height = -(place[i] + ratio[i] * at)
    near = np.hypot(at, height) < 2 * tuning.GRID_REACH_SD
    bends = np.isfinite(slope) & np.isfinite(at) & (slope > tuning.GRID_STEEP_SLOPE) & near
    return slope[bends], -slope[bends] * at[bends]


def _range(slopes: np.ndarray, offsets: np.ndarray) -> tuple[Any, Any]:
    """Find from where to where nodes are needed: beyond the modes of all rows, whatever their bits."""
    reach = tuning.GRID_REACH_SD
    return -_furthest(slopes, -offsets) - reach, _furthest(slopes, offsets) + reach


def _furthest(slopes: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Halve towards the mode of the row whose every bit pushes up: t = sum_i |w_i| sigmoid(-(|w_i| t +- b_i))."""
    steep, offset = np.abs(slopes), np.sign(slopes) * offsets
    low, high = np.zeros(offset.shape[:-1]), np.full(offset.shape[:-1], steep.sum())
    for _ in range(40):
        middle = (low + high) / 2
        push = np.sum(steep * (1 - np.tanh((steep * middle[..., None] + offset) / 2)) / 2, -1)
        low, high = np.where(push > middle, middle, low), np.where(push > middle, high, middle)
    return high


def _rule(columns: _Sigmoids, step: float, within: Any) -> tuple[np.ndarray, np.ndarray]:
    """Make nodes evenly spaced in s, and their log-weights for an expectation over N(0, 1)."""
    mesh = _mesh(columns, *within)
    s = np.append(0, np.cumsum(_length(columns, mesh[:-1], mesh[1:])))
    places = np.linspace(0, s[-1], int(np.ceil(s[-1] / step)) + 1)
    t = CubicHermiteSpline(s, mesh, 1 / _density(columns, mesh))(places)
    before = np.clip(np.searchsorted(mesh, t) - 1, 0, None)
    t += (places - s[before] - _length(columns, mesh[before], t)) / _density(columns, t)  # a step of Newton's
    return t, np.log(places[1] / _density(columns, t)) - 0.5 * t**2 - 0.5 * np.log(2 * np.pi)


def _length(columns: _Sigmoids, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Compute s(b) - s(a), of places in one interval of the mesh."""
    middle, half = (a + b) / 2, (b - a) / 2
    inside = _density(columns, (middle[:, None] + half[:, None] * GAUSS[0]).ravel())
    return half * (inside.reshape(len(a), -1) @ GAUSS[1])


def _density(columns: _Sigmoids, t: np.ndarray) -> np.ndarray:
    """Compute ds / dt for a step of 1."""
    slopes, offsets = columns
    return np.sqrt(1 + np.sum(slopes**2 / (4 + (slopes * t[:, None] + offsets) ** 2), 1))


def _mesh(columns: _Sigmoids, low: float, high: float) -> np.ndarray:
    """Choose points between which s(t) is a cubic to the last digits that matter."""
    parts = [np.linspace(low, high, int((high - low) / tuning.MESH_SPACING) + 2)]
    closer = 0.2  # of arcsinh(slope times distance / 2), around steep columns
    for slope, offset in zip(*columns):
        steep = abs(slope)
        if steep > tuning.GRID_STEEP_SLOPE:
            u = np.arange(0, np.arcsinh(steep * tuning.MESH_SPACING / closer) + closer, closer)
            away = 2 * np.sinh(u) / steep
            parts += [-offset / slope + away, -offset / slope - away]
    mesh = np.unique(np.concatenate(parts))
    mesh = mesh[(mesh >= low) & (mesh <= high)]
    return mesh[np.append(True, np.diff(mesh) > 1e-12 * (high - low))]
