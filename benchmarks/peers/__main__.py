"""Every family beside its peers: time to the same quality, first answer, memory, and how time grows.

    python -m benchmarks.peers [--only FAMILY ...] [--rounds 3] [--peer-python PYTHON ...] [--part peers|growth]
                               [--quick | --write]

Each contender runs in a separate process, in turns, `rounds` times.  A contender that fails or is missing is
reported, and costs the others nothing.  With --write, results.json and README.md are written after each family, and
families and parts that were not run stay as they are there: Ctrl-C keeps what is done.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from importlib import import_module
from pathlib import Path
from shutil import which
from types import ModuleType
from typing import Any

import numpy as np
from benchmarks.peers import table
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.r import has_package
from rich.console import Console
from rich.markdown import Markdown
from rich.progress import Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from latentbits.core.atomic import write_atomically

Say = Callable[[str], None]
FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
README, RESULTS = ROOT / "benchmarks" / "README.md", ROOT / "benchmarks" / "results.json"
LIMIT = 180.0  # seconds of a contender's process, in which it fits twice


def families() -> list[str]:
    """Names of the files."""
    return sorted(file.stem for file in (FOLDER / "families").glob("[a-z]*.py"))


def load(family: str) -> ModuleType:
    """The family's file."""
    return import_module(f"benchmarks.peers.families.{family}")


def environment(folder: Path) -> dict[str, str]:
    """Every core for everybody, no compiled programs kept, and nothing that makes compiled code slow."""
    left_out = ("JAX_COMPILATION_CACHE_DIR", "JAX_DISABLE_MOST_OPTIMIZATIONS", "XLA_FLAGS")
    cores = str(len(os.sched_getaffinity(0)))
    threads = ("OMP", "OPENBLAS", "MKL", "NUMBA")
    return {
        **{name: value for name, value in os.environ.items() if name not in left_out},
        **{f"{one}_NUM_THREADS": cores for one in threads},
        "LATENTBITS_CACHE": str(folder / "programs"),
    }


