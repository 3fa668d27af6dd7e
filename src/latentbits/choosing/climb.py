"""A climb over settings on validation rows, one step at a time, and the least time that a step gets.

Searches climb along one axis, the number of causes; the league along several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

__all__ = ["LEAST_FIT_SECONDS", "LEAST_SCORING_SECONDS", "Axis", "Place", "best_place", "doublings", "next_places"]

LEAST_FIT_SECONDS = 1.0  # compilation aside, whatever the budget: in less, even small fits are cut off
LEAST_SCORING_SECONDS = 10.0  # whatever the budget: a fit that is not scored is lost
Place = tuple[int, ...]  # of a setting: on each axis, the number of its value


class Axis(NamedTuple):
    """A parameter that is chosen."""

    name: str  # name of the constructor's parameter
    values: tuple[Any, ...]  # from cheap to dear, or from weak to strong
    first: Any  # the value to begin with
    stride: int = 1  # how many values are taken at a time on the way up, where each is a long fit


def doublings(first: int, least: int, most: int) -> tuple[int, ...]:
    """List the sizes reached from the first by doubling and halving.

    >>> doublings(8, 2, 40)
    (2, 4, 8, 16, 32)
    """
    sizes = [first]
    while sizes[0] // 2 >= max(least, 1):
        sizes.insert(0, sizes[0] // 2)
    while sizes[-1] * 2 <= most:
        sizes.append(sizes[-1] * 2)
    return tuple(sizes)


def best_place(tried: Mapping[Place, Any]) -> Place:
    """Find the place worth most; of several the first, which is the cheapest."""
    return max(tried, key=lambda place: (tried[place], [-number for number in place]))


def next_places(axes: tuple[Axis, ...], tried: Mapping[Place, Any], down_first: bool = False) -> list[Place]:
    """List the settings to try next, the one that promises most first, given what those tried were worth.

    The climb begins at the first values.  From the best setting so far one parameter is changed at a time, the first of
    the axes first: up, by its stride while no larger value was tried, then down (or down, then up, once a larger value
    was tried, with `down_first`).  So it climbs for as long as it gains.  Where all so far have failed (-inf), the
    first parameter is lowered.

    >>> axes = (Axis("size", (1, 2, 4, 8), 1, stride=2), Axis("prior", (0.1, 1.0), 1.0))
    >>> next_places(axes, {}), next_places(axes, {(0, 1): -9.0})
    ([(0, 1)], [(2, 1), (1, 1), (0, 0)])
    >>> next_places(axes, {(0, 1): -9.0, (2, 1): -8.0}), next_places(axes, {(0, 1): -9.0, (2, 1): -9.5, (1, 1): -9.3})
    ([(3, 1), (1, 1), (2, 0)], [(0, 0)])
    """
    if not tried:
        return [tuple(axis.values.index(axis.first) for axis in axes)]
    best = best_place(tried)
    if tried[best] == -np.inf:
        lowest = min(tried)
        return [(lowest[0] - 1, *lowest[1:])] if lowest and lowest[0] > 0 else []
    places = []
    for number, axis in enumerate(axes):
        along = {place[number] for place in tried if _elsewhere(place, number) == _elsewhere(best, number)}
        here = best[number]
        if here == max(along):
            goals = [*dict.fromkeys((here + axis.stride, here + 1)), here - 1]
        else:
            goals = [here - 1, here + 1] if down_first else [here + 1, here - 1]
        places += [
            (*best[:number], goal, *best[number + 1 :])
            for goal in goals
            if 0 <= goal < len(axis.values) and goal not in along
        ]
    return places


def _elsewhere(place: Place, number: int) -> Place:
    return place[:number] + place[number + 1 :]
