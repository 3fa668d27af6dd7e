"""Measures of persons by a test, and their errors: scores of rows and of sums, draws, information and reliability."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import check_random_state

from latentbits.estimators import psychometrics
from latentbits.estimators.latent_trait.item_errors import ItemErrors
from latentbits.estimators.latent_trait.item_params import moved_by, n_free_of, traits_of
from latentbits.estimators.latent_trait.item_reports import (
    answers_of,
    estimates,
    for_a_standard_trait,
    items_at,
    items_of,
    spread_of_trait,
    varying,
    with_omissions,
)
from latentbits.estimators.latent_trait.people import beside
from latentbits.estimators.psychometrics import Scores, StandardErrors
from latentbits.reports import reliability as reliabilities
from latentbits.reports import scoring
from latentbits.reports import sum_scores as by_sums
from latentbits.reports.reliability import Reliability, TestInformation
from latentbits.reports.scoring import PlausibleValues
from latentbits.reports.sum_scores import SumScores

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["item_information", "plausible_values", "reliability", "scores", "sum_scores", "test_information"]


# ---------------------------------------------------------------- of persons


def scores(self: ItemResponse, X: Any, method: str = "eap", groups: Any = None, covariates: Any = None) -> Scores:
    """Estimate latents of each row with their standard errors.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    method : {"eap", "map", "ml", "wle"}, default="eap"
        Posterior mean and standard deviation; posterior mode and inverse root of the curvature there; maximum
        likelihood, or, in one dimension, weighted likelihood (the maximum of log-likelihood + 1/2 log I), with the
        inverse root of the test information I.  The weighted likelihood is Warm's where items have no lower
        asymptotes; with them it is what the R package mirt maximises, too, and Warm's equation is another.
    groups, covariates : array-like or None
        Values of the rows, where `fit` had some.

    Returns
    -------
    Scores
        `value` and `error`, (n_rows, n_factors).  The likelihood of a row whose answers are all right, or all
        wrong, has no maximum: its score is infinite (NaN in several dimensions), its error NaN; a warning counts them.
    """
    rows = beside(self, X, groups, covariates)
    if method in ("ml", "wle"):
        return _maxima(self, rows, method)
    if method not in ("eap", "map"):
        raise ValueError(f"method must be 'eap', 'map', 'ml' or 'wle', got {method!r}")
    posterior = self.posterior(rows)
    eap = method == "eap"
    covariance = posterior.covariance if eap else posterior.mode_covariance
    error = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    return Scores(posterior.mean if eap else posterior.mode, error)


def _maxima(self: ItemResponse, X: Any, method: str) -> Scores:
    """Score by maximum likelihood, plain or weighted."""
    items, answers = items_of(self), answers_of(self, X)
    found = estimates(items, answers, method)
    lost = np.count_nonzero(~np.isfinite(found.value).all(1)[answers.place])
    if lost:
        why, other = "no answer depends on the latent", ""
        if self.n_factors > 1:
            why = "answers can be separated by a plane in the latent space, or are too few"
        elif method == "ml":
            why = f"everything answered is right, or wrong, or {why}"
            other = ", and 'wle' all with an answer that depends on it"
        warnings.warn(
            f"{lost} rows have no finite {method.upper()} score, and no error (NaN): {why}. "
            f"method='eap' gives all rows a score{other}",
            UserWarning,
            stacklevel=3,
        )
    return Scores(found.value[answers.place], found.error[answers.place])


def sum_scores(self: ItemResponse, X: Any, sample_weight: Any = None) -> SumScores:
    """Estimate latents by sum score: posterior mean and standard deviation, with observed and expected counts.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing; complete rows are counted.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.

    Returns
    -------
    SumScores
        `score`, `eap`, `sd`, `observed` and `expected`: those of the rows of a complete table are
        ``eap[X.sum(axis=1)]``.  Columns that did not vary in the fit are in the sum and determine nothing: a score that
        cannot be with them has NaN.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> ItemResponse(random_state=0).fit(X).sum_scores(X).observed
    array([  3,  20,  85, 237, 357, 298])
    """
    _, varies = varying(self, "sum_scores")
    items = for_a_standard_trait(self, items_of(self), "sum_scores")
    known = varies | (items.intercepts != 0)  # of others there was no answer
    # columns that do not vary are held further out, unless they are given
    certain = ~varies & (np.abs(items.intercepts) > 6.0)
    ends = np.copysign(np.inf, items.intercepts)
    items = items._replace(intercepts=np.where(certain, ends, items.intercepts)).only(known)
    report = by_sums.sum_scores(items, answers_of(self, X, sample_weight).of_items(known))
    middle, spread = spread_of_trait(self)
    report = replace(report, eap=middle + spread * report.eap, sd=spread * report.sd)
    return with_omissions(self, report, known, "left out, as they have no answer")


def plausible_values(
    self: ItemResponse,
    X: Any,
    n_draws: int = 5,
    random_state: Any = None,
    errors: StandardErrors | ItemErrors | None = None,
    groups: Any = None,
    covariates: Any = None,
) -> PlausibleValues:
    """Draw from the posterior of each row, for analyses that scores would bias.

    Variances and regressions of scores are those of the scores, not of the latents.  Instead, do the analysis with
    each draw, and put the results together by Rubin's rules.  Groups and covariates that are compared must be in
    the model (``fit(X, groups=g, covariates=Z)``): draws of a model without them are drawn to one common mean, and
    differences of groups come out too small.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    n_draws : int, default=5
        Number of draws.
    random_state : int, RandomState or None
        Seed.
    errors : StandardErrors or ItemErrors or None, default=None
        The `standard_errors` of the rows that the model was fitted to.  Then the parameters, too, are drawn
        for each draw, from their normal distribution: without, they are taken as known, and errors by Rubin's rules
        are too small, the more so the fewer rows and items there are.
    groups, covariates : array-like or None
        Values of the rows, where `fit` had some.

    Returns
    -------
    PlausibleValues
        `draws` (n_draws, n_rows, n_factors).

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> ItemResponse(random_state=0).fit(X).plausible_values(X[:50], random_state=0).draws.shape
    (5, 50, 1)
    """
    rows = beside(self, X, groups, covariates)
    if n_draws < 1:
        raise ValueError(f"n_draws must be at least 1, got {n_draws}")
    rng = np.random.default_rng(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    posterior, answers = self.posterior(rows), answers_of(self, rows)
    mean, covariance = (np.asarray(part, np.float64) for part in (posterior.mean, posterior.covariance))
    known = np.concatenate([b[:, self.n_features_in_ :] for b in self._open(rows, reset=False).blocks()])
    draws = []
    for _ in range(int(n_draws)):
        params = self.params_ if errors is None else _params_near(self, errors.covariance, rng)
        items, prior = items_at(self, params), traits_of(params, known)
        draws.append(scoring.draw(items, answers, prior, mean, covariance, rng))
    return PlausibleValues(np.stack(draws))


def _params_near(self: ItemResponse, covariance: np.ndarray, rng: np.random.Generator) -> Any:
    """Draw parameters from a normal distribution about the estimates; those without an error are held."""
    known = np.isfinite(np.diag(covariance))
    n_free = n_free_of(self.params_)
    if len(covariance) != n_free or not known.any():
        raise ValueError(
            f"errors must be those of this model, which has {n_free} parameters, and not NaN: pass "
            "standard_errors(X) of the rows that it was fitted to, or leave errors out"
        )
    step = np.zeros(n_free)
    inner = covariance[np.ix_(known, known)]
    step[known] = rng.multivariate_normal(np.zeros(len(inner)), inner, method="eigh")
    return moved_by(self.params_, step)


# ---------------------------------------------------------------- of the test


def reliability(self: ItemResponse, X: Any, sample_weight: Any = None) -> Reliability:
    """Compute how reliably the test measures: marginal and empirical reliability, and alpha.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.

    Returns
    -------
    Reliability
        `marginal` and `alpha`, and the empirical reliabilities of scores, `eap`, `map`, `ml` and `wle`, each
        (n_factors,).

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> found = ItemResponse(random_state=0).fit(X).reliability(X)
    >>> found.table().index
    ['marginal', 'empirical, EAP', 'empirical, MAP', 'empirical, ML', 'empirical, WLE', 'alpha']
    """
    items, which = varying(self, "reliability")
    answers = answers_of(self, X, sample_weight).of_items(which)
    methods = [method for method in scoring.METHODS if method != "wle" or items.n_dimensions == 1]
    found = {method: estimates(items, answers, method) for method in methods}
    return with_omissions(self, reliabilities.reliability(items, answers, found), which)


def test_information(self: ItemResponse, theta: Any) -> TestInformation:
    """Compute the whole test's Fisher information at places of one latent dimension, and the error of a score there.

    Parameters
    ----------
    theta : float or array-like of shape (n_points,)
        Places.

    Returns
    -------
    TestInformation
        `theta`, `information` and `error`, its inverse root.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> m = ItemResponse(random_state=0).fit(load_dataset("lsat6").X)
    >>> int(m.test_information([-2, 0, 2]).information.argmax())  # the items are easy
    0
    """
    items = items_of(self)
    if items.n_dimensions > 1:
        raise ValueError(
            f"test_information is for one latent dimension, and there are {items.n_dimensions}: item_information "
            "has that of each item along its own direction"
        )
    points = np.atleast_1d(np.asarray(theta, float))
    if points.ndim != 1:
        raise ValueError(f"theta must be a number or a list of numbers, found shape {points.shape}")
    return reliabilities.test_information(items, points)


def item_information(self: ItemResponse, X: Any) -> np.ndarray:
    """Compute each item's Fisher information at points of the latent space: ``|w|^2 P (1 - P)``, less by guessing.

    Parameters
    ----------
    X : array-like of shape (n_points, n_factors)
        Latents; in one dimension a list of numbers, or a number, will do.

    Returns
    -------
    ndarray of shape (n_points, n_columns)
        Their sum over columns is the test information in one dimension.
    """
    self._fitted()
    points = np.asarray(X, float)
    if self._n_features_out == 1 and points.ndim < 2:
        points = points.reshape(-1, 1)
    if points.ndim != 2 or points.shape[1] != self._n_features_out:
        raise ValueError(f"points must have shape (n, {self._n_features_out}), found {points.shape}")
    asymptote = self.asymptote_ if self._by_newton else None
    return psychometrics.item_information(self.params_.weights, self.params_.bias, points, asymptote)
