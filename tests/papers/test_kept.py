"""Full runs that come with the package: as the expectations of now have them, and as a quick run finds them."""

import json
import subprocess
import sys

import pytest
from kept_runs import agrees_with_kept, compared
from scripts import as_users_have_it

from latentbits.papers import PAPERS, pages, summary
from latentbits.papers.pages import Measured


@pytest.fixture(params=PAPERS)
def kept(request):
    results = summary.in_package(request.param)
    if results is None:
        pytest.skip(f"no full run of {request.param} is kept yet")
    return results


def test_what_is_kept_is_a_full_run(kept):
    assert not kept["quick"]
    assert {"date", "processor", "cores", "device", "latentbits", "jax"} == set(kept["machine"])
    text = (summary.kept_folder(kept["paper"]) / "results.json").read_text("utf-8")
    assert "/home/" not in text
    assert "/tmp/" not in text


def test_verdicts_are_those_of_now(kept):
    """Whoever changes expected.json makes the page anew."""
    found = summary.summarize(kept["paper"], kept)
    assert found["relations"] == kept["relations"]
    page = (summary.kept_folder(kept["paper"]) / "results.md").read_text("utf-8")
    assert pages.findings(found["relations"]) in page
    assert [key for key, one in found["relations"].items() if not one["within"]] == []


@pytest.mark.slow
@pytest.mark.parametrize("paper", ["henniges_2010", "lewicki_sejnowski_1996"])
def test_a_quick_run_agrees(paper, tmp_path):
    """In a process of its own, with code as users have it: it runs for longer than it compiles.

    Tests of the other papers make a quick run themselves, and hold it against the one that is kept.
    """
    code = "import sys; from latentbits.papers import reproduce; reproduce(*sys.argv[1:], quick=True)"
    subprocess.run([sys.executable, "-c", code, paper, str(tmp_path)], env=as_users_have_it(), check=True)
    agrees_with_kept(json.loads((tmp_path / "results.json").read_text("utf-8")))


@pytest.mark.parametrize(
    ("quick", "full", "agree"),
    [
        (Measured(1.5), Measured(1.9), True),  # both within our range
        (Measured(2.3, 0.1, 3), Measured(1.9, 0.01, 20), True),  # a few seeds that are within their error
        (Measured(2.5, 0.1, 3), Measured(1.9, 0.01, 20), False),
        (Measured(2.3), Measured(1.9), False),
        (Measured(float("nan"), 0.1, 3), Measured(1.9), False),
    ],
)
def test_agreement(quick, full, agree):
    ours = {"ours": {"least": 1, "most": 2}, "says": "x"}
    relations = {"a": ours, "b": {**ours, "timed": True}, "c": ours}
    one = pages.judge(relations, {"a": quick, "b": 100.0})
    other = pages.judge(relations, {"a": full, "b": 1.0, "c": 1.0})
    both, apart = compared(one, other)
    assert both == ["a"]
    assert (apart == {}) == agree
