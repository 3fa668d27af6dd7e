"""The report of a comparison: held-out bits per row of several models on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from latentbits.reports.fit import FitReport
from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Report, Table

__all__ = ["STACK", "Comparison", "Entry", "ranked", "shared_error", "standard_error"]

LEARNED = "On the rows that were learned from; the lower AIC and BIC, the better"
NOT_HIGHEST = "the likelihood is off its maximum or unsure"
STACK = "stack of all"


@dataclass(frozen=True)
class Entry:
    """One model's result.

    Attributes
    ----------
    name
        As the model was named.
    bits_per_row, error
        Mean of -log2 p(x) over the held-out rows, and its standard error: over rows, and of what is estimated in p(x).
        With weights, each row counts as often as its weight says, in both.
    behind, behind_error
        How many bits per row more than the best model, and the standard error of that difference, row by row.
    seconds
        Time to fit and to score, all folds together, compilation included.
    converged
        Whether every fit converged, or went through its schedule.
    n_parameters, log_likelihood, aic, bic
        Of the fit that is in `Comparison.fitted`, to the rows that it has learned from; None and NaN where a model
        does not say.
    """

    name: str
    bits_per_row: float
    error: float
    behind: float
    behind_error: float
    seconds: float
    converged: bool
    n_parameters: int | None = None
    log_likelihood: float = float("nan")
    aic: float = float("nan")
    bic: float = float("nan")


@dataclass(frozen=True)
class Comparison(Report):
    """The result of a comparison.

    Attributes
    ----------
    entries
        One for each model, best first.
    n_rows
        Number of held-out rows.
    row_bits
        -log2 p(x) of every held-out row under every model.
    rows
        Numbers of the held-out rows in X, in the order of `row_bits`.
    weights
        How often each of them counts; None for once.
    fitted
        The fitted models; with folds, those of the last fold.
    left_out
        By name: why a model is not there.  One that fails, or would not fit into memory, does not stop the others.
    interrupted
        Whether Ctrl-C ended the comparison; it is then of the models that were finished.
    unfinished
        Names of those that were not.
    reports
        By name: the report of each of the fits in `fitted`, to the rows that it has learned from.  Its `notes` say
        where a prior or smoothing keeps it from the maximum of the likelihood.
    stack_weights
        By name: the weight of each model in the stack of all, chosen on all held-out rows; empty where none was asked
        for.  The bits of the stack are not of these weights: see `compare`.
    """

    entries: tuple[Entry, ...]
    n_rows: int
    row_bits: Mapping[str, np.ndarray]
    rows: np.ndarray
    fitted: Mapping[str, Any]
    left_out: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False
    unfinished: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    reports: Mapping[str, FitReport] = field(default_factory=dict)
    stack_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def simplest(self) -> str:
        """The first model, in the order they were given, that is within one standard error of the best.

        A difference smaller than that is not known to be one, so where models are given from simple to complex this is
        the one to take.  Where a stack is ahead of every model by more, it is the best of them.
        """
        behind = {entry.name: entry for entry in self.entries if not (self.stack_weights and entry.name == STACK)}
        level = (name for name in self.row_bits if name in behind and behind[name].behind <= behind[name].behind_error)
        return next(level, next(iter(behind)))

    @property
    def off_maximum(self) -> tuple[str, ...]:
        """Names of models whose reports have something to say of the likelihood that criteria are made of."""
        return tuple(name for name, report in self.reports.items() if report.notes)

    @property
    def stack_in_words(self) -> str:
        """The weights of the stack, the largest first; models of weight 0 are left out."""
        used = sorted((pair for pair in self.stack_weights.items() if pair[1] > 0), key=lambda pair: -pair[1])
        return f"{STACK}: " + ", ".join(f"{weight:.3f} {name}" for name, weight in used)

    def keys(self) -> list[str]:
        """Give the names of what is in it; models are no numbers, and only an attribute."""
        return [field.name for field in fields(self) if field.name != "fitted"]

    def table(self) -> Table:
        """Make one row a model, the best first: bits per row, how far it is behind the best, and the seconds."""
        columns = {
            "bits per row": [Measured(e.bits_per_row, e.error, ".3f") for e in self.entries],
            "behind the best": [
                Measured(e.behind, e.behind_error if e.behind else None, form=".3f") for e in self.entries
            ],
            "seconds": measured((e.seconds for e in self.entries), form=".1f"),
        }
        names = [e.name if e.converged else f"{e.name} (not converged)" for e in self.entries]
        title = f"{self.n_rows} held-out rows, ± standard error; fewer bits are better"
        notes = [self.stack_in_words] if self.stack_weights else []
        notes += [f"{name} is left out: {why}" for name, why in self.left_out.items()]
        if self.unfinished:
            notes.append(f"interrupted before {', '.join(self.unfinished)} could be fitted")
        return Table(names, columns, title, tuple(notes), corner="model")

    def costs(self) -> Table:
        """Make one row a model, the best first: parameters, log-likelihood, AIC and BIC of the rows learned from."""
        off = self.off_maximum
        known = [e for e in self.entries if e.name in self.reports]
        columns = {
            "parameters": [e.n_parameters for e in known],
            "log-lik.": measured((e.log_likelihood for e in known), form=".1f"),
            "AIC": measured((e.aic for e in known), form=".1f"),
            "BIC": measured((e.bic for e in known), form=".1f"),
        }
        if off:
            columns[""] = ["*" * (e.name in off) for e in known]
        notes = (f"* {NOT_HIGHEST}: reports[name].notes say why",) if off else ()
        return Table([e.name for e in known], columns, LEARNED, notes, corner="model")

    def shown(self) -> tuple[Table, ...]:
        """Make both tables."""
        return (self.table(), self.costs()) if self.reports else (self.table(),)

    def to_json(self) -> dict[str, Any]:
        """Give the entries and what is missing, without the bits of every row."""
        return {
            "n_held_out": self.n_rows,
            "best": self.entries[0].name,
            "models": [asdict(entry) for entry in self.entries],
            "stack_weights": dict(self.stack_weights),
            "left_out": dict(self.left_out),
            "interrupted": self.interrupted,
            "unfinished": list(self.unfinished),
        }


def ranked(
    row_bits: Mapping[str, np.ndarray],
    common: Mapping[str, float],
    seconds: Mapping[str, float],
    converged: Mapping[str, bool],
    weights: np.ndarray | None = None,
    reports: Mapping[str, FitReport] | None = None,
) -> tuple[Entry, ...]:
    """Make the entries of a comparison, best first.

    `row_bits`: by name: -log2 p(x) of the same held-out rows in the same order.  `common`: by name: the standard error
    with which a mean is known, in bits, beside its spread over rows: of an estimated log Z, of integrals, of rounding;
    0 where all is exact.  `seconds`, `converged`: by name, as in `Entry`.  `weights`: how often each row counts; None
    for once.  `reports`: by name: reports of fits, where models have them.
    """
    costs = ("n_parameters", "log_likelihood", "aic", "bic")
    best = min(row_bits, key=lambda name: np.average(row_bits[name], weights=weights))
    entries = []
    for name, bits in row_bits.items():
        with np.errstate(invalid="ignore"):  # rows that both models hold impossible
            difference = np.zeros_like(bits) if name == best else bits - row_bits[best]
        entries.append(
            Entry(
                name=name,
                bits_per_row=float(np.average(bits, weights=weights)),
                error=float(np.hypot(standard_error(bits, weights), common[name])),
                behind=float(np.average(difference, weights=weights)),
                behind_error=0.0
                if name == best
                else float(np.hypot(standard_error(difference, weights), np.hypot(common[name], common[best]))),
                seconds=seconds[name],
                converged=converged[name],
                **({cost: reports[name][cost] for cost in costs} if reports and name in reports else {}),
            )
        )
    return tuple(sorted(entries, key=lambda e: e.bits_per_row))


def shared_error(errors: Sequence[float]) -> float:
    """Compute the standard error that all folds share: folds are of about one size, and their log Z independent."""
    return float(np.sqrt(np.mean(np.square(errors)) / len(errors)))


def standard_error(x: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Compute that of the mean of x; NaN for a single number, and where some are infinite (rows of probability 0).

    >>> standard_error(np.array([0.0, 1.0]), np.array([2.0, 2.0])) == standard_error(np.array([0.0, 0.0, 1.0, 1.0]))
    True
    """
    n = float(len(x) if weights is None else weights.sum())
    if n <= 1 or not np.isfinite(x).all():
        return float("nan")
    squares = np.square(x - np.average(x, weights=weights))
    return float(np.sqrt(np.average(squares, weights=weights) / (n - 1)))
