"""log p(x) where the hidden states are too many: annealed importance sampling, with its standard error (Neal 2001).

For each row, independent chains walk from a distribution q that is known to p(x, S), through

    p_t(S)  ~  q(S)^(1 - t)  p(x, S)^t,        one Gibbs sweep at each t,

and the mean of their weights is an estimate of p(x) without bias, whatever q is and however badly the chains mix.

q makes the hidden units independent of each other, each on with a probability of its own in every row.  It comes from a
pilot, a walk of the same kind, but shorter, whose q is the prior, and whose chains are then averaged over some more
sweeps.  The walk has other random numbers than the pilot, so that for the walk q is fixed.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from latentbits.models.noisy_or.gibbs import by_blocks, sweep
from latentbits.models.noisy_or.network import Params, log_joint

__all__ = ["Annealed", "annealed_evidence"]

N_CHAINS, N_STEPS = 16, 100
PILOT, KEPT = 5, 10  # the pilot has one sweep to the posterior for so many steps of the walk, and one there
DOUBT = 0.5  # chains of the pilot added on either side, so that q is never certain


class Annealed(eqx.Module):
    """An estimate on the log scale, of each row.

    Attributes
    ----------
    value
        Log of the mean weight.
    error
        Its standard error.
    effective
        Effective number of chains, ``(sum w)^2 / sum w^2``, as a share of all: near 0, few chains carry the estimate,
        and neither value nor error is to be trusted.
    """

    value: Float[Array, " rows"]
    error: Float[Array, " rows"]
    effective: Float[Array, " rows"]


def annealed_evidence(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    keys: Key[Array, " rows"],
    n_chains: int = N_CHAINS,
    n_steps: Int[Array, ""] | int = N_STEPS,
) -> Annealed:
    """log p(x) of every row, from its own key: it does not depend on the rows beside it.

    Parameters
    ----------
    on, off
        1 where an input is on, and where it is off; neither, where it is missing.
    n_chains, n_steps
        Of every row; the pilot comes on top.
    """
    n = on.shape[1]
    on, off = jnp.tile(on, (1, n_chains)), jnp.tile(off, (1, n_chains))
    n_steps = jnp.asarray(n_steps)
    n_pilot, n_kept = (jnp.maximum(n_steps // share, 1) for share in (PILOT, KEPT))

    def stage(k: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        odds, _ = at
        stage_keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, k), n_chains))(keys).T.reshape(-1)
        pilot = k == 0
        walk = partial(_walk, jnp.where(pilot, n_pilot, n_steps), jnp.where(pilot, n_kept, 0))
        log_weight, means = by_blocks(walk, params, on, off, stage_keys, jnp.tile(odds, (1, n_chains)))
        total = means.reshape(-1, n_chains, n).sum(1)
        return jnp.log(total + DOUBT) - jnp.log(n_chains - total + DOUBT), log_weight.reshape(n_chains, n)

    prior = _prior_odds(params)
    start = jnp.broadcast_to(prior[:, None], (len(prior), n)), jnp.zeros((n_chains, n), on.dtype)
    return _summary(jax.lax.fori_loop(0, 2, stage, start)[1])


def _prior_odds(params: Params) -> Float[Array, " units"]:
    """Log-odds of every hidden unit before any input is known, its causes taken as independent."""
    means: list[Array] = []
    for layer in reversed(range(1, len(params.biases))):
        quiet = jnp.exp(-params.biases[layer])
        if means:
            quiet = quiet * jnp.prod(1 + means[0][:, None] * jnp.expm1(-params.weights[layer]), 0)
        means.insert(0, 1 - quiet)
    on = jnp.concatenate(means)
    return jnp.log(on) - jnp.log1p(-on)


def _walk(
    n_steps: Int[Array, ""],
    n_kept: Int[Array, ""],
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    keys: Key[Array, " rows"],
    odds: Float[Array, "units rows"],
) -> tuple[Float[Array, " rows"], Float[Array, "units rows"]]:
    """Log weight of a chain from q, whose log-odds are given, to p(x, S); its mean state in the sweeps that follow."""
    edges = list(accumulate(len(w) for w in params.weights))[:-1]
    x, observed = on.T, (on + off).T
    log_none = jnp.sum(jax.nn.log_sigmoid(-odds), 0)  # of q, that all units are off
    start_keys = _of_step(keys, n_steps + n_kept)
    uniform = jax.vmap(lambda key: jax.random.uniform(key, odds.shape[:1], odds.dtype))(start_keys).T

    def power(k: Array) -> Array:
        return jnp.minimum(k / n_steps, 1).astype(odds.dtype)

    def step(k: Array, at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        states, log_weight, total = at
        layers = jnp.split(states, edges)
        t, later = power(k), power(k + 1)
        log_q = log_none + jnp.sum(odds * states, 0)
        log_p = log_joint(params, x, observed, [s.T for s in layers])
        field = jnp.split((1 - later) * odds, edges)
        moved, _ = sweep(params, on, off, layers, _of_step(keys, k), coldness=later, field=field)
        states = jnp.concatenate(moved)
        return states, log_weight + (later - t) * (log_p - log_q), total + (k >= n_steps) * states

    start = (uniform < jax.nn.sigmoid(odds)).astype(odds.dtype), jnp.zeros_like(log_none), jnp.zeros_like(odds)
    _, log_weight, total = jax.lax.fori_loop(0, n_steps + n_kept, step, start)
    return log_weight, total / jnp.maximum(n_kept, 1)


def _of_step(keys: Key[Array, " rows"], k: Array) -> Key[Array, " rows"]:
    return jax.vmap(lambda key: jax.random.fold_in(key, k))(keys)


def _summary(log_weight: Float[Array, "chains rows"]) -> Annealed:
    """Log of the mean weight, with an error that the heaviest chain can not hide in.

    To the variance of the mean (delta method) the square of what the heaviest chain has above its share is added: a
    weight of that size was seen about once, and might as well have been seen never or twice.
    """
    n = log_weight.shape[0]
    top = jnp.max(log_weight, 0)
    w = jnp.exp(log_weight - top)  # the heaviest is 1
    total = jnp.sum(w, 0)
    relative = n * w / total
    variance = jnp.sum((relative - 1) ** 2, 0) / (n * max(n - 1, 1)) + (1 / total - 1 / n) ** 2
    return Annealed(top + jnp.log(total / n), jnp.sqrt(variance), 1 / jnp.mean(relative**2, 0))
