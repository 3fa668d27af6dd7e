"""How many classes, traits or causes?  Fits of several sizes side by side, by their information criteria."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from latentbits.choosing.compare import FAILURES, reason_of
from latentbits.core import interrupts
from latentbits.estimators.families import family_of
from latentbits.reports.fit import FitReport
from latentbits.reports.record import Report, Table

__all__ = ["SizeTable", "size_table"]

CRITERIA = ("n_parameters", "log_likelihood", "aic", "bic", "sabic", "caic")


@dataclass(frozen=True)
class SizeTable(Report):
    """Fits of several sizes to the same rows: of each criterion the lower, the better.

    Attributes
    ----------
    parameter
        What differs: the estimator's parameter that holds the size.
    sizes
        The sizes, in the order they were given.
    n_parameters, log_likelihood, aic, bic, sabic, caic : ndarray
        Of each of them, as in `FitReport`.
    converged : ndarray of bool
        Whether learning ended with nothing left to gain.
    reports
        The whole report of each fit.
    fitted
        The fitted models.
    interrupted
        Whether Ctrl-C ended it; it is then of the sizes that were finished.
    notes
        What has to be said of these numbers, and of sizes that are not there.
    """

    parameter: str
    sizes: tuple[Any, ...]
    n_parameters: np.ndarray
    log_likelihood: np.ndarray
    aic: np.ndarray
    bic: np.ndarray
    sabic: np.ndarray
    caic: np.ndarray
    converged: np.ndarray
    reports: tuple[FitReport, ...]
    fitted: tuple[Any, ...]
    interrupted: bool
    notes: tuple[str, ...]

    def best(self, criterion: str = "bic") -> Any:
        """Find the size with the lowest `aic`, `bic`, `sabic` or `caic`."""
        if criterion not in CRITERIA[2:]:
            raise ValueError(f"criterion must be one of {', '.join(CRITERIA[2:])}, got {criterion!r}")
        return self.sizes[int(np.argmin(self[criterion]))]

    def keys(self) -> list[str]:
        """Give the names of what is in it; models are no numbers, and only an attribute."""
        return [field.name for field in fields(self) if field.name != "fitted"]

    def table(self) -> Table:
        """Make one row a size, with all other numbers of the models' reports."""
        known = {field.name for field in fields(FitReport)}
        first = self.reports[0]
        more = [name for name in first if name not in known and isinstance(first[name], (int, float))]
        columns = {name: self[name] for name in (*CRITERIA, "converged")}
        columns |= {name: [one[name] for one in self.reports] for name in more}
        index = [", ".join(map(str, size)) if isinstance(size, tuple) else str(size) for size in self.sizes]
        return Table(index, columns, title=f"by {self.parameter}", notes=self.notes)


def size_table(
    estimator: Any, X: Any, sizes: Iterable[Any] = (1, 2, 3, 4, 5), *, sample_weight: Any = None
) -> SizeTable:
    """Fit an estimator in several sizes, and report them side by side.

    Parameters
    ----------
    estimator : estimator of this library
        Whose settings all fits have, but for the size; it is not fitted itself.  For criteria in their strict sense it
        should maximise the likelihood: ``BernoulliMixture(smoothing=0)``.
    X : array-like of shape (n_rows, n_columns)
        As `fit` takes it.
    sizes : iterable
        Values of its `n_components`, `n_hidden`, `n_causes` or `layer_sizes` (of the latter a number is one layer).
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts; None for once.

    Returns
    -------
    SizeTable
        Prints as a table; `best("bic")` is the size of the lowest BIC, `fitted` has the models.

    Notes
    -----
    A size that cannot be fitted is left out, and `notes` say why.  Ctrl-C gives the sizes that are finished by then.

    Examples
    --------
    >>> import numpy as np
    >>> from latentbits import BernoulliMixture, size_table
    >>> X = np.array([[1, 1, 1, 0], [1, 1, 0, 1], [0, 0, 0, 1], [0, 0, 1, 0], [1, 1, 1, 1], [0, 0, 0, 0]] * 20)
    >>> found = size_table(BernoulliMixture(smoothing=0, random_state=0), X, sizes=(1, 2))
    >>> found.n_parameters.tolist(), found.best("bic")
    ([4, 9], 2)
    """
    record = family_of(estimator)
    if not record.size:
        raise ValueError(f"{record.class_name} has no size to choose")
    asked = [size if not record.has_layers or isinstance(size, tuple) else (size,) for size in sizes]
    if not asked:
        raise ValueError("sizes is empty: nothing to fit")
    done: dict[Any, tuple[Any, FitReport]] = {}
    notes: list[str] = []
    interrupted = False
    with interrupts.held():
        for size in asked:
            try:
                fitted = _fitted(clone(estimator).set_params(**{record.size: size}), X, sample_weight)
                done[size] = fitted, fitted.fit_report(X, sample_weight)
            except FAILURES as error:
                if len(asked) == 1:
                    raise
                notes.append(f"{record.title(size)} is not there: {reason_of(error)}")
            except KeyboardInterrupt:
                if not done:
                    raise
                notes.append(f"interrupted before {record.title(size)} was fitted")
                interrupted = True
                break
        interrupted = interrupts.take() or interrupted
    if not done:
        raise ValueError("; ".join(notes))
    models, reports = (tuple(parts) for parts in zip(*done.values()))
    # what several sizes have in common is said once
    notes += dict.fromkeys(note for report in reports for note in report.notes)
    return SizeTable(
        parameter=record.size,
        sizes=tuple(done),
        **{name: np.array([report[name] for report in reports]) for name in CRITERIA},
        converged=np.array([bool(one.converged_) for one in models]),
        reports=reports,
        fitted=models,
        interrupted=interrupted,
        notes=tuple(notes),
    )


def _fitted(estimator: Any, X: Any, sample_weight: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says so
        fitted = estimator.fit(X, sample_weight=sample_weight)
    if fitted.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # a fit that is cut short says nothing of its size
    return fitted
