"""docs/add-a-model.md is followed to the letter: its files, its entries, its place in the contract."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import cases
import pytest

import latentbits
from latentbits import estimators, models
from latentbits.estimators import files

PAGE = "docs/add-a-model.md"
NEW = ("latentbits.models.prototypes", "latentbits.estimators.prototypes")


def _load_contract():
    path = Path(__file__).resolve().parents[1] / "contract" / "test_models.py"
    spec = spec_from_file_location("contract_of_the_page", path)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


CONTRACT = _load_contract()
CLAUSES = sorted(name for name in vars(CONTRACT) if name.startswith("test_"))


@pytest.fixture(scope="module")
def followed(python_blocks, tmp_path_factory):
    """The page's case, with its model installed beside the others for as long as this module is tested."""
    root = tmp_path_factory.mktemp("followed")
    blocks = {re.match(r"\s*# (.*)\n", block)[1]: block for block in python_blocks(PAGE)}
    with pytest.MonkeyPatch.context() as patch:
        for package in (models, estimators):
            folder = package.__name__.replace(".", "/")
            (root / folder).mkdir(parents=True)
            (root / folder / "prototypes.py").write_text(blocks.pop(f"file: src/{folder}/prototypes.py"))
            patch.setattr(package, "__path__", [*package.__path__, str(root / folder)])
        model, estimator = (importlib.import_module(name) for name in NEW)
        names = {**vars(cases), "prototypes": model, "NoisyPrototypes": estimator.NoisyPrototypes}
        for target, into in (
            ("latentbits.estimators.files.KNOWN", files.KNOWN),
            ("latentbits._HOME", latentbits._HOME),
        ):
            for key, value in eval(blocks.pop(f"into: {target}").strip(), names).items():
                patch.setitem(into, key, value)
        (case,) = eval(blocks.pop("into: cases.CASES").strip(), names)
        run = blocks.pop("run")
        assert not blocks, f"blocks that nothing tests: {list(blocks)}"
        yield case, run
    for name in NEW:
        sys.modules.pop(name, None)
    for package in (models, estimators):
        vars(package).pop("prototypes", None)


@pytest.mark.parametrize("clause", CLAUSES)
def test_keeps_the_contract(clause, followed):
    case, _ = followed
    test = getattr(CONTRACT, clause)
    if "dtype" in inspect.signature(test).parameters:
        test(case, "float64", 1e-12)
    else:
        test(case)


def test_can_be_used(followed, tmp_path, monkeypatch, capsys):
    _, run = followed
    monkeypatch.chdir(tmp_path)
    exec(compile(run, PAGE, "exec"), {"__name__": "page"})
    assert latentbits.NoisyPrototypes is sys.modules[NEW[1]].NoisyPrototypes
    table = capsys.readouterr().out
    assert table.index("prototypes") < table.index("mixture"), table
