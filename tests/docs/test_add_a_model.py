"""docs/add-a-model.md is followed to the letter: its files, its entries, its place in the contract."""

from __future__ import annotations

import importlib
import inspect
import io
import re
import sys
from contextlib import redirect_stdout

import cases
import pytest
from blocks import ROOT, python_blocks, script
from click.testing import CliRunner

import latentbits
from latentbits import estimators, models
from latentbits.cli.main import cli
from latentbits.estimators import families

PAGE = "docs/add-a-model.md"
NEW = ("latentbits.models.prototypes", "latentbits.estimators.prototypes")


CONTRACT = script("tests/contract/test_models.py")
QUICK = ("test_statistics_add", "test_missing_bits_are_marginalised", "test_completion_is_the_conditional_probability")


def clauses():
    for name, test in sorted(vars(CONTRACT).items()):
        if name.startswith("test_") and "case" in inspect.signature(test).parameters:
            yield pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow("one more model under contract"))


@pytest.fixture(scope="module")
def followed(tmp_path_factory):
    """The page's case, with its model installed beside the others for as long as this module is tested."""
    root = tmp_path_factory.mktemp("followed")
    blocks = {re.match(r"\s*# (.*)\n", block)[1]: block for block in python_blocks(PAGE)}
    with pytest.MonkeyPatch.context() as patch:
        for package in (models, estimators):
            folder = package.__name__.replace(".", "/")
            (root / folder).mkdir(parents=True)
            (root / folder / "prototypes.py").write_text(blocks.pop(f"file: src/{folder}/prototypes.py"))
            patch.setattr(package, "__path__", [*package.__path__, str(root / folder)])
        model, _ = (importlib.import_module(name) for name in NEW)
        record = eval(blocks.pop("into: latentbits.estimators.families.FAMILIES").strip(), vars(families))
        patch.setattr(families, "FAMILIES", (*families.FAMILIES, record))
        names = {**vars(cases), "prototypes": model}
        (case,) = eval(blocks.pop("into: cases.CASES").strip(), names)
        run = blocks.pop("run")
        assert not blocks, f"blocks that nothing tests: {list(blocks)}"
        yield case, run
    for name in NEW:
        sys.modules.pop(name, None)
    for package in (models, estimators):
        vars(package).pop("prototypes", None)


@pytest.mark.parametrize("clause", list(clauses()))
def test_keeps_the_contract(clause, followed):
    case, _ = followed
    test = getattr(CONTRACT, clause)
    if "dtype" in inspect.signature(test).parameters:
        test(case, "float64", 1e-12)
    else:
        test(case)


@pytest.fixture(scope="module")
def used(followed, tmp_path_factory):
    """The folder in which the page's last block was run, and what it printed."""
    _, run = followed
    folder = tmp_path_factory.mktemp("used")
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(io.StringIO()) as out:
        patch.chdir(folder)
        exec(compile(run, PAGE, "exec"), {"__name__": "page"})
    return folder, out.getvalue()


@pytest.mark.slow("a search with a page")
def test_can_be_used(used):
    folder, out = used
    assert latentbits.NoisyPrototypes is sys.modules[NEW[1]].NoisyPrototypes
    assert out.index("prototypes") < out.index("mixture"), out
    page = (folder / "prototypes.html").read_text("utf-8")
    assert re.search(r"\d prototypes", page)
    assert "where a cause alone is on" in page  # its causes are shown


def commands():
    text = (ROOT / PAGE).read_text("utf-8")
    return re.findall(r"^    latentbits (.*)$", text, re.MULTILINE)


def test_there_are_commands():
    assert len(commands()) >= 6


@pytest.mark.slow("every command of the page")
@pytest.mark.parametrize("line", commands())
def test_works_at_the_command_line(line, used, monkeypatch):
    """The commands of the page, in their order: each uses what those before it have written."""
    folder, _ = used
    monkeypatch.chdir(folder)
    monkeypatch.setenv("LATENTBITS_CACHE", str(folder / "cache"))
    if line.startswith(("score", "transform")) and not (folder / "prototypes.safetensors").exists():
        pytest.fail("fit has written nothing")
    result = CliRunner().invoke(cli, line.split())
    assert result.exit_code == 0, result.output
    assert "prototypes" in result.output or "nats per row" in result.output or (folder / "which.csv").exists()
