"""Text in csv files that a spreadsheet would take for a formula, and run: it gets an apostrophe before it.

The pages of the explorer do the same in their csv files.  Reading takes the apostrophe away again; text that
begins with apostrophes itself gets one more, so that nothing is lost on the way.
"""

from __future__ import annotations

import math
import re

__all__ = ["guarded", "unguarded"]

# the full-width forms too: some spreadsheets take them for the others
FORMULA = re.compile("'*(?:\\s*[=+\\-@\uff1d\uff0b\uff0d\uff20]|[\t\r\n])")


def guarded(text: str) -> str:
    """Return text for a cell of a csv file; numbers stay as they are.

    >>> guarded("=1+2"), guarded("-3.5"), guarded("'@x"), guarded("a=b")
    ("'=1+2", '-3.5', "''@x", 'a=b')
    """
    return f"'{text}" if FORMULA.match(text) and not _is_number(text) else text


def unguarded(text: str) -> str:
    """Undo `guarded`.

    >>> unguarded("'=1+2"), unguarded("'90s"), unguarded("''@x")
    ('=1+2', "'90s", "'@x")
    """
    return text[1:] if text.startswith("'") and FORMULA.match(text) and not _is_number(text[1:]) else text


def _is_number(text: str) -> bool:
    try:
        return "_" not in text and math.isfinite(float(text))
    except ValueError:
        return False
