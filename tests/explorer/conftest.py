"""Pages in a browser: one browser for all files of this folder, and its windows are used again."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path

import pytest
from browser import Pages, chromium
from contents import small_content

from latentbits.explorer.page import write_page

_running: dict = {}


@pytest.fixture
def browser():
    """Start the browser, unless a test before has."""
    if not _running:
        stack = ExitStack()
        browser = stack.enter_context(chromium())
        _running.update(browser=browser, pages=Pages(browser), stack=stack)
    return _running["browser"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item, nextitem):
    """Close the browser behind the last test of the folder: playwright's event loop is in the way of other tests."""
    result = yield
    if _running and (nextitem is None or Path(__file__).parent not in nextitem.path.parents):
        _running.pop("stack").close()
        _running.clear()
    return result


@pytest.fixture
def open_page(browser):
    """Give ``open_page(path, width=, height=, dark=, phone=)``; errors, warnings and requests fail the test."""
    yield _running["pages"]
    problems = _running["pages"].leave()
    assert not problems, "\n".join(problems)


@pytest.fixture
def show(open_page, tmp_path):
    """Give ``show(content)``, which opens a page of it."""

    def shown(content, **window):
        return open_page(write_page(content, tmp_path / "page.html"), **window)

    return shown


@pytest.fixture(scope="session")
def small_page(tmp_path_factory):
    """Write the page of the small content, which is opened often."""
    return write_page(small_content(), tmp_path_factory.mktemp("small") / "page.html")
