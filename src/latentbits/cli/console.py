"""Talking to people and to machines: messages go to stderr, results to stdout."""

from __future__ import annotations

import json
import math
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import click

__all__ = ["as_options", "common_options", "give", "print_table", "say", "told_warnings", "wants_debug"]

# Messages of the library speak of arguments; here they are options.
AS_OPTIONS = {
    "binarize=": "--binarize ",
    "missing='-1' when it is read from a file": "--missing -1",
    "labels=": "--labels",
    "missing=": "--missing",
    "header=": "--header/--no-header",
    "key=": "--key",
    "equal_discrimination=True": "--equal-discrimination",
    "weight_prior=": "--weight-prior ",
    "repair=True": "--repair",
    "noise='none'": "--noise none",
    "n_components": "--components",
    "n_hidden": "--components",
    "learner=": "--learner ",
    "n_epochs": "--epochs",
    "n_causes": "--components",
    "max_active": "--max-active",
    "n_candidates": "--candidates",
    "n_init": "--restarts",
}


def say(text: str) -> None:
    """One line to whoever is watching."""
    click.echo(text, err=True)


def give(result: Mapping[str, Any], as_json: bool, show: Callable[[], None] | None = None) -> None:
    """The result of a command: one JSON object, or whatever `show` prints."""
    if as_json:
        click.echo(json.dumps(_plain(result), allow_nan=False))
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


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1, title: str = "") -> None:
    """A table on stdout; the first `left` columns are text, the others are numbers."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD, title=title or None, title_justify="left")
    for place, name in enumerate(columns):
        table.add_column(name, justify="left" if place < left else "right", overflow="fold")
    for row in rows:
        table.add_row(*row)
    Console(highlight=False).print(table)


@contextmanager
def told_warnings(names: Sequence[str] | None = None) -> Iterator[None]:
    """Warnings of the library as lines on stderr, without the place in the code, columns called by their names."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        yield
    for text in dict.fromkeys(str(item.message) for item in caught if issubclass(item.category, UserWarning)):
        if names is not None:  # tables are plain arrays here, and estimators know the numbers of columns only
            text = re.sub(r"\bcolumn (\d+)\b", lambda found: repr(names[int(found[1])]), text)
        say(f"warning: {as_options(text)}")


def as_options(text: str) -> str:
    """A message of the library for somebody at a terminal.

    >>> as_options("Pass binarize=0.5 to cut")
    'Pass --binarize 0.5 to cut'
    """
    for argument, option in AS_OPTIONS.items():
        text = text.replace(argument, option)
    return text


# --- options of every command ---


def common_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """--json and --debug."""
    command = click.option(
        "--debug", is_flag=True, expose_value=False, callback=_set_debug, help="Show the full traceback of an error."
    )(command)
    return click.option(
        "--json", "as_json", is_flag=True, help="Print one JSON object on stdout and nothing else there."
    )(command)


def _set_debug(ctx: click.Context, parameter: click.Parameter, value: bool) -> None:
    if value:
        ctx.find_root().params["debug"] = True


def wants_debug(ctx: click.Context) -> bool:
    """Whether --debug was given, before or after the name of the command."""
    return bool(ctx.find_root().params.get("debug"))
