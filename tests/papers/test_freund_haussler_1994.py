"""Freund & Haussler (1994) repeated: the target, the rows of the tables, the digits, and the files."""

import json
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from latentbits.core.errors import DataError, DownloadError
from latentbits.papers import PAPERS, digits, pages
from latentbits.papers.freund_haussler_1994 import reproduce as freund
from latentbits.papers.freund_haussler_1994 import synthetic, tables, targets, usps
from latentbits.papers.skeleton import Run

LARGE, SMALL = targets.TARGETS["large"], targets.TARGETS["small"]


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """A quick run without digits: what it gives, where it wrote, and what it said."""
    out = tmp_path_factory.mktemp("freund") / "new" / "folder"
    said = []
    results = freund.reproduce(out, quick=True, say=said.append, digits="none")
    return SimpleNamespace(results=results, out=out, said=said)


# --- the target ---


def test_the_target_is_as_the_paper_says():
    assert LARGE.weights.shape == (10, 64)
    assert np.abs(LARGE.weights).max() == 6
    np.testing.assert_allclose(SMALL.weights, LARGE.weights / 7)
    states, p = targets.hidden_distribution(LARGE)
    on = p @ states
    assert ((on > 0.15) & (on < 0.95)).all()
    assert p[states.sum(1) >= 2].sum() > 0.999  # units combine
    small_states, small_p = targets.hidden_distribution(SMALL)
    np.testing.assert_allclose(small_p @ small_states, on, atol=0.02)  # on as often
    with pytest.raises(DataError, match="at most 16"):
        targets.hidden_distribution(targets.Target(np.ones((17, 2)), np.ones(17)))


@pytest.mark.parametrize(
    ("target", "log_loss", "single_bit", "reconstruction"),
    [(LARGE, (0.38, 0.42), (0.07, 0.085), (0.28, 0.31)), (SMALL, (0.93, 0.945), (0.35, 0.39), (0.85, 0.88))],
)
def test_true_errors_are_about_the_papers(target, log_loss, single_bit, reconstruction):
    """In NumPy, by the product form and all hidden states; every bit of every row is tried."""
    weights, theta = target
    states, _ = targets.hidden_distribution(target)
    field = states @ weights
    log_z = np.logaddexp.reduce(states @ theta + np.logaddexp(field, -field).sum(1))
    x = 2.0 * targets.draw(target, 4000, 0).X - 1
    drive = x @ weights.T + theta
    log_weight = np.logaddexp(0, drive).sum(1)
    flipped = np.stack([np.logaddexp(0, drive - 2 * x[:, [j]] * weights[:, j]).sum(1) for j in range(64)], axis=1)
    mistakes = (flipped > log_weight[:, None]) + 0.5 * (flipped == log_weight[:, None])
    cost = np.logaddexp(0, -2 * x * ((drive > 0) @ weights)) / np.log(2)
    for value, (least, most) in (
        (np.mean(log_z - log_weight) / 64 / np.log(2), log_loss),
        (mistakes.mean(), single_bit),
        (cost.mean(), reconstruction),
    ):
        assert least < value < most


def test_rows_have_the_means_of_the_target():
    found = targets.draw(LARGE, 20_000, 1)
    states, p = targets.hidden_distribution(LARGE)
    np.testing.assert_allclose(found.hidden.mean(0), p @ states, atol=0.02)
    np.testing.assert_allclose(2 * found.X.mean(0) - 1, p @ np.tanh(states @ LARGE.weights), atol=0.03)
    assert (targets.draw(LARGE, 5, 3).X == targets.draw(LARGE, 5, 3).X).all()


# --- the tables ---


@pytest.mark.slow
def test_findings_of_a_quick_run_hold(quick):
    """All of expected.json but what needs the digits, or more rows and epochs than a quick run has."""
    needs_more = {"default_near", "default_behind", "pursuit_first", "pursuit_fast", "small_both", "small_order"}
    found = quick.results["relations"]
    asked = {name for name in pages.expected(freund.__package__)["relations"] if not name.startswith("digits")}
    assert set(found) == asked
    failed = {name: one["measured"] for name, one in found.items() if not one["within"]}
    assert set(failed) <= needs_more, failed


@pytest.mark.slow
def test_every_method_has_every_measure(quick):
    for name, one in quick.results["synthetic"].items():
        plan = getattr(freund.QUICK, name)
        assert list(one["methods"]) == [*synthetic.method_names(plan), "true"]
        for found in one["methods"].values():
            for measure in synthetic.MEASURES:
                assert [len(found[measure][part]) for part in ("train", "test")] == [plan.n_seeds] * 2
                assert 0 < found[measure]["test"][0] < 1.3
        assert all(len(found["words"]) <= 10 for found in one["matches"].values())


def test_the_papers_methods_have_no_input_biases():
    plan = freund.QUICK.large
    for method in synthetic.method_names(plan):
        settings = synthetic.settings_of(method, plan)
        assert settings.get("input_bias", True) is (method == "default")
    assert synthetic.settings_of("pursuit+short", plan)["max_iter"] == plan.short
    assert "pursuit+short" not in synthetic.method_names(freund.QUICK.small)


def test_mean_and_standard_error():
    assert tables.with_error([0.1, 0.3], 2) == "0.20 ± 0.10"


