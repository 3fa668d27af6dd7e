"""Causes on a tree: which columns are neighbours, how much they tell of each other, and what the states are."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.telling.plain import show
from latentbits.telling.records import Printed, Table, Told

__all__ = ["show", "tell"]

MOST_EDGES = 20


def tell(model: Any, table: Table) -> Told:
    """The edges of the largest tree, those with the most mutual information first."""
    tree = int(np.argmax(model.weights_))
    names = [str(name) for name in getattr(model, "feature_names_in_", range(model.n_features_in_))]
    parents, information = model.parents_[tree], model.information_[tree] / np.log(2)
    edges = [j for j in np.argsort(-information, kind="stable").tolist() if parents[j] >= 0]
    lines = [[names[j], names[parents[j]], f"{information[j]:.3f}"] for j in edges[:MOST_EDGES]]
    facts = {
        "edges": [[names[j], names[parents[j]], float(information[j])] for j in edges],
        "shares": model.weights_.tolist(),
    }
    return Told(facts, (Printed(["column", "hangs from", "bits in common"], lines),))
