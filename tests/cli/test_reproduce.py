"""`latentbits reproduce`: the list of papers, what a run prints and writes, summaries, and exit codes."""

import json

import numpy as np
import pytest
from PIL import Image

from latentbits.papers import PAPERS, pages, side_by_side, summary

MACHINE = {"date": "2026-01-02", "processor": "x", "cores": 2, "device": "cpu", "latentbits": "0.1", "jax": "1"}


def claim(says, value, least, most, ours, **more):
    paper = {"value": value, "least": least, "most": most}
    return {"says": says, "paper": paper, "ours": dict(zip(("least", "most"), ours)), **more}


RELATIONS = {
    "a": {"says": "clusters separate", "ours": {"least": 0.9, "most": 1}},
    "b": claim("better", 1, 0, None, (-2, 2), where="table 1"),
    "c": claim("faster", 42, 40, 44, (2, 5), doubt="See x."),
    "d": claim("shown", None, None, None, (0, 1)),
    "e": {"says": "on a GPU", "ours": {"least": 0, "most": 1}},
}
MEASURED = {"a": 0.99, "b": pages.Measured(1.0, 0.1, 20), "c": 4.0, "d": 0.5}


def results_of(name, quick=False, **measured):
    """As a paper's `reproduce` gives and writes them."""
    return {
        "paper": name,
        "quick": quick,
        "machine": MACHINE,
        "notes": ["no digits"],
        "relations": pages.judge(RELATIONS, {**MEASURED, **measured}),
        "figures": {"1": ["figure_1.png", "figure_1.svg"], "2": ["figure_2.png", "figure_2.svg"]},
    }


def write(folder, results):
    folder.mkdir(parents=True, exist_ok=True)
    pages.write_results(folder, results, f"# {results['paper']}\n")
    for number, size in (("1", 20), ("2", 500)):  # noise, which takes as many bytes as it has pixels
        noise = np.random.default_rng(0).integers(0, 256, (size, size, 3), np.uint8)
        Image.fromarray(noise).save(folder / f"figure_{number}.png")
        (folder / f"figure_{number}.svg").write_text("<svg/>")


@pytest.fixture(autouse=True)
def expected(monkeypatch, tmp_path):
    """Papers that expect something simple; the package keeps results in a folder of this test."""
    monkeypatch.setattr(pages, "expected", lambda package: {"relations": RELATIONS})
    monkeypatch.setattr(summary, "kept_folder", lambda name: tmp_path / "kept" / name)
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


@pytest.fixture
def calls(monkeypatch):
    """Experiments that take no time, what they were asked for, and numbers that are to come out otherwise."""
    asked, otherwise = [], {}

    def repeat(name, out, *, quick, say):
        asked.append((name, str(out), quick))
        say("set 1 of 2")
        if otherwise.get(name) == "fails":
            raise ValueError("no images")
        results = results_of(name, quick, **otherwise.get(name, {}))
        write(out, results)
        return results

    monkeypatch.setattr(side_by_side, "reproduce", repeat)
    repeat.asked, repeat.otherwise = asked, otherwise
    return repeat


# --- running ---


def test_without_a_paper_they_are_listed(tool):
    assert [paper["name"] for paper in tool.json("reproduce")["papers"]] == list(PAPERS)
    shown = tool("reproduce").stdout
    assert all(name in shown for name in PAPERS)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("--quick",), "need the name of a PAPER"),
        (("--jobs", 2), "need the name of a PAPER"),
        (("tipping_1998", "--quick", "--full"), "exclude each other"),
        (("tipping_1998", "--quick", "--keep"), "a full run"),
        (("tipping_1998", "--jobs", 0), "--jobs"),
        (("tiping",), "known are tipping_1998"),
        (("--summary", "--quick"), "--summary does nothing"),
        (("--summary", "--keep"), "needs --out"),
    ],
)
def test_wrong_usage_does_nothing(tool, calls, arguments, why):
    assert why in tool("reproduce", *arguments, code=2).stderr
    assert calls.asked == []


def test_a_paper_is_repeated(tool, calls):
    result = tool("reproduce", "tipping_1998", "--quick", "--out", "here", "--jobs", 1)
    assert calls.asked == [("tipping_1998", "here", True)]
    assert result.stderr.splitlines()[1:] == [
        "set 1 of 2",
        "note: no digits",
        "wrote here: results.md, results.json and figures",
    ]
    found = tool.json("reproduce", "tipping_1998", "--full", "--jobs", 1)
    assert found == {"out": "tipping_1998", **results_of("tipping_1998")}
    assert calls.asked[1] == ("tipping_1998", "tipping_1998", False)


def test_the_table_has_all_verdicts(tool, calls):
    shown = tool("reproduce", "tipping_1998", "--jobs", 1).stdout
    rows = {line.split("  ")[0]: line for line in shown.splitlines() if "  " in line}
    cells = {key: [cell for cell in line.split("  ") if cell.strip()] for key, line in rows.items()}
    assert [cell.strip() for cell in cells["claim"]] == list(pages.COLUMNS)
    assert [cell.strip() for cell in cells["better"]] == [
        *("better", "table 1", "1 (at least 0)", "1.00 ± 0.10, 20 runs", "yes", "yes: -2 to 2")
    ]
    assert [cell.strip() for cell in cells["faster"][1:]] == ["42 (40 to 44)", "4", "no, doubted", "yes: 2 to 5"]
    assert [cell.strip() for cell in cells["shown"][1:]] == ["0.5", "cannot be told", "yes: 0 to 1"]
    assert "faster: we doubt the paper here. See x." in shown
    assert shown.splitlines()[-3:] == [
        "3 claims of papers: 1 reproduced, 1 not reproduced, 1 cannot be told",
        "1 findings of our own: 1 within their range",
        "0 of all 4 outside of the range that our runs are held to",
    ]


