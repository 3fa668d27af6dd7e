"""The twos that two of the papers show: those of USPS, or the smaller ones of scikit-learn in their place."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import LatentBitsError
from latentbits.data.fetch import load_dataset

__all__ = ["Twos", "load_twos"]

DIGIT = 2


class Twos(NamedTuple):
    """Images of twos: bits, how many rows are for learning (the others for testing), size, and where they are from."""

    X: np.ndarray
    n_train: int
    image_shape: tuple[int, int]
    is_usps: bool

    @property
    def title(self) -> str:
        """What they are, in words."""
        height, width = self.image_shape
        n = len(self.X)
        whose = f"{n} twos of USPS" if self.is_usps else f"stand-in: {n} twos of scikit-learn"
        return f"{whose}, {height} x {width}"


def load_twos(which: str, notes: list[str]) -> Twos | None:
    """The twos; what could not be had is noted.

    Parameters
    ----------
    which
        "usps_twos" (scikit-learn's stand in where they cannot be had), "bundled" for these at once, or "none".
    notes
        Gets a line where something is not as it should be.
    """
    if which == "none":
        notes.append("The digits were left out.")
        return None
    if which == "usps_twos":
        try:
            found = load_dataset("usps_twos")
            return Twos(found.X, found.splits["train"][1], found.image_shape or (16, 16), True)
        except (LatentBitsError, OSError) as error:
            notes.append(
                f"The twos of USPS could not be had ({error}). The smaller twos that come with scikit-learn stand in "
                "for them: nothing here can be compared with the paper's digits."
            )
    found = load_dataset("digits")
    X = found.X[found.labels["digit"] == DIGIT]
    return Twos(X, round(0.8 * len(X)), (8, 8), False)
