"""Pages in a browser: one browser a file of tests, one empty profile a page."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from browser import Pages, chromium, pixels_of


@pytest.fixture(scope="module")
def browser():
    """Not for the session: while playwright runs, its event loop is the one that every later test would find."""
    with chromium() as running:
        yield running


@pytest.fixture
def open_page(browser):
    """``open_page(path, width=, height=, dark=, phone=)``; errors, warnings and requests fail the test at its end."""
    pages = Pages(browser)
    yield pages
    problems = pages.close()
    assert not problems, "\n".join(problems)


@pytest.fixture
def screenshot(request, tmp_path):
    """``screenshot(page)`` gives the pixels; they are kept where LATENTBITS_SCREENSHOTS names a folder."""

    def take(page, name: str = "page"):
        folder = Path(os.environ.get("LATENTBITS_SCREENSHOTS", tmp_path))
        folder.mkdir(parents=True, exist_ok=True)
        return pixels_of(page, folder / f"{request.node.name}-{name}.png")

    return take
