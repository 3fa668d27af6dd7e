"""Parts that the papers share: tables in Markdown, findings and their verdicts, the machine, files."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.atomic import write_atomically
from latentbits.core.version import __version__

__all__ = [
    "CANNOT",
    "COLUMNS",
    "Measured",
    "averaged",
    "doubts",
    "expected",
    "findings",
    "head",
    "in_entries",
    "judge",
    "machine",
    "markdown",
    "measured_on",
    "page",
    "pictures",
    "save",
    "share_of",
    "table_rows",
    "verdict_of_parts",
    "write_results",
]

CANNOT = "cannot be told"


def expected(package: str) -> dict[str, Any]:
    """Read expected.json of a paper: the numbers that it reports, and the ranges that ours are held to.

    Relations that are parts of one claim name it by `entry`; here the name is replaced by the words that `entries` has.
    """
    held_to = json.loads(resources.files(package).joinpath("expected.json").read_text("utf-8"))
    relations = held_to["relations"] = {
        key: relation
        for name, one in held_to["relations"].items()
        for key, relation in (_of_cells(name, one, held_to.get("called", {})) if "cells" in one else ((name, one),))
    }
    for one in relations.values():
        if "entry" in one:
            one["entry"] = held_to["entries"][one["entry"]]
    return held_to


def _of_cells(name: str, table: Mapping[str, Any], called: Mapping[str, str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the relations of the cells of a table: names and words are forms that the name of a cell fills in.

    A cell has the paper's value, least and most, the least and most of ours, and what the paper says; the former three
    are left out where the relation is ours alone.

    >>> table = {"says": "{1} of {0}", "where": "p. 1", "entry": "{0}", "cells": {"a loss": [1, 0, 2, 3, 4, "one run"]}}
    >>> ((name, found),) = _of_cells("large_{0}_{1}", table, {"a": "all"})
    >>> name, found["says"], found["paper"], found["ours"]["most"]
    ('large_a_loss', 'loss of all', {'value': 1, 'least': 0, 'most': 2, 'words': 'one run'}, 4)
    """
    for key, cell in table["cells"].items():
        parts, numbers = key.split(), [x for x in cell if not isinstance(x, str)]
        words = [{**called, **table.get("called", {})}.get(part, part) for part in parts]
        one: dict[str, Any] = {"says": table["says"].format(*words)}
        if len(numbers) > 2:
            paper = dict(zip(("value", "least", "most"), numbers, strict=False))
            paper["words"] = cell[-1] if len(cell) > len(numbers) else table["words"]
            one |= {"paper": paper, **{what: table[what] for what in ("where", "possible") if what in table}}
            one |= {"entry": table["entry"].format(*parts)} if "entry" in table else {}
        one["ours"] = dict(zip(("least", "most"), numbers[-2:], strict=True))
        doubts = [doubt for start, doubt in table.get("doubts", {}).items() if key.startswith(start)]
        yield name.format(*parts), one | ({"doubt": doubts[0]} if doubts else {})


