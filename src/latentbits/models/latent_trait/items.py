"""Item models of one trait: guessing, anchors, shared parameters, groups and covariates; the model record.

    theta_n = mean_g + z_n.beta + sd_g x,    x ~ N(0, 1)
    P(t_j = 1 | theta) = g_j + (1 - g_j) sigmoid(a_j theta + d_j)

for a row n of group g with covariates z.  The integral over x is taken by equally spaced nodes, which stand on the
trait's own distribution, so that means and variances are parameters of the curves and of nothing else.  Parameters are
slopes a, intercepts d and logits of the lower asymptotes g for each item in each group, and the population's; an array
of places beside each says which number of a free vector it is.  Items that share a place are equal, in one group or
in all; what has none is held where it is.  So the one-parameter model, anchors, equated forms and tests of differential
functioning differ in places alone, and in no program.

Learning is Newton's method on the marginal likelihood.  With the scores s_k of a row at node k, and the curvature B_k,
the observed information is

    sum over rows of  <B> - <s s'> + <s><s>'          (Louis 1982)

all expectations over the row's posterior.  The columns of a batch are the bits, then the group's number where there are
several groups, then the covariates.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, Key

from latentbits.core import newton
from latentbits.core.batch import Batch
from latentbits.core.model import Iterate, Model, Progress, Summary
from latentbits.core.newton import Newton
from latentbits.core.products import over_rows, sum_over_rows
from latentbits.core.tree import sum_rows
from latentbits.models.latent_trait import beginning
from latentbits.models.latent_trait.kinds import ALL_BITS
from latentbits.models.latent_trait.model import Count, Posterior, Scored

__all__ = ["FEWEST_NODES", "MOST_NODES", "Params", "Stats", "can_shift", "curves", "draw", "free_of", "model", "nodes",
           "nodes_for", "recentred", "traits", "with_free"]  # fmt: skip

REACH = 6.0  # standard deviations of the trait that nodes span
FEWEST_NODES, MOST_NODES = 61, 481
MOST_OF_USE = 7681  # nodes that rows are looked at with
RESOLVED = 1.5  # slope times spacing of nodes: right to exp(-2 pi^2 / 1.5), 2e-6
MODE_STEPS = 30  # of Fisher scoring, from the best node
WIDEST = 4  # parameters of a group, by points, of which each row may have a matrix: it is no larger than other arrays
TOLERANCE = 1e-10  # nats a row: the last steps of Newton's method double the digits, and cost no more than others


class Params(eqx.Module):
    """Values, and beside each the place of its free number (their number, n_free, for what is held).

    Attributes
    ----------
    items
        (groups, columns, 2 or 3): slope, intercept and logit of the lower asymptote.
    guessed
        1 where a column has a lower asymptote, else 0.
    mean, log_sd
        Of the trait in each group.
    coefficients
        Of the covariates.
    item_places, mean_places, sd_places, coefficient_places
        Whole numbers from 0 to n_free, as floats: model files hold no others.
    prior_mean, prior_precision
        Of a normal prior on each free number; precision 0 is none.
    centre, scale
        The mean of the trait is that of its group where covariates are `centre`, and coefficients are of covariates in
        units of `scale`: 0 and 1 in a fitted model, mean and standard deviation of its table while it learns.
    """

    items: Float[Array | np.ndarray, "groups columns kinds"]
    guessed: Float[Array | np.ndarray, " columns"]
    mean: Float[Array | np.ndarray, " groups"]
    log_sd: Float[Array | np.ndarray, " groups"]
    coefficients: Float[Array | np.ndarray, " covariates"]
    item_places: Float[Array | np.ndarray, "groups columns kinds"]
    mean_places: Float[Array | np.ndarray, " groups"]
    sd_places: Float[Array | np.ndarray, " groups"]
    coefficient_places: Float[Array | np.ndarray, " covariates"]
    prior_mean: Float[Array | np.ndarray, " free"]
    prior_precision: Float[Array | np.ndarray, " free"]
    centre: Float[Array | np.ndarray, " covariates"]
    scale: Float[Array | np.ndarray, " covariates"]

    @property
    def weights(self) -> Float[Array | np.ndarray, "columns 1"]:
        """Slopes of the first group."""
        return self.items[0, :, :1]

    @property
    def bias(self) -> Float[Array | np.ndarray, " columns"]:
        """Intercepts of the first group."""
        return self.items[0, :, 1]


class Stats(eqx.Module):
    """Sums over rows, all in the free numbers.

    Attributes
    ----------
    objective
        log-likelihood, in two parts.
    gradient, information
        Of the log-likelihood: first derivatives, and minus the second ones.
    unit
        Fisher information, were the traits known.
    spread
        Of squared weights times products of rows' scores: the middle of the sandwich.
    """

    n_rows: Float[Array, ""]
    objective: Float[Array, "2"]
    gradient: Float[Array, " free"]
    information: Float[Array, "free free"]
    unit: Float[Array, "free free"]
    spread: Float[Array, "free free"]


def nodes(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Space points of N(0, 1) equally, with the logarithms of their weights, which sum to 1."""
    x = np.linspace(-REACH, REACH, n)
    weight = np.exp(-0.5 * x**2)
    return x, np.log(weight / weight.sum())


