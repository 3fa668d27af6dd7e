"""How well a model of a test fits, as psychometricians report it: in all, by items, by pairs of them, by persons."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.estimators.item_models import WithItemModels, asymptotes, traits_of
from latentbits.estimators.psychometrics import RUNAWAY
from latentbits.estimators.several_maps import WithMaps
from latentbits.reports import limited_information, scoring
from latentbits.reports.fit import FitReport
from latentbits.reports.item_fit import ItemFit, item_fit
from latentbits.reports.items import MOST_ON_GRID, Answers, Items, distinct, listed
from latentbits.reports.limited_information import ItemFitReport
from latentbits.reports.local_dependence import LocalDependence, local_dependence
from latentbits.reports.person_fit import PersonFit, person_fit

__all__ = ["WithItemReports"]


class WithItemReports(WithMaps, WithItemModels):
    """A latent trait model of binary items, whose fit can be reported item by item."""

    method: str

    # ---------------------------------------------------------------- of the model

    def _more_of_fit(self, X: Any, sample_weight: Any, report: FitReport) -> ItemFitReport:
        """The report of all families, and M2 with what is made of it."""
        return limited_information.with_limited_fit(report, self._limited_fit(X, sample_weight))

    def _limited_fit(self, X: Any, sample_weight: Any) -> limited_information.LimitedFit:
        try:
            items, which = self._varying("M2")
            if self._by_items and (self.fixed or self.shared):
                raise ValueError("M2 is for items whose parameters are all free, and here some are fixed or shared")
        except ValueError as error:  # the criteria of such a model are told all the same
            return limited_information.untold(str(error))
        answers = self._answers(X, sample_weight).of_items(which)
        found = limited_information.limited_fit(items, answers, bool(self.equal_discrimination))
        notes = []
        guessed = self._by_items and bool(np.any(items.lower > 0))  # nearly always under a prior
        if self.weight_prior is not None or guessed or self.method in ("variational", "monte_carlo"):
            notes.append("M2 takes the estimates to be those of maximum likelihood, and these are not")
        if np.linalg.norm(items.slopes, axis=1).max(initial=0) > RUNAWAY:  # margins are known to be near 0 and 1 only
            notes.append("slopes run to infinity, for which the distribution of M2 is not known")
        return found._replace(notes=(*found.notes, *notes))

    # ---------------------------------------------------------------- of items

    def item_fit(self, X: Any, sample_weight: Any = None, *, scores: str = "eap", min_expected: float = 1.0) -> ItemFit:
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
        >>> from latentbits import LatentTrait, load_dataset
        >>> X = load_dataset("lsat7").X
        >>> fit = LatentTrait(1, random_state=0).fit(X).item_fit(X)
        >>> [name for name, p in zip(fit.item, fit.p) if p < 0.05]
        ['column 1']
        """
        items, which = self._varying("item_fit")
        answers = self._answers(X, sample_weight).of_items(which)
        latents = self._estimates(items, answers, scores).value
        report = item_fit(items, answers, latents, float(min_expected))
        if self._by_items and (self.fixed or self.shared):
            held = "degrees of freedom of S-X² take all parameters to be estimated, and some are fixed or shared"
            report = replace(report, notes=(*report.notes, held))
        return self._told(report.among(self._column_names(), which), which)

    def local_dependence(self, X: Any, sample_weight: Any = None) -> LocalDependence:
        """Pairs of items that depend on each other beyond the latents: Yen's Q3 and the X² of Chen and Thissen.

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
        >>> from latentbits import LatentTrait, load_dataset
        >>> X = load_dataset("lsat6").X
        >>> found = LatentTrait(1, random_state=0).fit(X).local_dependence(X)
        >>> found.table().index[0]
        'column 3, column 4'
        """
        items, which = self._varying("local_dependence")
        answers = self._answers(X, sample_weight).of_items(which)
        report = local_dependence(items, answers, self._estimates(items, answers, "eap").value)
        return self._told(report.among(self._column_names(), which), which)

    # ---------------------------------------------------------------- of persons

    def person_fit(self, X: Any, *, scores: str = "eap") -> PersonFit:
        """Rows that do not answer as the model expects: l_z of Drasgow, Levine and Williams (Zh in mirt).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        scores : {"eap", "map", "ml", "wle"}, default="eap"
            Where it is taken.

        Returns
        -------
        PersonFit
            `lz` (n_rows,), `score` (n_rows, n_components), and `n`, the items answered.

        Examples
        --------
        >>> from latentbits import LatentTrait, load_dataset
        >>> X = load_dataset("lsat6").X
        >>> lz = LatentTrait(1, random_state=0).fit(X).person_fit(X).lz
        >>> X[lz.argmin()]  # the hardest item right, and no other
        array([0, 0, 1, 0, 0], dtype=uint8)
        """
        items, which = self._varying("person_fit")
        answers = self._answers(X).of_items(which)
        report = person_fit(items, answers, self._estimates(items, answers, scores).value)
        middle, spread = self._population
        return self._told(replace(report, score=middle + spread * report.score), which)

    # ---------------------------------------------------------------- what they are made from

    def _items(self, what: str) -> Items:
        self._fitted()
        self._one_map_only(what)
        self._bits_only(what)
        return self._items_at(self.params_)

    def _items_at(self, params: Any) -> Items:
        """The items that parameters of this model describe."""
        weights, bias = np.asarray(params.weights), np.asarray(params.bias)
        return Items(self._column_names(), weights, bias, asymptotes(params) if self._by_items else np.zeros(len(bias)))

    def _traits_at(self, params: Any, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the latents of each row before it has answered, both (rows, 1)."""
        if not self._by_items:
            return np.zeros((len(beside), 1)), np.ones((len(beside), 1))
        mean, spread = traits_of(params, beside)
        return mean[:, None], spread[:, None]

    def _for_a_standard_trait(self, items: Items, what: str) -> Items:
        """The same items, if the trait is put in units of its spread among the people, from their mean on."""
        if not self._by_items:
            return items
        if self._people is not None:
            raise ValueError(f"{what} is for people of one population, and this model has groups or covariates")
        mean, spread = self._population
        return items._replace(slopes=items.slopes * spread, intercepts=items.intercepts + items.slopes[:, 0] * mean)

    @property
    def _population(self) -> tuple[float, float]:
        """Mean and standard deviation of the trait among the people."""
        return (self.trait_mean_, self.trait_variance_**0.5) if self._by_items else (0.0, 1.0)

    def _varying(self, what: str) -> tuple[Items, np.ndarray]:
        """The items that vary, and which of all columns they are; for what takes a grid over the latents."""
        items = self._for_a_standard_trait(self._items(what), what)
        if items.n_dimensions > MOST_ON_GRID:
            raise ValueError(
                f"{what} is for up to {MOST_ON_GRID} latent dimensions, and there are {items.n_dimensions}"
            )
        which = ~np.isin(np.arange(len(items.names)), self._idle)
        if self._by_items:  # whose slope may be given
            which |= items.slopes[:, 0] != 0
        if not which.any():
            raise ValueError(f"{what} needs columns that vary, and all are constant")
        return items.only(which), which

    def _answers(self, X: Any, sample_weight: Any = None) -> Answers:
        engine = self._open(X, reset=False, sample_weight=sample_weight)
        return distinct((self._only_answers(block) for block in engine.blocks()), engine.weights)

    def _only_answers(self, block: np.ndarray) -> np.ndarray:
        """Rows as bytes, without the groups and covariates that may be beside them."""
        block = block[:, : self.n_features_in_]
        return block if block.dtype == np.uint8 else np.where(np.isnan(block), MISSING, block).astype(np.uint8)

    @staticmethod
    def _estimates(items: Items, answers: Answers, method: str) -> scoring.Estimates:
        if method not in scoring.METHODS:
            raise ValueError(f"scores must be one of {', '.join(scoring.METHODS)}, got {method!r}")
        return scoring.estimates(items, answers, method)

    def _told(self, report: Any, which: np.ndarray, why: str = "left out, as all rows answer alike") -> Any:
        """A report that says which columns it leaves out."""
        idle = [name for name, varies in zip(self._column_names(), which) if not varies]
        if not idle:
            return report
        return replace(report, notes=(*report.notes, f"{why}: {listed(idle)}"))
