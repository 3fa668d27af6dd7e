"""What binary sparse coding found, as tables for people, for files and for JSON: sparseness, noise, causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from latentbits.cli.console import print_table
from latentbits.cli.inputs import Rows, without_names
from latentbits.cli.items import Items

__all__ = ["Found", "components_of", "describe", "show"]

MOST_SHOWN = 30  # causes printed; JSON has all
MOST_NAMES = 4  # columns named for each


@dataclass(frozen=True, eq=False)
class Found:
    """A fitted model in numbers.

    Attributes
    ----------
    n_causes, max_active, n_candidates
        H, gamma and H', the latter two as "auto" has decided them.
    sparseness, noise_std
        pi H and sigma.
    nats_per_row, nats_per_row_error, truncation_loss
        Mean log density of the rows of the table, how far rounding may have put it wrong, and by how much it is
        estimated to be too low; 0 where it is exact.
    reseeded
        How often a cause that no row used was given a new start.
    shares
        In which share of the rows each cause is on.
    """

    n_causes: int
    max_active: int
    n_candidates: int
    sparseness: float
    noise_std: float
    nats_per_row: float
    nats_per_row_error: float
    truncation_loss: float
    reseeded: int
    shares: tuple[float, ...]


def describe(model: Any, rows: Rows) -> Found:
    """What a BinarySparseCoding fitted to these rows says of them."""
    import numpy as np

    with without_names(model):
        shares = model.transform(rows.values).mean(axis=0)
        known = model.log_likelihoods(rows.values)
    return Found(
        n_causes=len(shares),
        max_active=model.max_active_,
        n_candidates=model.n_candidates_,
        sparseness=model.sparseness_,
        noise_std=model.noise_std_,
        nats_per_row=float(np.mean(np.asarray(known.value, np.float64))),
        nats_per_row_error=float(np.mean(known.rounding)),
        truncation_loss=model.truncation_loss_,
        reseeded=model.reseeded_,
        shares=tuple(shares.tolist()),
    )


def show(found: Found, model: Any, rows: Rows) -> None:
    """The model in numbers, and its causes with the columns where their components are largest, on stdout."""
    import numpy as np

    from latentbits.figures.combination_machine.arrays import telling_weights

    known = [f"too low by about {found.truncation_loss:.2g}"] if found.truncation_loss else []
    known += [f"± {found.nats_per_row_error:.2g} by rounding"] if found.nats_per_row_error else []
    lines = [
        ["causes on in a row, pi H", f"{found.sparseness:.3f} of {found.n_causes}"],
        ["noise, sigma", f"{found.noise_std:.4g}"],
        ["learned with at most", f"{found.max_active} of {found.n_candidates} candidates on"],
        ["nats per row (density)", f"{found.nats_per_row:.4f} ({', '.join(known) or 'exact'})"],
    ]
    if found.reseeded:
        lines.append(["new starts of unused causes", str(found.reseeded)])
    print_table(["", "value"], lines, left=2)
    order = np.argsort(-np.array(found.shares), kind="stable")[:MOST_SHOWN]
    telling = telling_weights(model.components_, MOST_NAMES)
    names = rows.all_names
    lines = [
        [
            str(cause + 1),
            ", ".join(f"{names[j]} {model.components_[cause, j]:+.3g}" for j in telling[cause]),
            f"{found.shares[cause]:.1%}",
        ]
        for cause in order
    ]
    some = f" ({MOST_SHOWN} of {found.n_causes}; --items writes all)" if found.n_causes > MOST_SHOWN else ""
    print_table(["cause", "adds most to", "on in"], lines, left=2, title=f"Causes{some}")


def components_of(model: Any, rows: Rows) -> Items:
    """One line a column of the table: what each cause adds to it."""
    names = tuple(f"component_{h + 1}" for h in range(len(model.components_)))
    return Items(rows.all_names, names, model.components_.T, {})
