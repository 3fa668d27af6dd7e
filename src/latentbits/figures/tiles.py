"""Sheets of tiles with squares in them: what Hinton diagrams and pictures of layers are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.style import EDGE, INK, PAPER, SMALL, bare

__all__ = [
    "FULL",
    "GROUND",
    "Places",
    "draw_grounds",
    "draw_squares",
    "fit_sheet",
    "images_checked",
    "in_short",
    "largest_of",
    "lay_out",
    "sheet_size",
    "word_below",
    "words_for",
]

GROUND = "#eef1f3"
FULL = 0.94  # side of the largest square, of a cell


class Places(NamedTuple):
    """Positions of tiles in a sheet: `left` and `top` of each, the size of one, and the width of the sheet."""

    left: np.ndarray
    top: np.ndarray
    width: float
    height: float
    across: float


def lay_out(n: int, n_columns: int | None, width: float, height: float, gap: float, above: float) -> Places:
    """Lay tiles side by side, `n_columns` in a row; `above` is kept free over each."""
    across = min(n, 10) if n_columns is None else n_columns
    if across < 1:
        raise DataError(f"n_columns must be at least 1, found {n_columns!r}")
    number = np.arange(n)
    left, top = (number % across) * (width + gap), (number // across) * (height + gap + above) + above
    return Places(left, top, width, height, across * (width + gap) - gap)


# --- drawing ---


def draw_squares(ax: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, top: float, cell: float = 1.0) -> None:
    """Draw squares about places, of areas in proportion to the sizes of values; full where positive."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    side = cell * FULL * np.sqrt(np.minimum(np.abs(values) / top, 1.0))
    seen = side > 0.02 * cell
    for sign, colour in ((1, INK), (-1, PAPER)):
        mine = np.flatnonzero(seen & (np.sign(values) == sign))
        squares = [Rectangle((x[i] - side[i] / 2, y[i] - side[i] / 2), side[i], side[i]) for i in mine]
        ax.add_collection(
            PatchCollection(squares, edgecolor=INK, facecolor=colour, linewidth=0.5, zorder=2), autolim=False
        )


def draw_grounds(ax: Any, places: Places) -> None:
    """Draw a light ground for every tile, so that cells without weight are seen."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    grounds = [Rectangle((left, top), places.width, places.height) for left, top in zip(places.left, places.top)]
    ax.add_collection(
        PatchCollection(grounds, facecolor=GROUND, edgecolor=EDGE, linewidth=0.5, zorder=1), autolim=False
    )


# --- what was given ---


def images_checked(weights: np.ndarray, image_shape: tuple[int, int]) -> np.ndarray:
    """Check images and return one a row, in float64."""
    weights = np.asarray(weights, np.float64)
    height, width = image_shape
    if weights.ndim != 2 or weights.shape[1] != height * width or not np.isfinite(weights).all():
        raise DataError(
            f"weights must be finite and (m, {height * width}) for images of {height} x {width}, found {weights.shape}"
        )
    return weights


def words_for(labels: Sequence[str] | None, n: int, head: str = "") -> list[str]:
    """Return the labels, or numbers from 1."""
    words = [f"{head}{number + 1}" for number in range(n)] if labels is None else [str(one) for one in labels]
    if len(words) != n:
        raise DataError(f"{len(words)} labels for {n} units")
    return words


def largest_of(values: np.ndarray, given: float | None) -> float:
    """Return the value that a square filling its cell stands for."""
    if given is not None and not given > 0:
        raise DataError(f"the value of the largest square must be positive, found {given!r}")
    return float(given) if given is not None else max(float(np.abs(values).max(initial=0.0)), np.finfo(float).tiny)


def in_short(value: float) -> str:
    """
    >>> in_short(6.0), in_short(0.857142), in_short(27.13)
    ('6', '0.86', '27')
    """
    return f"{value:.2g}"


def sheet_size(places: Places, gap: float, scale: float = 1.0) -> tuple[float, float]:
    """Choose the inches of a sheet: a cell of a matrix is a ninth of an inch."""
    across, down = _extent(places, gap)
    return max(scale * across / 8, 2.5), max(scale * down / 8, 1.2) + 0.3


def _extent(places: Places, gap: float) -> tuple[float, float]:
    return places.across, float(places.top.max()) + places.height + gap


def fit_sheet(ax: Any, places: Places, gap: float) -> None:
    """Show the whole sheet, y downwards, no axes."""
    across, down = _extent(places, gap)
    ax.set_xlim(-0.02 * across, 1.02 * across)
    ax.set_ylim(down, -0.01 * down)
    ax.set_aspect("equal")
    bare(ax)


def word_below(ax: Any, x: float, y: float, word: str) -> None:
    ax.annotate(
        word,
        (x, y),
        xytext=(0, -2),
        textcoords="offset points",
        ha="center",
        va="top",
        fontsize=SMALL,
        color=INK,
        parse_math=False,
    )
