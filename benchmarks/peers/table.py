"""README.md from results.json: a summary of ratios, a section a family, and where we are not ahead.

A ratio says how many times the peer takes what we take: above 1 we are ahead.  It is taken within a round, and the
median of the rounds is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from inspect import cleandoc
from statistics import median
from typing import Any, NamedTuple

from benchmarks.peers.contender import NotWaitedFor

from latentbits.papers.pages import markdown

__all__ = ["NONE", "SUMMARY", "Line", "lines", "machines", "page", "section", "summary_cells"]

OURS = "latentbits"
LEVEL = 0.01  # nats a row that ours may be below a peer's and still count as the same quality
LEAST_MB = 1.0  # less memory than that counts as this much
MEASURES = {"warm": "warm_s", "first answer": "first_s", "memory": "peak_mb"}
SUMMARY = (
    "family",
    "table",
    "peer",
    "times faster, warm",
    "first answer",
    "times less memory",
    "held-out, ours - peer",
)
FULL = ("", "version", "first answer, s", "warm, s", "peak, MB", "held-out, nats a row", *MEASURES)
SHOWN = ("first_s", "warm_s", "peak_mb", "held_out")
NONE = "No full run is kept yet."

HEAD = """\
# Benchmarks

Every family of models beside its peers: other libraries that fit the same model, or do the same job. All numbers below
come from runs that `results.json` keeps; this page is made of them by `benchmarks/peers/table.py`, not by hand."""
HOW = """\
## How to run it

    make bench                                   # an environment in build/bench, then everything
    python -m benchmarks.peers --quick           # small tables, one round, nothing is written
    python -m benchmarks.peers --only mixture    # one family
    python -m benchmarks.peers --write           # results.json and this page, written again after each family
    python -m benchmarks.peers --readme          # this page alone, from results.json

Peers that cannot live in one environment are found by `--peer-python PYTHON ...`, which names other interpreters.
Packages of R are used where `Rscript` finds them. Public sets are read from the folder that `LATENTBITS_DATA` names."""
BELIEVE = f"""\
## What to believe

- **Ratios, not seconds.** Others may use the same machine. Contenders run in turns, each in a separate process, and a
  ratio is taken between neighbours of one round; tables show the median, and the range over rounds in brackets. Ranges
  that include 1 say that neither is ahead.
- **At equal quality.** Held-out is the mean log-likelihood of a test row, by one function for all contenders. Where
  ours is more than {LEVEL:g} nats below the peer's, no ratio of times is given, and the table says so. Where the peer's
  is below ours, the ratio is given, and the last column tells how far behind it is. Each round has another seed.
- **First answer** is import and first fit, with compilation, in a process that finds no compiled programs. **Warm** is
  the same fit once more in that process. NumPy is imported before, for everybody.
- **Memory** is the most that a process has above what it has after imports and the table, over both fits: what
  compiling takes is in it. Less than {LEAST_MB:g} MB counts as {LEAST_MB:g} MB.
