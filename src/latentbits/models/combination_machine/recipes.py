"""Recipes: how a machine is searched for and climbed, ours and the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from latentbits.core.recipes import recipe_among

__all__ = ["FREUND", "OURS", "RECIPES", "Recipe", "recipe_of"]


class Recipe(NamedTuple):
    """How a machine is searched for and climbed."""

    # for the gradient: Adam on batches of rows (with sampled expectations where more than 2^12 states would have to
    # be summed for each), then L-BFGS; or plain ascent with momentum, all rows at every step, for `max_iter` steps
    optimizer: str = "adam"
    # whether a pursuit is the paper's to the letter: bits are taken for real numbers of variance 1, and the weights
    # found for those are the machine's, with biases that treat units as independent.  Otherwise weights are
    # translated, which describes bits far better, and after a pursuit alone the biases are refitted to the machine's
    # own likelihood where it can be summed.
    faithful: bool = False
    pursuit_starts: int = 8  # starts of every unit of a pursuit, the best of which is taken
    n_chains: int = 500  # parallel chains of "stochastic": more have less noise, fewer take less time and memory
    # number of the largest terms of Z that gradients follow (section 3.1), for more units than can be summed; a search
    # for them takes about max_terms x units x columns steps a few times over.  None sums all.
    max_terms: int | None = None


OURS = Recipe()
FREUND = Recipe(optimizer="momentum", faithful=True, pursuit_starts=1)
RECIPES = {"ours": OURS, "freund1994": FREUND}


def recipe_of(given: str | Mapping[str, Any]) -> Recipe:
    """Return the recipe of a name, or ours with changes; complain of values that make no sense.

    >>> recipe_of({"n_chains": 100}).n_chains, recipe_of("freund1994").optimizer
    (100, 'momentum')
    """
    return recipe_among(RECIPES, given, _checked)


def _checked(name: str, value: Any) -> Any:
    if name == "optimizer":
        if value not in ("adam", "momentum"):
            raise ValueError(f"optimizer must be 'adam' or 'momentum', got {value!r}")
        return value
    if name == "faithful":
        if not isinstance(value, bool):
            raise ValueError(f"faithful must be True or False, got {value!r}")
        return value
    if name == "max_terms" and value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}")
    return int(value)
