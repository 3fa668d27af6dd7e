"""What the explorer claims: nothing of independent bits, and two causes where two were planted.

    python benchmarks/explorer_claims.py [--tables 50] [--budget 20]

Null tables have five shapes, with shares of ones of their own in each column.  Planted tables have two causes, each
on in a third of the rows and turning on its half of the columns.  A claim is a first sentence that says that the bits
are not independent.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np

from latentbits import explore

SHAPES = [(70, 35), (100, 12), (300, 8), (500, 60), (2000, 20)]


def null_table(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    return (rng.random((n, d)) < rng.beta(1, 2, d)).astype(float)


def planted_table(n: int, d: int, rng: np.random.Generator) -> np.ndarray:
    on = rng.random((n, 2)) < 1 / 3
    acts = np.arange(d) % 2 == np.arange(2)[:, None]
    return (rng.random((n, d)) < np.where(on @ acts, 0.8, 0.1)).astype(float)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", type=int, default=50)
    parser.add_argument("--budget", type=float, default=20.0)
    parser.add_argument("--first", type=int, default=0, help="number of the first table, to go on from")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    for kind, make, right in (("null", null_table, False), ("planted", planted_table, True)):
        n_right = 0
        for number in range(options.first, options.first + options.tables):
            n, d = SHAPES[number % len(SHAPES)]
            rng = np.random.default_rng([number, *kind.encode()])
            began = time.perf_counter()
            found = explore(make(n, d, rng), out=None, budget=options.budget)
            claims = found.findings[0].startswith("The bits are not independent")
            n_right += claims == right
            if claims != right:
                print(f"  {kind} {number} ({n} x {d}): {found.findings[0]}", flush=True)
            print(
                f"{kind} {number - options.first + 1}: {n_right} right, {time.perf_counter() - began:.0f} s", flush=True
            )
        print(f"{kind}: {n_right} of {options.tables} right", flush=True)


if __name__ == "__main__":
    main()
