"""Columns of several kinds in one latent space: what is where, and sums over the kinds.

Given the latents all columns are independent (eq. 1), so log-likelihoods, bounds and their derivatives in x are sums
over columns, and the M-step goes column by column.  The kinds are `bits.py`, `reals.py` and `classes.py`.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key

from latentbits.core.arrays import Array, namespace
from latentbits.core.batch import Batch
from latentbits.core.gaussians import Gaussian
from latentbits.core.module import Module
from latentbits.core.packed_symmetric import pairs
from latentbits.models.latent_trait import bits, classes, reals, tuning

__all__ = ["ALL_BITS", "Columns", "Params", "Rows", "Stats", "allowed_noise", "best_guess", "bound", "bound_stats",
           "density", "draw", "expected", "local", "maximise", "point_stats", "rows_of", "transformed",
           "typical_curvature"]  # fmt: skip


class Columns(NamedTuple):
    """Positions of the columns of each kind in the table, and the numbers of classes.

    The outputs of a model, one line of weights each, come in the order of the kinds: bits, reals, and for each
    categorical column its classes but the first.  None for `binary` is all columns, however many.  With `shared_noise`
    all continuous columns have one variance, and so one scale.
    """

    binary: tuple[int, ...] | None = None
    continuous: tuple[int, ...] = ()
    categorical: tuple[int, ...] = ()
    n_classes: tuple[int, ...] = ()
    shared_noise: bool = False

    @property
    def n_reals(self) -> int:
        """Number of continuous columns."""
        return len(self.continuous)

    def starts(self, n_outputs: int) -> list[int]:
        """Find where the outputs of the kinds begin: reals, then each categorical column, then the end."""
        sizes = [self.n_reals, *(n - 1 for n in self.n_classes)]
        return np.cumsum([n_outputs - sum(sizes), *sizes]).tolist()

    def n_outputs(self, n_columns: int) -> int:
        """Count the lines of weights for a table of `n_columns` columns."""
        n_bits = n_columns if self.binary is None else len(self.binary)
        return n_bits + self.n_reals + sum(n - 1 for n in self.n_classes)


ALL_BITS = Columns()


class Params(Module):
    """Weights and biases of the outputs; for continuous columns also the noise, and the centre and scale of the data.

    Continuous columns are modelled in units of `scale` away from `centre`, and `log_variance` is in those units.
    """

    weights: Float[Array, "outputs latents"]
    bias: Float[Array, " outputs"]
    log_variance: Float[Array, " reals"]
    centre: Float[Array, " reals"]
    scale: Float[Array, " reals"]


class Stats(Module):
    """Sums over rows: those of each kind of column, and those of the latents for the parameter expansion."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]  # see sum_rows
    latent: Float[Array, " latents"]
    latent_squares: Float[Array, " pairs"]
    bits: bits.Stats
    reals: reals.Stats | None
    classes: tuple[classes.Stats, ...]


class Rows(Module):
    """The entries of a batch by kind.  `seen` is None for bits where nothing is missing."""

    bits: Float[Array, "rows bits"]
    bits_seen: Float[Array, "rows bits"] | None
    reals: Float[Array, "rows reals"]
    reals_seen: Float[Array, "rows reals"]
    chosen: tuple[Float[Array, "rows _"], ...]
    chosen_seen: tuple[Float[Array, " rows"], ...]


def rows_of(columns: Columns, params: Params, batch: Batch) -> Rows:
    """Sort the entries by kind; continuous ones in units of their scale, categorical ones as indicators."""
    if columns.binary is None:
        nothing = batch.values[:, :0]
        return Rows(batch.values, batch.observed, nothing, nothing, (), ())
    mask = batch.mask
    at = np.asarray(columns.binary, int)
    real = np.asarray(columns.continuous, int)
    chosen, chosen_seen = [], []
    for column, n in zip(columns.categorical, columns.n_classes):
        codes = jnp.arange(1, n, dtype=batch.values.dtype)
        seen = mask[:, column]
        chosen.append((batch.values[:, column, None] == codes) * seen[:, None])
        chosen_seen.append(seen)
    return Rows(
        batch.values[:, at],
        None if batch.observed is None else mask[:, at],
        (batch.values[:, real] - params.centre) / params.scale,
        mask[:, real],
        tuple(chosen),
        tuple(chosen_seen),
    )


def _parts(columns: Columns, params: Params) -> list[tuple[Array, Array]]:
    """Split weights and biases by kind: bits, reals, each categorical column."""
    edges = [0, *columns.starts(len(params.bias))]
    return [(params.weights[a:b], params.bias[a:b]) for a, b in pairwise(edges)]


