"""Several maps on the page: the page says what was measured, and a reader can step into each and back."""

from __future__ import annotations

import dataclasses
import json
import re
from types import SimpleNamespace

import numpy as np
import pytest
from browser import csv_of, drawn, go_to, saved, width_of
from contents import small_content, with_maps
from scipy.special import expit
from tests.tables import classes

from latentbits import BernoulliProduct, LatentTrait, TraitMaps
from latentbits.explorer import explore as exploring
from latentbits.explorer.page import render_page, write_page
from latentbits.explorer.payload import payload_of
from latentbits.explorer.several_maps import Gain, gain_of, in_sentences, maps_asked, maps_of, places_among
from latentbits.explorer.tables import shown_rows, take_table

GAIN = Gain(n_rows=50, one=9.0, several=8.0, fewer=1.0, error=0.1, converged=True)
CONTENT = with_maps(small_content())
MAPS, N, D = CONTENT.maps, 60, 12


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return write_page(CONTENT, tmp_path_factory.mktemp("maps") / "page.html")


def step_into(page, number):
    page.locator(".bubble").nth(number).click()
    page.wait_for_selector(f'.map-over[aria-label^="Map {number + 1},"]')


# --- sentences ---


def a_model(converged=True):
    """What is asked of a model of two maps, without a fit."""
    rng = np.random.default_rng(0)
    sure = rng.dirichlet([1, 1], N)
    found = SimpleNamespace(
        responsibilities=sure,
        map=sure.argmax(axis=1),
        mean=rng.normal(size=(N, 2)),
        covariance=np.tile([[0.5, 0.1], [0.1, 0.3]], (N, 1, 1)),
    )
    return SimpleNamespace(
        posterior=lambda X: found,
        score_samples=lambda X: -np.arange(N, dtype=float),
        components_=rng.normal(size=(2, 2, D)),
        intercept_=rng.normal(size=(2, D)),
        shares_=np.array([0.6, 0.4]),
        _finished=converged,
    ), found


def test_rows_are_on_their_most_probable_map():
    X = CONTENT.table.values
    model, found = a_model()
    maps = maps_of("2 maps", model, X, None, 4, GAIN)
    np.testing.assert_array_equal(maps.home, found.responsibilities.argmax(axis=1))
    np.testing.assert_allclose(maps.sure, found.responsibilities.max(axis=1))
    np.testing.assert_array_equal(maps.means, found.mean)
    np.testing.assert_allclose(maps.covariances, np.tile([0.5, 0.3, 0.1], (N, 1)))
    np.testing.assert_allclose(maps.cost, np.arange(N) / np.log(2))
    np.testing.assert_array_equal(maps.weights, model.components_)
    assert [len(lines) for lines in maps.lines] == [4, 4]
    assert maps.sentences.startswith("2 maps hold 60 % and 40 % of the rows")
    counts = np.where(maps.home == 0, 3.0, 1.0)
    weighted = maps_of("2 maps", model, X, counts, 4, GAIN)
    sure = np.average(maps.sure, weights=counts)
    assert f"with a probability of {sure:.2f}" in weighted.sentences
    unfinished = maps_of("2 maps", a_model(converged=False)[0], X, None, 4, GAIN)
    assert (unfinished.converged, unfinished.sentences) == (False, "")
    assert "The fit of the 2 maps had not converged" in unfinished.note
    model.noise_variance_ = np.ones((2, D))
    assert [len(lines) for lines in maps_of("2 maps", model, X, None, 4, GAIN).lines] == [0, 0]


@pytest.mark.parametrize(
    ("change", "expected", "claims"),
    [
        ({}, "they need 8.00 bits per row, and one map 9.00: 1.00 ± 0.10 fewer.", True),
        ({"fewer": 0.2}, "no clear difference (0.20 ± 0.10 fewer), so one map may be all that there is.", False),
        ({"fewer": -0.2}, "no clear difference (0.20 ± 0.10 more)", False),
        ({"fewer": 1.0, "error": float("nan")}, "no clear difference", False),
        ({"fewer": -1.0}, "one map describes unseen rows better, by 1.00 ± 0.10.", False),
        ({"converged": False}, "is unknown: a fit had not converged.", False),
    ],
)
def test_a_gain_is_claimed_where_it_is_clear(change, expected, claims):
    text = in_sentences(np.array([0.5, 0.3, 0.2]), 0.9, dataclasses.replace(GAIN, **change))
    assert text.startswith(
        "3 maps hold 50 %, 30 % and 20 % of the rows; a row is on its map with a probability of 0.90"
    )
    assert expected in text
    assert text.endswith("fewer.") == claims
    assert "was not measured: no time was left" in in_sentences(np.array([0.5, 0.5]), 0.9, None)


