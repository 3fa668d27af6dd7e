"""Maps of the latent space: what is drawn, where, and that it can be read."""

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.collections import LineCollection, PathCollection
from pictures import names_of, overlapping

from latentbits.core.errors import DataError
from latentbits.data.toys import noisy_prototypes
from latentbits.figures.latent_trait import arrays as map_summaries
from latentbits.figures.latent_trait import maps
from latentbits.figures.latent_trait.several_maps import plot_several_maps
from latentbits.figures.style import SMALL


@pytest.fixture(scope="module")
def toy():
    """Three clusters in the plane, 16 lines between them, as a latent trait of the paper's toy has."""
    data = noisy_prototypes(40, random_state=0)
    rng = np.random.default_rng(0)
    corners = np.array([[-1.5, 0.0], [1.0, 1.0], [1.0, -1.0]])
    means = corners[data.labels] + 0.05 * (data.X @ rng.normal(size=(16, 2)))
    return data, means, 2 * rng.normal(size=(2, 16)), rng.normal(size=16)


def glyphs(ax):
    return next(c for c in ax.collections if isinstance(c, PathCollection))


def lines(ax):
    return [c for c in ax.collections if isinstance(c, LineCollection)]


def legend(ax):
    return [text.get_text() for text in ax.get_legend().get_texts()]


# --- glyphs ---


def test_rows_that_coincide_are_one_glyph_with_their_number_as_area():
    means = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], [1, 9, 4], axis=0)
    ax = maps.plot_map(means)
    drawn = glyphs(ax)
    np.testing.assert_allclose(drawn.get_offsets(), [[1, 0], [0, 1], [0, 0]])
    areas = drawn.get_sizes()
    np.testing.assert_allclose(areas / areas[-1], [9, 4, 1])
    assert legend(ax) == ["1 row", "5 rows"]


def test_shapes_of_equal_count_have_equal_area():
    means = np.repeat([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], 5, axis=0)
    drawn = glyphs(maps.plot_map(means, labels=np.repeat([0, 1, 2], 5)))
    areas = []
    for path, size in zip(drawn.get_paths(), drawn.get_sizes()):
        x, y = path.to_polygons()[0].T
        areas.append(size * abs(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))))
    assert max(areas) == pytest.approx(min(areas))


def test_labels_have_a_colour_and_a_shape_each(toy):
    data, means, *_ = toy
    ax = maps.plot_map(means, labels=data.labels, label_names={2: "owl", 0: "cat", 1: "dog"})
    assert legend(ax)[:3] == ["owl", "cat", "dog"]
    handles = ax.get_legend().legend_handles[:3]
    assert len({h.get_color() for h in handles}) == len({h.get_marker() for h in handles}) == 3
    looks = {(len(p), tuple(c)) for p, c in zip(glyphs(ax).get_paths(), glyphs(ax).get_facecolors())}
    assert len(looks) == 3


def test_rows_without_a_label_are_grey():
    ax = maps.plot_map(np.arange(10.0).reshape(5, 2), labels=["a", None, np.nan, "", "a"])
    assert legend(ax) == ["a", "no label"]


def test_no_row_is_a_map_too():
    ax = maps.plot_map(np.empty((0, 2)), labels=[], boundaries=(np.ones((2, 3)), np.zeros(3)))
    assert len(glyphs(ax).get_offsets()) == 0
    assert np.diff(ax.get_xlim()) > 0


def test_labels_must_fit_the_rows():
    with pytest.raises(DataError, match="2 labels for 3 rows"):
        maps.plot_map(np.zeros((3, 2)), labels=[0, 1])
    with pytest.raises(DataError, match="means must be a table"):
        maps.plot_map(np.zeros(3))


