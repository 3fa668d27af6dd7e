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
    "docs/which-model.md",
    "docs/tutorial-images.md",
]
# These load public sets that do not come with the package.
REAL = ["docs/tutorial-neurons.md", "docs/tutorial-species.md", "docs/tutorial-baskets-votes.md"]


@pytest.mark.parametrize("page", [*QUICK, *(pytest.param(page, marks=pytest.mark.slow) for page in LONG)])
def test_blocks_run(page, run):
    run(page, data=None)


@pytest.mark.slow
@pytest.mark.real_data
@pytest.mark.parametrize("page", REAL)
def test_blocks_on_real_tables_run(page, run, real_data):
    run(page, data=real_data)


@pytest.fixture
def run(python_blocks, printed, tmp_path, monkeypatch, capsys):
    """Run a page in a folder of its own, with or without a folder of real data."""

    def all_blocks(page, data):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("LATENTBITS_DATA", raising=False)
        if data is not None:
            monkeypatch.setenv("LATENTBITS_DATA", str(data))
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

    return all_blocks
