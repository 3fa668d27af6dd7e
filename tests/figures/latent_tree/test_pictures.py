"""Trees as arrays and as pictures."""

from __future__ import annotations

import numpy as np
import pytest
from trees import PARENTS, small_tree

from latentbits.core.errors import DataError
from latentbits.figures.latent_tree.pictures import plot_tree
from latentbits.models.latent_tree.structure import mutual_information
from latentbits.reports.render import cells
from latentbits.reports.summaries.latent_tree import summarize
from latentbits.reports.summaries.records import Rows
from latentbits.reports.trees import (
    around,
    beyond_chance,
    by_state,
    checked_parents,
    outline,
    state_shares,
)

INFORMATION = small_tree().information_[0]


def test_an_outline_crosses_nothing():
    """Every column has a line, subtrees have lines that follow one another, and no edge passes a name."""
    line, depth = outline(PARENTS, INFORMATION)
    assert sorted(line) == list(range(12))
    own = np.flatnonzero(PARENTS >= 0)
    assert (depth[own] == depth[PARENTS[own]] + 1).all()
    for j in own:  # down the line at the parent's depth, then across
        low, high = sorted((line[j], line[PARENTS[j]]))
        between = (line > low) & (line < high)
        assert (depth[between] > depth[PARENTS[j]]).all()


def test_a_tree_is_spread_out():
    rng = np.random.default_rng(0)
    parents = np.array([-1, *(rng.integers(0, j) for j in range(1, 120))])
    places = around(parents, np.ones(120))
    apart = np.linalg.norm(places[:, None] - places[None], axis=2) + np.eye(120)
    assert np.abs(places).max() <= 1 + 1e-9
    assert apart.min() > 0.01
    forest = around(np.array([-1, 0, -1, 2]), np.zeros(4))
    assert len({tuple(place) for place in forest.round(3).tolist()}) == 4


def test_parents_that_are_no_tree():
    with pytest.raises(DataError, match="a circle"):
        checked_parents(np.array([1, 0]))
    with pytest.raises(DataError, match="from 0 to 1"):
        checked_parents(np.array([-1, 2]))
    with pytest.raises(DataError, match="whole number"):
        checked_parents(np.array([0.5]))


def test_states_are_sorted_without_a_change_of_the_model():
    model = small_tree()
    parents, before, p = PARENTS, model.transitions_[0].copy(), model.emissions_[0]
    before[4, :, 2], before[10, 2] = 0, 0  # a column with two states
    before[4] /= before[4].sum(axis=1, keepdims=True)
    transitions, emissions = by_state(before, p, parents)
    assert (np.diff(np.delete(emissions, 4, axis=0), axis=1) >= 0).all()
    assert transitions[4, :, 2].max() == 0
    shares, sorted_shares = state_shares(parents, before), state_shares(parents, transitions)
    np.testing.assert_allclose((shares * p).sum(axis=1), (sorted_shares * emissions).sum(axis=1))
    np.testing.assert_allclose(shares.sum(axis=1), 1)


def test_chance_makes_few_edges():
    rng = np.random.default_rng(0)
    bits = rng.random((400, 30)) < 0.4
    joint = [[np.mean((bits[:, :, None] == a) & (bits[:, None] == b), axis=0) for b in (0, 1)] for a in (0, 1)]
    found = mutual_information(np.array(joint))
    assert beyond_chance(found, 400).sum() <= 2
    assert not beyond_chance(np.zeros(5), 400).any()


@pytest.mark.parametrize("kind", ["named", "spread", "pixels"])
def test_a_picture(kind):
    if kind == "spread":
        parents = np.arange(-1, 79)
        ax = plot_tree(parents, np.linspace(0, 1, 80))
        assert not ax.texts
    else:
        shape = (3, 4) if kind == "pixels" else None
        names = [f"${j}" for j in range(12)]
        ax = plot_tree(PARENTS, INFORMATION, names, means=np.linspace(0, 1, 12), image_shape=shape)
        assert [text.get_text() for text in ax.texts] == ([] if shape else names)
        widths = ax.collections[0].get_linewidths()
        assert len(widths) == 11
        assert max(widths) > 3 * min(widths)
        assert "0.72 bits" in ax.get_xlabel()  # half a nat
    ax.figure.canvas.draw()


def test_what_does_not_fit():
    with pytest.raises(DataError, match="one for each"):
        plot_tree(PARENTS, INFORMATION[:3])
    with pytest.raises(DataError, match="12 pixels"):
        plot_tree(PARENTS, INFORMATION, image_shape=(2, 2))


def test_a_tree_in_numbers():
    names = tuple(f"c{j}" for j in range(12))
    found = summarize(small_tree(n_trees=2), Rows(np.zeros((60, 12)), names))
    edges, states = map(cells, found.tables)
    assert edges[1] == ["c0", "c1", "0.721", ""]
    assert edges[-1] == ["c11", "c10", "0.000", "no more than chance"]
    assert "of the largest of 2 trees, of 66.7% of the rows" in found.tables[0].title
    assert states[1][0] == "c0"
    assert found["edges_beyond_chance"] == 10
    columns = found.files["items"]().columns
    assert len(columns) == 1 + 2 + 3 + 3
    np.testing.assert_allclose(sum(columns[f"share_{t}"] for t in (1, 2, 3)), 1)
    assert len(summarize(small_tree(hidden=False), Rows(np.zeros((60, 12)), names)).tables) == 1
