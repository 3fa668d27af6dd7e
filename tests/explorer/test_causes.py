"""Causes, morph, curves and tables of the page in a browser: what is shown is what the arrays say."""

from __future__ import annotations

import dataclasses
import io
import re
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest
from browser import SVG, csv_of, go_to, saved, width_of
from contents import small_content

from latentbits import ClippedGaussian
from latentbits.estimators.explanations import explanation_of
from latentbits.explorer.page import write_page


@pytest.fixture(scope="module")
def named(tmp_path_factory):
    """Rows of named bits, some missing; of the shown rows, 50 were looked at closely."""
    content = small_content(missing=True)

    def closely(layer):
        states = None if layer.states is None else layer.states[:50]
        examples = np.argsort(-layer.active[:50], axis=0)[:5].T
        return dataclasses.replace(layer, active=layer.active[:50], states=states, examples=examples)

    galleries = tuple(
        dataclasses.replace(gallery, layers=tuple(map(closely, gallery.layers))) for gallery in content.galleries
    )
    morph = dataclasses.replace(content.morph, places=content.morph.places[:50])
    content = dataclasses.replace(content, n_close=50, galleries=galleries, morph=morph)
    return content, write_page(content, tmp_path_factory.mktemp("named") / "page.html")


@pytest.fixture(scope="module")
def images(tmp_path_factory):
    """Rows that are images; their first model has 70 causes, on traits that pull up and down."""
    content = small_content(image=True)
    rng = np.random.default_rng(1)
    layer = dataclasses.replace(
        content.galleries[0].layers[0],
        names=tuple(f"trait {i}" for i in range(70)),
        weights=rng.normal(size=(70, 12)),
        usage=np.full(70, np.nan),
        active=rng.normal(size=(60, 70)),
        examples=rng.integers(0, 60, (70, 3)),
    )
    many = dataclasses.replace(content.galleries[0], kind="signed", layers=(layer,))
    content = dataclasses.replace(content, galleries=(many, *content.galleries[1:]))
    return content, write_page(content, tmp_path_factory.mktemp("images") / "page.html")


def numbers_in(locator):
    return [float(text.replace("−", "-").split()[0]) for text in locator.all_inner_texts()]


def slide(page, t):
    page.get_by_label("Stage of the morph").evaluate(
        "(slider, t) => { slider.value = t; slider.dispatchEvent(new Event('input')) }", t
    )


def test_cards_tabs_and_hinton_diagrams_show_the_arrays(named, open_page):
    """The most used kind comes first; its bits are ranked by how far they are from the mean of the rows.

    Arrow keys go from model to model; a Hinton diagram has a square a weight, with its area.
    """
    content, path = named
    page = open_page(path)
    layer = content.galleries[0].layers[0]
    first = int(np.argmax(layer.usage))
    card = page.locator("#causes .card:visible").first
    card.scroll_into_view_if_needed()
    assert card.locator("h4").inner_text() == layer.names[first]
    assert card.locator(".usage").inner_text() == f"{layer.usage[first]:.0%}".replace("%", " % of rows")
    off = layer.weights[first] - np.nanmean(content.table.values[:50], axis=0)
    best = np.argsort(-np.abs(off))[:8]
    assert card.locator(".bars .name").all_inner_texts() == [content.table.columns[j] for j in best]
    np.testing.assert_allclose(numbers_in(card.locator(".bars .value")), layer.weights[first][best], atol=0.0051)
    card.get_by_role("button", name="4 more").click()
    assert card.locator(".bars li").count() == 12
    on = np.flatnonzero(layer.active[:, first] > 0.5)
    listed = [int(one.get_attribute("data-row")) for one in card.locator("button.example").all()]
    assert listed == [row for row in layer.examples[first] if row in on]
    counted = f"P > ½ in {len(on)} of 50 rows looked at: party "
    assert counted in card.locator(".examples").inner_text()
    card.locator("button.example").nth(1).click()
    row = int(layer.examples[first, 1])
    for one in page.locator("#causes .card:visible").all():
        cause = int(one.get_attribute("data-cause"))
        assert one.locator(".picked-line").inner_text() == f"row {row}: {layer.active[row, cause]:.2f}"
    go_to(page, 55)
    assert page.locator(".picked-line:visible").count() == 0
    assert "50 were looked at closely" in page.locator("#gallery-0 .picked-note").inner_text()

    tabs = page.get_by_role("tab")
    assert tabs.all_inner_texts() == [gallery.name for gallery in content.galleries]
    tabs.first.focus()
    page.keyboard.press("ArrowRight")
    assert page.evaluate("() => document.activeElement.textContent") == "noisy OR of 3, 2"
    assert tabs.nth(1).get_attribute("aria-selected") == "true"
    assert page.locator("#gallery-0").is_hidden()
    page.wait_for_selector(".meaning")
    assert page.locator(".meaning").all_inner_texts() == ["Goes with party, left above right (AUC 0.91)"]
    card = page.locator(".card").filter(has=page.locator(".meaning"))
    assert "cause 2" in card.text_content()
    page.locator("#gallery-1").get_by_role("button", name="Hinton diagram").last.click()
    assert page.locator("#gallery-1 .cards").last.is_hidden()
    squares = page.locator("#gallery-1 svg.hinton rect.plus")
    sides = np.array(squares.evaluate_all("all => all.map((one) => Number(one.getAttribute('width')))"))
    strengths = -np.expm1(-content.galleries[1].layers[0].weights)
    np.testing.assert_allclose((sides / 13) ** 2, strengths.ravel(), atol=1e-5)


