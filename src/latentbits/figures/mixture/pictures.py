"""Pictures of latent classes: each function takes arrays and, if you have one, an Axes, and returns the Axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.figures.latent_trait.map_parts import SHAPES, draw_legend
from latentbits.figures.mixture.arrays import profiles
from latentbits.figures.style import PALETTE, PAPER, axes_or_new, short

__all__ = ["plot_class_profiles"]

BAND = "#f4f6f7"


def plot_class_profiles(
    shares: np.ndarray,
    means: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    errors: np.ndarray | None = None,
    most: int = 60,
) -> Any:
    """Plot P(bit = 1) in each latent class: one line a column of the table, one colour and shape a class.

    Classes are numbered by their share, the largest first.  With standard errors, bars are 95 % intervals; a hollow
    point has none, since its probability is at its bound, 0 or 1, or its error is unknown.

    Parameters
    ----------
    shares, means : (k,) and (k, d) arrays
        As in `weights_` and `means_`.
    names : sequence of d names, optional
        Of the columns.
    ax : matplotlib Axes, optional
    errors : (k, d) array or None
        Standard errors of `means`.
    most : int
        Number of columns shown: those in which the classes differ most, in the order of the table.
    """
    from matplotlib.lines import Line2D

    found = profiles(shares, means, errors, most)
    (k, m), d = found.means.shape, np.shape(means)[1]
    ax = axes_or_new(ax, (6.4, min(13.0, 1.7 + (0.24 if errors is None else 0.3) * max(m, 4))))
    half = 0.25 if errors is not None else 0.5 / 3  # of a line: classes that agree would else hide one another
    apart = np.linspace(-half, half, k) if k > 1 else np.zeros(1)
    for line in range(0, m, 2):  # so that points beside one another are seen to be of one column
        ax.axhspan(line - 0.5, line + 0.5, color=BAND, linewidth=0, zorder=0)
    handles = []
    for number in range(k):
        colour, shape = PALETTE[number % len(PALETTE)], SHAPES[number % len(SHAPES)]
        place = np.arange(m) + apart[number]
        ax.plot(found.means[number], place, color=colour, linewidth=1.0, alpha=0.3, zorder=2)
        ax.hlines(place, found.low[number], found.high[number], color=colour, linewidth=1.3, zorder=3)
        known = np.ones(m, bool) if errors is None else ~np.isnan(found.low[number])
        look: Any = {"marker": shape, "edgecolor": colour, "linewidths": 1.2, "s": 26, "zorder": 4, "clip_on": False}
        ax.scatter(found.means[number, known], place[known], color=colour, **look)
        ax.scatter(found.means[number, ~known], place[~known], facecolor=PAPER, gid="hollow", **look)
        label = f"class {number + 1}, {found.shares[number]:.0%}"
        handles.append(Line2D([], [], marker=shape, color=colour, markersize=6, linewidth=1, label=label))
    words = [str(column + 1) if names is None else short(str(names[column])) for column in found.columns]
    ax.set_yticks(range(m), labels=words, fontsize=9 if m <= 30 else 7.5, parse_math=False)
    ax.set_ylim(m - 0.5, -0.5)
    ax.set_xlim(-0.01, 1.01)
    ax.set_xticks([0, 0.25, 0.5, 0.75, 1], labels=["0", "¼", "½", "¾", "1"])
    ax.grid(axis="x")
    bars = "" if errors is None else ", 95 % intervals"
    some = f"  ({m} of {d} columns)" if m < d else ""
    ax.set_xlabel(f"P(1){bars}{some}")
    if errors is not None and np.isnan(found.low).any():
        handles.append(
            Line2D([], [], marker="o", linestyle="", color="#8a949e", markerfacecolor=PAPER, label="no interval")
        )
    draw_legend(ax, handles)
    return ax
