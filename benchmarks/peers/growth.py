"""How the time of a pass grows with rows, columns and causes: a power, by a line through logarithms.

python -m benchmarks.peers.growth FAMILY WHAT QUICK
"""

from __future__ import annotations

import json
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

__all__ = ["Growth", "exponent", "measure"]

REPEATS = 3  # of a size; the fastest counts, since others on the machine can only make it slower


class Growth(NamedTuple):
    """Fits of growing size, of latentbits alone.

    Attributes
    ----------
    sizes
        Four, each twice the last; the smallest should take a second or so, as what does not grow bends the line.
    prepare
        `prepare(size)` makes the table and gives a function of nothing, which fits, and tells how many passes it took.
    """

    sizes: Sequence[int]
    prepare: Callable[[int], Callable[[], int]]


def exponent(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float | None]:
    """The power of the size that seconds grow with, and its standard error; two sizes leave nothing to tell one from.

    >>> power, error = exponent([1, 2, 4, 8], [3, 12, 48, 192])
    >>> round(power, 6), round(error, 6)
    (2.0, 0.0)
    """
    x, y = np.log(sizes), np.log(seconds)
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    if len(x) < 3:
        return slope, None
    left = y - y.mean() - slope * x
    return slope, float(np.sqrt(left @ left / (len(x) - 2) / (x @ x)))


def measure(growth: Growth, quick: bool) -> dict[str, Any]:
    """Seconds a pass at every size, each after a fit that compiles; `quick` takes the two smallest, once."""
    sizes = list(growth.sizes[:2] if quick else growth.sizes)
    seconds = []
    for size in sizes:
        fit = growth.prepare(size)
        fit()
        seconds.append(min(_seconds_a_pass(fit) for _ in range(1 if quick else REPEATS)))
    power, error = exponent(sizes, seconds)
    return {"sizes": sizes, "seconds": seconds, "exponent": power, "error": error}


def _seconds_a_pass(fit: Callable[[], int]) -> float:
    began = time.perf_counter()
    passes = fit()
    return (time.perf_counter() - began) / passes


def main() -> None:
    """One thing that grows, as the command line says."""
    family, what, quick = sys.argv[1:]
    warnings.simplefilter("ignore")
    growth = import_module(f"benchmarks.peers.families.{family}").GROWTH[what]
    print(json.dumps(measure(growth, quick == "quick")))


if __name__ == "__main__":
    main()
