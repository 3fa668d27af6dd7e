"""`latentbits fit`: learn a model and write it to a file."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from latentbits.cli.console import check_checkpoint, checkpoint_options, common_options, give, printed_warnings, say
from latentbits.cli.figures import check_figures, draw_figures, figure_options
from latentbits.cli.inputs import (
    Reading,
    data_argument,
    fit_named,
    labels_beside,
    load_rows,
    reading_options,
    weights_option,
    without_names,
)
from latentbits.cli.options import FamilyName, options_of, settings_of
from latentbits.cli.outputs import Outputs
from latentbits.cli.reports import report_file, report_option, show_reports, show_tables, write_reports
from latentbits.core.interrupts import keeping
from latentbits.estimators.families import families, family, name_of
from latentbits.estimators.family_record import Family

if TYPE_CHECKING:
    from latentbits.reports.record import Report, Table

__all__ = ["FAMILY", "USUAL", "Fit", "fit"]

USUAL = "mixture"
FAMILY = "latentbits.family"  # where a context has it


class Fit(click.Command):
    """A command that has, beside its own, the options of the family that --model names, and no others."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        asked = _model_in(args)
        if ctx.resilient_parsing:  # the Tab key: options of a model that is named, and no wait for JAX before it is
            if asked in [one.name for one in self.families()]:
                ctx.meta[FAMILY] = family(asked)
        elif not args or not set(args) <= set(ctx.help_option_names):  # help alone is about all models, without JAX
            model = next(option for option in self.params if option.name == "model")
            ctx.meta[FAMILY] = family(model.type.convert(asked or USUAL, model, ctx))
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._foreign(error, ctx.meta[FAMILY]) from error

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        source, model, *others = super().get_params(ctx)
        own = self.options_of(ctx.meta[FAMILY]) if FAMILY in ctx.meta else []
        return [source, model, *own, *others]

    def families(self) -> list[Family]:
        """List the families that it is for."""
        return list(families())

    def options_of(self, record: Family) -> list[click.Option]:
        """List the options of the family."""
        return options_of(record)

    def _foreign(self, error: click.NoSuchOption, asked: Family) -> click.UsageError:
        """Explain that an option is one of other models."""
        has = {one.name: {name for option in self.options_of(one) for name in option.opts} for one in self.families()}
        able = [name for name, options in has.items() if error.option_name in options]
        if not able:
            return error
        *others, last = able
        named = f"{', '.join(others)} and {last}" if others else last
        return click.UsageError(f"{error.option_name} is for --model {named}, not {asked.name}.", error.ctx)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if FAMILY in ctx.meta:
            formatter.write_paragraph()
            formatter.write_text(f"More on each option: help(latentbits.{ctx.meta[FAMILY].class_name}) in Python.")
            return
        with formatter.section("Models"):
            formatter.write_dl([(one.name, one.summary) for one in self.families()])
        formatter.write_paragraph()
        formatter.write_text(f"For the options of a model:  latentbits {self.name} --model NAME --help")


def _model_in(args: list[str]) -> str | None:
    """Find the value of --model or -m, if it is given."""
    words = iter(args)
    for word in words:
        if word in ("-m", "--model"):
            return next(words, None)
        if word.startswith(("--model=", "-m")):
            return word.removeprefix("--model=").removeprefix("-m")
    return None