def test_what_several_gain_is_measured_on_unseen_rows():
    """Shares of columns against one half, then the other way round: the same difference, the other sign."""
    X = classes()
    few, many = (BernoulliProduct(smoothing=smoothing) for smoothing in (1e6, 1.0))
    better, worse = gain_of(X, few, many, None, 0), gain_of(X, many, few, None, 0)
    assert better.n_rows == 60
    assert better.fewer > better.error > 0
    assert better.fewer == pytest.approx(better.one - better.several)
    assert worse.fewer == pytest.approx(-better.fewer)
    assert (worse.one, worse.error) == pytest.approx((better.several, better.error))
    weighted = gain_of(X, few, many, np.full(240, 2.0), 0)
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
    assert maps_asked(TraitMaps(3)) == 3
    for other in (TraitMaps(3, 1), TraitMaps(99), LatentTrait(2), "auto"):
        assert maps_asked(other) == 1


@pytest.mark.parametrize("n_maps", [0, 13, 2.5, True, "2"])
def test_a_number_of_maps_that_no_page_shows(n_maps):
    with pytest.raises(ValueError, match="n_maps must be a whole number from 1 to 12"):
        exploring.explore(classes(60), n_maps=n_maps, out=None)


def test_a_row_on_several_maps_takes_more_of_the_page(monkeypatch):
    monkeypatch.setattr("latentbits.explorer.tables.MOST_BYTES", 5000)
    monkeypatch.setattr("latentbits.explorer.tables.FEWEST_SHOWN", 10)
    given = take_table(classes(600, 8), None, None, None, None, None, None, None, None)
    one, several = (len(shown_rows(given, 0, several_maps=asked)[0].values) for asked in (False, True))
    assert several == 5000 // 32
    assert one == 5000 // 15


@pytest.mark.slow("an exploration with fits of several maps")
def test_a_page_of_several_maps(tmp_path):
    """An estimator of several maps is shown so: those, as it has them, and what they gain on unseen rows."""
    table = np.unique(classes(), axis=0)
    asked = TraitMaps(method="variational", weight_prior=1.0, n_init=1)
    found = exploring.explore(table, model=asked, out=tmp_path / "page.html", budget=None)
    maps, model = found.content.maps, found.maps
    assert (maps.name, model.n_maps, model.weight_prior, found.map.n_maps) == ("2 maps of 2 latent traits", 2, 1.0, 1)
    np.testing.assert_array_equal(maps.shares, model.shares_)
    np.testing.assert_array_equal(maps.home, model.responsibilities(table).argmax(axis=1))
    for m in range(2):
        decoded = expit(maps.means[:3] @ maps.weights[m] + maps.bias[m])
        np.testing.assert_allclose(decoded, model.inverse_transform(maps.means[:3], maps=m), atol=1e-6)
    assert maps.converged
    assert "unseen rows they need" in maps.sentences
    assert maps.sentences in str(found)
    assert "So were 2 maps, a mixture of such models." in found.content.methods
    assert maps.name in found.models


def test_several_maps_are_made_as_the_one_where_no_model_says_how(monkeypatch):
    class Asked(Exception):
        pass

    def asked(given, estimator, *rest):
        raise Asked(estimator)

    one = LatentTrait(2, weight_prior=2.5)
    monkeypatch.setattr(exploring, "_fit_map", lambda *given: one)
    monkeypatch.setattr(exploring.map_content, "map_of", lambda *given: None)
    monkeypatch.setattr(exploring, "_fit_maps", asked)
    with pytest.raises(Asked) as found:
        exploring.explore(classes(60), model=BernoulliProduct(), n_maps=3, out=None)
    several, own = found.value.args[0].get_params(), one.get_params() | {"n_maps": 3}
    assert several == {name: own[name] for name in several}


def test_a_page_holds_each_map():
    content = small_content()
    assert payload_of(content)[0]["maps"] is None
    assert 'id="maps' not in render_page(content)
    assert 'id="maps"' in render_page(CONTENT)
    head, arrays = payload_of(CONTENT)
    assert head["maps"]["name"] == "3 maps of 2 latent traits"
    assert arrays.heads["maps.weights"]["shape"] == [3, 2, D]
    assert json.loads(json.dumps(head["maps"]))["lines"] == [lines.tolist() for lines in MAPS.lines]


# --- in a browser ---


def test_stepping_in_and_back(open_page, path):
    page = open_page(path)
    assert page.locator(".bubble").count() == page.locator(".maps-card").count() == 3
    assert page.locator("#maps-sentences").inner_text() == "3 maps hold all of the rows."
    label = page.locator(".map-over").get_attribute("aria-label")
    assert label == f"Map of {N} rows"
    assert page.locator("#all-rows").is_hidden()
    step_into(page, 1)
    on_it = int((MAPS.home == 1).sum())
    assert page.locator(".map-over").get_attribute("aria-label") == f"Map 2, of {on_it} rows"
    assert f"one of the {on_it} rows that are most probably on map 2" in page.locator("#map-about").inner_text()
    assert page.locator("#axes").is_hidden()
    assert page.locator('.bubble[aria-pressed="true"]').get_attribute("title") == "Step into map 2"
    page.locator("#all-rows").click()
    page.wait_for_selector(f'.map-over[aria-label="{label}"]')
    assert page.locator("#axes").is_visible()
    page.locator(".maps-card").first.click()
    page.wait_for_selector('.map-over[aria-label^="Map 1,"]')
    page.locator(".bubble").nth(1).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector('.map-over[aria-label^="Map 2,"]')
    assert page.evaluate("document.activeElement.className") == "map-over"  # the keys are those of the map
    page.keyboard.press("Backspace")
    page.wait_for_selector('.map-over[aria-label^="Map of"]')
    assert page.evaluate("document.activeElement.title") == "Step into map 2"

    step_into(page, 1)
    page.locator(".map-over").press("+")
    page.wait_for_function("() => location.hash.includes('view=')")
    fragment = page.url.split("#")[1]
    assert "map=2" in fragment
    assert "lines" not in fragment  # they are those that the map has at first
    other = open_page(path)
    other.evaluate(f"location.hash = '{fragment}'")
    other.wait_for_selector('.map-over[aria-label^="Map 2,"]')
    other.evaluate("location.hash = 'section=map&map=9'")
    other.wait_for_selector('.map-over[aria-label^="Map of"]')


