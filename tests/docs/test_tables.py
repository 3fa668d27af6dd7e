"""What the docs list of families and of the API is what there is."""

from __future__ import annotations

import re
from importlib import import_module
from xml.etree import ElementTree

import pytest
from blocks import ROOT, script
from tests.tables import classes

from latentbits.estimators.families import families


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/which-model.md"])
def test_tables_are_those_of_the_records(page, monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "docs")
    assert script("docs/tables.py").written(page) == (ROOT / page).read_text("utf-8"), "run: python docs/tables.py"


def test_every_family_is_drawn(tmp_path):
    causes = script("docs/causes.py")
    causes.write(tmp_path)
    for family in families():
        root = ElementTree.parse(tmp_path / f"{family.name}.svg").getroot()
        assert len(root.findall("{*}rect")) + len(root.findall("{*}circle")) > 6  # paper, and six columns at least
        assert root.find("{*}desc").text == causes.DRAWINGS[family.name][1] + "."


def test_every_family_has_a_question():
    """Of the list by what is asked, which is written by hand."""
    page = (ROOT / "docs" / "which-model.md").read_text("utf-8")
    questions = page.partition("## By what you ask")[2].partition("\n## ")[0]
    for family in families():
        assert f"`~latentbits.{family.class_name}`" in questions


@pytest.mark.parametrize("family", [one for one in families() if one.size], ids=lambda family: family.name)
def test_records_know_who_stops_early(family):
    rows = classes()
    model = family.cls(**{family.size: (2,) if family.has_layers else 2}, random_state=0)
    assert model._stops_early(model._open(rows, reset=True)) == family.stops_early
    if not family.stops_early:
        with pytest.raises(ValueError, match="cannot stop early with these settings"):
            model.fit(rows, X_val=rows)


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
