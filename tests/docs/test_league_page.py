"""The page of the league: with results that are kept and without."""

from __future__ import annotations

import pytest
from blocks import script

from latentbits.league import kept_results, table
from latentbits.league.entries import ENTRIES
from latentbits.league.published import PUBLISHED

MACHINE = {"date": "2026-01-02", "processor": "x", "cores": 2, "device": "cpu", "latentbits": "0.1", "jax": "1"}


@pytest.fixture(scope="module")
def league_page():
    return script("docs/league_page.py")


def result():
    found = {"fits": 2, "seconds": 3.0, "cut": "n_trees 8 was not tried: 0 of 3 s were left", "failed": {}}
    found |= {"settings": {"n_trees": 4}, "valid": -79.0, "test": -79.4, "test_error": 0.2, "stop_reason": "held_out"}
    return {
        "set": "dna",
        "columns": 180,
        "rows": {"train": 1600, "valid": 400, "test": 1186},
        "budget": 60.0,
        "entries": {"latent-tree": found | {"machine": MACHINE}},
        "stack": None,
    }


def test_without_kept_results_the_page_says_so(league_page, monkeypatch, tmp_path):
    monkeypatch.setattr(kept_results, "kept_file", lambda: tmp_path / "none.json")
    league_page.write(tmp_path / "league.md")
    text = (tmp_path / "league.md").read_text()
    assert "No run is kept yet." in text
    assert "unverified" in text


def test_the_page_has_standings_sources_and_notes(league_page):
    text = league_page.page({"dna": result()})
    assert "| dna | latent tree | -79.400 ± 0.200 | -79.05 | behind by 0.35 (0.4 %) | 2 |" in text
    assert "| ID-SPN (unverified) |  |  | -81.210 |  |" in text
    assert "- latent tree: n_trees 8 was not tried: 0 of 3 s were left." in text
    assert "2026-01-02: latentbits 0.1" in text
    assert "A family took 3 seconds on a set" in text
    assert table.counts([result()]) in text
    assert "`kdd` (click streams)" in text
    assert all(one.source in text for one in PUBLISHED)
    assert all(f"| {one.called} |" in text for one in ENTRIES)
    assert "n_states 4, 8, 12, 16" in text


def test_it_tells_what_families_took_whatever_their_budgets_were(league_page):
    long = result()
    long["entries"]["mixture"] = long["entries"]["latent-tree"] | {"seconds": 408.0, "scoring_seconds": 1.0}
    assert "A family took 3 to 409 seconds on a set" in league_page.page({"dna": long})


def test_what_the_package_keeps_can_be_shown(league_page):
    """Whatever run it is of."""
    results = kept_results.in_package()
    text = league_page.page(results)
    for name in results:
        assert f"\n## {name}\n" in text
