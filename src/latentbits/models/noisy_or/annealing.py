"""log p(x) where the hidden states are too many: annealed importance sampling, with its standard error (Neal 2001).

For each row, independent chains walk from a distribution q that is known to p(x, S), and the mean of their weights is
an estimate of p(x) without bias, whatever q is and however badly the chains mix.  q is a mixture of components q_c, in
each of which the hidden units are independent, and a chain has a component beside its state,

    p_t(S, c)  ~  q_c(S)^(1 - t)  p(x, S)^t,        a draw of c and a Gibbs sweep at each t;

c is summed out of the weights.  The components come from a pilot: a shorter walk of the same kind, whose q is the prior
with all units independent, and whose chains make some more sweeps.  The mean states of a chain, drawn to those of all
chains, are a component.  The walk has other random numbers than the pilot, so that q is fixed for it.

Measured as the root mean square distance from the exact log p(x), with 16 chains a row, 100 steps, and 30 sweeps of the
pilot (from the prior: 130 steps), in four cases: a network for the shifter problem (32-20-2); the same with doubles of
four units, for a row that is shifted either way; digits (64-14-5, and 64-40-10 against a run of 4000 steps).

    from the prior, p(S) p(x | S)^t, t like k^3     0.38    0.27    0.23    0.58
    q a single component                            0.11    0.59    0.07    0.12
    q as it is                                      0.05    0.22    0.06    0.09

With 25, 100 and 400 steps it is 0.25, 0.05, 0.03 in the first case and 0.29, 0.09, 0.05 in the last; four times the
chains halve it.  With 25 steps few chains carry the estimate, and the effective share is low: its error is too small
then (`core/annealing.py` has what was measured).  The logarithm of the mean is biased, down, by about half the square
of the error.
"""

from __future__ import annotations

from functools import partial
from itertools import accumulate

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int, Key

from latentbits.core.annealing import Annealed, log_mean_weight
from latentbits.core.arrays import Array
from latentbits.models.noisy_or.gibbs import by_blocks, folded, sweep
from latentbits.models.noisy_or.network import Params, log_joint

__all__ = ["annealed_evidence"]


def annealed_evidence(
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    keys: Key[Array, " rows"],
    n_chains: int = 16,
    n_steps: Int[Array, ""] | int = 100,
) -> Annealed:
    """Estimate log p(x) of every row, from its own key: it does not depend on the rows beside it.

    `on`, `off`: 1 where an input is on, and where it is off; neither, where it is missing.  `n_chains`, `n_steps`: for
    every row; the pilot comes on top.  Four chains are the fewest from which an error is known.
    """
    if n_chains < 4:
        raise ValueError(f"n_chains must be at least 4, got {n_chains}: fewer have no error")
    return by_blocks(partial(_estimate, n_chains, jnp.asarray(n_steps)), params, on, off, keys, n_chains=n_chains)


