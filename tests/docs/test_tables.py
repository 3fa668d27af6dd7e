"""What the docs list of families and of the API is what there is."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from latentbits.estimators.families import families

ROOT = Path(__file__).resolve().parents[2]


def _tables():
    spec = spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_tables_are_those_of_the_records(page):
    assert _tables().written(page) == (ROOT / page).read_text("utf-8"), "run: python docs/tables.py"


def test_every_family_has_a_guide_and_its_options_in_the_docs():
    commands = (ROOT / "docs" / "cli.md").read_text("utf-8")
    reference = (ROOT / "docs" / "api" / "index.rst").read_text("utf-8")
    for family in families():
        assert (ROOT / "docs" / f"{family.guide}.md").exists()
        assert f"cli/fit-{family.name}.txt" in commands
        assert re.search(rf"^   {family.class_name}$", reference, re.MULTILINE)


def test_the_reference_names_what_there_is():
    names = re.findall(r"^   ([\w.]+)$", (ROOT / "docs" / "api" / "index.rst").read_text("utf-8"), re.MULTILINE)
    assert len(names) > 60
    for name in names:
        module, _, last = f"latentbits.{name}".rpartition(".")
        assert hasattr(import_module(module), last), name
