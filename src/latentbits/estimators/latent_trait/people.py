"""Groups and covariates of the people who answer: what `fit` learns of them, and rows together with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentbits.engines.passes import Engine
from latentbits.estimators.latent_trait.base import LinearTrait
from latentbits.estimators.latent_trait.item_params import spread_of
from latentbits.estimators.tables.beside_bits import Beside, Labels, joined
from latentbits.estimators.tables.weights import weighted
from latentbits.models.latent_trait.item_params import Params

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["Population", "beside", "open_people", "population_of", "runaways"]

# standard deviations of the trait by which groups, or people a covariate apart, are believed to differ
MOST_SDS_APART = 10.0
LEAST_VARIANCE, MOST_VARIANCE = 0.01, 100.0  # that a group is believed to have, in units of the first group's


class Population(NamedTuple):
    """Distribution of the trait among the people: N(mean + covariates @ coefficients, variance) in each group.

    Attributes
    ----------
    groups
        Labels, the reference first; () where there is one group.
    mean, variance
        (n_groups,) those of the trait where covariates are 0; 0 and 1 of each factor where nothing was learned.
    covariates
        Names; () where there are none.
    coefficients
        (n_covariates,) of the latent regression.
    """

    groups: tuple[Any, ...]
    mean: np.ndarray
    variance: np.ndarray
    covariates: tuple[str, ...]
    coefficients: np.ndarray


# ---------------------------------------------------------------- what a fit learns of people


def population_of(params: Any, labels: Labels) -> Population:
    """Make the population of a fitted model."""
    if not isinstance(params, Params):
        return Population((), np.zeros(1), np.ones(1), (), np.zeros(0))
    variance = np.exp(2 * params.log_sd)
    return Population(labels.groups, np.array(params.mean), variance, labels.covariates, np.array(params.coefficients))


def runaways(params: Params, labels: Labels, engine: Engine) -> list[str]:
    """Name coefficients, means and variances that cannot be of people."""
    unit, out = float(np.exp(params.log_sd[0])), []
    away = np.asarray(params.mean - params.mean[0]) / unit
    ratio = np.exp(2 * (params.log_sd - params.log_sd[0]))
    for label, mean, variance in zip(labels.groups, away.tolist(), ratio.tolist()):
        if abs(mean) > MOST_SDS_APART:
            out.append(f"the mean of {label} is {mean:.3g} standard deviations from that of {labels.groups[0]}")
        if not 0.01 <= variance <= 100.0:  # in units of the first group's
            out.append(f"the variance of {label} is {variance:.2g} times that of {labels.groups[0]}")
    if labels.covariates:
        _, spread = spread_of(engine, len(labels.covariates))
        for name, size in zip(labels.covariates, (params.coefficients * spread / unit).tolist()):
            if abs(size) > MOST_SDS_APART:
                out.append(f"one standard deviation of {name} moves the trait by {size:.3g} of the trait's")
    return out


# ---------------------------------------------------------------- rows with people


def open_people(self: ItemResponse, X: Any, labels: Labels, *, reset: bool, sample_weight: Any) -> Engine:
    """Open the rows, with groups and covariates as further columns."""
    rows = X if isinstance(X, Beside) else Beside(X)
    bits = LinearTrait._open(self, rows.X, reset=reset)
    if any(labels):
        return joined(bits, rows, labels, sample_weight, f"pass {labels}")
    if rows.groups is not None or rows.covariates is not None:
        raise ValueError("this model was fitted without groups and covariates: give X alone")
    return weighted(bits, sample_weight, rows.X)


def beside(self: ItemResponse, X: Any, groups: Any, covariates: Any) -> Any:
    """Join rows with what is known of the people."""
    check_is_fitted(self, "params_")
    return X if groups is None and covariates is None else Beside(X, groups, covariates)
