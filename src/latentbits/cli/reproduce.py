"""`latentbits reproduce`: the experiments of the papers, repeated."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from latentbits.cli.completion import papers
from latentbits.cli.console import common_options, give, say, show_line
from latentbits.cli.reports import show_table
from latentbits.core.atomic import check_writable
from latentbits.core.errors import did_you_mean

__all__ = ["reproduce"]

ALL = "all"


@click.command(short_help="Repeat the experiments of a paper, or of all.")
@click.argument("paper", required=False, shell_complete=papers)
@click.option(
    "--out",
    type=click.Path(file_okay=False),
    help="A folder, made if need be; with all, for a folder of each paper.  [default: the paper's name; papers]",
)
@click.option("--quick", is_flag=True, help="Smaller and fewer experiments, in a minute or two for each paper.")
@click.option("--full", is_flag=True, help="All experiments, which is also done without this option.")
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Parts to do at a time, each in a process.  [default: the cores]"
)
@click.option(
    "--summary", is_flag=True, help="Do nothing, and print what a full run found: the one kept here, or that in --out."
)
@click.option("--keep", is_flag=True, help="Copy what a full run found into the package, for --summary and the docs.")
@common_options
@click.pass_context
def reproduce(
    ctx: click.Context,
    paper: str | None,
    out: str | None,
    quick: bool,
    full: bool,
    jobs: int | None,
    summary: bool,
    keep: bool,
    as_json: bool,
) -> None:
    """Repeat the experiments of PAPER, or of "all"; without it, list the papers.

    Writes results.md (the paper's claims beside our numbers), results.json and the figures.  The same command goes on
    from what was kept below the folder "runs" when it was interrupted.  Every claim is reproduced, or not, or it cannot
    be said; and every number is held to our range, where the exit code is 3 if one is outside.
    """
    from latentbits.papers import PAPERS

    if quick and full:
        raise click.UsageError("--quick and --full exclude each other.")
    if quick and keep:
        raise click.UsageError("--keep is for what a full run found, and --quick is none.")
    if paper is not None and paper not in (ALL, *PAPERS):
        known = (*PAPERS, ALL)
        raise click.UsageError(
            f"there is no paper {paper!r} here; known are {', '.join(known)}.{did_you_mean(paper, known)}"
        )
    names = list(PAPERS) if paper in (None, ALL) else [paper]
    if summary:
        if quick or full or jobs is not None:
            raise click.UsageError("--summary does nothing that --quick, --full or --jobs could change.")
        if keep and out is None:
            raise click.UsageError("--summary --keep needs --out FOLDER, to copy from.")
        outside = _summarize(names, None if out is None else Path(out), keep, as_json)
    elif paper is None:
        if out is not None or quick or full or keep or jobs is not None:
            raise click.UsageError("options need the name of a PAPER, or all; --summary does not.")
        _list(as_json)
        return
    else:
        outside = _repeat(paper, names, out, quick, jobs, keep, as_json)
    if outside:
        say(f"error: outside of the range that our own runs are held to: {', '.join(outside)}")
        ctx.exit(3)  # one of our own ranges failed


def _list(as_json: bool) -> None:
    from latentbits.papers import PAPERS

    def show() -> None:
        rows = [[paper.name, paper.citation, paper.repeated] for paper in PAPERS.values()]
        show_table(["name", "paper", "what is repeated"], rows)

    give({"papers": [paper._asdict() for paper in PAPERS.values()]}, as_json, show)


# --- doing it ---


def _repeat(
    paper: str, names: list[str], out: str | None, quick: bool, jobs: int | None, keep: bool, as_json: bool
) -> list[str]:
    """Give the findings that are outside of our ranges."""
    from latentbits.papers import PAPERS, side_by_side, summary

    together = paper == ALL
    out = ("papers" if together else paper) if out is None else out
    folders = {name: Path(out) / name if together else Path(out) for name in names}
    for name, folder in folders.items():
        folder.mkdir(parents=True, exist_ok=True)
        check_writable(folder / "results.json")  # before the experiments
        say(f"{PAPERS[name].citation}: {PAPERS[name].repeated}")

    def tell(name: str, text: str) -> None:
        say(f"{name}: {text}" if together else text)

    ended = side_by_side.reproduce_all(folders, quick=quick, jobs=jobs, say=tell)
    for name, results in ended.results.items():
        for note in results["notes"]:
            tell(name, f"note: {note}")
        tell(name, f"wrote {folders[name]}: results.md, results.json and figures")
        if keep:
            tell(name, f"kept {', '.join(summary.keep(name, folders[name]))}")
    results = {name: ended.results[name] for name in names if name in ended.results}  # in their order
    relations = {name: one["relations"] for name, one in results.items()}
    if together:
        found = {name: summary.summarize(name, one) for name, one in results.items()}
        given = {"out": out, "papers": found, "counts": _counts(relations)}
    else:
        given = {"out": out, **next(iter(results.values()), {})}
    if results:
        give(given, as_json, lambda: _show(relations))
    for error in ended.failed.values():
        raise error  # the first, which says why; all were printed
    return _outside(relations)


# --- showing it ---


def _summarize(names: list[str], folder: Path | None, keep: bool, as_json: bool) -> list[str]:
    """Give the findings that are outside of our ranges."""
    from latentbits.papers import summary

    results = {name: summary.in_package(name) for name in names} if folder is None else summary.in_folder(folder)
    found = {name: summary.summarize(name, one) for name in names if (one := results.get(name)) is not None}
    missing = [name for name in names if name not in found]
    if folder is not None and not found:
        raise ValueError(
            f"--out must hold results of `latentbits reproduce`, found none of {', '.join(names)} in {folder}"
        )
    if keep:
        assert folder is not None
        for name in found:
            there = folder / name if (folder / name / "results.json").is_file() else folder
            say(f"{name}: kept {', '.join(summary.keep(name, there))}")
    relations = {name: one["relations"] for name, one in found.items()}

    def show() -> None:
        _show(relations, {name: _run_in_words(one) for name, one in found.items()})
        for name in missing:
            show_line(f"{name}: {'no full run is kept yet' if folder is None else 'no results'}")

    give({"papers": found, "missing": missing, "counts": _counts(relations)}, as_json, show)
    return _outside(relations)


def _run_in_words(found: Mapping[str, Any]) -> list[str]:
    from latentbits.papers import pages

    return [
        *(["A quick run: not what the paper did."] if found["quick"] else []),
        *(f"Note: {note}" for note in found["notes"]),
        *([f"Not measured in this run: {', '.join(found['not_measured'])}."] if found["not_measured"] else []),
        pages.measured_on(found["machine"]),
    ]


def _outside(relations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    return [f"{key} of {name}" for name, found in relations.items() for key, one in found.items() if not one["within"]]


def _counts(relations: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    from latentbits.papers import summary

    return summary.counts_of_all(relations.values())


def _show(relations: Mapping[str, Mapping[str, Any]], words: Mapping[str, list[str]] | None = None) -> None:
    """Print what the papers claim, what came out, and both verdicts; then how many of each there are."""
    from latentbits.papers import PAPERS, pages, summary

    for name, found in relations.items():
        show_table(pages.COLUMNS, pages.table_rows(found), title=PAPERS[name].citation)
        for line in [*pages.doubts(found), *(words or {}).get(name, [])]:
            show_line(line)
        show_line("")
    if relations:
        for line in summary.counts_in_words(_counts(relations)):
            show_line(line)
