"""The digits that three of the papers show: those of USPS, or the smaller ones of scikit-learn in their place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import LatentBitsError
from latentbits.data.fetch import Dataset, load_dataset

__all__ = ["Twos", "load_or_stand_in", "load_twos"]


class Twos(NamedTuple):
    """Images of twos: bits, how many rows are for learning (the others for testing), size, and where they are from."""

    X: np.ndarray
    n_train: int
    image_shape: tuple[int, int]
    is_usps: bool

    @property
    def title(self) -> str:
        """Title of the set, in words."""
        height, width = self.image_shape
        n = len(self.X)
        whose = f"{n} twos of USPS" if self.is_usps else f"stand-in: {n} twos of scikit-learn"
        return f"{whose}, {height} x {width}"


def load_or_stand_in(which: str, wanted: str, words: str, notes: list[str]) -> tuple[Dataset, bool] | None:
    """Load a set of digits, and say whether it is the one that is wanted; what could not be had is noted.

    `which`: `wanted`, for which the digits of scikit-learn stand in where it cannot be had, "bundled" for these at
    once, or "none".  `words`: name of the digits in messages.  `notes`: gets a line where something is not as it should
    be.
    """
    if which == "none":
        notes.append("The digits were left out.")
        return None
    if which == wanted:
        try:
            return load_dataset(wanted), True
        except (LatentBitsError, OSError) as error:
            notes.append(
                f"The {words} of USPS could not be had ({error}). The smaller {words} that come with scikit-learn stand"
                " in for them: nothing here can be compared with the paper's digits."
            )
    return load_dataset("digits"), False


def load_twos(which: str, notes: list[str]) -> Twos | None:
    """Load the twos, "usps_twos" or what stands in for them, as `load_or_stand_in` has it."""
    loaded = load_or_stand_in(which, "usps_twos", "twos", notes)
    if loaded is None:
        return None
    found, is_usps = loaded
    if is_usps:
        return Twos(found.X, found.splits["train"][1], found.image_shape or (16, 16), True)
    X = found.X[found.labels["digit"] == 2]
    return Twos(X, round(0.8 * len(X)), (8, 8), False)
