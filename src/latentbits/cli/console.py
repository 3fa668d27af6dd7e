"""Talking to people and to machines: messages go to stderr, results to stdout."""

from __future__ import annotations

import io
import json
import os
import re
import sys
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
    "own_advice",
    "prepare_streams",
    "printed_warnings",
    "say",
    "show_line",
    "show_traceback",
    "show_warnings",
    "wants_debug",
]

# Messages of the library speak of arguments; here they are options.
AS_OPTIONS = {
    "binarize=": "--binarize ",
    "labels=": "--labels",
    "missing=": "--missing",
    "header=": "--header/--no-header",
    "key=": "--key",
    "real=True": "--real",
}


ADVISED = re.compile(r"\b(binarize|max_iter|n_init|n_nodes|real|smoothing|weight_prior)=")
CLAUSE = re.compile(rf"(?:^|[:.;,] )[^:.;,]*{ADVISED.pattern}(?:[^:.;,]|[.,](?! )|, say,)*[.]?")


# --- where text leaves the tool ---
# All of it passes through the next two functions and `give`, whose JSON escapes what it holds.  Whatever a user
# calls a column or a file is text here: no markup, no commands to the terminal.


def say(text: str) -> None:
    """Write one line of a message, on stderr."""
    click.echo(printable(text), file=sys.stderr)


def show_line(text: str) -> None:
    """Write one line of a result, on stdout."""
    click.echo(printable(text), file=sys.stdout)


def give(result: Mapping[str, Any], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """Print the result of a command: one JSON object, or by `show`."""
    if as_json:
        from latentbits.reports.render import plain

        click.echo(json.dumps(plain(result), allow_nan=False), file=sys.stdout)
    elif show is not None:
        show()


@contextmanager
def printed_warnings(names: Sequence[str] | None = None) -> Iterator[None]:
    """Print warnings of the library as lines on stderr, without the place in the code, columns by their names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, UserWarning)):
        if names is not None:  # tables are plain arrays here, and estimators know the numbers of columns only
            text = re.sub(r"\bcolumn (\d{1,9})\b", lambda found: _named(names, found), text)
        say(f"warning: {as_options(own_advice(text))}")


def _named(names: Sequence[str], found: re.Match[str]) -> str:
    number = int(found[1])
    return repr(names[number]) if number < len(names) else found[0]  # else it is part of somebody's name


@contextmanager
def show_warnings() -> Iterator[None]:
    """Print warnings outside of `printed_warnings`, too, as lines on stderr."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *place: say(f"warning: {message}")
        yield


def as_options(text: str) -> str:
    """Write a message of the library in terms of options.

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
    """Write the message of an error in one line, in terms of options.

    >>> in_one_line(ValueError("no bits.\\n  Pass binarize=0.5 to cut"))
    'no bits. Pass --binarize 0.5 to cut'
    >>> in_one_line(OSError(28, "cannot write m.safetensors: No space left on device"))
    'cannot write m.safetensors: No space left on device'
    """
    text = " ".join(str(error).split())
    if isinstance(error, OSError):
        text = re.sub(r"^\[(Errno|WinError) \d+\] ", "", text)
    return as_options(text) or type(error).__name__


def own_advice(text: str) -> str:
    """Leave out the clauses of a message that name arguments for which the command has no option."""
    context = click.get_current_context(silent=True)
    if context is None:
        return text
    there = {parameter.name for parameter in context.command.get_params(context)}

    def kept(found: re.Match[str]) -> str:
        return "" if set(ADVISED.findall(found[0])) - there else found[0]

    return CLAUSE.sub(kept, text).strip()


# --- the process ---


class _Closed(io.TextIOBase):
    """A stream that takes nothing."""

    def write(self, text: str) -> int:
        raise OSError("the result cannot be printed: stdout is closed; leave it open, or send it to a file")


def prepare_streams() -> None:
    """Let neither a character nor a closed stream mislead.

    A character that the encoding of a terminal or a file lacks is written as an escape.  Where stderr is closed,
    messages are lost, rather than mixed with results; where stdout is, a result is an error.
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
    """Print the traceback of a mistake of ours, or with --debug: for `sys.excepthook`."""
    import traceback

    for line in "".join(traceback.format_exception(kind, error, trace)).splitlines():
        say(line)


# --- options of every command ---


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --json and --debug."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show the full traceback of an error."
    )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
    )(command)


def checkpoint_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --checkpoint and --resume."""
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
    """Say whether --debug was given, before or after the name of the command."""
    return bool(ctx.find_root().params.get("debug"))
