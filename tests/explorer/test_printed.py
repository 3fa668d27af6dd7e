"""The figures of an exploration, and the one name under which all figures are."""

from dataclasses import replace
from types import SimpleNamespace

import matplotlib
import numpy as np
import pytest
from contents import small_content

matplotlib.use("Agg")

from latentbits import plot
from latentbits.core.errors import DataError
from latentbits.explorer.content import Axes, Guesses, Labels
from latentbits.explorer.misfit import misfit_of


def drawn(content):
    return plot.exploration(SimpleNamespace(content=content))


def titles(figure):
    return [title for ax in figure.axes if (title := ax.get_title(loc="left"))]


def best_is(content, family, name, **changes):
    """The content with another family ahead, whose gallery is made of the one of the mixture."""
    gallery = content.galleries[0]
    layer = replace(gallery.layers[0], **changes)
    best = replace(content.models[0], name=name, family=family)
    models, sound = (best, *content.models[1:]), (best, *content.sound[1:])
    kind = "probability" if family == "mixture" else "signed"
    made = replace(gallery, name=name, kind=kind, layers=(layer,))
    return replace(content, models=models, sound=sound, galleries=(made, content.galleries[1]))


def test_the_causes_of_each_family_have_their_words():
    content, pixels = small_content(), small_content(image=True)
    kinds = ["The 4 kinds of rows found, with their share", "How it was learned"]
    assert titles(drawn(content)) == ["Bits to write down an unseen row", *kinds]
    many = {"weights": np.full((60, 12), 0.5), "usage": np.full(60, 1 / 60), "names": ("x",) * 60}
    unused = {"usage": np.full(4, np.nan)}
    for shown, one, traits in (
        (12, content, "The weights of the hidden variables"),
        (40, pixels, "The 4 hidden variables, by their weights"),
    ):
        words = f"The first {shown} of 60 kinds of rows found, with their share"
        assert words in titles(drawn(best_is(one, "mixture", "mixture of 60", **many)))
        clipped = best_is(one, "clipped-gaussian", "clipped Gaussian of 2", **unused)
        assert titles(drawn(clipped))[1:] == [traits, "Their number, and the spectrum"]
        machine = best_is(one, "combination-machine", "combination machine of 4")
        causes = ["The 4 hidden causes, and how often each is on", "How many are on at once"]
        assert titles(drawn(machine))[1:] == causes
    assert titles(drawn(replace(content, galleries=()))) == ["Bits to write down an unseen row"]


@pytest.mark.parametrize("real", [False, True])
def test_completed_images(real):
    content = small_content(image=True)
    guesses = Guesses("the lower half", *np.ones((2, 4, 12)), np.full((4, 12), 0.5), 0.9, 0.7)
    figure = drawn(replace(content, guesses=guesses, table=replace(content.table, real=real)))
    assert ("90% of the hidden bits are guessed right (70% by the average row)" in titles(figure)[-1]) != real
    assert titles(figure)[-1].startswith("Unseen rows with the lower half hidden")


def test_what_has_not_converged_is_marked_and_not_drawn():
    """The mixture was cut off and is ahead: the causes are those of the network, which was not."""
    content = small_content()
    mixture, network, alone = content.models
    network = replace(network, name="noisy OR of 3, 2", converged=True)
    cut = replace(content, models=(replace(mixture, converged=False), network, alone), sound=(network, alone))
    figure = drawn(cut)
    assert titles(figure)[1] == "The 3 hidden causes, and how often each is on"
    named = [label.get_text() for label in figure.axes[0].get_yticklabels()]
    assert "mixture of 4 (not converged)" in named
    assert "noisy OR of 3, 2" in named
    assert figure.get_suptitle().startswith("toy: 3 hidden causes")
    none = drawn(replace(cut, sound=(alone,)))
    assert titles(none) == ["Bits to write down an unseen row"]
    assert none.get_suptitle() == "toy: no model with causes has converged"
    placed = plot.map(SimpleNamespace(content=replace(content, map=replace(content.map, converged=False))))
    assert placed.get_suptitle() == "toy: 60 rows, placed by 2 latent traits (which had not converged)"


