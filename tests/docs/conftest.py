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
    return [block for block, _ in _blocks(page)]


def _printed(page):
    """What the page says that its blocks print: the ``text`` block that follows one at once."""
    return {block: text for block, text in _blocks(page) if text is not None}


def _blocks(page):
    text = (ROOT / page).read_text("utf-8")
    found = re.finditer(r"^```python\n(.*?)^```$(?:\n\n```text\n(.*?)^```$)?", text, re.MULTILINE | re.DOTALL)
    return [("\n" * text.count("\n", 0, block.start(1)) + block[1], block[2]) for block in found]


@pytest.fixture(scope="module")
def python_blocks():
    return _python_blocks


@pytest.fixture(scope="module")
def printed():
    return _printed
