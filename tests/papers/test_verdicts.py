"""Two verdicts for every finding: what the paper claims, and what our own runs are held to; and runs that are kept."""

import json

import pytest

from latentbits.papers import PAPERS, pages, skeleton, summary
from latentbits.papers.pages import CANNOT, Measured

OURS = {"least": 0, "most": 10}


def claim(least, most, **more):
    return {"says": "x", "paper": {"value": None, "least": least, "most": most}, "ours": OURS, **more}


def verdict(relation, found):
    return pages.judge({"a": relation}, {"a": found})["a"]["reproduced"]


@pytest.mark.parametrize(
    ("least", "most", "found", "reproduced"),
    [
        (1, 2, 1.5, "yes"),
        (1, 2, Measured(1.5, 0.1, 20), "yes"),
        (1, 2, Measured(1.05, 0.1, 20), "yes"),  # sticks out at one end
        (1, 2, 2.01, "no"),  # an exact number needs no error
        (1, 2, 0.99, "no"),
        (1, 2, Measured(2.5, 0.2, 20), "no"),
        (1, 2, Measured(0.5, 0.2, 20), "no"),
        (1, 2, Measured(2.1, 0.2, 20), CANNOT),  # just outside
        (1, 2, Measured(1.5, 0.3, 20), CANNOT),  # inside, and would be for almost any number
        (1, 2, Measured(3.0, 5.0, 2), CANNOT),
        (None, None, 1.5, CANNOT),  # the paper gives nothing to hold it to
        (None, None, Measured(1.5, 0.1, 20), CANNOT),
        (0, None, 0.1, "yes"),
        (0, None, Measured(1.0, 0.4, 20), "yes"),
        (0, None, Measured(1.0, 0.6, 20), CANNOT),  # ahead, by less than the error
        (0, None, Measured(-1.0, 0.6, 20), CANNOT),
        (0, None, Measured(-1.0, 0.4, 20), "no"),
        (None, 0, Measured(1.0, 0.4, 20), "no"),
        (None, 0, Measured(-1.0, 0.4, 20), "yes"),
        (2, 2, 2, "yes"),
        (1, 2, float("nan"), CANNOT),
        (1, 2, Measured(1.5, None, 1), CANNOT),  # another run may come out otherwise
        (1, 2, Measured(2.5, None, 1), CANNOT),
    ],
)
def test_a_claim_of_the_paper(least, most, found, reproduced):
    assert verdict(claim(least, most), found) == reproduced


@pytest.mark.parametrize(
    ("least", "most", "found", "reproduced"),
    [
        (0.9, 1, Measured(0.91, 0.02, 20), CANNOT),  # a share is never above 1: only the lower end can refuse it
        (0.9, 1, Measured(0.95, 0.02, 20), "yes"),
        (0.9, 1, Measured(0.8, 0.02, 20), "no"),
        (0, 0.1, Measured(0.09, 0.02, 20), CANNOT),
        (0, 1, Measured(0.5, 0.01, 20), CANNOT),  # a range that holds all shares says nothing
        (0.3, 0.6, Measured(0.31, 0.02, 20), "yes"),
    ],
)
def test_bounds_that_no_share_exceeds_are_no_bounds(least, most, found, reproduced):
    assert verdict(claim(least, most, possible=[0, 1]), found) == reproduced


def test_a_claim_of_several_parts_counts_once():
    """The worst part decides; numbers of ours are counted one by one."""
    relations = {"a": claim(0, 1, entry="growth"), "b": claim(2, 3), "c": claim(0, 1, entry="growth")}
    relations["d"] = {"says": "y", "ours": OURS}
    judged = pages.judge(relations, {"a": 0.5, "b": 2.5, "c": Measured(1.1, 0.1, 9), "d": 11})
    found = summary.counts(judged)
    assert {name: found[name] for name in ("claims", "reproduced", "not_reproduced", "cannot_be_told")} == {
        "claims": 2,
        "reproduced": 1,
        "not_reproduced": 0,
        "cannot_be_told": 1,
    }
    assert (found["ours"], found["ours_within"], found["outside"]) == (1, 0, 1)
    assert summary.counts(pages.judge(relations, {"a": 2, "b": 2.5, "c": 0.5}))["not_reproduced"] == 1
    assert summary.counts_of_all([judged, judged]) == {name: 2 * number for name, number in found.items()}
    claims = [row[0] for row in pages.table_rows(judged)]
    assert claims == ["growth", "– x", "– x", "x", "y"]
    assert [row[4] for row in pages.table_rows(judged)] == [CANNOT, "yes", CANNOT, "yes", ""]


