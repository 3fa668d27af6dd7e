"""The bootstrap likelihood-ratio test of latent classes: seconds, beside StepMix.

    python benchmarks/bootstrap_test.py [--rows 118] [--columns 7] [--classes 2] [--draws 1000] [--starts 10]
        [--peer-draws 20] [--peer-python PYTHON]

The table is drawn from a mixture of three classes that differ by degrees.  Both programs draw tables from their fit of
`classes` classes, and fit each draw with as many and with one more.  latentbits is timed in a fresh process without
kept programs, so compilation is included, and for all draws.  StepMix is timed in a loop over a few draws, from as many
random starts (`n_init`), and scaled to all of them; `--peer-python` names the interpreter that has it.
The mean of the statistics of the draws is printed for both: a program that finds lower maxima is quicker.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

OWN = """
import json, sys, time
began = time.perf_counter()
import numpy as np
from latentbits import BernoulliMixture
X, k, draws, starts = np.load(sys.argv[1]), *map(int, sys.argv[2:5])
m = BernoulliMixture(k, smoothing=0, random_state=0).fit(X)
fitted = time.perf_counter()
test = m.bootstrap_test(X, n_draws=draws, n_starts=starts, random_state=0)
first = time.perf_counter()
m.bootstrap_test(X, n_draws=draws, n_starts=starts, random_state=1)
again = time.perf_counter()
print(json.dumps({"fit": fitted - began, "test": first - fitted, "again": again - first,
                  "statistic": test.statistic, "p": test.p_value, "mean": test.draws.mean()}))
"""

PEER = """
import json, sys, time
import numpy as np
from stepmix import StepMix
X, k, draws, starts = np.load(sys.argv[1]).astype(float), *map(int, sys.argv[2:5])
n = len(X)
def fitted(X, k):
    return StepMix(k, measurement="binary", n_init=starts, abs_tol=1e-8 / n, rel_tol=0, max_iter=5000, random_state=0,
                   progress_bar=0, verbose=0).fit(X)
few, more = fitted(X, k), fitted(X, k + 1)
began, found = time.perf_counter(), []
for i in range(draws):
    few.random_state = i
    Y = np.asarray(few.sample(n)[0], float)
    found.append(2 * n * (fitted(Y, k + 1).score(Y) - fitted(Y, k).score(Y)))
seconds = (time.perf_counter() - began) / draws
print(json.dumps({"a draw": seconds, "statistic": 2 * n * (more.score(X) - few.score(X)), "mean": np.mean(found)}))
"""


def table(n: int, d: int) -> np.ndarray:
    """Three classes, each with more ones than the one before."""
    rng = np.random.default_rng(0)
    means = np.clip(np.array([0.05, 0.45, 0.9])[:, None] + rng.uniform(-0.2, 0.1, (3, d)), 0.02, 0.98)
    return (rng.random((n, d)) < means[rng.choice(3, n, p=[0.4, 0.2, 0.4])]).astype(np.uint8)


def run(python: str, script: str, *args: object) -> dict[str, float]:
    """The output of a script, in a separate process."""
    environment = os.environ | {"LATENTBITS_CACHE": "off"}
    done = subprocess.run(
        [python, "-W", "ignore", "-c", script, *map(str, args)],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    return json.loads(done.stdout.strip().splitlines()[-1])


def main() -> None:
    parser = argparse.ArgumentParser()
    for name, default in {
        "rows": 118,
        "columns": 7,
        "classes": 2,
        "draws": 1000,
        "starts": 10,
        "peer-draws": 20,
    }.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--peer-python", default=sys.executable)
    a = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.npy"
        np.save(path, table(a.rows, a.columns))
        own = run(sys.executable, OWN, path, a.classes, a.draws, a.starts)
        peer = run(a.peer_python, PEER, path, a.classes, a.peer_draws, a.starts)
    scaled = a.draws * peer["a draw"]
    print(f"{a.rows} x {a.columns}, {a.classes} against {a.classes + 1} classes, {a.draws} draws, {a.starts} starts")
    print(f"latentbits: {own['test']:.1f} s with compilation, {own['again']:.1f} s again")
    print(f"    statistic {own['statistic']:.4f}, p {own['p']:.4f}, mean of draws {own['mean']:.3f}")
    print(f"StepMix: {scaled:.0f} s ({peer['a draw']:.2f} s a draw, {a.peer_draws} draws timed and scaled)")
    print(f"    statistic {peer['statistic']:.4f}, mean of draws {peer['mean']:.3f}")
    print(
        f"latentbits is {scaled / own['test']:.0f} times as fast, {scaled / own['again']:.0f} times without compilation"
    )


if __name__ == "__main__":
    main()
