"""Reports as text, HTML, Markdown, LaTeX, csv and JSON: the one place in which a table becomes any of these.

A table is a value (`reports.record.Table`).  `cells` writes each of its cells as text in one line, and everything for
people is made of these; `flat` gives its numbers in full, and everything for programs is made of those.
"""

from __future__ import annotations

import csv
import html
import io
import json
import math
import os
import re
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.core.printable import printable
from latentbits.data.formulas import guarded
from latentbits.reports.numbers import Measured, number

if TYPE_CHECKING:
    from latentbits.reports.record import Report, Table

__all__ = [
    *("FORMATS", "WIDTH", "cells", "flat", "plain", "records", "shown_under_titles", "to_csv", "to_frame"),
    *("to_html", "to_latex", "to_markdown", "to_text", "write_table"),
]

WIDTH = 80  # characters of a line: the width of a terminal, unless it says another
GAP = 2  # characters between two columns
LATEX = str.maketrans(
    {sign: "\\" + sign for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}"}
    | {"|": r"\textbar{}", "<": r"\textless{}", ">": r"\textgreater{}"}  # other signs in LaTeX's oldest fonts
    | {"[": "{[}", "*": "{*}"}  # the end of a line above would take them for an option
)
# An underscore within a word marks nothing.
MARKDOWN = re.compile(r"[\\`*\[\]|~$]|(?<![^\W_])_|_(?![^\W_])")


# --- what a table holds, for people and for programs ---


def cells(table: Table, digits: int = 4) -> list[list[str]]:
    """Write every cell as text in one line, the names of the columns first."""
    columns = [[_line(_written(value, digits)) for value in values] for values in table.columns.values()]
    rows = zip(map(_line, table.index), *columns, strict=True)
    return [[_line(table.corner), *map(_line, table.columns)], *map(list, rows)]


def flat(table: Table) -> dict[str, Sequence[Any]]:
    """Give the columns in full: numbers with errors as two columns, NAME and NAME_error."""
    found: dict[str, Sequence[Any]] = {}
    for name, values in table.columns.items():
        if not any(isinstance(value, Measured) for value in values):
            found[name] = values
            continue
        found[name] = [value.value if isinstance(value, Measured) else value for value in values]
        errors = [value.error if isinstance(value, Measured) else None for value in values]
        if any(error is not None for error in errors):
            found[f"{name}{' error' if ' ' in name else '_error'}"] = [
                math.nan if error is None else error for error in errors
            ]
    return found


def records(table: Table) -> list[dict[str, Any]]:
    """Give a table as JSON has it: one object for each row."""
    columns = {table.corner: table.index, **flat(table)}
    return [dict(zip(columns, map(plain, row))) for row in zip(*columns.values(), strict=True)]


def plain(value: Any, digits: int | None = None) -> Any:
    """Give what JSON can hold: numbers, lists and text; NaN and infinity are null, and `digits` rounds numbers.

    >>> plain({"a": np.array([1.0, np.nan]), "b": np.float32(0.5)}), plain(2 / 3, digits=3)
    ({'a': [1.0, None], 'b': 0.5}, 0.667)
    """
    if hasattr(value, "to_json"):
        return plain(value.to_json(), digits)
    if isinstance(value, Measured):
        return plain(value.value, digits)
    if isinstance(value, (np.ndarray, np.generic)):
        return plain(value.tolist(), digits)
    if isinstance(value, Mapping):
        return {str(name): plain(one, digits) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(one, digits) for one in value]
    if isinstance(value, float):
        if not math.isfinite(value):
            return None
        return value if digits is None else float(f"{value:.{digits}g}")
    return value


def _written(value: Any, digits: int) -> str:
    return str(value) if isinstance(value, Measured) else number(value, digits)


def _line(text: str) -> str:
    """Put the text in one line, without characters that act and are not seen."""
    return printable(" ".join(text.split()))


# --- text ---


