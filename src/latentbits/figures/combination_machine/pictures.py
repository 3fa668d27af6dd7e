"""Pictures of combination machines: Hinton diagrams, projections, Gaussians in the plane, named weights.

Each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.  What is drawn comes from a
`CombinationMachine` (`components_`, `hidden_bias_`); `machine_summaries` prepares the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.combination_machine.arrays import Gaussians
from latentbits.figures.style import ACCENT, EDGE, GREY, INK, PALETTE, SMALL, SQUARE, axes_or_new, for_words, short
from latentbits.figures.tiles import (
    Places,
    draw_grounds,
    draw_squares,
    fit_sheet,
    images_checked,
    in_short,
    largest_of,
    lay_out,
    sheet_size,
    word_below,
    words_for,
)
from latentbits.reports.strongest import telling_weights

__all__ = ["plot_gaussians", "plot_hinton", "plot_projections", "plot_unit_bars"]


# --- Hinton diagrams ---


def plot_hinton(
    weights: np.ndarray,
    image_shape: tuple[int, int],
    hidden_bias: np.ndarray | None = None,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    n_columns: int | None = None,
    largest: float | None = None,
) -> Any:
    """Plot weights of hidden units as squares: area for size, full for plus, empty for minus; figures 4.1, 4.2.

    Above each matrix stands the bias of its unit, on a separate scale: biases are often far larger than weights.
    Below the sheet stands what the largest square is worth.

    Parameters
    ----------
    weights : (m, height * width) array
        One hidden unit a row, as in `components_`.
    image_shape : (height, width)
    hidden_bias : (m,) array, optional
    ax : matplotlib Axes, optional
    labels : sequence of m words, optional
        Written below the matrices; else their numbers.
    n_columns : int, optional
        Matrices side by side, for which there is room even if there are fewer; else ten at most.
    largest : float, optional
        What a square that fills its cell is worth, the same for all units; else the largest of all.  Larger weights are
        drawn as this.
    """
    weights = images_checked(weights, image_shape)
    bias = None if hidden_bias is None else np.asarray(hidden_bias, np.float64)
    if bias is not None and bias.shape != (len(weights),):
        raise DataError(f"{len(weights)} hidden units have as many biases, found shape {bias.shape}")
    words = words_for(labels, len(weights))
    height, width = image_shape
    gap = max(1.5, 0.3 * height)
    places = lay_out(len(weights), n_columns, width, height, gap, 0 if bias is None else 2.0)
    ax = axes_or_new(ax, sheet_size(places, gap))
    top = largest_of(weights, largest)
    draw_grounds(ax, places)
    rows, columns = np.divmod(np.arange(height * width), width)
    x = (places.left[:, None] + columns + 0.5).ravel()
    y = (places.top[:, None] + rows + 0.5).ravel()
    draw_squares(ax, x, y, weights.ravel(), top)
    key = f"largest square: {in_short(top)}"
    if bias is not None:
        top_bias = largest_of(bias, None)
        draw_squares(ax, places.left + width / 2, places.top - 1.0, bias, top_bias, 1.5)
        key += f"; bias, above: {in_short(top_bias)}"
    for left, above, word in zip(places.left, places.top, words):
        word_below(ax, left + width / 2, above + height, word)
    fit_sheet(ax, places, gap)
    drawn = weights if bias is None else np.append(weights, bias)
    ax.set_xlabel(("full: plus, empty: minus; " if (drawn < 0).any() else "") + key, fontsize=SMALL)
    return ax


# --- projections ---


def plot_projections(
    values: np.ndarray,
    on: np.ndarray | None = None,
    ax: Any = None,
    labels: Sequence[str] | None = None,
    n_columns: int | None = None,
) -> Any:
    """Plot histograms of the data projected on the directions of hidden units, one tile a unit; figure 4.1 (d).

    The scale of a tile follows its data.  Two peaks are what projection pursuit looks for.

    Parameters
    ----------
    values : (n, m) array
        Projections, as `machine_summaries.project` gives them.
    on : (n, m) array of bool, optional
        Rows for which a unit is on, in colour.
    ax : matplotlib Axes, optional
    labels : sequence of m words, optional
        Written below; else the numbers of the units.
    n_columns : int, optional
        Tiles side by side; else ten at most.
    """
    values = np.asarray(values, np.float64)
    groups = np.zeros(values.shape, bool) if on is None else np.asarray(on, bool)
    if values.ndim != 2 or groups.shape != values.shape:
        raise DataError(f"projections are (rows, units), found {values.shape} and {groups.shape}")
    words = words_for(labels, values.shape[1])
    places = lay_out(values.shape[1], n_columns, 1.0, 0.72, 0.3, 0.0)
    ax = axes_or_new(ax, sheet_size(places, 0.3, 8.0))
    for unit, word in enumerate(words):
        _histogram(ax, values[:, unit], groups[:, unit], places, unit)
        word_below(ax, places.left[unit] + 0.5, places.top[unit] + places.height, word)
    fit_sheet(ax, places, 0.3)
    coloured = "" if on is None else "; in colour: rows for which the unit is on"
    ax.set_xlabel(f"rows projected on the weights{coloured}", fontsize=SMALL)
    return ax


def _histogram(ax: Any, values: np.ndarray, on: np.ndarray, places: Places, unit: int) -> None:
    """Draw one tile: rows that are off, and on top of them those that are on; a line at 0."""
    low, high = float(values.min()), float(values.max())
    edges = np.linspace(low, high if high > low else low + 1, 41)
    off_counts, on_counts = (np.histogram(values[group], edges)[0] for group in (~on, on))
    tallest = max(int((off_counts + on_counts).max()), 1)
    left, floor = places.left[unit], places.top[unit] + places.height

    def along(place: np.ndarray | float) -> Any:
        return left + places.width * (np.asarray(place) - edges[0]) / (edges[-1] - edges[0])

    def up(count: np.ndarray) -> np.ndarray:
        return floor - places.height * count / tallest

    x = np.repeat(along(edges), 2)[1:-1]
    for lower, upper, colour in (
        (np.zeros(40), off_counts, GREY),
        (off_counts, off_counts + on_counts, ACCENT),
    ):
        ax.fill_between(x, np.repeat(up(lower), 2), np.repeat(up(upper), 2), color=colour, linewidth=0, zorder=2)
    ax.plot([left, left + places.width], [floor, floor], color=EDGE, linewidth=0.8, zorder=1)
    if edges[0] < 0 < edges[-1]:
        ax.plot([along(0.0)] * 2, [floor, floor - places.height], color=INK, linewidth=0.6, linestyle=":", zorder=1)


# --- the plane ---


def plot_gaussians(mixture: Gaussians, ax: Any = None) -> Any:
    """Plot the Gaussians in the plane that a real-valued machine with two inputs is a mixture of; figure 2.2.

    A pair of concentric circles, of radius 1/2 and 1, is a Gaussian of unit variance: the darker, the more probable.
    Each has the state of its hidden units; arrows, from the Gaussian with all units off, are the weights of a unit.

    Parameters
    ----------
    mixture : Gaussians
        Of `machine_summaries.gaussians_of`, in two dimensions.
    ax : matplotlib Axes, optional
    """
    from matplotlib.patches import Circle

    states, means, shares = mixture
    if means.ndim != 2 or means.shape[1] != 2:
        raise DataError(f"Gaussians in the plane have means (n, 2), found {means.shape}")
    ax = axes_or_new(ax, SQUARE)
    depth = 0.3 + 0.7 * (shares / shares.max()) ** 0.2  # shares differ by orders of magnitude
    for state, mean, dark in zip(states, means, depth):
        for radius in (1.0, 0.5):
            ax.add_patch(Circle(tuple(mean), radius, fill=False, edgecolor=INK, alpha=dark, linewidth=1.1, zorder=2))
        ax.text(*mean, "".join(map(str, state)), ha="center", va="center", fontsize=SMALL, color=INK, zorder=4)
    origin = means[0]
    for unit in range(states.shape[1]):
        tip = means[2**unit]
        colour = PALETTE[unit % len(PALETTE)]
        ax.annotate(
            "",
            tuple(tip),
            tuple(origin),
            arrowprops={"arrowstyle": "-|>", "color": colour, "linewidth": 1.6, "shrinkA": 10, "shrinkB": 11},
            zorder=3,
        )
        along = (tip - origin) / max(float(np.hypot(*(tip - origin))), np.finfo(float).tiny)
        ax.annotate(
            f"$w^{{({unit + 1})}}$",
            tuple((origin + tip) / 2),
            xytext=tuple(13 * np.array([along[1], -along[0]])),
            textcoords="offset points",
            ha="center",
            va="center",
            fontsize=SMALL + 2,
            color=for_words(colour),
            zorder=4,
        )
    low, high = means.min(0) - 1.3, means.max(0) + 1.3
    ax.set_xlim(low[0], high[0])
    ax.set_ylim(low[1], high[1])
    ax.set_aspect("equal")
    ax.set_xlabel("$x_1$")
    ax.set_ylabel("$x_2$")
    return ax


# --- tables ---


def plot_unit_bars(
    weights: np.ndarray,
    column_names: Sequence[str],
    ax: Any = None,
    most: int = 6,
    labels: Sequence[str] | None = None,
    n_columns: int | None = None,
) -> Any:
    """Plot the largest weights of every hidden unit as bars with the names of their columns; for rows but images.

    Parameters
    ----------
    weights : (m, d) array
        One hidden unit a row, as in `components_`.
    column_names : sequence of d names
    ax : matplotlib Axes, optional
    most : int
        Columns of the table shown for each unit: those with the largest weights by size, plus first.
    labels : sequence of m words, optional
        Written above; else the numbers of the units.
    n_columns : int, optional
        Units side by side; else three at most.
    """
    chosen = telling_weights(weights, most)
    weights = np.asarray(weights, np.float64)
    if len(column_names) != weights.shape[1]:
        raise DataError(f"{len(column_names)} column names for {weights.shape[1]} columns")
    words = words_for(labels, len(weights), "unit ")
    across = min(len(weights), 3) if n_columns is None else n_columns
    rows_each = min(most, weights.shape[1])
    places = lay_out(len(weights), across, 1.0, float(rows_each), 0.12, 1.2)
    deep = int(np.ceil(len(weights) / across)) * (rows_each + 1.4)
    ax = axes_or_new(ax, (3.3 * across, 0.21 * deep + 0.4))
    top = largest_of(weights, None)
    # of a tile: where bars begin, how long they are at most, and the room that minus takes, left of which names stand
    is_signed = bool((weights < 0).any())
    middle, reach, room = (0.72, 0.27, 0.29) if is_signed else (0.55, 0.42, 0.02)
    for unit, columns in enumerate(chosen):
        left, above = places.left[unit], places.top[unit]
        ax.text(left, above - 0.15, words[unit], fontsize=SMALL + 1, fontweight="bold", color=INK, parse_math=False)
        for line, column in enumerate(columns):
            value, y = weights[unit, column], above + line + 0.5
            if not is_signed and value < 0.02 * top:  # a bar too short to be seen
                continue  # with both signs, a small weight between them tells where zero is
            ax.barh(y, reach * value / top, 0.72, left + middle, color=ACCENT if value > 0 else PALETTE[0], zorder=2)
            name = short(str(column_names[column]), 20)
            ax.text(left + middle - room, y, name, ha="right", va="center", fontsize=SMALL, color=INK, parse_math=False)
        ax.plot([left + middle] * 2, [above, above + len(columns)], color=GREY, linewidth=0.8, zorder=3)
    fit_sheet(ax, places, 0.12)
    ax.set_aspect("auto")
    ax.set_ylim(float(places.top.max()) + places.height + 0.2, -0.1)
    signs = "red: plus, blue: minus; " if is_signed else ""
    ax.set_xlabel(f"{signs}the longest bar: {in_short(top)}", fontsize=SMALL)
    return ax
