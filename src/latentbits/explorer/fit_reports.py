"""Reports of the fits that the page shows, where they are quick to make."""

from __future__ import annotations

from collections.abc import Mapping

from latentbits.choosing.refit import Refitted
from latentbits.choosing.search import Search
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.families import family
from latentbits.explorer.tables import Given
from latentbits.reports.record import Report
from latentbits.reports.summaries.records import Rows
from latentbits.reports.summaries.reports import reports_of

__all__ = ["fit_reports"]

MOST_COLUMNS_REPORTED = 64  # pairs of more columns are thousands
# on the digits (1797 x 64) all reports of a mixture take .6 s with 164 parameters, 22 s with 1649; that of the fit, .02
MOST_PARAMETERS_REPORTED = 200


def fit_reports(
    given: Given, found: Search, models: Mapping[str, Refitted]
) -> tuple[tuple[str, Mapping[str, Report]], ...]:
    """Report the fits to all rows where that is quick: of few columns of bits, by an exact likelihood."""
    if given.real or given.values.shape[1] > MOST_COLUMNS_REPORTED:
        return ()
    rows = Rows(given.values[found.used], given.columns, weights=found.weights)
    reports = []
    for name, one in models.items():
        record = family(found.families[name])
        if one.again and record.likelihood == "exact" and isinstance(one.model, WithFitReport):
            few = one.model.n_parameters_ <= MOST_PARAMETERS_REPORTED
            more = getattr(record.summaries, "REPORTS", ()) if few else ()
            reports.append((name, reports_of(one.model, rows, more)[0]))
    return tuple(reports)