def test_map_of_a_table_names_bits_and_labels():
    content = small_content()
    figure = plot.map(SimpleNamespace(content=content))
    words = {text.get_text() for text in figure.axes[0].texts}
    assert words
    assert words <= set(content.table.columns)
    assert titles(figure) == ["Where the rows are, by water"]  # which the axes go with
    assert figure.get_suptitle() == "toy: 60 rows, placed by 2 latent traits"
    with pytest.raises(DataError, match="there is no 'state'; there is party, water"):
        plot.map(SimpleNamespace(content=content), labels="state")
    with pytest.raises(DataError, match="there is no map"):
        plot.map(SimpleNamespace(content=replace(content, map=None)))


def test_map_by_numbers_has_a_scale():
    content = small_content()
    figure = plot.map(SimpleNamespace(content=content), labels="water")
    rows, bar = figure.axes
    assert titles(figure) == ["Where the rows are, by water"]
    (drawn,) = rows.collections[:1]
    colours = {tuple(colour) for colour in drawn.get_facecolors().round(3)}
    assert len(colours) > 20
    water = content.table.labels[1].numbers
    assert bar.get_ylim() == pytest.approx((np.nanmin(water), np.nanmax(water)))
    assert "no label" in [text.get_text() for text in rows.get_legend().get_texts()]


def test_map_of_many_kinds_names_the_commonest():
    content = small_content(120)
    codes = np.concatenate([np.arange(12).repeat(9), np.arange(12, 20), [-1] * 4])
    many = Labels("kind", tuple(f"kind {k}" for k in range(20)), codes)
    figure = plot.map(SimpleNamespace(content=replace(content, table=replace(content.table, labels=(many,)))))
    words = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {*many.levels[:12], "8 other kinds", "no label"} < set(words)
    assert not {*many.levels[12:]} & set(words)


def test_map_of_images_decodes_places():
    rows, images, _ = plot.map(SimpleNamespace(content=small_content(image=True))).axes  # the last is the colours'
    numbers = [str(number) for number in range(1, 10)]
    assert [text.get_text() for text in images.texts] == numbers == [text.get_text() for text in rows.texts]


def test_loadings_have_their_intervals():
    content = small_content()
    figure = plot.loadings(SimpleNamespace(content=content))
    assert titles(figure) == ["trait 1", "trait 2"]
    for axis, ax in enumerate(figure.axes):
        bars = np.concatenate([bar.get_segments() for drawn in ax.containers for bar in drawn[2] if bar.get_segments()])
        ends = sorted(zip(bars[:, 0, 0].round(6), bars[:, 1, 0].round(6)))
        value, error = content.map.weights[axis], 1.96 * content.axes.errors[axis]
        assert ends == sorted(zip((value - error).round(6), (value + error).round(6)))
    why = Axes(None, "they are computed for bits only", "")
    figure = plot.loadings(SimpleNamespace(content=replace(content, axes=why)))
    assert figure.get_supxlabel() == "there are no intervals: they are computed for bits only"
    assert plot.loadings(SimpleNamespace(content=small_content(image=True))).axes


@pytest.mark.parametrize("real", [False, True])
def test_table_is_in_the_order_of_the_first_trait(real):
    content = small_content(missing=True)
    content = replace(content, table=replace(content.table, real=real))
    (ax,) = plot.table(SimpleNamespace(content=content)).axes
    (image,) = ax.images
    down, across = np.argsort(content.map.means[:, 0]), np.argsort(content.map.weights[0])
    names = [text.get_text() for text in ax.get_xticklabels()]
    assert names == [content.table.columns[j] for j in across]
    if not real:
        np.testing.assert_array_equal(image.get_array().filled(np.nan), content.table.values[down][:, across])


def test_what_fits_worst():
    content = small_content()
    content = replace(content, misfit=misfit_of(content.map, content.table.values, None))
    rows, columns = plot.misfit(SimpleNamespace(content=content)).axes
    assert rows.get_yticklabels()[0].get_text() == f"row {content.misfit.rows[0]}"
    assert columns.get_yticklabels()[0].get_text() == f"column {np.argmax(content.misfit.column_bits)}"
    with pytest.raises(DataError, match="map that has converged"):
        plot.misfit(SimpleNamespace(content=replace(content, misfit=None)))


def test_every_figure_has_one_public_name():
    assert {"exploration", "map", "plot_map", "plot_hinton", "save_figure"} <= set(plot.__all__) <= set(dir(plot))
    assert all(callable(getattr(plot, name)) for name in plot.__all__)
    with pytest.raises(AttributeError, match=r"latentbits\.plot.*'plot_cake'"):
        plot.plot_cake  # noqa: B018