def save(figure: Any, out: Path, name: str) -> list[str]:
    """Write a figure as png and svg; give the names of the files."""
    from matplotlib import pyplot as plt

    from latentbits.figures.any_model.pictures import save_figure

    paths = [save_figure(figure, out / f"{name}.{kind}") for kind in ("png", "svg")]
    plt.close(figure)
    return [path.name for path in paths]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Write a table; the first `left` columns are text, the others are numbers.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    | :-- | --: |
    | x | 1 |
    """
    marks = [":--" if place < left else "--:" for place in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, marks, *rows))


class Measured(NamedTuple):
    """A number that our runs gave."""

    value: float  # the number
    error: float | None = None  # its standard error over runs; None where it has none: an exact number, or a single run
    n: int | None = None  # runs that it comes from; None where that means nothing


def averaged(values: Any) -> Measured:
    """Average over runs, with the standard error; one run has none."""
    values = np.asarray(values, dtype=float)
    error = None if len(values) < 2 else float(values.std(ddof=1) / np.sqrt(len(values)))
    return Measured(float(values.mean()), error, len(values))


def share_of(flags: Any) -> Measured:
    """Compute the share of runs in which something is so, with its standard error.

    That none of a few runs failed does not make the error 0: it is that of one more run of each kind (Laplace's rule).
    """
    flags = np.asarray(flags, dtype=bool)
    n, n_so = len(flags), int(np.count_nonzero(flags))
    guess = (n_so + 1) / (n + 2)
    return Measured(n_so / n, float(np.sqrt(guess * (1 - guess) / n)), n)


def judge(
    relations: Mapping[str, Mapping[str, Any]], measured: Mapping[str, float | Measured]
) -> dict[str, dict[str, Any]]:
    """Each finding of expected.json that was measured, with what was found and two verdicts.

    `reproduced` is about the paper: None where the finding is ours alone, else "yes", "no" or "cannot be told"
    (`is_reproduced`).  `within` is about us: whether the number is within the range that our own runs are held to.

    >>> claim = {"paper": {"value": 3, "least": 2.5, "most": None}, "ours": {"least": 1, "most": 2}}
    >>> found = judge({"a": claim}, {"a": 2})["a"]
    >>> found["reproduced"], found["within"]
    ('no', True)
    """
    return {name: _judged(one, measured[name]) for name, one in relations.items() if name in measured}


def _judged(one: Mapping[str, Any], found: float | Measured) -> dict[str, Any]:
    value, error, n = found if isinstance(found, Measured) else Measured(found)
    value, error = float(value), None if error is None else float(error)
    return {
        **one,
        "measured": value,
        "error": error,
        "n": n,
        "reproduced": is_reproduced(one.get("paper"), value, error, one.get("possible", (None, None)), n),
        "within": _lies(value, one["ours"]["least"], one["ours"]["most"]),
    }


def is_reproduced(
    paper: Mapping[str, Any] | None,
    value: float,
    error: float | None = None,
    possible: Sequence[float | None] = (None, None),
    n: int | None = None,
) -> str | None:
    """Judge whether a number of ours is the one that the paper claims.

    "yes" within the paper's range, "no" if outside it by more than two standard errors.  It cannot be told where the
    paper gives no range, just outside, and where two standard errors stick out of the range at every end that it has:
    then hardly any number would have been refused.  A bound that no number can exceed (a share of at most 1) is no end
    of the range: `possible` has the least and the most that can come out.  Nor can it be told of a single run (`n` = 1)
    without an error, nor where the claim is from memory (``"unverified"``).

    >>> claim = {"least": 0, "most": None}
    >>> is_reproduced(claim, 1.0, 0.2), is_reproduced(claim, 1.0, 0.8), is_reproduced(claim, -1.0, 0.2)
    ('yes', 'cannot be told', 'no')
    >>> is_reproduced(claim, 1.0, None, n=1), is_reproduced({**claim, "unverified": True}, -1.0)
    ('cannot be told', 'cannot be told')
    >>> share = {"least": 0.9, "most": 1}
    >>> is_reproduced(share, 0.91, 0.02), is_reproduced(share, 0.91, 0.02, (0, 1))
    ('yes', 'cannot be told')
    """
    if paper is None:
        return None
    if paper.get("unverified") or (n == 1 and error is None):
        return CANNOT
    lowest, highest = possible
    least: float | None = paper["least"]
    most: float | None = paper["most"]
    if least is not None and lowest is not None and least <= lowest:
        least = None
    if most is not None and highest is not None and most >= highest:
        most = None
    around = 2 * (error or 0.0)
    if (least is not None and value + around < least) or (most is not None and value - around > most):
        return "no"
    # an end of the range could refuse a number only if the error does not stick out of it
    inside = (least is not None and value - around >= least) or (most is not None and value + around <= most)
    return "yes" if inside and _lies(value, least, most) else CANNOT


def verdict_of_parts(parts: Iterable[Mapping[str, Any]]) -> str:
    """Give the verdict of a claim from those of its parts: the worst of them.

    >>> verdict_of_parts([{"reproduced": "yes"}, {"reproduced": "cannot be told"}])
    'cannot be told'
    """
    verdicts = {one["reproduced"] for one in parts}
    return next(verdict for verdict in ("no", CANNOT, "yes") if verdict in verdicts)


def in_entries(relations: Mapping[str, Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    """Put relations that are parts of one claim together, in the order of the first of each; others stand alone."""
    entries: dict[str, list[Mapping[str, Any]]] = {}
    for name, one in relations.items():
        entries.setdefault(one.get("entry", name), []).append(one)
    return entries


def _lies(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def findings(relations: Mapping[str, Mapping[str, Any]]) -> str:
    """Show what `judge` gave as a table, with our doubts about the paper below it."""
    rows = [[cell.replace("|", "\\|") for cell in row] for row in table_rows(relations)]
    rows = [[*row[:-2], *(re.sub(r"^no\b", "**no**", cell) for cell in row[-2:])] for row in rows]
    said = "\n".join(f"- {line}" for line in doubts(relations))
    return "\n\n".join([markdown(COLUMNS, rows, left=len(COLUMNS)), *([said] if said else [])])


def table_rows(relations: Mapping[str, Mapping[str, Any]]) -> list[list[str]]:
    """List the rows of the table; a claim of several parts has a row for itself, and its parts follow it."""
    rows = []
    for words, parts in in_entries(relations).items():
        if "entry" not in parts[0]:
            rows.append(in_cells(parts[0]))
            continue
        doubted = ", doubted" if any("doubt" in one for one in parts) else ""
        rows.append([words, "", "", f"{len(parts)} parts", verdict_of_parts(parts) + doubted, ""])
        rows += [[f"– {first}", *rest] for first, *rest in map(in_cells, parts)]
    return rows


def doubts(relations: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List where we think that the paper is wrong, and why."""
    return [f"{one['says']}: we doubt the paper here. {one['doubt']}" for one in relations.values() if "doubt" in one]


COLUMNS = ("claim", "where", "paper", "ours", "reproduced", "within our range")


def in_cells(one: Mapping[str, Any]) -> list[str]:
    """Write a finding as a row of the table."""
    reproduced = one["reproduced"] or ""
    return [
        one["says"],
        one.get("where", ""),
        _claimed(one["paper"]) if "paper" in one else "",
        in_words(Measured(one["measured"], one["error"], one["n"])),
        f"{reproduced}, doubted" if "doubt" in one else reproduced,
        f"{'yes' if one['within'] else 'no'}: {range_in_words(one['ours'])}",
    ]


def _claimed(paper: Mapping[str, Any]) -> str:
    """
    >>> _claimed({"value": 0.978, "least": 0.969, "most": 0.987, "words": "978 of 1000"})
    '0.978, 978 of 1000 (0.969 to 0.987)'
    >>> _claimed({"value": None, "least": None, "most": None, "words": "it scales", "unverified": True})
    'it scales (unverified)'
    """
    value = [] if paper["value"] is None else [f"{paper['value']:.12g}"]
    said = ", ".join([*value, *([paper["words"]] if "words" in paper else [])])
    within = range_in_words(paper)
    text = f"{said} ({within})" if said and within else said or within
    return f"{text} (unverified)" if paper.get("unverified") else text  # of a text that we do not have


def in_words(found: Measured) -> str:
    """
    >>> in_words(Measured(0.97832, 0.0046, 1000)), in_words(Measured(2, None, None))
    ('0.9783 ± 0.0046, 1000 runs', '2')
    """
    value, error, n = found
    if error is not None and np.isfinite(error) and error > 0:
        digits = max(0, 1 - int(np.floor(np.log10(error))))
        text = f"{value:.{digits}f} ± {error:.{digits}f}"
    else:
        text = f"{value:.4g}"
    return text if n is None else f"{text}, {n} run{'' if n == 1 else 's'}"


def range_in_words(one: Mapping[str, Any]) -> str:
    """
    >>> range_in_words({"least": 1.0, "most": None}), range_in_words({"least": 0.2, "most": 0.35})
    ('at least 1', '0.2 to 0.35')
    """
    least, most = one["least"], one["most"]
    if least is None:
        return "" if most is None else f"at most {most:.12g}"
    if most is None:
        return f"at least {least:.12g}"
    return f"{least:.12g}" if least == most else f"{least:.12g} to {most:.12g}"


def head(title: str, quick: str, results: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """Begin a page; `quick` says what a quick run is short of."""
    return [
        f"# {title}",
        expected["citation"],
        *(f"**Note.** {note}" for note in results["notes"]),
        *([f"**A quick run**: {quick}."] if results["quick"] else []),
    ]


def pictures(
    files: Mapping[str, Sequence[str]],
    captions: Mapping[str, str],
    titles: Mapping[str, str] | None = None,
    alt: str = "Figure {}",
) -> list[str]:
    """Show all figures with their captions; `titles` are of those that have other than a number."""
    return [
        f"**{(titles or {}).get(name, f'Figure {name}')}.** {captions[name]}\n\n![{alt.format(name)}]({found[0]})"
        for name, found in files.items()
    ]


def measured_on(machine: Mapping[str, Any]) -> str:
    """Put `machine` in words."""
    return (
        f"Measured on {machine['date']}, with {machine['cores']} cores ({machine['processor']}, {machine['device']}), "
        f"latentbits {machine['latentbits']}, jax {machine['jax']}."
    )


def page(
    title: str,
    quick: str,
    results: Mapping[str, Any],
    expected: Mapping[str, Any],
    body: Sequence[str],
    shown: Sequence[str],
) -> str:
    """Write a page in Markdown: head, findings, what the paper alone has, figures, and the machine."""
    parts = [
        *head(title, quick, results, expected),
        "## Do the paper's findings hold?",
        findings(results["relations"]),
        *body,
        "## Figures",
        *shown,
        measured_on(results["machine"]),
    ]
    return "\n\n".join(parts) + "\n"


def machine() -> dict[str, Any]:
    """Record what the numbers were measured with, and when."""
    import jax

    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "device": jax.default_backend(),
        "latentbits": __version__,
        "jax": jax.__version__,
    }


def write_results(out: Path, results: Mapping[str, Any], page: str) -> None:
    """Write ``results.json`` and ``results.md``, whole or not at all."""
    for name, text in (("results.json", _on_lines(results) + "\n"), ("results.md", page)):
        with write_atomically(out / name) as file:
            file.write(text.encode())


def _on_lines(results: Mapping[str, Any]) -> str:
    """Write Json with a line for each name, and for each list of numbers or words.

    >>> print(_on_lines({"a": [1, 2.5], "b": {"c": []}}))
    {
     "a": [1, 2.5],
     "b": {
      "c": []
     }
    }
    """
    text = json.dumps(results, indent=1)  # in text a line's end is written as two signs, so these are those of lists
    return re.sub(r"\[\n\s*([^][{}]*?)\n\s*\]", lambda found: "[" + re.sub(r",\n\s*", ", ", found[1]) + "]", text)
