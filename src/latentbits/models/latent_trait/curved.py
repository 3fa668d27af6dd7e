"""A latent trait with a curved surface: a small network where `model.py` has a linear map.

    z ~ N(0, I_q),    P(x_j = 1 | z) = sigmoid(f_j(z)),    f(z) = W z + b + (layers of softly bent units)

The straight part W z + b is that of the linear model, which is in here as the case of a last layer of zeros.  The
integral over z is a mean over quasi-random points, the same for all rows (Correia, Gala, Quaeghebeur, de Campos &
Peharz 2023):

    p(x) ~ 1/N sum_i prod_j p_j(z_i)^x_j (1 - p_j(z_i))^(1 - x_j)

which is a mixture of N products, so that what is missing is left out exactly and completions are those of a mixture.
Learning from a batch of rows needs sums at the points alone: with r_ni the share of point i in row n,

    d / d f_j(z_i)  log p  =  sum_n r_ni (x_nj - p_j(z_i)),

and the way back through the network is gone once an update, however many rows there are.  Each update draws new
points, so that no surface can be bent to suit them.

A likelihood is a mean over `LIKELIHOOD_NETS` nets, each shifted by its own chance.  How much these differ is the
error, of a row and, as all rows have the same points, of a sum over rows.
"""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Float, Key
from scipy.special import expit
from scipy.stats import qmc

from latentbits.core.adam import Adam, Number, direction, falling
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows, sum_over_rows
from latentbits.core.gaussians import Gaussian, from_precision
from latentbits.core.model import LogLikelihood, Model, Progress, Schedule, Summary
from latentbits.core.module import Module, static
from latentbits.core.packed_symmetric import pairs, products, unpack
from latentbits.core.tree import cast, sum_rows
from latentbits.models.latent_trait import initialisation, tuning
from latentbits.models.latent_trait.column_kinds import ALL_BITS
from latentbits.models.latent_trait.use import Posterior

__all__ = ["Params", "Scored", "Shared", "Structure",
           "error_of_sum", "gradient", "logits", "mean_slopes", "model", "replicated", "turned"]  # fmt: skip

SINGLE = np.dtype(np.float32)


class Params(Module):
    """The network."""

    # weights, bias: weights and biases of the straight part
    weights: Float[Array, "columns latents"]
    bias: Float[Array, " columns"]
    # weights of the units: from the latents to the first of them, from each layer to the next, and from the last to
    # the columns
    layers: tuple[Float[Array, "..."], ...]
    offsets: tuple[Float[Array, "..."], ...]  # biases of each layer of units


class Shared(Module):
    """Points, and what bits are there."""

    points: Float[Array, "points latents"]
    log_one: Float[Array, "points columns"]
    log_zero: Float[Array, "points columns"]


class Stats(Module):
    """Sums over rows."""

    n_rows: Float[Array, ""]
    n_places: Float[Array, ""]  # rows that count, each once
    objective: Float[Array, "2"]  # log p (see `sum_rows`)
    # for every point and column, the bits less what is expected there, each row by the point's share in it: the
    # gradient of the log-likelihood by the network's outputs
    residual: Float[Array, "points columns"]


class Scored(LogLikelihood):
    """log p(x) of each row."""

    # excess of p(x) by each net over that by all, as a share of it: for a sum over rows they add up, net by net
    deviations: Float[Array, "rows replicates"] | None = None


class Settings(Module):
    """Settings of learning; numbers are arguments of its programs."""

    rate: Number  # length of the first steps
    n_updates: Number  # updates of the whole stage
    batch_size: Number  # rows of an update
    n_rows: Number  # rows of the table, each as often as it counts: what a prior is a part of
    precision: Number | None  # precision of the prior on weights; None for none


class Structure(Module):
    """Shapes of a program: latent dimensions, units of each layer, and points of a net."""

    q: int = static()
    widths: tuple[int, ...] = static()
    n_points: int = static()


# ---------------------------------------------------------------- the surface


def logits(params: Params, z: Float[Array, "points latents"]) -> Float[Array, "points columns"]:
    """Compute f(z)."""
    hidden = z
    for layer, offset in zip(params.layers, params.offsets):
        hidden = jax.nn.silu(hidden @ layer + offset)
    return z @ params.weights.T + params.bias + hidden @ params.layers[-1]


def decoded(params: Params, z: Float[Array, "points latents"]) -> Float[Array, "points columns"]:
    """Compute P(bit = 1 | z)."""
    return jax.nn.sigmoid(logits(params, z))


