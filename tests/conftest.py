"""Shapes and types are checked at run time in every test: jaxtyping's annotations, enforced by beartype."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

_hook = install_import_hook(["latentbits.core", "latentbits.models"], "beartype.beartype")

OPTIMISED = "optimised"
REAL_DATA = os.environ.get("LATENTBITS_DATA")  # as it was, before a test changes it


def pytest_configure(config):
    config.addinivalue_line("markers", f"{OPTIMISED}: a file that runs for longer than it compiles")


@pytest.fixture(scope="module", autouse=True)
def compiled_code(request):
    """Compiled functions are for one file: thousands of them use up the memory maps, and the compiler crashes.

    `make test` asks for code that is compiled fast and runs slowly; files marked ``optimised`` ask for better code.
    """
    fast = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1" and not request.node.get_closest_marker(OPTIMISED)
    jax.config.update("jax_disable_most_optimizations", fast)
    yield
    jax.clear_caches()


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    if not REAL_DATA:
        pytest.skip("the environment variable LATENTBITS_DATA names no folder of real data")
    return Path(REAL_DATA)
