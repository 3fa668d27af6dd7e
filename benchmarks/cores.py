"""How much faster fits and scores are on several cores, and whether they have the same bits.

    python benchmarks/cores.py [--cores 1 2 4 8 16] [--only mixture]

Each number of cores is a separate process that may use no more; the fits are warm, at sizes that take seconds on one.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
import time
import warnings
from typing import Any

import numpy as np

FAMILIES = ("mixture", "latent-trait", "binary-sparse-coding", "noisy-or")


def task(name: str) -> tuple[Any, np.ndarray]:
    import latentbits as lb

    rng = np.random.default_rng(0)

    def bits(n: int, d: int, k: int) -> np.ndarray:
        causes = rng.random((n, k)) < 2 / k
        return (rng.random((n, d)) < 0.1 + 0.8 * (causes @ (rng.random((k, d)) < 0.2) > 0)).astype(np.uint8)

    limits: dict[str, Any] = {"random_state": 0, "max_iter": 5 if name == "latent-trait" else 30, "tol": -1e30}
    if name == "mixture":
        return lb.BernoulliMixture(20, n_init=1, **limits), bits(100_000, 200, 20)
    if name == "latent-trait":
        return lb.LatentTrait(2, n_init=1, **limits), bits(50_000, 200, 4)
    if name == "noisy-or":
        return lb.NoisyOrNetwork((8,), **limits), bits(50_000, 64, 8)
    return lb.BinarySparseCoding(12, n_init=1, **limits), bits(40_000, 64, 12).astype(float)


def run(name: str) -> None:
    warnings.simplefilter("ignore")
    model, table = task(name)
    model.fit(table)  # compiles
    model.score_samples(table[:100_000])
    began = time.perf_counter()
    model.fit(table)
    fitted = time.perf_counter() - began
    began = time.perf_counter()
    scores = model.score_samples(table)
    scored = time.perf_counter() - began
    leaves = [np.ascontiguousarray(x).tobytes() for x in (*vars(model.params_).values(), scores) if hasattr(x, "shape")]
    print(json.dumps({"fit": fitted, "score": scored, "bits": hashlib.sha256(b"".join(leaves)).hexdigest()}))


def measured(name: str, n: int) -> dict[str, Any]:
    def restrict() -> None:
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:n])

    done = subprocess.run(
        [sys.executable, __file__, "--run", name], capture_output=True, text=True, check=True, preexec_fn=restrict
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--run", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", choices=FAMILIES, default=list(FAMILIES))
    parser.add_argument("--cores", nargs="*", type=int, default=[1, 2, 4, 8, 16])
    options = parser.parse_args()
    if options.run:
        run(options.run)
        return
    here = len(os.sched_getaffinity(0))
    for name in options.only:
        one: dict[str, Any] = {}
        for n in (n for n in options.cores if n <= here):
            now = measured(name, n)
            one = one or now
            same = "the same bits" if now["bits"] == one["bits"] else "OTHER BITS"
            ratios = ", ".join(f"{what} {now[what]:.2f} s ({one[what] / now[what]:.1f}x)" for what in ("fit", "score"))
            print(f"{name:22} {n:3} cores: {ratios}; {same}", flush=True)


if __name__ == "__main__":
    main()
