"""Where words go: in order, inside, not on one another."""

import numpy as np
import pytest

from latentbits.figures.placing import columns_that_fit, names_round_window, spread_apart, widened


def test_spread_apart_keeps_order_and_bounds():
    rng = np.random.default_rng(0)
    places, sizes = rng.uniform(0, 10, 12), rng.uniform(0.1, 1.0, 12)
    moved = spread_apart(places, sizes, 0, 10)
    order = np.argsort(places)
    gaps = np.diff(moved[order]) - (sizes[order][1:] + sizes[order][:-1]) / 2
    assert gaps.min() > -1e-9
    assert (moved - sizes / 2).min() > -1e-9
    assert (moved + sizes / 2).max() < 10 + 1e-9


def test_spread_apart_where_there_is_no_room_or_no_need():
    np.testing.assert_allclose(spread_apart(np.zeros(4), np.full(4, 5.0), 0, 4), [0.5, 1.5, 2.5, 3.5])
    np.testing.assert_allclose(spread_apart(np.array([3.0, 1.0]), np.ones(2), 0, 4), [3, 1])
    assert len(spread_apart(np.empty(0), np.empty(0), 0, 1)) == 0


@pytest.mark.parametrize(("room", "columns"), [(100.0, 4), (30.0, 2), (5.0, 1)])
def test_columns_that_fit(room, columns):
    assert columns_that_fit([10.0, 10.0, 20.0, 10.0], room) == columns


def test_a_window_is_widened_and_never_cut():
    assert widened((0.0, 4.0, 0.0, 1.0), 3.5, most=9.0) == pytest.approx((0, 4, -1 / 14, 15 / 14))
    assert widened((0.0, 1.0, 0.0, 1.0), 100.0, most=2.0) == pytest.approx((-0.5, 1.5, 0, 1))


def test_names_round_a_window_lie_between_it_and_the_limits():
    rng = np.random.default_rng(0)
    angle, bias = rng.uniform(0, 2 * np.pi, 20), rng.uniform(-0.8, 0.8, 20)
    weights = np.column_stack([np.cos(angle), np.sin(angle)])
    widths, window = np.full(20, 30.0), (-1.0, 1.0, -1.0, 1.0)
    ring = names_round_window(weights, bias, widths, 10.0, window, (400.0, 300.0))
    left, right, bottom, top = ring.limits
    assert left < -1 < 1 < right
    assert bottom < -1 < 1 < top
    np.testing.assert_allclose(np.einsum("mea,ma->me", ring.ends, weights) + bias[:, None], 0, atol=1e-9)
    for side, border in enumerate(ring.limits):
        across = ring.targets[ring.sides == side, side // 2]
        assert (np.abs(across - border) * ring.scale >= 9.9).all()  # room for a line of text
        along = np.sort(ring.targets[ring.sides == side, 1 - side // 2])
        assert (np.diff(along) * ring.scale > 9.9).all()
    assert (right - left) * ring.scale <= 400 + 1e-6
    assert (top - bottom) * ring.scale <= 300 + 1e-6
