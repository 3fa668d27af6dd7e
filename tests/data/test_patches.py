"""Patches: where they are cut, what is done before and after, and what is refused."""

import numpy as np
import pytest

from latentbits.core.errors import DataError
from latentbits.data.patches import clamp_brightest, difference_of_gaussians, natural_patches, random_patches
from latentbits.data.whitening import fit_zca


@pytest.fixture(scope="module")
def images():
    """Two grey images of different shape and type, smooth, with a constant stripe each."""
    rng = np.random.default_rng(0)
    rough = [np.cumsum(np.cumsum(rng.normal(size=shape), 0), 1) for shape in ((80, 60), (50, 90))]
    first, second = (np.rint(127 + 60 * (one - one.mean()) / one.std()).clip(0, 255) for one in rough)
    first[:30] = 255
    return [first.astype(np.uint8), second]


def test_patches_are_what_is_at_their_positions(images):
    x, where = random_patches(images, 500, (7, 5), random_state=0, return_positions=True)
    assert x.shape == (500, 35)
    assert x.dtype == np.float32
    for row, (image, top, left) in zip(x, where):
        np.testing.assert_array_equal(row.reshape(7, 5), images[image][top : top + 7, left : left + 5])
    again = random_patches(images, 500, (7, 5), random_state=0)
    np.testing.assert_array_equal(x, again)
    assert np.diff(where[:, 0]).min() < 0  # in the order of the draw, not of the images


def test_every_place_is_as_likely():
    rng = np.random.default_rng(1)
    shapes = [(5, 7), (4, 4), (2, 9)]  # the last has no room
    _, where = random_patches(
        [rng.normal(size=s) for s in shapes], 40_000, (3, 3), random_state=2, return_positions=True
    )
    counts = np.unique(where, axis=0, return_counts=True)[1]
    assert len(counts) == 3 * 5 + 2 * 2
    expected = 40_000 / 19
    assert np.sum((counts - expected) ** 2 / expected) < 45  # chi-square of 18 degrees: P < 0.0005


def test_one_image_a_stack_and_a_list_are_the_same(images):
    image = images[1]
    one, stack, some = (random_patches(form, 20, (4, 4), random_state=0) for form in (image, image[None], [image]))
    np.testing.assert_array_equal(one, stack)
    np.testing.assert_array_equal(one, some)


@pytest.mark.parametrize("preprocess", [None, "zca", "dog"])
def test_constant_patches_are_drawn_again(images, preprocess):
    found = natural_patches(images[0], 400, (6, 6), preprocess=preprocess, clamp=0, surround=1.5, random_state=0)
    assert found.X.std(axis=1).min() > 0
    assert found.positions[:, 1].min() > 30 - 6 - 2 * 6  # a filter sees the edge from afar


def test_constant_images_are_refused():
    with pytest.raises(DataError, match="constant wherever"):
        random_patches(np.ones((20, 20)), 5, (4, 4))


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


def test_zca_whitens_down_to_its_floor():
    rng = np.random.default_rng(0)
    mix = rng.normal(size=(9, 9)) * np.geomspace(1, 1e-3, 9)
    x = rng.normal(size=(4000, 9)) @ mix.T + 5
    fitted = fit_zca(x, floor=0)
    white = fitted.apply(x)
    np.testing.assert_allclose(np.cov(white.T, bias=True), np.eye(9), atol=1e-4)
    np.testing.assert_allclose(fitted.whiten, fitted.whiten.T, atol=1e-6 * fitted.whiten.max())
    np.testing.assert_allclose(fitted.invert(white), x, atol=1e-3)
    floored = fit_zca(x, floor=0.05)
    spectrum = np.linalg.eigvalsh(np.cov(x.T, bias=True))
    expected = spectrum / np.maximum(spectrum, 0.05 * spectrum.mean())
    np.testing.assert_allclose(np.linalg.eigvalsh(np.cov(floored.apply(x).T, bias=True)), expected, atol=1e-4)
    field = rng.normal(size=9)
    np.testing.assert_allclose(floored.to_pixels(field @ floored.whiten), field, atol=1e-6)


def test_whitened_patches_of_images(images):
    found = natural_patches(images, 3000, (5, 5), preprocess="zca", random_state=0)
    raw = random_patches([clamp_brightest(one) for one in images], 3000, (5, 5), random_state=0)
    np.testing.assert_allclose(found.whitening.invert(found.X), raw - raw.mean(1, keepdims=True), atol=1e-2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: random_patches([np.zeros((8, 8, 3))], 1, (2, 2)), "image 0 has shape"),
        (lambda: random_patches([], 1), "at least one image"),
        (lambda: random_patches(np.ones((8, 8)), 1), "room for 26 x 26"),
        (lambda: natural_patches(np.ones((40, 40)), 1), "12 more on every side"),
        (lambda: random_patches(np.ones((8, 8)), 0), "n_patches"),
        (lambda: random_patches(np.ones((8, 8)), 1, (0, 2)), "size"),
        (lambda: random_patches(np.where(np.eye(8) > 0, np.nan, 1), 9, (2, 2)), "row 0, column 0"),
        (lambda: random_patches(np.full((8, 8), "a"), 1, (2, 2)), "numbers"),
        (lambda: natural_patches(np.ones((8, 8)), 1, (2, 2), preprocess="pca"), "'pca'"),
        (lambda: clamp_brightest(np.ones((8, 8)), 1.0), "share"),
        (lambda: clamp_brightest(np.ones(8)), "shape"),
        (lambda: difference_of_gaussians(np.ones((80, 80)), 3, 1), "less than surround"),
        (lambda: difference_of_gaussians(np.ones((20, 80))), "margin of 12"),
        (lambda: fit_zca(np.ones((5, 3))), "variance is 0"),
        (lambda: fit_zca(np.ones(5)), "shape"),
    ],
)
def test_what_is_refused(call, words):
    with pytest.raises(DataError, match=words):
        call()