@cache
def _net(n_points: int, q: int) -> np.ndarray:
    return np.asarray(qmc.Sobol(q, scramble=False).random(n_points))


def _points(structure: Structure, key: Key[Array, ""]) -> Float[Array, "points latents"]:
    """Make points of a standard normal: a net, shifted by chance around the torus, through the normal quantile."""
    shifted = (_net(structure.n_points, structure.q) + jax.random.uniform(key, (structure.q,))) % 1
    least = 1e-6  # distance from 0 and 1
    return jax.scipy.special.ndtri(jnp.clip(shifted, least, 1 - least))


def replicated(structure: Structure, seed: int = 0) -> Float[Array, "points latents"]:
    """Make the points of all nets that give a likelihood, net by net."""
    each = jax.random.split(jax.random.key(seed, impl="threefry2x32"), tuning.LIKELIHOOD_NETS)
    return jnp.concatenate([_points(structure, key) for key in each])


def mean_slopes(params: Params, z: np.ndarray) -> np.ndarray:
    """Compute how fast log-odds change along each axis, on average over points, (columns, latents); on the host."""
    hidden, change = z, np.broadcast_to(np.eye(z.shape[1]), (len(z), z.shape[1], z.shape[1]))
    for layer, offset in zip(params.layers, params.offsets):
        field = hidden @ layer + offset
        on = expit(field)
        hidden, change = field * on, (change @ layer) * (on * (1 + field * (1 - on)))[:, None]
    return np.asarray(params.weights + (change.mean(0) @ params.layers[-1]).T)


def turned(params: Params, axes: np.ndarray) -> Params:
    """Turn the latents to other orthogonal axes, z' = z @ axes, on the same surface."""
    first, *others = params.layers
    return params.replace(weights=params.weights @ axes, layers=(axes.T @ first, *others))


# ---------------------------------------------------------------- learning


def _init(structure: Structure, key: Key[Array, ""], summary: Summary) -> Params:
    """Begin with the straight part of the linear model, and units that bend it little."""
    q, widths = structure.q, structure.widths
    # the straight part, and units whose sums have unit variance
    straight_key, *each = jax.random.split(key, 2 + 2 * len(widths))
    straight = initialisation.init_params(q, ALL_BITS, False, straight_key, summary)
    sizes = (q, *widths, len(summary.mean))
    layers = [jax.random.normal(one, (a, b)) * np.sqrt(2 / a) for one, (a, b) in zip(each, pairwise(sizes))]
    layers[-1] = layers[-1] * 0.1  # of what units of a layer usually add
    # bends are at different places along each of the first units
    offsets = [jax.random.normal(one, (b,)) * (k == 0) for k, (one, b) in enumerate(zip(each[len(layers) :], widths))]
    return Params(straight.weights, straight.bias, tuple(layers), tuple(offsets))


def _prepare(structure: Structure, params: Params, state: Adam | None, progress: Progress | None) -> Shared:
    """Evaluate the surface at points that each update draws again; where a model is used, at fixed ones, and more."""
    if progress is None:
        points, network = replicated(structure), params
    else:  # a step that follows a few rows needs no more digits
        points, network = _points(structure, progress.key).astype(SINGLE), cast(params, SINGLE)
    f = logits(network, points)
    return Shared(points, jax.nn.log_sigmoid(f), jax.nn.log_sigmoid(-f))


def _joint(shared: Shared, batch: Batch) -> Float[Array, "rows points"]:
    """Compute log P(x | point)."""
    zeros = (1 if batch.observed is None else batch.observed) - batch.values
    return batch.values @ shared.log_one.T + zeros @ shared.log_zero.T


def _shares(shared: Shared, batch: Batch) -> tuple[Float[Array, "rows points"], Float[Array, " rows"]]:
    """Compute the share of each point in a row, and log p of the row."""
    joint = _joint(shared, batch)
    top = joint.max(1, keepdims=True)
    share = jnp.exp(joint - top)
    total = share.sum(1, keepdims=True)
    return share / total, (top + jnp.log(total))[:, 0] - np.log(joint.shape[1])


def _e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    share, value = _shares(shared, batch)
    share = share * batch.weight[:, None]
    if batch.observed is None:
        seen = sum_over_rows(share)[:, None]
    else:
        seen = over_rows(share, batch.observed)
    residual = over_rows(share, batch.values) - seen * jnp.exp(shared.log_one)
    places = jnp.sum((batch.weight > 0).astype(batch.weight.dtype))
    return Stats(batch.weight.sum(), places, sum_rows(batch.weight, value), residual), None


