"""What the page holds is what was to be shown: arrays come back, and nothing of a table is markup."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import zlib
from html.parser import HTMLParser
from types import SimpleNamespace

import numpy as np
import pytest
from contents import HOSTILE, small_content

from latentbits.explorer import page
from latentbits.explorer.notes import how_compared
from latentbits.explorer.payload import payload_of
from latentbits.explorer.typed_arrays import WIDTHS, Arrays


def decode_array(head, text):
    """The array again, as the page sees it."""
    raw = base64.b64decode(text)
    if head["deflated"]:
        raw = zlib.decompress(raw)
    shape = head["shape"]
    if head["dtype"] == "bits":
        return np.unpackbits(np.frombuffer(raw, np.uint8).reshape(shape[0], -1), axis=1, count=shape[1])
    array = np.frombuffer(raw, WIDTHS[head["dtype"]]).reshape(shape)
    return array if "low" not in head else array * np.array(head["step"]) + np.array(head["low"])


class Seen(HTMLParser):
    """Elements with their attributes, and the text of each kind."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.texts, self._open = [], {}, ""
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self._open = dict(attrs).get("id") or dict(attrs).get("data-name") or tag

    def handle_data(self, data):
        self.texts[self._open] = self.texts.get(self._open, "") + data


@pytest.fixture(scope="module")
def rendered():
    content = small_content(hostile=True)
    return content, page.render_page(content)


def again(add, *given):
    """What the page reads of an array that was added so."""
    arrays = Arrays()
    getattr(arrays, add)("x", *given)
    json.dumps(arrays.heads, allow_nan=False)
    return decode_array(arrays.heads["x"], arrays.texts["x"]), arrays.heads["x"]["deflated"]


def test_arrays_come_back():
    for dtype in ("u1", "u2", "u4", "f4"):
        for n in (3, 3000):  # too little to deflate, and much of the same
            values = np.arange(n).reshape(-1, 3) % 7
            back, deflated = again("add", values, dtype)
            np.testing.assert_array_equal(back, values)
            assert deflated == (n == 3000)
    for d in (1, 8, 9):
        bits = np.random.default_rng(1).random((5, d)) < 0.5
        np.testing.assert_array_equal(again("add_bits", bits)[0], bits)


def test_scaled_numbers_are_within_half_a_step():
    """A constant column is itself; numbers that are not finite are at the edge."""
    values = np.random.default_rng(0).normal(size=(500, 2)) * [1.0, 1e4] + [0.0, 3e4]
    back, _ = again("add_scaled", values)
    assert (np.abs(back - values) <= np.ptp(values, axis=0) / 65535 * 0.5001).all()
    assert np.abs(back - values).max() > 0  # they are rounded: the bound above is one
    np.testing.assert_array_equal(again("add_scaled", np.full((4, 1), -2.5))[0], np.full((4, 1), -2.5))
    odd = np.array([[1.0, np.nan], [np.inf, np.nan], [-3.0, np.nan], [-np.inf, np.nan]])
    np.testing.assert_allclose(
        again("add_scaled", odd)[0], [[1.0, 0.0], [1.0, 0.0], [-3.0, 0.0], [-3.0, 0.0]], atol=1e-6
    )


def test_rows_and_holes_are_in_the_page():
    content = small_content(missing=True)
    head, arrays = payload_of(content)
    bits = decode_array(head["arrays"]["rows.values"], arrays.texts["rows.values"])
    holes = decode_array(head["arrays"]["rows.missing"], arrays.texts["rows.missing"]).astype(bool)
    np.testing.assert_array_equal(np.where(holes, np.nan, bits), content.table.values)
    assert holes.any()


def test_a_sample_knows_its_rows():
    whole, part = small_content(), small_content()
    part = dataclasses.replace(part, table=dataclasses.replace(part.table, n_rows=1000, numbers=part.table.numbers * 3))
    assert "rows.numbers" not in payload_of(whole)[0]["arrays"]
    head, arrays = payload_of(part)
    numbers = decode_array(head["arrays"]["rows.numbers"], arrays.texts["rows.numbers"])
    np.testing.assert_array_equal(numbers, part.table.numbers)


def test_a_sample_is_reported_on_the_page():
    content = small_content()
    table = dataclasses.replace(content.table, n_rows=40_000, numbers=content.table.numbers * 3)
    text = " ".join(page.render_page(dataclasses.replace(content, table=table, n_compared=4800)).split())
    assert "40,000 rows, 12 columns; a sample of 60 rows is shown; models were compared on a sample of 4,800" in text
    assert "a sample of" not in page.render_page(content).split("<script")[0]
    found = SimpleNamespace(
        interrupted=False, trials={}, n_train=60, n_validation=15, n_test=25, n_folds=1, n_used=100, n_rows=100
    )
    assert how_compared(found).startswith("The models learned from 60 rows")
    found.n_rows = 5000
    assert how_compared(found).startswith("Of 5,000 rows a random sample of 100 was taken. The models")


