"""Pictures of noisy-OR networks, and the arrays behind them."""

from itertools import pairwise

import numpy as np
import pytest
from matplotlib import pyplot as plt
from pictures import names_of, overlapping

from latentbits.core.errors import DataError
from latentbits.core.states import all_states
from latentbits.figures.any_model import learning
from latentbits.figures.noisy_or import pictures as layers
from latentbits.figures.noisy_or.arrays import credit_of
from latentbits.figures.tiles import FULL
from latentbits.reports.networks import checked_network, project_down, strengths


def network(*sizes):
    """Random weights and biases for layers of these sizes, inputs first."""
    rng = np.random.default_rng(0)
    weights = [rng.exponential(0.7, (above, below)) for below, above in pairwise(sizes)]
    return weights, [rng.exponential(0.2, size) for size in sizes]


def exact_projection(weights, biases, states):
    """P(input is on | states of the top layer), by a sum over all states between."""
    chance, states = np.ones((len(states), 1)), states[:, None, :]
    for weight, bias in zip(weights[:0:-1], biases[-2:0:-1]):
        below = all_states(weight.shape[1]).astype(float)
        on = strengths(bias + states @ weight)[..., None, :]
        given = np.where(below > 0, on, 1 - on).prod(-1)  # (tops, states above, states below)
        chance = (chance[..., None] * given).sum(1)
        states = below[None]
    return (chance[..., None] * strengths(biases[0] + states @ weights[0])).sum(1)


def test_projection_is_exact_through_one_layer_and_never_too_small_through_two():
    weights, biases = network(6, 4, 3)
    for states in (np.eye(3), all_states(3).astype(float)):
        np.testing.assert_allclose(
            project_down(weights, biases, states=states), exact_projection(weights, biases, states), rtol=1e-12
        )
    np.testing.assert_allclose(project_down(weights, biases, 1), strengths(biases[0] + weights[0]), rtol=1e-12)
    weights, biases = network(6, 4, 3, 2)
    found, exact = project_down(weights, biases), exact_projection(weights, biases, np.eye(2))
    assert (found >= exact - 1e-12).all()
    np.testing.assert_allclose(found, exact, atol=0.1)
    assert np.abs(found - exact).max() > 1e-4


def test_shares_of_a_row_add_up():
    weights, biases = network(8, 5, 3)
    row = np.array([1, 0, 1, 1, np.nan, 1, 0, 1])
    states = [np.array([1, 0, 1, 1, 0]), np.array([0, 1, 1])]
    lower, upper = credit_of(weights, biases, row, states)
    together = credit_of(weights, biases, row, np.concatenate(states))
    np.testing.assert_array_equal(together[1].shares, upper.shares)
    for one, units in ((lower, [0, 2, 3]), (upper, [1, 2])):
        assert one.units.tolist() == units
        np.testing.assert_allclose(one.shares.sum(0) + one.rest, np.nan_to_num(row), atol=1e-12)
        assert (one.shares >= 0).all()
    u = biases[0] + states[0] @ weights[0]
    np.testing.assert_allclose(lower.rest, np.nan_to_num(row) * biases[0] / u)
    parts = weights[1][2] / (biases[1] + states[1] @ weights[1])
    np.testing.assert_allclose(upper.shares[1], parts[lower.units] @ lower.shares)


@pytest.mark.parametrize(
    ("weights", "biases", "words"),
    [
        ([], [np.ones(2)], "one layer of weights or more"),
        ([np.ones((2, 3))], [np.ones(2), np.ones(3)], r"weights\[0\] must be \(3, 2\)"),
        ([-np.ones((2, 3))], [np.ones(3), np.ones(2)], "not negative"),
    ],
)
def test_arrays_that_are_no_network(weights, biases, words):
    with pytest.raises(DataError, match=words):
        checked_network(weights, biases)


def areas(ax):
    """Of the squares of a matrix, in the order of drawing."""
    return [
        np.prod(np.ptp(path.vertices, axis=0))
        for collection in ax.collections
        if type(collection).__name__ == "PatchCollection"
        for path in collection.get_paths()
    ]


def test_areas_are_the_weights():
    ax = layers.plot_layer(np.array([[4.0, 1.0], [0.0, 2.0]]), labels=["a $", "b"])
    np.testing.assert_allclose(areas(ax), FULL**2 * np.array([1, 0.25, 0.5]))
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["a $", "b"]
    assert "largest square: 4" in ax.get_xlabel()
    _, given = plt.subplots()
    assert layers.plot_layer(np.eye(2), given, largest=2.0) is given
    np.testing.assert_allclose(areas(given), FULL**2 / 2)


