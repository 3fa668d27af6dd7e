"""The table as a picture: its pixels are the cells, in the order that was asked for."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from contents import small_content

from latentbits.explorer.page import write_page

PIXELS = """(one) => {
    const copy = new OffscreenCanvas(one.width, one.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(one, 0, 0);
    return [...copy.getImageData(0, 0, one.width, one.height).data];
}"""


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    content = small_content(missing=True)
    table = dataclasses.replace(content.table, n_rows=500, numbers=np.random.default_rng(3).permutation(60) * 7)
    content = dataclasses.replace(content, table=table)
    return content, write_page(content, tmp_path_factory.mktemp("heat") / "page.html")


def drawn(page):
    canvas = page.locator("#heat canvas")
    canvas.scroll_into_view_if_needed()
    page.wait_for_function("() => document.querySelector('#heat canvas').width === 12")
    return np.array(canvas.evaluate(PIXELS)).reshape(60, 12, 4)[..., :3]


def bits_of(pixels):
    """Cells again, by their colours: light is 0, dark is 1, yellow is missing."""
    blue, red = pixels[..., 2], pixels[..., 0]
    return np.where(red > blue + 30, np.nan, (red < 128).astype(float))


def test_pixels_are_the_cells(shown, open_page):
    content, path = shown
    page = open_page(path)
    page.wait_for_selector("html[data-ready]")
    across = np.argsort(content.map.weights[0])
    by_trait = content.table.values[np.argsort(content.map.means[:, 0])][:, across]
    np.testing.assert_array_equal(bits_of(drawn(page)), by_trait)
    page.locator("#heat select").first.select_option("their number")
    page.locator("#heat select").last.select_option("their place")
    by_number = np.argsort(content.table.numbers)
    np.testing.assert_array_equal(bits_of(drawn(page)), content.table.values[by_number])
    active = content.galleries[0].layers[0].active
    page.locator("#heat select").first.select_option("strongest cause: mixture of 4")
    by_cause = np.lexsort([-active.max(axis=1), active.argmax(axis=1)])
    np.testing.assert_array_equal(bits_of(drawn(page)), content.table.values[by_cause])


def test_nothing_moves_when_it_is_drawn(shown, open_page):
    """It is drawn when it comes near the window: a button below it must not move away from a click."""
    page = open_page(shown[1])
    page.wait_for_selector("html[data-ready]")
    canvas = page.locator("#heat canvas")
    before = canvas.evaluate("(one) => [one.width, one.getBoundingClientRect().height]")
    drawn(page)
    after = canvas.evaluate("(one) => [one.width, one.getBoundingClientRect().height]")
    assert before[0] != after[0]  # it was not drawn before
    assert before[1] == after[1] > 100


def test_names_under_the_cursor_and_a_click_picks(shown, open_page):
    content, path = shown
    page = open_page(path)
    page.wait_for_selector("html[data-ready]")
    drawn(page)
    page.locator("#heat select").last.select_option("their place")
    page.locator("#heat select").first.select_option("their number")
    order = np.argsort(content.table.numbers)
    canvas = page.locator("#heat canvas")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    for k, j in ((3, 7), (40, 0)):
        canvas.hover(position={"x": (j + 0.5) / 12 * box["width"], "y": (k + 0.5) / 60 * box["height"]})
        value = content.table.values[order[k], j]
        said = "missing" if np.isnan(value) else f"{value:.0f}"
        text = page.locator("#heat .readout").inner_text()
        assert re.fullmatch(rf"row {order[k]}, column {j}: {said}(\.0+)?", text), text
    canvas.click(position={"x": 5, "y": 40.5 / 60 * box["height"]})
    assert page.locator(".row-title strong").inner_text() == f"row {order[40]}"
    assert page.locator(".heat-mark").is_visible()
    canvas.press("ArrowDown")
    canvas.press("Enter")
    assert page.locator(".row-title strong").inner_text() == f"row {order[41]}"


def test_more_columns_than_pixels_are_averaged(open_page, tmp_path):
    content = small_content()
    rng, d = np.random.default_rng(2), 700
    table = dataclasses.replace(
        content.table, columns=tuple(f"c{j}" for j in range(d)), values=rng.integers(0, 2, (60, d)).astype(float)
    )
    where = dataclasses.replace(content.map, weights=rng.normal(size=(2, d)), bias=np.zeros(d))
    content = dataclasses.replace(content, table=table, map=where, galleries=(), morph=None)
    page = open_page(write_page(content, tmp_path / "page.html"), width=375)
    page.wait_for_selector("html[data-ready]")
    page.locator("#heat canvas").scroll_into_view_if_needed()
    page.wait_for_function(
        "() => /about 1(\\.0)? rows and 2\\.\\d+ columns/.test(document.querySelector('#heat').innerText)"
    )
    assert page.locator("#heat canvas").evaluate("(one) => one.width") < 375
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 375
    page.locator("#heat canvas").hover(position={"x": 100, "y": 100})
    assert re.search(r"row \d+, [23] columns, c\d+ to c\d+: \d+ % of", page.locator("#heat .readout").inner_text())
