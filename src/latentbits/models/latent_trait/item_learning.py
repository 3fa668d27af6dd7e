"""Sums over rows that Newton's method takes: scores, curvature and information by the free numbers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait.item_params import Params, places_of
from latentbits.models.latent_trait.item_rows import Integral, Rows, integrate, rows_of
from latentbits.models.latent_trait.structure import Count

__all__ = ["Stats", "e_step"]


class Stats(Module):
    """Sums over rows, all in the free numbers."""

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]  # log-likelihood, in two parts
    # gradient, information: first derivatives of the log-likelihood, and minus the second ones
    gradient: Float[Array, " free"]
    information: Float[Array, "free free"]
    unit: Float[Array, "free free"]  # Fisher information, were the traits known
    # sum of squared weights times products of rows' scores: the middle of the sandwich
    spread: Float[Array, "free free"]


def _with_one(rows: Rows) -> Float[Array, "rows moving"]:
    return jnp.concatenate([jnp.ones_like(rows.mean)[:, None], rows.covariates], 1)


def _scores(rows: Rows, integral: Integral) -> Float[Array, "rows points local"]:
    """Differentiate log P(t | theta) at each point by the parameters of the row's group."""
    terms, theta = integral.terms, integral.theta
    by_item = [terms.z * theta[..., None], terms.z, *([] if terms.g is None else [terms.g])]
    n, m, _ = terms.z.shape
    through = jnp.sum(terms.z * rows.items[:, None, :, 0], -1)  # by theta
    moved = jnp.broadcast_to(_with_one(rows)[:, None], (n, m, 1 + rows.covariates.shape[1]))
    by_population = jnp.concatenate([moved, (theta - rows.mean[:, None])[..., None]], -1) * through[..., None]
    return jnp.concatenate([jnp.stack(by_item, -1).reshape(n, m, -1), by_population], -1)


def _curvature(
    rows: Rows,
    share: Float[Array, "rows points"],
    theta: Float[Array, "rows points"],
    zz: Array,
    zg: Array | None,
    gg: Array | None,
    z: Array | None,
    groups: int,
) -> Float[Array, "groups local local"]:
    """Sum the second derivatives by the parameters of a group over rows and points.

    `zz`, `zg`, `gg` are those by z and the logit, and `z` the first (None for 0), which second derivatives of z itself
    are multiplied by.
    """
    powers = share[..., None] * theta[..., None] ** jnp.arange(3)
    moments = lambda x: jnp.einsum("nkd,nkt->tnd", x, powers)  # noqa: E731
    zero = jnp.zeros_like(rows.bits)
    zz0, zz1, zz2 = moments(zz)
    zg0, zg1, _ = (zero, zero, zero) if zg is None else moments(zg)
    z0, z1, _ = (zero, zero, zero) if z is None else moments(z)
    a, m = rows.items[..., 0], rows.mean[:, None]
    # blocks of an item by itself, and by the mean and deviation of the trait
    own = [[zz2, zz1], [zz1, zz0]]
    to_mean = [a * zz1 + z0, a * zz0]
    to_sd = [a * (zz2 - m * zz1) + z1 - m * z0, a * (zz1 - m * zz0)]
    if gg is not None:
        own = [[*own[0], zg1], [*own[1], zg0], [zg1, zg0, moments(gg)[0]]]
        to_mean, to_sd = [*to_mean, a * zg0], [*to_sd, a * (zg1 - m * zg0)]
    # the population by itself
    bend0, bend1, bend2 = (jnp.sum(a**2 * part, 1) for part in (zz0, zz1, zz2))
    mean_sd = bend1 - rows.mean * bend0
    sd_sd = bend2 - 2 * rows.mean * bend1 + rows.mean**2 * bend0 + jnp.sum(a * (z1 - m * z0), 1)

    # sums over the rows of each group, put together
    moved = _with_one(rows)
    by_group = lambda x: _by_group(rows.group, x, groups)  # noqa: E731
    d, kinds = rows.items.shape[1:]
    blocks = by_group(jnp.stack([jnp.stack(line, -1) for line in own], -2))
    items = jnp.einsum("gjab,ij->giajb", blocks, jnp.eye(d)).reshape(groups, d * kinds, d * kinds)
    mixed = by_group(jnp.stack(to_mean, -1).reshape(len(a), -1, 1) * moved[:, None])
    mixed = jnp.concatenate([mixed, by_group(jnp.stack(to_sd, -1).reshape(len(a), -1, 1))], -1)
    outer = by_group(moved[:, :, None] * moved[:, None] * bend0[:, None, None])
    edge = by_group(moved * mean_sd[:, None])
    corner = by_group(sd_sd[:, None])
    population = jnp.block([[outer, edge[..., None]], [edge[:, None], corner[..., None]]])
    return jnp.block([[items, mixed], [mixed.transpose(0, 2, 1), population]])


