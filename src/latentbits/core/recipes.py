"""Recipes of learning: settings that have a name together, or ours with changes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

__all__ = ["recipe_among"]

R = TypeVar("R")  # a named tuple


def recipe_among(recipes: Mapping[str, R], given: str | Mapping[str, Any], checked: Callable[[str, Any], Any]) -> R:
    """Return the recipe of a name, or "ours" with changes, whose values `checked(name, value)` returns or refuses."""
    if isinstance(given, str):
        if given not in recipes:
            raise ValueError(f"recipe must be one of {', '.join(recipes)} or a dict, got {given!r}")
        return recipes[given]
    ours: Any = recipes["ours"]
    unknown = sorted(map(str, set(given) - set(ours._fields)))
    if unknown:
        raise ValueError(f"recipe has no {', '.join(unknown)}: it has {', '.join(ours._fields)}")
    changed: R = ours._replace(**{name: checked(name, value) for name, value in given.items()})
    return changed
