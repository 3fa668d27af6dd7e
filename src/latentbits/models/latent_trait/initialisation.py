"""Where learning begins: parameters from the principal axes of a sample of rows, and no stage at a standstill."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.model import Summary
from latentbits.models.latent_trait import tuning
from latentbits.models.latent_trait.column_kinds import Columns, Params

__all__ = ["awake", "init_params"]


def init_params(n_components: int, columns: Columns, tied: bool, key: Key[Array, ""], summary: Summary) -> Params:
    """Take principal axes of the standardised columns of a sample of rows, as if they were factors.

    The subspace is found by a few power iterations from a random start, so restarts begin apart where it is unclear.
    """
    real = np.asarray(columns.continuous, int)
    at = np.arange(len(summary.mean)) if columns.binary is None else np.asarray(columns.binary, int)
    spread = jnp.sqrt(jnp.maximum(summary.variance, 1e-6))
    # a continuous column may be in any unit; a constant one has none
    variance = summary.variance[real]
    spread = spread.at[real].set(jnp.sqrt(jnp.where(variance > 0, variance, 1.0)))
    if columns.shared_noise:  # one variance in the units of the data is one in units of a common scale
        spread = spread.at[real].set(jnp.sqrt(jnp.mean(spread[real] ** 2)))
    table = jnp.where(summary.sample_observed > 0, (summary.sample - summary.mean) / spread, 0)
    # indicators of classes stand beside the bits and the reals
    names = [table[:, at], table[:, real]]
    log_odds = []
    for column, n in zip(columns.categorical, columns.n_classes):
        codes = jnp.arange(n, dtype=table.dtype)
        seen = summary.sample_observed[:, column, None] > 0
        chosen = (summary.sample[:, column, None] == codes) & seen
        share = (chosen.sum(0) + 0.5) / (seen.sum() + 0.5 * n)
        names.append(jnp.where(seen, (chosen - share) / jnp.sqrt(share * (1 - share)), 0)[:, 1:])
        log_odds.append(jnp.log(share[1:]) - jnp.log(share[0]))
    # the principal axes, by a few power iterations
    table = jnp.concatenate(names, 1)
    n, d = table.shape
    basis = jax.random.normal(key, (d, min(n_components, d)), table.dtype)
    step = lambda _, basis: jnp.linalg.qr(over_rows(table, table @ basis))[0]  # noqa: E731
    projected = table @ (basis := jax.lax.fori_loop(0, 6, step, basis))
    values, vectors = jnp.linalg.eigh(over_rows(projected, projected) / n)
    # communalities as in a principal factor analysis, away from 1; 0.3 keeps every start a little off the saddle at 0
    loadings = (basis @ vectors) * jnp.sqrt(jnp.maximum(values - 1, 0.3))
    loadings = loadings[:, :n_components] if d >= n_components else jnp.pad(loadings, [(0, 0), (0, n_components - d)])
    share = jnp.sum(loadings**2, 1, keepdims=True)
    loadings = loadings * jnp.sqrt(jnp.minimum(1, 0.6 / jnp.maximum(share, 1e-12)))
    share = jnp.minimum(share, 0.6)
    # loadings become slopes, and means of bits become biases at these slopes
    slopes = loadings / jnp.sqrt(1 - share)
    mean, seen = summary.mean[at], summary.observed[at]
    # half a bit away from 0 and 1, to begin with
    mean = jnp.clip(mean, 0.5 / (seen + 1), 1 - 0.5 / (seen + 1))
    n_bits = len(at)
    varies = (summary.variance[at] > 0) & (seen > 0)
    slopes = slopes.at[:n_bits].multiply(varies[:, None])
    bits = jnp.ones((n_bits, 1)) if tied else 1.7 * slopes[:n_bits]
    bias = (jnp.log(mean) - jnp.log1p(-mean)) * jnp.sqrt(1 + jnp.sum(slopes[:n_bits] ** 2, 1))
    weights = [bits, loadings[n_bits : n_bits + len(real)], slopes[n_bits + len(real) :]]
    biases = [bias, jnp.zeros(len(real), bias.dtype), *log_odds]
    return Params(
        jnp.concatenate(weights),
        jnp.concatenate(biases),
        _noise(1 - share[n_bits : n_bits + len(real), 0], columns),
        summary.mean[real],
        spread[real],
    )


def _noise(variance: Float[Array, " reals"], columns: Columns) -> Float[Array, " reals"]:
    """Take logs of the variances to begin with; of all columns together where they share one."""
    return jnp.full_like(variance, jnp.log(variance.mean())) if columns.shared_noise else jnp.log(variance)


def awake(key: Key[Array, ""], params: Any, state: Any) -> Any:
    """Lengthen components that the bound has let fall asleep.

    Where bits are unbalanced or few, the optimum of the bound can be w = 0, which is a stationary point of the
    likelihood too: EM would stay there.  Directions are kept, of one map or of several.
    """
    weights = np.asarray(params.weights)
    size = np.sqrt(np.mean(weights**2, -2, keepdims=True))
    longer = np.maximum(tuning.LEAST_WEIGHT_RMS / np.maximum(size, 1e-12), 1)
    return eqx.tree_at(lambda p: p.weights, params, weights * longer)
