"""Shapes and types are checked at run time in every test: jaxtyping's annotations, enforced by beartype."""

from __future__ import annotations

import os
from pathlib import Path

import jax
import pytest
from jaxtyping import install_import_hook

_hook = install_import_hook(["latentbits.core", "latentbits.models"], "beartype.beartype")

REAL_DATA = os.environ.get("LATENTBITS_DATA")  # as it was, before a test changes it


@pytest.fixture(scope="module", autouse=True)
def forget_compiled_code():
    """Thousands of compiled functions in one process use up its memory maps, and the compiler crashes."""
    yield
    jax.clear_caches()


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    if not REAL_DATA:
        pytest.skip("the environment variable LATENTBITS_DATA names no folder of real data")
    return Path(REAL_DATA)
