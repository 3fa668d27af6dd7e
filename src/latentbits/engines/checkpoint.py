"""Checkpoints: the state of learning, kept in a folder, so that a killed process can go on.

One estimator may call `engines/fit.py` several times (other precisions, more nodes, more starts); each call has a
number.  A checkpoint holds the results of the calls that are finished, and of the one that is not, where it stands:
restart, stage, pass, the optimiser's state, chains of rows, the best so far and the history.  What lies between the
calls is computed again, and gives the same bits.  Files are replaced atomically, and two are kept.
"""

from __future__ import annotations

import hashlib
import json
import re
import reprlib
import signal
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from os import PathLike
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import PyTree
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from latentbits.core import interrupts
from latentbits.core.atomic import write_atomically
from latentbits.core.errors import CheckpointError, DataError, OutOfTimeError
from latentbits.core.tree_serialization import digest, pack, unpack
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine

__all__ = ["Checkpoint", "Journal", "current", "fingerprint", "going_on", "holds_one", "keeping", "of_fit", "under"]

FORMAT = "latentbits-checkpoint"
NAME = re.compile(r"checkpoint-([1-9][0-9]{0,17})\.safetensors")
KEPT_FILES = 2
MOST_SEEDS = 2**32
TIME_PART = 20  # writing checkpoints takes at most a twentieth of the time


class Checkpoint(NamedTuple):
    """The file that keeps learning, and how often it is written.

    Attributes
    ----------
    folder
        Made where there is none.  If it holds a checkpoint of the same fit, learning goes on from there.
    seconds
        Between two checkpoints at least; more where writing one takes long.
    """

    folder: str | PathLike[str]
    seconds: float = 30.0


