"""Mean-field sweeps: where to start a Gibbs chain when causes are ambiguous (the paper's discussion).

Hidden units are taken as independent with means m.  Then E[exp(-u_j)] = exp(-b_j) prod_i (1 - m_i f_ij) is a product,
and with log(1 - E[exp(-u)]) in place of E[log(1 - exp(-u))], the log-odds of (7) are those of `gibbs.py` with
1 - m_i f_ij for q_ij^S_i: a deterministic sweep of the same form.  Chance then has no part in which of two explanations
a row begins with; both begin half on, and the evidence decides.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from latentbits.core.special import log1mexp
from latentbits.models.noisy_or.network import Params

__all__ = ["draw_states", "mean_field"]

N_SWEEPS = 5
CERTAIN = 1e-3  # means stay this far from 0 and 1


def mean_field(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    means: Sequence[Float[Array, "_ rows"]],
    n_sweeps: int = N_SWEEPS,
) -> tuple[Float[Array, "_ rows"], ...]:
    """Means of the hidden units after a few sweeps, the lowest layer first.

    Parameters
    ----------
    on, off
        1 where an input is on, and where it is off; neither, where it is missing.
    means
        To begin with, (units, rows).
    """

    def sweep(_: Array, means: tuple[Array, ...]) -> tuple[Array, ...]:
        now = list(means)
        for layer in range(len(now)):
            below_on, below_off = (on, off) if layer == 0 else (now[layer - 1], 1 - now[layer - 1])
            u = params.biases[layer + 1][:, None]
            u = u + params.weights[layer + 1].T @ now[layer + 1] if layer + 1 < len(now) else u
            feedback = jnp.broadcast_to(log1mexp(u) + u, now[layer].shape)
            now[layer] = _layer(params.weights[layer], params.biases[layer], feedback, below_on, below_off, now[layer])
        return tuple(now)

    return jax.lax.fori_loop(0, n_sweeps, sweep, tuple(jnp.clip(m, CERTAIN, 1 - CERTAIN) for m in means))


def _layer(
    weights: Float[Array, "units children"],
    bias: Float[Array, " children"],
    feedback: Float[Array, "units rows"],
    on: Float[Array, "children rows"],
    off: Float[Array, "children rows"],
    means: Float[Array, "units rows"],
) -> Float[Array, "units rows"]:
    f = -jnp.expm1(-weights)
    against = weights @ off

    def factor(i: Array, m: Array) -> Array:
        return jnp.log1p(-f[i][:, None] * m)

    total = jax.lax.fori_loop(
        0, len(weights), lambda i, total: total - factor(i, means[i]), jnp.broadcast_to(bias[:, None], on.shape)
    )

    def unit(i: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        total, means = at
        without = jnp.maximum(total + factor(i, means[i]), bias[:, None])
        odds = feedback[i] - against[i] + jnp.sum(on * (log1mexp(without + weights[i][:, None]) - log1mexp(without)), 0)
        new = jnp.clip(jax.nn.sigmoid(odds), CERTAIN, 1 - CERTAIN)
        return without - factor(i, new), means.at[i].set(new)

    return jax.lax.fori_loop(0, len(weights), unit, (total, means))[1]


def draw_states(keys: Key[Array, " rows"], means: Sequence[Float[Array, "_ rows"]]) -> tuple[Array, ...]:
    """States of units that are on with these probabilities."""
    every = jnp.concatenate(list(means))
    u = jax.vmap(lambda key: jax.random.uniform(key, (len(every),), every.dtype))(keys).T
    sizes = [len(m) for m in means]
    drawn = (u < every).astype(every.dtype)
    return tuple(jnp.split(drawn, [sum(sizes[: k + 1]) for k in range(len(sizes) - 1)]))
