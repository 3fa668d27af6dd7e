"""Static figures, for papers: all that the library draws, under one name.

Functions called ``plot_...`` take arrays and, if you have one, a matplotlib Axes, and return the Axes they drew on.
`exploration`, `map`, `loadings`, `table` and `misfit` take what `latentbits.explore` returned and give a matplotlib
Figure, drawn from the same arrays as its page.  `item_curves`, `item_information`, `wright_map`, `class_profiles` and
`item_pairs` draw a fitted model of items, or of latent classes, and `tree` one of causes on a tree, with names from the
table it was fitted to.  Matplotlib is an extra (``pip install 'latentbits[plot]'``); the modules are imported when
something of theirs is first used.

>>> from latentbits import explore, load_dataset, plot
>>> found = explore(load_dataset("digits"))  # doctest: +SKIP
>>> plot.save_figure(plot.exploration(found), "digits.pdf")  # doctest: +SKIP
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

_MODULES = {
    "fitted": ("class_profiles", "item_curves", "item_information", "item_pairs", "tree", "wright_map"),
    "latent_tree.pictures": ("plot_tree",),
    "latent_trait.items": ("plot_item_fit", "plot_test_information", "plot_wright_map"),
    "mixture.pictures": ("plot_class_profiles",),
    "any_model.pairs": ("plot_pair_residuals",),
    "latent_trait.curves": ("plot_error_against_time", "plot_item_curves", "plot_item_information"),
    "binary_sparse_coding.pictures": ("plot_course", "plot_fields"),
    "any_model.pictures": (
        "plot_comparison",
        "plot_completions",
        "plot_components",
        "plot_gallery",
        "plot_history",
        "plot_numbers_on",
        "save_figure",
    ),
    "combination_machine.pictures": ("plot_gaussians", "plot_hinton", "plot_projections", "plot_unit_bars"),
    "noisy_or.pictures": ("plot_explanation", "plot_layer", "plot_network"),
    "any_model.learning": ("plot_errors", "plot_runs"),
    "latent_trait.several_maps": ("plot_several_maps",),
    "latent_trait.maps": ("plot_decoded", "plot_map", "plot_posterior_contours"),
    "clipped_gaussian.pictures": ("plot_cells", "plot_loadings", "plot_morph", "plot_spectra", "plot_weights"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = ["exploration", "loadings", "map", "misfit", "table", *_HOME]


def exploration(found: Any) -> Any:
    """Plot the comparison of models, the causes of the best, and their use, on one sheet."""
    from latentbits.explorer.printed import draw_exploration

    return draw_exploration(found.content)


def map(found: Any, labels: str | None = None) -> Any:
    """Draw where the rows are on the map, and what its places stand for.

    Parameters
    ----------
    labels : str or None
        Which labels colour it; None takes that which the axes go with most, else the first.
    """
    from latentbits.explorer.printed import draw_map

    return draw_map(found.content, labels)


def loadings(found: Any) -> Any:
    """Plot loadings of the columns on the axes of the map, with their 95 % intervals."""
    from latentbits.explorer.printed_parts import draw_loadings

    return draw_loadings(found.content)


def table(found: Any) -> Any:
    """Plot the cells of the table, rows and columns in the order of the first trait."""
    from latentbits.explorer.printed_parts import draw_table

    return draw_table(found.content)


def misfit(found: Any) -> Any:
    """Plot the rows and the columns that the model of the map fits worst; the map must have converged."""
    from latentbits.explorer.printed_parts import draw_misfit

    return draw_misfit(found.content)


def __getattr__(name: str) -> Any:
    if name in _HOME:
        return getattr(import_module(f"latentbits.figures.{_HOME[name]}"), name)
    raise AttributeError(f"module 'latentbits.plot' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOME])
