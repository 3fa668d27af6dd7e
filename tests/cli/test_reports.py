"""Reports of fits at the command line: printed, in JSON, in files; several sizes."""

import json

import pytest

from latentbits.cli.reports import show_reports
from latentbits.reports.record import Report, Table
from latentbits.reports.summaries import mixture

FEW = ("--restarts", 1)


def test_fit_reports(tool, csv):
    shown = tool("fit", csv, "-k", 2, *FEW, "--smoothing", 0, "--report").stdout
    assert "sabic" in shown
    printed = tool.json("fit", csv, "-k", 2, *FEW, "--report")
    found = printed["reports"]["Fit"]
    assert found["n_parameters"] == 13
    assert found["n_rows"] == 240
    assert "smoothing=1" in found["notes"][0]
    assert "reports" not in tool.json("fit", csv, "-k", 2, *FEW)


@pytest.mark.parametrize(
    ("ending", "begins"), [("csv", ",value"), ("tex", "% Fit\n\\begin{tabular}"), ("md", "## Fit\n\n|"), ("json", "{")]
)
def test_reports_go_into_files(tool, csv, ending, begins):
    result = tool("fit", csv, "--model", "product", "--report", f"fit.{ending}")
    text = (tool.folder / f"fit.{ending}").read_text()
    assert text.startswith(begins)
    assert "sabic" in text
    assert f"wrote fit.{ending}: Fit" in result.stderr
    assert "sabic" in result.stdout  # and on the terminal, too


def test_an_unknown_ending_is_refused_before_the_work(tool, csv):
    result = tool("fit", csv, "--report", "fit.doc", code=2)
    assert "use .csv, .tex, .md, .json" in result.stderr
    assert "fitting" not in result.stderr


def test_a_family_adds_a_report_in_one_line(tool, csv, monkeypatch):
    monkeypatch.setattr(mixture, "REPORTS", (("Again", "fit_report"), ("Criteria", "criteria")), raising=False)
    result = tool("fit", csv, "-k", 2, *FEW, "--report", "all.csv", "--json")
    found = json.loads(result.stdout)
    assert list(found["reports"]) == ["Fit", "Again"]
    assert "smoothing" in found["reports_left_out"]["Criteria"]
    text = (tool.folder / "all.csv").read_text()
    assert text.startswith("Fit\n,value\n")
    assert "\n\nAgain\n,value\n" in text


@pytest.mark.slow("fits of several sizes")
def test_sizes(tool, csv):
    result = tool("sizes", csv, "--sizes", "1-2", *FEW, "--smoothing", 0, "-o", "sizes.csv")
    assert "fitting mixture of 1, mixture of 2" in result.stderr
    assert "n_parameters" in result.stdout
    rows = (tool.folder / "sizes.csv").read_text().splitlines()
    assert [row.split(",")[:2] for row in rows] == [["", "n_parameters"], ["1", "6"], ["2", "13"]]
    found = tool.json("sizes", csv, "--sizes", "2", *FEW)
    assert (found["model"], found["sizes"], found["n_parameters"]) == ("BernoulliMixture", [2], [13])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--sizes", "0-3"), "no list of numbers from 1"),
        (("--sizes", "3-1"), "no list of numbers from 1"),
        (("--model", "product"), "'product' is none of"),
        (("-k", "2"), "No such option"),
        (("-o", "x.doc"), "--out x.doc: the extension is unknown"),
    ],
)
def test_sizes_refuses_what_it_cannot_take(tool, csv, words, message):
    assert message in tool("sizes", csv, *words, code=2).stderr


def test_compare_shows_what_fits_cost(tool, csv):
    result = tool("compare", csv, "--models", "product,mixture:2")
    assert "AIC" in result.stdout
    assert "* the likelihood is off its maximum" in result.stdout
    found = {one["name"]: one for one in tool.json("compare", csv, "--models", "product,mixture:2")["models"]}
    assert found["mixture of 2"]["n_parameters"] == 13
    assert found["mixture of 2"]["bic"] > found["mixture of 2"]["aic"]


def test_a_report_without_rows_is_not_printed(capsys):
    class Pairs(Report):
        def table(self):
            return Table([], {"X2": []})

    show_reports({"Pairs of columns": Pairs()})
    assert capsys.readouterr().out == ""
