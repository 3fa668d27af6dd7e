"""Several maps on the page: what is told of them is what was measured, and a reader can step into each and back."""

from __future__ import annotations

import csv
import dataclasses
import json
import re
import warnings

import numpy as np
import pytest
from cases import bits
from contents import small_content, with_maps

from latentbits import BernoulliMixture, BernoulliProduct, LatentTrait
from latentbits.explorer import explore as exploring
from latentbits.explorer.page import render_page, write_page
from latentbits.explorer.payload import payload_of
from latentbits.explorer.several_maps import Gain, gain_of, maps_asked, maps_of, places_among, told
from latentbits.explorer.tables import shown_rows, take_table

N, D = 150, 12
GAIN = Gain(n_rows=50, one=9.0, several=8.0, fewer=1.0, error=0.1, converged=True)


@pytest.fixture(scope="module")
def fitted():
    """A model of two maps, and the rows it saw, some bits missing."""
    rng = np.random.default_rng(4)
    kind = rng.random(N) < 0.4
    bias = np.where(kind[:, None], 1.5, -1.5) * np.repeat([1, -1], D // 2)
    chances = 1 / (1 + np.exp(-rng.normal(size=(N, 2)) @ rng.normal(size=(2, D)) - bias))
    X = (rng.random((N, D)) < chances).astype(float)
    X[rng.random(X.shape) < 0.08] = np.nan
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        return LatentTrait(2, n_maps=2, method="variational", max_iter=10, n_init=1, random_state=0).fit(X), X


@pytest.fixture(scope="module")
def content(fitted):
    model, X = fitted
    content = small_content(N)
    maps = dataclasses.replace(maps_of("2 maps of 2 latent traits", model, X, None, 4, None), told="Two maps.")
    return dataclasses.replace(content, table=dataclasses.replace(content.table, values=X), maps=maps)


@pytest.fixture(scope="module")
def path(content, tmp_path_factory):
    return write_page(content, tmp_path_factory.mktemp("maps") / "page.html")


def ready(page):
    page.wait_for_selector("html[data-ready]")
    return page


def step_into(page, number):
    page.locator(".bubble").nth(number).click()
    page.wait_for_selector(f'.map-over[aria-label^="Map {number + 1},"]')


# --- what is told ---


def test_rows_are_on_their_most_probable_map(fitted):
    model, X = fitted
    maps, sure = maps_of("2 maps", model, X, None, 4, GAIN), model.responsibilities(X)
    np.testing.assert_array_equal(maps.home, sure.argmax(axis=1))
    np.testing.assert_allclose(maps.sure, sure.max(axis=1))
    everywhere = model.posterior(X)
    np.testing.assert_allclose(maps.means, everywhere.means[np.arange(N), maps.home])
    np.testing.assert_allclose(maps.covariances[:, :2], np.diagonal(everywhere.covariance, axis1=1, axis2=2))
    np.testing.assert_allclose(maps.cost, -model.score_samples(X) / np.log(2))
    assert [len(lines) for lines in maps.lines] == [4, 4]
    for m in range(2):
        expected = model.inverse_transform(maps.means[:3], maps=m)
        found = 1 / (1 + np.exp(-maps.means[:3] @ maps.weights[m] - maps.bias[m]))
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_of_maps_that_have_not_converged_nothing_is_told(fitted):
    model, X = fitted
    maps = maps_of("2 maps", model, X, None, 4, GAIN)
    assert not maps.converged
    assert maps.told == ""
    assert "The fit of the 2 maps had not converged" in maps.note


@pytest.mark.parametrize(
    ("change", "expected", "claims"),
    [
        ({}, "they need 8.00 bits per row, and one map 9.00: 1.00 ± 0.10 fewer.", True),
        ({"fewer": 0.2}, "no clear difference (0.20 ± 0.10 fewer), so one map may be all that there is.", False),
        ({"fewer": -0.2}, "no clear difference (0.20 ± 0.10 more)", False),
        ({"fewer": 1.0, "error": float("nan")}, "no clear difference", False),
        ({"fewer": -1.0}, "one map describes unseen rows better, by 1.00 ± 0.10.", False),
        ({"converged": False}, "cannot be told: a fit had not converged.", False),
    ],
)
def test_a_gain_is_claimed_where_it_is_clear(change, expected, claims):
    text = told(np.array([0.5, 0.3, 0.2]), 0.9, dataclasses.replace(GAIN, **change))
    assert text.startswith(
        "3 maps hold 50 %, 30 % and 20 % of the rows; a row is on its map with a probability of 0.90"
    )
    assert expected in text
    assert text.endswith("fewer.") == claims


def test_without_time_nothing_is_measured():
    assert "was not measured: no time was left" in told(np.array([0.5, 0.5]), 0.9, None)


@pytest.mark.slow
def test_what_several_gain_is_measured_on_unseen_rows():
    """Two kinds against one, then the other way round: the same rows, the same difference, the other sign."""
    X = bits(n=300, d=6, k=2).astype(float)
    few, many = (BernoulliMixture(k, smoothing=1.0, n_init=2, random_state=0) for k in (1, 2))
    better, worse = gain_of(X, few, many, None, 0), gain_of(X, many, few, None, 0)
    assert better.n_rows == 75
    assert better.fewer > better.error > 0
    assert better.fewer == pytest.approx(better.one - better.several)
    assert worse.fewer == pytest.approx(-better.fewer)
    assert (worse.one, worse.error) == pytest.approx((better.several, better.error))
    weighted = gain_of(X, few, many, np.full(300, 2.0), 0)
    assert weighted.error < better.error


def test_maps_lie_to_each_other_as_their_columns_do():
    profiles = np.random.default_rng(0).random((3, 9))
    places = places_among(profiles)
    wanted = np.linalg.norm(profiles[:, None] - profiles, axis=2)  # three points are in a plane
    found = np.linalg.norm(places[:, None] - places, axis=2)
    np.testing.assert_allclose(found / found.max(), wanted / wanted.max(), atol=1e-6)
    np.testing.assert_array_equal(places_among(np.ones((4, 5))), np.zeros((4, 2)))


# --- how they come onto the page ---


def test_which_models_ask_for_several_maps():
    assert maps_asked(LatentTrait(2, n_maps=3)) == 3
    for other in (LatentTrait(1, n_maps=3), LatentTrait(2, n_maps=99), LatentTrait(2), "auto"):
        assert maps_asked(other) == 1


@pytest.mark.parametrize("n_maps", [0, 13, 2.5, True, "2"])
def test_a_number_of_maps_that_no_page_shows(n_maps):
    with pytest.raises(ValueError, match="n_maps must be a whole number from 1 to 12"):
        exploring.explore(bits(n=60), n_maps=n_maps, out=None)


def test_a_row_on_several_maps_takes_more_of_the_page(monkeypatch):
    monkeypatch.setattr("latentbits.explorer.tables.MOST_BYTES", 5000)
    monkeypatch.setattr("latentbits.explorer.tables.FEWEST_SHOWN", 10)
    given = take_table(bits(n=600, d=8).astype(float), None, None, None, None, None, None, None, None)
    one, several = (len(shown_rows(given, 0, several_maps=asked)[0].values) for asked in (False, True))
    assert several == 5000 // 32
    assert one == 5000 // 15


@pytest.mark.slow
def test_a_page_of_several_maps(tmp_path):
    found = exploring.explore(
        bits(n=60, d=6, k=2), model=BernoulliProduct(), n_maps=2, out=tmp_path / "page.html", budget=None
    )
    maps = found.content.maps
    assert (maps.name, found.maps.n_maps, found.map.n_maps) == ("2 maps of 2 latent traits", 2, 1)
    np.testing.assert_array_equal(maps.shares, found.maps.shares_)
    assert maps.converged
    assert "unseen rows they need" in maps.told
    assert maps.told in str(found)
    assert "So were 2 maps, a mixture of such models." in found.content.methods


@pytest.mark.slow
def test_an_estimator_of_several_maps_is_shown_so():
    asked = LatentTrait(2, n_maps=2, weight_prior=1.0, max_iter=5, n_init=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it need not converge
        found = exploring.explore(bits(n=60, d=6, k=2), model=asked, out=None, budget=None)
    assert (found.maps.n_maps, found.maps.weight_prior, found.maps.max_iter) == (2, 1.0, 5)
    assert len(found.content.maps.shares) == 2
    assert "2 maps of 2 latent traits" in found.models


def test_a_page_of_one_map_knows_of_no_others():
    content = small_content()
    assert payload_of(content)[0]["maps"] is None
    assert 'id="maps' not in render_page(content)
    assert 'id="maps"' in render_page(with_maps(content))


def test_a_page_holds_each_map(content):
    head, arrays = payload_of(content)
    assert head["maps"]["name"] == "2 maps of 2 latent traits"
    assert arrays.heads["maps.weights"]["shape"] == [2, 2, D]
    assert json.loads(json.dumps(head["maps"]))["lines"] == [lines.tolist() for lines in content.maps.lines]


# --- in a browser ---


def test_stepping_in_and_back(open_page, path, content):
    page = ready(open_page(path))
    assert page.locator(".bubble").count() == page.locator(".maps-card").count() == 2
    assert page.locator("#maps-told").inner_text() == "Two maps."
    label = page.locator(".map-over").get_attribute("aria-label")
    assert label == f"Map of {N} rows"
    assert page.locator("#all-rows").is_hidden()
    step_into(page, 1)
    on_it = int((content.maps.home == 1).sum())
    assert page.locator(".map-over").get_attribute("aria-label") == f"Map 2, of {on_it} rows"
    assert f"one of the {on_it} rows that are most probably on map 2" in page.locator("#map-about").inner_text()
    assert page.locator("#axes").is_hidden()
    assert page.locator('.bubble[aria-pressed="true"]').get_attribute("title") == "Step into map 2"
    page.locator("#all-rows").click()
    page.wait_for_selector(f'.map-over[aria-label="{label}"]')
    assert page.locator("#axes").is_visible()
    page.locator(".maps-card").first.click()
    page.wait_for_selector('.map-over[aria-label^="Map 1,"]')


def test_by_keys(open_page, path):
    page = ready(open_page(path))
    page.locator(".bubble").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('.map-over[aria-label^="Map 2,"]')
    assert page.evaluate("document.activeElement.className") == "map-over"  # the keys are those of the map
    page.keyboard.press("Backspace")
    page.wait_for_selector('.map-over[aria-label^="Map of"]')
    assert page.evaluate("document.activeElement.title") == "Step into map 2"


def test_hover_decodes_by_the_map(open_page, path, fitted):
    page = ready(open_page(path))
    step_into(page, 1)
    page.locator(".map-over").scroll_into_view_if_needed()
    box = page.locator(".map-over").bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.6 * box["height"])
    page.wait_for_function("() => document.querySelector('#decode .where').textContent.includes('on map 2')")
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")
    where = page.locator("#decode .where")
    place = [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]
    assert place != [0, 0]
    lines = page.eval_on_selector_all(
        ".decoded-bars li", "all => all.map(e => [+e.dataset.column, parseFloat(e.querySelector('.value').title)])"
    )
    expected = fitted[0].inverse_transform([place], maps=1)[0]
    np.testing.assert_allclose([value for _, value in lines], expected[[j for j, _ in lines]], atol=2e-4)


@pytest.mark.slow
def test_the_map_follows_a_picked_row(open_page, path, content):
    page = ready(open_page(path))
    step_into(page, 0)
    row = int(np.flatnonzero(content.maps.home == 1)[0])
    page.fill("#go-to-row", str(row))
    page.press("#go-to-row", "Enter")
    page.wait_for_selector('.map-over[aria-label^="Map 2,"]')
    text = page.locator(".inspected .note").first.inner_text().replace("−", "-")
    assert f"On map 2 with probability {content.maps.sure[row]:.2f}" in text
    place = [float(value) for value in re.search(r"At (\S+) ± \S+ and (\S+) ± \S+\.", text).groups()]
    np.testing.assert_allclose(place, content.maps.means[row], atol=0.012)
    cost = float(re.search(r"p\(row\) = (\S+) bits", text).group(1))
    assert cost == pytest.approx(content.maps.cost[row], abs=0.06)


@pytest.mark.slow
def test_files_hold_the_rows_of_the_map(open_page, path, content):
    page = ready(open_page(path))
    step_into(page, 1)
    with page.expect_download() as info:
        page.locator("#map").get_by_role("button", name="CSV of positions").click()
    assert "positions-2" in info.value.suggested_filename
    with open(info.value.path(), newline="", encoding="utf-8-sig") as file:
        lines = list(csv.DictReader(file))
    rows = np.flatnonzero(content.maps.home == 1)
    assert [int(line["row"]) for line in lines] == rows.tolist()
    assert {line["map"] for line in lines} == {"2"}
    sure = [float(line["probability of the map"]) for line in lines]
    np.testing.assert_allclose(sure, content.maps.sure[rows], atol=1e-4)
    filled = page.locator("#map").get_by_role("button", name="CSV of completions", include_hidden=True)
    assert filled.is_hidden()  # one map alone fills no hole as the model would


def test_a_link_opens_the_map(open_page, path):
    page = ready(open_page(path))
    step_into(page, 1)
    page.locator(".map-over").press("+")
    page.wait_for_function("() => location.hash.includes('view=')")
    fragment = page.url.split("#")[1]
    assert "map=2" in fragment
    assert "lines" not in fragment  # they are those that the map has at first
    other = ready(open_page(path))
    other.evaluate(f"location.hash = '{fragment}'")
    other.wait_for_selector('.map-over[aria-label^="Map 2,"]')
    other.evaluate("location.hash = 'section=map&map=9'")
    other.wait_for_selector('.map-over[aria-label^="Map of"]')


@pytest.mark.slow
def test_a_lasso_and_the_legend_are_of_the_map(open_page, path, content):
    page = ready(open_page(path))
    page.select_option("#colour-by", "label:0")
    step_into(page, 1)
    here = content.maps.home == 1
    codes = content.table.labels[0].codes[here]
    counts = page.locator(".legend .level .count").all_inner_texts()
    assert [int(count) for count in counts] == [int((codes == k).sum()) for k in (0, 1, -1)]
    page.locator(".map-over").press("s")  # all rows in the window
    assert page.locator("#selection h3").inner_text().startswith(f"{here.sum()} of {N} rows")
    page.locator("#all-rows").click()
    assert page.locator("#selection h3").count() == 0  # the lasso was of the other map


def test_on_a_phone_and_with_names_that_are_markup(open_page, tmp_path, screenshot):
    page = ready(open_page(write_page(with_maps(small_content(hostile=True), 5), tmp_path / "page.html"), phone=True))
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    boxes = [one.bounding_box() for one in page.locator(".bubble").all()]
    assert len(boxes) == 5
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:  # those for fingers do not lie over each other
            apart = abs(one["x"] + one["width"] / 2 - other["x"] - other["width"] / 2), abs(one["y"] - other["y"])
            assert max(apart) > 30
    page.locator(".bubble").nth(2).tap()
    page.wait_for_selector('.map-over[aria-label^="Map 3,"]')


@pytest.mark.slow
def test_images_and_real_numbers(open_page, tmp_path):
    content = with_maps(small_content(image=True))
    page = ready(open_page(write_page(content, tmp_path / "page.html")))
    assert page.locator(".maps-card canvas").count() == 3
    real = dataclasses.replace(content.table, real=True, image_shape=None)
    maps = dataclasses.replace(content.maps, noise=np.ones((3, D)))
    where = dataclasses.replace(content.map, noise=np.ones(D), lines=np.zeros(0, int))
    page = ready(
        open_page(write_page(dataclasses.replace(content, table=real, maps=maps, map=where), tmp_path / "real.html"))
    )
    step_into(page, 2)
    page.fill("#go-to-row", "row 2")
    page.press("#go-to-row", "Enter")
    page.wait_for_selector(".inspected .cells")
