"""The summary of a fit, and what the page shows of it, as values; nothing here draws or prints."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from latentbits.reports.fit import FitReport
from latentbits.reports.numbers import Measured
from latentbits.reports.record import Report, Table

__all__ = [
    *("Gallery", "Layer", "Morph", "Rows", "Shown", "Spectra", "Summary", "Tree"),
    *("criteria_facts", "criteria_table", "shown_items", "strongest_rows", "values_table"),
]


# --- what is printed ---


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows that a model was fitted to, as it takes them, and the names of their columns.

    `errors` asks for standard errors, where a family has them; `weights` are how often each row counts, None for once.
    """

    values: Any
    names: tuple[str, ...]
    errors: bool = False
    weights: np.ndarray | None = None

    @property
    def n_rows(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.values.shape[0] if self.weights is None else self.weights.sum())


@dataclass(frozen=True)
class Summary(Report):
    """The result of a fit in numbers: the report that every family has.

    Attributes
    ----------
    facts
        Numbers by name, which JSON has, and which are read as those of any report.
    tables
        The tables that are printed.
    files
        By the names of the record's `files`: the function that makes the table to be written.
    """

    facts: Mapping[str, Any] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    files: Mapping[str, Callable[[], Table]] = field(default_factory=dict)

    def keys(self) -> list[str]:
        return list(self.facts)

    def __getitem__(self, name: str) -> Any:
        return self.facts[name]

    def shown(self) -> tuple[Table, ...]:
        return self.tables


def criteria_facts(found: FitReport) -> dict[str, Any]:
    """Give the log-likelihood and the criteria of a fit by name."""
    return {
        "log_likelihood": found.log_likelihood,
        "log_likelihood_error": found.error,
        "n_parameters": found.n_parameters,
        "aic": found.aic,
        "bic": found.bic,
    }


def criteria_table(found: FitReport, more: Mapping[str, Any] | None = None) -> Table:
    """Make a table of the log-likelihood and the criteria, each with the error that it is known with."""
    values: dict[str, Any] = {
        "log-likelihood, nats": Measured(found.log_likelihood, found.error),
        "parameters": found.n_parameters,
        "AIC": Measured(found.aic, 2 * found.error),
        "BIC": Measured(found.bic, 2 * found.error),
    }
    return values_table(values | dict(more or {}))


def shown_items(items: Table) -> Table:
    """Give the first items for people: names of quantities in words."""
    columns = {name.replace("_", " "): values for name, values in items.columns.items()}
    return replace(items, columns=columns).first(100, "{} more: --items writes all")


def values_table(values: Mapping[str, Any]) -> Table:
    """Make a table of one number or word a row."""
    return Table(list(values), {"value": list(values.values())})


# --- what is shown ---


@dataclass(frozen=True)
class Layer:
    """Causes side by side."""

    # title, names: of the layer, and of its m causes
    title: str
    names: tuple[str, ...]
    weights: np.ndarray  # (m, d): on the columns; in higher layers, on the causes of the layer below
    bias: np.ndarray | None  # (d,) or None: of what is below; a noisy OR's explanation of a row needs it
    # (m,): how often each is on: mean of `active` over rows, by their weights.  A latent trait has none: NaN.
    usage: np.ndarray
    active: np.ndarray  # (n_close, m): P(cause is on | row), or the row's place along a trait
    examples: np.ndarray  # (m, e) int: rows shown in which it is strongest
    # (m, d) or None: in higher layers: P(bit = 1) of each column where this cause alone is on
    projected: np.ndarray | None = None
    # (n_close, m) of 0 and 1, or None: the most probable states of all causes together, where the model explains rows
    # by them
    states: np.ndarray | None = None
    # (m,) int or None: in how many of `n_rounds` fits to parts of the rows each cause was found as well; None where
    # there were none
    found_again: np.ndarray | None = None
    n_rounds: int = 0


@dataclass(frozen=True)
class Tree:
    """A tree over the columns, with what its nodes may be in: states of hidden causes, or (`hidden` false) the bits."""

    share: float  # of the rows, where there are several trees
    # parents, information: (d,): the column that each hangs from, -1 for a root; and what the two have in common, in
    # bits
    parents: np.ndarray
    information: np.ndarray
    sure: np.ndarray  # (d,) bool: whether that is more than chance gives the best of all pairs
    # line, depth: (d,): where each is, drawn from left to right
    line: np.ndarray
    depth: np.ndarray
    places: np.ndarray  # (d, 2): where each is, spread out around the root, within a square from -1 to 1
    # transitions, emissions: (d, k, k) and (d, k), or None where they are too many for a page: P(state | state of the
    # parent), the latter first, and P(bit = 1 | state), in whose order the states are
    transitions: np.ndarray | None
    emissions: np.ndarray | None
    hidden: bool = True
    # (d,) int or None: in how many of `n_rounds` fits to parts of the rows each edge was found as well; None where
    # there were none
    found_again: np.ndarray | None = None
    n_rounds: int = 0


@dataclass(frozen=True)
class Gallery:
    """The causes that a model found, the lowest layer first.

    `kind` says what weights are: "probability" (of the bit, in a class), "signed" (pulls the bit up or down) or
    "strength" (at least 0: how surely it turns the bit on).  `note` says what a reader should know first; layers that
    carry nothing are left out, and it says so.
    """

    name: str
    about: str
    kind: str
    layers: tuple[Layer, ...]
    note: str = ""
    trees: tuple[Tree, ...] = ()


@dataclass(frozen=True)
class Morph:
    """A clipped Gaussian: bit j is on where ``phi[j] + y @ weights[:, j] > 0``; `places` (n_close, k) are rows' y."""

    name: str
    weights: np.ndarray
    phi: np.ndarray
    places: np.ndarray


@dataclass(frozen=True)
class Spectra:
    """Eigenvalues, descending, of the bits' covariances C^ss and of the correlations C^xx behind them."""

    name: str
    binary: np.ndarray
    latent: np.ndarray
    n_components: int


@dataclass(frozen=True)
class Shown:
    """The part of the page on a model; `by_shares`: bits per row that it may lose by guessing rare shares badly."""

    gallery: Gallery | None = None
    morph: Morph | None = None
    spectra: Spectra | None = None
    by_shares: float = 0.0


def strongest_rows(active: np.ndarray, most: int = 12) -> np.ndarray:
    """Find the rows in which each column of `active` (n, m) is greatest, the greatest first: (m, e).

    >>> strongest_rows(np.array([[0.1, 0.9], [0.8, 0.2]]), 1).tolist()
    [[1], [0]]
    """
    return np.argsort(-active, axis=0, kind="stable")[:most].T
