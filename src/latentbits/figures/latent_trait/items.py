"""Pictures of the items of a test: curves with observed proportions, test information, the Wright map.

Each function takes arrays and, if you have one, an Axes, and returns the Axes it drew on.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.latent_trait.item_arrays import GroupsOfPersons, name_columns, wright_map
from latentbits.figures.placing import text_widths
from latentbits.figures.style import ACCENT, GREY, INK, PALETTE, SMALL, axes_or_new, for_words, short, size_in_points

__all__ = ["plot_item_fit", "plot_test_information", "plot_wright_map"]

CURVE, POINTS = PALETTE[0], ACCENT
PERSONS = "#b9c6d1"
FIRST, GAP = 16.0, 8.0  # points from the scale to the first column of names, and between columns


def plot_item_fit(
    points: np.ndarray, curve: np.ndarray, groups: GroupsOfPersons, item: int, ax: Any = None, name: str | None = None
) -> Any:
    """Plot the curve of one item, and the share of 1 in groups of persons beside it, with 95 % intervals.

    Parameters
    ----------
    points, curve : (m,) arrays
        Places along the trait, and P(1) there.
    groups : GroupsOfPersons
        As `observed_by_others` makes them.
    item : int
        Which line of `groups` is drawn.
    ax : matplotlib Axes, optional
    name : str, optional
        Written above; else the number of the item, from 1.
    """
    ax = axes_or_new(ax, (4.6, 3.4))
    ax.plot(points, curve, color=CURVE, linewidth=1.6, zorder=2)
    there = groups.counts[item] > 0
    x, y, counts = groups.places[item, there], groups.observed[item, there], groups.counts[item, there]
    ax.vlines(x, groups.low[item, there], groups.high[item, there], color=POINTS, linewidth=1.1, zorder=3)
    sizes = np.clip(42.0 * counts / groups.counts.max(), 8.0, None)  # square points, by the size of the group
    ax.scatter(x, y, s=sizes, color=POINTS, linewidths=0, zorder=4)
    ax.set_xlim(float(points[0]), float(points[-1]))
    ax.set_ylim(-0.03, 1.03)
    ax.set_yticks([0, 0.5, 1], labels=["0", "½", "1"])
    ax.grid()
    ax.set_title(str(item + 1) if name is None else short(str(name)), fontsize=SMALL + 1, pad=4, parse_math=False)
    return ax


def plot_test_information(points: np.ndarray, information: np.ndarray, ax: Any = None) -> Any:
    """Plot the test's information along the trait, and on its own scale the standard error, 1 / its root.

    Parameters
    ----------
    points : (m,) or (m, 1) array, ascending
    information : (m,) or (m, d) array
        Of the test; or of its items, which are added.
    ax : matplotlib Axes, optional
        For the information; its twin has the scale of the error.
    """
    x, total = np.ravel(points), np.asarray(information, np.float64)
    if total.ndim == 2:
        total = total.sum(axis=1)
    if total.shape != x.shape or not (total > 0).any():
        raise DataError(f"information must be above 0 somewhere, at {len(x)} points; found shape {total.shape}")
    ax = axes_or_new(ax, (6.4, 4.2))
    ax.plot(x, total, color=CURVE, linewidth=2)
    ax.set_xlim(float(x[0]), float(x[-1]))
    ax.set_ylim(0, 1.12 * float(total.max()))
    ax.set_xlabel("trait")
    ax.set_ylabel("test information", color=for_words(CURVE))
    ax.grid(axis="x")
    other = ax.twinx()
    with np.errstate(divide="ignore"):
        error = 1 / np.sqrt(total)
    other.plot(x, error, color=POINTS, linewidth=1.6, linestyle=(0, (5, 2)))
    least = float(error.min())
    # far from all items the error grows without end; the picture is of where it is small
    other.set_ylim(0, min(1.12 * float(error.max()), 4 * least))
    other.set_ylabel("standard error, 1 / √information (dashed)", color=for_words(POINTS))
    other.spines["top"].set_visible(False)
    return ax


def plot_wright_map(
    scores: np.ndarray,
    difficulty: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    weights: np.ndarray | None = None,
    score_name: str = "scores",
) -> Any:
    """Plot persons and items on one scale, so that one sees who is likely to answer which item.

    To the left of the line the distribution of the persons' scores, to the right the items at their difficulties, where
    P(1) is one half.  Items beyond the scale are written at its ends, with their difficulties.

    Parameters
    ----------
    scores : (n,) or (n, 1) array
        Of persons, for instance EAP.
    difficulty : (d,) array
    names : sequence of d names, optional
    ax : matplotlib Axes, optional
    weights : (n,) array or None
        How often each person counts; None for once.
    score_name : str
        What the scores are called.
    """
    found = wright_map(np.ravel(scores), difficulty, weights)
    d = len(found.places)
    words = [str(item + 1) if names is None else short(str(names[item]), 18) for item in range(d)]
    words = [
        word if side == 0 else f"{word} {'↑' if side > 0 else '↓'} {place:.3g}"
        for word, side, place in zip(words, found.beyond, difficulty)
    ]
    ax = axes_or_new(ax, (6.4, min(9.0, max(4.4, 0.11 * d))))
    ax.set_ylim(found.low, found.high)
    ax.set_xlim(-1.05, _room_for_names(ax, words))
    ax.set_xticks([])
    ax.spines["bottom"].set_visible(False)
    ax.set_ylabel("trait")
    ax.barh(
        found.edges[:-1],
        -found.persons / found.persons.max(),
        np.diff(found.edges),
        align="edge",
        color=PERSONS,
        edgecolor="white",
        linewidth=0.6,
    )
    ax.axvline(0, color=INK, linewidth=0.8)
    heading: Any = {"transform": ax.get_xaxis_transform(), "va": "top", "fontsize": SMALL + 1, "color": INK}
    ax.text(-0.04, -0.02, f"{found.persons.sum():,.0f} persons, {score_name}", ha="right", **heading)
    ax.text(0.04, -0.02, f"{d:,} items, difficulty", ha="left", **heading)
    _draw_names(ax, found.places, words, (found.low, found.high))
    return ax


def _room_for_names(ax: Any, words: Sequence[str]) -> float:
    """Extend the axis to the right, where the persons' part is 1: many names take many columns."""
    width, height = size_in_points(ax)
    n_columns = np.clip(np.ceil(3 * len(words) * SMALL / height), 1, 4)  # few names stand evenly spread
    room = FIRST + n_columns * (text_widths(words, SMALL).max(initial=0.0) + GAP)
    return float(np.clip(room / max(width - room, 1.0), 0.45, 2.0))


