"""Pictures of basis functions as images, and of how sparseness and noise were learned with them.

Each function takes arrays and, if you have some, Axes, and returns the Axes it drew on.  What is drawn comes from a
`BinarySparseCoding` (`components_`, `sparseness_history_`, `noise_history_`); `field_summaries` puts fields in order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, import_extra
from latentbits.figures.any_model.arrays import tile
from latentbits.figures.placing import spread_apart
from latentbits.figures.style import (
    EDGE,
    GREY,
    INK,
    PALETTE,
    PAPER,
    SMALL,
    STYLE,
    axes_or_new,
    bare,
    for_words,
    signed,
    size_in_points,
)

__all__ = ["plot_course", "plot_fields"]


def plot_fields(
    components: np.ndarray,
    image_shape: tuple[int, int],
    ax: Any = None,
    *,
    order: Sequence[int] | np.ndarray | None = None,
    labels: Sequence[str] | None = None,
    row_labels: Sequence[str] | None = None,
    n_columns: int | None = None,
    common: bool = False,
    colours: str = "grey",
) -> Any:
    """Plot basis functions as images side by side, each on its own scale with zero in the middle.

    Parameters
    ----------
    components : (H, height * width) array
        One field a row, as in `components_`.
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    order : sequence of int, optional
        Which fields are drawn, the first first; else all.
    labels : sequence of words, optional
        One for every field drawn, written below it.
    row_labels : sequence of words, optional
        One for every row of the sheet, written left of it: the iterations of figure 1B.
    n_columns : int, optional
        Fields side by side; else about twice as many as below one another.
    common : bool
        One scale for all fields: the largest size in any of them.
    colours : "grey" or "signed"
        From black to white; or blue for minus, through near white, to red for plus.
    """
    images = np.asarray(components, np.float64)
    height, width = image_shape
    if images.ndim != 2 or images.shape[1] != height * width:
        raise DataError(
            f"components must be (H, {height * width}) for images of {height} x {width}, found {images.shape}"
        )
    if colours not in ("grey", "signed"):
        raise DataError(f'colours must be "grey" or "signed", found {colours!r}')
    images = images if order is None else images[np.asarray(order, int)]
    if len(images) == 0:
        raise DataError("there is no field to draw")
    n_columns = int(np.ceil(np.sqrt(2 * len(images)))) if n_columns is None else n_columns
    if n_columns < 1:
        raise DataError(f"n_columns must be at least 1, found {n_columns!r}")
    n_rows = -(-len(images) // n_columns)
    for words, n, what in ((labels, len(images), "images"), (row_labels, n_rows, "rows")):
        if words is not None and len(words) != n:
            raise DataError(f"{len(words)} labels for {n} {what}")
    top = np.abs(images).max(axis=None if common else 1, keepdims=True)
    gap = max(1, round(0.08 * height)) if labels is None else max(2, round(0.3 * height))
    sheet = tile(images / np.maximum(top, np.finfo(float).tiny), image_shape, n_columns, gap)
    ax = axes_or_new(ax, _inches(sheet, image_shape))
    ax.imshow(sheet, cmap=_grey() if colours == "grey" else signed(), vmin=-1, vmax=1, interpolation="nearest")
    bare(ax)
    number = np.arange(len(images))
    left, above = (number % n_columns) * (width + gap) - 0.5, (number // n_columns) * (height + gap) - 0.5
    if colours == "grey":
        _frame(ax, left, above, image_shape)
    for place, word in enumerate(labels or ()):
        _below(ax, word, left[place] + width / 2, above[place] + height)
    if labels is not None:
        ax.set_ylim(len(sheet) - 0.5 + gap, -0.5)
    if row_labels is not None:
        middles = [row * (height + gap) + (height - 1) / 2 for row in range(n_rows)]
        ax.set_yticks(middles, labels=list(row_labels), fontsize=SMALL)
    return ax


def _inches(sheet: np.ndarray, image_shape: tuple[int, int]) -> tuple[float, float]:
    """Choose the size of a sheet in inches: half an inch a field, within what a page can hold and an eye can see."""
    scale = 0.5 / max(image_shape)
    scale *= np.clip(scale * max(sheet.shape), 3, 12) / (scale * max(sheet.shape))
    return scale * sheet.shape[1] + 0.2, scale * sheet.shape[0] + 0.2


def _grey() -> Any:
    from matplotlib import colormaps

    return colormaps["gray"].with_extremes(bad=PAPER)


def _frame(ax: Any, left: np.ndarray, above: np.ndarray, image_shape: tuple[int, int]) -> None:
    """Draw a thin line around every image, so that a white edge stands out of the paper."""
    from matplotlib.collections import PatchCollection
    from matplotlib.patches import Rectangle

    frames = [Rectangle(corner, image_shape[1], image_shape[0]) for corner in zip(left, above)]
    ax.add_collection(
        PatchCollection(frames, facecolor="none", edgecolor=GREY, linewidth=0.4, clip_on=False), autolim=False
    )


def _below(ax: Any, word: str, x: float, y: float) -> None:
    ax.annotate(
        word, (x, y), xytext=(0, -2), textcoords="offset points", ha="center", va="top", fontsize=SMALL, color=INK
    )


# --- along learning ---


def plot_course(
    runs: Mapping[str, tuple[np.ndarray, np.ndarray]],
    axes: Sequence[Any] | None = None,
    *,
    truth: tuple[float, float] | None = None,
    marks: Sequence[float] = (),
) -> Any:
    """Plot sparseness and noise over the iterations of one or several runs, in two panels; figures 1C and 2C.

    Parameters
    ----------
    runs : mapping from a name to (sparseness, noise)
        Two (n,) arrays each, from the start on: pi H, the mean number of active causes, and sigma.  Runs may differ in
        length.  A single run needs no name: "".
    axes : two matplotlib Axes, optional
    truth : (sparseness, noise), optional
        With which the data was made, as dashed lines.
    marks : sequence of iterations, optional
        Where a schedule changes, as thin lines.
    """
    courses = {name: [np.asarray(one, np.float64) for one in pair] for name, pair in runs.items()}
    for name, pair in courses.items():
        if len(pair) != 2 or any(one.ndim != 1 or len(one) == 0 for one in pair) or len(pair[0]) != len(pair[1]):
            raise DataError(f"the run {name!r} must have a sparseness and a noise for every iteration")
    if not courses:
        raise DataError("there is no run to draw")
    if axes is None:
        plt = import_extra("matplotlib.pyplot", extra="plot", purpose="drawing")
        with plt.rc_context(STYLE):
            axes = plt.subplots(1, 2, figsize=(8.4, 3.2), layout="constrained")[1]
    upper, lower = axes
    for place, (ax, label) in enumerate(((upper, r"sparseness $\pi H$"), (lower, r"noise $\sigma$"))):
        _draw_course(ax, {name: pair[place] for name, pair in courses.items()}, marks)
        if truth is not None:
            ax.axhline(truth[place], color=INK, linewidth=1, linestyle="--", zorder=1)
        low, high = ax.get_ylim()
        ax.set_ylim(min(0, low), high)
        ax.set_xlabel("iteration")
        ax.set_ylabel(label)
        ax.grid(axis="y")
    for place, ax in enumerate((upper, lower)):  # once both panels are laid out
        _name_ends(ax, {name: pair[place] for name, pair in courses.items()})
    return axes


def _draw_course(ax: Any, curves: Mapping[str, np.ndarray], marks: Sequence[float]) -> None:
    for mark in marks:
        ax.axvline(mark, color=EDGE, linewidth=0.8, zorder=1)
    for place, curve in enumerate(curves.values()):
        colour = PALETTE[place % len(PALETTE)]
        ax.plot(np.arange(len(curve)), curve, color=colour, linewidth=1.8, zorder=2)
        ax.plot(len(curve) - 1, curve[-1], color=colour, marker="o", markersize=4, zorder=3)
    ax.set_xlim(0, max(max(len(curve) for curve in curves.values()) - 1, 1))


def _name_ends(ax: Any, curves: Mapping[str, np.ndarray]) -> None:
    """Write the name and last value of every curve right of the panel, apart from one another."""
    ends = np.array([curve[-1] for curve in curves.values()])
    low, high = ax.get_ylim()
    line = 1.3 * (SMALL + 1) * (high - low) / size_in_points(ax)[1]
    for number, (name, place) in enumerate(zip(curves, spread_apart(ends, np.full(len(ends), line), low, high))):
        colour = PALETTE[number % len(PALETTE)]
        ax.annotate(
            f"{name}: {ends[number]:.3g}" if name else f"{ends[number]:.3g}",
            (1, place),
            xycoords=ax.get_yaxis_transform(),
            xytext=(7, 0),
            textcoords="offset points",
            va="center",
            fontsize=SMALL + 1,
            color=for_words(colour),
            parse_math=False,
        )