def test_only_our_script_and_style_may_run(rendered):
    text = rendered[1]
    policy = next(a["content"] for tag, a in Seen(text).elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    for kind, pattern in (("script", r'<script type="module">(.*?)</script>'), ("style", r"<style>(.*?)</style>")):
        [body] = re.findall(pattern, text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(body.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_nothing_is_fetched(rendered):
    loading = {"src", "srcset", "data", "action", "formaction", "poster", "background", "xlink:href"}
    for tag, attributes in Seen(rendered[1]).elements:
        assert not loading & set(attributes), (tag, attributes)
        assert tag not in ("link", "iframe", "object", "embed", "base")
        assert attributes.get("href", "#").startswith("#")


def test_hostile_names_are_text(rendered):
    """No element and no attribute comes of a table's names, and all of them are there to be read."""
    content, text = rendered
    seen, tame = Seen(text), Seen(page.render_page(small_content()))
    assert [tag for tag, _ in seen.elements] == [tag for tag, _ in tame.elements]
    assert not any(name.startswith("on") for _, attributes in seen.elements for name in attributes)
    assert HOSTILE in seen.texts["title"]
    held = json.loads(seen.texts["page"])
    assert held["table"]["columns"] == list(content.table.columns)
    assert any(HOSTILE in name for name in held["table"]["columns"])
    assert "</script>" not in seen.texts["page"]


def test_scripts_are_one(rendered):
    """No import or export is left, and every module is in it, once."""
    script = page.joined_scripts()
    assert not re.search(r"^(import|export)\b", script, re.MULTILINE)
    for path in (page.HERE / "js").rglob("*.js"):
        first = path.read_text("utf-8").splitlines()[0]  # the comment that says what it is for
        assert script.count(first) == 1, path.name


def test_what_had_not_converged_and_was_not_tried_can_be_read_without_a_script():
    content = small_content()
    assert "The fit of the map had not converged" not in page.render_page(content)
    cut = dataclasses.replace(content, map=dataclasses.replace(content.map, converged=False), tried="5 of 6 <families>")
    text = page.render_page(cut)
    assert '<p class="warning">The fit of the map had not converged: where rows lie on it' in text
    assert '<p class="warning" id="tried">5 of 6 &lt;families&gt;</p>' in text
    assert 'id="tried"' not in page.render_page(dataclasses.replace(content, tried=""))
    best, *others = content.models
    ahead = dataclasses.replace(best, converged=False)
    text = page.render_page(dataclasses.replace(content, models=(ahead, *others), sound=content.sound[1:]))
    assert re.search(r'<tr class="best">\s*<th scope="row">independent bits</th>', text)
    assert re.search(r'data-error="0.0">best so far</td>', text)
    assert not re.search("best so far", page.render_page(content))


def test_labels_and_what_axes_and_causes_mean():
    content = small_content()
    head, arrays = payload_of(content)
    assert head["table"]["labels"] == [
        {"name": "party", "levels": ["left", "right"], "numeric": False, "ordered": False},
        {"name": "water", "levels": [], "numeric": True, "ordered": False},
    ]
    codes, water = (decode_array(arrays.heads[f"labels.{i}"], arrays.texts[f"labels.{i}"]) for i in range(2))
    np.testing.assert_array_equal(codes == 65535, content.table.labels[0].codes < 0)
    np.testing.assert_allclose(water, content.table.labels[1].numbers, rtol=1e-6)
    assert head["map"]["axes"] == [
        "trait 1: water, rank correlation \N{MINUS SIGN}1.00",
        "trait 2: number of ones, rank correlation 0.84",
    ]
    assert [layer["meanings"] for gallery in head["galleries"] for layer in gallery["layers"]] == [
        [""] * 4,
        ["", "party, left above right (AUC 0.91)", ""],
        [""] * 2,
    ]


def test_the_page_tells_what_axes_mean_without_scripts():
    """A line for each meaning of an axis, the columns at its ends, and labels that tell nothing."""

    def words(content):
        text = page.render_page(content)
        part = text[text.find('<div id="axes">') : text.find('<section id="causes-section"')]
        return " ".join(re.sub(r"<[^>]*>", " ", part).split()) if '<div id="axes">' in text else ""

    content = small_content()
    page_text = words(content)
    assert (
        "trait 1 water rank correlation \N{MINUS SIGN}1.00 &lt; 0.0001 59 trait 2 how many ones a row has" in page_text
    )
    assert "party rank" not in page_text  # that is of a cause
    assert (
        "Along trait 1: more column 1; less column 2, column 3. Along trait 2: more column 4; less of nothing."
        in page_text
    )
    assert "Labels that tell nothing of rows: site (no two rows share one: they name rows)." in page_text
    kinds = [
        dataclasses.replace(content.meanings[0], label="party", measure="AUC", value=0.8, p=0.0021, kinds=("a", "b")),
        dataclasses.replace(content.meanings[1], label="kind", measure="eta squared", value=0.3, kinds=("x",)),
    ]
    page_text = words(dataclasses.replace(content, meanings=tuple(kinds)))
    assert "trait 1 party, a above b AUC 0.80 0.0021 59" in page_text
    assert "trait 2 kind, highest for x eta squared 0.30 &lt; 0.0001 60" in page_text
    for explained in ("AUC is how often", "Eta squared is the share"):  # once, however many lines have one
        assert page_text.count(explained) == 1
    assert "<dt>rank correlation</dt>" in page.render_page(content)  # the glossary
    page_text = words(dataclasses.replace(content, meanings=(), poles=()))
    assert "Neither axis goes with a label or with how many ones a row has" in page_text
    table = dataclasses.replace(content.table, labels=(), left_out_labels=())
    assert "found again in 4 of 4 rounds (correlation of rows&#39; places at least 0.93)" in page_text
    assert words(dataclasses.replace(content, meanings=(), poles=(), table=table, axes=None)) == ""


def test_numbers_that_json_has_not():
    content = small_content()
    row = dataclasses.replace(content.models[0], bits=float("inf"), error=float("nan"))
    head, _ = payload_of(dataclasses.replace(content, models=(row,)))
    assert head["models"][0]["bits"] is None
    assert head["models"][0]["error"] is None
    assert "inf" in page.render_page(dataclasses.replace(content, models=(row,)))
