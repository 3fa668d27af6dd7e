"""The tool as a process: what it imports, exit codes, and the cache of compiled programs."""

import json
import signal
import stat
import subprocess
import sys

import pytest
from platformdirs import user_cache_path

from latentbits.cli.main import in_one_line
from latentbits.core.folders import cache_folder, private_folder


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_help_imports_nothing_heavy():
    """And lists all commands: `sys.argv` is read by nothing but the tool."""
    said = run_python(
        "import sys, atexit\n"
        "heavy = ('jax', 'numpy', 'sklearn', 'scipy', 'rich', 'pandas', 'matplotlib')\n"
        "atexit.register(lambda: print([m for m in heavy if m in sys.modules]))\n"
        "sys.argv = ['latentbits', '--help']\n"
        "from latentbits.cli.main import cli; cli()"
    )
    for command in ("explore", "compare", "fit", "score", "transform", "complete", "sample", "data"):
        assert f"  {command} " in said
    assert said.splitlines()[-1] == "[]"


def test_version_and_short_help(tool):
    assert "version " in tool("--version").stdout
    assert tool("fit", "-h").stdout.startswith("Usage: ")


@pytest.mark.skipif(sys.platform == "win32", reason="streams are closed by a shell")
def test_closed_streams():
    """Messages never get among results; a result that cannot be printed is an error."""

    def run(code, closing):
        command = ["sh", "-c", f'exec "$0" -c "$1" {closing}', sys.executable, code]
        return subprocess.run(command, capture_output=True, text=True)

    code = "from latentbits.cli.console import *; prepare_streams(); say('a message'); show_line('a result')"
    assert run(code, "2>&-").stdout == "a result\n"
    code = "import sys; from latentbits.cli.main import main; sys.argv = ['latentbits', '--version']; main()"
    refused = run(code, ">&-")
    assert refused.returncode == 1
    assert refused.stderr.startswith("error: the result cannot be printed: stdout is closed")


@pytest.mark.slow("two processes")
def test_exit_codes(process, tmp_path):
    bad = process("fit", tmp_path / "no.csv")
    assert bad.returncode == 1
    assert bad.stderr.startswith("error: ")
    assert bad.stderr.count("\n") == 1
    debug = process("--debug", "fit", tmp_path / "no.csv")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    assert "DataError" in debug.stderr


@pytest.mark.slow("two processes that compile")
def test_second_run_finds_what_the_first_compiled(process, tmp_path):
    arguments = ("fit", "lsat6", "-m", "latent-trait", "-k", "1", "--json", "-o", tmp_path / "m.safetensors")
    first = process(*arguments)
    folder = process.cache / "compiled"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    compiled = sorted(p.name for p in folder.glob("*/*.program"))
    assert compiled
    second = process(*arguments)
    assert sorted(p.name for p in folder.glob("*/*.program")) == compiled
    for result in (first, second):
        assert result.returncode == 0
        assert json.loads(result.stdout)["model"] == "LatentTrait"
        lines = result.stderr.splitlines()
        assert [line.split()[0] for line in lines] == ["reading", "fitting", "converged", "objective:", "wrote"]
    assert json.loads(second.stdout)["objective"] == json.loads(first.stdout)["objective"]


# The tool, which is killed in the fit after the first mixture of which there is a checkpoint.
KILLED = """
import os, signal, sys
from pathlib import Path
from latentbits.cli.main import main
from latentbits.engines.monitor import Monitor
plain = Monitor.record
def record(self, *args):
    plain(self, *args)
    if list(Path(sys.argv[-1]).glob("BernoulliMixture-*/checkpoint-*")):
        os.kill(os.getpid(), signal.SIGKILL)
Monitor.record = record
main()
"""


@pytest.mark.slow("processes, one of them killed")
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no process is killed so here")
def test_explore_goes_on_after_it_was_killed(process, write_csv, few, tmp_path):
    """It finds what a run finds that was not killed, and makes no finished fit again."""
    folder, page, data = tmp_path / "run", tmp_path / "page.html", write_csv("bits.csv", few)
    arguments = ("explore", data, "--model", "mixture", "--budget", "none", "--json", "--out", page, "--checkpoint")
    whole = process(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    page.unlink()
    killed = process(*arguments, folder, command=("-c", KILLED))
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    assert not page.exists()
    finished = [path for path in written(folder).items() if not path[0].parent.name.startswith("BernoulliMixture")]
    assert finished
    again = process(*arguments, folder, "--resume")
    assert again.returncode == 0, again.stderr
    assert page.exists()
    assert without_times(again.stdout) == without_times(whole.stdout)
    assert written(folder).items() >= set(finished)
    assert {path.parent.name for path in written(folder)} == {path.parent.name for path in written(tmp_path / "whole")}


def written(folder):
    """When each checkpoint was written."""
    return {path: path.stat().st_mtime_ns for path in folder.glob("*/checkpoint-*")}


def without_times(printed):
    found = json.loads(printed)
    models = [{name: value for name, value in model.items() if name != "seconds"} for model in found.pop("models")]
    return models, {name: value for name, value in found.items() if not name.startswith("seconds")}


@pytest.mark.slow("a process that imports everything")
def test_the_library_leaves_jax_alone_and_imports_what_it_uses():
    """Readers, pages, bars, kernels and scikit-learn's estimators take longer to import than all of this package."""
    changed, heavy = run_python(
        "import sys, jax, sklearn.base; before, there = dict(jax.config.values), set(sys.modules)\n"
        "import latentbits, latentbits.cli.main\n"
        "[getattr(latentbits, name) for name in latentbits.__all__ if name != 'plot']\n"
        "print({k: v for k, v in jax.config.values.items() if before.get(k) != v})\n"
        "heavy = 'equinox jinja2 rich pooch pandas polars pyarrow zarr dask matplotlib statsmodels "
        "jax.experimental.pallas sklearn.metrics sklearn.model_selection sklearn.neighbors sklearn.linear_model'\n"
        "print([m for m in heavy.split() if m in set(sys.modules) - there])"
    ).splitlines()
    assert (changed, heavy) == ("{}", "[]")


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_a_folder_that_is_not_private_is_closed_or_not_used(tmp_path):
    open_folder = tmp_path / "open"
    open_folder.mkdir(mode=0o777)
    assert private_folder(open_folder) == open_folder
    assert stat.S_IMODE(open_folder.stat().st_mode) == 0o700
    link = tmp_path / "link"
    link.symlink_to(open_folder)
    assert private_folder(link) is None
    (tmp_path / "file").write_text("")
    assert private_folder(tmp_path / "file" / "compiled") is None


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("LATENTBITS_CACHE", str(tmp_path))
    assert cache_folder() == tmp_path
    monkeypatch.delenv("LATENTBITS_CACHE")
    assert cache_folder() == user_cache_path("latentbits", appauthor=False)


def test_messages_are_one_line_and_speak_of_options():
    assert in_one_line(ValueError("a\n b; pass binarize=2 or key=")) == "a b; pass --binarize 2 or --key"
    assert in_one_line(MemoryError()) == "MemoryError"