def _draw_names(ax: Any, places: np.ndarray, words: Sequence[str], limits: tuple[float, float]) -> None:
    """Draw names to the right of the scale, in as many columns as they need, and strokes to them."""
    shown = np.flatnonzero(~np.isnan(places)).tolist()
    width, height = size_in_points(ax)
    left, right = ax.get_xlim()
    across, up = width / (right - left), height / (limits[1] - limits[0])
    size = SMALL if len(shown) <= 40 else SMALL - 1
    widths = text_widths([words[item] for item in shown], size) + GAP
    room = (right * across - FIRST, height)
    found = name_columns((places[shown] - limits[0]) * up, widths, 1.25 * size, room)
    starts = [
        FIRST + sum(widths[found.columns == before].max(initial=0.0) for before in range(column))
        for column in range(int(found.columns.max(initial=0)) + 1)
    ]
    for item, column, level in zip(shown, found.columns, found.heights):
        x, y = starts[column] / across, limits[0] + level / up
        ax.plot([0, 0.35 * FIRST / across], [places[item]] * 2, color=POINTS, linewidth=1.4, solid_capstyle="butt")
        if column == 0:
            ax.plot([0.35 * FIRST / across, x], [places[item], y], color=GREY, linewidth=0.5)
        ax.annotate(
            words[item],
            (x, y),
            xytext=(2, 0),
            textcoords="offset points",
            va="center",
            fontsize=size,
            color=INK,
            parse_math=False,
        )
