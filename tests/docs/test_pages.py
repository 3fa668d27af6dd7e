"""The Python of the README and of the pages runs as printed, each page from top to bottom, and prints what they say."""

from __future__ import annotations

import ast

import pytest
from blocks import LONG, REAL, SHORTER, python_blocks
from blocks import printed as printed_by
from printed import same_but_for_the_last_digit

pytestmark = pytest.mark.optimised

IMAGES = "docs/sparse-coding.md"  # its long block needs images that do not come with the package


@pytest.mark.slow("all Python of a page")
@pytest.mark.parametrize("page", LONG)
def test_blocks_run(page, run):
    run(page, python_blocks(page, long=page in SHORTER and page != IMAGES), data=None)


@pytest.mark.real_data
@pytest.mark.parametrize("page", REAL)
def test_blocks_on_real_tables_run(page, run, real_data):
    run(page, python_blocks(page), data=real_data)


@pytest.mark.real_data
def test_the_block_on_images_runs(run, real_data):
    """With what the blocks before it import, and nothing else of theirs."""
    (block,) = set(python_blocks(IMAGES, long=True)) - set(python_blocks(IMAGES))
    before = ast.parse("\n".join(python_blocks(IMAGES)))
    imports = [ast.unparse(node) for node in before.body if isinstance(node, ast.Import | ast.ImportFrom)]
    run(IMAGES, ["\n".join(imports), block], data=real_data)


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run blocks of a page in a separate folder, with or without a folder of real data."""

    def all_blocks(page, blocks, data):
        monkeypatch.chdir(tmp_path)
        monkeypatch.delenv("LATENTBITS_DATA", raising=False)
        if data is not None:
            monkeypatch.setenv("LATENTBITS_DATA", str(data))
        monkeypatch.setenv("MPLBACKEND", "agg")
        namespace = {"__name__": "page"}
        assert blocks
        expected = printed_by(page)
        for block in blocks:
            exec(compile(block, page, "exec"), namespace)
            out = capsys.readouterr().out
            if block in expected:
                assert same_but_for_the_last_digit(out, expected[block]), (out, expected[block])

    return all_blocks
