"""Text of a user as text: names, labels and cells may hold characters that command a terminal or hide."""

from __future__ import annotations

from collections.abc import Sequence
from unicodedata import category

__all__ = ["listed", "printable"]

HIDDEN = ("Cc", "Cf", "Cs", "Zl", "Zp")  # controls, formats (bidi, zero width), surrogates, ends of lines
JOINERS = "\u200c\u200d"  # spelling, in Persian, Hindi and emoji


def printable(text: str) -> str:
    r"""Return the text in one line, with each character that is not seen but acts written as Python would escape it.

    Joiners between letters of other scripts stay, as they belong to the spelling.

    >>> print(printable("red\x1b[31m, two\nlines, \u202etfel"))
    red\x1b[31m, two\nlines, \u202etfel
    """
    if text.isprintable():
        return text
    return "".join(
        one.encode("unicode_escape").decode() if _is_hidden(one) and not _joins(text, place) else one
        for place, one in enumerate(text)
    )


def listed(words: Sequence[str], most: int, last: str = ", ") -> str:
    """Join words in a row, `last` before the last of them; beyond `most`, how many there are.

    >>> listed(["a", "b", "c"], 5, " and ")
    'a, b and c'
    >>> listed(["a", "b", "c"], 3), listed(["a", "b", "c"], 1)
    ('a, b, c', 'a and 2 more')
    """
    if len(words) > most:
        return f"{', '.join(words[:most])} and {len(words) - most} more"
    return last.join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _is_hidden(one: str) -> bool:
    return category(one) in HIDDEN


def _joins(text: str, place: int) -> bool:
    around = text[max(place - 1, 0) : place] + text[place + 1 : place + 2]
    return text[place] in JOINERS and len(around) == 2 and not any(c.isascii() or _is_hidden(c) for c in around)
