"""Patches: where they are cut, what is done before and after, and what is refused."""

import numpy as np
import pytest

from latentbits.core.errors import DataError
from latentbits.data.patches import clamp_brightest, difference_of_gaussians, natural_patches


@pytest.fixture(scope="module")
def images():
    """Two grey images of different shape and type, smooth, with a constant stripe each."""
    rng = np.random.default_rng(0)
    rough = [np.cumsum(np.cumsum(rng.normal(size=shape), 0), 1) for shape in ((80, 60), (50, 90))]
    first, second = (np.rint(127 + 60 * (one - one.mean()) / one.std()).clip(0, 255) for one in rough)
    first[:30] = 255
    return [first.astype(np.uint8), second]


def test_patches_are_what_is_at_their_positions(images):
    found = natural_patches(images, 500, (7, 5), surround=1.5, random_state=0)
    assert found.X.shape == (500, 35)
    assert found.X.dtype == np.float32
    filtered = [difference_of_gaussians(clamp_brightest(image), surround=1.5, crop=False) for image in images]
    rows = [filtered[image][top : top + 7, left : left + 5].ravel() for image, top, left in found.positions]
    np.testing.assert_array_equal(found.X, np.array(rows) / np.float32(found.scale))
    assert found.X.std() == pytest.approx(1, abs=1e-4)
    again = natural_patches(images, 500, (7, 5), surround=1.5, random_state=0)
    np.testing.assert_array_equal(found.X, again.X)
    assert np.diff(found.positions[:, 0]).min() < 0  # in the order of the draw, not of the images


def test_every_place_is_as_likely():
    rng = np.random.default_rng(1)
    shapes = [(13, 15), (12, 12), (10, 17)]  # the last has no room beside a margin of 4
    some = [rng.normal(size=s) for s in shapes]
    where = natural_patches(some, 40_000, (3, 3), centre=0.3, surround=1, random_state=2).positions
    counts = np.unique(where, axis=0, return_counts=True)[1]
    assert len(counts) == 3 * 5 + 2 * 2
    expected = 40_000 / 19
    assert np.sum((counts - expected) ** 2 / expected) < 45  # chi-square of 18 degrees: P < 0.0005


def test_one_image_a_stack_and_a_list_are_the_same(images):
    image = images[1]
    one, stack, some = (natural_patches(form, 20, (4, 4), random_state=0).X for form in (image, image[None], [image]))
    np.testing.assert_array_equal(one, stack)
    np.testing.assert_array_equal(one, some)


def test_constant_patches_are_drawn_again(images):
    found = natural_patches(images[0], 400, (6, 6), clamp=0, surround=1.5, random_state=0)
    assert found.X.std(axis=1).min() > 0
    assert found.positions[:, 1].min() > 30 - 6 - 2 * 6  # a filter sees the edge from afar


def test_constant_images_are_refused():
    with pytest.raises(DataError, match="constant wherever"):
        natural_patches(np.ones((40, 40)), 5, (4, 4))


def test_brightest_are_clamped_by_image(images):
    both = np.stack([images[0][:50, :60].astype(float), 10 * images[1][:, :60]])
    clamped = clamp_brightest(both, 0.1)
    for before, after in zip(both, clamped):
        limit = np.sort(before, axis=None)[-300 - 1]
        np.testing.assert_array_equal(after, np.minimum(before, limit))
    assert clamp_brightest(images[0]).dtype == np.uint8
    np.testing.assert_array_equal(clamp_brightest(images[1], 0), images[1])


def test_difference_of_gaussians_is_a_band():
    def gain(frequency, centre=1.0, surround=3.0):
        wave = np.cos(2 * np.pi * frequency * np.arange(200.0))[None] * np.ones((60, 1))
        return np.abs(difference_of_gaussians(wave, centre, surround)).max()

    for f in (0.02, 0.1, 0.3):
        expected = np.exp(-2 * (np.pi * f) ** 2) - np.exp(-2 * (3 * np.pi * f) ** 2)
        assert gain(f) == pytest.approx(expected, abs=2e-3)
    assert np.abs(difference_of_gaussians(np.full((60, 60), 1e5))).max() == 0


def test_the_border_touches_no_patch(images):
    """What is beyond the margin makes no difference: a larger image has the same patches inside."""
    large = np.pad(images[1], 15, constant_values=1e3)
    inside = difference_of_gaussians(images[1])
    np.testing.assert_allclose(
        difference_of_gaussians(large, crop=False)[27:-27, 27:-27], inside, atol=1e-3 * inside.std()
    )
    found = natural_patches(images[1], 300, (5, 5), clamp=0, random_state=0)
    rows = [inside[r - 12 : r - 7, c - 12 : c - 7].ravel() for _, r, c in found.positions]
    np.testing.assert_allclose(found.X * found.scale, rows, atol=1e-3)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: natural_patches([np.zeros((8, 8, 3))], 1, (2, 2)), "image 0 has shape"),
        (lambda: natural_patches([], 1), "at least one image"),
        (lambda: natural_patches(np.ones((8, 8)), 1), "room for 26 x 26"),
        (lambda: natural_patches(np.ones((40, 40)), 1), "12 more on every side"),
        (lambda: natural_patches(np.ones((8, 8)), 0), "n_patches"),
        (lambda: natural_patches(np.ones((8, 8)), 1, (0, 2)), "size"),
        (lambda: natural_patches(np.where(np.eye(40) > 0, np.nan, 1), 9, (2, 2)), "row 0, column 0"),
        (lambda: natural_patches(np.full((40, 40), "a"), 1, (2, 2)), "numbers"),
        (lambda: clamp_brightest(np.ones((8, 8)), 1.0), "share"),
        (lambda: clamp_brightest(np.ones(8)), "shape"),
        (lambda: difference_of_gaussians(np.ones((80, 80)), 3, 1), "less than surround"),
        (lambda: difference_of_gaussians(np.ones((20, 80))), "margin of 12"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()
