"""The report of every fitted model that has a likelihood: parameters, log-likelihood, information criteria."""

from __future__ import annotations

import math
from dataclasses import dataclass

from latentbits.reports.record import Report

__all__ = ["FitReport", "fit_report"]


@dataclass(frozen=True)
class FitReport(Report):
    """How well a model describes a table for what it costs: of each criterion the lower, the better.

    Attributes
    ----------
    log_likelihood, error
        In nats, of all rows together, and the error with which it is known; that of a criterion is twice that.
    n_parameters
        Free parameters.
    n_rows
        Rows with at least one answer, each as often as it counts.
    aic, bic, sabic, caic
        -2 log L + c p, with c = 2 (Akaike), log n (Schwarz), log((n + 2) / 24) (Sclove's adjustment of the number of
        rows) and log n + 1 (Bozdogan).
    notes
        What has to be said of these numbers.
    """

    log_likelihood: float
    error: float
    n_parameters: int
    n_rows: float | int
    aic: float
    bic: float
    sabic: float
    caic: float
    notes: tuple[str, ...]


def fit_report(
    log_likelihood: float, error: float, n_parameters: int, n_rows: float | int, notes: tuple[str, ...] = ()
) -> FitReport:
    """Compute the criteria."""
    n = max(n_rows, 1)
    costs = (2.0, math.log(n), math.log((n + 2) / 24), math.log(n) + 1)
    aic, bic, sabic, caic = (cost * n_parameters - 2 * log_likelihood for cost in costs)
    return FitReport(log_likelihood, error, n_parameters, n_rows, aic, bic, sabic, caic, notes)