def _squares(params: Params) -> Float[Array, ""]:
    return sum((jnp.sum(jnp.square(layer)) for layer in params.layers), jnp.sum(jnp.square(params.weights)))


def _objective(settings: Settings, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    """Compute the log-likelihood, less the penalty of the prior; of some rows, their part of it."""
    total = stats.objective.sum()
    if settings.precision is None:
        return total
    return total - 0.5 * settings.precision * _squares(params) * stats.n_rows / settings.n_rows


def gradient(params: Params, shared: Shared, stats: Stats) -> Params:
    """Differentiate the log-likelihood of the rows by the network's parameters."""
    _, back = jax.vjp(lambda p: logits(p, shared.points), params)
    (found,) = back(stats.residual.astype(params.bias.dtype))
    return found


def _update(
    settings: Settings, state: Adam, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Adam, Params]:
    # the gradient of a row on average, by the network in float32, and the pull of the prior
    n_rows = jnp.maximum(stats.n_rows, 1e-300)
    found = cast(gradient(cast(params, SINGLE), cast(shared, SINGLE), stats), np.dtype(np.float64))
    uphill = jax.tree.map(lambda g: g / n_rows, found)
    if settings.precision is not None:
        pull = settings.precision / settings.n_rows
        uphill = uphill.replace(
            weights=uphill.weights - pull * params.weights,
            layers=tuple(g - pull * layer for g, layer in zip(uphill.layers, params.layers)),
        )
    state, change = direction(state, uphill)
    # the last batch may be a short one, which Adam would not see
    share = jnp.minimum(1, stats.n_places / settings.batch_size) * (stats.n_rows > 0)
    step = falling(settings.rate, settings.n_updates, progress) * share
    return state, jax.tree.map(lambda p, c: p + step * c, params, change)


# ---------------------------------------------------------------- use


def _log_likelihood(params: Params, shared: Shared, batch: Batch) -> Scored:
    joint = _joint(shared, batch)
    n, n_points = joint.shape
    each = jax.nn.logsumexp(joint.reshape(n, tuning.LIKELIHOOD_NETS, -1), axis=2) - np.log(
        n_points // tuning.LIKELIHOOD_NETS
    )
    value = jax.nn.logsumexp(each, axis=1) - np.log(tuning.LIKELIHOOD_NETS)
    deviations = jnp.exp(each - value[:, None]) - 1
    # in float32 rounding cost 0.2 to 0.4 of this, at most 2.5, of 12 to 200 columns; nets may differ by less
    rounding = jnp.finfo(value.dtype).eps * (1 + jnp.abs(value))
    error = jnp.sqrt(_variance(deviations) + _too_low(deviations) ** 2 + rounding**2)
    return Scored(value, error, jnp.zeros((), value.dtype), deviations=deviations)


def _variance(deviations: Any) -> Any:
    """Compute the variance of the mean of deviations, the last axis."""
    # eight nets say little of their spread: `nodes.importance`
    return (deviations**2).sum(-1) / ((tuning.LIKELIHOOD_NETS - 3) * tuning.LIKELIHOOD_NETS)


def _too_low(deviations: Any) -> Any:
    """Compute by how much the logarithm of such a mean is too low on average: half of its relative variance."""
    return _variance(deviations) / 2


def error_of_sum(deviations: np.ndarray, weights: np.ndarray) -> float:
    """Compute the standard error of a sum of log p over rows, (rows, replicates), each as often as it counts.

    All rows have the same points: their errors go together, or against each other, as they do in every net.
    """
    counted = weights > 0
    return float(
        np.hypot(np.sqrt(_variance(weights @ deviations)), np.sum(weights[counted] * _too_low(deviations[counted])))
    )


def _infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
    q = shared.points.shape[1]
    joint = _joint(shared, batch)
    share = jax.nn.softmax(joint, axis=1)
    mean = share @ shared.points
    j, k = pairs(q)
    spread = share @ products(shared.points) - mean[:, j] * mean[:, k]
    spread = jnp.where(j == k, jnp.maximum(spread, 0), spread)
    first = shared.points[jnp.argmax(joint - 0.5 * jnp.sum(shared.points**2, 1), axis=1)]
    peak = _mode(params, batch, first)
    return Posterior(mean, unpack(spread, q), peak.mean, peak.covariance)


def _mode(params: Params, batch: Batch, first: Float[Array, "rows latents"]) -> Gaussian:
    """Climb from here to the top of the posterior, and give the inverse of the expected curvature there."""

    def height(z: Float[Array, "rows latents"]) -> Float[Array, " rows"]:
        f = logits(params, z)
        observed = batch.values * jax.nn.log_sigmoid(f) + (batch.mask - batch.values) * jax.nn.log_sigmoid(-f)
        return observed.sum(1) - 0.5 * jnp.sum(z**2, 1)

    def around(z: Float[Array, "rows latents"]) -> tuple[Gaussian, Float[Array, "rows latents"]]:
        """Look uphill, by scoring: the gradient, by the prior and the information of the observed bits."""
        slopes = jax.vmap(jax.jacfwd(lambda z: logits(params, z[None])[0]))(z)
        p = decoded(params, z)
        uphill = jnp.einsum("nd,ndq->nq", batch.values - batch.mask * p, slopes) - z
        j, k = pairs(z.shape[1])
        known = jnp.einsum("nd,ndp->np", batch.mask * p * (1 - p), products(slopes)) + jnp.asarray(j == k, z.dtype)
        step = from_precision(known, uphill)[0]
        return Gaussian(z, step.scale), step.mean

    def climb(_: Any, z: Float[Array, "rows latents"]) -> Float[Array, "rows latents"]:
        _, step = around(z)
        tried = jnp.stack([z, *(z + length * step for length in (1.0, 0.5, 0.25, 0.0625))])  # the best is taken
        best = jnp.argmax(jax.vmap(height)(tried), axis=0)
        return jnp.take_along_axis(tried, best[None, :, None], axis=0)[0]

    return around(jax.lax.fori_loop(0, 25, climb, first))[0]


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    share, _ = _shares(shared, batch)
    return jnp.clip(share @ jnp.exp(shared.log_one), 0, 1)  # shares sum to 1 but for rounding


def _sample(
    structure: Structure, params: Params, shared: Shared, keys: Key[Array, " rows"]
) -> Float[Array, "rows columns"]:
    def one(key: Key[Array, ""]) -> Float[Array, " columns"]:
        latent, bits = jax.random.split(key)
        p = decoded(params, jax.random.normal(latent, (1, structure.q), params.bias.dtype))[0]
        return jax.random.bernoulli(bits, p).astype(p.dtype)

    return jax.vmap(one)(keys)


# ---------------------------------------------------------------- the record


@cache
def model(
    n_components: int = 2,
    widths: tuple[int, ...] = (64, 64),
    log2_nodes: int = 10,
    weight_prior: float | None = None,
    n_epochs: int = 100,
    n_blocks: int = 8,
    batch_size: int = tuning.ROWS_PER_UPDATE,
    rate: float = 3e-3,
    n_rows: float = 1000.0,
) -> Model:
    """Make the record of a latent trait model with a curved surface.

    Parameters
    ----------
    n_components
        Number of latent dimensions, q.
    widths
        Units of each layer.
    log2_nodes
        Points of a net are 2 to this power.
    weight_prior
        Standard deviation of a Gaussian prior on all weights; None for none.
    n_epochs, n_blocks, batch_size, rate
        Passes over the rows, updates of each, rows of an update, and the length of the first steps.
    n_rows
        Rows of the table that will be learned from, each as often as it counts.
    """
    structure = Structure(n_components, tuple(widths), 2**log2_nodes)
    settings = Settings(
        rate=rate,
        n_updates=float(max(1, n_epochs * n_blocks)),
        batch_size=float(batch_size),
        n_rows=float(n_rows),
        precision=None if weight_prior is None else 1 / weight_prior**2,
    )
    learning = Schedule(
        "Adam",
        row_floats=lambda n_columns: 3 * structure.n_points + 3 * n_columns,
        max_iter=n_epochs,
        rows_per_update=batch_size,
        stops_early=True,
    )
    return Model(
        name="curved latent trait",
        init=Partial(_init, structure),
        prepare=Partial(_prepare, structure),
        e_step=_e_step,
        update=Partial(_update, settings),
        objective=Partial(_objective, settings),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=decoded,
        complete=_complete,
        sample=Partial(_sample, structure),
        row_floats=lambda n_columns: (
            3 * tuning.LIKELIHOOD_NETS * structure.n_points + (8 + 2 * structure.q) * n_columns
        ),
        start=Adam.at_rest,
        stages=(learning,),
    )
