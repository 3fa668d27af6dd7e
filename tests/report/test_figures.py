"""Pictures: the right axes, the names on them, whole files."""

import sys

import matplotlib
import numpy as np
import pytest

matplotlib.use("Agg")

from matplotlib import pyplot as plt

from latentbits.core.errors import DataError, MissingDependencyError
from latentbits.report import figures
from latentbits.report.summaries import switches_of


@pytest.fixture(autouse=True)
def _close():
    yield
    plt.close("all")


def labels(axis):
    return [text.get_text() for text in axis.get_ticklabels()]


def test_comparison_names_the_models():
    ax = figures.plot_comparison(["best", "other"], np.array([2.0, 3.0]), np.array([0.1, np.nan]))
    assert labels(ax.yaxis) == ["best", "other"]
    assert [t.get_text() for t in ax.texts] == ["2.0", "3.0"]
    assert ax.get_xlim()[0] == 0


def test_gallery_labels_each_image():
    ax = figures.plot_gallery(np.full((10, 6), 0.5), np.full(10, 0.1), (2, 3))
    assert [t.get_text() for t in ax.texts] == ["10%"] * 10
    assert len(ax.images) == 1


def test_completions_have_three_rows(explored):
    seen = explored()
    ax = figures.plot_completions(seen.truth, seen.given, seen.completed, (2, 3))
    assert labels(ax.yaxis) == ["given", "completed", "truth"]


def test_components_name_their_columns(explored):
    seen = explored()
    ax = figures.plot_components(seen.means, seen.weights, seen.column_names, most=4)
    assert len(labels(ax.yaxis)) == 4
    assert set(labels(ax.yaxis)) <= set("abcdef")
    assert labels(ax.xaxis) == ["60%", "40%", "0%"]


def test_history_draws_every_iteration():
    ax = figures.plot_history(np.array([3.0, 2.0, 1.5]))
    assert len(ax.lines[0].get_xdata()) == 3


def test_axes_given_are_axes_returned(explored):
    _, ax = plt.subplots()
    seen = explored()
    assert figures.plot_comparison(seen.models, seen.bits, seen.errors, ax) is ax
    assert figures.plot_history(seen.history, ax) is ax
    assert figures.plot_gallery(seen.means, seen.weights, (2, 3), ax) is ax
    assert figures.plot_completions(seen.truth, seen.given, seen.completed, (2, 3), ax) is ax
    assert figures.plot_components(seen.means, seen.weights, seen.column_names, ax) is ax


@pytest.mark.parametrize("image_shape", [None, (2, 3)])
def test_exploration_has_three_panels(image_shape, explored):
    figure = figures.draw_exploration(explored(image_shape=image_shape))
    panels = [ax for ax in figure.axes if ax.get_title(loc="left")]
    assert len(panels) == 3
    assert "3 hidden kinds" in figure.get_suptitle()
    assert plt.get_fignums() == []  # nothing of pyplot's is left open


@pytest.mark.parametrize("q", [1, 2, 3])
@pytest.mark.parametrize("image_shape", [None, (2, 3)])
def test_exploration_of_latent_traits(image_shape, q, explored, mapped):
    shown = f"{q} latent trait{'s' if q > 1 else ''}"
    seen = explored(
        models=(shown, "mixture of 2", "independent bits"),
        shown=shown,
        weights=np.ones(0),
        means=np.ones((0, 6)),
        image_shape=image_shape,
        trait=mapped(q, image_shape=image_shape),
    )
    figure = figures.draw_exploration(seen)
    assert len([ax for ax in figure.axes if ax.get_title(loc="left")]) == 3
    assert figure.get_suptitle().startswith(f"zoo: {q} hidden trait")


@pytest.mark.parametrize("m", [1, 5, 30])
@pytest.mark.parametrize("image_shape", [None, (2, 3)])
def test_exploration_of_a_combination_machine(image_shape, m, explored):
    rng = np.random.default_rng(0)
    seen = explored(
        models=(f"combination machine of {m}", "mixture of 2", "independent bits"),
        shown=f"combination machine of {m}",
        image_shape=image_shape,
        switches=switches_of(rng.normal(size=(m, 6)), rng.random((50, m))),
    )
    figure = figures.draw_exploration(seen)
    panels = [ax for ax in figure.axes if ax.get_title(loc="left")]
    assert len(panels) == 3
    words = " ".join(ax.get_title(loc="left") for ax in panels)
    assert ("20 of 30 hidden units" in words) == (m == 30)
    assert ("How many are on at once" in words) == (image_shape is None)


@pytest.mark.parametrize("q", [1, 2, 3])
def test_map_of_a_table_names_bits_and_labels(q, mapped):
    figure = figures.draw_map(mapped(q))
    (ax,) = figure.axes
    words = [text.get_text() for text in ax.texts]
    assert set(words) <= set("abcdef")
    assert words
    assert ax.get_title(loc="left") == "Where the rows are, by class"
    assert figure.get_suptitle().startswith("zoo: 50 rows, placed by")


def test_map_of_images_decodes_places(mapped):
    figure = figures.draw_map(mapped(image_shape=(2, 3), labels=None, label_name=None))
    rows, images = figure.axes
    numbers = [str(number) for number in range(1, 10)]
    assert [text.get_text() for text in images.texts] == numbers == [text.get_text() for text in rows.texts]


def test_many_components_show_the_largest(explored):
    k = 60
    figure = figures.draw_exploration(
        explored(weights=np.full(k, 1 / k), means=np.full((k, 6), 0.5), image_shape=(2, 3))
    )
    assert any("40 largest of 60" in ax.get_title(loc="left") for ax in figure.axes)


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.SVG", b"<?xml"), ("x.pdf", b"%PDF")])
def test_figures_are_written_whole(tmp_path, name, start, explored):
    path = figures.save_figure(figures.draw_exploration(explored()), tmp_path / name)
    assert path.read_bytes().startswith(start)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_failed_figure_leaves_nothing(tmp_path):
    class Broken:
        def savefig(self, file, format):
            file.write(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        figures.save_figure(Broken(), tmp_path / "x.png")
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(DataError, match=r"not '\.doc'"):
        figures.save_figure(Broken(), tmp_path / "x.doc")


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch, explored):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"latentbits\[plot\]"):
        figures.draw_exploration(explored())
