"""Where learning begins: parameters from the principal axes of a sample of rows, and no stage at a standstill."""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Float

from latentbits.core.arrays import AnyKey, Array, namespace, normal, repeat
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.model import Summary
from latentbits.models.latent_trait.column_kinds import Columns, Params

__all__ = ["awake", "init_params"]


def init_params(n_components: int, columns: Columns, tied: bool, key: AnyKey, summary: Summary) -> Params:
    """Take principal axes of the standardised columns of a sample of rows, as if they were factors.

    The subspace is found by a few power iterations from a random start, so restarts begin apart where it is unclear.
    """
    xp, real = namespace(summary), np.asarray(columns.continuous, int)
    at = np.arange(len(summary.mean)) if columns.binary is None else np.asarray(columns.binary, int)
    # a continuous column may be in any unit; a constant one has none
    variance, is_real = summary.variance, np.isin(np.arange(len(summary.mean)), real)
    spread = xp.sqrt(xp.where(is_real, xp.where(variance > 0, variance, 1.0), xp.maximum(variance, 1e-6)))
    if columns.shared_noise:  # one variance in the units of the data is one in units of a common scale
        spread = xp.where(is_real, xp.sqrt(xp.mean(spread[real] ** 2)), spread)
    table = xp.where(summary.sample_observed > 0, (summary.sample - summary.mean) / spread, 0)
    # indicators of classes stand beside the bits and the reals
    names = [table[:, at], table[:, real]]
    log_odds = []
    for column, n in zip(columns.categorical, columns.n_classes):
        codes = xp.arange(n, dtype=table.dtype)
        seen = summary.sample_observed[:, column, None] > 0
        chosen = (summary.sample[:, column, None] == codes) & seen
        share = (chosen.sum(0) + 0.5) / (seen.sum() + 0.5 * n)
        names.append(xp.where(seen, (chosen - share) / xp.sqrt(share * (1 - share)), 0)[:, 1:])
        log_odds.append(xp.log(share[1:]) - xp.log(share[0]))
    # the principal axes, by a few power iterations
    table = xp.concatenate(names, 1)
    n, d = table.shape
    basis = normal(key, (d, min(n_components, d)))
    step = lambda basis: xp.linalg.qr(over_rows(table, table @ basis))[0]  # noqa: E731
    projected = table @ (basis := repeat(6, step, basis))
    values, vectors = xp.linalg.eigh(over_rows(projected, projected) / n)
    # communalities as in a principal factor analysis, away from 1; 0.3 keeps every start a little off the saddle at 0
    loadings = (basis @ vectors) * xp.sqrt(xp.maximum(values - 1, 0.3))
    loadings = loadings[:, :n_components] if d >= n_components else xp.pad(loadings, [(0, 0), (0, n_components - d)])
    share = xp.sum(loadings**2, 1, keepdims=True)
    loadings = loadings * xp.sqrt(xp.minimum(1, 0.6 / xp.maximum(share, 1e-12)))
    share = xp.minimum(share, 0.6)
    # loadings become slopes, and means of bits become biases at these slopes
    slopes = loadings / xp.sqrt(1 - share)
    mean, seen = summary.mean[at], summary.observed[at]
    # half a bit away from 0 and 1, to begin with
    mean = xp.clip(mean, 0.5 / (seen + 1), 1 - 0.5 / (seen + 1))
    n_bits = len(at)
    varies = (summary.variance[at] > 0) & (seen > 0)
    slopes = slopes * xp.append(varies, np.ones(len(slopes) - n_bits))[:, None]
    bits = xp.ones((n_bits, 1)) if tied else 1.7 * slopes[:n_bits]
    bias = (xp.log(mean) - xp.log1p(-mean)) * xp.sqrt(1 + xp.sum(slopes[:n_bits] ** 2, 1))
    weights = [bits, loadings[n_bits : n_bits + len(real)], slopes[n_bits + len(real) :]]
    biases = [bias, xp.zeros(len(real), bias.dtype), *log_odds]
    return Params(
        xp.concatenate(weights),
        xp.concatenate(biases),
        _noise(1 - share[n_bits : n_bits + len(real), 0], columns),
        summary.mean[real],
        spread[real],
    )


def _noise(variance: Float[Array, " reals"], columns: Columns) -> Float[Array, " reals"]:
    """Take logs of the variances to begin with; of all columns together where they share one."""
    xp = namespace(variance)
    return xp.full_like(variance, xp.log(variance.mean())) if columns.shared_noise else xp.log(variance)


def awake(key: AnyKey, params: Any, state: Any) -> Any:
    """Lengthen components that the bound has let fall asleep.

    Where bits are unbalanced or few, the optimum of the bound can be w = 0, which is a stationary point of the
    likelihood too: EM would stay there.  Directions are kept, of one map or of several.
    """
    weights = np.asarray(params.weights)
    size = np.sqrt(np.mean(weights**2, -2, keepdims=True))
    longer = np.maximum(0.5 / np.maximum(size, 1e-12), 1)  # of a component where quadrature begins
    return params.replace(weights=weights * longer)
