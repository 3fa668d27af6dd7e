"""Henniges et al. (2010) repeated: when bars count as found, the tables, natural images, and the files."""

from math import comb
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import sparse_coding

from latentbits.core.errors import DownloadError
from latentbits.data.toys import linear_bars
from latentbits.figures.binary_sparse_coding.arrays import summarize_fields
from latentbits.models.binary_sparse_coding import equations, recipes
from latentbits.models.binary_sparse_coding.equations import Theta
from latentbits.models.binary_sparse_coding.recipes import HENNIGES, recipe_of
from latentbits.papers import pages, summary
from latentbits.papers.henniges_2010 import accuracy, bars, figures, images, tables
from latentbits.papers.henniges_2010 import reproduce as henniges
from latentbits.papers.skeleton import Run

TINY = henniges.Plan(
    n_rows=500,
    settings=(bars.Setting(500, 5.0, {"paper": 2, "renewal": 1}),),
    n_compared=(200, 2),
    timed=False,
    patches=images.Setup(6, 300, (images.Fit(6, 2, 3),), (), cut=(2, 4), max_iter=6),
)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """A run as small as can be, on images made of stripes: what it gives, where it wrote, and what it said."""
    out = tmp_path_factory.mktemp("henniges") / "new" / "folder"
    y, x = np.mgrid[:60, :80]
    stripes = np.stack([128 + 100 * np.sin(0.7 * x + 0.3 * y), 128 + 100 * np.sin(0.2 * x - 0.6 * y)])
    said = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(henniges, "QUICK", TINY)
        patch.setattr(henniges, "START_N_ACTIVE", (5.0,))  # each is compiled
        patch.setattr(images, "load_dataset", lambda name: SimpleNamespace(X=stripes))
        results = henniges.reproduce(out, quick=True, say=said.append)
    return SimpleNamespace(results=results, out=out, said=said)


# --- bars ---


def test_bars_are_found_where_each_has_a_component_of_its_own():
    truth = linear_bars(1, random_state=0).components
    shuffled = truth[::-1] + np.random.default_rng(0).normal(size=truth.shape)
    assert bars.least_cosine(shuffled, truth) > bars.SIMILAR_COSINE
    merged = truth.copy()
    merged[0] = merged[1] = truth[0] + truth[1]
    assert bars.least_cosine(merged, truth) == -1
    assert bars.least_cosine(-truth, truth) < bars.SIMILAR_COSINE  # a negative bar is no bar
    lost = truth.copy()
    lost[3] = 0
    assert bars.least_cosine(lost, truth) < bars.SIMILAR_COSINE
    found = {"least_cosine": [0.99, -1.0, 0.5]}
    assert bars.is_recovered(found).tolist() == [True, False, False]


@pytest.mark.slow("a run of the paper's recipe")
def test_a_run_of_the_papers_recipe():
    toy = linear_bars(500, random_state=1)
    found = bars.trace(toy, 5.0, seed=1)
    assert found.recovered
    assert found.components.shape[1:] == (10, 25)
    assert len(found.components) == len(found.sparseness) == len(found.noise) == 61  # passes that rank are left out
    assert (np.diff(found.noise) != 0).all()
    np.testing.assert_allclose([found.sparseness[0], found.sparseness[-1], found.noise[-1]], [5, 2, 2], atol=0.2)
    cosine = bars.cosines(found.components[-1], toy.components)
    assert (cosine.argmax(0) == np.arange(10)).all()  # in the order of the true ones


def test_trials_share_their_rows_and_differ_from_one_another():
    one, other = (bars.data_of(50, trial).X for trial in (3, 3))
    np.testing.assert_array_equal(one, other)
    assert (one != bars.data_of(50, 4).X).any()


def test_recipes_differ_in_what_they_are_named_after():
    assert len(bars.ALTERED) == 9  # each of four changes alone, each left out, and all
    for name, options in bars.ALTERED.items():
        changed = {key for key, value in options["recipe"].items() if value != bars.PAPER["recipe"][key]}
        assert changed == {key for change in name.split("+") for key in bars.OURS[change]}
    assert recipe_of(bars.PAPER["recipe"]) == HENNIGES
    ours = recipes.OURS._asdict()
    assert all(ours[key] == value for change in bars.OURS.values() for key, value in change.items())


