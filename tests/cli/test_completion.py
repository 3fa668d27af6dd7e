"""The Tab key: the words that the shell offers next."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete

from latentbits.cli.main import cli

CALL = "from latentbits.cli.main import cli; cli(prog_name='latentbits')"


def offered(*words):
    """By value, the kind of each completion of the last word."""
    complete = ShellComplete(cli, {}, "latentbits", "_LATENTBITS_COMPLETE")
    return {item.value: item.type for item in complete.get_completions(list(words[:-1]), words[-1])}


def in_bash(*words):
    """The lines that bash is given by a separate process, and the modules that were imported for them."""
    given = {"COMP_WORDS": " ".join(words), "COMP_CWORD": str(len(words) - 1), "_LATENTBITS_COMPLETE": "bash_complete"}
    script = f"import sys, atexit; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); {CALL}"
    found = subprocess.run(
        [sys.executable, "-c", script], env={**os.environ, **given}, capture_output=True, text=True, check=True
    )
    return found.stdout.split(), found.stderr.split()


def test_in_bash():
    lines, modules = in_bash("latentbits", "fit", "--model", "noisy")
    assert lines == ["plain,noisy-or"]
    assert not {"jax", "numpy", "sklearn"} & set(modules)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_each_shell_that_the_docs_tell_of(shell):
    script = ShellComplete.__subclasses__()
    known = {one.name: one for one in script}
    assert known[shell](cli, {}, "latentbits", "_LATENTBITS_COMPLETE").source_vars()["complete_var"]
    page = (Path(__file__).parents[2] / "docs" / "cli.md").read_text("utf-8")
    assert f"_LATENTBITS_COMPLETE={shell}_source latentbits" in page


def test_commands_and_families():
    assert "explore" in offered("ex")
    assert list(offered("fit", "-m", "latent")) == ["latent-tree", "latent-trait"]
    assert "product" not in offered("sizes", "-m", "")
    assert set(offered("explore", "--model", "")) >= {"mixture", "noisy-or"}


def test_options_of_a_model_once_it_is_named():
    assert "--layers" in offered("fit", "-m", "noisy-or", "--la")
    assert "--layers" not in offered("fit", "--la")
    assert "--header" in offered("fit", "-m", "nonsense", "--he")


def test_data_is_a_file_or_a_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("digits.csv", "notes.md", "m.safetensors"):
        (tmp_path / name).touch()
    (tmp_path / "more").mkdir()
    (tmp_path / "more" / "rows.npy").touch()
    for command in ("fit", "explore", "compare", "sizes"):
        assert offered(command, "dig") == {"digits.csv": "plain", "digits": "plain", "dig": "file"}
    assert offered("fit", "more/r") == {"more/rows.npy": "plain", "more/r": "file"}
    assert offered("fit", "nowhere/r") == {"nowhere/r": "file"}
    assert offered("score", "m") == {"m.safetensors": "plain", "m": "file"}
    assert "lsat6" in offered("score", "m.safetensors", "ls")
    assert offered("data", "lsat") == {"lsat6": "plain", "lsat7": "plain"}
    assert set(offered("reproduce", "")) >= {"all", "tipping_1998"}


def test_sets_are_those_of_the_registry():
    from latentbits.data.fetch import datasets

    assert list(offered("data", "")) == [info.name for info in datasets()]
