"""Files that are never half written, and things that are no files, which are written through."""

from __future__ import annotations

import errno
import io
import os
import re
import secrets
import stat
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, NoReturn

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = ["check_writable", "write_atomically"]

TEMPORARY = re.compile(r"\.latentbits-[0-9a-f]{16}\.tmp")
FORGOTTEN_SECONDS = (
    3600.0  # age from which a temporary file counts as left behind, where no lock shows that it is in use
)


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[IO[bytes]]:
    """Open a file beside `path`, and rename it to `path` once it is written: readers see the old one or the new one.

    A link stays, and what it leads to is replaced.  An existing file keeps its permissions.  What is no regular file (a
    device, a pipe) is never replaced: all bytes are written into it at the end.  Errors are `OSError` and name `path`.

    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     goal = pathlib.Path(folder) / "x"
    ...     with write_atomically(goal) as file:
    ...         _ = file.write(b"all of it")
    ...     goal.read_bytes()
    b'all of it'
    """
    path = Path(path)
    try:
        found = _find(path)
        if found is not None and _is_written_through(found):
            buffer = io.BytesIO()  # what is written may have to seek, and a pipe cannot
            yield buffer
            _write_through(path, found, buffer.getbuffer())
        else:
            target = Path(os.path.realpath(path))
            _remove_forgotten(target.parent)
            with _replacing(target, found) as file:
                yield file
    except OSError as error:
        _name_file(error, path)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Complain now if `write_atomically` could not write `path`; nothing is changed, and nothing is left behind.

    A pipe is not opened, since that waits for a reader.

    >>> check_writable("nowhere/m.safetensors")
    Traceback (most recent call last):
        ...
    FileNotFoundError: [Errno 2] cannot write nowhere/m.safetensors: there is no folder nowhere
    """
    path = Path(path)
    try:
        found = _find(path)
        if found is not None and not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        if found is None or not _is_written_through(found):
            handle, name = _new_temporary(Path(os.path.realpath(path)).parent, 0o600)
            if fcntl is None:
                os.close(handle)  # Windows removes no open file
                name.unlink(missing_ok=True)
            else:
                name.unlink(missing_ok=True)  # while it is locked, so that no other process removes it
                os.close(handle)
    except OSError as error:
        _name_file(error, path)


def _find(path: Path) -> os.stat_result | None:
    """Find what `path` leads to; None if it is free.  Refuse places where no file can be written."""
    try:
        found = path.stat()  # not of its real path: a pipe behind /dev/stdout has none
    except FileNotFoundError:
        folder = Path(os.path.realpath(path)).parent
        if not folder.is_dir():
            given = folder if path.is_symlink() else path.parent
            raise FileNotFoundError(errno.ENOENT, f"there is no folder {given}") from None
        return None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, "it is a folder")
    return found


def _name_file(error: OSError, path: Path) -> NoReturn:
    """Raise the error again with the name of the file: that of a full disk names none, or the temporary one."""
    why = error.strerror or str(error)
    if error.errno is None:
        raise OSError(f"cannot write {path}: {why}") from error
    raise OSError(error.errno, f"cannot write {path}: {why}") from error


# --- regular files ---


@contextmanager
def _replacing(target: Path, old: os.stat_result | None) -> Iterator[IO[bytes]]:
    handle, temporary = _new_temporary(target.parent, 0o666 if old is None else stat.S_IMODE(old.st_mode))
    # the lock tells others that this file is somebody's until it has been renamed; Windows renames no open file
    held = None if fcntl is None else os.dup(handle)
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if old is not None:
            _take_over(temporary, old)
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    finally:
        if held is not None:
            os.close(held)


def _take_over(temporary: Path, old: os.stat_result) -> None:
    """Owner, where that is allowed, and permissions of the file that is replaced."""
    if hasattr(os, "chown"):
        with suppress(PermissionError):
            os.chown(temporary, old.st_uid, old.st_gid)
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _new_temporary(folder: Path, mode: int) -> tuple[int, Path]:
    """Return a new file of a name that `TEMPORARY` knows, open for writing and locked where locks are."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)
    while True:
        path = folder / f".latentbits-{secrets.token_hex(8)}.tmp"
        handle = os.open(path, flags, mode)
        if fcntl is None:
            return handle, path
        with suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        if os.fstat(handle).st_nlink:
            return handle, path
        os.close(handle)  # removed as forgotten before it could be locked


def _remove_forgotten(folder: Path) -> None:
    """Remove temporary files whose writers were killed: those without a lock, or old ones where locks do not show."""
    try:
        with os.scandir(folder) as entries:
            left = [Path(entry.path) for entry in entries if TEMPORARY.fullmatch(entry.name)]
    except OSError:
        return  # a folder may be written to and not be read
    for path in left:
        with suppress(OSError):  # of somebody else, or gone already
            handle = os.open(path, os.O_RDWR | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
            try:
                forgotten = _is_forgotten(handle)
                if forgotten and fcntl is not None:
                    path.unlink()  # under the lock
            finally:
                os.close(handle)
            if forgotten and fcntl is None:
                path.unlink()


def _is_forgotten(handle: int) -> bool:
    if fcntl is not None:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:
            pass  # a file system without locks
        else:
            return True
    return time.time() - os.fstat(handle).st_mtime > FORGOTTEN_SECONDS


# --- what is no regular file ---


def _is_written_through(found: os.stat_result) -> bool:
    return not stat.S_ISREG(found.st_mode) or _stream_of(found) is not None


def _stream_of(found: os.stat_result) -> int | None:
    """Return the number of our own stdout or stderr if it is this file, as with ``-o /dev/stdout > file``."""
    for number in (1, 2):
        with suppress(OSError):
            if os.path.samestat(os.fstat(number), found):
                return number
    return None


def _write_through(path: Path, found: os.stat_result, data: memoryview) -> None:
    number = _stream_of(found)
    if number is None:
        handle = os.open(path, os.O_WRONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOCTTY", 0))
    else:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:  # as with ``pythonw``
                stream.flush()
        handle = os.dup(number)  # after what is there, not over it
    with os.fdopen(handle, "wb") as file:
        file.write(data)
