"""Kinds of rows: how common each is, and what its rows look like."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.records import (
    Gallery,
    Layer,
    Rows,
    Shown,
    Summary,
    criteria_facts,
    criteria_table,
    strongest_rows,
    values_table,
)
from latentbits.reports.summaries.reports import Entry

__all__ = ["REPORTS", "show", "summarize"]

# the reports of `fit --report` besides that of the fit: titles, and methods of the model
REPORTS: tuple[Entry, ...] = (
    ("Classes", "standard_errors"),
    ("Classification", "classification"),
    ("Pairs of columns", "bivariate_residuals"),
)


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the shares of the components, the largest first, and how well they describe the rows."""
    order = np.argsort(-model.weights_, kind="stable")
    numbers = [str(i + 1) for i in range(len(order))]
    shares = Table(numbers, {"share": measured(model.weights_[order], form=".4f")}, corner="kind")
    facts: dict[str, Any] = {"shares": [float(model.weights_[k]) for k in order], "smoothing": float(model.smoothing_)}
    if model.smoothing_ == 0:
        found = model.criteria(rows.values, rows.weights)
        return Summary(facts | criteria_facts(found), (shares, criteria_table(found)))
    total, error = model.log_likelihood(rows.values, return_error=True, sample_weight=rows.weights)
    note = f"smoothing {model.smoothing_:g} keeps it below its maximum: AIC and BIC need a fit with smoothing=0"
    likelihood = replace(values_table({"log-likelihood, nats": Measured(total, error)}), notes=(note,))
    return Summary(facts | {"log_likelihood": total}, (shares, likelihood))


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the components, the largest first."""
    order = np.argsort(-model.weights_, kind="stable")
    active = np.asarray(model.transform(values))[:, order]
    names = tuple(f"kind {i + 1}" for i in range(len(order)))
    layer = Layer(
        "Kinds of rows", names, model.means_[order], None, model.weights_[order], active, strongest_rows(active)
    )
    about = "Each row is of one kind. Shown is P(bit = 1) in rows of that kind."
    return Shown(Gallery(name, about, "probability", (layer,)))
