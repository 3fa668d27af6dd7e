"""Errors along learning: of one fit for rows that it learns from and for others, and of many fits side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from latentbits.core.errors import DataError
from latentbits.figures.style import EDGE, GREY, INK, PALETTE, SMALL, axes_or_new, for_words

__all__ = ["plot_errors", "plot_runs"]


def plot_errors(
    steps: np.ndarray,
    curves: Mapping[str, np.ndarray],
    ax: Any = None,
    xlabel: str = "iteration",
    ylabel: str = "error",
    marks: Mapping[float, str] | None = None,
) -> Any:
    """Plot an error along learning, for training and test rows (figures 4.6, 4.7); a name at the end of each curve.

    Parameters
    ----------
    steps : (n,) array
        Iterations, or numbers of units.
    curves : mapping of names to (n,) arrays
        Drawn in the order given.
    ax : matplotlib Axes, optional
    xlabel, ylabel : str
    marks : mapping of steps to words, optional
        Where something happened, a number of components doubled for instance.
    """
    steps = np.asarray(steps, np.float64)
    if steps.ndim != 1 or any(np.shape(curve) != steps.shape for curve in curves.values()):
        raise DataError(f"curves must have one number a step, {len(steps)}")
    ax = axes_or_new(ax, (6.4, 4.2))
    for place, word in (marks or {}).items():
        if not steps[0] <= place <= steps[-1]:
            continue
        ax.axvline(place, color=EDGE, linewidth=0.8, zorder=1)
        ax.annotate(
            word,
            (place, 1),
            xycoords=ax.get_xaxis_transform(),
            xytext=(2, -1),
            textcoords="offset points",
            va="top",
            fontsize=SMALL - 1,
            color=GREY,
        )
    ends = _apart([float(np.asarray(curve)[-1]) for curve in curves.values()], [np.asarray(c) for c in curves.values()])
    for (name, curve), colour, end in zip(curves.items(), PALETTE, ends):
        ax.plot(steps, curve, color=colour, linewidth=1.8, zorder=2)
        ax.annotate(
            name,
            (steps[-1], end),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            color=for_words(colour),
            fontweight="bold",
            fontsize=SMALL + 1,
            annotation_clip=False,
        )
    ax.set_xlim(float(steps[0]), float(steps[-1]))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(axis="y")
    return ax


def plot_runs(
    runs: Mapping[str, Sequence[np.ndarray]],
    ax: Any = None,
    *,
    xlabel: str = "epoch",
    ylabel: str = "bits per pattern",
    levels: Mapping[str, float] | None = None,
) -> Any:
    """Plot a cost along many runs, one thin line each, a colour for each learner (Lewicki & Sejnowski, figure 4).

    Parameters
    ----------
    runs : mapping of names to sequences of (n,) arrays
        Or of (steps, values) pairs of such; else steps are 0, 1, ...  Runs may differ in length.
    ax : matplotlib Axes, optional
    xlabel, ylabel : str
    levels : mapping of names to values, optional
        As dashed lines: an optimum, for instance.
    """
    from matplotlib.ticker import MaxNLocator

    drawn = {name: [_stepped(one) for one in many] for name, many in runs.items()}
    if not any(drawn.values()):
        raise DataError("there is no run to draw")
    ax = axes_or_new(ax, (6.4, 4.2))
    last = max(float(steps[-1]) for many in drawn.values() for steps, _ in many)
    first = min(float(steps[0]) for many in drawn.values() for steps, _ in many)
    for name, level in (levels or {}).items():
        ax.axhline(level, color=INK, linewidth=1, linestyle="--", zorder=1)
        ax.annotate(
            name,
            (0, level),
            xycoords=ax.get_yaxis_transform(),
            xytext=(3, -2),
            textcoords="offset points",
            va="top",
            fontsize=SMALL,
            color=INK,
        )
    for (name, many), colour in zip(drawn.items(), PALETTE):
        for number, (steps, values) in enumerate(many):
            ax.plot(steps, values, color=colour, linewidth=1.0, alpha=0.75, zorder=2, label="" if number else name)
            ax.plot(steps[-1], values[-1], color=colour, marker="o", markersize=3, zorder=3)
    if len(drawn) > 1:
        found = ax.legend(frameon=False, fontsize=SMALL + 1, loc="upper right")
        for line in found.get_lines():
            line.set(linewidth=2.0, alpha=1.0)
    ax.set_xlim(first, last)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel(xlabel)
    ax.set_ylabel(ylabel)
    ax.grid(axis="y")
    return ax


def _stepped(run: Any) -> tuple[np.ndarray, np.ndarray]:
    steps, values = run if isinstance(run, tuple) else (np.arange(len(run)), run)
    steps, values = np.asarray(steps, np.float64), np.asarray(values, np.float64)
    if values.ndim != 1 or not len(values) or steps.shape != values.shape:
        raise DataError(f"a run has one number a step, found {values.shape} for {steps.shape}")
    return steps, values


def _apart(ends: list[float], curves: list[np.ndarray]) -> list[float]:
    """Move the heights of the names at the ends of curves apart until none overlap."""
    least = 0.06 * max(float(max(c.max() for c in curves) - min(c.min() for c in curves)), 1e-12)
    order = np.argsort(ends)
    placed = list(ends)
    for before, after in pairwise(order):
        placed[after] = max(placed[after], placed[before] + least)
    return placed
