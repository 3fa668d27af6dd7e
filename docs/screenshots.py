"""Make the explorer's pages of real tables, and the pictures of them that the documentation shows.

    LATENTBITS_DATA=folder python docs/screenshots.py [NAME ...] [--pages FOLDER] [--again]

It needs the extra ``test`` and Debian's Chromium.  Pages go to a folder of their own (they hold whole tables: who
publishes one looks at its licence first), pictures to docs/_static/explorer.  With ``--again`` pages that are there are
not made again.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

PICTURES = Path(__file__).parent / "_static" / "explorer"
WIDTH, HEIGHT = 1280, 1240


class Shot(NamedTuple):
    """A table, what is done to its page, and how it is seen."""

    table: str
    act: Callable[[Any], None] = lambda page: None
    part: str | None = None  # an element alone
    dark: bool = False
    phone: bool = False


def over(x: float, y: float) -> Callable[[Any], None]:
    """Hold the cursor over the map, at shares of its width and height."""

    def act(page: Any) -> None:
        box = page.locator("#map canvas").first.bounding_box()
        page.mouse.move(box["x"] + x * box["width"], box["y"] + y * box["height"])

    return act


def on(x: float, y: float) -> Callable[[Any], None]:
    """Pick the row there."""

    def act(page: Any) -> None:
        over(x, y)(page)
        page.mouse.down()
        page.mouse.up()

    return act


def at_the_map(page: Any) -> None:
    """Scroll to the map."""
    page.evaluate("document.querySelector('#map').scrollIntoView()")


SHOTS = {
    "digits": Shot("digits", on(0.6, 0.5)),
    "digits-dark": Shot("digits", on(0.6, 0.5), dark=True),
    "digits-phone": Shot("digits", at_the_map, phone=True),
    "digits-causes": Shot("digits", part="#causes-section"),
    "answers": Shot("lsat7", part=".map-grid"),
    "votes": Shot("house_votes_84", on(0.47, 0.35), part=".map-grid"),
    "mite": Shot("mite", part="#map-section"),
    "groceries": Shot("groceries", over(0.75, 0.62), part="#map-section"),
    "twos": Shot("usps_twos", on(0.3, 0.3), part="#map-section"),
    "twos-morph": Shot("usps_twos", part="#morph-section"),
}


def main() -> None:
    """Make what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"some of {', '.join(SHOTS)}")
    parser.add_argument("--pages", type=Path, default=Path("latentbits-explore"))
    parser.add_argument("--again", action="store_true", help="take pictures of pages that are there")
    asked = parser.parse_args()
    shots = {name: SHOTS[name] for name in asked.names or SHOTS}
    asked.pages.mkdir(parents=True, exist_ok=True)
    PICTURES.mkdir(parents=True, exist_ok=True)
    for table in dict.fromkeys(shot.table for shot in shots.values()):
        if not (asked.again and (asked.pages / f"{table}.html").exists()):
            make_page(table, asked.pages / f"{table}.html")
    take(shots, asked.pages)


def make_page(table: str, path: Path) -> None:
    """Explore a public set."""
    from latentbits import explore, load_dataset

    print(explore(load_dataset(table), out=path), flush=True)


def take(shots: dict[str, Shot], pages: Path) -> None:
    """Pictures of pages in a browser."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, shot in shots.items():
            size = {"width": 390, "height": 844} if shot.phone else {"width": WIDTH, "height": HEIGHT}
            page = browser.new_page(
                viewport=size, color_scheme="dark" if shot.dark else "light", device_scale_factor=2 if shot.phone else 1
            )
            page.goto((pages / f"{shot.table}.html").resolve().as_uri())
            page.wait_for_selector("html[data-ready]")
            seen = page.locator(shot.part) if shot.part else page
            if shot.part:
                page.evaluate("document.querySelector('nav').style.position = 'static'")  # or it lies on the picture
                seen.scroll_into_view_if_needed()
                page.wait_for_timeout(1000)  # cards are drawn when they come into sight, and move what is below
                seen.scroll_into_view_if_needed()
            shot.act(page)
            page.wait_for_timeout(500)  # for what is drawn in the next frames
            seen.screenshot(path=PICTURES / f"{name}.png")
            page.close()
            print(PICTURES / f"{name}.png", flush=True)


if __name__ == "__main__":
    main()
