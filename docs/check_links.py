"""Whether every link of the built site, and of the Markdown of the checkout, leads somewhere: `make docs` runs it.

    python docs/check_links.py                # what can be known without a network
    python docs/check_links.py --external     # other sites are asked too, one address of a host at a time
    python docs/check_links.py --list         # with a list of the addresses of other sites

Links within the site have to lead to a file, and their #anchors to an id in it.  Addresses of the project itself, as
the README has them, are looked up in the site and in the checkout.  Those of other sites are held to their form alone
unless `--external` is given.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from html.parser import HTMLParser
from ipaddress import ip_address
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import NamedTuple
from urllib.error import HTTPError, URLError
from urllib.parse import parse_qs, unquote, urlsplit
from urllib.request import Request, urlopen

from markdown_it import MarkdownIt

__all__ = ["Link", "asked", "broken", "links_of_markdown", "links_of_site", "main", "wrong_form"]

ROOT = Path(__file__).resolve().parents[1]
SITE = ROOT / "docs" / "_build" / "html"
MARKDOWN = ("*.md", "docs/*.md", "benchmarks/**/*.md")
TEMPLATES = ("webpack-macros.html",)  # the theme leaves among its files what it makes pages with
ELSEWHERE = ("mailto", "data")  # schemes that lead to no page
ATTRIBUTES = ("href", "src", "srcset", "poster", "action")
EXPLORER = re.compile(r"latentbits \d")  # what the explorer's pages say that they were made by
# Names that stand for others, or are known within one house only.
NO_HOST = re.compile(r"(^|\.)(example(\.\w+)?|localhost|invalid|test|local|lan|home|corp|intranet|internal)$")
PLACEHOLDER = re.compile(r"\b(todo|fixme|your[-_]?name|xxx+)\b|[<>{}\\\s]", re.IGNORECASE)
SECONDS, PAUSE = 20, 1.0  # an answer may take; between two questions to one host
AGENT = "Mozilla/5.0 (compatible; latentbits check_links)"  # sites turn away what names no browser
SHY = (401, 403, 405, 406, 418, 429, 503, 999)  # there is somebody, who does not speak with programs


class Link(NamedTuple):
    """Where it stands, and what it says."""

    page: Path
    line: int
    target: str

    def __str__(self) -> str:
        page = self.page.relative_to(ROOT) if self.page.is_relative_to(ROOT) else self.page
        return f"{page}:{self.line}: {self.target}"


# --- reading pages ---


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
    """The addresses of ``a.png 1x, b.png 2x``."""
    return [one.split()[0] for one in re.split(r",\s+", value.strip()) if one.strip()]


@cache
def read(path: Path) -> Page:
    """A page of the site; it is looked into once for each link that leads to it."""
    return Page(path.read_text("utf-8"))


def links_of_site(site: Path) -> list[Link]:
    """All links of all pages."""
    pages = [path for path in sorted(site.rglob("*.html")) if path.name not in TEMPLATES]
    return [Link(path, line, target) for path in pages for line, target in read(path).links]


def links_of_markdown(path: Path) -> list[Link]:
    """Links and pictures of a Markdown file, code left out; a line is that of the block it stands in."""
    found = []
    for block in MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8")):
        for token in block.children or ():
            target = token.attrs.get("href", token.attrs.get("src"))
            if isinstance(target, str):
                found.append(Link(path, (block.map or [0])[0] + 1, target))
    return found


@cache
def anchors_of_markdown(path: Path) -> frozenset[str]:
    """The #anchors of headings, as GitHub and MyST make them, and the targets that are named."""
    text = path.read_text("utf-8")
    blocks = MarkdownIt("commonmark").parse(text)
    slugs: list[str] = []
    for before, block in pairwise(blocks):
        if before.type == "heading_open":
            plain = "".join(token.content for token in block.children or ())
            slug = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            slugs.append(f"{slug}-{slugs.count(slug)}" if slug in slugs else slug)
    return frozenset([*slugs, *re.findall(r"^\(([^()\s]+)\)=$", text, re.MULTILINE)])


# --- links that lead within ---


class Addresses(NamedTuple):
    """Where the project says that it lives."""

    site: str
    files: tuple[str, ...]  # of the checkout, at its newest

    @classmethod
    def of(cls, root: Path) -> Addresses:
        urls = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["urls"]
        home = urls["Source"]
        raw = home.replace("github.com", "raw.githubusercontent.com")
        return cls(urls["Documentation"], (f"{home}/blob/main/", f"{home}/tree/main/", f"{raw}/main/"))


