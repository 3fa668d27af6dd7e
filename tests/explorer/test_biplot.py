"""Loadings with intervals, columns as arrows, the colour at first, and pictures of them for print, in a browser."""

from __future__ import annotations

import csv
import dataclasses
import re
from itertools import pairwise
from xml.etree import ElementTree

import numpy as np
import pytest
from contents import HOSTILE, small_content

from latentbits.explorer.content import Axes
from latentbits.explorer.misfit import misfit_of
from latentbits.explorer.page import write_page

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def content():
    found = small_content()
    return dataclasses.replace(found, misfit=misfit_of(found.map, found.table.values, None))


@pytest.fixture(scope="module")
def path(content, tmp_path_factory):
    return write_page(content, tmp_path_factory.mktemp("biplot") / "page.html")


def ready(page):
    page.wait_for_selector("html[data-ready]")
    return page


def saved(page, place, name):
    with page.expect_download() as info:
        page.locator(place).get_by_role("button", name=name).click()
    return info.value.path()


def texts(path):
    return [text.text for text in ElementTree.parse(path).iter(f"{SVG}text")]


def reach(content):
    size = np.linalg.norm(content.map.weights, axis=0)
    up, down = (1 / (1 + np.exp(-(content.map.bias + sign * size))) for sign in (1, -1))
    return up - down


def test_rounds_that_found_the_axes_are_told(open_page, path):
    page = ready(open_page(path))
    assert "found again in 4 of 4 rounds" in page.locator("#axes-again").inner_text()