def _estimate(
    n_chains: int,
    n_steps: Int[Array, ""],
    params: Params,
    on: Float[Array, "columns rows"],
    off: Float[Array, "columns rows"],
    keys: Key[Array, " rows"],
) -> Annealed:
    """Make the pilot and the walk of some rows."""
    # sizes; chains lie side by side, those of all rows one after the other
    n = on.shape[1]
    n_units = sum(len(w) for w in params.weights)
    n_components = min(n_chains, 16)
    n_pilot = jnp.maximum(n_steps // 5, 1)
    n_kept = jnp.maximum(n_steps // 10, 1)
    on, off = jnp.tile(on, (1, n_chains)), jnp.tile(off, (1, n_chains))

    def stage(k: Array, at: tuple[Array, Array]) -> tuple[Array, Array]:
        pilot = k == 0
        stage_keys = jax.vmap(lambda key: jax.random.split(jax.random.fold_in(key, k), (n_chains, 2)))(keys)
        log_weight, total = _walk(
            jnp.where(pilot, n_pilot, n_steps), jnp.where(pilot, n_kept, 0), params, on, off, stage_keys, at[0]
        )
        return _components(total, jnp.asarray(n_kept, on.dtype))[:n_components], log_weight

    # the pilot from the prior, then the walk from its components
    prior = jnp.broadcast_to(_prior_odds(params)[None, :, None], (n_components, n_units, n))
    return log_mean_weight(jax.lax.fori_loop(0, 2, stage, (prior, jnp.zeros((n_chains, n), on.dtype)))[1])


def _components(
    total: Float[Array, "units chains rows"], n_kept: Float[Array, ""]
) -> Float[Array, "chains units rows"]:
    """Compute the units' log-odds in a component for each chain of the pilot, from the sum of its `n_kept` states.

    A chain is drawn to the mean of all chains of its row, and that to 1/2.
    """
    n_chains = total.shape[1]
    # that a component has from the other chains of the pilot, beside its own
    doubt, shared = 0.5, 2.0  # on either side, so that q is never certain
    mean = (total.sum(1, keepdims=True) / n_kept + doubt) / (n_chains + 2 * doubt)
    own = (total + shared * mean) / (n_kept + shared)
    return jnp.swapaxes(jnp.log(own) - jnp.log1p(-own), 0, 1)


def _prior_odds(params: Params) -> Float[Array, " units"]:
    """Compute log-odds of every hidden unit before any input is known, its causes taken as independent."""
    means: list[Array] = []
    for layer in reversed(range(1, len(params.biases))):
        quiet = jnp.exp(-params.biases[layer])
        if means:
            quiet = quiet * jnp.prod(1 + means[0][:, None] * jnp.expm1(-params.weights[layer]), 0)
        means.insert(0, 1 - quiet)
    least = 1e-5  # of a unit to be on, or off, before any input is known
    on = jnp.clip(jnp.concatenate(means), least, 1 - least)  # in float32 a unit may be on for sure
    return jnp.log(on) - jnp.log1p(-on)


def _walk(
    n_steps: Int[Array, ""],
    n_kept: Int[Array, ""],
    params: Params,
    on: Float[Array, "columns all_chains"],
    off: Float[Array, "columns all_chains"],
    keys: Key[Array, "rows chains 2"],
    odds: Float[Array, "components units rows"],
) -> tuple[Float[Array, "chains rows"], Float[Array, "units chains rows"]]:
    """Walk from q to p(x, S): log weights of the chains, and the sum of their states over `n_kept` sweeps that follow.

    A chain is a state and the component it belongs to at present, which fades out with q.

    `odds`: log-odds of the units in each component of q.
    """
    n_components, n_units, n = odds.shape
    n_chains = keys.shape[1]
    edges = list(accumulate(len(w) for w in params.weights))[:-1]
    x, observed = on.T, (on + off).T
    log_none = jnp.sum(jax.nn.log_sigmoid(-odds), 1)[:, None]  # of each component, that all units are off
    sweep_keys, component_keys = jnp.moveaxis(keys, 2, 0).swapaxes(1, 2).reshape(2, -1)

    def log_components(states: Float[Array, "units chains rows"]) -> Float[Array, "components chains rows"]:
        # unit after unit: for a sum over units the compiler would lay out the states so that sweeps take twice as long
        none = jnp.broadcast_to(log_none, (n_components, n_chains, n))
        return jax.lax.fori_loop(0, n_units, lambda i, total: total + odds[:, i, None] * states[i], none)

    def field(component: Int[Array, "chains rows"]) -> Float[Array, "units chains rows"]:
        nothing = jnp.zeros((n_units, n_chains, n), odds.dtype)
        return jax.lax.fori_loop(
            0, n_components, lambda c, found: jnp.where(component == c, odds[c][:, None], found), nothing
        )

    def draw(k: Array, logits: Float[Array, "components chains rows"]) -> Int[Array, "chains rows"]:
        u = jax.vmap(lambda key: jax.random.uniform(key, (), odds.dtype))(folded(component_keys, k))
        share = jnp.exp(logits - jnp.max(logits, 0))
        below = jnp.tensordot(jnp.tri(n_components, dtype=odds.dtype), share, 1)  # running sums
        return jnp.sum(u.reshape(n_chains, n) * below[-1] >= below[:-1], 0)

    def power(k: Array) -> Array:
        return jnp.minimum(k / n_steps, 1).astype(odds.dtype)

    def step(k: Array, at: tuple[Array, Array, Array, Array]) -> tuple[Array, Array, Array, Array]:
        states, log_q, log_weight, total = at
        t, later = power(k), power(k + 1)
        tilt = (1 - t) * field(draw(k, (1 - t) * log_q))
        moved, _, _ = sweep(
            params,
            on,
            off,
            jnp.split(states.reshape(n_units, -1), edges),
            folded(sweep_keys, k),
            coldness=t,
            field=jnp.split(tilt.reshape(n_units, -1), edges),
        )
        states = jnp.concatenate(moved).reshape(states.shape)
        log_p = log_joint(params, x, observed, [s.T for s in moved]).reshape(n_chains, n)
        log_q = log_components(states)
        faded, fading = (jax.nn.logsumexp((1 - s) * log_q, 0) for s in (later, t))
        log_weight = log_weight + (later - t) * log_p + faded - fading
        return states, log_q, log_weight, total + (k >= n_steps) * states

    # at t = 0 a sweep draws from a component, whatever the states are; all components are alike before the first
    states = jnp.zeros((n_units, n_chains, n), odds.dtype)
    start = states, jnp.zeros((n_components, n_chains, n), odds.dtype), jnp.zeros((n_chains, n), odds.dtype), states
    return jax.lax.fori_loop(0, n_steps + n_kept, step, start)[2:]