def nodes_for(params: Params) -> int:
    """Count the nodes that the steepest item asks for, whether a row has answered it or not; twice as close each time.

    NumPy, on the host: it chooses shapes.
    """
    slopes = np.abs(np.asarray(params.items)[..., 0]).max(1, initial=0.0)
    steepest = float(np.max(slopes * np.exp(np.asarray(params.log_sd))))
    n = FEWEST_NODES
    while n < MOST_OF_USE and steepest * 2 * REACH / (n - 1) > RESOLVED:
        n = 2 * n - 1
    return n


# ---------------------------------------------------------------- free numbers


def _value_fields() -> tuple[tuple[str, str], ...]:
    return (("items", "item_places"), ("mean", "mean_places"), ("log_sd", "sd_places"),
            ("coefficients", "coefficient_places"))  # fmt: skip


def free_of(params: Params) -> Float[Array, " free"]:
    """Collect the free numbers; where values share a place their mean, which is their value once they are equal."""
    n = len(params.prior_mean)
    total, count = jnp.zeros(n + 1), jnp.zeros(n + 1)
    for name, places in _value_fields():
        at = getattr(params, places).astype(int)
        total = total.at[at].add(getattr(params, name))
        count = count.at[at].add(1)
    return (total / jnp.maximum(count, 1))[:n]


def with_free(params: Params, free: Float[Array, " free"]) -> Params:
    """Put these free numbers into the parameters."""
    n = len(params.prior_mean)
    padded = jnp.append(free, 0.0)
    new = []
    for name, places in _value_fields():
        at = getattr(params, places).astype(int)
        new.append(jnp.where(at < n, padded[at], getattr(params, name)))
    return eqx.tree_at(lambda p: [getattr(p, name) for name, _ in _value_fields()], params, new)


# ---------------------------------------------------------------- where covariates are taken from


class Shift(NamedTuple):
    """Directions in which the trait may be shifted without a change of what is held or shared."""

    to_means: bool
    to_intercepts: bool


def recentred(
    params: Params,
    centre: Float[Array | np.ndarray, " covariates"],
    scale: Float[Array | np.ndarray, " covariates"],
    shifting: Shift | None = None,
) -> Params:
    """Give the same model another centre and scale of the covariates.

    Learning needs those of the table: dates such as 20250131 would put the trait hundreds of its standard deviations
    from 0, where intercepts and slopes are one number.  The shift of the trait goes into the means of
    the groups, where these are free, else into the intercepts: a theta + d = a (theta - shift) + (d + a shift).  Where
    either would change what is held or shared, the centre stays where it is.  `shifting` says so (`can_shift`) where
    parameters are traced.
    """
    to_means, to_intercepts = can_shift(params) if shifting is None else shifting
    centre = centre if to_means or to_intercepts else params.centre
    slopes = params.coefficients / params.scale
    shift = (centre - params.centre) @ slopes
    mean, own = params.mean, params.items
    if to_means:
        mean = mean + shift
    elif to_intercepts:
        own = jnp.asarray(own).at[..., 1].add(own[..., 0] * shift)
    fields = vars(params) | {"items": own, "mean": mean, "coefficients": slopes * scale}
    return Params(**fields | {"centre": centre, "scale": scale})


