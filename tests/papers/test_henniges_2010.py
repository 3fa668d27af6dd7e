"""Henniges et al. (2010) repeated: when bars count as found, the tables, natural images, and the files."""

import json
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from latentbits.core.errors import DownloadError
from latentbits.data.toys import linear_bars
from latentbits.papers import PAPERS, pages
from latentbits.papers.henniges_2010 import bars, images, tables
from latentbits.papers.henniges_2010 import reproduce as henniges

TINY = henniges.Plan(
    n_rows=500,
    settings=(bars.Setting(500, 5.0),),
    n_trials=2,
    patches=images.Setup(6, 300, (6,), max_active=2, n_candidates=3, cut=(2, 4), max_iter=6),
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
        patch.setattr(henniges, "STARTS", (5.0,))  # every start is compiled anew
        patch.setattr(images, "load_dataset", lambda name: SimpleNamespace(X=stripes))
        results = henniges.reproduce(out, quick=True, say=said.append)
    return SimpleNamespace(results=results, out=out, said=said)


# --- bars ---


def test_bars_are_found_where_each_has_a_component_of_its_own():
    truth = linear_bars(1, random_state=0).components
    shuffled = truth[::-1] + np.random.default_rng(0).normal(size=truth.shape)
    assert bars.least_cosine(shuffled, truth) > bars.SIMILAR
    merged = truth.copy()
    merged[0] = merged[1] = truth[0] + truth[1]
    assert bars.least_cosine(merged, truth) == -1
    assert bars.least_cosine(-truth, truth) < bars.SIMILAR  # a negative bar is no bar
    lost = truth.copy()
    lost[3] = 0
    assert bars.least_cosine(lost, truth) < bars.SIMILAR
    found = {"least_cosine": [0.99, -1.0, 0.5]}
    assert bars.is_recovered(found).tolist() == [True, False, False]


@pytest.mark.slow
def test_a_run_of_the_papers_recipe():
    toy = linear_bars(500, random_state=1)
    found = bars.trace(toy, 5.0, seed=1)
    assert found.recovered
    assert found.components.shape[1:] == (10, 25)
    assert len(found.components) == len(found.sparseness) == len(found.noise)
    np.testing.assert_allclose([found.sparseness[0], found.sparseness[-1], found.noise[-1]], [5, 2, 2], atol=0.2)
    cosine = bars.cosines(found.components[-1], toy.components)
    assert (cosine.argmax(0) == np.arange(10)).all()  # in the order of the true ones


def test_trials_share_their_rows_and_differ_from_one_another():
    one, other = (bars.data_of(bars.Setting(50, start), 3).X for start in (5.0, 1.0))
    np.testing.assert_array_equal(one, other)
    assert (one != bars.data_of(bars.Setting(50, 5.0), 4).X).any()


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
    assert images.FULL[:5] == (26, 200_000, (700, 200), 8, 10)


@pytest.mark.slow
def test_fields_of_tiny_images(tiny):
    found = tiny.results["images"]
    assert list(found["fits"]) == ["6"]
    for one in found["fits"].values():
        assert len(one["sparseness_history"]) == len(one["noise_history"])
        assert 0 < one["sparseness"] < 6
        assert 0 < one["noise"] < 1
    assert not found["full_scale"]
    assert "images_sparseness" not in tiny.results["relations"]  # only the paper's scale is held to its number


# --- files ---


@pytest.mark.slow
def test_files(tiny):
    assert json.loads((tiny.out / "results.json").read_text()) == tiny.results
    assert list(tiny.results["figures"]) == ["1", "2"]
    for names in tiny.results["figures"].values():
        assert [name.rpartition(".")[2] for name in names] == ["png", "svg"]
        assert all((tiny.out / name).stat().st_size > 5000 for name in names)
    assert any("trial 1 of 2" in line for line in tiny.said)
    assert "henniges_2010" in PAPERS


@pytest.mark.slow
def test_page(tiny):
    held_to = pages.expected(henniges.__package__)
    page = (tiny.out / "results.md").read_text()
    assert page == tables.report(tiny.results, held_to)
    assert "A quick run" in page
    assert str(tiny.out.parent) not in page
    paper = {**tiny.results["bars"]["500_5"], "n_rows": 1000}
    assert "(97.8%)" in tables.report({**tiny.results, "bars": {"1000_5": paper}, "images": None}, held_to)


def test_every_finding_is_measured():
    """Keys of expected.json are those of the experiments."""
    recipe = {"least_cosine": [0.99] * 3, "sparseness": [2.0] * 3, "noise": [2.0] * 3, "seconds": [1.0] * 3}
    recipe = {name: henniges.ENOUGH // 3 * values + values for name, values in recipe.items()}
    table = {one.key: {"recipes": {"paper": recipe, "ours": recipe}} for one in henniges.Plan().settings}
    fit = {"n_globular": 9, "selectivity": 0.8, "localisation": 0.5, "sparseness": 7.0}
    patches = {"fits": {"700": fit, "200": fit}, "full_scale": True}
    measured = {**henniges._of_bars(table), **henniges._of_images(patches)}
    assert set(pages.expected(henniges.__package__)["relations"]) <= set(measured)
    few = {name: values[:3] for name, values in recipe.items()}
    measured = henniges._of_bars({"1000_5": {"recipes": {"paper": few, "ours": few}}})
    assert set(measured) == {"sparseness_1000_5", "noise_1000_5"}  # shares need many trials
