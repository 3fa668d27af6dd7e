"""Bits packed eight to a byte, from the disk: rows a second, memory, and how long the device waits for rows.

    python benchmarks/stream_large.py [--rows 10000000] [--columns 64] [--components 8] [--iterations 5]

Writes a packed zarr of a true mixture to a temporary folder and fits a mixture to it from there.  The device is busy
while a chunk is in work; what is left of the passes is waiting for rows.  Peak memory is that of the whole process.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
import warnings
from pathlib import Path

import numpy as np
from peers.resident import forget_peak, resident
from stream import blocks


class Busy:
    """Seconds in which one call or more of a function is in work."""

    def __init__(self) -> None:
        self.lock, self.running, self.since, self.seconds = threading.Lock(), 0, 0.0, 0.0

    def watched(self, function):
        def call(*args, **kwargs):
            import jax

            with self.lock:
                self.since = self.since if self.running else time.perf_counter()
                self.running += 1
            try:
                return jax.block_until_ready(function(*args, **kwargs))
            finally:
                with self.lock:
                    self.running -= 1
                    if not self.running:
                        self.seconds += time.perf_counter() - self.since

        return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--components", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=5)
    parser.add_argument("--folder", help="where the file goes; else where temporary files go")
    options = parser.parse_args()

    from latentbits import BernoulliMixture
    from latentbits.data import write_packed
    from latentbits.data.bounds import stored_bytes
    from latentbits.engines import passes

    warnings.simplefilter("ignore")
    n, d, k = options.rows, options.columns, options.components
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        began = time.perf_counter()
        path = write_packed(Path(folder, "bits.zarr"), blocks(n, d, k)())
        took = time.perf_counter() - began
        print(
            f"{n} rows x {d} bits: {stored_bytes(path) / 1e6:.0f} MB on the disk, written in {took:.0f} s", flush=True
        )

        settings = {"smoothing": 0.0, "random_state": 0, "tol": -1.0e9, "n_init": 1}
        BernoulliMixture(k, max_iter=1, **settings).fit(blocks(300_000, d, k))  # compiles
        busy, original, begun = Busy(), passes.chunk_stats, []

        def noted(*args, **kwargs):
            begun.append((time.perf_counter(), int(args[4])))
            return original(*args, **kwargs)

        passes.chunk_stats = busy.watched(noted)
        forget_peak()
        began = time.perf_counter()
        model = BernoulliMixture(k, max_iter=options.iterations, **settings).fit(path)
        ended = time.perf_counter()
        first, rows = begun[0][0], sum(rows for _, rows in begun)
        learning = ended - first
        print(f"summary and start: {first - began:.1f} s")
        print(f"{rows / n:.0f} passes: {learning:.1f} s, {rows / learning / 1e6:.2f} million rows a second")
        print(f"device busy: {busy.seconds / learning:.0%} of the passes")
        print(f"peak memory: {resident('VmHWM'):.0f} MB")
        began = time.perf_counter()
        read = sum(np.shape(block)[0] for block in model._open(path, reset=False).blocks())
        print(f"reading alone: {read / (time.perf_counter() - began) / 1e6:.2f} million rows a second")


if __name__ == "__main__":
    main()
