"""Live pages: guides say what a run has found, pages are made once, and a missing set is reported."""

from __future__ import annotations

import json
import re
from types import SimpleNamespace
from urllib.parse import parse_qs

import numpy as np
import pytest
from blocks import ROOT, script

from latentbits.core.errors import DownloadError
from latentbits.data.fetch import datasets

FACTS = {
    "key": "k",
    "findings": ["The bits are not independent: a_b is *here*.", "It sorts the rows into 3 kinds."],
    "notes": ["The same command with --budget 5m would go further."],
    "odd": 7,
    "columns": {"item4": 3, "physician-fee-freeze": 3, "water-project": 1},
    "labels": {"WatrCont": 1},
    "models": {"mixture": "mixture of 3"},
    "morph": True,
}


@pytest.fixture(scope="module")
def live():
    return script("docs/live.py")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "site" / "explore").mkdir(parents=True)
    return tmp_path


def explored(**changes):
    """What `explore` gives back, as far as guides ask for it."""
    sizes = [("mixture", "mixture of 3"), ("mixture", "mixture of 2"), ("product", "independent bits")]
    content = {
        "findings": ("Something was found.",),
        "table": SimpleNamespace(
            columns=("a", "b"), numbers=np.array([10, 11, 12]), labels=(SimpleNamespace(name="party"),)
        ),
        "misfit": SimpleNamespace(rows=np.array([2, 0])),
        "galleries": [SimpleNamespace(name="mixture of 3"), SimpleNamespace(name="mixture of 2")],
        "sound": [SimpleNamespace(family=family, name=name) for family, name in sizes],
        "morph": None,
    }
    return SimpleNamespace(content=SimpleNamespace(**{**content, **changes}), notes=("A note.",))


def links_of(text):
    return re.findall(r'class="look" href="([^"]+)"', text)


def test_a_guide_tells_what_the_run_has_found_and_what_to_try(live):
    for one in live.LIVE:
        text = live.page(one, FACTS)
        assert r"a\_b is \*here\*." in text
        assert "3 kinds" in text and "--budget 5m" in text  # noqa: PT018
        shown = links_of(text)
        assert len(shown) == len(one.looks)
        assert all(link.startswith(f"../explore/{one.name}.html#section=") for link in shown)
        assert f'data-src="../explore/{one.name}.html#section=map"' in text
        assert f"{{doc}}`../{one.tutorial}`" in text
        assert f"live/{one.name}`" in (ROOT / "docs" / f"{one.tutorial}.md").read_text("utf-8")  # and back
        assert (ROOT / "docs" / "_static" / "explorer" / one.picture).is_file()


def test_links_lead_to_what_the_run_has_found(live):
    answers = next(one for one in live.LIVE if one.name == "answers")
    ends = [parse_qs(link.partition("#")[2].replace("&amp;", "&")) for link in links_of(live.page(answers, FACTS))]
    assert {"section": ["map"], "colour": ["bit:3"]} in ends
    assert {"section": ["map"], "row": ["7"]} in ends
    assert {"section": ["causes"], "model": ["mixture of 3"]} in ends


def test_what_the_run_has_not_is_not_offered(live):
    images = next(one for one in live.LIVE if one.name == "images")
    text = live.page(images, {**FACTS, "odd": None, "models": {}, "morph": False})
    assert [parse_qs(link.partition("#")[2])["section"][0].partition("&")[0] for link in links_of(text)] == [
        "map",
        "models",
    ]


def test_facts_are_those_of_models_that_have_converged(live):
    facts = live.facts_of(explored())
    assert facts["models"] == {"mixture": "mixture of 3"}
    assert facts["odd"] == 12
    assert facts["columns"] == {"a": 0, "b": 1}
    assert facts["labels"] == {"party": 0}
    assert facts["findings"] == ["Something was found."]
    assert live.facts_of(explored(misfit=None))["odd"] is None
    assert json.loads(json.dumps(facts)) == facts


def test_a_page_is_made_once(live, folder, monkeypatch):
    monkeypatch.setattr(live, "load_dataset", lambda name: name)
    monkeypatch.delenv("LATENTBITS_LIVE", raising=False)
    runs = []

    def run(data, out, budget):
        runs.append((data, budget))
        out.write_text("a page")
        return explored()

    votes = next(one for one in live.LIVE if one.name == "votes")
    first = live.made(votes, folder, run)
    assert live.made(votes, folder, run) == first
    assert runs == [("house_votes_84", votes.budget)]
    live.made(votes._replace(budget=1.0), folder, run)  # asked for something else
    (folder / "site" / "explore" / "votes.html").unlink()
    live.made(votes._replace(budget=1.0), folder, run)  # the page is lost
    assert [budget for _, budget in runs] == [votes.budget, 1.0, 1.0]
    monkeypatch.setenv("LATENTBITS_LIVE", "300")
    live.made(votes, folder, run)
    assert runs[-1][1] == 300


def test_a_missing_set_is_reported(live, folder, monkeypatch, capsys):
    def missing(name):
        raise DownloadError(f"{name}: could not be fetched")

    monkeypatch.setattr(live, "load_dataset", missing)
    monkeypatch.delenv("LATENTBITS_LIVE", raising=False)
    (folder / "site" / "explore" / "species.html").write_text("a page of another version")
    species = next(one for one in live.LIVE if one.name == "species")
    assert live.made(species, folder) is None
    assert not (folder / "site" / "explore" / "species.html").exists()
    assert "mite is not made, and its guide says so: mite: could not be fetched" in capsys.readouterr().out
    text = live.page(species, None)
    assert "was not made when this site was built" in text
    assert "../explore/" not in text
    assert "Not made" in live.tiles({one.name: None for one in live.LIVE})


def test_off_makes_none(live, folder, monkeypatch, capsys):
    monkeypatch.setenv("LATENTBITS_LIVE", "off")
    assert live.made(live.LIVE[0], folder, None) is None
    assert "LATENTBITS_LIVE is off" in capsys.readouterr().out


def test_the_key_follows_the_package_and_what_is_asked(live, tmp_path, monkeypatch):
    one = live.LIVE[0]
    (tmp_path / "core").mkdir()
    (tmp_path / "cli").mkdir()
    (tmp_path / "core" / "a.py").write_text("a = 1")
    (tmp_path / "cli" / "b.py").write_text("b = 1")
    monkeypatch.setattr(live, "files", lambda name: tmp_path)
    keys = [live.key_of(one), live.key_of(one._replace(budget=1.0)), live.key_of(one._replace(dataset="lsat6"))]
    (tmp_path / "core" / "a.py").write_text("a = 2")
    keys.append(live.key_of(one))
    assert len(set(keys)) == 4
    (tmp_path / "cli" / "b.py").write_text("b = 2")  # no page depends on it
    assert live.key_of(one) == keys[-1]


def test_every_page_is_listed_and_its_set_is_known(live):
    known = {info.name for info in datasets()}
    text = (ROOT / "docs" / "live.md").read_text("utf-8")
    assert {one.dataset for one in live.LIVE} <= known
    assert re.findall(r"^live/(\w+)$", text, re.MULTILINE) == [one.name for one in live.LIVE]


def test_the_header_has_room_for_all_groups():
    """What is not shown there hides behind "More"."""
    index = (ROOT / "docs" / "index.md").read_text("utf-8")
    groups = re.search(r"```\{toctree\}\n:hidden:\n\n(.*?)\n```", index, re.DOTALL)[1].splitlines()
    room = re.search(r'"header_links_before_dropdown": (\d+)', (ROOT / "docs" / "conf.py").read_text("utf-8"))[1]
    assert 4 < len(groups) <= int(room)
