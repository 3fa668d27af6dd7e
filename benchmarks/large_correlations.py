"""Tetrachoric correlations of a million packed rows: seconds and peak memory, beside the products that count pairs.

    python -m benchmarks.large_correlations [--rows 1000000] [--columns 1000] [--rounds 3]

A `ClippedGaussian` learns from rows that are kept as packed bits and handed over block by block, with all threads:
seconds against the float32 matrix products X.T @ X that count the pairs of the same blocks, unpacked and converted
already, and the peak memory above that after a warm-up, at a tenth of the rows and at all of them.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator

import numpy as np
from benchmarks.peers.families.clipped_gaussian import bits
from benchmarks.peers.resident import forget_peak, resident

from latentbits import ClippedGaussian

BLOCK = 20_000  # rows that are unpacked at a time


def packed(n: int, d: int) -> np.ndarray:
    """Many rows of packed bits that are cheap to make: those of `bits`, mixed byte by byte."""
    base = np.packbits(bits(50_000, d), axis=1)
    rng = np.random.default_rng(0)
    rows = np.empty((n, base.shape[1]), np.uint8)
    for first in range(0, n, BLOCK):  # a row of that table, with one byte in 16 of another row
        last = min(first + BLOCK, n)
        one, other = rng.integers(len(base), size=(2, last - first))
        mix = rng.random((last - first, base.shape[1]), np.float32) < 1 / 16
        rows[first:last] = np.where(mix, base[other], base[one])
    return rows


def unpacked(rows: np.ndarray, d: int) -> Iterator[np.ndarray]:
    for first in range(0, len(rows), BLOCK):
        yield np.unpackbits(rows[first : first + BLOCK], axis=1, count=d)


def run_child(n: int, d: int, rounds: int) -> None:
    """Seconds of a fit and of the products alone, and peak memory of the fit, as JSON."""
    warnings.simplefilter("ignore")
    rows = packed(n, d)
    ClippedGaussian().fit(lambda: unpacked(rows[: 3 * BLOCK], d))  # compiles
    before = forget_peak()
    fits, products = [], []
    for number in range(rounds):
        began = time.perf_counter()
        model = ClippedGaussian().fit(lambda: unpacked(rows, d))
        fits.append(time.perf_counter() - began)
        if number == 0:
            peak = resident("VmHWM") - before
        counts = np.zeros((d, d))
        spent = 0.0
        for block in unpacked(rows, d):
            bits = block.astype(np.float32)
            began = time.perf_counter()
            part = bits.T @ bits  # of which NumPy has the symmetric half computed only
            spent += time.perf_counter() - began
            counts += part
        products.append(spent)
        if not np.allclose(np.diag(counts) / n, model.means_):
            raise ArithmeticError("the fit did not see these rows")
    print(json.dumps({"fits": fits, "products": products, "peak": peak, "bytes": rows.nbytes}))


def run(n: int, d: int, rounds: int) -> None:
    print(f"{d} columns, packed bits, blocks of {BLOCK} rows; seconds, all threads")
    print(f"{'rows':>10}{'table, MB':>11}{'fit':>9}{'products':>10}{'ratio':>8}{'peak, MB':>10}")
    for size in (max(n // 10, 3 * BLOCK), n):
        extra = ["--rows", str(size), "--columns", str(d), "--rounds", str(rounds)]
        command = [sys.executable, "-m", "benchmarks.large_correlations", "--child", *extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        fit, product = min(result["fits"]), min(result["products"])
        print(
            f"{size:>10}{result['bytes'] / 2**20:>11.0f}{fit:>9.2f}{product:>10.2f}{fit / product:>8.2f}"
            f"{result['peak']:>10.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--columns", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    (run_child if given.child else run)(given.rows, given.columns, given.rounds)


if __name__ == "__main__":
    main()
