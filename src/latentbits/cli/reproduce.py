"""`latentbits reproduce`: the experiments of the papers, repeated."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from latentbits.cli.console import common_options, give, print_table, say
from latentbits.core.atomic import check_writable

__all__ = ["reproduce"]


@click.command(short_help="Repeat the experiments of a paper.")
@click.argument("paper", required=False)
@click.option("--out", type=click.Path(file_okay=False), help="A folder, made if need be.  [default: the paper's name]")
@click.option("--quick", is_flag=True, help="Smaller and fewer experiments, in about a minute.")
@common_options
def reproduce(paper: str | None, out: str | None, quick: bool, as_json: bool) -> None:
    """Repeat the experiments of PAPER; without it, list the papers.

    Writes results.md (the paper's numbers beside ours), results.json and the figures.
    """
    if paper is None:
        if out is not None or quick:
            raise click.UsageError("--out and --quick need the name of a PAPER.")
        _list(as_json)
        return
    from latentbits.papers import PAPERS
    from latentbits.papers import reproduce as repeat

    if paper not in PAPERS:
        raise click.UsageError(f"there is no paper {paper!r} here; known are {', '.join(PAPERS)}")

    folder = paper if out is None else out
    Path(folder).mkdir(parents=True, exist_ok=True)
    check_writable(Path(folder) / "results.json")  # before the experiments
    say(f"{PAPERS[paper].citation}: {PAPERS[paper].repeated}")
    results = repeat(paper, folder, quick=quick, say=say)
    for note in results.get("notes", ()):
        say(f"note: {note}")
    say(f"wrote {folder}: results.md, results.json and figures")
    give({"out": folder, **results}, as_json, lambda: _show(results))


def _list(as_json: bool) -> None:
    from latentbits.papers import PAPERS

    def show() -> None:
        rows = [[paper.name, paper.citation, paper.repeated] for paper in PAPERS.values()]
        print_table(["name", "paper", "what is repeated"], rows, left=3)

    give({"papers": [paper._asdict() for paper in PAPERS.values()]}, as_json, show)


def _show(results: dict[str, Any]) -> None:
    """What the paper claims, what came out, and both verdicts."""
    from latentbits.papers import pages

    rows = [pages.in_cells(one) for one in results["relations"].values()]
    print_table(list(pages.COLUMNS), rows, left=len(pages.COLUMNS))
