"""The map in a browser: numbers are those of the model, and it does what the reader asks by mouse, finger and key."""

from __future__ import annotations

import dataclasses
import re

import numpy as np
import pytest
from browser import csv_of, drawn, pixels_of, saved, width_of
from contents import HOSTILE, predicted_from_others, small_content, traits_content
from scipy.special import expit

from latentbits.explorer.page import write_page

CONTENT = traits_content()
X, WHERE = CONTENT.table.values, CONTENT.map


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_page(CONTENT, tmp_path_factory.mktemp("map") / "page.html")


def _box(page):
    page.locator(".map-over").scroll_into_view_if_needed()
    return page.locator(".map-over").bounding_box()


def _place(page):
    where = page.locator("#decode .where")
    return [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]


def _hover(page, box, across, down):
    """Move to a share of the map's width and height; the place under the cursor there."""
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    drawn(page)
    return _place(page)


def _saved(page, name):
    return saved(page.locator("#map").get_by_role("button", name=name))[1]


def _pick(page, row):
    page.fill("#go-to-row", str(row))
    page.press("#go-to-row", "Enter")
    page.wait_for_function(f"() => document.querySelector('.row-title')?.textContent.startsWith('row {row}')")


def _in_window(page, selector):
    """Whether all of an element is seen without scrolling."""
    return page.locator(selector).evaluate(
        "(one) => { const box = one.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }"
    )


def test_places_rows_and_files_are_those_of_the_model(open_page, path):
    """A place decodes to P(bit = 1); each bit of a row is predicted from its others, and holes from all."""
    page = open_page(path)
    box = _box(page)
    for across, down in [(0.3, 0.4), (0.71, 0.55)]:
        place = _hover(page, box, across, down)
        lines = page.eval_on_selector_all(
            ".decoded-bars li", "all => all.map(e => [+e.dataset.column, parseFloat(e.querySelector('.value').title)])"
        )
        assert sorted(column for column, _ in lines) == list(range(12))
        expected = expit(place @ WHERE.weights + WHERE.bias)
        np.testing.assert_allclose([value for _, value in lines], expected[[j for j, _ in lines]], atol=2e-4)

    row = int(np.flatnonzero(np.isnan(X).sum(axis=1) == 2)[0])
    _pick(page, row)
    lines = page.eval_on_selector_all(
        ".cells tbody tr",
        "all => all.map(e => [e.querySelector('th').firstChild.data, e.querySelector('.value').title])",
    )
    shown = {int(name.removeprefix("column ")): float(value) for name, value in lines}
    predicted = predicted_from_others(WHERE, X)
    np.testing.assert_allclose([shown[j] for j in range(12)], predicted[row], atol=5e-3)
    odd = ~np.isnan(X[row]) & (np.where(X[row] == 1, predicted[row], 1 - predicted[row]) < 0.1)
    assert page.locator(".cells .odd").count() == odd.sum()
    assert page.locator(".cells .hole").count() == 2
    text = page.locator(".inspected .note").first.inner_text().replace("−", "-")
    place = [float(value) for value in re.search(r"At (\S+) ± (\S+) and (\S+) ± (\S+)\.", text).groups()]
    sds = np.sqrt(WHERE.covariances[row, :2])
    np.testing.assert_allclose(place, np.column_stack([WHERE.means[row], sds]).ravel(), atol=0.012)

    holes = np.isnan(X).any(axis=1)
    filled = csv_of(_saved(page, "CSV of completions"))
    assert [int(line["row"]) for line in filled] == np.flatnonzero(holes).tolist()
    values = [[float(line[f"column {j}"]) for j in range(12)] for line in filled]
    np.testing.assert_allclose(values, np.where(np.isnan(X), predicted, X)[holes], atol=5e-3)
    places = csv_of(_saved(page, "CSV of positions"))
    means = [[float(line["trait 1"]), float(line["trait 2"])] for line in places]
    np.testing.assert_allclose(means, WHERE.means, atol=2e-3)
    cost = [float(line["surprise in bits"]) for line in places]
    np.testing.assert_allclose(cost, WHERE.cost, atol=2e-3)
    assert _saved(page, "PNG").startswith(b"\x89PNG")


