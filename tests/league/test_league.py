"""The league: what is chosen, on which rows, what is done again and what is not, and where everybody stands."""

from __future__ import annotations

import copy
import json
from unittest.mock import ANY

import numpy as np
import pytest
from tests.tables import classes

from latentbits import BernoulliProduct
from latentbits.choosing.climb import Axis, next_places
from latentbits.core.errors import DownloadError, OutOfTimeError
from latentbits.estimators.families import families
from latentbits.league import kept_results, run, sets, table
from latentbits.league.entries import ENTRIES, by_its_record, entry
from latentbits.league.published import PUBLISHED, best_verified
from latentbits.reports.render import cells

D = 16  # columns of nltcs, in whose place there is a small table here


def write_set(folder, name="nltcs", seed=0, test=None):
    """In the layout of the public sets."""
    table = classes(120, D, 3, seed)
    parts = {"train": table[:60], "valid": table[60:90], "test": table[90:] if test is None else test}
    (folder / "debd").mkdir(parents=True, exist_ok=True)
    packed = {key: np.packbits(value.astype(np.uint8), axis=1) for key, value in parts.items()}
    np.savez(folder / "debd" / f"{name}.npz", **packed, n_features=D)
    return parts


@pytest.fixture
def data(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path / "data"))
    return write_set(tmp_path / "data")


@pytest.fixture
def fits(monkeypatch, data):
    """Fits that take no time, and are worth what `worth` says of their settings; which were made is noted."""
    model = BernoulliProduct().fit(data["train"])
    made, noise = [], np.random.default_rng(0).normal(size=30)

    def fit(one, settings, rows, limit, seed):
        made.append((one.name, tuple(settings.values())))
        if fit.before is not None:
            fit.before(settings, limit)
        found = copy.copy(model)
        found.stop_reason_ = fit.stop
        return found, fit.worth(settings) + noise, 0.0

    fit.worth, fit.before, fit.stop, fit.made = (
        lambda settings: -abs(np.log(settings["smoothing"] / 3)),
        None,
        "converged",
        made,
    )
    monkeypatch.setattr(run, "_fit", fit)
    return fit


def go(out, *names, budget=1000.0, said=None):
    tell = None if said is None else lambda name, text: said.append(text)
    ended = run.league(["nltcs"], names, out, budget=budget, jobs=1, say=tell)
    for error in ended.failed.values():
        raise error
    return ended.results["nltcs"]


# --- what takes part ---


def test_every_family_of_bits_takes_part():
    assert {one.family for one in ENTRIES} == {"curved-trait", *(one.name for one in families("bits"))}
    assert len({one.name for one in ENTRIES}) == len(ENTRIES)


@pytest.mark.parametrize("record", list(families("bits")), ids=lambda one: one.name)
def test_a_family_of_which_nothing_is_known_takes_part_by_its_record(record):
    one = by_its_record(record)
    assert "{" not in one.called
    for axis in one.axes:
        assert [getattr(one.new({axis.name: value}), axis.name) for value in axis.values] == list(axis.values)
    assert next_places(one.axes, {})
    assert next_places((), {(): -1.0}) == []
    assert next_places((), {(): -np.inf}) == []


@pytest.mark.parametrize("one", ENTRIES, ids=lambda one: one.name)
def test_every_setting_is_one_of_its_constructor(one):
    for axis in one.axes_for(17):
        assert axis.first in axis.values
        for value in axis.values:
            assert getattr(one.new({axis.name: value}), axis.name) == value
    for name, value in one.settings.items():
        assert getattr(one.new({}), name) == value


def test_no_more_factors_than_columns_can_tell_apart():
    sizes = next(axis for axis in entry("clipped-gaussian").axes_for(17) if axis.name == "n_components")
    assert sizes.values == (2, 4, 6)
    assert entry("mixture").axes_for(17) == entry("mixture").axes
    with pytest.raises(ValueError, match="no entry 'mixtures'; there are product"):
        entry("mixtures")


def test_the_twenty_sets_are_known():
    assert len(set(sets.SETS)) == 20
    assert all(sets.describe(name) for name in sets.SETS)


# --- the climb ---


def test_the_climb_ends_on_the_top():
    axes = (Axis("a", tuple(range(9)), 2, stride=2), Axis("b", tuple(range(5)), 4))
    tried = {}
    while places := next_places(axes, tried):
        place = places[0]
        assert place not in tried
        tried[place] = -((place[0] - 7) ** 2) - (place[1] - 1) ** 2
    assert max(tried, key=tried.get) == (7, 1)
    assert len(tried) < 20 < 9 * 5


