"""Columns that hold no bits: what they may be, and how that is said.

Words tell what rows are, and so does a number that takes many values, such as a depth, among columns of bits.  A column
of bits with a few other cells is one whose missing cells have a mark, which must be said; so must whatever is in doubt.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.core.printable import listed

__all__ = [
    "WORDS",
    "ColumnsError",
    "Odd",
    "all_words",
    "of_numbers",
    "of_words",
    "refusal",
    "settle",
    "taken_as_labels",
    "worth",
]

MOST_MARKS = 3  # different cells that may mark missing ones
SHOWN_CELLS = 4  # cells of a column that a message shows
SAMPLED_NUMBERS = 1000  # numbers of a column that are looked at first
MOST_NAMED = 12  # columns that a message names
# what missing answers are called: below the bits, above them, and where bits are stored in bytes
CODES = frozenset({-9999, -999, -99, -9, -8, -7, -1, 2, 7, 8, 9, 77, 88, 97, 98, 99, 255, 888, 999, 9999})
Use = Literal["label", "marks", "words", "unclear"]
WORDS = {"true": 1.0, "false": 0.0, "yes": 1.0, "no": 0.0}
SEVERAL = re.compile(r"[01](?P<mark>[^\w.])[01](?:(?P=mark)[01])*")  # bits with something between them; 0.0 is one


class ColumnsError(DataError):
    """Error that names all columns without bits.

    Attributes
    ----------
    what
        What is said of them, in a sentence.
    conditions, hints
        What `labels` and `missing` would settle them under; and what else they may be, in sentences.
    labels, missing
        What a reader could be given.
    """

    def __init__(self, message: str, what: str = "", odd: Sequence[Odd] = (), taken: Sequence[Odd] = ()) -> None:
        super().__init__(message)
        self.what, self.conditions, self.hints = what, _conditions(odd), _hints(odd)
        self.missing, own = _marks(odd), _labels(odd)
        self.labels = (
            [*(one.label for one in taken), *own] if own else []
        )  # naming one label column requires naming all


class Odd(NamedTuple):
    """A column that holds no bits."""

    label: str  # how a user names it: by its name, or by its number where it has none
    called: str  # how a message calls it
    what: str  # "text", "numbers" or "dates"
    # "label" if it tells what rows are, "marks" if it has bits and marks of missing cells, "words" if these may be
    # bits, else "unclear"
    use: Use
    others: tuple[str, ...]  # the different cells that are no bits, in order; of labels and unclear ones the first few
    n_different: int  # how many different cells it has; of very many, not less than the first of them have


class Settled(NamedTuple):
    """The columns that are labels, and those of which it must be said what they are."""

    labels: list[Odd]
    refused: list[Odd]


def worth(word: str) -> float | None:
    """Parse the text of a cell as a number; None where it is none.

    >>> worth("12"), worth("yes"), worth("north"), worth("1_000")
    (12.0, 1.0, None, None)
    """
    if "_" in word:  # float() takes 1_000, no table means it
        return None
    try:
        return WORDS[word.lower()] if word.lower() in WORDS else float(word)
    except ValueError:
        return None


def of_numbers(label: str, called: str, values: np.ndarray) -> Odd | None:
    """Return a column of numbers, NaN for missing ones; None if it holds bits.

    >>> of_numbers("q", "q", np.array([0.0, 1.0, -9.0])).use, of_numbers("q", "q", np.array([0.0, 1.0])) is None
    ('marks', True)
    >>> of_numbers("depth", "depth", np.arange(10.0)).use, of_numbers("year", "year", np.array([2020.0, 2021.0])).use
    ('label', 'unclear')
    """
    seen = values[~np.isnan(values)]
    bit = (seen == 0) | (seen == 1)
    if bit.all():
        return None
    others, n_bits = np.unique(seen[~bit][:SAMPLED_NUMBERS]), int(bit.sum())
    if len(others) <= len(CODES):  # else there are more than could be marks, and all need not be sorted
        others = np.unique(seen[~bit])
    different = len(others) + len(np.unique(seen[bit][:SAMPLED_NUMBERS]))
    whole = bool((others == np.round(others)).all())
    counts = others.tolist() == list(range(2, 2 + len(others))) and (len(others) > 1 or not (seen == 0).any())
    few = whole and len(others) <= MOST_MARKS
    use: Use = "unclear"
    if whole and n_bits and not counts and CODES.issuperset(others.tolist()):
        use = "marks"
    elif 2 * n_bits >= len(seen):
        use = "marks" if few and not counts else "unclear"
    elif different > 5:  # a column of no more may hold answers, or codes of answers
        use = "label"
    shown = others if use == "marks" else np.unique(seen[:SAMPLED_NUMBERS])[: SHOWN_CELLS + 1]
    return Odd(label, called, "numbers", use, tuple(f"{number:.6g}" for number in shown.tolist()), different)


def of_words(
    label: str, called: str, cells: Iterable[str], what: str = "text", value_of: Callable[[str], float | None] = worth
) -> Odd:
    """Describe a column of which not all cells are numbers, by those that are not missing; `value_of` parses a cell.

    >>> of_words("site", "site", ["north", "south", "north"]).use, of_words("q", "q", ["1", "0", "1", "unknown"]).others
    ('label', ('unknown',))
    """
    counts = Counter(cells)
    words = sorted(word for word in counts if value_of(word) is None)
    n_words = sum(counts[word] for word in words)
    use: Use = "label"
    if 2 * n_words <= counts.total():
        use = "marks" if 0 < len(words) <= MOST_MARKS else "unclear"
    shown = words if use == "marks" else (words or sorted(counts))[: SHOWN_CELLS + 1]
    return Odd(label, called, what, use, tuple(shown), len(counts))


def settle(odd: Sequence[Odd], n_columns: int, *, numbers_too: bool = True) -> Settled:
    """Decide which columns are labels, and which must be explained; numbers that are neither stay in the table.

    `odd`: the columns that hold no bits.  `n_columns`: of the table, with them.  `numbers_too`: whether numbers are
    looked at: not where the table is said to be of real numbers, or numbers are cut.
    """
    numbers = [one for one in odd if one.what == "numbers"]
    meant_as_bits = n_columns - len(odd) + sum(one.use == "marks" for one in odd)
    looked_at = [one for one in odd if one.what != "numbers"]
    if numbers_too and meant_as_bits > sum(one.use != "marks" for one in numbers):
        looked_at = list(odd)
    labels = [one for one in looked_at if one.use == "label"]
    # a table of answers in other words than ours is not one without answers
    pairs = [one for one in labels if one.what == "text" and one.n_different == 2]
    if len(pairs) > n_columns - len(labels):
        looked_at = [one._replace(use="words") if one in pairs else one for one in looked_at]
    labels = [one for one in looked_at if one.use == "label"]
    return Settled(labels, [one for one in looked_at if one not in labels])


def taken_as_labels(labels: Sequence[Odd]) -> str:
    """Say in a line which columns were taken as labels.

    >>> taken_as_labels([of_words("site", "site", ["north"]), of_numbers("depth", "depth", np.arange(10.0))])
    'taken as labels, since they are no bits: site (text), depth (numbers)'
    """
    called = [f"{one.called} ({one.what})" for one in labels]
    return f"taken as labels, since they are no bits: {listed(called, MOST_NAMED)}"


def refusal(
    where: str, odd: Sequence[Odd], taken: Sequence[Odd] = (), of_marks: str = "say missing={marks!r}"
) -> ColumnsError:
    """Make the error of columns that hold no bits: all of them, and what may be done.

    `where`: what the message begins with.  `odd`: the columns.  `taken`: columns that would be labels.  `of_marks`:
    what to do about marks of missing cells.

    >>> print(refusal("x.csv: ", [of_numbers("q", "q", np.array([0.0, 1.0, -9.0]))]))
    x.csv: columns that hold no bits: q (with -9). If -9 marks missing cells, say missing=['-9'].
    """
    error = ColumnsError("", _complaint(where, odd), odd, taken)
    does = {"missing": of_marks.format(marks=error.missing), "labels": f"say labels={error.labels!r}"}
    advice = [f"If {why}, {does[argument]}." for argument, why in error.conditions.items()]
    error.args = (" ".join([error.what, *advice, *error.hints]),)
    return error


def _complaint(where: str, odd: Sequence[Odd]) -> str:
    """Say in a sentence which columns hold no bits."""
    lacking = "bits" if any(one.what == "numbers" for one in odd) else "numbers"
    return (
        f"{where}columns that hold no {lacking}: {listed([f'{one.called} ({_of(one)})' for one in odd], MOST_NAMED)}."
    )


def _marks(odd: Sequence[Odd]) -> list[str]:
    """Return the cells that may mark missing ones."""
    return list(dict.fromkeys(mark for one in odd if one.use == "marks" for mark in one.others))


def _labels(odd: Sequence[Odd]) -> list[str]:
    """Return the columns that may be labels, as a user names them."""
    return [one.label for one in odd if one.use in ("label", "unclear")]


def _conditions(odd: Sequence[Odd]) -> dict[str, str]:
    """Say under which conditions marks are to be named, and columns as labels."""
    found = {}
    if marks := _marks(odd):
        found["missing"] = (
            f"{listed(marks, MOST_NAMED, ' and ')} {'marks' if len(marks) == 1 else 'mark'} missing cells"
        )
    if others := [one.called for one in odd if one.use in ("label", "unclear")]:
        found["labels"] = (
            f"{listed(others, MOST_NAMED, ' and ')} {'tells' if len(others) == 1 else 'tell'} what rows are"
        )
    return found


def _hints(odd: Sequence[Odd]) -> list[str]:
    """Say in sentences what else columns of numbers and of words may be."""
    found = []
    numbers = [one for one in odd if one.what == "numbers"]
    values = sorted({float(cell) for one in numbers for cell in (*one.others, *("1",) * (one.others == ("-1",)))})
    if numbers and len(values) == 2 and all(one.n_different <= 2 for one in numbers):
        low, high = values
        found.append(f"If bits are {low:g} and {high:g}, binarize={(low + high) / 2:g} takes them.")
    elif any(
        one.what == "numbers" and (one.use != "marks" or "2" in one.others) for one in odd
    ):  # no cut through marks
        found.append("Or binarize=0.5, say, takes all numbers above 0.5 as 1.")
        found.append("Or real=True takes all as real numbers.")
    if len(odd) == 1 and odd[0].others and SEVERAL.fullmatch(odd[0].others[0]):
        found.append(
            f"A cell such as {odd[0].others[0]!r} may be several: columns must be separated by commas, semicolons, "
            "tabs or blanks."
        )
    elif any(one.use == "words" or (one.use == "unclear" and one.what == "text") for one in odd):
        found.append("Bits are written as 0 and 1, true and false, or yes and no.")
    return found


def all_words(odd: Sequence[Odd]) -> list[Odd]:
    """Make the error of a table that has columns of words alone: they cannot all be labels.

    >>> [one.use for one in all_words([of_words("q", "q", ["1", "0", "n/a"]), of_words("r", "r", ["on", "off"])])]
    ['marks', 'words']
    """
    return [one if one.use == "marks" else one._replace(use="words") for one in odd]


def _of(one: Odd) -> str:
    if one.use == "marks":
        return f"with {', '.join(one.others)}"
    more = ", ..." if one.n_different > SHOWN_CELLS else ""
    return f"{one.what}: {', '.join(one.others[:SHOWN_CELLS])}{more}"
