"""Causes on a tree on the page: the drawing, the states of a column, and what a picked row is in."""

from __future__ import annotations

import dataclasses
import itertools
import re
from xml.etree import ElementTree

import numpy as np
from browser import saved, width_of
from contents import HOSTILE, small_content
from trees import PARENTS, small_tree

from latentbits.explorer.content import ModelRow
from latentbits.explorer.findings import findings, headline
from latentbits.explorer.notes import NOT_CONVERGED, with_note
from latentbits.explorer.payload import payload_of
from latentbits.explorer.printed import draw_exploration
from latentbits.explorer.stability import with_rounds
from latentbits.reports.summaries import latent_tree

NAME = "latent tree of 3 states"


def content_with(model, **kinds):
    content = small_content(**kinds)
    gallery = latent_tree.show(NAME, model, content.table.values, 60.0).gallery
    best = ModelRow(NAME, "latent-tree", 3, 7.2, 0.2, 0.0, 0.0, 1.5)
    alone = dataclasses.replace(content.models[-1], behind=3.0)
    return dataclasses.replace(
        content, galleries=(gallery, *content.galleries), models=(best, alone), sound=(best, alone)
    )


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
            message = model.transitions_[0, column] @ own
            if PARENTS[column] >= 0:
                messages[PARENTS[column]] *= message
            else:
                total[state] = message[0]
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


def test_a_tree_is_drawn_and_a_picked_row_shows_its_states(show):
    model = small_tree()
    content = content_with(model, missing=True)
    page = show(content)
    names = "#gallery-0 .tree-node > text:not(.tree-state)"
    assert page.locator("#gallery-0 svg.tree.lines path.edge").count() == 11
    assert page.locator("#gallery-0 path.unsure-edge").count() == 1  # the last column's
    assert page.locator(names).all_text_contents() == list(content.table.columns)
    widths = page.locator("#gallery-0 path.edge").evaluate_all("all => all.map((e) => +e.getAttribute('stroke-width'))")
    assert widths == sorted(widths, reverse=True)
    assert widths[0] > 3 * widths[-1]
    boxes = page.locator(names).evaluate_all(
        "all => all.map((e) => [e.getBoundingClientRect().y, e.getBoundingClientRect().height])"
    )
    tops = sorted(y for y, _ in boxes)
    assert min(np.diff(tops)) >= max(height for _, height in boxes) - 1  # no name lies on another

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

    page.goto(page.url.split("#")[0] + "#row=4&cause=0:3")
    page.wait_for_function("document.querySelectorAll('#gallery-0 .card .picked-line').length === 3")
    page.wait_for_function("document.querySelector('#gallery-0 .tree-side h3').innerText === 'column 3'")
    printed = page.locator("#gallery-0 .card .picked-line").all_text_contents()
    wanted = posterior(model, content.table.values[4], 3)
    np.testing.assert_allclose([float(re.search(r"([\d.]+)$", text)[1]) for text in printed], wanted, atol=0.006)
    classes = page.locator("#gallery-0 .cards > .card").evaluate_all("all => all.map((e) => e.className)")
    assert [("on" in one.split()) for one in classes] == (np.arange(3) == np.argmax(wanted)).tolist()
    missing = np.flatnonzero(np.isnan(content.table.values[4])).tolist()
    marked = page.locator("#gallery-0 .tree-node.missing").evaluate_all("all => all.map((e) => +e.dataset.column)")
    assert marked == missing


def test_a_tree_on_a_phone_and_as_a_file(show):
    page = show(content_with(small_tree(), hostile=True), phone=True, dark=True)
    assert width_of(page) <= 390
    buttons = page.locator("#gallery-0 .trees .downloads button")
    root = ElementTree.fromstring(saved(buttons.filter(has_text="SVG"))[1])
    assert len(root.findall(".//{*}path")) == 11
    assert [text for text in root.itertext() if HOSTILE[:6] in text]  # as text, not as markup
    text = saved(buttons.filter(has_text="CSV"))[1].decode("utf-8-sig")
    assert text.startswith("column,hangs_from,bits_in_common,beyond_chance")
    assert len(text.splitlines()) == 12


def test_bits_in_place_of_states_and_pixels_where_they_are(show):
    page = show(content_with(small_tree(hidden=False)))
    assert page.locator("#gallery-0 .card h4").all_text_contents() == ["bit 0", "bit 1"]
    page = show(content_with(small_tree(n_trees=2), image=True))
    assert page.locator("#gallery-0 svg.tree.pixels .tree-node").count() == 12
    places = page.locator("#gallery-0 circle.dot").evaluate_all(
        "all => all.map((e) => [e.cx.baseVal.value, e.cy.baseVal.value])"
    )
    assert len({x for x, _ in places}) == 4
    assert len({y for _, y in places}) == 3
    page.locator("#gallery-0 .controls select").first.select_option("1")
    assert page.locator("#gallery-0 .card canvas.pixels").count() > 0


def test_trees_too_large_for_a_page_have_no_states(monkeypatch):
    monkeypatch.setattr("latentbits.reports.summaries.latent_tree.MOST_TRANSITIONS", 100)
    content = content_with(small_tree())
    head, arrays = payload_of(content)
    assert head["galleries"][0]["trees"][0]["arrays"] is None
    assert not any("transitions" in name for name in arrays.texts)


def test_edges_know_whether_they_were_found_again():
    ours, other = (latent_tree.show(NAME, small_tree(), np.zeros((1, 12)), 60.0).gallery for _ in range(2))
    turned = dataclasses.replace(other.trees[0], parents=np.array([1, 2, -1, 2, 2, 3, 3, 0, 0, 8, 4, 4]))
    found = with_rounds(ours, [other, dataclasses.replace(other, trees=(turned,))]).trees[0]
    assert found.n_rounds == 2
    # the edge of 1 and 2 is found whichever hangs from which; 1 is a root, and 11 hangs from another
    assert found.found_again.tolist() == [2, 0, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1]


def test_notes_of_trees():
    gallery = latent_tree.show(NAME, small_tree(), np.zeros((1, 12)), 60.0).gallery
    assert with_note(gallery, True).note == ""
    assert with_note(gallery, False).note == NOT_CONVERGED
    few = latent_tree.show(NAME, small_tree(), np.zeros((1, 12)), 2.0).gallery
    assert "chance" in with_note(few, True).note


def test_findings_of_a_tree():
    content = content_with(small_tree())
    sentences = findings(content.table, None, content.sound, content.galleries, None)
    assert "the latent tree of 3 states describes an unseen row in 7.2 bits" in sentences[0]
    assert sentences[1].startswith(
        "It joins the columns to a tree, each by its hidden cause; most in common have column 1 and column 0"
    )
    assert "column 11" not in sentences[1]
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
