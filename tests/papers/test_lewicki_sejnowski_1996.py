"""Lewicki & Sejnowski (1996) repeated: what counts as found, the equations, the chains, and the findings."""

from types import SimpleNamespace

import noisy_or_examples as examples
import numpy as np
import pytest
from kept_runs import follows

from latentbits import NoisyOrNetwork
from latentbits.core.tree import double
from latentbits.data.toys import LINE_PATTERNS, lines, shifter
from latentbits.models.noisy_or import equations
from latentbits.papers import pages, summary
from latentbits.papers.lewicki_sejnowski_1996 import chains, measures, problems, runs
from latentbits.papers.lewicki_sejnowski_1996 import reproduce as lewicki
from latentbits.papers.lewicki_sejnowski_1996.runs import Case
from latentbits.papers.skeleton import Fitted

WAYS = ("any", "one", "alone")


class Made:
    """In the place of a fitted network: what the experiments ask of one, without learning or compiling."""

    def __init__(self, weights, bits=10.0):
        self.weights_ = [np.asarray(w, float) for w in weights]
        self.biases_ = [np.full(w.shape[1], 0.01) for w in self.weights_] + [np.full(len(weights[-1]), 0.5)]
        self.layer_sizes = tuple(len(w) for w in weights)
        self.bits = bits
        self.cost_history_ = np.linspace(30, bits + 2, 5)

    def log_likelihoods(self, X):
        return SimpleNamespace(
            value=np.full(len(X), -self.bits * np.log(2)), error=np.full(len(X), 0.1), common_error=np.zeros(())
        )

    def score_samples(self, X):
        return self.log_likelihoods(X).value

    def transform(self, X, layer=None):
        on = np.tile((1 + np.arange(sum(self.layer_sizes)) % 2) / 3, (len(X), 1))
        return on if layer is None else np.split(on, np.cumsum(self.layer_sizes)[:-1], axis=1)[layer - 1]


def lines_network():
    """Ten lines, four patterns, and a unit that does nothing."""
    toy = lines(1, random_state=0)
    top = np.zeros((5, 10))
    for unit, (columns, rows) in enumerate(LINE_PATTERNS.values()):
        top[unit, [*columns, *(5 + row for row in rows)]] = 2.0
    return Made([3.0 * toy.components, top], bits=9.3)


def shifts_network(bits=10.0):
    """Eight shifts to either side, and four units that do nothing."""
    units = [shift_unit(place, step) for step in (-1, 1) for place in range(8)] + [np.zeros(32)] * 4
    top = np.zeros((2, 20))
    top[0, :8] = top[1, 8:16] = 0.7
    return Made([units, top], bits)


# --- lines ---


def test_lines_are_found_where_a_unit_has_their_five_pixels_and_no_more():
    truth = lines(1, random_state=0).components
    order = np.random.default_rng(0).permutation(10)
    weights = np.where(truth[order] > 0, 1.2, 0.3)  # f = 0.70 and 0.26
    assert measures.lines_of(weights).tolist() == order.tolist()
    assert measures.n_lines(weights) == 10
    merged = np.vstack([weights[:8], weights[8] + weights[9], weights[0]])
    assert measures.lines_of(merged)[8] == -1
    assert measures.n_lines(merged) == 8  # one of them twice
    short = weights.copy()
    short[0, np.argmax(short[0])] = 0.6  # f = 0.45
    assert measures.n_lines(short) == 9


def test_patterns_are_those_of_the_toy():
    order = np.random.default_rng(1).permutation(10)
    place = np.argsort(order)  # of each line among the units
    weights = np.full((5, 10), 0.3)
    for unit, members in enumerate([(1, 3), (6, 8), (2, 7), (4, 5, 9)]):
        weights[unit, place[list(members)]] = 1.5
    assert measures.patterns_of(weights, order) == ["||", "=", "+", "]", ""]
    assert measures.patterns_of(np.full((1, 10), 3.0), order) == [""]
    assert measures.patterns_of(weights[:1] / 5, order) == [""]  # f = 0.26
    doubled = np.append(order, 1)  # a second unit for a line of the first pattern
    assert measures.patterns_of(np.hstack([weights, np.zeros((5, 1))]), doubled)[0] == "||"


