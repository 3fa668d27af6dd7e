"""The figures of `latentbits.explore` for print: what its page shows, drawn by matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from latentbits.choosing.real_tables import mean_seen
from latentbits.core.errors import DataError
from latentbits.core.printable import printable
from latentbits.explorer.content import Content, Guesses, Labels
from latentbits.explorer.findings import headline
from latentbits.explorer.meanings import colouring
from latentbits.figures.any_model.arrays import numbers_on
from latentbits.figures.any_model.pictures import (
    MOST_COLUMNS,
    plot_comparison,
    plot_completions,
    plot_components,
    plot_gallery,
    plot_history,
    plot_numbers_on,
    sheet,
)
from latentbits.figures.clipped_gaussian.pictures import plot_loadings, plot_spectra, plot_weights
from latentbits.figures.combination_machine.pictures import plot_hinton, plot_unit_bars
from latentbits.figures.latent_trait.arrays import decode, spread_places
from latentbits.figures.latent_trait.maps import plot_decoded, plot_map
from latentbits.figures.latent_tree.pictures import plot_tree
from latentbits.reports.summaries.records import Gallery, Layer
from latentbits.reports.trees import BITS_PER_NAT

__all__ = ["draw_exploration", "draw_map"]

MOST_TILES = 40
MOST_KINDS = 12
MOST_UNITS = 20  # causes that are drawn
MOST_ON_MAP = 5000  # rows drawn
N_PLACES = 9  # of a map that are shown as images


def draw_exploration(content: Content) -> Any:
    """Draw the results of `latentbits.explore` for print: the comparison, the best model's causes, and their use.

    The best is one that has converged; others are marked in the comparison.

    Parameters
    ----------
    content : latentbits.explorer.content.Content
        What its page shows.

    Returns
    -------
    matplotlib Figure with two or three panels
    """
    galleries = {gallery.name: gallery for gallery in content.galleries if gallery.layers or gallery.trees}
    gallery = next((galleries[model.name] for model in content.sound if model.name in galleries), None)
    has_images = content.table.image_shape is not None
    unfinished = [model for model in content.models if not model.converged]
    with sheet((13, 7.4), headline(content.table.source, content.sound, unfinished, content.together)) as figure:
        use = _use(content, gallery)
        rows = [["models", "causes"], ["use", "use" if has_images and content.guesses else "causes"]]
        layout = rows if use is not None else rows[:1]
        panels = figure.subplot_mosaic(layout, width_ratios=(1, 1.35), height_ratios=(1.4, 1)[: len(layout)])
        bits, errors = (np.array([getattr(m, name) for m in content.models]) for name in ("bits", "error"))
        names = [m.name if m.converged else f"{m.name} (not converged)" for m in content.models]
        plot_comparison(names, bits, errors, panels["models"])
        panels["models"].set_title("Bits to write down an unseen row")
        if gallery is None:
            panels["causes"].set_axis_off()
        else:
            _plot_causes(gallery, content, panels["causes"])
        if use is not None:
            use(panels["use"])
    return figure


def draw_map(content: Content, labels: str | None = None) -> Any:
    """Draw the map of `latentbits.explore` for print: where the rows are, and what the places stand for.

    Parameters
    ----------
    content : latentbits.explorer.content.Content
        What its page shows.
    labels : str or None
        Which labels colour it; None takes that which the axes go with most, else the first.

    Returns
    -------
    matplotlib Figure: a map, and beside it images of some places; where rows are no images, lines on it for the bits
    """
    where, table = content.map, content.table
    if where is None:
        raise DataError("nothing to draw: there is no map")
    known = {found.name: found for found in table.labels}
    if labels is not None and labels not in known:
        raise DataError(f"labels: there is no {labels!r}; there is {', '.join(known) or 'nothing'}")
    first = colouring(content.meanings, table.labels)
    chosen = known[labels] if labels is not None else None if first is None else table.labels[first[0]]
    means = where.means[:MOST_ON_MAP]
    kinds = None if chosen is None or chosen.numbers is not None else _kinds(chosen)[:MOST_ON_MAP]
    numbers = None if chosen is None or chosen.numbers is None else chosen.numbers[:MOST_ON_MAP]
    lines = None if table.image_shape or table.real else (where.weights, where.bias, table.columns)
    title = f"{table.source}: {len(means)} rows, placed by {where.name}"
    title += "" if where.converged else " (which had not converged)"
    with sheet((13, 7.4) if table.image_shape else (9.2, 9.2), title) as figure:
        left, right = figure.subplots(1, 2, width_ratios=(1.45, 1)) if table.image_shape else (figure.subplots(), None)
        places = None if right is None else spread_places(means, N_PLACES)
        plot_map(means, left, labels=kinds, numbers=numbers, boundaries=lines, marks=places)
        left.set_title("Where the rows are" + (f", by {printable(chosen.name)}" if chosen else ""), parse_math=False)
        if right is not None and places is not None and table.image_shape is not None:
            decoded = places @ where.weights + where.bias if table.real else decode(where.weights, where.bias, places)
            plot_decoded(_grey(decoded) if table.real else decoded, table.image_shape, right)
            right.set_title("Rows at the places that are marked" if table.real else "P(bit = 1) at the places marked")
            right.set_anchor("N")
    return figure


def _kinds(labels: Labels) -> list[str | None]:
    """List the kind of each row: None where it is unknown, and rare kinds as one where there are very many."""
    counts = np.bincount(labels.codes[labels.codes >= 0], minlength=len(labels.levels))
    own = set(np.argsort(-counts, kind="stable")[:MOST_KINDS].tolist())
    n_others = len(labels.levels) - len(own)
    names = [name if k in own or n_others == 1 else f"{n_others} other kinds" for k, name in enumerate(labels.levels)]
    return [None if code < 0 else names[code] for code in labels.codes]


def _grey(images: np.ndarray) -> np.ndarray:
    """Real numbers from 0 to 1, NaN left as it is."""
    low, high = np.nanmin(images), np.nanmax(images)
    return (images - low) / (high - low) if high > low else np.zeros_like(images)


# --- the panels of an exploration ---


def _plot_causes(gallery: Gallery, content: Content, ax: Any) -> None:
    """Draw the lowest layer of causes: as images, or by the most informative columns."""
    shape, names = content.table.image_shape, content.table.columns
    if gallery.trees:
        tree = gallery.trees[0]
        plot_tree(tree.parents, tree.information / BITS_PER_NAT, names, ax, _means(content), shape)
        ax.set_title(f"The {'largest ' if len(gallery.trees) > 1 else ''}tree of the {gallery.name}")
        return
    layer = gallery.layers[0]
    total, words = len(layer.names), _usage(layer)
    ax.set_title(f"{layer.title} of the {gallery.name}")
    if gallery.kind == "probability":
        shown = min(total, MOST_TILES if shape else MOST_KINDS)
        if shape:
            plot_gallery(layer.weights[:shown], layer.usage[:shown], shape, ax)
        else:
            plot_components(layer.weights[:shown], layer.usage[:shown], names, ax)
        ax.set_title(_of("kinds of rows found, with their share", shown, total))
    elif words is None and shape:
        plot_weights(layer.weights[:MOST_TILES], shape, ax, n_columns=4 if total <= 12 else 8)
        ax.set_title(_of("hidden variables, by their weights", min(total, MOST_TILES), total))
    elif words is None:
        plot_loadings(layer.weights, names, ax, MOST_COLUMNS)
        ax.set_title("The weights of the hidden variables")
    else:
        weights, shown = layer.weights[:MOST_UNITS], min(total, MOST_UNITS)
        if shape:
            plot_hinton(weights, shape, ax=ax, labels=words[:shown], n_columns=4 if shown <= 12 else 7)
        else:
            plot_unit_bars(weights, names, ax, labels=words[:shown], most=6 if shown <= 12 else 3)
        ax.set_title(_of("hidden causes, and how often each is on", shown, total))
    if shape:
        ax.set_anchor("NW")


def _use(content: Content, gallery: Gallery | None) -> Callable[[Any], None] | None:
    """Choose the third panel: completed images, else the spectrum, numbers of causes, or the course of the fit."""
    guesses, shape = content.guesses, content.table.image_shape
    if shape is not None and guesses is not None:
        return lambda ax: _plot_guesses(guesses, shape, content.table.real, ax)
    if gallery is None:
        return None
    spectra = content.spectra
    if spectra is not None and spectra.name == gallery.name:
        return lambda ax: plot_spectra(spectra.binary, spectra.latent, spectra.n_components, ax).set_title(
            "Their number, and the spectrum"
        )
    layer = gallery.layers[0] if gallery.layers else None
    if layer is not None and gallery.kind != "probability" and _usage(layer) is not None:
        return lambda ax: plot_numbers_on(numbers_on(layer.active, _close(content)), ax).set_title(
            "How many are on at once"
        )
    course = next((c for c in content.courses if c.name == gallery.name), None)
    if course is None:
        return None
    return lambda ax: plot_history(course.values, ax).set_title("How it was learned")


def _plot_guesses(guesses: Guesses, shape: tuple[int, int], real: bool, ax: Any) -> None:
    truth, given, completed = (_grey(x) if real else x for x in (guesses.truth, guesses.given, guesses.completed))
    plot_completions(truth, given, completed, shape, ax)
    words = f"Unseen rows with {guesses.hidden} hidden"
    if not real:
        words += (
            f": {guesses.right:.0%} of the hidden bits are guessed right ({guesses.right_alone:.0%} by the average row)"
        )
    ax.set_title(words)
    ax.set_anchor("NW")


def _means(content: Content) -> np.ndarray:
    """Average each column over the rows that are looked at closely."""
    return mean_seen(content.table.values[: content.n_close], _close(content))


def _close(content: Content) -> np.ndarray | None:
    """Weights of the rows that are looked at closely."""
    return None if content.table.weights is None else content.table.weights[: content.n_close]


def _usage(layer: Layer) -> list[str] | None:
    """How often each cause is on, in words; None for traits."""
    if np.isnan(layer.usage).any():
        return None
    return [f"{share:.0%}" if share >= 0.01 else "<1%" for share in layer.usage]


def _of(what: str, shown: int, total: int) -> str:
    if total == 1:
        return f"The {what}".replace("kinds", "kind").replace("variables", "variable").replace("causes", "cause")
    return f"The first {shown} of {total} {what}" if shown < total else f"The {total} {what}"
