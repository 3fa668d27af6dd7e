"""The page of evidence: every paper, every set, every peer and every benchmark, from what is kept alone."""

from __future__ import annotations

import json

import pytest
from blocks import ROOT, script

from latentbits.league import kept_results, table
from latentbits.papers import PAPERS, summary


@pytest.fixture(scope="module")
def evidence_page():
    return script("docs/evidence_page.py")


def test_it_has_what_is_kept(evidence_page, tmp_path):
    evidence_page.write(tmp_path / "evidence.md")
    text = (tmp_path / "evidence.md").read_text("utf-8")
    for name in PAPERS:
        counted = summary.counts(summary.summarize(name, summary.in_package(name))["relations"])
        numbers = [counted[key] for key in ("claims", "reproduced", "not_reproduced", "cannot_be_told")]
        assert f"(papers/{name}.md) | {PAPERS[name].repeated} | {' | '.join(map(str, numbers))} |" in text
    results = kept_results.in_package()
    assert table.counts(results.values()) in text
    assert all(f"| {name} " in text for name in results)
    kept_run = ROOT / "benchmarks" / "results.json"
    families = json.loads(kept_run.read_text("utf-8"))["families"]
    for one in families.values():
        assert all(f"| {one['title']} | {name} | " in text for name in one["tables"])
        assert one["machine"]["processor"] in text
    for file in (ROOT / "benchmarks").glob("*.py"):
        assert f"| `{file.name}` | " in text
        assert f"| `{file.name}` |  |" not in text  # each says what it measures


def test_without_runs_it_says_so(evidence_page, tmp_path):
    text = evidence_page.page(dict.fromkeys(PAPERS), {}, tmp_path)
    assert text.count("No full run is kept yet.") == len(PAPERS) + 2


def test_peers_are_from_the_kept_run(evidence_page, tmp_path):
    machine = {"processor": "a processor", "cores": 2, "memory_gb": None, "system": "a system", "python": "3.11.1"}
    run = {"import_s": 1.0, "first_s": 6.0, "warm_s": 2.0, "peak_mb": 50.0, "held_out": -1.0}
    theirs = {**run, "first_s": 3.0, "warm_s": 9.0}
    contenders = {
        "latentbits": {"version": "1", "runs": [run]},
        "peer": {"version": "2", "runs": [theirs]},
        "missing": {"absent": "pip install missing"},
    }
    made = {"title": "Made-up models", "date": "2026-01-02", "machine": machine, "rounds": 1, "growth": {}}
    made["tables"] = {"small": {"rows": 9, "test_rows": 4, "columns": 3, "contenders": contenders}}
    (tmp_path / "results.json").write_text(json.dumps({"families": {"made_up": made}}))
    text = evidence_page.page({}, {}, tmp_path)
    assert "| Made-up models | small | peer | 4.5 | 0.5 | 1 | +0.000 |" in text
    assert "| Made-up models | small | missing | absent: `pip install missing` |" in text
    assert "2026-01-02, one round, a processor, 2 cores, a system, Python 3.11.1." in text
    assert f"more than {evidence_page.peers.LEVEL:g} nats per row below" in text
    assert "No run is kept yet of" not in text
    (tmp_path / "peers" / "families").mkdir(parents=True)
    for name in ("__init__", "latent_tree"):
        (tmp_path / "peers" / "families" / f"{name}.py").touch()
    assert "\n\nNo run is kept yet of Latent trees.\n" in evidence_page.page({}, {}, tmp_path)
