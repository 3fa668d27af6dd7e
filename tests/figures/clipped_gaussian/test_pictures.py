"""Spectra, weights, morphs and cells: what is distinguished, what is written where."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from pictures import names_of, overlapping

from latentbits.core.errors import DataError
from latentbits.figures.clipped_gaussian import arrays as spectrum_summaries
from latentbits.figures.clipped_gaussian import pictures as spectra

LINES = np.array([[1.0, 0.15], [-0.35, 1.0], [0.65, 0.9]]), np.array([0.75, 0.8, -0.7])
WINDOW = (-3.0, 3.0, -3.0, 3.0)


# --- summaries ---


def test_rounding_is_neither_positive_nor_negative():
    found = spectrum_summaries.spectrum_of(np.array([-2e-13, 1.0, 4.0, -3.0, 3e-12]))
    assert found.kinds.tolist() == [1, 1, 0, 0, -1]
    assert found.eigenvalues.tolist() == [4.0, 1.0, 3e-12, -2e-13, -3.0]
    assert found.negative_share == pytest.approx(3 / 8)
    assert spectrum_summaries.spectrum_of(np.zeros(3)).negative_share == 0
    with pytest.raises(DataError, match="finite"):
        spectrum_summaries.spectrum_of(np.array([1.0, np.nan]))


def test_cells_of_lines_fill_the_window():
    """Areas add up, each middle has the signs of its cell, and no two cells have the same."""
    rng = np.random.default_rng(0)
    weights, phi = rng.normal(size=(6, 2)), rng.normal(size=6) / 3
    cells = spectrum_summaries.cells_of_lines(weights, phi, spectrum_summaries.line_window(weights, phi))
    assert len(cells) == 1 + 6 + 15  # a window with all crossings has all cells
    assert len({tuple(cell.signs) for cell in cells}) == len(cells)
    for cell in cells:
        np.testing.assert_array_equal(np.sign(weights @ cell.middle + phi), cell.signs)
        corners = weights @ cell.corners.T + phi[:, None]
        assert (corners * cell.signs[:, None] > -1e-9).all()
    left, right, bottom, top = spectrum_summaries.line_window(weights, phi)
    assert sum(map(_area, cells)) == pytest.approx((right - left) * (top - bottom))


def _area(cell):
    x, y = cell.corners.T
    return abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))) / 2


def test_cells_that_share_an_edge_differ_in_one_sign():
    cells = spectrum_summaries.cells_of_lines(*LINES, WINDOW)
    shared = 0
    for i, one in enumerate(cells):
        for other in cells[:i]:
            common = sum(np.abs(other.corners - corner).sum(1).min() < 1e-9 for corner in one.corners)
            if common == 2:
                shared += 1
                assert np.sum(one.signs != other.signs) == 1
    assert shared == 9  # three lines, each in three pieces


def test_telling_loadings_come_in_groups():
    weights = np.array([[0.9, 0.1, 0.8, 0.0], [0.0, -0.7, 0.1, 0.1]])
    assert spectrum_summaries.telling_loadings(weights, 3).tolist() == [0, 2, 1]


# --- spectra ---


def test_spectra_say_how_many_are_positive_and_how_much_is_negative():
    ax = spectra.plot_spectra(np.array([3.0, 1.0, 0.5, 1e-16]), np.array([4.0, 1e-15, -0.5, -0.5]), 1)
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert "3 positive" in words[0]
    assert "1 positive" in words[1]
    assert "2 negative ones, 20.0%" in words[2]
    assert ax.get_yscale() == "log"
    assert names_of(ax) == ["0", "P = 1"]


def test_without_zeros_there_is_no_line_for_them():
    ax = spectra.plot_spectra(np.array([3.0, 1.0]), np.array([4.0, 0.1]), log_rank=True)
    assert names_of(ax) == []
    assert ax.get_xscale() == "log"
    with pytest.raises(DataError, match="all eigenvalues are zero"):
        spectra.plot_spectra(np.zeros(2), np.zeros(2))


# --- weights ---


def test_each_image_of_weights_has_its_own_scale():
    weights = np.stack([np.linspace(-1, 1, 6), 100 * np.linspace(0, 1, 6), np.zeros(6)])
    ax = spectra.plot_weights(weights, (2, 3), labels=["a", "b", "c"])
    sheet = ax.images[0].get_array()
    assert (np.nanmax(sheet), np.nanmin(sheet)) == (1, -1)
    assert names_of(ax) == ["a", "b", "c"]
    assert overlapping(ax) == []
    with pytest.raises(DataError, match=r", 6\)"):
        spectra.plot_weights(weights[:, :5], (2, 3))
    with pytest.raises(DataError, match="2 labels for 3 images"):
        spectra.plot_weights(weights, (2, 3), labels=["a", "b"])


def test_loadings_name_the_columns():
    ax = spectra.plot_loadings(np.array([[0.9, 0.1, 0.8], [0.0, -0.7, 0.1]]), ["wings", "milk", "eggs $5"], most=2)
    assert [text.get_text() for text in ax.get_yticklabels()] == ["wings", "eggs $5"]
    assert "2 of 3 columns" in ax.get_xlabel()
    ax.figure.canvas.draw()  # a dollar is no mathematics


# --- a morph ---


def test_morph_counts_what_flips():
    bits = np.array([[0, 0, 0, 1], [0, 1, 1, 1], [1, 1, 1, 1]])
    originals = np.array([[0, 0, 0, 0], [1, 1, 1, 1]])
    ax = spectra.plot_morph(bits, bits * 1.4 - 0.2, originals, (2, 2))
    assert names_of(ax) == ["1", "2", "1", "0"]
    assert [text.get_text() for text in ax.get_xticklabels()] == ["original", "0%", "50%", "100%", "original"]
    sheet = ax.images[0].get_array()
    assert (np.nanmin(sheet), np.nanmax(sheet)) == (0, 1)
    # what turns on in a step is in colour: two bits in the second step, one in the third, none elsewhere
    assert [image.get_array().count() for image in ax.images[1:]] == [3, 0]
    with pytest.raises(DataError, match="two originals"):
        spectra.plot_morph(bits, bits, bits, (2, 2))


# --- cells ---


@pytest.mark.parametrize(("phi", "n_cells"), [(np.zeros(3), 6), (LINES[1], 7)])
def test_every_cell_and_every_line_is_named(phi, n_cells):
    ax = spectra.plot_cells(LINES[0], phi, window=WINDOW)
    words = names_of(ax)
    cells = [word for word in words if len(word) == 3]
    assert len(cells) == len(set(cells)) == n_cells
    assert [word for word in words if word.startswith("s")] == ["s₁", "s₂", "s₃"]
    assert overlapping(ax) == []


def test_cells_have_the_names_of_a_table():
    words = names_of(spectra.plot_cells(*LINES, names=["milk", "eggs", "$ and $"]))
    assert {"milk", "eggs", "$ and $"} <= set(words)
    with pytest.raises(DataError, match=r"\(N, 2\)"):
        spectra.plot_cells(np.ones((3, 3)), np.ones(3))


def test_axes_given_are_axes_returned():
    images = np.zeros((3, 4))
    for draw, arguments in (
        (spectra.plot_spectra, {"binary": np.ones(2), "latent": np.ones(2)}),
        (spectra.plot_weights, {"weights": images, "image_shape": (2, 2)}),
        (spectra.plot_loadings, {"weights": np.ones((2, 4)), "column_names": "abcd"}),
        (spectra.plot_morph, {"bits": images, "cross_fade": images, "originals": images[:2], "image_shape": (2, 2)}),
        (spectra.plot_cells, {"weights": LINES[0], "phi": LINES[1]}),
    ):
        _, ax = plt.subplots()
        assert draw(**arguments, ax=ax) is ax
