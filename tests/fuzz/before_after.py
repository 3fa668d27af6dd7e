"""Faults that were known once, each by its own small case, in one or several source trees side by side.

    python -m tests.fuzz.before_after --src before=old/src --src after=src [--only 1a,7] [--markdown table.md]

A check runs in processes of its own with limits of time and memory, and judges by what is seen from outside.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from tests.fuzz.bench import Bench

__all__ = ["Check", "Seen", "check", "main"]


@dataclass(frozen=True)
class Seen:
    """Whether it is as it should be, and what was seen, in a few words."""

    ok: bool
    text: str


@dataclass(frozen=True)
class Check:
    name: str
    title: str
    look: Callable[[Bench], Seen]


CHECKS: dict[str, Check] = {}


def check(name: str, title: str) -> Callable[[Callable[[Bench], Seen]], Callable[[Bench], Seen]]:
    """Enter a check under the number of its fault."""

    def enter(look: Callable[[Bench], Seen]) -> Callable[[Bench], Seen]:
        CHECKS[name] = Check(name, title, look)
        return look

    return enter


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--src", action="append", help="[NAME=]PATH of a folder that holds the package latentbits")
    parser.add_argument("--only", help="numbers with commas between; 7 stands for 7a, 7b and so on")
    parser.add_argument("--markdown", help="also write the table to this file")
    given = parser.parse_args(arguments)
    for module in ("known_numbers", "known_files", "known_limits", "known_ends"):
        import_module(f"tests.fuzz.{module}")
    sources = dict(_named(text) for text in given.src or ["src"])
    wanted = given.only.split(",") if given.only else list(CHECKS)
    chosen = [c for c in CHECKS.values() if any(c.name == w or c.name.rstrip("abcdefgh") == w for w in wanted)]
    chosen.sort(key=lambda c: (int(c.name.rstrip("abcdefgh")), c.name))
    rows, bad = [], 0
    for one in chosen:
        cells = []
        for name, source in sources.items():
            began = time.monotonic()
            with tempfile.TemporaryDirectory(prefix="known-") as folder, tempfile.TemporaryDirectory() as cache:
                try:
                    seen = one.look(Bench(source, Path(folder), Path(cache)))
                except Exception as error:
                    seen = Seen(False, f"the check itself failed: {type(error).__name__}: {error}")
            bad += not seen.ok
            cells.append(f"{'ok' if seen.ok else 'NOT OK'}: {seen.text}".replace("|", "\\|").replace("\n", " "))
            print(f"{one.name:4} {name:8} {time.monotonic() - began:5.0f} s  {cells[-1]}", flush=True)
        rows.append(f"| {one.name} | {one.title} | " + " | ".join(cells) + " |")
    table = [f"| | what | {' | '.join(sources)} |", "|---|---|" + "---|" * len(sources), *rows]
    text = "\n".join(table)
    print(f"\n{text}")
    if given.markdown:
        Path(given.markdown).write_text(text + "\n", encoding="utf-8")
    return int(bad > 0)


def _named(text: str) -> tuple[str, Path]:
    name, found, path = text.partition("=")
    return (name, Path(path)) if found else (text, Path(text))


if __name__ == "__main__":
    # the checks enter themselves into this module under its own name, not under __main__
    sys.exit(import_module("tests.fuzz.before_after").main())