def test_scales_are_equal_and_every_row_is_inside(toy):
    _, means, *_ = toy
    _, ax = plt.subplots(figsize=(9, 3))
    assert maps.plot_map(means, ax) is ax
    ax.figure.canvas.draw()
    assert ax.get_aspect() == 1
    assert ax.get_xlim()[0] < means[:, 0].min() < means[:, 0].max() < ax.get_xlim()[1]
    assert ax.get_ylim()[0] < means[:, 1].min() < means[:, 1].max() < ax.get_ylim()[1]


def test_two_of_many_latent_variables():
    means = np.random.default_rng(0).normal(size=(20, 3))
    components, intercept = np.array([[9.0], [1.0], [-1.0]]), np.array([0.1])
    ax = maps.plot_map(means, dimensions=(2, 1), boundaries=(components, intercept))
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("latent 3", "latent 2")
    ends = lines(ax)[0].get_segments()[0]
    np.testing.assert_allclose(-ends[:, 0] + ends[:, 1] + 0.1, 0, atol=1e-9)


# --- lines ---


def test_lines_are_where_a_bit_is_undecided_and_each_has_its_name(toy):
    _, means, components, intercept = toy
    names = [f"bit {j}" for j in range(16)]
    ax = maps.plot_map(means, boundaries=(components, intercept, names))
    drawn, leaders, ticks = (np.array(c.get_segments()) for c in lines(ax))
    shown = [names.index(name) for name in names_of(ax)]
    assert len(drawn) == len(leaders) == len(ticks) == len(shown) == len(set(shown)) > 5
    for j, ends, leader, tick in zip(shown, drawn, leaders, ticks):
        probability = map_summaries.decode(components, intercept, np.vstack([ends, tick[1]]))[:, j]
        np.testing.assert_allclose(probability[:2], 0.5, atol=1e-9)
        assert probability[2] > 0.5  # the tick is on the side of 1
        assert any(np.allclose(leader[0], end) for end in ends)
    words = f"P(bit = 1) = ½, {len(shown)} of 16 bits" if len(shown) < 16 else "all 16 bits"
    assert any(words in text for text in legend(ax))


def test_names_do_not_overlap():
    rng = np.random.default_rng(1)
    means, d = rng.normal(size=(300, 2)), 256
    ax = maps.plot_map(
        means,
        boundaries=(2 * rng.normal(size=(2, d)), rng.normal(size=d), [f"a rather long name {j}" for j in range(d)]),
    )
    assert len(ax.texts) == maps.MOST_LINES
    assert overlapping(ax) == []
    assert "20 of 256 bits" in legend(ax)[0]


def test_names_are_not_taken_for_mathematics():
    ax = maps.plot_map(np.array([[-1.0, 0.0], [1.0, 0.0]]), boundaries=(np.eye(2)[:, :1], np.zeros(1), [r"$\bad$"]))
    ax.figure.canvas.draw()
    assert names_of(ax) == [r"$\bad$"]


