"""Many small mixtures at once: a parametric bootstrap fits hundreds of tables from several starts each.

A small table is a list of distinct patterns with their counts.  A *climb* is one table with one starting point; all
climbs of a block have the same shape, and one program takes them up together by EM that is accelerated by squared
extrapolation (SQUAREM, Varadhan & Roland 2008) in the coordinates of `coordinates.py`, which have no borders.  A cycle
is three steps of EM:

    x1 = F(x0),  x2 = F(x1),  r = x1 - x0,  v = x2 - x1 - r,  reach = max(1, |r| / |v|)
    x3 = F(x0 + 2 reach r + reach^2 v)          or x2, where the extrapolated point is worse than x1

so the likelihood never falls.  A mixture of fewer classes is one whose other weights are 0, and EM keeps them so: one
program does for both sides of a test.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, UInt8

from latentbits.core.arrays import Array
from latentbits.core.batch import MISSING
from latentbits.core.compilation import Program
from latentbits.core.module import Module
from latentbits.core.special import TINY, log_probabilities
from latentbits.models.mixture import coordinates
from latentbits.models.mixture.coordinates import Params

__all__ = ["Climb", "additions", "climb", "distinct", "draw", "padded", "random_starts", "splits"]


class Climb(Module):
    """Points that climbs have reached: coordinates, log-likelihood there, and the nats estimated to be left to gain."""

    at: Float[Array, "*climbs components columns_and_one"]
    value: Float[Array, "*climbs"]
    left: Float[Array, "*climbs"]


class _Table(Module):
    """One small table: ones and observed entries of its patterns (None where all are), and how often each counts."""

    ones: Float[Array, "patterns columns"]
    observed: Float[Array, "patterns columns"] | None
    counts: Float[Array, " patterns"]


def _coordinates(params: Params) -> Float[Array, "components columns_and_one"]:
    """Compute `coordinates.of`, but leave a class without weight at zero."""
    return jnp.concatenate([2 * jnp.sqrt(params.weights)[:, None], 2 * jnp.arcsin(jnp.sqrt(params.means))], 1)


def _step(
    table: _Table, at: Float[Array, "components columns_and_one"]
) -> tuple[Float[Array, ""], Float[Array, "components columns_and_one"]]:
    """Return the log-likelihood of a point, and the point after a step of EM."""
    params = coordinates.params_at(at)
    log_one, log_zero = log_probabilities(params.means)
    # float64 bears one product with the log-odds, whose terms may cancel
    log_joint = (log_one - log_zero) @ table.ones.T + jnp.log(params.weights)[:, None]
    log_joint += log_zero.sum(1)[:, None] if table.observed is None else log_zero @ table.observed.T
    top = jnp.max(log_joint, axis=0)
    scaled = jnp.exp(log_joint - top)
    total = jnp.sum(scaled, axis=0)
    value = jnp.sum(table.counts * (top + jnp.log(total)))
    share = scaled * (table.counts / total)
    members = jnp.sum(share, axis=1)
    seen = members[:, None] if table.observed is None else share @ table.observed
    means = jnp.where(seen > TINY, (share @ table.ones) / jnp.maximum(seen, TINY), params.means)
    return value, _coordinates(Params(members / members.sum(), jnp.clip(means, 0, 1)))


def _cycle(
    table: _Table, at: Float[Array, "components columns_and_one"]
) -> tuple[Float[Array, "components columns_and_one"], Float[Array, ""]]:
    """Return the next point, and the nats that were left to gain at this one.

    At rate a EM's steps shrink by a and its gains by a^2, and reach is 1 / (1 - a): the gains to come are that of one
    step times 1 / (1 - a^2), about reach / 2.
    """
    value, first = _step(table, at)
    after, second = _step(table, first)
    move = first - at
    bend = second - first - move
    reach = jnp.sqrt(jnp.sum(move**2) / jnp.maximum(jnp.sum(bend**2), TINY**2))
    reach = jnp.clip(reach, 1, 1e4)
    ahead, third = _step(table, at + 2 * reach * move + reach**2 * bend)
    return jnp.where(ahead >= after, third, second), (after - value) * jnp.maximum(1, reach / 2)


def _climb(
    patterns: UInt8[Array, "climbs patterns columns"],
    counts: Float[Array, "climbs patterns"],
    at: Float[Array, "climbs components columns_and_one"],
    n_cycles: Int[Array, ""],
    tol: Float[Array, ""],
    *,
    complete: bool,
) -> Climb:
    """Take `n_cycles` cycles of each climb, or fewer where less than `tol` nats are left to gain."""

    def one(
        patterns: UInt8[Array, "patterns columns"],
        counts: Float[Array, " patterns"],
        at: Float[Array, "components columns_and_one"],
    ) -> Climb:
        observed = None if complete else (patterns != MISSING).astype(at.dtype)
        table = _Table((patterns == 1).astype(at.dtype), observed, counts)

        def goes_on(state: tuple[Int[Array, ""], Climb]) -> Bool[Array, ""]:
            return (state[0] < n_cycles) & (state[1].left > tol)

        def body(state: tuple[Int[Array, ""], Climb]) -> tuple[Int[Array, ""], Climb]:
            at, left = _cycle(table, state[1].at)
            return state[0] + 1, Climb(at, state[1].value, left)

        far = jnp.asarray(jnp.inf, at.dtype)
        _, end = jax.lax.while_loop(goes_on, body, (jnp.zeros_like(n_cycles), Climb(at, -far, far)))
        return Climb(end.at, _step(table, end.at)[0], end.left)

    return jax.vmap(one)(patterns, counts, at)


climb = Program(_climb, of_chunk=True)


# ---------------------------------------------------------------- tables and starts, on the host


def distinct(rows: UInt8[np.ndarray, "rows columns"]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find the first of each distinct row, the number of the distinct row that each row equals, and the counts.

    >>> first, kind, counts = distinct(np.array([[0, 1], [1, 1], [0, 1]], np.uint8))
    >>> first.tolist(), kind.tolist(), counts.tolist()
    ([0, 1], [0, 1, 0], [2, 1])
    """
    packed = np.packbits(np.concatenate([rows == 1, rows == MISSING], 1), axis=1)
    if packed.shape[1] <= 8:  # as numbers they are sorted ten times as fast
        wide = np.zeros((len(rows), 8), np.uint8)
        wide[:, : packed.shape[1]] = packed
        _, first, kind, counts = np.unique(wide.view(np.uint64)[:, 0], True, True, True)
    else:
        _, first, kind, counts = np.unique(packed, True, True, True, axis=0)
    return first, kind.reshape(-1), counts


