"""The network: binary units in layers, each an OR of its noisy causes (Lewicki & Sejnowski 1996, section 1).

Layer 0 are the inputs.  Unit j of layer l has the causal input (2)

    u_j = b_j + sum_i S_i w_ij        (i runs over the layer above; the top layer has b_j alone)

and is on with probability h(u_j) = 1 - exp(-u_j).  The bias b_j is a cause that is always on, so that u_j > 0.
The joint probability (1) is the product over all units of all layers.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Float, Key

from latentbits.core.arrays import Array
from latentbits.core.module import Module
from latentbits.core.special import log1mexp

__all__ = ["Params", "causal_input", "log_joint", "log_noisy_or", "sample_layers"]


class Params(Module):
    """Weights from each layer to the one below it, bottom first; biases of each layer, the inputs first."""

    weights: tuple[Float[Array, "_ _"], ...]
    biases: tuple[Float[Array, " _"], ...]


def causal_input(params: Params, layer: int, above: Float[Array, "rows _"] | None) -> Float[Array, "*rows _"]:
    """Compute u of the units of a layer (2), given the states of the layer above (None for the top)."""
    bias = params.biases[layer]
    return bias if above is None else bias + above @ params.weights[layer]


def log_noisy_or(u: Float[Array, "*shape"], on: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute log h(u; a): of 1 - exp(-u) for a unit that is on, of exp(-u) for one that is off."""
    return jnp.where(on > 0, log1mexp(u), -u)


def log_joint(
    params: Params,
    x: Float[Array, "rows columns"],
    observed: Float[Array, "rows columns"] | None,
    states: Sequence[Float[Array, "rows _"]],
) -> Float[Array, " rows"]:
    """Compute log of (1): of inputs and hidden states together; inputs that were not observed are left out.

    `states`: hidden layers, bottom first.
    """
    total = jnp.zeros(x.shape[0], x.dtype)
    for layer, on in enumerate([x, *states]):
        above = states[layer] if layer < len(states) else None
        terms = log_noisy_or(jnp.broadcast_to(causal_input(params, layer, above), on.shape), on)
        if layer == 0 and observed is not None:
            terms = terms * observed
        total = total + terms.sum(1)
    return total


def sample_layers(params: Params, key: Key[Array, ""]) -> list[Float[Array, " _"]]:
    """Draw one state of the whole network, from the top down; inputs first."""
    drawn: list[Array] = []
    for layer in reversed(range(len(params.biases))):
        u = causal_input(params, layer, drawn[0][None] if drawn else None).reshape(-1)
        on = jax.random.bernoulli(jax.random.fold_in(key, layer), -jnp.expm1(-u))
        drawn.insert(0, on.astype(u.dtype))
    return drawn
