"""Read a table from delimited text: bits at once where that is all there is, cell by cell otherwise."""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = ["TEXT_SUFFIXES", "Cells", "find_labels", "parse_text"]

TEXT_SUFFIXES = (".csv", ".tsv", ".tab", ".txt", ".data", ".dat", ".amat")
WHITESPACE = " "  # as a delimiter: any run of blanks


class Cells(NamedTuple):
    """The cells of a text: numbers with NaN for missing ones, and the columns that are kept as text."""

    values: np.ndarray
    feature_names: tuple[str, ...] | None
    row_names: tuple[str, ...] | None
    labels: dict[str, np.ndarray]


def parse_text(
    path: Path,
    suffix: str,
    header: bool | str,
    missing: Sequence[str],
    delimiter: str | None,
    labels: Sequence[str | int],
) -> Cells:
    """Parse a text file; the arguments are those of `latentbits.data.read`, `suffix` is without ``.gz``."""
    text = _decode(path)
    delimiter = delimiter or _guess_delimiter(text, suffix)
    lines = _split_lines(path, text, delimiter)
    first_line, first = next(lines, (0, []))
    if not first:
        raise DataError(f"{path}: the file is empty")
    worth = _Worth(missing)
    apart = {name for name in labels if isinstance(name, int)}
    if header == "auto":
        header = any(not worth.is_number(cell) for j, cell in enumerate(first) if j not in apart)
    names = tuple(first) if header else None
    row_column = 0 if names and names[0] == "" else None
    if names is not None:
        _check_header(path, first_line, names)
    kept = find_labels(path, labels, names, len(first))
    if names is None and not kept:
        bits = _read_plain_bits(text, delimiter, len(first))
        if bits is not None:
            return Cells(bits, None, None, {})
    skip = {*kept.values()} | ({row_column} if row_column is not None else set())
    numeric = [j for j in range(len(first)) if j not in skip]
    values: list[list[float]] = []
    texts: dict[int, list[str]] = {j: [] for j in skip}
    for line, row in lines if header else chain([(first_line, first)], lines):
        if len(row) != len(first):
            raise DataError(
                f"{path}, line {line}: {len(row)} cells, but line {first_line} has {len(first)}; "
                f"every line needs as many (the delimiter is taken to be {delimiter!r})"
            )
        try:
            values.append([worth[row[j]] for j in numeric])
        except ValueError:
            j = next(j for j in numeric if not worth.is_number(row[j]))
            column = repr(names[j]) if names else str(j)
            raise DataError(
                f"{path}, line {line} (row {len(values)}), column {column}: {row[j]!r} is not a number; "
                "name the column in labels=, or the cell in missing="
            ) from None
        for j in skip:
            texts[j].append(row[j])
    array = np.array(values, dtype=np.float64).reshape(len(values), len(numeric))
    return Cells(
        array,
        tuple(names[j] for j in numeric) if names else None,
        tuple(texts[row_column]) if row_column is not None else None,
        {name: np.array(texts[j], dtype=str) for name, j in kept.items()},
    )


def _decode(path: Path) -> str:
    """The text of a file, unpacked if its name ends in .gz."""
    data = path.read_bytes()
    if path.suffix.lower() == ".gz":
        data = gzip.decompress(data)
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
    """What a cell's text is worth; looked up, since a table of bits has few different texts."""

    def __init__(self, missing: Sequence[str]) -> None:
        words = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
        super().__init__({form(word): bit for word, bit in words.items() for form in (str.lower, str.title, str.upper)})
        self.update((str(mark).strip(), float("nan")) for mark in missing)

    def __missing__(self, text: str) -> float:
        if "_" in text:  # float() takes 1_000, no table means it
            raise ValueError(text)
        value = float(text)
        if len(self) < 10_000:
            self[text] = value
        return value

    def is_number(self, text: str) -> bool:
        try:
            self[text]
        except ValueError:
            return False
        return True


def _guess_delimiter(text: str, suffix: str) -> str:
    """The delimiter by the first line that is not blank."""
    first = text.lstrip().partition("\n")[0]
    if suffix in (".tsv", ".tab"):
        return "\t"
    for candidate in (",", "\t", ";"):
        if candidate in first:
            return candidate
    return "," if suffix == ".csv" else WHITESPACE


def _split_lines(path: Path, text: str, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The lines that are not blank, each with its number from 1 and its stripped cells."""
    if delimiter == WHITESPACE:
        for number, line in enumerate(text.split("\n"), 1):
            if cells := line.split():
                yield number, cells
        return
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        for row in reader:
            if row and not (delimiter != "\t" and len(row) == 1 and row[0].isspace()):
                yield reader.line_num, [cell.strip() for cell in row]
    except csv.Error as error:
        raise DataError(f"{path}, line {reader.line_num}: {error}") from error


def _check_header(path: Path, line: int, names: Sequence[str]) -> None:
    seen: set[str] = set()
    for j, name in enumerate(names):
        if name == "" and j > 0:
            raise DataError(f"{path}, line {line}: column {j} has no name; is it a header at all (header=)?")
        if name in seen:
            raise DataError(f"{path}, line {line}: two columns are named {name!r}; names must differ")
        seen.add(name)


def find_labels(path: Path, labels: Sequence[str | int], names: Sequence[str] | None, width: int) -> dict[str, int]:
    """Where the label columns are; by number they take the header's name, or the number as name."""
    found: dict[str, int] = {}
    for label in labels:
        if isinstance(label, int) and 0 <= label < width:
            found[names[label] if names else str(label)] = label
        elif isinstance(label, str) and names and label in names:
            found[label] = list(names).index(label)
        else:
            there = f"the columns are {', '.join(names[:20])}" if names else f"there are {width} columns without names"
            raise DataError(f"{path}: labels names column {label!r}, but {there}")
    return found


def _read_plain_bits(text: str, delimiter: str, width: int) -> np.ndarray | None:
    """The whole text at once if it is nothing but one-digit bits in even lines, else None."""
    if not text.isascii():
        return None
    data = text.replace("\r\n", "\n").replace(" \n", "\n").rstrip("\n").encode("ascii") + b"\n"
    if len(data) % (2 * width):
        return None
    grid = np.frombuffer(data, np.uint8).reshape(-1, 2 * width)
    bits, marks = grid[:, ::2] - np.uint8(ord("0")), grid[:, 1::2]
    even = (marks[:, :-1] == ord(delimiter)).all() and (marks[:, -1] == ord("\n")).all() and (bits <= 1).all()
    return np.ascontiguousarray(bits) if even else None
