"""The address of the page follows what its reader does, and shows it again."""

from __future__ import annotations

import re

import pytest
from browser import WAIT, go_to


def look(page):
    """The place of the keys on the map, as the decoder tells it."""
    page.focus(".map-over")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowRight")
    where = page.locator("#decode .where")
    return [float(where.get_attribute(f"data-{axis}")) for axis in "xy"]


def test_a_link_shows_what_its_sender_saw_and_can_be_copied(open_page, small_page):
    page = open_page(small_page)
    assert "#" not in page.url
    page.focus(".map-over")
    for key in ["+", "+", "ArrowRight", "ArrowUp"]:
        page.keyboard.press(key)
    page.select_option("#colour-by", "cost")
    go_to(page, 17)
    page.select_option("#columns-as", "lines")
    page.locator(".line-control .chip").first.click()
    place = look(page)
    page.get_by_role("tab").nth(1).click()
    page.locator("#gallery-1 .cause-name").first.click()
    page.wait_for_function("() => location.hash.includes('cause') && location.hash.includes('section=causes')")
    other = open_page(small_page, link="#" + page.url.split("#")[1])
    assert other.locator(".row-title strong").inner_text() == "row 17"
    assert other.locator("#colour-by").input_value() == "cost"
    assert other.locator(".line-control .chip:not(.none)").count() == 2
    assert other.get_by_role("tab").nth(1).get_attribute("aria-selected") == "true"
    chosen = other.locator(".card.chosen")
    assert chosen.locator("h4").inner_text() == page.locator("#gallery-1 .cause-name").first.inner_text()
    top = chosen.evaluate("(one) => one.getBoundingClientRect().top")
    assert 0 < top < 900
    assert look(other) == pytest.approx(place, abs=1e-3)

    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.evaluate(
        """() => {
          const copy = document.querySelector("#copy-link");
          window.said = [];
          new MutationObserver(() => window.said.push(copy.textContent))
            .observe(copy, { childList: true, characterData: true, subtree: true });
        }"""
    )
    page.locator("#copy-link").click()
    page.wait_for_function("() => window.said.includes('Link copied')")  # which it says for a while
    copied = page.evaluate("() => navigator.clipboard.readText()")
    assert copied == page.url
    assert "row=17" in copied


def test_a_link_has_the_lasso_and_the_order_of_the_table(open_page, small_page):
    page = open_page(small_page)
    page.select_option("#colour-by", "label:0")
    page.locator(".legend .level").first.click()  # hides its rows
    page.locator(".map-over").scroll_into_view_if_needed()
    box = page.locator(".map-over").bounding_box()
    page.keyboard.down("Shift")
    corners = [(0.3, 0.3), (0.7, 0.32), (0.68, 0.7), (0.5, 0.55), (0.31, 0.72)]
    for k, (x, y) in enumerate(corners):
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"], steps=10)
        if k == 0:
            page.mouse.down()
    page.mouse.up()
    page.keyboard.up("Shift")
    title = page.locator("#selection h3").inner_text()
    assert not title.startswith("0 of")
    page.locator("#heat select").first.select_option("surprise")
    page.locator("#heat select").last.select_option("share of ones")
    page.wait_for_function("() => location.hash.includes('lasso') && location.hash.includes('columns-by')")
    lasso = re.search(r"lasso=([^&]*)", page.url)[1]
    assert len(lasso) < 120  # few corners, few digits
    other = open_page(small_page, link="#" + page.url.split("#")[1])
    assert other.locator("#selection h3").inner_text() == title
    assert other.locator(".legend .level").first.get_attribute("aria-pressed") == "false"
    assert other.locator("#heat select").first.input_value() == "surprise"
    assert other.locator("#heat select").last.input_value() == "share of ones"
    other.locator("#selection").get_by_role("button", name="clear").click()
    other.wait_for_function("() => !location.hash.includes('lasso')")


def test_a_link_to_what_is_not_there_does_no_harm(open_page, small_page):
    nowhere = "#row=9999&colour=label:8&lines=70&model=none&cause=5:5&view=0,0,1e9&section=no"
    page = open_page(small_page, link=f"{nowhere}&lasso=1,2,x,4,5,6&rows-by=no&hidden=99")
    assert page.locator(".row-title").count() == 0
    assert page.locator("#colour-by").input_value() == "label:1"
    assert page.locator("#selection h3").count() == 0
    assert page.locator("#heat select").first.input_value() == "trait 1"
    assert page.get_by_role("tab").first.get_attribute("aria-selected") == "true"


def test_in_a_frame_a_link_scrolls_the_page_and_not_what_is_around_it(browser, small_page, tmp_path):
    outer = tmp_path / "outer.html"
    frame = f'<iframe src="{small_page.as_uri()}#section=models" style="width: 1000px; height: 600px"></iframe>'
    outer.write_text(f"<!doctype html><title>outer</title><p style='height: 2000px'></p>{frame}", "utf-8")
    page = browser.new_page()  # the frame is a request, which pages alone do not make
    page.set_default_timeout(WAIT)
    page.goto(outer.as_uri())
    framed = page.frames[1]
    framed.wait_for_selector("html[data-ready]", state="attached")
    framed.wait_for_function(
        "() => Math.abs(document.querySelector('#models-section').getBoundingClientRect().top) < 300"
    )
    assert framed.evaluate("scrollY") > 0
    assert page.evaluate("scrollY") == 0
    page.close()
