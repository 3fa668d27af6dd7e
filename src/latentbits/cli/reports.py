"""Reports at the command line: printed, in JSON, and as files that go into a paper."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latentbits.cli.console import as_options, say, show_line
from latentbits.cli.outputs import Outputs

if TYPE_CHECKING:
    from latentbits.reports.record import Report, Table

__all__ = ["EXTENSIONS", "report_file", "report_option", "show_reports", "show_table", "show_tables", "write_reports"]

PRINTED = "-"  # what --report without a file stands for
EXTENSIONS = (".csv", ".tex", ".md", ".json")  # the keys of `reports.render.FORMATS`, which would import NumPy


def report_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --report, with or without a file."""
    return click.option(
        "--report",
        metavar="[FILE]",
        is_flag=False,
        flag_value=PRINTED,
        help="Report the fit: parameters, log-likelihood, AIC, BIC and everything else that the model can report; with "
        "FILE, also write it there (csv, tex, md or json, by the extension).",
    )(command)


def report_file(asked: str | None, option: str = "--report") -> str | None:
    """Give the file that the option names, if any; refuse an unknown extension."""
    if asked is None or asked == PRINTED:
        return None
    if Path(asked).suffix.lower() not in EXTENSIONS:
        raise click.UsageError(f"{option} {asked}: the extension is unknown; use {', '.join(EXTENSIONS)}")
    return asked


def show_table(head: Iterable[str], lines: Iterable[Iterable[str]], title: str = "") -> None:
    """Print lines of words under their headings."""
    from latentbits.reports.record import Table

    corner, *names = head
    index, *columns = zip(*lines)
    show_tables([Table(list(index), dict(zip(names, columns, strict=True)), title, corner=corner)])


def show_tables(tables: Iterable[Table], options: bool = True) -> None:
    """Print tables on stdout: in a terminal as wide as that, elsewhere as wide as they need to be.

    With `options` the notes below them name options where the library names arguments.
    """
    from latentbits.reports.render import to_text

    folds = sys.stdout.isatty()
    width = shutil.get_terminal_size().columns if folds else None
    for table in tables:
        notes = tuple(map(as_options, table.notes)) if options else table.notes
        for line in (*to_text(replace(table, notes=notes), width, fold=folds).splitlines(), ""):
            show_line(line)


def show_reports(reports: Mapping[str, Report], left_out: Mapping[str, str] | None = None) -> None:
    """Print every report under its title, and why others are missing."""
    from latentbits.reports.render import shown_under_titles

    show_tables(shown_under_titles(reports))
    for title, why in (left_out or {}).items():
        say(f"{title}: {as_options(why)}")


def write_reports(outputs: Outputs, path: str, reports: Mapping[str, Report]) -> None:
    """Write reports to one file."""
    from latentbits.core.atomic import write_atomically
    from latentbits.reports.render import FORMATS

    text = FORMATS[Path(path).suffix.lower()](reports)

    def save(there: str) -> None:
        with write_atomically(there) as file:
            file.write(text.encode())
        say(f"wrote {there}: {', '.join(reports)}")

    outputs.write(path, save)