def to_text(table: Table, width: int | None = WIDTH, fold: bool = False) -> str:
    """Write a table in lines of at most `width` characters, None for any: what has no room comes below.

    Words begin a line at the left, numbers end at the right.  With `fold`, for a terminal, long words and notes are
    folded; numbers never are.
    """
    lines = cells(table)
    words = [True, *(_holds_words(values) for values in table.columns.values())]
    n_first = words.index(False) if False in words else len(words)  # columns of words that begin every block
    # a heading of numbers may be folded, so that it does not make its column wide
    heads = [head.split() if fold and not word else [head] for head, word in zip(lines[0], words)]
    widths = [
        max((_width(text) for text in (*head, *(line[place] for line in lines[1:]))), default=0)
        for place, head in enumerate(heads)
    ]
    text = _folded(_line(table.title), width) if table.title and fold else [_line(table.title)] * bool(table.title)
    for part in _beside(widths, n_first, 10**9 if width is None else width, fold):
        for line in lines if table.index or table.columns else ():
            text += _drawn([line[place] for place in part], list(part.values()), [words[place] for place in part])
    for note in table.notes:
        said = f"note: {_line(note)}"
        text += _folded(said, width, indent="  ") if fold else [said]
    return "\n".join(text)


def _holds_words(values: Iterable[Any]) -> bool:
    found = [value for value in values if value is not None and not (isinstance(value, str) and not value)]
    return bool(found) and all(isinstance(value, str) for value in found)


def _beside(widths: Sequence[int], n_first: int, room: int, fold: bool) -> list[dict[int, int]]:
    """Put columns into blocks that have room in a line, the first `n_first` of them in every block.

    >>> _beside([30, 8, 8], 1, 60, True), _beside([30, 8, 8], 1, 30, True)
    ([{0: 30, 1: 8, 2: 8}], [{0: 20, 1: 8}, {0: 20, 2: 8}])
    """
    first, others = list(range(n_first)), range(n_first, len(widths))
    # letters that a folded column of words keeps beside numbers
    least = sum(min(widths[j], 16) if fold else widths[j] for j in first) + GAP * (n_first - 1)
    most = max(1, room - least - GAP)
    own = [min(width, most) if fold and j >= n_first else width for j, width in enumerate(widths)]
    parts: list[list[int]] = [[]]
    for column in others:
        if parts[-1] and least + sum(own[j] + GAP for j in [*parts[-1], column]) > room:
            parts.append([])
        parts[-1].append(column)
    return [
        dict(zip(first, _narrowed([own[j] for j in first], room - sum(own[j] + GAP for j in part)) if fold else own))
        | {j: own[j] for j in part}
        for part in parts
    ]