def test_all_papers(tool, calls, tmp_path):
    result = tool("reproduce", "all", "--quick", "--jobs", 1)
    assert calls.asked == [(name, f"papers/{name}", True) for name in PAPERS]
    assert "henniges_2010: set 1 of 2" in result.stderr
    assert all(paper.citation in result.stdout for paper in PAPERS.values())
    assert result.stdout.splitlines()[-3].startswith("15 claims of papers: 5 reproduced")
    found = tool.json("reproduce", "all", "--out", "other", "--jobs", 1)
    assert found["counts"]["claims"] == 15
    assert found["papers"]["tipping_1998"]["not_measured"] == ["e"]
    assert (tmp_path / "other" / "tipping_1998" / "results.md").exists()


def test_outside_of_our_range_has_a_separate_code(tool, calls, tmp_path):
    """Once all is written and shown; that a claim is not reproduced is no failure of ours."""
    calls.otherwise["henniges_2010"] = {"a": 0.5}
    result = tool("reproduce", "all", "--jobs", 1, code=3)
    assert result.stderr.splitlines()[-1].endswith("held to: a of henniges_2010")
    assert "1 of all 20 outside" in result.stdout
    assert all((tmp_path / "papers" / name / "results.json").exists() for name in PAPERS)
    assert tool("reproduce", "--summary", "--out", "papers", code=3).stdout.count("no: 0.9 to 1") == 1


def test_a_paper_that_fails_leaves_the_others(tool, calls, tmp_path):
    calls.otherwise["tipping_1998"] = "fails"
    result = tool("reproduce", "all", "--jobs", 1, code=1)
    assert "tipping_1998: failed: no images" in result.stderr
    assert result.stderr.splitlines()[-1] == "error: no images"
    assert "12 claims of papers" in result.stdout
    assert not (tmp_path / "papers" / "tipping_1998" / "results.json").exists()
    assert len(calls.asked) == len(PAPERS)


# --- what is kept ---


def test_a_summary_without_results_says_so(tool):
    shown = tool("reproduce", "--summary").stdout.splitlines()
    assert shown == [f"{name}: no full run is kept yet" for name in PAPERS]
    assert tool.json("reproduce", "--summary")["missing"] == list(PAPERS)
    assert "found none of" in tool("reproduce", "--summary", "--out", "nowhere", code=1).stderr


def test_a_full_run_is_kept(tool, calls, expected):
    tool("reproduce", "tipping_1998", "--keep", "--jobs", 1)
    kept = expected / "tipping_1998"
    assert sorted(file.name for file in kept.iterdir()) == ["figure_1.png", "results.json", "results.md"]
    assert json.loads((kept / "results.json").read_text()) == results_of("tipping_1998")
    with Image.open(kept / "figure_1.png") as figure:
        assert (figure.mode, figure.size) == ("P", (20, 20))
    result = tool("reproduce", "--summary")
    assert "clusters separate" in result.stdout
    assert "Not measured in this run: e." in result.stdout
    assert pages.measured_on(MACHINE) in result.stdout
    assert "henniges_2010: no full run is kept yet" in result.stdout
    assert tool.json("reproduce", "tipping_1998", "--summary")["counts"]["reproduced"] == 1


def test_results_of_another_machine_are_kept(tool, tmp_path, expected):
    """A folder that a full run made elsewhere, in place of what was kept before."""
    write(expected / "henniges_2010", results_of("henniges_2010"))
    (expected / "henniges_2010" / "figure_9.png").write_bytes(b"old")
    write(tmp_path / "there" / "henniges_2010", results_of("henniges_2010", a=0.95))
    result = tool("reproduce", "--summary", "--out", "there", "--keep")
    assert "henniges_2010: kept results.json, results.md, figure_1.png" in result.stderr
    assert not (expected / "henniges_2010" / "figure_9.png").exists()
    assert tool.json("reproduce", "--summary")["papers"]["henniges_2010"]["relations"]["a"]["measured"] == 0.95
    write(tmp_path / "one", results_of("tipping_1998", quick=True))
    assert "A quick run" in tool("reproduce", "--summary", "--out", "one").stdout
    assert "found a quick one in one" in tool("reproduce", "--summary", "--out", "one", "--keep", code=1).stderr


def test_verdicts_follow_the_expectations_of_now(tool, expected, monkeypatch):
    write(expected / "tipping_1998", results_of("tipping_1998"))
    changed = {**RELATIONS, "c": {**RELATIONS["c"], "paper": {"value": 4, "least": 3, "most": 5}}}
    monkeypatch.setattr(pages, "expected", lambda package: {"relations": changed})
    assert tool.json("reproduce", "--summary")["papers"]["tipping_1998"]["relations"]["c"]["reproduced"] == "yes"
