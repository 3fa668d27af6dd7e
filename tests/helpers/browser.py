"""Pages in Debian's Chromium, without a window, watched for what a page of one file must never do."""

from __future__ import annotations

import csv
import io
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

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
WAIT = 850_000  # milliseconds, just below the limit of a test: for a hang, not for speed
BLANK = "about:blank"
SVG = "{http://www.w3.org/2000/svg}"
INSIDE = ("data:", "blob:")  # what a page makes from memory


@dataclass
class Watch:
    """What went wrong on one page, in words."""

    address: str = ""
    problems: list[str] = field(default_factory=list)

    def follow(self, page) -> None:
        """Listen to ``page``: errors, dialogs, warnings of its security policy, requests of anything but the file."""
        page.on("pageerror", lambda error: self.problems.append(f"uncaught: {error}"))
        page.on("dialog", self._dialog)
        page.on("console", self._console)
        page.on("request", self._request)

    def _console(self, message) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"console {message.type}: {message.text}")

    def _dialog(self, dialog) -> None:
        self.problems.append(f"dialog: {dialog.message}")
        dialog.dismiss()

    def _request(self, request) -> None:
        if request.url.split("#")[0] not in (self.address, BLANK) and not request.url.startswith(INSIDE):
            self.problems.append(f"request: {request.url[:200]}")


def find_chromium() -> str:
    """The path of Chromium.  Where there is none the test is skipped; in CI it fails, lest the page go unchecked."""
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
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=FLAGS, timeout=WAIT)
        try:
            yield browser
        finally:
            browser.close()


class Pages:
    """Opens pages and remembers what went wrong on each; windows are used again, which is much faster than new ones.

    ``pages(path)`` gives playwright's page, loaded; with ``ready`` it waits until the explorer has made all of it.
    ``width`` and ``height`` are those of the window in CSS pixels, ``dark`` asks for dark colours, and ``phone`` for a
    touch screen 390 pixels wide.  ``link`` is what comes after the address.
    """

    def __init__(self, browser):
        self.browser = browser
        self.idle: dict = {False: [], True: []}
        self.used: list = []

    def __call__(self, path: Path, width=1280, height=900, dark=False, phone=False, ready=True, link=""):
        page, watch = self.idle[phone].pop() if self.idle[phone] else self._new(phone)
        self.used.append((phone, page, watch))
        watch.address = Path(path).resolve().as_uri()
        if not phone:
            page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="screen", color_scheme="dark" if dark else "light", reduced_motion="reduce")
        page.goto(watch.address + link)
        if ready:
            page.wait_for_selector("html[data-ready]", state="attached")
        return page

    def _new(self, phone: bool):
        """Make a page in a separate window: one behind another is slowed down."""
        window = {"width": PHONE[0], "height": PHONE[1]} if phone else {"width": 1280, "height": 900}
        context = self.browser.new_context(viewport=window, has_touch=phone, is_mobile=phone, accept_downloads=True)
        context.set_default_timeout(WAIT)
        page, watch = context.new_page(), Watch()
        watch.follow(page)
        return page, watch

    def leave(self) -> list[str]:
        """Leave all pages; what went wrong on any of them."""
        found = []
        for phone, page, watch in self.used:
            page.goto(BLANK)
            page.context.clear_permissions()
            found += watch.problems
            watch.problems.clear()
            self.idle[phone].append((page, watch))
        self.used.clear()
        return found


def pixels_of(page) -> np.ndarray:
    """Read what the window shows: an array (height, width, 3) of bytes."""
    from PIL import Image

    return np.asarray(Image.open(io.BytesIO(page.screenshot())).convert("RGB"))


def drawn(page) -> None:
    """Wait until the page has drawn what it was about to draw."""
    page.evaluate("() => new Promise(r => requestAnimationFrame(() => requestAnimationFrame(r)))")


def saved(button) -> tuple[str, bytes]:
    """Click a button that saves a file: its name, and what is in it."""
    with button.page.expect_download() as info:
        button.click()
    return info.value.suggested_filename, info.value.path().read_bytes()


def csv_of(data: bytes) -> list[dict[str, str]]:
    """Read the lines of a CSV file, by the names of columns."""
    return list(csv.DictReader(io.StringIO(data.decode("utf-8-sig"), newline="")))


def texts_of(data: bytes) -> list[str]:
    """List the words of an SVG file."""
    return [text.text for text in ElementTree.fromstring(data).iter(f"{SVG}text")]


def go_to(page, row: int, where: str = "#inspector", label: str = "Go to row") -> None:
    """Pick a row by a field for its name."""
    box = page.locator(where).get_by_label(label, exact=True)
    box.fill(f"row {row}")
    box.press("Enter")


def width_of(page) -> int:
    """Measure how wide the page is, with what does not fit into the window."""
    return page.evaluate("() => document.documentElement.scrollWidth")