class Journal:
    """Journal of the fits of one estimator.

    Parameters
    ----------
    checkpoint
        Where, and how often.
    identity
        What must be the same to go on: JSON, by names that a message can use.
    seed
        Of this fit; a fit that goes on has the one that it began with.
    check
        Complains of parameters that no fit can have come to.
    """

    def __init__(
        self,
        checkpoint: Checkpoint,
        identity: dict[str, Any],
        seed: int,
        check: Callable[[PyTree], None] = lambda params: None,
    ) -> None:
        self.folder, self.seconds = Path(checkpoint.folder), float(checkpoint.seconds)
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            numbers = _numbers(self.folder)
        except OSError as error:
            raise CheckpointError(
                f"checkpoints cannot be kept in {self.folder} ({error}): take another folder"
            ) from error
        self.identity, self.seed, self.check = identity, seed, check
        self._finished: dict[int, Any] = {}
        self._place: tuple[int, Any] | None = None
        self._number, self._written, self._took = 0, time.perf_counter(), 0.0
        self._new = self._frozen = self._warned = self.terminated = False
        self.taken: Path | None = None  # what learning goes on from
        self._take_up(numbers)

    def begin(self) -> tuple[int, Any, Any]:
        """One more call: its number, its result if it is finished, and where it stands if it is not and has begun."""
        number, self._number = self._number, self._number + 1
        place = self._place[1] if self._place is not None and self._place[0] == number else None
        return number, self._finished.get(number), place

    def stand(self, number: int, place: Any) -> None:
        """Take the present state of a call, and write it if it is time."""
        if not self._frozen:
            self._place, self._new = (number, place), True
            if time.perf_counter() - self._written >= max(self.seconds, TIME_PART * self._took):
                self.write()

    def finish(self, number: int, result: Any, *, cut_short: bool) -> None:
        """End a call; where it was cut short, the next goes on from where it stood, and nothing more is kept."""
        if cut_short:
            self._frozen = True
        elif not self._frozen:
            self._finished[number], self._place, self._new = result, None, True

    def write(self) -> None:
        """Write what is new; where that fails, warn once, and let learning go on."""
        if not self._new:
            return
        began = time.perf_counter()
        try:
            self._write()
        except OSError as error:
            if not self._warned:
                warnings.warn(
                    f"cannot keep a checkpoint in {self.folder} ({error}); learning goes on without: make room there, "
                    "or interrupt and begin again with another folder",
                    stacklevel=2,
                )
            self._warned = True
        else:
            self._new = False
        self._written = time.perf_counter()
        self._took = self._written - began

    def _write(self) -> None:
        packed, arrays = pack((self._finished, self._place))
        tensors = {str(i): array for i, array in enumerate(arrays)}
        header = {"format": FORMAT, "identity": self.identity, "seed": self.seed, "content": packed}
        header["sha256"] = digest(header, tensors)
        numbers = _numbers(self.folder)
        with write_atomically(self.folder / _named(max(numbers, default=0) + 1)) as file:
            file.write(to_bytes(tensors, metadata={"latentbits": json.dumps(header)}))
        for number in numbers[: -(KEPT_FILES - 1)]:
            (self.folder / _named(number)).unlink(missing_ok=True)

    def _take_up(self, numbers: list[int]) -> None:
        for number in reversed(numbers):
            path = self.folder / _named(number)
            try:
                header, arrays = _read(path)
                self._check(path, header["identity"])
                finished, place, seed = _content(header, arrays)
            except CheckpointError:
                raise
            except Exception as error:  # whatever a damaged or a forged file leads to
                if number == numbers[0]:
                    raise CheckpointError(
                        f"{path} cannot be read ({error}), and there is no checkpoint before it: take another folder"
                    ) from error
                warnings.warn(f"{path} cannot be read ({error}); going on from the checkpoint before it", stacklevel=5)
                with suppress(OSError):  # a folder of that name
                    path.unlink()
            else:
                self._finished, self._place, self.seed, self.taken = finished, place, seed, path
                return

    def _check(self, path: Path, identity: dict[str, Any]) -> None:
        names = [*self.identity, *(name for name in identity if name not in self.identity)]
        other = [name for name in names if self.identity.get(name) != identity.get(name)]
        if other:
            pairs = ((name, *(reprlib.repr(one.get(name)) for one in (identity, self.identity))) for name in other)
            changes = ", ".join(f"{name} was {was} and is {now}" for name, was, now in pairs)
            raise CheckpointError(
                f"{path} is of another fit: {changes}. Take another folder, or what it was begun with"
            )


class _Damaged(Exception):
    """A file that is no checkpoint, or none any more."""


_current: ContextVar[Journal | None] = ContextVar("journal", default=None)


_under: ContextVar[Checkpoint | None] = ContextVar("checkpoints of many fits", default=None)


@contextmanager
def under(checkpoint: str | PathLike[str] | Checkpoint | None) -> Iterator[None]:
    """Context of many fits: each is kept in a subfolder, found again by a digest of model and rows."""
    token = _under.set(None if checkpoint is None else _given(checkpoint))
    try:
        yield
    finally:
        _under.reset(token)


def of_fit(
    checkpoint: Any, engine: Engine, identity: dict[str, Any], seed: int, check: Callable[[PyTree], None]
) -> Journal | None:
    """Return the journal of a fit with a checkpoint, or of one of many; None where nothing is kept."""
    many = _under.get()
    if checkpoint is None and many is None:
        return None
    identity = {**identity, "data": fingerprint(engine)}
    if checkpoint is not None:
        return Journal(_given(checkpoint), identity, seed, check)
    assert many is not None
    name = hashlib.blake2b(json.dumps([identity, seed], sort_keys=True).encode(), digest_size=8).hexdigest()
    return Journal(many._replace(folder=Path(many.folder) / f"{identity['model']}-{name}"), identity, seed, check)


def _given(checkpoint: Any) -> Checkpoint:
    return checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)


def current() -> Journal | None:
    """Return the journal of the estimator that learns now."""
    return _current.get()


