"""Tests of differential item functioning: each item freed in turn, all others the same in all groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import expit
from scipy.stats import chi2
from sklearn.base import clone

from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.estimators.latent_trait.item_errors import covariance_of
from latentbits.estimators.latent_trait.item_params import as_given, condensed, standardised
from latentbits.estimators.latent_trait.item_plan import PARAMETERS, Positions, with_own_items
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.tables.beside_bits import Beside
from latentbits.models.latent_trait import item_rows, tuning
from latentbits.models.latent_trait import items as item_record
from latentbits.models.latent_trait.item_params import Params
from latentbits.reports.dif import DifReport
from latentbits.reports.many_tests import ADJUSTMENTS, adjusted

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["dif"]


def dif(
    self: ItemResponse,
    X: Any,
    groups: Any,
    *,
    method: str = "lr",
    items: Any = None,
    parameters: Sequence[str] = ("slope", "intercept"),
    adjust: str | None = "holm",
    covariates: Any = None,
    sample_weight: Any = None,
) -> DifReport:
    """Test for differential item functioning: does an item work otherwise in some group, the trait being equal?

    A model with this one's options is fitted to all groups, with items that are the same in all of them.  Then each
    item in turn has other parameters in every group after the first, all other items being anchors.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing, in memory.
    groups : array-like of shape (n_rows,)
        Label of each row's group, as in `fit`; others are compared with the first.
    method : {"lr", "wald"}, default="lr"
        Twice the gain of the log-likelihood, or the squared differences in units of their covariance.  With a few
        hundred people a group the latter rejects less often than it says.
    items : list or None, default=None
        Names or positions of the items to test; None for all.
    parameters : sequence of {"slope", "intercept", "asymptote"}, default=("slope", "intercept")
        Parameters in which the groups may differ.  ("intercept",) tests uniform differences alone.
    adjust : {"holm", "bh"} or None, default="holm"
        Correction of the probabilities, for many tests.
    covariates : array-like of shape (n_rows, n_covariates) or None
        Covariates of the trait, as in `fit`.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts.

    Returns
    -------
    DifReport
        `statistic`, `df`, `p`, `p_adjusted`, and effect sizes, by item.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat7").X[::5]
    >>> found = ItemResponse(random_state=0).dif(X, ["a", "b"] * (len(X) // 2), items=[0])
    >>> found.df.tolist()
    [2]
    """
    if method not in ("lr", "wald"):
        raise ValueError(f"method must be 'lr' or 'wald', got {method!r}")
    if adjust is not None and adjust not in ADJUSTMENTS:
        raise ValueError(f"adjust must be one of {', '.join(ADJUSTMENTS)} or None, got {adjust!r}")
    unknown = [name for name in parameters if name not in PARAMETERS]
    if unknown or not parameters:
        raise ValueError(f"parameters must be some of {', '.join(PARAMETERS)}, got {tuple(parameters)!r}")
    base = clone(self).fit(X, sample_weight=sample_weight, groups=groups, covariates=covariates)
    engine = condensed(base._open(Beside(X, groups, covariates), reset=False, sample_weight=sample_weight))
    names, at = base._column_names(), Positions(base.n_features_in_, getattr(base, "feature_names_in_", None))
    tested = list(range(base.n_features_in_)) if items is None else [at("items", item) for item in items]
    assert isinstance(engine, MemoryEngine)  # as groups have it
    labels = base.population_.groups
    constant = _constant_somewhere(engine.table, base.n_features_in_, len(labels))
    n_others = len(labels) - 1
    numbers = np.full((3, len(tested)), np.nan)  # statistic, df, p
    effects = np.full((4, len(tested), n_others), np.nan)
    notes: list[str] = []
    for i, j in enumerate(tested):
        name = names[j]
        start = standardised(with_own_items(base.params_, j, parameters), engine)
        df = len(start.prior_mean) - base.n_parameters_
        if constant[j] or not df:
            why = "all people of some group answer alike" if constant[j] else "these parameters are held"
            notes.append(f"{name} is not tested: {why}")
            continue
        record = item_record.model(base._n_newton)._replace(needs_summary=False)
        limits = Limits(self.max_iter, self.tol, None)
        found = fit(record, engine, seed_key(0), params=start, limits=limits, dtype=DOUBLE)
        if not found.reason.converged:
            notes.append(f"{name} is not tested: the model with its own parameters has not converged")
            continue
        params = as_given(found.params)
        if method == "lr":
            statistic = max(2 * (found.objective - base.objective_), 0.0)
        else:
            statistic = _wald(params, covariance_of(params, base._n_newton, engine)[0], j, parameters)
        if np.isnan(statistic):
            notes.append(f"{name} is not tested: the information about its parameters is singular")
        numbers[:, i] = statistic, df, chi2.sf(statistic, df)
        effects[:, i] = *_differences(params, j), *_gaps(standardised(params, engine), j)
    if np.any(base.params_.prior_precision) and method == "lr":
        notes.append("gains are of the log-likelihood with the priors, which items in all groups share")
    return DifReport(
        tuple(names[j] for j in tested),
        labels,
        numbers[0],
        np.nan_to_num(numbers[1]).astype(int),
        numbers[2],
        adjusted(numbers[2], adjust),
        effects[0],
        effects[1],
        effects[2],
        effects[3],
        method,
        adjust or "none",
        tuple(notes),
    )


def _constant_somewhere(table: np.ndarray, n_items: int, n_groups: int) -> np.ndarray:
    """Return (items,) whether the answers do not vary, or are not there, in some group."""
    bits, group = table[:, :n_items], table[:, n_items]
    varies = [((bits[group == g] == 0).any(0) & (bits[group == g] == 1).any(0)) for g in range(n_groups)]
    return ~np.all(varies, axis=0)


def _wald(params: Params, covariance: np.ndarray, item: int, parameters: Sequence[str]) -> float:
    """Square differences of an item's own parameters from those of the first group, in units of their covariance."""
    n, differences, lines = len(covariance), [], []
    for k in [PARAMETERS.index(name) for name in parameters]:
        for g in range(1, len(params.mean)):
            first, own = (int(params.item_places[at, item, k]) for at in (0, g))
            if own != first:
                differences.append(params.items[g, item, k] - params.items[0, item, k])
                lines.append(np.eye(n)[own] - np.eye(n)[first])
    to, difference = np.array(lines), np.array(differences)
    try:
        return float(difference @ np.linalg.solve(to @ covariance @ to.T, difference))
    except np.linalg.LinAlgError:
        return np.nan


def _differences(params: Params, item: int) -> np.ndarray:
    """Compute (2, groups after the first): differences of slope and intercept."""
    own = np.asarray(params.items)[:, item, :2]
    return (own[1:] - own[0]).T


def _gaps(params: Params, item: int) -> np.ndarray:
    """Compute (2, groups after the first): mean and mean absolute difference of P, at average covariates."""
    x, log_weight = item_rows.nodes(tuning.ITEM_FEWEST_NODES)
    weight = np.exp(log_weight)
    own = params.items[:, item]
    low = expit(own[:, 2]) * params.guessed[item] if own.shape[1] == 3 else np.zeros(len(own))
    out = []
    for g in range(1, len(own)):
        theta = params.mean[g] + np.exp(params.log_sd[g]) * x
        p = [low[at] + (1 - low[at]) * expit(own[at, 0] * theta + own[at, 1]) for at in (0, g)]
        gap = p[1] - p[0]
        out.append([weight @ gap, weight @ np.abs(gap)])
    return np.array(out).T
