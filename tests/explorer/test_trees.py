"""Causes on a tree on the page: the drawing, the states of a column, and what a picked row is in."""

from __future__ import annotations

import dataclasses
import itertools
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from contents import HOSTILE, small_content
from trees import PARENTS, small_tree

from latentbits.explorer.content import ModelRow
from latentbits.explorer.findings import findings, headline
from latentbits.explorer.notes import NOT_CONVERGED, with_note
from latentbits.explorer.page import write_page
from latentbits.explorer.payload import payload_of
from latentbits.explorer.printed import draw_exploration
from latentbits.explorer.stability import with_rounds
from latentbits.telling.latent_tree import show

NAME = "latent tree of 3 states"


def content_with(model, **kinds):
    content = small_content(**kinds)
    gallery = show(NAME, model, content.table.values, 60.0).gallery
    best = ModelRow(NAME, "latent-tree", 3, 7.2, 0.2, 0.0, 0.0, 1.5)
    alone = dataclasses.replace(content.models[-1], behind=3.0)
    return dataclasses.replace(
        content, galleries=(gallery, *content.galleries), models=(best, alone), sound=(best, alone)
    )


def opened(open_page, tmp_path, content, **kinds):
    page = open_page(write_page(content, tmp_path / "page.html"), **kinds)
    page.wait_for_selector("html[data-ready]", state="attached")
    return page


def posterior(model, row, j):
    """P(state of column j | row), by all states of all columns; those sorted by P(bit = 1)."""
    k = model.emissions_.shape[2]
    seen = np.flatnonzero(~np.isnan(row))
    messages = np.ones((len(PARENTS), k))
    total = np.zeros(k)
    for state in range(k):  # fix it, and sum the rest out from the leaves
        messages[:] = 1
        for column in order_up():
            own = messages[column].copy()
            if column in seen:
                p = model.emissions_[0, column]
                own *= p if row[column] else 1 - p
            if column == j:
                own *= np.arange(k) == state
            told = model.transitions_[0, column] @ own
            if PARENTS[column] >= 0:
                messages[PARENTS[column]] *= told
            else:
                total[state] = told[0]
    return (total / total.sum())[np.argsort(model.emissions_[0, j])]


def order_up():
    depth = [len(list(itertools.takewhile(lambda c: c >= 0, path(j)))) for j in range(len(PARENTS))]
    return np.argsort(-np.array(depth), kind="stable")


def path(j):
    while True:
        yield j
        if j < 0:
            return
        j = int(PARENTS[j])


def test_a_tree_is_drawn_with_its_names(open_page, tmp_path):
    content = content_with(small_tree())
    page = opened(open_page, tmp_path, content)
    assert page.locator("#gallery-0 svg.tree.lines path.edge").count() == 11
    assert page.locator("#gallery-0 path.unsure-edge").count() == 1  # the last column's
    assert page.locator("#gallery-0 .tree-node > text:not(.tree-state)").all_text_contents() == list(
        content.table.columns
    )
    widths = page.evaluate(
        "[...document.querySelectorAll('#gallery-0 path.edge')].map((e) => Number(e.getAttribute('stroke-width')))"
    )
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 3 * widths[-1]
    boxes = page.evaluate(
        """[...document.querySelectorAll('#gallery-0 .tree-node > text:not(.tree-state)')].map((e) => {
             const {x, y, width, height} = e.getBoundingClientRect(); return [x, y, width, height]; })"""
    )
    tops = sorted(box[1] for box in boxes)
    assert min(np.diff(tops)) >= max(box[3] for box in boxes) - 1  # no name lies on another


def test_a_picked_row_shows_its_states(open_page, tmp_path):
    model = small_tree()
    content = content_with(model, missing=True)
    page = opened(open_page, tmp_path, content)
    page.goto(page.url.split("#")[0] + "#row=4&cause=0:3")
    page.wait_for_function("document.querySelectorAll('#gallery-0 .card .picked-line').length === 3")
    told = page.locator("#gallery-0 .card .picked-line").all_text_contents()
    found = [float(re.search(r"([\d.]+)$", text)[1]) for text in told]
    wanted = posterior(model, content.table.values[4], 3)
    np.testing.assert_allclose(found, wanted, atol=0.006)
    on = page.locator("#gallery-0 .cards > .card")
    assert [("on" in on.nth(i).get_attribute("class").split()) for i in range(3)] == (
        np.arange(3) == np.argmax(wanted)
    ).tolist()
    missing = np.flatnonzero(np.isnan(content.table.values[4])).tolist()
    marked = page.locator("#gallery-0 .tree-node.missing")
    assert [int(marked.nth(i).get_attribute("data-column")) for i in range(marked.count())] == missing


