"""Compiled programs on disk, from one process to the next, in a folder of the library and not in JAX's cache.

A program is found by a digest of itself as it is given to the compiler, and of all that the compiler depends on.  So
what is found is what would be compiled, whatever has been patched, wrapped, or read from elsewhere while it was traced.
A program that calls into the process it was made in (host callbacks) has no name.

A user's settings of JAX's own cache, and other code of the same process, are left as they are.  What is in the folder
gets executed.  So the folder must be the user's own and closed to everybody else, and so must each file, since the
folder may have been open before: others are removed.  Each program is a file with a checksum of what it holds: what is
damaged is compiled again.  Files appear whole (they are renamed into place), so that processes may share the folder;
those that were not used for longest go when all together take too much room.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jax
import jaxlib
from jax.experimental import serialize_executable

from latentbits.core.atomic import write_atomically
from latentbits.core.folders import cache_folder, keeps_programs, private_folder, read_own
from latentbits.core.processor import cores, features

__all__ = ["MOST_BYTES", "load", "name", "write"]

MOST_BYTES = 2**29  # of all programs together
FILES_BETWEEN_CHECKS = 16  # written between two checks of the size of the folder; the first file is followed by one
NOT_COMPILED_IN = ("cache", "log", "traceback", "explain", "platforms", "profiler", "distributed", "persistent")

# Calls out of a program to what JAX itself brings, and to nothing in this process; all else that they depend on is in
# the program.  Linear algebra and random numbers of CPUs and GPUs, and kernels of Pallas.
CALLS = re.compile(r"custom_call @(?:lapack_|cu(?:blas|fft|rand|solver|sparse|_)|hip|__gpu\$xla\.gpu\.triton)")
TRANSFER = re.compile(r"stablehlo\.(?:send|recv|infeed|outfeed)")

_written = 0


def name(program: str, beside: str, device: jax.Device) -> str | None:
    """Name a lowered program by a digest of its text, `beside`, and all that compiling depends on.

    None for a program that means something in this process alone.
    """
    if len(CALLS.findall(program)) != program.count("custom_call") or TRANSFER.search(program):
        return None
    return hashlib.sha256("\n".join((program, beside, _environment(device))).encode()).hexdigest()


def _environment(device: jax.Device) -> str:
    """Describe compiler, processor and settings."""
    settings = sorted(
        (setting, repr(value))
        for setting, value in jax.config.values.items()
        if not any(word in setting for word in NOT_COMPILED_IN)
    )
    return repr(
        (
            jax.__version__,
            jaxlib.__version__,
            features(),
            cores(),
            (device.platform, device.id, device.device_kind, device.client.platform_version),
            [os.environ.get(flags) for flags in ("XLA_FLAGS", "LIBTPU_INIT_ARGS")],
            settings,
        )
    )


def load(name: str, lowered: jax.stages.Lowered, device: jax.Device) -> Callable[..., Any] | None:
    """Load the program of this name; None if there is none.  A damaged or foreign file is removed."""
    path = _path(name)
    if path is None:
        return None
    try:
        held = read_own(path)
        if hashlib.sha256(held[32:]).digest() != held[:32]:
            raise ValueError("damaged")
        program = serialize_executable.deserialize_and_load(
            held[32:], lowered.in_tree, lowered.out_tree, backend=device.client, execution_devices=[device]
        )
    except FileNotFoundError:
        return None
    except Exception:  # not the user's own, or whatever a damaged file leads to
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        os.utime(path)  # used: the last to go
    return program


def write(name: str, compiled: jax.stages.Compiled) -> None:
    """Write a program where that is possible.

    Nor is it where the user has a cache of JAX's own: what JAX has read from there is not whole when it is written
    again (jax 0.10 on CPUs: "Function ... not found" where it is called).
    """
    global _written
    path = _path(name)
    if path is None or getattr(jax.config, "jax_compilation_cache_dir", None):
        return
    try:
        held, _, _ = serialize_executable.serialize(compiled)
    except Exception:  # a backend, or a program with constants, that cannot be written
        return
    with suppress(OSError):
        with write_atomically(path) as file:
            if hasattr(os, "fchmod"):
                os.fchmod(file.fileno(), 0o600)  # whatever the umask
            file.write(hashlib.sha256(held).digest() + held)
        if _written % FILES_BETWEEN_CHECKS == 0:
            _make_room(path.parent.parent)
        _written += 1


def _path(name: str) -> Path | None:
    base = cache_folder() if keeps_programs() else None
    whole = None if base is None else private_folder(base / "compiled")
    folder = None if whole is None else private_folder(whole / name[:2])
    return None if folder is None else folder / f"{name}.program"


def _make_room(folder: Path) -> None:
    """Remove the files that were not used for longest until the rest is within bounds."""
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