def test_a_finding_of_our_own_is_not_about_the_paper():
    assert verdict({"says": "x", "ours": OURS}, 3) is None


def test_our_range_is_a_verdict_of_its_own():
    """What the paper claims may not be reproduced, and yet be as our runs have it; and the other way round."""
    relations = {"a": claim(20, 30), "b": claim(20, 30), "c": {"says": "y", "ours": OURS}, "d": claim(0, 1)}
    found = pages.judge(relations, {"a": Measured(5.0, 0.5, 4), "b": 25, "c": float("nan")})
    assert {name: (one["reproduced"], one["within"]) for name, one in found.items()} == {
        "a": ("no", True),
        "b": ("yes", False),
        "c": (None, False),
    }
    assert found["a"] == {**relations["a"], "measured": 5.0, "error": 0.5, "n": 4, "reproduced": "no", "within": True}


def test_the_table_has_both_verdicts():
    relation = {
        "says": "types '||'",
        "where": "section 3",
        "paper": {"value": 0.978, "least": 0.969, "most": 0.987, "words": "978 of 1000"},
        "ours": {"least": 0.8, "most": 0.9},
        "doubt": "See the guide.",
    }
    shown = pages.findings(pages.judge({"a": relation, "b": claim(1, 2)}, {"a": Measured(0.5, 0.012, 100), "b": 1}))
    head, _, first, second, _, doubt = shown.splitlines()
    assert head == "| claim | where | paper | ours | reproduced | within our range |"
    assert first == (
        r"| types '\|\|' | section 3 | 0.978, 978 of 1000 (0.969 to 0.987) | 0.500 ± 0.012, 100 runs | "
        "**no**, doubted | **no**: 0.8 to 0.9 |"
    )
    assert second == "| x |  | 1 to 2 | 1 | yes | yes: 0 to 10 |"
    assert doubt == "- types '||': we doubt the paper here. See the guide."


def test_errors_of_means_and_shares():
    assert pages.averaged([1.0, 3.0]) == Measured(2.0, 1.0, 2)
    assert pages.averaged([4.0]).error is None
    sure = pages.share_of([True] * 20)
    assert sure.value == 1
    assert 0.03 < sure.error < 0.06  # that none of 20 failed does not tell that none will


@pytest.mark.parametrize("paper", PAPERS)
def test_expected_has_what_judge_needs(paper):
    """Every finding has words and a range of ours; what is of the paper has its value and range, and says where."""
    held_to = pages.expected(f"latentbits.papers.{paper}")
    assert set(held_to.get("entries", {}).values()) == {
        one["entry"] for one in held_to["relations"].values() if "entry" in one
    }
    for name, one in held_to["relations"].items():
        assert set(one) <= {"says", "where", "paper", "ours", "doubt", "timed", "possible", "entry"}, name
        assert one["says"], name
        assert set(one["ours"]) == {"least", "most"}, name
        assert (one["ours"]["least"], one["ours"]["most"]) != (None, None), name
        if "paper" in one:
            own, more = {"value", "least", "most"}, {"words", "unverified"}
            assert own <= set(one["paper"]) <= own | more, name
        else:
            assert {"where", "possible", "entry"}.isdisjoint(one), name


# --- runs that are kept ---


def test_an_experiment_is_done_once(tmp_path):
    done = []

    def compute():
        done.append(1)
        return {"bits": 1.5, "course": (1, 2)}

    first = skeleton.kept(tmp_path / "runs", "lines-0", compute, asked={"n_rows": 100})
    assert skeleton.kept(tmp_path / "runs", "lines-0", compute, asked={"n_rows": 100}) == first
    assert first == {"bits": 1.5, "course": [1, 2]}  # the same the first time
    assert len(done) == 1
    (file,) = (tmp_path / "runs").iterdir()
    assert json.loads(file.read_text())["asked"][1:] == ["lines-0", {"n_rows": 100}]


def test_another_plan_does_not_find_old_numbers(tmp_path):
    for n_rows in (100, 200, 100):
        assert skeleton.kept(tmp_path, "lines-0", lambda n_rows=n_rows: n_rows, asked={"n_rows": n_rows}) == n_rows
    assert skeleton.kept(tmp_path, "lines-1", lambda: 7, asked={"n_rows": 100}) == 7


def test_what_fails_is_not_kept(tmp_path):
    with pytest.raises(ZeroDivisionError):
        skeleton.kept(tmp_path, "a", lambda: 1 / 0)
    with pytest.raises(TypeError):
        skeleton.kept(tmp_path, "a", lambda: object())
    assert skeleton.kept(tmp_path, "a", lambda: 1) == 1
