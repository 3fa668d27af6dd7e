"""Mixtures of product distributions, from which annealed chains begin.

The sum over their states is known, they can be drawn from, and a few components have the modes of a trained machine.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.models.combination_machine.machine import Units
from latentbits.models.combination_machine.tuning import BASE_COMPONENTS

__all__ = ["Base", "fit_base", "log_components"]


class Base(Module):
    """A mixture of product distributions: shares s_k as logs, and the fields on the inputs of each component."""

    log_share: Float[Array, " components"]
    fields: Float[Array, "components inputs"]


def fit_base(
    units: Units,
    key: Key[Array, ""],
    x: Float[Array, "rows inputs"],
    weight: Float[Array, " rows"] | None = None,
    n_components: int = BASE_COMPONENTS,
    n_iter: int = 15,
) -> Base:
    """Fit a mixture to rows by EM from random rows, a little wider than they are, so that weights stay bounded.

    One row's worth of the overall mean is added to every component, and two of a fair coin to that mean.
    """
    share = jnp.ones_like(x[:, 0]) if weight is None else weight / jnp.max(weight)
    share = share * jnp.sum(share) / jnp.sum(share**2)  # adds up to the effective number of rows
    n_rows = jnp.sum(share)
    mean = share @ x / (n_rows + 2)
    n_components = min(n_components, x.shape[0])
    chosen = _spread_rows(key, x, share, n_components)
    log_share = jnp.full_like(x, -jnp.log(n_components), shape=(n_components,))

    def step(_: Array, base: Base) -> Base:
        r = jax.nn.softmax(log_components(units, base, x), axis=1) * share[:, None]
        members = jnp.sum(r, 0)
        means = (r.T @ x + mean) / (members[:, None] + 1)
        return Base(jnp.log((members + 1) / (n_rows + n_components)), _field(units, means))

    return jax.lax.fori_loop(0, n_iter, step, Base(log_share, _field(units, 0.5 * (x[chosen] + mean))))


def log_components(units: Units, base: Base, x: Float[Array, "rows inputs"]) -> Float[Array, "rows components"]:
    """Compute ``log s_k q_k(x)``, without the base measure."""
    return x @ base.fields.T + (base.log_share - jnp.sum(units.log_sum(base.fields), 1))


def _spread_rows(
    key: Key[Array, ""], x: Float[Array, "rows inputs"], share: Float[Array, " rows"], n: int
) -> Int[Array, " chosen"]:
    """Draw numbers of n rows, each by the squared distance from the nearest one so far: small modes are not missed."""
    size = jnp.sum(x**2, 1)

    def choose(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        chosen, distance = state
        noise = jax.random.gumbel(jax.random.fold_in(key, i), share.shape, share.dtype)
        new = jnp.argmax(jnp.log(share * jnp.where(jnp.isinf(distance), 1, distance)) + noise).astype(jnp.int32)
        to_new = jnp.maximum(size + size[new] - 2 * x @ x[new], 0)
        return chosen.at[i].set(new), jnp.minimum(distance, to_new)

    return jax.lax.fori_loop(0, n, choose, (jnp.zeros(n, jnp.int32), jnp.full_like(share, jnp.inf)))[0]


def _field(units: Units, mean: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Find the field under which an input has this mean."""
    return jnp.arctanh(mean) if units.name == "binary" else mean
