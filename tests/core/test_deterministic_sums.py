"""Products over rows in blocks: the product, and the same bits whatever the number of XLA's threads."""

import json
import subprocess
import sys

import jax
import numpy as np
import pytest

from latentbits.core.deterministic_sums import narrow_over_last, over_last, over_rows, sum_over_rows

BITS = """
import os, sys, json, hashlib
if sys.argv[1] == "1" and hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])  # XLA takes other ways where there is one thread
import jax
jax.config.update("jax_num_cpu_devices", int(sys.argv[1]))  # XLA has a thread for each, or more
import numpy as np
from latentbits.core.deterministic_sums import narrow_over_last, over_last, over_rows, sum_over_rows
rng = np.random.default_rng(0)
found = []
for n, left, right in ((8192, 20, 200), (2000, 4, 64)):
    a, b = rng.random((n, left), np.float32), rng.random((n, right), np.float32)
    for sum in (jax.jit(over_rows)(a, b), jax.jit(over_last)(a.T, b.T), jax.jit(sum_over_rows)(b)):
        found.append(hashlib.sha256(np.asarray(sum).tobytes()).hexdigest())
for n, width, left, right in ((256, 16, 16, 2), (2048, 16, 8, 2)):
    a, b = rng.random((width, left, n), np.float32), rng.random((width, right, n), np.float32)
    for product in (over_last, narrow_over_last):
        sum = jax.jit(jax.vmap(product))(a, b)
        found.append(hashlib.sha256(np.asarray(sum).tobytes()).hexdigest())
print(json.dumps(found))
"""


@pytest.mark.parametrize("n", [31, 257, 384, 2000])  # one block, a prime number of rows, blocks, an odd number of them
def test_products(n):
    rng = np.random.default_rng(n)
    a, b = (rng.random((n, size), np.float32) for size in (3, 5))

    @jax.jit
    def products(a, b):
        last = over_last(a.T, b.T), narrow_over_last(a.T, b.T)
        return over_rows(a, b), *last, sum_over_rows(a), over_rows(a, b[:, :0])

    rows, last, narrow, total, nothing = products(a, b)
    np.testing.assert_allclose(rows, a.T @ b, rtol=1e-5)
    np.testing.assert_allclose(last, a.T @ b, rtol=1e-5)
    np.testing.assert_allclose(narrow, a.T @ b, rtol=1e-5)
    np.testing.assert_allclose(total, a.sum(0), rtol=1e-5)
    assert nothing.shape == (3, 0)  # a table may have no columns of a kind


@pytest.mark.slow("processes with other numbers of threads")
def test_the_same_bits_by_any_number_of_threads():
    def bits(n_threads):
        done = subprocess.run(
            [sys.executable, "-c", BITS, str(n_threads)], capture_output=True, text=True, check=True, timeout=1800
        )
        return json.loads(done.stdout)

    assert bits(1) == bits(16)
