"""Run random cases and count how they ended; exit 1 where one was a fault, a crash or a hang."""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.fuzz.pool import MODULES, Ended, run_all, run_one

# Of all cases; signals are processes that are interrupted, and take seconds each.
SHARES = {"inputs": 0.35, "numbers": 0.25, "files": 0.25, "names": 0.13, "signals": 0.02}
TIMES = {"names": 3.0}  # limits, as multiples of --limit: some of these run a whole `explore` in a separate process


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", type=int, default=2000, help="how many, all kinds together")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(SHARES), help="kinds, with commas between")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds a case")
    parser.add_argument("--case", type=int, help="this case of one kind alone, in this process")
    parser.add_argument(
        "--light", action="store_true", help="only what takes little compiling; other cases than without"
    )
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args(arguments)
    kinds = given.only.split(",")
    if set(kinds) - set(SHARES):
        parser.error(f"--only takes {', '.join(SHARES)}")
    with tempfile.TemporaryDirectory(prefix="fuzz-shared-") as folder:
        if given.case is not None:
            ended = run_one(kinds[0], given.seed, given.case, Path(folder), given.light)
            _tell(ended, given)
            print(f"{ended.how} after {ended.seconds:.1f} s: {ended.done}")
            return int(not ended.good)
        return _run(kinds, given, Path(folder))


def _run(kinds: list[str], given: Any, shared: Path) -> int:
    began = time.monotonic()
    whole = sum(SHARES[kind] for kind in kinds)
    counts = {kind: round(given.cases * SHARES[kind] / whole) for kind in kinds}
    counts[kinds[0]] += given.cases - sum(counts.values())
    tally: Counter[tuple[str, str]] = Counter()
    bad = 0
    tasks = [(kind, number) for kind in kinds if kind in MODULES for number in range(counts[kind])]
    for ended in run_all(
        tasks, given.seed, shared, lambda kind: given.limit * TIMES.get(kind, 1.0), given.workers, given.light
    ):
        tally[ended.kind, ended.how] += 1
        if not ended.good:
            bad += 1
            _tell(ended, given)
    if "signals" in kinds:
        bad += _signals(counts["signals"], given.seed, tally)
    print(f"\n{sum(tally.values())} cases, seed {given.seed}, {time.monotonic() - began:.0f} s")
    hows = ("result", "warned", "refused", "fault", "crash", "hang")
    print("| kind | " + " | ".join(hows) + " |\n|---|" + "---:|" * len(hows))
    for kind in kinds:
        print(f"| {kind} | " + " | ".join(str(tally[kind, how]) for how in hows) + " |")
    return int(bad > 0)


def _signals(n: int, seed: int, tally: Counter[tuple[str, str]]) -> int:
    """Interrupted processes, which have a module of their own: its `run(n, seed)` gives an outcome for each."""
    try:
        signals = import_module("tests.fuzz.signals")
    except ModuleNotFoundError as error:
        print(f"signals: not run ({error})")
        return 0
    outcomes = signals.run(n, seed)
    faults = [outcome for outcome in outcomes if outcome.fault]
    for outcome in faults:
        print(f"\nfault: signals, seed {seed}: {outcome}")
    tally["signals", "fault"] += len(faults)
    tally["signals", "result"] += len(outcomes) - len(faults)
    return len(faults)


def _tell(ended: Ended, given: Any) -> None:
    if not ended.good:
        light = " --light" if given.light else ""
        again = f"python -m tests.fuzz.run --only {ended.kind} --seed {given.seed} --case {ended.number}{light}"
        print(f"\n{ended.how}: {again}\n    done: {ended.done}\n    {ended.details}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
