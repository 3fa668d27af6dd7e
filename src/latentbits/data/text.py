"""Read a table from delimited text: bits at once where that is all there is, cell by cell otherwise."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.data.bounds import unpack_text
from latentbits.data.columns import WORDS, ColumnsError, Odd, all_words, of_words, refusal
from latentbits.data.formulas import unguarded
from latentbits.data.headers import SAMPLED_LINES, Header, doubted, find_header, first_doubled, words_of_a_row

__all__ = ["TEXT_SUFFIXES", "Cells", "find_labels", "is_text", "parse_text"]

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat", ".amat")
WHITESPACE = " "  # as a delimiter: any run of blanks
QUOTED = re.compile(r'"((?:[^"\\]|\\.|"")*)"(?=\s|$)|(\S+)')  # a cell between blanks, as R writes it or bare


def is_text(path: str | os.PathLike[str]) -> bool:
    """Judge by its name whether a file is read as delimited text.

    >>> is_text("x.csv"), is_text("x.csv.gz"), is_text("x.npy")
    (True, True, False)
    """
    name = Path(path)
    return Path(name.stem if name.suffix.lower() == ".gz" else name).suffix.lower() in TEXT_SUFFIXES


class Cells(NamedTuple):
    """The cells of a text: numbers with NaN for missing ones, and the columns that are kept as text.

    `odd` are those of them that were not named.
    """

    values: np.ndarray
    feature_names: tuple[str, ...] | None
    row_names: tuple[str, ...] | None
    labels: dict[str, np.ndarray]
    odd: tuple[Odd, ...] = ()


def parse_text(
    path: Path,
    suffix: str,
    header: bool | str,
    missing: Sequence[str],
    delimiter: str | None,
    labels: Sequence[str | int],
    doubts: list[str],
    keep_text: bool = False,
) -> Cells:
    """Parse a text file; the arguments are those of `latentbits.data.read`, `suffix` is without ``.gz``.

    What was decided in doubt is added to `doubts`.
    """
    text = _decode(path)
    delimiter = delimiter or _guess_delimiter(text, suffix)
    lines = _split_lines(path, text, delimiter)
    first_line, first = next(lines, (0, []))
    if not first:
        raise DataError(f"{path}: the file is empty")
    worth = _Worth(missing)
    names, doubt = Header(None)
    if header:
        below = [row for _, row in islice(lines, SAMPLED_LINES)]
        words = words_of_a_row(first, below, worth.value) if keep_text and header == "auto" else set()
        names, doubt = find_header(
            first,
            below,
            worth.value,
            forced=header is True,
            text_columns=words | {int(name) for name in labels if _is_position(name)},
            blanks=delimiter == WHITESPACE,
        )
        if words and names is None and len(set(first)) == len(first):
            doubt = doubted(first, "a row", "names")
    if doubt is not None:
        doubts.append(doubt)
    if names is not None:
        names = tuple(map(unguarded, names))
        _check_header(path, first_line, names)
    width = len(first) if names is None else len(names)
    row_column = 0 if names and names[0] == "" else None
    kept = find_labels(path, labels, names, width)
    if names is None and not kept:
        bits = _read_plain_bits(text, delimiter, width)
        if bits is not None:
            return Cells(bits, None, None, {})

    def rows() -> Iterator[tuple[int, list[str]]]:
        for line, row in islice(_split_lines(path, text, delimiter), names is not None, None):
            if len(row) != width:
                raise DataError(
                    f"{path}, line {line}: {len(row)} cells, but line {first_line} has {len(first)}; "
                    f"every line needs as many (the delimiter is taken to be {delimiter!r})"
                )
            yield line, row

    apart = {*kept.values()} | ({row_column} if row_column is not None else set())
    numeric = [j for j in range(width) if j not in apart]
    odd: dict[int, Odd] = {}
    try:
        parsed = _parse(rows(), numeric, apart, worth)
    except _NoNumber:  # look in all columns, since the error names all of them
        wrong = _no_numbers(rows(), numeric, worth)
        numeric = [j for j in numeric if j not in wrong]
        parsed = _parse(rows(), numeric, apart | {*wrong}, worth)
        odd = {j: _odd(j, names, parsed.texts[j], worth) for j in wrong}
        if not keep_text:
            found = list(odd.values()) if numeric else all_words(list(odd.values()))
            raise _refusal(path, wrong, found, names, worth) from None
    kept |= {one.label: j for j, one in odd.items()}
    texts = {j: list(map(unguarded, cells)) for j, cells in parsed.texts.items()}
    return Cells(
        np.array(parsed.values, dtype=np.float64).reshape(len(parsed.values), len(numeric)),
        tuple(names[j] for j in numeric) if names else None,
        tuple(texts[row_column]) if row_column is not None else None,
        {name: np.array(texts[j], dtype=str) for name, j in kept.items()},
        tuple(odd.values()),
    )


class _NoNumber(Exception):
    """A cell is no number."""


class _Parsed(NamedTuple):
    values: list[list[float]]
    texts: dict[int, list[str]]


def _parse(
    rows: Iterator[tuple[int, list[str]]], numeric: Sequence[int], apart: Collection[int], worth: _Worth
) -> _Parsed:
    """Return the numbers of some columns and the texts of others."""
    values: list[list[float]] = []
    texts: dict[int, list[str]] = {j: [] for j in apart}
    for _, row in rows:
        try:
            values.append([worth[row[j]] for j in numeric])
        except ValueError:
            raise _NoNumber from None
        for j in apart:
            texts[j].append(row[j])
    return _Parsed(values, texts)


class _Place(NamedTuple):
    line: int
    row: int
    cell: str


def _no_numbers(rows: Iterator[tuple[int, list[str]]], columns: Sequence[int], worth: _Worth) -> dict[int, _Place]:
    """Return the first cell of each column that is no number, or not one that float64 holds."""
    found: dict[int, _Place] = {}
    for number, (line, row) in enumerate(rows):
        found |= {j: _Place(line, number, row[j]) for j in columns if j not in found and not worth.is_exact(row[j])}
    return dict(sorted(found.items()))


def _odd(j: int, names: Sequence[str] | None, cells: Sequence[str], worth: _Worth) -> Odd:
    """Return a column of text; numbers that are too long for float64 are words too."""

    def value_of(cell: str) -> float | None:
        return worth[cell] if worth.is_exact(cell) else None

    seen = (cell for cell in cells if (value := value_of(cell)) is None or value == value)
    label, called = (names[j], names[j]) if names else (str(j), f"column {j}")
    return of_words(label, called, seen, value_of=value_of)


def _refusal(
    path: Path, wrong: dict[int, _Place], odd: Sequence[Odd], names: Sequence[str] | None, worth: _Worth
) -> ColumnsError:
    """Make the error of all cells that are no numbers, which says of each column where the first is."""
    if len(wrong) > 1:
        return refusal(f"{path}, from line {min(place.line for place in wrong.values())} on: ", odd)
    ((j, (line, row, cell)),) = wrong.items()
    why = "is not a number" if worth.value(cell) is None else "has more digits than float64 holds"
    where = f"{path}, line {line} (row {row}), column {repr(names[j]) if names else j}: {cell!r} {why}"
    advice = "; name the column in labels=, or the cell in missing="
    return ColumnsError(f"{where}{advice}", f"{where}.", odd)


def _decode(path: Path) -> str:
    """Return the text of a file, unpacked if its name ends in .gz."""
    data = unpack_text(path) if path.suffix.lower() == ".gz" else path.read_bytes()
    if b"\0" in data:
        line = data.count(b"\n", 0, data.index(b"\0")) + 1
        raise DataError(f"{path}, line {line}: a NUL byte; is this text? Save it as UTF-8")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        byte = data[error.start]
        raise DataError(f"{path}, line {line}: byte {byte:#04x} is not UTF-8; save it as UTF-8") from error


class _Worth(dict[str, float]):
    """Values of cells by their text; cached, since a table of bits has few different texts."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__({form(word): bit for word, bit in WORDS.items() for form in (str.lower, str.title, str.upper)})
        self.update((str(mark).strip(), float("nan")) for mark in missing)

    def __missing__(self, text: str) -> float:
        value = self._number(text)
        if len(text) > 15 and text.lstrip("+-").isdecimal() and int(text) != value:  # an id, not to be rounded
            raise ValueError(text)
        if len(self) < 10_000:
            self[text] = value
        return value

    @staticmethod
    def _number(text: str) -> float:
        if "_" in text:  # float() takes 1_000, no table means it
            raise ValueError(text)
        return float(text)

    def value(self, text: str) -> float | None:
        """Parse a text as a number, rounded if need be; None where it is none."""
        if text in self:
            return self[text]
        try:
            return self._number(text)
        except ValueError:
            return None

    def is_exact(self, text: str) -> bool:
        try:
            self[text]
        except ValueError:
            return False
        return True


