"""`latentbits league`: what it prints and writes, what it goes on from, and exit codes."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from tests.tables import classes

from latentbits.core.errors import DownloadError
from latentbits.league import kept_results, run
from latentbits.league.table import Line
from latentbits.papers.side_by_side import Ended

MACHINE = {"date": "2026-01-02", "processor": "x", "cores": 2, "device": "cpu", "latentbits": "0.1", "jax": "1"}


def result_of(name, **entries):
    found = {
        "fits": 2,
        "seconds": 3.0,
        "cut": "smoothing 10 was not tried: 0 of 3 s were left",
        "failed": {},
        "settings": {"smoothing": 1.0},
        "valid": -6.0,
        "valid_error": 0.01,
        "stop_reason": "converged",
        "machine": MACHINE,
        "test": -5.99,
        "test_error": 0.01,
    }
    return {
        "set": name,
        "columns": 16,
        "rows": {"train": 9, "valid": 8, "test": 7},
        "budget": 3.0,
        "entries": {"product": found, **entries},
        "stack": {"weights": {"product": 1.0}, "valid": -6.0, "test": -5.99, "test_error": 0.01},
    }


@pytest.fixture(autouse=True)
def kept_here(monkeypatch, tmp_path):
    monkeypatch.setattr(kept_results, "kept_file", lambda: tmp_path / "kept.json")
    return tmp_path / "kept.json"


@pytest.fixture
def calls(monkeypatch):
    """A run that takes no time; what it was asked for, and what becomes of sets."""
    asked, failed, entries = [], {}, {}

    def league(names, families, out, *, budget, seed, jobs, say):
        asked.append((names, families, str(out), budget, seed, jobs))
        for name in names:
            say(name, "product: smoothing 1 ...")
        results = {name: result_of(name, **entries) for name in names if name not in failed}
        for name, one in results.items():
            (out / name).mkdir(parents=True, exist_ok=True)
            (out / name / "results.json").write_text(json.dumps(one))
        return Ended(results, {name: error for name, error in failed.items() if name in names})

    monkeypatch.setattr(run, "league", league)
    league.asked, league.failed, league.entries = asked, failed, entries
    return league


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("ntlcs",), "there is no set 'ntlcs' in the league; there are nltcs, msnbc"),
        (("nltcs", "--families", "mixtures"), "there is no family 'mixtures' in the league; there are product"),
        (("--summary", "--budget", 5), "nothing that --budget could change"),
        (("--summary", "--keep"), "needs --out"),
        (("--csv", "--json"), "exclude each other"),
        (("nltcs", "--budget", 0), "--budget"),
    ],
)
def test_wrong_usage_does_nothing(tool, calls, arguments, why):
    said = tool("league", *arguments, code=2).stderr
    assert why in " ".join(said.split())
    assert calls.asked == []


def test_a_run_is_shown(tool, calls):
    result = tool("league", "dna", "nltcs", "--families", "product", "--budget", 3, "--jobs", 1, "--seed", 4)
    assert calls.asked == [(["nltcs", "dna"], ["product"], "league", 3.0, 4, 1)]
    assert "nltcs: product: smoothing 1 ..." in result.stderr
    shown = result.stdout.splitlines()
    assert max(map(len, shown[: shown.index("")])) <= 120
    assert any("ID-SPN (unverified)" in line and "-6.020" in line for line in shown)
    assert "note: independent bits: smoothing 10 was not tried: 0 of 3 s were left" in shown
    row = next(line for line in shown if line.split()[:2] == ["nltcs", "independent"])
    assert "first" in row
    assert "Of 2 sets with a verified result: first on 2" in result.stdout
    assert "2026-01-02: latentbits 0.1, JAX 1, device cpu, x with 2 cores" in shown
    tool("league", "--families", "product")
    names, families, *_ = calls.asked[-1]
    assert (len(names), families) == (20, ["product"])


def test_as_csv_and_json(tool, calls):
    found = tool.json("league", "nltcs", "--families", "product")["sets"]["nltcs"]
    assert found["entries"]["product"]["test"] == -5.99
    assert next(line for line in found["lines"] if line["model"] == "hidden Chow-Liu tree")["kind"] == "verified"
    rows = list(csv.DictReader(io.StringIO(tool("league", "nltcs", "--families", "product", "--csv").stdout)))
    assert list(rows[0]) == list(Line._fields)
    ours = next(row for row in rows if row["model"] == "independent bits")
    assert (ours["set"], ours["kind"], ours["test"], ours["rank"]) == ("nltcs", "ours", "-5.99", "1")


def test_a_set_that_cannot_be_had_ends_with_1_when_all_is_shown(tool, calls):
    calls.failed["kdd"] = DownloadError("kdd: could not fetch it")
    result = tool("league", "kdd", "nltcs", "--families", "product", code=1)
    assert "independent bits" in result.stdout
    assert result.stderr.splitlines()[-1] == "error: kdd: could not fetch it"


def test_a_family_without_a_result_ends_with_1(tool, calls):
    calls.entries["mixture"] = {"fits": 1, "seconds": 1.0, "cut": "", "failed": {"n_components 64": "no memory"}}
    result = tool("league", "nltcs", "--families", "product,mixture", code=1)
    assert result.stderr.splitlines()[-1] == "error: no result for nltcs of mixture; the lines above say why"
    assert "mixture: n_components 64 failed (no memory)" in result.stdout


def test_what_is_kept_is_the_summary(tool, calls, kept_here):
    assert "all sets: no results are kept yet" in tool("league", "--summary").stderr
    tool("league", "nltcs", "--families", "product", "--keep")
    assert list(json.loads(kept_here.read_text())) == ["nltcs"]
    tool("league", "dna", "--families", "product", "--out", "there")
    assert list(tool.json("league", "--summary")["sets"]) == ["nltcs"]
    assert "dna: no results are kept yet" in tool("league", "dna", "--summary").stderr
    assert "kept dna" in tool("league", "--summary", "--out", "there", "--keep").stderr
    assert list(tool.json("league", "--summary")["sets"]) == ["nltcs", "dna"]
    assert "found none in nowhere" in tool("league", "--summary", "--out", "nowhere", code=1).stderr
    assert len(calls.asked) == 2


def test_a_folder_of_data_is_enough(tool, tmp_path, monkeypatch):
    """A new set, in the usual layout: fitted, tested, and not fitted again."""
    table = classes(90, 65)  # as many columns as kdd has
    (tmp_path / "data" / "debd").mkdir(parents=True)
    parts = {"train": table[:50], "valid": table[50:70], "test": table[70:]}
    packed = {name: np.packbits(part.astype(np.uint8), axis=1) for name, part in parts.items()}
    np.savez(tmp_path / "data" / "debd" / "kdd.npz", **packed, n_features=65)
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path / "data"))
    first = tool("league", "kdd", "--families", "product", "--jobs", 1)
    assert "none known" in first.stdout
    again = tool("league", "kdd", "--families", "product", "--jobs", 1)
    assert "smoothing 1 ..." in first.stderr
    assert "smoothing 1 ..." not in again.stderr
    assert again.stdout == first.stdout