@pytest.mark.slow("a small run with images")
def test_trials_are_kept_block_by_block(tiny, monkeypatch):
    runs = tiny.out / "runs"
    assert len(list(runs.glob("bars_500_5_paper_0-*.json"))) == 1

    def again(*args, **more):
        raise AssertionError("what is kept is not learned again")

    monkeypatch.setattr(bars, "learn", again)
    monkeypatch.setattr(henniges, "QUICK", TINY)
    for part in henniges.trials(tiny.out, quick=True):
        part()
    kept = bars.trials(runs, TINY.settings[0], "paper")
    assert bars.summary(kept) == tiny.results["bars"]["lines"]["500_5"]["recipes"]["paper"]
    with pytest.raises(AssertionError, match="not learned again"):
        bars.block(runs, 500, 5.0, "paper", 0, 3)  # another block


def test_every_trial_of_the_plan_is_in_a_block():
    plan, blocks = henniges.Plan(), [part.args[1:] for part in henniges.trials(Path("out")) if part.func is bars.block]
    assert len(set(blocks)) == len(blocks)
    for setting in plan.settings:
        for recipe, n in setting.n_trials.items():
            mine = [block[3:] for block in blocks if block[:3] == (setting.n_rows, setting.start, recipe)]
            assert sorted(first + i for first, size in mine for i in range(size)) == list(range(n))
    assert [setting.n_trials["paper"] for setting in plan.settings[:4]] == [1000] * 4
    assert plan.settings[0].n_trials["about"] == 1000  # (7) both ways, on the same trials


def test_what_a_change_does_is_counted_trial_by_trial():
    def recipe(flags):
        numbers = {name: [2.0] * len(flags) for name in ("sparseness", "noise", "first_noise", "seconds", "drawn")}
        return {"least_cosine": [0.99 if flag else 0.5 for flag in flags], **numbers}

    n = henniges.ENOUGH_TRIALS
    half = [i % 2 == 0 for i in range(n)]
    recipes = {"paper": recipe([True] * n * 2), "noise": recipe(half)}
    found = henniges._of_changes({"a": {"recipes": recipes}})
    assert set(found) == {"noise_alone"}
    assert found["noise_alone"].value == -0.5
    assert found["noise_alone"].n == n
    same = henniges._of_changes({"a": {"recipes": {"paper": recipe(half * 2), "noise": recipe(half)}}})
    assert same["noise_alone"][:2] == (0.0, 0.0)  # the same trials fail: less is told by the two shares alone


# --- truncated expectations ---


def test_truncated_expectations_are_those_of_the_equations(monkeypatch):
    """(3) with (4) and (5), and the exact ones, for rows of 5 x 5 bars and true parameters."""
    toy = linear_bars(30, random_state=1)
    theta = Theta(toy.components.T, accuracy.NOISE, accuracy.PRIOR)
    slow = [sparse_coding.infer_all(toy.X, theta, *size) for size in ((3, 5), ())]
    off = [
        max(np.abs(few.mean - exact.mean).max(), np.abs(few.second - exact.second).max())
        for few, exact in zip(*slow, strict=True)
    ]
    monkeypatch.setattr(accuracy, "linear_bars", lambda *args, **more: toy)
    found = accuracy._accuracy(30, 0, 3)
    assert found["close"] == np.mean(np.array(off) < accuracy.CLOSE_ERROR)
    order = np.argsort([-few.log_evidence for few in slow[0]])[: round(30 * 0.8791)]
    assert found["close_within"] == np.mean(np.array(off)[order] < accuracy.CLOSE_ERROR)
    assert 0 < found["close"] < 1


def test_an_iteration_with_gamma_of_all_causes_is_one_of_exact_em(monkeypatch):
    assert accuracy.exact_em(60) < 1e-9  # (6) has a ridge of 1e-10
    right = equations.new_sigma
    monkeypatch.setattr(equations, "new_sigma", lambda *args: right(*args) / 1.001)
    assert accuracy.exact_em(60) == pytest.approx(1e-3, rel=0.01)


def test_states_are_counted_by_the_binomial_numbers():
    for gamma in (2, 3, 4):
        counts = accuracy.counted(gamma)
        assert counts == [sum(comb(n, k) for k in range(gamma + 1)) for n in accuracy.N_CANDIDATES]
        assert gamma - 0.4 < accuracy.exponent(accuracy.N_CANDIDATES, counts) < gamma


