"""Products over rows in blocks: the product, and the same bits whatever the number of XLA's threads."""

import json
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core.products import over_last, over_rows

BITS = """
import sys, json, hashlib
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))  # XLA has a thread for each, or more
import numpy as np
from latentbits.core.products import over_last, over_rows
rng = np.random.default_rng(0)
found = []
for n in (8192, 2000):
    a, b = rng.random((n, 4), np.float32), rng.random((n, 64), np.float32)
    for product in (jax.jit(over_rows)(a, b), jax.jit(over_last)(a.T, b.T)):
        found.append(hashlib.sha256(np.asarray(product).tobytes()).hexdigest())
print(json.dumps(found))
"""


@pytest.mark.parametrize("n", [1, 31, 257, 2000, 4096])
def test_products(n):
    rng = np.random.default_rng(n)
    a, b = (jnp.asarray(rng.random((n, size), np.float32)) for size in (3, 5))
    np.testing.assert_allclose(over_rows(a, b), a.T @ b, rtol=1e-5)
    np.testing.assert_allclose(over_last(a.T, b.T), a.T @ b, rtol=1e-5)
    assert over_rows(a, b[:, :0]).shape == (3, 0)  # a table may have no columns of a kind


def test_the_same_bits_by_any_number_of_threads():
    def bits(n_threads):
        done = subprocess.run([sys.executable, "-c", BITS, str(n_threads)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)

    assert bits(1) == bits(16)