def test_telling_boundaries_run_among_the_rows_and_differ():
    rng = np.random.default_rng(0)
    places = rng.normal(size=(200, 2))
    window = map_summaries.data_window(places)
    # ten times the same line, one across it, one far away, one without a direction
    weights = np.vstack([np.tile([3.0, 0.0], (10, 1)), [[0.0, 3.0], [1.0, 0.0], [0.0, 0.0]]])
    bias = np.array([*[0.0] * 10, 0.0, 50.0, 1.0])
    chosen = map_summaries.telling_boundaries(weights, bias, places, 2, window)
    assert sorted(chosen // 10) == [0, 1]
    assert map_summaries.telling_boundaries(weights, bias, places, 20, window).tolist() == list(range(11))


def test_boundary_ends_at_the_window():
    weights = np.array([[1.0, 1.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0], [1.0, 0.0]])
    ends = map_summaries.boundary_ends(weights, np.array([0.0, -1.0, 5.0, 1.0, 0.25]), (-1.0, 1.0, -2.0, 2.0))
    np.testing.assert_allclose(np.sort(ends[0], axis=0), [[-1, -1], [1, 1]])
    np.testing.assert_allclose(np.sort(ends[1], axis=0), [[-1, 0.5], [1, 0.5]])
    assert np.isnan(ends[2:4]).all()
    np.testing.assert_allclose(np.sort(ends[4], axis=0), [[-0.25, -2], [-0.25, 2]])


# --- marks ---


def test_marks_carry_the_numbers_of_the_images():
    places = np.array([[0.0, 0.0], [1.0, 1.0]])
    ax = maps.plot_map(np.random.default_rng(0).normal(size=(9, 2)), marks=places)
    assert names_of(ax) == ["1", "2"]
    assert [text.get_position() for text in ax.texts] == [(0, 0), (1, 1)]
    beside = maps.plot_decoded(np.full((2, 6), 0.5), (2, 3))
    assert names_of(beside) == ["1", "2"]
    assert len(beside.images) == 1
    assert names_of(maps.plot_decoded(np.full((2, 6), 0.5), (2, 3), numbers=[4, 9])) == ["4", "9"]


def test_spread_places_have_the_middle_and_the_ends():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(500, 2)) * [3.0, 1.0]
    places = map_summaries.spread_places(means, 5)
    assert places.shape == (5, 2)
    assert (np.diff(places[:, 0]) > 0).all()
    assert (np.abs(places / [3.0, 1.0]).max(axis=0) > 1).all()
    assert np.min(np.hypot(*(places / [3.0, 1.0]).T)) < 0.2
    assert all((place == means).all(axis=1).any() for place in places)
    assert len(map_summaries.spread_places(np.zeros((10, 2)), 5)) == 1


# --- posteriors ---


@pytest.fixture(scope="module")
def row():
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2, 8).astype(float)
    bits[[1, 4]] = np.nan
    return 2 * rng.normal(size=(2, 8)), rng.normal(size=8), bits


def test_posterior_grid_against_sums(row):
    components, intercept, bits = row
    grid = map_summaries.posterior_grid(components, intercept, bits, extent=(-6.0, 6.0, -5.0, 5.0), n_points=81)
    x, y = np.linspace(-6, 6, 81), np.linspace(-5, 5, 81)
    joint = np.zeros((81, 81))
    for i in range(81):
        for j in range(81):
            p = 1 / (1 + np.exp(-(components.T @ [x[j], y[i]] + intercept)))
            seen = np.where(bits == 1, p, 1 - p)[~np.isnan(bits)]
            joint[i, j] = np.prod(seen) * np.exp(-(x[j] ** 2 + y[i] ** 2) / 2)
    density = joint / joint.sum() / ((x[1] - x[0]) * (y[1] - y[0]))
    np.testing.assert_allclose(np.exp(grid.log_density), density, rtol=1e-9, atol=1e-20)
    np.testing.assert_allclose(grid.mean, [(joint.sum(0) @ x) / joint.sum(), (joint.sum(1) @ y) / joint.sum()])
    # the window it chooses for itself loses next to nothing
    own = map_summaries.posterior_grid(components, intercept, bits)
    np.testing.assert_allclose(own.mean, grid.mean, atol=1e-3)
    np.testing.assert_allclose(own.covariance, grid.covariance, atol=2e-3)


def test_posterior_grid_of_a_sharp_posterior():
    rng = np.random.default_rng(0)
    components = 20 * rng.normal(size=(2, 400))
    bits = (components.T @ [2.0, -1.0] > 0).astype(float)
    grid = map_summaries.posterior_grid(components, np.zeros(400), bits)
    assert np.isfinite(grid.log_density).all()
    assert np.sqrt(np.diag(grid.covariance)).max() < 0.7
    assert 3 * np.sqrt(grid.covariance[0, 0]) < grid.extent[1] - grid.mean[0]


