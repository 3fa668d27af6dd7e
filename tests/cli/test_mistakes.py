"""What newcomers type by mistake: the message says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,a,b,c\n1,0,1,0\n2,1,0,1\n7,1,1,0\n", "that hold no bits: id (with 2, 7). If 2 and 7 mark missing cells"),
        ("id,a,b,c\n1,0,1,0\n2,1,0,1\n7,1,1,0\n", "Or --binarize 0.5, say, takes all numbers above 0.5 as 1.\n"),
        ("a|b\n0|1\n1|0\n", "A cell such as '0|1' may be several: columns must be separated by"),
        ("a,b,c\n0,9,1\n1,0,1\n", "b (with 9). If 9 marks missing cells"),
        ("a,b\n-1,1\n1,-1\n", "If bits are -1 and 1, --binarize 0 takes them."),
        ("a,b\n0,n/a\nn/a,1\n1,0\n", "If n/a marks missing cells: latentbits fit x.csv -m product --missing n/a."),
    ],
)
def test_tables(tool, content, words):
    Path("x.csv").write_text(content)
    assert words in tool("fit", "x.csv", "-m", "product", code=1).stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("fit", "digits", "-m", "mixtrue"), "Did you mean mixture?"),
        (("fit", "digits", "-m", "latent_trait"), "Did you mean latent-trait?"),
        (("reproduce", "tiping_1998"), "Did you mean tipping_1998?"),
        (("league", "nltc"), "Did you mean nltcs?"),
    ],
)
def test_words(tool, arguments, words):
    assert words in tool(*arguments, code=2).stderr


def test_a_data_set(tool):
    assert "Did you mean lsat6?" in tool("data", "lsat_6", code=1).stderr


def test_a_file_that_is_not_there(tool):
    Path("answers.csv").write_text("a,b\n0,1\n1,0\n")
    assert "no such file. Did you mean answers.csv?" in tool("fit", "anwsers.csv", code=1).stderr
    assert "Did you mean answers.csv?" in tool("fit", "answers", code=1).stderr
    assert "There is no folder nowhere." in tool("fit", "nowhere/answers.csv", code=1).stderr
    assert "save the sheet as csv" in tool("fit", "answers.xlsx", code=1).stderr


def test_bits_of_other_numbers_on_a_page(tool):
    Path("x.csv").write_text("a,b\n-1,1\n1,-1\n1,1\n")
    assert "If bits are -1 and 1, --binarize 0 takes them." in tool("explore", "x.csv", code=1).stderr


def test_what_is_read_is_not_written_over(tool):
    text = "a,b\n0,1\n1,0\n"
    Path("x.csv").write_text(text)
    said = tool("fit", "x.csv", "-m", "product", "-o", "./x.csv", code=1).stderr
    assert "--out ./x.csv: that is the file to be read, and would be lost" in said
    assert Path("x.csv").read_text() == text
    tool("fit", "x.csv", "-m", "product", "-o", "m.safetensors")
    assert "would be lost" in tool("complete", "m.safetensors", "x.csv", "-o", "x.csv", code=1).stderr
    tool("fit", "x.csv", "-m", "product", "-o", "m.safetensors")  # a model may be made again


def test_a_table_of_nothing(tool, model):
    Path("x.csv").write_text("hair,milk,eggs,wings,fins,legs\n" + "NA,NA,NA,NA,NA,NA\n" * 9)
    for command in ("score", model, "x.csv"), ("fit", "x.csv", "-m", "product"), ("explore", "x.csv"):
        assert "all cells of the table are missing" in tool(*command, code=1).stderr
