"""Numbers with errors, for people: no more decimals than are known."""

from __future__ import annotations

import math

__all__ = ["to_error", "with_error"]

MOST_DECIMALS = 3


def _decimals(error: float) -> int:
    """Decimals up to the first digit of the error."""
    if not (math.isfinite(error) and error > 0):
        return MOST_DECIMALS
    return min(MOST_DECIMALS, max(0, -math.floor(math.log10(error))))


def to_error(value: float, error: float) -> tuple[str, str]:
    """A number and its error, both as far as the number is known; no error where it cannot be seen there.

    >>> to_error(-2466.6532, 0.00002), to_error(-4630.2408, 0.012), to_error(-4630.2408, 7.3)
    (('-2466.653', ''), ('-4630.24', '0.01'), ('-4630', '7'))
    """
    places = _decimals(error)
    seen = math.isfinite(error) and error >= 0.5 * 10**-MOST_DECIMALS
    return f"{value:.{places}f}", f"{error:.{places}f}" if seen else ""


def with_error(value: float, error: float) -> str:
    """Both in one.

    >>> with_error(-4630.2408, 0.012)
    '-4630.24 ± 0.01'
    """
    text, beside = to_error(value, error)
    return f"{text} ± {beside}" if beside else text
