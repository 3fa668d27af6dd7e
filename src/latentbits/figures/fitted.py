"""Pictures of a fitted model and the table that it was fitted to: what goes into a paper on items, or on classes.

Each function takes the model and returns a matplotlib Figure; those of `latent_trait`, `mixture` and `any_model` draw
the same from arrays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError
from latentbits.core.nodes import MOST_GRID, Rule, evenly_spaced, quasi_monte_carlo
from latentbits.engines.memory import MemoryEngine
from latentbits.estimators.latent_trait.curved_trait import CurvedTrait
from latentbits.estimators.latent_trait.item_response import ItemResponse
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.estimators.latent_tree import LatentTree
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.estimators.psychometrics import RUNAWAY_SLOPE
from latentbits.estimators.tables.weights import open_weights
from latentbits.figures.any_model.pairs import PairResiduals, implied_pairs, plot_pair_residuals
from latentbits.figures.any_model.pairs import pair_residuals as residuals_of
from latentbits.figures.any_model.pictures import sheet
from latentbits.figures.latent_trait.curves import plot_item_information
from latentbits.figures.latent_trait.item_arrays import observed_by_others
from latentbits.figures.latent_trait.items import plot_item_fit, plot_test_information, plot_wright_map
from latentbits.figures.latent_tree.pictures import plot_tree, tree_size
from latentbits.figures.mixture.pictures import plot_class_profiles
from latentbits.figures.style import SMALL, short
from latentbits.reports.trees import state_shares

__all__ = ["class_profiles", "figures_of", "item_curves", "item_information", "item_pairs", "tree", "wright_map"]

TRAITS = LatentTrait, ItemResponse, CurvedTrait
MOST_PANELS = 60
NODES = {1: 161, 2: 61, 3: 31}  # a dimension


def item_curves(
    model: ItemResponse | CurvedTrait,
    X: Any,
    names: Sequence[str] | None = None,
    sample_weight: Any = None,
    extent: tuple[float, float] = (-3.5, 3.5),
) -> Any:
    """Plot the curve of every item, with the observed proportions in groups of persons and their 95 % intervals.

    Persons are grouped, item by item, by what their answers to the other items say.

    Parameters
    ----------
    model : ItemResponse or CurvedTrait
        With one dimension.
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    names : sequence of str, optional
        Of the items; else those of the frame it was fitted to, else numbers from 1.
    sample_weight : array-like of shape (n_rows,) or None
        How often each person counts; None for once.
    extent : (left, right)
        Of the trait.
    """
    _one_trait(model, "item curves", CurvedTrait)
    _one_population(model, "item curves")
    bits, weights, words = _table(model, X, names, sample_weight)
    rule = evenly_spaced(NODES[1], 1)
    nodes = _among_people(model, rule.nodes)
    groups = observed_by_others(bits, nodes[:, 0], rule.log_weights, model.inverse_transform(nodes), weights)
    x = np.linspace(*extent, 121)
    curves = model.inverse_transform(x[:, None])
    worst = np.nansum(groups.counts * (groups.observed - groups.expected) ** 2, axis=1)
    shown = np.sort(np.argsort(-worst, kind="stable")[:MOST_PANELS])
    across = min(len(shown), 3 if len(shown) <= 9 else 4 if len(shown) <= 16 else 6)
    down = -(-len(shown) // across)
    wide, high = (3.1, 2.5) if across <= 4 else (1.9, 1.6)
    size = max(across, 2) * wide + 0.6, down * high + 0.6
    with sheet(size) as figure:
        figure.set_layout_engine(None)  # of sixty panels it takes longer than all else
        axes = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        edges = {"left": 0.6 / size[0], "right": 1 - 0.12 / size[0], "top": 1 - 0.3 / size[1], "bottom": 0.85 / size[1]}
        figure.subplots_adjust(**edges, wspace=0.14, hspace=0.32)
        for ax, item in zip(axes.flat, shown):
            plot_item_fit(x, curves[:, item], groups, item, ax, words[item])
        for ax in axes.flat[len(shown) :]:
            ax.set_visible(False)
        for ax in axes[-2, len(shown) - len(axes.flat) :] if len(shown) < axes.size else ():
            ax.tick_params(labelbottom=True)
        figure.supylabel("P(1)", x=0.12 / size[0], fontsize=SMALL + 2)
        some = f"; the {len(shown)} of {len(worst)} items that are furthest off" if len(shown) < len(worst) else ""
        caption = f"points: observed in groups of persons by their other answers, 95 % intervals{some}"
        figure.supxlabel(f"trait\n{caption}", y=0.08 / size[1], fontsize=SMALL + 1)
    return figure


def item_information(
    model: ItemResponse, names: Sequence[str] | None = None, extent: tuple[float, float] = (-3.5, 3.5)
) -> Any:
    """Plot the information of each item along the trait, and the whole test's with its standard error.

    Items whose slopes run to infinity are left out, and named: their information has no meaning.

    Parameters
    ----------
    model : ItemResponse
        With one factor.
    names : sequence of str, optional
        Of the items; else those of the frame it was fitted to, else numbers from 1.
    extent : (left, right)
        Of the trait.
    """
    _one_trait(model, "test information")
    x = np.linspace(*extent, 141)
    information, words = model.item_information(x[:, None]), _names(model, names)
    steep = np.abs(model.discrimination_) > RUNAWAY_SLOPE
    kept = np.flatnonzero(~steep)
    with sheet((11, 4.4)) as figure:
        left, right = figure.subplots(1, 2)
        plot_item_information(x, information[:, kept], [words[item] for item in kept], left, total=False)
        left.set_xlabel(left.get_xlabel().replace("latent 1", "trait"))
        left.set_ylabel("item information")
        plot_test_information(x, information[:, kept], right)
        if steep.any():
            gone = ", ".join(short(words[item]) for item in np.flatnonzero(steep)[:5]) + (
                ", …" if steep.sum() > 5 else ""
            )
            figure.supxlabel(f"left out, as slopes run to infinity: {gone}", fontsize=SMALL + 1, parse_math=False)
    return figure


def wright_map(model: ItemResponse, X: Any, names: Sequence[str] | None = None, sample_weight: Any = None) -> Any:
    """Plot the persons' EAP scores beside the difficulties of the items, on one scale.

    EAP scores vary less than the trait does, the fewer items there are the less.

    Parameters
    ----------
    model : ItemResponse
        With one factor.
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    names : sequence of str, optional
        Of the items; else those of the frame it was fitted to, else numbers from 1.
    sample_weight : array-like of shape (n_rows,) or None
        How often each person counts; None for once.
    """
    _one_trait(model, "a Wright map")
    _one_population(model, "a Wright map")
    words = _names(model, names)
    weights = open_weights(sample_weight, None, X)
    scores = model.transform(X)[:, 0]
    with sheet((6.4, min(9.0, max(4.4, 0.11 * len(words))))) as figure:
        plot_wright_map(scores, model.difficulty_, words, figure.subplots(), weights, "EAP scores")
    return figure


def class_profiles(
    model: BernoulliMixture, errors: Any = None, names: Sequence[str] | None = None, most: int = MOST_PANELS
) -> Any:
    """Plot P(bit = 1) of every column in each latent class, the largest class first.

    Parameters
    ----------
    model : BernoulliMixture
    errors : array-like of shape (n_components, n_columns), or None
        Standard errors of `means_`, for 95 % intervals; or what has them as its attribute `means`.
    names : sequence of str, optional
        Of the columns; else those of the frame it was fitted to, else numbers from 1.
    most : int
        Number of columns shown: those in which the classes differ most, in the order of the table.
    """
    check_is_fitted(model)
    d = min(model.means_.shape[1], most)
    spread = None if errors is None else np.asarray(getattr(errors, "means", errors), np.float64)
    words = _names(model, names)
    with sheet((6.8, min(13.0, 1.7 + (0.24 if spread is None else 0.3) * max(d, 4)))) as figure:
        plot_class_profiles(model.weights_, model.means_, words, figure.subplots(), spread, most)
    return figure


def item_pairs(
    model: LatentTrait | ItemResponse | CurvedTrait | BernoulliMixture,
    X: Any,
    names: Sequence[str] | None = None,
    sample_weight: Any = None,
    most: int = MOST_PANELS,
) -> Any:
    """Plot bivariate residuals as a heat map: pairs of columns that go together more, or less, than the model says.

    Parameters
    ----------
    model : LatentTrait, ItemResponse, CurvedTrait or BernoulliMixture
        Of bits only.
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    names : sequence of str, optional
        Of the columns; else those of the frame it was fitted to, else numbers from 1.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.
    most : int
        Columns shown: those with the largest residuals, in the order of the table.
    """
    _one_population(model, "residuals of pairs")
    bits, weights, words = _table(model, X, names, sample_weight)
    found = _residuals(model, bits, weights)
    side = min(10.0, max(4.6, 2.2 + 0.17 * min(len(words), most)))
    with sheet((side + 0.8, side)) as figure:
        plot_pair_residuals(found.signed, words, figure.subplots(), most, found.least)
    return figure


def tree(
    model: LatentTree,
    names: Sequence[str] | None = None,
    which: int | None = None,
    image_shape: tuple[int, int] | None = None,
) -> Any:
    """Plot the tree over the columns: the thicker an edge, the more the two have in common.

    Parameters
    ----------
    model : LatentTree or ChowLiuTree
    names : sequence of str, optional
        Of the columns; else those of the frame it was fitted to, else numbers from 1.
    which : int or None
        Of several trees; None takes the largest.
    image_shape : (height, width), optional
        Where columns are pixels.
    """
    check_is_fitted(model)
    words = _names(model, names)
    number = int(np.argmax(model.weights_)) if which is None else which
    shares = state_shares(model.parents_[number], model.transitions_[number])
    means = np.sum(shares * model.emissions_[number], axis=1)
    with sheet(tree_size(len(words), image_shape)) as figure:
        ax = figure.subplots()
        plot_tree(model.parents_[number], model.information_[number], words, ax, means, image_shape)
    return figure


def figures_of(
    model: Any, X: Any, names: Sequence[str] | None = None, sample_weight: Any = None
) -> dict[str, Callable[[], Any]]:
    """List the figures of a fitted model, by name: functions that draw them.

    Empty for families that have no pictures of this kind, and for traits of several dimensions only the pairs.
    """
    pairs: dict[str, Callable[[], Any]] = {"pairs": partial(item_pairs, model, X, names, sample_weight)}
    if isinstance(model, LatentTree):
        return {"tree": partial(tree, model, names)}
    if isinstance(model, BernoulliMixture):
        return {"classes": partial(class_profiles, model, names=names), **pairs}
    if not isinstance(model, TRAITS) or getattr(model, "column_types", None) is not None:
        return {}
    if isinstance(model, ItemResponse) and (model.population_.groups or model.population_.covariates):
        return {"information": partial(item_information, model, names)}
    if isinstance(model, LatentTrait) or _n_traits(model) > 1:
        return pairs
    curves = {"curves": partial(item_curves, model, X, names, sample_weight)}
    if isinstance(model, CurvedTrait):
        return {**curves, **pairs}
    return {
        **curves,
        "information": partial(item_information, model, names),
        "wright": partial(wright_map, model, X, names, sample_weight),
        **pairs,
    }


# --- what they share ---


def _n_traits(model: Any) -> int:
    return int(model.n_factors if isinstance(model, ItemResponse) else model.n_components)


def _one_trait(model: Any, what: str, *others: type) -> None:
    check_is_fitted(model)
    if not isinstance(model, (ItemResponse, *others)):
        raise ValueError(f"{what}: for an ItemResponse, whose items have a slope and a difficulty, found {model}")
    if _n_traits(model) != 1:
        raise ValueError(f"{what}: for one trait, found {_n_traits(model)}")


def _among_people(model: Any, nodes: np.ndarray) -> np.ndarray:
    """Spread points of a standard normal over the trait among the people of an item model."""
    if not isinstance(model, ItemResponse):
        return nodes
    return model.population_.mean[0] + np.sqrt(model.population_.variance[0]) * nodes


def _one_population(model: Any, what: str) -> None:
    check_is_fitted(model)
    if isinstance(model, ItemResponse) and (model.population_.groups or model.population_.covariates):
        raise ValueError(f"{what}: for people of one population, and this model has groups or covariates")


def _bits_only(model: Any, what: str) -> None:
    if getattr(model, "column_types", None) is not None:
        raise ValueError(f"{what}: for models of bits, and this one has column_types; fit the binary columns alone")


def _names(model: Any, names: Sequence[str] | None) -> list[str]:
    """Name all columns: by the names given, those of the frame, or numbers from 1."""
    d = model.n_features_in_
    own = names if names is not None else getattr(model, "feature_names_in_", None)
    words = [str(column + 1) for column in range(d)] if own is None else [str(name) for name in own]
    if len(words) != d:
        raise DataError(f"names must be one for each of the {d} columns, found {len(words)}")
    return words


def _table(
    model: Any, X: Any, names: Sequence[str] | None, sample_weight: Any
) -> tuple[np.ndarray, np.ndarray | None, list[str]]:
    """Read bits with NaN for missing, weights, and the names of the columns."""
    check_is_fitted(model)
    engine = model._open(X, reset=False, sample_weight=sample_weight)
    if not isinstance(engine, MemoryEngine):
        raise TypeError(f"X is a {type(X).__name__} that is not dense in memory: pass some of its rows as an array")
    table = np.asarray(engine.table)
    return np.where(table == MISSING, np.nan, table), engine.weights, _names(model, names)


def _residuals(model: Any, bits: np.ndarray, weights: np.ndarray | None) -> PairResiduals:
    """Compute residuals of pairs under a mixture, or under any number of latent traits."""
    if isinstance(model, BernoulliMixture):
        return residuals_of(bits, implied_pairs(model.weights_, model.means_), weights)
    if not isinstance(model, TRAITS):
        raise ValueError(f"residuals of pairs are of a BernoulliMixture or of latent traits on one map, found {model}")
    _bits_only(model, "residuals of pairs")
    rule = _rule(_n_traits(model))
    shares = np.exp(rule.log_weights)
    means = model.inverse_transform(_among_people(model, rule.nodes)).astype(np.float64)
    return residuals_of(bits, implied_pairs(shares / shares.sum(), means), weights)


def _rule(q: int) -> Rule:
    return evenly_spaced(NODES[q], q) if q <= MOST_GRID else quasi_monte_carlo(2**14, q)
