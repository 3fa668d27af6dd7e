"""Freund & Haussler (1994) repeated: the target, the rows of the tables, the digits, and the files."""

import json
import pickle
from functools import partial
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from kept_runs import follows

from latentbits import BernoulliMixture
from latentbits.core.errors import DataError, DownloadError
from latentbits.figures.combination_machine.arrays import match_units, principal_components
from latentbits.papers import digits, pages, summary
from latentbits.papers.freund_haussler_1994 import findings, synthetic, tables, targets, theory, usps
from latentbits.papers.freund_haussler_1994 import reproduce as freund
from latentbits.papers.skeleton import Run

LARGE, SMALL = targets.TARGETS["large"], targets.TARGETS["small"]


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


def test_findings_follow_from_the_numbers_of_the_kept_run():
    """Their names are those of expected.json: nothing is held to a range that nothing measures."""
    kept = summary.in_package("freund_haussler_1994")
    measured = {
        **findings.of_theory(kept["theory"]["seeds"]),
        **findings.of_synthetic(**kept["synthetic"]),
        **findings.of_digits(kept["digits"]),
    }
    follows(measured, "freund_haussler_1994")
    assert set(measured) > findings.QUICK


LOSSES = ("machine", "pursuit", "mixture", "mixture, smoothed")


def test_errors_of_log_z_are_in_those_of_a_likelihood():
    def seed(loss):
        own = {"error": 0.03, **{name: {"train": 0.5, "test": 0.5} for name in LOSSES}}
        return {"8": {**own, "machine": {"train": loss, "test": 0.5}}}

    with pytest.raises(ValueError, match="zip"):  # two sizes are asked for
        findings._likelihoods([seed(0.4)])
    found = findings._likelihoods([{**seed(loss), "9": seed(loss)["8"]} for loss in (0.3, 0.4)])
    assert found["likelihood_summed_train"].value == pytest.approx(0.15)
    assert found["likelihood_all_train"].error == pytest.approx(np.hypot(0.05, 0.03))
    assert findings._likelihoods([None]) == {}


def test_the_papers_methods_have_no_input_biases():
    plan = freund.Plan().large
    for method in synthetic.method_names(plan):
        settings = [synthetic.settings_of(method, plan, rate) for rate in synthetic.rates_of(method, plan)]
        assert [one.get("learning_rate") for one in settings] in ([None], list(synthetic.RATES))
        settings = settings[0]
        assert settings.get("input_bias", True) is (method == "default")
        assert isinstance(settings.get("recipe"), dict) is method.startswith(("starts", "largest"))
    assert synthetic.settings_of("pursuit+short", plan)["max_iter"] == plan.short
    assert "pursuit+short" not in synthetic.method_names(freund.QUICK.small)


def test_each_method_has_the_rate_with_the_least_training_loss():
    """The mean over seeds counts, and a rate at which learning failed comes last."""

    def fit(loss):
        return {"log_loss": {"train": loss, "test": 0.0}}

    one = synthetic.Experiment("few", "large", 1, None, ours=(), rates=(0.05, 0.1, 0.5, 1.0))
    losses = {"0.05": (0.3, 0.5), "0.1": (0.5, 0.2), "0.5": (0.2, np.nan), "1.0": (0.6, 0.6)}
    seeds = [
        {"fits": {"gradient": by, "pursuit+gradient": by, "pursuit": {"None": fit(0.7)}}}
        for by in ({rate: fit(loss[seed]) for rate, loss in losses.items()} for seed in (0, 1))
    ]
    found = synthetic.chosen_rates(one, seeds)
    assert list(found["gradient"]) == ["0.1", "0.05", "1.0", "0.5"]
    assert found["gradient"]["0.1"] == pytest.approx(0.35)
    assert list(found["pursuit"]) == ["None"]


# --- the largest terms, and what weights are ---


def test_terms_that_are_found(monkeypatch):
    """Of the target, whose terms can all be listed."""
    for name, static in (("exact_moments", (0,)), ("largest_moments", (0, 2))):  # each as one program
        monkeypatch.setattr(synthetic, name, jax.jit(getattr(synthetic, name), static_argnums=static))
    found = synthetic.largest_of(synthetic.true_machine(LARGE), 128)
    _, p = targets.hidden_distribution(LARGE)
    assert found["best"] == pytest.approx(np.sort(p)[::-1][:128].sum())
    assert found["share"] == pytest.approx(found["best"])
    assert 0 < found["error"] < 0.01
    small = synthetic.largest_of(synthetic.true_machine(SMALL), 128)
    assert small["share"] < 0.7 < 0.99 < found["share"]
    assert small["error"] > 0.1


def test_principal_components_find_fewer_units():
    """A unit of the target is found as it is, negated, or not at all."""
    words = synthetic.in_words(match_units(np.vstack([LARGE.weights[:3], -LARGE.weights[3:]]), LARGE.weights))
    assert (words["n_found"], words["n_single"], words["n_merged"], words["n_none"]) == (10, 10, 0, 0)
    found = principal_components(targets.draw(LARGE, 1000, 0).X, 10).components
    assert synthetic.in_words(match_units(found, LARGE.weights))["n_found"] < 5


