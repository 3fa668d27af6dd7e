"""Results of papers together: those that come with the package, or those in a folder; what is so, and what is not.

Numbers are read from ``results.json``; verdicts are made of them by the expected.json of now.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping
from importlib import import_module, resources
from io import BytesIO
from pathlib import Path
from typing import Any

from latentbits.core.errors import import_extra
from latentbits.papers import PAPERS, pages
from latentbits.papers.pages import CANNOT, Measured

__all__ = ["counts", "counts_in_words", "counts_of_all", "in_folder", "in_package", "judge_again", "keep",
           "kept_folder", "summarize"]  # fmt: skip

LARGEST_FIGURE_BYTES = 150_000  # bytes of a figure that is kept
KEPT = ("results.json", "results.md")


def kept_folder(name: str) -> Path:
    """Find where the package has the results of a full run of a paper, if it has them."""
    return Path(str(resources.files(f"latentbits.papers.{name}"))) / "results"


def in_package(name: str) -> dict[str, Any] | None:
    """Read the results of a paper that come with the package; None where there are none."""
    return _read(kept_folder(name))


def in_folder(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the results that `reproduce` wrote into a folder, of one paper or of several in folders of their names."""
    found = {name: one for name in PAPERS if (one := _read(folder / name)) is not None}
    alone = _read(folder)
    return found if alone is None else {alone["paper"]: alone, **found}


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / "results.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def summarize(name: str, results: Mapping[str, Any]) -> dict[str, Any]:
    """Summarize a paper: relations judged, those that the run did not measure, and what it was."""
    relations = pages.expected(f"latentbits.papers.{name}")["relations"]
    judged = pages.judge(relations, measured(results))
    return {
        "quick": results["quick"],
        "machine": results["machine"],
        "notes": results["notes"],
        "relations": judged,
        "not_measured": [key for key in relations if key not in judged],
    }


def judge_again(name: str) -> None:
    """Write what is kept of a paper again, judged by the expected.json of now, after a change of that or the page."""
    results, package = in_package(name), f"latentbits.papers.{name}"
    assert results is not None
    results["relations"] = summarize(name, results)["relations"]
    page = import_module(f"{package}.tables").report(results, pages.expected(package))
    pages.write_results(kept_folder(name), results, page)


def measured(results: Mapping[str, Any]) -> dict[str, float | Measured]:
    """Get the numbers of a run, for `pages.judge`."""
    return {key: Measured(one["measured"], one["error"], one["n"]) for key, one in results["relations"].items()}


def counts(relations: Mapping[str, Mapping[str, Any]]) -> Counter[str]:
    """Count the claims of a paper by verdict, and findings of ours that are within their range.

    A claim of several parts counts once, with the verdict of its worst part.
    """
    claims = [parts for parts in pages.in_entries(relations).values() if parts[0]["reproduced"] is not None]
    verdicts = [pages.verdict_of_parts(parts) for parts in claims]
    ours = [one["within"] for one in relations.values() if one["reproduced"] is None]
    return Counter(
        claims=len(claims),
        parts=sum(map(len, claims)),
        reproduced=verdicts.count("yes"),
        not_reproduced=verdicts.count("no"),
        cannot_be_told=verdicts.count(CANNOT),
        ours=len(ours),
        ours_within=sum(ours),
        outside=sum(not one["within"] for one in relations.values()),
    )


def counts_of_all(papers: Iterable[Mapping[str, Mapping[str, Any]]]) -> Counter[str]:
    """Add the counts of papers; every name is there, also without a paper."""
    found = counts({})
    for relations in papers:
        found.update(counts(relations))
    return found


def counts_in_words(found: Mapping[str, int]) -> list[str]:
    """Write what `counts` gave, as lines."""
    return [
        f"{found['claims']} claims of papers: {found['reproduced']} reproduced, "
        f"{found['not_reproduced']} not reproduced, {found['cannot_be_told']} cannot be told",
        f"{found['ours']} findings of our own: {found['ours_within']} within their range",
        f"{found['outside']} of all {found['parts'] + found['ours']} outside of the range that our runs are held to",
    ]


def keep(name: str, folder: Path) -> list[str]:
    """Copy the results of a full run into the package, in place of those that are there, with figures that are small.

    Returns the names of the files.
    """
    results = _read(folder)
    if results is None or results["quick"]:
        found = "none" if results is None else "a quick one"
        raise ValueError(f"only the results of a full run are kept, found {found} in {folder}")
    drawn = [file for files in results["figures"].values() for file in files if file.endswith(".png")]
    kept = {file: (folder / file).read_bytes() for file in KEPT}
    kept |= {file: _smaller(folder / file) for file in drawn if (folder / file).is_file()}
    kept = {file: data for file, data in kept.items() if file in KEPT or len(data) <= LARGEST_FIGURE_BYTES}
    goal = kept_folder(name)
    if goal.exists():
        shutil.rmtree(goal)
    goal.mkdir()
    for file, data in kept.items():
        (goal / file).write_bytes(data)
    return list(kept)


def _smaller(picture: Path) -> bytes:
    """Reduce a picture to 256 colours: the loss cannot be seen, and a third of the bytes is left."""
    image = import_extra("PIL.Image", extra="plot", purpose="keeping the figures of a paper")
    written = BytesIO()
    with image.open(picture) as opened:
        opened.convert("RGB").quantize(256).save(written, "png", optimize=True)
    return written.getvalue()
