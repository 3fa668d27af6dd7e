"""Use of a fitted clipped Gaussian: probabilities of rows, posteriors, completion and samples.

With noise there are three ways to integrate over the hidden variables of a row: a lattice that serves all rows
(`lattice.py`), up to three dimensions; importance sampling by points for each row (`likelihood.py`), in more of
them, and in two or three with many columns, where posteriors are narrow, or with columns so steep that a lattice would
have too many nodes; and expectation propagation, where it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import LogLikelihood
from latentbits.core.module import Module
from latentbits.core.nodes import MANY_COLUMNS
from latentbits.core.packed_symmetric import products, unpack
from latentbits.models.clipped_gaussian import cell_probability, hyperplane_cells, lattice, likelihood
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.cell_probability import Integral, integrate
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.gibbs import gibbs
from latentbits.models.clipped_gaussian.params import Params, signs_of
from latentbits.models.clipped_gaussian.tuning import CELL_SLIDES, MOST_LATTICE_NODES, PLACING_SDS

__all__ = ["Posterior", "Use", "draws_of", "use_of"]


class Posterior(Module):
    """Posterior of the hidden variables of each row.

    Attributes
    ----------
    mean, covariance
        By a lattice, or by expectation propagation (see `ClippedGaussian.posterior`); without noise by points within
        the row's cell.
    mode
        The most probable y; without noise, the point of the row's cell that is nearest to the origin.
    violated
        Without noise: bits that `mean` gets wrong, 0 for a row that some y produces.  For other rows, mean and mode are
        a y with the fewest wrong bits that was found, and the covariance is NaN.
    """

    mean: Float[Array, "rows latents"]
    covariance: Float[Array, "rows latents latents"]
    mode: Float[Array, "rows latents"]
    violated: Int[Array, " rows"]


class Use(NamedTuple):
    """Functions for what is asked of a fitted model; they depend on the noise, and on how it is integrated over.

    Models that differ in anything else have them in common, and so share what has been compiled.
    """

    log_likelihood: Callable[..., LogLikelihood]
    infer: Callable[..., Posterior]
    mean: Callable[..., Array] | None
    decode: Callable[..., Array]
    complete: Callable[..., Array]
    sample: Callable[..., Array]


@cache
def use_of(noise: str, likelihood: str) -> Use:
    """Return the functions for a kind of noise and a way to integrate over it."""
    if noise == "none":
        value = _log_likelihood_of_cells if likelihood == "importance" else _log_likelihood_of_cells_by_ep
        return Use(value, _infer_in_cells, None, _decode_cells, _complete_in_cells, _sample)
    if likelihood == "ep":
        return Use(_log_likelihood_by_ep, _infer_by_ep, _mean_by_ep, _ones, _complete_by_ep, _sample)
    return Use(_log_likelihood, _infer, _mean, _ones, _complete, _sample)


# --- with noise ---


def _chosen(factors: Factors, n_columns: int, by_lattice: Callable[[], Any], by_points: Callable[[], Any]) -> Any:
    """Answer one way or the other, as dimensions, columns and slopes ask for."""
    q = factors.weights.shape[1]
    if likelihood.is_sampled(q, n_columns):
        return by_points()
    if q < max(MOST_LATTICE_NODES):  # in so few dimensions steep columns cost time alone
        return by_lattice()
    return jax.lax.cond(lattice.is_fine(factors), by_lattice, by_points)


def _log_likelihood(params: Params, shared: Factors, batch: Batch) -> LogLikelihood:
    signs = signs_of(batch)

    def by_lattice() -> tuple[Array, Array]:
        found = lattice.integrate(shared, signs)
        return found.log_probability, found.error

    def by_points() -> tuple[Array, Array]:
        at = ep.posterior(shared, signs, PLACING_SDS)
        return likelihood.log_evidence(shared, signs, at, batch.keys)

    value, error = _chosen(shared, signs.shape[1], by_lattice, by_points)
    return LogLikelihood(value, error, jnp.zeros((), signs.dtype))


def _moments(shared: Factors, signs: Float[Array, "rows columns"]) -> tuple[Array, Array]:
    """Compute mean and covariance of each row's posterior."""
    q = shared.weights.shape[1]

    def by_lattice() -> tuple[Array, Array]:
        means = lattice.integrate(shared, signs, lambda y: jnp.concatenate([y, products(y)], 1)).means
        mean = means[:, :q]
        return mean, unpack(means[:, q:] - products(mean), q)

    def by_ep() -> tuple[Array, Array]:
        at = ep.posterior(shared, signs)
        return at.mean, at.covariance

    return _chosen(shared, signs.shape[1], by_lattice, by_ep)


