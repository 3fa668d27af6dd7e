"""The league as tables: who is where on each set, and how far ours are from the best that was verified."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from latentbits.league.entries import ENTRIES
from latentbits.league.published import PUBLISHED, best_verified
from latentbits.league.run import in_words
from latentbits.league.sets import describe
from latentbits.reports.numbers import Measured
from latentbits.reports.record import Table

__all__ = [
    *("STACK", "Line", "Standing", "as_table", "counts", "every_line", "lines", "made_on", "standing", "summary"),
    *("title", "verdict"),
]

STACK = "stack of all"
LEVEL = "within one standard error"
MOST_WEIGHTS_SHOWN = 2  # of a stack, in a line


class Line(NamedTuple):
    """One model, ours or another's, on one set."""

    set: str
    # among ours and those that were verified, by the test rows; None of what was not verified, or has failed
    rank: int | None
    # model, settings: its name, and what was chosen
    model: str
    settings: str
    kind: str  # "ours", "verified" or "unverified"
    # valid, test, error: nats per row of the validation and the test rows, and the standard error of the latter; None
    # where not known
    valid: float | None = None
    test: float | None = None
    error: float | None = None
    seconds: float | None = None  # all its fits together, with scoring
    note: str = ""  # what was cut off for want of time, or has failed


def lines(result: Mapping[str, Any]) -> list[Line]:
    """List all models on a set, the best on test rows first; those without a result last."""
    found = sorted((*_ours(result), *_theirs(result["set"])), key=lambda line: -_known(line.test))
    ranked = [line.test for line in found if line.kind != "unverified" and line.test is not None]
    return [
        line._replace(rank=1 + sum(other > line.test for other in ranked))
        if line.kind != "unverified" and line.test is not None
        else line
        for line in found
    ]


def _known(nats: float | None) -> float:
    return -float("inf") if nats is None else nats


def _ours(result: Mapping[str, Any]) -> Iterator[Line]:
    name = result["set"]
    for one in ENTRIES:
        entry = result["entries"].get(one.name)
        if entry is None:
            continue
        seconds = entry["seconds"] + entry.get("scoring_seconds", 0.0)
        settings = in_words(entry["settings"]) if "settings" in entry else ""
        known = (entry.get("valid"), entry.get("test"), entry.get("test_error"))
        yield Line(name, None, one.called, settings, "ours", *known, seconds, _note(entry))
    stack = result["stack"]
    if stack is not None:
        called = {one.name: one.called for one in ENTRIES}
        weights = sorted(stack["weights"].items(), key=lambda pair: -pair[1])
        words = ", ".join(f"{weight:.2f} {called[key]}" for key, weight in weights)
        yield Line(name, None, STACK, words, "ours", stack["valid"], stack["test"], stack["test_error"])


def _note(entry: Mapping[str, Any]) -> str:
    parts = ["its fit was cut off"] if entry.get("stop_reason") == "max_time" else []
    parts += [entry["cut"]] if entry["cut"] else []
    parts += [f"{settings} failed ({why})" for settings, why in entry["failed"].items()]
    return "; ".join(parts)


def _theirs(name: str) -> Iterator[Line]:
    for one in PUBLISHED:
        if name in one.nats:
            yield Line(name, None, one.name, "", "verified" if one.verified else "unverified", test=one.nats[name])


class Standing(NamedTuple):
    """Standing of ours on a set: one model, and the stack, each chosen on validation rows."""

    set: str
    columns: int
    rows: int
    one: Line | None
    stack: Line | None
    published: tuple[str, float] | None


def standing(result: Mapping[str, Any]) -> Standing:
    """Find our model that validation rows are most probable under, the stack, and the best that was verified."""
    ours = [line for line in lines(result) if line.kind == "ours" and line.test is not None and line.valid is not None]
    alone = [line for line in ours if line.model != STACK]
    return Standing(
        set=result["set"],
        columns=result["columns"],
        rows=result["rows"]["train"],
        one=max(alone, key=lambda line: _known(line.valid), default=None),
        stack=next((line for line in ours if line.model == STACK), None),
        published=best_verified(result["set"]),
    )


