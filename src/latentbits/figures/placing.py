"""Places for the words of a picture, so that none lies on another; nothing here draws."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import isotonic_regression

from latentbits.figures.windows import Window, boundary_ends

__all__ = ["columns_that_fit", "names_round_window", "spread_apart", "text_widths", "widened", "words_on_curves"]


def text_widths(words: Sequence[str], size: float) -> np.ndarray:
    """About how wide each word is at a type size, in points; a little more for most.

    >>> text_widths(["i", "wide"], 10.0).tolist()
    [5.5, 22.0]
    """
    return np.array([0.55 * size * len(word) for word in words])


def columns_that_fit(widths: Sequence[float] | np.ndarray, room: float) -> int:
    """Count the most columns, at least one, in which things fit that are set one below the other.

    >>> columns_that_fit([10.0, 10.0, 40.0], 55.0)
    2
    """
    n = len(widths)
    for n_columns in range(n, 1, -1):
        # as many as possible have one more, and those come first
        sizes = [n // n_columns + (column < n % n_columns) for column in range(n_columns)]
        starts = np.cumsum([0, *sizes[:-1]])
        if np.maximum.reduceat(widths, starts).sum() <= room:
            return n_columns
    return 1


def spread_apart(places: np.ndarray, sizes: np.ndarray, low: float, high: float) -> np.ndarray:
    """Places along a line moved as little as possible until things of these sizes, centred there, do not overlap.

    The order stays, and all stay between `low` and `high`; where they cannot fit, all are given less room alike.

    `places`, `sizes`: (n,).

    >>> spread_apart(np.array([5.0, 5.0, 9.0]), np.full(3, 2.0), 0.0, 10.0).tolist()
    [4.0, 6.0, 9.0]
    """
    places, sizes = np.asarray(places, np.float64), np.asarray(sizes, np.float64)
    if len(places) == 0:
        return places
    sizes = sizes * min(1.0, (high - low) / sizes.sum())
    order = np.argsort(places, kind="stable")
    # with the room taken by those before subtracted, "no overlap" is "not descending": an isotonic regression
    before = np.cumsum(sizes[order]) - sizes[order] / 2
    free = isotonic_regression(places[order] - before).x
    moved = np.empty_like(places)
    moved[order] = np.clip(free, low, high - sizes.sum()) + before
    return moved


def widened(window: Window, aspect: float, most: float = 1.25) -> Window:
    """Widen or heighten a window about its middle to an aspect (width / height); at most by a factor.

    >>> widened((0.0, 1.0, 0.0, 1.0), 1.5, most=2.0)
    (-0.25, 1.25, 0.0, 1.0)
    """
    left, right, bottom, top = window
    more = aspect * (top - bottom) / (right - left)
    across, up = min(max(more, 1.0), most), min(max(1 / more, 1.0), most)
    half_width, half_height = across * (right - left) / 2, up * (top - bottom) / 2
    x, y = (left + right) / 2, (bottom + top) / 2
    return x - half_width, x + half_width, y - half_height, y + half_height


class NameRing(NamedTuple):
    """Lines across a window, and their names round it."""

    limits: Window  # of the axes: the window and the room for the names
    scale: float  # points in one unit
    ends: np.ndarray  # (m, 2, 2): where each line enters and leaves the window
    # named, targets: (m, 2): the end at which it is named, and where the name begins
    named: np.ndarray
    targets: np.ndarray
    sides: np.ndarray  # (m,): 0 to 3: left, right, below, above
    upright: np.ndarray  # (m,) bool: where names are written upwards


def names_round_window(
    weights: np.ndarray, bias: np.ndarray, widths: np.ndarray, height: float, window: Window, size: tuple[float, float]
) -> NameRing:
    """Places for the names of the lines w . x + b = 0 round a window that they cross, none on another.

    The window is widened, so that with the names it fills the axes at equal scales.

    `weights`, `bias`: (m, 2) and (m,).  `widths` (m,): of the names, in points.  `height`: of a line of text, in
    points.  `window`: (left, right, bottom, top).  `size`: (width, height) of the axes, in points.
    """
    inner = widened(window, size[0] / size[1])
    for _ in range(3):  # the names' room depends on the window, which depends on the room they leave
        ends = boundary_ends(weights, bias, inner)
        sides, named = _choose_sides(ends, inner)
        # upwards where the names below or above do not fit beside one another
        crowded = [side >= 2 and widths[sides == side].sum() > 0.6 * size[0] for side in range(4)]
        upright = np.array(crowded)[sides]
        depth = np.where((sides < 2) | upright, widths, height)
        # points between a window and the names beyond it
        room = [9.0 + depth[sides == side].max() if (sides == side).any() else 0.0 for side in range(4)]
        free = size[0] - room[0] - room[1], size[1] - room[2] - room[3]
        last, inner = inner, widened(window, free[0] / free[1])
    left, right, bottom, top = last
    scale = min(free[0] / (right - left), free[1] / (top - bottom))
    outer = np.array(last) + np.array([-1, 1, -1, 1]) * room / scale
    limits: Window = (float(outer[0]), float(outer[1]), float(outer[2]), float(outer[3]))
    targets = np.empty_like(named)
    for side in range(4):
        here = sides == side
        along = 1 if side < 2 else 0
        lengths = np.where(upright[here] | (side < 2), height, widths[here] + height / 2)
        low, high = limits[2:] if along else limits[:2]
        targets[here, along] = spread_apart(named[here, along], lengths / scale, low, high)
        targets[here, 1 - along] = last[side] + (-1, 1)[side % 2] * 6.0 / scale  # points bridged by a line
    return NameRing(limits, scale, ends, named, targets, sides, upright)


def _choose_sides(ends: np.ndarray, window: Window) -> tuple[np.ndarray, np.ndarray]:
    """At which of its two ends each line is named, as the number of the side and the point.

    It is the end that is farther from those already taken: names spread all round.
    """
    borders, taken, sides = np.array(window), np.empty((0, 2)), np.empty(len(ends), int)
    for line, pair in enumerate(ends):
        free = [np.min(np.hypot(*(taken - point).T), initial=np.inf) for point in pair]
        point = pair[1] if free[1] >= free[0] else pair[0]
        sides[line] = np.argmin(np.abs(borders - np.repeat(point, 2)))
        taken = np.vstack([taken, point])
    return sides, taken


def words_on_curves(x: np.ndarray, curves: np.ndarray, widths: np.ndarray, height: float) -> np.ndarray:
    """Find a place on each curve for its name: away from the other curves, and no two names overlapping.

    `x` (n,): in points, ascending, as are all lengths here.  `curves`: (k, n).  `widths` (k,): of the names.  `height`:
    of a line of text.  Returns (k, 2) array of the names' centres.
    """
    curves, middle = np.asarray(curves, np.float64), np.zeros((len(curves), 2))
    placed: list[int] = []
    for this in np.argsort(-np.asarray(widths), kind="stable"):  # the longest first: they have the least choice
        inside = (x - widths[this] / 2 >= x[0]) & (x + widths[this] / 2 <= x[-1])
        inside |= ~inside.any()
        others = np.delete(curves, this, axis=0)
        under = np.abs(x[:, None] - x) <= widths[this] / 2  # (place, point): which points its name would cover
        apart = np.abs(others[:, None] - curves[this][:, None])  # of the others there from the name's middle
        clear = np.where(under, apart, 8 * height).min(axis=(0, 2), initial=8 * height)
        for other in placed:
            aside = np.abs(x - middle[other, 0]) - (widths[this] + widths[other]) / 2
            above = np.abs(curves[this] - middle[other, 1]) - height
            gap = np.maximum(aside, above)
            # overlap counts for more than any closeness to a curve
            clear = np.where(gap < 0, gap - 10 * height, clear)
        best = np.argmax(np.where(inside, clear, -np.inf))
        middle[this] = x[best], curves[this, best]
        placed.append(int(this))
    return middle
