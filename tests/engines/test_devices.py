"""Several devices of one host; that fits have the bits of one: `contract/test_engines.py`."""

import jax
import numpy as np

from latentbits.engines import devices
from latentbits.engines.chunks import Layout

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