def test_posterior_grid_needs_two_latent_variables():
    with pytest.raises(DataError, match="2 latent variables"):
        map_summaries.posterior_grid(np.ones((3, 4)), np.zeros(4), np.zeros(4))
    with pytest.raises(DataError, match="one row"):
        map_summaries.posterior_grid(np.ones((2, 4)), np.zeros(4), np.zeros((1, 4)))


def test_levels_enclose_their_mass(row):
    grid = map_summaries.posterior_grid(*row)
    share = np.exp(grid.log_density - grid.log_density.max())
    share /= share.sum()
    for mass, level in zip([0.5, 0.95], map_summaries.mass_levels(grid.log_density, [0.5, 0.95])):
        assert share[grid.log_density >= level].sum() == pytest.approx(mass, abs=0.005)


def test_contours_of_a_gaussian_are_its_ellipses():
    prior = map_summaries.posterior_grid(np.ones((2, 1)), np.zeros(1), np.array([np.nan]))
    ax = maps.plot_posterior_contours(prior.log_density, np.zeros(2), np.eye(2), prior.extent, masses=[0.8, 0.5])
    radii = [ellipse.width / 2 for ellipse in ax.patches]
    np.testing.assert_allclose(1 - np.exp(-np.square(radii) / 2), [0.5, 0.8])
    contours = ax.collections[-1].get_paths()  # the outermost first
    for path, radius in zip(contours, radii[::-1]):
        np.testing.assert_allclose(np.hypot(*path.vertices.T), radius, rtol=0.02)
    assert legend(ax)[0].startswith("true posterior: 50, 80 %")
    assert ax.get_aspect() == 1


# --- one latent variable ---


def test_one_latent_variable_counts_rows_and_names_difficulties():
    rng = np.random.default_rng(0)
    means = rng.normal(size=(200, 1))
    components, intercept = np.array([[2.0, -1.0, 0.0, 1.0]]), np.array([1.0, 0.5, 0.0, 99.0])
    labels = np.where(np.arange(200) < 150, "a", "b")
    ax = maps.plot_map(means, labels=labels, boundaries=(components, intercept, list("wxyz")), marks=np.zeros((1, 1)))
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a\n150 rows", "b\n50 rows"]
    bands = [stairs.get_data() for stairs in ax.patches]
    assert [np.sum(band.values - band.baseline) for band in bands] == [150, 50]
    assert names_of(ax) == ["1", "w", "x"]  # the mark; y has no place, that of z is far off
    marks = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 3]
    np.testing.assert_allclose(marks, [-0.5, 0.5])
    assert legend(ax) == ["P(bit = 1) = ½, 2 of 4 bits"]


def test_difficulties_that_crowd_do_not_overlap():
    rng = np.random.default_rng(0)
    ax = maps.plot_map(rng.normal(size=(100, 1)), boundaries=(np.ones((1, 30)), 0.05 * rng.normal(size=30)))
    assert len(ax.texts) == maps.MOST_LINES
    assert overlapping(ax) == []
    assert all(text.get_fontsize() >= SMALL for text in ax.texts)


def test_several_maps_side_by_side():
    """Rows are drawn on the maps that they may be on, as dark as they probably are."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(40, 3, 2))
    sure = rng.dirichlet(np.full(3, 0.3), size=40)
    axes = plot_several_maps(means, sure, labels=np.arange(40) % 2, marks=[np.zeros((1, 2)), np.ones((2, 2)), []])
    assert len(axes) == 3
    for place, ax in enumerate(axes):
        (points,) = ax.collections
        there = np.sort(sure[sure[:, place] >= 0.02, place])
        assert len(points.get_offsets()) == len(there)
        np.testing.assert_allclose(points.get_facecolors()[:, 3], 0.1 + 0.7 * there)
        assert ax.get_title() == f"map {place + 1}: {100 * sure[:, place].mean():.0f} % of the rows"
    assert [text.get_text() for ax in axes for text in ax.texts] == ["1", "2", "3"]
    with pytest.raises(DataError, match="responsibilities"):
        plot_several_maps(means, sure[:, :2])