def bound(
    columns: Columns, params: Params, rows: Rows, posterior: Gaussian
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"], Float[Array, " rows"], list[Any]]:
    """Bound log p(t | x) from below by a quadratic in x, tight at `posterior`: precision, linear term, constant.

    The last answer is what `bound_stats` needs of the point of contact (the lambda of bits, the psi of classes).
    """
    (w, b), real, *several = _parts(columns, params)
    precision, linear, constant, lambda2 = bits.bound(w, b, rows.bits, rows.bits_seen, posterior)
    contact: list[Any] = [lambda2]
    parts = []
    if columns.n_reals:
        log_scale = jnp.log(params.scale)
        parts.append(reals.bound(*real, params.log_variance, log_scale, rows.reals, rows.reals_seen))
    for (w, b), chosen, seen in zip(several, rows.chosen, rows.chosen_seen):
        *part, psi = classes.bound(w, b, chosen, seen, posterior.mean)
        parts.append((part[0], part[1], part[2]))
        contact.append(psi)
    for more in parts:
        precision, linear, constant = precision + more[0], linear + more[1], constant + more[2]
    return precision, linear, constant, contact


def bound_stats(
    columns: Columns,
    params: Params,
    rows: Rows,
    contact: list[Any],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> tuple[bits.Stats, reals.Stats | None, tuple[classes.Stats, ...]]:
    """Sum for the M-step from the bound."""
    (w, b), _, *several = _parts(columns, params)
    return (
        bits.bound_stats(w, b, rows.bits, rows.bits_seen, contact[0], moments, weight),
        _real_stats(columns, params, rows, moments, weight),
        tuple(
            classes.bound_stats(w, b, chosen, seen, psi, moments, weight)
            for (w, b), chosen, seen, psi in zip(several, rows.chosen, rows.chosen_seen, contact[1:])
        ),
    )


def density(
    columns: Columns, params: Params, rows: Rows, points: Float[Array, "rows points latents"]
) -> tuple[Float[Array, "rows points"], list[Any]]:
    """Compute log p(t | x) at each row's own points, and the probabilities there by kind."""
    (w, b), real, *several = _parts(columns, params)
    total, p = bits.density(w, b, rows.bits, rows.bits_seen, points)
    probabilities: list[Any] = [p]
    if columns.n_reals:
        log_scale = jnp.log(params.scale)
        total = total + reals.density(*real, params.log_variance, log_scale, rows.reals, rows.reals_seen, points)
    for (w, b), chosen, seen in zip(several, rows.chosen, rows.chosen_seen):
        part, p = classes.density(w, b, chosen, seen, points)
        total = total + part
        probabilities.append(p)
    return total, probabilities


def point_stats(
    columns: Columns,
    params: Params,
    rows: Rows,
    probabilities: list[Any],
    share: Float[Array, "rows points"],
    points: Float[Array, "rows points latents"],
    moments: Float[Array, "rows pairs"],
    weight: Float[Array, " rows"],
) -> tuple[bits.Stats, reals.Stats | None, tuple[classes.Stats, ...]]:
    """Sum for the M-step from weighted points."""
    return (
        bits.point_stats(rows.bits, rows.bits_seen, probabilities[0], share, points, moments, weight),
        _real_stats(columns, params, rows, moments, weight),
        tuple(
            classes.point_stats(chosen, seen, p, share, points, moments, weight)
            for chosen, seen, p in zip(rows.chosen, rows.chosen_seen, probabilities[1:])
        ),
    )


def _real_stats(
    columns: Columns, params: Params, rows: Rows, moments: Float[Array, "rows pairs"], weight: Float[Array, " rows"]
) -> reals.Stats | None:
    if not columns.n_reals:
        return None
    return reals.stats_of(rows.reals, rows.reals_seen, moments, weight, params.weights.shape[1])


def local(
    columns: Columns, params: Params, rows: Rows, point: Float[Array, "rows latents"]
) -> tuple[Float[Array, "rows pairs"], Float[Array, "rows latents"]]:
    """Compute curvature (packed) and slope in x of log p(t | x) + log p(x)."""
    (w, b), real, *several = _parts(columns, params)
    precision, slope = bits.local(w, b, rows.bits, rows.bits_seen, point)
    parts = []
    if columns.n_reals:
        parts.append(reals.local(*real, params.log_variance, rows.reals, rows.reals_seen, point))
    for (w, b), chosen, seen in zip(several, rows.chosen, rows.chosen_seen):
        parts.append(classes.local(w, b, chosen, seen, point))
    for more in parts:
        precision, slope = precision + more[0], slope + more[1]
    return precision + _prior_precision(point.shape[1], precision.dtype), slope - point


def typical_curvature(columns: Columns, params: Params, rows: Rows, at: Gaussian) -> Float[Array, "rows pairs"]:
    """Compute curvature (packed) in x of -log p(t | x) - log p(x): of bits its mean over x ~ `at`, else at the mean."""
    (w, b), real, *several = _parts(columns, params)
    precision = bits.typical_curvature(w, b, rows.bits_seen, at) if rows.bits.shape[1] else 0
    if columns.n_reals:
        precision = precision + reals.local(*real, params.log_variance, rows.reals, rows.reals_seen, at.mean)[0]
    for (w, b), chosen, seen in zip(several, rows.chosen, rows.chosen_seen):
        precision = precision + classes.local(w, b, chosen, seen, at.mean)[0]
    return precision + _prior_precision(at.mean.shape[1], at.mean.dtype)


def _prior_precision(q: int, dtype: Any) -> Array:
    j, k = pairs(q)
    return jnp.asarray(j == k, dtype)


def maximise(
    columns: Columns, params: Params, stats: Stats, precision: Float[Array, ""] | float, tied: bool, longest: Any
) -> Params:
    """Take the M-step, column by column."""
    (w, b), _, *several = _parts(columns, params)
    w, b = bits.maximise(w, b, stats.bits, precision, tied, longest)
    weights, biases, log_variance = [w], [b], params.log_variance
    if stats.reals is not None:
        w, b, log_variance = reals.maximise(stats.reals, precision, params.log_variance, columns.shared_noise)
        weights.append(w)
        biases.append(b)
    for (w, b), part in zip(several, stats.classes):
        w, b = classes.maximise(w, b, part, precision)
        weights.append(w)
        biases.append(b)
    xp = namespace(weights)
    return Params(xp.concatenate(weights), xp.concatenate(biases), log_variance, params.centre, params.scale)


def allowed_noise(columns: Columns, log_variance: Float[Array, " reals"]) -> Float[Array, " reals"]:
    """Hold extrapolated variances as the M-step allows them; where columns share one, it is one to the bit."""
    xp = namespace(log_variance)
    allowed = xp.maximum(log_variance, np.log(tuning.LEAST_VARIANCE_SHARE))
    return xp.full_like(allowed, allowed.mean()) if columns.shared_noise else allowed


def transformed(params: Params, matrix: Float[Array, "latents latents"], shift: Float[Array, " latents"]) -> Params:
    """Rewrite a model of x = shift + x' @ matrix as the same model of x'."""
    return Params(
        params.weights @ matrix.T,
        params.bias + params.weights @ shift,
        params.log_variance,
        params.centre,
        params.scale,
    )


def _by_place(columns: Columns, parts: list[Array]) -> Array:
    """Put the parts (bits, reals, each categorical column) side by side in the order of the table's columns."""
    places: dict[int, Array] = {}
    for chosen, part in zip((columns.binary or (), columns.continuous), parts):
        places.update({column: part[..., i, None] for i, column in enumerate(chosen)})
    places.update(zip(columns.categorical, parts[2:]))
    return jnp.concatenate([places[column] for column in sorted(places)], -1)


def expected(columns: Columns, params: Params, latents: Float[Array, "*rows latents"]) -> Float[Array, "*rows outputs"]:
    """Compute each column's mean given the latents: P(t = 1), a mean, and of a categorical column all K of P(class)."""
    (w, b), real, *several = _parts(columns, params)
    p = (1 + jnp.tanh((latents @ w.T + b) / 2)) / 2
    if columns.binary is None:
        return p
    parts = [p, params.centre + params.scale * (latents @ real[0].T + real[1])]
    return _by_place(columns, parts + [_class_probabilities(latents @ w.T + b) for w, b in several])


def _class_probabilities(eta: Float[Array, "*rows logits"]) -> Float[Array, "*rows classes"]:
    return jax.nn.softmax(jnp.concatenate([jnp.zeros_like(eta[..., :1]), eta], -1), axis=-1)


def best_guess(columns: Columns, means: Float[Array, "rows outputs"]) -> Float[Array, "rows columns"]:
    """Take one number a column from `expected`: for a categorical column the code of its most probable class."""
    if not columns.categorical:
        return means
    sizes = dict(zip(columns.categorical, columns.n_classes))
    parts, first = [], 0
    for column in range(means.shape[1] - sum(n - 1 for n in columns.n_classes)):
        n = sizes.get(column, 1)
        block = means[:, first : first + n]
        parts.append(block if n == 1 else jnp.argmax(block, 1, keepdims=True).astype(means.dtype))
        first += n
    return jnp.concatenate(parts, 1)


def draw(
    columns: Columns, params: Params, latents: Float[Array, " latents"], key: Key[Array, ""]
) -> Float[Array, " columns"]:
    """Draw one row of the table, given its latents."""
    (w, b), real, *several = _parts(columns, params)
    for_bits, for_reals, *keys = jax.random.split(key, 2 + len(several))
    bit = jax.random.bernoulli(for_bits, jax.nn.sigmoid(w @ latents + b)).astype(params.bias.dtype)
    if columns.binary is None:
        return bit
    noise = jnp.exp(params.log_variance / 2) * jax.random.normal(for_reals, real[1].shape, params.bias.dtype)
    parts = [bit, params.centre + params.scale * (real[0] @ latents + real[1] + noise)]
    for (w, b), own in zip(several, keys):
        eta = jnp.concatenate([jnp.zeros(1, b.dtype), w @ latents + b])
        parts.append(jax.random.categorical(own, eta)[None].astype(b.dtype))
    return _by_place(columns, parts)
