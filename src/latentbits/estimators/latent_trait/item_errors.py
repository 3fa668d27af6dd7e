"""Standard errors of items: by rules that become finer until they are steady, or by the sums of Newton's method."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.stats import norm
from sklearn.utils.validation import check_is_fitted

from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import Model
from latentbits.core.nodes import MOST_GRID
from latentbits.core.tree import double
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import seed_key
from latentbits.engines.passes import Engine, start_pass, sum_blocks
from latentbits.estimators import psychometrics
from latentbits.estimators.criteria import is_sampling, look
from latentbits.estimators.latent_trait.base import quoted
from latentbits.estimators.latent_trait.item_params import asymptotes, at_bound, standardised
from latentbits.estimators.latent_trait.item_plan import names_of_free
from latentbits.estimators.latent_trait.people import beside
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.psychometrics import RUNAWAY_SLOPE, StandardErrors
from latentbits.models.latent_trait import column_kinds, information, item_learning, items, quadrature, tuning
from latentbits.models.latent_trait.column_kinds import ALL_BITS
from latentbits.models.latent_trait.item_params import Params, can_shift, free_of, recentred, with_free
from latentbits.reports.items import listed
from latentbits.reports.record import Report, Table

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["ItemErrors", "covariance_of", "standard_errors", "steady_covariance"]

MOST_PARAMETERS = 6000  # the square of it in float64 is 288 MB
STEADY_BEND = 0.75  # of `quadrature.bend_of`: below, the nodes for it are known to do


@dataclass(frozen=True)
class ItemErrors(Report):
    """Estimates and standard errors of all that was learned, by the observed information of the marginal likelihood.

    Attributes
    ----------
    components, intercept, difficulty, discrimination
        Errors, shaped like the attributes of the model; NaN for what is held.
    asymptote, asymptote_logit
        Errors of the lower asymptotes, and of their logits, which is the scale that they are learned on.
    group_means, group_variances
        Errors of the trait's mean and variance in each group, NaN for what is held.
    coefficients
        Errors of the latent regression.
    parameters, estimates, errors
        Names, values and errors of the free numbers: slopes, intercepts, logits of asymptotes, means, logarithms of
        standard deviations, coefficients.
    covariance
        Of these.
    notes
        Numbers without an error, and why.
    """

    components: np.ndarray
    intercept: np.ndarray
    difficulty: np.ndarray
    discrimination: np.ndarray
    asymptote: np.ndarray
    asymptote_logit: np.ndarray
    group_means: np.ndarray
    group_variances: np.ndarray
    coefficients: np.ndarray
    parameters: tuple[str, ...]
    estimates: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Return one row for each free number, with its interval of 95 %."""
        low, high = (self.estimates + sign * float(norm.ppf(0.975)) * self.errors for sign in (-1, 1))
        columns = {"estimate": self.estimates, "error": self.errors, "low": low, "high": high}
        return Table(list(self.parameters), columns, "standard errors, intervals of 95 %", self.notes)


def standard_errors(
    self: ItemResponse,
    X: Any,
    sample_weight: Any = None,
    weights_are: str = "counts",
    groups: Any = None,
    covariates: Any = None,
) -> StandardErrors | ItemErrors:
    """Compute standard errors of weights, biases, difficulties and discriminations.

    From the observed information of the rows (Louis's identity, by quadrature, in float64).  In several dimensions
    they are those of the canonical rotation: components orthogonal to each other, which is how `components_` is
    given.  With `weight_prior` the information of the prior is added.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        The rows that the model was fitted to.
    sample_weight : array-like of shape (n_rows,) or None
        The weights that it was fitted with.
    weights_are : {"counts", "sampling"}, default="counts"
        How often a row was met, or the inverse of the chance that it had to come into the sample (in any unit).
        Then errors are those of the sandwich form, and rows must not have been put together: two that are alike
        are two draws.  Without weights it is the form that holds for a model that is not quite right.
    groups, covariates : array-like or None
        Values of the rows, where `fit` had some.

    Returns
    -------
    StandardErrors or ItemErrors
        `components` (n_factors, n_columns), `intercept`, `difficulty`, `discrimination` (n_columns,), and the
        `covariance` of all estimates.  NaN for columns without a finite estimate, and for those whose error finer
        and finer rules do not agree on, which a warning names.  With asymptotes, groups, covariates, or parameters that
        are held or shared it is an `ItemErrors`, which has those of asymptotes, groups and coefficients, too; the
        information of their priors is added.
    """
    check_is_fitted(self, "params_")
    rows, sandwich = beside(self, X, groups, covariates), is_sampling(weights_are)
    ways = _errors_of_all if self._by_newton else _errors_of_factors
    return ways(self, rows, sample_weight, sandwich)


