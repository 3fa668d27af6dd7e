"""Full runs that come with the package: as the expectations of now have them."""

import re
from importlib import import_module

import pytest
from kept_runs import compared

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
    """A change of expected.json needs the page to be written again."""
    found = summary.summarize(kept["paper"], kept)
    assert found["relations"] == kept["relations"]
    page, package = (
        (summary.kept_folder(kept["paper"]) / "results.md").read_text("utf-8"),
        f"latentbits.papers.{kept['paper']}",
    )
    assert pages.findings(found["relations"]) in page
    assert page == import_module(f"{package}.tables").report(kept, pages.expected(package))
    assert [key for key, one in found["relations"].items() if not one["within"]] == []


def test_every_picture_of_the_page_is_kept(kept):
    folder = summary.kept_folder(kept["paper"])
    linked = re.findall(r"!\[[^\]]*\]\(([^)]+)\)", (folder / "results.md").read_text("utf-8"))
    assert linked
    assert [file for file in linked if not (folder / file).is_file()] == []


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