def can_shift(params: Params) -> Shift:
    """Find whether all means are free; and whether intercepts are, and shared by items of equal slopes alone."""
    n = len(params.prior_mean)
    slope_places, places = (np.asarray(params.item_places[..., k]) for k in (0, 1))
    held = np.where(slope_places < n, 0.0, np.asarray(params.items[..., 0]))
    moving = (slope_places < n) | (held != 0)
    known = np.stack([places, slope_places, held], -1)[moving]
    alike = len(np.unique(known, axis=0)) == len(np.unique(known[:, 0]))
    return Shift(bool((np.asarray(params.mean_places) < n).all()), bool((known[:, 0] < n).all()) and alike)


# ---------------------------------------------------------------- rows


class Rows(NamedTuple):
    """A batch in its parts, with the parameters of each row's group and the mean and deviation of its trait."""

    bits: Float[Array, "rows columns"]
    seen: Float[Array, "rows columns"] | None
    group: Int[Array, " rows"]
    covariates: Float[Array, "rows covariates"]
    items: Float[Array, "rows columns kinds"]
    mean: Float[Array, " rows"]
    sd: Float[Array, " rows"]


def _rows_of(params: Params, batch: Batch) -> Rows:
    groups, d, _ = params.items.shape
    beside = batch.values[:, d:]
    group, covariates = _people(params, beside)
    items = params.items[group] if groups > 1 else jnp.broadcast_to(params.items, (len(group), *params.items.shape[1:]))
    seen = None if batch.observed is None else batch.observed[:, :d]
    return Rows(batch.values[:, :d], seen, group, covariates, items, *traits(params, beside))


def _people(params: Params, beside: Float[Array, "rows beside"]) -> tuple[Int[Array, " rows"], Array]:
    """Give the group of each row and its covariates, centred and scaled; they are the columns after the bits."""
    several = len(params.mean) > 1
    group = beside[:, 0].astype(int) if several else jnp.zeros(len(beside), int)
    return group, (beside[:, int(several) :] - params.centre) / params.scale


def traits(params: Params, beside: Float[Array, "rows beside"]) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """Compute mean and standard deviation of each row's trait before it has answered, by the columns after the bits."""
    group, covariates = _people(params, beside)
    return params.mean[group] + covariates @ params.coefficients, jnp.exp(params.log_sd[group])


class Terms(NamedTuple):
    """Values and derivatives of rows' log P(t | theta) at their points, by z = a theta + d and the asymptote's logit.

    Attributes
    ----------
    value
        log P(t | theta).
    z, g
        First derivatives.
    zz, zg, gg
        Second derivatives.
    fisher
        Minus the expectations of these three over t.
    """

    value: Array
    z: Array
    g: Array | None
    zz: Array
    zg: Array | None
    gg: Array | None
    fisher: tuple[Array, Array | None, Array | None]


def curves(
    items: Float[Array, "... columns kinds"],
    guessed: Float[Array | np.ndarray, " columns"],
    z: Float[Array, "... columns"],
) -> tuple[Array, Array, Array | None, Array | None]:
    """Compute sigmoid(z), log P(t = 1), log of the asymptote and of 1 less it (None where there is none at all)."""
    if items.shape[-1] == 2:
        return jax.nn.sigmoid(z), jax.nn.log_sigmoid(z), None, None
    logit = items[..., 2]
    low = jnp.where(guessed > 0, jax.nn.log_sigmoid(logit), -jnp.inf)
    rest = jnp.where(guessed > 0, jax.nn.log_sigmoid(-logit), 0.0)
    return jax.nn.sigmoid(z), jnp.logaddexp(low, rest + jax.nn.log_sigmoid(z)), low, rest


def _terms(params: Params, rows: Rows, theta: Float[Array, "rows points"]) -> Terms:
    """Compute all derivatives; with r = P(knows | right) = (1 - g) sigmoid(z) / P each is a product of shares."""
    items = rows.items[:, None]
    z = items[..., 0] * theta[..., None] + items[..., 1]
    right = rows.bits[:, None] > 0
    s, log_p, low, rest = curves(items, params.guessed, z)
    failing = jax.nn.log_sigmoid(-z)
    parts: tuple[Any, ...]
    if low is None or rest is None:
        value = jnp.where(right, log_p, failing)
        zz = -s * (1 - s)
        parts = value, rows.bits[:, None] - s, None, zz, None, None, (-zz, None, None)
    else:
        g = jnp.broadcast_to(jnp.exp(low), z.shape)
        r = jnp.exp(rest + jax.nn.log_sigmoid(z) - log_p)
        by_g = (1 - r) * (1 - g) * (1 - s)
        value = jnp.where(right, log_p, rest + failing)
        parts = (
            value,
            jnp.where(right, r * (1 - s), -s),
            jnp.where(right, by_g, -g),
            jnp.where(right, r * (1 - s) * ((1 - r) * (1 - s) - s), -s * (1 - s)),
            jnp.where(right, -r * (1 - s) * (g + by_g), 0.0),
            jnp.where(right, by_g * (1 - 2 * g - by_g), -g * (1 - g)),
            (r * s * (1 - s), by_g * s, by_g * g),
        )
    if rows.seen is not None:
        seen = rows.seen[:, None]
        parts = jax.tree.map(lambda x: x * seen, parts)
    return Terms(*parts)


