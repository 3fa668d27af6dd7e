"""Outputs of a command: tried before the work, and kept elsewhere if it cannot be written after it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from latentbits.cli.console import in_one_line, say
from latentbits.core.atomic import check_writable
from latentbits.core.folders import cache_folder, private_folder

__all__ = ["FORMATS", "Outputs", "output_option", "write_table"]

FORMATS = "csv, tsv, npy, npz or parquet, by the extension"


class Outputs:
    """The files that a command was asked for.

    Made before the work begins, which is when it complains of names that cannot be written: of a folder that is not
    there or closed, of an extension that is not known, of two options that name one file, of one that names what is
    read.  Nothing is changed by that.

    Parameters
    ----------
    files
        By option; None where it was not given.
    tables
        Those of the options whose format goes by the extension.
    read
        What the command reads, which would be lost.
    """

    def __init__(
        self,
        files: Mapping[str, str | os.PathLike[str] | None],
        tables: Iterable[str] = (),
        read: Iterable[str] = (),
    ) -> None:
        from latentbits.data.write import check_extension

        self._failed = False
        taken: dict[str, str] = {}
        inputs = {os.path.realpath(path) for path in read if os.path.isfile(path)}
        for option, path in files.items():
            if path is None:
                continue
            try:
                if option in tables:
                    check_extension(path)
                check_writable(path)
            except (OSError, ValueError) as error:
                raise ValueError(f"{option}: {in_one_line(error)}") from error
            if os.path.realpath(path) in inputs:
                raise ValueError(f"{option} {path}: that is the file to be read, and would be lost; give another name")
            other = taken.setdefault(os.path.realpath(path), option)
            if other != option:
                raise ValueError(f"{option} {path}: {other} names the same file")

    def write(self, path: str, save: Callable[[str], Any]) -> str:
        """Save, or save elsewhere and say where; give the path that was written.

        Parameters
        ----------
        path
            As the user asked for it.
        save
            Writes to the path that it is given, and says so.
        """
        try:
            save(path)
        except OSError as error:
            self._failed = True
            kept = _keep(Path(path).name, save)
            say(f"error: {in_one_line(error)}; " + (f"kept as {kept}" if kept else "there is no room elsewhere either"))
            return kept or path
        return path

    def fail(self, text: str) -> None:
        """Say what could not be written, and remember it for the exit code."""
        self._failed = True
        say(f"error: {text}")

    def finish(self) -> None:
        """End the command with exit code 1 if something is not where it was asked for."""
        if self._failed:
            raise click.exceptions.Exit(1)


def _keep(name: str, save: Callable[[str], Any]) -> str | None:
    """Save in a new private folder, below that for temporary files or else below the user's cache."""
    for place in (tempfile.gettempdir, _below_cache):
        folder = None
        try:
            base = place()
            if base is None:
                continue
            folder = tempfile.mkdtemp(prefix="latentbits-", dir=base)
            save(os.path.join(folder, name))
        except OSError:
            if folder is not None:
                shutil.rmtree(folder, ignore_errors=True)
        else:
            return os.path.join(folder, name)
    return None


def _below_cache() -> Path | None:
    base = cache_folder()
    return None if base is None else private_folder(base / "kept")


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add -o, which must be given."""
    return click.option(
        "-o",
        "--out",
        "output",
        required=True,
        type=click.Path(dir_okay=False),
        help=f"Where the result goes ({FORMATS}).",
    )(command)


def write_table(outputs: Outputs, path: str, values: Any, names: Any, labels: Any = None) -> str:
    """Write a table, and return where it is."""
    from latentbits.data.write import write

    def save(there: str) -> None:
        write(there, values, names, labels)
        say(f"wrote {there}: {values.shape[0]} rows x {values.shape[1]} columns")

    return outputs.write(path, save)
