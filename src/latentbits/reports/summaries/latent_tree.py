"""Causes on a tree: which columns are neighbours, how much they have in common, and what the states are."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.numbers import measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.records import Gallery, Rows, Shown, Summary, Tree
from latentbits.reports.trees import BITS_PER_NAT, around, beyond_chance, by_state, edges_of, outline, state_shares

__all__ = ["show", "summarize"]

MOST_TRANSITIONS = 2**21  # numbers of 4 bytes: 8 MB of a page, before it is compressed


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the edges of the largest tree, the strongest first, and the states of the columns that they join."""
    tree = int(np.argmax(model.weights_))
    parents, information = model.parents_[tree], model.information_[tree] * BITS_PER_NAT
    edges, names = edges_of(parents, information).tolist(), rows.names
    sure = beyond_chance(model.information_[tree], rows.n_rows)
    shares = state_shares(parents, model.transitions_[tree])
    facts: dict[str, Any] = {
        "edges": [[names[j], names[parents[j]], float(information[j])] for j in edges],
        "edges_beyond_chance": int(sure.sum()),
        "shares": model.weights_.tolist(),
    }
    columns = {
        "hangs from": [names[parents[j]] for j in edges],
        "bits in common": measured(information[edges], form=".3f"),
        "": ["" if sure[j] else "no more than chance" for j in edges],
    }
    of = f" of the largest of {len(model.weights_)} trees, of {model.weights_[tree]:.1%} of the rows"
    title = f"Edges{of if len(model.weights_) > 1 else ''}"
    found = Table([names[j] for j in edges], columns, title, corner="column")
    tables = [found.first(20, "{} more: --items writes all")] if edges else []
    if model.hidden and model.emissions_.shape[2] > 1:
        tables.append(_states(model.emissions_[tree], shares, _joined(parents, edges), names))
    return Summary(facts, tuple(tables), {"items": lambda: _columns(model, shares, tree, names)})


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the trees, the largest first."""
    hidden = bool(model.hidden) and model.emissions_.shape[2] > 1
    trees = []
    for m in np.argsort(-model.weights_, kind="stable").tolist():
        parents, information = model.parents_[m], model.information_[m]
        transitions, emissions = by_state(model.transitions_[m], model.emissions_[m], parents)
        kept = model.transitions_.size <= MOST_TRANSITIONS
        trees.append(
            Tree(
                float(model.weights_[m]),
                parents,
                information * BITS_PER_NAT,
                (parents >= 0) & beyond_chance(information, n_rows),
                *outline(parents, information),
                around(parents, information),
                transitions if kept else None,
                emissions if kept else None,
                hidden,
            )
        )
    about = "Columns that have most in common are neighbours on a tree: the thicker an edge, the more they have. "
    about += (
        "Each has a hidden cause with a few states, and a cause depends on the causes beside it alone."
        if hidden
        else "Nothing is hidden: given its neighbours, a bit is independent of the others."
    )
    return Shown(Gallery(name, about, "probability", (), trees=tuple(trees)))


def _joined(parents: np.ndarray, edges: list[int]) -> list[int]:
    """Find the first columns that edges join, in their order."""
    return list(dict.fromkeys(j for edge in edges for j in (edge, int(parents[edge]))))[:8]


def _states(emissions: np.ndarray, shares: np.ndarray, columns: list[int], names: tuple[str, ...]) -> Table:
    """Make one row a column: its states, the commonest first, with P(bit = 1 | state)."""
    words = []
    for j in columns:
        # others would be printed as 0 %
        common = [t for t in np.argsort(-shares[j], kind="stable") if shares[j, t] >= 0.005]
        words.append(", ".join(f"{emissions[j, t]:.2f} in {shares[j, t]:.0%}" for t in common))
    some = f" ({len(columns)} of {len(names)} columns)" if len(columns) < len(names) else ""
    chosen = [names[j] for j in columns]
    return Table(chosen, {"P(1) in its states, with their shares": words}, f"States{some}", corner="column")


def _columns(model: Any, shares: np.ndarray, tree: int, names: tuple[str, ...]) -> Table:
    """Make one row a column of the largest tree: the column that it hangs from, what they share, its states.

    Formats without text have that column by its number, counted from 0; for a root it is empty, and -1.
    """
    parents = model.parents_[tree]
    columns = {
        "parent": [names[p] if p >= 0 else "" for p in parents.tolist()],
        "parent_number": parents,
        "bits_in_common": model.information_[tree] * BITS_PER_NAT,
        **{f"share_{t + 1}": share for t, share in enumerate(shares.T)},
        **{f"p_{t + 1}": p for t, p in enumerate(model.emissions_[tree].T)},
    }
    return Table(list(names), columns, corner="item")