def test_numbers_are_those_of_the_map(open_page, path):
    page = open_page(path)
    page.select_option("#colour-by", "label:0")
    step_into(page, 1)
    here = MAPS.home == 1
    page.locator(".map-over").scroll_into_view_if_needed()
    box = page.locator(".map-over").bounding_box()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 0.6 * box["height"])
    page.wait_for_function("() => document.querySelector('#decode .where').textContent.includes('on map 2')")
    drawn(page)
    where = page.locator("#decode .where")
    place = [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]
    assert place != [0, 0]
    lines = page.eval_on_selector_all(
        ".decoded-bars li", "all => all.map(e => [+e.dataset.column, parseFloat(e.querySelector('.value').title)])"
    )
    expected = expit(place @ MAPS.weights[1] + MAPS.bias[1])
    np.testing.assert_allclose([value for _, value in lines], expected[[j for j, _ in lines]], atol=2e-4)

    codes = CONTENT.table.labels[0].codes[here]
    counts = page.locator(".legend .level .count").all_inner_texts()
    assert [int(count.strip("()")) for count in counts] == [int((codes == k).sum()) for k in (0, 1, -1)]
    name, data = saved(page.locator("#map").get_by_role("button", name="CSV of positions"))
    assert "positions-2" in name
    lines = csv_of(data)
    assert [int(line["row"]) for line in lines] == np.flatnonzero(here).tolist()
    assert {line["map"] for line in lines} == {"2"}
    sure = [float(line["probability of the map"]) for line in lines]
    np.testing.assert_allclose(sure, MAPS.sure[here], atol=1e-4)
    filled = page.locator("#map").get_by_role("button", name="CSV of completions", include_hidden=True)
    assert filled.is_hidden()  # one map alone fills no hole as the model would

    page.locator(".map-over").press("0")
    page.locator(".map-over").press("s")  # all rows in the window
    assert page.locator("#selection h3").inner_text().startswith(f"{here.sum()} of {N} rows")
    row = int(np.flatnonzero(MAPS.home == 0)[0])
    go_to(page, row)  # the map follows a picked row
    page.wait_for_selector('.map-over[aria-label^="Map 1,"]')
    assert page.locator("#selection h3").count() == 0  # the lasso was of the other map
    text = page.locator(".inspected .note").first.inner_text().replace("−", "-")
    assert f"On map 1 with probability {MAPS.sure[row]:.2f}" in text
    place = [float(value) for value in re.search(r"At (\S+) ± \S+ and (\S+) ± \S+\.", text).groups()]
    np.testing.assert_allclose(place, MAPS.means[row], atol=0.012)
    cost = float(re.search(r"p\(row\) = (\S+) bits", text).group(1))
    assert cost == pytest.approx(MAPS.cost[row], abs=0.06)


def test_on_a_phone_and_with_names_that_are_markup(show):
    page = show(with_maps(small_content(hostile=True), 5), phone=True)
    assert width_of(page) == 390
    boxes = [one.bounding_box() for one in page.locator(".bubble").all()]
    assert len(boxes) == 5
    for i, one in enumerate(boxes):
        for other in boxes[i + 1 :]:  # those for fingers do not lie over each other
            apart = abs(one["x"] + one["width"] / 2 - other["x"] - other["width"] / 2), abs(one["y"] - other["y"])
            assert max(apart) > 30
    page.locator(".bubble").nth(2).tap()
    page.wait_for_selector('.map-over[aria-label^="Map 3,"]')


def test_images_and_real_numbers(show):
    content = with_maps(small_content(image=True))
    assert show(content).locator(".maps-card canvas").count() == 3
    real = dataclasses.replace(content.table, real=True, image_shape=None)
    maps = dataclasses.replace(content.maps, noise=np.ones((3, D)))
    where = dataclasses.replace(content.map, noise=np.ones(D), lines=np.zeros(0, int))
    page = show(dataclasses.replace(content, table=real, maps=maps, map=where))
    step_into(page, 2)
    go_to(page, 2)
    page.wait_for_selector(".inspected .cells")
