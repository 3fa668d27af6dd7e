"""Talking to people and to machines: messages go to stderr, results to stdout."""

from __future__ import annotations

import io
import json
import math
import os
import re
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Any

import click

from latentbits.cli.options import with_flags
from latentbits.core.printable import printable

__all__ = [
    "as_options",
    "check_checkpoint",
    "checkpoint_options",
    "common_options",
    "give",
    "in_one_line",
    "prepare_streams",
    "print_table",
    "say",
    "show_line",
    "show_note",
    "show_traceback",
    "show_warnings",
    "told_warnings",
    "wants_debug",
]

WIDEST = 10**6  # characters of a line that nobody looks at in a terminal
BETWEEN = 3  # characters between two columns
LEAST_TEXT = 16  # characters that a column of text has beside numbers
# Messages of the library speak of arguments; here they are options.
AS_OPTIONS = {
    "binarize=": "--binarize ",
    "labels=": "--labels",
    "missing=": "--missing",
    "header=": "--header/--no-header",
    "key=": "--key",
    "real=True": "--real",
}


# --- where text leaves the tool ---
# All of it passes through the next three functions and `give`, whose JSON escapes what it holds.  Whatever a user
# calls a column or a file is text here: no markup, no commands to the terminal.


def say(text: str) -> None:
    """One line to whoever is watching."""
    click.echo(printable(text), file=sys.stderr)


def show_line(text: str) -> None:
    """One line of a result, on stdout."""
    click.echo(printable(text), file=sys.stdout)


def show_note(text: str) -> None:
    """A sentence below a table, on stdout; in a terminal it is folded between words."""
    if not sys.stdout.isatty():
        show_line(text)
        return
    for line in textwrap.wrap(printable(text), shutil.get_terminal_size().columns, subsequent_indent="  "):
        show_line(line)


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, title: str = "") -> None:
    """A table on stdout; the first `left` columns are text, the others are numbers.

    In a terminal it is as wide as that: texts are folded, numbers are not, and columns that have no room beside the
    others come below.  Elsewhere it is as wide as it needs to be.
    """
    from rich import box
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table

    lines = [list(map(printable, row)) for row in rows]
    heads = list(map(printable, columns))
    console = Console(highlight=False, markup=False, emoji=False)
    folds = sys.stdout.isatty()  # a file or a program has no width
    room = console.width if folds else WIDEST
    widths = []
    for place, head in enumerate(heads):
        words = head.split() if folds and place >= left else [head]  # heads of numbers may be folded
        widths.append(max(map(cell_len, [*words, *(line[place] for line in lines)]), default=0))
    for number, part in enumerate(_beside(widths, left, room)):
        told = printable(title) if number == 0 else ""
        table = Table(box=box.SIMPLE_HEAD, title=told or None, title_justify="left")
        for place, width in part.items():
            table.add_column(heads[place], justify="left" if place < left else "right", overflow="fold", width=width)
        for line in lines:
            table.add_row(*(line[place] for place in part))
        console.width = min(room, max(sum(part.values()) + BETWEEN * len(part) + 1, cell_len(told)))
        console.print(table)


def _beside(widths: Sequence[int], left: int, room: int) -> list[dict[int, int]]:
    """Which columns go beside each other, the texts first each time, and how wide each is.

    >>> _beside([30, 8, 8], left=1, room=60), _beside([30, 8, 8], left=1, room=40)
    ([{0: 30, 1: 8, 2: 8}], [{0: 25, 1: 8}, {0: 25, 2: 8}])
    """
    texts, numbers = range(min(left, len(widths))), range(left, len(widths))
    least = sum(min(widths[j], LEAST_TEXT) + BETWEEN for j in texts) + 1
    widths = [width if j < left else min(width, max(1, room - least - BETWEEN)) for j, width in enumerate(widths)]
    parts: list[list[int]] = [[]]
    for column in numbers:
        if parts[-1] and least + sum(widths[j] + BETWEEN for j in [*parts[-1], column]) > room:
            parts.append([])
        parts[-1].append(column)
    return [
        {**dict(zip(texts, _narrowed([widths[j] for j in texts], room, part, widths))), **{j: widths[j] for j in part}}
        for part in parts
    ]


