"""Deterministic clipping: which latents y produce a row of bits s_i = sgn(phi_i + w_i . y).

Every bit is a hyperplane, and a row of bits is a cell between the hyperplanes, or none at all: N hyperplanes in P
dimensions have far fewer cells than 2^N.  Whether a row has a cell is a convex question, answered exactly; the y with
the fewest wrong bits of a row that has none is a hard combinatorial one, answered by local search.

Signs are -1, 0, 1, where 0 is a missing bit and no constraint.  A column without weights is decided by its phi alone:
it counts as violated where its sign is wrong, and takes no part in anything else.  Everything is in float64.
"""

from __future__ import annotations

from math import comb
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.packed_symmetric import products, unpack
from latentbits.models.clipped_gaussian.tuning import CELL_SLIDES

__all__ = ["Planes", "centre", "find", "n_cells", "n_distinct_planes", "nearest", "planes", "violated"]

TINY = 1e-290  # keeps quotients finite


class Planes(NamedTuple):
    """Hyperplanes with unit normals, s_i (w_i . y + phi_i) > 0 inside, and which of them bound a row's cell."""

    normal: Float[Array, "columns latents"]
    offset: Float[Array, " columns"]
    signs: Float[Array, "rows columns"]


def violated(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"],
) -> Bool[Array, "rows columns"]:
    """Mark where the clipped y is not the bit observed; zero clips to -1, a missing bit is never wrong."""
    return (signs != 0) & ((y @ weights.T + phi > 0) != (signs > 0))


def planes(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"] | None = None,
) -> Planes:
    """Return the hyperplanes of the columns that have weights; given y, those around y, whatever the bits say.

    For a row that has a cell and a y inside it the two are the same.  For one that has none, the second are of the
    nearest row that has one.
    """
    length = jnp.linalg.norm(weights, axis=1)
    moves = length > 0
    scale = jnp.where(moves, 1 / jnp.where(moves, length, 1), 0)
    if y is not None:
        signs = jnp.where(signs == 0, 0.0, jnp.where(y @ weights.T + phi > 0, 1.0, -1.0))
    return Planes(weights * scale[:, None], jnp.where(moves, phi, 0) * scale, jnp.where(moves, signs, 0.0))


