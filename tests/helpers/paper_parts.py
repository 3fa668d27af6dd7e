"""Parts of papers that take no time, for other processes to import."""

import os
import time
from functools import partial
from pathlib import Path

from latentbits.papers import side_by_side


def trials(folder, n):
    return [partial(trial, folder, seed) for seed in range(n)]


def trial(folder, seed):
    from latentbits.papers import skeleton  # which takes seconds, and not every part needs it

    skeleton.kept(Path(folder) / "runs", f"trial-{seed}", partial(where, seed))


def where(seed):
    """Which process does it, and what it may use."""
    (cores,) = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else (0,)
    return {"process": os.getpid(), "core": cores, "platforms": os.environ.get("JAX_PLATFORMS")}


def paper(name, folder):
    from latentbits.papers import skeleton

    side_by_side.say_there(name, "all trials are there")
    found = [skeleton.kept(Path(folder) / "runs", f"trial-{seed}", None) for seed in range(3)]
    return {"trials": found, "process": os.getpid(), "platforms": os.environ.get("JAX_PLATFORMS")}


def failing(text, after=None):
    """Fails at once, or when there is a file."""
    while after is not None and not after.exists():
        time.sleep(0.05)
    raise ValueError(text)


def endless(file):
    written = Path(f"{file}.new")
    written.write_text(str(os.getpid()))
    written.rename(file)  # a reader that sees the file can read all of it
    while True:
        time.sleep(0.05)
