"""What a case may end in, and what is a fault."""

from __future__ import annotations

import re
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["REFUSALS", "Case", "Fault", "attempt", "new_case"]

# What the library may raise on purpose; its own errors derive from these or from LatentBitsError.
REFUSALS = (ValueError, TypeError)

_PRECISION = re.compile(
    r"precis|round|float|digit|accura|offset|cancel|cent(re|er)|narrow|lost|lose|rough|infinity", re.I
)


class Fault(AssertionError):
    """The library did what it must not."""

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}; found {found}")
        self.expected, self.found = expected, found


@dataclass
class Case:
    """One case: its random numbers, a folder, and the words of what is done in it."""

    kind: str
    seed: int
    number: int
    rng: np.random.Generator
    folder: Path
    shared: Path  # a folder that all cases of a run have, for what is dear to make
    light: bool = False  # only what takes little compiling: no family beyond products and mixtures, no page
    done: list[str] = field(default_factory=list)
    warned: list[str] = field(default_factory=list)

    def say(self, text: str) -> None:
        self.done.append(text)

    def pick(self, *of: Any) -> Any:
        return of[int(self.rng.integers(len(of)))]

    @property
    def warned_of_numbers(self) -> bool:
        """Whether a warning was about the precision of what came out: others do not excuse a wrong number."""
        return any(_PRECISION.search(text) for text in self.warned)

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)


@contextmanager
def new_case(kind: str, seed: int, number: int, shared: Path, light: bool = False) -> Iterator[Case]:
    """The case of this kind, seed and number, for as long as its folder is there."""
    words = [seed, number, *kind.encode()]
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        yield Case(kind, seed, number, np.random.default_rng(words), Path(folder), shared, light)


def attempt(case: Case, what: str, act: Callable[[], Any], also: tuple[type[BaseException], ...] = ()) -> Any:
    """Do it; the answer, or None where it was refused as the library promises, with a message.

    Warnings are kept in `case.warned`: a number that comes with one is not silent.
    """
    from latentbits.core.errors import LatentBitsError

    case.say(what)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            answer = act()
        except (*REFUSALS, LatentBitsError, *also) as error:
            if not str(error).strip():
                raise Fault("a message", f"an empty {type(error).__name__} from {what}") from error
            case.say(f"refused: {type(error).__name__}")
            answer = None
    from sklearn.exceptions import ConvergenceWarning  # fits here are cut short on purpose

    case.warned += [str(item.message) for item in caught if not issubclass(item.category, ConvergenceWarning)]
    return answer
