"""Figures 1 to 4 of the paper, and the larger example."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.data.toys import LINE_PATTERNS, Lines, Shifter
from latentbits.figures.any_model.arrays import tile
from latentbits.figures.any_model.learning import plot_runs
from latentbits.figures.noisy_or.arrays import Credit, project_down
from latentbits.figures.noisy_or.pictures import plot_explanation, plot_network
from latentbits.figures.style import ACCENT, SMALL, STYLE, show
from latentbits.papers.lewicki_sejnowski_1996.measures import Shifts, lines_of, patterns_of, shifts_of
from latentbits.papers.skeleton import in_style, new_figure

__all__ = ["figure_1", "figure_2", "figure_3", "figure_4", "figure_digits", "figure_rows"]

LINES_SHAPE, SHIFTS_SHAPE, DIGITS_SHAPE = (5, 5), (4, 8), (8, 8)
KINDS = ("left", "right", "other", "dead")


WAYS = {
    "lines_alone": "a pattern alone, or lines (the caption)",
    "lines_one": "one pattern at most, over lines",
    "lines_any": "any patterns, over lines",
}


@in_style
def figure_1(toys: Mapping[str, Lines], probabilities: tuple[float, float]) -> Any:
    """Draw how the images of the lines problem are made, and some of them, made in each way."""
    figure = new_figure((11.0, 4.4))
    left, right = figure.subfigures(1, 2, width_ratios=(1.0, 1.9))
    ax, toy = left.subplots(), next(iter(toys.values()))
    show(ax, tile(np.vstack([toy.components, toy.pattern_components]), LINES_SHAPE, 5, 2))
    ax.set_yticks(
        [2, 9, 16],
        labels=[f"each line\n{probabilities[0]:g}", "", f"each pattern\n{probabilities[1]:g}"],
        fontsize=SMALL + 1,
    )
    ax.set_title("A  causes, and how often each is there")
    for ax, (name, toy) in zip(right.subplots(len(toys), 1, squeeze=False)[:, 0], toys.items()):
        show(ax, tile(toy.X[:40], LINES_SHAPE, 20, 2))
        ax.set_title(f"B  images: {WAYS[name]}", loc="left")
        ax.set_anchor("NW")
    return figure


@in_style
def figure_2(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray]) -> Any:
    """Draw weights of the lines network: second-layer units in the order of the lines, third-layer ones of patterns."""
    lines = lines_of(weights[0])
    patterns = patterns_of(weights[1], lines)
    names = list(LINE_PATTERNS)
    orders = [
        sorted(range(len(lines)), key=lambda k: (lines[k] < 0, lines[k])),
        sorted(range(len(patterns)), key=lambda i: names.index(patterns[i]) if patterns[i] else len(names)),
    ]
    places = np.argsort(orders[0]).tolist()  # numbers as they stand
    words = [[str(place + 1) for place in places], [name or "–" for name in patterns]]
    axes = plot_network(weights, biases, image_shape=LINES_SHAPE, orders=orders, labels=words)
    axes[0].set_title("Layer 2 (the paper's third): patterns of lines", loc="left")
    axes[1].set_title("Layer 1 (the paper's second): lines", loc="left")
    return axes[0].figure


@in_style
def figure_3(
    toy: Shifter, weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], shifts: Shifts | None = None
) -> Any:
    """Draw images of the shifter, and the weights of its network: left shifts, right shifts, other and dead units."""
    found = shifts_of(weights[0]) if shifts is None else shifts
    order = sorted(range(len(found.kinds)), key=lambda k: (KINDS.index(found.kinds[k]), found.places[k]))
    marks = {"left": "←", "right": "→", "other": "?", "dead": "–"}
    words = [f"{marks[kind]}{','.join(str(p + 1) for p in places)}" for kind, places in zip(*found)]
    figure = new_figure((12.5, 6.4))
    left, right = figure.subfigures(1, 2, width_ratios=(1.0, 5.2))
    ax = left.subplots()
    some = np.concatenate([np.flatnonzero(toy.direction == side)[:6] for side in (0, 1)])
    show(ax, tile(toy.X[some], SHIFTS_SHAPE, 1, 2))
    ax.set_yticks([16, 52], labels=["moved\nleft", "moved\nright"], fontsize=SMALL + 1)
    ax.set_title("A  images")
    axes = right.subplots(2, 1, height_ratios=(1.0, 1.5))
    plot_network(
        weights,
        biases,
        list(axes),
        image_shape=SHIFTS_SHAPE,
        orders=[order, None],
        labels=[words, None],
        n_columns=8,
    )
    axes[0].set_title("B  layer 2 (the paper's third): the shifts that each top unit brings", loc="left")
    axes[1].set_title("C  layer 1: local shifts, with the places of their bits", loc="left")
    return figure


@in_style
def figure_4(
    runs: Mapping[str, Sequence[Mapping[str, Any]]], names: Mapping[str, str], levels: Mapping[str, float]
) -> Any:
    """Draw cost along learning, one line a run, and the true bits per pattern in the end; a panel for each recipe."""
    figure = new_figure((10.5, 4.4))
    for ax, (recipe, many) in zip(figure.subplots(1, len(runs), sharey=True, squeeze=False)[0], runs.items()):
        plot_runs({"": [one["course"] for one in many]}, ax, xlabel="pass over the rows", levels=levels)
        last = max(len(one["course"]) for one in many) - 1
        ends = [one["bits"] for one in many]
        ax.scatter([1.04 * last] * len(ends), ends, s=14, color=ACCENT, zorder=4)
        ax.set_xlim(0, 1.08 * last)
        ax.set_ylim(8.5, 20)
        ax.label_outer()
        ax.set_title(f"{names[recipe].capitalize()}, {len(many)} runs")
    return figure


# --- rows and digits ---


@in_style
def figure_rows(rows: np.ndarray, credits: Sequence[Sequence[Credit]], image_shape: tuple[int, int], title: str) -> Any:
    """Draw some rows, each with the units that explain it."""
    across = max(len(one.units) + 1 for credit in credits for one in credit)
    height, width = image_shape
    deep = sum(0.7 * height / max(image_shape) + 0.55 for _ in range(len(credits[0]) + 1))
    figure = new_figure((1.05 * width / max(image_shape) * across + 1.0, deep * len(rows) + 0.5))
    for ax, row, credit in zip(figure.subplots(len(rows), 1, squeeze=False).ravel(), rows, credits):
        plot_explanation(row, credit, ax, image_shape=image_shape)
        ax.set_anchor("W")
    figure.suptitle(title, x=0.01, ha="left", fontweight="bold", fontsize=STYLE["axes.titlesize"])
    return figure


@in_style
def figure_digits(weights: Sequence[np.ndarray], biases: Sequence[np.ndarray], drawn: np.ndarray, X: np.ndarray) -> Any:
    """Draw what the units of each layer make of the inputs, and digits drawn from the model beside true ones."""
    depth = len(weights)
    figure = new_figure((12.0, 7.0))
    axes = figure.subplots(2, depth).reshape(2, depth)
    for layer, ax in enumerate(axes[0], 1):
        images = project_down(weights, biases, layer)
        show(ax, tile(images, DIGITS_SHAPE, int(np.ceil(np.sqrt(2 * len(images)))), 2))
        ax.set_title(f"Layer {layer}: P(pixel is on | one unit alone)")
    for ax, images, title in ((axes[1, 0], drawn, "Drawn from the network"), (axes[1, -1], X, "Digits")):
        show(ax, tile(images, DIGITS_SHAPE, 12, 2))
        ax.set_title(title)
    return figure
