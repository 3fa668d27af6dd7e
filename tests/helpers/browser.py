"""Pages in Debian's Chromium, without a window, watched for what a page of one file must never do."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
PHONE = (390, 844)
INSIDE = ("data:", "blob:")  # what a page makes of its own memory


@dataclass
class Watch:
    """What went wrong on one page, in words."""

    address: str
    problems: list[str] = field(default_factory=list)

    def follow(self, page) -> None:
        """Listen to ``page``: errors, warnings of its security policy, and requests of anything but the file."""
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("console", self._console)
        page.on("request", self._request)

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _request(self, request) -> None:
        if request.url.split("#")[0] != self.address and not request.url.startswith(INSIDE):
            self.problems.append(f"request: {request.url[:200]}")


def find_chromium() -> str:
    """The path of Chromium.  Where there is none the test is skipped; in CI it fails, lest nobody look at the page."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        path = shutil.which(name)
        if path:
            return path
    reason = "no Chromium to open pages in: apt-get install chromium"
    if os.environ.get("CI"):
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@contextmanager
def chromium() -> Iterator:
    """A browser with an empty profile; nothing is downloaded."""
    path = find_chromium()
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        pytest.fail(f"the tests of pages need playwright: pip install -e '.[test]' ({error})", pytrace=False)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS)
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Opens pages and remembers what went wrong on each.

    ``pages(path)`` gives playwright's page, loaded.  ``width`` and ``height`` are those of the window in CSS pixels,
    ``dark`` asks for dark colours, and ``phone`` for a touch screen 390 pixels wide.
    """

    def __init__(self, browser):
        self.browser = browser
        self.watches: list[Watch] = []
        self.contexts: list = []

    def __call__(self, path: Path, width: int = 1280, height: int = 900, dark: bool = False, phone: bool = False):
        width, height = PHONE if phone else (width, height)
        context = self.browser.new_context(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
            reduced_motion="reduce",
            has_touch=phone,
            is_mobile=phone,
            accept_downloads=True,
        )
        context.set_default_timeout(120_000)  # a busy machine is slow, and no fault
        self.contexts.append(context)
        page = context.new_page()
        watch = Watch(Path(path).resolve().as_uri())
        watch.follow(page)
        self.watches.append(watch)
        page.goto(watch.address)
        return page

    def close(self) -> list[str]:
        """Close all; what went wrong on any of them."""
        for context in self.contexts:
            context.close()
        return [problem for watch in self.watches for problem in watch.problems]


def pixels_of(page, keep: Path | None = None) -> np.ndarray:
    """What the window shows: an array (height, width, 3) of bytes; ``keep`` is a PNG file to write it to."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot(path=keep))).convert("RGB"))
