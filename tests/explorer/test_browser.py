"""The watch on pages sees what it must: a page that breaks a rule is caught."""

from __future__ import annotations

from dataclasses import replace

import pytest
from browser import Pages, pixels_of, width_of
from contents import small_content

from latentbits.explorer.tables import shown_text

HEAD = "<!doctype html><html lang=en><meta charset=utf-8><title>t</title>"
NO_SCRIPT = "<meta http-equiv=Content-Security-Policy content=\"script-src 'none'\">"
DARK = "<style>@media (prefers-color-scheme: dark) {body {background: #000}}</style>"


@pytest.fixture
def write(tmp_path):
    def write_page(body):
        path = tmp_path / "page with space.html"
        path.write_text(HEAD + body, encoding="utf-8")
        return path

    return write_page


def test_problems_are_seen(browser, write):
    pages = Pages(browser)
    for body, seen in (
        ("<script>throw new Error('broken')</script>", "uncaught: broken"),
        ("<script>console.error('wrong')</script>", "console error: wrong"),
        ("<script>Promise.reject(new Error('late'))</script>", "uncaught: late"),
        ("<script>setTimeout(() => alert('seen'))</script>", "dialog: seen"),
        ("<img src='other.png' alt=''>", "request: file:"),
        ("<script>fetch('https://example.org/').catch(() => 0)</script>", "request: https://example.org/"),
        (NO_SCRIPT + "<script>1</script>", "console error: Executing inline script violates"),
    ):
        page = pages(write(body), ready=False)
        problems = pages.used[0][2].problems
        while not any(problem.startswith(seen) for problem in problems):
            page.wait_for_timeout(20)  # for ever, if nothing is seen: then the test is over time
        assert any(problem.startswith(seen) for problem in pages.leave())
        assert not pages.leave()
    page.context.close()


def test_quiet_page(open_page, write):
    """Nothing is reported of a page that makes its own pictures; colours and width are those asked for."""
    picture = "<img alt='' src='data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=='>"
    path = write(DARK + picture)
    assert pixels_of(open_page(path, ready=False)).mean() > 250
    dark = pixels_of(open_page(path, dark=True, phone=True, ready=False))
    assert dark.shape == (844, 390, 3)
    assert dark.mean() < 5


def test_long_names_do_not_widen_the_page(show):
    content, long = small_content(), shown_text("m" * 10_000)
    labels = tuple(replace(one, name=long, levels=(long,) * len(one.levels)) for one in content.table.labels)
    columns = (long,) * len(content.table.columns)
    table = replace(content.table, source=long, columns=columns, labels=labels)
    for width in (1280, 390):
        page = show(replace(content, title=long, findings=(long,), table=table), width=width)
        assert width_of(page) == width
