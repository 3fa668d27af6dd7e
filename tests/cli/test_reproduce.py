"""`latentbits reproduce`: the list of papers, and what a run prints."""

import pytest

from latentbits import papers
from latentbits.papers import PAPERS

RESULTS = {
    "notes": ["no digits"],
    "relations": {
        "a": {
            "says": "clusters separate",
            "ours": {"least": 0.9, "most": 1},
            "measured": 0.99,
            "error": None,
            "n": None,
            "reproduced": None,
            "within": True,
        }
    },
}


@pytest.fixture
def calls(monkeypatch):
    """Experiments that take no time, and what they were asked for."""
    asked = []

    def repeat(name, out, *, quick, say):
        asked.append((name, str(out), quick))
        say("set 1 of 2")
        return RESULTS

    monkeypatch.setattr(papers, "reproduce", repeat)
    return asked


def test_without_a_paper_they_are_listed(tool):
    assert [paper["name"] for paper in tool.json("reproduce")["papers"]] == list(PAPERS)
    shown = tool("reproduce").stdout
    assert all(name in shown for name in PAPERS)
    assert "need the name of a PAPER" in tool("reproduce", "--quick", code=2).output


def test_a_paper_is_repeated(tool, calls):
    result = tool("reproduce", "tipping_1998", "--quick", "--out", "here")
    assert calls == [("tipping_1998", "here", True)]
    assert "clusters separate" in result.stdout
    assert result.stderr.splitlines()[1:] == [
        "set 1 of 2",
        "note: no digits",
        "wrote here: results.md, results.json and figures",
    ]
    assert tool.json("reproduce", "tipping_1998") == {"out": "tipping_1998", **RESULTS}
    assert calls[1] == ("tipping_1998", "tipping_1998", False)


def test_an_unknown_paper_is_refused_by_name(tool, calls):
    assert "known are tipping_1998" in tool("reproduce", "tiping", code=2).stderr
    assert calls == []