class Integral(NamedTuple):
    """Integrals of rows: log p, posterior share of each point, the points, and the terms there."""

    log_likelihood: Float[Array, " rows"]
    share: Float[Array, "rows points"]
    theta: Float[Array, "rows points"]
    terms: Terms


def _integrate(params: Params, rows: Rows, n_nodes: int) -> Integral:
    x, log_weight = (jnp.asarray(part, params.mean.dtype) for part in nodes(n_nodes))
    theta = rows.mean[:, None] + rows.sd[:, None] * x
    terms = _terms(params, rows, theta)
    joint = terms.value.sum(-1) + log_weight
    total = jax.nn.logsumexp(joint, 1)
    return Integral(total, jnp.exp(joint - total[:, None]), theta, terms)


# ---------------------------------------------------------------- learning


def _places(params: Params) -> Int[Array, "groups local"]:
    """Place each group's parameters in the order of `_scores`: item after item, then mean, coefficients, log sd."""
    groups = len(params.mean)
    same = jnp.broadcast_to(params.coefficient_places, (groups, params.coefficients.size))
    parts = [params.item_places.reshape(groups, -1), params.mean_places[:, None], same, params.sd_places[:, None]]
    return jnp.concatenate(parts, 1).astype(int)


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
    own = [[zz2, zz1], [zz1, zz0]]
    to_mean = [a * zz1 + z0, a * zz0]
    to_sd = [a * (zz2 - m * zz1) + z1 - m * z0, a * (zz1 - m * zz0)]
    if gg is not None:
        own = [[*own[0], zg1], [*own[1], zg0], [zg1, zg0, moments(gg)[0]]]
        to_mean, to_sd = [*to_mean, a * zg0], [*to_sd, a * (zg1 - m * zg0)]
    bend0, bend1, bend2 = (jnp.sum(a**2 * part, 1) for part in (zz0, zz1, zz2))
    mean_sd = bend1 - rows.mean * bend0
    sd_sd = bend2 - 2 * rows.mean * bend1 + rows.mean**2 * bend0 + jnp.sum(a * (z1 - m * z0), 1)

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
    if groups > 1 and n_local <= WIDEST * m:  # row by row first, as a pass over all points for each group is slow
        return _by_group(group, jnp.einsum("nkl,nkm->nlm", share[..., None] * scores, scores), groups)

    def products(of_group: Float[Array, " rows"]) -> Float[Array, "local local"]:
        weighted = (share * of_group[:, None])[..., None] * scores
        return over_rows(weighted.reshape(n * m, n_local), scores.reshape(n * m, n_local))

    member = jax.nn.one_hot(group, groups, axis=0, dtype=share.dtype)
    return jax.lax.map(products, member) if groups > 1 else products(member[0])[None]


def _e_step(n_nodes: Count, params: Params, shared: None, batch: Batch, row_state: None) -> tuple[Stats, None]:
    rows = _rows_of(params, batch)
    integral = _integrate(params, rows, n_nodes.n)
    groups, n_free = len(params.mean), len(params.prior_mean)
    places, scores = _places(params), _scores(rows, integral)
    terms, share = integral.terms, integral.share * batch.weight[:, None]

    def gathered(local: Float[Array, "groups local local"]) -> Float[Array, "free free"]:
        whole = jnp.zeros((n_free + 1, n_free + 1), local.dtype)
        return whole.at[places[:, :, None], places[:, None, :]].add(local)[:n_free, :n_free]

    squares = _squares(rows.group, share, scores, groups)
    by_local = jnp.einsum("nk,nkl->nl", integral.share, scores)
    by_free = jnp.zeros((len(by_local), n_free + 1), by_local.dtype)
    by_free = by_free.at[jnp.arange(len(by_local))[:, None], places[rows.group]].add(by_local)[:, :n_free]
    weighted = batch.weight[:, None] * by_free
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


