"""Reports at the command line: printed, in JSON, and as files that go into a paper."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latentbits.cli.console import as_options, print_table, say, show_note
from latentbits.cli.outputs import Outputs

if TYPE_CHECKING:
    from latentbits.reports.record import Report

__all__ = ["FORMATS", "report_file", "report_option", "show_reports", "write_reports"]

PRINTED = "-"  # what --report without a file stands for


def report_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """--report, with or without a file."""
    return click.option(
        "--report",
        metavar="[FILE]",
        is_flag=False,
        flag_value=PRINTED,
        help="Report the fit: parameters, log-likelihood, AIC, BIC and what else the model can tell; with FILE, write "
        "it there, too (csv, tex, md or json, by the extension).",
    )(command)


def report_file(asked: str | None, option: str = "--report") -> str | None:
    """The file that the option names, if it does; complains of an extension that is not known."""
    if asked is None or asked == PRINTED:
        return None
    if Path(asked).suffix.lower() not in FORMATS:
        raise click.UsageError(f"{option} {asked}: known are {' '.join(FORMATS)}")
    return asked


def show_reports(reports: Mapping[str, Report], left_out: Mapping[str, str] | None = None) -> None:
    """Every report as a table under its title, and why others are not there."""
    for title, report in reports.items():
        table = report.shown()
        if not table.index:
            continue  # one column has no pairs
        # in a terminal what has no room beside the others is put below them as it is printed
        for i, (head, *lines) in enumerate([table.lines()] if sys.stdout.isatty() else table.blocks(gap=3)):
            print_table(head, lines, title="" if i else title)
        for note in table.notes:
            show_note(f"note: {as_options(note)}")
    for title, why in (left_out or {}).items():
        say(f"{title}: {as_options(why)}")


def write_reports(outputs: Outputs, path: str, reports: Mapping[str, Report]) -> None:
    """Write them to one file."""
    from latentbits.core.atomic import write_atomically

    text = FORMATS[Path(path).suffix.lower()](reports)

    def save(there: str) -> None:
        with write_atomically(there) as file:
            file.write(text.encode())
        say(f"wrote {there}: {', '.join(reports)}")

    outputs.write(path, save)


def _csv(reports: Mapping[str, Report]) -> str:
    """One table as it is; several with an empty line between, and a title above each."""
    if len(reports) == 1:
        return next(iter(reports.values())).to_csv()
    return "\n".join(f"{title}\n{report.to_csv()}" for title, report in reports.items())


def _latex(reports: Mapping[str, Report]) -> str:
    return "\n\n".join(f"% {title}\n{report.to_latex()}" for title, report in reports.items()) + "\n"


def _markdown(reports: Mapping[str, Report]) -> str:
    from latentbits.reports.record import markdown

    parts = []
    for title, report in reports.items():
        parts += [f"## {title}", report.to_markdown(), *(f"note: {markdown(note)}" for note in report.table().notes)]
    return "\n\n".join(parts) + "\n"


def _json(reports: Mapping[str, Report]) -> str:
    return json.dumps({title: report.to_json() for title, report in reports.items()}, allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[Mapping[str, Report]], str]] = {
    ".csv": _csv,
    ".tex": _latex,
    ".md": _markdown,
    ".json": _json,
}
