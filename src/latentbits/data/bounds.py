"""How much a file may ask for, held against the memory of the machine and against what the file holds.

Compressed and sparse formats can claim far more than they hold: a kilobyte can promise a billion rows.  Readers ask
here before they make room for what a file promises.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from latentbits.core.errors import DataError
from latentbits.core.limits import available_memory

__all__ = ["check_claim", "stored_bytes", "unpack_text"]


def stored_bytes(path: Path) -> int:
    """Return the size of a file, or of all files in a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    return path.stat().st_size


def check_claim(path: Path, n_bytes: int, what: str) -> None:
    """Refuse a file that promises `n_bytes` of memory and cannot mean it, before any of it is allocated."""
    room = available_memory()
    if room is not None and n_bytes > room // 2:  # half of the memory: what is made of an array needs room too
        raise DataError(
            f"{path}: {what} take {n_bytes} bytes, more than half of the memory that is available ({room} bytes); a "
            ".npy file can stay on the disk"
        )
    stored = stored_bytes(path)
    # any file may claim 64 MiB; above, 100 000 bytes for one of the file, of which deflate makes 1032
    if n_bytes > max(64 * 2**20, 100_000 * stored):
        raise DataError(f"{path}: it claims {what}, which take {n_bytes} bytes, but holds {stored}; is it damaged?")


def unpack_text(path: Path) -> bytearray:
    """Unpack the text of a .gz file; its size is counted meanwhile, since the file can state a wrong one."""
    room = available_memory()
    most = None if room is None else room // 8  # cells and numbers take several times the room of their text
    text = bytearray()
    with gzip.open(path, "rb") as file:
        while block := file.read(2**20):
            text += block
            if most is not None and len(text) > most:
                raise DataError(
                    f"{path}: unpacked it is more than {most} bytes of text, too much to be parsed in {room} bytes of "
                    "memory; unpack it and cut it into parts, or save it as .npy"
                )
    return text
