"""Options from constructors: each parameter of a family is an option of the command line, by one rule.

The parameters, their defaults and their constraints are those of the family's class, and what is said of them is the
first sentence of its docstring, so that the two cannot drift apart.
"""

from __future__ import annotations

import inspect
import math
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from latentbits.core.errors import did_you_mean
from latentbits.estimators.families import families
from latentbits.estimators.family_record import Family

__all__ = ["FamilyName", "Numbers", "flag_of", "options_of", "settings_of", "size_from", "with_flags"]

# No options: progress is always shown, tables hold numbers alone, every command is one process, a file keeps
# the components of no iteration but the last, and what is said of single items is said in Python.
NO_OPTIONS = ("verbose", "column_types", "warm_start", "keep_components", "fixed", "shared")
OTHER_NAMES = {
    "n_init": "restarts",
    "random_state": "seed",
    "accelerate": "plain",
    "model": "item-model",
}
DESTINATIONS = {"model": "item_model"}  # of parameters that have the name of an option of the command
ELSEWHERE = "As everywhere"  # what a docstring says of parameters that the base class explains


class Parameter(NamedTuple):
    """One of a constructor's."""

    name: str
    default: Any
    constraints: Sequence[Any]
    text: str


def options_of(family: Family) -> list[click.Option]:
    """List the options that `latentbits fit --model` has for a family alone, and for what it can write."""
    options = [_option(one, family) for one in _parameters(family.cls) if one.name not in NO_OPTIONS]
    for name, file in family.files.items():
        options.append(
            click.Option([f"--{name}"], type=click.Path(dir_okay=False), help=f"Write {file.about} to a file.")
        )
    if family.errors:
        options.append(click.Option(["--errors"], is_flag=True, help="Standard errors of what is printed and written."))
    return options


def settings_of(family: Family, given: Mapping[str, Any]) -> dict[str, Any]:
    """Take the constructor's parameters from what was given, with what the files that are asked for need."""
    asked = {one.name: DESTINATIONS.get(one.name, one.name) for one in _parameters(family.cls)}
    settings = {name: given[place] for name, place in asked.items() if place in given}
    for name, file in family.files.items():
        settings |= file.settings if given.get(name) is not None else {}
    return settings


def flag_of(parameter: str, default: Any = None, size: str = "") -> str:
    """Make the option of a parameter.

    >>> flag_of("n_nodes"), flag_of("bias", True), flag_of("n_hidden", size="n_hidden"), flag_of("weight_prior")
    ('--nodes', '--no-bias', '--components', '--weight-prior')
    """
    if parameter == size:
        return "--layers" if parameter.endswith("_sizes") else "--components"
    if parameter in OTHER_NAMES:
        return f"--{OTHER_NAMES[parameter]}"
    name = parameter.removeprefix("n_").replace("_", "-")
    return f"--no-{name}" if default is True else f"--{name}"


def with_flags(text: str) -> str:
    """Put options in the place of the parameters that a message of the library speaks of.

    That is, of families at work: whose class is imported already.
    """
    for family in families():
        if family.estimator.partition(":")[0] not in sys.modules:
            continue
        for name, one in inspect.signature(family.cls).parameters.items():
            flag = flag_of(name, one.default, family.size)
            turned = {True: "False", False: "True"}.get(one.default) if isinstance(one.default, bool) else None
            text = re.sub(rf"\b{name}={turned}\b", flag, text)
            text = re.sub(rf"\b{name}=\(([^(),]*), *([^(),]*)\)", rf"{flag} \1,\2", text)
            text = re.sub(rf"\b{name}='?([\w.]*)'?", rf"{flag} \1", text)
            if "_" in name or name == "tol":  # else it may be a word
                text = re.sub(rf"(?<!-)\b{name}\b", flag, text)
    return text


def size_from(family: Family, text: str) -> Any:
    """Read a size as the family's constructor takes it; click.UsageError of anything else."""
    sizes = [one for one in _parameters(family.cls) if one.name == family.size]
    if not sizes:
        raise click.UsageError(f"{family.name} has no size")
    return _type_of(sizes[0]).convert(text, None, None)


