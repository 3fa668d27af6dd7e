"""The check of links finds every kind of break, and passes what is whole."""

from __future__ import annotations

import re

import pytest
from blocks import ROOT, script

PROJECT = """[project.urls]
Source = "https://github.com/us/it"
Documentation = "https://us.github.io/it/"
"""
PAGES = {
    "index.html": """
        <a href="#here">x</a> <a id="here" href="sub/other.html#there">x</a> <a href="#">top</a> <a href="sub/">x</a>
        <img src="a.png?v=1" srcset="a.png 1x, sub/b%20c.png 2x" alt=""> <form action="sub/other.html"></form>
        <a href="live/page.html#section=map&amp;row=3">x</a> <a href="live/page.html#main">x</a>
        <a href="mailto:us@us.org">x</a> <img src="data:image/png;base64,AAAA" alt="">
        <a href="https://us.github.io/it/sub/other.html#there">ours</a> <a href="https://semver.org/a#b">theirs</a>
    """,
    "sub/index.html": '<a href="../index.html#here">x</a> <a href="./">x</a>',
    "sub/other.html": '<h1 id="there">x</h1> <a name="old"></a> <a href="#old">x</a> <a href="?q=1">x</a>',
    "sub/webpack-macros.html": "<a href=\"{{ pathto('x') }}\">no page</a>",
    "live/page.html": '<meta name="generator" content="latentbits 0.1.0"><p id="main"></p><p id="map-section"></p>',
}
MARKDOWN = """# A title, with `code`

(named)=
## Twice

[x](docs/page.md#twice-1) [x](#a-title-with-code) [x](#named) ![x](docs) [x](https://semver.org)
[x](https://github.com/us/it/blob/main/docs/page.md#twice) `[x](nowhere)`

    [x](nowhere)

| a |
|---|
| [x](docs/page.md) |
"""


@pytest.fixture(scope="module")
def links():
    return script("docs/check_links.py")


@pytest.fixture
def check(links, tmp_path, capsys):
    """A small site and checkout, with what a test changes: the exit code, what was printed, and the complaints."""

    def checked(pages=(), markdown=""):
        site = tmp_path / "site"
        files = {f"site/{name}": text for name, text in {**PAGES, **dict(pages)}.items()}
        files |= {"README.md": MARKDOWN + markdown, "docs/page.md": "# Twice\n\n# Twice\n", "pyproject.toml": PROJECT}
        files |= {"site/a.png": "", "site/sub/b c.png": ""}
        for name, text in files.items():
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_text(text, "utf-8")
        code = links.main([str(site), "--root", str(tmp_path)])
        return code, *capsys.readouterr()

    return checked


def test_no_page_loads_a_script_or_a_style_from_elsewhere():
    pages = [page for page in (ROOT / "docs").iterdir() if page.suffix in (".md", ".rst")]
    assert len(pages) > 30
    assert [page.name for page in pages if re.search(r"<(script|link)[^>]+https?:", page.read_text("utf-8"))] == []


def test_a_whole_site_passes(check):
    code, printed, complaints = check()
    assert (code, complaints) == (0, "")
    assert re.fullmatch(r"\d+ links on 4 pages, 0 broken\n", printed)


@pytest.mark.parametrize(
    ("html", "why"),
    [
        ('<a href="gone.html">x</a>', "there is no such file"),
        ('<a href="Index.html">x</a>', "there is no such file"),
        ('<a href="live/">x</a>', "there is no such file"),
        ('<img src="gone.png">', "there is no such file"),
        ('<img src="../a.png" srcset="../a.png 1x, gone.png 2x">', "there is no such file"),
        ('<form action="gone.html"></form>', "there is no such file"),
        ('<a href="#gone">x</a>', "there is no such anchor"),
        ('<a href="../index.html#gone">x</a>', "there is no such anchor"),
        ('<a href="other.html#row=3">x</a>', "there is no such anchor"),
        ('<a href="../live/page.html#gone">x</a>', "there is no such anchor"),
        ('<a href="../live/page.html#section=gone">x</a>', "there is no such section"),
        ('<a href="/sub/other.html">x</a>', "begins at the root of a host"),
        ('<a href="../../README.md">x</a>', "leads out of the site"),
        ('<a href="https://us.github.io/it/gone.html">x</a>', "there is no such file"),
        ('<a href="https://github.com/us/it/blob/main/gone.md">x</a>', "there is no such file"),
        ('<script src="//cdn.org/a.js"></script>', "names no https"),
        ('<a href="http://semver.org">x</a>', "is no https"),
        ('<a href="javascript:alert()">x</a>', "is no https"),
    ],
)
def test_a_broken_link_of_the_site_is_found(check, html, why):
    code, printed, complaints = check({"sub/new.html": f"<p>\n{html}</p>"})
    assert code == 1
    assert re.fullmatch(rf"broken: \S+new\.html:2: .*  .*{why}.*\n", complaints)
    assert "1 broken" in printed


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[x](gone.md)", "there is no such file"),
        ("[x](docs/page.md#gone)", "there is no such heading"),
        ("[x](#gone)", "there is no such heading"),
        ("[x](../page.md)", "leads out of the checkout"),
        ("[x](https://github.com/us/it/blob/main/gone.md)", "there is no such file"),
        ("[x](https://us.github.io/it/gone.html)", "there is no such file"),
    ],
)
def test_a_broken_link_of_markdown_is_found(check, text, why):
    code, _, complaints = check(markdown=f"\n{text}\n")
    assert code == 1
    assert re.fullmatch(rf"broken: \S*README\.md:15: .*  {why}\n", complaints)


def test_without_a_site_it_says_what_to_do(links, tmp_path, capsys):
    with pytest.raises(SystemExit):
        links.main([str(tmp_path)])
    assert "make docs" in capsys.readouterr().err
