"""The first tree, from counts of pairs: the best one, where nothing is hidden."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.core import keys
from latentbits.core.arrays import AnyKey, namespace
from latentbits.core.model import Learned, Summary
from latentbits.core.pair_counts import Stats as PairCounts
from latentbits.core.special import TINY
from latentbits.models.latent_tree.messages import Counts
from latentbits.models.latent_tree.records import Params, Settings, Stats
from latentbits.models.latent_tree.structure import cells, joint_probabilities, mutual_information, spanning_tree
from latentbits.models.latent_tree.update import log, objective, update

__all__ = ["grown", "init"]

UNSURE = 0.1  # how far P(bit = 1) of a hidden state is from 0 or 1 at the beginning


def init(key: AnyKey, summary: Summary) -> Params:
    """Return a placeholder without a tree: pairs are counted first."""
    xp, d = namespace(summary), summary.mean.shape[0]
    return Params(
        xp.ones(1),
        xp.full((1, d), d, "int32"),
        xp.zeros((1, d)),
        xp.zeros((1, 0, 1), "int32"),
        xp.zeros((1, 0, 1), "int32"),
        xp.ones((1, d, 1, 1)),
        xp.full((1, d, 1), 0.5),
    )


def grown(
    settings: Settings,
    n_states: int | tuple[int, ...],
    n_trees: int,
    closed: bool,
    key: AnyKey,
    params: Params,
    state: PairCounts,
) -> Params | Learned:
    """Build the first tree from the counted pairs; where these say all, it is the best tree (`closed`).

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

    rng = np.random.default_rng(np.bitwise_xor(*keys.words(keys.raw(key), 4)))
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
    found: list[Any] = [np.full(n_trees, 1 / n_trees), *same, transition, np.array(emission)]
    first = Params(*found)
    if not closed or (np.asarray(state.observed) < np.asarray(state.n_rows)).any():
        return first
    return _best(settings, first, state)


def _best(settings: Settings, params: Params, counts: PairCounts) -> Learned:
    """Return the best tree of this shape whose states are the bits, from counts of complete rows."""
    parent, columns = params.parent[0], np.arange(params.parent.shape[1])
    n: Any = np.asarray(counts.n_rows)
    up = np.where(parent == len(columns), columns, parent)
    moved: Any = np.maximum(cells(counts)[:, :, up, columns], 0).transpose(2, 0, 1)[None]  # of a root with itself
    own = moved.sum(2, keepdims=True) * np.eye(2)
    log_p: Any = np.zeros(2)
    stats = Stats(n, log_p, n[None], Counts(moved, own[..., 1], own[..., 0]))
    params = update(settings, None, params, None, stats, None)[1]
    log_p[0] = (moved * log(params.transition)).sum()
    return Learned(params, float(objective(settings, params, None, stats)))