def test_many_names_open_in_a_box_of_their_own(show):
    """The page does not grow by the length of the list; a field narrows it down; no name is cut; bars are alike."""
    content = small_content()
    rng, d = np.random.default_rng(2), 300
    names = tuple(f"Does the respondent agree with statement {j}?" if j % 2 else f"c{j}" for j in range(d))
    table = dataclasses.replace(content.table, columns=names, values=rng.integers(0, 2, (60, d)).astype(float))
    layer = dataclasses.replace(content.galleries[0].layers[0], weights=rng.random((4, d)))
    where = dataclasses.replace(content.map, weights=rng.normal(size=(2, d)), bias=np.zeros(d))
    gallery = dataclasses.replace(content.galleries[0], layers=(layer,))
    page = show(dataclasses.replace(content, table=table, map=where, galleries=(gallery,), morph=None))
    page.locator("#causes").scroll_into_view_if_needed()
    card = page.locator("#causes .card.filled").first
    before = card.bounding_box()["height"]
    card.get_by_role("button", name="292 more").click()
    assert card.locator(".bars li").count() == d
    assert card.bounding_box()["height"] < before + 250
    cut = card.locator(".name").evaluate_all("all => all.filter((one) => one.scrollWidth > one.clientWidth + 1).length")
    assert cut == 0
    assert len(set(card.locator(".bars .bar").evaluate_all("all => all.map((one) => one.clientWidth)"))) == 1
    card.get_by_role("searchbox").fill("statement 29")
    assert sorted(card.locator(".bars .name").all_inner_texts()) == sorted(name for name in names if "t 29" in name)
    card.get_by_role("searchbox").fill("nothing of the kind")
    assert "No name has this" in card.inner_text()
    card.get_by_role("button", name="fewer").click()
    assert card.locator(".bars li").count() == 8
    go_to(page, 3)
    side = page.locator("#inspector")
    tall = side.bounding_box()["height"]
    side.get_by_role("button", name="288 more").click()
    assert side.locator(".cells tbody tr").count() == d
    assert side.bounding_box()["height"] < tall + 250


def ask_for_missing_rows(page, where, label, last):
    box = page.locator(where).get_by_label(label, exact=True)
    box.fill("zzz")
    box.press("Enter")
    answer = page.locator(where).locator("[role=status].answer").first
    assert answer.inner_text() == "No row here is called “zzz”."
    box.fill("777")
    box.press("Enter")
    assert answer.inner_text().startswith("There is no row 777. Nearest: row ")
    answer.get_by_role("button").first.click()
    assert page.locator(".row-title strong").inner_text() == last
    assert answer.inner_text() == ""


