"""The parts of the page beside the map, for print: loadings with intervals, the table as a picture, what fits worst.

Each takes what the page shows, and returns a matplotlib Figure.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.core.printable import printable
from latentbits.explorer.content import Content, Map, Table
from latentbits.figures.any_model.pictures import sheet
from latentbits.figures.clipped_gaussian.pictures import plot_weights
from latentbits.figures.style import ACCENT, GREY, PAPER, ink, short, signed

__all__ = ["draw_loadings", "draw_misfit", "draw_table"]

MOST_LINES = 30  # columns, or rows, with their names
MOST_NAMED = 60  # rows or columns of the table beside which their names stand
MOST_PIXELS = 900
TIMES = 1.96  # standard errors on either side of an interval that holds 95 of 100


def draw_loadings(content: Content) -> Any:
    """Draw loadings of the columns on both axes of the map, with their 95 % intervals where they are known.

    There is a line for each of the columns that change most along the map; of images, the loadings are images.
    """
    where, table = _map_of(content), content.table
    errors = None if content.axes is None else content.axes.errors
    title = f"{table.source}: loadings on the axes of the map"
    if table.image_shape is not None:
        with sheet((9.2, 5.2), title) as figure:
            plot_weights(where.weights, table.image_shape, figure.subplots(), n_columns=2)
        return figure
    shown = np.argsort(-_reach(where, table), kind="stable")[:MOST_LINES]
    with sheet((11, 1.9 + 0.27 * len(shown)), title) as figure:
        for axis, ax in enumerate(figure.subplots(1, 2, sharex=True)):
            weights = where.weights[axis, shown]
            bars = np.full(len(shown), np.nan) if errors is None else TIMES * errors[axis, shown]
            sure = ~(np.abs(weights) <= bars)
            _dots(ax, weights, bars, sure)
            names = [short(table.columns[j]) for j in shown] if axis == 0 else [""] * len(shown)
            ax.set_yticks(range(len(shown)), labels=names, parse_math=False)
            ax.set_title(f"trait {axis + 1}")
            ax.set_xlabel(("mean" if table.real else "log odds") + " per unit")
        words = "bars: 95 % intervals, grey where they hold 0" if errors is not None else _no_errors(content)
        figure.supxlabel(words, x=0.012, ha="left", color=GREY, fontsize=10)
    return figure


def draw_table(content: Content) -> Any:
    """Draw the cells of the table: rows in the order of trait 1, columns in that of their loadings on it.

    One pixel is a cell, or a block of cells where there are very many.
    """
    where, table = _map_of(content), content.table
    down, across = (np.argsort(x, kind="stable") for x in (where.means[:, 0], where.weights[0]))
    cells = table.values[down][:, across]
    if table.real:
        cells = (cells - np.nanmean(table.values, axis=0)[across]) / np.nanstd(table.values, axis=0)[across].clip(1e-12)
    n, d = cells.shape
    with sheet((min(13, 5 + 0.2 * d), min(11, 3 + 0.16 * n)), f"{table.source}: the table") as figure:
        ax = figure.subplots()
        limits = {"cmap": signed(), "vmin": -2, "vmax": 2} if table.real else {"cmap": ink(), "vmin": 0, "vmax": 1}
        ax.imshow(
            block_means(cells), aspect="auto", interpolation="nearest", extent=(-0.5, d - 0.5, n - 0.5, -0.5), **limits
        )
        holes = "; white: missing" if np.isnan(cells).any() else ""
        ax.set_xlabel(f"{d:,} columns by their loading on trait 1{holes}")
        ax.set_ylabel(f"{n:,} rows by trait 1")
        if d <= MOST_NAMED:
            names = [short(table.columns[j]) for j in across]
            ax.set_xticks(range(d), labels=names, rotation=90, fontsize=8, parse_math=False)
        if n <= MOST_NAMED and table.row_names is not None:
            names = [short(table.row_names[i]) for i in down]
            ax.set_yticks(range(n), labels=names, fontsize=8, parse_math=False)
    return figure


def draw_misfit(content: Content) -> Any:
    """Draw the rows and the columns that the model of the map fits worst.

    Bits of rows beyond what is expected, and what a cell of a column costs by the others, and alone.
    """
    found, table = content.misfit, content.table
    if found is None:
        raise DataError("nothing to draw: only a map that has converged shows what fits worst")
    names = table.row_names or tuple(f"row {number}" for number in table.numbers)
    rows = slice(0, MOST_LINES)
    columns = np.argsort(-np.nan_to_num(found.column_bits), kind="stable")[:MOST_LINES]
    most = max(len(found.rows[rows]), len(columns), 6)
    with sheet((13, 2.2 + 0.27 * most), f"{table.source}: what fits worst") as figure:
        left, right = figure.subplots(1, 2)
        _pairs(left, found.beyond[rows], 2 * found.sd[rows], [names[i] for i in found.rows[rows]])
        left.set_title("Rows: bits beyond what is expected")
        left.set_xlabel("bits; hollow: two standard deviations of what is expected")
        _pairs(right, found.column_bits[columns], found.column_alone[columns], [table.columns[j] for j in columns])
        right.set_title("Columns: bits a cell costs")
        right.set_xlabel("bits per cell, given the others; hollow: by its mean alone")
    return figure


def block_means(cells: np.ndarray, most: int = MOST_PIXELS) -> np.ndarray:
    """Means of blocks of cells, `most` a side at most; NaN where nothing is known.

    >>> bool(np.allclose(block_means(np.array([[0.0, 1.0], [1.0, np.nan]]), most=1), [[2 / 3]]))
    True
    """
    known, sums = ~np.isnan(cells), np.nan_to_num(cells)
    for axis in (0, 1):
        n = cells.shape[axis]
        starts = np.arange(min(n, most)) * n // min(n, most)
        sums, known = (np.add.reduceat(x, starts, axis=axis, dtype=np.float64) for x in (sums, known))
    return np.divide(sums, known, out=np.full(sums.shape, np.nan), where=known > 0)


def _map_of(content: Content) -> Map:
    if content.map is None:
        raise DataError("nothing to draw: there is no map")
    return content.map


def _no_errors(content: Content) -> str:
    return f"there are no intervals: {content.axes.why}" if content.axes is not None else ""


def _reach(where: Map, table: Table) -> np.ndarray:
    """How much each column changes from one unit of x against it to one along it (as on the page)."""
    size = np.linalg.norm(where.weights, axis=0)
    if table.real:
        return size / np.nanstd(table.values, axis=0).clip(1e-12)
    up, down = (0.5 * (1 + np.tanh(0.5 * (where.bias + sign * size))) for sign in (1, -1))
    return up - down


def _dots(ax: Any, values: np.ndarray, bars: np.ndarray, sure: np.ndarray) -> None:
    """Draw a point a line, from the top, with bars where they are known."""
    for chosen, colour in ((sure, ACCENT), (~sure, GREY)):
        place = np.flatnonzero(chosen)
        ax.errorbar(
            values[place], place, xerr=np.nan_to_num(bars[place]), fmt="o", color=colour, capsize=2.5, markersize=5
        )
    ax.axvline(0, color=GREY, linewidth=1)
    ax.set_ylim(len(values) - 0.4, -0.6)
    ax.grid(axis="x")


def _pairs(ax: Any, values: np.ndarray, others: np.ndarray, names: list[str]) -> None:
    """Two numbers a line, from the top: a full point and a hollow one."""
    place = np.arange(len(names))
    ax.hlines(place, values, others, color=ACCENT, linewidth=1.2)
    ax.scatter(others, place, facecolor=PAPER, edgecolor=ACCENT, s=32, zorder=3)
    ax.scatter(values, place, color=ACCENT, s=32, zorder=4)
    ax.set_yticks(place, labels=[short(printable(name)) for name in names], parse_math=False)
    ax.set_ylim(max(len(names), 1) - 0.4, -0.6)
    ax.axvline(0, color=GREY, linewidth=1)
    ax.grid(axis="x")
