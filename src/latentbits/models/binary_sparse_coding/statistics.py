"""The sums over rows from which components, noise and sparseness are learned: eqs. (6) to (8)."""

from __future__ import annotations

import math
from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.binary_sparse_coding import kernels
from latentbits.models.binary_sparse_coding.posterior import (
    ON_CPU,
    Params,
    Shared,
    States,
    Way,
    candidate_pairs,
    expectations,
    pair_numbers,
)
from latentbits.models.binary_sparse_coding.reseed_units import residuals
from latentbits.models.binary_sparse_coding.selection import histogram, scores
from latentbits.models.binary_sparse_coding.tuning import GATHERED_ROWS

__all__ = ["Stats", "e_step"]

# of W y in float32 on a GPU: as it is, as the sum of three products of bfloat16 (17 bits), with factors of 11 bits
PRECISIONS = {
    "highest": None,
    "high": jax.lax.DotAlgorithmPreset.BF16_BF16_F32_X3,
    "tf32": jax.lax.DotAlgorithmPreset.TF32_TF32_F32,
}


class Stats(Module):
    """Sums over rows; but for the numbers of rows, the free energy and the histogram, over those in M."""

    n_rows: Float[Array, "*starts"]
    free_energy: Float[Array, "*starts 2"]
    scores: Float[Array, "*starts 2"]
    spread: Float[Array, "*starts 2"]  # of the squared scores, about the histogram's centre
    counts: Float[Array, "*starts bins"]
    used: Float[Array, "*starts"]
    squares: Float[Array, "*starts 2"]
    guessed: Float[Array, "*starts"]  # E[(s W)_d^2] of the missing entries
    missing: Float[Array, "*starts"]  # how many they are
    s: Float[Array, "*starts causes"]
    ss: Float[Array, "*starts causes causes"]  # of pairs i, j in the order of their candidates
    sy: Float[Array, "*starts causes columns"]
    residuals: Float[Array, "*starts drawn columns"]  # of a few rows, for causes that are not used


def e_step(states: States, params: Params, shared: Shared, batch: Batch, precision: str = "highest") -> Stats:
    """Compute the sums over the rows of a chunk; `precision` is of W y where a GPU computes in float32."""
    on_cpu = partial(_sums, states, ON_CPU)
    if jax.default_backend() == "cpu":  # there is nothing to choose from, and no other way to trace
        return on_cpu(params, shared, batch)
    single = batch.values.dtype == jnp.float32
    way = Way(1, PRECISIONS[precision] if single else None, single and kernels.usable())
    return jax.lax.platform_dependent(params, shared, batch, cpu=on_cpu, default=partial(_sums, states, way))


def _sums(states: States, way: Way, params: Params, shared: Shared, batch: Batch) -> Stats:
    found = expectations(params, shared, batch, states, way)
    n_causes, axis = len(params.components), way.axis
    seen = batch.values.shape[1] * jnp.ones_like(batch.weight) if batch.observed is None else batch.observed.sum(1)
    # the rows that are learned from
    score = scores(found.log_evidence, seen, shared.column, shared.precision)
    use = batch.weight * (score >= shared.threshold) * (seen > 0)
    # sum <s> y', sum <s> and sum <s s'>, with what stands in for missing entries
    means = found.means * jnp.expand_dims(use, axis)
    by_cause = means.T if axis else means
    if way.cuda:
        sy, s = _products(means, batch.values)
    else:
        sy, s = by_cause @ batch.values, by_cause.sum(1)
    squares = jnp.sum(jnp.square(batch.values), 1)
    guessed = missing = jnp.zeros((), use.dtype)
    pairs = None if found.pairs is None else found.pairs * jnp.expand_dims(use, axis)
    if batch.observed is not None:
        assert pairs is not None  # rows differ in them
        unseen = 1 - batch.observed
        by_row = (found.candidates, pairs) if axis else (found.candidates.T, pairs.T)
        products = _unseen_products(params.components, by_cause, *by_row, unseen, states)
        sy, guessed, missing = sy + products, jnp.sum(params.components * products), use @ unseen.sum(1)
    if pairs is None:  # summed over states, not over rows
        assert found.posterior is not None
        ss = found.posterior.pair_sums(use)
    elif states.bits.shape[1] == n_causes:  # every row has the same pairs
        by_pair = pairs.sum(1 - axis)
        ss = jnp.zeros((n_causes, n_causes), use.dtype).at[states.first, states.second].set(by_pair)
    else:
        place = pair_numbers(found.candidates, n_causes, states, axis)
        ss = jnp.zeros(n_causes**2, use.dtype).at[place.reshape(-1)].add(pairs.reshape(-1)).reshape(n_causes, -1)
    # all sums of a number of each row in one: XLA makes several programs of each sum of a vector
    weights = jnp.stack([batch.weight, batch.weight, batch.weight, use])
    numbers = jnp.stack([found.log_evidence, score, jnp.square(score - shared.centre), squares])
    added = jax.vmap(sum_rows)(weights, numbers)
    rows = weights @ jnp.ones((len(use), 2), use.dtype)
    return Stats(
        n_rows=rows[0, 0],
        free_energy=added[0],
        scores=added[1],
        spread=added[2],
        counts=histogram(score, batch.weight, shared.centre, shared.width),
        used=rows[3, 0],
        squares=added[3],
        guessed=guessed,
        missing=missing,
        s=s,
        ss=ss,
        sy=sy,
        residuals=residuals(shared.drawn, params.components, found.means.T if axis else found.means, batch),
    )


