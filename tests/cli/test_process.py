"""The tool as a process: start-up time, exit codes, and the cache of compiled programs."""

import json
import os
import signal
import stat
import subprocess
import sys
import time

import pytest

from latentbits.cli.main import in_one_line
from latentbits.core.folders import cache_folder, private_folder


def run_python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout


def test_help_is_quick(process):
    """By the processor's clock: a busy machine keeps it waiting."""
    began = os.times()
    result = process("--help")
    ended = os.times()
    assert result.returncode == 0
    for command in ("explore", "compare", "fit", "score", "transform", "complete", "sample", "data"):
        assert f"  {command} " in result.stdout
    assert ended.children_user - began.children_user < 1.5  # the goal is 0.3 s; whatever imports JAX takes longer


def test_help_imports_nothing_heavy():
    heavy = run_python(
        "import sys, latentbits.cli.main\n"
        "print([m for m in ('jax', 'numpy', 'sklearn', 'scipy', 'rich', 'pandas', 'matplotlib') if m in sys.modules])"
    )
    assert heavy.strip() == "[]"


def test_version_and_short_help(process):
    assert process("--version").stdout.startswith("latentbits, version ")
    assert process("fit", "-h").stdout.startswith("Usage: ")


@pytest.mark.slow
def test_exit_codes(process, tmp_path):
    bad = process("fit", tmp_path / "no.csv")
    assert bad.returncode == 1
    assert bad.stderr.startswith("error: ")
    assert bad.stderr.count("\n") == 1
    assert process("fit").returncode == 2
    debug = process("--debug", "fit", tmp_path / "no.csv")
    assert debug.returncode == 1
    assert "Traceback" in debug.stderr
    assert "DataError" in debug.stderr


@pytest.mark.slow
def test_second_run_finds_what_the_first_compiled(process, tmp_path):
    arguments = ("fit", "carcinoma", "-k", "2", "--json", "-o", tmp_path / "m.safetensors")
    first = process(*arguments)
    folder = process.cache / "compiled"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    compiled = sorted(p.name for p in folder.glob("*/*.program"))
    assert compiled
    second = process(*arguments)
    assert sorted(p.name for p in folder.glob("*/*.program")) == compiled
    for result in (first, second):
        assert result.returncode == 0
        assert json.loads(result.stdout)["model"] == "BernoulliMixture"
        lines = result.stderr.splitlines()
        assert [line.split()[0] for line in lines] == ["reading", "fitting", "converged", "objective:", "wrote"]
    assert json.loads(second.stdout)["objective"] == json.loads(first.stdout)["objective"]


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nobody is killed so here")
def test_explore_goes_on_after_it_was_killed(process, csv, tmp_path):
    """It finds what a run finds that was not killed, and makes no finished fit again."""
    folder, page = tmp_path / "run", tmp_path / "page.html"
    arguments = ("explore", csv, "--model", "mixture", "--budget", "none", "--json", "--out", page, "--checkpoint")
    whole = process(*arguments, tmp_path / "whole")
    assert whole.returncode == 0, whole.stderr
    page.unlink()
    with process.begun(*arguments, folder) as killed:
        while not list(folder.glob("BernoulliMixture-*/checkpoint-*")):
            assert killed.poll() is None, killed.stderr.read()
            time.sleep(0.02)
        killed.kill()
    assert killed.returncode == -signal.SIGKILL
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


@pytest.mark.slow
def test_the_library_leaves_jax_alone():
    changed = run_python(
        "import jax; before = dict(jax.config.values)\n"
        "import latentbits, latentbits.cli.main\n"
        "from latentbits import BernoulliMixture, compare, load\n"
        "print({k: v for k, v in jax.config.values.items() if before.get(k) != v})"
    )
    assert changed.strip() == "{}"


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
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_folder() == tmp_path / "xdg" / "latentbits"
    monkeypatch.setattr(sys, "platform", "darwin")
    assert cache_folder().parts[-3:] == ("Library", "Caches", "latentbits")
    monkeypatch.setattr(sys, "platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert cache_folder() == tmp_path / "local" / "latentbits"


def test_messages_are_one_line_and_speak_of_options():
    assert in_one_line(ValueError("a\n b; pass binarize=2 or key=")) == "a b; pass --binarize 2 or --key"
    assert in_one_line(MemoryError()) == "MemoryError"
