"""A small tree with states, as `LatentTree` has one, without a fit."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np

PARENTS = np.array([1, -1, 1, 2, 2, 3, 3, 0, 0, 8, 4, 10])


def small_tree(n_states: int = 3, hidden: bool = True, n_trees: int = 1, seed: int = 0) -> SimpleNamespace:
    """Twelve columns; the last has next to nothing in common with the one that it hangs from."""
    rng = np.random.default_rng(seed)
    d, k = len(PARENTS), n_states if hidden else 2
    transitions = rng.dirichlet(np.ones(k), (n_trees, d, k))
    transitions[:, PARENTS < 0] = transitions[:, PARENTS < 0, :1]
    information = np.where(PARENTS < 0, 0.0, np.linspace(0.5, 0.1, d))
    information[-1] = 1e-5
    emissions = rng.random((n_trees, d, k)) if hidden else np.broadcast_to([0.0, 1.0], (n_trees, d, k))
    return SimpleNamespace(
        weights_=np.arange(1, n_trees + 1) / np.arange(1, n_trees + 1).sum(),
        parents_=np.tile(PARENTS, (n_trees, 1)),
        information_=np.tile(information, (n_trees, 1)),
        transitions_=transitions,
        emissions_=emissions,
        hidden=hidden,
        n_features_in_=d,
    )