def test_explanations_are_those_of_the_library(named, open_page):
    """A row that is not there gets an answer in words, with the nearest to choose."""
    content, path = named
    page = open_page(path)
    assert page.locator("#morph").count() == page.get_by_text("second row").count() == 0  # rows are no images
    ask_for_missing_rows(page, "#inspector", "Go to row", "row 59")
    page.get_by_role("tab").nth(1).click()
    layers = content.galleries[1].layers
    for row in (3, 41):
        go_to(page, row)
        expected = explanation_of(
            [layer.weights.astype(np.float32) for layer in layers],
            [layer.bias.astype(np.float32) for layer in layers] + [np.ones(2)],
            [content.table.columns, *(layer.names for layer in layers)],
            content.table.values[row],
            [layer.states[row].astype(float) for layer in layers],
            [layer.active[row] for layer in layers],
            0.0,
        )
        units = [(cause.name, cause.explains) for layer in reversed(expected.causes) for cause in layer]
        blocks = page.locator(".explanation .unit").all()
        assert len(blocks) == len(units) + 1
        for block, (name, explains) in zip(blocks, [*units, ("not explained", expected.unexplained)]):
            title = block.locator("p").inner_text()
            assert title.startswith(name) or (not explains and title == "nothing is left unexplained")
            if block.get_by_role("button").count():
                block.get_by_role("button").click()
            assert block.locator(".name").all_inner_texts() == list(explains)
            np.testing.assert_allclose(numbers_in(block.locator(".value")), list(explains.values()), atol=0.0051)


COPIED = """(one) => {
  const copy = document.createElement("canvas").getContext("2d");
  copy.drawImage(one, 0, 0);
  return [...copy.getImageData(0, 0, one.width, one.height).data];
}"""


def test_morph_is_that_of_the_library(images, open_page):
    """At each stage the pixels are those of ClippedGaussian.morph, and flips are in the order of their times."""
    content, path = images
    a, b, morph, values = 5, 2, content.morph, content.table.values
    weights, phi, places = (np.float32(x).astype(float) for x in (morph.weights, morph.phi, morph.places))
    model = SimpleNamespace(
        _fitted=lambda: None,
        n_features_in_=len(phi),
        _one_row=lambda name, x: x,
        _without_names=lambda function, X: function(X),
        transform=lambda X: places[[a, b]],
        thresholds_=phi,
        components_=weights,
        binary_correlation_=np.eye(12),
        bias=True,
        means_=np.full(12, 0.5),
        n_components_=2,
    )
    expected = ClippedGaussian.morph(model, values[a], values[b], 5).bits
    page = open_page(path)
    done, total = map(int, re.search(r"(\d+) of (\d+) bits", page.locator("#morph output").inner_text()).groups())
    assert total / 2 <= done < total  # it begins where something has changed
    ask_for_missing_rows(page, "#morph", "From", "row 59")
    go_to(page, a, "#morph", "From")
    go_to(page, b, "#morph", "to")
    start, slope = phi + places[a] @ weights, (places[b] - places[a]) @ weights
    flipping = np.flatnonzero(expected[0] != expected[-1])
    order = flipping[np.argsort((-start / slope)[flipping])]
    assert len(order) > 2
    for i, t in enumerate(np.linspace(0, 1, 5)):
        slide(page, t)
        dark = page.locator("#morph .stages canvas").nth(1).evaluate(COPIED)
        np.testing.assert_array_equal(np.array(dark).reshape(12, 4)[:, 0] < 128, expected[i] > 0)
        done = (expected[i] != expected[0]).sum()
        assert f"{done} of {len(order)} bits flipped" in page.locator("#morph output").inner_text()
        assert page.locator("#morph .track .passed").count() == done
    differ = [np.nansum(np.abs(expected[end] - values[row])) for end, row in ((0, a), (-1, b))]
    found = re.search(r"(\d+) of 12 differ at row 5\b.*, (\d+) at row 2", page.locator(".ends-note").inner_text())
    assert [int(x) for x in found.groups()] == differ
    name, data = saved(page.get_by_role("button", name="CSV: download this morph"))
    assert name == "toy-morph.csv"
    lines = [list(line.values()) for line in csv_of(data)]
    assert [line[0] for line in lines] == [content.table.columns[j] for j in order]
    np.testing.assert_allclose([float(line[1]) for line in lines], (-start / slope)[order], rtol=1e-5)


def test_a_morph_of_rare_bits_begins_with_flips_and_says_why_others_have_none(show):
    """Bits that are on beyond y = 1, 2, .. of which the typical rows, near 0, know nothing."""
    content = small_content(image=True)
    rng = np.random.default_rng(5)
    places = 0.1 * rng.normal(size=(60, 1))
    places[7] = 20
    values = np.zeros((60, 12))
    values[3, :5] = 1
    morph = dataclasses.replace(content.morph, weights=np.ones((1, 12)), phi=-1.0 - np.arange(12), places=places)
    table = dataclasses.replace(content.table, values=values)
    page = show(dataclasses.replace(content, morph=morph, table=table))
    assert "of 12 bits flipped" in page.locator("#morph output").inner_text()
    assert page.locator(".short-way").inner_text() == ""
    go_to(page, 3, "#morph", "From")
    go_to(page, 4, "#morph", "to")
    assert "differ in 5 of 12 columns, but no bit flips" in page.locator(".short-way").inner_text()
    page.get_by_role("button", name="Pair with many flips").click()
    assert page.locator("#morph .track span").count() == 12


