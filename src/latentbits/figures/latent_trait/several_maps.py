"""Several maps side by side: a mixture of latent trait models, each row as dark as it probably is on the map."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, import_extra
from latentbits.figures.latent_trait.arrays import data_window, label_groups
from latentbits.figures.latent_trait.map_parts import colour_of, draw_legend, draw_number, show_window
from latentbits.figures.style import GREY, PAPER, STYLE

__all__ = ["plot_several_maps"]

UNSEEN = 0.02  # probability below which a row is not drawn on a map
AREA = 16.0  # square points of a row that is surely on the map


def plot_several_maps(
    means: np.ndarray,
    responsibilities: np.ndarray,
    axes: Sequence[Any] | None = None,
    *,
    labels: Iterable[Any] | None = None,
    label_names: Any = None,
    marks: Sequence[np.ndarray] | None = None,
) -> list[Any]:
    """Plot rows on each of several maps; size and darkness are the probability that a row is on it.

    Parameters
    ----------
    means : (n, m, 2) array
        Posterior means on each map: ``TraitMaps(m, 2).fit(X).posterior(X).means``.
    responsibilities : (n, m) array
        P(map | row).
    axes : m matplotlib Axes, optional
    labels : n values, optional
        Rows of one label share a colour; None, NaN and "" are no label.
    label_names : mapping from a label to its name, or sequence of names for labels 0, 1, ..., optional
    marks : m arrays (k, 2), optional
        Places to be numbered, from 1 on through all maps.
    """
    means, sure = np.asarray(means, np.float64), np.asarray(responsibilities, np.float64)
    if means.ndim != 3 or means.shape[2] != 2 or sure.shape != means.shape[:2]:
        raise DataError(f"means must be (n, maps, 2) and responsibilities (n, maps), found {means.shape}, {sure.shape}")
    names, groups = ([], np.full(len(means), -1)) if labels is None else label_groups(labels, label_names)
    n_maps = means.shape[1]
    if axes is None:
        plt = import_extra("matplotlib.pyplot", extra="plot", purpose="drawing")
        with plt.rc_context(STYLE):
            made = plt.subplots(1, n_maps, figsize=(4.6 * n_maps, 5.2), squeeze=False, layout="constrained")
        axes = list(made[1][0])
    number = 0
    for place, ax in enumerate(axes):
        _draw(ax, means[:, place], sure[:, place], names, groups)
        here = np.empty((0, 2)) if marks is None else np.reshape(np.asarray(marks[place], np.float64), (-1, 2))
        for mark in here:
            number += 1
            draw_number(ax, number, mark)
        drawn = means[sure[:, place] >= UNSEEN, place]
        show_window(ax, data_window(np.concatenate([drawn, here]) if len(drawn) or len(here) else np.zeros((1, 2))))
        ax.set_xlabel("latent 1")
        ax.set_ylabel("latent 2")
        ax.set_title(f"map {place + 1}: {100 * sure[:, place].mean():.0f} % of the rows")
    draw_legend(axes[0], _handles(names))
    return list(axes)


def _draw(ax: Any, means: np.ndarray, sure: np.ndarray, names: list[str], groups: np.ndarray) -> None:
    from matplotlib.colors import to_rgba

    there = np.flatnonzero(sure >= UNSEEN)
    there = there[np.argsort(sure[there], kind="stable")]  # the surest on top
    colours = [to_rgba(colour_of(int(groups[row]), names), 0.1 + 0.7 * float(sure[row])) for row in there]
    ax.scatter(*means[there].T, s=AREA * (0.3 + 0.7 * sure[there]), c=colours, linewidths=0.3, edgecolors=PAPER)


def _handles(names: list[str]) -> list[Any]:
    from matplotlib.colors import to_rgba
    from matplotlib.lines import Line2D

    def disc(colour: Any, share: float, label: str) -> Any:
        look: dict[str, Any] = {"marker": "o", "linestyle": "", "markeredgecolor": "none"}
        size = float(np.sqrt(AREA * (0.3 + 0.7 * share)))
        return Line2D([], [], color=to_rgba(colour, 0.1 + 0.7 * share), markersize=size, label=label, **look)

    handles = [disc(colour_of(group, names), 1.0, name) for group, name in enumerate(names)]
    base = GREY if names else colour_of(-1, names)
    return handles + [disc(base, share, f"on this map with {share:g}") for share in (1.0, 0.5, 0.1)]
