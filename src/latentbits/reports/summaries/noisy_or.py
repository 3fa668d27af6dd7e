"""A noisy-OR network in numbers: nats and bits per row, and layer by layer its units with what they turn on."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.reports.networks import names_of, project_down, strengths
from latentbits.reports.strongest import in_words
from latentbits.reports.summaries.records import Gallery, Layer, Printed, Shown, Table, Told, Values, strongest_rows

__all__ = ["show", "tell"]

MOST_SHOWN = 30  # units printed of a layer; JSON has all
MOST_NAMES = 4  # children named for each
LEAST = 0.1  # f from which a child is worth a name


def tell(model: Any, table: Table) -> Told:
    """Mean log-likelihood with its error as an estimate, 0 where it was summed; and how often each unit is on."""
    on = np.average(model.transform(table.values), axis=0, weights=table.weights)
    total, error = model.log_likelihood(table.values, return_error=True, sample_weight=table.weights)
    nats, nats_error = total / table.n_rows, error / table.n_rows
    sizes = tuple(len(weight) for weight in model.weights_)
    shares = tuple(tuple(part.tolist()) for part in np.split(on, np.cumsum(sizes)[:-1]))
    facts = {
        "layer_sizes": sizes,
        "nats_per_row": nats,
        "nats_per_row_error": nats_error,
        "bits_per_row": -nats / float(np.log(2)),
        "shares": shares,
    }
    exact = nats_error == 0
    lines = [
        ["hidden units, from the bottom", ", ".join(map(str, sizes)), ""],
        ["nats per row", f"{nats:.4f}", "exact" if exact else f"{nats_error:.4f}"],
        ["bits per row", f"{facts['bits_per_row']:.4f}", "" if exact else f"{nats_error / np.log(2):.4f}"],
    ]
    printed = (Printed(["", "value", "std. error"], lines), *_layers(model, table.names, shares))
    return Told(facts, printed, {"items": lambda: _weights(model, table.names)})


def show(name: str, model: Any, values: np.ndarray, n_rows: float, weights: np.ndarray | None = None) -> Shown:
    """The units of each layer, with the most probable states of rows."""
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


def _layers(model: Any, names: tuple[str, ...], shares: tuple[tuple[float, ...], ...]) -> list[Printed]:
    """One table a layer: its units, what they turn on, how often they are on, and by themselves."""
    tables, below = [], list(names)
    for layer, (weight, bias, share) in enumerate(zip(model.weights_, model.biases_[1:], shares), 1):
        f, alone, own = strengths(weight), strengths(bias), names_of(layer, len(weight))
        lines = []
        for unit in np.argsort(-np.array(share), kind="stable")[:MOST_SHOWN]:
            children = [j for j in np.argsort(-f[unit], kind="stable")[:MOST_NAMES] if f[unit, j] >= LEAST]
            words = in_words(below, f[unit], children, ".2f")
            lines.append([own[unit], words or "nothing", f"{share[unit]:.1%}", f"{alone[unit]:.2f}"])
        some = f" ({MOST_SHOWN} of {len(share)})" if len(share) > MOST_SHOWN else ""
        header = ("unit", "turns on, with probability", "on in", "by itself")
        tables.append(Printed(header, lines, left=2, title=f"Layer {layer}{some}"))
        below = own
    return tables


def _weights(model: Any, names: tuple[str, ...]) -> Values:
    """One line a column of the table: its bias, and the weights of all units of the lowest layer on it."""
    columns = ("bias", *(f"weight_{k}" for k in range(len(model.weights_[0]))))  # of h1_k
    return Values(names, columns, np.column_stack([model.biases_[0], model.weights_[0].T]))
