"""Every error that latentbits raises on purpose.

All derive from `LatentBitsError`, so that a caller can catch the lot; each also derives from the built-in that
a user would expect, so that ``except ValueError`` goes on working.  A message names the argument, what was
found and what to do.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterable
from itertools import islice
from os import PathLike
from pathlib import Path
from types import ModuleType

__all__ = [
    "NOTHING_OBSERVED",
    "CheckpointError",
    "DataError",
    "DownloadError",
    "FitError",
    "ForkedError",
    "LatentBitsError",
    "MissingDependencyError",
    "ModelFileError",
    "OutOfTimeError",
    "PrecisionWarning",
    "TooLargeError",
    "did_you_mean",
    "did_you_mean_file",
    "import_extra",
    "is_out_of_memory",
]


class LatentBitsError(Exception):
    """Base of all errors raised by latentbits."""


class DataError(LatentBitsError, ValueError):
    """The data, or a file that should hold data, is not what it must be."""


NOTHING_OBSERVED = (
    "all cells of the table are missing, which says nothing of any model: see that these are the right columns, and "
    "that what marks missing cells marks no others"
)


class FitError(LatentBitsError, ArithmeticError):
    """Learning went wrong numerically, for instance the objective became NaN."""


class OutOfTimeError(FitError):
    """Work that takes, or would take, longer than the time it was given: more time would do.

    `what` is the message without advice, for callers whose user set no time.
    """

    def __init__(self, what: str, advice: str = "") -> None:
        super().__init__(f"{what}: {advice}" if advice else what)
        self.what = what


class TooLargeError(LatentBitsError, MemoryError):
    """Work that would need more memory than there is, refused before it begins."""

    def __reduce__(self) -> tuple[type[TooLargeError], tuple[object, ...]]:
        # Dask's workers send their errors without calling __init__, which a MemoryError does not bear.
        return type(self), self.args


class ModelFileError(LatentBitsError, ValueError):
    """A model file is truncated, tampered with, foreign or from a newer version."""


class CheckpointError(LatentBitsError, ValueError):
    """A folder holds a checkpoint of another fit, or none that could be read."""


class DownloadError(LatentBitsError, OSError):
    """A public data set could not be fetched, or what came does not match its hash."""


class ForkedError(LatentBitsError, RuntimeError):
    """A process that was forked from one in which JAX is at work cannot compute."""


class MissingDependencyError(LatentBitsError, ImportError):
    """An optional dependency is needed and not installed."""


class PrecisionWarning(UserWarning):
    """A number is known less exactly than it is shown: by how much, and what to do."""


def is_out_of_memory(error: BaseException) -> bool:
    """Whether the machine, or the device that JAX computes on, has no room left."""
    if isinstance(error, MemoryError):
        return True
    jax = sys.modules.get("jax")  # where it was not imported it raised nothing
    return jax is not None and isinstance(error, jax.errors.JaxRuntimeError) and "RESOURCE_EXHAUSTED" in str(error)


def import_extra(module: str, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it.

    >>> import_extra("json", extra="tables", purpose="reading parquet").__name__
    'json'
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        raise MissingDependencyError(
            f"{purpose} needs {top}, which is not installed: pip install 'latentbits[{extra}]'"
        ) from error


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Suggest the known word that an unknown one may stand for, as a sentence of a message.

    >>> did_you_mean("latent_trait", ["mixture", "latent-trait"]), did_you_mean("tree", ["mixture"])
    (' Did you mean latent-trait?', '')
    """
    from difflib import get_close_matches

    plain = {one.lower().replace("_", "-"): one for one in known}
    close = get_close_matches(word.lower().replace("_", "-"), plain, n=1)
    return f" Did you mean {plain[close[0]]}?" if close else ""


def did_you_mean_file(path: str | PathLike[str]) -> str:
    """Suggest the file that a missing one may stand for, among those beside it."""
    asked = Path(path)
    try:
        beside = [one.name for one in islice(asked.parent.iterdir(), 10_000)]
    except OSError:
        return f" There is no folder {asked.parent}." if not asked.parent.exists() else ""
    stems = {Path(name).stem: name for name in beside}
    same = stems.get(asked.stem) if not asked.suffix else None
    return f" Did you mean {same}?" if same else did_you_mean(asked.name, beside)
