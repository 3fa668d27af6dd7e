"""Pictures of curves with their names on them: error along a fit, and the items of a test.

Each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.latent_trait.arrays import decode, telling_items
from latentbits.figures.placing import spread_apart, text_widths, words_on_curves
from latentbits.figures.style import (
    GREY,
    INK,
    PALETTE,
    PAPER,
    SMALL,
    STYLE,
    WIDE,
    axes_or_new,
    for_words,
    short,
    size_in_points,
)

__all__ = ["plot_error_against_time", "plot_item_curves", "plot_item_information"]

MOST_CURVES = 12
PALE = "#d5dade"


def plot_error_against_time(
    curves: Mapping[str, tuple[np.ndarray, np.ndarray]],
    ax: Any = None,
    ylabel: str = "negative log-likelihood per row (nats)",
) -> Any:
    """Plot the errors of several algorithms over time, on a logarithmic axis of seconds.

    A curve goes on dotted after its end, to its name and last error in the margin.

    Parameters
    ----------
    curves : mapping from a name to (seconds, error), two (n,) arrays each
        A point at 0 seconds or before has no place on the axis and is left out.
    ax : matplotlib Axes, optional
    ylabel : str
    """
    ax = axes_or_new(ax, WIDE)
    kept = {name: _after_zero(name, *curve) for name, curve in curves.items()}
    last = max(seconds[-1] for seconds, _ in kept.values())
    first = min(seconds[0] for seconds, _ in kept.values())
    colours = [PALETTE[place % len(PALETTE)] for place in range(len(kept))]
    for (seconds, error), colour in zip(kept.values(), colours):
        ax.plot(seconds, error, color=colour, linewidth=2)
        ax.plot(seconds[-1], error[-1], color=colour, marker="o", markersize=5)
        ax.plot([seconds[-1], 10 * last], [error[-1]] * 2, color=colour, linewidth=1, linestyle=":")
    ax.set_xscale("log")
    ax.set_xlim(first, last * (last / first) ** 0.03)
    ax.set_xlabel("seconds")
    ax.set_ylabel(ylabel)
    ax.grid()
    ends = np.array([error[-1] for _, error in kept.values()])
    low, high = ax.get_ylim()
    line = 1.3 * (SMALL + 1) * (high - low) / size_in_points(ax)[1]
    aside = ax.get_yaxis_transform()  # across in shares of the axes, upwards in errors
    for name, end, place, colour in zip(kept, ends, spread_apart(ends, np.full(len(ends), line), low, high), colours):
        ax.plot([1, 1.025], [end, place], color=colour, linewidth=1, linestyle=":", transform=aside, clip_on=False)
        words = f"{name}: {end:.4g}"
        ax.text(
            1.03,
            place,
            words,
            va="center",
            color=for_words(colour),
            fontsize=SMALL + 1,
            transform=aside,
            parse_math=False,
        )
    return ax


def _after_zero(name: str, seconds: Any, error: Any) -> tuple[np.ndarray, np.ndarray]:
    seconds, error = np.asarray(seconds, np.float64), np.asarray(error, np.float64)
    kept = (seconds > 0) & np.isfinite(error)
    if not kept.any():
        raise DataError(f"the curve {name!r} has no point after 0 seconds")
    return seconds[kept], error[kept]


def plot_item_curves(
    components: np.ndarray,
    intercept: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    most: int = MOST_CURVES,
    extent: tuple[float, float] = (-3.5, 3.5),
) -> Any:
    """Plot P(bit = 1) along the only latent variable: item characteristic curves.

    Parameters
    ----------
    components, intercept : (1, d) and (d,) arrays
    names : sequence of d names, optional
    ax : matplotlib Axes, optional
    most : int
        Items in colour and named: those with most information; the others are pale.
    extent : (left, right)
    """
    components = np.asarray(components, np.float64)
    if components.ndim != 2 or len(components) != 1:
        raise DataError(f"item curves need one latent variable, found components of shape {components.shape}")
    ax = axes_or_new(ax, WIDE)
    x = np.linspace(*extent, 201)
    curves = decode(components, intercept, x[:, None]).T
    ax.set_xlim(extent)
    ax.set_ylim(-0.02, 1.02)
    ax.set_xlabel("latent 1")
    ax.set_ylabel("P(bit = 1)")
    ax.axhline(0.5, color=GREY, linewidth=0.8, linestyle=":")
    _draw_curves(ax, x, curves, names, telling_items(components[0], np.asarray(intercept), most))
    return ax


def plot_item_information(
    points: np.ndarray,
    information: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    total: bool = True,
    most: int = MOST_CURVES,
) -> Any:
    """Plot the information of each bit about the only latent variable; above, on its own scale, their sum.

    Parameters
    ----------
    points : (m,) or (m, 1) array, ascending
    information : (m, d) array
        Fisher information of each item at each point.
    names : sequence of d names, optional
    ax : matplotlib Axes, optional
    total : bool
        Draws the sum over all items in the upper part of the axes.
    most : int
        Items in colour and named: those with most information over all points; the others are pale.
    """
    x, curves = np.ravel(points), np.asarray(information, np.float64).T
    if curves.ndim != 2 or curves.shape[1] != len(x):
        raise DataError(f"information must be (points, items) at {len(x)} points, found {np.shape(information)}")
    ax = axes_or_new(ax, WIDE)
    top = 1.08 * float(curves.max())
    ax.set_xlim(x[0], x[-1])
    ax.set_xlabel("latent 1")
    ax.set_ylabel("information")
    if total:
        _draw_total(ax, x, curves.sum(axis=0))
        ticks = ax.yaxis.get_major_locator().tick_values(0, top)
        ax.set_yticks(ticks[(ticks >= 0) & (ticks <= top)])  # the upper part has a separate scale
        top /= 0.6
    ax.set_ylim(0, top)
    chosen = np.sort(np.argsort(-curves.sum(axis=1), kind="stable")[:most])
    _draw_curves(ax, x, curves, names, chosen)
    return ax


def _draw_total(ax: Any, x: np.ndarray, total: np.ndarray) -> None:
    """Draw the sum of all items, in the upper third of the axes."""
    from matplotlib import rc_context

    with rc_context(STYLE):
        above = ax.inset_axes((0, 0.68, 1, 0.32), sharex=ax)
    above.plot(x, total, color=GREY, linewidth=4)
    above.set_ylim(0, 1.1 * float(total.max()))
    above.locator_params(axis="y", nbins=3)
    above.tick_params(axis="x", labelbottom=False)
    above.patch.set_visible(False)
    peak = int(np.argmax(total))
    above.text(
        x[peak], 0.4 * total[peak], "all items together", ha="center", va="center", color=INK, fontsize=SMALL + 1
    )


def _draw_curves(ax: Any, x: np.ndarray, curves: np.ndarray, names: Sequence[str] | None, chosen: np.ndarray) -> None:
    """Draw all curves, the chosen ones in colour and named; say so if some have no name."""
    words = [str(item + 1) if names is None else short(str(names[item]), 16) for item in chosen]
    rest = np.setdiff1d(np.arange(len(curves)), chosen)
    for item in rest:
        ax.plot(x, curves[item], color=PALE, linewidth=0.8, zorder=1)
    for place, item in enumerate(chosen):
        ax.plot(x, curves[item], color=PALETTE[place % len(PALETTE)], linewidth=1.6, zorder=2)
    if len(rest):
        ax.set_xlabel(f"{ax.get_xlabel()}  ({len(chosen)} of {len(curves)} items named)")
    width, height = size_in_points(ax)
    (left, right), (low, high) = ax.get_xlim(), ax.get_ylim()
    scale = np.array([width / (right - left), height / (high - low)])
    middles = words_on_curves(
        (x - left) * scale[0],
        (curves[chosen] - low) * scale[1],
        text_widths(words, SMALL) + 4,
        1.3 * SMALL,
    )
    for place, (word, middle) in enumerate(zip(words, middles)):
        ax.text(
            *(middle / scale + (left, low)),
            word,
            ha="center",
            va="center",
            fontsize=SMALL,
            color=for_words(PALETTE[place % len(PALETTE)]),
            bbox={"boxstyle": "square,pad=0.12", "facecolor": PAPER, "edgecolor": "none"},
            zorder=3,
            parse_math=False,
        )