def broken(link: Link, site: Path, root: Path, ours: Addresses) -> str | None:
    """What is wrong with a link, as far as the files here can tell."""
    if link.target.startswith(ours.site):
        return _within(link.target.removeprefix(ours.site), site, site, site / "index.html")
    for place in ours.files:
        if link.target.startswith(place):
            return _within(link.target.removeprefix(place), root, root, root / "README.md")
    if urlsplit(link.target).scheme:
        return None if _is_elsewhere(link.target) else wrong_form(link.target)
    top = site if link.page.suffix == ".html" else root
    return _within(link.target, link.page.parent, top, link.page)


def _is_elsewhere(target: str) -> bool:
    return urlsplit(target).scheme in ELSEWHERE


def _within(target: str, start: Path, top: Path, here: Path) -> str | None:
    """Of a path from a folder, an anchor, or both; without a path it leads to the page that it stands on."""
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


# --- links to other sites ---


def wrong_form(address: str) -> str | None:
    """What is wrong with an address of another site before it is asked for."""
    parts = urlsplit(address)
    host = parts.hostname or ""
    if parts.scheme != "https":
        return "is no https"
    if PLACEHOLDER.search(address):
        return "has a place that somebody has to fill in"
    if "." not in host or NO_HOST.search(host) or _is_number(host):
        return "has no host that everybody can reach"
    return "names a port or a user" if parts.port or parts.username else None


def _is_number(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def asked(address: str) -> str | None:
    """What is wrong with an address, by its host; one that is shy of programs is taken to be there."""
    for method in ("HEAD", "GET"):  # some know no HEAD
        request = Request(address, method=method, headers={"User-Agent": AGENT})
        try:
            with urlopen(request, timeout=SECONDS):
                return None
        except HTTPError as error:
            if error.code in SHY and method == "GET":
                return None
            wrong = f"answers {error.code}"
        except (URLError, OSError) as error:
            wrong = f"does not answer: {getattr(error, 'reason', error)}"
    return wrong


def _asked_politely(addresses: list[str]) -> dict[str, str | None]:
    """Of one host, one after the other."""
    found: dict[str, str | None] = {}
    for address in addresses:
        if found:
            time.sleep(PAUSE)
        found[address] = asked(address)
    return found


def _all_asked(addresses: list[str]) -> dict[str, str | None]:
    hosts = [list(group) for _, group in groupby(sorted(addresses), key=lambda one: urlsplit(one).hostname)]
    with ThreadPoolExecutor(8) as pool:
        return dict(chain.from_iterable(found.items() for found in pool.map(_asked_politely, hosts)))


# --- the report ---


def main(words: list[str] | None = None) -> int:
    """Print a short report, and return 1 if a link is broken."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("site", nargs="?", type=Path, default=SITE, help="the folder of the built pages")
    parser.add_argument("--root", type=Path, default=ROOT, help="the checkout")
    parser.add_argument("--external", action="store_true", help="ask other sites, too")
    parser.add_argument("--list", action="store_true", help="list the addresses of other sites")
    given = parser.parse_args(words)
    site, root = given.site.resolve(), given.root.resolve()
    if not (site / "index.html").is_file():
        parser.error(f"{given.site} has no index.html: build the site first, by make docs")
    links = [*links_of_site(site), *chain.from_iterable(map(links_of_markdown, _markdown(root)))]
    ours = Addresses.of(root)
    wrong = [(link, why) for link in links if (why := broken(link, site, root, ours))]
    others = _others(links, ours)
    if given.external:
        answers = _all_asked(list(others))
        wrong += [(pages[0], why) for address, pages in others.items() if (why := answers[address])]
    for address in sorted(others) if given.list else ():
        print(f"{address}  ({len(others[address])} times, first in {others[address][0].page.name})")
    for link, why in wrong:
        print(f"broken: {link}  {why}", file=sys.stderr)
    told = "asked as well" if given.external else "not asked, only looked at"
    print(
        f"{len(links)} links on {len({link.page for link in links})} pages, {len(wrong)} broken; "
        f"{len(others)} addresses of other sites, {told}"
    )
    return 1 if wrong else 0


def _markdown(root: Path) -> Iterator[Path]:
    for pattern in MARKDOWN:
        yield from sorted(path for path in root.glob(pattern) if "node_modules" not in path.parts)


def _others(links: list[Link], ours: Addresses) -> dict[str, list[Link]]:
    """Links by the address of another site, without #anchors, of which a host is not asked."""
    found = defaultdict(list)
    for link in links:
        if urlsplit(link.target).scheme == "https" and not link.target.startswith((ours.site, *ours.files)):
            found[link.target.partition("#")[0]].append(link)
    return dict(found)


if __name__ == "__main__":
    sys.exit(main())
