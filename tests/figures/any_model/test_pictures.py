"""Pictures: the right axes, the names on them, whole files."""

import sys

import numpy as np
import pytest
from matplotlib import pyplot as plt

from latentbits.core.errors import DataError, MissingDependencyError
from latentbits.figures.any_model import pictures as figures

MEANS, SHARES = np.random.default_rng(0).random((3, 6)), np.array([0.6, 0.395, 0.005])
TRUTH = np.ones((4, 6))
GIVEN = np.where(np.arange(6) < 3, 1.0, np.nan) * TRUTH


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


def test_completions_have_three_rows():
    ax = figures.plot_completions(TRUTH, GIVEN, 0.7 * TRUTH, (2, 3))
    assert labels(ax.yaxis) == ["given", "completed", "truth"]


def test_components_name_their_columns():
    ax = figures.plot_components(MEANS, SHARES, "abcdef", most=4)
    assert len(labels(ax.yaxis)) == 4
    assert set(labels(ax.yaxis)) <= set("abcdef")
    assert labels(ax.xaxis) == ["60%", "40%", "0%"]


def test_history_draws_every_iteration():
    ax = figures.plot_history(np.array([3.0, 2.0, 1.5]))
    assert len(ax.lines[0].get_xdata()) == 3


def test_axes_given_are_axes_returned():
    _, ax = plt.subplots()
    assert figures.plot_comparison(["a"], np.ones(1), np.ones(1), ax) is ax
    assert figures.plot_history(np.array([3.0, 2.0]), ax) is ax
    assert figures.plot_gallery(MEANS, SHARES, (2, 3), ax) is ax
    assert figures.plot_completions(TRUTH, GIVEN, TRUTH, (2, 3), ax) is ax
    assert figures.plot_components(MEANS, SHARES, "abcdef", ax) is ax


@pytest.mark.parametrize(("name", "start"), [("x.png", b"\x89PNG"), ("x.SVG", b"<?xml"), ("x.pdf", b"%PDF")])
def test_figures_are_written_whole(tmp_path, name, start):
    with figures.sheet((4, 3), "a title") as figure:
        figures.plot_history(np.array([3.0, 2.0]), figure.subplots())
    path = figures.save_figure(figure, tmp_path / name)
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


def test_without_matplotlib_the_message_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(MissingDependencyError, match=r"latentbits\[plot\]"), figures.sheet((4, 3), "a title"):
        pass
