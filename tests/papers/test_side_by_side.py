"""Papers in processes of their own: trials first, each with its share of the machine; failures and ends."""

import os
import subprocess
import sys
import time
from functools import partial

import paper_parts
import pytest

from latentbits.papers import side_by_side
from latentbits.papers.side_by_side import Work, in_processes


@pytest.fixture
def told():
    return []


@pytest.fixture
def tell(told):
    return lambda name, text: told.append((name, text))


@pytest.mark.slow("processes")
@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="cores cannot be shared out here")
def test_trials_and_then_the_paper(tmp_path, monkeypatch, told, tell):
    monkeypatch.delenv("JAX_PLATFORMS", raising=False)
    mine = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(mine)[:2])
    try:
        work = {
            "one": Work(partial(paper_parts.trials, tmp_path, 3), partial(paper_parts.paper, "one", tmp_path), True),
            "two": Work(partial(paper_parts.failing, "no data"), partial(paper_parts.paper, "two", tmp_path)),
        }
        ended = in_processes(work, 2, tell)
    finally:
        os.sched_setaffinity(0, mine)
    found = ended.results["one"]
    others = {one["process"] for one in found["trials"]}
    assert os.getpid() not in others | {found["process"]}
    assert found["process"] not in others
    assert {one["core"] for one in found["trials"]} <= mine
    assert {one["platforms"] for one in found["trials"]} == {"cpu"}  # trials leave an accelerator alone
    assert found["platforms"] is None
    assert len(list((tmp_path / "runs").iterdir())) == 3
    assert list(ended.results) == ["one"]  # the other failed, and did not keep it from ending
    assert str(ended.failed["two"]) == "no data"
    assert [line for line in told if line[0] == "one"] == [
        *(("one", f"{done} of 3 trials") for done in (1, 2, 3)),
        ("one", "all trials are there"),
    ]
    assert ("two", "failed: no data") in told


def test_no_process_outlives_an_interrupt(tmp_path):
    """What is raised in this process, as a signal does it, ends the others."""
    begun = tmp_path / "begun"

    def interrupt(name, text):
        raise KeyboardInterrupt

    work = {
        "long": Work(list, partial(paper_parts.endless, begun)),
        "short": Work(partial(paper_parts.failing, "now", begun), list),  # once the other is at work
    }
    with pytest.raises(KeyboardInterrupt):
        in_processes(work, 2, interrupt)
    assert _ends(int(begun.read_text()))


KILLED = """
from functools import partial
import paper_parts
from latentbits.papers.side_by_side import Work, in_processes
if __name__ == "__main__":
    in_processes({"long": Work(list, partial(paper_parts.endless, "begun"))}, 2, print)
"""


@pytest.mark.slow("a process that is killed")
def test_no_process_outlives_a_kill(tmp_path):
    (tmp_path / "killed.py").write_text(KILLED)
    begun = tmp_path / "begun"
    path = {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen([sys.executable, "killed.py"], cwd=tmp_path, env={**os.environ, **path}) as process:
        while not begun.exists():
            assert process.poll() is None
            time.sleep(0.05)
        process.kill()
    assert _ends(int(begun.read_text()))


def _ends(process):
    """Wait until it has; a test that hangs is ended by pytest."""
    while _runs(process):
        time.sleep(0.1)
    return True


def _runs(process):
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


def test_one_job_is_this_process(tmp_path, monkeypatch, told, tell):
    def reproduce(name, out, *, quick, say):
        if name == "henniges_2010":
            raise ValueError("no images")
        say(f"quick: {quick}")
        return {"out": str(out), "process": os.getpid()}

    monkeypatch.setattr(side_by_side, "reproduce", reproduce)
    folders = {name: tmp_path / name for name in ("henniges_2010", "tipping_1998")}
    ended = side_by_side.reproduce_all(folders, quick=True, jobs=1, say=tell)
    assert ended.results == {"tipping_1998": {"out": str(tmp_path / "tipping_1998"), "process": os.getpid()}}
    assert list(ended.failed) == ["henniges_2010"]
    assert told == [("henniges_2010", "failed: no images"), ("tipping_1998", "quick: True")]


def test_cores_are_shared_out():
    assert side_by_side._shares([0, 1, 2, 3, 4, 5], 2) == [[0, 1, 2], [3, 4, 5]]
    assert side_by_side._shares([0, 1, 2], 2) == [[0], [1]]
    assert side_by_side._shares([7], 3) == [[7], [7], [7]]
