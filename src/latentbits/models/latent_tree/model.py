"""Hidden causes on a tree: hidden Chow-Liu trees (Liu & Van den Broeck 2021), plain ones, and mixtures of them.

    p(x) = sum_m w_m sum_z prod_j P_m(z_j | z_parent(j)) P_m(x_j | z_j)

Every column has one hidden parent, with a few states, and these are joined by the spanning tree of
the largest mutual information between columns (Chow & Liu 1968), from one pass that counts pairs.  With states that are
the bits themselves (`hidden=False`) it is the Chow-Liu tree.  EM has exact posteriors (`messages.py`) and needs of the
rows nothing but expected counts.  A missing bit says nothing of its state, which marginalises it exactly.

A state of which P(z_j = t | z_parent) is 0 for every parent is none: this is how variables have fewer states than
others, since EM keeps such zeros, and pseudo-counts leave them out.
"""

from __future__ import annotations

from functools import cache, partial
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from jax.scipy.special import entr
from jax.tree_util import Partial
from jaxtyping import Float, Int, Key, ScalarLike

from latentbits.core import secants
from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, OnePass, Progress, Summary, Transform
from latentbits.core.pair_counts import Stats as PairCounts
from latentbits.core.pair_counts import count
from latentbits.core.secants import Secants
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows
from latentbits.models.latent_tree import messages
from latentbits.models.latent_tree.entropy import best_shares, entropies, spread_out
from latentbits.models.latent_tree.messages import Counts, Tree
from latentbits.models.latent_tree.structure import joint_probabilities, mutual_information, spanning_tree

__all__ = ["Params", "Posterior", "Shared", "Stats", "model"]

SHARE = 0.25  # of the passes made, whose gain says what is left: a few have less than float32 can tell, and EM crawls
ROUNDING = 1e-7  # of counts and objective: rows may be in float32
UNSEEN = 1e-4  # how flat directions may be that secants have not seen
UNSURE = 0.1  # how far P(bit = 1) of a hidden state is from 0 or 1 at the beginning


class Params(eqx.Module):
    """Trees, one after the other; states of the parent come before those of the column.

    Attributes
    ----------
    weights
        Share of the rows of each tree.
    parent
        The column that each hangs from; d for a root.
    information
        Mutual information of each column with its parent, nats, in the table; 0 for a root.
    steps, leaves
        The order in which sums run over a tree (`structure.py`).
    transition
        P(state | state of the parent); of a root the same for every state of what it hangs from.
    emission
        P(bit = 1 | state).
    """

    weights: Float[Array, " trees"]
    parent: Int[Array, "trees columns"]
    information: Float[Array, "trees columns"]
    steps: Int[Array, "trees steps width"]
    leaves: Int[Array, "trees batches together"]
    transition: Float[Array, "trees columns states states"]
    emission: Float[Array, "trees columns states"]


class Shared(eqx.Module):
    """Quantities shared by a pass: logs of shares, and the trees with logs of their emissions."""

    log_weights: Float[Array, " trees"]
    trees: Tree


