"""The arrays behind the pictures."""

import numpy as np
import pytest

from latentbits.figures.any_model import arrays as summaries


def test_telling_columns_are_those_that_differ():
    means = np.array([[0.5, 0.9, 0.1, 0.2], [0.5, 0.1, 0.8, 0.2]])
    assert summaries.telling_columns(np.array([0.5, 0.5]), means, 2).tolist() == [1, 2]
    assert sorted(summaries.telling_columns(np.array([0.5, 0.5]), means, 9).tolist()) == [0, 1, 2, 3]


def test_tile_leaves_gaps():
    sheet = summaries.tile(np.arange(12).reshape(3, 4), (2, 2), 2)
    assert sheet.shape == (5, 5)
    np.testing.assert_array_equal(sheet[:2, :2], [[0, 1], [2, 3]])
    np.testing.assert_array_equal(sheet[3:, :2], [[8, 9], [10, 11]])
    assert np.isnan(sheet[2]).all()
    assert np.isnan(sheet[3:, 2:]).all()


def test_share_right_of_nothing_is_nan():
    assert np.isnan(summaries.share_right(np.ones((1, 2)), np.full((1, 2), np.nan), np.ones((1, 2), bool)))


def test_hidden_share():
    hidden = summaries.hide_some((100, 100), np.random.default_rng(0))
    assert hidden.mean() == pytest.approx(summaries.HIDDEN_SHARE, abs=0.02)
