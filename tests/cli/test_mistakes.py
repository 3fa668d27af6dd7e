"""What newcomers type by mistake: the message says what is wrong, where, and what to do."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,a,b,c\n1,0,1,0\n2,1,0,1\n7,1,1,0\n", "('id') holds 2. The other columns hold bits"),
        ("id,a,b,c\n1,0,1,0\n2,1,0,1\n7,1,1,0\n", "leave 'id' out (--labels id)."),
        ("a|b\n0|1\n1|0\n", "A cell such as '0|1' may be several: columns must be separated by"),
        ("a,b,c\n0,9,1\n1,0,1\n", "('b') holds 9. The other columns"),
        ("a,b\n-1,1\n1,-1\n", "holds -1. If -1 marks a missing bit"),
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
    ],
)
def test_words(tool, arguments, words):
    assert words in tool(*arguments, code=2).stderr


def test_a_data_set(tool):
    assert "Did you mean lsat6?" in tool("data", "lsat_6", code=1).stderr
