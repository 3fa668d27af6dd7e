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
from latentbits.report.curves import plot_item_curves
from latentbits.report.hinton import plot_hinton, plot_unit_bars
from latentbits.report.map_summaries import TraitMap, decode, grid_places, spread_places
from latentbits.report.maps import plot_decoded, plot_decoded_grid, plot_map
from latentbits.report.spectra import plot_loadings, plot_spectra, plot_weights
from latentbits.report.style import ACCENT, GREY, INK, PAPER, STYLE, VEIL, axes_or_new, ink, one_colour, short, show
from latentbits.report.summaries import Exploration, Switches, headline, telling_columns, tile

__all__ = [
    "draw_exploration",
    "draw_map",
    "plot_comparison",
    "plot_completions",
    "plot_components",
    "plot_gallery",
    "plot_history",
    "plot_numbers_on",
    "save_figure",
]

MOST_TILES = 40
MOST_KINDS = 12
MOST_UNITS = 20  # of a combination machine that are drawn
MOST_COLUMNS = 24
N_PLACES = 9  # of a map that are shown as images
FORMATS = (".png", ".svg", ".pdf")


def plot_comparison(
    models: Sequence[str], bits: np.ndarray, errors: np.ndarray, ax: Any = None, marked: str | None = None
) -> Any:
    """Held-out bits per row of each model, with two standard errors to either side; one is in colour.

    Parameters
    ----------
    models : sequence of m names
    bits, errors : (m,) arrays
        Mean and standard error.
    ax : matplotlib Axes, optional
    marked : str, optional
        Name of the model in colour; else the one with the fewest bits.

    Returns
    -------
    Axes
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
    ax.set_yticks(place, labels=list(models))
    ax.set_ylim(len(models) - 0.4, -0.6)
    ax.set_xlim(0, 1.14 * reach)
    ax.grid(axis="x")
    ax.set_xlabel("bits per row, ± 2 standard errors; fewer is better")
    return ax


def plot_gallery(images: np.ndarray, shares: np.ndarray, image_shape: tuple[int, int], ax: Any = None) -> Any:
    """The components of a mixture as images, in the order given, each with its share of the rows below it.

    Parameters
    ----------
    images : (k, height * width) array
        P(bit = 1).
    shares : (k,) array
    image_shape : (height, width)
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
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
    """Images with a part hidden, filled in by a model, and as they were: three rows, one column an image.

    Parameters
    ----------
    truth, given, completed : (n, height * width) arrays
        In `given`, what is hidden is NaN.
    image_shape : (height, width)
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
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
    """The components of a mixture as a heat map: one line a column of the table, one column a component.

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

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    chosen = telling_columns(shares, means, most)
    top = min(1.0, np.ceil(10 * means[:, chosen].max()) / 10)  # rare bits would all look white on a scale to 1
    image = ax.imshow(means[:, chosen].T, cmap=ink(), vmin=0, vmax=top, aspect="auto", interpolation="nearest")
    names = [short(str(column_names[j])) for j in chosen]
    ax.set_yticks(range(len(chosen)), labels=names, fontsize=9 if len(chosen) <= 16 else 7)
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
    """The objective along a fit.

    Parameters
    ----------
    history : (n,) array
        Bits per row after each iteration.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
    """
    ax = axes_or_new(ax)
    ax.plot(np.arange(len(history)), history, color=ACCENT, linewidth=2)
    ax.scatter(len(history) - 1, history[-1], color=ACCENT, s=36, zorder=3)
    ax.set_xlabel("iteration")
    ax.set_ylabel("bits per row,\nthe prior included")
    ax.grid()
    return ax


