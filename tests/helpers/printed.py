"""What was printed against what should be: processors round differently."""

from __future__ import annotations

import re

NUMBER = re.compile(r"-?\d+(?:\.\d*)?(?:e[-+]?\d+)?")


def same_but_for_the_last_digit(found: str, expected: str) -> bool:
    """The same words and whole numbers; other numbers may differ in the last digit, and a zero in its sign."""
    return _words(found) == _words(expected) and all(map(_same, NUMBER.findall(found), NUMBER.findall(expected)))


def _words(text: str) -> str:
    return "".join(NUMBER.sub("#", text).split())


def _same(found: str, expected: str) -> bool:
    digits = expected.partition("e")[0].partition(".")
    unit = 10.0 ** -len(digits[2]) * 10.0 ** int(expected.partition("e")[2] or 0) if digits[1] else 0.0
    return abs(float(found) - float(expected)) <= 1.5 * unit
