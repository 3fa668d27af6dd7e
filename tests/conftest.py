"""Shapes and types are checked at run time in every test: jaxtyping's annotations, enforced by beartype."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from jaxtyping import install_import_hook

_hook = install_import_hook(["latentbits.core", "latentbits.models"], "beartype.beartype")

REAL_DATA = os.environ.get("LATENTBITS_DATA")  # as it was, before a test changes it


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    if not REAL_DATA:
        pytest.skip("the environment variable LATENTBITS_DATA names no folder of real data")
    return Path(REAL_DATA)
