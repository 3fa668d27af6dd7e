"""The map in a browser: numbers are those of the model, and it does what the reader asks by mouse, finger and key."""

from __future__ import annotations

import csv
import dataclasses
import re
import warnings

import numpy as np
import pytest
from contents import HOSTILE, small_content

from latentbits import LatentTrait
from latentbits.explorer.looks import map_of
from latentbits.explorer.page import render_page


@pytest.fixture(scope="module")
def fitted():
    """A model, and the rows it saw, some bits missing."""
    rng = np.random.default_rng(4)
    chances = 1 / (1 + np.exp(-rng.normal(size=(150, 2)) @ rng.normal(size=(2, 12)) * 1.2))
    X = (rng.random((150, 12)) < chances).astype(float)
    X[rng.random(X.shape) < 0.08] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return LatentTrait(2, method="variational", max_iter=20, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def path(fitted, tmp_path_factory):
    model, X = fitted
    content = small_content(len(X))
    content = dataclasses.replace(
        content, table=dataclasses.replace(content.table, values=X), map=map_of("2 latent traits", model, X)
    )
    return _written(content, tmp_path_factory)


@pytest.fixture(scope="module")
def hostile_path(tmp_path_factory):
    return _written(small_content(missing=True, hostile=True), tmp_path_factory)


def _written(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("map") / "page.html"
    path.write_text(render_page(content), encoding="utf-8")
    return path


def _ready(page):
    page.wait_for_selector("html[data-ready]")
    page.locator(".map-over").scroll_into_view_if_needed()
    return page.locator(".map-over").bounding_box()


def _hover(page, box, across, down):
    """Move to a share of the map's width and height; the place under the cursor there."""
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    where = page.locator("#decode .where")
    return float(where.get_attribute("data-x")), float(where.get_attribute("data-y"))


def _csv(page, name):
    with page.expect_download() as info:
        page.locator("#map").get_by_role("button", name=name).click()
    with open(info.value.path(), newline="", encoding="utf-8-sig") as file:
        return list(csv.DictReader(file))


def _pick(page, row):
    page.fill("#go-to-row", str(row))
    page.press("#go-to-row", "Enter")
    page.wait_for_function(f"() => document.querySelector('.row-title')?.textContent.startsWith('row {row}')")


def test_hover_decodes(open_page, path, fitted):
    page = open_page(path)
    box = _ready(page)
    for across, down in [(0.3, 0.4), (0.71, 0.55), (0.5, 0.1)]:
        place = _hover(page, box, across, down)
        lines = page.eval_on_selector_all(
            ".decoded-bars li", "all => all.map(e => [+e.dataset.column, parseFloat(e.querySelector('.value').title)])"
        )
        assert sorted(column for column, _ in lines) == list(range(12))
        expected = fitted[0].inverse_transform([place])[0]
        np.testing.assert_allclose([value for _, value in lines], expected[[j for j, _ in lines]], atol=2e-4)


def test_row_is_predicted_from_its_other_bits(open_page, path, fitted):
    """Each bit as `complete` has it where it is taken out; holes as `complete` fills them."""
    model, X = fitted
    page = open_page(path)
    _ready(page)
    row = int(np.flatnonzero(np.isnan(X).sum(axis=1) == 2)[0])
    _pick(page, row)
    lines = page.eval_on_selector_all(
        ".cells tbody tr",
        "all => all.map(e => [e.querySelector('th').firstChild.data, e.querySelector('.value').title])",
    )
    shown = {int(name.removeprefix("column ")): float(value) for name, value in lines}
    without = np.repeat(X[[row]], 12, axis=0)
    np.fill_diagonal(without, np.nan)
    expected = np.diag(model.complete(without))
    np.testing.assert_allclose([shown[j] for j in range(12)], expected, atol=5e-3)
    observed = np.where(np.isnan(X[row]), expected, np.abs(X[row] - (1 - expected)))
    odd = np.flatnonzero(~np.isnan(X[row]) & (observed < 0.1))
    assert page.locator(".cells .odd").count() == len(odd)
    assert page.locator(".cells .hole").count() == 2
    found = model.posterior(X[[row]])
    text = page.locator(".inspected .note").first.inner_text().replace("−", "-")
    place = [float(value) for value in re.search(r"At (\S+) ± (\S+) and (\S+) ± (\S+)\.", text).groups()]
    sds = np.sqrt(np.diagonal(found.covariance[0]))
    np.testing.assert_allclose(place, np.column_stack([found.mean[0], sds]).ravel(), atol=0.012)


def test_files(open_page, path, fitted):
    model, X = fitted
    page = open_page(path)
    _ready(page)
    holes = np.isnan(X).any(axis=1)
    filled = _csv(page, "CSV of completions")
    assert [int(line["row"]) for line in filled] == np.flatnonzero(holes).tolist()
    values = [[float(line[f"column {j}"]) for j in range(12)] for line in filled]
    np.testing.assert_allclose(values, model.complete(X[holes]), atol=5e-3)
    places = _csv(page, "CSV of positions")
    means = [[float(line["trait 1"]), float(line["trait 2"])] for line in places]
    np.testing.assert_allclose(means, model.transform(X), atol=2e-3)
    cost = [float(line["surprise in bits"]) for line in places]
    np.testing.assert_allclose(cost, -model.score_samples(X) / np.log(2), atol=2e-3)
    for kind, start in [("PNG", b"\x89PNG"), ("SVG", b"<svg")]:
        with page.expect_download() as info:
            page.locator("#map").get_by_role("button", name=kind).click()
        assert info.value.path().read_bytes().startswith(start)


def test_lasso_selects_the_rows_inside(open_page, path, fitted):
    model, X = fitted
    page = open_page(path)
    box = _ready(page)
    corners = [(0.25, 0.2), (0.7, 0.3), (0.45, 0.5), (0.72, 0.75), (0.3, 0.7)]  # with a bay
    polygon = [_hover(page, box, *corner) for corner in corners]
    page.mouse.move(box["x"] + corners[0][0] * box["width"], box["y"] + corners[0][1] * box["height"])
    page.keyboard.down("Shift")
    page.mouse.down()
    for across, down in corners[1:]:
        page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"], steps=3)
    page.mouse.up()
    page.keyboard.up("Shift")
    inside = np.flatnonzero(_inside(model.transform(X), polygon))
    assert 20 < len(inside) < 130
    assert page.locator(".selection h3").inner_text().startswith(f"{len(inside)} of 150 rows selected")
    assert _in_window(page, ".selection h3")
    assert _in_window(page, ".differences")
    assert [int(line["row"]) for line in _csv(page, "CSV of positions")] == inside.tolist()
    name, own, rest = page.locator(".differences tbody tr").first.locator("th, td").all_inner_texts()[:3]
    shares = np.nanmean(X[inside], axis=0), np.nanmean(np.delete(X, inside, axis=0), axis=0)
    j = int(np.argmax(np.abs(shares[0] - shares[1])))
    assert (name, own, rest) == (f"column {j}", *(f"{100 * share[j]:.0f} %" for share in shares))
    page.locator(".selection").get_by_role("button", name="clear").click()
    assert page.locator(".selection").inner_text() == ""


def _in_window(page, selector):
    """Whether all of an element is seen without scrolling."""
    return page.locator(selector).evaluate(
        "(one) => { const box = one.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight }"
    )


def test_what_is_selected_is_seen_on_a_narrow_window(open_page, path):
    page = open_page(path, width=375, height=700)
    _ready(page)
    page.focus(".map-over")
    page.keyboard.press("+")
    page.keyboard.press("s")
    assert _in_window(page, ".selection h3")


def test_the_rows_farthest_out_have_their_names(open_page, path, fitted):
    page = open_page(path)
    _ready(page)
    page.locator(".line-control").get_by_role("button", name="none").click()
    with page.expect_download() as info:
        page.locator("#map").get_by_role("button", name="SVG").click()
    texts = re.findall(r">(row \d+)( and \d+ more)?</text>", info.value.path().read_text(encoding="utf-8"))
    means = fitted[0].transform(fitted[1])
    away = means - means.mean(axis=0)
    far = np.argsort(-np.einsum("ni,ij,nj->n", away, np.linalg.inv(np.cov(away.T)), away))
    assert 3 <= len(texts) <= 8
    assert {name for name, _ in texts} <= {f"row {i}" for i in far[:80]}
    assert f"row {far[0]}" in {name for name, _ in texts}


def _inside(points, polygon):
    """By the sum of the angles under which edges are seen: not how the page does it."""
    to = np.asarray(polygon)[None] - np.asarray(points)[:, None]
    angle = np.arctan2(to[..., 1], to[..., 0])
    turn = np.diff(np.concatenate([angle, angle[:, :1]], axis=1), axis=1)
    return np.abs(((turn + np.pi) % (2 * np.pi) - np.pi).sum(axis=1)) > np.pi


def test_colours_and_levels(open_page, screenshot, path):
    page = open_page(path)
    _ready(page)
    page.locator(".line-control").get_by_role("button", name="none").click()
    page.select_option("#colour-by", "label:0")
    by_label = screenshot(page, "label")
    level = page.locator(".legend .level").first
    level.click()
    assert page.evaluate("() => document.activeElement.dataset.code") == "0"  # though buttons were made anew
    assert page.locator(".legend .level").first.get_attribute("aria-pressed") == "false"
    hidden = screenshot(page, "hidden")
    page.select_option("#colour-by", "cost")
    assert "bits" in page.locator(".legend").inner_text()
    by_cost = screenshot(page, "cost")
    page.select_option("#colour-by", "column")
    page.fill("[aria-label='Column that colours the map']", "column 7")
    assert page.locator(".legend-title").first.inner_text() == "column 7"
    by_bit = screenshot(page, "bit")
    pictures = [by_label, hidden, by_cost, by_bit]
    blue = [_share(picture, (0, 114, 178)) for picture in pictures]  # left, or 1
    assert min(blue[0], blue[3]) > 5e-4
    assert max(blue[1], blue[2]) < 0.1 * blue[0]


def test_numbers_known_of_rows_have_a_scale(open_page, screenshot, path, fitted):
    """The label can be chosen, its colours run along the first axis, and the axes say what they mean."""
    page = open_page(path)
    box = _ready(page)
    page.locator(".line-control").get_by_role("button", name="none").click()
    page.select_option("#colour-by", "label:1")
    assert page.locator(".legend-title").first.inner_text() == "water"
    assert "not known of 1 rows (grey)" in page.locator(".legend-ramp").inner_text()
    assert page.locator(".legend .level").count() == 0
    picture = screenshot(page, "water")
    assert min(_share(picture, (0x3A, 0x6F, 0xB5)), _share(picture, (0xC2, 0x35, 0x2B))) > 1e-5
    page.focus(".map-over")
    page.keyboard.press("s")
    assert re.search(r"water: mean [\d.]+, of the rest", page.locator(".selection").inner_text())
    with page.expect_download() as info:
        page.locator("#map").get_by_role("button", name="SVG").click()
    text = info.value.path().read_text("utf-8")
    assert "trait 1: water (-1.00) →" in text
    assert "trait 2: number of ones (0.84) →" in text
    _pick(page, 0)
    assert "water: " in page.locator("#inspector").inner_text()
    assert box["width"] > 100


def _share(picture, colour):
    return (np.abs(picture.astype(int) - colour).max(axis=2) < 30).mean()


def test_keys(open_page, path, fitted):
    page = open_page(path)
    _ready(page)
    page.focus(".map-over")
    page.keyboard.press("n")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    order = np.argsort(np.linalg.norm(fitted[0].transform(fitted[1]) - _middle(page), axis=1))
    assert page.locator("#say").inner_text().startswith(f"Picked: row {order[1]}, party")
    assert page.locator(".row-title").inner_text().startswith(f"row {order[1]}")
    where = page.locator("#decode .where")
    page.keyboard.press("0")
    before = [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("+")
    after = [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]
    assert after[0] > before[0]
    assert after[1] == pytest.approx(before[1])
    page.keyboard.press("s")
    some = len(_csv(page, "CSV of positions"))
    assert 0 < some < 150
    page.focus(".map-over")
    page.keyboard.press("Escape")
    assert len(_csv(page, "CSV of positions")) == 150


def _middle(page):
    """The first place of the keys: the middle of the window, which "0" tells."""
    shown = page.locator("#decode .where")
    page.keyboard.press("0")
    return [float(shown.get_attribute("data-x")), float(shown.get_attribute("data-y"))]


def test_lines_are_added_and_taken_away(open_page, path):
    page = open_page(path)
    box = _ready(page)
    chips = page.locator(".line-control .chip:not(.none)")
    many = chips.count()
    chips.first.click()
    assert chips.count() == many - 1
    page.locator(".line-control").get_by_role("button", name="none").click()
    page.wait_for_function(f"() => {INKED} > 0")  # the names of outliers
    page.get_by_role("button", name="Names", exact=True).click()
    page.wait_for_function(f"() => {INKED} === 0")
    page.fill("[aria-label='Add the line of a column']", "column 4")
    assert chips.all_inner_texts() == ["column 4 ×"]
    page.wait_for_function(f"() => {INKED} > {0.6 * box['height']}")  # a name alone is far smaller


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


def test_hostile_names_are_text(open_page, hostile_path):
    page = open_page(hostile_path)
    page.on("dialog", lambda dialog: pytest.fail(f"a script of the table ran: {dialog.message}"))
    box = _ready(page)
    for k in range(12):
        _hover(page, box, 0.3 + 0.04 * k, 0.5)
    page.focus(".map-over")
    for key in ["n", "Enter", "s"]:
        page.keyboard.press(key)
    page.select_option("#colour-by", "column")
    page.fill("[aria-label='Column that colours the map']", f"{HOSTILE} column 2")
    for place in [".legend-title", ".row-title", ".map-tip", ".cells", ".selection"]:
        assert HOSTILE in page.locator(place).first.inner_text(), place
    assert page.locator(".decoded-bars .name").first.get_attribute("title").startswith(HOSTILE)
    assert page.locator("img").count() == 0
    assert page.locator("script:not(.array):not(#page):not([type=module])").count() == 0
    lines = _csv(page, "CSV of positions")
    assert lines[0]["name"].startswith(HOSTILE)


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True])
def test_phone(open_page, screenshot, path, dark):
    page = open_page(path, phone=True, dark=dark)
    box = _ready(page)
    page.touchscreen.tap(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.wait_for_selector(".row-title")
    assert page.evaluate("() => document.documentElement.scrollWidth") <= 390
    corner = screenshot(page)[int(box["y"]) + 40, 60]
    assert (corner < 60).all() if dark else (corner > 200).all()
