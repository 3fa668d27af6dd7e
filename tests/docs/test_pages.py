"""The Python of the README and of the pages runs as printed, each page from top to bottom, and prints what they say."""

from __future__ import annotations

import re

import pytest

NUMBER = re.compile(r"-?\d+(?:\.\d+)?")

pytestmark = pytest.mark.optimised


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "docs/index.md",
        "docs/quickstart.md",
        "docs/data.md",
        "docs/models.md",
        "docs/item-response.md",
        "docs/tetrachoric.md",
        "docs/combination-machine.md",
        "docs/sparse-coding.md",
        "docs/noisy-or.md",
    ],
)
def test_blocks_run(page, python_blocks, printed, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    namespace = {"__name__": "page"}
    blocks = python_blocks(page)
    assert blocks
    told = printed(page)
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
        out = capsys.readouterr().out
        if block in told:
            assert_prints(out, told[block])


def assert_prints(found, expected):
    """The same words, and the same numbers but for the last digit: processors round differently."""
    assert NUMBER.sub("#", found.strip()) == NUMBER.sub("#", expected.strip())
    for here, there in zip(NUMBER.findall(found), NUMBER.findall(expected)):
        unit = 10.0 ** -len(there.partition(".")[2])
        assert float(here) == pytest.approx(float(there), abs=1.01 * unit if "." in there else 0), (found, expected)
