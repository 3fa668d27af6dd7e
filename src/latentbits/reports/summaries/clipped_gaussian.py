"""A clipped Gaussian in numbers: its spectrum and the pairs behind it; factors, morph and spectra for the page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.records import (
    Morph,
    Rows,
    Shown,
    Spectra,
    Summary,
    criteria_facts,
    criteria_table,
    values_table,
)

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the spectrum, and how many pairs are behind it.

    Constant columns are set aside.  `n_corrected` pairs of the others had an empty cell, which was corrected, and the
    data leave `n_undetermined` open.  Where pairs were not kept these are None, and the negative share and the rest
    NaN.  A maximum of the likelihood also has information criteria.
    """
    kept = model.correlation_ is not None
    there = np.diag(model.correlation_) > 0 if kept else (model.means_ > 0) & (model.means_ < 1)
    n_there = int(np.sum(there))
    pairs = np.triu(np.outer(there, there), 1) if kept else None
    facts = {
        "n_components": int(model.n_components_),
        "n_columns": len(there),
        "n_constant": int(np.sum(~there)),
        "eigenvalues": tuple(model.eigenvalues_.tolist()),
        "binary_eigenvalues": tuple(model.binary_eigenvalues_.tolist()),
        "negative_share": float(model.negative_share_),
        "n_pairs": n_there * (n_there - 1) // 2,
        "n_corrected": int(np.sum(model.corrected_ & pairs)) if kept else None,
        "n_undetermined": int(np.sum(model.undetermined_ & pairs)) if kept else None,
        "left_over": _left_over(model, pairs),
    }
    tables = [_eigenvalues(facts), _counts(facts)]
    if model.learner == "likelihood":
        found = model.criteria(rows.values, rows.weights)
        facts |= criteria_facts(found)
        tables.append(criteria_table(found))
    files = {"items": lambda: _weights(model, rows.names), "correlations": lambda: _correlations(model, rows)}
    return Summary(facts, tuple(tables), files)


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the factors, the longest first; how rows turn into each other; and the spectra of bits and Gaussian."""
    places = places_of(model, values)
    return Shown(
        gallery=gallery_along("factor", name, model.components_, places),
        morph=Morph(name, model.components_, model.thresholds_, places),
        spectra=Spectra(name, model.binary_eigenvalues_, model.eigenvalues_, len(model.components_)),
    )


def _left_over(model: Any, pairs: np.ndarray | None) -> float:
    """Compute the root mean square of correlations less those of the components; NaN where no pairs were kept."""
    if pairs is None or not pairs.any():
        return math.nan
    rest = (model.correlation_ - model.components_.T @ model.components_)[pairs]
    return float(np.sqrt(np.mean(rest**2)))


def _eigenvalues(facts: dict[str, Any]) -> Table:
    """Put the spectra side by side."""
    values, d = facts["eigenvalues"], facts["n_columns"]
    n = min(len(values), 24, max(8, facts["n_components"] + 3))  # lines of a screen; JSON has all
    # of the whole spectrum, by size; of a part of it, of the variances, which are 1
    total = sum(map(abs, values)) if facts["n_corrected"] is not None else d - facts["n_constant"]
    columns = {
        "of the bits": measured(facts["binary_eigenvalues"][:n], form=".3f"),
        "of the Gaussian": measured(values[:n], form=".3f"),
        "share": measured((value / (total or math.nan) for value in values[:n]), form=".1%"),
        "": ["kept" if rank < facts["n_components"] else "" for rank in range(n)],
    }
    some = f" ({n} of {d})" if n < d else ""
    return Table([str(rank + 1) for rank in range(n)], columns, f"Eigenvalues{some}")


def _counts(facts: dict[str, Any]) -> Table:
    values: dict[str, Any] = {"components": facts["n_components"]}
    if facts["n_corrected"] is not None:
        values["negative part of the spectrum"] = Measured(facts["negative_share"], form=".1%")
        values["correlations left over, root mean square"] = Measured(facts["left_over"], form=".4f")
    values["pairs of columns"] = facts["n_pairs"]
    if facts["n_corrected"] is not None:
        values["pairs with an empty cell, corrected"] = facts["n_corrected"]
        values["pairs whose correlation the data leave open"] = facts["n_undetermined"]
    if facts["n_constant"]:
        values["constant columns, set aside"] = facts["n_constant"]
    return values_table(values)


def _correlations(model: Any, rows: Rows) -> Table:
    """Make the matrix of tetrachoric correlations, one row a column; with errors, these to the right of all."""
    values = np.array(model.correlation_)
    values[model.undetermined_] = np.nan  # an empty cell, not a correlation of 0
    constant = np.diag(model.correlation_) == 0
    values[constant] = values[:, constant] = np.nan
    columns = dict(zip(rows.names, values.T))
    if rows.errors:
        columns |= {f"{name}_error": errors for name, errors in zip(rows.names, model.correlation_error_.T)}
    return Table(list(rows.names), columns, corner="column")


def _weights(model: Any, names: tuple[str, ...]) -> Table:
    """Make one row a column of the data: its mean, threshold, weights, and what they leave over."""
    columns = {
        "mean": model.means_,
        "threshold": model.thresholds_,
        **{f"weight_{k + 1}": weights for k, weights in enumerate(model.components_)},
        "noise_variance": model.noise_variance_,
    }
    return Table(list(names), columns, corner="item")