def test_loadings_have_their_intervals(open_page, path, content):
    page = ready(open_page(path))
    figure = page.locator("#loadings figure")
    assert "95 % intervals" in page.locator("#loadings .about").inner_text()
    order = np.argsort(-reach(content), kind="stable")
    names = figure.locator("text.name").all_text_contents()
    assert names == [f"column {j}" for j in order]
    assert figure.locator("path.whisker").count() == 24
    where, errors = content.map.weights, content.axes.errors
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
    with open(saved(page, "#loadings", "CSV"), newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    assert [line["column"] for line in lines] == names
    np.testing.assert_allclose([float(line["standard error 2"]) for line in lines], errors[1, order], rtol=1e-4)
    page.select_option("#loading-order", "the first of the table")
    assert figure.locator("text.name").all_text_contents() == [f"column {j}" for j in range(12)]
    assert texts(saved(page, "#loadings", "SVG")).count("column 11") == 1


@pytest.mark.parametrize("why", ["they are told for bits only", "the rows do not determine both axes"])
def test_intervals_that_cannot_be_told_are_said_to_be_none(open_page, content, tmp_path, why):
    axes = Axes(None, why, "Whether other parts of the rows give the same axes cannot be told: no fits.")
    page = ready(open_page(write_page(dataclasses.replace(content, axes=axes), tmp_path / "page.html")))
    assert f"How sure they are is not told: {why}." in page.locator("#loadings .about").inner_text()
    assert page.locator("#loadings path.whisker").count() == 0
    assert page.locator("#loadings .spot").count() == 24
    assert "cannot be told" in page.locator("#axes-again").inner_text()


def test_images_have_loadings_as_images(open_page, tmp_path):
    page = ready(open_page(write_page(small_content(image=True), tmp_path / "page.html")))
    assert page.locator("#loadings canvas").count() == 4
    assert "95 % interval does not hold 0" in page.locator("#loadings .about").inner_text()


def test_columns_are_arrows(open_page, path, content):
    page = ready(open_page(path))
    lined = texts(saved(page, "#map", "SVG"))
    assert page.locator(".line-names").is_visible()
    page.select_option("#columns-as", "arrows")
    assert not page.locator(".line-names").is_visible()
    assert "An arrow points to" in page.locator("#map-about").inner_text()
    drawn = ElementTree.parse(saved(page, "#map", "SVG"))
    arrows = [group for group in drawn.iter(f"{SVG}g") if group.get("class") == "arrow"]
    names = [group.find(f"{SVG}text").text for group in arrows]
    assert len(names) >= 8
    assert names[0] == f"column {np.argmax(reach(content))}"
    assert sum(text.startswith("column") for text in lined) == 3
    for group, name in zip(arrows, names):
        j = int(name.removeprefix("column "))
        places = re.findall(r"-?[\d.]+", group.find(f"{SVG}path").get("d"))
        x1, y1, x2, y2 = map(float, places[:4])
        step, weight = np.array([x2 - x1, y1 - y2]), content.map.weights[:, j]
        cosine = step @ weight / np.linalg.norm(step) / np.linalg.norm(weight)
        assert cosine > 0.999
    page.locator(".map-over").scroll_into_view_if_needed()
    box = page.locator(".map-over").bounding_box()
    label = arrows[0].find(f"{SVG}text")
    page.mouse.move(
        box["x"] + float(label.get("x")) + {"start": 5, "middle": 0, "end": -5}[label.get("text-anchor")],
        box["y"] + float(label.get("y")) - 4,
    )
    page.wait_for_selector(".map-tip:not([hidden])")
    told = page.locator(".map-tip").inner_text()
    assert told.startswith(names[0])
    assert "one unit along its arrow" in told
    page.wait_for_function("() => location.hash.includes('columns=arrows')")
    other = open_page(path)
    other.goto(page.url)
    other.reload()
    assert ready(other).locator("#columns-as").input_value() == "arrows"


def test_names_of_arrows_do_not_overlap(open_page, path, content, tmp_path):
    """Twelve columns that point the same way: names that have no room are left out."""
    weights = np.outer([1.0, 0.2], np.linspace(1, 1.05, 12))
    same = dataclasses.replace(content, map=dataclasses.replace(content.map, weights=weights, bias=np.zeros(12)))
    page = ready(open_page(write_page(same, tmp_path / "page.html")))
    page.select_option("#columns-as", "arrows")
    drawn = ElementTree.parse(saved(page, "#map", "SVG"))
    labels = [group.find(f"{SVG}text") for group in drawn.iter(f"{SVG}g") if group.get("class") == "arrow"]
    assert 1 <= len(labels) < 12
    heights = sorted(float(label.get("y")) for label in labels)
    assert all(after - before > 13 for before, after in pairwise(heights))


def test_hostile_names_are_text(open_page, tmp_path):
    page = ready(open_page(write_page(small_content(hostile=True), tmp_path / "page.html")))
    page.select_option("#columns-as", "arrows")
    assert page.locator("#loadings text.name").first.text_content().startswith(HOSTILE[:3])
    assert page.locator("img").count() == 0


def test_the_map_is_coloured_by_the_label_that_its_axes_go_with_most(open_page, path):
    page = ready(open_page(path))
    assert page.locator("#colour-by").input_value() == "label:1"
    why = "(the label that the axes go with most: trait 1, rank correlation −1.00)"
    assert page.locator(".legend-why").inner_text() == why
    page.select_option("#colour-by", "label:0")
    assert page.locator(".legend-why").count() == 0


def test_pictures_for_print(open_page, path, content):
    """The table, what fits worst and what axes go with, as files of shapes and text."""
    page = ready(open_page(path))
    page.locator("#heat canvas").scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#heat canvas').width === 12")
    file = saved(page, "#heat", "SVG")
    told = texts(file)
    assert told[0] == "toy: rows by trait 1, columns by loading on trait 1"
    assert {f"column {j}" for j in range(12)} <= set(told)
    (image,) = ElementTree.parse(file).iter(f"{SVG}image")
    assert image.get("href").startswith("data:image/png;base64,")
    for details in page.locator("details.as-picture").all():
        details.locator("summary").first.click()
    rows = texts(saved(page, "#worst", "SVG: download rows that fit worst"))
    assert f"row {content.misfit.rows[0]}" in rows
    columns = texts(saved(page, "#worst", "SVG: download columns that fit worst"))
    assert f"column {np.argmax(content.misfit.column_bits)}" in columns
    page.locator("#meanings-picture summary").first.click()
    assert "water" in texts(saved(page, "#meanings-picture", "SVG"))
    assert texts(saved(page, "#trials", "SVG"))


def test_on_a_phone_nothing_is_wider_than_the_screen(open_page, path):
    page = ready(open_page(path, phone=True))
    page.select_option("#columns-as", "arrows")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
