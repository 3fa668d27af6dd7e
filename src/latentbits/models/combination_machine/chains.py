"""Block Gibbs chains of a combination machine, all of them at once.

The graph is bipartite (Figure 2.1): given the inputs the hidden units are independent, with log-odds w_i . x + theta_i
(2.4), and given the hidden units the inputs are, with fields b + w(h) (section 2.3).  A sweep draws the one side, then
the other, for all chains together: two matrix products.  Inputs that are held fixed give the conditional distribution
of the rest.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from latentbits.models.combination_machine.machine import Machine, Units, hidden_field, input_field

__all__ = ["draw_hidden", "gibbs", "gibbs_moments", "sweep"]


def draw_hidden(key: Key[Array, ""], field: Float[Array, "*rows hidden"]) -> Float[Array, "*rows hidden"]:
    """Hidden units given their log-odds ``w_i . x + theta_i``."""
    u = jax.random.uniform(key, field.shape, field.dtype)
    return (u < jax.nn.sigmoid(field)).astype(field.dtype)


def sweep(
    units: Units,
    machine: Machine,
    key: Key[Array, ""],
    x: Float[Array, "chains inputs"],
    clamped: Float[Array, "chains inputs"] | None = None,
) -> tuple[Float[Array, "chains inputs"], Float[Array, "chains hidden"]]:
    """One step of every chain: h given x, then x given h, the clamped inputs as they were."""
    hidden_key, input_key = jax.random.split(key)
    h = draw_hidden(hidden_key, hidden_field(machine, x))
    drawn = units.draw(input_key, input_field(machine, h))
    return (drawn if clamped is None else jnp.where(clamped > 0, x, drawn)), h


def gibbs(
    units: Units,
    machine: Machine,
    key: Key[Array, ""],
    x: Float[Array, "chains inputs"],
    n_steps: int | Int[Array, ""],
    clamped: Float[Array, "chains inputs"] | None = None,
) -> Float[Array, "chains inputs"]:
    """Inputs of every chain after `n_steps` sweeps.

    Parameters
    ----------
    x
        Where the chains stand.
    n_steps
        Number of sweeps; may be traced.
    clamped
        1 where an input is held fixed, 0 where it is drawn; None draws all.
    """

    def step(i: Array, x: Array) -> Array:
        return sweep(units, machine, jax.random.fold_in(key, i), x, clamped)[0]

    return jax.lax.fori_loop(0, n_steps, step, x)


def gibbs_moments(
    machine: Machine, x: Float[Array, "chains inputs"], weight: Float[Array, " chains"] | None = None
) -> Machine:
    """Means over the chains of E[h_i | x] x_j, E[h_i | x] and x_j: the sums over states in 3.5 and 3.6, sampled.

    The hidden units are summed out in closed form (2.4), so only the inputs are noisy.  It is as well the first sum
    in 3.5 and 3.6, that over the data, divided by the number of rows.

    Parameters
    ----------
    weight
        Of each chain, if they do not count the same; need not add up to 1.
    """
    share = jnp.full_like(x[:, 0], 1 / x.shape[0]) if weight is None else weight / jnp.sum(weight)
    active = jax.nn.sigmoid(hidden_field(machine, x)) * share[:, None]
    return Machine(active.T @ x, jnp.sum(active, 0), share @ x)
