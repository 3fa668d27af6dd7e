"""Several devices of one host: the bits of one."""

import os
import subprocess
import sys
from pathlib import Path

import jax
import numpy as np
import on_workers
import pytest

from latentbits.engines import devices
from latentbits.engines.chunks import Layout

HELPERS = Path(__file__).parent.parent / "helpers"
LAYOUT = Layout(64, np.dtype(np.float32))


def test_chunks_are_dealt_out_in_turn(monkeypatch):
    monkeypatch.setattr(jax, "local_devices", lambda: ["first", "second", "third"])
    assert [devices.device_of(number, LAYOUT) for number in range(5)] == [None, "second", "third", None, "second"]
    # small batches wait for each other: on one
    assert {devices.device_of(number, LAYOUT._replace(rows_per_update=64)) for number in range(5)} == {None}


def test_who_has_chosen_a_device_gets_that():
    chosen = jax.local_devices()[0]
    with jax.default_device(chosen):
        assert devices.devices() == (chosen,)


@pytest.mark.slow
def test_every_family_learns_the_bits_of_one_device():
    found = subprocess.run(
        [sys.executable, str(HELPERS / "on_devices.py"), "1", "2", "4"],
        env=os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, str(HELPERS)])},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("has the same bits") == len(on_workers.NAMES)
    # all but small batches, and clipped Gaussians, whose rows are packed into one chunk
    assert int(found.stdout.splitlines()[-1].split()[0]) >= 2 * (len(on_workers.NAMES) - 3)
