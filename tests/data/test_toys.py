"""The synthetic sets against exact values.

The statistical tests use fixed seeds.  For each, the bound is so chosen that a fresh seed would fail with the
probability that is stated.
"""

import numpy as np
import pytest
from scipy import stats

from latentbits.core.errors import DataError
from latentbits.data import toys

FALSE_ALARM = 1e-6


def assert_frequencies(bits: np.ndarray, expected: np.ndarray) -> None:
    """Each column mean within a two-sided binomial bound; a union bound keeps the whole at FALSE_ALARM."""
    n = len(bits)
    expected = np.broadcast_to(expected, bits.shape[1:])
    level = FALSE_ALARM / expected.size / 2
    counts = bits.sum(axis=0)
    assert (counts >= stats.binom.ppf(level, n, expected)).all()
    assert (counts <= stats.binom.isf(level, n, expected)).all()


def test_linear_bars_have_the_papers_form():
    toy = toys.linear_bars(4000, random_state=1)
    assert toy.X.shape == (4000, 25)
    assert toy.components.shape == (10, 25)
    assert (np.count_nonzero(toy.components, axis=1) == 5).all()
    assert sorted(toy.components.sum(axis=1)) == [-50.0] * 5 + [50.0] * 5
    assert_frequencies(toy.causes, np.full(10, 0.2))
    noise = toy.X - toy.causes @ toy.components
    # the sum of squares is sigma^2 chi^2 with n D degrees of freedom
    low, high = stats.chi2.ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2], noise.size)
    assert low < (noise**2).sum() / 4.0 < high


def test_bars_cover_every_pixel_by_one_column_and_one_row():
    toy = toys.bars(5000, size=4, active=2.0, random_state=2)
    assert toy.components.sum(axis=0).tolist() == [2] * 16
    assert_frequencies(toy.causes, np.full(8, 0.25))
    # a pixel is off only if both of its bars are
    assert_frequencies(toy.X, np.full(16, 1 - 0.75**2))
    image = toys.bars(50, size=3, active=1.0, random_state=0)
    for x, causes in zip(image.X, image.causes):
        grid = np.zeros((3, 3), dtype=int)
        grid[:, causes[:3] == 1] = 1
        grid[causes[3:] == 1] = 1
        assert (x.reshape(3, 3) == grid).all()


def test_lines_marginals_are_those_of_the_or():
    toy = toys.lines(20000, random_state=3)
    assert toy.pattern_components.shape == (4, 25)
    drawn = ["".join(".#"[bit] for bit in row) for row in toy.pattern_components]
    assert drawn == [
        ".#.#." * 5,
        ".....#####.....#####.....",
        "..#....#..#####..#....#..",
        "#####....#....#....######",
    ]
    assert_frequencies(toy.causes, np.full(10, 0.3))
    assert_frequencies(toy.patterns, np.full(4, 0.15))
    off = 0.7**2 * 0.85 ** toy.pattern_components.sum(axis=0)
    assert_frequencies(toy.X, 1 - off)


def test_lines_with_one_pattern_at_most():
    """By the caption: a pattern alone, or lines; and the reading in which a pattern lies over lines."""
    over, alone = (toys.lines(20000, patterns=way, random_state=3) for way in ("one", "alone"))
    for toy in (over, alone):
        assert_frequencies(toy.patterns, np.full(4, 0.15))
        assert toy.patterns.sum(axis=1).max() == 1
        joined = toy.causes.astype(int) @ toy.components + toy.patterns.astype(int) @ toy.pattern_components
        assert ((joined > 0) == toy.X).all()
    assert_frequencies(over.causes, np.full(10, 0.3))
    assert_frequencies(alone.causes, np.full(10, 0.4 * 0.3))
    assert not alone.causes[alone.patterns.any(axis=1)].any()
    with pytest.raises(DataError, match="four times"):
        toys.lines(1, patterns="one", pattern_probability=0.3)
    with pytest.raises(DataError, match="patterns must be"):
        toys.lines(1, patterns="two")


