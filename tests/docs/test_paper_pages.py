"""The pages of the papers: with a full run that is kept and without, and equations where the pages say they are."""

from __future__ import annotations

import re
from importlib import import_module, resources
from pathlib import Path

import pytest
from blocks import script

import latentbits
from latentbits.papers import PAPERS, pages, summary

PACKAGE = Path(latentbits.__file__).parent
MACHINE = {"date": "2026-01-02", "processor": "x", "cores": 2, "device": "cpu", "latentbits": "0.1", "jax": "1"}


@pytest.fixture(scope="module")
def paper_pages():
    return script("docs/paper_pages.py")


@pytest.fixture
def kept(monkeypatch, tmp_path):
    """What the package keeps, in a folder of this test."""
    monkeypatch.setattr(summary, "kept_folder", lambda name: tmp_path / "kept" / name)
    return tmp_path / "kept"


def keep(folder, name):
    """A full run that measured all but the last finding, each in the middle of our range."""
    relations = pages.expected(f"latentbits.papers.{name}")["relations"]
    names = list(relations)[:-1]
    ends = {key: [end for end in relations[key]["ours"].values() if end is not None] for key in names}
    measured = {key: pages.Measured(sum(ends[key]) / len(ends[key]), 0.25, 7) for key in names}
    figures = {"1": ["figure_1.png"], "2 with 200": ["figure_2_200.png"], "more": ["more.png"]}
    results = {
        "paper": name,
        "quick": False,
        "machine": MACHINE,
        "notes": [],
        "relations": pages.judge(relations, measured),
        "figures": figures,
    }
    titles, captions = {"more": "More"}, {"1": "Bars | rows.", "2 with 200": "Fields.", "more": "Others."}
    folder.mkdir(parents=True)
    pages.write_results(folder, results, "\n\n".join(["# x", *pages.pictures(figures, captions, titles)]) + "\n")
    for file in ("figure_1.png", "more.png"):
        (folder / file).write_bytes(b"drawn")


def test_without_a_kept_run_the_pages_say_so(paper_pages, kept, tmp_path):
    (tmp_path / "papers").mkdir()
    (tmp_path / "papers" / "old.md").write_text("of a paper that is gone")
    paper_pages.write(tmp_path / "papers")
    assert sorted(file.stem for file in (tmp_path / "papers").iterdir()) == sorted(["index", *PAPERS])
    index = (tmp_path / "papers" / "index.md").read_text()
    assert index.count("no full run is kept yet") == len(PAPERS)
    for name in PAPERS:
        page = (tmp_path / "papers" / f"{name}.md").read_text()
        assert "No full run is kept yet" in page
        assert page.count("\n## ") == 5
        assert f"\n{name}\n" in index


def test_a_kept_run_is_shown(paper_pages, kept, tmp_path):
    keep(kept / "henniges_2010", "henniges_2010")
    paper_pages.write(tmp_path / "papers")
    page = (tmp_path / "papers" / "henniges_2010.md").read_text()
    found = summary.summarize("henniges_2010", summary.in_package("henniges_2010"))
    assert pages.findings(found["relations"]) in page
    assert f"Not measured in this run: `{found['not_measured'][0]}`." in page
    assert pages.measured_on(MACHINE) in page
    rows = [line for line in page.splitlines() if re.match(r"\| [12]? \|", line)]
    assert [row.split(" | ")[0] for row in rows] == ["| 1", "| 2", "| "]
    assert r"![Figure 1](henniges_2010/figure_1.png) *Figure 1.* Bars \| rows. |" in rows[0]
    assert "*Figure 2 with 200.* Fields. (`figure_2_200.png` is not kept;" in rows[1]
    assert "not in the paper | ![More](henniges_2010/more.png)" in rows[2]
    shown = {file.name for file in (tmp_path / "papers" / "henniges_2010").iterdir()}
    assert shown == {"figure_1.png", "more.png"}
    counts = summary.counts(found["relations"])
    row = next(line for line in (tmp_path / "papers" / "index.md").read_text().splitlines() if "henniges" in line)
    assert row.startswith(f"| {{doc}}`henniges_2010` | {counts['claims']} | {counts['reproduced']} |")
    assert counts["claims"] > 0


def test_claims_are_those_of_the_findings_where_there_are_no_others(paper_pages):
    paper = {"value": None, "least": 0, "most": None, "words": "ahead"}
    relations = {
        "a": {"where": "section 4", "paper": paper},
        "b": {"where": "section 5", "paper": {**paper, "unverified": True}},
        "c": {"says": "ours"},
    }
    claims = list(paper_pages._claims({"relations": relations}))
    assert claims == ["section 4: ahead.", "section 5: ahead (unverified)."]
    assert list(paper_pages._claims({"in_words": [{"where": "x", "says": "y"}], "relations": relations})) == ["x: y."]


def test_every_paper_has_its_figures_in_words(paper_pages):
    assert set(paper_pages.FIGURES) == set(PAPERS)


@pytest.mark.parametrize("name", PAPERS)
def test_equations_are_where_the_page_says(paper_pages, name):
    """Names like `pursuit.py`, `model._sample` and `core/tree.double` in the section are files or what they hold."""
    readme = resources.files(f"latentbits.papers.{name}").joinpath("README.md").read_text("utf-8")
    text = paper_pages.section(readme, "Where the equations are")
    folder = PACKAGE.parent / re.match(r"In `(latentbits/models/\w+)/`", text)[1]
    assert folder.is_dir()
    places = (folder, PACKAGE / "papers" / name, PACKAGE, PACKAGE.parent)
    named = re.findall(r"`([\w/]+\.[\w.]+)`", text)
    assert len(named) >= 3
    assert [one for one in named if not any(_is_in(place, one) for place in places)] == []
    assert not any(_is_in(place, f"absent.{named[0]}") for place in places)


def _is_in(place, named):
    """Whether a name is that of a file, or of what a module, or the package for its users, holds."""
    if named.endswith(".py"):
        return (place / named).is_file()
    *modules, attribute = named.replace("/", ".").split(".")
    thing, package = latentbits if place == PACKAGE else None, place.relative_to(PACKAGE.parent).parts
    for length in range(len(modules), 0, -1):
        if place.joinpath(*modules[:length]).with_suffix(".py").is_file():
            thing, modules = import_module(".".join([*package, *modules[:length]])), modules[length:]
            break
    for part in modules:
        thing = getattr(thing, part, None)
    return hasattr(thing, attribute) or attribute in getattr(thing, "__annotations__", {})
