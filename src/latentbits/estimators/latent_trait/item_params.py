"""Parameters of items, whichever way they were learned: views of them, and moves that leave the model as it is."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core.tree import double, to_numpy
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.models.latent_trait import item_rows
from latentbits.models.latent_trait.item_params import Params, free_of, recentred, with_free

__all__ = ["as_given", "asymptotes", "at_bound", "condensed", "moved_by", "n_free_of", "spread_of", "standardised",
           "traits_of", "upright"]  # fmt: skip


# ---------------------------------------------------------------- of both ways: slopes and biases alone, or more


def asymptotes(params: Any) -> np.ndarray:
    """Return the lower asymptotes; 0 where there is none."""
    if not isinstance(params, Params) or params.items.shape[2] == 2:
        return np.zeros(len(params.bias))
    return np.where(params.guessed > 0, 1 / (1 + np.exp(-np.asarray(params.items[0, :, 2]))), 0.0)


def n_free_of(params: Any) -> int:
    """Count the estimates in the covariance of `standard_errors`."""
    return len(params.prior_mean) if isinstance(params, Params) else params.weights.size + params.bias.size


def moved_by(params: Any, step: np.ndarray) -> Any:
    """Move the estimates in the parameters by a step."""
    if isinstance(params, Params):
        with double():
            return to_numpy(with_free(params, free_of(params) + step))
    weights, bias = np.asarray(params.weights), np.asarray(params.bias)
    both = np.column_stack([weights, bias]) + step.reshape(len(bias), -1)
    return params.replace(weights=both[:, :-1], bias=both[:, -1])


def traits_of(params: Any, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and standard deviation of each row's latents before it has answered, both (rows, 1).

    They depend on the groups and covariates in the columns after the bits.
    """
    if not isinstance(params, Params):
        return np.zeros((len(beside), 1)), np.ones((len(beside), 1))
    with double():
        mean, spread = item_rows.traits(jax.tree.map(jnp.asarray, params), jnp.asarray(beside, float))
        return np.asarray(mean)[:, None], np.asarray(spread)[:, None]


# ---------------------------------------------------------------- of items that are learned by Newton's method


def at_bound(params: Params) -> np.ndarray:
    """Find the columns with a free asymptote, without a prior, that has gone to 0: (columns,) of bool."""
    if params.items.shape[2] == 2:
        return np.zeros(params.items.shape[1], bool)
    places = params.item_places[0, :, 2].astype(int)
    flat = np.append(params.prior_precision == 0, False)
    return flat[places] & (asymptotes(params) < 1e-3)  # below, no asymptote can be distinguished from 0


def upright(params: Params) -> Params:
    """Flip the model so that the trait's end up is the one which most items agree with, where no slope is held.

    Covariates are then taken as they were given.
    """
    held = (params.item_places[..., 0] >= len(params.prior_mean)) & (params.items[..., 0] != 0)
    if not held.any() and params.items[0, :, 0].sum() < 0:
        mirror = np.array([-1.0, 1.0, 1.0])[: params.items.shape[2]]
        opposite = 0 - params.mean, 0 - params.coefficients
        params = params.replace(items=params.items * mirror, mean=opposite[0], coefficients=opposite[1])
    return as_given(params)


def as_given(params: Params) -> Params:
    """Express the model by covariates as they were given."""
    n = len(params.coefficients)
    if not n:
        return params
    with double():
        return to_numpy(recentred(params, np.zeros(n), np.ones(n)))


def standardised(params: Params, engine: Engine) -> Params:
    """Express the model by covariates in standard deviations from their mean in a table."""
    n = len(params.coefficients)
    if not n:
        return params
    with double():
        return to_numpy(recentred(params, *spread_of(engine, n)))


def spread_of(engine: Engine, n_covariates: int) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean and standard deviation of the covariates, which are the last columns."""
    assert isinstance(engine, MemoryEngine)  # as covariates have it
    Z = engine.table[:, -n_covariates:].astype(float)
    mean = np.average(Z, 0, engine.weights)
    spread = np.sqrt(np.average((Z - mean) ** 2, 0, engine.weights))
    return mean, np.where(spread > 0, spread, 1.0)


def condensed(engine: Engine) -> Engine:
    """Put rows that are alike together, where that halves a table in memory: with few items many are alike."""
    if not isinstance(engine, MemoryEngine):
        return engine
    table = engine.table
    marked = table if table.dtype == np.uint8 else np.where(np.isnan(table), np.inf, table)  # two NaNs are not equal
    _, first, which = np.unique(marked, axis=0, return_index=True, return_inverse=True)
    if 2 * len(first) > len(table):
        return engine
    new = MemoryEngine(table[first], np.bincount(which.ravel(), engine.weights).astype(float))
    if hasattr(engine, "n_answers"):
        new.n_answers = engine.n_answers  # type: ignore[attr-defined]
    return new
