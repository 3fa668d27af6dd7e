"""The page of evidence: every paper, every set and every benchmark, from what is kept alone."""

from __future__ import annotations

from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from latentbits.league import kept, table
from latentbits.papers import PAPERS, summary

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def evidence_page():
    spec = spec_from_file_location("evidence_page", ROOT / "docs" / "evidence_page.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_it_has_what_is_kept(evidence_page, tmp_path):
    evidence_page.write(tmp_path / "evidence.md")
    text = (tmp_path / "evidence.md").read_text("utf-8")
    for name in PAPERS:
        counted = summary.counts(summary.summarize(name, summary.in_package(name))["relations"].values())
        numbers = [counted[key] for key in ("claims", "reproduced", "not_reproduced", "cannot_be_told")]
        assert f"(papers/{name}.md) | {PAPERS[name].repeated} | {' | '.join(map(str, numbers))} |" in text
    results = kept.in_package()
    assert table.counts(results.values()) in text
    assert all(f"| {name} " in text for name in results)
    for script in (ROOT / "benchmarks").glob("*.py"):
        assert f"| `{script.name}` | " in text
        assert f"| `{script.name}` |  |" not in text  # each says what it measures


def test_without_runs_it_says_so(evidence_page, tmp_path):
    text = evidence_page.page(dict.fromkeys(PAPERS), {}, tmp_path)
    assert text.count("No full run is kept yet.") == len(PAPERS) + 1
