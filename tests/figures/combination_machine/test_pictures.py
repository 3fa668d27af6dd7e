"""Hinton diagrams, projections, Gaussians, named weights, errors; and the arrays behind them."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import to_rgba
from pictures import names_of, overlapping
from scipy.special import logsumexp

from latentbits.core.errors import DataError
from latentbits.core.states import all_states
from latentbits.figures.any_model import learning
from latentbits.figures.combination_machine import pictures as hinton
from latentbits.figures.combination_machine.arrays import (
    Match,
    gaussians_of,
    match_units,
    matched_order,
    principal_components,
    project,
    separation,
    words_of_match,
)
from latentbits.figures.style import INK, PAPER
from latentbits.figures.tiles import FULL
from latentbits.reports.strongest import telling_weights

TARGET = np.random.default_rng(0).normal(size=(6, 40))


# --- matching ---


def test_units_are_found_again_in_any_order_and_negated():
    rng = np.random.default_rng(1)
    order, signs = rng.permutation(6), np.array([1, -1, 1, 1, -1, 1])
    learned = 3 * signs[:, None] * TARGET[order] + 0.3 * rng.normal(size=(6, 40))
    found = match_units(learned, TARGET)
    assert [one.units for one in found] == [(unit,) for unit in order]
    assert [one.signs for one in found] == [(sign,) for sign in signs]
    assert min(one.cosine for one in found) > 0.98
    assert [found[place].units for place in matched_order(found)] == [(unit,) for unit in range(6)]


def test_merged_units_are_reported():
    """The paper has units that are 'combinations of units (10,2) and (9,2)'."""
    learned = np.stack([TARGET[0] + TARGET[4], TARGET[5] - TARGET[1], -TARGET[2] - TARGET[3], TARGET[3]])
    found = match_units(learned, TARGET, least=0.9)
    assert [words_of_match(one) for one in found] == ["1 + 5", "−2 + 6", "−3 − 4", "4"]
    assert all(one.cosine == pytest.approx(1) for one in found)


def test_a_unit_like_none_has_no_match():
    stranger = np.random.default_rng(9).normal(size=(1, 40))
    found = match_units(np.concatenate([stranger, np.zeros((1, 40)), TARGET[:1], TARGET[:1]]), TARGET)
    assert [one.units for one in found] == [(), (), (0,), (0,)]  # two may share one
    assert 0 < found[0].cosine < 0.8
    assert found[1] == Match((), (), 0.0)
    with pytest.raises(DataError, match="target 40"):
        match_units(TARGET[:, :3], TARGET)


def test_one_assignment_for_all():
    """The first unit is nearest to the second of the target, which the second needs more."""
    target = np.eye(2)
    found = match_units(np.array([[0.8, 0.82], [0.1, 1.0]]), target, least=0.6)
    assert [one.units for one in found] == [(0,), (1,)]


# --- projections, principal components, Gaussians ---


def test_projections_of_a_bimodal_direction():
    rng = np.random.default_rng(0)
    on = rng.random(2000) < 0.4
    X = rng.random((2000, 30)) < np.where(on[:, None], 0.9, 0.5)
    weights = np.stack([np.ones(30), rng.normal(size=30) * np.tile([1, -1], 15)])
    values = project(X, weights)
    np.testing.assert_allclose(values[:, 0], (2.0 * X - 1).sum(1) / np.sqrt(30))
    assert separation(values[:, 0], on) > 4
    assert separation(values[:, 1], on) < 1.5
    assert np.isnan(separation(values[:, 0], np.ones(2000, bool)))
    assert project(np.array([[np.nan, 1]]), np.eye(2)).tolist() == [[0, 1]]


def test_principal_components_are_those_of_the_covariance():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(500, 1))
    X = rng.random((500, 5)) < 1 / (1 + np.exp(-z * np.array([3, 3, -3, 0, 0])))
    found = principal_components(X, 2)
    covariance = np.cov((2.0 * X - 1).T, ddof=0)
    np.testing.assert_allclose(found.components @ found.components.T, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(
        covariance @ found.components[0], found.shares[0] * np.trace(covariance) * found.components[0], atol=1e-12
    )
    assert found.shares[0] > found.shares[1]
    with pytest.raises(DataError, match="without holes"):
        principal_components(np.array([[np.nan, 1.0]]), 1)


def test_gaussians_are_the_real_machine():
    """The mixture has the density (2.6) of the machine."""
    rng = np.random.default_rng(2)
    weights, theta, bias = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=2)
    found = gaussians_of(weights, theta, bias)
    x = rng.normal(size=(7, 2))
    density = np.exp(-0.5 * ((x[:, None] - found.means) ** 2).sum(2)) @ found.shares / (2 * np.pi)
    log_weight = np.logaddexp(0, x @ weights.T + theta).sum(1) + x @ bias - 0.5 * (x**2).sum(1)
    h = all_states(3).astype(float)
    log_z = logsumexp(h @ theta + 0.5 * ((h @ weights + bias) ** 2).sum(1)) + np.log(2 * np.pi)
    np.testing.assert_allclose(density, np.exp(log_weight - log_z), rtol=1e-12)
    with pytest.raises(DataError, match="at most 10"):
        gaussians_of(np.ones((11, 2)), np.ones(11))


# --- pictures ---


def squares(ax):
    """Faces and areas of the squares of a Hinton diagram, without the grounds."""
    found = []
    for collection in ax.collections[1:]:
        for path in collection.get_paths():
            width, height = np.ptp(path.vertices, axis=0)
            assert width == pytest.approx(height)
            found.append((tuple(collection.get_facecolor()[0]), width * height))
    return found


def test_area_is_the_size_and_fill_the_sign():
    weights = np.array([[6.0, -3.0, 0.0, 1.5]])
    ax = hinton.plot_hinton(weights, (2, 2), np.array([-20.0]))
    found = squares(ax)
    full = FULL**2
    expected = [(INK, full), (INK, full / 4), (PAPER, full / 2), (PAPER, 1.5**2 * full)]
    assert [(face, pytest.approx(area)) for face, area in found] == [(to_rgba(c), a) for c, a in expected]
    assert "largest square: 6" in ax.get_xlabel()
    assert "bias, above: 20" in ax.get_xlabel()
    half = squares(hinton.plot_hinton(weights / 2, (2, 2), largest=6.0))
    assert half[0][1] == pytest.approx(full / 2)
    assert squares(hinton.plot_hinton(2 * weights, (2, 2), largest=6.0))[0][1] == pytest.approx(full)  # no larger


def test_many_units_have_a_place_each():
    ax = hinton.plot_hinton(np.ones((23, 12)), (3, 4), np.ones(23), n_columns=8)
    grounds = [tuple(path.vertices[0]) for path in ax.collections[0].get_paths()]
    assert len(set(grounds)) == 23
    assert len({left for left, _ in grounds}) == 8
    assert names_of(ax) == [str(number) for number in range(1, 24)]
    assert overlapping(ax) == []
    assert names_of(hinton.plot_hinton(np.ones((2, 4)), (2, 2), labels=["−3", "$"])) == ["−3", "$"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"weights": np.ones((2, 5)), "image_shape": (2, 2)}, r"\(m, 4\)"),
        ({"weights": np.full((2, 4), np.nan), "image_shape": (2, 2)}, "finite"),
        ({"weights": np.ones((2, 4)), "image_shape": (2, 2), "hidden_bias": np.ones(3)}, "as many biases"),
        ({"weights": np.ones((2, 4)), "image_shape": (2, 2), "labels": ["a"]}, "1 labels for 2"),
        ({"weights": np.ones((2, 4)), "image_shape": (2, 2), "largest": 0.0}, "positive"),
        ({"weights": np.ones((2, 4)), "image_shape": (2, 2), "n_columns": 0}, "n_columns"),
    ],
)
def test_impossible_figures_are_refused(arguments, words):
    with pytest.raises(DataError, match=words):
        hinton.plot_hinton(**arguments)


def test_a_unit_without_weights_is_an_empty_matrix():
    assert squares(hinton.plot_hinton(np.zeros((1, 4)), (2, 2))) == []


def test_projections_show_both_groups():
    values = np.concatenate([np.random.default_rng(0).normal(size=(300, 3)), 5 + np.zeros((100, 3))])
    on = np.arange(400)[:, None] >= np.array([300, 300, 400])
    ax = hinton.plot_projections(values, on)
    assert names_of(ax) == ["1", "2", "3"]
    assert "in colour" in ax.get_xlabel()
    assert "in colour" not in hinton.plot_projections(np.ones((4, 1))).get_xlabel()
    with pytest.raises(DataError, match="rows, units"):
        hinton.plot_projections(values, on[:, :2])


def test_gaussians_in_the_plane_have_their_states():
    weights = np.array([[4.0, 0.5], [1.0, 4.0], [-3.0, 3.0]])
    ax = hinton.plot_gaussians(gaussians_of(weights, -0.5 * (weights**2).sum(1)))
    states = [word for word in names_of(ax) if set(word) <= set("01") and word]
    assert sorted(states) == sorted({f"{a}{b}{c}" for a in "01" for b in "01" for c in "01"})
    assert len(ax.patches) == 16  # two circles each
    with pytest.raises(DataError, match=r"\(n, 2\)"):
        hinton.plot_gaussians(gaussians_of(np.ones((1, 3)), np.ones(1)))


def test_named_bars_of_every_unit():
    weights = np.array([[0.1, -2.0, 1.0], [0.5, 0.0, -0.2]])
    assert [one.tolist() for one in telling_weights(weights, 2)] == [[2, 1], [0, 2]]
    ax = hinton.plot_unit_bars(weights, ["milk", "eggs $5", "wings"], most=2)
    assert names_of(ax) == ["unit 1", "wings", "eggs $5", "unit 2", "milk", "wings"]
    assert [np.sign(bar.get_width()) for bar in ax.patches] == [1, -1, 1, -1]
    assert overlapping(ax) == []
    with pytest.raises(DataError, match="2 column names for 3"):
        hinton.plot_unit_bars(weights, ["a", "b"])


def test_errors_have_names_that_do_not_meet():
    steps = np.arange(10)
    ax = learning.plot_errors(
        steps, {"training": 1 / (1 + steps), "test": 1 / (1 + steps) + 0.001}, marks={3: "4"}, ylabel="bits"
    )
    assert names_of(ax) == ["4", "training", "test"]
    assert overlapping(ax) == []
    with pytest.raises(DataError, match="one number a step"):
        learning.plot_errors(steps, {"a": np.ones(3)})


def test_axes_given_are_axes_returned():
    for draw, arguments in (
        (hinton.plot_hinton, {"weights": np.ones((2, 4)), "image_shape": (2, 2)}),
        (hinton.plot_projections, {"values": np.eye(3)}),
        (hinton.plot_gaussians, {"mixture": gaussians_of(np.ones((1, 2)), np.ones(1))}),
        (hinton.plot_unit_bars, {"weights": np.ones((2, 4)), "column_names": "abcd"}),
        (learning.plot_errors, {"steps": np.arange(3), "curves": {"a": np.ones(3)}}),
    ):
        _, ax = plt.subplots()
        assert draw(**arguments, ax=ax) is ax
