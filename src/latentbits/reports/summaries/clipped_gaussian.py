"""A clipped Gaussian in numbers: its spectrum and the pairs behind it; factors, morph and spectra for the page."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from latentbits.reports.summaries.along import gallery_along, places_of
from latentbits.reports.summaries.numbers import criteria_facts, criteria_lines
from latentbits.reports.summaries.records import Morph, Printed, Shown, Spectra, Table, Told, Values

__all__ = ["show", "tell"]

FEWEST_SHOWN, MOST_SHOWN = 8, 24  # eigenvalues printed; JSON has all


def tell(model: Any, table: Table) -> Told:
    """The spectrum, and how many pairs are behind it.

    Constant columns are set aside.  Of the pairs of the others it is told how many had an empty cell, which was
    corrected, and how many the data cannot tell.  Where pairs were not kept these are None, and the negative share and
    what is left over NaN.  A maximum of the likelihood has information criteria, too.
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
    printed = [_eigenvalues(facts), _counts(facts)]
    if model.learner == "likelihood":
        found = model.criteria(table.values, table.weights)
        facts |= criteria_facts(found)
        printed.append(Printed(["", "value"], criteria_lines(found)))
    files = {"items": lambda: _weights(model, table.names), "correlations": lambda: _correlations(model, table)}
    return Told(facts, tuple(printed), files)


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The factors, the longest first; how rows turn into each other; and the spectra of bits and Gaussian."""
    places = places_of(model, values)
    return Shown(
        gallery=gallery_along("factor", name, model.components_, places),
        morph=Morph(name, model.components_, model.thresholds_, places),
        spectra=Spectra(name, model.binary_eigenvalues_, model.eigenvalues_, len(model.components_)),
    )


def _left_over(model: Any, pairs: np.ndarray | None) -> float:
    """Root mean square of what the components leave over of a correlation; NaN where there is no pair, or none kept."""
    if pairs is None or not pairs.any():
        return math.nan
    rest = (model.correlation_ - model.components_.T @ model.components_)[pairs]
    return float(np.sqrt(np.mean(rest**2)))


def _eigenvalues(facts: dict[str, Any]) -> Printed:
    """The spectra side by side."""
    values, d = facts["eigenvalues"], facts["n_columns"]
    n = min(len(values), MOST_SHOWN, max(FEWEST_SHOWN, facts["n_components"] + 3))
    # of the whole spectrum, by size; of a part of it, of the variances, which are 1
    total = sum(map(abs, values)) if facts["n_corrected"] is not None else d - facts["n_constant"]
    lines = [
        [str(rank + 1), f"{bits:.3f}", f"{value:.3f}", f"{value / (total or math.nan):.1%}", taken]
        for rank, (bits, value) in enumerate(zip(facts["binary_eigenvalues"][:n], values[:n]))
        for taken in ["kept" if rank < facts["n_components"] else ""]
    ]
    some = f" ({n} of {d})" if n < d else ""
    return Printed(["", "of the bits", "of the Gaussian", "share", ""], lines, title=f"Eigenvalues{some}")


def _counts(facts: dict[str, Any]) -> Printed:
    lines = [["components", str(facts["n_components"])], ["pairs of columns", str(facts["n_pairs"])]]
    if facts["n_corrected"] is not None:
        lines[1:1] = [
            ["negative part of the spectrum", f"{facts['negative_share']:.1%}"],
            ["correlations left over, root mean square", f"{facts['left_over']:.4f}"],
        ]
        lines += [
            ["  with an empty cell, corrected", str(facts["n_corrected"])],
            ["  whose correlation the data cannot tell", str(facts["n_undetermined"])],
        ]
    if facts["n_constant"]:
        lines.append(["constant columns, set aside", str(facts["n_constant"])])
    return Printed(["", "value"], lines)


def _correlations(model: Any, table: Table) -> Values:
    """The matrix of tetrachoric correlations, one line a column; with errors, theirs to the right of all."""
    values = np.array(model.correlation_)
    values[model.undetermined_] = np.nan  # an empty cell, not a correlation of 0
    constant = np.diag(model.correlation_) == 0
    values[constant] = values[:, constant] = np.nan
    header = table.names
    if table.errors:
        values = np.column_stack([values, model.correlation_error_])
        header += tuple(f"{name}_error" for name in table.names)
    return Values(table.names, header, values, "column", "correlations of {} columns")


def _weights(model: Any, names: tuple[str, ...]) -> Values:
    """One line a column of the table: its mean, threshold, weights, and what they leave over."""
    columns = ("mean", "threshold", *(f"weight_{k + 1}" for k in range(model.n_components_)), "noise_variance")
    values = np.column_stack([model.means_, model.thresholds_, model.components_.T, model.noise_variance_])
    return Values(names, columns, values)