def test_two_peaks():
    rng = np.random.default_rng(0)
    assert synthetic.peaks_apart(rng.normal(size=1000) + 8.0 * (rng.random(1000) < 0.3)) == pytest.approx(8, abs=0.5)
    assert synthetic.peaks_apart(np.ones(10)) == 0
    assert synthetic.peaks_apart(np.repeat([0.0, 1.0], [95, 5])) > 10  # quantiles alone would be one place


def test_area_and_likeness():
    """A stroke is small and like no digit; a mean image is large and like its digit."""
    labels = np.repeat([0, 1], 50)
    X = np.where(labels[:, None] == 0, [1, 1, 0, 0, 1, 0], [0, 1, 1, 1, 0, 0])
    image, stroke = 2.0 * X[:1] - 1, np.eye(6)[:1]
    assert usps.area(image) == 1
    assert usps.area(stroke) == pytest.approx(1 / 6)
    assert usps.likeness(image, X, labels) == pytest.approx(1)
    assert usps.likeness(stroke, X, labels) == pytest.approx(1 / np.sqrt(6))


def test_single_bits_by_the_second_order():
    """Pairs of equal bits are seen by the covariance; the parity of three bits is not."""
    rng = np.random.default_rng(0)
    pairs = np.repeat(rng.random((400, 2)) < 0.5, 2, axis=1).astype(np.uint8)
    assert usps.second_order_error(pairs[:200], pairs[200:], 2, 0, 4) == 0
    two = rng.random((4000, 2)) < 0.5
    parity = np.column_stack([two, two[:, 0] ^ two[:, 1]]).astype(np.uint8)
    assert usps.second_order_error(parity[:2000], parity[2000:], 1, 0, 3) > 0.4


def test_the_spike_after_a_doubling():
    curve = {"steps": [0, 20, 20, 40, 40, 60], "doublings": {"0": 1, "20": 2, "40": 4}}
    found = findings._spike({**curve, "reconstruction": [[0.8, 0.7, 0.75, 0.6, 0.63, 0.5]]})
    assert found.value == pytest.approx(0.04)


# --- theory ---


@pytest.mark.slow("many small machines")
def test_theory_of_one_seed():
    found = theory.one_seed(theory.Theory(n_bits=3, sizes=(8, 32)), 0)
    assert all(0 < ratio < 1 for ratio in found["universality"].values())
    assert found["order"] == pytest.approx(4, abs=0.1)
    assert list(found["projections"]) == ["8", "32"]
    assert found["exception"] > 0.3
    assert found["one_active"] < 1e-9
    assert found["orthogonal"]["corrected"] == 1 > found["orthogonal"]["printed"]
    assert json.loads(json.dumps(found)) == found


def test_distance_from_the_normal_of_a_wrong_width():
    rng = np.random.default_rng(0)
    mean = rng.uniform(-1, 1, 900)
    assert theory.distance_from_normal(mean, np.sqrt(2 / 3), rng) < 0.06
    assert theory.distance_from_normal(mean, 2.0, rng) > 0.15


# --- tasks ---


def test_tasks_need_nothing_of_each_other():
    """Each has a name of its own, and can be sent to a process."""
    images = usps.Digits(np.zeros((9, 4), np.uint8), np.zeros(9, int), (2, 2), False)
    tasks = freund.tasks_of(freund.Plan(), images)
    assert len({task.name for task in tasks}) == len(tasks) == 10 + 1 + 20 + 20 + 20 + 50
    assert pickle.loads(pickle.dumps(tasks[0])).compute is usps.one_seed
    assert len(freund.tasks_of(freund.Plan(), None)) == 110


@pytest.mark.slow("trials, twice")
def test_trials_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(freund, "QUICK", freund.QUICK._replace(theory=theory.Theory(3, (8,), 2)))
    trials = freund.trials(tmp_path, quick=True, digits="none")[-2:]
    first = [pickle.loads(pickle.dumps(trial))() for trial in trials]
    assert first[0] != first[1]
    kept = {path: path.stat().st_mtime_ns for path in (tmp_path / "runs").iterdir()}
    assert sorted(path.name[:8] for path in kept) == ["theory_0", "theory_1"]
    assert [trial() for trial in trials] == first
    assert {path: path.stat().st_mtime_ns for path in kept} == kept  # not written again


# --- digits ---