- All contenders may use every core. Conversion of the table to the type that a contender likes best is not timed.
- Columns of public sets that are constant in the rows to learn from are left out, for everybody."""


class Line(NamedTuple):
    """A peer beside ours, on one table.

    Attributes
    ----------
    ratios
        By measure, one a round: above 1 we are ahead.  Empty where there is none to tell.
    ahead
        Nats a row by which ours is above the peer's on test rows (median); None where one of both has no result.
    remark
        Why there is no ratio: absent, failed, or better than ours.
    """

    family: str
    table: str
    peer: str
    ratios: dict[str, list[float]]
    ahead: float | None
    remark: str = ""

    @property
    def behind(self) -> dict[str, float]:
        """The measures in which the median ratio is below 1."""
        return {name: median(found) for name, found in self.ratios.items() if median(found) < 1}


def lines(results: Mapping[str, Any]) -> list[Line]:
    """One for each family, table and peer."""
    return [
        _line(family, title, peer, table["contenders"])
        for family, result in results.get("families", {}).items()
        for title, table in result["tables"].items()
        for peer in table.get("contenders", {})
        if peer != OURS
    ]


def _line(family: str, title: str, peer: str, contenders: Mapping[str, Any]) -> Line:
    ours, theirs = contenders[OURS], contenders[peer]
    for name, one in ((OURS, ours), (peer, theirs)):
        if reason := _no_result(one):
            who = "" if name == peer else "ours "
            return Line(family, title, peer, {}, None, who + reason)
    pairs = list(zip(ours["runs"], theirs["runs"], strict=True))
    ahead = median(one["held_out"] - other["held_out"] for one, other in pairs)
    measures = {name: [_ratio(key, *pair) for pair in pairs] for name, key in MEASURES.items()}
    if not ahead >= -LEVEL:
        return Line(family, title, peer, {"memory": measures["memory"]}, ahead, "ours is below in quality")
    return Line(family, title, peer, measures, ahead)


def _no_result(one: Mapping[str, Any]) -> str:
    if "absent" in one:
        return f"absent: `{one['absent']}`"
    return _failed(one["failed"]) if "failed" in one else ""


def _failed(how: str) -> str:
    """A fit that was not waited for has not failed.

    >>> _failed("benchmarks.peers.contender.NotWaitedFor: would take an hour"), _failed("ValueError: no")
    ('not waited for: would take an hour', 'failed: ValueError: no')
    """
    _, name, reason = how.partition(f"{NotWaitedFor.__name__}: ")
    return f"not waited for: {reason}" if name else f"failed: {how}"


def _ratio(key: str, ours: Mapping[str, float], theirs: Mapping[str, float]) -> float:
    least = LEAST_MB if key == "peak_mb" else 0.0
    return max(theirs[key], least) / max(ours[key], least)


def summary_cells(results: Mapping[str, Any]) -> list[list[str]]:
    """The cells of `SUMMARY`, a row for each family, table and peer."""
    titles = {name: one["title"] for name, one in results.get("families", {}).items()}
    return [
        [titles[line.family], line.table, line.peer, *_in_cells(line, in_short), _signed(line.ahead)]
        for line in lines(results)
    ]


def _in_cells(line: Line, say: Callable[[Sequence[float]], str]) -> list[str]:
    """A cell for each measure; where there is no ratio of times, the first says why."""
    cells = [say(line.ratios[name]) if name in line.ratios else "" for name in MEASURES]
    return [line.remark, *cells[1:]] if line.remark else cells


def in_short(ratios: Sequence[float]) -> str:
    """The median.

    >>> in_short([0.412, 3.26, 120.4]), in_short([1234.4])
    ('3.3', '1234')
    """
    value = median(ratios)
    return f"{value:.2g}" if value < 9.95 else f"{value:.0f}"


def with_range(ratios: Sequence[float]) -> str:
    """The median, and the range over rounds where there are several.

    >>> with_range([3.26]), with_range([1, 2, 3])
    ('3.3', '2 (1 to 3)')
    """
    if len(ratios) == 1:
        return in_short(ratios)
    return f"{in_short(ratios)} ({in_short([min(ratios)])} to {in_short([max(ratios)])})"


def _signed(value: float | None) -> str:
    return "" if value is None else f"{value:+.3f}"


def page(results: Mapping[str, Any], modules: Mapping[str, Any]) -> str:
    """README.md; `modules` are the families' files, whose texts are printed."""
    parts = [HEAD, HOW, BELIEVE]
    if not results.get("families"):
        return "\n\n".join([*parts, "## Results", NONE]) + "\n"
    parts += ["## Results", machines(results), *_missing(results, modules)]
    parts.append(markdown(SUMMARY, summary_cells(results), left=3))
    parts += [*_growth(results), *_not_ahead(results, modules)]
    parts += [part for name in results["families"] for part in section(name, results, modules[name])]
    return "\n\n".join(parts) + "\n"


def _missing(results: Mapping[str, Any], modules: Mapping[str, Any]) -> Iterator[str]:
    """Families, or parts of them, that were not run."""
    for part, title in {"tables": "beside peers", "growth": "how time grows"}.items():
        if names := [one.TITLE for name, one in modules.items() if not results["families"].get(name, {}).get(part)]:
            yield f"No run is kept yet of {', '.join(names)} ({title})."


def machines(results: Mapping[str, Any]) -> str:
    """When and where families were run: a sentence, or one for each machine and day."""
    where: dict[str, list[str]] = {}
    for one in results["families"].values():
        where.setdefault(_where(one), []).append(one["title"])
    if len(where) == 1:
        return f"{next(iter(where))}."
    return "\n".join(f"- {', '.join(titles)}: {place}." for place, titles in where.items())


def _where(one: Mapping[str, Any]) -> str:
    machine = one["machine"]
    memory = f", {machine['memory_gb']:g} GB" if machine["memory_gb"] else ""
    rounds = "one round" if one["rounds"] == 1 else f"{one['rounds']} rounds"
    return (
        f"{one['date']}, {rounds}, {machine['processor']}, {machine['cores']} cores{memory}, {machine['system']}, "
        f"Python {machine['python']}"
    ) + (f" ({one['note']})" if one.get("note") else "")