def _narrowed(texts: Sequence[int], room: int, part: Sequence[int], widths: Sequence[int]) -> list[int]:
    """Widths of the texts: what the numbers leave, those first that need least."""
    left = room - 1 - sum(widths[j] + BETWEEN for j in part) - BETWEEN * len(texts)
    found = list(texts)
    for rank, place in enumerate(sorted(range(len(texts)), key=lambda j: texts[j])):
        found[place] = max(1, min(texts[place], left // (len(texts) - rank)))
        left -= found[place]
    return found


def give(result: Mapping[str, Any], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """The result of a command: one JSON object, or whatever `show` prints."""
    if as_json:
        click.echo(json.dumps(_plain(result), allow_nan=False), file=sys.stdout)
    elif show is not None:
        show()


def _plain(value: Any) -> Any:
    """What JSON can hold: NaN, which it cannot, becomes null."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


@contextmanager
def told_warnings(names: Sequence[str] | None = None) -> Iterator[None]:
    """Warnings of the library as lines on stderr, without the place in the code, columns called by their names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, UserWarning)):
        if names is not None:  # tables are plain arrays here, and estimators know the numbers of columns only
            text = re.sub(r"\bcolumn (\d{1,9})\b", lambda found: _named(names, found), text)
        say(f"warning: {as_options(text)}")


def _named(names: Sequence[str], found: re.Match[str]) -> str:
    number = int(found[1])
    return repr(names[number]) if number < len(names) else found[0]  # else it is part of somebody's name


@contextmanager
def show_warnings() -> Iterator[None]:
    """Warnings outside of `told_warnings`, too, as lines on stderr."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *place: say(f"warning: {message}")
        yield


def as_options(text: str) -> str:
    """A message of the library for somebody at a terminal.

    >>> as_options("Pass binarize=0.5 to cut")
    'Pass --binarize 0.5 to cut'
    >>> as_options("make it NaN (missing='-9' when it is read from a file)")
    'make it NaN (--missing -9)'
    >>> as_options("leave 'id', 'sex' out (labels='id' labels='sex' when it is read from a file)")
    "leave 'id', 'sex' out (--labels id --labels sex)"
    """
    text = re.sub(r"missing='([^']*)' when it is read from a file", r"--missing \1", text)
    text = re.sub(r"((?:labels='[^']*' ?)+) when it is read from a file", r"\1", text)
    text = re.sub(r"labels='([^']*)'", r"--labels \1", text)
    for argument, option in AS_OPTIONS.items():
        text = text.replace(argument, option)
    return with_flags(text)


def in_one_line(error: BaseException) -> str:
    """The message of an error for somebody at a terminal.

    >>> in_one_line(ValueError("no bits.\\n  Pass binarize=0.5 to cut"))
    'no bits. Pass --binarize 0.5 to cut'
    >>> in_one_line(OSError(28, "cannot write m.safetensors: No space left on device"))
    'cannot write m.safetensors: No space left on device'
    """
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        text = re.sub(r"^\[(Errno|WinError) \d+\] ", "", text)
    return as_options(text) or type(error).__name__


# --- the process ---


class _Closed(io.TextIOBase):
    """A stream that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError("the result cannot be printed: stdout is closed; leave it open, or send it to a file")


def prepare_streams() -> None:
    """Let neither a character nor a closed stream mislead.

    What the encoding of a terminal or a file cannot hold is written as an escape.  Where stderr is closed messages are
    lost, rather than mixed with results; where stdout is, a result is an error.
    """
    if sys.stdout is None:
        _take(1)
        sys.stdout = _Closed()
    if sys.stderr is None:
        _take(2)
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _take(descriptor: int) -> None:
    """Open nothing in the place of a closed stream: the next file would get it, with what libraries print there."""
    with suppress(OSError):
        os.fstat(descriptor)
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    if nowhere != descriptor:
        os.dup2(nowhere, descriptor)
        os.close(nowhere)


def show_traceback(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """A mistake of ours, or --debug: for `sys.excepthook`."""
    import traceback

    for line in "".join(traceback.format_exception(kind, error, trace)).splitlines():
        say(line)


# --- options of every command ---


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --debug."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show the full traceback of an error."
    )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
    )(command)


def checkpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--checkpoint and --resume."""
    command = click.option("--resume", is_flag=True, help="Go on from what is in the folder of --checkpoint.")(command)
    return click.option(
        "--checkpoint",
        type=click.Path(file_okay=False),
        metavar="FOLDER",
        help="Keep learning here every half a minute, and at SIGTERM, so that it can --resume.",
    )(command)


def check_checkpoint(folder: str | None, resume: bool) -> None:
    """Refuse to write over another run's checkpoints, or to go on from nowhere."""
    if folder is None:
        if resume:
            raise click.UsageError("--resume needs --checkpoint FOLDER, to go on from.")
        return
    from latentbits.engines.checkpoint import holds_one

    there = holds_one(folder)
    if there and not resume:
        raise click.UsageError(f"--checkpoint {folder} holds a checkpoint: --resume goes on from it, or name another.")
    if resume and not there:
        say(f"{folder} holds no checkpoint yet: starting from the beginning")


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().params["debug"] = True


def wants_debug(ctx: click.Context) -> bool:
    """Whether --debug was given, before or after the name of the command."""
    return bool(ctx.find_root().params.get("debug"))