class Stats(eqx.Module):
    """Sums over rows: of log p, of responsibilities of trees, and expected counts within each."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]
    members: Float[Array, " trees"]
    counts: Counts


class Posterior(eqx.Module):
    """P(tree, state of a column | x), tree after tree, column after column; and the most probable states together."""

    mean: Float[Array, "rows latents"]
    mode: Float[Array, "rows latents"]


class Settings(eqx.Module):
    """Settings of a model: numbers are arguments of its programs; fields that shapes depend on are static."""

    smoothing: ScalarLike
    softening: ScalarLike
    entropy: ScalarLike
    hidden: bool = eqx.field(static=True)
    spread: bool = eqx.field(static=True)  # whether entropy is wanted at all


def _prepare(settings: Settings, params: Params, state: Any, progress: Progress | None) -> Shared:
    emission = params.emission if progress is None else _softened(settings, params.emission)
    parts = (params.parent, params.steps, params.leaves, params.transition, *log_probabilities(emission))
    trees = jax.vmap(messages.laid_out)(*parts)
    return Shared(jnp.log(jnp.maximum(params.weights, TINY)), trees)


def _upward(shared: Shared, batch: Batch) -> tuple[messages.Upward, Float[Array, "trees rows"], Float[Array, " rows"]]:
    """Pass messages upward; return all of them, P(tree | x), and log p(x)."""
    found = jax.vmap(messages.up, in_axes=(0, None))(shared.trees, batch)
    log_joint = found.log_p + shared.log_weights[:, None]
    log_p = jax.nn.logsumexp(log_joint, axis=0)
    return found, jnp.exp(log_joint - log_p), log_p


def _e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    found, share, log_p = _upward(shared, batch)
    share = share * batch.weight
    counts = jax.vmap(messages.down, in_axes=(0, None, 0, 0))(shared.trees, batch, found, share)
    return Stats(batch.weight.sum(), sum_rows(batch.weight, log_p), share.sum(1), counts), None


def _states(shared: Shared, batch: Batch) -> Float[Array, "trees rows columns states"]:
    """Compute P(tree, state | x) of every column."""
    found, share, _ = _upward(shared, batch)
    each = jax.vmap(messages.states, in_axes=(0, None, 0))(shared.trees, batch, found)
    return each * share[:, :, None, None]


def _log_likelihood(params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
    return LogLikelihood.exact(_upward(shared, batch)[2])


def _in_a_row(x: Float[Array, "trees rows columns states"]) -> Float[Array, "rows latents"]:
    return x.transpose(1, 0, 2, 3).reshape(x.shape[1], -1)


def _infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
    k = params.emission.shape[2]
    log_joint, chosen = jax.vmap(messages.most_probable, in_axes=(0, None))(shared.trees, batch)
    best = jnp.argmax(log_joint + shared.log_weights[:, None], axis=0)
    taken = jax.nn.one_hot(best, len(shared.log_weights), axis=0)[:, :, None, None]
    mode = jax.nn.one_hot(chosen, k, dtype=batch.weight.dtype) * taken.astype(batch.weight.dtype)
    # posteriors sum to 1 but for rounding, and a probability above 1 is none
    return Posterior(jnp.minimum(_in_a_row(_states(shared, batch)), 1), _in_a_row(mode))


def _decode(params: Params, latents: Float[Array, "rows latents"]) -> Float[Array, "rows columns"]:
    m, d, k = params.emission.shape
    return jnp.clip(jnp.einsum("rmdt,mdt->rd", latents.reshape(-1, m, d, k), params.emission), 0, 1)


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    return jnp.clip(jnp.einsum("mrdt,mdt->rd", _states(shared, batch), params.emission), 0, 1)


def _sample(params: Params, shared: Shared, keys: Key[Array, " rows"]) -> Float[Array, "rows columns"]:
    log_transition = jnp.log(jnp.maximum(params.transition, TINY**2))
    d = params.emission.shape[1]

    def draw(key: Key[Array, ""]) -> Float[Array, " columns"]:
        which, hidden, bits = jax.random.split(key, 3)
        m = jax.random.categorical(which, shared.log_weights)
        parent = params.parent[m]

        def step(drawn: Int[Array, " nodes"], nodes: Int[Array, " width"]) -> tuple[Array, None]:
            above = drawn[parent.at[nodes].get(mode="fill", fill_value=d + 1)]
            logits = log_transition[m].at[nodes, above].get(mode="fill", fill_value=0)
            each = jax.vmap(partial(jax.random.fold_in, hidden))(nodes)
            return drawn.at[nodes].set(jax.vmap(jax.random.categorical)(each, logits)), None

        drawn, _ = jax.lax.scan(step, jnp.zeros(d + 2, int), params.steps[m], reverse=True)
        drawn, _ = jax.lax.scan(step, drawn, params.leaves[m])
        p = jnp.take_along_axis(params.emission[m], drawn[:d, None], axis=1)[:, 0]
        return jax.random.bernoulli(bits, p).astype(p.dtype)

    return jax.vmap(draw)(keys)


# ---------------------------------------------------------------- learning


def _means(counts: Counts, smoothing: ScalarLike) -> Float[Array, " columns"]:
    # posteriors sum to 1, so these are the plain column means, the same at every iteration
    ones, zeros = (x.sum((0, 2)) for x in (counts.ones, counts.zeros))
    return (ones + smoothing / 2) / jnp.maximum(ones + zeros + smoothing, TINY)


def _pseudo(settings: Settings, params: Params, counts: Counts) -> Counts:
    """Make the pseudo-counts of `smoothing` rows per variable, even over states, with the column's mean."""
    there = params.transition > 0
    moved = settings.smoothing * there / jnp.maximum(there.sum((2, 3), keepdims=True), 1)
    states = there.any(2)
    seen = settings.smoothing * states / jnp.maximum(states.sum(2, keepdims=True), 1)
    mean = _means(counts, settings.smoothing)[:, None]
    return Counts(jnp.asarray(moved), jnp.asarray(seen * mean), jnp.asarray(seen * (1 - mean)))


