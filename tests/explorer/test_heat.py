"""The table as a picture: its pixels are the cells, in the order that was asked for."""

from __future__ import annotations

import dataclasses
import re
from xml.etree import ElementTree

import numpy as np
from browser import SVG, saved, texts_of, width_of
from contents import small_content

PIXELS = """(one) => {
    const copy = new OffscreenCanvas(one.width, one.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(one, 0, 0);
    return [...copy.getImageData(0, 0, one.width, one.height).data];
}"""
SIZE = "(one) => [one.width, one.getBoundingClientRect().height]"


def bits_of(canvas):
    """Cells again, by their colours: light is 0, dark is 1, yellow is missing."""
    canvas.scroll_into_view_if_needed()
    canvas.page.wait_for_function("() => document.querySelector('#heat canvas').width === 12")
    pixels = np.array(canvas.evaluate(PIXELS)).reshape(60, 12, 4)
    blue, red = pixels[..., 2], pixels[..., 0]
    return np.where(red > blue + 30, np.nan, (red < 128).astype(float))


def test_pixels_are_the_cells_and_a_click_picks(show):
    content = small_content(missing=True)
    table = dataclasses.replace(content.table, n_rows=500, numbers=np.random.default_rng(3).permutation(60) * 7)
    content = dataclasses.replace(content, table=table)
    page = show(content)
    canvas = page.locator("#heat canvas")
    before = canvas.evaluate(SIZE)
    across = np.argsort(content.map.weights[0])
    by_trait = content.table.values[np.argsort(content.map.means[:, 0])][:, across]
    np.testing.assert_array_equal(bits_of(canvas), by_trait)
    after = canvas.evaluate(SIZE)
    assert before[0] != after[0]  # it is drawn when it comes near the window,
    assert before[1] == after[1] > 100  # and a button below it does not move away from a click
    _, data = saved(page.locator("#heat").get_by_role("button", name="SVG"))
    written = texts_of(data)
    assert written[0] == "toy: rows by trait 1, columns by loading on trait 1"
    assert {f"column {j}" for j in range(12)} <= set(written)
    (image,) = ElementTree.fromstring(data).iter(f"{SVG}image")
    assert image.get("href").startswith("data:image/png;base64,")

    rows_by, columns_by = page.locator("#heat select").first, page.locator("#heat select").last
    active = content.galleries[0].layers[0].active
    columns_by.select_option("their place")
    rows_by.select_option("strongest cause: mixture of 4")
    by_cause = np.lexsort([-active.max(axis=1), active.argmax(axis=1)])
    np.testing.assert_array_equal(bits_of(canvas), content.table.values[by_cause])
    rows_by.select_option("their number")
    order = np.argsort(content.table.numbers)
    np.testing.assert_array_equal(bits_of(canvas), content.table.values[order])

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


def test_more_columns_than_pixels_are_averaged(show):
    content = small_content()
    rng, d = np.random.default_rng(2), 700
    table = dataclasses.replace(
        content.table, columns=tuple(f"c{j}" for j in range(d)), values=rng.integers(0, 2, (60, d)).astype(float)
    )
    where = dataclasses.replace(content.map, weights=rng.normal(size=(2, d)), bias=np.zeros(d))
    page = show(dataclasses.replace(content, table=table, map=where, galleries=(), morph=None), width=375)
    page.locator("#heat canvas").scroll_into_view_if_needed()
    page.wait_for_function(
        "() => /about 1(\\.0)? rows and 2\\.\\d+ columns/.test(document.querySelector('#heat').innerText)"
    )
    assert page.locator("#heat canvas").evaluate("(one) => one.width") < 375
    assert width_of(page) <= 375
    page.locator("#heat canvas").hover(position={"x": 100, "y": 100})
    assert re.search(r"row \d+, [23] columns, c\d+ to c\d+: \d+ % of", page.locator("#heat .readout").inner_text())
