"""Peak memory and seconds of every family on tables with very many columns: fit, score, transform, save and load.

    python benchmarks/memory.py [--tables wide,sparse] [--families NAME,...] [--limit 600] [--memory 12]

Two tables.  "wide" has 40 rows and 30 000 columns of random bits, a share of .3 of them ones (for binary sparse coding
the same as float64).  "sparse" is a SciPy matrix of 10^6 rows and 10^5 columns that holds 2 * 10^5 ones; dense it would
have 10^11 entries.  Explore and compare are given the tables as well.

Each case runs in a separate process, whose address space may grow by `memory` GB once the library is imported (0: no
limit).  "peak" is the largest resident memory of that process, "above" how much of it came after the import and the
table.  A family that cannot do it must refuse, and its reason is printed in place of a number.  After `limit` seconds a
case is interrupted, and its cost so far is printed: a pass over 10^11 entries takes minutes.  A process that dies
is a fault of ours.  `--max-time` is that of the fits, and the budget of explore.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

WIDE, SPARSE = (40, 30_000), (1_000_000, 100_000)
SPARSE_ONES = 200_000
SCORED = 20  # rows of the sparse table that are scored and transformed
FAMILIES = (
    "product",
    "mixture",
    "latent-trait",
    "clipped-gaussian",
    "combination-machine",
    "noisy-or",
    "binary-sparse-coding",
    "compare",
    "explore",
)


def table(name: str, family: str) -> Any:
    """The rows, the same in every process."""
    rng = np.random.default_rng(18)
    if name == "wide":
        bits = (rng.random(WIDE) < 0.3).astype(np.uint8)
        return bits.astype(np.float64) if family == "binary-sparse-coding" else bits
    from scipy.sparse import csr_matrix

    cells = np.unique(rng.integers(0, SPARSE[0] * SPARSE[1], SPARSE_ONES))
    where = (cells // SPARSE[1], cells % SPARSE[1])
    kind = np.float64 if family == "binary-sparse-coding" else np.uint8
    return csr_matrix((np.ones(len(cells), kind), where), shape=SPARSE)


def estimator(family: str, max_time: float | None) -> Any:
    """Every family with two causes."""
    import latentbits as lb

    made = {
        "product": lambda: lb.BernoulliProduct(),
        "mixture": lambda: lb.BernoulliMixture(2, random_state=0),
        "latent-trait": lambda: lb.LatentTrait(2, random_state=0),
        "clipped-gaussian": lambda: lb.ClippedGaussian(2, random_state=0),
        "combination-machine": lambda: lb.CombinationMachine(2, random_state=0),
        "noisy-or": lambda: lb.NoisyOrNetwork((2,), random_state=0),
        "binary-sparse-coding": lambda: lb.BinarySparseCoding(2, random_state=0),
    }[family]()
    return made.set_params(max_time=max_time)


def use(family: str, X: Any, max_time: float | None) -> dict[str, Any]:
    """Seconds of each step, and bytes of the model file."""
    import latentbits as lb

    took = {}

    def timed(what: str, call: Any) -> Any:
        began = time.perf_counter()
        try:
            return call()
        finally:
            took[what] = time.perf_counter() - began

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model")
        model = timed("fit", lambda: estimator(family, max_time).fit(X))
        some = X[:SCORED] if X.shape[0] > WIDE[0] else X
        score = timed("score", lambda: model.score(some))
        timed("transform", lambda: model.transform(some))
        timed("save", lambda: model.save(path))
        again = timed("load", lambda: lb.load(path))
        assert type(again) is type(model)
        return {"seconds": took, "score": score, "file": path.stat().st_size}


def look(what: str, X: Any, max_time: float | None) -> dict[str, Any]:
    """Compare or explore: which models came out, and which were left out and why."""
    import latentbits as lb

    began = time.perf_counter()
    if what == "compare":
        found = lb.compare(X)
        left_out, entries = dict(getattr(found, "left_out", {})), found.entries
    else:
        with tempfile.TemporaryDirectory() as folder:
            explored = lb.explore(X, out=Path(folder, "page.html"), budget=max_time or 60)
        left_out, entries = dict(explored.search.left_out), explored.search.comparison.entries
    took = time.perf_counter() - began
    return {"seconds": {what: took}, "models": [entry.name for entry in entries], "left out": left_out}


def peak() -> int:
    """Bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def child(name: str, family: str, max_time: float | None, memory: float, limit: float) -> None:
    """One case; its answer is the last line of stdout."""
    warnings.simplefilter("ignore")
    import jax

    import latentbits  # noqa: F401

    X = table(name, family)
    jax.numpy.zeros(1).block_until_ready()
    before = peak()
    if memory:
        mapped = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
        resource.setrlimit(resource.RLIMIT_AS, (mapped + int(memory * 2**30),) * 2)
    began = time.perf_counter()
    signal.signal(signal.SIGALRM, _too_long)
    signal.alarm(int(limit))
    try:
        outcome = (look if family in ("compare", "explore") else use)(family, X, max_time)
    except TooLongError:
        outcome = {"refused": "still at it", "seconds": {"so far": time.perf_counter() - began}}
    except Exception as error:  # what a family says is the result here
        outcome = {"refused": f"{type(error).__name__}: {error}", "seconds": {"refusal": time.perf_counter() - began}}
    print(json.dumps({**outcome, "peak": peak(), "above": peak() - before}), flush=True)
    os._exit(0)  # whatever a compiler still does


class TooLongError(BaseException):
    """Passes through whatever catches errors."""


def _too_long(number: int, frame: Any) -> None:
    raise TooLongError


def run(name: str, family: str, limit: float, max_time: float | None, memory: float) -> dict[str, Any]:
    command = [sys.executable, __file__, "--child", name, family, "--memory", str(memory), "--limit", str(limit)]
    command += ["--max-time", str(max_time)] if max_time else []
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=2 * limit + 60, check=False)
    except subprocess.TimeoutExpired:
        return {"died": f"took more than {2 * limit + 60:g} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode or not lines:
        return {"died": f"exit code {done.returncode}: {done.stderr.strip()[-300:]}"}
    return json.loads(lines[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", default="wide,sparse")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--limit", type=float, default=600.0, help="seconds for each case")
    parser.add_argument("--memory", type=float, default=12.0, help="GB that a case may take; 0 for no limit")
    parser.add_argument("--max-time", type=float, help="of the fits, and the budget of explore")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.child:
        child(*given.child, given.max_time, given.memory, given.limit)
        return
    for name in given.tables.split(","):
        print(f"\n{name}\n{'family':<22}{'peak GB':>8}{'above':>8}  {'file MB':>8}  seconds", flush=True)
        for family in given.families.split(","):
            found = run(name, family, given.limit, given.max_time, given.memory)
            if "died" in found:
                print(f"{family:<22}DIED: {found['died']}", flush=True)
                continue
            times = ", ".join(f"{what} {seconds:.1f}" for what, seconds in found["seconds"].items())
            size = f"{found['file'] / 1e6:8.2f}" if "file" in found else " " * 8
            remark = found.get("refused", "")
            if "models" in found:
                left = "; ".join(f"{one}: {why}" for one, why in found["left out"].items())
                remark = f"{len(found['models'])} models; left out: {left or 'none'}"
            numbers = f"{found['peak'] / 1e9:8.2f}{found['above'] / 1e9:8.2f}"
            print(f"{family:<22}{numbers}  {size}  {times}  {remark}".rstrip(), flush=True)


if __name__ == "__main__":
    main()
