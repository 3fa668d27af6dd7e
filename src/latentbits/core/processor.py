"""The processor that this process runs on: how many cores it may use, and a name for what they can do."""

from __future__ import annotations

import os
import platform
from functools import cache

import jax

__all__ = ["accelerated", "cores", "features"]


def cores() -> int:
    """Count the cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def accelerated() -> bool:
    """Whether rows are computed on another device than this processor, with separate memory."""
    return jax.default_backend() != "cpu"


@cache
def features() -> str:
    """Name the features of the processor that code is compiled for: machines may share a home folder."""
    found = ""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            found = next((line for line in file if line.startswith(("flags", "Features"))), "")
    except OSError:
        pass  # not Linux: there a home folder is seldom shared
    return "\n".join((platform.machine(), platform.processor(), found))
