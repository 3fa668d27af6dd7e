"""Numbers for people: significant digits, decimals no finer than the error, percentages."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

__all__ = ["Measured", "measured", "number", "percent", "value_and_error", "with_error"]

EXPONENT_FROM = 1e12  # a number with more digits than that is not read as digits
MOST_DECIMALS = 3  # a thousandth of a nat, of a bit or of a probability decides nothing


@dataclass(frozen=True)
class Measured:
    """A number in a table, with its standard error, its format, and a word in the place of the error."""

    value: float
    error: float | None = None
    form: str = ""
    note: str = ""

    def __str__(self) -> str:
        if math.isnan(self.value):
            return ""
        error = None if self.note else self.error
        text = with_error(self.value, error, self.form) if self.form or error is not None else number(self.value)
        return f"{text} ({self.note})" if self.note else text


def measured(
    values: Iterable[float], errors: Iterable[float] | None = None, form: str = "", notes: Iterable[str] | None = None
) -> list[Measured]:
    """Make a column of numbers with errors.

    >>> [str(one) for one in measured([1.0, 0.5], [0.1, float("nan")], ".2f")]
    ['1.00 ± 0.10', '0.50']
    """
    found = [float(value) for value in values]
    own = [None] * len(found) if errors is None else [float(error) for error in errors]
    words = [""] * len(found) if notes is None else notes
    return [Measured(*parts) for parts in zip(found, own, [form] * len(found), words, strict=True)]


def number(value: Any, digits: int = 4) -> str:
    """Write a cell: whole numbers as they are, nothing for NaN, others with this many significant digits.

    Large numbers keep two decimals, because differences of log-likelihoods count.
    """
    if isinstance(value, (bool, np.bool_)):
        return "yes" if value else "no"
    if isinstance(value, (int, np.integer)):
        return str(value) if abs(int(value)) < EXPONENT_FROM else f"{float(value):.{digits}g}"
    if not isinstance(value, (float, np.floating)):
        return "" if value is None else str(value)
    value = float(value)
    if math.isnan(value):
        return ""
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    size = abs(value)
    if size == 0:
        return "0"
    text = f"{value:.{digits}g}"
    if (size < 1 and "e" in text) or size >= EXPONENT_FROM:
        return text
    # trailing zeros are kept, so that a column lines up by its digits
    return f"{value:.{max(digits - 1 - math.floor(math.log10(size)), 2) if size >= 1 else digits}f}"


def value_and_error(value: float, error: float | None) -> tuple[str, str]:
    """Write a number and its error up to the first digit of the error; no error where it is below every digit shown.

    >>> value_and_error(-2466.6532, 0.00002), value_and_error(-4630.2408, 0.012), value_and_error(-4630.2408, 7.3)
    (('-2466.653', ''), ('-4630.24', '0.01'), ('-4630', '7'))
    """
    known = error is not None and math.isfinite(error) and error > 0
    places = min(MOST_DECIMALS, max(0, -math.floor(math.log10(error)))) if known and error else MOST_DECIMALS
    seen = known and error is not None and error >= 0.5 * 10**-MOST_DECIMALS
    return f"{value:.{places}f}", f"{error:.{places}f}" if seen else ""


def with_error(value: float, error: float | None, form: str = "") -> str:
    """Write a number with its error beside it, both in one format, or else up to the first digit of the error.

    >>> with_error(-4630.2408, 0.012), with_error(0.5, 0.25, ".2f"), with_error(0.5, None, ".2f")
    ('-4630.24 ± 0.01', '0.50 ± 0.25', '0.50')
    """
    if form:
        text, beside = f"{value:{form}}", "" if error is None or math.isnan(error) else f"{error:{form}}"
    else:
        text, beside = value_and_error(value, error)
    return f"{text} ± {beside}" if beside else text


def percent(share: float) -> str:
    """Write a share in a sentence: whole percentages from 1 % on, tenths below.

    >>> percent(0.256), percent(0.0042)
    ('26%', '0.4%')
    """
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"
