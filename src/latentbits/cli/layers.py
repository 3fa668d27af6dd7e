"""What a noisy-OR network found, as tables for people, for files and for JSON: likelihood, units of each layer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latentbits.cli.console import print_table
from latentbits.cli.inputs import Rows, without_names
from latentbits.cli.items import Items

__all__ = ["Found", "describe", "show", "weights_of"]

MOST_SHOWN = 30  # units printed of a layer; JSON has all
MOST_NAMES = 4  # children named for each
LEAST = 0.1  # f from which a child is worth a name


@dataclass(frozen=True, eq=False)
class Found:
    """A fitted network in numbers.

    Attributes
    ----------
    layer_sizes
        Units of each hidden layer, bottom first.
    nats_per_row, nats_per_row_error
        Mean log-likelihood of the rows of the table, and its standard error as an estimate, 0 where it was summed.
    bits_per_row
        The same as a description length.
    shares
        Of each layer, in which share of the rows each unit is on.
    """

    layer_sizes: tuple[int, ...]
    nats_per_row: float
    nats_per_row_error: float
    bits_per_row: float
    shares: tuple[tuple[float, ...], ...]


def describe(model: Any, rows: Rows) -> Found:
    """What a NoisyOrNetwork fitted to these rows says of them."""
    import numpy as np

    with without_names(model):
        on = model.transform(rows.values).mean(axis=0)
        total, error = model.log_likelihood(rows.values, return_error=True)
    sizes = tuple(len(weight) for weight in model.weights_)
    nats = total / rows.shape[0]
    return Found(
        layer_sizes=sizes,
        nats_per_row=nats,
        nats_per_row_error=error / rows.shape[0],
        bits_per_row=-nats / float(np.log(2)),
        shares=tuple(tuple(part.tolist()) for part in np.split(on, np.cumsum(sizes)[:-1])),
    )


def show(found: Found, model: Any, rows: Rows) -> None:
    """The network in numbers, and layer by layer its units with what they turn on, on stdout."""
    import numpy as np

    from latentbits.figures.noisy_or.arrays import names_of, strengths

    exact = found.nats_per_row_error == 0
    error = "exact" if exact else f"{found.nats_per_row_error:.4f}"
    lines = [
        ["hidden units, from the bottom", ", ".join(map(str, found.layer_sizes)), ""],
        ["nats per row", f"{found.nats_per_row:.4f}", error],
        ["bits per row", f"{found.bits_per_row:.4f}", "" if exact else f"{found.nats_per_row_error / np.log(2):.4f}"],
    ]
    print_table(["", "value", "std. error"], lines)
    names = list(rows.all_names)
    for layer, (weight, bias, shares) in enumerate(zip(model.weights_, model.biases_[1:], found.shares), 1):
        f, alone = strengths(weight), strengths(bias)
        own_names = names_of(layer, len(weight))
        order = np.argsort(-np.array(shares), kind="stable")[:MOST_SHOWN]
        lines = []
        for unit in order:
            children = [j for j in np.argsort(-f[unit], kind="stable")[:MOST_NAMES] if f[unit, j] >= LEAST]
            words = ", ".join(f"{names[j]} {f[unit, j]:.2f}" for j in children)
            lines.append([own_names[unit], words or "nothing", f"{shares[unit]:.1%}", f"{alone[unit]:.2f}"])
        some = f" ({MOST_SHOWN} of {len(shares)})" if len(shares) > MOST_SHOWN else ""
        title = f"Layer {layer}{some}"
        print_table(["unit", "turns on, with probability", "on in", "by itself"], lines, left=2, title=title)
        names = own_names


def weights_of(model: Any, rows: Rows) -> Items:
    """One line a column of the table: its bias, and the weights of all units of the lowest layer on it."""
    import numpy as np

    names = ("bias", *(f"weight_{k}" for k in range(len(model.weights_[0]))))  # of h1_k
    return Items(rows.all_names, names, np.column_stack([model.biases_[0], model.weights_[0].T]), {})
