"""log Z and its gradient of a combination machine: seconds, beside plain NumPy in the same run.

    python benchmarks/partition.py [--hidden 14,16,18,20] [--inputs 64] [--kind binary] [--seconds 2]

Weights are drawn from N(0, 0.3^2), with a fixed seed.  The sum is over the hidden states: have more inputs than hidden
units.  Ours is `exact_moments` in float32, compiled before it is timed, on the device that JAX chooses; "log Z only" is
`exact_log_partition`.  NumPy's is what one writes first: blocks of 2^12 states, their fields by a matrix product, log
cosh and tanh, and the gradient by another matrix product, in float32.  Its BLAS is limited to one thread (on a CPU
ours hardly uses more), unless OPENBLAS_NUM_THREADS says otherwise.  Above 18 hidden units NumPy's time is that for 18,
doubled for every unit.

Each is called again for `seconds` (at least three times), and the shortest call counts.  "off" is the difference of
log Z to the sum in float64, up to 20 hidden units.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.core import tree
from latentbits.models.combination_machine.machine import UNITS, Machine
from latentbits.models.combination_machine.partition import exact_log_partition, exact_moments

SINGLE = np.dtype(np.float32)
NUMPY_UNITS, CHECKED_UNITS = 18, 20
BLOCK = 12


def in_numpy(kind: str, w: np.ndarray, theta: np.ndarray, b: np.ndarray) -> tuple[float, np.ndarray]:
    """log Z and E[h x] in blocks."""
    m, n = w.shape
    total, top, both = 0.0, -np.inf, np.zeros((m, n))
    for first in range(0, 2**m, 2**BLOCK):
        numbers = np.arange(first, min(first + 2**BLOCK, 2**m))
        h = ((numbers[:, None] >> np.arange(m)) & 1).astype(np.float32)
        a = h @ w + b
        if kind == "binary":
            x = np.tanh(a)
            size = np.abs(a)
            g = h @ theta + np.sum(size + np.log(1 + np.exp(-2 * size)), 1)
        else:
            x = a
            g = h @ theta + np.sum(a**2, 1) / 2 + np.float32(n / 2 * np.log(2 * np.pi))
        new = max(top, float(g.max()))
        p = np.exp(g - np.float32(new))
        share = np.exp(top - new)
        total = share * total + float(p.sum())
        both = share * both + (h * p[:, None]).T @ x
        top = new
    return top + np.log(total), both / total


def shortest(call: Callable[[], object], seconds: float) -> float:
    """Seconds of the shortest of several calls."""
    times: list[float] = []
    while len(times) < 3 or sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def one_size(kind: str, m: int, n: int, seconds: float) -> str:
    """A row of the table."""
    rng = np.random.default_rng([1994, m, n])
    arrays = [0.3 * rng.standard_normal(shape) for shape in ((m, n), (m,), (n,))]
    units = UNITS[kind]
    with tree.double():
        machine = Machine(*map(jnp.asarray, arrays))
        moments = jax.jit(lambda machine: exact_moments(units, machine, SINGLE)).lower(machine).compile()
        alone = jax.jit(lambda machine: exact_log_partition(units, machine, SINGLE)).lower(machine).compile()
        log_z = float(jax.block_until_ready(moments(machine))[0])
        ours = shortest(lambda: jax.block_until_ready(moments(machine)), seconds)
        without = shortest(lambda: jax.block_until_ready(alone(machine)), seconds)
        off = ""
        if m <= CHECKED_UNITS:
            off = f"{log_z - float(jax.jit(lambda machine: exact_log_partition(units, machine))(machine)):.0e}"
    few = min(m, NUMPY_UNITS)
    single = [array.astype(np.float32) for array in (arrays[0][:few], arrays[1][:few], arrays[2])]
    theirs = shortest(lambda: in_numpy(kind, *single), seconds) * 2 ** (m - few)
    return f"{m:6d} {n:6d} {ours:10.4f} {without:12.4f} {theirs:10.3f} {theirs / ours:8.1f} {off:>8}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", default="14,16,18,20")
    parser.add_argument("--inputs", type=int, default=64)
    parser.add_argument("--kind", choices=sorted(UNITS), default="binary")
    parser.add_argument("--seconds", type=float, default=2.0)
    options = parser.parse_args()
    print(f"log Z and gradient, {options.kind} inputs, float32, on {jax.devices()[0].device_kind}; seconds")
    print("hidden inputs       ours    log Z only      NumPy    ratio      off")
    for m in map(int, options.hidden.split(",")):
        print(one_size(options.kind, m, options.inputs, options.seconds), flush=True)


if __name__ == "__main__":
    main()
