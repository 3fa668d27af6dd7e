"""The workflows run what there is: targets of the Makefile, scripts, folders, the Pythons of the metadata."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tomllib

import pytest
import yaml
from blocks import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEXT = {path.name: path.read_text("utf-8") for path in sorted((ROOT / ".github" / "workflows").glob("*.yml"))}
WORKFLOWS = {name: yaml.safe_load(text) for name, text in TEXT.items()}
PYTHONS = re.findall(r":: Python :: (3\.\d+)$", "\n".join(PROJECT["classifiers"]), re.MULTILINE)
TARGETS = set(re.findall(r"^\.PHONY: (.*)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[0].split())
SYSTEMS = ["ubuntu-latest", "macos-latest", "windows-latest"]


def steps():
    return [
        (name, key, step)
        for name, flow in WORKFLOWS.items()
        for key, job in flow["jobs"].items()
        for step in job["steps"]
    ]


def commands(line):
    """The words of a step's commands, which may be several in a row."""
    return [shlex.split(part) for part in re.split(r"\n|&&", line) if part.strip()]


def test_every_step_runs_what_there_is():
    for _, _, step in steps():
        assert ("uses" in step) != ("run" in step)
        assert "run" in step or re.fullmatch(r"[\w-]+/[\w-]+@v\d+(\.\d+)*", step["uses"])
        for words in commands(step.get("run", "")):
            if words[0] == "make":
                assert len(words) > 1
                assert TARGETS.issuperset(words[1:])
            elif words[0] == "python" and words[1] != "-m":
                assert (ROOT / words[1]).is_file()
            elif words[:3] == ["python", "-m", "pytest"]:
                places = [word for word in words if word.startswith("tests/")]
                assert places
                assert [place for place in places if not (ROOT / place).exists()] == []
            else:
                assert words[:4] == ["python", "-m", "pip", "install"] or words[0] == "test", words


def test_targets_are_in_the_makefile():
    rules = re.findall(r"^([a-z][a-z -]*):(?!=)(?! export)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert {name for rule in rules for name in rule.split()} == TARGETS


def test_every_python_is_tested_on_every_system():
    assert list(WORKFLOWS) == ["ci.yml", "release.yml"]
    matrix = WORKFLOWS["ci.yml"]["jobs"]["test"]["strategy"]["matrix"]
    assert matrix == {"os": SYSTEMS, "python": PYTHONS}
    tried = WORKFLOWS["ci.yml"]["jobs"]["try"]["strategy"]["matrix"]
    assert tried == {"os": SYSTEMS, "python": [PYTHONS[0], PYTHONS[-1]]}


def test_steps_use_the_oldest_python_or_that_of_the_matrix():
    asked = [step["with"]["python-version"] for _, _, step in steps() if "setup-python" in step.get("uses", "")]
    assert set(asked) == {PYTHONS[0], "${{ matrix.python }}"}
    assert f">={PYTHONS[0]}" == PROJECT["requires-python"]


def test_windows_and_macos_run_without_make():
    job = WORKFLOWS["ci.yml"]["jobs"]["test"]
    assert [step["if"] for step in job["steps"] if "make" in step.get("run", "")] == ["runner.os == 'Linux'"]
    assert "make" not in str(WORKFLOWS["ci.yml"]["jobs"]["try"]["steps"])


def test_all_that_a_change_is_held_to_is_run():
    run = {words[1] for _, _, step in steps() for words in commands(step.get("run", "")) if words[0] == "make"}
    assert run == {"lint", "test", "test-all", "test-lowest", "docs", "dist"}
    assert "schedule" in WORKFLOWS["ci.yml"][True]  # YAML takes the key "on" for a truth


def test_only_the_publisher_may_act_in_our_name():
    """The index trusts one job; all others may read and no more, but for the one that puts the site up."""
    rights = {
        (name, key): job["permissions"]
        for name, flow in WORKFLOWS.items()
        for key, job in flow["jobs"].items()
        if "permissions" in job
    }
    assert rights == {
        ("ci.yml", "site"): {"pages": "write", "id-token": "write"},
        ("release.yml", "publish"): {"id-token": "write"},
    }
    assert all(flow["permissions"] == {"contents": "read"} for flow in WORKFLOWS.values())
    release = WORKFLOWS["release.yml"]
    publish = release["jobs"]["publish"]
    assert publish["environment"]["name"] == "pypi"
    assert publish["needs"] == "build"
    assert publish["steps"][-1]["uses"].startswith("pypa/gh-action-pypi-publish@v1.")
    assert not any("password" in text or "secrets." in text for text in TEXT.values())
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert f"dist/{PROJECT['name']}-${{GITHUB_REF_NAME#v}}.tar.gz" in TEXT["release.yml"]


def test_needs_are_jobs():
    for flow in WORKFLOWS.values():
        for job in flow["jobs"].values():
            needs = job.get("needs", [])
            assert set([needs] if isinstance(needs, str) else needs) <= set(flow["jobs"])


def test_a_clone_is_held_to_what_a_change_is():
    """The site before the tests: it takes less long."""
    text = (ROOT / ".ci" / "run").read_text("utf-8")
    assert re.findall(r"^make (\S+)$", text, re.MULTILINE) == ["lint", "docs", "test", "test-all"]
    rule = re.search(r"^docs:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)[1]
    assert rule.index("sphinx-build -W ") < rule.index("docs/check_links.py")


@pytest.mark.parametrize("known", [True, False])
def test_only_flags_that_xla_knows_are_asked_for(tmp_path, known):
    """It ends a process that asks for others; a script stands for the Python of the environment."""
    if shutil.which("make") is None:
        pytest.skip("there is no make")
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text(f'#!/bin/sh\ntest "$1" = -c && echo {known} || echo "$XLA_FLAGS"\n')
    python.chmod(0o755)
    (tmp_path / "installed-test").touch()  # newer than pyproject.toml
    clean = {name: value for name, value in os.environ.items() if name not in ("XLA_FLAGS", "MAKEFLAGS")}
    said = subprocess.run(
        ["make", "-s", "test", f"VENV={tmp_path}"], cwd=ROOT, env=clean, capture_output=True, text=True, check=True
    )
    assert "--xla_backend_optimization_level=1" in said.stdout
    assert ("fusion_emitters" in said.stdout) == known
