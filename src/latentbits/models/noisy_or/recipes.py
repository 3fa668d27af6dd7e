"""Recipes: how the layers of a noisy-OR network are learned, ours and the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import Any, NamedTuple

from latentbits.core.recipes import recipe_among

__all__ = ["OURS", "PAPER", "RECIPES", "Recipe", "recipe_of"]


class Recipe(NamedTuple):
    """How the layers of a network are learned."""

    # "robust": layer after layer, each without those above it; units that do nothing are put to new use, and at the
    # end all layers are learned together.  The others are those that the paper compares, with all layers sampled from
    # the beginning: "layers" are adapted one after the other, those above keep their random start; all "together"; or
    # by "stability", all too, but weights to a unit once the unit itself rarely changes.  All take as many passes.
    schedule: str = "robust"
    # hidden states in learning: "gibbs" samples, "exact" sums over all states, and splits no units; "auto" explores by
    # sampling, and sums at the end where it can
    inference: str = "auto"
    n_epochs: int = 10  # passes for each layer of the paper's schedules


OURS = Recipe()
PAPER = Recipe(schedule="layers")
RECIPES = {"ours": OURS, "lewicki1996": PAPER}
WORDS = {"schedule": ("robust", "layers", "stability", "together"), "inference": ("auto", "gibbs", "exact")}


def recipe_of(given: str | Mapping[str, Any]) -> Recipe:
    """Return the recipe of a name, or ours with changes; complain of values that make no sense.

    >>> recipe_of({"inference": "exact"}).inference, recipe_of("lewicki1996").schedule
    ('exact', 'layers')
    """
    found = recipe_among(RECIPES, given, _checked)
    if found.schedule == "stability" and found.inference == "exact":
        raise ValueError(
            "recipe: schedule 'stability' looks at how units change in sampling: leave inference 'exact' out"
        )
    return found


def _checked(name: str, value: Any) -> Any:
    if name in WORDS:
        if value not in WORDS[name]:
            raise ValueError(f"{name} must be one of {', '.join(WORDS[name])}, got {value!r}")
        return value
    if isinstance(value, bool) or not isinstance(value, Integral) or value < 1:
        raise ValueError(f"{name} must be a whole number from 1, got {value!r}")
    return int(value)
