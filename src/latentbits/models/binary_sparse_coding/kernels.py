"""Kernels for NVIDIA's GPUs: the selection of candidates and the sum over states, each in one reading of its rows.

The programs that XLA makes of the same read and write arrays of rows x causes or rows x states a dozen times.  Pallas
is imported by the functions that use it: it takes longer to import than this package.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.models.binary_sparse_coding.candidates import Selection, linear_terms, number_of, ranks
from latentbits.models.binary_sparse_coding.tuning import ROWS_PER_TILE, STATES_PER_TILE

__all__ = ["select", "sum_states", "usable"]


@cache
def usable() -> bool:
    """Tell whether the GPU has what the kernels need: tensor cores for bfloat16."""
    device = jax.devices()[0]
    nvidia = device.platform == "gpu" and device.device_kind.startswith("NVIDIA")
    return nvidia and float(device.compute_capability) >= 8


def select(
    match: Float[Array, "rows causes"],
    norms: Float[Array, "#rows causes"],
    slope: Float[Array, ""],
    offset: Float[Array, ""],
    k: int,
    interpret: bool = False,
) -> Selection:
    """Select like `candidates.select`: a row is held in registers until its k best are found, one after the other."""
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    n_rows, n = match.shape
    width, n_places, least = _power_of_two(n), _power_of_two(k), jnp.iinfo(jnp.int32).min

    def kernel(match_ref: Any, norms_ref: Any, line_ref: Any, found_ref: Any, top_ref: Any, total_ref: Any) -> None:
        row, number = pallas.program_id(0), jnp.arange(width)
        real = number < n
        mine = triton.load(match_ref.at[row, pallas.ds(0, width)], mask=real, other=0.0)
        norm = triton.load(norms_ref.at[row % len(norms), pallas.ds(0, width)], mask=real, other=0.0)
        rank = jnp.where(real, ranks(mine, norm, number, n), least)
        found = jnp.zeros(n_places, jnp.int32)
        for place in range(k):
            best = jnp.max(rank)
            found = jnp.where(jnp.arange(n_places) == place, best, found)
            rank = jnp.where(rank < best, rank, least)
        lone = jnp.where(rank > least, linear_terms(mine, norm, line_ref[0], line_ref[1]), -jnp.inf)
        top = jnp.max(lone)
        found_ref[row, :] = number_of(found, n)
        top_ref[row] = top
        total_ref[row] = jnp.sum(jnp.exp(lone - top))

    of_rows = jax.ShapeDtypeStruct((n_rows,), jnp.float32)
    found, top, total = pallas.pallas_call(
        kernel,
        out_shape=(jax.ShapeDtypeStruct((n_rows, n_places), jnp.int32), of_rows, of_rows),
        grid=(n_rows,),
        compiler_params=triton.CompilerParams(num_warps=min(max(width // 1024, 1), 16)),
        interpret=interpret,
    )(match, norms, jnp.stack([slope, offset]))
    return Selection(found[:, :k], top[:, None], total[:, None])


def sum_states(
    features: np.ndarray, x: Float[Array, "rows features"], interpret: bool = False
) -> tuple[Float[Array, "rows 1"], Float[Array, "rows more"]]:
    """Find the highest energy x f, and sum the features f and 1 over states, with weights e^(energy - highest).

    Tile by tile of the states, with what was summed so far scaled down when a higher energy is found.  The empty state
    has energy 0, so that energies of 0 can fill a tile, and 0 is where the highest starts from.
    """
    from jax.experimental import pallas
    from jax.experimental.pallas import triton

    n_rows, n = x.shape
    width = max(_power_of_two(n + 1), 16)
    table = np.zeros((-(-len(features) // STATES_PER_TILE) * STATES_PER_TILE, width))
    table[: len(features), : n + 1] = np.pad(features, ((0, 0), (0, 1)), constant_values=1)
    padded = jnp.pad(x, ((0, -n_rows % ROWS_PER_TILE), (0, width - n)))

    def kernel(x_ref: Any, table_ref: Any, top_ref: Any, sums_ref: Any) -> None:
        mine = x_ref[...]

        def tile(i: Int[Array, ""], so_far: tuple[Array, Array]) -> tuple[Array, Array]:
            top, sums = so_far
            states = table_ref[pallas.ds(i * STATES_PER_TILE, STATES_PER_TILE), :]
            energy = _exact_product(mine, states, 1)
            higher = jnp.maximum(top, jnp.max(energy, 1))
            weight = jnp.exp(energy - higher[:, None])
            return higher, sums * jnp.exp(top - higher)[:, None] + _exact_product(weight, states, 0)

        start = jnp.zeros(ROWS_PER_TILE, jnp.float32), jnp.zeros((ROWS_PER_TILE, width), jnp.float32)
        top_ref[...], sums_ref[...] = jax.lax.fori_loop(0, len(table) // STATES_PER_TILE, tile, start)

    block = pallas.BlockSpec((ROWS_PER_TILE, width), lambda i: (i, 0))
    top, sums = pallas.pallas_call(
        kernel,
        out_shape=(
            jax.ShapeDtypeStruct((len(padded),), jnp.float32),
            jax.ShapeDtypeStruct(padded.shape, jnp.float32),
        ),
        grid=(len(padded) // ROWS_PER_TILE,),
        in_specs=[block, pallas.BlockSpec(table.shape, lambda i: (0, 0))],
        out_specs=(pallas.BlockSpec((ROWS_PER_TILE,), lambda i: (i,)), block),
        compiler_params=triton.CompilerParams(num_warps=4, num_stages=2),
        interpret=interpret,
    )(padded, jnp.asarray(table, jnp.bfloat16))
    return top[:n_rows, None], sums[:n_rows, : n + 1]


def _exact_product(x: Float[Array, "rows k"], table: Array, axis: int) -> Float[Array, "rows m"]:
    """Multiply x by a table of 0 and 1 over its `axis`: three bfloat16 hold a float32, and their products are exact."""
    products = []
    for _ in range(3):
        bits = jax.lax.bitcast_convert_type(x, jnp.int32)
        upper = jax.lax.bitcast_convert_type(bits & -(1 << 16), jnp.float32)
        part, dims = upper.astype(jnp.bfloat16), (((1,), (axis,)), ((), ()))
        products.append(jax.lax.dot_general(part, table, dims, jax.lax.Precision.DEFAULT, jnp.float32))
        x = x - upper
    return products[0] + (products[1] + products[2])


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()
