"""Tables and sentences by forms: those of `str.format`, with conversions for a number of many runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from string import Formatter
from typing import Any

import numpy as np

from latentbits.papers.pages import markdown

__all__ = ["fill", "named", "table"]


def fill(form: str, *records: Mapping[str, Any], **more: Any) -> str:
    """Fill in a form what records have; None is left empty.

    Conversions: `!e` mean and standard error, or a single number alone; `!d` mean and standard deviation; `!a` mean;
    `!m` median; `!b` median, between the least and the largest; `!l` the least; `!n` how many are not zero, of how
    many; `!w` yes or no; `!j` all of them, between commas.

    >>> runs = [0.4, 0.41, 0.42]
    >>> fill("{bits!e:.3f}, {bits!d:.3f}, {bits!b:.2f}, {ended!n}, {none}", bits=runs, ended=[True, False], none=None)
    '0.410 ± 0.006, 0.410 ± 0.008, 0.41 (0.40 to 0.42), 1 of 2, '
    """
    given = {key: value for record in records for key, value in record.items()}
    return _FORMS.vformat(form, (), {**given, **more})


def table(heads: str, cells: str, records: Iterable[Mapping[str, Any]], left: int = 1) -> str:
    """Write a table: its heads, and a form for the cells of each record.

    >>> print(table("run | bits", "{name} | {bits:.1f}", named({"first": {"bits": 1}})))
    | run | bits |
    | :-- | --: |
    | first | 1.0 |
    """
    forms = cells.split(" | ")
    return markdown(heads.split(" | "), [[fill(form, one) for form in forms] for one in records], left)


def named(found: Mapping[str, Mapping[str, Any]], names: Mapping[str, str] | None = None) -> list[dict[str, Any]]:
    """List records with their names, or with what these are called."""
    return [{**one, "name": name if names is None else names[name]} for name, one in found.items()]


def _with_error(values: Any, spec: str) -> str:
    mean = format(np.mean(values), spec)
    return mean if len(values) < 2 else f"{mean} ± {format(np.std(values, ddof=1) / np.sqrt(len(values)), spec)}"


def _between(values: Any, spec: str) -> str:
    least, middle, most = (format(one, spec) for one in (min(values), np.median(values), max(values)))
    return middle if min(values) == max(values) else f"{middle} ({least} to {most})"


_WAYS = {
    "e": _with_error,
    "d": lambda values, spec: f"{format(np.mean(values), spec)} ± {format(np.std(values), spec)}",
    "a": lambda values, spec: format(np.mean(values), spec),
    "m": lambda values, spec: format(np.median(values), spec),
    "b": _between,
    "l": lambda values, spec: format(min(values), spec),
    "n": lambda values, spec: f"{np.count_nonzero(values)} of {len(values)}",
    "w": lambda value, spec: "yes" if value else "no",
    "j": lambda values, spec: ", ".join(format(one, spec) for one in values),
}


class _Forms(Formatter):
    def convert_field(self, value: Any, conversion: Any) -> Any:
        if conversion in _WAYS and value is not None:
            return partial(_WAYS[conversion], value)
        return super().convert_field(value, None if value is None else conversion)

    def format_field(self, value: Any, format_spec: str) -> str:
        if value is None:
            return ""
        return value(format_spec) if isinstance(value, partial) else format(value, format_spec)


_FORMS = _Forms()