def _penalty(params: Params) -> Float[Array, ""]:
    return 0.5 * jnp.sum(params.prior_precision * (free_of(params) - params.prior_mean) ** 2)


def _objective(params: Params, shared: None, stats: Stats) -> Float[Array, ""]:
    return stats.objective.sum() - _penalty(params)


def _start(params: Params) -> Newton:
    return newton.start(free_of(params))


def _update(state: Newton, params: Params, shared: None, stats: Stats, progress: Progress) -> tuple[Newton, Params]:
    free, precision = free_of(params), jnp.diag(params.prior_precision)
    gradient = stats.gradient - params.prior_precision * (free - params.prior_mean)
    value = _objective(params, shared, stats)
    state, free = newton.advance(state, free, value, gradient, stats.information + precision, stats.unit + precision)
    return state, with_free(params, free)


def _left(state: Newton) -> Float[Array, ""]:
    return state.left


def _prepare(params: Params, state: Newton | None, progress: Progress | None) -> None:
    return None


def _init(template: Params, key: Key[Array, ""], summary: Summary) -> Params:
    """Begin free slopes and intercepts with the principal axis of a sample; the rest as the template has it."""
    _, d, kinds = template.items.shape
    bits = Summary(
        summary.n_rows,
        summary.mean[:d],
        summary.variance[:d],
        summary.observed[:d],
        summary.sample[:, :d],
        summary.sample_observed[:, :d],
    )
    first = beginning.init_params(1, ALL_BITS, False, key, bits)
    # anchors tell which end of the axis is up
    anchors = template.item_places[0, :, 0] >= len(template.prior_mean)
    sign = jnp.where(jnp.sum(jnp.where(anchors, template.items[0, :, 0], 1.0) * first.weights[:, 0]) < 0, -1.0, 1.0)
    slopes = sign * first.weights[:, 0]
    found = jnp.stack([slopes, first.bias, *([template.items[0, :, 2]] if kinds == 3 else [])], -1)
    free = template.item_places < len(template.prior_mean)
    # a bit that is always (or never) set has its optimum at infinity: all rows lack a thousandth of a nat of it
    certain = jnp.log(2000 * bits.observed + 1) * jnp.sign(2 * bits.mean - 1)
    held = jnp.where(jnp.isnan(template.items), certain[:, None], template.items)
    items = jnp.where(free, found, held)
    begun = eqx.tree_at(lambda p: p.items, template, items)
    return with_free(begun, free_of(begun))


# ---------------------------------------------------------------- use


