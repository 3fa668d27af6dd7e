"""`latentbits explore`: the options, and one page from beginning to end."""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np
import pytest

from latentbits.cli.explore import Seconds
from latentbits.core.errors import MissingDependencyError


class Called(Exception):
    """Instead of minutes of fitting."""


@pytest.fixture
def asked(monkeypatch):
    """What `explore` would be called with."""
    found = {}

    def explore(values, **options):
        found.update(options, values=values)
        raise Called("enough")

    monkeypatch.setattr("latentbits.explorer.explore.explore", explore)
    return found


@pytest.mark.parametrize(
    ("text", "seconds"), [("60s", 60), ("2m", 120), ("90", 90), ("0.5h", 1800), ("none", float("inf"))]
)
def test_times(text, seconds):
    assert Seconds().convert(text, None, None) == seconds


@pytest.mark.parametrize("text", ["", "0", "-3s", "60ss", "2x", "inf", "nan", "s"])
def test_what_is_no_time(text):
    with pytest.raises(click.BadParameter, match="is not a time such as 60s, 2m or none"):
        Seconds().convert(text, None, None)


def test_options_reach_the_function(tool, csv, table, names, asked):
    options = ("--model", "mixture", "--image", "2x3", "--budget", "2m", "--seed", 7, "--open", "-o", "pages/x.html")
    tool("explore", csv, *options, code=1)
    np.testing.assert_array_equal(asked["values"], table)
    expected = {
        "model": "mixture",
        "image_shape": (2, 3),
        "budget": 120,
        "random_state": 7,
        "out": None,  # written by the command itself, which can keep it elsewhere
        "column_names": names,
        "source": "bits.csv",
        "labels": {},
        "real": None,
    }
    assert {name: asked[name] for name in expected} == expected
    assert Path("pages").is_dir()
    tool("explore", csv, "--budget", "none", "--real", "--out", "pages", code=1)
    assert (asked["budget"], asked["real"]) == (None, True)
    tool("explore", csv, "--model", "noisy-or", "--layers", "4,2", code=1)
    assert (type(asked["model"]).__name__, asked["model"].layer_sizes) == ("NoisyOrNetwork", (4, 2))
    assert asked["n_maps"] == 1
    tool("explore", csv, "--maps", 3, code=1)
    assert asked["n_maps"] == 3
    tool("explore", csv, "--maps", 13, code=2)
    assert "--layers needs --model noisy-or" in tool("explore", csv, "--layers", "4,2", code=2).stderr
    tool("explore", csv, "--image", "wide", code=2)
    tool("explore", csv, "--model", "product", code=2)


def rows_of(n, row):
    return "\n".join(",".join(map(str, row(i))) for i in range(n)) + "\n"


def test_columns_that_are_no_bits_are_labels(tool, asked):
    bits = [(0, 1, 1), (1, 0, 1), (1, 1, 0)]
    Path("sea.csv").write_text("site,depth,a,b,c\n" + rows_of(12, lambda i: (f"s{i}", i / 4 + 3, *bits[i % 3])))
    result = tool("explore", "sea.csv", code=1)
    lines = [line for line in result.stderr.splitlines() if "labels" in line]
    assert lines == ["taken as labels, since they are no bits: site (text), depth (numbers)"]
    assert asked["column_names"] == ("a", "b", "c")
    assert asked["values"].tolist() == [list(map(float, bits[i % 3])) for i in range(12)]
    assert asked["labels"]["site"].tolist()[:2] == ["s0", "s1"]
    assert asked["labels"]["depth"].tolist()[:5] == [3, 3.25, 3.5, 3.75, 4]
    tool("explore", "sea.csv", "--real", code=1)
    assert (asked["column_names"], list(asked["labels"])) == (("depth", "a", "b", "c"), ["site"])
    tool("explore", "sea.csv", "--image", "2x2", code=1)  # a pixel is no label
    assert asked["column_names"] == ("depth", "a", "b", "c")

    for name, other in (("site", "depth"), ("depth", "site")):  # the others stay labels
        tool("explore", "sea.csv", "--labels", name, code=1)
        assert (asked["column_names"], list(asked["labels"])) == (("a", "b", "c"), [name, other])


def test_a_short_budget_is_reported_before_the_fits(tool, csv, asked):
    short, usual = (tool("explore", csv, *words, code=1).stderr for words in (("--budget", "3"), ()))
    assert "--budget 3s is for fits" in short
    assert "in addition" not in usual


