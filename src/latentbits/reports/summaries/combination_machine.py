"""A combination machine in numbers: log Z with its error, nats per row, and its units."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.numbers import Measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.records import Rows, Summary, values_table
from latentbits.reports.summaries.switches import largest_weights, show

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give units (a pursuit may find fewer than were asked for), log Z, the mean log-likelihood, and shares.

    The error of nats per row is that of log Z, of missing inputs and of rounding; a share is the part of the rows in
    which a unit is on.
    """
    on = model.transform(rows.values)
    shares = tuple(np.average(on, axis=0, weights=rows.weights).tolist()) if on.size else ()  # a pursuit may find none
    total, error = model.log_likelihood(rows.values, return_error=True, sample_weight=rows.weights)
    nats, nats_error = total / rows.n_rows, error / rows.n_rows
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
    values: dict[str, Any] = {
        "hidden units": len(shares),
        "log Z": Measured(model.log_partition_, model.log_partition_error_, ".4f", "exact" if exact else ""),
        "nats per row": Measured(nats, nats_error or None, ".4f"),
    }
    if not exact:
        values["annealed chains that count"] = Measured(model.log_partition_effective_, form=".1%")
    tables = [values_table(values)]
    if shares:
        weights = ("unit", "its largest weights", model, rows.names, shares, "+.2f", model.hidden_bias_)
        tables.append(largest_weights(*weights))
    return Summary(facts, tuple(tables), {"items": lambda: _weights(model, rows.names)})


def _weights(model: Any, names: tuple[str, ...]) -> Table:
    """Make one row a column of the data: its bias, and the weights of all units on it."""
    weights = {f"weight_{k + 1}": own for k, own in enumerate(model.components_)}
    return Table(list(names), {"input_bias": model.input_bias_, **weights}, corner="item")
