"""Hidden causes on a tree: hidden Chow-Liu trees (Liu & Van den Broeck 2021), plain ones, and mixtures of them.

    p(x) = sum_m w_m sum_z prod_j P_m(z_j | z_parent(j)) P_m(x_j | z_j)

Every column has one hidden parent, with a few states, and these are joined by the spanning tree of
the largest mutual information between columns (Chow & Liu 1968), from one pass that counts pairs.  With states that are
the bits themselves (`hidden=False`) it is the Chow-Liu tree, which of complete rows needs nothing else.  EM has exact
posteriors (`messages.py`) and needs of the rows nothing but expected counts.  A missing bit says nothing of its state,
which marginalises it exactly.

A state of which P(z_j = t | z_parent) is 0 for every parent is none: this is how variables have fewer states than
others, since EM keeps such zeros, and pseudo-counts leave them out.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Float, Int, Key

from latentbits.core.arrays import Array, each, namespace
from latentbits.core.batch import Batch
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.model import Iterate, LogLikelihood, Measure, Model, Progress, Transform
from latentbits.core.pair_counts import COUNTING
from latentbits.core.special import TINY, log_probabilities
from latentbits.core.tree import sum_rows
from latentbits.models.latent_tree import messages
from latentbits.models.latent_tree.growth import grown, init
from latentbits.models.latent_tree.messages import Counts
from latentbits.models.latent_tree.records import Params, Posterior, Settings, Shared, Stats
from latentbits.models.latent_tree.update import forms, objective, softened, start, update

__all__ = ["Params", "Posterior", "Shared", "Stats", "model"]

T = TypeVar("T")

# Passes whose gain says what is left, at least and as a share of those made: EM crawls, and a few passes gain less than
# float32 can tell.  Along 12 accelerated climbs this left less than the tolerance in ten, 1.4 and 1.6 times it in two;
# of eight climbs of small tables 10 passes at least left more than it in three, up to 3 times, and 30 in none.
PATIENCE, SHARE = 3, 0.25
ACCELERATED_PATIENCE, ACCELERATED_SHARE = 30, 0.15


def _prepare(settings: Settings, params: Params, state: Any, progress: Progress | None) -> Shared:
    xp, emission = namespace(params), params.emission if progress is None else softened(settings, params.emission)
    log_one, log_zero = log_probabilities(emission)
    trees = each(messages.laid_out, *forms(params), params.transition, log_one, log_zero)
    log_cells = None
    if not (settings.hidden or (progress is not None and settings.soft)):
        bits = xp.exp(xp.stack([log_zero, log_one], -1))
        log_cells = xp.log(xp.maximum(xp.einsum("mjst,mjtb->mjsb", params.transition, bits), TINY**2))
    return Shared(xp.log(xp.maximum(params.weights, TINY)), trees, log_cells)


def _each_tree(function: Callable[..., T], *stacked: Any) -> T:
    """Map a function over trees; where there is one, places are known without asking for each tree."""
    if len(jax.tree.leaves(stacked)[0]) > 1:
        return jax.vmap(function)(*stacked)
    return jax.tree.map(lambda x: x[None], function(*jax.tree.map(lambda x: x[0], stacked)))


def _upward(shared: Shared, batch: Batch) -> tuple[messages.Upward, Float[Array, "trees rows"], Float[Array, " rows"]]:
    """Pass messages upward; return all of them, P(tree | x), and log p(x)."""
    found = _each_tree(lambda tree: messages.up(tree, batch), shared.trees)
    return found, *_shares(found.log_p + shared.log_weights[:, None])


def _shares(log_joint: Float[Array, "trees rows"]) -> tuple[Float[Array, "trees rows"], Float[Array, " rows"]]:
    """Return P(tree | x) and log p(x)."""
    xp, top = namespace(log_joint), log_joint.max(0)
    log_p = top + xp.log(xp.exp(log_joint - top).sum(0))
    return xp.exp(log_joint - log_p), log_p


def _nothing_hidden(shared: Shared, batch: Batch) -> bool:
    """Whether rows have all that there is: then p(x) is a product of parameters, and counts are those of pairs."""
    return shared.log_cells is not None and batch.observed is None


def _above(parent: Int[Array, " columns"], x: Float[Array, "rows columns"]) -> Float[Array, "rows columns"]:
    """Return the bit of each column's parent, 0 where there is none."""
    xp = namespace(x)
    return xp.concatenate([x, xp.zeros_like(x[:, :1])], 1)[:, parent]


def _log_joint(params: Params, shared: Shared, batch: Batch) -> Float[Array, "trees rows"]:
    """Compute log P(tree, x) of rows in which nothing is hidden."""
    x = batch.values

    def of_tree(parent: Int[Array, " columns"], log: Float[Array, "columns 2 2"]) -> Float[Array, " rows"]:
        above = _above(parent, x)
        # sums of one sign
        ones = (above * x) @ log[:, 1, 1] + ((1 - above) * x) @ log[:, 0, 1]
        return ones + (above * (1 - x)) @ log[:, 1, 0] + ((1 - above) * (1 - x)) @ log[:, 0, 0]

    return each(of_tree, params.parent, shared.log_cells) + shared.log_weights[:, None]