def _errors_of_factors(self: ItemResponse, X: Any, sample_weight: Any, sandwich: bool) -> StandardErrors:
    """Compute standard errors of slopes and intercepts of one factor or several."""
    weights, bias = self.params_.weights, self.params_.bias
    d, q = weights.shape
    if d * (q + 1) > MOST_PARAMETERS:
        raise ValueError(
            f"standard errors need a matrix of {d * (q + 1)} x {d * (q + 1)} numbers, and this stops at "
            f"{MOST_PARAMETERS}: fit fewer columns"
        )
    engine = self._open(X, reset=False, sample_weight=sample_weight)
    # under a prior a steep weight is an estimate like any other
    steep = (np.linalg.norm(weights, axis=1) > RUNAWAY_SLOPE) & (self.weight_prior is None)
    if steep.any():
        names = [quoted(self, i) for i in np.flatnonzero(steep).tolist()]
        warnings.warn(
            f"the weights of {listed(names)} run to infinity: they have no standard errors (NaN), and those of "
            "the other columns hold them fixed. weight_prior=3, say, keeps them finite",
            UserWarning,
            stacklevel=3,
        )
    prior = None if self.weight_prior is None else float(self.weight_prior)
    covariance, unsteady = steady_covariance(
        self._fitted(),
        engine,
        self.params_,
        steep,
        int(self.n_nodes or 0),
        self._tied,
        prior,
        sandwich=sandwich,
    )
    if covariance is None:
        warnings.warn(
            "the observed information is not positive definite, so there are no standard errors (NaN): the fit has "
            "not converged, or there are more latents than the data determine",
            UserWarning,
            stacklevel=3,
        )
        covariance = np.full((d * (q + 1), d * (q + 1)), np.nan)
    elif unsteady.any():
        names = [quoted(self, i) for i in np.flatnonzero(unsteady).tolist()]
        warnings.warn(
            f"the standard errors of {listed(names)} still change with the number of nodes, and are not given "
            "(NaN): their slopes are steep for what rows have observed. weight_prior=3, say, makes them less steep",
            PrecisionWarning,
            stacklevel=3,
        )
        gone = np.repeat(unsteady, q + 1)
        covariance[gone] = covariance[:, gone] = np.nan
    return psychometrics.item_errors(weights, bias, covariance, self._column_names())


def _errors_of_all(self: ItemResponse, X: Any, sample_weight: Any, sandwich: bool) -> ItemErrors:
    """Compute standard errors of all free numbers, and of what is made of them."""
    params: Params = self.params_
    if not len(params.prior_mean):
        raise ValueError("all parameters of this model were given, and none estimated: there are no standard errors")
    engine = self._open(X, reset=False, sample_weight=sample_weight)
    covariance, notes = covariance_of(params, self._n_newton, engine, sandwich=sandwich)
    names, low = self._column_names(), np.flatnonzero(at_bound(params)).tolist()
    if low:
        held = listed([names[j] for j in low])
        notes = (*notes, f"the asymptotes of {held} are at their bound, 0, and are held there: no errors")
    if np.isnan(covariance).all() and len(covariance):
        warnings.warn(notes[0], UserWarning, stacklevel=3)
    labels = self._labels
    free = names_of_free(params, names, [str(g) for g in labels.groups], labels.covariates)
    return _report_of(params, covariance, free, notes)