def _mean(params: Params, shared: Factors, batch: Batch) -> Float[Array, "rows latents"]:
    return _moments(shared, signs_of(batch))[0]


def _infer(params: Params, shared: Factors, batch: Batch) -> Posterior:
    signs = signs_of(batch)
    mean, covariance = _moments(shared, signs)
    return Posterior(mean, covariance, ep.mode(shared, signs, mean), jnp.zeros(len(signs), jnp.int32))


def _complete(params: Params, shared: Factors, batch: Batch) -> Float[Array, "rows columns"]:
    signs = signs_of(batch)

    def by_lattice() -> Array:
        return lattice.integrate(shared, signs, lambda y: _ones(shared, y)).means

    def by_points() -> Array:
        if signs.shape[1] < MANY_COLUMNS:
            at = ep.posterior(shared, signs, PLACING_SDS)
            return likelihood.predict(shared, signs, at, batch.keys)
        # posteriors of rows with many observed are so close to Gaussian that few points would only add noise
        at, few = ep.posterior(shared, signs), jnp.sum(jnp.abs(signs), 1) < MANY_COLUMNS
        by_points = likelihood.predict(shared, signs, at, batch.keys, few)
        return jnp.where(few[:, None], by_points, ep.predict(shared, at))

    return _chosen(shared, signs.shape[1], by_lattice, by_points)


def _log_likelihood_by_ep(params: Params, shared: Factors, batch: Batch) -> LogLikelihood:
    value = ep.approximate(shared, signs_of(batch)).log_likelihood
    return LogLikelihood(value, jnp.full_like(value, jnp.nan), jnp.zeros((), value.dtype))


def _infer_by_ep(params: Params, shared: Factors, batch: Batch) -> Posterior:
    signs = signs_of(batch)
    at = ep.posterior(shared, signs)
    return Posterior(at.mean, at.covariance, ep.mode(shared, signs, at.mean), jnp.zeros(len(signs), jnp.int32))


def _mean_by_ep(params: Params, shared: Factors, batch: Batch) -> Float[Array, "rows latents"]:
    return ep.posterior(shared, signs_of(batch)).mean


def _complete_by_ep(params: Params, shared: Factors, batch: Batch) -> Float[Array, "rows columns"]:
    return ep.predict(shared, ep.posterior(shared, signs_of(batch)))


def _ones(of: Params | Factors, y: Float[Array, "points latents"]) -> Float[Array, "points columns"]:
    """Compute P(bit = 1 | y)."""
    return jax.scipy.special.ndtr((of.phi + y @ of.weights.T) / jnp.sqrt(of.psi))


