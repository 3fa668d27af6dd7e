"""Shared by the tests of data: where LATENTBITS_DATA points, before tests change it."""

import os
from pathlib import Path

import pytest

REAL_DATA = os.environ.get("LATENTBITS_DATA")


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    if not REAL_DATA:
        pytest.skip("the environment variable LATENTBITS_DATA names no folder of real data")
    return Path(REAL_DATA)
