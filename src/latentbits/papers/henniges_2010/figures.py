"""Figures 1 and 2 of the paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.data.toys import Bars
from latentbits.figures.binary_sparse_coding.arrays import by_globularity
from latentbits.figures.binary_sparse_coding.pictures import plot_course, plot_fields
from latentbits.papers.henniges_2010.bars import SIZE, Trace
from latentbits.papers.henniges_2010.images import Fields, Setup
from latentbits.papers.skeleton import in_style, new_figure

__all__ = ["figure_1", "figure_2"]

N_EXAMPLES, N_RANDOM = 12, 200
TRUTH = (2.0, 2.0)  # pi H and sigma


@in_style
def figure_1(toy: Bars, traces: Mapping[str, Trace], iterations: Sequence[int]) -> Any:
    """Draw rows, components along the first run, and the courses of all runs."""
    figure = new_figure((13.5, 5.0), None)
    parts: Any = figure.subfigures(1, 3, width_ratios=(0.62, 1.9, 1.5))
    left, middle, right = parts
    ax = left.subplots()
    plot_fields(toy.X[:N_EXAMPLES], (SIZE, SIZE), ax, n_columns=2, common=True, colours="signed")
    ax.set_title(f"A  {N_EXAMPLES} of {len(toy.X)} rows")
    name, first = next(iter(traces.items()))
    shown = [number for number in iterations if number < len(first.components)]
    ax = middle.subplots()
    n_bars, n_pixels = first.components.shape[1:]
    plot_fields(
        first.components[shown].reshape(-1, n_pixels),
        (SIZE, SIZE),
        ax,
        row_labels=[str(number) for number in shown],
        n_columns=n_bars,
        colours="signed",
    )
    ax.set_ylabel("iteration")
    ax.set_title(f"B  components, pi H {name}")
    axes = right.subplots(2, 1)
    plot_course({name: (one.sparseness, one.noise) for name, one in traces.items()}, axes, truth=TRUTH)
    axes[0].set_title("C  course of learning")
    axes[0].set_xlabel("")
    return figure


@in_style
def figure_2(fields: Fields, setup: Setup) -> Any:
    """Draw components at random and the most globular ones, with the course of learning."""
    n, shape = len(fields.components), (setup.side, setup.side)
    across = 20 if n >= N_RANDOM else 10
    chosen = np.sort(np.random.default_rng(0).permutation(n)[:N_RANDOM])
    globular = by_globularity(fields.summary)[: min(40, max(n // 10, 1))]
    heights = [-(-len(one) // across) for one in (chosen, globular)]
    wide = 8.0 if across == 20 else 7.0
    components = _in_few_greys(fields.components)
    figure = new_figure((wide + 4.5, max(wide / across * (sum(heights) + 1.5) + 0.6, 4.5)), None)
    parts: Any = figure.subfigures(1, 2, width_ratios=(wide, 4.5))
    left, right = parts
    upper, lower = left.subplots(2, 1, height_ratios=heights)
    plot_fields(components, shape, upper, order=chosen, n_columns=across)
    upper.set_title(
        f"A  {len(chosen)} of {n} components, drawn at random" if len(chosen) < n else f"A  all {n} components"
    )
    plot_fields(components, shape, lower, order=globular, n_columns=across)
    lower.set_title(f"B  the {len(globular)} most globular ones")
    axes = right.subplots(2, 1)
    plot_course({"": (fields.sparseness, fields.noise)}, axes, marks=setup.cut)
    axes[0].set_title("C  course of learning")
    axes[0].set_xlabel("")
    return figure


def _in_few_greys(components: np.ndarray) -> np.ndarray:
    """Round each component to an odd number of levels from minus to plus its largest size.

    >>> _in_few_greys(np.array([[0.0, 7.2, -14.0]])).tolist()
    [[0.0, 8.0, -14.0]]
    """
    # 15 greys of a field, zero among them: with 256 the noise in fields takes twice the bytes, and looks the same
    step = np.maximum(np.abs(components).max(1, keepdims=True), 1e-30) / 7
    return np.round(components / step) * step