def _growth(results: Mapping[str, Any]) -> Iterator[str]:
    """One table of all exponents."""
    grows = {name: one["growth"] for name, one in results["families"].items() if one["growth"]}
    if not grows:
        return
    what = list(dict.fromkeys(key for one in grows.values() for key in one))
    titles = {name: one["title"] for name, one in results["families"].items()}
    rows = [[titles[name], *(_power(one.get(key)) for key in what)] for name, one in grows.items()]
    yield "## How time grows"
    yield (
        "The time of a warm pass grows with the size to this power, with its standard error: 1 is in proportion. A "
        "line through the logarithms of four sizes, each twice the last; what does not grow bends it down."
    )
    yield markdown(["family", *(f"with {key}" for key in what)], rows)


def _power(one: Mapping[str, Any] | None) -> str:
    if one is None:
        return ""
    if "failed" in one:
        return _failed(one["failed"])
    error = "" if one["error"] is None else f" ± {one['error']:.2f}"
    return f"{one['exponent']:.2f}{error}"


def _not_ahead(results: Mapping[str, Any], modules: Mapping[str, Any]) -> Iterator[str]:
    """A row for each peer: the range over tables of each measure that is behind, and on which tables if not on all."""
    yield "## Where we are not ahead, and why"
    peers: dict[tuple[str, str], list[Line]] = {}
    for line in lines(results):
        if line.ahead is not None:
            peers.setdefault((line.family, line.peer), []).append(line)
    rows = []
    for (family, peer), found in peers.items():
        if where := list(_behind(found)):
            why = modules[family].WHY.get(peer, "Not looked into yet.")
            rows.append([results["families"][family]["title"], peer, "; ".join(where), why])
    if rows:
        yield markdown(("family", "peer", "where", "why"), rows, left=4)
    else:
        yield "Nowhere, in this run."


def _behind(found: Sequence[Line]) -> Iterator[str]:
    """In what ours is behind a peer, on all tables or on some."""
    for name in MEASURES:
        on = {line.table: line.behind[name] for line in found if name in line.behind}
        if on:
            ends = dict.fromkeys(in_short([end(on.values())]) for end in (min, max))
            yield f"{name} {' to '.join(ends)}{_tables_of(on, found)}"
    below = {line.table: line.ahead for line in found if line.ahead is not None and line.ahead < -LEVEL}
    if below:
        ends = dict.fromkeys(_signed(end(below.values())) for end in (min, max))
        yield f"held-out {' to '.join(ends)}{_tables_of(below, found)}"


def _tables_of(on: Iterable[str], found: Sequence[Line]) -> str:
    named = list(on)
    return "" if len(named) == len(found) else f" ({' and '.join(named)})"


def section(name: str, results: Mapping[str, Any], module: Any) -> Iterator[str]:
    """A family: what is compared, every number, and the times that its exponents come from."""
    result = results["families"][name]
    yield f"## {result['title']}"
    yield cleandoc(module.__doc__)
    compared = {(line.table, line.peer): line for line in lines(results) if line.family == name}
    for title, table in result["tables"].items():
        if "left_out" in table:
            yield f"**{title}**: left out. {table['left_out']}"
            continue
        yield f"**{title}**: {table['rows']} rows and {table['columns']} columns, {table['test_rows']} test rows"
        rows = [_full_row(one, found, compared.get((title, one))) for one, found in table["contenders"].items()]
        yield markdown(FULL, rows, left=2)
    notes = [f"- {one}: {contender.note}" for one, contender in module.CONTENDERS.items() if contender.note]
    if notes:
        yield "\n".join(notes)
    for what, one in result["growth"].items():
        if "failed" not in one:
            pairs = ", ".join(f"{s} ({1000 * t:.3g} ms)" for s, t in zip(one["sizes"], one["seconds"], strict=True))
            yield f"A pass with {what}: {pairs}; to the power {_power(one)}."


def _full_row(name: str, found: Mapping[str, Any], line: Line | None) -> list[str]:
    if reason := _no_result(found):
        return [name, "", reason, *[""] * (len(FULL) - 3)]
    first, warm, peak, held_out = (median(run[key] for run in found["runs"]) for key in SHOWN)
    cells = [name, found["version"], f"{first:.3g}", f"{warm:.3g}", f"{peak:.0f}", f"{held_out:.4f}"]
    return [*cells, *(_in_cells(line, with_range) if line else [""] * len(MEASURES))]
