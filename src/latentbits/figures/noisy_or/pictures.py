"""Pictures of noisy-OR networks: weights from layer to layer, what units stand for, and a row with its explanation.

Each function takes arrays and, if you have some, Axes, and returns the Axes it drew on.  What is drawn comes from a
`NoisyOrNetwork` (`weights_`, `biases_`); `arrays.py` and `reports/networks.py` prepare the arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from latentbits.core.errors import DataError, import_extra
from latentbits.figures.combination_machine.pictures import plot_hinton, plot_unit_bars
from latentbits.figures.noisy_or.arrays import Credit
from latentbits.figures.style import EDGE, INK, SMALL, STYLE, VEIL, axes_or_new, bare, ink, one_colour, short
from latentbits.figures.tiles import GROUND, draw_squares, images_checked, in_short, largest_of, word_below, words_for
from latentbits.reports.networks import Network, checked_network, names_of, project_down

__all__ = ["plot_explanation", "plot_layer", "plot_network"]

APART = 0.35  # between a matrix and the images beside it, in cells
CELL = 0.34  # inches of a cell in a separate figure
MOST_NAMES = 6  # columns named for a unit


# --- weights ---


def plot_layer(
    weights: np.ndarray,
    ax: Any = None,
    *,
    image_shape: tuple[int, int] | None = None,
    child_images: np.ndarray | None = None,
    unit_images: np.ndarray | None = None,
    labels: Sequence[str] | None = None,
    child_labels: Sequence[str] | None = None,
    largest: float | None = None,
) -> Any:
    """Plot the weights from one layer to the next below as squares of areas in proportion; figure 2, third layer.

    A line is a unit, a column one of its children.  Images, where given, show what a child stands for (above its
    column) and what the unit makes of the inputs (right of its line).

    Parameters
    ----------
    weights : (parents, children) array
        Not negative.
    ax : matplotlib Axes, optional
    image_shape : (height, width), optional
        Of both kinds of images.
    child_images : (children, height * width) array, optional
        Numbers from 0 to 1: `project_down` of the children's layer.
    unit_images : (parents, height * width) array, optional
        The same of the units.
    labels, child_labels : sequences of words, optional
        Of the units, left of their lines, and of the children; else numbers.
    largest : float, optional
        What a square that fills its cell is worth; else the largest weight.
    """
    weights = np.asarray(weights, np.float64)
    if weights.ndim != 2 or not (np.isfinite(weights).all() and (weights >= 0).all()):
        raise DataError(f"weights must be (parents, children), finite and not negative; found {weights.shape}")
    n_units, n_children = weights.shape
    lines, columns = words_for(labels, n_units), words_for(child_labels, n_children)
    for images, n in ((child_images, n_children), (unit_images, n_units)):
        if images is not None and (image_shape is None or len(images_checked(images, image_shape)) != n):
            raise DataError(f"{n} images and their image_shape are needed, found {np.shape(images)}, {image_shape}")
    high, wide = (1.0, 1.0) if image_shape is None else _scaled(image_shape)
    above = 0.0 if child_images is None else high + APART
    # a line is as high as its image
    deep, beside = (1.0, 0.0) if unit_images is None else (max(1.0, high + 0.1), APART + wide)
    down = n_units * deep
    ax = axes_or_new(ax, (CELL * (n_children + beside) + 1.2, CELL * (down + above) + 0.8))
    middles = deep * (np.arange(n_units) + 0.5)
    _ground(ax, 0, 0, n_children, down)
    _rule(ax, n_children, deep * np.arange(1, n_units))
    top = largest_of(weights, largest)
    y, x = (axis.ravel() for axis in np.meshgrid(middles, np.arange(n_children) + 0.5, indexing="ij"))
    draw_squares(ax, x, y, weights.ravel(), top)
    if child_images is not None:
        for place, image in enumerate(child_images):
            _image(ax, image, image_shape, place + 0.5, -APART - high / 2, 0.86)
    if unit_images is not None:
        for middle, image in zip(middles, unit_images):
            _image(ax, image, image_shape, n_children + APART + wide / 2, middle, 1.0)
    _frame(ax, (-0.2, n_children + beside + 0.2), (down + 0.15, -above - 0.15))
    ax.set_yticks(middles, labels=[short(word) for word in lines], fontsize=SMALL, parse_math=False)
    turned = max(map(len, columns)) > 5
    ax.set_xticks(
        np.arange(n_children) + 0.5,
        labels=[short(word) for word in columns],
        fontsize=SMALL,
        rotation=90 if turned else 0,
        parse_math=False,
    )
    ax.set_xlabel(f"largest square: {in_short(top)}", fontsize=SMALL)
    return ax


def plot_network(
    weights: Sequence[np.ndarray],
    biases: Sequence[np.ndarray],
    axes: Sequence[Any] | None = None,
    *,
    image_shape: tuple[int, int] | None = None,
    column_names: Sequence[str] | None = None,
    orders: Sequence[Sequence[int] | None] | None = None,
    labels: Sequence[Sequence[str] | None] | None = None,
    n_columns: int = 10,
) -> Any:
    """Plot all weights of a network, the top layer first; figure 2.

    The lowest hidden layer has a tile for each unit: its weights as squares in the place of their pixels, or, for rows
    that are no images, its largest weights with the names of their columns.  A higher one is drawn by `plot_layer`:
    above each column is what the child makes of the inputs, right of each line what the unit does.

    Parameters
    ----------
    weights, biases : sequences of arrays
        As `NoisyOrNetwork.weights_` and `biases_`.
    axes : one matplotlib Axes for each hidden layer, top first, optional
    image_shape : (height, width), optional
    column_names : sequence of d names, optional
        Needed where there is no image shape.
    orders : sequence, bottom first, optional
        For each hidden layer, the order of its units, or None.
    labels : sequence, bottom first, optional
        For each hidden layer, words for its units as they are numbered, or None for their names in `transform`.
    n_columns : int
        Tiles of the lowest layer side by side.
    """
    network = checked_network(weights, biases)
    depth = len(network.weights)
    orders = [None] * depth if orders is None else list(orders)
    labels = [None] * depth if labels is None else list(labels)
    if (image_shape is None) == (column_names is None):
        raise DataError("one of image_shape and column_names is needed")
    chosen = [np.arange(n) if one is None else np.asarray(one, int) for n, one in zip(network.sizes[1:], orders)]
    named = [
        names_of(layer, n) if one is None else one for layer, (one, n) in enumerate(zip(labels, network.sizes[1:]), 1)
    ]
    words = [[words_for(one, n)[i] for i in order] for one, n, order in zip(named, network.sizes[1:], chosen)]
    if axes is None:
        axes = _stack(network, chosen, image_shape, n_columns)
    elif len(axes) != depth:
        raise DataError(f"{depth} Axes are needed, one for each hidden layer; found {len(axes)}")
    images = [project_down(network.weights, network.biases, layer + 1)[chosen[layer]] for layer in range(depth)]
    for ax, layer in zip(axes, reversed(range(1, depth))):
        plot_layer(
            network.weights[layer][np.ix_(chosen[layer], chosen[layer - 1])],
            ax,
            image_shape=image_shape,
            child_images=None if image_shape is None else images[layer - 1],
            unit_images=None if image_shape is None else images[layer],
            labels=words[layer],
            child_labels=words[layer - 1],
        )
        ax.set_anchor("W")
        _title(ax, f"Layer {layer + 1}, over layer {layer}")
    bottom, lowest = axes[-1], network.weights[0][chosen[0]]
    if image_shape is not None:
        plot_hinton(lowest, image_shape, ax=bottom, labels=words[0], n_columns=min(n_columns, len(lowest)))
        bottom.set_anchor("W")
    else:
        assert column_names is not None
        plot_unit_bars(lowest, column_names, bottom, MOST_NAMES, words[0])
    _title(bottom, "Layer 1, over the inputs")
    return list(axes)


def _stack(network: Network, chosen: Sequence[np.ndarray], shape: tuple[int, int] | None, n_columns: int) -> Any:
    """Stack axes one above the other, as high as their contents."""
    plt = import_extra("matplotlib.pyplot", extra="plot", purpose="drawing")
    high, wide = (0.0, 0.0) if shape is None else _scaled(shape)
    heights, widths = [], [6.0]
    for layer in reversed(range(1, len(network.weights))):
        heights.append(CELL * (len(chosen[layer]) * max(1.0, high + 0.1) + high + APART) + 1.0)
        widths.append(CELL * (len(chosen[layer - 1]) + wide + APART) + 1.2)
    if shape is None:
        heights.append(0.21 * -(-len(chosen[0]) // 3) * (MOST_NAMES + 1.4) + 0.9)
        widths.append(9.0)
    else:
        across = min(n_columns, len(chosen[0]))
        scale = min(0.11, 10.0 / (across * 1.3 * shape[1]))
        gap = max(1.5, 0.3 * shape[0])
        heights.append(scale * -(-len(chosen[0]) // across) * (shape[0] + gap) + 0.9)
        widths.append(scale * across * (shape[1] + gap))
    with plt.rc_context(STYLE):
        size = max(widths), sum(heights)
        found = plt.subplots(len(heights), 1, figsize=size, height_ratios=heights, layout="constrained", squeeze=False)
    return found[1].ravel()


# --- a row ---


def plot_explanation(
    row: np.ndarray,
    credits: Sequence[Credit],
    ax: Any = None,
    *,
    image_shape: tuple[int, int] | None = None,
    column_names: Sequence[str] | None = None,
    names: Sequence[Sequence[str] | None] | None = None,
) -> Any:
    """Plot a row and the units that explain it, layer by layer: the share of each input that comes from each.

    Images: one line of tiles for each layer, causes above what they cause, the row itself last.  A unit has its name
    and, in percent, its share of all inputs that are on.  What comes from none of the layer is its last tile: the
    biases, its own children's and those below.  Other rows: a table of squares, one line for each column that is on.

    Parameters
    ----------
    row : (d,) array of 0 and 1, NaN for missing
    credits : sequence of Credit, bottom first
        Shares by layer, from `arrays.credit_of`.
    ax : matplotlib Axes, optional
    image_shape : (height, width), optional
    column_names : sequence of d names, optional
        Needed where there is no image shape.
    names : sequence, bottom first, optional
        For each hidden layer, words for all its units, or None for their names in `transform`.
    """
    row = np.asarray(row, np.float64)
    if not credits or any(one.rest.shape != row.shape for one in credits):
        raise DataError(f"shares of the {row.size} inputs are needed for at least one layer")
    if (image_shape is None) == (column_names is None):
        raise DataError("one of image_shape and column_names is needed")
    names = [None] * len(credits) if names is None else list(names)
    if len(names) != len(credits):
        raise DataError(f"names of {len(names)} layers for {len(credits)}")
    words = [_unit_words(one, given) for one, given in zip(credits, names)]
    if image_shape is not None:
        return _explain_image(row, credits, words, image_shape, ax)
    assert column_names is not None
    return _explain_table(row, credits, words, column_names, ax)


def _unit_words(credit: Credit, names: Sequence[str] | None) -> list[str]:
    """Name the causes of a layer, the rest included."""
    called = [f"h{credit.layer}_{unit}" if names is None else str(names[unit]) for unit in credit.units]
    return [*called, "bias"]


def _explain_image(
    row: np.ndarray, credits: Sequence[Credit], words: list[list[str]], image_shape: tuple[int, int], ax: Any
) -> Any:
    images_checked(np.nan_to_num(row)[None], image_shape)
    across = max(len(one.units) + 1 for one in credits)
    high, wide = _scaled(image_shape)
    step, line = 1.4 * wide, high + 0.75
    ax = axes_or_new(ax, (0.72 * step * across + 0.7, 0.72 * line * (len(credits) + 1) + 0.2))
    n_on = max(float(np.nansum(row)), 1.0)
    for place, (credit, called) in enumerate(zip(reversed(credits), reversed(words))):
        for column, (share, word) in enumerate(zip([*credit.shares, credit.rest], called)):
            x, y = step * (column + 0.5), line * place + high / 2
            _image(ax, share, image_shape, x, y, 1.0)
            word_below(ax, x, y + high / 2, f"{short(word, 14)}\n{share.sum() / n_on:.0%}")
    x, y = step * 0.5, line * len(credits) + high / 2
    _image(ax, row, image_shape, x, y, 1.0)
    _frame(ax, (0, step * across), (line * (len(credits) + 1) - 0.45, -0.1))
    middles = [line * place + high / 2 for place in range(len(credits) + 1)]
    ax.set_yticks(middles, labels=[*(f"layer {one.layer}" for one in reversed(credits)), "row"], fontsize=SMALL + 1)
    return ax


def _explain_table(
    row: np.ndarray, credits: Sequence[Credit], words: list[list[str]], column_names: Sequence[str], ax: Any
) -> Any:
    if len(column_names) != row.size:
        raise DataError(f"{len(column_names)} column names for {row.size} columns")
    on = np.flatnonzero(np.nan_to_num(row) > 0)
    n_causes = sum(map(len, words)) + len(credits) - 1
    longest = max(len(word) for called in words for word in called)
    ax = axes_or_new(ax, (0.3 * n_causes + 2.2, 0.27 * max(len(on), 1) + 0.09 * min(longest, 18) + 0.6))
    left, ticks, labels = 0.0, [], []
    for credit, called in zip(reversed(credits), reversed(words)):
        values = np.vstack([credit.shares, credit.rest])[:, on].T
        _ground(ax, left, 0, len(called), len(on))
        y, x = (axis.ravel() for axis in np.meshgrid(np.arange(len(on)), np.arange(len(called)), indexing="ij"))
        draw_squares(ax, left + x + 0.5, y + 0.5, values.ravel(), 1.0)
        ax.text(left, len(on) + 0.25, f"layer {credit.layer}", va="top", fontsize=SMALL, color=INK)
        ticks += [left + place + 0.5 for place in range(len(called))]
        labels += [short(word, 18) for word in called]
        left += len(called) + 1.0
    _frame(ax, (-0.2, left - 0.8), (len(on) + 1.2, -0.2))
    ax.set_yticks(
        np.arange(len(on)) + 0.5,
        labels=[short(str(column_names[j])) for j in on.tolist()],
        fontsize=SMALL,
        parse_math=False,
    )
    ax.xaxis.tick_top()
    ax.set_xticks(ticks, labels=labels, fontsize=SMALL, rotation=90, parse_math=False)
    return ax


# --- shared ---


def _scaled(image_shape: tuple[int, int]) -> tuple[float, float]:
    """Compute height and width of an image that fits into a cell."""
    height, width = image_shape
    return height / max(image_shape), width / max(image_shape)


def _image(ax: Any, values: np.ndarray, image_shape: Any, x: float, y: float, size: float) -> None:
    """Draw numbers from 0 to 1 as an image about a place, with a thin edge; missing ones in another colour."""
    from matplotlib.patches import Rectangle

    high, wide = (size * side for side in _scaled(image_shape))
    image = np.reshape(np.asarray(values, np.float64), image_shape)
    box = (x - wide / 2, x + wide / 2, y + high / 2, y - high / 2)
    ax.imshow(image, cmap=ink(), vmin=0, vmax=1, interpolation="nearest", extent=box, zorder=2)
    if np.isnan(image).any():
        holes = np.where(np.isnan(image), 1.0, np.nan)
        ax.imshow(holes, cmap=one_colour(VEIL), vmin=0, vmax=1, interpolation="nearest", extent=box, zorder=2)
    ax.add_patch(Rectangle((box[0], box[3]), wide, high, fill=False, edgecolor=EDGE, linewidth=0.5, zorder=3))


def _ground(ax: Any, left: float, top: float, width: float, height: float) -> None:
    from matplotlib.patches import Rectangle

    ax.add_patch(Rectangle((left, top), width, height, facecolor=GROUND, edgecolor=EDGE, linewidth=0.5, zorder=1))


def _title(ax: Any, words: str) -> None:
    ax.set_title(words, loc="left", fontsize=STYLE["axes.titlesize"], fontweight=STYLE["axes.titleweight"])


def _rule(ax: Any, right: float, places: np.ndarray) -> None:
    """Draw thin lines between the units of a matrix."""
    ax.hlines(places, 0, right, color=EDGE, linewidth=0.5, zorder=1)


def _frame(ax: Any, across: tuple[float, float], down: tuple[float, float]) -> None:
    """Set limits and equal scales, and hide the axes."""
    bare(ax)
    ax.set_aspect("equal")
    ax.set_xlim(*across)
    ax.set_ylim(*down)