def run_process(command: Sequence[str], limit: float = LIMIT) -> dict[str, Any]:
    """The line of JSON that a process prints last, or how it failed."""
    with tempfile.TemporaryDirectory() as folder:
        try:
            done = subprocess.run(
                command,
                cwd=ROOT,
                env=environment(Path(folder)),
                capture_output=True,
                text=True,
                timeout=limit,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return {"failed": f"took more than {limit:g} s"}
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        return {"failed": lines[-1][-300:]}
    return json.loads(done.stdout.splitlines()[-1])


def python_with(contender: Contender, pythons: Sequence[str]) -> str | None:
    """The first interpreter that finds what it imports, and in which it works; None where none does."""
    if contender.imports is None:
        return pythons[0] if has_package(contender.package) else None
    top = contender.imports.partition(".")[0]
    look = f"import importlib.util\nassert importlib.util.find_spec({top!r})\n{contender.works}"
    for python in pythons:
        if subprocess.run([python, "-c", look], cwd=ROOT, capture_output=True, check=False).returncode == 0:
            return python
    return None


def run_once(family: str, name: str, python: str, file: Path, given: Table, seed: int) -> dict[str, Any]:
    """What one contender took in one round, and how good it is on test rows."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "params.npz")
        command = [python, "-m", "benchmarks.peers.contender", family, name, str(file), str(out), str(seed)]
        found = run_process([*command, json.dumps(given.settings)])
        if "failed" not in found:
            try:
                with np.load(out) as params:
                    found["held_out"] = load(family).held_out(dict(params), given.test)
            except Exception as error:  # what a contender hands over costs the others nothing
                return {"failed": f"cannot be scored: {type(error).__name__}: {error}"}
            if np.isnan(found["held_out"]):
                return {"failed": "test rows have no likelihood under what it found"}
    return found


def run_family(
    family: str, rounds: int, quick: bool, pythons: Sequence[str], say: Say, part: str | None = None, note: str = ""
) -> dict[str, Any]:
    """All its contenders on all its tables, in turns, and how its time grows; or one part of this."""
    found: dict[str, Any] = {"title": load(family).TITLE, **machine(), "note": note}
    if part != "growth":
        found |= {"rounds": rounds, "tables": _tables(family, rounds, quick, pythons, say)}
    if part != "peers":
        found["growth"] = _growth(family, quick, say)
    return found


def _tables(family: str, rounds: int, quick: bool, pythons: Sequence[str], say: Say) -> dict[str, Any]:
    module = load(family)
    found = {name: python_with(one, pythons) for name, one in module.CONTENDERS.items()}
    tables: dict[str, Any] = {}
    for title, made in module.tables(quick).items():
        if isinstance(made, str):
            tables[title] = {"left_out": made}
            continue
        tables[title] = {
            "rows": len(made.train),
            "test_rows": len(made.test),
            "columns": made.train.shape[1],
            "contenders": _turns(family, found, made, rounds, say),
        }
    return tables


def _growth(family: str, quick: bool, say: Say) -> dict[str, Any]:
    growth = {}
    for what in list(load(family).GROWTH)[: 1 if quick else None]:
        say(f"how time grows with {what}")
        size = "quick" if quick else "full"
        growth[what] = run_process([sys.executable, "-m", "benchmarks.peers.growth", family, what, size])
    return growth


def _turns(
    family: str, found: Mapping[str, str | None], given: Table, rounds: int, say: Say
) -> dict[str, dict[str, Any]]:
    """By contender: its runs, or that it is absent, or how it failed."""
    contenders = load(family).CONTENDERS
    results: dict[str, Any] = {}
    for name, python in found.items():
        results[name] = {"runs": []} if python else {"absent": contenders[name].how_to_install}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "table.npz")
        np.savez(file, train=given.train)
        for seed in range(rounds):
            for name, result in results.items():
                if "absent" in result or "failed" in result:
                    continue
                say(f"{name}, round {seed + 1} of {rounds}")
                once = run_once(family, name, str(found[name]), file, given, seed)
                if "failed" in once:
                    result["failed"] = once["failed"]
                    say(f"{name} failed: {once['failed']}")
                else:
                    result["version"] = once.pop("version")
                    result["runs"].append(once)
    return results


def machine() -> dict[str, Any]:
    """Where and when."""
    cpu = [line.partition(":")[2].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    memory = [int(line.split()[1]) for line in _lines("/proc/meminfo") if line.startswith("MemTotal")]
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "machine": {
            "processor": cpu[0] if cpu else platform.machine(),
            "cores": len(os.sched_getaffinity(0)),
            "memory_gb": round(memory[0] / 2**20, 1) if memory else None,
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
        },
    }


def _lines(path: str) -> Iterator[str]:
    file = Path(path)
    yield from file.read_text().splitlines() if file.exists() else ()


def write(results: Mapping[str, Any]) -> None:
    """results.json, and README.md that shows it; whole or not at all."""
    page = table.page(results, {name: load(name) for name in families()})
    for path, text in ((RESULTS, json.dumps(results, indent=1) + "\n"), (README, page)):
        with write_atomically(path) as file:
            file.write(text.encode())


def kept() -> dict[str, Any]:
    """What results.json holds."""
    return json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {"families": {}}


def joined(results: Mapping[str, Any], family: str, found: Mapping[str, Any]) -> dict[str, Any]:
    """With one family updated, in the order of the files; one whose file is gone is forgotten."""
    before = results["families"].get(family, {"rounds": 0, "tables": {}, "growth": {}})
    known = {**results["families"], family: {**before, **found}}
    return {"families": {name: known[name] for name in families() if name in known}}


def run(options: argparse.Namespace, console: Console) -> None:
    """The families that were asked for, each shown, and written where asked for, as soon as it is done."""
    results, failed = kept(), []
    rounds = 1 if options.quick else options.rounds
    for family in options.only:
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            task = progress.add_task(family)
            say = partial(_say, progress, task, family)
            try:
                found = run_family(
                    family,
                    rounds,
                    options.quick,
                    [sys.executable, *options.peer_python],
                    say,
                    options.part,
                    options.note,
                )
            except Exception:  # a fault in one family's file leaves the others
                console.print_exception()
                failed.append(family)
                continue
        results = joined(results, family, found)
        console.print(Markdown("\n\n".join(table.section(family, results, load(family)))))
        if options.write:
            write(results)
    if failed:
        sys.exit(f"not run: {', '.join(failed)}")


def _say(progress: Progress, task: TaskID, family: str, what: str) -> None:
    progress.update(task, description=f"{family}: {what}")
    if not progress.console.is_terminal:  # where a line cannot be written over, each stays
        progress.console.print(f"{datetime.now(UTC):%H:%M:%S} {family}: {what}")


def command_line() -> argparse.ArgumentParser:
    """Its options."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=families(), default=families(), metavar="FAMILY")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--peer-python", nargs="+", default=[], metavar="PYTHON", help="interpreters with other peers")
    parser.add_argument("--part", choices=("peers", "growth"), help="one of the two alone; the other is kept")
    parser.add_argument("--note", default="", help="what is to be known of this run, such as other work on the machine")
    parser.add_argument("--quick", action="store_true", help="small tables, one round; nothing can be written")
    parser.add_argument("--write", action="store_true", help="results.json and README.md")
    parser.add_argument("--readme", action="store_true", help="README.md from results.json, and nothing else")
    return parser


def main() -> None:
    """As the command line says."""
    parser = command_line()
    options = parser.parse_args()
    if options.quick and options.write:
        parser.error("--quick runs are not kept: leave out --write")
    if lost := [python for python in options.peer_python if which(python) is None]:
        parser.error(f"no such interpreter: {', '.join(lost)}")
    if options.readme:
        write(kept())
        return
    try:
        run(options, Console())
    except KeyboardInterrupt:
        sys.exit("stopped; families that were done are kept" if options.write else "stopped")


if __name__ == "__main__":
    main()
