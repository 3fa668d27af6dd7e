"""Block Gibbs chains of a combination machine, all of them at once.

The graph is bipartite (Figure 2.1): given the inputs the hidden units are independent, with log-odds w_i . x + theta_i
(2.4), and given the hidden units the inputs are, with fields b + w(h) (section 2.3).  A sweep draws the one side, then
the other, for all chains together: two matrix products.  Inputs that are held fixed give the conditional distribution
of the rest.

Chains of a machine with modes far apart do not leave them.  `tempered` chains do: a few more walk in the machines
between a product distribution and the machine, at t = 0, 1 / K, ..., (K - 1) / K,

    p_t(x)  ~  exp(((1 - t) a + t b) . x)  prod_i (1 + exp(t (w_i . x + theta_i))),

and neighbours trade places so that each p_t is left as it is.  Measured in persistent contrastive divergence (16 units,
3000 updates, the averaged machine, exact log-likelihood per training row, 3 seeds, the same number of chains in all,
500): 300 chains with 4 levels of 50 reach -10.43 (standard error 0.01) on twelve prototypes with noise, where 500 plain
chains reach -11.79 (0.45); on the plants data it is -13.77 (0.06) and -13.72 (0.01).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array
from latentbits.models.combination_machine.machine import Machine, Units, hidden_field, input_field, softplus

__all__ = ["draw_hidden", "gibbs", "gibbs_moments", "sweep", "tempered"]


def draw_hidden(key: Key[Array, ""], field: Float[Array, "*rows hidden"]) -> Float[Array, "*rows hidden"]:
    """Draw hidden units given their log-odds ``w_i . x + theta_i``."""
    u = jax.random.uniform(key, field.shape, field.dtype)
    return (u < jax.nn.sigmoid(field)).astype(field.dtype)


def sweep(
    units: Units,
    machine: Machine,
    key: Key[Array, ""],
    x: Float[Array, "chains inputs"],
    clamped: Float[Array, "chains inputs"] | None = None,
) -> tuple[Float[Array, "chains inputs"], Float[Array, "chains hidden"]]:
    """Take one step of every chain: h given x, then x given h, the clamped inputs as they were."""
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
    """Walk every chain for `n_steps` sweeps, and return its inputs.

    `x`: where the chains stand.  `n_steps`: number of sweeps; may be traced.  `clamped`: 1 where an input is held
    fixed, 0 where it is drawn; None draws all.
    """

    def step(i: Array, x: Array) -> Array:
        return sweep(units, machine, jax.random.fold_in(key, i), x, clamped)[0]

    return jax.lax.fori_loop(0, n_steps, step, x)


def gibbs_moments(
    machine: Machine, x: Float[Array, "chains inputs"], weight: Float[Array, " chains"] | None = None
) -> Machine:
    """Average E[h_i | x] x_j, E[h_i | x] and x_j over the chains: the sums over states in 3.5 and 3.6, sampled.

    The hidden units are summed out in closed form (2.4), so only the inputs are noisy.  It is as well the first sum
    in 3.5 and 3.6, that over the data, divided by the number of rows.

    `weight`: of each chain, if they do not count the same; need not add up to 1.
    """
    share = jnp.full_like(x[:, 0], 1 / x.shape[0]) if weight is None else weight / jnp.sum(weight)
    active = jax.nn.sigmoid(hidden_field(machine, x)) * share[:, None]
    return Machine(active.T @ x, jnp.sum(active, 0), share @ x)


def tempered(
    units: Units,
    machine: Machine,
    field: Float[Array, " inputs"],
    key: Key[Array, ""],
    x: Float[Array, "chains inputs"],
    warm: Float[Array, "levels few inputs"],
    n_steps: int | Int[Array, ""],
) -> tuple[Float[Array, "chains inputs"], Float[Array, "levels few inputs"]]:
    """Walk chains of the machine and of warmer ones for `n_steps` sweeps, each followed by trades between neighbours.

    `field`: the fields a of the product distribution at t = 0.  `x`: chains of the machine.  `warm`: chains at t = 0, 1
    / levels, ...; no more of each than there are in x.
    """
    levels, few, d = warm.shape
    t = jnp.arange(levels + 1, dtype=x.dtype) / levels
    of_chain = jnp.concatenate([jnp.repeat(t[:-1], few), jnp.ones_like(x[:, 0])])[:, None]

    def colder(x: Array, k: int) -> Array:
        """Compute log p_t of x at level k + 1, less that at level k."""
        drive = hidden_field(machine, x)
        own = (x @ (machine.input_bias - field)) / levels
        return own + jnp.sum(softplus(t[k + 1] * drive) - softplus(t[k] * drive), -1)

    def trade(key: Array, low: Array, high: Array, k: int) -> tuple[Array, Array]:
        gain = colder(low, k) - colder(high, k)
        agreed = (jnp.log(jax.random.uniform(key, gain.shape, gain.dtype)) < gain)[:, None]
        return jnp.where(agreed, high, low), jnp.where(agreed, low, high)

    def step(i: Array, state: tuple[Array, Array]) -> tuple[Array, Array]:
        x, warm = state
        hidden_key, input_key, place_key, trade_key = jax.random.split(jax.random.fold_in(key, i), 4)
        everything = jnp.concatenate([warm.reshape(-1, d), x])
        h = draw_hidden(hidden_key, of_chain * hidden_field(machine, everything))
        everything = units.draw(input_key, (1 - of_chain) * field + of_chain * input_field(machine, h))
        # the machine's chains take turns in trading
        x = jnp.roll(everything[levels * few :], jax.random.randint(place_key, (), 0, x.shape[0]), axis=0)
        ladder = [*everything[: levels * few].reshape(levels, few, d), x[:few]]
        for k, trade_here in enumerate(jax.random.split(trade_key, levels)):
            ladder[k], ladder[k + 1] = trade(trade_here, ladder[k], ladder[k + 1], k)
        return jnp.concatenate([ladder[-1], x[few:]]), jnp.stack(ladder[:-1])

    return jax.lax.fori_loop(0, n_steps, step, (x, warm))
