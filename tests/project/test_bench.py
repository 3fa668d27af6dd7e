"""The benchmark beside peers: its rules and its page, from made-up numbers; nothing is timed here."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from benchmarks.peers import __main__ as run
from benchmarks.peers import growth, r, table
from benchmarks.peers.contender import Contender, Table, measure
from blocks import ROOT


def runs(warm, first, peak, held_out):
    return [
        {"import_s": 0.1, "first_s": f, "warm_s": w, "peak_mb": p, "held_out": h}
        for w, f, p, h in zip(warm, first, peak, held_out, strict=True)
    ]


MACHINE = {"processor": "a processor", "cores": 2, "memory_gb": 16.0, "system": "a system", "python": "3.11.1"}
RESULTS = {
    "families": {
        "made_up": {
            "title": "Made-up models",
            "date": "2026-01-02",
            "machine": MACHINE,
            "rounds": 3,
            "tables": {
                "small": {
                    "rows": 10,
                    "test_rows": 5,
                    "columns": 3,
                    "contenders": {
                        "latentbits": {
                            "version": "1.0",
                            "runs": runs([1, 2, 4], [10, 10, 10], [100, 100, 100], [-1, -1, -1]),
                        },
                        "slower": {"version": "2.0", "runs": runs([3, 8, 8], [5, 6, 4], [0.01] * 3, [-1.5, -1.5, -1])},
                        "better": {"version": "3.0", "runs": runs([1, 1, 1], [1, 1, 1], [300] * 3, [-0.5] * 3)},
                        "missing": {"absent": "pip install missing"},
                        "broken": {"runs": [], "failed": "ValueError: no"},
                    },
                },
                "public": {"left_out": "LATENTBITS_DATA is not set."},
            },
            "growth": {
                "rows": {"sizes": [1, 2, 4], "seconds": [0.5, 1, 2], "exponent": 1.0, "error": 0.0},
                "causes": {"failed": "took too long"},
            },
        }
    }
}
MODULES = {
    "made_up": SimpleNamespace(
        TITLE="Made-up models",
        __doc__="What is compared.\n\n    Indented.",
        WHY={"better": "It knows more."},
        CONTENDERS={"latentbits": Contender(len, "latentbits"), "slower": Contender(len, "slower", note="a remark")},
    )
}


def by_peer(results=RESULTS):
    return {line.peer: line for line in table.lines(results)}


def test_ratios_are_taken_within_a_round():
    line = by_peer()["slower"]
    assert line.ratios["warm"] == [3, 4, 2]
    assert line.ratios["memory"] == [0.01] * 3  # what cannot be distinguished from nothing counts as a megabyte
    assert line.ahead == 0.5
    assert line.behind == {"first answer": 0.5, "memory": 0.01}


def test_without_the_same_quality_there_is_no_ratio_of_times():
    line = by_peer()["better"]
    assert list(line.ratios) == ["memory"]
    assert line.remark == "ours is below in quality"
    close = deepcopy(RESULTS)
    contenders = close["families"]["made_up"]["tables"]["small"]["contenders"]
    for one in contenders["better"]["runs"]:
        one["held_out"] = -1 + 0.009
    assert list(by_peer(close)["better"].ratios) == list(table.MEASURES)
    for one in contenders["better"]["runs"]:
        one["held_out"] = -1 + 0.011
    assert by_peer(close)["better"].remark == "ours is below in quality"
    for one in contenders["better"]["runs"]:
        one["held_out"] = float("nan")  # is not known to be the same
    assert by_peer(close)["better"].remark


def test_absent_and_failed_peers_are_reported():
    cells = {row[2]: row for row in table.summary_cells(RESULTS)}
    assert cells["missing"][3] == "absent: `pip install missing`"
    assert cells["broken"][3] == "failed: ValueError: no"
    assert cells["slower"][3:] == ["3", "0.5", "0.01", "+0.500"]
    ours = deepcopy(RESULTS)
    ours["families"]["made_up"]["tables"]["small"]["contenders"]["latentbits"] = {"runs": [], "failed": "it broke"}
    assert {line.remark for line in table.lines(ours) if line.peer == "slower"} == {"ours failed: it broke"}


def test_the_page_has_everything():
    page = table.page(RESULTS, MODULES)
    assert "2026-01-02, 3 rounds, a processor, 2 cores, 16 GB, a system, Python 3.11.1." in page
    assert "| slower | 2.0 | 5 | 8 | 0 | -1.5000 | 3 (2 to 4) | 0.5 (0.4 to 0.6) | 0.01 (0.01 to 0.01) |" in page
    assert "| missing |  | absent: `pip install missing` |" in page
    assert "**public**: left out. LATENTBITS_DATA is not set." in page
    assert "| Made-up models | 1.00 ± 0.00 | failed: took too long |" in page
    assert "What is compared.\n\nIndented." in page
    assert "- slower: a remark" in page
    behind = page.split("## Where we are not ahead, and why")[1]
    assert "| slower | first answer 0.5; memory 0.01 | Not looked into yet. |" in behind
    assert "| better | held-out -0.500 | It knows more. |" in behind
    assert "It knows more." not in page.replace(behind, "")


def test_a_peer_that_is_ahead_on_several_tables_is_reported_once():
    results = deepcopy(RESULTS)
    tables = results["families"]["made_up"]["tables"]
    tables["large"] = deepcopy(tables["small"])
    for one in tables["large"]["contenders"]["slower"]["runs"]:
        one["first_s"], one["peak_mb"] = 1.0, 200.0
    behind = table.page(results, MODULES).split("## Where we are not ahead, and why")[1]
    assert "| slower | first answer 0.1 to 0.5; memory 0.01 (small) | Not looked into yet. |" in behind


def test_families_of_several_days_are_listed_separately():
    results = deepcopy(RESULTS)
    results["families"]["other"] = {**results["families"]["made_up"], "title": "Others", "date": "2026-02-03"}
    lines = table.machines(results).splitlines()
    assert [line.partition(",")[0] for line in lines] == ["- Made-up models: 2026-01-02", "- Others: 2026-02-03"]


def test_what_was_not_run_is_reported():
    modules = {**MODULES, "never": SimpleNamespace(TITLE="Never run")}
    page = table.page(RESULTS, modules)
    assert "No run is kept yet of Never run (beside peers)." in page
    assert "No run is kept yet of Never run (how time grows)." in page
    assert "No run is kept yet" not in table.page(RESULTS, MODULES)
    noted = deepcopy(RESULTS)
    noted["families"]["made_up"]["note"] = "others were at work"
    assert "(others were at work)." in table.machines(noted)


def test_what_is_kept_is_what_the_page_shows():
    kept = run.kept()
    modules = {name: run.load(name) for name in run.families()}
    assert (ROOT / "benchmarks" / "README.md").read_text("utf-8") == table.page(kept, modules)


@pytest.mark.parametrize("module", [table, growth])
def test_what_the_docstrings_show(module):
    found = doctest.testmod(module)
    assert found.attempted
    assert not found.failed


def test_a_missing_run_is_reported():
    assert table.page({"families": {}}, {}).endswith(f"{table.NONE}\n")


@pytest.mark.parametrize("family", run.families())
def test_every_family_keeps_the_contract(family):
    module = run.load(family)
    assert next(iter(module.CONTENDERS)) == "latentbits"
    assert len(module.CONTENDERS) > 1
    assert set(module.WHY) < set(module.CONTENDERS)
    assert module.TITLE
    assert module.__doc__
    assert "rows" in module.GROWTH
    for grows in module.GROWTH.values():
        assert len(grows.sizes) == 4
        assert all(2 * one == other for one, other in zip(grows.sizes, grows.sizes[1:], strict=False))
    for one in module.tables(quick=True).values():
        if not isinstance(one, str):
            assert one.train.shape[1:] == one.test.shape[1:]
            assert family == "binary_sparse_coding" or set(np.unique(one.train)) == {0, 1}


def test_a_family_needs_numpy_alone():
    names = [f"benchmarks.peers.families.{name}" for name in run.families()]
    code = (
        f"import sys; from importlib import import_module; [import_module(one) for one in {names}]; import_module("
        "'benchmarks.peers.contender'); print(sorted({one.partition('.')[0] for one in sys.modules} & "
        "{'latentbits', 'jax', 'scipy', 'sklearn', 'torch', 'rich'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_exponents_of_exact_powers():
    power, error = growth.exponent([10, 20, 40, 80], [3 * size**1.5 for size in (10, 20, 40, 80)])
    assert power == pytest.approx(1.5)
    assert error == pytest.approx(0, abs=1e-9)
    assert growth.exponent([1, 2], [1, 4]) == (pytest.approx(2), None)
    _, error = growth.exponent([1, 2, 4, 8], [1, 2, 4, 9])
    assert 0 < error < 0.1


def test_growth_is_by_the_pass():
    fits = []
    found = growth.measure(growth.Growth((1, 2, 4, 8), lambda size: lambda: fits.append(size) or 2), quick=True)
    assert found["sizes"] == [1, 2]
    assert fits == [1, 1, 2, 2]  # one that compiles, one that is timed


def test_a_contender_may_measure_itself():
    def fit(X, *, seed, causes):
        assert X.dtype == np.float32
        return {"weights": np.full(causes, seed), "warm_s": 7.0, "version": "of R"}

    contender = Contender(fit, "numpy", dtype=np.float32)
    took, params = measure(contender, np.zeros((2, 3), np.uint8), 5, {"causes": 2})
    assert (took["warm_s"], took["version"]) == (7.0, "of R")
    assert took["first_s"] != 7
    assert list(params) == ["weights"]
    took, _ = measure(contender._replace(fit=lambda X, seed: {}), np.zeros((2, 3)), 0, {})
    assert took["version"] == np.__version__


def test_absent_peers_are_reported_with_how_to_install_them():
    assert Contender(len, "numpy").how_to_install == "pip install numpy"
    assert Contender(len, "poLCA", needs="R").how_to_install == "Rscript -e 'install.packages(\"poLCA\")'"
    assert Contender(len, "x", install="make x").how_to_install == "make x"
    assert run.python_with(Contender(len, "no_such_package"), [sys.executable]) is None
    assert run.python_with(Contender(len, "numpy", works="import numpy"), [sys.executable]) == sys.executable
    assert run.python_with(Contender(len, "numpy", works="import no_such_package"), [sys.executable]) is None


def test_a_process_that_fails_is_reported():
    assert run.run_process([sys.executable, "-c", "raise ValueError('no')"]) == {"failed": "ValueError: no"}
    assert run.run_process([sys.executable, "-c", "print(1); print('{}')"]) == {}
    late = run.run_process([sys.executable, "-c", "import time; time.sleep(60)"], limit=0.1)
    assert late == {"failed": "took more than 0.1 s"}


@pytest.mark.parametrize(
    ("held_out", "message"),
    [(lambda *_: np.nan, "no likelihood"), (lambda *_: 1 / 0, "ZeroDivisionError"), (lambda *_: -2.5, None)],
)
def test_what_cannot_be_scored_has_failed(monkeypatch, held_out, message):
    def fitted(command):
        np.savez(command[-3], x=np.zeros(2))
        return {"warm_s": 1.0}

    monkeypatch.setattr(run, "run_process", fitted)
    monkeypatch.setattr(run, "load", lambda name: SimpleNamespace(held_out=held_out))
    found = run.run_once("made_up", "peer", "python", Path("table.npz"), Table(np.zeros((2, 2)), np.zeros((2, 2))), 0)
    assert found == {"warm_s": 1.0, "held_out": -2.5} if message is None else message in found["failed"]


def test_updating_one_family_leaves_the_others():
    names = run.families()
    results = {"families": {names[0]: {"tables": 1, "growth": 2}, "gone": {}}}
    assert run.joined(results, names[0], {"tables": 3}) == {"families": {names[0]: {"tables": 3, "growth": 2}}}
    new = run.joined(results, names[1], {"growth": 4})["families"]
    assert new[names[0]] == results["families"][names[0]]
    assert new[names[1]] == {"rounds": 0, "tables": {}, "growth": 4}


def test_a_run_is_written_after_each_family(monkeypatch, tmp_path):
    monkeypatch.setattr(run, "RESULTS", tmp_path / "results.json")
    monkeypatch.setattr(run, "README", tmp_path / "README.md")
    monkeypatch.setattr(run, "families", lambda: ["faulty", "made_up", "second"])
    monkeypatch.setattr(run, "load", lambda name: MODULES["made_up"])
    monkeypatch.setattr(sys, "argv", ["peers", "--write"])

    def one_then_stop(family, *_):
        if family == "faulty":
            raise ValueError("a fault in its file")
        if family == "second":
            raise KeyboardInterrupt
        return RESULTS["families"]["made_up"]

    monkeypatch.setattr(run, "run_family", one_then_stop)
    with pytest.raises(SystemExit, match="kept"):
        run.main()
    assert json.loads((tmp_path / "results.json").read_text()) == RESULTS
    all_three = dict.fromkeys(["faulty", "made_up", "second"], MODULES["made_up"])
    assert (tmp_path / "README.md").read_text() == table.page(RESULTS, all_three)


def test_quick_runs_are_not_written(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peers", "--quick", "--write"])
    with pytest.raises(SystemExit):
        run.main()
    assert "leave out --write" in capsys.readouterr().err


def test_a_wrong_interpreter_is_refused_before_anything_runs(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["peers", "--peer-python", sys.executable, "no/such/python"])
    monkeypatch.setattr(run, "run", lambda *_: pytest.fail("it ran"))
    with pytest.raises(SystemExit):
        run.main()
    assert "no such interpreter: no/such/python" in capsys.readouterr().err


def test_r_gets_settings_as_variables():
    text = r.script("poLCA", "found <- list(x = X)", {"seed": 3, "classes": 2})
    assert "library(poLCA)" in text
    assert "\nseed <- 3\nclasses <- 2\n" in text
    assert text.index("began <-") < text.index("found <- list(x = X)") < text.index("took <-")
