"""`latentbits score`: how well a model describes a table."""

from __future__ import annotations

import math
from typing import Any

import click

from latentbits.cli.console import common_options, give, printed_warnings
from latentbits.cli.inputs import Reading, data_argument, model_argument, reading_options, to_apply, weights_option
from latentbits.cli.outputs import FORMATS, Outputs, write_table
from latentbits.cli.reports import show_tables

__all__ = ["score"]


@click.command(short_help="How well a model describes a table.")
@model_argument
@data_argument
@click.option(
    "--per-row", type=click.Path(dir_okay=False), help=f"Also write log p(x), in nats, of each row ({FORMATS})."
)
@reading_options
@weights_option
@common_options
def score(model_path: str, source: str, reading: Reading, per_row: str | None, as_json: bool) -> None:
    """Score how well the model in file MODEL describes DATA (a file, or the name of a public data set).

    Prints the log-likelihood in nats, its mean, and bits per row (the fewer the better) with the standard error over
    rows, which includes what is estimated in them: log Z, integrals, rounding.  Where the model holds a row impossible,
    these are infinite (null in JSON), and the rows are counted.  A model of real numbers gives densities, which depend
    on the units, and are printed in nats alone; binary sparse coding that sums over some of the states of a row says by
    how much the sum is too low.
    """
    import numpy as np

    from latentbits.estimators.precision import sum_of
    from latentbits.estimators.tables.encoding import check_observed
    from latentbits.reports.comparison import standard_error
    from latentbits.reports.numbers import Measured
    from latentbits.reports.summaries.records import values_table

    outputs = Outputs({"--per-row": per_row}, tables=("--per-row",), read=(model_path, source))
    model, rows = to_apply(model_path, source, reading, streams=True)
    if type(rows.values) is np.ndarray:
        check_observed(rows.values)
    with printed_warnings(rows.names):
        known = model.log_likelihoods(rows.values)
    nats, loss = np.asarray(known.value, np.float64), float(getattr(model, "truncation_loss_", 0.0))
    common = 0.0 if loss else float(np.max(known.common_error))  # a loss has a sign, and is no standard error
    weights, n_rows = rows.weights, rows.n_counted
    lost = float(np.average(np.asarray(known.rounding), weights=weights))  # it may have one sign in all rows
    estimated = lost if hasattr(model, "truncation_loss_") else model.error_of_mean(known, weights)
    estimated = estimated if math.isfinite(estimated) else 0.0  # unknown, or of rows that are impossible
    if per_row is not None:
        per_row = write_table(outputs, per_row, nats[:, None], ["log_likelihood"], rows.labels)
    n_impossible = int(np.sum(np.isneginf(nats)))  # under a clipped Gaussian without noise
    error = math.hypot(standard_error(nats, weights), estimated)
    total = sum_of(known, weights)
    mean = total / n_rows
    result = {
        "n_rows": len(nats),
        "weight": n_rows,
        "n_impossible": n_impossible,
        "log_likelihood": total,
        "nats_per_row": mean,
        "nats_per_row_error": error,
        "bits_per_row": -mean / math.log(2),
        "bits_per_row_error": error / math.log(2),
        "log_partition_error": common,
        "estimate_error": estimated,
        "rounding_error": lost,
        "truncation_loss": loss,
        "per_row": per_row,
    }

    def show() -> None:
        def known(value: float, error: float = math.nan) -> Measured:
            return Measured(value, error, form=".4f")

        possible, log2 = nats[np.isfinite(nats)], math.log(2)
        values: dict[str, Any] = {
            "log-likelihood, nats": Measured(total, n_rows * estimated),
            "nats per row": known(mean, error),
        }
        if common:
            values["of the error, by log Z"] = known(common)
        if lost:
            values["of the error, by rounding"] = known(lost)
        if loss:
            values["too low by about"] = known(loss)
        if not model.real_valued:
            values["bits per row"] = known(-mean / log2, error / log2)
        if n_impossible:
            values["rows of probability 0"] = f"{n_impossible} of {len(nats)}"
            if len(possible):
                values["nats per row, of the others"] = known(float(np.mean(possible)))
        show_tables([values_table(values)])

    give(result, as_json, show)
    outputs.finish()
