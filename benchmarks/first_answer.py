"""How long a user waits for the first answer: fit, score and transform in a fresh process, with compilation.

    python benchmarks/first_answer.py [--only mixture noisy-or] [--repeats 3]

Each line is a process of its own, on the digits (1797 x 64): with an empty folder of compiled programs, and with the
one that this has left behind.  `before` are the seconds on two idle cores when only the command line kept programs.  Of
several repeats the fastest counts: others on the same machine can only make it slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from typing import Any

# seconds to the first answer, and of a second fit in the same process; programs compiled
BEFORE = {
    "mixture": (2.5, 0.08, 19),
    "latent-trait-1": (9.4, 0.26, 38),
    "latent-trait-2": (11.3, 0.53, 38),
    "clipped-gaussian": (7.6, 0.03, 27),
    "combination-machine": (16.5, 2.3, 66),
    "binary-sparse-coding": (15.0, 0.93, 35),
    "noisy-or": (15.4, 6.9, 25),
}


def estimator(name: str) -> Any:
    import latentbits as lb

    return {
        "mixture": lambda: lb.BernoulliMixture(8, random_state=0),
        "latent-trait-1": lambda: lb.LatentTrait(1, random_state=0),
        "latent-trait-2": lambda: lb.LatentTrait(2, random_state=0),
        "clipped-gaussian": lambda: lb.ClippedGaussian(4, random_state=0),
        "combination-machine": lambda: lb.CombinationMachine(8, random_state=0),
        "binary-sparse-coding": lambda: lb.BinarySparseCoding(10, random_state=0),
        "noisy-or": lambda: lb.NoisyOrNetwork((8,), random_state=0),
    }[name]()


def answer(name: str) -> None:
    """In the process of its own: what it took, as JSON."""
    import jax
    from sklearn.datasets import load_digits

    warnings.simplefilter("ignore")
    model, bits = estimator(name), load_digits().data > 7
    table = bits.astype(float) if name == "binary-sparse-coding" else bits
    compiled = []  # all programs of JAX, our own among them
    jax.monitoring.register_event_duration_secs_listener(
        lambda event, seconds, **_: compiled.append(seconds) if event.endswith("backend_compile_duration") else None
    )
    began = time.perf_counter()
    model.fit(table)
    model.score(table)
    model.transform(table)
    first, programs = time.perf_counter() - began, len(compiled)
    began = time.perf_counter()
    estimator(name).fit(table)
    print(json.dumps({"first": first, "second": time.perf_counter() - began, "programs": programs}))


def measured(name: str, folder: str) -> dict[str, float]:
    environment = {**os.environ, "LATENTBITS_CACHE": folder}
    environment.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, __file__, "--answer", name], env=environment, capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--answer", help=argparse.SUPPRESS)
    parser.add_argument("--only", nargs="*", choices=BEFORE, default=list(BEFORE))
    parser.add_argument("--repeats", type=int, default=1)
    options = parser.parse_args()
    if options.answer:
        answer(options.answer)
        return
    print(f"{'':22} {'empty cache':>24}   {'from the cache':>15}   {'second fit':>16}")
    print(
        f"{'':22} {'before':>7} {'now':>6} {'times':>5} {'pr.':>3}   {'now':>8} {'pr.':>6}   {'before':>7} {'now':>8}"
    )
    for name in options.only:
        empty, kept = [], []
        for _ in range(options.repeats):
            with tempfile.TemporaryDirectory() as folder:
                empty.append(measured(name, folder))
                kept.append(measured(name, folder))
        best, again = (min(runs, key=lambda run: run["first"]) for runs in (empty, kept))
        second = min(run["second"] for run in empty + kept)
        first, before, _ = BEFORE[name]
        print(
            f"{name:22} {first:7.1f} {best['first']:6.2f} {first / best['first']:5.1f} {best['programs']:3.0f}   "
            f"{again['first']:8.2f} {again['programs']:6.0f}   {before:7.2f} {second:8.2f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
