"""JAX's compiled programs, kept from one run of the tool to the next.

Only the tool does this; the library leaves JAX's configuration alone.  What is in the folder gets executed, so the
folder must be the user's own and closed to everybody else.
"""

from __future__ import annotations

import hashlib
import os
import platform
import stat
import sys
from pathlib import Path

__all__ = ["cache_folder", "private_folder", "use_compile_cache"]


def use_compile_cache() -> Path | None:
    """Turn the persistent compilation cache on; to be called before JAX compiles anything.

    Returns
    -------
    Path or None
        The folder; None where the user has set up a cache of their own, or where no private folder can be had.
    """
    # XLA's loader logs errors about tuning preferences that it mistakes for features of the processor, even on the
    # machine that compiled the code (jax issue 38445).
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if os.environ.get("JAX_COMPILATION_CACHE_DIR"):
        return None
    folder = private_folder(cache_folder() / "compiled")
    if folder is None:
        return None
    import jax
    import jaxlib

    # A home folder may be shared by machines, and code for one processor can crash another.
    folder = folder / _fingerprint(jaxlib.__version__)
    jax.config.update("jax_compilation_cache_dir", str(folder))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
    jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    return folder


def cache_folder() -> Path:
    """The folder for all that latentbits keeps: LATENTBITS_CACHE, or the user's cache folder."""
    named = os.environ.get("LATENTBITS_CACHE")
    if named:
        return Path(named)
    home = Path.home()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or home / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = home / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache")
    return base / "latentbits"


def private_folder(path: Path) -> Path | None:
    """The folder, made if need be, with mode 0700; None if it cannot be made or is not the user's own."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=0o700, exist_ok=True)
        if not hasattr(os, "getuid"):
            return path  # Windows: what is in the profile is private already
        found = path.lstat()  # not stat: a link could lead to somebody else's folder
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
            return None
        path.chmod(0o700)
    except OSError:
        return None
    return path


def _fingerprint(version: str) -> str:
    """A name for this processor and compiler."""
    features = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            features = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass  # not Linux: there a home folder is seldom shared
    parts = (platform.machine(), platform.processor(), features, version)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]
