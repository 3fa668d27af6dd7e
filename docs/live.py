"""Explorer pages of public sets, each with a guide beside it, for the site; conf.py writes ``docs/live``.

The pages are made by `explore` when the site is built, and kept in ``docs/_build/live`` until the package changes or
what is asked of it.  Where a set cannot be had its guide says so, and so does the build, which goes on.  What is said
to have been found is what the run has found: no number is written by hand.  With ``LATENTBITS_LIVE=off`` no page is
made that is not kept; ``LATENTBITS_LIVE=300`` gives each that many seconds, for a site that people will see.
"""

from __future__ import annotations

import hashlib
import html
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

from latentbits import explore, load_dataset
from latentbits.core.errors import LatentBitsError
from latentbits.data.fetch import datasets
from latentbits.explorer.explore import Explored

__all__ = ["LIVE", "Live", "Look", "address", "facts_of", "key_of", "made", "page", "tiles", "write"]

OTHER_FOLDERS = ("cli", "league", "papers")  # of the package: no page depends on them
OFF = "off"


class Look(NamedTuple):
    """Something to try: the page as its address shows it, and what to look for there.

    Values of `at` are filled in with what the run has found; where that is nothing, there is nothing to try.
    """

    do: str
    then: str
    at: Mapping[str, str]


class Live(NamedTuple):
    """A page: of which set, for whom, and how to read it."""

    name: str
    dataset: str
    title: str
    picture: str  # in _static/explorer
    alt: str
    tutorial: str
    seen: str
    looks: tuple[Look, ...]
    budget: float = 45.0  # seconds for the fits


MODELS = Look(
    "Compare the models.",
    "Fewer bits are better, on rows that no model has learned from. A difference below two of its errors is none.",
    {"section": "models"},
)
LIVE = (
    Live(
        "answers",
        "lsat7",
        "Test answers",
        "answers.png",
        "People as points, by their answers to five items; lines where an answer is as likely right as wrong.",
        "tutorial-items",
        "{columns} items of a law school admission test, answered by {rows} people: 1 where the answer is right. A "
        "point of the map is a person; those with the same answers are one larger point. On a line an item is as "
        "likely right as wrong.",
        (
            Look(
                "Draw the items as arrows.",
                "An arrow points to where its answer becomes likely right. Items that measure the same point the same "
                "way.",
                {"section": "map", "columns": "arrows"},
            ),
            Look(
                "Colour people by one item, the fourth.",
                "Where are those who got it right, and is there a border?",
                {"section": "map", "colour": "bit:{columns[item4]}"},
            ),
            Look(
                "Look at the answers that fit worst.",
                "Beside each stands what the others of the same person speak for.",
                {"section": "map", "row": "{odd}"},
            ),
            Look(
                "Take people for kinds, not for places on a scale.",
                "The same answers, explained by classes. Which of the two would you rather defend?",
                {"section": "causes", "model": "{models[mixture]}"},
            ),
            MODELS,
        ),
    ),
    Live(
        "species",
        "mite",
        "Species and sites",
        "mite.png",
        "Patches of moss as points, coloured by how wet they are; arrows of species point to either side.",
        "tutorial-species",
        "{columns} species of mites in {rows} cores of soil and moss beside a lake: 1 where a species was found. A "
        "point of the map is a core. What was measured there was kept from the models, and colours the points.",
        (
            Look(
                "Draw the species as arrows.",
                "An arrow points to where its species becomes likely. Which live together, and which apart?",
                {"section": "map", "columns": "arrows"},
            ),
            Look(
                "Colour the cores by how wet they are.",
                "Does the colour change along an axis? Below the map stands what each axis goes with, and how "
                "sure it is.",
                {"section": "map", "colour": "label:{labels[WatrCont]}"},
            ),
            Look(
                "Order the table along the first trait.",
                "Species as columns, cores as rows: a gradient is a band from corner to corner.",
                {"section": "table", "rows-by": "trait 1", "columns-by": "loading on trait 1"},
            ),
            Look(
                "Look at the core that fits worst.",
                "Which species is out of its place there?",
                {"section": "map", "row": "{odd}"},
            ),
            MODELS,
        ),
    ),
    Live(
        "votes",
        "house_votes_84",
        "Votes",
        "votes.png",
        "Members as points in two colours, those of their parties, and lines of votes between them.",
        "tutorial-baskets-votes",
        "{columns} votes of {rows} members of the US House of Representatives in 1984: 1 for yea. A point of the map "
        "is a member; those who voted alike are one larger point. The colour is the party, which no model has seen.",
        (
            Look(
                "Draw the votes as arrows.",
                "An arrow points to where a yea becomes likely. Votes along one line divide members in the same way.",
                {"section": "map", "columns": "arrows"},
            ),
            Look(
                "Colour members by one vote, the physician fee freeze,",
                "and compare the colours with those of the parties.",
                {"section": "map", "colour": "bit:{columns[physician-fee-freeze]}"},
            ),
            Look(
                "Colour them by another, the water project.",
                "Does it divide the same people?",
                {"section": "map", "colour": "bit:{columns[water-project]}"},
            ),
            Look(
                "Look at the member who fits worst.",
                "Beside each vote stands what the member's other votes speak for.",
                {"section": "map", "row": "{odd}"},
            ),
            Look(
                "Order the table by party.",
                "A vote along party lines is dark in one part of the rows and light in the other.",
                {"section": "table", "rows-by": "party", "columns-by": "loading on trait 1"},
            ),
            MODELS,
        ),
    ),
    Live(
        "images",
        "digits",
        "Images",
        "digits.png",
        "A map of handwritten digits in ten colours, with the image that the model expects under the cursor.",
        "tutorial-images",
        "{rows} handwritten digits of {columns} pixels: 1 where there is ink. A point of the map is an image. Move "
        "over the map: beside it is the image that the model expects there. Which digit it is, no model has seen.",
        (
            Look(
                "Look at the kinds of images.",
                "Each is drawn with its share of all and the images that show it best. Are the kinds digits, or ways "
                "of writing one?",
                {"section": "causes", "model": "{models[mixture]}"},
            ),
            Look(
                "Look at the image that fits worst.",
                "Marked pixels are those that the others of the image speak against.",
                {"section": "map", "row": "{odd}"},
            ),
            Look(
                "Turn one digit into another.",
                "Pixels flip one by one, and what is between is an image too, with no grey in it.",
                {"section": "morph"},
            ),
            Look(
                "Colour images by surprise.",
                "Two traits are few: where is the map least at ease?",
                {"section": "map", "colour": "cost"},
            ),
            MODELS,
        ),
        budget=60.0,
    ),
)