@pytest.mark.slow("times of several sizes")
def test_times_are_of_every_size(tmp_path):
    seconds = accuracy.timed(tmp_path, (8, 9), n_rows=20)
    assert len(seconds) == 2
    assert min(seconds) >= 0
    assert accuracy.timed(tmp_path, (8, 9), n_rows=20) == seconds  # kept


# --- natural images ---


def test_images_that_cannot_be_had_are_told(monkeypatch):
    def without(name):
        raise DownloadError("no folder")

    monkeypatch.setattr(images, "load_dataset", without)
    notes = []
    assert images.load_images("bsds_nature", notes) is None
    assert "no folder" in notes[0]
    assert "LATENTBITS_DATA" in notes[0]
    assert images.load_images("none", notes) is None


def test_scale_of_the_experiment():
    notes = []
    assert henniges._scale(images.QUICK, True, notes) is images.QUICK
    assert henniges._scale(None, True, notes) is images.FULL
    assert henniges._scale(None, False, notes) is images.SMALL
    assert notes == []
    assert images.FULL[:2] == (26, 200_000)
    assert images.FULL.fits[0] == (700, 8, 10, "paper")
    assert images.FULL[4:] == ((66, 100), 200)


@pytest.mark.slow("a small run with images")
def test_fields_of_tiny_images(tiny):
    found = tiny.results["images"]
    assert list(tiny.results["figures"]) == ["1", "2"]
    assert any("2 trials" in line for line in tiny.said)
    assert list(found["fits"]) == ["6_2_3_paper"]
    for one in found["fits"].values():
        assert len(one["sparseness_history"]) == len(one["noise_history"]) == 7
        assert 0 < one["sparseness"] < 6
        assert 0 < one["noise"] < 1
    assert not found["full_scale"]
    assert "images_sparseness" not in tiny.results["relations"]  # only the paper's scale is held to its number


def test_at_full_scale_there_is_an_image_of_the_papers_collection(tmp_path, monkeypatch):
    asked = []

    def run(pictures, name, setup, folder, say):
        asked.append((name, setup.fits))
        return {"fits": {fit.key: fit._asdict() for fit in setup.fits}}, {}

    monkeypatch.setattr(images, "run", run)
    monkeypatch.setattr(images, "load_dataset", lambda name: SimpleNamespace(X=np.zeros((1, 9, 9))))
    there = Run(henniges.Plan(), tmp_path)
    found = henniges._nearest(images.FULL, there)
    assert found["name"] == "vanhateren_one"
    assert asked == [("vanhateren_one", images.FULL.nearest)]
    assert [one["n_causes"] for one in found["fits"].values()][:2] == [700, 200]
    assert {one["recipe"] for one in found["fits"].values()} == {"paper"}
    monkeypatch.setattr(images, "load_images", lambda name, notes: None)
    assert henniges._nearest(images.FULL, there) is None
    assert "left out" in there.notes[0]


def test_fields_are_alike_wherever_they_lie():
    rng = np.random.default_rng(0)
    field = np.zeros((3, 9, 9))
    field[0, 1:4, 2:6] = wave = rng.normal(size=(3, 4))
    field[1, 5:8, 4:8] = 7 * wave
    field[2, 3:6, 3:7] = -wave
    flat = field.reshape(3, -1)
    np.testing.assert_allclose(images.likeness(flat[:1], flat[1:2], (9, 9)), 1)
    shifts = [
        np.sum(wave * np.roll(np.pad(wave, 4), (i, j), (0, 1))[4:7, 4:8]) for i in range(-3, 4) for j in range(-4, 5)
    ]
    np.testing.assert_allclose(images.likeness(flat[2:], flat[:2], (9, 9)), -min(shifts) / np.sum(wave**2))


@pytest.mark.slow("figures of 700 causes")
def test_figures_of_natural_images_are_small_enough_to_be_kept(tmp_path):
    """Fields as wide as the paper's, with noise, which is what does not compress."""
    rng, (y, x) = np.random.default_rng(0), np.mgrid[:26, :26]
    turn, place, size = rng.uniform(0, np.pi, 700), rng.uniform(6, 20, (700, 2)), rng.uniform(1.5, 4, 700)
    along = [(x - u) * np.cos(t) + (y - v) * np.sin(t) for t, (u, v) in zip(turn, place)]
    apart = [(x - u) ** 2 + (y - v) ** 2 for u, v in place]
    waves = [np.exp(-d / (2 * s**2)) * np.cos(a) for a, d, s in zip(along, apart, size)]
    W = np.array(waves).reshape(700, -1) + 0.1 * rng.normal(size=(700, 676))
    course = np.linspace(1, 7, 201)
    for n in (700, 200):
        drawn = figures.figure_2(images.Fields(W[:n], summarize_fields(W[:n], (26, 26)), course, course), images.FULL)
        (picture, _) = pages.save(drawn, tmp_path, f"figure_{n}")
        assert len(summary._smaller(tmp_path / picture)) < 0.8 * summary.LARGEST_FIGURE_BYTES


