"""The Python of the README and of the pages runs as printed, each page from top to bottom."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md", "docs/data.md"])
def test_blocks_run(page, python_blocks, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    namespace = {"__name__": "page"}
    blocks = python_blocks(page)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), namespace)
