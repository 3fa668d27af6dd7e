"""Claims of section 3 about Gibbs sampling, measured of a lines network, where posteriors can be summed."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core.tree import double
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.models.noisy_or.gibbs import folded, sweep
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.sampling import states_on
from latentbits.papers.lewicki_sejnowski_1996.measures import Images

__all__ = ["of_chains"]

STOP, N_SWEEPS = 0.05, 15  # the paper's
N_CHAINS = 32  # of each image


class Chains(NamedTuple):
    """Ends of chains, and which sweep was the first that left all alone: the whole network, its second layer."""

    states: tuple[jax.Array, ...]
    sweeps: jax.Array
    lower_sweeps: jax.Array


@jax.jit
def _chains(params: Params, on: jax.Array, keys: jax.Array) -> Chains:
    """Run the paper's chains: a row rests after a sweep in which no unit changes with a probability of 0.05."""

    def body(k: jax.Array, chains: Chains) -> Chains:
        states, chances, _ = sweep(params, on, 1 - on, chains.states, folded(keys, k))
        flips = [jnp.abs(p - s).max(0) for p, s in zip(chances, chains.states, strict=True)]
        moves, lower_moves = chains.sweeps > k, chains.lower_sweeps > k
        rests = jnp.stack(flips).max(0) < STOP
        return Chains(
            tuple(jnp.where(moves, new, old) for new, old in zip(states, chains.states, strict=True)),
            jnp.where(moves & rests, k + 1, chains.sweeps),
            jnp.where(lower_moves & (flips[0] < STOP), k + 1, chains.lower_sweeps),
        )

    most = jnp.full(len(keys), N_SWEEPS)
    return jax.lax.fori_loop(0, N_SWEEPS, body, Chains(states_on(params, len(keys)), most, most))


def of_chains(model: NoisyOrNetwork, table: Images) -> dict[str, float]:
    """Run chains of every image, as long as those that the paper learns from; average over images as they come up.

    Returns `sweeps`, `lower_sweeps`: until no unit of the network, or of its second layer, changes with 0.05, or
    15. `clear_sweeps`: the latter of images with little ambiguity, of which no second-layer unit has an exact
    probability between 0.05 and 0.95; 15 if there are none. `chain_error`, `lower_error`: mean square of how far P(unit
    is on), as the chains' states have it, is from the exact one, of all units, or those of the second layer; the
    variance of so few chains is taken off. `feedforward`: how often the sum over children in (7) is larger than what
    comes from above, of second-layer units.
    """
    X, n = np.repeat(table.X, N_CHAINS, axis=0).astype(float), len(table.X)
    with double():
        params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model.params_)
        found = _chains(params, jnp.asarray(X.T), jax.random.split(jax.random.key(0), len(X)))
    states = [np.asarray(s).T for s in found.states]
    mean = np.concatenate(states, axis=1).reshape(n, N_CHAINS, -1).mean(axis=1)
    exact, n_lower = model.transform(table.X), states[0].shape[1]
    apart = (mean - exact) ** 2 - mean * (1 - mean) / (N_CHAINS - 1)
    dominates = _feedforward_dominates(model.weights_, model.biases_, X, states).reshape(n, N_CHAINS, -1)

    clear = table.chance * (np.minimum(exact, 1 - exact)[:, :n_lower] < STOP).all(axis=1)

    def averaged(values: Any, chance: np.ndarray = table.chance) -> float:
        return float(chance @ np.asarray(values).reshape(n, -1).mean(axis=1) / chance.sum())

    return {
        "sweeps": averaged(found.sweeps),
        "lower_sweeps": averaged(found.lower_sweeps),
        "clear_sweeps": averaged(found.lower_sweeps, clear) if clear.any() else float(N_SWEEPS),
        "chain_error": averaged(apart),
        "lower_error": averaged(apart[:, :n_lower]),
        "feedforward": averaged(dominates),
    }


def _feedforward_dominates(
    weights: list[np.ndarray], biases: list[np.ndarray], X: np.ndarray, states: list[np.ndarray]
) -> np.ndarray:
    """Judge for each second-layer unit whether the children's part of the log-odds is larger than that from above."""
    u = biases[1] + states[1] @ weights[1]
    from_above = np.abs(np.log(np.expm1(u)))  # h(u) / (1 - h(u)) = exp(u) - 1
    below = biases[0] + states[0] @ weights[0]
    larger = []
    for unit, own in enumerate(weights[0]):
        without = np.maximum(below - states[0][:, [unit]] * own, biases[0])  # but for rounding
        gain = np.where(X > 0, np.log(np.expm1(-without - own) / np.expm1(-without)), -own).sum(axis=1)
        larger.append(np.abs(gain) > from_above[:, unit])
    return np.stack(larger, axis=1)