def _products(
    means: Float[Array, "rows causes"], values: Float[Array, "rows columns"]
) -> tuple[Float[Array, "causes columns"], Float[Array, " causes"]]:
    """Compute sum_n <s> y' and sum_n <s>, on tensor cores.

    Factors are split in two bfloat16, that is to 16 bits: what is rounded off has either sign and averages out.  But
    tensor cores round sums towards zero, and so rows are summed in groups.  A column of ones brings sum_n <s> along.
    """
    n_rows, n_columns = values.shape
    n_groups = math.gcd(n_rows, 16)
    ones = jnp.ones((n_rows, 8 - 2 * n_columns % 8), jnp.bfloat16)
    halves = jnp.concatenate([*_halves(means)], 1), jnp.concatenate([*_halves(values), ones], 1)
    left, right = (x.reshape(n_groups, -1, x.shape[1]) for x in jax.lax.optimization_barrier(halves))
    dims = (((1,), (1,)), ((0,), (0,)))
    products = jax.lax.dot_general(left, right, dims, jax.lax.Precision.DEFAULT, jnp.float32).sum(0)
    upper, lower = jnp.split(products, 2)
    both = upper + lower
    return both[:, :n_columns] + both[:, n_columns : 2 * n_columns], both[:, 2 * n_columns]


def _halves(x: Float[Array, "rows columns"]) -> tuple[Array, Array]:
    upper = jax.lax.reduce_precision(x, 8, 7)  # a conversion there and back would be taken for nothing
    return upper.astype(jnp.bfloat16), (x - upper).astype(jnp.bfloat16)


def _unseen_products(
    components: Float[Array, "causes columns"],
    means: Float[Array, "causes rows"],
    candidates: Int[Array, "rows candidates"],
    pairs: Float[Array, "rows pairs"],
    unseen: Float[Array, "rows columns"],
    states: States,
) -> Float[Array, "causes columns"]:
    """Compute sum_n E[y_d s_h] over the missing entries: sum_j W_jd <s_j s_h>."""
    alone = (means @ unseen) * components  # j = h, for candidates and others alike
    if not len(states.first):
        return alone
    together = candidate_pairs(pairs, states)

    def add(total: Array, block: tuple[Array, ...]) -> tuple[Array, None]:
        mine, joint, holes = block
        products = (joint @ jnp.take(components, mine, axis=0, mode="clip")) * holes[:, None, :]
        return total.at[mine.reshape(-1)].add(products.reshape(-1, products.shape[-1])), None

    n = len(unseen)
    size = min(GATHERED_ROWS, n)
    pad = -n % size
    blocks = [
        jnp.pad(x, [(0, pad)] + [(0, 0)] * (x.ndim - 1)).reshape(-1, size, *x.shape[1:])
        for x in (candidates, together, unseen)
    ]
    return jax.lax.scan(add, alone, tuple(blocks))[0]
