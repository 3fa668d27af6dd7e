"""The twenty public sets: their names, what they are, and their rows."""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np

from latentbits.data.fetch import Dataset, array_digest, datasets, load_dataset

__all__ = ["SETS", "LearningRows", "describe", "learning_rows", "test_rows"]

SETS = (
    *("nltcs", "msnbc", "kdd", "plants", "baudio", "jester", "bnetflix", "accidents", "tretail", "pumsb_star"),
    *("dna", "kosarek", "msweb", "book", "tmovie", "cwebkb", "cr52", "c20ng", "bbc", "ad"),
)  # by their numbers of columns, as the literature lists them


class LearningRows(NamedTuple):
    """The rows that models learn from and are chosen on; `digest` differs for those of another file."""

    train: np.ndarray
    valid: np.ndarray
    digest: str


def describe(name: str) -> str:
    """Describe the rows and columns of a set.

    >>> describe("accidents")
    'circumstances of traffic accidents'
    """
    text = next(info.description for info in datasets() if info.name == name)
    return text.partition(": ")[2].partition(" (")[0]


def learning_rows(name: str) -> LearningRows:
    """Load all rows that may have a say in what is chosen."""
    found = load_dataset(name)
    train, valid = _part(found, "train"), _part(found, "valid")
    return LearningRows(train, valid, hashlib.sha256((array_digest(train) + array_digest(valid)).encode()).hexdigest())


def test_rows(name: str) -> np.ndarray:
    """Load the rows that are looked at once, when all is chosen."""
    return _part(load_dataset(name), "test")


def _part(found: Dataset, name: str) -> np.ndarray:
    return found.split(name).X
