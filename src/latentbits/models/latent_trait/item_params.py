"""Parameters of items and people: their values, the places of those that are free, and shifts of the trait."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.module import Module

__all__ = ["Params", "Shift", "can_shift", "free_of", "places_of", "recentred", "with_free"]


class Params(Module):
    """Values, and beside each the place of its free number (their number, n_free, for what is held)."""

    # (groups, columns, 2 or 3): slope, intercept and logit of the lower asymptote
    items: Float[Array | np.ndarray, "groups columns kinds"]
    guessed: Float[Array | np.ndarray, " columns"]  # 1 where a column has a lower asymptote, else 0
    # mean, log_sd: mean and log of the deviation of the trait in each group
    mean: Float[Array | np.ndarray, " groups"]
    log_sd: Float[Array | np.ndarray, " groups"]
    coefficients: Float[Array | np.ndarray, " covariates"]  # slopes of the trait in the covariates
    # item_places, mean_places, sd_places, coefficient_places: whole numbers from 0 to n_free, as floats: model files
    # hold no others
    item_places: Float[Array | np.ndarray, "groups columns kinds"]
    mean_places: Float[Array | np.ndarray, " groups"]
    sd_places: Float[Array | np.ndarray, " groups"]
    coefficient_places: Float[Array | np.ndarray, " covariates"]
    # prior_mean, prior_precision: parameters of a normal prior on each free number; precision 0 is none
    prior_mean: Float[Array | np.ndarray, " free"]
    prior_precision: Float[Array | np.ndarray, " free"]
    # centre, scale: the mean of the trait is that of its group where covariates are `centre`, and coefficients are of
    # covariates in units of `scale`: 0 and 1 in a fitted model, mean and standard deviation of its table while it
    # learns
    centre: Float[Array | np.ndarray, " covariates"]
    scale: Float[Array | np.ndarray, " covariates"]

    @property
    def weights(self) -> Float[Array | np.ndarray, "columns 1"]:
        """Slopes of the first group."""
        return self.items[0, :, :1]

    @property
    def bias(self) -> Float[Array | np.ndarray, " columns"]:
        """Intercepts of the first group."""
        return self.items[0, :, 1]


def _value_fields() -> tuple[tuple[str, str], ...]:
    return (("items", "item_places"), ("mean", "mean_places"), ("log_sd", "sd_places"),
            ("coefficients", "coefficient_places"))  # fmt: skip


def free_of(params: Params) -> Float[Array, " free"]:
    """Collect the free numbers; where values share a place their mean, which is their value once they are equal."""
    n = len(params.prior_mean)
    xp = namespace(params)
    values, at = (xp.concatenate([getattr(params, name).ravel() for name in names]) for names in zip(*_value_fields()))
    total, count = (_summed_at(at.astype(int), x, n + 1) for x in (values, xp.ones_like(values)))
    return (total / xp.maximum(count, 1))[:n]


def _summed_at(places: Int[Array, " values"], values: Float[Array, " values"], n: int) -> Float[Array, " places"]:
    counted: Any = np.bincount
    return jnp.zeros(n).at[places].add(values) if on_device(places, values) else counted(places, values, n)


def with_free(params: Params, free: Float[Array, " free"]) -> Params:
    """Put these free numbers into the parameters."""
    n = len(params.prior_mean)
    xp = namespace(params, free)
    padded = xp.append(free, 0.0)
    new = {}
    for name, places in _value_fields():
        at = getattr(params, places).astype(int)
        new[name] = xp.where(at < n, padded[at], getattr(params, name))
    return params.replace(**new)


def places_of(params: Params) -> Int[Array, "groups local"]:
    """Place each group's parameters in the order of `_scores`: item after item, then mean, coefficients, log sd."""
    groups = len(params.mean)
    same = jnp.broadcast_to(params.coefficient_places, (groups, params.coefficients.size))
    parts = [params.item_places.reshape(groups, -1), params.mean_places[:, None], same, params.sd_places[:, None]]
    return jnp.concatenate(parts, 1).astype(int)


class Shift(NamedTuple):
    """Directions in which the trait may be shifted without a change of what is held or shared."""

    to_means: bool
    to_intercepts: bool


def recentred(
    params: Params,
    centre: Float[Array | np.ndarray, " covariates"],
    scale: Float[Array | np.ndarray, " covariates"],
    shifting: Shift | None = None,
) -> Params:
    """Give the same model another centre and scale of the covariates.

    Learning needs those of the table: dates such as 20250131 would put the trait hundreds of its standard deviations
    from 0, where intercepts and slopes are one number.  The shift of the trait goes into the means of
    the groups, where these are free, else into the intercepts: a theta + d = a (theta - shift) + (d + a shift).  Where
    either would change what is held or shared, the centre stays where it is.  `shifting` says so (`can_shift`) where
    parameters are traced.
    """
    to_means, to_intercepts = can_shift(params) if shifting is None else shifting
    centre = centre if to_means or to_intercepts else params.centre
    slopes = params.coefficients / params.scale
    shift = (centre - params.centre) @ slopes
    mean, own = params.mean, params.items
    if to_means:
        mean = mean + shift
    elif to_intercepts:
        own = own + own[..., :1] * shift * (np.arange(own.shape[-1]) == 1)
    fields = vars(params) | {"items": own, "mean": mean, "coefficients": slopes * scale}
    return Params(**fields | {"centre": centre, "scale": scale})


def can_shift(params: Params) -> Shift:
    """Find whether all means are free; and whether intercepts are, and shared by items of equal slopes alone."""
    n = len(params.prior_mean)
    slope_places, places = (np.asarray(params.item_places[..., k]) for k in (0, 1))
    held = np.where(slope_places < n, 0.0, np.asarray(params.items[..., 0]))
    moving = (slope_places < n) | (held != 0)
    known = np.stack([places, slope_places, held], -1)[moving]
    alike = len(np.unique(known, axis=0)) == len(np.unique(known[:, 0]))
    return Shift(bool((np.asarray(params.mean_places) < n).all()), bool((known[:, 0] < n).all()) and alike)
