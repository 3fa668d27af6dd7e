"""Whether the first line of a text holds names: as people, pandas and R write them.

A name that is no number settles it.  pandas names columns 0, 1, 2, ... by default, and writes its index as a first
column without a name; R's `write.table` writes a header with one name fewer than there are columns.  Where the first
line could as well be a row, the lines below it are looked at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

__all__ = ["SAMPLED_LINES", "Header", "could_be_names", "doubted", "find_header", "first_doubled", "words_of_a_row"]

SAMPLED_LINES = 1000  # lines below the first one that are looked at
BARE = re.compile(r"0|[1-9][0-9]*")  # a whole number as pandas writes one


class Header(NamedTuple):
    """The names of all columns of a file, "" for a column of row names; and what was decided in doubt."""

    names: tuple[str, ...] | None
    doubt: str | None = None


def default_names(cells: Sequence[str]) -> bool:
    """Judge whether these are pandas' names for columns that were given none.

    >>> default_names(["0", "1", "2"]), default_names(["0.0", "1.0"])
    (True, False)
    """
    return len(cells) > 0 and list(cells) == [str(j) for j in range(len(cells))]


def could_be_names(cells: Sequence[str]) -> bool:
    """Judge whether a line of numbers could be a header: pandas' names, or an empty cell before different integers.

    >>> could_be_names(["", "3", "7"]), could_be_names(["", "1", "1"]), could_be_names(["1", "0"])
    (True, False, False)
    """
    if cells[0] == "":
        return len(set(cells)) == len(cells) > 1 and all(map(BARE.fullmatch, cells[1:]))
    return default_names(cells)


def first_doubled(names: Sequence[str]) -> str | None:
    """Return the first name that has been there before.

    >>> first_doubled(["a", "b", "a"]), first_doubled(["a", "b"])
    ('a', None)
    """
    seen: set[str] = set()
    for name in names:
        if name in seen:
            return name
        seen.add(name)
    return None


def words_of_a_row(
    first: Sequence[str], below: Sequence[Sequence[str]], value_of: Callable[[str], float | None]
) -> set[int]:
    """Find columns of words where the first line is a row like those below: words in the same places, and else numbers.

    Different whole numbers are taken for names, unless they are bits.

    >>> worth = {"0": 0.0, "1": 1.0}.get
    >>> words_of_a_row(["north", "1"], [["south", "0"]], worth), words_of_a_row(["site", "q"], [["south", "0"]], worth)
    ({0}, set())
    """
    rows = [row for row in below if len(row) == len(first)]
    words = {j for row in rows for j, cell in enumerate(row) if value_of(cell) is None}
    others = [cell for j, cell in enumerate(first) if j not in words]
    values = [value for cell in others if (value := value_of(cell)) is not None]
    names = len(set(others)) == len(others) and not all(value != value or value in (0, 1) for value in values)
    fractions = any(value % 1 for value in values if abs(value) < float("inf"))
    return words if values and len(values) == len(others) and (fractions or not names) else set()


def find_header(
    first: Sequence[str],
    below: Sequence[Sequence[str]],
    value_of: Callable[[str], float | None],
    *,
    forced: bool = False,
    text_columns: Collection[int] = (),
    blanks: bool = False,
) -> Header:
    """Return the names in the first line of a text, if it holds names.

    `first`: the cells of the first line.  `below`: cells of some lines that follow.  `value_of`: what a cell is worth:
    NaN if it is missing, None if it is no number.  `forced`: whether the user says that there are names.
    `text_columns`: columns that hold text by what the user says, so that text in them means nothing.  `blanks`: whether
    runs of blanks separate cells, so that an empty first cell cannot be seen.
    """
    text = any(value_of(cell) is None for j, cell in enumerate(first) if j not in text_columns)
    if below and len(below[0]) == len(first) + 1 and (text or forced or (blanks and default_names(first))):
        rows = [row for row in below if len(row) == len(first) + 1]
        names_rows = len({row[0] for row in rows}) == len(rows)
        if names_rows and any(row[-1] != "" for row in rows):  # else lines end in a delimiter, and a column has no name
            return Header(("", *first))
    if text or forced:
        return Header(tuple(first))
    body = [row for row in below if len(row) == len(first)]
    if not body:
        return Header(None)
    if not could_be_names(first):
        return Header(None)
    return (_below_an_empty_cell if first[0] == "" else _below_a_count)(first, body, value_of)


def _below_an_empty_cell(
    first: Sequence[str], body: Sequence[Sequence[str]], value_of: Callable[[str], float | None]
) -> Header:
    """Judge numbers after an empty cell: names over an index, or a row whose first number is missing."""
    index = [row[0] for row in body]
    default = default_names(first[1:])
    counts = any(index == [str(i + start) for i in range(len(index))] for start in (0, 1))
    numbers = len(set(index)) == len(index) and all(map(BARE.fullmatch, index))
    if any(value_of(cell) is None for cell in index) or (default and len(first) > 3) or (counts and len(index) > 2):
        return Header(tuple(first))
    if default and numbers and not set(index) <= {"0", "1"}:
        return Header(tuple(first))
    if default and counts:
        return Header(tuple(first), doubted(first, "names, and the first column for names of rows", "a row"))
    if numbers and len(index) > 2:
        return Header(None, doubted(first, "a row whose first cell is missing", "names"))
    return Header(None)


def _below_a_count(
    first: Sequence[str], body: Sequence[Sequence[str]], value_of: Callable[[str], float | None]
) -> Header:
    """Judge 0, 1, 2, ... in the first line: pandas' names, or a row."""
    width = len(first)
    cells = [[(cell, value_of(cell)) for cell in column] for column in zip(*body, strict=True)]
    present = [[(cell, value) for cell, value in column if value == value and value is not None] for column in cells]
    fractions = any(value % 1 for column in present for _, value in column if abs(value) < float("inf"))
    if width > 2:
        if all(value in (0, 1) for column in present for _, value in column) or fractions:
            return Header(tuple(first))
        if list(body[0]) == [str(j) for j in range(width, 2 * width)]:  # it goes on counting
            return Header(None)
        return Header(tuple(first), doubted(first, "names", "a row"))
    # a program that writes 1.0 or 0.25 in every cell of a column would have written 0.0 in the first line too
    if any(column and not any(BARE.fullmatch(cell.lstrip("-")) for cell, _ in column) for column in present):
        return Header(tuple(first), doubted(first, "names", "a row"))
    return Header(None, doubted(first, "a row", "names") if fractions else None)  # without them, bits or counts


def doubted(first: Sequence[str], kind: str, other: str) -> str:
    """Describe what a doubtful first line is taken for."""
    line = ",".join(first[:6]) + (",..." if len(first) > 6 else "")
    return f"the first line ({line}) is taken for {kind}, and could be {other}; header= settles it"