def plot_numbers_on(numbers: np.ndarray, ax: Any = None) -> Any:
    """In which share of the rows 0, 1, 2, ... hidden units are on at once.

    Parameters
    ----------
    numbers : (m + 1,) array
        Shares of the rows.
    ax : matplotlib Axes, optional

    Returns
    -------
    Axes
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


def draw_exploration(seen: Exploration) -> Any:
    """The figure of `latentbits explore`: the comparison, the kinds of rows found, and what they are good for.

    Parameters
    ----------
    seen : Exploration

    Returns
    -------
    matplotlib Figure with three panels
    """
    with _sheet((13, 7.4), headline(seen)) as figure:
        panels = _draw_images(figure, seen) if seen.image_shape is not None else _draw_table(figure, seen)
        plot_comparison(seen.models, seen.bits, seen.errors, panels["models"], marked=seen.shown)
        panels["models"].set_title(f"Bits to write down one of {seen.n_held_out} unseen rows")
    return figure


def draw_map(seen: TraitMap) -> Any:
    """The second figure of `latentbits explore`: rows placed by a latent trait model, and what the places stand for.

    Parameters
    ----------
    seen : TraitMap

    Returns
    -------
    matplotlib Figure: a map, and beside it images of some places; where rows are no images, lines on it for the bits
    """
    q = seen.means.shape[1]
    title = f"{seen.source}: {len(seen.means)} rows, placed by {q} latent trait{'s' if q > 1 else ''}"
    with _sheet((13, 7.4) if seen.image_shape else (9.2, 9.2), title) as figure:
        if seen.image_shape is None:
            _plot_rows(seen, figure.subplots())
            return figure
        left, right = figure.subplots(1, 2, width_ratios=(1.45, 1))
        places = spread_places(seen.means, N_PLACES)
        _plot_rows(seen, left, places)
        plot_decoded(decode(seen.components, seen.intercept, places), seen.image_shape, right)
        right.set_title("P(bit = 1) at the places that are marked")
        right.set_anchor("N")
    return figure


@contextmanager
def _sheet(size: tuple[float, float], title: str) -> Iterator[Any]:
    """A new figure in the style of all, with a title; not one of pyplot's: no window, no state."""
    import_extra("matplotlib", extra="plot", purpose="drawing")
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=size, layout="constrained", dpi=150)
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=0.15, h_pad=0.1, wspace=0.03, hspace=0.04)
        figure.suptitle(title, x=0.012, ha="left", fontsize=17, fontweight="bold")
        yield figure


def _plot_rows(seen: TraitMap, ax: Any, marks: np.ndarray | None = None) -> None:
    """The rows on a map, with the bits' lines unless these are pixels."""
    lines = None if seen.image_shape else (seen.components, seen.intercept, seen.column_names)
    plot_map(seen.means, ax, labels=seen.labels, boundaries=lines, marks=marks)
    ax.set_title("Where the rows are" + (f", by {seen.label_name}" if seen.label_name else ""))


def _draw_images(figure: Any, seen: Exploration) -> Any:
    """The panels on images: the kinds beside the comparison, the completions below both."""
    assert seen.image_shape is not None
    panels = figure.subplot_mosaic(
        [["models", "kinds"], ["uses", "uses"]], width_ratios=(1, 1.35), height_ratios=(1.65, 1)
    )
    if seen.clipped is not None:
        shown = min(len(seen.clipped.weights), MOST_TILES)
        plot_weights(seen.clipped.weights[:shown], seen.image_shape, panels["kinds"], n_columns=4 if shown <= 12 else 8)
        panels["kinds"].set_title("The weights of the hidden variables, the largest first")
    elif seen.switches is not None:
        weights, words = _drawn_units(seen.switches)
        plot_hinton(weights, seen.image_shape, ax=panels["kinds"], labels=words, n_columns=4 if len(words) <= 12 else 7)
        panels["kinds"].set_title(_units_title("the weights of {}, and how often each is on", seen.switches))
    elif seen.trait is not None:
        _decode_all_over(seen.trait, panels["kinds"])
    else:
        shown = min(len(seen.weights), MOST_TILES)
        plot_gallery(seen.means[:shown], seen.weights[:shown], seen.image_shape, panels["kinds"])
        panels["kinds"].set_title(_of("kinds of images found, with their share of the rows", shown, seen))
    panels["kinds"].set_anchor("NW")
    plot_completions(seen.truth, seen.given, seen.completed, seen.image_shape, panels["uses"])
    panels["uses"].set_title(
        f"Unseen rows with the lower half hidden: {seen.right:.0%} of the hidden bits are guessed right "
        f"({seen.right_alone:.0%} from the average row)"
    )
    panels["uses"].set_anchor("NW")
    return panels