def test_lasso_selects_the_rows_inside(open_page, path):
    page = open_page(path)
    box = _box(page)
    corners = [(0.25, 0.2), (0.7, 0.3), (0.45, 0.5), (0.72, 0.75), (0.3, 0.7)]  # with a bay
    polygon = [_hover(page, box, *corner) for corner in corners]
    page.mouse.move(box["x"] + corners[0][0] * box["width"], box["y"] + corners[0][1] * box["height"])
    page.keyboard.down("Shift")
    page.mouse.down()
    for across, down in corners[1:]:
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    inside = np.flatnonzero(_inside(WHERE.means, polygon))
    assert 20 < len(inside) < 130
    assert page.locator(".selection h3").inner_text().startswith(f"{len(inside)} of 150 rows selected")
    assert _in_window(page, ".selection h3")
    assert _in_window(page, ".differences")
    assert [int(line["row"]) for line in csv_of(_saved(page, "CSV of positions"))] == inside.tolist()
    name, own, rest = page.locator(".differences tbody tr").first.locator("th, td").all_inner_texts()[:3]
    shares = np.nanmean(X[inside], axis=0), np.nanmean(np.delete(X, inside, axis=0), axis=0)
    j = int(np.argmax(np.abs(shares[0] - shares[1])))
    assert (name, own, rest) == (f"column {j}", *(f"{100 * share[j]:.0f} %" for share in shares))
    page.locator(".selection").get_by_role("button", name="clear").click()
    assert page.locator(".selection").inner_text() == ""


def _inside(points, polygon):
    """By the sum of the angles under which edges are seen: not how the page does it."""
    to = np.asarray(polygon)[None] - np.asarray(points)[:, None]
    angle = np.arctan2(to[..., 1], to[..., 0])
    turn = np.diff(np.concatenate([angle, angle[:, :1]], axis=1), axis=1)
    return np.abs(((turn + np.pi) % (2 * np.pi) - np.pi).sum(axis=1)) > np.pi


def test_colours_levels_and_scales(open_page, path):
    page = open_page(path)
    _box(page)
    page.select_option("#columns-as", "lines")
    page.locator(".line-control").get_by_role("button", name="none").click()
    page.select_option("#colour-by", "label:0")
    by_label = pixels_of(page)
    page.locator(".legend .level").first.click()
    assert page.evaluate("() => document.activeElement.dataset.code") == "0"  # though buttons were made again
    assert page.locator(".legend .level").first.get_attribute("aria-pressed") == "false"
    hidden = pixels_of(page)
    page.select_option("#colour-by", "cost")
    assert "bits" in page.locator(".legend").inner_text()
    by_cost = pixels_of(page)
    page.select_option("#colour-by", "column")
    page.fill("[aria-label='Column that colours the map']", "column 7")
    assert page.locator(".legend-title").first.inner_text() == "column 7"
    by_bit = pixels_of(page)
    blue = [_share(picture, (0, 114, 178)) for picture in (by_label, hidden, by_cost, by_bit)]  # left, or 1
    assert min(blue[0], blue[3]) > 5e-4
    assert max(blue[1], blue[2]) < 0.1 * blue[0]

    page.focus("#colour-by")  # as a reader does, who leaves the field of names so
    page.select_option("#colour-by", "label:1")
    assert page.locator(".legend-title").first.inner_text() == "water"
    assert "not known of 1 rows (grey)" in page.locator(".legend-ramp").inner_text()
    assert page.locator(".legend .level").count() == 0
    picture = pixels_of(page)
    assert min(_share(picture, (0x3A, 0x6F, 0xB5)), _share(picture, (0xC2, 0x35, 0x2B))) > 1e-5
    page.focus(".map-over")
    page.keyboard.press("s")
    assert re.search(r"water: mean [\d.]+, of the rest", page.locator(".selection").inner_text())
    _pick(page, 0)
    assert "water: " in page.locator("#inspector").inner_text()

    text = _saved(page, "SVG").decode()
    assert text.startswith("<svg")
    assert "trait 1: water, rank correlation −1.00 →" in text
    assert "trait 2: number of ones, rank correlation 0.84 →" in text
    outliers = {name for name, _ in re.findall(r">(row \d+)( and \d+ more)?</text>", text)}
    away = WHERE.means - WHERE.means.mean(axis=0)
    far = np.argsort(-np.einsum("ni,ij,nj->n", away, np.linalg.inv(np.cov(away.T)), away))
    assert 3 <= len(outliers) <= 9  # with the row that is picked
    assert outliers <= {f"row {i}" for i in [0, *far[:80]]}
    assert f"row {far[0]}" in outliers


def _share(picture, colour):
    return (np.abs(picture.astype(int) - colour).max(axis=2) < 30).mean()


