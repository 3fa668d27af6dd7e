"""Pictures: each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.

Matplotlib is an extra (``pip install 'latentbits[plot]'``) and is imported when something is drawn.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.core.atomic import write_atomically
from latentbits.core.errors import DataError, import_extra
from latentbits.core.printable import printable
from latentbits.figures.any_model.arrays import telling_columns, tile
from latentbits.figures.style import ACCENT, GREY, INK, PAPER, STYLE, VEIL, axes_or_new, ink, one_colour, short, show

__all__ = [
    "plot_comparison",
    "plot_completions",
    "plot_components",
    "plot_gallery",
    "plot_history",
    "plot_numbers_on",
    "save_figure",
    "sheet",
]

MOST_COLUMNS = 24
FORMATS = (".png", ".svg", ".pdf")


def plot_comparison(
    models: Sequence[str], bits: np.ndarray, errors: np.ndarray, ax: Any = None, marked: str | None = None
) -> Any:
    """Plot held-out bits per row of each model, with two standard errors to either side; one is in colour.

    Parameters
    ----------
    models : sequence of m names
    bits, errors : (m,) arrays
        Mean and standard error.
    ax : matplotlib Axes, optional
    marked : str, optional
        Name of the model in colour; else the one with the fewest bits.
    """
    ax = axes_or_new(ax)
    place = np.arange(len(models))
    marked = models[int(np.argmin(bits))] if marked is None else marked
    colours = [ACCENT if name == marked else GREY for name in models]
    bars = np.nan_to_num(2 * np.asarray(errors))
    ax.hlines(place, 0, bits, color=colours, linewidth=1, alpha=0.45)
    ax.errorbar(bits, place, xerr=bars, fmt="none", ecolor=colours, elinewidth=2.5, capsize=0)
    ax.scatter(bits, place, color=colours, s=42, zorder=3)
    reach = float(np.max(bits + bars))
    decimals = 1 if np.ptp(bits) >= 1 else 2
    for p, colour in enumerate(colours):
        words = f"{bits[p]:.{decimals}f}"
        ax.text(bits[p] + bars[p] + 0.02 * reach, p, words, va="center", color=colour, fontweight="bold")
    ax.set_yticks(place, labels=[printable(str(name)) for name in models], parse_math=False)
    ax.set_ylim(len(models) - 0.4, -0.6)
    ax.set_xlim(0, 1.14 * reach)
    ax.grid(axis="x")
    ax.set_xlabel("bits per row, ± 2 standard errors; fewer is better")
    return ax


def plot_gallery(images: np.ndarray, shares: np.ndarray, image_shape: tuple[int, int], ax: Any = None) -> Any:
    """Plot the components of a mixture as images, in the order given, each with its share of the rows below it.

    Parameters
    ----------
    images : (k, height * width) array
        P(bit = 1).
    shares : (k,) array
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    """
    ax = axes_or_new(ax)
    height, width = image_shape
    n_columns = min(len(images), 8)
    gap = max(2, round(0.38 * height))
    show(ax, tile(images, image_shape, n_columns, gap))
    for place, share in enumerate(shares):
        left, top = (place % n_columns) * (width + gap), (place // n_columns) * (height + gap)
        label = f"{share:.0%}" if share >= 0.01 else "<1%"
        ax.text(
            left + width / 2 - 0.5,
            top + height - 0.5 + 0.08 * gap,
            label,
            ha="center",
            va="top",
            fontsize=8,
            color=INK,
        )
    bottom = ax.get_ylim()[0]
    ax.set_ylim(bottom + gap, -0.5)
    return ax


def plot_completions(
    truth: np.ndarray, given: np.ndarray, completed: np.ndarray, image_shape: tuple[int, int], ax: Any = None
) -> Any:
    """Plot images with a part hidden, filled in by a model, and complete: three rows, one column an image.

    Parameters
    ----------
    truth, given, completed : (n, height * width) arrays
        In `given`, what is hidden is NaN.
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    """
    ax = axes_or_new(ax)
    height = image_shape[0]
    gap = max(1, round(0.2 * height))
    sheet = tile(np.concatenate([given, completed, truth]), image_shape, len(truth), gap)
    veil = tile(np.isnan(np.concatenate([given, 0 * completed, 0 * truth])), image_shape, len(truth), gap)
    show(ax, sheet)
    ax.imshow(np.where(veil == 1, 1.0, np.nan), cmap=one_colour(VEIL), vmin=0, vmax=1, interpolation="nearest")
    ax.set_yticks([(height - 1) / 2 + row * (height + gap) for row in range(3)], labels=["given", "completed", "truth"])
    return ax


def plot_components(
    means: np.ndarray, shares: np.ndarray, column_names: Sequence[str], ax: Any = None, most: int = MOST_COLUMNS
) -> Any:
    """Plot the components of a mixture as a heat map: one line a column of the table, one column a component.

    Only the columns in which the components differ most are shown, grouped by where they are most frequent.

    Parameters
    ----------
    means : (k, d) array
        P(bit = 1).
    shares : (k,) array
    column_names : sequence of d names
    ax : matplotlib Axes, optional
    most : int
        Number of columns of the table shown.
    """
    ax = axes_or_new(ax)
    chosen = telling_columns(shares, means, most)
    top = min(1.0, np.ceil(10 * means[:, chosen].max()) / 10)  # rare bits would all look white on a scale to 1
    image = ax.imshow(means[:, chosen].T, cmap=ink(), vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    names = [short(str(column_names[j])) for j in chosen]
    ax.set_yticks(range(len(chosen)), labels=names, fontsize=9 if len(chosen) <= 16 else 7, parse_math=False)
    ax.set_xticks(range(len(means)), labels=[f"{share:.0%}" for share in shares])
    ax.set_xlabel("kinds of rows, by their share of all rows")
    # white lines between the cells, so that a run of like cells can be counted
    ax.set_xticks(np.arange(len(means) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(chosen) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=1.5)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=18, pad=0.02, ticks=[0, top / 2, top])
    bar.outline.set_visible(False)
    bar.set_label("P(bit = 1)")
    return ax


def plot_history(history: np.ndarray, ax: Any = None) -> Any:
    """Plot the objective along a fit.

    Parameters
    ----------
    history : (n,) array
        Bits per row after each iteration.
    ax : matplotlib Axes, optional
    """
    ax = axes_or_new(ax)
    ax.plot(np.arange(len(history)), history, color=ACCENT, linewidth=2)
    ax.scatter(len(history) - 1, history[-1], color=ACCENT, s=36, zorder=3)
    ax.set_xlabel("iteration")
    ax.set_ylabel("bits per row,\nthe prior included")
    ax.grid()
    return ax


def plot_numbers_on(numbers: np.ndarray, ax: Any = None) -> Any:
    """Plot the share of the rows in which 0, 1, 2, ... hidden units are on at once.

    Parameters
    ----------
    numbers : (m + 1,) array
        Shares of the rows.
    ax : matplotlib Axes, optional
    """
    from matplotlib.ticker import MaxNLocator, PercentFormatter

    ax = axes_or_new(ax)
    ax.bar(np.arange(len(numbers)), numbers, color=ACCENT, width=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("hidden units that are on")
    ax.set_ylabel("share of the rows")
    ax.grid(axis="y")
    return ax


@contextmanager
def sheet(size: tuple[float, float], title: str = "") -> Iterator[Any]:
    """Make a figure in the common style, with a title if there is one; not one of pyplot's: no window, no state."""
    import_extra("matplotlib", extra="plot", purpose="drawing")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=150)
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.15, h_pad=0.1, wspace=0.03, hspace=0.04)
        if title:
            figure.suptitle(printable(title), x=0.012, ha="left", fontsize=17, fontweight="bold", parse_math=False)
        yield figure


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure as png, svg or pdf, by the extension; under another name first, so that no half is left.

    Parameters
    ----------
    figure : matplotlib Figure
    path : path
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise DataError(f"{target}: a figure is written as {', '.join(FORMATS)}, not {kind!r}")
    from matplotlib import rc_context

    with write_atomically(target) as file, rc_context(STYLE):
        figure.savefig(file, format=kind[1:])
    return target
