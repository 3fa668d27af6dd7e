"""Programs of a model: what they are compiled for, the nodes they learn with, and the numbers they hold per row."""

from __future__ import annotations

from functools import cache
from typing import Any

from jax.tree_util import Partial

from latentbits.core import nodes
from latentbits.core.module import Module, static
from latentbits.models.latent_trait import quadrature, tuning
from latentbits.models.latent_trait.column_kinds import Columns

__all__ = [
    "Count",
    "Structure",
    "count_for",
    "floats_of_bound",
    "floats_of_grid",
    "floats_of_nodes",
    "floats_of_use",
    "nodes_by",
    "with_settings",
]


class Structure(Module):
    """Shapes that the programs of a model are compiled for."""

    q: int = static()  # number of latent dimensions
    columns: Columns = static()  # which columns are of what kind
    tied: bool = static()  # one weight for all columns
    accelerate: bool = static()  # whether parameters are expanded and steps extrapolated

    @property
    def on_grid(self) -> bool:
        """Whether dimensions are few enough for a product rule."""
        return self.q <= nodes.MOST_GRID


class Count(Module):
    """A number of nodes, samples or rounds, which shapes depend on."""

    n: int = static()


def with_settings(function: Any, *settings: Any) -> Any:
    """Bind settings to a function: numbers among them are arguments of the program, the rest is its structure.

    Compiled code is found by the identity of what this returns, so the same settings give the same object.
    """
    return _once(function, settings)


@cache
def _once(function: Any, settings: tuple[Any, ...]) -> Any:
    return Partial(function, *settings)


def nodes_by(structure: Structure, n_nodes: Count | None, n_columns: int) -> int:
    """Choose how many nodes to learn with; None goes by the number of columns."""
    if n_nodes is not None:
        return n_nodes.n
    return quadrature.nodes_at_first(structure.q, n_columns) if structure.on_grid else tuning.LAST_NET_LOG2_POINTS


def count_for(structure: Structure, n_nodes: int | None, seen: int | None) -> Count | None:
    """Choose nodes to learn with: those given, else by the columns that rows have observed; None leaves it to all."""
    if n_nodes is None and seen is not None and structure.on_grid:
        n_nodes = quadrature.nodes_at_first(structure.q, seen)
    return None if n_nodes is None else Count(n_nodes)


def floats_of_use(structure: Structure, n: int) -> int:
    q, on_grid = structure.q, structure.on_grid
    points = len(nodes.accurate_rules(q, n, False)[0].nodes) if on_grid else nodes.net_points()
    return 2 * points * structure.columns.n_outputs(n) + 8 * (q + 1) ** 2


def floats_of_bound(structure: Structure, n: int) -> int:
    return 8 * structure.columns.n_outputs(n) + 8 * (structure.q + 1) ** 2


def floats_of_grid(n: int) -> int:
    return tuning.GRID_FLOATS_PER_ROW + 4 * n


def floats_of_nodes(structure: Structure, n_nodes: Count | None, n: int) -> int:
    rule = quadrature.learning_rule(structure.q, nodes_by(structure, n_nodes, n))
    # with fewer, a small table would be one chunk, and use one core
    return 3 * structure.columns.n_outputs(n) * max(len(rule.nodes), 25)