def test_keys_move_along_the_tree(open_page, tmp_path):
    page = opened(open_page, tmp_path, content_with(small_tree()))
    page.locator("#gallery-0 select.tree-column").select_option("3")
    node = "#gallery-0 .tree-node[aria-pressed=true]"
    assert page.locator(node).get_attribute("data-column") == "3"
    page.locator(node).focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(node).get_attribute("data-column") == str(PARENTS[3])
    assert page.evaluate("document.activeElement.dataset.column") == str(PARENTS[3])
    page.keyboard.press("ArrowRight")  # to what hangs from it with the most in common
    assert page.locator(node).get_attribute("data-column") == "3"
    assert page.locator("#gallery-0 .tree-side h3").inner_text() == "column 3"
    page.locator("#gallery-0 .tree-side .bars button").first.click()
    assert page.locator(node).get_attribute("data-column") in {str(PARENTS[3]), "5", "6"}


@pytest.mark.parametrize("dark", [False, True])
def test_a_tree_on_a_phone_and_as_a_file(open_page, tmp_path, dark):
    page = opened(open_page, tmp_path, content_with(small_tree(), hostile=True), phone=True, dark=dark)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    with page.expect_download() as saved:
        page.locator("#gallery-0 .trees .downloads button", has_text="SVG").click()
    root = ElementTree.parse(saved.value.path()).getroot()
    assert len(root.findall(".//{*}path")) == 11
    names = [text for text in root.itertext() if HOSTILE[:6] in text]
    assert names  # as text, not as markup
    with page.expect_download() as saved:
        page.locator("#gallery-0 .trees .downloads button", has_text="CSV").click()
    text = saved.value.path().read_text("utf-8-sig")
    assert text.startswith("column,hangs_from,bits_in_common,beyond_chance")
    assert len(text.splitlines()) == 12


def test_bits_in_place_of_states(open_page, tmp_path):
    page = opened(open_page, tmp_path, content_with(small_tree(hidden=False)))
    assert page.locator("#gallery-0 .card h4").all_text_contents() == ["bit 0", "bit 1"]


def test_pixels_stay_where_they_are(open_page, tmp_path):
    page = opened(open_page, tmp_path, content_with(small_tree(n_trees=2), image=True))
    assert page.locator("#gallery-0 svg.tree.pixels .tree-node").count() == 12
    places = page.evaluate(
        "[...document.querySelectorAll('#gallery-0 circle.dot')].map((e) => [e.cx.baseVal.value, e.cy.baseVal.value])"
    )
    assert len({x for x, _ in places}) == 4
    assert len({y for _, y in places}) == 3
    page.locator("#gallery-0 .controls select").first.select_option("1")
    assert page.locator("#gallery-0 .card canvas.pixels").count() > 0


def test_trees_too_large_for_a_page_have_no_states(monkeypatch):
    monkeypatch.setattr("latentbits.telling.latent_tree.MOST_NUMBERS", 100)
    content = content_with(small_tree())
    head, arrays = payload_of(content)
    assert head["galleries"][0]["trees"][0]["arrays"] is None
    assert not any("transitions" in name for name in arrays.texts)


def test_edges_know_whether_they_were_found_again():
    ours, other = (show(NAME, small_tree(), np.zeros((1, 12)), 60.0).gallery for _ in range(2))
    turned = dataclasses.replace(other.trees[0], parents=np.array([1, 2, -1, 2, 2, 3, 3, 0, 0, 8, 4, 4]))
    found = with_rounds(ours, [other, dataclasses.replace(other, trees=(turned,))]).trees[0]
    assert found.n_rounds == 2
    # the edge of 1 and 2 is found whichever hangs from which; 1 is a root, and 11 hangs from another
    assert found.found_again.tolist() == [2, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]


def test_notes_of_trees():
    gallery = show(NAME, small_tree(), np.zeros((1, 12)), 60.0).gallery
    assert with_note(gallery, True).note == ""
    assert with_note(gallery, False).note == NOT_CONVERGED
    few = show(NAME, small_tree(), np.zeros((1, 12)), 2.0).gallery
    assert "chance" in with_note(few, True).note


def test_findings_of_a_tree():
    content = content_with(small_tree())
    told = findings(content.table, None, content.sound, content.galleries, None)
    assert "the latent tree of 3 states describes an unseen row in 7.2 bits" in told[0]
    assert told[1].startswith(
        "It joins the columns to a tree, each by a hidden cause of its own; most in common have column 1 and column 0"
    )
    assert "column 11" not in told[1]
    assert "1 tree of hidden causes with 3 states each; a row then takes 7.2 bits" in headline("toy", content.sound)
    plain = dataclasses.replace(content.sound[0], name="Chow-Liu tree", family="chow-liu-tree", size=None)
    assert "1 tree that joins the columns, with nothing hidden;" in headline("toy", [plain, content.sound[1]])
    pixels = dataclasses.replace(content.table, image_shape=(3, 4))
    assert re.search(
        r"\d of the 10 edges that are more than chance join pixels that touch",
        findings(pixels, None, content.sound, content.galleries, None)[1],
    )


def test_the_best_model_is_drawn_as_a_tree():
    figure = draw_exploration(content_with(small_tree()))
    titles = [ax.get_title(loc="left") for ax in figure.axes]
    assert f"The tree of the {NAME}" in titles
