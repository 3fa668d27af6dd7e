"""A noisy-OR network in numbers: nats and bits per row, and layer by layer its units with what they turn on."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.networks import names_of, project_down, strengths
from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Table
from latentbits.reports.strongest import in_words
from latentbits.reports.summaries.records import Gallery, Layer, Rows, Shown, Summary, strongest_rows, values_table

__all__ = ["show", "summarize"]


def summarize(model: Any, rows: Rows) -> Summary:
    """Give the mean log-likelihood, its error as an estimate (0 where it was summed), and how often each unit is on."""
    on = np.average(model.transform(rows.values), axis=0, weights=rows.weights)
    total, error = model.log_likelihood(rows.values, return_error=True, sample_weight=rows.weights)
    nats, nats_error = total / rows.n_rows, error / rows.n_rows
    sizes = tuple(len(weight) for weight in model.weights_)
    shares = tuple(tuple(part.tolist()) for part in np.split(on, np.cumsum(sizes)[:-1]))
    facts = {
        "layer_sizes": sizes,
        "nats_per_row": nats,
        "nats_per_row_error": nats_error,
        "bits_per_row": -nats / float(np.log(2)),
        "shares": shares,
    }
    note = "exact" if nats_error == 0 else ""
    values: dict[str, Any] = {
        "hidden units, from the bottom": ", ".join(map(str, sizes)),
        "nats per row": Measured(nats, nats_error, ".4f", note),
        "bits per row": Measured(-nats / np.log(2), nats_error / np.log(2), ".4f", note),
    }
    tables = (values_table(values), *_layers(model, rows.names, shares))
    return Summary(facts, tables, {"items": lambda: _weights(model, rows.names)})


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """Show the units of each layer, with the most probable states of rows."""
    found = model.posterior(values)
    edges = np.cumsum([len(w) for w in model.weights_])[:-1]
    means, modes = (np.split(np.asarray(x), edges, axis=1) for x in (found.mean, found.mode))
    layers = tuple(
        Layer(
            f"Layer {number}",
            tuple(names_of(number, len(own))),
            own,
            bias,
            np.average(active, axis=0, weights=weights),
            active,
            strongest_rows(active),
            projected=None if number == 1 else project_down(model.weights_, model.biases_, number),
            states=states > 0.5,
        )
        for number, (own, bias, active, states) in enumerate(zip(model.weights_, model.biases_, means, modes), 1)
    )
    about = "A bit is on if any cause that is on turns it on. Shown is how surely each cause does: 1 - exp(-weight)."
    return Shown(Gallery(name, about, "strength", layers))


def _layers(model: Any, names: tuple[str, ...], shares: tuple[tuple[float, ...], ...]) -> list[Table]:
    """Make a table for each layer: its units, what they turn on, how often they are on, and without a cause."""
    tables, below = [], list(names)
    for layer, (weight, bias, share) in enumerate(zip(model.weights_, model.biases_[1:], shares), 1):
        f, own = strengths(weight), names_of(layer, len(weight))
        order = np.argsort(-np.array(share), kind="stable")
        columns = {
            "turns on, with probability": [_children(below, f[unit]) for unit in order],
            "on in": measured(np.array(share)[order], form=".1%"),
            "by itself": measured(strengths(bias)[order], form=".2f"),
        }
        found = Table([own[unit] for unit in order], columns, title=f"Layer {layer}", corner="unit")
        tables.append(found.first(30, "{} more: --json has all"))
        below = own
    return tables


def _children(names: list[str], f: np.ndarray) -> str:
    """Name what a unit turns on most surely."""
    strongest = np.argsort(-f, kind="stable")[:4]  # a line of 80 characters holds four
    # children that are turned on one time in ten
    return in_words(names, f, [j for j in strongest if f[j] >= 0.1], ".2f") or "nothing"


def _weights(model: Any, names: tuple[str, ...]) -> Table:
    """Make one row a column of the data: its bias, and the weights of all units of the lowest layer on it."""
    weights = {f"weight_{k}": own for k, own in enumerate(model.weights_[0])}  # of h1_k
    return Table(list(names), {"bias": model.biases_[0], **weights}, corner="item")