def test_images_that_can_come_up():
    """Entropies are those of many drawn images, and no image is drawn that is not listed."""
    for table, drawn in (
        *((measures.all_lines(patterns=way), lines(20_000, patterns=way, random_state=0).X) for way in WAYS),
        (measures.all_shifts(), shifter(20_000, random_state=0).X),
    ):
        assert table.chance.sum() == pytest.approx(1)
        log_chance = {image.tobytes(): p for image, p in zip(table.X, np.log(table.chance))}
        found = -np.array([log_chance[image.tobytes()] for image in drawn]) / np.log(2)
        assert found.mean() == pytest.approx(table.bits, abs=5 * found.std() / np.sqrt(len(found)) + 1e-9)
        assert table.bits_under(np.log(table.chance) - np.log(2)) == pytest.approx(table.bits + 1)


# --- the shifter ---


def shift_unit(place, step, strength=2.0):
    row, moved = np.eye(8)[place], np.eye(8)[(place + step) % 8]
    return strength * np.concatenate([row, row, moved, moved])


def test_local_shifts_are_those_of_the_toy():
    toy = shifter(200, random_state=0)
    for step, name, moved_right in ((1, "right", 1), (-1, "left", 0)):
        units = np.array([shift_unit(place, step) for place in range(8)])
        found = measures.shifts_of(units)
        assert found.kinds == [name] * 8
        assert found.n_covered == 8
        # on a row moved this way, a unit whose first pixel is on has all its pixels on
        rows = toy.X[toy.direction == moved_right]
        pixels = units > 0
        assert (rows @ pixels.T == 4 * (rows @ (pixels[:, :8].T @ np.eye(8, 32)).T > 0)).all()


def test_units_that_are_no_shift():
    both = shift_unit(0, 1) + shift_unit(3, 1)
    no_copy = shift_unit(0, 1) * (np.arange(32) != 0)
    units = np.array([shift_unit(0, 1), both, no_copy, shift_unit(0, 2), shift_unit(0, 1, 0.5), 2 * np.ones(32)])
    found = measures.shifts_of(units)
    assert found.kinds == ["right", "right", "other", "other", "dead", "other"]
    assert found.places[1] == (0, 3)
    assert found.n_covered == 2
    assert (found.count("other"), found.count("left")) == (3, 0)
    assert measures.shifts_of(units[:1], np.array([0.001])).kinds == ["dead"]


def test_top_units_that_share_nothing():
    kinds = ["left"] * 3 + ["right"] * 3 + ["dead"]
    weights = np.array([[0.7, 0.6, 0.8, 0.01, 0.02, 0.0, 0.5], [0.0, 0.0, 0.05, 0.9, 0.6, 0.7, 0.5]])
    assert measures.overlap(weights, kinds) < 0.1
    assert measures.sides_of(weights, kinds) == {"belong": 1.0, "agree": 1.0}
    assert measures.sides_of(weights[::-1], kinds) == {"belong": 1.0, "agree": 1.0}
    same = np.full((2, 7), 0.5)
    assert measures.overlap(same, kinds) == pytest.approx(1)
    assert measures.sides_of(same, kinds) == {"belong": 0.0, "agree": 0.0}
    crossed = weights[:, [0, 3, 1, 2, 4, 5, 6]]
    assert measures.sides_of(crossed, kinds)["agree"] == pytest.approx(4 / 6)
    assert measures.overlap(np.zeros((2, 7)), kinds) == 0


def test_shifts_that_two_units_hold():
    units = [shift_unit(0, 1), shift_unit(0, 1), shift_unit(0, -1), np.zeros(32)]
    assert measures.shifts_of(np.array(units)).n_doubled == 1
    assert measures.shifts_of(np.array(units[1:])).n_doubled == 0


def test_what_is_measured_of_a_shifter():
    found = problems.of_shifts(shifts_network())
    assert found["bits"] == pytest.approx(10)
    table = measures.all_shifts()
    assert found["error"] == pytest.approx(0.1 * np.sqrt(np.sum(table.chance**2)) / np.log(2))
    assert (found["n_dead"], found["n_covered"], found["n_doubled"]) == (4, 16, 0)
    assert found["overlap"] == 0
    assert (found["belong"], found["agree"]) == (1, 1)


def test_what_is_measured_of_lines(monkeypatch):
    monkeypatch.setattr(problems, "of_chains", lambda model, table: {})
    found = problems.of_lines("lines_alone", lines_network())
    assert (found["n_lines"], found["n_patterns"], found["has_bias"]) == (10, 4, False)
    assert found["bits"] == pytest.approx(9.3)


