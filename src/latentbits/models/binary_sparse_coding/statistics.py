"""The sums over rows from which components, noise and sparseness are learned: eqs. (6) to (8)."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from latentbits.core.batch import Batch
from latentbits.core.tree import sum_rows
from latentbits.models.binary_sparse_coding.posterior import (
    BLOCK,
    Params,
    Shared,
    States,
    candidate_pairs,
    expectations,
)
from latentbits.models.binary_sparse_coding.renewal import residuals
from latentbits.models.binary_sparse_coding.selection import histogram

__all__ = ["Stats", "e_step"]


class Stats(eqx.Module):
    """Sums over rows; but for `n_rows`, the free energy and the histogram, over those in M."""

    n_rows: Float[Array, ""]
    free_energy: Float[Array, "2"]
    spread: Float[Array, "2"]  # of the squared evidence, about the histogram's centre
    counts: Float[Array, " bins"]
    used: Float[Array, ""]
    squares: Float[Array, "2"]
    guessed: Float[Array, ""]  # E[(s W)_d^2] of the missing entries
    missing: Float[Array, ""]  # how many they are
    s: Float[Array, " causes"]
    ss: Float[Array, "causes causes"]  # of pairs i, j in the order of their candidates
    sy: Float[Array, "causes columns"]
    residuals: Float[Array, "drawn columns"]  # of a few rows, for causes that are not used


def e_step(states: States, params: Params, shared: Shared, batch: Batch) -> Stats:
    found = expectations(params, shared, batch, states)
    use = batch.weight * (found.log_evidence >= shared.threshold)
    means, pairs = found.means * use, found.pairs * use
    sy = means @ batch.values
    squares = jnp.sum(jnp.square(batch.values), 1)
    guessed = missing = jnp.zeros((), use.dtype)
    if batch.observed is not None:
        unseen = 1 - batch.observed
        products = _unseen_products(params.components, found.candidates, means, pairs, unseen, states)
        sy, guessed, missing = sy + products, jnp.sum(params.components * products), use @ unseen.sum(1)
    flat = found.candidates[states.first] * len(means) + found.candidates[states.second]
    ss = jnp.zeros(len(means) ** 2, use.dtype).at[flat.reshape(-1)].add(pairs.reshape(-1))
    return Stats(
        n_rows=batch.weight.sum(),
        free_energy=sum_rows(batch.weight, found.log_evidence),
        spread=sum_rows(batch.weight, jnp.square(found.log_evidence - shared.centre)),
        counts=histogram(found.log_evidence, batch.weight, shared.centre, shared.width),
        used=use.sum(),
        squares=sum_rows(use, squares),
        guessed=guessed,
        missing=missing,
        s=means.sum(1),
        ss=ss.reshape(len(means), -1),
        sy=sy,
        residuals=residuals(shared.drawn, params.components, found.means, batch),
    )


def _unseen_products(
    components: Float[Array, "causes columns"],
    candidates: Int[Array, "candidates rows"],
    means: Float[Array, "causes rows"],
    pairs: Float[Array, "pairs rows"],
    unseen: Float[Array, "rows columns"],
    states: States,
) -> Float[Array, "causes columns"]:
    """sum_n E[y_d s_h] over the missing entries: sum_j W_jd <s_j s_h>."""
    alone = (means @ unseen) * components  # j = h, for candidates and others alike
    if not len(states.first):
        return alone
    together = candidate_pairs(pairs, states)

    def add(total: Array, block: tuple[Array, ...]) -> tuple[Array, None]:
        mine, joint, holes = block
        products = (joint @ jnp.take(components, mine, axis=0, mode="clip")) * holes[:, None, :]
        return total.at[mine.reshape(-1)].add(products.reshape(-1, products.shape[-1])), None

    n = len(unseen)
    size = min(BLOCK, n)
    pad = -n % size
    blocks = [
        jnp.pad(x, [(0, pad)] + [(0, 0)] * (x.ndim - 1)).reshape(-1, size, *x.shape[1:])
        for x in (candidates.T, together, unseen)
    ]
    return jax.lax.scan(add, alone, tuple(blocks))[0]
