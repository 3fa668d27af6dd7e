"""Pictures of trees: each function takes arrays and, if you have one, an Axes, and returns the Axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.style import GREY, INK, PAPER, SMALL, axes_or_new, bare, ink, short
from latentbits.reports.trees import BITS_PER_NAT, around, checked_parents, on_pixels, outline

__all__ = ["MOST_NAMED", "plot_tree", "tree_size"]

MOST_NAMED = 64  # columns that have a line with a name each
EDGE = "#8fa1b0"


def tree_size(n_columns: int, image_shape: tuple[int, int] | None = None) -> tuple[float, float]:
    """Choose the size of a figure, in inches, by the number of columns of the tree."""
    if image_shape is not None or n_columns > MOST_NAMED:
        return 6.4, 6.4
    return 6.4, min(12.0, 1.1 + 0.21 * max(n_columns, 4))


def plot_tree(
    parents: np.ndarray,
    information: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    means: np.ndarray | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Any:
    """Plot a tree over columns: the thicker an edge, the more the two have in common.

    Up to 64 columns have a line each, with their names, and hang to the right of what they hang from; more are spread
    out around the root, without names; and pixels are where they are in the image.

    Parameters
    ----------
    parents : (d,) array of int
        The column that each hangs from, -1 for a root, as in `parents_`.
    information : (d,) array
        What each has in common with that, in nats, as in `information_`.
    names : sequence of d names, optional
        Of the columns; else numbers from 1.
    ax : matplotlib Axes, optional
    means : (d,) array, optional
        How often each bit is 1: the more often, the darker.
    image_shape : (height, width), optional
        Where columns are pixels.
    """
    from matplotlib.collections import LineCollection

    parents, bits = checked_parents(parents), np.asarray(information, np.float64) * BITS_PER_NAT
    d = len(parents)
    if bits.shape != (d,) or (names is not None and len(names) != d):
        raise DataError(f"information and names must be one for each of the {d} columns")
    if image_shape is not None and image_shape[0] * image_shape[1] != d:
        raise DataError(f"an image of {image_shape[0]} x {image_shape[1]} has not {d} pixels")
    ax = axes_or_new(ax, tree_size(d, image_shape))
    named = image_shape is None and d <= MOST_NAMED
    if named:
        line, depth = outline(parents, bits)
        places = np.column_stack([depth, line]).astype(float)
    else:
        places = around(parents, bits) if image_shape is None else on_pixels(image_shape)
    own = np.flatnonzero(parents >= 0)
    own = own[np.argsort(bits[own], kind="stable")]
    widths = 0.6 + 5.4 * bits[own] / max(float(bits.max()), 1e-12)
    path = _corner if named else _straight if image_shape is None else _past_pixels
    paths = [path(places[parents[j]], places[j]) for j in own]
    ax.add_collection(LineCollection(paths, linewidths=widths, colors=EDGE, capstyle="round", zorder=1))
    size = 36.0 if named else min(60.0, 9000.0 / d)
    shade = np.full(d, 0.5) if means is None else np.asarray(means, np.float64)
    look: Any = {"cmap": ink(), "vmin": 0, "vmax": 1, "edgecolors": GREY, "linewidths": 0.8, "zorder": 2}
    ax.scatter(*places.T, s=size, c=shade, **look)
    bare(ax)
    if named:
        for j in range(d):
            word = str(j + 1) if names is None else short(str(names[j]), 34)
            words: Any = {"fontsize": SMALL + 1, "color": INK, "va": "center", "parse_math": False}
            ax.annotate(word, places[j], (7, 0), textcoords="offset points", annotation_clip=False, **words)
        ax.set_ylim(d - 0.4, -0.6)
        ax.set_xlim(-0.25, max(float(places[:, 0].max()), 1.0) * 1.45 + 0.4)
    else:
        pad = 0.06 * float(np.ptp(places, axis=0).max() or 1.0)
        low, high = places.min(axis=0) - pad, places.max(axis=0) + pad
        ax.set_xlim(low[0], high[0])
        ax.set_ylim(high[1], low[1])
        ax.set_aspect("equal")
    ax.set_facecolor(PAPER)
    dark = "" if means is None else "; the darker, the more often 1"
    ax.set_xlabel(f"thickest edge: {bits.max():.2f} bits in common{dark}", fontsize=SMALL + 1)
    return ax


def _straight(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    return np.array([start, end])


def _corner(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Draw an edge down or up first and then across, so that it crosses no name."""
    return np.array([start, [start[0], end[1]], end])


def _past_pixels(start: np.ndarray, end: np.ndarray) -> np.ndarray:
    """Draw an edge straight to a pixel that touches; to others in a bow, past those between."""
    along = end - start
    if np.abs(along).max() <= 1:
        return _straight(start, end)
    t = np.linspace(0, 1, 17)[:, None]
    aside = np.array([-along[1], along[0]]) / np.hypot(*along)
    return start + t * along + 4 * 0.42 * t * (1 - t) * aside  # of the way from pixel to pixel