def _guess_delimiter(text: str, suffix: str) -> str:
    """Return the delimiter by the first line that is not blank."""
    first = next((line for line in io.StringIO(text) if line.strip()), "").strip("\r\n")
    if suffix in (".tsv", ".tab"):
        return "\t"
    for candidate in (",", "\t", ";"):
        if candidate in first:
            return candidate
    return "," if suffix == ".csv" else WHITESPACE


def _split_lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines that are not blank, each with its number from 1 and its stripped cells."""
    if delimiter == WHITESPACE:
        for number, line in enumerate(text.split("\n"), 1):
            cells = _split_quoted(line) if '"' in line else line.split()
            if cells:
                yield number, cells
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row and not (delimiter != "\t" and len(row) == 1 and row[0].isspace()):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error


def _split_quoted(line: str) -> list[str]:
    """Split cells between blanks, some of them in quotes; a quote inside is doubled, or after a backslash."""
    cells = (found.groups() for found in QUOTED.finditer(line))
    return [bare if quoted is None else re.sub(r'\\"|""', '"', quoted).strip() for quoted, bare in cells]


def _check_header(path: Path, line: int, names: Sequence[str]) -> None:
    if "" in names[1:]:
        j = names.index("", 1)
        raise DataError(f"{path}, line {line}: column {j} has no name; is it a header at all (header=)?")
    if doubled := first_doubled(names):
        raise DataError(f"{path}, line {line}: two columns are named {doubled!r}; names must differ")


def _is_position(label: str | int) -> bool:
    """Judge whether a label may be the number of a column; other digits than ours ('²') are names."""
    return isinstance(label, int) or (label.isascii() and label.isdigit())


def find_labels(path: Path, labels: Sequence[str | int], names: Sequence[str] | None, width: int) -> dict[str, int]:
    """Find where the label columns are; by number they take the header's name, or the number as name."""
    found: dict[str, int] = {}
    for label in labels:
        if isinstance(label, str) and names and label in names:
            found[label] = list(names).index(label)
        elif _is_position(label) and 0 <= int(label) < width:
            place = int(label)
            found[names[place] if names else str(place)] = place
        else:
            there = f"the columns are {', '.join(names[:20])}" if names else f"there are {width} columns without names"
            raise DataError(f"{path}: there is no column {label!r} of labels or weights; {there}")
    return found


def _read_plain_bits(text: str, delimiter: str, width: int) -> np.ndarray | None:
    """Return the whole text at once if it is nothing but one-digit bits in even lines, else None."""
    if not text.isascii():
        return None
    data = text.replace("\r\n", "\n").replace(" \n", "\n").rstrip("\n").encode("ascii") + b"\n"
    if len(data) % (2 * width):
        return None
    grid = np.frombuffer(data, np.uint8).reshape(-1, 2 * width)
    bits, marks = grid[:, ::2] - np.uint8(ord("0")), grid[:, 1::2]
    even = (marks[:, :-1] == ord(delimiter)).all() and (marks[:, -1] == ord("\n")).all() and (bits <= 1).all()
    return np.ascontiguousarray(bits) if even else None