def _draw_table(figure: Any, seen: Exploration) -> Any:
    """The panels on a table with named columns: the kinds as a heat map, the course of the fit."""
    panels = figure.subplot_mosaic(
        [["models", "kinds"], ["uses", "kinds"]], width_ratios=(1, 1.25), height_ratios=(1.2, 1)
    )
    if seen.clipped is not None:
        weights, bits, latent = seen.clipped
        plot_loadings(weights, seen.column_names, panels["kinds"], MOST_COLUMNS)
        panels["kinds"].set_title("The weights of the hidden variables")
        plot_spectra(bits, latent, len(weights), panels["uses"])
        panels["uses"].set_title("Their number, and the spectrum")
        return panels
    if seen.switches is not None:
        weights, words = _drawn_units(seen.switches)
        plot_unit_bars(weights, seen.column_names, panels["kinds"], labels=words, most=6 if len(words) <= 12 else 3)
        panels["kinds"].set_title(_units_title("the largest weights of {}, and how often each is on", seen.switches))
        plot_numbers_on(seen.switches.numbers, panels["uses"])
        panels["uses"].set_title("How many are on at once")
        return panels
    if seen.trait is not None:
        _plot_rows(seen.trait, panels["kinds"])
    else:
        shown = min(len(seen.weights), MOST_KINDS)
        plot_components(seen.means[:shown], seen.weights[:shown], seen.column_names, panels["kinds"])
        columns = f" ({MOST_COLUMNS} of {seen.n_columns} columns)" if seen.n_columns > MOST_COLUMNS else ""
        panels["kinds"].set_title(_of("kinds of rows found", shown, seen) + columns)
    if seen.trait is not None and len(seen.trait.components) == 1:
        plot_item_curves(seen.trait.components, seen.trait.intercept, seen.column_names, panels["uses"])
        panels["uses"].set_title("How the bits depend on it")
    else:
        plot_history(seen.history, panels["uses"])
        panels["uses"].set_title(f"How the {seen.shown} {'were' if seen.trait is not None else 'was'} learned")
    return panels


def _drawn_units(switches: Switches) -> tuple[np.ndarray, list[str]]:
    """Weights of the units that are drawn, and how often each is on."""
    weights, shares = switches.weights[:MOST_UNITS], switches.shares[:MOST_UNITS]
    return weights, [f"{share:.0%}" if share >= 0.01 else "<1%" for share in shares]


def _units_title(text: str, switches: Switches) -> str:
    total = len(switches.shares)
    units = f"{MOST_UNITS} of {total} hidden units" if total > MOST_UNITS else f"the {total} hidden units"
    words = text.format("the hidden unit" if total == 1 else units)
    return words[0].upper() + words[1:]


def _decode_all_over(trait: TraitMap, ax: Any) -> None:
    """Images at places all over a latent space: along it, or over the plane of its first two dimensions."""
    assert trait.image_shape is not None
    if trait.means.shape[1] == 1:
        places = spread_places(trait.means, MOST_TILES)
        plot_decoded(decode(trait.components, trait.intercept, places), trait.image_shape, ax, n_columns=8)
        ax.set_title("Images along the latent trait")
        return
    grid = grid_places(trait.means[:, :2])
    places = np.zeros((len(grid.places), trait.means.shape[1]))
    places[:, :2] = grid.places
    images = decode(trait.components, trait.intercept, places)
    plot_decoded_grid(images, grid.shape, trait.image_shape, ax, grid.extent, grid.counts)
    ax.set_title("Images all over the latent space, pale where no rows are")


def save_figure(figure: Any, path: str | os.PathLike[str]) -> Path:
    """Write a figure as png, svg or pdf, by the extension; under another name first, so that no half is left.

    Parameters
    ----------
    figure : matplotlib Figure
    path : path

    Returns
    -------
    Path
    """
    target = Path(path)
    kind = target.suffix.lower()
    if kind not in FORMATS:
        raise DataError(f"{target}: a figure is written as {', '.join(FORMATS)}, not {kind!r}")
    from matplotlib import rc_context

    with write_atomically(target) as file, rc_context(STYLE):
        figure.savefig(file, format=kind[1:])
    return target


def _of(what: str, shown: int, seen: Exploration) -> str:
    total = len(seen.weights)
    return f"The {shown} largest of {total} {what}" if shown < total else f"The {total} {what}"
