"""The contract of engines in a separate process: every family learns the same bits there.

Each way in this process: `test_models.py`.  Spawned workers, workers that are killed, and workers that are threads of
this process: `engines/test_dask.py`.
"""

from __future__ import annotations

import pytest
from cases import CASES
from scripts import printed_by

FAMILIES = sum(not case.slow for case in CASES)


@pytest.mark.slow("every family on one device and on two")
def test_one_device_and_several_learn_the_same_parameters():
    """The number of virtual devices is fixed when JAX begins; there are three, and one family learns on all of them."""
    printed = printed_by("on_devices.py", 1, 2, 3)
    assert printed.count("has the same bits") == FAMILIES
    # all but small batches, and clipped Gaussians, whose rows are packed into one chunk
    assert int(printed.splitlines()[-1].split()[0]) >= FAMILIES - 3