def draw(
    rng: np.random.Generator,
    weights: Float[np.ndarray, " classes"],
    means: Float[np.ndarray, "classes columns"],
    holes: Bool[np.ndarray, "rows columns"] | None,
    n_rows: int,
) -> UInt8[np.ndarray, "rows columns"]:
    """Draw rows of a mixture, with the given missing entries."""
    of_class = rng.choice(len(weights), n_rows, p=weights / weights.sum())
    rows = (rng.random((n_rows, means.shape[1])) < means[of_class]).astype(np.uint8)
    if holes is not None:
        rows[holes] = MISSING
    return rows


def padded(
    weights: Float[np.ndarray, " classes"], means: Float[np.ndarray, "classes columns"], n_components: int
) -> Float[np.ndarray, "components columns_and_one"]:
    """Return the coordinates of a mixture among those of `n_components` classes: the others have no weight."""
    at = np.zeros((n_components, means.shape[1] + 1))
    at[:, 1:] = np.pi / 2
    at[: len(weights)] = np.column_stack([2 * np.sqrt(weights), 2 * np.arcsin(np.sqrt(np.clip(means, 0, 1)))])
    return at


def random_starts(
    rng: np.random.Generator,
    patterns: UInt8[np.ndarray, "tables patterns columns"],
    counts: Float[np.ndarray, "tables patterns"],
    n_starts: int,
    n_classes: int,
    n_components: int,
) -> Float[np.ndarray, "tables starts components columns_and_one"]:
    """Draw mixtures of equal weights as `starts.random_rows` does: around rows, or anywhere.

    `n_classes` of the `n_components` have weight.
    """
    n_tables, _, d = patterns.shape
    seen = (patterns != MISSING) * counts[:, :, None]
    mean = ((patterns == 1) * counts[:, :, None]).sum(1) / np.maximum(seen.sum(1), TINY)
    chances = np.cumsum(counts, axis=1) / counts.sum(1, keepdims=True)
    uniform = rng.random((n_tables, n_starts, n_classes, d + 1))
    drawn = np.stack([np.searchsorted(chance, u[..., 0], side="right") for chance, u in zip(chances, uniform)])
    drawn = np.minimum(drawn, (counts > 0).sum(1)[:, None, None] - 1)  # the last chance may be 1 but for rounding
    row = patterns[np.arange(n_tables)[:, None, None], drawn]
    near, jitter = np.where(row == MISSING, mean[:, None, None], row), uniform[..., 1:]
    anywhere = (np.arange(n_starts) % 2 == 1)[None, :, None, None]
    means = np.where(anywhere, jitter, 0.25 * near + 0.25 * jitter + 0.5 * mean[:, None, None])
    at = np.zeros((n_tables, n_starts, n_components, d + 1))
    at[..., 1:] = np.pi / 2
    at[:, :, :n_classes, 0] = 2 / np.sqrt(n_classes)
    at[:, :, :n_classes, 1:] = 2 * np.arcsin(np.sqrt(np.clip(means, 0.01, 0.99)))
    return at


