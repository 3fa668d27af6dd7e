"""What a combination machine found, as tables for people, for files and for JSON: log Z, likelihood, units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latentbits.cli.console import print_table
from latentbits.cli.inputs import Rows, without_names
from latentbits.cli.items import Items

__all__ = ["Found", "describe", "show", "weights_of"]

MOST_SHOWN = 30  # units printed; JSON has all
MOST_NAMES = 4  # columns named for each


@dataclass(frozen=True, eq=False)
class Found:
    """A fitted machine in numbers.

    Attributes
    ----------
    n_hidden
        Units; a pursuit may have found fewer than it was asked for.
    log_partition, log_partition_error, log_partition_effective
        log Z, its standard error (0 where it was summed), and the share of annealed chains that count in it.
    nats_per_row, nats_per_row_error
        Mean log-likelihood of the rows of the table, and its standard error: of log Z, of missing inputs and of
        rounding.
    shares
        In which share of the rows each unit is on.
    """

    n_hidden: int
    log_partition: float
    log_partition_error: float
    log_partition_effective: float
    nats_per_row: float
    nats_per_row_error: float
    shares: tuple[float, ...]


def describe(model: Any, rows: Rows) -> Found:
    """What a CombinationMachine fitted to these rows says of them."""
    with without_names(model):
        shares = model.transform(rows.values).mean(axis=0)
        total, error = model.log_likelihood(rows.values, return_error=True)
    return Found(
        n_hidden=len(shares),
        log_partition=model.log_partition_,
        log_partition_error=model.log_partition_error_,
        log_partition_effective=model.log_partition_effective_,
        nats_per_row=total / rows.shape[0],
        nats_per_row_error=error / rows.shape[0],
        shares=tuple(shares.tolist()),
    )


def show(found: Found, model: Any, rows: Rows) -> None:
    """The machine in numbers, and its units with the columns that they act on most, on stdout."""
    import numpy as np

    from latentbits.figures.combination_machine.arrays import telling_weights

    exact, error = found.log_partition_error == 0, found.nats_per_row_error
    lines = [
        ["hidden units", str(found.n_hidden), ""],
        ["log Z", f"{found.log_partition:.4f}", "exact" if exact else f"{found.log_partition_error:.4f}"],
        ["nats per row", f"{found.nats_per_row:.4f}", f"{error:.4f}" if error else ""],
    ]
    if not exact:
        lines.append(["annealed chains that count", f"{found.log_partition_effective:.1%}", ""])
    print_table(["", "value", "std. error"], lines)
    if not found.n_hidden:
        return
    order = np.argsort(-np.array(found.shares), kind="stable")[:MOST_SHOWN]
    telling = telling_weights(model.components_, MOST_NAMES)
    names = rows.all_names
    lines = []
    for unit in order:
        weights = [f"{names[j]} {model.components_[unit, j]:+.2f}" for j in telling[unit]]
        lines.append(
            [str(unit + 1), ", ".join(weights), f"{found.shares[unit]:.1%}", f"{model.hidden_bias_[unit]:.2f}"]
        )
    some = f" ({MOST_SHOWN} of {found.n_hidden}; --items writes all)" if found.n_hidden > MOST_SHOWN else ""
    print_table(["unit", "its largest weights", "on in", "bias"], lines, left=2, title=f"Units{some}")


def weights_of(model: Any, rows: Rows) -> Items:
    """One line a column of the table: its bias, and the weights of all units on it."""
    import numpy as np

    names = ("input_bias", *(f"weight_{k + 1}" for k in range(len(model.components_))))
    return Items(rows.all_names, names, np.column_stack([model.input_bias_, model.components_.T]), {})
