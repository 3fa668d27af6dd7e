"""A quick run of each paper: it agrees with the full one that is kept, and says what the papers' tables say."""

from importlib import import_module

import numpy as np
import pytest
from kept_runs import agrees_with_kept

from latentbits.papers import PAPERS, pages
from latentbits.papers.freund_haussler_1994 import findings, synthetic
from latentbits.papers.freund_haussler_1994 import reproduce as freund
from latentbits.papers.lee_sompolinsky_1998 import reproduce as lee
from latentbits.papers.tipping_1998 import fits

pytestmark = pytest.mark.slow("quick runs of papers")

FIGURES = {
    "tipping_1998": {"1", "3", "4"},
    "lee_sompolinsky_1998": {"2", "3", "5"},
    "freund_haussler_1994": {"2.2", "4.1", "4.2"},
}
SHOWN = {  # the paper's number on the page, and a word of what is printed
    "tipping_1998": ("5.14", "flips 0.15"),
    "lee_sompolinsky_1998": ("| 256 | 512 | 512 |", "bump"),
    "freund_haussler_1994": ("(0.405)", "large_0"),
}


@pytest.mark.parametrize("paper", PAPERS)
def test_it_agrees_with_the_full_one_and_writes_files(quick_run, paper):
    found = quick_run(paper)
    agrees_with_kept(found.results)
    if paper in FIGURES:
        assert set(found.results["figures"]) == FIGURES[paper]
        assert found.results["notes"] == ["The digits were left out."]
    for names in found.results["figures"].values():
        assert [name.rpartition(".")[2] for name in names] == ["png", "svg"]
        assert all((found.out / name).stat().st_size > 5000 for name in names)
    page = (found.out / "results.md").read_text("utf-8")
    package = f"latentbits.papers.{paper}"
    assert page == import_module(f"{package}.tables").report(found.results, pages.expected(package))
    assert "A quick run" in page
    assert str(found.out.parent) not in page
    number, line = SHOWN.get(paper, ("", ""))
    assert number in page
    assert line in found.said


def test_relations_of_tipping_1998_that_no_clock_decides(quick_run):
    """Of errors and of the separation of clusters; the sample flatters the algorithm that has learned with it."""
    results = quick_run("tipping_1998").results
    relations = {name: one for name, one in results["relations"].items() if not one.get("timed")}
    of_sets = ("error", "sampling_error", "separation", "behind", "best", "fall", "rounds", "rounds_cold", "divergence",
               "lines", "prototypes", "stands_out")  # fmt: skip
    expected = {f"{what}_{flip}" for what in of_sets for flip in (0.05, 0.15)}
    assert set(relations) == expected | {"principal_shared", "principal_own"}
    assert {name: one["measured"] for name, one in relations.items() if not one["within"]} == {}
    verdicts = {name: one["reproduced"] for name, one in relations.items()}
    assert verdicts["principal_shared"] == verdicts["separation_0.05"] == "yes"
    assert verdicts["principal_own"] == verdicts["prototypes_0.15"] == "no"
    for one in results["sets"].values():
        variational, sampling, auto = (one["algorithms"][name] for name in fits.MAIN)
        assert {row["stopped"] for row in one["algorithms"].values()} == {"converged"}
        assert sampling["sample_error"] < auto["sample_error"] < variational["sample_error"] < one["start_error"]
        assert auto["exact_error"] < sampling["exact_error"] < variational["exact_error"] < one["independent_error"]
        assert all(row["cpu_seconds"] > 0 for row in one["algorithms"].values())
        assert 0 < one["posterior"]["area"] < 1
        assert one["posterior"]["gap"] > 0  # the approximation is too sure
        assert list(one["curves"]) == list(fits.MAIN)
        for name, line in one["curves"].items():
            whole = one["algorithms"][name]
            assert line["iterations"][:3] == [1, 2, 3]
            assert line["iterations"][-1] == whole["iterations"]
            assert line["error"][-1] == pytest.approx(whole["sample_error"], abs=1e-3)
            assert line["error"][0] > line["error"][-1]


def test_findings_of_lee_sompolinsky_1998(quick_run):
    """All that expected.json has, but for what needs the twos of USPS or is left out of a quick run."""
    results = quick_run("lee_sompolinsky_1998").results
    found, left_out = results["relations"], {f"{what}_biased_{k}" for what in ("entropy", "states") for k in (1, 3)}
    asked = {
        name
        for name in pages.expected(lee.__package__)["relations"]
        if not name.startswith(("twos", "held_out", "likelihood"))
    }
    assert set(found) == asked - left_out
    assert {name: one["measured"] for name, one in found.items() if not one["within"]} == {}
    assert found["states_neighbours_plain"]["reproduced"] == found["states_neighbours_biased"]["reproduced"] == "yes"
    denied = {name for name, one in found.items() if one["reproduced"] == "no"}
    assert denied == {
        *(f"{what}_plain_{size}" for what in ("states", "entropy") for size in (2, 3)),
    }
    assert denied == {name for name, one in found.items() if "doubt" in one}
    assert found["bump_latent"]["reproduced"] == found["rescaled_rank"]["reproduced"] == "yes"
    bumps = results["bump"]["fits"]  # correction and biases are seen in the third eigenvalue
    assert bumps["every shift once, correction 0.5"]["third_share"] > 1e-9
    assert bumps["100 shifts, biases"]["third_share"] > 1e-3
    two, four = results["constraint"]  # bits that sum to zero have no Gaussian
    assert two["measured"] == pytest.approx(0, abs=1e-12)
    assert four["measured"] == pytest.approx(four["theory"], abs=0.01)


def test_trials_of_lee_sompolinsky_1998_are_what_a_run_finds_done(quick_run, tmp_path):
    """Each can be done by itself, in any order; a run that finds it does not do it again."""
    quick = quick_run("lee_sompolinsky_1998")
    tasks = lee.trials(tmp_path, quick=True)
    assert len(tasks) == len(lee.QUICK.likelihood) + len(lee.QUICK.held_out) + 2 * lee.QUICK.n_seeds
    again = lee._recovered(quick.out, lee.QUICK.n_simulated, 1.0, 0)
    assert again == quick.results["simulated"][0]["runs"][0]
    assert len(list((quick.out / "runs").glob("simulated-1-0-*.json"))) == 1


def test_findings_and_measures_of_freund_haussler_1994(quick_run):
    """All that a quick run can tell, and nothing that it cannot; every number is within our range."""
    results = quick_run("freund_haussler_1994").results
    found = results["relations"]
    assert set(found) == findings.QUICK
    assert not {name: one["measured"] for name, one in found.items() if not one["within"]}
    assert found["universal_fine"]["reproduced"] == "yes"
    for name, one in results["synthetic"].items():
        plan = getattr(freund.QUICK, name)
        assert list(one["methods"]) == [*synthetic.method_names(plan), "true"]
        for method in one["methods"].values():
            for measure in synthetic.MEASURES:
                assert [len(method[measure][part]) for part in ("train", "test")] == [plan.n_seeds] * 2
                assert 0 < method[measure]["test"][0] < 1.3
        assert list(one["units"]) == [*synthetic.method_names(plan), "principal"]
        for units in one["units"].values():
            assert [len(words) for words in units["words"]] == [10] * plan.n_seeds
            assert (np.add(units["n_single"], units["n_merged"]) + units["n_none"] == 10).all()