def test_shifter_rows_are_copies_moved_by_one():
    toy = toys.shifter(3000, random_state=4)
    first, second, third, fourth = np.split(toy.X, 4, axis=1)
    assert toy.X.shape == (3000, 32)
    assert (first == second).all()
    assert (third == fourth).all()
    for step, direction in ((1, 1), (-1, 0)):
        rows = toy.direction == direction
        assert (third[rows] == np.roll(first[rows], step, axis=1)).all()
    assert_frequencies(np.column_stack([first, toy.direction]), np.full(9, 0.5))


@pytest.mark.parametrize("flip", [0.05, 0.15])
def test_prototypes_are_flipped_as_often_as_said(flip):
    toy = toys.noisy_prototypes(flip=flip, random_state=5)
    assert toy.X.shape == (600, 16)
    assert np.bincount(toy.labels).tolist() == [200] * 3
    flips = toy.prototypes[toy.labels] != toy.X
    assert_frequencies(flips.reshape(-1, 1), np.array([flip]))


def test_bump_has_the_papers_spectrum():
    """C_ss falls linearly with the distance, and sin(pi C_ss / 2) has two positive eigenvalues (figure 3)."""
    toy = toys.bump()
    assert toy.X.shape == (256, 256)
    assert (toy.X.sum(axis=1) == 128).all()
    assert len({tuple(row) for row in toy.X.tolist()}) == 256
    spins = 2.0 * toy.X - 1.0
    correlation = spins.T @ spins / 256
    distance = np.minimum(np.arange(256), 256 - np.arange(256))
    np.testing.assert_allclose(correlation[0], 1 - 4 * distance / 256, atol=1e-12)
    values = np.linalg.eigvalsh(np.sin(np.pi * correlation / 2))
    np.testing.assert_allclose(values[-2:], 128.0)
    np.testing.assert_allclose(values[:-2], 0.0, atol=1e-10)
    random = toys.bump(400, n_features=8, random_state=0)
    assert (toys.bump(n_features=8).X[random.shift] == random.X).all()
    assert_frequencies(np.eye(8, dtype=int)[random.shift], np.full(8, 1 / 8))


def test_sum_constrained_is_uniform_over_its_states():
    x = toys.sum_constrained(7000, n_features=4, random_state=6)
    assert (x.sum(axis=1) == 2).all()
    codes = x @ (1 << np.arange(4))
    states, counts = np.unique(codes, return_counts=True)
    assert len(states) == 6
    assert stats.chisquare(counts).pvalue > FALSE_ALARM


MAKERS = [
    toys.linear_bars,
    toys.bars,
    toys.lines,
    toys.shifter,
    toys.noisy_prototypes,
    toys.bump,
    toys.sum_constrained,
]


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_seeds_reproduce(make):
    def data(seed):
        made = make(30, random_state=seed)
        return made if isinstance(made, np.ndarray) else made[0]

    np.testing.assert_array_equal(data(3), data(3))
    np.testing.assert_array_equal(data(3), data(np.random.default_rng(3)))
    assert (data(3) != data(4)).any()
    assert len(data(None)) in (30, 90)


@pytest.mark.parametrize(
    ("make", "arguments", "named"),
    [
        (toys.bars, {"n_samples": 0}, "n_samples"),
        (toys.bars, {"active": 11.0}, "active"),
        (toys.lines, {"line_probability": 1.2}, "line_probability"),
        (toys.bump, {"n_features": 7}, "n_features"),
        (toys.sum_constrained, {"n_features": 3}, "n_features"),
        (toys.shifter, {"width": 2}, "width"),
        (toys.noisy_prototypes, {"flip": float("nan")}, "flip"),
    ],
)
def test_bad_arguments_are_named(make, arguments, named):
    with pytest.raises(DataError, match=named):
        make(**arguments)
