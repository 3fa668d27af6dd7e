"""The parts of a map of the latent space: glyphs, lines and their names, numbers, the legend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.printable import printable
from latentbits.figures.latent_trait.arrays import Boundaries, coincident
from latentbits.figures.placing import columns_that_fit, names_round_window, text_widths
from latentbits.figures.style import GREY, INK, PALETTE, PAPER, SMALL, short, size_in_points
from latentbits.figures.windows import Window

__all__ = [
    "colour_of",
    "draw_glyphs",
    "draw_legend",
    "draw_lines",
    "draw_name",
    "draw_number",
    "draw_numbered",
    "ellipse",
    "line_handle",
    "names_of",
    "show_window",
]

# ten shapes and seven colours come together again only after seventy labels
SHAPES = ("o", "^", "s", "D", "v", "P", "X", "<", "p", ">")
SMALLEST_GLYPH = 6.0  # square points
LINE_COLOUR = "#66737f"
RAMP, STEPS = (
    ("#3a6fb5", "#6f9bb8", "#b9a76b", "#e08a26", "#c2352b"),
    64,
)  # from little to much, as on the explorer's page


def draw_numbered(ax: Any, means: np.ndarray, numbers: np.ndarray) -> list[Any]:
    """Draw rows coloured by a number each, and the colour bar; as `draw_glyphs` else."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import LinearSegmentedColormap, Normalize, to_hex

    known = numbers[np.isfinite(numbers)]
    low, high = (0.0, 1.0) if len(known) == 0 else (float(known.min()), float(known.max()))
    steps = np.where(np.isfinite(numbers), (numbers - low) / (high - low if high > low else 1) * (STEPS - 1), -1)
    scale = LinearSegmentedColormap.from_list("numbers", RAMP)
    colours = [to_hex(colour) for colour in scale(np.linspace(0, 1, STEPS))]
    bar = ax.figure.colorbar(ScalarMappable(Normalize(low, high), scale), ax=ax, shrink=0.6, aspect=24, pad=0.02)
    bar.outline.set_visible(False)
    return draw_glyphs(ax, means, [], np.rint(steps).astype(int), colours)


def draw_glyphs(
    ax: Any, means: np.ndarray, names: list[str], groups: np.ndarray, colours: Sequence[str] | None = None
) -> list[Any]:
    """Draw rows that coincide as one glyph, and return the lines of the legend.

    Groups have a colour and a shape each; with `colours` they are steps of a scale, and all glyphs are round.
    """
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    glyphs = coincident(means, groups)
    most = int(glyphs.counts.max(initial=1))
    one = float(np.clip(14_000 / max(len(glyphs.counts), 1), SMALLEST_GLYPH, 16.0))  # many glyphs are small ones
    one = min(one, 600.0 / most)
    area = np.maximum(one * glyphs.counts, SMALLEST_GLYPH)
    if colours is None:
        shapes = [SHAPES[group % len(SHAPES)] for group in range(len(names))]
        looks = [colour_of(group, names) for group in (*range(len(names)), -1)]
    else:
        shapes, looks = ["o"] * len(colours), [*colours, GREY]
    outlines = [_outline(shape) for shape in (*shapes, "o")]
    paths, extents = zip(*outlines)
    drawn = ax.scatter(
        *glyphs.places.T,
        s=area / np.array(extents)[glyphs.groups],
        c=[to_rgba(looks[group], 0.75) for group in glyphs.groups],
        linewidths=0.4,
        edgecolors=PAPER,
        zorder=3,
    )
    drawn.set_paths([paths[group] for group in glyphs.groups])  # one artist, so that no label lies on top of another
    look: Any = {"linestyle": "", "markeredgecolor": PAPER, "markeredgewidth": 0.4}
    handles = [
        Line2D([], [], marker=SHAPES[g % len(SHAPES)], color=colour_of(g, names), markersize=7, label=name, **look)
        for g, name in enumerate(names)
    ]
    if (names or colours) and (groups < 0).any():
        handles.append(Line2D([], [], marker="o", color=GREY, markersize=6, label="no label", **look))
    if most > 1:
        for count in (1, _round_count(min(most, 110.0 / one))):  # a legend has no room for the largest
            size = 2 * float(np.sqrt(max(one * count, SMALLEST_GLYPH) / np.pi))
            words = f"{count} rows" if count > 1 else "1 row"
            handles.append(Line2D([], [], marker="o", color="#c3cad0", markersize=size, label=words, **look))
    return handles


def _round_count(most: float) -> int:
    """Return the largest of 2, 5, 10, 20, 50, ... that is not above `most`; at least 2."""
    steps = [first * 10**power for power in range(12) for first in (1, 2, 5)]
    return max([2, *(step for step in steps if step <= most)])


def colour_of(group: int, names: list[str]) -> str:
    if group >= 0:
        return PALETTE[group % len(PALETTE)]
    return GREY if names else PALETTE[0]


def _outline(shape: str) -> tuple[Any, float]:
    """Return the path of a marker, and its area at size 1: a triangle is smaller than the square it is in."""
    from matplotlib.markers import MarkerStyle

    marker = MarkerStyle(shape)
    path = marker.get_path().transformed(marker.get_transform())
    x, y = np.asarray(path.to_polygons()[0]).T
    return path, abs(float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))) / 2