def test_what_fails_at_first_is_tried_smaller():
    axes = (Axis("a", (1, 2, 4), 4), Axis("b", (1, 2), 2))
    assert next_places(axes, {(2, 1): -np.inf}) == [(1, 1)]
    assert next_places(axes, {(2, 1): -np.inf, (1, 1): -5.0})[0] == (0, 1)  # and not the one that failed
    assert next_places(axes, {(place, 1): -np.inf for place in range(3)}) == []


# --- running ---


def test_validation_rows_choose_and_test_rows_do_not(tmp_path, monkeypatch, data):
    """With other test rows only the report of them differs: they are looked at when all is chosen."""
    order = []
    attempt, look = run._attempt, run.test_rows
    monkeypatch.setattr(run, "_attempt", lambda *given: order.append("fit") or attempt(*given))
    monkeypatch.setattr(run, "test_rows", lambda name: order.append("test") or look(name))
    found = go(tmp_path / "a", "product")["entries"]["product"]
    assert order == ["fit"] * found["fits"] + ["test"] * 2  # to score, and to count them
    worth = {s: BernoulliProduct(smoothing=s).fit(data["train"]).score(data["valid"]) for s in (0.1, 1.0, 10.0)}
    best = max(worth, key=worth.get)
    assert found["settings"] == {"smoothing": best}
    assert found["valid"] == pytest.approx(worth[best], rel=1e-5)
    chosen = BernoulliProduct(smoothing=best).fit(data["train"])
    scores = chosen.score_samples(data["test"])
    assert found["test"] == pytest.approx(scores.mean(), rel=1e-5)
    assert found["test_error"] == pytest.approx(scores.std(ddof=1) / np.sqrt(30), rel=1e-4)
    noise = np.random.default_rng(5).integers(0, 2, (50, D))
    write_set(tmp_path / "data", test=noise)
    other = go(tmp_path / "b", "product")["entries"]["product"]
    assert other["test"] == pytest.approx(chosen.score(noise), rel=1e-5)
    untouched = ("settings", "valid", "valid_error", "fits", "n_iter", "stop_reason")
    assert {key: found[key] for key in untouched} == {key: other[key] for key in untouched}


def test_it_goes_on_after_a_kill(tmp_path, fits):
    """No fit that ended is made again, whether it was killed between fits or before the test rows."""

    def killed(settings, limit):
        if settings["smoothing"] == 3.0:
            raise KeyboardInterrupt

    fits.before = killed
    with pytest.raises(KeyboardInterrupt):
        go(tmp_path / "run", "chow-liu-tree")
    assert [made[1] for made in fits.made] == [(1.0,), (3.0,)]
    fits.before, fits.made[:] = None, []
    found = go(tmp_path / "run", "chow-liu-tree")
    assert [made[1] for made in fits.made] == [(3.0,), (10.0,)]
    assert found["entries"]["chow-liu-tree"]["settings"] == {"smoothing": 3.0}
    folder = tmp_path / "run" / "nltcs" / "chow-liu-tree"
    assert len(list(folder.glob("*.safetensors"))) == 1  # of the best alone
    (folder / "chosen.json").unlink()
    fits.made.clear()
    assert go(tmp_path / "run", "chow-liu-tree") == found | {
        "entries": {"chow-liu-tree": found["entries"]["chow-liu-tree"] | {"scoring_seconds": ANY}}
    }
    assert fits.made == []
    next(folder.glob("*.safetensors")).unlink()
    (folder / "chosen.json").unlink()
    with pytest.raises(FileNotFoundError, match="is gone: delete the folder"):
        go(tmp_path / "run", "chow-liu-tree")


def test_other_rows_or_another_seed_are_other_fits(tmp_path, fits):
    go(tmp_path / "run", "product")
    n = len(fits.made)
    run.league(["nltcs"], ["product"], tmp_path / "run", budget=1000.0, seed=1, jobs=1)
    assert len(fits.made) == 2 * n
    write_set(tmp_path / "data", seed=1)
    go(tmp_path / "run", "product")
    assert len(fits.made) == 3 * n


