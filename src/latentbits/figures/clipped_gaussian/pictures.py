"""Pictures of clipped Gaussians: spectra, weights, morphs, and the cells that lines cut a plane into.

Each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.  What is drawn comes from a
`ClippedGaussian`; `spectrum_summaries` prepares the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.any_model.arrays import tile
from latentbits.figures.binary_sparse_coding.pictures import plot_fields
from latentbits.figures.clipped_gaussian.arrays import (
    LineCell,
    Spectrum,
    cells_of_lines,
    flips,
    line_window,
    spectrum_of,
    telling_loadings,
    words_of_signs,
)
from latentbits.figures.latent_trait.map_parts import LINE_COLOUR
from latentbits.figures.style import (
    ACCENT,
    GREY,
    INK,
    PALETTE,
    PAPER,
    SMALL,
    SQUARE,
    WIDE,
    axes_or_new,
    for_words,
    ink,
    one_colour,
    short,
    show,
    signed,
    size_in_points,
)
from latentbits.figures.windows import Window, boundary_ends

__all__ = ["plot_cells", "plot_loadings", "plot_morph", "plot_spectra", "plot_weights"]

BITS, GAUSSIAN = PALETTE[0], ACCENT
BINARY_NAME, LATENT_NAME = "$C^{ss}$ of the bits", "$C^{xx}$ of the Gaussian behind them"


def plot_spectra(
    binary: np.ndarray,
    latent: np.ndarray,
    n_components: int | None = None,
    ax: Any = None,
    log_rank: bool = False,
) -> Any:
    """Plot the eigenvalues of the bits' correlations and of those of the Gaussian behind them, the largest first.

    The axis is logarithmic: negative eigenvalues are drawn by their size, as open triangles, and those that are zero
    but for rounding stand on a line of their own at the bottom.

    Parameters
    ----------
    binary, latent : (d,) arrays
        Eigenvalues of C^ss and of C^xx, in any order.
    n_components : int, optional
        How many are kept; a line is drawn after the last.
    ax : matplotlib Axes, optional
    log_rank : bool
        Ranks on a logarithmic axis too, where the first few matter most.
    """
    both = [spectrum_of(binary), spectrum_of(latent)]
    ax = axes_or_new(ax, WIDE)
    shown = np.concatenate([np.abs(one.eigenvalues[one.kinds != 0]) for one in both])
    if len(shown) == 0:
        raise DataError("all eigenvalues are zero: there is no spectrum to draw")
    low, high = float(shown.min()), float(shown.max())
    vanish = any((one.kinds == 0).any() for one in both)
    span = max(np.log10(high / low), 1.0)
    floor = low / 10 ** (0.16 * span)  # where those stand that are zero
    ax.set_yscale("log")
    ax.set_ylim(low / 10 ** ((0.24 if vanish else 0.06) * span), high * 10 ** (0.1 * span))
    for one, colour, name, lift in zip(
        both, (BITS, GAUSSIAN), (BINARY_NAME, LATENT_NAME), (1.0, 10 ** (-0.035 * span))
    ):
        _draw_spectrum(ax, one, colour, name, floor * lift)
    if log_rank:
        ax.set_xscale("log")
        ax.xaxis.set_major_formatter("{x:g}")
    ranks = max(len(one.eigenvalues) for one in both)
    ax.set_xlim((0.85, 1.15 * ranks) if log_rank else (-0.015 * ranks, 1.015 * ranks + 1))
    if vanish:
        _mark_zero(ax, low / 10 ** (0.08 * span), floor * 10 ** (-0.017 * span))
    if n_components is not None:
        _mark_components(ax, n_components, log_rank)
    ax.set_xlabel("rank")
    ax.set_ylabel("eigenvalue")
    ax.grid(axis="y")
    ax.legend(frameon=False, loc="upper right", fontsize=SMALL + 1, labelcolor=INK, handletextpad=0.4)
    return ax


def _draw_spectrum(ax: Any, one: Spectrum, colour: str, name: str, floor: float) -> None:
    """Draw points for one matrix: filled where positive, open triangles where negative, small strokes where zero."""
    rank = np.arange(1, len(one.eigenvalues) + 1)
    size = np.abs(one.eigenvalues)
    up, down, none = (one.kinds == kind for kind in (1, -1, 0))
    ax.plot(rank[up], size[up], "o-", color=colour, markersize=3.5, linewidth=1.2, label=f"{name}: {up.sum()} positive")
    if down.any():
        words = f"its {down.sum()} negative ones, {one.negative_share:.1%} of all by size"
        ax.plot(
            rank[down], size[down], "v", color=colour, markerfacecolor=PAPER, markersize=4, linewidth=0, label=words
        )
    if none.any():
        ax.plot(rank[none], np.full(none.sum(), floor), "|", color=colour, markersize=4, linewidth=0)


def _mark_zero(ax: Any, edge: float, place: float) -> None:
    """End the scale at a line; below it is zero."""
    ax.axhline(edge, color=GREY, linewidth=0.8, linestyle=":")
    ax.set_yticks([tick for tick in ax.get_yticks() if tick > edge and tick < ax.get_ylim()[1]])
    ax.minorticks_off()
    ax.text(-0.012, place, "0", transform=ax.get_yaxis_transform(), ha="right", va="center", color=INK)


def _mark_components(ax: Any, n_components: int, log_rank: bool) -> None:
    place = float(np.sqrt(n_components * (n_components + 1))) if log_rank else n_components + 0.5
    ax.axvline(place, color=INK, linewidth=1, linestyle="--")
    ax.annotate(
        f"P = {n_components}",
        (place, 1),
        xycoords=ax.get_xaxis_transform(),
        xytext=(4, -2),
        textcoords="offset points",
        va="top",
        fontsize=SMALL + 1,
        fontweight="bold",
        color=INK,
    )


# --- weights ---


def plot_weights(
    weights: np.ndarray,
    image_shape: tuple[int, int],
    ax: Any = None,
    labels: Sequence[str] | None = None,
    n_columns: int | None = None,
) -> Any:
    """Plot the weights of hidden variables as images, each on its own scale: one colour for plus, one for minus.

    Parameters
    ----------
    weights : (k, height * width) array
        One hidden variable a row, as in `components_`.
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    labels : sequence of k words, optional
        Written below the images; else their numbers.
    n_columns : int, optional
        Images side by side; else about as many as below one another.
    """
    words = [str(number + 1) for number in range(len(weights))] if labels is None else list(labels)
    across = int(np.ceil(np.sqrt(len(weights)))) if n_columns is None else n_columns
    ax = axes_or_new(ax, SQUARE)
    return plot_fields(weights, image_shape, ax, labels=words, n_columns=across, colours="signed")


def plot_loadings(weights: np.ndarray, column_names: Sequence[str], ax: Any = None, most: int = 24) -> Any:
    """Plot the weights of hidden variables as a heat map: one line a column of the table, one column a variable.

    Only the columns that they explain best are shown, grouped by the hidden variable with the largest weight.

    Parameters
    ----------
    weights : (k, d) array
        One hidden variable a row, as in `components_`.
    column_names : sequence of d names
    ax : matplotlib Axes, optional
    most : int
        Number of columns of the table shown.
    """
    weights = np.asarray(weights, np.float64)
    ax = axes_or_new(ax, SQUARE)
    chosen = telling_loadings(weights, most)
    top = max(float(np.ceil(10 * np.abs(weights[:, chosen]).max()) / 10), 0.1)
    image = ax.imshow(weights[:, chosen].T, cmap=signed(), vmin=-top, vmax=top, aspect="auto", interpolation="nearest")
    names = [short(str(column_names[j])) for j in chosen]
    ax.set_yticks(range(len(chosen)), labels=names, fontsize=9 if len(chosen) <= 16 else 7, parse_math=False)
    ax.set_xticks(range(len(weights)), labels=[str(number + 1) for number in range(len(weights))])
    count = f"  ({len(chosen)} of {weights.shape[1]} columns)" if len(chosen) < weights.shape[1] else ""
    ax.set_xlabel(f"hidden variable{count}")
    ax.set_xticks(np.arange(len(weights) + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(len(chosen) + 1) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=1.5)  # a run of like cells can be counted
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=18, pad=0.02, ticks=[-top, 0, top])
    bar.outline.set_visible(False)
    bar.set_label("weight")
    return ax


# --- a morph ---


def plot_morph(
    bits: np.ndarray,
    cross_fade: np.ndarray,
    originals: np.ndarray,
    image_shape: tuple[int, int],
    ax: Any = None,
) -> Any:
    """Plot a morph between two rows: bits that flip one after another, above the cross-fade of linear PCA.

    The rows themselves stand at both ends; between neighbours stands how many bits flip.

    Parameters
    ----------
    bits : (n, height * width) array
        The steps, clipped.
    cross_fade : (n, height * width) array
        The same steps by linear PCA; what is beyond 0 and 1 is drawn as these.
    originals : (2, height * width) array
        The first and the last row, as they are in the data.
    image_shape : (height, width)
    ax : matplotlib Axes, optional
    """
    from matplotlib.patches import Rectangle

    bits, cross_fade, originals = (np.asarray(one, np.float64) for one in (bits, cross_fade, originals))
    height, width = image_shape
    if bits.shape != cross_fade.shape or originals.shape != (2, height * width) or bits.shape[1] != height * width:
        raise DataError(
            f"a morph needs bits and cross_fade of shape (n, {height * width}) and two originals, found "
            f"{bits.shape}, {cross_fade.shape} and {originals.shape}"
        )
    n = len(bits) + 2
    ax = axes_or_new(ax, (1.05 * n, 2.9))
    above = np.concatenate([originals[:1], bits, originals[1:]])
    below = np.concatenate([originals[:1], np.clip(cross_fade, 0, 1), originals[1:]])
    gap = max(3, round(0.3 * height))
    sheet = tile(np.concatenate([above, below]), image_shape, n, gap)
    show(ax, sheet)
    # what turns on and what turns off in a step, over the bits that stay
    turned = np.concatenate([np.zeros((1, height * width)), above[1:] - above[:-1]])
    turned[0] = turned[1] = turned[-1] = 0  # where an original begins or ends, it is the model that errs
    both = tile(np.concatenate([turned, 0 * below]), image_shape, n, gap)
    for sign, colour in ((1, GAUSSIAN), (-1, "#f0c3b8")):
        ax.imshow(np.where(both == sign, 1.0, np.nan), cmap=one_colour(colour), interpolation="nearest")
    step = width + gap
    for place, count in enumerate(flips(above)):
        outside = place in (0, n - 2)
        x = (place + 1) * step - gap / 2 - 0.5
        look: Any = {"ha": "center", "va": "top", "fontsize": SMALL, "color": GREY if outside else for_words(ACCENT)}
        ax.annotate(f"{count}", (x, height - 0.5), xytext=(0, -2), textcoords="offset points", **look)
    for place in (0, n - 1):
        for line in (0, 1):
            corner = (place * step - 1.0, line * (height + gap) - 1.0)
            ax.add_patch(
                Rectangle(corner, width + 1, height + 1, fill=False, edgecolor=INK, linewidth=1.4, clip_on=False)
            )
    ax.set_yticks(
        [(height - 1) / 2, (height - 1) / 2 + height + gap], labels=["clipped\nGaussian", "linear PCA,\ncross-fade"]
    )
    names = ["original", *(f"{one:.0%}" for one in np.linspace(0, 1, len(bits))), "original"]
    ax.set_xticks([place * step + (width - 1) / 2 for place in range(n)], labels=names, fontsize=SMALL)
    ax.set_xlabel(
        "between images: how many bits flip in a step (red: on, pale: off); grey: bits of an original that are wrong",
        fontsize=SMALL,
    )
    return ax


# --- cells ---


def plot_cells(
    weights: np.ndarray,
    phi: np.ndarray,
    ax: Any = None,
    names: Sequence[str] | None = None,
    window: Window | None = None,
) -> Any:
    """Plot the lines phi_i + w_i . y = 0 in the plane of two hidden variables, and the signs of the cells.

    Cells that share an edge differ in one sign.  The dashed lines have a plus and a minus at their sides.

    Parameters
    ----------
    weights, phi : (N, 2) and (N,) arrays
    ax : matplotlib Axes, optional
    names : sequence of N names, optional
        Of the bits; else s_1 to s_N.
    window : (left, right, bottom, top), optional
        Else a square with all crossings in it.
    """
    from matplotlib.patches import Polygon

    weights, phi = np.asarray(weights, np.float64), np.asarray(phi, np.float64)
    window = line_window(weights, phi) if window is None else window
    cells = cells_of_lines(weights, phi, window)
    words = [_numbered(bit) for bit in range(len(phi))] if names is None else [short(str(one), 14) for one in names]
    ax = axes_or_new(ax, SQUARE)
    ax.set_xlabel("$y_1$")
    ax.set_ylabel("$y_2$")
    ax.set_xlim(*window[:2])
    ax.set_ylim(*window[2:])
    ax.set_aspect("equal")
    in_points = size_in_points(ax)[0] / (window[1] - window[0])
    shades = ink()(0.02 + 0.3 * np.linspace(0, 1, len(phi) + 1))
    for cell in cells:
        ax.add_patch(Polygon(cell.corners, facecolor=shades[(cell.signs > 0).sum()], edgecolor="none", zorder=1))
        # a cell that lines make small has small type
        size = float(np.clip(1.5 * in_points * _room(cell) / np.sqrt(len(phi)), 5, 11))
        _word(ax, cell.middle, words_of_signs(cell.signs), size, INK, fontweight="bold")
    _draw_named_lines(ax, weights, phi, words, window, [cell.middle for cell in cells])
    return ax


def _numbered(bit: int) -> str:
    """
    >>> _numbered(11)
    's₁₂'
    """
    return "s" + str(bit + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _room(cell: LineCell) -> float:
    """Compute the distance from the middle of a cell to its nearest edge."""
    edge = np.roll(cell.corners, -1, axis=0) - cell.corners
    length = np.hypot(*edge.T)
    real = length > 1e-9 * length.max()  # where lines meet the corner of a window, an edge may be a point
    to = (cell.middle - cell.corners)[real]
    along = edge[real] / length[real, None]
    return float(np.abs(along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0]).min())


def _draw_named_lines(
    ax: Any, weights: np.ndarray, phi: np.ndarray, words: list[str], window: Window, taken: list[np.ndarray]
) -> None:
    """Draw lines across the window; near the roomier end the name of each, a plus and a minus at its sides."""
    reach = (window[1] - window[0]) / size_in_points(ax)[0]  # one point
    for weight, ends, word in zip(weights, boundary_ends(weights, phi, window), words):
        if np.isnan(ends).any():
            continue
        ax.plot(*ends.T, color=LINE_COLOUR, linewidth=1.2, linestyle="--", zorder=3)
        inside = [0.93 * ends[one] + 0.07 * ends[1 - one] for one in (0, 1)]
        place = max(inside, key=lambda here: min(float(np.hypot(*(here - other))) for other in taken))
        taken = [*taken, place]
        _word(ax, place, word, SMALL + 1, INK, bbox={"boxstyle": "square,pad=0.15", "fc": PAPER, "ec": "none"})
        upwards = weight / np.hypot(*weight)
        for sign, glyph in ((1, "+"), (-1, "−")):
            _word(ax, place + sign * 13 * reach * upwards, glyph, SMALL + 1, LINE_COLOUR)


def _word(ax: Any, place: np.ndarray, word: str, size: float, colour: str, **look: Any) -> None:
    ax.text(*place, word, ha="center", va="center", fontsize=size, color=colour, zorder=4, parse_math=False, **look)
