"""A report: named numbers that print as a table, and leave as a frame, csv, LaTeX, markdown or json."""

from __future__ import annotations

import csv
import html
import io
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.core.printable import printable
from latentbits.data.formulas import guarded

__all__ = ["WIDTH", "Report", "Table", "markdown", "number"]

HUGE = 1e12  # from here on numbers are written with an exponent
LATEX = str.maketrans(
    {sign: "\\" + sign for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}  # other signs in LaTeX's oldest fonts
    | {"[": "{[}", "*": "{*}"}  # the end of a line above would take them for an option
)
# An underscore within a word marks nothing.
MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")
MOST_SHOWN = 10  # rows of a table that begins with the largest, where it is printed
WIDTH = 80  # of a terminal: columns that do not fit are printed below


@dataclass(frozen=True)
class Table:
    """Columns of equal length with a name for each row.

    Attributes
    ----------
    index
        Names of the rows.
    columns
        Name of each column, and its values: numbers or text.
    title, notes
        What it shows, and what has to be said of it: parameters at a bound, cells too sparse.
    """

    index: list[str]
    columns: dict[str, Any]
    title: str = ""
    notes: tuple[str, ...] = ()

    def largest(self, what: str) -> Table:
        """The first rows of a table that begins with the largest, and how many there are beside."""
        more = len(self.index) - MOST_SHOWN
        if more <= 0:
            return self
        columns = {name: values[:MOST_SHOWN] for name, values in self.columns.items()}
        told = f"the {MOST_SHOWN} largest; to_frame, to_csv and the file of a report have {more} more {what}"
        return Table(self.index[:MOST_SHOWN], columns, self.title, (*self.notes, told))

    def lines(self, digits: int = 4) -> list[list[str]]:
        """Every cell as text, the names of columns first."""
        parts = [[_line(number(value, digits)) for value in values] for values in self.columns.values()]
        rows = zip(map(_line, self.index), *parts, strict=True)
        return [["", *map(_line, self.columns)], *map(list, rows)]

    def blocks(self, width: int = WIDTH, gap: int = 2, digits: int = 4) -> list[list[list[str]]]:
        """The cells as text, in blocks of columns that fit into a width; each begins with the names of the rows."""
        lines = self.lines(digits)
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        parts: list[list[int]] = [[]]
        for column in range(1, len(widths)):
            wide = widths[0] + sum(widths[i] + gap for i in [*parts[-1], column])
            if wide > width and parts[-1]:
                parts.append([])
            parts[-1].append(column)
        return [[[line[0], *(line[i] for i in part)] for line in lines] for part in parts]

    def __str__(self) -> str:
        text = [_line(self.title)] if self.title else []
        for lines in self.blocks():
            widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
            text += [
                "  ".join(
                    [line[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(line[1:], widths[1:]))]
                ).rstrip()
                for line in lines
            ]
        return "\n".join([*text, *(f"note: {_line(note)}" for note in self.notes)])

    def _repr_html_(self) -> str:
        return self.to_frame().to_html() + "".join(f"<p>note: {html.escape(note)}</p>" for note in self.notes)

    def to_frame(self) -> Any:
        """A pandas data frame, every number in full."""
        pandas = import_extra("pandas", extra="tables", purpose="a data frame")
        return pandas.DataFrame({name: list(values) for name, values in self.columns.items()}, index=self.index)

    def to_csv(self) -> str:
        """Comma-separated text, every number in full."""
        file = io.StringIO()
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["", *map(_cell, self.columns)])
        cells = ([_cell(v) for v in values] for values in (self.index, *self.columns.values()))
        writer.writerows(zip(*cells, strict=True))
        return file.getvalue()

    def to_markdown(self, digits: int = 4) -> str:
        """A table for a README or a notebook."""
        head, *rows = [list(map(markdown, line)) for line in self.lines(digits)]
        rule = ["---", *["---:"] * len(self.columns)]
        return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])

    def to_latex(self, digits: int = 4) -> str:
        """A `tabular` with the rules of the package booktabs."""
        head, *rows = [" & ".join(map(latex, line)) + r" \\" for line in self.lines(digits)]
        layout = "l" + "r" * len(self.columns)
        return "\n".join(
            [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
        )


@dataclass(frozen=True)
class Report:
    """Base of all reports: a frozen dataclass whose fields are read as attributes or, as of a dict, by name.

    A subclass says in `table` what is in it, and in `shown` what of that is printed.
    """

    def table(self) -> Table:
        """The report as a table; here one row for each field that is a number."""
        shown = {name: self[name] for name in self.keys() if isinstance(self[name], (int, float, str))}
        return Table(list(shown), {"value": list(shown.values())}, notes=tuple(getattr(self, "notes", ())))

    def shown(self) -> Table:
        """The table as it is printed: all of it."""
        return self.table()

    def __getitem__(self, name: str) -> Any:
        if name not in self.keys():
            raise KeyError(f"{type(self).__name__} has no {name!r}; it has {', '.join(self.keys())}")
        return getattr(self, name)

    def __iter__(self) -> Iterator[str]:
        return iter(self.keys())

    def keys(self) -> list[str]:
        """Names of what is in it."""
        return [field.name for field in fields(self)]

    def __str__(self) -> str:
        return str(self.shown())

    def _repr_html_(self) -> str:
        return self.shown()._repr_html_()

    def to_frame(self) -> Any:
        """The table as a pandas data frame."""
        return self.table().to_frame()

    def to_csv(self) -> str:
        """The table as comma-separated text."""
        return self.table().to_csv()

    def to_markdown(self) -> str:
        """The table as markdown."""
        return self.table().to_markdown()

    def to_latex(self) -> str:
        """The table as a LaTeX `tabular`."""
        return self.table().to_latex()

    def to_json(self) -> dict[str, Any]:
        """Every field as plain numbers, lists and text; what is not a number is None."""
        return {name: _json(self[name]) for name in self.keys()}


def number(value: Any, digits: int = 4) -> str:
    """A cell as text: whole numbers as they are, nothing for NaN, others with so many significant digits.

    Large ones keep two decimals, as differences of log-likelihoods count.
    """
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(value) if abs(int(value)) < HUGE else f"{float(value):.{digits}g}"
    if not isinstance(value, (float, np.floating)):
        return "" if value is None else str(value)
    value = float(value)
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if (size < 1 and "e" in text) or size >= HUGE:
        return text
    # trailing zeros are kept, so that a column lines up by its digits
    return f"{value:.{max(digits - 1 - math.floor(math.log10(size)), 2) if size >= 1 else digits}f}"


def _cell(value: Any) -> Any:
    """For a csv file: names that a spreadsheet would run as formulas are told to be text."""
    # a return would end the row, as it is not put in quotes
    return guarded(value.replace("\r", "\n")) if isinstance(value, str) else _plain(value)


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _json(value: Any) -> Any:
    if isinstance(value, Table):
        return {"index": list(value.index), "columns": {name: _json(v) for name, v in value.columns.items()}}
    if isinstance(value, Report):
        return value.to_json()
    if isinstance(value, np.ndarray):
        return _json(value.tolist())
    if isinstance(value, dict):
        return {str(name): _json(v) for name, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json(v) for v in value]
    value = _plain(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def markdown(text: str) -> str:
    """Escape what would end a line or a cell, or begin an element of Markdown or HTML."""
    return MARKDOWN.sub(r"\\\g<0>", html.escape(_line(text), quote=False))


def latex(text: str) -> str:
    """Escape what LaTeX would take for a command, for the end of a cell or of a line, or for an option."""
    return _line(text).translate(LATEX)


def _line(text: str) -> str:
    """Put the text in one line, without characters that act and are not seen."""
    return printable(" ".join(text.split()))