@contextmanager
def keeping(journal: Journal | None) -> Iterator[None]:
    """Context of the fits of one estimator.

    However it ends, what is known is written.  On SIGTERM, with which batch queues end jobs, learning ends as on
    Ctrl-C, and then the process, with 143.
    """
    if journal is None:
        yield
        return
    token = _current.set(journal)
    try:
        with _terminable(journal):
            yield
    finally:
        _current.reset(token)
        with interrupts.shielded():
            journal.write()
        if journal.terminated:
            raise SystemExit(128 + signal.SIGTERM)


@contextmanager
def _terminable(journal: Journal) -> Iterator[None]:
    """Note SIGTERM where the process has no other handler; a second one ends the process."""
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    if not ours:
        yield
        return

    def handle(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        journal.terminated = True
        interrupts.handle(number, frame)

    signal.signal(signal.SIGTERM, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


@contextmanager
def going_on(journal: Journal | None) -> Iterator[None]:
    """Context of learning that may go on from a file: errors that no rows explain are that file's."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
        of_rows = isinstance(error, DataError | OutOfTimeError | CheckpointError)
        if of_rows or journal is None or journal.taken is None:
            raise
        cause = str(error).strip().partition("\n")[0]
        raise CheckpointError(f"learning cannot go on from {journal.taken} ({cause}): take another folder") from error


def holds_one(folder: str | PathLike[str]) -> bool:
    """Whether a folder holds a checkpoint, of one fit or of many."""
    return any(NAME.fullmatch(path.name) for path in Path(folder).rglob("checkpoint-*"))


def fingerprint(engine: Engine) -> str:
    """Digest the rows and weights of an engine: equal tables have equal digests on every engine.

    A sparse table has its own, of the lists of its ones.
    """
    sha = hashlib.blake2b(digest_size=16)
    n_rows, kind = 0, ""
    for block in _blocks(engine):
        interrupts.check()
        sha.update(np.ascontiguousarray(block).data)
        n_rows, kind = n_rows + len(block), block.dtype.str
    sha.update(f"{n_rows} {engine.n_features} {kind}".encode())
    if engine.weights is not None:
        sha.update(np.ascontiguousarray(engine.weights).data)
    return sha.hexdigest()


def _blocks(engine: Engine) -> Iterable[np.ndarray]:
    if isinstance(engine, SparseEngine):
        return [engine.starts, engine.columns]
    return [engine.table] if isinstance(engine, MemoryEngine) else engine.blocks()


def _named(number: int) -> str:
    return f"checkpoint-{number}.safetensors"


def _numbers(folder: Path) -> list[int]:
    """List the checkpoints in a folder, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(int(found[1]) for found in (NAME.fullmatch(path.name) for path in folder.iterdir()) if found)


def _content(header: dict[str, Any], arrays: list[np.ndarray]) -> tuple[dict[int, Any], tuple[int, Any] | None, int]:
    """Finished calls, the one that is not, and the seed."""
    finished, place = unpack(header["content"], arrays)
    if not isinstance(finished, dict) or not (place is None or (isinstance(place, tuple) and len(place) == 2)):
        raise _Damaged("it holds no calls")
    if not isinstance(header["seed"], int) or not 0 <= header["seed"] < MOST_SEEDS:
        raise _Damaged("its seed is none")
    return finished, place, header["seed"]


def _read(path: Path) -> tuple[dict[str, Any], list[np.ndarray]]:
    if not path.is_file():
        raise _Damaged("it is no file")
    try:
        with safe_open(path, framework="numpy") as file:
            header = json.loads((file.metadata() or {})["latentbits"])
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if header["format"] != FORMAT:
            raise _Damaged("it is no checkpoint")
        if header.pop("sha256") != digest(header, tensors):
            raise _Damaged("its checksum does not match")
        return header, [tensors[str(i)] for i in range(len(tensors))]
    except (SafetensorError, OSError, ValueError, TypeError, KeyError, AttributeError, MemoryError) as error:
        raise _Damaged(f"truncated or damaged: {error}") from error
