"""The arrays of an .npz file: which there are, and what the file says about how to read them.

Nothing about a table is guessed from its values.  That bits are packed, or that a number means "not observed", is said
in the file, by an entry beside the arrays or in the JSON text of its entry ``meta``:

- ``encoding="packbits"``: `numpy.packbits(axis=1)` made the arrays; ``n_features`` is the number of columns;
- ``missing=255``: this number marks what was not observed.
"""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Mapping, Sequence
from math import prod
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.data.bounds import check_claim

__all__ = ["NOTES", "Member", "load_members", "members", "missing_codes", "packed_width", "unmarked_packing"]

NOTES = ("meta", "encoding", "missing", "n_features", "shape")  # entries that say how to read the others
WIDTHS = ("n_features", "n_items", "n")  # what files call the number of columns that were packed
MISSING_WORDS = re.compile(r"(?<![\w.])(-?\d+)\s*(?:=|means)\s*missing\b")  # as in "255 = missing"


class Member(NamedTuple):
    """An array of the file, by its header alone."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def members(path: Path) -> dict[str, Member]:
    """Return the arrays of a file; no array is made, and each header is compared with the size of its member."""
    found = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise DataError(f"{path}: {info.filename} is compressed in a way that NumPy does not use")
            name = info.filename.removesuffix(".npy")
            with archive.open(info) as file:
                member = _header(file)
                if member is None:
                    continue
                n_bytes = prod(member.shape) * member.dtype.itemsize
                held = info.file_size - file.tell()
            if not member.dtype.hasobject and n_bytes != held:
                raise DataError(f"{path}: {name} claims {member.shape} numbers, {n_bytes} bytes, but holds {held}")
            found[name] = member
    return found


def _header(file: IO[bytes]) -> Member | None:
    """Read shape and type from an array's header; None for what is no array, or of a version not meant for numbers."""
    versions = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    try:
        shape, _, dtype = versions[np.lib.format.read_magic(file)](file)
    except (KeyError, ValueError):
        return None
    return Member(shape, dtype)


def load_members(path: Path, names: Sequence[str], known: Mapping[str, Member]) -> dict[str, np.ndarray]:
    """Load the arrays among `names` that the file has, after a check of their size together."""
    there = [name for name in names if name in known]
    total = sum(prod(known[name].shape) * known[name].dtype.itemsize for name in there)
    check_claim(path, total, f"the arrays {', '.join(there)}")
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        return {name: archive[name] for name in there}


def _notes(beside: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Collect the notes of a file about itself: its ``meta``, and entries that say the same directly."""
    meta: Any = {}
    if "meta" in beside:
        try:
            meta = json.loads(str(beside["meta"]))
        except ValueError:
            pass
    notes = dict(meta) if isinstance(meta, dict) else {}
    return notes | {name: beside[name].tolist() for name in NOTES[1:] if name in beside}


def packed_width(values: Member, beside: Mapping[str, np.ndarray]) -> int | None:
    """Return the number of columns that `numpy.packbits` put into these bytes; None where the file does not say."""
    notes = _notes(beside)
    said = any("packbits" in str(notes.get(name, "")) for name in ("encoding", "use"))
    if not said or values.dtype != np.uint8 or len(values.shape) != 2:
        return None
    return _fitting_width(notes, values.shape[1]) or 8 * values.shape[1]


def unmarked_packing(values: np.ndarray, beside: Mapping[str, np.ndarray]) -> int | None:
    """Find how many columns these bytes may have been packed from, where they are no bits and no mark says it."""
    if values.dtype != np.uint8 or values.ndim != 2 or not values.size or values.max() <= 1:
        return None
    width = _fitting_width(_notes(beside), values.shape[1])
    return width if width != values.shape[1] else None


def _fitting_width(notes: Mapping[str, Any], n_bytes: int) -> int | None:
    shape = notes.get("shape")
    named = [notes.get(name) for name in WIDTHS] + [shape[-1] if isinstance(shape, list) and shape else shape]
    for width in named:
        if type(width) is int and width > 0 and -(-width // 8) == n_bytes:
            return width
    return None


def missing_codes(beside: Mapping[str, np.ndarray]) -> list[str]:
    """Find the mark of missing entries that the file states."""
    notes = _notes(beside)
    said = notes.get("missing", [])
    words = " ".join(value for value in notes.values() if isinstance(value, str))
    return [*map(str, said if isinstance(said, list) else [said]), *MISSING_WORDS.findall(words)]
