"""Basis functions: what is measured on made ones, and what is drawn."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from pictures import names_of, overlapping

from latentbits.core.errors import DataError
from latentbits.figures.binary_sparse_coding.arrays import by_globularity, summarize_fields
from latentbits.figures.binary_sparse_coding.pictures import plot_course, plot_fields

SHAPE = (26, 26)


def spot(centre, size, surround=0.0, aspect=1.0):
    """A Gaussian, less one that is three times as wide; `surround` 1 makes the sum zero."""
    row, column = np.indices(SHAPE) - np.reshape(centre, (2, 1, 1))
    square = (row / aspect) ** 2 + column**2
    return np.exp(-square / (2 * size**2)) - surround / 9 * np.exp(-square / (18 * size**2))


def gabor(centre, orientation, frequency, width, length, phase):
    """A wave within a Gaussian envelope of height 1; angles in degrees, 0 for horizontal stripes."""
    row, column = np.indices(SHAPE) - np.reshape(centre, (2, 1, 1))
    angle = np.radians(orientation - 90)
    across = column * np.cos(angle) - row * np.sin(angle)
    along = -row * np.cos(angle) - column * np.sin(angle)
    envelope = np.exp(-((across / width) ** 2 + (along / length) ** 2) / 2)
    return envelope * np.cos(2 * np.pi * frequency * across + np.radians(phase))


def angle_between(a, b):
    return np.abs((a - b + 90) % 180 - 90)


@pytest.fixture(scope="module")
def truth():
    """Parameters of twenty Gabor functions."""
    rng = np.random.default_rng(0)
    frequency = rng.uniform(0.08, 0.2, 20)
    width = rng.uniform(0.25, 0.5, 20) / frequency
    return {
        "centre": rng.uniform(9, 16, (20, 2)),
        "orientation": rng.uniform(0, 180, 20),
        "frequency": frequency,
        "width": width,
        "length": np.minimum(width * rng.uniform(0.9, 1.8, 20), 6),
        "phase": rng.uniform(-180, 180, 20),
    }


@pytest.fixture(scope="module")
def gabors(truth):
    rows = [dict(zip(truth, values)) for values in zip(*truth.values())]
    return np.array([gabor(**row).ravel() for row in rows])


@pytest.fixture(scope="module")
def spots():
    rng = np.random.default_rng(1)
    return np.array([spot(rng.uniform(9, 16, 2), s, k).ravel() for s in np.linspace(1.5, 3, 10) for k in (0, 0.5, 1)])


@pytest.mark.parametrize(("noise", "degrees"), [(0.0, 0.3), (0.1, 8.0)])
def test_globular_fields_come_first(gabors, spots, truth, noise, degrees):
    fields = np.concatenate([gabors, spots])
    fields = fields + noise * np.random.default_rng(2).normal(size=fields.shape)
    found = summarize_fields(fields, SHAPE)
    assert found.globularity.min() >= 0
    assert found.globularity.max() <= 1
    assert set(by_globularity(found)[: len(spots)]) == set(range(len(gabors), len(fields)))
    assert found.globularity[len(gabors) :].min() > 2 * found.globularity[: len(gabors)].max()
    assert angle_between(found.orientation[: len(gabors)], truth["orientation"]).max() < degrees


def test_measures_of_gabor_functions(gabors, truth):
    found = summarize_fields(gabors, SHAPE)
    np.testing.assert_allclose(found.frequency, truth["frequency"], rtol=0.06)
    np.testing.assert_allclose(found.centre, truth["centre"], atol=0.6)
    np.testing.assert_allclose(found.length, truth["length"], rtol=0.1)
    np.testing.assert_allclose(found.width, truth["width"], rtol=0.45)  # an edge is wider than its envelope
    np.testing.assert_allclose(found.aspect, found.length / found.width)
    assert found.localisation.min() > 0.7
    assert found.signal.min() > 0.99
    even = np.cos(np.radians(truth["phase"])) ** 2
    assert np.corrcoef(even, found.symmetry)[0, 1] > 0.95


def test_measures_of_spots():
    fields = np.array([spot((10, 15), 2.0), spot((10, 15), 2.0, 1.0), spot((12, 12), 1.5, aspect=2.0)]).reshape(3, -1)
    found = summarize_fields(fields, SHAPE)
    assert (found.globularity[:2] > 0.97).all()
    assert 0.2 < found.globularity[2] < 0.6
    np.testing.assert_allclose(found.centre[:2], [[10, 15], [10, 15]], atol=0.05)
    np.testing.assert_allclose(found.length[0], 2, rtol=0.05)
    assert found.orientation[2] == pytest.approx(90, abs=0.5)
    assert found.elongation[2] == pytest.approx(0.5, abs=0.03)
    assert found.aspect[2] == pytest.approx(2, abs=0.1)
    assert found.frequency[0] == 0
    assert 0.05 < found.frequency[1] < 0.1
    np.testing.assert_allclose(found.symmetry, 1, atol=1e-3)
    assert found.polarity[0] > 0.99


def test_sign_and_scale_do_not_matter(gabors, spots):
    fields = np.concatenate([gabors[:5], spots[:5]])
    fields = fields + 0.03 * np.random.default_rng(0).normal(size=fields.shape)
    one, other = summarize_fields(fields, SHAPE), summarize_fields(-1e-4 * fields, SHAPE)
    for name in one._fields:
        sign = -1 if name == "polarity" else 1
        np.testing.assert_allclose(getattr(one, name), sign * getattr(other, name), rtol=1e-6, atol=1e-12, err_msg=name)


def test_fields_without_a_shape_are_last(gabors, spots):
    rng = np.random.default_rng(0)
    pixel = np.zeros(676)
    pixel[300] = 2
    fields = np.array([np.zeros(676), rng.normal(size=676), np.ones(676), gabors[0], spots[0], pixel])
    found = summarize_fields(fields, SHAPE)
    assert found.globularity[0] == 0
    assert np.isnan(found.orientation[0])
    assert found.globularity[1] < 0.1  # noise
    assert found.signal[1] < 0.1
    assert set(by_globularity(found)[:2]) == {4, 5}
    assert by_globularity(found)[-1] == 0


def test_fields_that_the_border_cuts_come_after_whole_ones(spots):
    fields = np.array([spot((0, 12), 2.0).ravel(), spot((25, 25), 2.0).ravel(), spots[1], spots[2]])
    found = summarize_fields(fields, SHAPE)
    assert (found.margin[:2] < 1.5).all()
    assert (found.margin[2:] > 2.5).all()
    assert set(by_globularity(found)[:2]) == {2, 3}
    np.testing.assert_array_equal(by_globularity(found, 0, 0), np.argsort(-found.globularity))


@pytest.mark.parametrize("bad", [np.zeros((2, 5)), np.zeros((0, 6)), np.full((1, 6), np.nan)])
def test_components_that_are_no_images(bad):
    with pytest.raises(DataError, match=r"\(H, 6\)"):
        summarize_fields(bad, (2, 3))


# --- pictures ---


def test_gallery_draws_fields_in_order_each_on_its_scale():
    fields = np.array([[0.0, 1], [0, -100], [4, 2]])
    ax = plot_fields(fields, (1, 2), order=[2, 0], n_columns=2)
    sheet = np.ma.filled(ax.images[0].get_array(), np.nan)
    np.testing.assert_array_equal(sheet[0, [0, 1, -2, -1]], [1, 0.5, 0, 1])
    assert ax.images[0].get_clim() == (-1, 1)
    common = np.ma.filled(plot_fields(fields, (1, 2), common=True, n_columns=3).images[0].get_array(), np.nan)
    np.testing.assert_array_equal(common[0, -2:], [0.04, 0.02])
    assert np.nanmin(common) == -1


def test_gallery_has_its_words():
    fields = np.random.default_rng(0).normal(size=(7, 25))
    ax = plot_fields(fields, (5, 5), labels=list("abcdefg"), n_columns=3, row_labels=["0", "10", "60"])
    assert names_of(ax) == list("abcdefg")
    assert overlapping(ax) == []
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["0", "10", "60"]
    _, given = plt.subplots()
    assert plot_fields(fields, (5, 5), given, colours="signed") is given


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"labels": ["a"]}, "1 labels for 2 images"),
        ({"row_labels": ["a"], "n_columns": 1}, "1 labels for 2 rows"),
        ({"image_shape": (2, 3)}, r"\(H, 6\)"),
        ({"colours": "blue"}, "'blue'"),
        ({"n_columns": 0}, "n_columns"),
        ({"order": []}, "no field"),
    ],
)
def test_gallery_refuses(changes, words):
    with pytest.raises(DataError, match=words):
        plot_fields(**{"components": np.ones((2, 4)), "image_shape": (2, 2), **changes})


def test_course_has_two_panels_with_truth():
    falling = np.exp(-np.arange(61) / 10)
    runs = {"from 5": (2 + 3 * falling, 2 + 4 * falling), "from 1": (2 - falling[:41], 2 + 3 * falling[:41])}
    axes = plot_course(runs, truth=(2.0, 2.0), marks=(20, 20))
    assert len(axes) == 2
    assert names_of(axes[0]) == ["from 5: 2.01", "from 1: 1.98"]
    assert "sigma" in axes[1].get_ylabel()
    for ax in axes:
        assert overlapping(ax) == []
        assert len([line for line in ax.lines if line.get_linestyle() == "--"]) == 1
        assert sorted(len(line.get_xdata()) for line in ax.lines)[-2:] == [41, 61]
    _, given = plt.subplots(2)
    assert plot_course({"": runs["from 5"]}, given) is given
    with pytest.raises(DataError, match="for every iteration"):
        plot_course({"bad": (np.ones(3), np.ones(2))})
    with pytest.raises(DataError, match="no run"):
        plot_course({})