@click.command(cls=Fit, short_help="Learn a model and write it to a file.")
@data_argument
@click.option("-m", "--model", type=FamilyName(), default=USUAL, help="What to learn.")
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(dir_okay=False),
    default="model.safetensors",
    help="Where the model goes.",
)
@report_option
@figure_options
@checkpoint_options
@reading_options
@weights_option
@common_options
def fit(
    source: str,
    reading: Reading,
    model: str,
    output: str,
    report: str | None,
    figures: str | None,
    figure_format: str,
    checkpoint: str | None,
    resume: bool,
    as_json: bool,
    **own: Any,
) -> None:
    """Learn a model from DATA (a file, or the name of a public data set) and write it to a file.

    The result is printed, or given as --json.  --figures draws it, of a mixture its classes, of an item response
    model its items: curves with observed proportions, information, a Wright map; of both, and of latent traits,
    residuals of pairs; and of causes on a tree, the tree.

    Ctrl-C or SIGTERM ends the fit, keeps the best model so far, and exits with 130 or 143; a second one ends at once.
    With --checkpoint, it is also kept where learning stands, and --resume goes on to the model that it would have been.
    """
    from latentbits.reports.summaries.records import Rows

    check_checkpoint(checkpoint, resume)
    record = family(model)
    if figures is not None and not record.figures:
        able = [one.name for one in families() if one.figures]
        named = f"{', '.join(able[:-1])} and {able[-1]}"
        raise click.UsageError(f"--figures is for --model {named}, not {record.name}.")
    check_figures(figures, record.figures, figure_format, "fit")
    files = {f"--{name}": own[name] for name in record.files}
    to_report = report_file(report)
    written = {"--out": output, "--report": to_report, **files}
    outputs = Outputs(written, tables=tuple(files), read=(source,))  # before minutes
    estimator = record.cls(**settings_of(record, own), verbose=1)
    rows = load_rows(source, reading, streams=True, guess=labels_beside(estimator))
    say(
        f"fitting {name_of(estimator)}"
        + (f", best of {estimator.n_init} restarts" if (estimator.n_init or 1) > 1 else "")
    )
    began = time.perf_counter()
    with printed_warnings(rows.names), keeping(f"nothing was learned yet: {output} is not written"):
        fit_named(estimator, rows, checkpoint)
        seconds = time.perf_counter() - began
        objective = _objective(estimator)
        for line in _how_it_ended(estimator, objective, rows.n_counted, seconds):
            say(line)
        saved_as = outputs.write(output, lambda path: _save(estimator, path))
    with printed_warnings(rows.names), without_names(estimator):
        learned = Rows(rows.values, rows.all_names, own.get("errors", False), rows.weights)
        summary = record.summaries.summarize(estimator, learned)
    if figures is not None:
        from latentbits.figures.fitted import figures_of

        with printed_warnings(rows.names), without_names(estimator):
            makers = figures_of(estimator, rows.values, rows.all_names, rows.weights)
            drawn = draw_figures(makers, figures, figure_format, outputs)
        say(f"wrote {figures}: {', '.join(path.name for path in drawn)}" if drawn else "there is nothing to draw of it")
    result = {
        "output": saved_as,
        "model": type(estimator).__name__,
        "n_rows": rows.shape[0],
        "n_columns": rows.shape[1],
        "n_iter": int(estimator.n_iter_),
        "converged": bool(estimator.converged_),
        "stop_reason": estimator.stop_reason_,
        "objective": objective,
        "left_to_gain": estimator.left_to_gain_ if math.isfinite(estimator.left_to_gain_) else None,
        "seconds": seconds,
    }
    reports: dict[str, Report] = {}
    left_out: dict[str, str] = {}
    if report is not None:
        from latentbits.reports.summaries.reports import reports_of

        with printed_warnings(rows.names):  # under the names of its columns
            reports, left_out = reports_of(estimator, learned, getattr(record.summaries, "REPORTS", ()))
        result["reports"] = reports
        result["reports_left_out"] = left_out
    for name, make in summary.files.items():
        if own[name] is not None:
            outputs.write(own[name], partial(_write, make()))
    if to_report is not None:
        write_reports(outputs, to_report, reports)

    def show() -> None:
        show_tables(summary.shown())
        show_reports(reports, left_out)

    give({**result, **summary.facts}, as_json, show)
    if estimator.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # the model is safe; Ctrl-C also stops the script around us
    outputs.finish()


def _objective(estimator: Any) -> float | None:
    """Give the last objective in nats; None where it is no measure of the rows, or learning ended before one."""
    from latentbits.core.model import Measure

    measures = estimator.history_table_["measure"]
    in_nats = len(measures) > 0 and measures[-1] != Measure.LEFT_OVER
    return estimator.objective_ if in_nats and math.isfinite(estimator.objective_) else None


def _how_it_ended(estimator: Any, objective: float | None, n_rows: float, seconds: float) -> Iterator[str]:
    state = {"converged": "converged", "completed": "done"}.get(estimator.stop_reason_, "stopped")
    n = estimator.n_iter_
    left = estimator.left_to_gain_
    rest = f", {left:.1g} nats left to gain" if math.isfinite(left) else ""
    yield f"{state} after {n} iteration{'' if n == 1 else 's'} and {seconds:.1f} s{rest}"
    if objective is not None:
        yield f"objective: {objective:.6g} nats, {objective / n_rows:.6g} per row"


def _save(estimator: Any, path: str) -> None:
    estimator.save(path)
    say(f"wrote {path}")


def _write(table: Table, path: str) -> None:
    from latentbits.reports.render import write_table

    write_table(table, path)
    say(f"wrote {path}: {len(table.index)} {table.corner}s")