def _log_likelihood(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Scored:
    """Compute log p and its error: where twice the spacing is wrong by e, this is by less than about e squared.

    Errors of equally spaced nodes fall as exp(-c / spacing), or faster, for functions without kinks.  An item that
    is so steep that they do not resolve it is one.
    """
    rows = _rows_of(params, batch)
    fine, coarse = (_integrate(params, rows, n) for n in (n_nodes.n, (n_nodes.n + 1) // 2))
    mean = jnp.sum(fine.share * fine.theta, 1, keepdims=True)
    off = jnp.abs(fine.log_likelihood - coarse.log_likelihood)
    steepest = rows.sd * jnp.max(jnp.abs(rows.items[..., 0]), 1)
    error = jnp.where(steepest * 2 * REACH / (n_nodes.n - 1) > RESOLVED, off, off**2)
    return Scored(fine.log_likelihood, error, jnp.zeros((), error.dtype), mean=mean)


def _infer(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Posterior:
    rows = _rows_of(params, batch)
    integral = _integrate(params, rows, n_nodes.n)
    mean = jnp.sum(integral.share * integral.theta, 1)
    variance = jnp.sum(integral.share * (integral.theta - mean[:, None]) ** 2, 1)
    a, precision = rows.items[..., 0], rows.sd**-2

    def slopes(theta: Float[Array, " rows"]) -> tuple[Array, Array, Array]:
        terms = _terms(params, rows, theta[:, None])
        slope = jnp.sum(a * terms.z[:, 0], 1) - precision * (theta - rows.mean)
        bend, fisher = (jnp.sum(a**2 * part[:, 0], 1) for part in (-terms.zz, terms.fisher[0]))
        return slope, bend + precision, fisher + precision

    def scoring(_: Array, theta: Float[Array, " rows"]) -> Float[Array, " rows"]:
        slope, _bend, fisher = slopes(theta)  # a bend may be negative away from the mode, where items are guessed
        return theta + slope / fisher

    best = jnp.take_along_axis(integral.theta, jnp.argmax(integral.share, 1)[:, None], 1)[:, 0]
    mode = jax.lax.fori_loop(0, MODE_STEPS, scoring, best)
    bend = slopes(mode)[1]
    return Posterior(mean[:, None], variance[:, None, None], mode[:, None], (1 / bend)[:, None, None])


def _decode(params: Params, latents: Float[Array, "rows 1"]) -> Float[Array, "rows columns"]:
    """Decode with the items of the first group."""
    items = params.items[0]
    return jnp.exp(curves(items, params.guessed, latents * items[:, 0] + items[:, 1])[1])


def _complete(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Float[Array, "rows width"]:
    """Fill in the bits; groups and covariates stay beside them, as they are."""
    rows = _rows_of(params, batch)
    integral, items = _integrate(params, rows, n_nodes.n), rows.items[:, None]
    p = jnp.exp(curves(items, params.guessed, items[..., 0] * integral.theta[..., None] + items[..., 1])[1])
    bits = jnp.einsum("nk,nkd->nd", integral.share, p)
    return jnp.concatenate([bits, batch.values[:, bits.shape[1] :]], 1)


def _drawn(
    params: Params,
    items: Float[Array, "rows columns kinds"],
    mean: Float[Array, " rows"],
    sd: Float[Array, " rows"],
    keys: Key[Array, " rows"],
) -> Float[Array, "rows columns"]:
    def of_row(key: Key[Array, ""]) -> tuple[Array, Array]:
        first, second = jax.random.split(key)
        return jax.random.normal(first, (), mean.dtype), jax.random.uniform(second, items.shape[1:2], mean.dtype)

    x, uniform = jax.vmap(of_row)(keys)
    z = items[..., 0] * (mean + sd * x)[:, None] + items[..., 1]
    return (uniform < jnp.exp(curves(items, params.guessed, z)[1])).astype(mean.dtype)


def draw(params: Params, shared: None, batch: Batch) -> Float[Array, "rows columns"]:
    """Draw bits of new people of each row's group and covariates; what the row has answered is not looked at."""
    rows = _rows_of(params, batch)
    return _drawn(params, rows.items, rows.mean, rows.sd, batch.keys)


def _sample(params: Params, shared: None, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    """Draw people of the first group, all covariates 0."""
    n, first = len(keys), params.items[0]
    mean, sd = jnp.broadcast_to(params.mean[0], n), jnp.broadcast_to(jnp.exp(params.log_sd[0]), n)
    return _drawn(params, jnp.broadcast_to(first, (n, *first.shape)), mean, sd, keys)


@cache
def _functions(n_nodes: int) -> Model:
    count = Count(n_nodes)
    return Model(
        name="item model",
        init=_no_init,
        prepare=_prepare,
        e_step=Partial(_e_step, count),
        update=_update,
        objective=_objective,
        log_likelihood=Partial(_log_likelihood, count),
        infer=Partial(_infer, count),
        decode=_decode,
        complete=Partial(_complete, count),
        sample=_sample,
        row_floats=lambda n_columns: 20 * n_nodes * n_columns,
        stages=(Iterate("Newton", tol=TOLERANCE),),
        start=_start,
        left=_left,
    )


def _no_init(key: Key[Array, ""], summary: Summary) -> Params:
    raise ValueError("an item model to learn begins with a template: items.model(n_nodes, template)")


def model(n_nodes: int = FEWEST_NODES, template: Params | None = None) -> Model:
    """Make the record of items of one trait.

    Parameters
    ----------
    n_nodes
        Equally spaced nodes, an odd number.
    template
        What is held, the places of what is free, and its priors; asymptotes begin with the values in it.  None for a
        record that is used, or learns from parameters that it is given.
    """
    made = _functions(n_nodes)
    return made if template is None else made._replace(init=Partial(_init, template))
