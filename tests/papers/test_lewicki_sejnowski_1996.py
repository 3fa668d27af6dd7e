"""Lewicki & Sejnowski (1996) repeated: what counts as found, the experiments at a small size, and the files."""

import json
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from latentbits import NoisyOrNetwork
from latentbits.data.toys import LINE_PATTERNS, lines, shifter
from latentbits.papers import PAPERS, pages
from latentbits.papers.lewicki_sejnowski_1996 import digits, measures, runs, shifts, tables
from latentbits.papers.lewicki_sejnowski_1996 import lines as lines_part
from latentbits.papers.lewicki_sejnowski_1996 import reproduce as lewicki
from latentbits.papers.skeleton import Fitted


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

    def posterior(self, X):
        return SimpleNamespace(mode=(self.transform(X) > 0.5).astype(float))

    def sample(self, n, random_state):
        return np.random.default_rng(random_state).integers(0, 2, (n, self.weights_[0].shape[1]))


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
        (measures.all_lines(), lines(20_000, random_state=0).X),
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


def test_what_is_measured_of_a_shifter():
    found = shifts.measured(shifts_network())
    assert found["bits"] == pytest.approx(10)
    table = measures.all_shifts()
    assert found["error"] == pytest.approx(0.1 * np.sqrt(np.sum(table.chance**2)) / np.log(2))
    assert (found["n_dead"], found["n_covered"]) == (4, 16)
    assert found["overlap"] == 0
    assert (found["belong"], found["agree"]) == (1, 1)


def test_what_is_measured_of_lines():
    found = lines_part.measured(lines_network())
    assert (found["n_lines"], found["n_patterns"]) == (10, 4)
    assert found["bits"] == pytest.approx(9.3)


# --- runs ---


def test_a_run_is_kept(tmp_path, monkeypatch):
    """What has ended is read again; other settings, or other rows, are another run."""
    learned = []
    monkeypatch.setattr(runs, "fitted", lambda model, X: learned.append(model) or Fitted(model, 1.0))
    monkeypatch.setattr(runs, "load", lambda path: path.name)
    monkeypatch.setattr(NoisyOrNetwork, "save", lambda self, path: path.write_text("model"))
    monkeypatch.setattr(NoisyOrNetwork, "cost_history_", np.array([2.0, 1.0]), raising=False)
    X = np.eye(3)

    def ask(X=X, **settings):
        model = NoisyOrNetwork((2,), random_state=0, **settings)
        return runs.run(tmp_path / "runs", "a", model, X, lambda model: {"bits": 1.5})

    model, numbers = ask()
    assert model is learned[0]
    assert numbers["course"] == [2, 1]
    again, kept = ask()
    assert (again, kept) == ("a.safetensors", numbers)
    assert len(learned) == 1
    ask(beta=2.0)
    ask(X=1 - X)
    assert len(learned) == 3


# --- files ---


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A run of networks that were made, not learned: what it gives, where it wrote, and what it said."""
    out = tmp_path_factory.mktemp("lewicki") / "new" / "folder"
    rng = np.random.default_rng(0)
    said = []

    def stand_in(model, measure):
        return model, {"seconds": 1.0, "course": model.cost_history_.tolist(), **measure(model)}

    def digit(*args):
        return Made([rng.exponential(0.5, (6, 64)), rng.exponential(1, (2, 6))]), {
            "seconds": 1.0,
            "bits": 20.0,
            "error": 0.1,
            "active": 3.0,
        }

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines_part, "experiment", lambda *args: stand_in(lines_network(), lines_part.measured))
        patch.setattr(
            shifts, "experiment", lambda recipe, seed, *args: stand_in(shifts_network(10 + seed), shifts.measured)
        )
        patch.setattr(digits, "experiment", digit)
        patch.setattr(digits, "others", lambda n_rows: {"independent bits": 30.0, "mixture of 16": 25.0})
        results = lewicki.reproduce(out, quick=True, say=said.append)
    return SimpleNamespace(results=results, out=out, said=said)


@pytest.mark.slow
def test_files(made):
    assert json.loads((made.out / "results.json").read_text()) == made.results
    assert list(made.results["figures"]) == ["1", "2", "3", "4", "rows", "digits", "digit rows"]
    for names in made.results["figures"].values():
        assert [name.rpartition(".")[2] for name in names] == ["png", "svg"]
        assert all((made.out / name).stat().st_size > 5000 for name in names)
    assert "shifter, ours, run 2: 11.00 bits" in "\n".join(made.said)
    assert "lewicki_sejnowski_1996" in PAPERS


@pytest.mark.slow
def test_page(made):
    held_to = pages.expected(lewicki.__package__)
    page = (made.out / "results.md").read_text()
    assert page == tables.report(made.results, held_to)
    assert "A quick run" in page
    assert "1 of 2 | 11.00 (10.00 to 11.00)" in page
    assert str(made.out.parent) not in page


@pytest.mark.slow
def test_every_finding_is_measured(made):
    """Keys of expected.json are those of the experiments; shares need many runs."""
    held_to = set(pages.expected(lewicki.__package__)["relations"])
    assert set(made.results["relations"]) < held_to
    assert "shifts_good" not in made.results["relations"]
    many = {
        part: {**made.results[part], "runs": {name: 10 * one for name, one in made.results[part]["runs"].items()}}
        for part in ("lines", "shifts")
    }
    measured = {
        **lewicki._of_lines(many["lines"]),
        **lewicki._of_shifts(many["shifts"]),
        **lewicki._of_digits({**made.results["digits"], "n_train": 1500}),
    }
    assert held_to == set(measured)
    assert (measured["lines_all"], measured["shifts_good"]) == (1, 0.5)
