"""The page that gathers what is known of how good the models are; conf.py writes ``docs/evidence.md``.

It holds numbers of runs that the package keeps, and where the others come from.  No number is written by hand.
"""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

from latentbits.league import kept_results, table
from latentbits.papers import PAPERS, pages, summary

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))  # the benchmarks are part of a checkout, not of the package
from benchmarks.peers import table as peers  # noqa: E402

__all__ = ["page", "write"]

BENCHMARKS = ROOT / "benchmarks"
HEAD = """\
---
myst:
  html_meta:
    description: "How good are the models of latentbits? Five papers repeated, and a league of density models on \
public sets of bits, and time and memory beside other libraries, from kept runs."
---
# Evidence

Why should these numbers be trusted? Five families come each from one paper, whose experiments are repeated. All that
take bits are held against published numbers on public sets. Families are timed beside other libraries. The tables are
made of runs that are kept, with their date and machine. Errors, and more of speed and memory, have scripts that measure
them."""
PAPERS_TEXT = """\
A claim is *reproduced* where our number is within the range that follows from the paper, *not reproduced* where it is
outside by more than two standard errors, and otherwise it *cannot be told*. {doc}`papers/index` has every claim."""
LEAGUE_TEXT = """\
Test log-likelihoods in nats per row, the larger the better, beside the best of others' that was verified; few were. The
model and its settings were chosen on validation rows. *First* says that our number is the larger, not that chance
cannot have made it so; ranks are among ours and what was verified. The sentence below the table counts the *stack of
all*, a mixture of all families. {doc}`league` has every family on every set, how it was done, and where a stack's gain
is of rows that repeat."""
PEERS_TEXT = f"""\
How many times longer a peer takes for the same fit: above 1 we are ahead. There is no such number where our held-out
likelihood is more than {peers.LEVEL:g} nats per row below the peer's. *First answer* has import and compilation in it,
*warm* is the same fit once more; memory is what a fit takes above table and imports. `make bench` in a checkout repeats
it, and `benchmarks/README.md` has every number, how it was measured, and why we are not ahead where we are not."""
BENCHMARKS_TEXT = """\
More scripts in `benchmarks/` of a checkout, each of which prints a table. They compare with other libraries where there
are any (`benchmarks/requirements.txt`), or with the truth."""
PAGES = "```{toctree}\n:hidden:\n\npapers/index\nleague\n```"  # below this one
NONE = "No full run is kept yet."


def write(path: Path) -> None:
    """The page, in place of the one that is there."""
    papers = {name: summary.in_package(name) for name in PAPERS}
    path.write_text(page(papers, kept_results.in_package(), BENCHMARKS), "utf-8")


def page(
    papers: Mapping[str, Mapping[str, Any] | None], league: Mapping[str, Mapping[str, Any]], benchmarks: Path
) -> str:
    """Papers, league and benchmarks, one after the other."""
    parts = [HEAD, "## The papers, repeated", PAPERS_TEXT, *_of_papers(papers)]
    parts += ["## The league", LEAGUE_TEXT, *_of_league(league)]
    parts += ["## Beside other libraries", PEERS_TEXT, *_of_peers(benchmarks)]
    parts += ["## Benchmarks", BENCHMARKS_TEXT, *_of_benchmarks(benchmarks), PAGES]
    return "\n\n".join(parts) + "\n"


def _of_papers(papers: Mapping[str, Mapping[str, Any] | None]) -> Iterator[str]:
    verdicts = ("claims", "reproduced", "not_reproduced", "cannot_be_told")
    rows = []
    for name, results in papers.items():
        link = f"[{PAPERS[name].citation.split(',')[0]}](papers/{name}.md)"
        if results is None:
            rows.append([link, NONE, *[""] * len(verdicts)])
            continue
        counted = summary.counts(summary.summarize(name, results)["relations"])
        rows.append([link, PAPERS[name].repeated, *(str(counted[one]) for one in verdicts)])
    yield pages.markdown(["paper", "what is repeated", *(one.replace("_", " ") for one in verdicts)], rows, left=2)


def _of_league(league: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if not league:
        yield NONE
        return
    yield table.summary(league.values()).to_markdown()
    yield table.counts(league.values())


def _of_peers(folder: Path) -> Iterator[str]:
    file = folder / "results.json"
    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    if not results.get("families"):
        yield NONE
        return
    yield pages.markdown(peers.SUMMARY, peers.summary_cells(results), left=3)
    yield peers.machines(results)
    families = sorted(one.stem for one in (folder / "peers" / "families").glob("[a-z]*.py"))
    missing = [one for one in families if not results["families"].get(one, {}).get("tables")]
    if missing:
        titles = [import_module(f"benchmarks.peers.families.{one}").TITLE for one in missing]
        yield f"No run is kept yet of {', '.join(titles)}."


def _of_benchmarks(folder: Path) -> Iterator[str]:
    rows = [[f"`{file.name}`", _first_line(file)] for file in sorted(folder.glob("*.py"))]
    yield pages.markdown(["script", "what it measures"], rows, left=2)


def _first_line(file: Path) -> str:
    """Of what a script says of itself."""
    words = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
    return words.partition("\n")[0].replace("|", "\\|")
