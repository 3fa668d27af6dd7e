"""Curves with their names: which are drawn, where the names are."""

import numpy as np
import pytest
from pictures import names_of, overlapping

from latentbits.core.errors import DataError
from latentbits.figures.latent_trait import arrays as map_summaries
from latentbits.figures.latent_trait import curves


@pytest.fixture(scope="module")
def items():
    rng = np.random.default_rng(0)
    weights = rng.lognormal(0.2, 0.4, 30)
    return weights[None], -weights * rng.uniform(-2, 2, 30)


def test_error_against_time_names_every_curve_in_the_margin():
    seconds = np.geomspace(0.1, 10, 20)
    ax = curves.plot_error_against_time(
        {
            "slow": (10 * seconds, 5 + 1 / seconds),
            "fast": (np.r_[0, seconds], np.r_[99, 5 + 1 / seconds]),
            "same": (seconds, 5 + 1 / seconds),
        }
    )
    assert ax.get_xscale() == "log"
    assert names_of(ax) == ["slow: 5.1", "fast: 5.1", "same: 5.1"]
    assert overlapping(ax) == []
    full = [line for line in ax.lines if len(line.get_xdata()) == 20]
    assert len(full) == 3  # what happened at 0 seconds has no place
    assert ax.get_ylim()[1] < 99


def test_error_against_time_needs_time():
    with pytest.raises(DataError, match="'none' has no point"):
        curves.plot_error_against_time({"none": (np.zeros(2), np.ones(2))})


def test_item_curves_name_the_telling_items(items):
    components, intercept = items
    names = [f"item {j}" for j in range(30)]
    ax = curves.plot_item_curves(components, intercept, names)
    assert len(names_of(ax)) == curves.MOST_CURVES
    assert "12 of 30 items named" in ax.get_xlabel()
    assert overlapping(ax) == []
    for text in ax.texts:
        x, y = text.get_position()
        j = names.index(text.get_text())
        assert map_summaries.decode(components, intercept, [[x]])[0, j] == pytest.approx(y, abs=1e-3)
    assert len([line for line in ax.lines if len(line.get_xdata()) == 201]) == 30


def test_item_curves_need_one_latent_variable():
    with pytest.raises(DataError, match="one latent variable"):
        curves.plot_item_curves(np.ones((2, 3)), np.zeros(3))


def test_curves_that_coincide_have_names_apart():
    ax = curves.plot_item_curves(np.ones((1, 5)), np.zeros(5))
    assert names_of(ax) == ["1", "2", "3", "4", "5"]
    assert overlapping(ax) == []


def test_item_information_and_its_sum(items):
    components, intercept = items
    x = np.linspace(-3, 3, 61)[:, None]
    p = map_summaries.decode(components, intercept, x)
    information = np.square(components) * p * (1 - p)
    ax = curves.plot_item_information(x, information)
    assert len(ax.lines) == 30
    assert len(names_of(ax)) == 12
    assert overlapping(ax) == []
    np.testing.assert_allclose(ax.child_axes[0].lines[0].get_ydata(), information.sum(axis=1))
    assert max(ax.get_yticks()) < 0.68 * ax.get_ylim()[1]  # none beside the scale of the sum
    assert not curves.plot_item_information(x, information, total=False).child_axes


def test_item_information_must_fit_its_points():
    with pytest.raises(DataError, match="at 3 points"):
        curves.plot_item_information(np.zeros(3), np.ones((4, 2)))