def steady_covariance(
    model: Model,
    engine: Engine,
    params: column_kinds.Params,
    steep: np.ndarray,
    n_nodes: int,
    tied: bool,
    weight_prior: float | None,
    sandwich: bool = False,
) -> tuple[np.ndarray | None, np.ndarray]:
    """Compute the estimates' covariance, by finer and finer rules until it is steady; return whose is not, too.

    None where the information is not positive definite.

    `steep`: (columns,) which have no finite estimate, and are held where they are.  `n_nodes`: the fewest nodes to
    begin with.  `tied`: all columns share one weight.  `sandwich`: whether the weights of rows are those of a sample,
    and not counts.
    """
    weights, double = np.asarray(params.weights), np.dtype(np.float64)
    d, q = weights.shape
    seen = look(engine)
    bend = quadrature.bend_of(ALL_BITS, params, seen.few)
    needed = quadrature.nodes_for(q, bend, seen.n_rows)
    n_nodes = max(needed, n_nodes, quadrature.nodes_at_first(q, seen.few))
    most = max(n_nodes, tuning.MOST_NODES_PER_DIMENSION[min(q, MOST_GRID + 1)])
    if bend > STEADY_BEND and not steep.any():  # two rules at least are compared
        n_nodes = min(n_nodes, most - 1 if q > MOST_GRID else (most + 1) // 2)
    precision = 0.0 if weight_prior is None else 1 / weight_prior**2
    given = start_pass(model, double, params, seed_key(0, "use"))

    def by(n_nodes: int) -> np.ndarray | None:
        summing = model._replace(e_step=information.e_step(q, n_nodes), start_rows=None)
        layout = layout_for(information.row_floats(q, d, n_nodes), double)
        (stats,) = sum_blocks(summing, engine, layout, lambda: given, {})
        ones, observed = np.asarray(stats.ones), np.asarray(stats.observed)
        # sums of weights that are no whole numbers differ by so much
        free = (ones > 0) & (observed - ones > 1e-12 * observed) & ~steep
        spread = np.asarray(stats.spread) if sandwich else None
        try:
            return information.covariance(np.asarray(stats.information), weights, free, tied, precision, spread)
        except np.linalg.LinAlgError:
            return None

    found, unsteady = by(n_nodes), np.zeros(d, bool)
    if found is not None and bend <= STEADY_BEND:
        return found, unsteady
    while n_nodes < most:
        n_nodes = min(n_nodes + 1 if q > MOST_GRID else 2 * n_nodes - 1, most)
        finer = by(n_nodes)
        if finer is not None and found is not None:
            before, after = (np.sqrt(np.diag(one)).reshape(d, q + 1) for one in (found, finer))
            unsteady = np.nan_to_num(np.abs(before / after - 1)).max(1) > 0.02  # of a standard error by a finer rule
            if not unsteady.any():
                return finer, unsteady
        found = finer
    return found, unsteady


# ---------------------------------------------------------------- by the sums of Newton's method


def _summed(params: Params, n_nodes: int, engine: Engine) -> item_learning.Stats:
    """Sum log-likelihood, gradient and information over all rows, in float64."""
    model = items.model(n_nodes)
    layout = layout_for(model.row_floats(engine.n_features), DOUBLE)
    given = start_pass(model, DOUBLE, params, seed_key(0, "use"))
    (stats,) = sum_blocks(model, engine, layout, lambda: given, {})
    return stats


def covariance_of(
    params: Params, n_nodes: int, engine: Engine, sandwich: bool = False
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Compute the covariance of the free numbers, NaN for those at a bound, and what has to be said of it.

    Sums and inverse are of standardised covariates, and are carried over to those that were given by the derivatives.
    """
    inner = standardised(params, engine)
    covariance, notes = _inverse(inner, _summed(inner, n_nodes, engine), sandwich)
    known = np.isfinite(np.diag(covariance))
    if inner is params or not known.any():
        return covariance, notes
    none, one, shifting = jnp.zeros(len(inner.scale)), jnp.ones(len(inner.scale)), can_shift(inner)

    def given(free: jax.Array) -> jax.Array:
        return free_of(recentred(with_free(inner, free), none, one, shifting))

    with double():
        to = np.asarray(jax.jacobian(given)(free_of(inner)))
    covariance = to @ np.where(np.isfinite(covariance), covariance, 0.0) @ to.T
    covariance[~known] = covariance[:, ~known] = np.nan
    return covariance, notes


def _inverse(params: Params, stats: item_learning.Stats, sandwich: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Invert these sums: the covariance of the free numbers."""
    information = np.asarray(stats.information) + np.diag(params.prior_precision)
    bound = np.zeros(len(information) + 1, bool)
    if params.items.shape[2] == 3:
        bound[params.item_places[:, at_bound(params), 2].astype(int)] = True
    kept = ~bound[:-1]
    covariance = np.full_like(information, np.nan)
    inner = information[np.ix_(kept, kept)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
    values = np.linalg.eigvalsh(inner * np.outer(scale, scale)) if len(inner) else np.ones(1)
    if values[0] <= 1e-12:
        said = "the observed information is singular or not positive definite, so there are no standard errors (NaN): "
        return covariance, (said + "the fit has not converged, or the data do not determine all of the parameters",)
    inverse = np.linalg.inv(inner)
    if sandwich:
        inverse = inverse @ np.asarray(stats.spread)[np.ix_(kept, kept)] @ inverse
    covariance[np.ix_(kept, kept)] = inverse
    return covariance, ()


def _report_of(params: Params, covariance: np.ndarray, names: list[str], notes: tuple[str, ...]) -> ItemErrors:
    n = len(covariance)
    errors = np.sqrt(np.diag(covariance))
    padded = np.append(errors, np.nan)
    of = lambda places: padded[places.astype(int)]  # noqa: E731
    by_item = of(params.item_places[0])
    slope, bias = params.items[0, :, 0], params.items[0, :, 1]
    g = asymptotes(params)
    by_logit = g * (1 - g)
    logit = by_item[:, 2] if params.items.shape[2] == 3 else np.full(len(slope), np.nan)
    # of -d / a by the delta method; what is held has no variance
    whole = np.pad(covariance, (0, 1))
    at = params.item_places[0, :, :2].astype(int)
    own = whole[at[:, :, None], at[:, None, :]]
    with np.errstate(divide="ignore", invalid="ignore"):
        to = np.stack([bias / slope**2, -1 / slope], 1)
        place = np.sqrt(np.einsum("di,dij,dj->d", to, own, to))
    place = np.where((at == n).all(1), np.nan, place)
    variances = 2 * np.exp(2 * params.log_sd) * of(params.sd_places)
    with double():
        estimates = np.asarray(free_of(params))
    return ItemErrors(
        by_item[None, :, 0], by_item[:, 1], place, by_item[:, 0].copy(), by_logit * logit, logit,
        of(params.mean_places), variances, of(params.coefficient_places), tuple(names), estimates, errors,
        covariance, notes,
    )  # fmt: skip
