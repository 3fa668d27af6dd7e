"""Numbers with errors, for people: no more decimals than are known."""

from __future__ import annotations

import math
from typing import Any

__all__ = ["criteria_facts", "criteria_lines", "to_error", "with_error"]

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


def criteria_facts(found: Any) -> dict[str, Any]:
    """What `criteria` of a model tells, by name."""
    return {
        "log_likelihood": found.log_likelihood,
        "log_likelihood_error": found.error,
        "n_parameters": found.n_parameters,
        "aic": found.aic,
        "bic": found.bic,
    }


def criteria_lines(found: Any) -> list[list[str]]:
    """The same as lines of a table for people."""
    return [
        ["log-likelihood, nats", with_error(found.log_likelihood, found.error)],
        ["parameters", str(found.n_parameters)],
        ["AIC", with_error(found.aic, 2 * found.error)],
        ["BIC", with_error(found.bic, 2 * found.error)],
    ]