def _by_group(group: Int[Array, " rows"], x: Float[Array, "rows ..."], groups: int) -> Float[Array, "groups ..."]:
    """Sum over the rows of each group."""
    member = jax.nn.one_hot(group, groups, dtype=x.dtype)
    return over_rows(member, x.reshape(len(x), -1)).reshape(groups, *x.shape[1:])


def _squares(
    group: Int[Array, " rows"],
    share: Float[Array, "rows points"],
    scores: Float[Array, "rows points local"],
    groups: int,
) -> Float[Array, "groups local local"]:
    """Sum products of scores by scores over the rows of each group and the points."""
    n, m, n_local = scores.shape
    # row by row first, as a pass over all points for each group is slow
    if groups > 1 and n_local <= 4 * m:  # a matrix of each row is then no larger than other arrays
        return _by_group(group, jnp.einsum("nkl,nkm->nlm", share[..., None] * scores, scores), groups)

    def products(of_group: Float[Array, " rows"]) -> Float[Array, "local local"]:
        weighted = (share * of_group[:, None])[..., None] * scores
        return over_rows(weighted.reshape(n * m, n_local), scores.reshape(n * m, n_local))

    member = jax.nn.one_hot(group, groups, axis=0, dtype=share.dtype)
    return jax.lax.map(products, member) if groups > 1 else products(member[0])[None]


def e_step(n_nodes: Count, params: Params, shared: None, batch: Batch, row_state: None) -> tuple[Stats, None]:
    rows = rows_of(params, batch)
    integral = integrate(params, rows, n_nodes.n)
    # scores of rows, by the parameters of a group and then by the free numbers
    groups, n_free = len(params.mean), len(params.prior_mean)
    places, scores = places_of(params), _scores(rows, integral)
    terms, share = integral.terms, integral.share * batch.weight[:, None]

    def gathered(local: Float[Array, "groups local local"]) -> Float[Array, "free free"]:
        whole = jnp.zeros((n_free + 1, n_free + 1), local.dtype)
        return whole.at[places[:, :, None], places[:, None, :]].add(local)[:n_free, :n_free]

    squares = _squares(rows.group, share, scores, groups)
    by_local = jnp.einsum("nk,nkl->nl", integral.share, scores)
    by_free = jnp.zeros((len(by_local), n_free + 1), by_local.dtype)
    by_free = by_free.at[jnp.arange(len(by_local))[:, None], places[rows.group]].add(by_local)[:, :n_free]
    weighted = batch.weight[:, None] * by_free
    # observed information, and that of known traits
    bend = _curvature(rows, share, integral.theta, terms.zz, terms.zg, terms.gg, terms.z, groups)
    unit = _curvature(rows, share, integral.theta, *terms.fisher, None, groups)
    return Stats(
        batch.weight.sum(),
        sum_rows(batch.weight, integral.log_likelihood),
        sum_over_rows(weighted),
        over_rows(weighted, by_free) - gathered(bend + squares),
        gathered(unit),
        over_rows(weighted, weighted),
    ), None
