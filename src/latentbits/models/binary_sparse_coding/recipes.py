"""Recipes: where learning starts and how its schedule goes, ours and the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.recipes import recipe_among

__all__ = ["HENNIGES", "OURS", "RECIPES", "Recipe", "recipe_of"]


class Recipe(NamedTuple):
    """The place where learning starts, and its schedule."""

    # components to start with: random, the mean of the rows plus noise, or rows drawn from the data plus noise
    init: str = "random"
    # standard deviation of what is random in them.  None takes a third ("random") or a twentieth of the root mean
    # square of the data.
    init_scale: float | None = None
    # sigma to start with: the root mean square of the data; their standard deviation about the means of the columns,
    # as the paper has it for bars; or eq. (7) with the first components, in a pass of all rows that learns nothing
    # else, as the paper has it for images.
    init_noise: str = "rms"
    init_sparseness: float | None = None  # pi H to start with; None takes 5, or H / 2 if that is less
    # (first, last): all rows are learned from before iteration `first`, the N_cut rows of highest evidence from
    # `last` on, and in between ever fewer.  "auto" takes a third and two thirds of the iterations, None learns from
    # all rows always.
    cut: str | tuple[int, int] | None = "auto"
    # standard deviation of the noise that is added to the components after each iteration, which separates equal
    # ones.  None takes 2.5 % of sigma, and nothing in the last tenth of the iterations.
    parameter_noise: float | None = None
    # posteriors are flattened by this to begin with; it goes down to 1 in the first third of the iterations
    temperature: float = 3.0
    # whether rows are ranked for `cut` by their evidence in the pass before, or in an additional pass with the
    # present parameters
    ranking: str = "previous"
    renew: bool = True  # whether a cause that no row uses starts again from a row that is explained badly
    # components that the noise (7) is measured about: W^new of (6), or W as printed (`equations.new_sigma`)
    noise_about: str = "new"

    def cut_of(self, n_iter: int) -> tuple[int, int] | None:
        """Return `cut` in iterations of a schedule of `n_iter`."""
        if isinstance(self.cut, str):
            return n_iter // 3, 2 * n_iter // 3
        return self.cut


OURS = Recipe()
# section 3, linear bars: the numbers are those of its data
HENNIGES = Recipe(
    init_scale=2.0,
    init_noise="std",
    cut=(20, 40),
    parameter_noise=0.05,
    temperature=1.0,
    ranking="exact",
    renew=False,
    noise_about="old",
)
RECIPES = {"ours": OURS, "henniges2010": HENNIGES}
WORDS = {
    "init": ("random", "mean", "data"),
    "init_noise": ("rms", "std", "residual"),
    "ranking": ("previous", "exact"),
    "noise_about": ("new", "old"),
}
LEAST = {"init_scale": 0.0, "init_sparseness": 0.0, "parameter_noise": 0.0, "temperature": 1.0}


def recipe_of(given: str | Mapping[str, Any]) -> Recipe:
    """Return the recipe of a name, or ours with changes; complain of values that make no sense.

    >>> recipe_of({"cut": None}).cut, recipe_of("henniges2010").temperature
    (None, 1.0)
    """
    return recipe_among(RECIPES, given, _checked)


def _checked(name: str, value: Any) -> Any:
    if name == "cut":
        return _cut(value)
    if name == "renew":
        if not isinstance(value, bool):
            raise ValueError(f"renew must be True or False, got {value!r}")
        return value
    if name in WORDS:
        if value not in WORDS[name]:
            raise ValueError(f"{name} must be one of {', '.join(WORDS[name])}, got {value!r}")
        return value
    if value is None and name != "temperature":
        return None
    least, above = LEAST[name], name == "init_sparseness"
    number = float(value) if isinstance(value, Real) and not isinstance(value, bool) else np.nan
    if not (number > least if above else number >= least):
        raise ValueError(f"{name} must be a number {'above' if above else 'from'} {least:g}, got {value!r}")
    return number


def _cut(value: Any) -> Any:
    if value is None or value == "auto":
        return value
    pair = isinstance(value, tuple | list) and len(value) == 2 and all(isinstance(x, Integral) for x in value)
    if not pair or not 0 <= value[0] <= value[1]:
        raise ValueError(f"cut must be two iterations (first, last) with 0 <= first <= last, got {value!r}")
    return int(value[0]), int(value[1])