def splits(
    rng: np.random.Generator,
    at: Float[np.ndarray, "tables components columns_and_one"],
    n_classes: int,
    n_starts: int,
    apart: float = 0.5,
) -> Float[np.ndarray, "tables starts components columns_and_one"]:
    """Fill the classes without weight of fitted mixtures with halves of the `n_classes` others, pushed apart.

    In each start another class gives half of its weight: first the one whose rows differ most, then the next.
    """
    n_tables, n_components, width = at.shape
    spread = at[:, :n_classes, 0] ** 2 * (np.sin(at[:, :n_classes, 1:]) ** 2).sum(2)  # w m (1 - m)
    order = np.argsort(-spread, axis=1)
    out = np.repeat(at[:, None], n_starts, axis=1)
    table, start = np.ogrid[:n_tables, :n_starts]
    for new in range(n_classes, n_components):
        old = order[:, (np.arange(n_starts) + new - n_classes) % n_classes]
        out[table, start, old, 0] *= np.sqrt(0.5)
        out[table, start, new] = out[table, start, old]
        push = apart * rng.standard_normal((n_tables, n_starts, width - 1))
        # a class that never has a bit may have it in one half: angles are folded back, so it is no matter where they go
        out[table, start, new, 1:] += push
        out[table, start, old, 1:] -= push
    return out


def additions(
    rng: np.random.Generator,
    at: Float[np.ndarray, "tables components columns_and_one"],
    patterns: UInt8[np.ndarray, "tables patterns columns"],
    counts: Float[np.ndarray, "tables patterns"],
    n_classes: int,
    n_starts: int,
) -> Float[np.ndarray, "tables starts components columns_and_one"]:
    """Add small classes to fitted mixtures of `n_classes`, each around a pattern drawn with equal chances.

    What a class too many finds in a small table is a few rows that are alike: from random starts it is seldom found.
    """
    n_tables, n_components, width = at.shape
    out = np.repeat(at[:, None], n_starts, axis=1)
    n_new = n_components - n_classes
    uniform = rng.random((n_tables, n_starts, n_new, width + 1))
    weight = 0.05 + 0.15 * uniform[..., 0]
    drawn = (uniform[..., 1] * (counts > 0).sum(1)[:, None, None]).astype(int)
    row = patterns[np.arange(n_tables)[:, None, None], drawn]
    # a bit that is missing may be anything
    near = np.where(row == MISSING, uniform[..., 2:], 0.75 * row + 0.25 * uniform[..., 2:])
    out[:, :, :n_classes, 0] *= np.sqrt(1 - weight.sum(2) / (1 + weight.sum(2)))[..., None]
    out[:, :, n_classes:, 0] = 2 * np.sqrt(weight / (1 + weight.sum(2, keepdims=True)))
    out[:, :, n_classes:, 1:] = 2 * np.arcsin(np.sqrt(np.clip(near, 0.01, 0.99)))
    return out
