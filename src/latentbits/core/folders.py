"""The folder that the library keeps from one process to the next, and files that belong to the user alone."""

from __future__ import annotations

import os
import stat
from pathlib import Path

__all__ = ["cache_folder", "keeps_programs", "private_folder", "read_own"]

OFF = "off"


def keeps_programs() -> bool:
    """Whether compiled programs are kept: unless LATENTBITS_CACHE is "off"."""
    return os.environ.get("LATENTBITS_CACHE") != OFF


def cache_folder() -> Path | None:
    """Find the folder that LATENTBITS_CACHE names, or one in the user's cache folder; None for users without a home.

    Containers run as users without an entry in passwd, often without HOME.
    """
    named = os.environ.get("LATENTBITS_CACHE")
    if named and named != OFF:
        return Path(named)
    try:
        Path.home()
    except RuntimeError:
        return None
    from platformdirs import user_cache_path  # needed by users without LATENTBITS_CACHE alone

    return user_cache_path("latentbits", appauthor=False)


def private_folder(path: Path) -> Path | None:
    """Make a folder of mode 0700 if there is none; None if it cannot be made or belongs to another user."""
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


def read_own(path: Path) -> bytes:
    """Read a file that belongs to this user and that no other user can write; raise OSError for others.

    Links are not followed, and what is no file (a pipe would be waited for) is not read.
    """
    flags = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    with open(os.open(path, flags), "rb") as file:
        if hasattr(os, "getuid"):
            found = os.fstat(file.fileno())
            others = found.st_uid != os.getuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
            if others or not stat.S_ISREG(found.st_mode):
                raise PermissionError(f"{path} is no file, belongs to another user, or others can write it")
        return file.read()
