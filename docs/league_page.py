"""The page of the league, made of the results that are kept in the package; conf.py writes ``docs/league.md``."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from latentbits.league import kept_results, table
from latentbits.league.entries import ENTRIES
from latentbits.league.published import PUBLISHED
from latentbits.league.run import value_in_words
from latentbits.league.sets import SETS, describe
from latentbits.papers.pages import markdown

__all__ = ["page", "write"]

INTRODUCTION = """\
Twenty public sets of bits have been used to compare density models for years, each cut into training, validation and
test rows. `latentbits league` fits every family of this library to them, and sets the test log-likelihoods, in nats per
row (the larger the better), beside what others have published."""

HOW = """\
- **Learning** is from the training rows. Families that learn in many passes stop when the validation rows gain no more
  (`fit(X, X_val=...)`).
- **Choosing** is by the validation rows alone. From a first setting one number is changed at a time, for as long as
  validation rows gain and the time lasts; notes say what was not tried for want of time.
- **Testing** is done once, for what was chosen. The model in the first table is that of the family that validation rows
  chose.
- **The stack of all** is the mixture of what the families chose, with the weights under which the validation rows are
  most probable.
- **What a stack gains** may be rows that repeat. On dna all of its gain over the latent tree is in test rows that a
  training row equals, or nearly: 162 of 1186 differ from one in at most 20 of 180 bits and gain 9 nats each on average;
  the others lose 0.03.
- **Standard errors** are over test rows, and hold what is estimated in a log-likelihood (log Z, integrals) as well.
- **First** says that our number is the larger, not that chance cannot have made it so. The sentence below the first
  table counts the stacks.
- **Ranks** are among ours and what was verified. Numbers that are *unverified* are as remembered, and were not checked
  against the papers; they have no rank."""

AGAIN = """\
    latentbits league --jobs 8 --out league                    # all sets that can be had
    latentbits league kdd --budget 60                          # one of them
    latentbits league --summary                                # what is on this page

Sets come from the folder that `LATENTBITS_DATA` names, as `debd/kdd.npz` with packed `train`, `valid` and `test` rows,
or from the network. Fits are kept as they end, and the same command goes on from there. `--keep` takes the results into
the package."""


def write(path: Path) -> None:
    """The page, in place of the one that is there."""
    path.write_text(page(kept_results.in_package()), "utf-8")


def page(results: Mapping[str, Mapping[str, Any]]) -> str:
    """The standings, each set, and how it was done."""
    parts = ["# The density league", INTRODUCTION, *_standings(results), "## How it was done", HOW]
    parts += ["What each family chooses from:", _ladders(), "Where the other numbers come from:", _sources()]
    parts += ["## Run it again", AGAIN]
    for result in results.values():
        parts += _of_set(result)
    return "\n\n".join(parts) + "\n"


def _standings(results: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    yield "## Where we stand"
    if not results:
        yield "No run is kept yet. `latentbits league --keep` makes one."
        return
    yield table.summary(results.values()).to_markdown()
    yield table.counts(results.values())
    yield _time(results) + " " + " ".join(f"{text}." for text in table.made_on(results))
    missing = [name for name in SETS if name not in results]
    if missing:
        yield f"Not run: {', '.join(f'`{name}` ({describe(name)})' for name in missing)}."


def _time(results: Mapping[str, Mapping[str, Any]]) -> str:
    """What families took, scoring included: runs are kept that had different budgets."""
    every = [line.seconds for one in results.values() for line in table.lines(one) if line.seconds is not None]
    least, most = (f"{seconds:.0f}" for seconds in (min(every), max(every)))
    took = least if least == most else f"{least} to {most}"
    return f"A family took {took} seconds on a set; notes say what its budget left untried."


def _ladders() -> str:
    rows = []
    for one in ENTRIES:
        choices = "; ".join(f"{axis.name} {', '.join(map(value_in_words, axis.values))}" for axis in one.axes)
        rows.append([one.called, choices, "yes" if one.held_out else "no"])
    return markdown(["family", "settings", "stops by validation rows"], rows, left=3)


def _sources() -> str:
    return "\n".join(
        f"- {one.name} ({'verified' if one.verified else '**unverified**'}): {one.source}." for one in PUBLISHED
    )


def _of_set(result: Mapping[str, Any]) -> Iterator[str]:
    lines = table.lines(result)
    yield f"## {result['set']}"
    yield f"{table.title(result)}."
    yield table.as_table(result).to_markdown()
    notes = [f"- {line.model}: {line.note}." for line in lines if line.note]
    if notes:
        yield "\n".join(notes)
