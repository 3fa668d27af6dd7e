"""The code blocks of the documentation."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _python_blocks(page):
    """The ``python`` blocks of a Markdown page, in order.

    Each is preceded by as many blank lines as there are lines before it, so that a traceback has the page's numbers.
    """
    text = (ROOT / page).read_text("utf-8")
    blocks = re.finditer(r"^```python\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return ["\n" * text.count("\n", 0, block.start(1)) + block[1] for block in blocks]


@pytest.fixture(scope="module")
def python_blocks():
    return _python_blocks