def line_handle(shown: int, total: int, ticks: str = "") -> Any:
    from matplotlib.lines import Line2D

    count = f"all {total} bits" if shown == total else f"{shown} of {total} bits"
    return Line2D([], [], color=LINE_COLOUR, linewidth=1, label=f"P(bit = 1) = ½, {count}{ticks}")


def draw_legend(ax: Any, handles: list[Any]) -> None:
    """Draw the legend below the axes, where nothing else is, and about as wide."""
    from matplotlib.transforms import ScaledTranslation

    if not handles:
        return
    words = [printable(handle.get_label()) for handle in handles]
    widths = text_widths(words, SMALL + 1) + 4.5 * SMALL
    legend = ax.legend(
        handles=handles,
        labels=[" "] * len(words),  # matplotlib would leave out a label that begins with _
        loc="upper left",
        bbox_to_anchor=(0, 0),
        bbox_transform=ax.transAxes + ScaledTranslation(0, -34 / 72, ax.figure.dpi_scale_trans),  # below the label
        ncols=columns_that_fit(widths, 1.1 * size_in_points(ax)[0]),
        labelcolor=INK,
        fontsize=SMALL + 1,
        frameon=False,
        borderaxespad=0,
        handletextpad=0.5,
        columnspacing=1.4,
        labelspacing=0.6,
    )
    for text, word in zip(legend.get_texts(), words, strict=True):
        text.set(text=word, parse_math=False)


def show_window(ax: Any, window: Window) -> None:
    """Show at least the window, at equal scales, and fill the place that the layout gives the axes."""
    left, right, bottom, top = window
    ax.set_aspect("equal", adjustable="datalim")
    # for equal scales only what lies beyond the data is given up, so the window is what counts as data; and limits
    # that are not automatic are changed under protest
    ax.margins(0)
    ax.dataLim.set_points(np.array([[left, bottom], [right, top]]))
    ax.set_xlim(left, right, auto=True)
    ax.set_ylim(bottom, top, auto=True)


def draw_number(ax: Any, number: int, place: Any) -> None:
    """Draw a number in a disc: the same on a map and beside an image."""
    disc = {"boxstyle": "circle,pad=0.25", "facecolor": PAPER, "edgecolor": INK, "linewidth": 1.2}
    ax.text(
        *place, str(number), ha="center", va="center", fontsize=9, fontweight="bold", color=INK, bbox=disc, zorder=6
    )


def ellipse(mean: np.ndarray, covariance: np.ndarray, radius: float = 1.0, **look: Any) -> Any:
    """Compute the ellipse at a Mahalanobis distance from a mean."""
    from matplotlib.patches import Ellipse

    scale, axes = np.linalg.eigh(covariance)
    turned = np.degrees(np.arctan2(axes[1, 1], axes[0, 1]))
    height, width = 2 * radius * np.sqrt(np.maximum(scale, 0.0))
    return Ellipse((float(mean[0]), float(mean[1])), width, height, angle=turned, fill=False, **look)


def names_of(lines: Boundaries, chosen: np.ndarray) -> list[str]:
    if lines.names is None:
        return [str(bit + 1) for bit in chosen]
    return [short(str(lines.names[bit]), 14) for bit in chosen]


def draw_lines(ax: Any, weights: np.ndarray, bias: np.ndarray, names: list[str], window: Window) -> None:
    """Draw lines across the window with their names round it; the axes' limits leave room for these."""
    from matplotlib.collections import LineCollection

    ring = names_round_window(weights, bias, text_widths(names, SMALL), 1.3 * SMALL, window, size_in_points(ax))
    for name, target, side, upright in zip(names, ring.targets, ring.sides, ring.upright):
        draw_name(ax, name, target, side, upright)
    upwards = weights / np.sqrt(np.square(weights).sum(axis=1, keepdims=True))
    ticks = ring.named + 5 / ring.scale * upwards
    for segments, width in (
        (ring.ends, 0.7),
        (np.stack([ring.named, ring.targets], axis=1), 0.5),
        (np.stack([ring.named, ticks], axis=1), 1.2),
    ):
        drawn = LineCollection(list(segments), linewidths=width, colors=LINE_COLOUR, zorder=3.5)
        ax.add_collection(drawn, autolim=False)
    show_window(ax, ring.limits)


def draw_name(ax: Any, name: str, place: np.ndarray, side: int, upright: bool, coordinates: Any = "data") -> None:
    """Write a name beside the window, growing away from it."""
    across, down = ("right", "left", "center", "center")[side], ("center", "center", "top", "bottom")[side]
    shift = ((-2, 0), (2, 0), (0, -1), (0, 1))[side]
    ax.annotate(
        name,
        place,
        xycoords=coordinates,
        xytext=shift,
        textcoords="offset points",
        ha=across,
        va=down,
        rotation=90 if upright else 0,
        fontsize=SMALL,
        color=INK,
        annotation_clip=False,
        parse_math=False,
    )