def _softened(settings: Settings, emission: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute P(bit = 1 | state) of bits that are sometimes flipped."""
    return emission + settings.softening * (1 - 2 * emission)


def _before_flips(settings: Settings, params: Params, counts: Counts) -> Counts:
    """Infer expected counts of the bits before they were flipped from counts of the bits seen."""
    e, seen_one = params.emission, _softened(settings, params.emission)
    kept = (1 - settings.softening) * e / jnp.maximum(seen_one, TINY)  # of ones, how many were ones
    flipped = settings.softening * e / jnp.maximum(1 - seen_one, TINY)  # of zeros
    ones = counts.ones * kept + counts.zeros * flipped
    return Counts(counts.moved, ones, counts.ones * (1 - kept) + counts.zeros * (1 - flipped))


def _objective(settings: Settings, params: Params, shared: Shared, stats: Stats) -> Float[Array, ""]:
    more = _pseudo(settings, params, stats.counts)
    log_transition = jnp.log(jnp.where(params.transition > 0, params.transition, 1))
    penalty = jnp.sum(more.moved * log_transition)
    if settings.hidden:
        log_one, log_zero = log_probabilities(params.emission)
        penalty += jnp.sum(more.ones * log_one + more.zeros * log_zero)
    if settings.spread:
        each = jax.vmap(entropies)(*_forms(params), params.transition, params.emission)
        penalty += stats.n_rows * settings.entropy * jnp.sum(entr(params.weights) + params.weights * each)
    return stats.log_likelihood.sum() + penalty


def _update(
    settings: Settings, state: Secants | None, params: Params, shared: Shared, stats: Stats, progress: Progress
) -> tuple[Secants | None, Params]:
    counts = _before_flips(settings, params, stats.counts)
    counts = jax.tree.map(jnp.add, counts, _pseudo(settings, params, stats.counts))
    # a root's transitions are one distribution; what hangs above it has no state
    root = (params.parent == params.parent.shape[1])[:, :, None, None]
    moved = jnp.where(root, counts.moved.sum(2, keepdims=True), counts.moved)
    if settings.spread:
        return None, _spread_out(settings, params, eqx.tree_at(lambda c: c.moved, counts, moved), stats)
    bits = jnp.stack([counts.ones, counts.zeros], -1) * settings.hidden  # else states are the bits
    owned = _Shares(stats.members, jnp.where(root, moved / moved.shape[3], moved), bits)
    total = jax.tree.map(lambda n: jnp.broadcast_to(n.sum(-1, keepdims=True), n.shape), owned)
    at = _Shares.of(params)
    plain = jax.tree.map(
        lambda n, n_all, p: jnp.where(n_all > 0, n / jnp.where(n_all > 0, n_all, 1), p), owned, total, at
    )
    if state is None:
        return None, _with(params, plain.weights, plain.transition, plain.bits[..., 0])
    x, image, n, n_all = (ravel_pytree(parts)[0] for parts in (at, plain, owned, total))
    x, value = jnp.sqrt(x), _objective(settings, params, shared, stats)
    state, ahead = secants.advance(
        state,
        x,
        value,
        jnp.sqrt(image),
        2 * (n / jnp.where(x > 0, x, 1) - n_all * x),
        2 * jnp.sqrt(jnp.maximum(n_all, 1)),
        slack=ROUNDING * jnp.abs(value),
        floor=jnp.asarray(ROUNDING**2 * 1000 * x.size),
        unseen=UNSEEN,
    )
    return state, _params_at(params, ahead)


class _Shares(NamedTuple):
    """Learned numbers, as distributions along the last axis; or counts in their place."""

    weights: Float[Array, " trees"]
    transition: Float[Array, "trees columns states states"]
    bits: Float[Array, "trees columns states 2"]

    @classmethod
    def of(cls, params: Params) -> _Shares:
        return cls(params.weights, params.transition, jnp.stack([params.emission, 1 - params.emission], -1))


def _start(params: Params) -> Secants:
    """Begin with no point seen.

    Roots of probabilities are coordinates in which the information of the complete data is four times a count, so that
    EM is a step along the gradient there, and any numbers are probabilities once they are squared and divided by
    their sum.
    """
    return secants.start(jnp.sqrt(ravel_pytree(_Shares.of(params))[0]))


def _params_at(params: Params, x: Float[Array, " size"]) -> Params:
    """Return the parameters at a point; states that do not exist keep probability 0."""
    _, restore = ravel_pytree(_Shares.of(params))
    squares = restore(x**2)
    weights, transition, bits = (s / jnp.maximum(s.sum(-1, keepdims=True), TINY**2) for s in squares)
    return _with(params, weights, transition, bits[..., 0])


def _with(params: Params, *learned: Array) -> Params:
    return eqx.tree_at(lambda p: (p.weights, p.transition, p.emission), params, learned)


def _forms(params: Params) -> tuple[Array, Array, Array]:
    return params.parent, params.steps, params.leaves


def _spread_out(settings: Settings, params: Params, counts: Counts, stats: Stats) -> Params:
    """Update with the entropy's reward (`entropy.py`); the shares of trees come last."""
    worth = jnp.asarray(stats.n_rows * settings.entropy)
    sweep = jax.vmap(partial(spread_out, hidden=settings.hidden))
    learned = params.transition, params.emission
    transition, emission, each = sweep(*_forms(params), *learned, counts, worth * params.weights)
    return _with(params, best_shares(stats.members, each, worth), transition, emission)


def _init(key: Key[Array, ""], summary: Summary) -> Params:
    """Return a placeholder without a tree: pairs are counted first."""
    d = summary.mean.shape[0]
    return Params(
        jnp.ones(1),
        jnp.full((1, d), d, jnp.int32),
        jnp.zeros((1, d)),
        jnp.zeros((1, 0, 1), jnp.int32),
        jnp.zeros((1, 0, 1), jnp.int32),
        jnp.ones((1, d, 1, 1)),
        jnp.full((1, d, 1), 0.5),
    )


def _count(params: Params, shared: None, batch: Batch, row_state: None) -> tuple[PairCounts, None]:
    return count(batch), None


def _keep(
    state: None, params: Params, shared: None, stats: PairCounts, progress: Progress
) -> tuple[PairCounts, Params]:
    return stats, params


def _no_objective(params: Params, shared: None, stats: PairCounts) -> Float[Array, ""]:
    return jnp.zeros(())


def _unprepared(params: Params, state: Any, progress: Progress | None) -> None:
    """Prepare nothing: pairs are counted before there is a tree."""


def _no_state(params: Params) -> None:
    """Carry no state: counting has no optimiser."""


def _grown(
    settings: Settings,
    n_states: int | tuple[int, ...],
    n_trees: int,
    key: Key[Array, ""],
    params: Params,
    state: PairCounts,
) -> Params:
    """Build the first tree from the counted pairs.

    Hidden states begin as two kinds, of rows with a 0 and with a 1 in the column, each several times and a little
    different: near the plain tree, and nowhere two alike.
    """
    joint = joint_probabilities(state, max(float(np.asarray(settings.smoothing)), 1.0))
    information = mutual_information(joint)
    d = len(information)
    tree = spanning_tree(information)
    columns, roots = np.arange(d), tree.parent == d
    up = np.where(roots, columns, tree.parent)
    sizes = np.broadcast_to(np.asarray(n_states) if settings.hidden else 2, d)
    k = int(sizes.max())
    kind = np.arange(k) % 2  # of a state: of a 0 or a 1
    there = np.arange(k) < sizes[:, None]
    pair = joint[:, :, up, columns]  # by the bit of the parent, of the column; of a root with itself
    mean = joint[1].sum(0)[columns, columns]
    given = np.where(roots, np.stack([1 - mean, mean])[None], pair / np.maximum(pair.sum(1, keepdims=True), TINY))
    given = given[kind[:, None], kind].transpose(2, 0, 1)  # (columns, states, states)

    rng = np.random.default_rng(np.asarray(jax.random.bits(key, (4,))))
    shape = (n_trees, d, k, k)
    uneven = rng.uniform(0.5, 1.5, shape) if settings.hidden else np.ones(shape)
    transition = (given + (1e-3 if settings.hidden else 0.0)) * uneven * there[:, None]
    transition = np.where(roots[:, None, None], transition[:, :, :1], transition)
    transition /= transition.sum(3, keepdims=True)
    transition *= (roots[:, None] | there[up])[:, :, None]  # from states of the parent that there are
    if settings.hidden:
        pull = rng.uniform(0.5, 1.0, shape[:3]) * (1 - UNSURE) * (sizes[:, None] > 1)
        emission = mean[:, None] + pull * (kind - mean[:, None])
    else:
        emission = np.broadcast_to([0.0, 1.0], shape[:3])
    edges = np.where(roots, 0.0, information[up, columns])
    same = [np.broadcast_to(x, (n_trees, *x.shape)) for x in (tree.parent, edges, tree.steps, tree.leaves)]
    found = (np.full(n_trees, 1 / n_trees), *same, transition, emission)
    return Params(*(jnp.asarray(x) for x in found))


@cache
def model(
    n_states: int | tuple[int, ...] = 8,
    n_trees: int = 1,
    hidden: bool = True,
    smoothing: float = 1.0,
    softening: float = 0.0,
    entropy: float = 0.0,
    accelerate: bool = True,
) -> Model:
    """Make a model of hidden causes on a tree.

    Parameters
    ----------
    n_states
        States of each hidden variable, one number for all columns or one for each.
    n_trees
        Trees in the mixture.
    hidden
        Without, states are the bits themselves: the Chow-Liu tree.
    smoothing
        Pseudo-rows that every variable sees beside the data, spread evenly over its states.
    softening
        In learning bits are taken to have been flipped with this probability.
    entropy
        Nats per row that a nat of the entropy of tree, states and bits together is worth.
    accelerate
        Secants (`core/secants.py`), where no entropy is wanted.  Without, EM goes step by step.
    """
    settings = Settings(smoothing, softening, entropy, hidden, entropy > 0)
    measure = Measure.REGULARISED if entropy > 0 else Measure.LIKELIHOOD
    k = 2 if not hidden else max(n_states) if isinstance(n_states, tuple) else n_states
    counting = OnePass(
        "counting pairs",
        measure=Measure.PROGRESS,
        comparable=False,
        prepare=_unprepared,
        e_step=_count,
        objective=_no_objective,
        start=_no_state,
        update=_keep,
        row_floats=lambda n_columns: max(1, n_columns // 4),  # bytes, which are packed
    )
    return Model(
        name="latent tree",
        init=_init,
        prepare=Partial(_prepare, settings),
        e_step=_e_step,
        update=Partial(_update, settings),
        objective=Partial(_objective, settings),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 4 * n_trees * n_columns * k,
        stages=(
            counting,
            Transform("spanning tree", partial(_grown, settings, n_states, n_trees)),
            Iterate("EM", measure=measure, stops_early=True, patience_share=SHARE),
        ),
        start=_start if accelerate and not settings.spread else None,
        left=secants.left if accelerate and not settings.spread else None,
    )
