"""Binary sparse coding in numbers: sparseness, noise, nats per row, and its causes."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.summaries.records import Printed, Table, Told, Values
from latentbits.reports.summaries.switches import print_switches, show

__all__ = ["show", "tell"]


def tell(model: Any, table: Table) -> Told:
    """Sparseness pi H, noise sigma, gamma and H' as "auto" has decided them, the mean log density, and shares.

    With the density is told by how much it is estimated to be too low, and how far rounding may have put it wrong.
    """
    shares = tuple(np.average(model.transform(table.values), axis=0, weights=table.weights).tolist())
    known = model.log_likelihoods(table.values)
    nats, rounded = (
        float(np.average(np.asarray(x, np.float64), weights=table.weights)) for x in (known.value, known.rounding)
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
    lines = [
        ["causes on in a row, pi H", f"{model.sparseness_:.3f} of {len(shares)}"],
        ["noise, sigma", f"{model.noise_std_:.4g}"],
        ["learned with at most", f"{model.max_active_} of {model.n_candidates_} candidates on"],
        ["nats per row (density)", f"{nats:.4f} ({', '.join(doubts) or 'exact'})"],
    ]
    if model.reseeded_:
        lines.append(["new starts of unused causes", str(model.reseeded_)])
    causes = print_switches(("cause", "adds most to", "on in"), "Causes", model, table.names, shares, "+.3g")
    return Told(
        facts, (Printed(["", "value"], lines, left=2), causes), {"items": lambda: _components(model, table.names)}
    )


def _components(model: Any, names: tuple[str, ...]) -> Values:
    """One line a column of the table: what each cause adds to it."""
    columns = tuple(f"component_{h + 1}" for h in range(len(model.components_)))
    return Values(names, columns, model.components_.T)
