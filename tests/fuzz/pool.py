"""Workers that may crash, hang or eat memory: each case has a limit, and a worker that is lost is replaced."""

from __future__ import annotations

import multiprocessing
import os
import resource
import time
import traceback
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

__all__ = ["MODULES", "Ended", "run_all", "run_one"]

MODULES = {name: f"tests.fuzz.{name}" for name in ("inputs", "files", "names")} | {"numbers": "tests.fuzz.numerics"}
MEMORY = 7 * 2**30  # of address space a worker
CASES_A_WORKER = 250  # compiled programs use up memory maps
START = 120.0  # seconds that a new worker may take to import everything
PATIENCE = 4.0  # times its limit that a case may take by the clock on the wall


@dataclass(frozen=True)
class Ended:
    """How a case ended: result, refused or warned; else fault, crash or hang, with what was seen."""

    kind: str
    number: int
    how: str
    done: str = ""
    details: str = ""
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        return self.how in ("result", "refused", "warned")


def run_one(kind: str, seed: int, number: int, shared: Path, light: bool = False) -> Ended:
    """One case in this process."""
    from tests.fuzz.verdict import Fault, new_case

    began = time.perf_counter()
    with new_case(kind, seed, number, shared, light) as case:
        try:
            how, details = import_module(MODULES[kind]).run(case), ""
        except Fault as fault:
            how, details = "fault", f"expected: {fault.expected}\n   found: {fault.found}"
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt):
                raise
            lines = traceback.format_exception(error)
            how, details = "fault", f"expected: a result or a refusal\n   found: {''.join(lines[-4:])}"
        return Ended(kind, number, how, " | ".join(case.done), details, time.perf_counter() - began)


def _work(pipe: Connection, seed: int, shared: Path, light: bool) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    from tests.fuzz.verdict import attempt  # noqa: F401  - what is slow is imported before the clock runs

    import_module("latentbits.estimators.files")
    pipe.send(None)
    while (task := pipe.recv()) is not None:
        pipe.send(run_one(task[0], seed, task[1], shared, light))


class _Worker:
    def __init__(self, seed: int, shared: Path, light: bool) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_work, args=(theirs, seed, shared, light), daemon=True)
        self.process.start()
        theirs.close()
        self.task: tuple[str, int] | None = None
        self.limit, self.began, self.cpu, self.n_done = START, time.monotonic(), 0.0, 0

    def give(self, task: tuple[str, int], limit: float) -> None:
        self.pipe.send(task)
        self.task, self.limit, self.began, self.cpu = task, limit, time.monotonic(), self._cpu_seconds()
        self.n_done += 1

    def is_late(self) -> bool:
        """Over its limit by the clock of the processor, so that a busy machine makes no hangs; or long over it."""
        waited = time.monotonic() - self.began
        return waited > self.limit and (self._cpu_seconds() - self.cpu > self.limit or waited > PATIENCE * self.limit)

    def _cpu_seconds(self) -> float:
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:  # not Linux, or gone
            return float("inf")
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()


def run_all(
    tasks: Iterable[tuple[str, int]],
    seed: int,
    shared: Path,
    limit: Callable[[str], float],
    n_workers: int = 2,
    light: bool = False,
) -> Iterator[Ended]:
    """Every case, in the order in which they end."""
    queue = iter(tasks)
    workers = [_Worker(seed, shared, light) for _ in range(n_workers)]
    try:
        while workers:
            ready = wait([w.pipe for w in workers], timeout=0.2)
            for place, worker in enumerate(list(workers)):
                ended: Any = None
                lost = False
                if worker.pipe in ready:
                    try:
                        ended = worker.pipe.recv()
                    except EOFError:
                        lost = True
                        worker.process.join(5)
                        how = f"exit code {worker.process.exitcode} (negative: a signal)"
                        ended = Ended(*worker.task, "crash", details=how) if worker.task else None
                elif worker.is_late():
                    lost = True
                    ended = Ended(*worker.task, "hang", details="no answer within its limit") if worker.task else None
                else:
                    continue
                if ended is not None:
                    yield ended
                task = next(queue, None)
                if lost or task is None or worker.n_done >= CASES_A_WORKER:
                    worker.end()
                    if task is None:
                        workers[place] = None  # type: ignore[call-overload]
                        continue
                    worker = workers[place] = _Worker(seed, shared, light)
                    if not worker.pipe.poll(PATIENCE * START):
                        raise RuntimeError("a worker did not start")
                    worker.pipe.recv()
                worker.give(task, limit(task[0]))
            workers = [w for w in workers if w is not None]
    finally:
        for worker in workers:
            worker.end()