def _counts(params: Params, batch: Batch, share: Float[Array, "trees rows"]) -> Counts:
    """Count pairs of each bit and its parent's in rows in which nothing is hidden."""
    xp, x = namespace(batch), batch.values

    def of_tree(parent: Int[Array, " columns"], share: Float[Array, " rows"]) -> Counts:
        above = _above(parent, x)
        pairs = [[over_rows(share[:, None], a * b)[0] for b in (1 - x, x)] for a in (1 - above, above)]
        moved = xp.stack([xp.stack(of_one, -1) for of_one in pairs], 1)
        own = moved.sum(1, keepdims=True) * xp.eye(2, dtype=x.dtype)
        return Counts(moved, own[..., 1], own[..., 0])

    return each(of_tree, params.parent, share)


def _as_states(batch: Batch) -> Float[Array, "1 rows columns 2"]:
    return namespace(batch).stack([1 - batch.values, batch.values], -1)[None]


def _e_step(params: Params, shared: Shared, batch: Batch, row_state: None) -> tuple[Stats, None]:
    if _nothing_hidden(shared, batch):
        share, log_p = _shares(_log_joint(params, shared, batch))
        share = share * batch.weight
        counts = _counts(params, batch, share)
    else:
        found, share, log_p = _upward(shared, batch)
        share = share * batch.weight
        counts = _each_tree(lambda *of: messages.down(of[0], batch, *of[1:]), shared.trees, found, share)
    return Stats(batch.weight.sum(), sum_rows(batch.weight, log_p), share.sum(1), counts), None


def _states(params: Params, shared: Shared, batch: Batch) -> Float[Array, "trees rows columns states"]:
    """Compute P(tree, state | x) of every column."""
    if _nothing_hidden(shared, batch):
        own, share = _as_states(batch), _shares(_log_joint(params, shared, batch))[0]
    else:
        found, share, _ = _upward(shared, batch)
        own = _each_tree(lambda tree, found: messages.states(tree, batch, found), shared.trees, found)
    return own * share[:, :, None, None]


def _log_likelihood(params: Params, shared: Shared, batch: Batch) -> LogLikelihood:
    if _nothing_hidden(shared, batch):
        return LogLikelihood.exact(_shares(_log_joint(params, shared, batch))[1])
    return LogLikelihood.exact(_upward(shared, batch)[2])


def _in_a_row(x: Float[Array, "trees rows columns states"]) -> Float[Array, "rows latents"]:
    return x.transpose(1, 0, 2, 3).reshape(x.shape[1], -1)


def _infer(params: Params, shared: Shared, batch: Batch) -> Posterior:
    (m, _, k), xp, dtype = params.emission.shape, namespace(batch), batch.weight.dtype
    if _nothing_hidden(shared, batch):
        log_joint, own = _log_joint(params, shared, batch), _as_states(batch)
    else:
        log_joint, chosen = _each_tree(lambda tree: messages.most_probable(tree, batch), shared.trees)
        log_joint, own = log_joint + shared.log_weights[:, None], jax.nn.one_hot(chosen, k, dtype=dtype)
    taken = (xp.arange(m)[:, None] == xp.argmax(log_joint, axis=0)).astype(dtype)
    # posteriors sum to 1 but for rounding, and a probability above 1 is none
    mean = xp.minimum(_in_a_row(_states(params, shared, batch)), 1)
    return Posterior(mean, _in_a_row(own * taken[:, :, None, None]))


def _decode(params: Params, latents: Float[Array, "rows latents"]) -> Float[Array, "rows columns"]:
    (m, d, k), xp = params.emission.shape, namespace(latents)
    return xp.clip(xp.einsum("rmdt,mdt->rd", latents.reshape(-1, m, d, k), params.emission), 0, 1)


def _complete(params: Params, shared: Shared, batch: Batch) -> Float[Array, "rows columns"]:
    xp = namespace(batch)
    return xp.clip(xp.einsum("mrdt,mdt->rd", _states(params, shared, batch), params.emission), 0, 1)


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


@cache
def model(
    n_states: int | tuple[int, ...] = 8,
    n_trees: int = 1,
    hidden: bool = True,
    smoothing: float = 1.0,
    softening: float = 0.0,
    entropy: float = 0.0,
    accelerate: bool = True,
    closed: bool = True,
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
        L-BFGS (`core/lbfgs.py`), where no entropy is wanted.  Without, EM goes step by step.
    closed
        Whether the best tree without hidden states comes from counts where rows are complete; without, from EM.
    """
    settings = Settings(smoothing, softening, entropy, hidden, softening > 0, entropy > 0)
    measure = Measure.REGULARISED if entropy > 0 else Measure.LIKELIHOOD
    k = 2 if not hidden else max(n_states) if isinstance(n_states, tuple) else n_states
    accelerated = accelerate and not settings.spread
    patience, share = (ACCELERATED_PATIENCE, ACCELERATED_SHARE) if accelerated else (PATIENCE, SHARE)
    closed = closed and not hidden and n_trees == 1 and softening == 0 and entropy == 0
    return Model(
        name="latent tree",
        init=init,
        prepare=Partial(_prepare, settings),
        e_step=_e_step,
        update=Partial(update, settings),
        objective=Partial(objective, settings),
        log_likelihood=_log_likelihood,
        infer=_infer,
        decode=_decode,
        complete=_complete,
        sample=_sample,
        row_floats=lambda n_columns: 4 * n_trees * n_columns * k,
        stages=(
            COUNTING,
            Transform("spanning tree", partial(grown, settings, n_states, n_trees, closed)),
            Iterate("EM", measure=measure, stops_early=True, patience=patience, patience_share=share),
        ),
        start=start if accelerated else None,
        needs_summary=False,
        on_host=not settings.spread,
        rows_on_host="never" if hidden or settings.soft else "complete",
    )