# --- files ---


def test_the_page_tells_which_run_of_figure_1_failed():
    runs = {"from 5": {"recovered": True}, "from 1": {"recovered": False}}
    said = tables._course({"drawn": 2.0, "runs": runs})
    assert said.endswith("2.00 active bars on average; from 5 all bars were found, from 1 a bar was missed.")


def test_tables_of_bars():
    def recipe(n_found, n):
        numbers = {name: [2.0] * n for name in ("sparseness", "noise", "seconds", "drawn")}
        return bars.summary({"least_cosine": [0.99] * n_found + [-1.0] * (n - n_found), **numbers})

    assert recipe(0, 5)["noise"] is None
    assert recipe(3, 5)["recovered"] == 3
    line = {"n_rows": 1000, "start": 5.0, "recipes": {"paper": recipe(978, 1000), "ours": recipe(0, 5)}}
    table = tables._bars({"1000_5": line}, pages.expected(henniges.__package__)["bars"])
    assert "978 of 1000, 97.8% ± 0.5% (97.8%) | 0.0 |" in table
    counted = {name: {"1000_5": 150} for name in ("paper", *bars.ALTERED)}
    page = tables._changes({"n": 200, "lines": ["1000_5"], "recovered": counted}, {"1000_5": line})
    assert page[1].count("75.0% ± 3.1%") == 2 * 10
    assert tables._changes({"n": 0, "lines": [], "recovered": {}}, {}) == []


def test_every_finding_is_measured():
    """Keys of expected.json are those of the experiments."""
    numbers = ("sparseness", "noise", "first_noise", "seconds", "drawn")
    recipe = {"least_cosine": [0.99] * 3, **{name: [1.9, 2.0, 2.1] for name in numbers}}
    recipe = {name: henniges.ENOUGH_TRIALS // 3 * values + values for name, values in recipe.items()}
    table = {one.key: {"recipes": dict.fromkeys(one.n_trials, recipe)} for one in henniges.Plan().settings}
    measures = {"n_globular": 9, "selectivity": 0.8, "localisation": 0.5, "sparseness": 7.0}
    patches = {"fits": {one.key: {**one._asdict(), **measures} for one in images.FULL.fits}, "full_scale": True}
    patches["nearest"] = {"fits": {one.key: {**one._asdict(), **measures} for one in images.FULL.nearest}}
    setup = images.FULL._replace(side=3)
    fields = {fit.key: images.Fields(np.eye(9), *[None] * 3) for fit in setup.fits}
    measured = {**henniges._of_bars(table), **henniges._of_images(patches, fields, setup)}
    assert measured["images_similar"].value == 1
    measured |= {"accurate": 1, "accurate_within": 1, "accurate_more": 1, "exact_step": 0, "time_causes": 1}
    measured |= {f"states_{gamma}": 1 for gamma in (2, 3, 4)}
    held_to = pages.expected(henniges.__package__)
    assert set(held_to["relations"]) <= set(measured)
    few = {name: values[:3] for name, values in recipe.items()}
    measured = henniges._of_bars({"1000_5": {"recipes": {"paper": few, "ours": few}}})
    assert set(measured) == {"sparseness_1000_5", "noise_1000_5", "first_noise_1000_5"}  # shares need many trials


def test_the_papers_ranges_follow_from_its_trials():
    """Two binomial errors, with the error of rounding to a per cent where there is no count."""
    held_to = pages.expected(henniges.__package__)
    for key, one in held_to["bars"].items():
        share, rounded = one["share"], 0.0 if key == "1000_5" else 0.01
        error = np.sqrt(share * (1 - share) / one["n_trials"] + rounded**2 / 12)
        paper = held_to["relations"][f"recovered_{key}"]["paper"]
        np.testing.assert_allclose([paper["least"], paper["most"]], [share - 2 * error, share + 2 * error], atol=6e-4)