def write(folder: Path, kept: Path) -> Path:
    """The guides, in place of those that are there; the folder of what is copied into the site as it is."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    site = kept / "site"
    (site / "explore").mkdir(parents=True, exist_ok=True)
    found = {live.name: made(live, kept) for live in LIVE}
    for live in LIVE:
        (folder / f"{live.name}.md").write_text(page(live, found[live.name]), "utf-8")
    (folder / "tiles.txt").write_text(tiles(found), "utf-8")
    return site


# --- the pages ---


def made(live: Live, kept: Path, run: Callable[..., Explored] = explore) -> dict[str, Any] | None:
    """What a page holds, which is kept or made again; None where it cannot be, and then there is no page."""
    out, record = kept / "site" / "explore" / f"{live.name}.html", kept / f"{live.name}.json"
    asked = os.environ.get("LATENTBITS_LIVE", "")
    if asked not in ("", OFF):
        live = live._replace(budget=float(asked))
    key = key_of(live)
    if out.exists() and record.exists():
        facts = json.loads(record.read_text("utf-8"))
        if facts["key"] == key:
            return facts
    out.unlink(missing_ok=True)
    if asked == OFF:
        print(f"live pages: that of {live.dataset} is not made, for LATENTBITS_LIVE is {OFF}", flush=True)
        return None
    try:
        data = load_dataset(live.dataset)
    except (LatentBitsError, OSError) as error:
        print(f"live pages: that of {live.dataset} is not made, and its guide says so: {error}", flush=True)
        return None
    print(f"live pages: exploring {live.dataset}, for about {live.budget:.0f} seconds", flush=True)
    facts = {"key": key, **facts_of(run(data, out=out, budget=live.budget))}
    record.write_text(json.dumps(facts, indent=1), "utf-8")
    print(*facts["notes"], sep="\n", flush=True)
    return facts


def key_of(live: Live) -> str:
    """What a page depends on: the package, with the hashes of its public sets, and what is asked of it."""
    digest = hashlib.sha256(f"{live.dataset} {live.budget}".encode())
    package = Path(str(files("latentbits")))
    for path in sorted(package.rglob("*")):
        inside = path.relative_to(package)
        if path.suffix in (".py", ".js", ".css", ".html", ".json") and inside.parts[0] not in OTHER_FOLDERS:
            digest.update(inside.as_posix().encode() + path.read_bytes())
    return digest.hexdigest()


def facts_of(found: Explored) -> dict[str, Any]:
    """What guides say of a run, as JSON takes it: findings, notes, and what addresses need.

    `models` has the first model of each family that has converged; `odd` is the row that fits worst, None where that
    is unknown.
    """
    content = found.content
    table, misfit = content.table, content.misfit
    shown = {gallery.name for gallery in content.galleries}
    models: dict[str, str] = {}
    for model in content.sound:
        if model.name in shown:
            models.setdefault(model.family, model.name)
    return {
        "findings": list(content.findings),
        "notes": list(found.notes),
        "odd": None if misfit is None or not len(misfit.rows) else int(table.numbers[misfit.rows[0]]),
        "columns": {name: j for j, name in enumerate(table.columns)},
        "labels": {label.name: k for k, label in enumerate(table.labels)},
        "models": models,
        "morph": content.morph is not None,
    }


# --- the guides ---


def page(live: Live, facts: Mapping[str, Any] | None) -> str:
    """A guide with the page beside it; where there is no page, it says why."""
    info = next(one for one in datasets() if one.name == live.dataset)
    parts = [
        "---\nhtml_theme.sidebar_secondary.remove: true\nmyst:\n  html_meta:\n"
        f'    description: "{live.title}: an explorer page to be tried, of the public set {live.dataset}."\n---',
        f"# {live.title}, live",
        "::::::{container} live" + ("" if facts is None else " made"),
        ":::::{container} guide",
        _heading("What is seen"),
        live.seen.format(rows=f"{info.shape[0]:,}", columns=info.shape[1]),
        *([_not_made(live)] if facts is None else []),
        _heading("What to try"),
        "\n".join(f"- {line}" for line in _looks(live, facts)),
        *([] if facts is None else _found(facts)),
        _heading("And then"),
        f"{{doc}}`../{live.tutorial}` goes the same way in Python, step by step; {{doc}}`../explorer` says what else "
        f"is on the page. `latentbits explore {live.dataset}` makes it again, and another from a file of yours.",
        f"*The table: {_plain(info.description)}. Source: {_source(info.source)}. Licence: {_plain(info.licence)}.*",
        ":::::",
        _beside(live, facts),
        "::::::",
    ]
    return "\n\n".join(parts) + "\n"


def _heading(text: str) -> str:
    return f":::{{rubric}} {text}\n:heading-level: 2\n:::"


def _found(facts: Mapping[str, Any]) -> list[str]:
    notes = [f"*{_plain(note)}*" for note in facts["notes"]]
    return [_heading("What was found"), "\n".join(f"1. {_plain(text)}" for text in facts["findings"]), *notes]


def _not_made(live: Live) -> str:
    return (
        ":::{note}\nThe page was not made when this site was built. `latentbits explore "
        f"{live.dataset}` makes it wherever the table can be had ({{doc}}`../data`).\n:::"
    )


def _looks(live: Live, facts: Mapping[str, Any] | None) -> list[str]:
    """A line for each; without a page nothing leads anywhere, and what needs a run is left out."""
    lines = []
    for look in live.looks:
        if facts is None:
            lines.append(f"{look.do} {look.then}")
            continue
        end = address(look, facts)
        if end is not None:
            target = html.escape(f"../explore/{live.name}.html#{end}")
            lines.append(f'<a class="look" href="{target}">{html.escape(look.do)}</a> {look.then}')
    return lines


def address(look: Look, facts: Mapping[str, Any]) -> str | None:
    """The end of the page's address; None where the run has nothing to show there.

    >>> look = Look("", "", {"section": "worst", "row": "{odd}"})
    >>> address(look, {"odd": 3, "morph": True}), address(look, {"odd": None, "morph": True})
    ('section=worst&row=3', None)
    """
    wanted = "".join(look.at.values())
    if "{odd}" in wanted and facts["odd"] is None:
        return None
    if look.at.get("section") == "morph" and not facts["morph"]:
        return None
    if any(name not in facts["models"] for name in re.findall(r"\{models\[([\w-]+)\]\}", wanted)):
        return None
    return urlencode({name: value.format_map(facts) for name, value in look.at.items()})


def _beside(live: Live, facts: Mapping[str, Any] | None) -> str:
    """The page in a frame, and for narrow screens a picture that leads to it."""
    picture = f"```{{image}} ../_static/explorer/{live.picture}\n:alt: {live.alt}\n"
    if facts is None:
        return f":::::{{container}} frame\n{picture}```\n:::::"
    target, title = f"../explore/{live.name}.html", html.escape(f"The explorer's page of {live.dataset}")
    return (
        ":::::{container} frame\n"
        f'<a class="open" href="{target}">Open the whole page</a>\n\n'
        f"{picture}:target: {target}\n```\n\n"
        f'<iframe data-src="{target}#section=map" title="{title}"></iframe>\n'
        '<script src="../_static/live.js" defer></script>\n'
        ":::::"
    )


def tiles(found: Mapping[str, Mapping[str, Any] | None]) -> str:
    """A card for each page, by its name, with what was found first."""
    cards = []
    for live in LIVE:
        facts = found[live.name]
        finding = "Not made when this site was built." if facts is None else _plain(facts["findings"][0])
        cards.append(
            ":::{container} tile\n"
            f"```{{image}} _static/explorer/{live.picture}\n:alt: {live.alt}\n:target: live/{live.name}.html\n```\n\n"
            f"**{{doc}}`{live.title} <live/{live.name}>`**\n\n{finding}\n"
            ":::\n"
        )
    return "::::{container} tiles large\n" + "".join(cards) + "::::\n"


def _source(text: str) -> str:
    return f"<{text}>" if text.startswith("http") else _plain(text)


def _plain(text: str) -> str:
    """Text in which Markdown finds no marks.

    >>> _plain("a_b* costs $2")
    'a\\\\_b\\\\* costs \\\\$2'
    """
    return re.sub(r"([\\`*_{}\[\]<>#|$~&^])", r"\\\1", text)
