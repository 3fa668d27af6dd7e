"""Causes on a tree: which columns are neighbours, how much they tell of each other, and what the states are."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Gallery, Printed, Shown, Table, Told, Tree, Values
from latentbits.reports.trees import BITS, around, beyond_chance, by_state, edges_of, outline, state_shares

__all__ = ["show", "tell"]

MOST_EDGES = 20  # printed; JSON has all
MOST_STATES = 8  # columns whose states are printed
MOST_NUMBERS = 2**21  # transitions that a page holds
RARE = 0.005  # share below which a state is not printed


def tell(model: Any, table: Table) -> Told:
    """The edges of the largest tree, those with the most in common first, and the states of the columns they join."""
    tree = int(np.argmax(model.weights_))
    parents, information = model.parents_[tree], model.information_[tree] * BITS
    edges, names = edges_of(parents, information).tolist(), table.names
    sure = beyond_chance(model.information_[tree], table.n_rows)
    shares = state_shares(parents, model.transitions_[tree])
    facts: dict[str, Any] = {
        "edges": [[names[j], names[parents[j]], float(information[j])] for j in edges],
        "edges_beyond_chance": int(sure.sum()),
        "shares": model.weights_.tolist(),
    }
    lines = [
        [names[j], names[parents[j]], f"{information[j]:.3f}", "" if sure[j] else "no more than chance"]
        for j in edges[:MOST_EDGES]
    ]
    some = f" ({MOST_EDGES} of {len(edges)}; --items writes all)" if len(edges) > MOST_EDGES else ""
    of = f" of the largest of {len(model.weights_)} trees, of {model.weights_[tree]:.1%} of the rows"
    title = f"Edges{of if len(model.weights_) > 1 else ''}{some}"
    printed = [Printed(["column", "hangs from", "bits in common", ""], lines, left=2, title=title)] if edges else []
    if model.hidden and model.emissions_.shape[2] > 1:
        printed.append(_states(model.emissions_[tree], shares, _joined(parents, edges), names))
    return Told(facts, tuple(printed), {"items": lambda: _columns(model, shares, tree, names)})


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The trees, the largest first."""
    hidden = bool(model.hidden) and model.emissions_.shape[2] > 1
    trees = []
    for m in np.argsort(-model.weights_, kind="stable").tolist():
        parents, information = model.parents_[m], model.information_[m]
        transitions, emissions = by_state(model.transitions_[m], model.emissions_[m], parents)
        kept = model.transitions_.size <= MOST_NUMBERS
        trees.append(
            Tree(
                float(model.weights_[m]),
                parents,
                information * BITS,
                (parents >= 0) & beyond_chance(information, n_rows),
                *outline(parents, information),
                around(parents, information),
                transitions if kept else None,
                emissions if kept else None,
                hidden,
            )
        )
    about = "Columns that tell most of each other are neighbours on a tree: the thicker an edge, the more they do. "
    about += (
        "Each has a hidden cause with a few states, and a cause depends on the causes beside it alone."
        if hidden
        else "Nothing is hidden: given its neighbours, a bit tells nothing of the others."
    )
    return Shown(Gallery(name, about, "probability", (), trees=tuple(trees)))


def _joined(parents: np.ndarray, edges: list[int]) -> list[int]:
    """The first columns that edges join, in their order."""
    return list(dict.fromkeys(j for edge in edges for j in (edge, int(parents[edge]))))[:MOST_STATES]


def _states(emissions: np.ndarray, shares: np.ndarray, columns: list[int], names: tuple[str, ...]) -> Printed:
    """One line a column: its states, the commonest first, with P(bit = 1 | state)."""
    lines = []
    for j in columns:
        common = [t for t in np.argsort(-shares[j], kind="stable") if shares[j, t] >= RARE]
        lines.append([names[j], ", ".join(f"{emissions[j, t]:.2f} in {shares[j, t]:.0%}" for t in common)])
    some = f" ({len(columns)} of {len(names)} columns)" if len(columns) < len(names) else ""
    return Printed(["column", "P(1) in its states, with their shares"], lines, left=2, title=f"States{some}")


def _columns(model: Any, shares: np.ndarray, tree: int, names: tuple[str, ...]) -> Values:
    """One line a column of the largest tree: the one that it hangs from, what they share, its states.

    Formats without text have that one by its number, counted from 0; of a root it is empty, and -1.
    """
    k, parents = model.emissions_.shape[2], model.parents_[tree]
    columns = [
        "parent_number",
        "bits_in_common",
        *(f"share_{t + 1}" for t in range(k)),
        *(f"p_{t + 1}" for t in range(k)),
    ]
    information = model.information_[tree] * BITS
    values = np.column_stack([parents, information, shares, model.emissions_[tree]])
    above = tuple(names[p] if p >= 0 else "" for p in parents.tolist())
    return Values(names, tuple(columns), values, words={"parent": above})
