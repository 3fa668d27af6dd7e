"""A combination machine in numbers: log Z with its error, nats per row, and its units."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Printed, Table, Told, Values
from latentbits.reports.summaries.switches import print_switches, show

__all__ = ["show", "tell"]


def tell(model: Any, table: Table) -> Told:
    """Units (a pursuit may have found fewer than it was asked for), log Z, the mean log-likelihood, and shares.

    The error of nats per row is that of log Z, of missing inputs and of rounding; shares tell in which part of the rows
    each unit is on.
    """
    on = model.transform(table.values)
    shares = tuple(np.average(on, axis=0, weights=table.weights).tolist()) if on.size else ()  # a pursuit may find none
    total, error = model.log_likelihood(table.values, return_error=True, sample_weight=table.weights)
    nats, nats_error = total / table.n_rows, error / table.n_rows
    facts = {
        "n_hidden": len(shares),
        "log_partition": model.log_partition_,
        "log_partition_error": model.log_partition_error_,
        "log_partition_effective": model.log_partition_effective_,
        "nats_per_row": nats,
        "nats_per_row_error": nats_error,
        "shares": shares,
    }
    exact = model.log_partition_error_ == 0
    lines = [
        ["hidden units", str(len(shares)), ""],
        ["log Z", f"{model.log_partition_:.4f}", "exact" if exact else f"{model.log_partition_error_:.4f}"],
        ["nats per row", f"{nats:.4f}", f"{nats_error:.4f}" if nats_error else ""],
    ]
    if not exact:
        lines.append(["annealed chains that count", f"{model.log_partition_effective_:.1%}", ""])
    printed = [Printed(["", "value", "std. error"], lines)]
    if shares:
        header = ("unit", "its largest weights", "on in", "bias")
        printed.append(print_switches(header, "Units", model, table.names, shares, "+.2f", model.hidden_bias_))
    return Told(facts, tuple(printed), {"items": lambda: _weights(model, table.names)})


def _weights(model: Any, names: tuple[str, ...]) -> Values:
    """One line a column of the table: its bias, and the weights of all units on it."""
    columns = ("input_bias", *(f"weight_{k + 1}" for k in range(len(model.components_))))
    return Values(names, columns, np.column_stack([model.input_bias_, model.components_.T]))