def test_numbers_without_names(tool, asked):
    Path("sea.csv").write_text(rows_of(12, lambda i: (i % 2, i + 0.5, "xyz"[i % 3], 1, 0)))
    assert "no bits: column 2 (text), column 1 (numbers)" in tool("explore", "sea.csv", code=1).stderr
    assert (asked["values"].shape, sorted(asked["labels"])) == ((12, 3), [1, 2])
    for name, order in (("2", [2, 1]), ("1", [1, 2])):
        tool("explore", "sea.csv", "--labels", name, code=1)
        assert (asked["values"].shape, list(asked["labels"])) == ((12, 3), order)


def test_codes_are_reported_at_once_and_are_no_labels(tool, asked):
    def row(i):
        return "xyz"[i % 3], -9 if i == 5 else i % 2, 99 if i == 7 else 1 - i % 2, i % 2

    Path("answers.csv").write_text("who,q1,q2,q3\n" + rows_of(12, row))
    (refused,) = tool("explore", "answers.csv", code=1).stderr.splitlines()
    assert "q1 (with -9), q2 (with 99)" in refused
    command = "latentbits explore answers.csv --missing -9 --missing 99"
    assert f"If -9 and 99 mark missing cells: {command}." in refused
    tool(*command.split()[1:], code=1)
    assert (asked["column_names"], list(asked["labels"])) == (("q1", "q2", "q3"), ["who"])
    assert np.isnan(asked["values"]).sum() == 2


def test_tables_of_numbers_stay_tables_of_numbers(tool, asked):
    Path("iris.csv").write_text("a,b,kind\n" + rows_of(12, lambda i: (i + 0.25, i / 2, "xyz"[i % 3])))
    assert "no bits: kind (text)" in tool("explore", "iris.csv", code=1).stderr
    assert (asked["values"].shape, list(asked["labels"]), asked["real"]) == ((12, 2), ["kind"], None)


def test_labels_colour_the_map_in_the_order_asked(tool, asked):
    lines = [f"site {i},{'ab'[i % 2]},{'xyz'[i % 3]},{i % 2},1" for i in range(20)]
    Path("people.csv").write_text(",party,state,q1,q2\n" + "\n".join(lines) + "\n")
    tool("explore", "people.csv", "--labels", "state", "--labels", "party", code=1)
    assert list(asked["labels"]) == ["state", "party"]
    assert asked["values"].shape == (20, 2)
    assert asked["row_names"][:2] == ["site 0", "site 1"]
    result = tool("explore", "digits", "--labels", "colour", code=1)
    assert "--labels colour: digits has no such column of labels; there is" in result.stderr


def test_a_column_of_weights_is_no_bit_and_no_label(tool, asked):
    Path("counted.csv").write_text("a,b,n,kind\n" + "".join(f"{i % 2},1,{i},{'xy'[i % 2]}\n" for i in range(12)))
    tool("explore", "counted.csv", "--weights", "n", "--labels", "kind", code=1)
    assert asked["sample_weight"].tolist() == [*range(12)]
    assert (asked["values"].shape, list(asked["labels"])) == ((12, 2), ["kind"])


def test_what_fails_fails_before_the_fits(tool, csv, asked, monkeypatch):
    assert "a page is written as .html" in tool("explore", csv, "--out", "x.png", code=2).stderr

    def no_extra(module, extra, purpose):
        raise MissingDependencyError(f"{purpose} needs {module}: pip install 'latentbits[{extra}]'")

    monkeypatch.setattr("latentbits.core.errors.import_extra", no_extra)
    assert "pip install 'latentbits[plot]'" in tool("explore", csv, "--figures", "f", code=1).stderr
    assert not asked
    tool("explore", csv, code=1)
    assert asked  # a page needs no matplotlib


@pytest.mark.slow("a search, a page and its figures")
def test_from_a_table_to_a_page(tool, write_csv, few, monkeypatch):
    opened, csv = [], write_csv("bits.csv", few)
    monkeypatch.setattr("webbrowser.open", opened.append)
    options = ("--model", "mixture", "--budget", "none", "--figures", "drawn", "--open")
    found = tool.json("explore", csv, *options, "--out", "x.html")
    assert opened == [Path("x.html").resolve().as_uri()]
    assert found["page"] == "x.html"
    assert Path("x.html").read_text().lstrip().lower().startswith("<!doctype html>")
    names = ["explore", "loadings", "map", "misfit", "table"]
    assert sorted(Path("drawn").iterdir()) == [Path(f"drawn/{name}.png") for name in names]
    assert len(found["findings"]) == 3
    assert found["findings"][0].startswith("The bits are not independent: the mixture of")
    assert found["best"].startswith("mixture of")
    assert found["n_held_out"] == 60  # a small table: in folds every row
    assert found["left_out"] == found["cut_short"] == {}
