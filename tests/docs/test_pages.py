"""The Python of the README and of the pages runs as printed, each page from top to bottom, and prints what they say."""

from __future__ import annotations

import pytest
from printed import same_but_for_the_last_digit

pytestmark = pytest.mark.optimised


QUICK = ["docs/index.md"]
LONG = [
    "README.md",
    "docs/data.md",
    "docs/scale.md",
    "docs/quickstart.md",
    "docs/models.md",
    "docs/latent-classes.md",
    "docs/item-response.md",
    "docs/tutorial-items.md",
    "docs/tutorial-classes.md",
    "docs/coming-from-mirt.md",
    "docs/coming-from-polca.md",
    "docs/tetrachoric.md",
    "docs/reports.md",
    "docs/combination-machine.md",
    "docs/sparse-coding.md",
    "docs/noisy-or.md",
    "docs/latent-tree.md",
]


@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in LONG)])
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
            assert same_but_for_the_last_digit(out, told[block]), (out, told[block])
