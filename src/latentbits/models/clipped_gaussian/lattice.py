"""Integrals over the hidden variables of all rows by one lattice of nodes, where columns have noise; few dimensions.

The density of a row is a product of probits and the prior, and each of these factors is a function of y alone: a table
of their logarithms at the nodes serves all rows, of which each takes its sum by a matrix product.  So nodes are cheap,
and there can be as many as steep columns ask for, where nodes for each row alone would have to be few.

Nodes are evenly spaced.  For functions that are smooth and fall off on all sides, the error of such a rule is what
their Fourier transform has beyond the lattice dual to it.  No row's log density bends more than

    M = I + A' A = R R',      a_i = w_i / sqrt(psi_i) the rows of A,

since no curvature of log Phi is above 1; so the transform of a density falls off as fast as that of a Gaussian of
precision M, or about.  The lattice is ``R' y = spacing k`` with whole numbers k: as fine in each direction as is needed
there, and no finer.  The error is known by that Gaussian, and by the lattices of all k of one parity, which are coarser
rules.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from latentbits.core.arrays import Array
from latentbits.core.packed_symmetric import cholesky, pairs
from latentbits.core.special import half_line
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.tuning import (
    LATTICE_NODES_AT_ONCE,
    LATTICE_REACH_SDS,
    LATTICE_SPACING,
    MOST_LATTICE_NODES,
)

__all__ = ["Integral", "integrate", "is_fine"]


def _nothing_more(y: Float[Array, "nodes latents"]) -> Float[Array, "nodes 0"]:
    return y[:, :0]


class Integral(NamedTuple):
    """log p of each row, its error, and the posterior means of some functions of y."""

    log_probability: Float[Array, " rows"]
    error: Float[Array, " rows"]
    means: Float[Array, "rows functions"]


class _Lattice(NamedTuple):
    """The nodes with ``R' y = spacing k`` from `low` on, `sizes` of them in each dimension."""

    root: Float[Array, "latents latents"]
    spacing: Float[Array, ""]
    low: Float[Array, " latents"]
    sizes: Int[Array, " latents"]


def integrate(
    factors: Factors,
    signs: Float[Array, "rows columns"],
    functions: Callable[[Float[Array, "nodes latents"]], Float[Array, "nodes functions"]] = _nothing_more,
) -> Integral:
    """Integrate the density of each row, and the means of functions of y under its posterior.

    Nodes are gone through in blocks, so that neither memory nor compilation depend on their number.
    """
    n, q = len(signs), factors.weights.shape[1]
    dtype, corners = signs.dtype, 2**q
    # modes are right to a tenth after 10 steps, which will do for where nodes end
    lattice = _around(factors, ep.mode(factors, signs, jnp.zeros((n, q), dtype), 10))
    root = jnp.sqrt(factors.psi)
    scaled, offset = factors.weights / root[:, None], factors.phi / root
    ones, zeros = jnp.maximum(signs, 0), jnp.maximum(-signs, 0)
    total = jnp.prod(lattice.sizes)

    def add(block: Array, carry: tuple[Array, Array]) -> tuple[Array, Array]:
        top, sums = carry
        place = block * LATTICE_NODES_AT_ONCE + jnp.arange(LATTICE_NODES_AT_ONCE)
        y, parity = _nodes(lattice, place)
        z = y @ scaled.T + offset
        prior = jnp.where(place < total, -0.5 * jnp.sum(y**2, 1), -jnp.inf)
        joint = ones @ half_line(z).log_mass.T + zeros @ half_line(-z).log_mass.T + prior
        new = jnp.maximum(top, joint.max(1))
        corner = (parity[:, None] == np.arange(corners)).astype(dtype)
        columns = jnp.concatenate([corner, functions(y)], 1)
        return new, sums * jnp.exp(top - new)[:, None] + jnp.exp(joint - new[:, None]) @ columns

    lowest = jnp.full(n, jnp.finfo(dtype).min, dtype)
    width = corners + jax.eval_shape(functions, jnp.zeros((1, q), dtype)).shape[1]
    start = lowest, jnp.zeros((n, width), dtype)
    top, sums = jax.lax.fori_loop(0, (total + LATTICE_NODES_AT_ONCE - 1) // LATTICE_NODES_AT_ONCE, add, start)
    each = sums[:, :corners]
    mass = jnp.sum(each, 1, keepdims=True)
    volume = q * jnp.log(lattice.spacing / np.sqrt(2 * np.pi)) - jnp.sum(jnp.log(jnp.diagonal(lattice.root)))
    # A Gaussian's transform at the 2 q nearest nodes of the dual lattice is the fourth power of that half as far out,
    # by which the coarser lattices are off; they may agree by chance.
    away = jnp.max(jnp.abs(corners * each / mass - 1), 1)
    error = 2 * q * jnp.exp(-2 * (np.pi / lattice.spacing) ** 2) + away**4
    value = top + jnp.log(mass[:, 0]) + volume
    rounding = 4 * jnp.finfo(dtype).eps * (1 + jnp.abs(value))  # in float32 up to 2 of these were measured
    return Integral(value, error + rounding, sums[:, corners:] / mass)


def is_fine(factors: Factors) -> Bool[Array, ""]:
    """Tell whether the nodes that there may be are close enough to each other."""
    return _spacing(_root(factors)) <= 2.0  # above, points around each row do better


def _root(factors: Factors) -> Float[Array, "latents latents"]:
    """Return R of M = R R'."""
    j, k = pairs(factors.weights.shape[1])
    bend = jnp.sum(factors.squares / factors.psi[:, None], 0) + jnp.asarray(j == k, factors.phi.dtype)
    return cholesky(bend[None])[0]


def _spacing(root: Float[Array, "latents latents"]) -> Float[Array, ""]:
    """Return the spacing of all rows of a model, whichever are together."""
    q = len(root)
    width = 2 * LATTICE_REACH_SDS + 3  # modes are 3 apart, or about
    wanted = jnp.exp(jnp.mean(jnp.log(width * jnp.diagonal(root))))
    return jnp.maximum(LATTICE_SPACING, wanted / MOST_LATTICE_NODES[q] ** (1 / q))


def _around(factors: Factors, modes: Float[Array, "rows latents"]) -> _Lattice:
    """Lay the lattice for rows with these modes."""
    root = _root(factors)
    spacing = _spacing(root)
    low, high = modes.min(0) - LATTICE_REACH_SDS, modes.max(0) + LATTICE_REACH_SDS
    sizes = jnp.ceil((high - low) * jnp.diagonal(root) / spacing)
    return _Lattice(root, spacing, low, sizes.astype(jnp.int32))


def _nodes(
    lattice: _Lattice, place: Int[Array, " nodes"]
) -> tuple[Float[Array, "nodes latents"], Int[Array, " nodes"]]:
    """Find y of the nodes with these numbers, and which of the coarser lattices each belongs to."""
    q, root = len(lattice.sizes), lattice.root
    found: dict[int, Array] = {}
    parity = jnp.zeros_like(place)
    for j in reversed(range(q)):  # the root is triangular: a coordinate depends on those after it
        after = sum((root[i, j] * found[i] for i in range(j + 1, q)), jnp.zeros(len(place), root.dtype))
        first = jnp.ceil((lattice.low[j] * root[j, j] + after) / lattice.spacing)
        k = first + place % lattice.sizes[j]
        place = place // lattice.sizes[j]
        found[j] = (k * lattice.spacing - after) / root[j, j]
        parity = 2 * parity + k.astype(jnp.int32) % 2
    return jnp.stack([found[j] for j in range(q)], 1), parity