def test_a_bias_is_on_always_and_brings_most_lines():
    even, few = np.full(10, 0.4), np.r_[2.0, 2.0, np.zeros(8)]
    weights = np.array([few, even])
    assert measures.background(weights, ["||", ""], np.array([1.0, 0.95]))["has_bias"]
    rare = measures.background(weights, ["||", ""], np.array([1.0, 0.4]))
    assert (rare["has_bias"], rare["broad_on"], rare["broad_reach"]) == (False, 0.4, pytest.approx(1))
    narrow = measures.background(weights[[0]], [""], np.array([1.0]))  # two lines of ten
    assert (narrow["has_bias"], narrow["broad_reach"]) == (False, pytest.approx(0.2))
    pattern = measures.background(weights, ["||", "="], np.array([1.0, 1.0]))
    assert pattern == {"broad_reach": 0.0, "broad_on": 0.0, "has_bias": False}
    faint = measures.background(weights / 100, ["", ""], np.array([1.0, 1.0]))
    assert not faint["has_bias"]


# --- chains ---


def test_what_comes_from_below_against_what_comes_from_above():
    """By hand: a unit that is on for one pixel, against a prior of a half and one of almost nothing."""
    weights = [np.array([[2.0, 0.0]]), np.array([[3.0]])]
    biases = [np.array([0.01, 0.01]), np.array([0.01]), np.array([0.5])]
    X = np.array([[1.0, 0.0], [0.0, 0.0]])
    below = np.log(-np.expm1(-2.01)) - np.log(-np.expm1(-0.01)), 2.0  # in size
    for top in (0.0, 1.0):
        above = abs(np.log(np.expm1(0.01 + 3 * top)))
        states = [np.array([[1.0], [0.0]]), np.full((2, 1), top)]
        found = chains._feedforward_dominates(weights, biases, X, states)
        assert found[:, 0].tolist() == [one > above for one in below]


def test_chains_settle_where_causes_are_told_apart_and_miss_one_of_two_alike():
    """Exact means are summed by the twin; of two causes alike, the first to be asked goes off and stays so."""

    def found(lowest):
        weights, biases = [np.array(lowest), np.zeros((1, 2))], [np.full(2, 1e-4), np.full(2, 0.01), np.full(1, 1e-3)]
        network = equations.Network(weights, biases)
        with double():
            model = SimpleNamespace(params_=examples.as_params(network), weights_=weights, biases_=biases)
        model.transform = lambda X: np.concatenate(examples.posterior_means(network, X.astype(float)), axis=1)
        return chains.of_chains(model, measures.Images(np.array([[1, 1]], np.uint8), np.ones(1)))

    apart, alike = found([[6.0, 0.0], [0.0, 6.0]]), found([[6.0, 6.0], [6.0, 6.0]])
    assert apart["sweeps"] == 2  # the unit above goes off
    assert apart["lower_sweeps"] == apart["clear_sweeps"] == 1  # chains begin with both on, and both are
    assert abs(apart["chain_error"]) < 1e-3
    assert abs(apart["lower_error"]) < 1e-3
    assert apart["feedforward"] == 1
    assert alike["lower_sweeps"] <= alike["sweeps"] < alike["clear_sweeps"] == 15  # no image is clear
    assert alike["lower_error"] > alike["chain_error"] > 0.1  # 0.25 for two units of three


# --- runs ---


def test_a_run_is_kept(tmp_path, monkeypatch):
    """What has ended is read again; other settings, or other rows, are another run."""
    learned = []
    monkeypatch.setattr(runs, "fitted", lambda model, X: learned.append(model) or Fitted(model, 1.0))
    monkeypatch.setattr(NoisyOrNetwork, "save", lambda self, path: path.write_text("model"))
    monkeypatch.setattr(NoisyOrNetwork, "cost_history_", np.array([2.0, 1.0]), raising=False)
    X = np.eye(3)

    def ask(X=X, **settings):
        model = NoisyOrNetwork((2,), random_state=0, **settings)
        return runs.run(tmp_path / "runs", "a", model, X, lambda model: {"bits": 1.5})

    numbers = ask()
    assert numbers == {"seconds": 1.0, "course": [2, 1], "bits": 1.5}
    assert (tmp_path / "runs" / "a.safetensors").exists()
    assert ask() == numbers
    assert len(learned) == 1
    ask(prior=(1.0, 2.0))
    ask(X=1 - X)
    assert len(learned) == 3