@pytest.fixture(scope="module")
def small():
    """The small digits, few units, mixtures from two starts, without the learner that samples."""
    images = usps.load_digits("bundled", [])
    methods = ("product", "mixture", "mixture, smoothed", "pursuit", "pursuit, 8 starts")
    setup = usps.Setup(n_units=2, n_train=150, n_test=100, n_seeds=1, methods=methods, summed=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(usps, "BernoulliMixture", partial(BernoulliMixture, n_init=2))
        seed = usps.one_seed(images, setup, 0)
        curves = usps.curves(images, setup, (0, 1, 20), 2)
    numbers = {**usps.assembled(images, setup, [seed]), "curves": curves}
    return SimpleNamespace(images=images, setup=setup, seed=seed, numbers=numbers, curves=curves)


@pytest.mark.slow("fits of the small digits")
def test_digits(small):
    images, setup, numbers = small.images, small.setup, small.numbers
    assert images.title == "stand-in: digits of scikit-learn, 8 x 8"
    train, test = usps.split(images.X, setup, 0)
    assert train.shape == (150, 64)
    alone, mixture, pursuit = (numbers["results"][name] for name in ("product", "mixture", "pursuit"))
    for measure in usps.MEASURES:
        assert mixture[measure]["test"][0] < alone[measure]["test"][0]
        assert 0 < pursuit[measure]["test"][0] < 1  # without input biases two units do not describe blank borders
    assert numbers["results"]["pursuit"]["n_units"] == [len(small.seed["vectors"]["pursuit"])]
    assert 0 < numbers["weights"]["mixture"]["area"][0] < 1
    assert 0 < numbers["second_order"]["test"][0] < 0.5
    other_train, other_test = usps.split(images.X, setup, 1)
    assert (other_train != train).any()
    assert len(other_test) == len(test) == 100


@pytest.mark.slow("fits of the small digits")
def test_curves_end_where_the_fits_do(small):
    mixture, pursuit = small.curves.values()
    assert pursuit["steps"] == [usps.N_EM_STEPS, usps.N_EM_STEPS * len(small.seed["vectors"]["pursuit"])]
    for place, part in enumerate(("train", "test")):
        for measure in usps.MEASURES:
            last = pursuit[measure][place][-1]
            assert last == pytest.approx(small.numbers["results"]["pursuit"][measure][part][0])
    assert mixture["steps"] == [0, 1, 20, 20, 21, 40]
    assert mixture["doublings"] == {"0": 1, "20": 2}
    assert mixture["reconstruction"][0][-1] < mixture["reconstruction"][0][0]


@pytest.mark.slow("fits of the small digits")
def test_likelihoods_at_equally_many_parameters():
    """A machine of two units that is climbed is ahead of the pursuit; all are summed exactly here."""
    train, test = usps.split(usps.load_digits("bundled", []).X[:, :12], usps.Setup(n_train=150, n_test=80), 0)
    found = usps.likelihoods(train, test, 3, 2, 0)
    assert list(found) == ["2", "3"]
    for one in found.values():
        assert one["error"] == 0
        assert one["machine"]["train"] < one["pursuit"]["train"]
        assert one["mixture"]["train"] < one["mixture, smoothed"]["train"]
    assert usps._finite(np.inf) is None


@pytest.mark.slow("fits of the small digits")
def test_figures_of_digits(small, tmp_path):
    train = usps.split(small.images.X, small.setup, 0)[0]
    vectors = {name: np.array(one) for name, one in small.seed["vectors"].items()}
    run = Run(None, tmp_path)
    freund._draw_digits(small.images, vectors, small.curves, train, run)
    files = run.figures
    assert list(files) == ["4.3", "4.4", "4.5", "4.6", "4.7", "4.8", "4.9", "4.9 eight starts", "section 2.4"]
    assert set(files) <= set(tables.CAPTIONS)
    assert all((tmp_path / name).stat().st_size > 3000 for names in files.values() for name in names)


def test_backfitting_keeps_what_cannot_be_better():
    """Units that EM has ended at come back; one that is far from where EM would go moves there."""
    rng = np.random.default_rng(0)
    true = np.array([[6.0, 0, 0, 0], [0, 6.0, 0, 0]])
    rows = (rng.random((4000, 2)) < 0.3) @ true + rng.normal(size=(4000, 4))
    theta = np.log(0.3 / 0.7) - 18 * np.ones(2)
    w, found = usps.backfitted(true, theta, rows, rng)
    np.testing.assert_allclose(w, true, atol=0.15)
    np.testing.assert_allclose(found, theta, atol=1)
    moved, _ = usps.backfitted(0.8 * true, 0.6 * theta, rows, rng)
    np.testing.assert_allclose(moved, true, atol=0.3)


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


@pytest.mark.slow("fits of the small digits")
def test_page_of_digits(small):
    """They have a part of the page; without them there is none."""
    likelihood = {"error": 0.0, **{name: {"train": 0.5, "test": None} for name in LOSSES}}
    numbers = {**small.numbers, "likelihood": [{"2": likelihood}]}
    kept, expected = summary.in_package("freund_haussler_1994"), pages.expected(freund.__package__)
    page, without = (tables.report({**kept, "digits": one}, expected) for one in (numbers, None))
    assert page.count("\n## ") == without.count("\n## ") + 1
    assert "infinite in 1" in page
    assert "stand-in: digits of scikit-learn, 8 x 8, 150 + 100 rows" in page
    assert "(0.26)" not in page  # the paper's digits are others


def test_number_of_seeds_is_an_option():
    plan = freund._seeded(freund.Plan(), 2)
    assert {part.n_seeds for part in (plan.large, plan.few, plan.small, plan.theory, plan.digits)} == {2}
    assert freund._seeded(freund.Plan(), None).digits.n_seeds == 10
