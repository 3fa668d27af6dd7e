"""Check the links of the built site and of the Markdown of the checkout, without a network: `make docs` runs it.

Links have to lead to a file, and their #anchors to an id or a heading in it.  Addresses of the project itself, as in
the README, are looked up in the site and in the checkout.  Sphinx checks other sites: `make linkcheck`.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from functools import cache
from html.parser import HTMLParser
from itertools import chain, pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from markdown_it import MarkdownIt

__all__ = ["Link", "broken", "links_of_markdown", "links_of_site", "main"]

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "_build" / "html"
MARKDOWN = ("*.md", "docs/*.md", "benchmarks/**/*.md")
TEMPLATES = ("webpack-macros.html",)  # the theme leaves among its files what it makes pages with
ELSEWHERE = ("https", "mailto", "data")  # schemes that lead out of the site
ATTRIBUTES = ("href", "src", "srcset", "poster", "action")
EXPLORER = re.compile(r"latentbits \d")  # what the explorer's pages say that they were made by


class Link(NamedTuple):
    """A link with its place."""

    page: Path
    line: int
    target: str

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}: {self.target}"


class Page(HTMLParser):
    """The links, the ids and the maker of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[tuple[int, str]] = []
        self.ids: set[str] = set()
        self.explorer = False
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value for name, value in attrs if value is not None}
        self.ids |= {given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a")}
        if tag == "meta" and given.get("name") == "generator" and EXPLORER.match(given.get("content", "")):
            self.explorer = True
        for name in ATTRIBUTES:
            if name in given:
                targets = _of_srcset(given[name]) if name == "srcset" else [given[name].strip()]
                self.links += [(self.getpos()[0], target) for target in targets]


def _of_srcset(value: str) -> list[str]:
    """Split ``a.png 1x, b.png 2x`` into its addresses."""
    return [one.split()[0] for one in re.split(r",\s+", value.strip()) if one.strip()]


@cache
def read(path: Path) -> Page:
    """Read a page of the site, once."""
    return Page(path.read_text("utf-8"))


def links_of_site(site: Path) -> list[Link]:
    """List the links of all pages."""
    pages = [path for path in sorted(site.rglob("*.html")) if path.name not in TEMPLATES]
    return [Link(path, line, target) for path in pages for line, target in read(path).links]


def links_of_markdown(path: Path) -> list[Link]:
    """List links and pictures of a Markdown file outside of code, with the line of their block."""
    found = []
    for block in MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8")):
        for token in block.children or ():
            target = token.attrs.get("href", token.attrs.get("src"))
            if isinstance(target, str):
                found.append(Link(path, (block.map or [0])[0] + 1, target))
    return found


@cache
def anchors_of_markdown(path: Path) -> frozenset[str]:
    """Collect the #anchors of headings, as GitHub and MyST make them, and named targets."""
    text = path.read_text("utf-8")
    blocks = MarkdownIt("commonmark").parse(text)
    slugs: list[str] = []
    for before, block in pairwise(blocks):
        if before.type == "heading_open":
            plain = "".join(token.content for token in block.children or ())
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            slugs.append(f"{slug}-{slugs.count(slug)}" if slug in slugs else slug)
    return frozenset([*slugs, *re.findall(r"^\(([^()\s]+)\)=$", text, re.MULTILINE)])


class Addresses(NamedTuple):
    """Addresses at which the project says that it lives."""

    site: str
    files: tuple[str, ...]  # of the checkout, at its newest

    @classmethod
    def of(cls, root: Path) -> Addresses:
        urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
        home = urls["Source"]
        raw = home.replace("github.com", "raw.githubusercontent.com")
        return cls(urls["Documentation"], (f"{home}/blob/main/", f"{home}/tree/main/", f"{raw}/main/"))


def broken(link: Link, site: Path, root: Path, ours: Addresses) -> str | None:
    """Say what is wrong with a link, as far as files show; None for a good one."""
    if link.target.startswith(ours.site):
        return _within(link.target.removeprefix(ours.site), site, site, site / "index.html")
    for place in ours.files:
        if link.target.startswith(place):
            return _within(link.target.removeprefix(place), root, root, root / "README.md")
    if scheme := urlsplit(link.target).scheme:
        return None if scheme in ELSEWHERE else "is no https"
    top = site if link.page.suffix == ".html" else root
    return _within(link.target, link.page.parent, top, link.page)


def _within(target: str, start: Path, top: Path, here: Path) -> str | None:
    """Check a path from a folder, an anchor, or both; without a path the link leads to its own page."""
    if target.startswith("//"):
        return "names no https"
    parts = urlsplit(target)
    path = unquote(parts.path)
    if path.startswith("/"):
        return "begins at the root of a host, which this site need not be"
    there = (start / path).resolve() if path else here
    if not there.is_relative_to(top.resolve()):
        return "leads out of the site" if here.suffix == ".html" else "leads out of the checkout"
    if there.is_dir() and here.suffix == ".html":
        there /= "index.html"
    if not _is_there(there):
        return "there is no such file"
    return _no_anchor(there, unquote(parts.fragment)) if parts.fragment else None


def _is_there(path: Path) -> bool:
    """Whether there is a file or folder of exactly this name: some systems take `A` for `a`, and hosts do not."""
    return path.exists() and path.name in _names(path.parent)


@cache
def _names(folder: Path) -> frozenset[str]:
    return frozenset(path.name for path in folder.iterdir())


def _no_anchor(path: Path, fragment: str) -> str | None:
    if path.suffix == ".md":
        return None if fragment in anchors_of_markdown(path) else "there is no such heading"
    if path.suffix != ".html":
        return None  # lines of a source file, a place in an SVG
    page = read(path)
    if page.explorer and "=" in fragment:  # what the page shows, which its script reads; its sections are ids
        sections = parse_qs(fragment).get("section", [])
        return None if all(f"{name}-section" in page.ids for name in sections) else "there is no such section"
    return None if fragment in page.ids or fragment == "top" else "there is no such anchor"


def main(words: list[str] | None = None) -> int:
    """Print the broken links, and return 1 if there is one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", nargs="?", type=Path, default=SITE, help="the folder of the built pages")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    given = parser.parse_args(words)
    site, root = given.site.resolve(), given.root.resolve()
    if not (site / "index.html").is_file():
        parser.error(f"{given.site} has no index.html: build the site first, by make docs")
    texts = [path for pattern in MARKDOWN for path in sorted(root.glob(pattern)) if "node_modules" not in path.parts]
    links = [*links_of_site(site), *chain.from_iterable(map(links_of_markdown, texts))]
    ours = Addresses.of(root)
    wrong = [(link, why) for link in links if (why := broken(link, site, root, ours))]
    for link, why in wrong:
        print(f"broken: {link}  {why}", file=sys.stderr)
    print(f"{len(links)} links on {len({link.page for link in links})} pages, {len(wrong)} broken")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
