"""How well a model of a test fits, as psychometricians report it: in all, by items, by pairs of them, by persons."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.estimators.latent_trait.item_params import asymptotes
from latentbits.estimators.psychometrics import RUNAWAY_SLOPE
from latentbits.reports import item_fit as by_items
from latentbits.reports import limited_information, scoring
from latentbits.reports import local_dependence as by_pairs
from latentbits.reports import person_fit as by_persons
from latentbits.reports.fit import FitReport
from latentbits.reports.item_fit import ItemFit
from latentbits.reports.items import MOST_ON_GRID, Answers, Items, distinct, listed
from latentbits.reports.limited_information import ItemFitReport
from latentbits.reports.local_dependence import LocalDependence
from latentbits.reports.person_fit import PersonFit

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["answers_of", "estimates", "for_a_standard_trait", "item_fit", "items_at", "items_of", "local_dependence",
           "person_fit", "spread_of_trait", "varying", "with_m2", "with_omissions"]  # fmt: skip


# ---------------------------------------------------------------- of the model


def with_m2(self: ItemResponse, X: Any, sample_weight: Any, report: FitReport) -> ItemFitReport:
    """Add M2, with what is made of it, to the report of all families."""
    return limited_information.with_limited_fit(report, _limited_fit(self, X, sample_weight))


def _limited_fit(self: ItemResponse, X: Any, sample_weight: Any) -> limited_information.LimitedFit:
    try:
        items, which = varying(self, "M2")
        if self.fixed or self.shared:
            raise ValueError("M2 is for items whose parameters are all free, and here some are fixed or shared")
    except ValueError as error:  # the criteria of such a model are reported all the same
        return limited_information.without_m2(str(error))
    answers = answers_of(self, X, sample_weight).of_items(which)
    found = limited_information.limited_fit(items, answers, self._tied)
    notes = []
    guessed = bool(np.any(items.lower > 0))  # nearly always under a prior
    if self.weight_prior is not None or guessed:
        notes.append("M2 takes the estimates to be those of maximum likelihood, and these are not")
    if np.linalg.norm(items.slopes, axis=1).max(initial=0) > RUNAWAY_SLOPE:  # margins are known to be near 0 and 1 only
        notes.append("slopes run to infinity, for which the distribution of M2 is not known")
    return found._replace(notes=(*found.notes, *notes))


# ---------------------------------------------------------------- of items


def item_fit(
    self: ItemResponse, X: Any, sample_weight: Any = None, *, scores: str = "eap", min_expected: float = 1.0
) -> ItemFit:
    """Fit of each item: S-X² of Orlando and Thissen, infit and outfit.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.  S-X² is of the complete rows, infit and outfit of all answers.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.
    scores : {"eap", "map", "ml", "wle"}, default="eap"
        Where residuals are taken for infit and outfit.  At posterior means, as elsewhere, both are below 1 for a
        model that holds; "wle" is nearest to the mean squares of Rasch programs.
    min_expected : float, default=1.0
        Score groups with an expected count below this are merged with a neighbour, as the R package mirt does
        (`mincell`); 0 merges none.

    Returns
    -------
    ItemFit
        `s_x2`, `df`, `p`, `infit`, `outfit` with deviates `infit_z` and `outfit_z`, each (n_columns,); NaN for
        columns that do not vary.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat7").X
    >>> fit = ItemResponse(random_state=0).fit(X).item_fit(X)
    >>> [name for name, p in zip(fit.item, fit.p) if p < 0.05]
    ['column 1']
    """
    items, which = varying(self, "item_fit")
    answers = answers_of(self, X, sample_weight).of_items(which)
    latents = estimates(items, answers, scores).value
    report = by_items.item_fit(items, answers, latents, float(min_expected))
    if self.fixed or self.shared:
        held = "degrees of freedom of S-X² take all parameters to be estimated, and some are fixed or shared"
        report = replace(report, notes=(*report.notes, held))
    return with_omissions(self, report.among(self._column_names(), which), which)


def local_dependence(self: ItemResponse, X: Any, sample_weight: Any = None) -> LocalDependence:
    """Find pairs of items that depend on each other beyond the latents: Yen's Q3, and X² of Chen and Thissen.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing; a pair is judged by the rows that have answered both.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.

    Returns
    -------
    LocalDependence
        `q3`, `x2` and `signed_x2`, each (n_columns, n_columns), with NaN on the diagonal.  The table has the most
        dependent pairs first.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> found = ItemResponse(random_state=0).fit(X).local_dependence(X)
    >>> found.table().index[0]
    'column 3, column 4'
    """
    items, which = varying(self, "local_dependence")
    answers = answers_of(self, X, sample_weight).of_items(which)
    report = by_pairs.local_dependence(items, answers, estimates(items, answers, "eap").value)
    return with_omissions(self, report.among(self._column_names(), which), which)


# ---------------------------------------------------------------- of persons


def person_fit(self: ItemResponse, X: Any, *, scores: str = "eap") -> PersonFit:
    """Find rows that do not answer as the model expects: l_z of Drasgow, Levine and Williams (Zh in mirt).

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    scores : {"eap", "map", "ml", "wle"}, default="eap"
        Where it is taken.

    Returns
    -------
    PersonFit
        `lz` (n_rows,), `score` (n_rows, n_factors), and `n`, the items answered.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> lz = ItemResponse(random_state=0).fit(X).person_fit(X).lz
    >>> X[lz.argmin()]  # the hardest item right, and no other
    array([0, 0, 1, 0, 0], dtype=uint8)
    """
    items, which = varying(self, "person_fit")
    answers = answers_of(self, X).of_items(which)
    report = by_persons.person_fit(items, answers, estimates(items, answers, scores).value)
    middle, spread = spread_of_trait(self)
    return with_omissions(self, replace(report, score=middle + spread * report.score), which)


# ---------------------------------------------------------------- what they are made from


def items_of(self: ItemResponse) -> Items:
    """Make the items of a fitted model."""
    self._fitted()
    return items_at(self, self.params_)


def items_at(self: ItemResponse, params: Any) -> Items:
    """Make the items that parameters of this model describe."""
    return Items(self._column_names(), np.asarray(params.weights), np.asarray(params.bias), asymptotes(params))


def for_a_standard_trait(self: ItemResponse, items: Items, what: str) -> Items:
    """Express the items by the trait in units of its spread among the people, from their mean on."""
    if any(self._labels):
        raise ValueError(f"{what} is for people of one population, and this model has groups or covariates")
    mean, spread = spread_of_trait(self)
    return items._replace(slopes=items.slopes * spread, intercepts=items.intercepts + items.slopes[:, 0] * mean)


def spread_of_trait(self: ItemResponse) -> tuple[float, float]:
    """Compute mean and standard deviation of the trait among the people."""
    return float(self.population_.mean[0]), float(self.population_.variance[0]) ** 0.5


def varying(self: ItemResponse, what: str) -> tuple[Items, np.ndarray]:
    """Return the items that vary, and which of all columns they are; for what takes a grid over the latents."""
    items = for_a_standard_trait(self, items_of(self), what)
    if items.n_dimensions > MOST_ON_GRID:
        raise ValueError(f"{what} is for up to {MOST_ON_GRID} latent dimensions, and there are {items.n_dimensions}")
    which = ~np.isin(np.arange(len(items.names)), self._idle)
    if self._by_newton:  # whose slope may be given
        which |= items.slopes[:, 0] != 0
    if not which.any():
        raise ValueError(f"{what} needs columns that vary, and all are constant")
    return items.only(which), which


def answers_of(self: ItemResponse, X: Any, sample_weight: Any = None) -> Answers:
    """Count distinct rows of answers."""
    engine = self._open(X, reset=False, sample_weight=sample_weight)
    return distinct((_only_answers(block, self.n_features_in_) for block in engine.blocks()), engine.weights)


def _only_answers(block: np.ndarray, n_columns: int) -> np.ndarray:
    """Read rows as bytes, without the groups and covariates that may be beside them."""
    block = block[:, :n_columns]
    return block if block.dtype == np.uint8 else np.where(np.isnan(block), MISSING, block).astype(np.uint8)


def estimates(items: Items, answers: Answers, method: str) -> scoring.Estimates:
    """Estimate latents of rows by one of the methods of scoring."""
    if method not in scoring.METHODS:
        raise ValueError(f"scores must be one of {', '.join(scoring.METHODS)}, got {method!r}")
    return scoring.estimates(items, answers, method)


def with_omissions(
    self: ItemResponse, report: Any, which: np.ndarray, why: str = "left out, as all rows answer alike"
) -> Any:
    """Add a note on the columns that the report leaves out."""
    idle = [name for name, varies in zip(self._column_names(), which) if not varies]
    if not idle:
        return report
    return replace(report, notes=(*report.notes, f"{why}: {listed(idle)}"))