# --- digits ---


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """The small digits, few units, without the learner that samples: numbers and files."""
    notes = []
    images = usps.load_digits("bundled", notes)
    setup = usps.Setup(n_units=2, n_train=150, n_test=100, n_seeds=1, methods=("product", "mixture", "pursuit"))
    return images, setup, *usps.run(images, setup, lambda text: None)


@pytest.mark.slow
def test_digits(small):
    images, setup, numbers, models, train = small
    assert images.title == "stand-in: digits of scikit-learn, 8 x 8"
    assert train.shape == (150, 64)
    alone, mixture, pursuit = (numbers["results"][name] for name in setup.methods)
    for measure in usps.MEASURES:
        assert mixture[measure]["test"][0] < alone[measure]["test"][0]
        assert 0 < pursuit[measure]["test"][0] < 1  # without input biases two units do not describe blank borders
    assert numbers["results"]["pursuit"]["n_units"] == [len(models["pursuit"].components_)]
    other_train, other_test = usps.split(images.X, setup, 1)
    assert (other_train != train).any()
    assert len(other_test) == 100


@pytest.mark.slow
def test_curves_end_where_the_fits_do(small):
    images, setup, numbers, models, _ = small
    parts = usps.split(images.X, setup, 0)
    found = usps.pursuit_curve(models["pursuit"], parts, 2, 0)
    assert found["steps"] == [usps.EM_STEPS, usps.EM_STEPS * len(models["pursuit"].components_)]
    for place, part in enumerate(("train", "test")):
        for measure in usps.MEASURES:
            last = found[measure][place][-1]
            assert last == pytest.approx(numbers["results"]["pursuit"][measure][part][0])
    grown = usps.mixture_curve(2, parts, 0, (2, 20))
    assert grown["steps"] == [2, 20, 22, 40]
    assert grown["doublings"] == {"0": 1, "20": 2}
    assert grown["reconstruction"][0][-1] < grown["reconstruction"][0][0]


@pytest.mark.slow
def test_figures_of_digits(small, tmp_path):
    images, _, _, models, train = small
    curve = {"steps": [1, 2], "single_bit": [[0.3, 0.2]] * 2, "reconstruction": [[0.8, 0.7]] * 2, "doublings": {"1": 2}}
    run = Run(None, tmp_path)
    freund._draw_digits(images, models, {"Mixture": curve, "Pursuit": curve}, train, run)
    files = run.figures
    assert list(files) == ["4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "4.9", "section 2.4"]
    assert set(files) <= set(tables.CAPTIONS)
    assert all((tmp_path / name).stat().st_size > 3000 for names in files.values() for name in names)


def test_components_of_a_mixture_as_weights():
    model = SimpleNamespace(means_=np.array([[0.5, 0.0], [0.9, 1.0]]), weights_=np.array([0.2, 0.8]))
    found = usps.mixture_weights(model)
    np.testing.assert_allclose(1 / (1 + np.exp(-2 * found)), [[0.9, 0.999], [0.5, 0.001]])


def test_digits_that_cannot_be_had_are_told(monkeypatch):
    def without_network(name):
        if name == "usps":
            raise DownloadError("no network")
        return load(name)

    load = digits.load_dataset
    monkeypatch.setattr(digits, "load_dataset", without_network)
    notes = []
    found = usps.load_digits("usps", notes)
    assert not found.is_usps
    assert found.X.shape == (1797, 64)
    assert "no network" in notes[0]
    assert usps.load_digits("none", notes) is None


@pytest.mark.real_data
def test_digits_of_usps(real_data, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    found = usps.load_digits("usps", [])
    assert (found.X.shape, found.is_usps) == ((9298, 256), True)
    train, test = usps.split(found.X, usps.Setup(), 0)
    product = usps.fitted(usps.model_of("product", 1, 0), train).model
    assert usps.errors_of(product, test, 0)["single_bit"] == pytest.approx(0.238, abs=0.005)


# --- files ---


@pytest.mark.slow
def test_files(quick):
    assert json.loads((quick.out / "results.json").read_text()) == quick.results
    assert quick.results["notes"] == ["The digits were left out."]
    assert sorted(quick.results["figures"]) == ["2.2", "4.1", "4.2"]
    for names in quick.results["figures"].values():
        assert [name.rpartition(".")[2] for name in names] == ["png", "svg"]
        assert all((quick.out / name).stat().st_size > 5000 for name in names)
    assert any("seed 0" in line for line in quick.said)
    assert "freund_haussler_1994" in PAPERS


@pytest.mark.slow
def test_page(quick):
    page = (quick.out / "results.md").read_text()
    assert page == tables.report(quick.results, pages.expected(freund.__package__))
    assert "A quick run" in page
    assert "(0.405)" in page  # the paper's number beside ours
    assert str(quick.out.parent) not in page


@pytest.mark.slow
def test_page_of_digits(quick, small):
    """They have a part of the page; without them there is none."""
    page = tables.report({**quick.results, "digits": small[2]}, pages.expected(freund.__package__))
    assert page.count("\n## ") == (quick.out / "results.md").read_text().count("\n## ") + 1
    assert "stand-in: digits of scikit-learn, 8 x 8, 150 + 100 rows" in page
    assert "(0.26)" not in page  # the paper's digits are others


def test_number_of_seeds_is_an_option():
    plan = freund._seeded(freund.Plan(), 2)
    assert (plan.large.n_seeds, plan.small.n_seeds, plan.digits.n_seeds) == (2, 2, 2)
    assert freund._seeded(freund.Plan(), None).digits.n_seeds == 10