def test_keys_and_lines(open_page, path):
    page = open_page(path)
    box = _box(page)
    page.select_option("#columns-as", "lines")
    chips = page.locator(".line-control .chip:not(.none)")
    assert chips.count() == 3
    chips.first.click()
    assert chips.count() == 2
    page.locator(".line-control").get_by_role("button", name="none").click()
    page.wait_for_function(f"() => {INKED} > 0")  # the names of outliers
    page.get_by_role("button", name="Names", exact=True).click()
    page.wait_for_function(f"() => {INKED} === 0")
    page.fill("[aria-label='Add the line of a column']", "column 4")
    assert chips.all_inner_texts() == ["column 4 ×"]
    page.wait_for_function(f"() => {INKED} > {0.6 * box['height']}")  # a name alone is far smaller

    page.focus(".map-over")
    for key in ("n", "n", "Enter"):
        page.keyboard.press(key)
    page.keyboard.press("0")  # the first place of the keys: the middle of the window
    before = _place(page)
    order = np.argsort(np.linalg.norm(WHERE.means - before, axis=1))
    assert page.locator("#say").inner_text().startswith(f"Picked: row {order[1]}, party")
    assert page.locator(".row-title").inner_text().startswith(f"row {order[1]}")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    after = _place(page)
    assert after[0] > before[0]
    assert after[1] == pytest.approx(before[1])
    page.keyboard.press("s")
    assert 0 < len(csv_of(_saved(page, "CSV of positions"))) < 150
    page.focus(".map-over")
    page.keyboard.press("Escape")
    assert len(csv_of(_saved(page, "CSV of positions"))) == 150

    page.set_viewport_size({"width": 375, "height": 700})
    page.focus(".map-over")
    page.keyboard.press("+")
    page.keyboard.press("s")
    assert _in_window(page, ".selection h3")


# Rows and columns of the upper canvas with anything drawn
INKED = """((canvas) => {
    const { width, height } = canvas;
    const copy = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const { data } = copy.getImageData(0, 0, width, height);
    const seen = new Set();
    for (let i = 0; i < width * height; i++)
        if (data[4 * i + 3]) seen.add(`x${i % width}`).add(`y${Math.floor(i / width)}`);
    return seen.size;
})(document.querySelector(".map-over"))"""


def test_hostile_names_are_text(show):
    """Names are shown on all parts, and nothing that they say is done; in files they are no formulas."""
    content = small_content(missing=True, hostile=True)
    names = tuple(f"=cmd {name}" for name in content.table.columns)
    page = show(dataclasses.replace(content, table=dataclasses.replace(content.table, columns=names)))
    box = _box(page)
    for k in range(12):
        _hover(page, box, 0.3 + 0.04 * k, 0.5)
    page.focus(".map-over")
    for key in ["n", "Enter", "s"]:
        page.keyboard.press(key)
    page.select_option("#colour-by", "column")
    page.fill("[aria-label='Column that colours the map']", names[2])
    for place in [".legend-title", ".row-title", ".map-tip", ".cells", ".selection"]:
        assert HOSTILE in page.locator(place).first.inner_text(), place
    assert HOSTILE in page.locator(".decoded-bars .name").first.get_attribute("title")
    assert csv_of(_saved(page, "CSV of positions"))[0]["name"].startswith(HOSTILE)
    assert page.locator("#loadings text.name").first.text_content().startswith(names[0][:8])
    page.locator("#causes").scroll_into_view_if_needed()
    assert HOSTILE in page.locator("#causes .card.filled .bars .name").first.inner_text()
    _, data = saved(page.get_by_role("button", name=re.compile("CSV: download kind of")))
    assert list(csv_of(data)[0])[2:] == [f"'{name}" for name in names]
    page.get_by_role("tab").nth(1).click()
    assert page.locator("img").count() == 0
    assert page.locator("script:not(.array):not(#page):not([type=module])").count() == 0


def test_phone(open_page, path):
    page = open_page(path, phone=True, dark=True)
    box = _box(page)
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".row-title")
    assert width_of(page) <= 390
    _box(page)
    for scheme in ("dark", "light"):
        page.emulate_media(color_scheme=scheme)
        drawn(page)
        box = page.locator(".map-over").bounding_box()
        corner = pixels_of(page)[int(box["y"]) + 40, 60]
        assert (corner < 60).all() if scheme == "dark" else (corner > 200).all()