class FamilyName(click.ParamType):
    """The name of one of the families, or a word."""

    name = "NAME"

    def __init__(self, *words: str, alone: bool = True) -> None:
        self.words, self.alone = words, alone

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = self.known()
        if value not in known:
            self.fail(f"{value!r} is none of {', '.join(known)}.{did_you_mean(str(value), known)}", param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """List all that begin so, with what each takes the rows to be."""
        summaries = {**dict.fromkeys(self.words, ""), **{one.name: one.summary for one in families()}}
        return [CompletionItem(one, help=summaries[one]) for one in self.known() if one.startswith(incomplete)]

    def known(self) -> list[str]:
        """List every word that is taken."""
        return [*self.words, *(one.name for one in families() if self.alone or not one.alone)]


# --- from a parameter to an option ---


def _option(parameter: Parameter, family: Family) -> click.Option:
    name, default = parameter.name, parameter.default
    flag, text = flag_of(name, default, family.size), _said(parameter, family)
    if name == family.size and family.usual_size is not None:
        default = family.usual_size
    if name == "random_state":
        default = 0
    if parameter.constraints == ["boolean"]:
        turned = default is True  # a flag that turns it off

        def value(ctx: click.Context, option: click.Parameter, given: bool) -> bool:
            return given != turned

        return click.Option(
            [flag, name],
            is_flag=True,
            callback=value,
            help=f"Turn off: {text.removeprefix('Whether ')}" if turned else text,
        )
    short = ["-k"] if flag == "--components" else []
    kind = _type_of(parameter)
    metavar = None if isinstance(kind, click.Choice) else kind.name  # words as they are to be written
    return click.Option(
        [*short, flag, DESTINATIONS.get(name, name)], type=kind, default=default, help=text, metavar=metavar
    )


def _type_of(parameter: Parameter) -> click.ParamType:
    """Find the type of a value, by the constraints that scikit-learn would hold it to."""
    from sklearn.utils._param_validation import Interval, StrOptions

    words: dict[str, Any] = {}
    numbers: list[Any] = []
    several = False
    if isinstance(parameter.default, tuple) and all(isinstance(one, float) for one in parameter.default):
        return Reals(parameter.default)
    for one in parameter.constraints:
        if isinstance(one, StrOptions):
            words |= {word: word for word in sorted(one.options, key=lambda word: (word != parameter.default, word))}
        elif isinstance(one, Interval):
            numbers.append(_Range.of(one))
        elif one == "boolean":
            words |= {"yes": True, "no": False}
        elif one is None and parameter.default is not None:
            words["none"] = None
        elif one == "random_state":
            numbers.append(_Range(int, 0, None))
        elif one in ("array-like", tuple, list):
            several = True
    if several:
        least = int(numbers[0].low) if numbers and numbers[0].low is not None else 0
        return Numbers(words, least=1 if parameter.name.endswith("_sizes") else least, one=bool(numbers))
    if not numbers and all(word == value for word, value in words.items()):
        return click.Choice(list(words))
    return OneOf(numbers[0] if numbers else None, words)


class _Range(NamedTuple):
    """Numbers from `low` to `high`, or above the one and below the other."""

    kind: type
    low: float | None
    high: float | None
    above: bool = False
    below: bool = False

    @classmethod
    def of(cls, interval: Any) -> _Range:
        from numbers import Integral

        kind = int if interval.type is Integral else float
        above, below = interval.closed in ("neither", "right"), interval.closed in ("neither", "left")
        return cls(kind, interval.left, interval.right, above, below)

    def holds(self, number: float) -> bool:
        low = self.low is None or (number > self.low if self.above else number >= self.low)
        return low and (self.high is None or (number < self.high if self.below else number <= self.high))

    def __str__(self) -> str:
        start = "" if self.low is None else f" {'above' if self.above else 'from'} {self.low:g}"
        return f"number{start}" + ("" if self.high is None else f" {'below' if self.below else 'to'} {self.high:g}")


class OneOf(click.ParamType):
    """A number in a range, or a word that stands for a value."""

    def __init__(self, numbers: _Range | None, words: Mapping[str, Any]) -> None:
        self.numbers, self.words = numbers, words
        self.name = "|".join([*([] if numbers is None else ["N" if numbers.kind is int else "X"]), *words])

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value in self.words:
            return self.words[value]
        try:
            number = None if self.numbers is None else self.numbers.kind(value)
        except ValueError:
            number = None
        if number is None or self.numbers is None or not self.numbers.holds(number):
            self.fail(f"{value!r} is {self._refused()}.", param, ctx)
        return number

    def _refused(self) -> str:
        words = list(self.words)
        others = f"one of {' and '.join(words)}" if len(words) > 1 else "".join(words)
        if self.numbers is None:
            return f"not {others}"
        return f"neither a {self.numbers} nor {others}" if words else f"no {self.numbers}"


class Numbers(click.ParamType):
    """Numbers with commas between, or a word; iterations are counted from 0, units from 1.

    With `one`, a number alone stays a number, as what holds for all.
    """

    def __init__(self, words: Mapping[str, Any] | None = None, least: int = 1, one: bool = False) -> None:
        self.words, self.least, self.one = words or {}, least, one
        self.name = "|".join((*(["N"] if one else []), "N,N,...", *self.words))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value in self.words:
            return self.words[value]
        parts = [part.strip() for part in value.split(",")]
        if not all(part.isdecimal() and int(part) >= self.least for part in parts):
            example = "10,5" if self.least else "5,10"
            what = "neither a number nor a list" if self.one else "no list"
            self.fail(f"{value!r} is {what} of numbers from {self.least} such as {example}.", param, ctx)
        return int(parts[0]) if self.one and len(parts) == 1 else tuple(map(int, parts))


class Reals(click.ParamType):
    """Real numbers with commas between, as many as a default has, or none."""

    def __init__(self, usual: tuple[float, ...]) -> None:
        self.usual = usual
        self.name = f"{','.join('X' for _ in usual)}|none"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if not isinstance(value, str):
            return value
        if value == "none":
            return None
        try:
            found = tuple(float(part) for part in value.split(","))
        except ValueError:
            found = ()
        if len(found) != len(self.usual) or not all(map(math.isfinite, found)):
            example = ",".join(f"{one:g}" for one in self.usual)
            self.fail(f"{value!r} is neither {len(self.usual)} numbers such as {example} nor none.", param, ctx)
        return found


# --- what a class says of its parameters ---


@cache
def _parameters(cls: Any) -> list[Parameter]:
    """List the constructor's parameters, in its order, with what the docstring says of each."""
    texts = _texts(cls)
    for base in cls.__mro__[1:]:  # the base class explains what all families share
        texts = {**_texts(base), **{name: text for name, text in texts.items() if not text.startswith(ELSEWHERE)}}
    signature = inspect.signature(cls.__init__).parameters
    return [
        Parameter(name, one.default, cls._parameter_constraints[name], texts.get(name, ""))
        for name, one in signature.items()
        if name != "self"
    ]


def _texts(cls: Any) -> dict[str, str]:
    """Give by parameter its paragraph in the numpydoc section."""
    section = re.search(
        r"\nParameters\n-+\n(.*?)(?=\n\n\w[^\n]*\n-+\n|\Z)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL
    )
    texts: dict[str, str] = {}
    for entry in re.finditer(
        r"^(\w[^\n:]*)(?: : [^\n]*)?\n((?:[ \t]+[^\n]*\n?)+)", section[1] if section else "", re.MULTILINE
    ):
        texts |= dict.fromkeys(entry[1].split(", "), " ".join(entry[2].split()))
    return texts


def _said(parameter: Parameter, family: Family) -> str:
    """Shorten the docstring for the terminal: all of it for choices, else the first sentence."""
    text = parameter.text
    if not isinstance(_type_of(parameter), click.Choice):
        text = re.split(r"(?<=[a-z0-9)\"`])\.(?=\s+[A-Z\"`])", text, maxsplit=1)[0].rstrip(".") + "."
    text = re.sub(r"\bNone\b", "the default" if parameter.default is None else "none", text)
    flags = {one.name: flag_of(one.name, one.default, family.size) for one in _parameters(family.cls)}

    def as_flag(found: re.Match[str]) -> str:
        name, value = found[1], (found[2] or "").strip("\"'")
        return f"{flags.get(name, name)} {value}".removesuffix(" True").removesuffix(" False").strip()

    return re.sub(r"`+(\w+)(?:=([^`]*))?`+", as_flag, text).replace("`", "")
