"""Kinds of rows: how common each is, and what its rows look like."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.numbers import criteria_facts, criteria_lines, with_error
from latentbits.reports.summaries.records import Gallery, Layer, Printed, Shown, Table, Told, strongest_rows

__all__ = ["REPORTS", "show", "tell"]

# what `fit --report` tells besides the fit: titles, and methods of the model
REPORTS = (
    ("Classes", "standard_errors"),
    ("Classification", "classification"),
    ("Pairs of columns", "bivariate_residuals"),
)


def tell(model: Any, table: Table) -> Told:
    """Shares of the components, the largest first; and how well they describe the table."""
    order = np.argsort(-model.weights_, kind="stable")
    shares = Printed(["kind", "share"], [[str(i + 1), f"{model.weights_[k]:.4f}"] for i, k in enumerate(order)])
    facts: dict[str, Any] = {"shares": [float(model.weights_[k]) for k in order], "smoothing": float(model.smoothing_)}
    if model.smoothing_ == 0:
        found = model.criteria(table.values, table.weights)
        return Told(facts | criteria_facts(found), (shares, Printed(["", "value"], criteria_lines(found))))
    total, error = model.log_likelihood(table.values, return_error=True, sample_weight=table.weights)
    lines = [
        ["log-likelihood, nats", with_error(total, error)],
        ["", f"with smoothing {model.smoothing_:g}, so below its maximum;"],
        ["", "AIC and BIC are of a fit with smoothing 0"],
    ]
    return Told(facts | {"log_likelihood": total}, (shares, Printed(["", "value"], lines)))


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The components, the largest first."""
    order = np.argsort(-model.weights_, kind="stable")
    active = np.asarray(model.transform(values))[:, order]
    names = tuple(f"kind {i + 1}" for i in range(len(order)))
    layer = Layer(
        "Kinds of rows", names, model.means_[order], None, model.weights_[order], active, strongest_rows(active)
    )
    about = "Each row is of one kind. Shown is P(bit = 1) in rows of that kind."
    return Shown(Gallery(name, about, "probability", (layer,)))
