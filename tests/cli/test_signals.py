"""Ctrl-C and SIGTERM: the tool ends quietly, and keeps what is finished."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import latentbits
from latentbits.engines.monitor import Monitor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are of POSIX")

# The tool, to which a signal is sent from inside at a given call of a method of the monitor.
DRIVER = """
import os, signal, sys
from latentbits.__main__ import main
method, number, name, times = sys.argv[1:5]
sys.argv = ["latentbits", *sys.argv[5:]]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background ignores the key
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and one under nohup the hangup
def send():
    for _ in range(int(times)):
        os.kill(os.getpid(), getattr(signal, name))
if method == "import":
    class Finder:
        def find_spec(self, module, path=None, target=None):
            if module == number:
                send()
    sys.meta_path.insert(0, Finder())
else:
    from latentbits.engines.monitor import Monitor
    plain, seen = getattr(Monitor, method), 0
    def pressing(self, *args):
        global seen
        plain(self, *args)
        seen += 1
        if seen == int(number):
            send()
    setattr(Monitor, method, pressing)
main()
"""


@pytest.fixture
def signalled(process, tmp_path):
    """Run the tool with a signal at one place; nothing but lines of text may be said."""

    def run(where, *arguments, name="SIGTERM", times=1):
        result = subprocess.run(
            [sys.executable, "-c", DRIVER, *map(str, where), name, str(times), *map(str, arguments)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, "LATENTBITS_CACHE": str(process.cache)},
        )
        assert result.returncode == 128 + getattr(signal, name), result.stderr
        assert "Traceback" not in result.stderr
        assert result.stderr.splitlines()[-1] == "interrupted"
        assert not list(tmp_path.glob(".*.tmp"))
        return result

    return run


@pytest.mark.slow("processes that learn")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_a_signal_in_a_fit_keeps_the_model(signalled, csv, tmp_path, name):
    signalled(("record", 4), "fit", csv, "-k", 2, "--plain", "--restarts", 1, "-o", "m.safetensors", name=name)
    model = latentbits.load(tmp_path / "m.safetensors")
    assert (model.stop_reason_, model.n_iter_) == ("interrupted", 4)


@pytest.mark.slow("a process that learns")
def test_nothing_learned_leaves_the_old_file(signalled, csv, tmp_path):
    (tmp_path / "m.safetensors").write_text("old")
    result = signalled(("begin_stage", 1), "fit", csv, "-k", 2, "-o", "m.safetensors")
    assert "nothing was learned yet: m.safetensors is not written" in result.stderr
    assert (tmp_path / "m.safetensors").read_text() == "old"


@pytest.mark.slow("a process that learns")
def test_a_second_signal_ends_at_once(signalled, csv, tmp_path):
    signalled(("record", 4), "fit", csv, "-k", 2, "-o", "m.safetensors", times=2)
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.parametrize("module", ["click", pytest.param("jax", marks=pytest.mark.slow("a process"))])
def test_a_signal_while_importing(signalled, csv, tmp_path, module):
    signalled(("import", module), "fit", csv, "-k", 2, "-o", "m.safetensors", name="SIGINT")
    assert not (tmp_path / "m.safetensors").exists()


@pytest.mark.slow("a process that learns")
def test_a_signal_where_nothing_is_kept_ends_all_of_it(signalled, tmp_path):
    """The fits of `reproduce` are of no use one by one: none of them may take the signal for its own end."""
    signalled(("record", 3), "reproduce", "tipping_1998", "--quick", "--jobs", 1, "--out", "out")
    assert not list((tmp_path / "out").glob("results.*"))


@pytest.mark.slow("three processes that learn")
def test_sigterm_keeps_a_checkpoint_and_resume_ends_with_the_same_model(signalled, process, tool, csv, tmp_path):
    asked = ("fit", csv, "--model", "mixture", "--components", 3, "--restarts", 1, "--seed", 0)
    run, whole, resumed = tmp_path / "run", tmp_path / "whole.safetensors", tmp_path / "resumed.safetensors"
    assert process(*asked, "-o", whole).returncode == 0
    signalled(("record", 5), *asked, "-o", resumed, "--checkpoint", run)
    assert "--resume goes on from it" in tool(*asked, "-o", resumed, "--checkpoint", run, code=2).stderr
    assert process(*asked, "-o", resumed, "--checkpoint", run, "--resume").returncode == 0
    assert resumed.read_bytes() == whole.read_bytes()


def test_resume_needs_a_folder(tool, csv):
    assert "--resume needs --checkpoint FOLDER" in tool("fit", csv, "--resume", code=2).stderr


# --- inside this process ---


@pytest.fixture
def press(monkeypatch):
    """A function that has the key pressed at the beginning of a stage, counted from 1."""

    def at(number):
        plain, seen = Monitor.begin_stage, 0

        def pressing(self, *args):
            nonlocal seen
            plain(self, *args)
            seen += 1
            if seen == number:
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Monitor, "begin_stage", pressing)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield at
    signal.signal(signal.SIGINT, before)


def test_a_comparison_tells_what_is_finished(tool, csv, press):
    press(2)
    result = tool("compare", csv, "--models", "product,mixture:2", "--json", code=130)
    found = json.loads(result.stdout)
    assert [entry["name"] for entry in found["models"]] == ["independent bits"]
    assert (found["interrupted"], found["unfinished"]) == (True, ["mixture of 2"])
    assert "warning: interrupted before mixture of 2 could be compared" in result.stderr
    assert result.stderr.splitlines()[-1] == "interrupted"


def test_a_comparison_of_which_nothing_is_finished(tool, csv, press):
    press(1)
    result = tool("compare", csv, "--models", "product,mixture:2", code=130)
    assert result.stdout == ""
    assert result.stderr.splitlines()[-2:] == ["no model was finished", "interrupted"]


@pytest.mark.slow("searches for pages")
@pytest.mark.parametrize(("number", "written"), [(3, False), (7, True)])
def test_a_page_of_what_is_finished(tool, write_csv, few, press, number, written):
    """The map has two stages; then come four folds of independent bits."""
    press(number)
    data = write_csv("bits.csv", few)
    result = tool("explore", data, "--model", "mixture", "--budget", "none", "--out", "page.html", code=130)
    page = Path("page.html")
    assert page.exists() == written
    assert ("nothing was finished that a page could show: page.html is not written" in result.stderr) != written
    if written:
        assert "The search was interrupted" in page.read_text("utf-8")
        assert "not fitted: mixture (interrupted before it was fitted)" in result.stdout
        assert "independent bits" in result.stdout
