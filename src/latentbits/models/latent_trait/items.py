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

Parameters and their places are in `item_params.py`, curves and integrals in `item_rows.py`, the sums over rows in
`item_learning.py`.
"""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Float, Key

from latentbits.core import newton
from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.batch import Batch
from latentbits.core.model import Iterate, Model, Progress, Summary
from latentbits.core.newton import Newton
from latentbits.models.latent_trait import initialisation, tuning
from latentbits.models.latent_trait.column_kinds import ALL_BITS
from latentbits.models.latent_trait.item_learning import Stats, e_step
from latentbits.models.latent_trait.item_params import Params, free_of, with_free
from latentbits.models.latent_trait.item_rows import curves, integrate, rows_of, terms_at, unresolved
from latentbits.models.latent_trait.structure import Count
from latentbits.models.latent_trait.use import Posterior, Scored

__all__ = ["draw", "model"]


# ---------------------------------------------------------------- learning


def _penalty(params: Params) -> Float[Array, ""]:
    return 0.5 * (params.prior_precision * (free_of(params) - params.prior_mean) ** 2).sum()


def _objective(params: Params, shared: None, stats: Stats) -> Float[Array, ""]:
    return stats.objective.sum() - _penalty(params)


def _start(params: Params) -> Newton:
    return newton.start(free_of(params))


def _update(state: Newton, params: Params, shared: None, stats: Stats, progress: Progress) -> tuple[Newton, Params]:
    free, precision = free_of(params), namespace(params).diag(params.prior_precision)
    gradient = stats.gradient - params.prior_precision * (free - params.prior_mean)
    value = _objective(params, shared, stats)
    state, free = newton.advance(state, free, value, gradient, stats.information + precision, stats.unit + precision)
    return state, with_free(params, free)


def _left(state: Newton) -> Float[Array, ""]:
    return state.left


def _prepare(params: Params, state: Newton | None, progress: Progress | None) -> None:
    return None


def _init(template: Params, key: AnyKey, summary: Summary) -> Params:
    """Begin free slopes and intercepts with the principal axis of a sample; the rest as the template has it."""
    (_, d, kinds), xp = template.items.shape, namespace(summary)
    bits = summary.of_first(d)
    # the principal axis of the bits
    first = initialisation.init_params(1, ALL_BITS, False, key, bits)
    # anchors decide which end of the axis is up
    anchors = template.item_places[0, :, 0] >= len(template.prior_mean)
    sign = xp.where(xp.sum(xp.where(anchors, template.items[0, :, 0], 1.0) * first.weights[:, 0]) < 0, -1.0, 1.0)
    slopes = sign * first.weights[:, 0]
    found = xp.stack([slopes, first.bias, *([template.items[0, :, 2]] if kinds == 3 else [])], -1)
    free = template.item_places < len(template.prior_mean)
    # a bit that is always (or never) set has its optimum at infinity: all rows lack a thousandth of a nat of it
    certain = xp.log(2000 * bits.observed + 1) * xp.sign(2 * bits.mean - 1)
    held = xp.where(xp.isnan(template.items), certain[:, None], template.items)
    items = xp.where(free, found, held)
    begun = template.replace(items=items)
    return with_free(begun, free_of(begun))


# ---------------------------------------------------------------- use


def _log_likelihood(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Scored:
    """Compute log p and its error: where twice the spacing is wrong by e, this is by less than about e squared.

    Errors of equally spaced nodes fall as exp(-c / spacing), or faster, for functions without kinks.  An item that
    is so steep that they do not resolve it is one.
    """
    rows = rows_of(params, batch)
    fine, coarse = (integrate(params, rows, n) for n in (n_nodes.n, (n_nodes.n + 1) // 2))
    mean = jnp.sum(fine.share * fine.theta, 1, keepdims=True)
    off = jnp.abs(fine.log_likelihood - coarse.log_likelihood)
    steepest = rows.sd * jnp.max(jnp.abs(rows.items[..., 0]), 1)
    error = jnp.where(unresolved(steepest, n_nodes.n), off, off**2)
    return Scored(fine.log_likelihood, error, jnp.zeros((), error.dtype), mean=mean)


def _infer(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Posterior:
    rows = rows_of(params, batch)
    integral = integrate(params, rows, n_nodes.n)
    mean = jnp.sum(integral.share * integral.theta, 1)
    variance = jnp.sum(integral.share * (integral.theta - mean[:, None]) ** 2, 1)
    a, precision = rows.items[..., 0], rows.sd**-2

    def slopes(theta: Float[Array, " rows"]) -> tuple[Array, Array, Array]:
        terms = terms_at(params, rows, theta[:, None])
        slope = jnp.sum(a * terms.z[:, 0], 1) - precision * (theta - rows.mean)
        bend, fisher = (jnp.sum(a**2 * part[:, 0], 1) for part in (-terms.zz, terms.fisher[0]))
        return slope, bend + precision, fisher + precision

    def scoring(_: Array, theta: Float[Array, " rows"]) -> Float[Array, " rows"]:
        slope, _bend, fisher = slopes(theta)  # a bend may be negative away from the mode, where items are guessed
        return theta + slope / fisher

    best = jnp.take_along_axis(integral.theta, jnp.argmax(integral.share, 1)[:, None], 1)[:, 0]
    mode = jax.lax.fori_loop(0, 30, scoring, best)  # of Fisher scoring, from the best node
    bend = slopes(mode)[1]
    return Posterior(mean[:, None], variance[:, None, None], mode[:, None], (1 / bend)[:, None, None])


def _decode(params: Params, latents: Float[Array, "rows 1"]) -> Float[Array, "rows columns"]:
    """Decode with the items of the first group."""
    items = params.items[0]
    return jnp.exp(curves(items, params.guessed, latents * items[:, 0] + items[:, 1])[1])


def _complete(n_nodes: Count, params: Params, shared: None, batch: Batch) -> Float[Array, "rows width"]:
    """Fill in the bits; groups and covariates stay beside them, as they are."""
    rows = rows_of(params, batch)
    integral, items = integrate(params, rows, n_nodes.n), rows.items[:, None]
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
    rows = rows_of(params, batch)
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
        e_step=Partial(e_step, count),
        update=_update,
        objective=_objective,
        log_likelihood=Partial(_log_likelihood, count),
        infer=Partial(_infer, count),
        decode=_decode,
        complete=Partial(_complete, count),
        sample=_sample,
        row_floats=lambda n_columns: 20 * n_nodes * n_columns,
        # the last steps of Newton's method double the digits, and cost no more than others
        stages=(Iterate("Newton", tol=1e-10),),
        start=_start,
        left=_left,
        on_host=True,
    )


def _no_init(key: AnyKey, summary: Summary) -> Params:
    raise ValueError("an item model to learn needs a template: call items.model(n_nodes, template)")


def model(n_nodes: int = tuning.ITEM_FEWEST_NODES, template: Params | None = None) -> Model:
    """Make the record of items of one trait.

    Parameters
    ----------
    n_nodes
        Equally spaced nodes, an odd number.
    template
        Values that are held, the places of those that are free, and their priors; asymptotes begin with the values in
        it.  None for a record that is used, or learns from parameters that it is given.
    """
    made = _functions(n_nodes)
    return made if template is None else made._replace(init=Partial(_init, template))
