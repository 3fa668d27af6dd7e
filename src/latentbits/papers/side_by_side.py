"""Papers side by side: their trials, and then each paper, in processes of their own.

Nothing heavy is imported here: a process takes its share of the cores before NumPy and JAX count them.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from latentbits.papers import PAPERS, reproduce

__all__ = ["Ended", "Work", "in_processes", "processes", "reproduce_all", "say_there"]

Say = Callable[[str, str], None]


class Ended(NamedTuple):
    """Results of each paper, what ``results.json`` holds, and the errors of those that failed."""

    results: dict[str, dict[str, Any]]
    failed: dict[str, BaseException]


def reproduce_all(
    folders: Mapping[str, Path], *, quick: bool = False, jobs: int | None = None, say: Say | None = None
) -> Ended:
    """Repeat papers; one that fails does not keep the others from ending.

    What a paper's `trials` keep below its folder is not done again: the same call goes on where the last one ended.

    `folders`: of each paper, by its name: where its files go.  `quick`: as for `reproduce`.  `jobs`: parts at a time,
    each in a separate process: trials, each with its share of the cores and without an accelerator, and papers.  1 does
    all in this process, None takes as many as there are cores.  `say`: called with the name of a paper and a line
    whenever there is something to tell.
    """
    tell: Say = say or (lambda name, text: None)
    jobs = processes() if jobs is None else jobs
    if jobs > 1:
        work = {
            name: Work(
                partial(_trials_of, name, folder, quick),
                partial(_repeat, name, folder, quick),
                PAPERS[name].accelerated,
            )
            for name, folder in folders.items()
        }
        return in_processes(work, jobs, tell)
    ended = Ended({}, {})
    for name, folder in folders.items():
        try:
            ended.results[name] = reproduce(name, folder, quick=quick, say=partial(tell, name))
        except Exception as error:
            ended.failed[name] = error
            tell(name, f"failed: {error}")
    return ended


def processes() -> int:
    """Take as many processes as there are cores for this one."""
    return len(_cores())


def _cores() -> list[int]:
    if hasattr(os, "sched_getaffinity"):
        return sorted(os.sched_getaffinity(0))
    return list(range(os.cpu_count() or 1))


# --- in this process: what is done when ---


class Work(NamedTuple):
    """Work that there is to do for a paper; other processes call it."""

    trials: Callable[[], Sequence[Callable[[], Any]]]  # gives experiments that may be done in any order
    paper: Callable[[], Any]  # does all the rest, once they have ended
    accelerated: bool = False  # whether the latter may use an accelerator


class _Part(NamedTuple):
    """Something to be done for a paper: "plan" asks for its trials, "trial" is one of them, "paper" all the rest."""

    kind: str
    name: str
    begin: Callable[[], Future[Any]]


def in_processes(work: Mapping[str, Work], jobs: int, tell: Say, *, accelerated: bool = False) -> Ended:
    """Do the work of papers, by their names; never more than `jobs` parts of it at a time.

    With `accelerated`, trials may use an accelerator, whose memory they share.
    """
    ended = Ended({}, {})
    with _workers(jobs, accelerated) as workers:
        _do(work, jobs, tell, workers, ended)
    for name, text in workers.told():  # the last lines may come after the results
        tell(name, text)
    return ended


def _do(work: Mapping[str, Work], jobs: int, tell: Say, workers: _Workers, ended: Ended) -> None:
    left: dict[str, int] = {}  # trials that have not ended
    total: dict[str, int] = {}

    def after(part: _Part, found: Any) -> None:
        name = part.name
        if part.kind == "paper":
            ended.results[name] = found
            return
        if part.kind == "plan":
            total[name] = left[name] = len(found)
            waiting.extend(_Part("trial", name, partial(workers.submit, partial(_kept, one))) for one in found)
        else:
            left[name] -= 1
            _tell_trials(partial(tell, name), total[name] - left[name], total[name])
        if not left[name]:  # first of those that wait: as a rule the longest
            waiting.appendleft(_Part("paper", name, partial(workers.paper, work[name].paper, work[name].accelerated)))

    waiting = deque(_Part("plan", name, partial(workers.submit, one.trials)) for name, one in work.items())
    running: dict[Future[Any], _Part] = {}
    while waiting or running:
        while waiting and len(running) < jobs:
            part = waiting.popleft()
            if part.name not in ended.failed:
                running[part.begin()] = part
        done, _ = wait(running, timeout=0.3, return_when=FIRST_COMPLETED)  # then lines of other processes are passed on
        for name, text in workers.told():
            tell(name, text)
        for future in done:
            part = running.pop(future)
            error = future.exception()
            if error is None:
                after(part, future.result())
            elif part.name not in ended.failed:
                ended.failed[part.name] = error
                tell(part.name, f"failed: {error}")


def _tell_trials(tell: Callable[[str], None], done: int, total: int) -> None:
    """Report at every tenth of the trials."""
    if 10 * done // total > 10 * (done - 1) // total:
        tell(f"{done} of {total} trials")


class _Workers:
    """Processes for trials, which stay, and one for each paper."""

    def __init__(self, jobs: int, accelerated: bool, closing: ExitStack) -> None:
        self._closing = closing
        self._context = multiprocessing.get_context("spawn")  # a fork of JAX's threads hangs
        self._lines = self._context.Queue()
        shares = self._context.Queue()
        for share in _shares(_cores(), jobs):
            shares.put(share)
        self._trials = self._pool(jobs, shares, accelerated)

    def _pool(self, size: int, shares: Any, accelerated: bool) -> ProcessPoolExecutor:
        settings = (self._lines, shares, accelerated)
        pool = ProcessPoolExecutor(size, self._context, _begin, settings)
        return self._closing.enter_context(pool)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """Give a call to one of the processes for trials."""
        return self._trials.submit(call)

    def paper(self, call: Callable[[], Any], accelerated: bool) -> Future[Any]:
        """Give a call to a separate process."""
        pool = self._pool(1, None, accelerated)
        future = pool.submit(call)
        pool.shutdown(wait=False)  # the process ends with its only part
        return future

    def told(self) -> Iterator[tuple[str, str]]:
        """Yield the lines that have come from the processes."""
        while True:
            try:
                yield self._lines.get_nowait()
            except queue.Empty:
                return


@contextmanager
def _workers(jobs: int, accelerated: bool) -> Iterator[_Workers]:
    """Begin processes that do not outlive this context, however it ends."""
    others = set(multiprocessing.active_children())
    with ExitStack() as closing:
        try:
            yield _Workers(jobs, accelerated, closing)
        except BaseException:
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()  # a trial under way is not kept, those before it are
            raise


def _shares(cores: list[int], jobs: int) -> list[list[int]]:
    """Share out the cores: as many for each process, or one that others have too.

    >>> _shares([0, 1, 2, 3], 2), _shares([4, 5], 3)
    ([[0, 1], [2, 3]], [[4], [5], [4]])
    """
    each = max(1, len(cores) // jobs)
    return [[cores[(each * place + step) % len(cores)] for step in range(each)] for place in range(jobs)]


# --- in the others ---


class _Here:
    lines: Any = None  # to the process that began this one


def _begin(lines: Any, shares: Any, accelerated: bool) -> None:
    """Begin a process: papers may use all cores, since most of their work was in their trials."""
    _Here.lines = lines
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the process that began it ends it
    threading.Thread(target=_end_with_parent, daemon=True).start()
    if not accelerated:  # small fits are slower there, and only one process at a time has its memory
        os.environ["JAX_PLATFORMS"] = "cpu"
    elif shares is not None:  # one of several: none may take most of the memory at the start
        os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if shares is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, shares.get())


def _end_with_parent() -> None:
    """End this process where its parent was killed and could not end it."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def say_there(name: str, text: str) -> None:
    """Send a line about a paper to the process that began this one."""
    _Here.lines.put((name, text))


def _trials_of(name: str, folder: Path, quick: bool) -> list[Callable[[], Any]]:
    module = import_module(f"latentbits.papers.{name}.reproduce")
    return list(module.trials(folder, quick=quick)) if hasattr(module, "trials") else []


def _kept(trial: Callable[[], Any]) -> None:
    """Do a trial, and return nothing: what it finds is on the disk then."""
    trial()


def _repeat(name: str, folder: Path, quick: bool) -> dict[str, Any]:
    say = partial(say_there, name)
    warnings.showwarning = lambda message, *place: say(f"warning: {message}")
    return reproduce(name, folder, quick=quick, say=say)
