"""Signals at random moments: however early or late they come, the tool ends quietly and leaves no half of a file.

    python tests/fuzz/signals.py 150 --seed 1

starts the tool as many times, half of them with nothing compiled, and ends each run by SIGINT or SIGTERM after a random
time, most of them once it has said that it begins to fit, a few twice.  What it counts depends on the clock and on the
machine; the tests in `tests/cli` press the key at chosen places instead.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Signals before this line are Python's own start, which no program of it can better.
START = """
import signal, sys
from latentbits.__main__ import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores it
print("started", file=sys.stderr, flush=True)
main()
"""
OLD = b"what was there before"
NOISE = ("Traceback", "Exception ignored", "Fatal Python error", "Segmentation", "terminate called", "Error:")
COMMANDS = (
    ("fit", "-m", "mixture", "-k", "3"),
    ("fit", "-m", "latent-trait", "-k", "2"),
    ("fit", "-m", "combination-machine", "-k", "4"),
    ("fit", "-m", "noisy-or", "--layers", "4,2"),
    ("fit", "-m", "clipped-gaussian", "-k", "2"),
    ("fit", "-m", "binary-sparse-coding", "-k", "6"),
    ("compare", "--models", "product,mixture:2,latent-trait:1,mixture:3"),
    ("explore", "--budget", "20s"),
)


class Outcome(NamedTuple):
    """One run: what was done, its exit code as a shell tells it (139: SIGSEGV), and what is wrong."""

    command: str
    signal: str
    delay: float
    code: int
    output: str
    fault: str


def run(n: int, seed: int = 0, longest: float = 9.0, tell: Callable[[Outcome], None] | None = None) -> list[Outcome]:
    """Start the tool n times, each time with a signal within `longest` seconds; `tell` hears of each run as it ends."""
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "bits.csv"
        bits = np.random.default_rng(0)
        shared = bits.random((300, 2)) < 0.5
        rows = (bits.random((300, 10)) < np.where(shared[:, [0] * 5 + [1] * 5], 0.8, 0.2)).astype(int)
        table.write_text("\n".join(",".join(map(str, row)) for row in rows) + "\n")
        outcomes = []
        for number in range(n):
            outcomes.append(_one(rng, Path(folder), table, number, longest))
            if tell is not None:
                tell(outcomes[-1])
        return outcomes


def _one(rng: random.Random, folder: Path, table: Path, number: int, longest: float) -> Outcome:
    command = rng.choice(COMMANDS)
    which = rng.choice((signal.SIGINT, signal.SIGTERM))
    fitting, again = rng.random() < 0.75, rng.random() < 0.15
    delay = rng.uniform(0, longest) if fitting else rng.uniform(0, 4)
    output = folder / (f"page{number}.html" if command[0] == "explore" else f"model{number}.safetensors")
    if command[0] != "compare" and rng.random() < 0.3:
        output.write_bytes(OLD)
    option = {"fit": ["-o", output], "explore": ["--out", output]}.get(command[0], [])
    with tempfile.TemporaryDirectory(dir=folder) as cache, open(folder / "stderr", "w+") as stderr_file:
        environment = {**os.environ, "LATENTBITS_CACHE": rng.choice((cache, str(folder / "compiled before")))}
        environment.pop("JAX_COMPILATION_CACHE_DIR", None)
        process = subprocess.Popen(
            [sys.executable, "-c", START, command[0], str(table), *command[1:], *map(str, option)],
            stdout=subprocess.DEVNULL,
            stderr=stderr_file,
            env=environment,
        )
        awaited = "fitting" if fitting else "started"
        while process.poll() is None and awaited not in (folder / "stderr").read_text():
            time.sleep(0.02)
        time.sleep(delay)
        process.send_signal(which)
        if again:
            time.sleep(0.3)
            process.send_signal(which)
        hangs = ""
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            hangs = "\nhangs"
        stderr = (folder / "stderr").read_text() + hangs
    code = process.returncode if process.returncode >= 0 else 128 - process.returncode
    state = _state(output)
    return Outcome(" ".join(command[:3]), which.name, delay, code, state, _fault(code, which, stderr, state, folder))


def _state(output: Path) -> str:
    if not output.exists():
        return "absent"
    if output.read_bytes() == OLD:
        return "old"
    if output.suffix == ".html":
        return "complete" if output.read_text("utf-8").rstrip().endswith("</html>") else "broken"
    import latentbits

    rows = np.zeros((2, 10))
    try:
        return "complete" if np.isfinite(latentbits.load(output).score(rows)) else "useless"
    except Exception as error:
        return f"broken ({error})"


def _fault(code: int, which: signal.Signals, stderr: str, state: str, folder: Path) -> str:
    faults = [f"exit code {code}"] if code not in (0, 128 + which) else []
    faults += [f"says {stderr.strip().splitlines()[-1]!r}"] if any(word in stderr for word in NOISE) else []
    faults += [f"hangs: {stderr[-300:]!r}"] if stderr.endswith("hangs") else []
    faults += [f"output {state}"] if state not in ("absent", "old", "complete") else []
    left = [path.name for path in folder.glob(".*.tmp")]
    for name in left:
        (folder / name).unlink()
    return "; ".join(faults + [f"left {name}" for name in left])


def main() -> None:
    """Print how the runs ended, and fail if anything was wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("n", type=int, nargs="?", default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=9.0, help="seconds within which the signal comes")
    given = parser.parse_args()
    outcomes = run(given.n, given.seed, given.longest, lambda outcome: print(*outcome, sep=", ", flush=True))
    for (name, code, state), count in sorted(Counter((o.signal, o.code, o.output) for o in outcomes).items()):
        print(f"{name:8} exit {code:4}  output {state:9} {count:4}")
    wrong = sum(bool(outcome.fault) for outcome in outcomes)
    print(f"{wrong} of {len(outcomes)} went wrong")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
