"""Loadings with intervals, columns as arrows, the colour at first, and pictures of them for print, in a browser."""

from __future__ import annotations

import dataclasses
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import SVG, csv_of, saved, texts_of
from contents import small_content

from latentbits.explorer.content import Axes
from latentbits.explorer.misfit import misfit_of
from latentbits.explorer.page import write_page

CONTENT = small_content()
CONTENT = dataclasses.replace(CONTENT, misfit=misfit_of(CONTENT.map, CONTENT.table.values, None))


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_page(CONTENT, tmp_path_factory.mktemp("biplot") / "page.html")


def file_of(page, place, name):
    return saved(page.locator(place).get_by_role("button", name=name))[1]


def reach():
    size = np.linalg.norm(CONTENT.map.weights, axis=0)
    up, down = (1 / (1 + np.exp(-(CONTENT.map.bias + sign * size))) for sign in (1, -1))
    return up - down


def arrows_of(page):
    drawn = ElementTree.fromstring(file_of(page, "#map", "SVG"))
    return [group for group in drawn.iter(f"{SVG}g") if group.get("class") == "arrow"]


def test_loadings_have_their_intervals_and_pictures_for_print(open_page, path):
    page = open_page(path)
    assert "found again in 4 of 4 rounds" in page.locator("#axes-again").inner_text()
    figure = page.locator("#loadings figure")
    assert "95 % intervals" in page.locator("#loadings .about").inner_text()
    order = np.argsort(-reach(), kind="stable")
    names = figure.locator("text.name").all_text_contents()
    assert names == [f"column {j}" for j in order]
    assert figure.locator("path.whisker").count() == 24
    where, errors = CONTENT.map.weights, CONTENT.axes.errors
    unsure = int((np.abs(where) < 1.96 * errors).sum())
    assert 0 < unsure < 24
    assert figure.locator("path.whisker.unsure").count() == unsure
    figure.locator("svg").focus()
    page.keyboard.press("ArrowDown")
    first = order[0]
    numbers = [where[0, first] + times * errors[0, first] for times in (0, -1.96, 1.96)]
    value, low, high = (f"{number:.2f}".replace("-", "−") for number in numbers)
    said = figure.locator(".readout").inner_text()
    assert said.startswith(f"column {first}: trait 1 {value}, 95 % from {low} to {high}; trait 2")
    lines = csv_of(file_of(page, "#loadings", "CSV"))
    assert [line["column"] for line in lines] == names
    np.testing.assert_allclose([float(line["standard error 2"]) for line in lines], errors[1, order], rtol=1e-4)
    page.select_option("#loading-order", "the first of the table")
    assert figure.locator("text.name").all_text_contents() == [f"column {j}" for j in range(12)]
    assert texts_of(file_of(page, "#loadings", "SVG")).count("column 11") == 1

    for details in page.locator("details.as-picture").all():
        details.locator("summary").first.click()
    rows = texts_of(file_of(page, "#worst", "SVG: download rows that fit worst"))
    assert f"row {CONTENT.misfit.rows[0]}" in rows
    columns = texts_of(file_of(page, "#worst", "SVG: download columns that fit worst"))
    assert f"column {np.argmax(CONTENT.misfit.column_bits)}" in columns
    page.locator("#meanings-picture summary").first.click()
    assert "water" in texts_of(file_of(page, "#meanings-picture", "SVG"))
    assert texts_of(file_of(page, "#trials", "SVG"))


def test_undetermined_intervals_are_said_to_be_missing(show):
    why = "the rows do not determine both axes"
    axes = Axes(None, why, "Whether other parts of the rows give the same axes is unknown: no fits.")
    page = show(dataclasses.replace(CONTENT, axes=axes))
    assert f"How sure they are is not known: {why}." in page.locator("#loadings .about").inner_text()
    assert page.locator("#loadings path.whisker").count() == 0
    assert page.locator("#loadings .spot").count() == 24
    assert "is unknown" in page.locator("#axes-again").inner_text()


def test_columns_are_arrows(open_page, path):
    page = open_page(path)
    assert page.locator("#colour-by").input_value() == "label:1"
    why = "(the label that the axes go with most: trait 1, rank correlation −1.00)"
    assert page.locator(".legend-why").inner_text() == why
    page.select_option("#colour-by", "label:0")
    assert page.locator(".legend-why").count() == 0
    assert not page.locator(".line-names").is_visible()
    assert "An arrow points to" in page.locator("#map-about").inner_text()
    arrows = arrows_of(page)
    names = [group.find(f"{SVG}text").text for group in arrows]
    assert len(names) >= 8
    assert names[0] == f"column {np.argmax(reach())}"
    for group, name in zip(arrows, names):
        places = re.findall(r"-?[\d.]+", group.find(f"{SVG}path").get("d"))
        x1, y1, x2, y2 = map(float, places[:4])
        step, weight = np.array([x2 - x1, y1 - y2]), CONTENT.map.weights[:, int(name.removeprefix("column "))]
        assert step @ weight / np.linalg.norm(step) / np.linalg.norm(weight) > 0.999
    page.locator(".map-over").scroll_into_view_if_needed()
    box = page.locator(".map-over").bounding_box()
    label = arrows[0].find(f"{SVG}text")
    page.mouse.move(
        box["x"] + float(label.get("x")) + {"start": 5, "middle": 0, "end": -5}[label.get("text-anchor")],
        box["y"] + float(label.get("y")) - 4,
    )
    page.wait_for_selector(".map-tip:not([hidden])")
    tip = page.locator(".map-tip").inner_text()
    assert tip.startswith(names[0])
    assert "one unit along its arrow" in tip
    page.select_option("#columns-as", "lines")
    assert page.locator(".line-names").is_visible()
    assert sum(text.startswith("column") for text in texts_of(file_of(page, "#map", "SVG"))) == 3
    page.wait_for_function("() => location.hash.includes('columns=lines')")
    other = open_page(path, link="#" + page.url.split("#")[1])
    assert other.locator("#columns-as").input_value() == "lines"


def test_names_of_arrows_do_not_overlap(show):
    """Twelve columns that point the same way: names that have no room are left out."""
    weights = np.outer([1.0, 0.2], np.linspace(1, 1.05, 12))
    page = show(dataclasses.replace(CONTENT, map=dataclasses.replace(CONTENT.map, weights=weights, bias=np.zeros(12))))
    heights = sorted(float(group.find(f"{SVG}text").get("y")) for group in arrows_of(page))
    assert 1 <= len(heights) < 12
    assert all(after - before > 13 for before, after in pairwise(heights))