def find(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    key: Key[Array, ""],
    n_slides: int = CELL_SLIDES,
) -> tuple[Float[Array, "rows latents"], Int[Array, " rows"]]:
    """Find a y well inside the cell of each row, or, where there is none, one with few violated bits; and their number.

    A row has a cell if and only if the minimum over (v, t) of ``sum max(0, 1 - s_i (phi_i t + w_i . v))^2 +
    max(0, 1 - t)^2`` is 0, and ``y = v / t`` is then inside it.  That is convex and piecewise quadratic, and Newton's
    method with a line search ends after a few steps, however narrow the cell.

    For rows without a cell the hinges are reweighted, the most violated the least, and a local search follows.  Each
    of its steps slides: it moves y onto a few hyperplanes close by, along a random line within all of them to where
    the fewest other bits are wrong, and off them again, to their right sides if that pays.  The best place on a line
    is found exactly.  So the answer is the best there is with one latent, and with two if there are no more columns
    than slides.  The random numbers are the same for all rows: an answer does not depend on which rows share a batch.

    `n_slides`: steps of the local search; 0 for none.  It is skipped where every row of the batch has a cell.
    """
    at = planes(weights, phi, signs)

    def round_(_: Any, carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        u, importance, y, fewest = carry
        u = _hinges(at, importance, u)
        t, v = u[:, -1:], u[:, :-1]
        size = jnp.linalg.norm(v, axis=1, keepdims=True)
        inside = jnp.all(_margins(at, u) >= 0, 1, keepdims=True) & (t > 0)
        # a search for the fewest violated bits starts no farther from the origin than 1000
        candidate = v / jnp.where(inside, t, jnp.maximum(jnp.maximum(t, size / 1e3), TINY))
        y, fewest = _better(at, y, fewest, candidate)
        excess = jnp.maximum(0, 1 - _margins(at, u))
        return u, jnp.where(inside, 1, 1 / (1 + excess) ** 2), y, fewest

    n, d, q = *signs.shape, weights.shape[1]
    every = q == 2 and d <= n_slides  # a cell lies along some line, so that a slide on each of them is exact

    def slide(carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        step, y, fewest = carry
        candidate = _slide(at, y, jax.random.fold_in(key, step), step % d if every else None)
        y, fewest = _better(at, y, fewest, candidate)
        return step + 1, y, fewest

    # the convex problem, the reweighted ones, and the local search
    y = jnp.zeros((n, q), weights.dtype)
    first = (jnp.zeros((n, q + 1), weights.dtype), jnp.ones_like(at.signs), y, _count(at, y))
    *_, y, fewest = jax.lax.fori_loop(0, 1 + 8, round_, first)  # of which 8 reweight hinges
    steps = min(n_slides, 1) if q == 1 else n_slides
    if steps:
        _, y, fewest = jax.lax.while_loop(
            lambda c: (c[0] < steps) & jnp.any(c[2] > 0), slide, (jnp.asarray(0), y, fewest)
        )
    y = centre(weights, phi, signs, y)
    return y, jnp.sum(violated(weights, phi, signs, y), 1)


def _count(at: Planes, y: Float[Array, "rows latents"]) -> Int[Array, " rows"]:
    return jnp.sum(violated(at.normal, at.offset, at.signs, y), 1)


def _better(at: Planes, y: Array, fewest: Array, candidate: Array) -> tuple[Array, Array]:
    """Take the candidate where it violates no more bits, else y."""
    count = _count(at, candidate)
    better = count <= fewest  # no more: a search that only ever descends soon finds no way on
    return jnp.where(better[:, None], candidate, y), jnp.where(better, count, fewest)


def _cone(at: Planes) -> Float[Array, "columns extended"]:
    """Return normals in (v, t), of unit length: far hyperplanes would otherwise outweigh the near ones."""
    rows = jnp.concatenate([at.normal, at.offset[:, None]], 1)
    return rows / jnp.sqrt(jnp.maximum(jnp.sum(rows**2, 1, keepdims=True), TINY))


def _margins(at: Planes, u: Float[Array, "rows extended"]) -> Float[Array, "rows columns"]:
    return at.signs * (u @ _cone(at).T)


def _hinges(
    at: Planes, importance: Float[Array, "rows columns"], u: Float[Array, "rows extended"]
) -> Float[Array, "rows extended"]:
    """Minimise ``sum importance max(0, 1 - margin)^2 + max(0, 1 - t)^2`` until no margin is negative or it is done."""
    cone = _cone(at)
    squares = products(cone)
    size = cone.shape[1]
    importance = jnp.where(at.signs == 0, 0.0, importance)

    def inside(u: Array, margin: Array) -> Array:
        return jnp.all((margin > 0) | (importance == 0), 1) & (u[:, -1] > 0)

    def step(carry: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        number, u, margin, done = carry
        active = jnp.where(margin < 1, importance, 0)
        short = jnp.maximum(0, 1 - u[:, -1])
        gradient = ((active * (1 - margin) * at.signs) @ cone).at[:, -1].add(short)
        curvature = unpack(active @ squares, size).at[:, -1, -1].add(short > 0)
        # fewer active hinges than dimensions leave directions free; the ridge keeps the step from going there
        ridge = 1e-12 * jnp.trace(curvature, axis1=1, axis2=2) + TINY
        curvature = curvature + ridge[:, None, None] * jnp.eye(size, dtype=u.dtype)
        factor = jax.scipy.linalg.cho_factor(curvature, lower=True)
        move = jax.scipy.linalg.cho_solve(factor, gradient[..., None])[..., 0]
        move = jnp.where(jnp.all(jnp.isfinite(move), 1, keepdims=True), move, gradient)
        gain = jnp.sum(gradient * move, 1)
        height = jnp.sum(active * (1 - margin) ** 2, 1) + short**2
        done = done | (gain <= 1e-14 * height)
        rate = at.signs * (move @ cone.T)

        def slope(a: Array) -> tuple[Array, Array]:
            hinge = jnp.maximum(0, 1 - margin - a[:, None] * rate)
            last = jnp.maximum(0, 1 - u[:, -1] - a * move[:, -1])
            first = -jnp.sum(importance * hinge * rate, 1) - last * move[:, -1]
            return first, jnp.sum(jnp.where(hinge > 0, importance * rate**2, 0), 1) + (last > 0) * move[:, -1] ** 2

        length = _line_minimum(slope, gain, done)
        new = u + jnp.where(done, 0, length)[:, None] * jnp.where(done[:, None], 0, move)
        margin = at.signs * (new @ cone.T)
        return number + 1, new, margin, done | inside(new, margin)

    margin = at.signs * (u @ cone.T)
    carry = (jnp.asarray(0), u, margin, inside(u, margin))
    # rows of a model take about 10 steps, of 256 columns and 16 latents too
    return jax.lax.while_loop(lambda c: (c[0] < 60) & ~jnp.all(c[3]), step, carry)[1]


def _line_minimum(slope: Any, gain: Float[Array, " rows"], done: Bool[Array, " rows"]) -> Float[Array, " rows"]:
    """Find a step a > 0 at which a convex function along a line is nearly flat; `slope` gives its two derivatives."""

    def narrow(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        number, low, high, a, good = carry
        first, second = slope(a)
        low = jnp.where(first <= 0, a, low)
        high = jnp.where(first > 0, a, high)
        good = good | ((first <= 1e-6 * gain) & (first >= -0.1 * gain))
        new = a - first / jnp.maximum(second, TINY)
        gap = high - low
        # a Newton step that rounds to the end of the bracket would not narrow it
        inner = jnp.clip(new, low + 0.01 * gap, high - 0.01 * gap)
        new = jnp.where(jnp.isinf(high), jnp.clip(new, 1.01 * a, 100 * a), inner)
        return number + 1, low, high, jnp.where(good, a, new), good

    one = jnp.ones_like(gain)
    carry = (jnp.asarray(0), 0 * one, jnp.inf * one, one, done)
    _, low, _, a, good = jax.lax.while_loop(lambda c: (c[0] < 40) & ~jnp.all(c[4]), narrow, carry)
    return jnp.where(good, a, low)


def _slide(
    at: Planes, y: Float[Array, "rows latents"], key: Key[Array, ""], turn: Int[Array, ""] | None
) -> Float[Array, "rows latents"]:
    """Move onto a few hyperplanes close to y, along them to where the fewest other bits are wrong, and off them again.

    `turn` is a hyperplane that must be among them.
    """
    n, q = y.shape
    keys = jax.random.split(key, 4)
    direction = jax.random.normal(keys[0], (q,), y.dtype)
    held = min(q - 1, 4, at.offset.shape[0])
    if not held:
        return _best_on_line(at, y, jnp.broadcast_to(direction, y.shape), keys[1])
    # the hyperplanes, mostly near ones
    x = y @ at.normal.T + at.offset
    far = jnp.log(jnp.abs(x) + 1e-12) + jax.random.gumbel(keys[2], x.shape[1:], y.dtype)
    far = jnp.where(at.signs == 0, jnp.inf, far)
    if turn is not None:
        far = far.at[:, turn].set(-jnp.inf)
    chosen = []
    for _ in range(held):  # a few minima take far less time than `top_k`
        chosen.append(jnp.argmin(far, 1))
        far = far.at[jnp.arange(n), chosen[-1]].set(jnp.inf)
    which = jnp.stack(chosen, 1)
    normals = at.normal[which]
    # parallel hyperplanes among them need the ridge; the move is then somewhat beside them
    gram = jnp.einsum("nik,njk->nij", normals, normals) + 1e-12 * jnp.eye(held, dtype=y.dtype)
    factor = jax.scipy.linalg.cho_factor(gram, lower=True)

    def towards(amount: Float[Array, "rows held"]) -> Float[Array, "rows latents"]:
        """Find the shortest vector that has these products with the normals."""
        return jnp.einsum("nik,ni->nk", normals, jax.scipy.linalg.cho_solve(factor, amount[..., None])[..., 0])

    # onto them, along them, and off them
    on = y - towards(jnp.take_along_axis(x, which, 1))
    along = direction - towards(normals @ direction)
    others = at._replace(signs=at.signs.at[jnp.arange(n)[:, None], which].set(0))
    best = _best_on_line(others, on, along, keys[1])
    return _best_on_line(at, best, towards(jnp.take_along_axis(at.signs, which, 1)), keys[3])


def _best_on_line(
    at: Planes, y: Float[Array, "rows latents"], direction: Float[Array, "rows latents"], key: Key[Array, ""]
) -> Float[Array, "rows latents"]:
    """Find the middle of an interval of the line y + a direction on which the fewest bits are wrong.

    That number changes by one at every crossing a_i = -(phi_i + w_i . y) / (w_i . direction); sorting them gives it
    for all intervals.  One of those with the fewest is picked at random.
    """
    x, rate = y @ at.normal.T + at.offset, direction @ at.normal.T
    length = jnp.linalg.norm(direction, axis=1, keepdims=True)
    crosses = (at.signs != 0) & (jnp.abs(rate) > 1e-12 * length)
    crossing = jnp.where(crosses, -x / jnp.where(crosses, rate, 1), jnp.inf)
    rights = jnp.where(crosses & (at.signs * rate > 0), 1.0, 0.0)
    change = jnp.where(crosses, 1 - 2 * rights, 0)
    crossing, change = jax.lax.sort((crossing, change), num_keys=1)
    before = rights.sum(1, keepdims=True)  # the columns that never cross add the same to all intervals
    count = jnp.concatenate([before, before + jnp.cumsum(change, 1)], 1)
    end = jnp.full((len(y), 1), jnp.inf, y.dtype)
    low, high = jnp.concatenate([-end, crossing], 1), jnp.concatenate([crossing, end], 1)
    exists = low < high
    beyond = 1 / jnp.maximum(length, TINY)  # how far into an interval without end
    low, high = (
        jnp.where(jnp.isinf(low), jnp.where(jnp.isinf(high), -beyond, high - 2 * beyond), low),
        jnp.where(jnp.isinf(high), jnp.where(jnp.isinf(low), beyond, low + 2 * beyond), high),
    )
    exists = exists & (high - low > 1e-12 * (jnp.abs(low) + jnp.abs(high)))
    ranked = count - 0.5 * jax.random.uniform(key, count.shape[1:], y.dtype)
    chosen = jnp.argmin(jnp.where(exists, ranked, jnp.inf), 1)[:, None]
    middle = (jnp.take_along_axis(low, chosen, 1) + jnp.take_along_axis(high, chosen, 1)) / 2
    return jnp.where(jnp.isfinite(middle), y + middle * direction, y)


def centre(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"],
) -> Float[Array, "rows latents"]:
    """Move from a point inside a cell to its middle: the minimum of ``|y|^2 / 2 - (P / N) sum log distance_i(y)``.

    With that factor, where N counts the bits observed, the middle of a cone is as far out as its Gaussian mass.
    """
    at = planes(weights, phi, signs, y)
    return _interior(at, y, weights.shape[1] / jnp.maximum(jnp.sum(jnp.abs(at.signs), 1), 1))


def nearest(
    weights: Float[Array, "columns latents"],
    phi: Float[Array, " columns"],
    signs: Float[Array, "rows columns"],
    y: Float[Array, "rows latents"],
) -> Float[Array, "rows latents"]:
    """Find the mode of the latents given the bits: the point of the cell's closure nearest to the origin.

    `y` must be inside the cell.  Bits that it violates are taken as y has them.
    """
    return _interior(planes(weights, phi, signs, y), y, jnp.full(len(y), 1e-16, y.dtype))


def _interior(
    at: Planes, y: Float[Array, "rows latents"], target: Float[Array, " rows"]
) -> Float[Array, "rows latents"]:
    """Minimise ``|y|^2 / 2 - target sum log distance_i(y)`` from the inside: primal-dual Newton steps.

    The multipliers are ``target / distance`` at the solution.  To vary them along with y, rather than to put in what
    they are, keeps the number of steps small whatever the cell and the target (Wright 1997).
    """
    bounding = at.signs != 0
    squares = products(at.normal)
    q = y.shape[1]

    def distances(y: Array) -> Array:
        return jnp.where(bounding, jnp.maximum(at.signs * (y @ at.normal.T + at.offset), 1e-30), 1)

    def step(carry: tuple[Array, Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array, Array]:
        number, y, distance, force, done = carry
        mean = jnp.sum(distance * force, 1) / jnp.maximum(jnp.sum(bounding, 1), 1)
        aim = jnp.maximum(0.1 * mean, target)[:, None]
        stiffness = unpack((force / distance) @ squares, q) + jnp.eye(q, dtype=y.dtype)
        push = jnp.where(bounding, at.signs * aim / distance, 0) @ at.normal - y
        factor = jax.scipy.linalg.cho_factor(stiffness, lower=True)
        move = jax.scipy.linalg.cho_solve(factor, push[..., None])[..., 0]
        # as far as distances and multipliers stay positive
        rate = at.signs * (move @ at.normal.T)
        pull = jnp.where(bounding, (aim - force * (distance + rate)) / distance, 0)
        length = _within(distance, rate)
        ended = ~jnp.all(jnp.isfinite(move), 1) | done
        new = jnp.where(ended[:, None], y, y + length[:, None] * move)
        force = jnp.where(ended[:, None], force, force + _within(force, pull)[:, None] * pull)
        small = jnp.linalg.norm(length[:, None] * move, axis=1) <= 1e-9 * (1e-3 + jnp.linalg.norm(new, axis=1))
        return number + 1, new, distances(new), force, ended | (small & (mean <= 2 * target))

    distance = distances(y)
    carry = (jnp.asarray(0), y, distance, jnp.where(bounding, 1 / distance, 0), jnp.zeros(len(y), bool))
    # 15 to 25 steps are usual
    return jax.lax.while_loop(lambda c: (c[0] < 100) & ~jnp.all(c[4]), step, carry)[1]


def _within(x: Float[Array, "rows columns"], change: Float[Array, "rows columns"]) -> Float[Array, " rows"]:
    """Return the longest step, 1 at most, that keeps x positive."""
    return jnp.minimum(1, 0.99 * jnp.min(jnp.where(change < 0, -x / jnp.where(change < 0, change, 1), jnp.inf), 1))


def n_cells(n_columns: int, n_components: int, bias: bool = True) -> int:
    """Count the distinct rows that `n_columns` clipped Gaussians of `n_components` latents can produce.

    For hyperplanes in general position; without biases they all pass through the origin (Cover 1965).

    >>> n_cells(3, 2), n_cells(256, 2, bias=False)
    (7, 512)
    """
    if bias:
        return sum(comb(n_columns, k) for k in range(n_components + 1))
    return 2 * sum(comb(n_columns - 1, k) for k in range(n_components))


def n_distinct_planes(weights: np.ndarray, phi: np.ndarray) -> int:
    """Count the different hyperplanes of the columns that have weights, up to nine digits."""
    length = np.linalg.norm(weights, axis=1)
    planes = np.column_stack([weights, phi])[length > 0] / length[length > 0, None]
    turned = planes * np.where(planes[np.arange(len(planes)), np.argmax(np.abs(planes), 1)] < 0, -1, 1)[:, None]
    return len(np.unique(turned.round(9) + 0.0, axis=0))
