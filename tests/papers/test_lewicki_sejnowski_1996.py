"""Lewicki & Sejnowski (1996) repeated: what counts as found, the experiments at a small size, and the files."""

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from latentbits.data.toys import lines, shifter
from latentbits.papers.lewicki_sejnowski_1996 import measures

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
