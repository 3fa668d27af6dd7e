"""Binary sparse coding in numbers: sparseness, noise, nats per row, and its causes."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.numbers import Measured
from latentbits.reports.record import Table
from latentbits.reports.summaries.records import Rows, Summary, values_table
from latentbits.reports.summaries.switches import largest_weights, show

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give sparseness pi H, noise sigma, gamma and H' as "auto" has decided them, the mean log density, and shares.

    Beside the density stands by how much it is estimated to be too low, and how far rounding may have put it wrong.
    """
    shares = tuple(np.average(model.transform(rows.values), axis=0, weights=rows.weights).tolist())
    known = model.log_likelihoods(rows.values)
    nats, rounded = (
        float(np.average(np.asarray(x, np.float64), weights=rows.weights)) for x in (known.value, known.rounding)
    )
    facts = {
        "n_causes": len(shares),
        "max_active": model.max_active_,
        "n_candidates": model.n_candidates_,
        "sparseness": model.sparseness_,
        "noise_std": model.noise_std_,
        "nats_per_row": nats,
        "nats_per_row_error": rounded,
        "truncation_loss": model.truncation_loss_,
        "reseeded": model.reseeded_,
        "shares": shares,
    }
    doubts = [f"too low by about {model.truncation_loss_:.2g}"] if model.truncation_loss_ else []
    doubts += [f"± {rounded:.2g} by rounding"] if rounded else []
    values: dict[str, Any] = {
        "causes on in a row, pi H": f"{model.sparseness_:.3f} of {len(shares)}",
        "noise, sigma": f"{model.noise_std_:.4g}",
        "learned with at most": f"{model.max_active_} of {model.n_candidates_} candidates on",
        "nats per row (density)": str(Measured(nats, form=".4f", note=", ".join(doubts) or "exact")),
    }
    if model.reseeded_:
        values["new starts of unused causes"] = str(model.reseeded_)
    causes = largest_weights("cause", "adds most to", model, rows.names, shares, "+.3g")
    return Summary(facts, (values_table(values), causes), {"items": lambda: _components(model, rows.names)})


def _components(model: Any, names: tuple[str, ...]) -> Table:
    """Make one row a column of the data: what each cause adds to it."""
    columns = {f"component_{h + 1}": weights for h, weights in enumerate(model.components_)}
    return Table(list(names), columns, corner="item")