def test_a_network_is_drawn_from_the_top():
    weights, biases = network(12, 5, 3, 2)
    axes = layers.plot_network(
        weights, biases, image_shape=(3, 4), orders=[[4, 3, 2, 1, 0], None, None], labels=[list("abcde"), None, None]
    )
    assert [ax.get_title(loc="left") for ax in axes] == [
        "Layer 3, over layer 2",
        "Layer 2, over layer 1",
        "Layer 1, over the inputs",
    ]
    assert [len(ax.images) for ax in axes] == [2 + 3, 3 + 5, 0]
    np.testing.assert_allclose(axes[1].images[0].get_array().ravel(), project_down(weights, biases, 1)[4])
    assert names_of(axes[2]) == list("edcba")
    assert [tick.get_text() for tick in axes[1].get_xticklabels()] == list("edcba")
    named = layers.plot_network(weights[:1], biases[:2], column_names=[f"column {j}" for j in range(12)])
    assert len(named) == 1
    assert names_of(named[0])[0] == "h1_0"
    assert overlapping(named[0]) == []


def test_a_row_with_its_explanation():
    weights, biases = network(12, 5, 3)
    row = np.ones(12)
    row[3] = np.nan
    found = credit_of(weights, biases, row, [np.array([1, 0, 1, 0, 0]), np.array([0, 1, 0])])
    ax = layers.plot_explanation(row, found, image_shape=(3, 4), names=[list("abcde"), None])
    assert [word.split("\n")[0] for word in names_of(ax)] == ["h2_1", "bias", "a", "c", "bias"]
    assert sum(float(word.split("\n")[1][:-1]) for word in names_of(ax)[2:]) == pytest.approx(100, abs=1.5)
    assert len(ax.images) == 2 + 3 + 2  # the row, and its hole
    assert overlapping(ax) == []
    table = layers.plot_explanation(row, found, column_names=[f"column {j}" for j in range(12)])
    assert len(table.get_yticks()) == 11
    assert [tick.get_text() for tick in table.get_xticklabels()] == ["h2_1", "bias", "h1_0", "h1_2", "bias"]


def test_impossible_figures_are_refused():
    weights, biases = network(4, 2)
    found = credit_of(weights, biases, np.ones(4), [np.ones(2)])
    for call, words in (
        (lambda: layers.plot_layer(-np.eye(2)), "not negative"),
        (lambda: layers.plot_layer(np.eye(2), child_images=np.ones((2, 4))), "image_shape are needed"),
        (lambda: layers.plot_layer(np.eye(2), labels=["a"]), "1 labels for 2"),
        (lambda: layers.plot_network(weights, biases), "one of image_shape and column_names"),
        (lambda: layers.plot_network(weights, biases, [], image_shape=(2, 2)), "1 Axes are needed"),
        (lambda: layers.plot_explanation(np.ones(3), found, image_shape=(2, 2)), "shares of the 3 inputs"),
        (lambda: layers.plot_explanation(np.ones(4), found), "one of image_shape and column_names"),
        (lambda: layers.plot_explanation(np.ones(4), found, column_names="ab"), "2 column names for 4"),
        (lambda: project_down(weights, biases, 2), "layer must be from 1 to 1"),
        (lambda: project_down(weights, biases, states=np.ones(2)), r"\(n, 2\)"),
        (lambda: credit_of(weights, biases, np.ones(4), [np.ones(3)]), r"\(4, 2\) units"),
        (lambda: learning.plot_runs({"a": []}), "no run"),
        (lambda: learning.plot_runs({"a": [np.ones((2, 2))]}), "one number a step"),
    ):
        with pytest.raises(DataError, match=words):
            call()


def test_many_runs_have_a_colour_for_each_way():
    runs = {"ours": [np.arange(4.0)] * 3, "plain": [(np.array([0, 5]), np.ones(2))]}
    ax = learning.plot_runs(runs, levels={"optimum": 0.5})
    assert len({line.get_color() for line in ax.lines}) == 3
    assert ax.get_xlim() == (0, 5)
    assert [word.get_text() for word in ax.get_legend().get_texts()] == ["ours", "plain"]
    assert names_of(ax) == ["optimum"]
