"""Compiled programs on disk, from one process to the next: in a folder of the library's own, not in JAX's cache.

A user's settings of JAX's own cache, and other code of the same process, are left as they are.  What is in the folder
gets executed.  So the folder must be the user's own and closed to everybody else, and so must each file, since the
folder may have been open before: others are removed.  Each program is a file with a checksum of what it holds: what is
damaged is compiled anew.  Files appear whole (they are renamed into place), so that processes may share the folder;
those that were not used for longest go when all together take too much room.
"""

from __future__ import annotations

import hashlib
import os
import pickle
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import jax
import jaxlib
import numpy as np
from jax.experimental import serialize_executable

from latentbits.core.atomic import write_atomically
from latentbits.core.folders import cache_folder, keeps_programs, private_folder, read_own
from latentbits.core.naming import digest, sources
from latentbits.core.processor import cores, features

__all__ = ["MOST_BYTES", "environment", "load", "read", "remove", "write"]

MOST_BYTES = 2**29  # of all programs together
CHECKED = 16  # files written between two looks at the size of the folder, and one at the first
NOT_COMPILED_IN = ("cache", "log", "traceback", "explain", "platforms", "profiler", "distributed", "persistent")

_written = 0


def environment(device: jax.Device) -> str:
    """All that a program depends on beside what it computes: code, compiler, processor, settings."""
    settings = sorted(
        (name, repr(value))
        for name, value in jax.config.values.items()
        if not any(word in name for word in NOT_COMPILED_IN)
    )
    return digest(
        sources(),
        jax.__version__,
        jaxlib.__version__,
        features(),
        str(cores()),
        f"{device.platform} {device.device_kind} {device.client.platform_version}",
        os.environ.get("XLA_FLAGS", ""),
        repr(settings),
    )


def read(name: str) -> tuple[bytes, Any, bool] | None:
    """A program as it was written, shapes of what it returns, and whether it runs alone; if it is there and whole."""
    path = _path(name)
    if path is None:
        return None
    try:
        held = read_own(path)
    except PermissionError:
        remove(name)
        return None
    except OSError:
        return None
    try:
        if hashlib.sha256(held[32:]).digest() != held[:32]:
            raise ValueError("damaged")
        program, returns, alone = pickle.loads(held[32:])
    except Exception:  # whatever a damaged file leads to
        remove(name)
        return None
    with suppress(OSError):
        os.utime(path)  # used: the last to go
    return program, returns, alone


def load(program: bytes, returns: Any, n_arguments: int, device: jax.Device) -> jax.stages.Compiled | None:
    """The program, ready to be called with the leaves of its arguments; None if it cannot be loaded here."""
    _load_linear_algebra()
    inputs = jax.tree.structure(((0,) * n_arguments, {}))
    outputs = jax.tree.structure([0] * len(jax.tree.leaves(returns)))
    try:
        return serialize_executable.deserialize_and_load(
            program, inputs, outputs, backend=device.client, execution_devices=[device]
        )
    except Exception:  # whatever a file that was made elsewhere leads to
        return None


@cache
def _load_linear_algebra() -> None:
    """JAX finds the routines of LAPACK when it lowers the first program that calls one; one that is read jumps to 0."""
    jax.jit(jax.lax.linalg.cholesky).lower(jax.ShapeDtypeStruct((1, 1), np.float32))


def remove(name: str) -> None:
    """Forget a program that is of no use."""
    path = _path(name)
    with suppress(OSError):
        if path is not None:
            path.unlink()


def write(name: str, compiled: jax.stages.Compiled, returns: Any, alone: bool) -> None:
    """Keep a program; where that cannot be done, nothing is kept.

    Nor is it where the user has a cache of JAX's own: what JAX has read from there is not whole when it is written
    again (jax 0.10 on CPUs: "Function ... not found" where it is called).
    """
    global _written
    path = _path(name)
    if path is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        program, _, _ = serialize_executable.serialize(compiled)
        held = pickle.dumps((program, returns, alone))
    except Exception:  # a backend, or a program with constants, that cannot be written
        return
    with suppress(OSError):
        with write_atomically(path) as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o600)  # whatever the umask
            file.write(hashlib.sha256(held).digest() + held)
        if _written % CHECKED == 0:
            _make_room(path.parent.parent)
        _written += 1


def _path(name: str) -> Path | None:
    base = cache_folder() if keeps_programs() else None
    whole = None if base is None else private_folder(base / "compiled")
    folder = None if whole is None else private_folder(whole / name[:2])
    return None if folder is None else folder / f"{name}.program"


def _make_room(folder: Path) -> None:
    """Remove what was not used for longest until the rest is within bounds."""
    found = []
    for path in folder.glob("*/*.program"):
        with suppress(OSError):  # another process makes room as well
            state = path.stat()
            found.append((state.st_mtime, state.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= MOST_BYTES:
            break
        with suppress(OSError):
            path.unlink()
        total -= size
