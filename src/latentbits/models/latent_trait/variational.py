"""Section 4 of the paper: the variational posterior of each row, its bound, and the sums for the M-step.

For fixed parameters three things raise the same function of (posterior, xi, parameters) in turn, so none of them can
lower it: xi from the posterior (eq. 8), the posterior from xi (6, 7), the parameters from both (11).  An E-step takes
the first two from the row's last posterior, once unless more rounds are asked for; a cold start takes them to
convergence.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.gaussians import Gaussian, from_precision, moments
from latentbits.core.packed_symmetric import pairs
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import column_kinds
from latentbits.models.latent_trait.column_kinds import Columns, Params, Rows, Stats

__all__ = ["converge", "improve", "prior", "stats_of"]


def prior(n_rows: int, q: int, dtype: jnp.dtype) -> Gaussian:
    """Make N(0, I) for each row."""
    return Gaussian(jnp.zeros((n_rows, q), dtype), jnp.broadcast_to(jnp.eye(q, dtype=dtype), (n_rows, q, q)))


def improve(
    columns: Columns, params: Params, rows: Rows, posterior: Gaussian, n_rounds: int = 1
) -> tuple[Gaussian, Float[Array, " rows"], list[Array]]:
    """Take xi by eq. 8, then the posterior by (6) and (7), in rounds; log P~(t) of eq. 4, and where (5) touches."""
    if n_rounds > 1:  # the last round is apart, since it alone gives more than a posterior
        posterior = jax.lax.fori_loop(
            0, n_rounds - 1, lambda _, last: improve(columns, params, rows, last)[0], posterior
        )
    q = params.weights.shape[1]
    precision, linear, constant, contact = column_kinds.bound(columns, params, rows, posterior)
    j, k = pairs(q)
    posterior, log_integral = from_precision(precision + jnp.asarray(j == k, precision.dtype), linear)
    return posterior, constant + log_integral, contact


def converge(
    columns: Columns,
    params: Params,
    rows: Rows,
    most: int = 200,  # where bits are near-separable convergence is slow
    tolerance: float = 1e-3,
) -> Gaussian:
    """Iterate (8) and (6, 7) from a cold start for the posterior of each row, until no mean moves by `tolerance`.

    The tolerance is in units of the prior's standard deviation.
    """
    n, q = rows.bits.shape[0], params.weights.shape[1]
    start = prior(n, q, params.weights.dtype)

    def body(carry: tuple[Array, Array, Gaussian]) -> tuple[Array, Array, Gaussian]:
        step, _, posterior = carry
        new = improve(columns, params, rows, posterior)[0]
        moved = jnp.max(jnp.abs(new.mean - posterior.mean)) + jnp.max(jnp.abs(new.scale - posterior.scale))
        return step + 1, moved, new

    def going(carry: tuple[Array, Array, Gaussian]) -> Array:
        step, moved, _ = carry
        return (step < most) & (moved > tolerance)

    first = (jnp.asarray(0), jnp.asarray(jnp.inf, params.weights.dtype), start)
    return jax.lax.while_loop(going, body, first)[2]


def stats_of(
    columns: Columns,
    params: Params,
    rows: Rows,
    posterior: Gaussian,
    bound: Float[Array, " rows"],
    contact: list[Array],
    weight: Float[Array, " rows"],
) -> Stats:
    """Sum over rows for eq. 11, with <x^ x^'> of eq. 12."""
    q = params.weights.shape[1]
    second = moments(posterior.mean, posterior.covariance)
    total = weight @ second
    j, k = pairs(q + 1)
    return Stats(
        weight.sum(),
        sum_rows(weight, bound),
        total[(k == q) & (j < q)],
        total[k < q],
        *column_kinds.bound_stats(columns, params, rows, contact, second, weight),
    )
