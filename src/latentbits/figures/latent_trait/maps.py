"""Pictures of a latent space: the rows on it, what it stands for place by place, how sure a place is.

Each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.  What is drawn comes from
a `LatentTrait` or any model with P(bit i = 1 | x) = sigma(w_i . x + b_i); `map_summaries` prepares the arrays.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.any_model.arrays import tile
from latentbits.figures.latent_trait.arrays import (
    Boundaries,
    Window,
    data_window,
    label_groups,
    mass_levels,
    telling_boundaries,
)
from latentbits.figures.latent_trait.map_parts import (
    LINE_COLOUR,
    colour_of,
    draw_glyphs,
    draw_legend,
    draw_lines,
    draw_name,
    draw_number,
    draw_numbered,
    ellipse,
    line_handle,
    names_of,
    show_window,
)
from latentbits.figures.placing import spread_apart, text_widths
from latentbits.figures.style import ACCENT, GREY, INK, SMALL, axes_or_new, ink, show, size_in_points

__all__ = ["plot_decoded", "plot_map", "plot_posterior_contours"]

MOST_LINES = 20
SQUARE = (6.4, 6.8)  # inches: an axes of equal scales, and a legend below
MASSES = (0.5, 0.8, 0.95)


def plot_map(
    means: np.ndarray,
    ax: Any = None,
    *,
    labels: Iterable[Any] | None = None,
    label_names: Any = None,
    numbers: np.ndarray | None = None,
    boundaries: Any = None,
    most_boundaries: int = MOST_LINES,
    marks: np.ndarray | None = None,
    dimensions: tuple[int, int] = (0, 1),
) -> Any:
    """Plot rows in the latent space; rows at the same place are one glyph, its area their number.

    With one latent variable, the rows are counted along it, one band a label, and the bits' names stand where each
    is as likely one as zero.

    Parameters
    ----------
    means : (n, q) array
        Posterior means.
    ax : matplotlib Axes, optional
    labels : n values, optional
        Rows of one label share a colour and a shape; None, NaN and "" are no label.
    label_names : mapping from a label to its name, or sequence of names for labels 0, 1, ..., optional
    numbers : (n,) array, optional
        Colours rows of a plane by a scale instead; NaN is no number.
    boundaries : (components, intercept) or (components, intercept, names), optional
        (q, d), (d,) and d names: draws the lines P(bit = 1) = 1/2.  With q > 2 they are those where the latent
        variables not drawn are 0.
    most_boundaries : int
        If more lines run among the rows, the most telling are drawn, and the legend says so.
    marks : (m, q) array, optional
        Places to be marked with the numbers 1 to m, as in `plot_decoded`.
    dimensions : two latent variables, counted from 0
        Those drawn, if there are more.
    """
    means = np.asarray(means, np.float64)
    if means.ndim != 2:
        raise DataError(f"means must be a table (rows, latent variables), found shape {means.shape}")
    names, groups = ([], np.full(len(means), -1)) if labels is None else label_groups(labels, label_names)
    if len(groups) != len(means):
        raise DataError(f"{len(groups)} labels for {len(means)} rows")
    lines = None if boundaries is None else Boundaries(*boundaries)
    marks = np.empty((0, means.shape[1])) if marks is None else np.asarray(marks, np.float64)
    if means.shape[1] == 1:
        ax = axes_or_new(ax)
        return _plot_line(ax, means[:, 0], names, groups, lines, marks[:, 0], most_boundaries)
    ax = axes_or_new(ax, SQUARE)
    pair = list(dimensions)
    flat, marks = means[:, pair], marks[:, pair]
    ax.set_xlabel(f"latent {pair[0] + 1}")
    ax.set_ylabel(f"latent {pair[1] + 1}")
    if numbers is None:
        handles = draw_glyphs(ax, flat, names, groups)
    else:
        handles = draw_numbered(ax, flat, np.asarray(numbers, np.float64))
    window = data_window(np.concatenate([flat, marks]))
    chosen = np.empty(0, int)
    if lines is not None:
        weights, bias = np.asarray(lines.components)[pair].T, np.asarray(lines.intercept)
        chosen = telling_boundaries(weights, bias, flat, most_boundaries, window)
        handles.append(line_handle(len(chosen), len(bias), "; ticks on the side of 1"))
    draw_legend(ax, handles)
    for number, place in enumerate(marks, start=1):
        draw_number(ax, number, place)
    if lines is not None and len(chosen):
        draw_lines(ax, weights[chosen], bias[chosen], names_of(lines, chosen), window)
    else:
        show_window(ax, window)
    return ax


# --- one latent variable ---


def _plot_line(
    ax: Any,
    means: np.ndarray,
    names: list[str],
    groups: np.ndarray,
    lines: Boundaries | None,
    marks: np.ndarray,
    most: int,
) -> Any:
    """Count rows along the only latent variable, one band a label; above, mark where each bit is undecided."""
    bands = [*range(len(names)), *([-1] if (groups < 0).any() or not names else [])]
    left, right, *_ = data_window(np.column_stack([means, means]))
    edges = np.linspace(left, right, 41)
    counts = np.array([np.histogram(means[groups == band], edges)[0] for band in bands])
    top = 1.15 * max(float(counts.max(initial=0)), 1.0)
    for place, band in enumerate(bands):
        base = (len(bands) - 1 - place) * top
        ax.stairs(counts[place] + base, edges, baseline=base, fill=True, color=colour_of(band, names), alpha=0.85)
        ax.axhline(base, color=GREY, linewidth=0.6)
    for number, place in enumerate(marks, start=1):
        ax.vlines(place, 0, top * len(bands), color=INK, linewidth=0.8, linestyle=":", zorder=2)
        draw_number(ax, number, (place, 0.96 * top * len(bands)))
    if len(bands) > 1:
        middles = [(len(bands) - 0.6 - place) * top for place in range(len(bands))]
        sizes = [f"{np.sum(groups == band)} rows" for band in bands]
        titles = [*names, *(["no label"] if -1 in bands else [])]
        ax.set_yticks(middles, labels=[f"{title}\n{size}" for title, size in zip(titles, sizes)])
        for tick, band in zip(ax.get_yticklabels(), bands):
            tick.set_color(colour_of(band, names))
    else:
        ax.set_ylabel("rows")
    ax.set_xlim(left, right)
    ax.set_ylim(0, top * len(bands))
    ax.set_xlabel("latent 1")
    if lines is not None:
        _draw_difficulties(ax, lines, most)
    return ax


def _draw_difficulties(ax: Any, lines: Boundaries, most: int) -> None:
    """Write names of bits above the axes, each at the place where it is as likely one as zero."""
    weights, bias = np.asarray(lines.components)[0], np.asarray(lines.intercept)
    left, right = ax.get_xlim()
    with np.errstate(divide="ignore", invalid="ignore"):
        places = -bias / weights
    able = np.flatnonzero((places >= left) & (places <= right))
    chosen = np.sort(able[np.argsort(-np.abs(weights[able]), kind="stable")[:most]])
    draw_legend(ax, [line_handle(len(chosen), len(bias))])
    names = names_of(lines, chosen)
    width, height = size_in_points(ax)
    room = (max(text_widths(names, SMALL), default=0.0) + 20) / height  # within the axes, as titles are above them
    moved = spread_apart(places[chosen], np.full(len(chosen), 1.3 * SMALL * (right - left) / width), left, right)
    ax.set_ylim(0, ax.get_ylim()[1] / (1 - room))
    place_up = ax.get_xaxis_transform()
    for name, place, target in zip(names, places[chosen], moved):
        steps = 1 - room + np.array([0, 7, 14]) / height
        ax.plot([place, place, target], steps, color=LINE_COLOUR, linewidth=0.9, transform=place_up)
        draw_name(ax, name, np.array([target, steps[-1]]), 3, upright=True, coordinates=place_up)


# --- what places stand for ---


def plot_decoded(
    images: np.ndarray,
    image_shape: tuple[int, int],
    ax: Any = None,
    numbers: Sequence[int] | None = None,
    n_columns: int | None = None,
) -> Any:
    """Plot P(bit = 1) at some places of a map as images, numbered like the marks on it.

    Parameters
    ----------
    images : (m, height * width) array
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    numbers : sequence of m ints, optional
        Else 1 to m.
    n_columns : int, optional
        Images side by side; else about as many as below one another.
    """
    ax = axes_or_new(ax)
    height, width = image_shape
    n_columns = int(np.ceil(np.sqrt(len(images)))) if n_columns is None else n_columns
    gap = max(2, round(0.35 * height))
    show(ax, tile(images, image_shape, n_columns, gap))
    for place, number in enumerate(range(1, len(images) + 1) if numbers is None else numbers):
        left, top = (place % n_columns) * (width + gap), (place // n_columns) * (height + gap)
        draw_number(ax, number, (left - 0.5 + 0.1 * width, top - 0.5 - 0.4 * gap))
    ax.set_ylim(ax.get_ylim()[0], -0.5 - gap)
    return ax


# --- how sure a place is ---


def plot_posterior_contours(
    log_density: np.ndarray,
    mean: np.ndarray,
    covariance: np.ndarray,
    extent: Window,
    ax: Any = None,
    masses: Sequence[float] = MASSES,
) -> Any:
    """Plot the posterior of one row and a Gaussian approximation, by lines that enclose the same probability.

    The axes end where the outermost lines do.

    Parameters
    ----------
    log_density : (n, n) array
        Of the posterior, as from `posterior_grid`.
    mean, covariance : (2,) and (2, 2) arrays
        Of the approximation.
    extent : (left, right, bottom, top)
        Of the first and last points of the grid.
    ax : matplotlib Axes, optional
    masses : sequence of shares of all probability
    """
    from matplotlib.lines import Line2D

    ax = axes_or_new(ax, SQUARE)
    masses = sorted(masses)
    x = np.linspace(extent[0], extent[1], log_density.shape[1])
    y = np.linspace(extent[2], extent[3], log_density.shape[0])
    levels = mass_levels(log_density, masses)[::-1]  # ascending, as contour wants them: the outermost first
    shades = ink()(np.linspace(0.0, 0.45, len(levels)))
    ax.contourf(x, y, log_density, levels=[*levels, log_density.max() + 1e-9], colors=shades)
    ax.contour(x, y, log_density, levels=levels, colors=INK, linewidths=1.2, linestyles="solid")
    for mass in masses:
        radius = float(np.sqrt(-2 * np.log1p(-mass)))  # a Gaussian in the plane has this mass within it
        ax.add_patch(ellipse(mean, covariance, radius, edgecolor=ACCENT, linewidth=1.4, linestyle="--"))
    share = np.exp(log_density - log_density.max())
    centre = np.array([(share * x).sum(), (share * y[:, None]).sum()]) / share.sum()
    ax.plot(*centre, marker="o", color=INK, markersize=5, linestyle="")
    ax.plot(*mean, marker="x", color=ACCENT, markersize=7, markeredgewidth=2, linestyle="")
    held = np.argwhere(log_density >= levels[0])  # lines and columns of the grid within the outermost line
    far = float(np.sqrt(-2 * np.log1p(-masses[-1]))) * np.sqrt(np.diag(covariance))
    ax.set_xlabel("latent 1")
    ax.set_ylabel("latent 2")
    shares = f"{', '.join(f'{100 * mass:g}' for mass in masses)} %"
    true = Line2D([], [], color=INK, marker="o", markersize=5, label=f"true posterior: {shares} within, and mean")
    gaussian = Line2D([], [], color=ACCENT, marker="x", linestyle="--", label="Gaussian approximation, likewise")
    draw_legend(ax, [true, gaussian])
    show_window(ax, data_window(np.vstack([np.column_stack([x[held[:, 1]], y[held[:, 0]]]), mean - far, mean + far])))
    return ax