def test_trials_are_what_reproduce_asks_for(tmp_path, monkeypatch):
    """Each network once, by names that other processes can find; the schedules on the same rows."""
    cases = [one.args[0] for one in lewicki.trials(tmp_path) if isinstance(one.args[0], Case)]
    assert len(set(cases)) == len(cases) == 20 * 4 + 20 * 3 + 40 * (3 * 3 + 1)
    assert {case.recipe for case in cases if case.problem == "lines_any"} == set(runs.RECIPES) - {"early"}
    asked = []
    monkeypatch.setattr(runs, "learned", lambda case, folder: asked.append(case) or {"bits": 1.0})
    for problem in problems.PROBLEMS:
        lewicki._learned(lewicki.Run(lewicki.Plan(), tmp_path), problem)
    assert set(asked) == set(cases)


def test_schedules_are_compared_seed_by_seed():
    def many(bits, parts):
        return [{"bits": b, "n_lines": n} for b, n in zip(bits, parts)]

    found = {
        "together": many([12.0, 14.0], [8, 9]),
        "paper": many([10.0, 12.0], [10, 10]),
        "stability": many([13.0, 15.0], [8, 8]),
    }
    measured = lewicki._schedules("lines_any", found, "n_lines")
    assert measured["lines_any_layers_bits"] == pages.Measured(2.0, 0.0, 2)
    assert measured["lines_any_layers_parts"].value == 1.5
    assert measured["lines_any_stability_bits"].value == -1
    assert measured["lines_any_stability_parts"].value == -0.5


def test_chains_are_those_of_networks_that_find_all_lines():
    """The first ten runs do; what the others need is left out of all but what is said of all networks."""
    ends = [
        {"n_lines": n, "clear_sweeps": 2.0, "lower_sweeps": 3.0, "lower_error": 0.1, "sweeps": 12.0, "feedforward": 0.9}
        for n in [10] * 10 + [9]
    ]
    begins = [{**one, "n_lines": 0, "lower_sweeps": 13.0, "lower_error": 0.3} for one in ends]
    ends[-1].update(clear_sweeps=15.0, lower_sweeps=15.0, lower_error=9.0, sweeps=1.0)
    found = {name: (round(one.value, 6), one.n) for name, one in lewicki._of_chains(ends, begins).items()}
    assert found == {
        "chains_sweeps": (2.0, 10),
        "chains_faster": (10.0, 10),
        "chains_accurate": (0.2, 10),
        "chains_whole": (11.0, 11),
        "chains_feedforward": (0.9, 11),
    }
    assert lewicki._of_chains(ends[1:], begins[1:]) == {}


def test_how_many_units_are_shifts():
    assert lewicki._share_of_shifts(["left", "right", "other", "dead"]) == pytest.approx(2 / 3)
    assert lewicki._share_of_shifts(["dead"]) == 0


def test_the_error_of_a_median():
    values = np.random.default_rng(0).normal(size=400)
    found = lewicki._median(values)
    assert found.value == np.median(values)
    assert found.error == pytest.approx(np.sqrt(np.pi / 2 / 400), rel=0.3)
    assert lewicki._median(values[:1]).error is None


# --- findings ---


def test_findings_follow_from_the_numbers_of_the_kept_run():
    kept = summary.in_package("lewicki_sejnowski_1996")
    measured = {**lewicki._of_shifts(kept["shifts"]), **lewicki._of_digits(kept["digits"])}
    for problem, found in kept["lines"].items():
        measured |= lewicki._of_lines(problem, found)
    follows(measured, "lewicki_sejnowski_1996")
    bad = [{**one, "bits": 12.0, "n_doubled": 2} for one in kept["shifts"]["runs"]["paper"]]
    worse = lewicki._of_shifts({**kept["shifts"], "runs": {**kept["shifts"]["runs"], "paper": bad}})
    assert (worse["shifts_good"].value, worse["shifts_doubled"].value) == (0, 1)
    few = {**kept["shifts"], "runs": {name: runs[:1] for name, runs in kept["shifts"]["runs"].items()}}
    assert "shifts_good" not in lewicki._of_shifts(few)  # shares need many runs


def test_what_we_have_not_read_is_marked():
    """The text ends at the shifter: claims about it and about digits are from memory."""
    for name, one in pages.expected(lewicki.__package__)["relations"].items():
        assert ("paper" in one) == ("where" in one), name
        if "paper" in one:
            beyond = name.startswith(("shifts", "digits")) and "section 4" not in one["where"]
            assert one["paper"].get("unverified", False) == beyond, name