def test_the_budget_ends_the_climb_and_more_of_it_goes_on(tmp_path, fits, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(run.time, "perf_counter", lambda: clock[0])

    def takes(settings, limit):
        clock[0] += 10.0

    fits.before, said = takes, []
    found = go(tmp_path / "run", "chow-liu-tree", budget=14.0, said=said)["entries"]["chow-liu-tree"]
    assert [made[1] for made in fits.made] == [(1.0,)]
    assert found["cut"] == "smoothing 3 was not tried: 4 of 14 s were left"
    assert f"chow-liu-tree: {found['cut']}" in said
    assert go(tmp_path / "run", "chow-liu-tree", budget=14.0)["entries"]["chow-liu-tree"]["cut"] == found["cut"]
    assert len(fits.made) == 1
    longer = go(tmp_path / "run", "chow-liu-tree", budget=100.0)["entries"]["chow-liu-tree"]
    assert [made[1] for made in fits.made[1:]] == [(3.0,), (10.0,)]
    assert (longer["cut"], longer["settings"], longer["fits"]) == ("", {"smoothing": 3.0}, 3)


def test_a_fit_that_was_cut_off_is_made_again_with_more_time(tmp_path, fits):
    fits.stop = "max_time"
    go(tmp_path / "run", "product", budget=10.0)
    n = len(fits.made)
    go(tmp_path / "run", "product", budget=11.0)
    assert len(fits.made) == n
    worth = fits.worth
    fits.stop, fits.worth = "converged", lambda settings: worth(settings) + 1
    before = go(tmp_path / "run", "product", budget=11.0)["entries"]["product"]
    after = go(tmp_path / "run", "product", budget=100.0)["entries"]["product"]
    assert len(fits.made) == 2 * n
    assert after["valid"] == pytest.approx(before["valid"] + 1)
    assert "its fit was cut off" in table._note(before)
    assert "its fit was cut off" not in table._note(after)


def test_what_fails_is_reported_and_tried_again_by_the_next_run(tmp_path, fits):
    def fails(settings, limit):
        if settings["smoothing"] < 5:
            raise ValueError("no such luck")
        raise OutOfTimeError("scoring takes longer than it has")

    fits.before, said = fails, []
    result = go(tmp_path / "run", "product", said=said)
    found = result["entries"]["product"]
    assert found["failed"] == {
        "smoothing 1": "ValueError: no such luck",
        "smoothing 0.1": "ValueError: no such luck",
    }
    assert "test" not in found
    assert any("smoothing 1: failed after 0 s: ValueError: no such luck" in line for line in said)
    line = next(line for line in table.lines(result) if line.kind == "ours")
    assert (line.rank, line.test) == (None, None)
    assert "no such luck" in line.note
    assert "failed" in next(row for row in cells(table.as_table(result)) if row[0] == line.model)
    assert result["stack"] is None
    fits.before = None
    assert go(tmp_path / "run", "product")["entries"]["product"]["settings"] == {"smoothing": 1.0}


def test_the_stack_is_of_all_entries_and_no_worse_on_validation_rows(tmp_path, fits):
    fits.worth = lambda settings: -6.0
    noise = np.random.default_rng(1).normal(size=30)
    plain, fits_of = fits.worth, run._fit

    def fit(one, *given):
        model, valid, _ = fits_of(one, *given)
        return model, valid if one.name == "product" else valid - 2 * noise, 0.5

    run._fit, result = fit, None
    try:
        result = go(tmp_path / "run", "product", "chow-liu-tree")
    finally:
        run._fit = fits_of
    stack = result["stack"]
    assert sum(stack["weights"].values()) == pytest.approx(1)
    assert stack["valid"] > max(one["valid"] for one in result["entries"].values())
    one = result["entries"]["product"]
    assert stack["test"] == pytest.approx(one["test"])  # both are the same model
    with np.load(tmp_path / "run" / "nltcs" / "product" / "rows.npz") as rows:
        assert rows["test"].mean() == pytest.approx(one["test"])
        assert rows["valid"].mean() == pytest.approx(one["valid"])
    assert plain({}) == -6.0
    assert json.loads((tmp_path / "run" / "nltcs" / "results.json").read_text()) == result


def test_a_set_that_cannot_be_had_leaves_the_others(tmp_path, fits, monkeypatch):
    def load(name):
        if name == "kdd":
            raise DownloadError("kdd: could not fetch it")
        return original(name)

    original = sets.load_dataset
    monkeypatch.setattr(sets, "load_dataset", load)
    said = []
    ended = run.league(
        ["kdd", "nltcs"], ["product"], tmp_path / "run", jobs=1, say=lambda name, text: said.append((name, text))
    )
    assert list(ended.results) == ["nltcs"]
    assert list(ended.failed) == ["kdd"]
    assert ("kdd", "failed: kdd: could not fetch it") in said


@pytest.mark.slow("fits in processes")
def test_in_processes_it_is_the_same(tmp_path, data):
    """Real fits, two at a time, each in a separate process."""
    here = go(tmp_path / "a", "product", "chow-liu-tree")
    said = []
    ended = run.league(
        ["nltcs"],
        ["product", "chow-liu-tree"],
        tmp_path / "b",
        budget=1000.0,
        jobs=2,
        say=lambda name, text: said.append(text),
    )
    there = ended.results["nltcs"]
    for name, one in here["entries"].items():
        assert there["entries"][name]["settings"] == one["settings"]
        assert there["entries"][name]["test"] == pytest.approx(one["test"], rel=1e-5)
    assert there["stack"]["test"] == pytest.approx(here["stack"]["test"], rel=1e-5)
    assert any(line.startswith("product: smoothing 1: ") for line in said)


# --- tables ---


def entry_of(valid, test, error=0.1, **more):
    machine = {"date": "2026-01-02", "processor": "x", "cores": 2, "device": "cpu", "latentbits": "0.1", "jax": "1"}
    return {
        "fits": 3,
        "seconds": 12.0,
        "cut": "",
        "failed": {},
        "settings": {"smoothing": 1.0},
        "valid": valid,
        "valid_error": error,
        "stop_reason": "converged",
        "machine": machine,
        "scoring_seconds": 0.4,
        "test": test,
        "test_error": error,
        **more,
    }


def result_of(name="dna", stack=True):
    entries = {
        "product": entry_of(-100.0, -100.3),
        "mixture": entry_of(-90.0, -86.0),
        "latent-tree": entry_of(-80, -87.0),
    }
    weights = {"latent-tree": 0.7, "mixture": 0.2, "product": 0.1}
    return {
        "set": name,
        "columns": 180,
        "rows": {"train": 1600, "valid": 400, "test": 1186},
        "budget": 60.0,
        "seed": 0,
        "digest": "",
        "latentbits": "0.1",
        "entries": entries,
        "stack": {"weights": weights, "valid": -79.0, "test": -79.1, "test_error": 0.2} if stack else None,
    }


def test_ranks_are_among_ours_and_what_was_verified():
    lines = {line.model: line for line in table.lines(result_of())}
    order = ["hidden Chow-Liu tree", "stack of all", "mixture", "latent tree", "Chow-Liu tree", "independent bits"]
    assert [lines[name].rank for name in order] == [1, 2, 3, 4, 5, 6]
    assert lines["ID-SPN"].rank is None  # though its number is above that of the mixture
    assert lines["ID-SPN"].kind == "unverified"
    shown = {row[0]: row for row in cells(table.as_table(result_of()))}
    assert {"ID-SPN (unverified)", "Chow-Liu tree (verified)"} <= set(shown)  # the latter measured on the same files
    assert shown["mixture"] == ["mixture", "smoothing 1", "3", "-86.000 ± 0.100", "12"]
    values = [line.test for line in table.lines(result_of())]
    assert values == sorted(values, reverse=True)


def test_ours_is_the_one_that_validation_rows_chose():
    """Not the mixture, which test rows are more probable under."""
    now = table.standing(result_of())
    assert now.one.model == "latent tree"
    assert now.published == ("hidden Chow-Liu tree", -79.05)
    _, one, stack = cells(table.summary([result_of()]))
    assert one == ["dna", "latent tree", "-87.000 ± 0.100", "-79.05", "behind by 7.95 (10.1 %)", "4"]
    assert stack[:2] == ["", "stack of all"]
    assert stack[4] == "within one standard error"
    assert table.counts([result_of()]).endswith("first on 0, within one standard error of it on 1, behind on 0.")


def test_a_set_without_published_numbers():
    now = cells(table.summary([result_of("kdd", stack=False)]))
    assert now[1:] == [["kdd", "latent tree", "-87.000 ± 0.100", "none known", "", "2"]]
    assert table.counts([result_of("kdd")]).startswith("Of 0 sets")
    assert all(line.kind == "ours" for line in table.lines(result_of("kdd")))


def test_published_numbers():
    """Those of the authors' logs are the best that was verified; sources are given for all."""
    assert {one.name for one in PUBLISHED if one.verified} == {"product", "Chow-Liu tree", "hidden Chow-Liu tree"}
    assert best_verified("plants") == ("hidden Chow-Liu tree", -14.26)
    assert best_verified("bbc") is None
    assert all(one.source for one in PUBLISHED)
    assert all(set(one.nats) <= set(sets.SETS) for one in PUBLISHED)


def test_what_it_was_made_on():
    assert table.made_on({"dna": result_of()}) == ["2026-01-02: latentbits 0.1, JAX 1, device cpu, x with 2 cores"]


# --- what is kept ---


def test_results_are_kept_by_set(tmp_path, monkeypatch):
    monkeypatch.setattr(kept_results, "kept_file", lambda: tmp_path / "results.json")
    assert kept_results.in_package() == {}
    kept_results.keep({"dna": result_of()})
    kept_results.keep({"nltcs": result_of("nltcs")})
    changed = result_of() | {"budget": 5.0}
    kept_results.keep({"dna": changed})
    assert kept_results.in_package() == {"nltcs": result_of("nltcs"), "dna": changed}
    assert list(kept_results.in_package()) == ["nltcs", "dna"]  # in the order of the sets
