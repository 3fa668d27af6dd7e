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
    options = ("--model", "mixture", "--image", "2x3", "--budget", "2m", "--seed", 7, "--open", "--out", "pages/x.html")
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
    assert "--layers needs --model noisy-or" in tool("explore", csv, "--layers", "4,2", code=1).stderr
    tool("explore", csv, "--image", "wide", code=2)
    tool("explore", csv, "--model", "product", code=2)


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
    assert "a page is written as .html" in tool("explore", csv, "--out", "x.png", code=1).stderr

    def no_extra(module, extra, purpose):
        raise MissingDependencyError(f"{purpose} needs {module}: pip install 'latentbits[{extra}]'")

    monkeypatch.setattr("latentbits.core.errors.import_extra", no_extra)
    assert "pip install 'latentbits[plot]'" in tool("explore", csv, "--figures", "f", code=1).stderr
    assert not asked
    tool("explore", csv, code=1)
    assert asked  # a page needs no matplotlib


@pytest.mark.slow
def test_from_a_table_to_a_page(tool, csv, monkeypatch):
    opened = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    options = ("--model", "mixture", "--budget", "none", "--figures", "drawn", "--open")
    found = tool.json("explore", csv, *options, "--out", "x.html")
    assert opened == [Path("x.html").resolve().as_uri()]
    assert found["page"] == "x.html"
    assert Path("x.html").read_text().lstrip().lower().startswith("<!doctype html>")
    assert sorted(Path("drawn").iterdir()) == [Path("drawn/explore.png"), Path("drawn/map.png")]
    assert len(found["findings"]) == 3
    assert found["findings"][0].startswith("The bits are not independent: the mixture of")
    assert found["best"].startswith("mixture of")
    assert found["n_held_out"] == 120  # a small table: in folds every row
    assert found["left_out"] == found["cut_short"] == {}
