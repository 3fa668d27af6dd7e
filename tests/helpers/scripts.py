"""Scripts of this folder, run as processes of their own: without the checks of types, and before JAX has begun."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import jax

HELPERS = Path(__file__).parent
FAST = ("XLA_FLAGS", "JAX_DISABLE_MOST_OPTIMIZATIONS")  # by which `make test` compiles fast what runs slowly


def compiled_in(folder=None):
    """The environment of processes that share what they compile: in a folder, or with the tests of this run."""
    return os.environ | {
        "JAX_COMPILATION_CACHE_DIR": str(folder or jax.config.jax_compilation_cache_dir),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }


def as_users_have_it():
    """The environment of processes that run for longer than they compile: without what makes compiling fast."""
    return {name: value for name, value in os.environ.items() if name not in (*FAST, "JAX_COMPILATION_CACHE_DIR")}


def printed_by(script, *args):
    """What a script prints; it must end well."""
    found = subprocess.run(
        [sys.executable, str(HELPERS / script), *map(str, args)],
        env=compiled_in() | {"PYTHONPATH": os.pathsep.join([*sys.path, str(HELPERS)])},
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    return found.stdout