def test_images_of_causes_and_morph(images, open_page):
    """Seventy causes scroll, drawn as they come; pixels are the weights; a play ends where the way ends."""
    content, path = images
    page = open_page(path)
    page.locator("#causes").scroll_into_view_if_needed()
    page.locator("#causes .card.filled").first.wait_for()
    assert page.locator("#causes .card.filled").count() < 70
    layer = content.galleries[0].layers[0]
    pixels = page.locator("#causes .card.filled canvas.pixels").first.evaluate(
        "(one) => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    )
    red, blue = np.array(pixels).reshape(12, 4)[:, [0, 2]].T
    strong = np.abs(layer.weights[0]) > 0.5
    np.testing.assert_array_equal(red[strong] > blue[strong], layer.weights[0][strong] > 0)
    card = page.locator("#causes .card").first
    low = [int(one.get_attribute("data-row")) for one in card.locator(".examples").nth(1).locator("button").all()]
    assert low == np.argsort(layer.active[:, 0])[:3].tolist()
    card.locator(".thumb").first.click()
    assert page.locator(".thumb[aria-pressed=true]").first.get_attribute("data-row") == str(layer.examples[0, 0])
    slide(page, 0.9)
    play = page.get_by_role("button", name="Play")
    play.click()
    play.wait_for()  # it is called "Pause" while it runs
    page.wait_for_function("() => document.querySelector('#morph input[type=range]').value === '1'")
    _, data = saved(page.get_by_role("button", name="PNG: download this morph"))
    from PIL import Image

    assert Image.open(io.BytesIO(data)).size[0] >= 320
    assert page.locator("#loadings canvas").count() == 4
    assert "95 % interval does not hold 0" in page.locator("#loadings .about").inner_text()
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("() => getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.locator("nav").is_hidden()
    assert page.locator(".downloads:visible").count() == 0
    page.wait_for_function("() => document.querySelectorAll('#gallery-0 .card.filled').length === 70")


def test_comparison_sorts_and_charts_have_files(named, open_page):
    content, path = named
    page = open_page(path)
    table = page.locator("#models")
    names = [model.name for model in content.models]
    table.get_by_role("button", name="Seconds").click()
    assert table.locator("tbody th").all_inner_texts() == [names[2], names[0], names[1]]
    assert table.locator("thead th").nth(3).get_attribute("aria-sort") == "ascending"
    table.get_by_role("button", name="Seconds").press("Enter")
    assert table.locator("tbody th").all_inner_texts() == [names[1], names[0], names[2]]
    assert table.locator("tr.best th").inner_text() == names[0]
    heading = table.get_by_role("button", name="Bits per row")
    heading.focus()
    words = page.locator(f"#{heading.get_attribute('aria-describedby')}").text_content()
    assert "fewer is better" in words
    assert page.locator(".tip").inner_text() == words
    page.keyboard.press("Escape")
    assert page.locator(".tip").is_hidden()
    _, data = saved(page.get_by_role("button", name="CSV: download the comparison"))
    lines = csv_of(data)
    assert list(lines[0])[:3] == ["Model", "Bits per row", "Bits per row: standard error"]
    assert [float(line["Bits per row"]) for line in lines] == [7.9, 7.5, 10.25]

    assert page.locator("#spectra, #courses").locator("visible=true").count() == 0  # folded away
    for summary in page.locator("details.fold > summary").all():
        summary.click()
    _, data = saved(page.get_by_role("button", name="CSV: download spectra"))
    rows = [list(line.values()) for line in csv_of(data)]
    latent = [float(row[2]) for row in rows if row[0] == "hidden variables"]
    np.testing.assert_allclose(latent, content.spectra.latent, rtol=1e-6)
    negative = sum(value < 0 for value in latent)
    assert f"{negative} of the 12 of the hidden variables" in page.locator("#spectra .about").inner_text()
    name, data = saved(page.get_by_role("button", name="SVG: download spectra"))
    assert name == "toy-spectra.svg"
    root = ElementTree.fromstring(data)
    lines = list(root.iter(f"{SVG}polyline"))
    assert [len(one.get("points").split()) for one in lines] == [12, 12]
    assert lines[0].get("stroke").startswith("rgb")
    _, data = saved(page.get_by_role("button", name="PNG: download learning"))
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    page.locator("#spectra svg.plot").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.locator("#spectra .readout").inner_text().startswith("hidden variables: rank 2, eigenvalue")
    assert page.locator("#trials circle.ring").count() == 2  # each family's chosen size
    page.locator("#courses").get_by_label("mixture of 4").uncheck()
    assert page.locator("#courses polyline").count() == 1


def test_what_had_not_converged_and_what_no_row_has_is_marked(show):
    """A hollow point to which no line leads, a note above the causes, and none where there is nothing to be seen."""
    content = small_content()
    kinds, network = content.galleries
    never = dataclasses.replace(kinds.layers[0], active=np.minimum(kinds.layers[0].active, [0.4, 1, 1, 1]))
    noted = dataclasses.replace(kinds, layers=(never,), note="This fit had not converged: what it shows may change.")
    empty = dataclasses.replace(network, name="machine", layers=(), note="Its 8 causes carry nothing.")
    content = dataclasses.replace(
        content,
        galleries=(noted, empty, network),
        map=dataclasses.replace(content.map, converged=False),
    )
    page = show(content)
    assert "The fit of the map had not converged" in page.locator("#map-section .warning").inner_text()
    tabs = page.locator("#causes [role=tab]")
    assert tabs.all_inner_texts() == ["noisy OR of 3, 2", "mixture of 4", "machine"]  # the sound one first
    assert page.locator("#causes [role=tabpanel]:visible .warning").count() == 0
    tabs.nth(1).click()
    shown = page.locator("#causes [role=tabpanel]:visible")
    assert shown.locator(".warning").inner_text() == noted.note
    assert shown.locator(".card").count() == 4
    shown.scroll_into_view_if_needed()
    card = shown.locator('.card.filled[data-cause="0"]')  # of a cause that no row has
    assert card.locator(".examples").inner_text().strip() == "P > ½ in none of the 60 rows looked at"
    assert card.locator("button.example").count() == 0
    tabs.nth(2).click()
    assert shown.inner_text() == empty.note
    trials = page.locator("#trials")
    assert trials.locator("circle.dot.hollow").count() == 2
    joined = [line.get_attribute("points").split() for line in trials.locator("polyline").all()]
    assert [len(points) for points in joined] == [2, 1]  # of three sizes of the network one had converged
    assert "Hollow points are fits that had not converged" in trials.locator("p.about").inner_text()
    _, data = saved(page.get_by_role("button", name="CSV: download sizes tried"))
    assert [line["converged"] for line in csv_of(data)] == ["yes", "yes", "yes", "no", "no"]
    trials.locator("svg.plot").focus()
    page.keyboard.press("ArrowDown")
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    assert trials.locator(".readout").inner_text().endswith("(had not converged)")


CONTRAST = """() => {
  const light = (text) => {
    const rgb = text.match(/[\\d.]+/g).slice(0, 3).map((x) => x / 255);
    const [r, g, b] = rgb.map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (one) => {
    for (let at = one; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (!/, 0\\)$|transparent/.test(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  const low = [];
  for (const one of document.querySelectorAll("body *")) {
    const own = [...one.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!own || !one.checkVisibility() || one.closest("script, #map, canvas")) continue;
    const style = getComputedStyle(one);
    const colour = one instanceof SVGElement ? style.fill : style.color;
    const [a, b] = [light(colour), light(ground(one))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) low.push(`${one.tagName}.${one.getAttribute("class")} ${colour}`);
  }
  return [...new Set(low)];
}"""


def test_words_can_be_read(named, open_page):
    """All words of the page have the contrast that WCAG asks for (4.5), in both colours."""
    page = open_page(named[1])
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate(CONTRAST) == []
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        assert (sum(map(int, re.findall(r"\d+", ground))) < 120) == (scheme == "dark")


def test_on_a_phone_nothing_is_wider_than_the_screen(named, images, open_page):
    for _, path in (named, images):
        page = open_page(path, phone=True)
        assert width_of(page) == 390
        assert page.locator("#axes .scroll").first.evaluate("one => one.scrollWidth <= one.clientWidth")
        links = [link.bounding_box() for link in page.locator("nav a").all()]
        assert all(box["x"] >= 0 and box["x"] + box["width"] <= 390 for box in links)
        assert len({box["y"] for box in links}) == 1  # in one line
        for tab in page.get_by_role("tab").all():
            tab.click()
            assert width_of(page) == 390
