"""Reports print, and leave in every format with the same numbers."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

import numpy as np
import pytest

from latentbits.reports.numbers import Measured, number
from latentbits.reports.record import Report, Table


@dataclass(frozen=True)
class Items(Report):
    """Two numbers for each of some items."""

    names: list[str]
    fit: np.ndarray
    p: np.ndarray

    def table(self) -> Table:
        return Table(self.names, {"fit": self.fit, "p": self.p}, title="items", notes=("one is at its bound",))


REPORT = Items(["a_1", "b|2"], np.array([1.5, np.nan]), np.array([0.25, 1e-9]))


def test_fields_are_attributes_and_keys():
    assert REPORT["fit"] is REPORT.fit
    assert list(REPORT) == ["names", "fit", "p"]
    assert dict(REPORT)["names"] == ["a_1", "b|2"]
    with pytest.raises(KeyError, match="has no 'x'"):
        REPORT["x"]


def test_formats():
    text = str(REPORT)
    assert text.startswith("items\n")
    assert text.endswith("note: one is at its bound")
    assert "1e-09" in text
    rows = list(csv.reader(io.StringIO(REPORT.to_csv())))
    assert rows[0] == ["", "fit", "p"]
    assert float(rows[2][2]) == 1e-9
    assert "b\\|2" in REPORT.to_markdown()
    assert REPORT.to_markdown().count("\n") == 3
    assert "a\\_1" in REPORT.to_latex()
    assert "\\bottomrule" in REPORT.to_latex()
    assert REPORT.to_frame().loc["a_1", "fit"] == 1.5
    assert json.loads(json.dumps(REPORT.to_json(), allow_nan=False))["fit"] == [1.5, None]
    assert "<table" in REPORT._repr_html_()


def test_names_are_text_in_every_format():
    """Nothing that a column is called runs, breaks a line or begins an element."""
    table = Table(["\\input /etc/passwd", "x^2~3", "a\nb", "<img src=x>|&"], {"n": [1, 2, 3, 4]})
    latex, markdown = table.to_latex(), table.to_markdown()
    assert r"\textbackslash{}input /etc/passwd & 1 \\" in latex
    assert r"x\textasciicircum{}2\textasciitilde{}3 & 2 \\" in latex
    assert "a b & 3" in latex
    assert "| a b | 3 |" in markdown
    assert "| &lt;img src=x&gt;\\|&amp; | 4 |" in markdown
    found = str(Table(["a\rb\u202ec"], {"n": [1]}, notes=("of a\x1b[2Jb\nc",)))
    assert found.splitlines()[1:] == ["a b\\u202ec  1", "note: of a\\x1b[2Jb c"]
    assert [len(row) for row in csv.reader(io.StringIO(Table(["c\rd"], {"n": [1]}).to_csv()))] == [2] * 2
    assert "<script>" not in Table([], {}, notes=("no row is of <script>",))._repr_html_()


@pytest.mark.parametrize(
    ("name", "latex", "markdown"),
    [
        ("[2cm]", "{[}2cm]", r"\[2cm\]"),  # after the end of a line LaTeX takes it for a height
        ("*a*", "{*}a{*}", r"\*a\*"),
        ("a\\|b", r"a\textbackslash{}\textbar{}b", r"a\\\|b"),
        ("a\r\u2028b", "a b", "a b"),
        ("__a_1__", r"\_\_a\_1\_\_", r"\_\_a_1\_\_"),
        ("![x](y)`~$", r"!{[}x](y)`\textasciitilde{}\$", r"!\[x\](y)\`\~\$"),
        ("\u202ea<b", r"\textbackslash{}u202ea\textless{}b", r"\\u202ea&lt;b"),
    ],
)
def test_no_name_is_an_option_a_link_or_the_end_of_a_line(name, latex, markdown):
    table = Table([name], {"n": [1]})
    assert table.to_latex().split("\n")[4] == rf"{latex} & 1 \\"
    assert table.to_markdown().split("\n")[2] == f"| {markdown} | 1 |"


def test_numbers():
    assert [number(v) for v in (3, 0.0, True, None, float("nan"), -np.inf)] == ["3", "0", "yes", "", "", "-inf"]
    assert [number(v) for v in (12.3456, 0.51234, -2466.65338, 123456.789)] == [
        "12.35",
        "0.5123",
        "-2466.65",
        "123456.79",
    ]


def test_what_is_too_wide_is_printed_below():
    table = Table(["row"], {f"a column of {i}": np.array([i]) for i in range(9)})
    lines = str(table).splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) == 4
    assert [line.split()[1:] for line in lines[1::2]] == [list("01234"), list("5678")]


def test_huge_numbers_are_short():
    assert [number(v) for v in (2**60, 1.4e18, 10**6)] == ["1.153e+18", "1.4e+18", "1000000"]


def test_a_number_with_its_error_is_one_cell_for_people_and_two_columns_for_programs():
    table = Table(["a", "b"], {"slope": [Measured(1.25, 0.5, ".2f"), Measured(1.0, form=".2f", note="fixed")]})
    assert [line.split()[1:] for line in str(table).splitlines()[1:]] == [["1.25", "±", "0.50"], ["1.00", "(fixed)"]]
    assert table.to_csv() == ",slope,slope_error\na,1.25,0.5\nb,1.0,nan\n"
    assert table.to_json()["columns"] == {"slope": [1.25, 1.0], "slope_error": [0.5, None]}
