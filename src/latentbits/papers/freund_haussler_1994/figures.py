"""The figures of the paper: 2.2, 4.1 to 4.9, and weights beside principal components (section 2.4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latentbits.estimators.combination_machine import CombinationMachine
from latentbits.figures.any_model.arrays import tile
from latentbits.figures.any_model.learning import plot_errors
from latentbits.figures.clipped_gaussian.pictures import plot_weights
from latentbits.figures.combination_machine.arrays import (
    gaussians_of,
    match_units,
    matched_order,
    principal_components,
    project,
    words_of_match,
)
from latentbits.figures.combination_machine.pictures import plot_gaussians, plot_hinton, plot_projections
from latentbits.figures.style import SMALL, show
from latentbits.papers.skeleton import in_style, new_figure

__all__ = [
    "figure_2_2",
    "figure_4_1",
    "figure_4_2",
    "figure_along",
    "figure_examples",
    "figure_principal",
    "figure_weights",
]

THREE_UNITS = np.array([[3.8, 0.6], [0.9, 3.2], [-2.6, 5.4]])  # weights of figure 2.2
NAMES = {
    "true": "the target",
    "gradient": "gradient ascent alone",
    "pursuit": "projection pursuit alone",
    "pursuit+gradient": "projection pursuit, then gradient ascent",
    "default": "the default of CombinationMachine",
}
SHAPE, N_UNITS = (8, 8), 10
PROJECTED = "pursuit+gradient"


@in_style
def figure_2_2() -> Any:
    """Draw eight Gaussians in the plane, of three hidden units."""
    figure = new_figure((5.6, 7.0))
    ax = figure.subplots()
    # each unit is on half of the time: h and 1 - h have the same probability
    plot_gaussians(gaussians_of(THREE_UNITS, -0.5 * THREE_UNITS @ THREE_UNITS.sum(0)), ax)
    ax.set_title("Three hidden units: a mixture of eight Gaussians")
    return figure


@in_style
def figure_4_1(machines: Mapping[str, CombinationMachine], X: np.ndarray) -> Any:
    """Draw weights of the target and of the machines learned from it, matched; projections for pursuit and gradient."""
    names = [name for name in NAMES if name in machines]
    figure = new_figure((12.5, 2.0 * len(names) + 1.4))
    heights = [h for name in names for h in ((1.0, 0.7) if name == PROJECTED else (1.0,))]
    axes = iter(figure.subplots(len(heights), 1, height_ratios=heights))
    for letter, name in zip("abcdefg", names):
        order = _hinton(next(axes), machines, name, letter, 6.0)
        if name == PROJECTED:
            ax, machine = next(axes), machines[name]
            on = machine.posterior(X).mode[:, order] > 0.5
            # a tile under its matrix, and a word for both above
            plot_projections(project(X, machine.components_[order]), on, ax, [""] * len(order), n_columns=N_UNITS)
            ax.set_title("      the rows projected on these weights; in colour those for which the unit is on")
            ax.set_xlabel("")
    return figure


@in_style
def figure_4_2(machines: Mapping[str, CombinationMachine], largest: float) -> Any:
    """Draw the machines learned with weights divided by seven, matched to the target."""
    names = [name for name in NAMES if name in machines]
    figure = new_figure((12.5, 2.0 * len(names)))
    for letter, name, ax in zip("abcdefg", names, figure.subplots(len(names), 1)):
        _hinton(ax, machines, name, letter, largest)
    return figure


def _ordered(machine: CombinationMachine, true: CombinationMachine, is_true: bool) -> tuple[list[int], list[str]]:
    """Put units in the order of the target's, and say which of these each is."""
    if is_true:
        return list(range(len(machine.components_))), [str(i + 1) for i in range(len(machine.components_))]
    matches = match_units(machine.components_, true.components_)
    order = matched_order(matches)
    return order, [f"{words_of_match(matches[i])}  ({matches[i].cosine:.2f})" for i in order]


def _hinton(ax: Any, machines: Mapping[str, CombinationMachine], name: str, letter: str, largest: float) -> list[int]:
    """Draw one line of matrices, in the order of the target's units; give this order."""
    machine = machines[name]
    order, words = _ordered(machine, machines["true"], name == "true")
    bias = machine.hidden_bias_[order]
    plot_hinton(machine.components_[order], SHAPE, bias, ax, words, n_columns=N_UNITS, largest=largest)
    ax.set_xlabel("")
    ax.set_title(f"({letter})  {NAMES[name]}")
    key = f"largest square: {largest:.2g}, of the biases above: {np.abs(bias).max():.2g}; full: plus, empty: minus"
    ax.set_title(key, loc="right", fontsize=SMALL, fontweight="normal")
    return order


# --- digits ---


@in_style
def figure_examples(X: np.ndarray, image_shape: tuple[int, int], title: str) -> Any:
    """Draw some of the rows, as images (4.3)."""
    figure = new_figure((9.0, 2.1))
    ax = figure.subplots()
    show(ax, tile(X[:24], image_shape, 12, 3))
    ax.set_title(title)
    return figure


@in_style
def figure_weights(
    weights: np.ndarray, image_shape: tuple[int, int], title: str, n_columns: int, n_shown: int | None = None
) -> Any:
    """Draw weight vectors as images, each on a scale to itself (4.4, 4.5, 4.8, 4.9)."""
    shown = weights[: n_shown or len(weights)]
    deep = int(np.ceil(len(shown) / n_columns))
    figure = new_figure((1.0 * n_columns + 0.6, 1.05 * deep + 0.9))
    ax = figure.subplots()
    plot_weights(shown, image_shape, ax, n_columns=n_columns)
    ax.set_title(title)
    ax.set_xlabel("red: plus, blue: minus, each image on its own scale", fontsize=SMALL)
    return figure


@in_style
def figure_along(curves: Mapping[str, Mapping[str, Any]], measure: str, ylabel: str) -> Any:
    """Draw an error along the learning of a mixture and of a machine, on the same scale (4.6, 4.7)."""
    figure = new_figure((12.0, 4.6))
    pair = figure.subplots(1, 2, sharey=True)
    for ax, (name, one) in zip(pair, curves.items()):
        first = one["steps"][0]
        marks = {max(float(step), first): str(size) for step, size in one.get("doublings", {}).items()}
        train, test = one[measure]
        plot_errors(one["steps"], {"training": train, "test": test}, ax, "iteration", ylabel, marks)
        ax.set_title(f"{name}{' (above: number of components)' if marks else ''}")
    return figure


@in_style
def figure_principal(machines: Mapping[str, np.ndarray], X: np.ndarray, image_shape: tuple[int, int], n: int) -> Any:
    """Draw weights beside the principal components of the same rows (2.4)."""
    figure = new_figure((4.3 * (len(machines) + 1), 5.0))
    layout: Any = figure.get_layout_engine()
    layout.set(wspace=0.08)
    found = principal_components(X, n)
    axes = figure.subplots(1, len(machines) + 1)
    across = int(np.ceil(np.sqrt(n)))
    for ax, (name, weights) in zip(axes, machines.items()):
        plot_weights(weights[:n], image_shape, ax, n_columns=across)
        ax.set_title(name)
    plot_weights(found.components, image_shape, axes[-1], [f"{share:.1%}" for share in found.shares], across)
    axes[-1].set_title(f"Principal components, {found.shares.sum():.0%} of the variance")
    for ax in axes:
        ax.set_anchor("N")
    return figure