def verdict(test: float, error: float, published: float) -> str:
    """Compare ours with another's.

    >>> verdict(-6.0, 0.1, -6.05), verdict(-6.1, 0.1, -6.05), verdict(-6.3, 0.1, -6.0)
    ('first', 'within one standard error', 'behind by 0.30 (5.0 %)')
    """
    if test >= published:
        return "first"
    if published - test <= error:
        return LEVEL
    return f"behind by {published - test:.2f} ({100 * (published - test) / abs(published):.1f} %)"


def title(result: Mapping[str, Any]) -> str:
    """Write the title of the table of a set."""
    rows = result["rows"]
    return (
        f"{result['set']} ({describe(result['set'])}): {result['columns']} columns, {rows['train']} rows to learn "
        f"from, {rows['valid']} to choose on, {rows['test']} to test on"
    )


def as_table(result: Mapping[str, Any]) -> Table:
    """Make one row a model on a set, the best on test rows first."""
    found = lines(result)
    columns = {
        "chosen": [_chosen(line) for line in found],
        "rank": [line.rank for line in found],
        "nats per row": [_nats(line) for line in found],
        "seconds": [None if line.seconds is None else Measured(line.seconds, form=".0f") for line in found],
    }
    names = [line.model if line.kind == "ours" else f"{line.model} ({line.kind})" for line in found]
    notes = tuple(f"{line.model}: {line.note}" for line in found if line.note)
    return Table(names, columns, title(result), notes, corner="model")


def _chosen(line: Line) -> str:
    parts = line.settings.split(", ")
    if line.model == STACK and len(parts) > MOST_WEIGHTS_SHOWN:
        parts = [*parts[:MOST_WEIGHTS_SHOWN], f"{len(parts) - MOST_WEIGHTS_SHOWN} more"]
    return ", ".join(parts)


def _nats(line: Line) -> Measured | str:
    return "failed" if line.test is None else Measured(line.test, line.error, form=".3f")


def summary(results: Iterable[Mapping[str, Any]]) -> Table:
    """Make two rows a set: the model and the stack that validation rows chose, beside the best verified result."""
    index: list[str] = []
    rows: list[tuple[Any, ...]] = []
    for now in map(standing, results):
        ours = [line for line in (now.one, now.stack) if line is not None]
        known = "none known" if now.published is None else f"{now.published[1]:.2f}"
        index += [now.set, *[""] * (len(ours) - 1)]
        rows += [(line.model, _nats(line), known, _verdict(line, now), line.rank) for line in ours]
        if not ours:
            rows.append(("no result", None, known, "", None))
    heads = ("ours", "nats per row", "best verified", "", "rank")
    columns = {head: [row[place] for row in rows] for place, head in enumerate(heads)}
    return Table(index, columns, "Ours, as validation rows chose, and the best verified", corner="set")


def every_line(results: Iterable[Mapping[str, Any]]) -> Table:
    """Make one row a model on each set, with all that is known of it."""
    found = [line for result in results for line in lines(result)]
    first, *names = Line._fields
    columns = {name: [getattr(line, name) for line in found] for name in names}
    return Table([line.set for line in found], columns, corner=first)


def _verdict(line: Line, now: Standing) -> str:
    if now.published is None or line.test is None:
        return ""
    return verdict(line.test, line.error or 0.0, now.published[1])


def counts(results: Iterable[Mapping[str, Any]]) -> str:
    """Count in a sentence on how many sets the stack (or the one model) is first, level or behind."""
    verdicts = [_verdict(line, now) for now in map(standing, results) if (line := now.stack or now.one) is not None]
    verdicts = [one for one in verdicts if one]
    first, level = (sum(one == word for one in verdicts) for word in ("first", LEVEL))
    return (
        f"Of {len(verdicts)} sets with a verified result: first on {first}, within one standard error of it on "
        f"{level}, behind on {len(verdicts) - first - level}."
    )


def made_on(results: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """List the versions, dates and machines of the results, in lines."""
    machines = [one["machine"] for result in results.values() for one in result["entries"].values() if "machine" in one]
    kinds = dict.fromkeys((m["latentbits"], m["jax"], m["device"], m["processor"], m["cores"]) for m in machines)
    dates = sorted({m["date"] for m in machines})
    when = "" if not dates else dates[0] if len(dates) == 1 else f"{dates[0]} to {dates[-1]}"
    return [f"{when}: latentbits {v}, JAX {j}, device {d}, {p} with {c} cores" for v, j, d, p, c in kinds]