def _sample(params: Params, shared: Factors, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    d, q = params.weights.shape

    def draw(key: Key[Array, ""]) -> Float[Array, " columns"]:
        hidden, own = jax.random.split(key)
        x = params.phi + params.weights @ jax.random.normal(hidden, (q,), params.phi.dtype)
        x = x + jnp.sqrt(params.psi) * jax.random.normal(own, (d,), params.phi.dtype)  # psi is 0 without noise
        return (x > 0).astype(params.phi.dtype)

    return jax.vmap(draw)(keys)


# --- without noise ---


def _after(first: Float[Array, "rows latents"], x: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Return x, but not before `first` is there.

    XLA runs loops that do not depend on each other at the same time, and on a CPU with few threads those with calls of
    LAPACK in them can wait for each other for ever.
    """
    return jnp.where(first[:, :1] == jnp.inf, jnp.nan, x)


def _within(params: Params, shared: Factors, batch: Batch, n_slides: int) -> tuple[Integral, Array, Array]:
    """Compute the integral over each row's cell, a y inside it, and how many bits that gets wrong."""
    signs = signs_of(batch)
    y, violated = hyperplane_cells.find(params.weights, params.phi, signs, batch.key, n_slides)
    at = ep.posterior(shared, _after(y, signs))
    found = integrate(params.weights, params.phi, signs, y, at.mean, at.covariance, batch.keys)
    # EP counts the half-spaces that others make redundant; but in many dimensions it is better than few points,
    # where these are off by more than 0.1 nats
    rough = (found.error > 0.1)[:, None]
    mean = jnp.where(rough, at.mean, found.mean)
    covariance = jnp.where(rough[..., None], at.covariance, found.covariance)
    ones = jnp.where(rough, ep.predict(shared, at), found.ones)
    return found._replace(mean=mean, covariance=covariance, ones=ones), y, violated


def _log_likelihood_of_cells(params: Params, shared: Factors, batch: Batch) -> LogLikelihood:
    integral, _, _ = _within(params, shared, batch, 0)
    return LogLikelihood(integral.log_probability, integral.error, jnp.zeros((), params.phi.dtype))


def _log_likelihood_of_cells_by_ep(params: Params, shared: Factors, batch: Batch) -> LogLikelihood:
    signs = signs_of(batch)
    y, violated = hyperplane_cells.find(params.weights, params.phi, signs, batch.key, 0)
    value, possible = ep.approximate(shared, _after(y, signs)).log_likelihood, violated == 0
    error = jnp.where(possible, jnp.nan, 0.0)
    return LogLikelihood(jnp.where(possible, value, -jnp.inf), error, jnp.zeros((), signs.dtype))


def _infer_in_cells(params: Params, shared: Factors, batch: Batch) -> Posterior:
    integral, y, violated = _within(params, shared, batch, CELL_SLIDES)
    possible = (violated == 0)[:, None]
    at = hyperplane_cells.nearest(params.weights, params.phi, _after(integral.mean, signs_of(batch)), y)
    return Posterior(
        jnp.where(possible, integral.mean, y),
        jnp.where(possible[..., None], integral.covariance, jnp.nan),
        jnp.where(possible, at, y),
        violated.astype(jnp.int32),
    )


def _decode_cells(params: Params, latents: Float[Array, "rows latents"]) -> Float[Array, "rows columns"]:
    return (params.phi + latents @ params.weights.T > 0).astype(latents.dtype)


def _complete_in_cells(params: Params, shared: Factors, batch: Batch) -> Float[Array, "rows columns"]:
    integral, y, violated = _within(params, shared, batch, CELL_SLIDES)
    return jnp.where((violated == 0)[:, None], integral.ones, _decode_cells(params, y))


# --- draws ---


@cache
def draws_of(noise: str, n_samples: int, n_between: int) -> Callable[..., Any]:
    """Make the function that draws from the posterior of each row, by Markov chains."""
    n_forget = max(100, n_samples * n_between)

    def rows_of(params: Any, shared: Any, batch: Any) -> jax.Array:
        signs = signs_of(batch)
        if noise == "unique":
            start = ep.posterior(shared, signs).mean
            return gibbs(shared, signs, start, batch.keys, n_samples, n_between, n_forget)
        y, violated = hyperplane_cells.find(params.weights, params.phi, signs, batch.key, n_slides=0)
        model, keys = (params.weights, params.phi, signs), batch.keys
        y = cell_probability.gibbs(*model, y, keys, n_forget)[0]
        later = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, n_samples)
        drawn = jnp.swapaxes(cell_probability.gibbs(*model, y, later, n_between, n_samples), 0, 1)
        return jnp.where((violated == 0)[:, None, None], drawn, jnp.nan)

    return rows_of