def _narrowed(widths: Sequence[int], room: int) -> list[int]:
    """Share what room the numbers leave among columns of words, those first that need least."""
    left, found = room - GAP * (len(widths) - 1), list(widths)
    for rank, place in enumerate(sorted(range(len(widths)), key=lambda j: widths[j])):
        found[place] = max(1, min(widths[place], left // (len(widths) - rank)))
        left -= found[place]
    return found


def _drawn(line: Sequence[str], widths: Sequence[int], words: Sequence[bool]) -> list[str]:
    """Draw one row, in several lines where a cell has more characters than its column."""
    folded = [_folded(cell, width) for cell, width in zip(line, widths)]
    drawn = []
    for place in range(max(map(len, folded))):
        row = [part[place] if place < len(part) else "" for part in folded]
        spaces = [" " * (width - _width(cell)) for cell, width in zip(row, widths)]
        drawn.append((" " * GAP).join(c + s if word else s + c for c, s, word in zip(row, spaces, words)).rstrip())
    return drawn


def _folded(text: str, width: int | None, indent: str = "") -> list[str]:
    if width is None or _width(text) <= width:
        return [text]
    if _width(text) == len(text):
        return textwrap.wrap(text, width, subsequent_indent=indent if width > len(indent) else "")
    from rich.cells import chop_cells

    return chop_cells(text, max(width, 2))  # letters of East Asia are two characters wide


def _width(text: str) -> int:
    """Count the characters that a text takes in a terminal."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


# --- other formats for people ---


def to_html(table: Table) -> str:
    """Write a table for a notebook or the page."""
    head, *rows = [[html.escape(cell) for cell in line] for line in cells(table)]
    title = f"<caption>{html.escape(_line(table.title))}</caption>" if table.title else ""
    body = "".join(
        f'<tr><th scope="row">{first}</th>{"".join(f"<td>{cell}</td>" for cell in row)}</tr>' for first, *row in rows
    )
    top = f"<thead><tr>{''.join(_head(cell) for cell in head)}</tr></thead>"
    notes = "".join(f"<p>note: {html.escape(_line(note))}</p>" for note in table.notes)
    return f"<table>{title}{top}<tbody>{body}</tbody></table>{notes}"


def _head(name: str) -> str:
    return f'<th scope="col">{name}</th>' if name else "<td></td>"


def to_markdown(table: Table) -> str:
    """Write a table for a README or a page of documentation."""
    head, *rows = [list(map(_markdown, line)) for line in cells(table)]
    rule = ["---", *("---" if _holds_words(values) else "---:" for values in table.columns.values())]
    return "\n".join("| " + " | ".join(line) + " |" for line in [head, rule, *rows])


def to_latex(table: Table) -> str:
    """Write a `tabular` with the rules of the package booktabs."""
    head, *rows = [" & ".join(_line(cell).translate(LATEX) for cell in line) + r" \\" for line in cells(table)]
    layout = "l" + "".join("l" if _holds_words(values) else "r" for values in table.columns.values())
    return "\n".join(
        [rf"\begin{{tabular}}{{{layout}}}", r"\toprule", head, r"\midrule", *rows, r"\bottomrule", r"\end{tabular}"]
    )


def _markdown(text: str) -> str:
    """Escape what would end a line or a cell, or begin an element of Markdown or HTML."""
    return MARKDOWN.sub(r"\\\g<0>", html.escape(_line(text), quote=False))


# --- formats for programs, every number in full ---


def to_csv(table: Table) -> str:
    """Write comma-separated text."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    columns = flat(table)
    writer.writerow([_cell(table.corner), *map(_cell, columns)])
    writer.writerows(zip(*([_cell(v) for v in values] for values in (table.index, *columns.values())), strict=True))
    return file.getvalue()


def to_frame(table: Table) -> Any:
    """Give a pandas data frame."""
    pandas = import_extra("pandas", extra="tables", purpose="a data frame")
    return pandas.DataFrame({name: list(values) for name, values in flat(table).items()}, index=table.index)


def write_table(table: Table, path: str | os.PathLike[str]) -> None:
    """Write a table to a csv, tsv, npy, npz or parquet file, by the extension; the last two and csv hold its words."""
    from latentbits.data.write import write

    columns = flat(table)
    words = {name: values for name, values in columns.items() if _holds_words(values)}
    numbers = {name: values for name, values in columns.items() if name not in words}
    matrix = np.column_stack([np.asarray(values, np.float64) for values in numbers.values()])
    write(path, matrix, tuple(numbers), {table.corner: table.index, **words})


def _cell(value: Any) -> Any:
    """Mark a name as text where a spreadsheet would run it as a formula."""
    # a return would end the row, as it is not put in quotes
    return guarded(value.replace("\r", "\n")) if isinstance(value, str) else _number(value)


def _number(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


# --- several reports ---


def shown_under_titles(reports: Mapping[str, Report]) -> list[Table]:
    """List the tables that are printed of reports, the first of each under its title; empty ones are left out."""
    tables = []
    for title, report in reports.items():
        first, *others = report.shown()
        tables += [replace(first, title=f"{title}: {first.title}" if first.title else title), *others]
    return [table for table in tables if table.index]  # one column has no pairs


def _csv_of(reports: Mapping[str, Report]) -> str:
    """Write one table as it is; several with an empty line between, and a title above each."""
    if len(reports) == 1:
        return next(iter(reports.values())).to_csv()
    return "\n".join(f"{title}\n{report.to_csv()}" for title, report in reports.items())


def _latex_of(reports: Mapping[str, Report]) -> str:
    return "\n\n".join(f"% {title}\n{report.to_latex()}" for title, report in reports.items()) + "\n"


def _markdown_of(reports: Mapping[str, Report]) -> str:
    parts = []
    for title, report in reports.items():
        parts += [f"## {title}", report.to_markdown(), *(f"note: {_markdown(note)}" for note in report.table().notes)]
    return "\n\n".join(parts) + "\n"


def _json_of(reports: Mapping[str, Report]) -> str:
    return json.dumps(plain(reports), allow_nan=False) + "\n"


FORMATS: Mapping[str, Callable[[Mapping[str, Report]], str]] = {
    ".csv": _csv_of,
    ".tex": _latex_of,
    ".md": _markdown_of,
    ".json": _json_of,
}
