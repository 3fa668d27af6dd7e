"""What section 3 says of Gibbs sampling, measured of a lines network, where posteriors can be summed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core.tree import double
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.models.noisy_or.gibbs import Chains, gibbs
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.sampling import states_on
from latentbits.papers.lewicki_sejnowski_1996.measures import Images

__all__ = ["of_chains"]

STOP, N_SWEEPS = 0.05, 15  # the paper's
N_CHAINS = 32  # of each image


@jax.jit
def _chains(params: Params, on: jax.Array, keys: jax.Array) -> Chains:
    begin = states_on(params, len(keys))
    return gibbs(params, on, 1 - on, begin, keys, N_SWEEPS, stop_below=STOP)


def of_chains(model: NoisyOrNetwork, table: Images) -> dict[str, float]:
    """Chains of every image, as long as those that the paper learns from; averages over images as they come up.

    Returns
    -------
    dict
        `sweeps`: until no unit changes with 0.05, or 15.
        `chain_error`: mean square of how far P(unit is on), as the chains' states have it, is from the exact one; the
        variance of so few chains is taken off.
        `feedforward`: how often the sum over children in (7) is larger than what comes from above, of second-layer
        units.
    """
    X, n = np.repeat(table.X, N_CHAINS, axis=0).astype(float), len(table.X)
    with double():
        params = jax.tree.map(lambda x: jnp.asarray(x, jnp.float64), model.params_)
        found = _chains(params, jnp.asarray(X.T), jax.random.split(jax.random.key(0), len(X)))
    states = [np.asarray(s).T for s in found.states]
    mean = np.concatenate(states, axis=1).reshape(n, N_CHAINS, -1).mean(axis=1)
    apart = (mean - model.transform(table.X)) ** 2 - mean * (1 - mean) / (N_CHAINS - 1)
    sweeps = np.asarray(found.sweeps).reshape(n, N_CHAINS)
    dominates = _feedforward_dominates(model.weights_, model.biases_, X, states).reshape(n, N_CHAINS, -1)
    return {
        "sweeps": float(table.chance @ sweeps.mean(axis=1)),
        "chain_error": float(table.chance @ apart.mean(axis=1)),
        "feedforward": float(table.chance @ dominates.mean(axis=(1, 2))),
    }


def _feedforward_dominates(
    weights: list[np.ndarray], biases: list[np.ndarray], X: np.ndarray, states: list[np.ndarray]
) -> np.ndarray:
    """Of the log-odds of each second-layer unit, whether the part of its children is larger than that from above."""
    u = biases[1] + states[1] @ weights[1]
    from_above = np.abs(np.log(np.expm1(u)))  # h(u) / (1 - h(u)) = exp(u) - 1
    below = biases[0] + states[0] @ weights[0]
    larger = []
    for unit, own in enumerate(weights[0]):
        without = np.maximum(below - states[0][:, [unit]] * own, biases[0])  # but for rounding
        gain = np.where(X > 0, np.log(np.expm1(-without - own) / np.expm1(-without)), -own).sum(axis=1)
        larger.append(np.abs(gain) > from_above[:, unit])
    return np.stack(larger, axis=1)
