"""Findings in a learned network: which lines, which patterns of lines, which shifts; and the bits that are needed.

All are functions of arrays: f = 1 - exp(-w), the frequency of a child given one cause, is what decides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from latentbits.core.states import all_states
from latentbits.data.toys import LINE_PATTERNS
from latentbits.data.toys import lines as lines_toy
from latentbits.figures.noisy_or.arrays import strengths

__all__ = [
    "Images",
    "Shifts",
    "all_lines",
    "all_shifts",
    "background",
    "direction_told",
    "lines_of",
    "n_lines",
    "overlap",
    "patterns_of",
    "shifts_of",
    "sides_of",
]

CHILD_FREQUENCY = 0.5  # f from which a cause has a child


class Images(NamedTuple):
    """All images that can come up, `X` (n, d) bits, and the probability of each, `chance` (n,)."""

    X: np.ndarray
    chance: np.ndarray

    @property
    def bits(self) -> float:
        """The entropy of an image: what the best model needs."""
        return self.bits_under(np.log(self.chance))

    def bits_under(self, log_likelihood: np.ndarray) -> float:
        """Compute the bits that a model needs for an image on average, of the log p (nats) that it gives to each."""
        return float(-self.chance @ np.asarray(log_likelihood, np.float64) / np.log(2))


# --- lines ---


def lines_of(weights: np.ndarray) -> np.ndarray:
    """Find which of the ten lines each second-layer unit is: f above 1/2 on the line's five pixels, and on no others.

    `weights`: (units, 25).  Returns (units,): columns are 0 to 4, rows 5 to 9; -1 where a unit is no line.

    >>> column = 3.0 * (np.arange(25) % 5 == 2)
    >>> lines_of(np.array([column, column + 3.0 * (np.arange(25) < 5)])).tolist()
    [2, -1]
    """
    has = strengths(weights) > CHILD_FREQUENCY
    same = (has[:, None] == (lines_toy(1).components > 0)).all(axis=2)
    return np.where(same.any(axis=1), same.argmax(axis=1), -1)


def n_lines(weights: np.ndarray) -> int:
    """Count the lines, of ten, that have a unit or more."""
    return len(set(lines_of(weights).tolist()) - {-1})


def patterns_of(weights: np.ndarray, lines: np.ndarray) -> list[str]:
    """Find which pattern each third-layer unit is: one whose strongest children are units of exactly its lines.

    Strong is a child with at least half the frequency of the strongest, which must have 0.3: lines come up by
    themselves as well, so that f need not be large.

    `weights`: (units, second-layer units).  `lines` (second-layer units,): of `lines_of`.  Several units for one
    line, one is enough.  Returns list of names, "" where a unit is none.

    >>> weights = np.zeros((2, 10))
    >>> weights[0, [1, 3]] = 2.0
    >>> patterns_of(weights, np.arange(10))
    ['||', '']
    """
    members = {name: {*columns, *(5 + row for row in rows)} for name, (columns, rows) in LINE_PATTERNS.items()}
    f = strengths(weights)
    most = f.max(axis=1, keepdims=True)
    strong = (f >= most / 2) & (most >= 0.3)  # f from which a pattern has a line
    found = [set(np.asarray(lines)[has].tolist()) for has in strong]
    return [next((name for name, own in members.items() if own == one), "") for one in found]


def background(weights: np.ndarray, patterns: Sequence[str], on: np.ndarray) -> dict[str, float | bool]:
    """Find the third-layer unit most like a bias: no pattern, on in most images, and with most children alike.

    Its reach is (sum f)^2 / sum f^2 over the second-layer units, as a part of them: 1 if it brings all alike, 0.2 for
    two of ten.  A unit acts as a bias if it reaches half of them and is on in nine of ten images.

    `weights`: (units, second-layer units).  `patterns`: of `patterns_of`.  `on` (units,): share of the images in which
    each is on.  Returns `broad_reach` and `broad_on` of the unit with the largest product of both (0 where there
    is none), `has_bias`.

    >>> background(np.array([[2.0, 2.0, 0.0, 0.0], [0.5, 0.5, 0.5, 0.5]]), ["||", ""], np.array([0.3, 0.95]))
    {'broad_reach': 1.0, 'broad_on': 0.95, 'has_bias': True}
    """
    f = strengths(weights)
    reach = f.sum(axis=1) ** 2 / np.maximum((f**2).sum(axis=1), 1e-12) / f.shape[1]
    free = [name == "" for name in patterns] & (f.max(axis=1) >= 0.1)  # f from which a unit does something
    reach, on = np.where(free, reach, 0.0), np.where(free, on, 0.0)
    unit = int(np.argmax(reach * on))
    return {
        "broad_reach": float(reach[unit]),
        "broad_on": float(on[unit]),
        # as good as always on, and without a pattern: with half of the second layer
        "has_bias": bool(((reach >= 0.5) & (on >= 0.9)).any()),
    }


def all_lines(line_probability: float = 0.3, pattern_probability: float = 0.15, patterns: str = "any") -> Images:
    """List every image that `latentbits.data.toys.lines` can give.

    >>> [(len(found.X), round(found.bits, 3)) for found in (all_lines(), all_lines(patterns="alone"))]
    [(962, 9.165), (962, 5.63)]
    """
    toy = lines_toy(1)
    lines, members = toy.components.astype(np.int64), toy.pattern_components.astype(np.int64)
    on, laid = (all_states(len(one)).astype(np.int64) for one in (lines, members))
    lone, chance = (
        np.where(states > 0, p, 1 - p).prod(axis=1)
        for states, p in ((on, line_probability), (laid, pattern_probability))
    )
    n_laid = laid.sum(axis=1)
    if patterns != "any":
        chance = np.select([n_laid == 0, n_laid == 1], [1 - len(members) * pattern_probability, pattern_probability])
    of_lines = np.repeat(lone[:, None], len(laid), axis=1)
    if patterns == "alone":
        of_lines[:, n_laid > 0] = (on.sum(axis=1) == 0)[:, None]
    images = (on @ lines)[:, None] + laid @ members > 0
    return _distinct(images.reshape(-1, lines.shape[1]), (of_lines * chance).ravel())


# --- the shifter ---


class Shifts(NamedTuple):
    """Meanings of second-layer units of a shifter."""

    kinds: list[str]  # "left", "right", "other" or "dead" for each
    places: list[tuple[int, ...]]  # for each, where in the row its bits are; none unless it is a shift

    @property
    def n_covered(self) -> int:
        """Number of the local shifts, two at each place, that have a unit."""
        return len({(kind, place) for kind, places in zip(self.kinds, self.places) for place in places})

    @property
    def n_doubled(self) -> int:
        """Units more than the local shifts need: they hold what another holds."""
        return sum(map(len, self.places)) - self.n_covered

    def count(self, kind: str) -> int:
        """Count units of this kind."""
        return self.kinds.count(kind)


def shifts_of(weights: np.ndarray, usage: np.ndarray | None = None) -> Shifts:
    """Find which second-layer units are local shifts: places of the row, and the same places of the moved row one on.

    A unit has the pixels with f above 1/2, and must have both or none of a pixel and its copy.  It is "dead" if it has
    none, or is not in use; "other" if it is no shift, or if its pixels are the same moved either way.

    `weights` (units, 4 width): for inputs as of `latentbits.data.toys.shifter`: row, row, moved row, moved row.
    `usage` (units,): in which share of the rows each is on.

    >>> bit = np.eye(8)
    >>> unit = 3.0 * np.concatenate([bit[0], bit[0], bit[1], bit[1]])
    >>> shifts_of(np.array([unit, np.zeros(32), 3.0 * np.ones(32)])).kinds
    ['right', 'dead', 'other']
    """
    has = strengths(weights) > CHILD_FREQUENCY
    used = np.ones(len(has), bool) if usage is None else np.asarray(usage) >= 0.005  # share of the rows
    kinds, places = [], []
    for pixels, alive in zip(has.reshape(len(has), 4, -1), used):
        row, copy, moved, moved_copy = pixels
        right, left = ((np.roll(row, step) == moved).all() for step in (1, -1))
        is_shift = (row == copy).all() and (moved == moved_copy).all() and row.any() and right != left
        kind = "dead" if not (alive and pixels.any()) else "other" if not is_shift else "right" if right else "left"
        kinds.append(kind)
        places.append(tuple(np.flatnonzero(row).tolist()) if kind in ("left", "right") else ())
    return Shifts(kinds, places)


def overlap(weights: np.ndarray, kinds: Sequence[str]) -> float:
    """Compute the cosine between the frequencies f that two top units give to the second-layer units that are not dead.

    >>> overlap(np.array([[1.0, 0.0, 9.0], [0.0, 1.0, 9.0]]), ["left", "right", "dead"])
    0.0
    """
    one, other = strengths(weights)[:, [kind != "dead" for kind in kinds]]
    sizes = np.linalg.norm(one) * np.linalg.norm(other)
    return float(one @ other / sizes) if sizes > 0 else 0.0


def sides_of(weights: np.ndarray, kinds: Sequence[str]) -> Mapping[str, float]:
    """Judge whether shifts of one direction belong to one top unit, and those of the other to the other.

    A unit belongs to the top unit that makes it at least three times as frequent as the other does.

    Returns `belong`: share of the shifts that belong to one top unit; `agree`: share of those that belong to
    the one of their direction, as the most do.

    >>> sides_of(np.array([[2.0, 1.0], [0.0, 1.0]]), ["left", "left"])
    {'belong': 0.5, 'agree': 1.0}
    """
    one, other = strengths(weights)
    # a unit belongs to one top unit if its frequency with it is three times that with the other
    tops = np.where(one >= 3.0 * other, 1, 0) - np.where(other >= 3.0 * one, 1, 0)
    signs = np.array([{"left": 1, "right": -1}.get(kind, 0) for kind in kinds])
    shifts = signs != 0
    sided = shifts & (tops != 0)
    if not sided.any():
        return {"belong": 0.0, "agree": 0.0}
    with_sign = float(np.mean(tops[sided] == signs[sided]))
    return {"belong": float(sided.sum() / shifts.sum()), "agree": max(with_sign, 1 - with_sign)}


def direction_told(tops: np.ndarray, direction: np.ndarray) -> float:
    """Compute the share of rows whose direction is that of the more probable top unit, named as fits better.

    `tops` (n, 2): P(top unit is on | row).  `direction`: (n,), of 0 and 1.

    >>> direction_told(np.array([[0.9, 0.1], [0.2, 0.3], [0.8, 0.1], [0.1, 0.7]]), np.array([0, 1, 1, 1]))
    0.75
    """
    right = float(np.mean((tops[:, 1] > tops[:, 0]) == (np.asarray(direction) > 0)))
    return max(right, 1 - right)


def all_shifts(width: int = 8) -> Images:
    """List every image that `latentbits.data.toys.shifter` can give.

    Both directions give the same image where a row is the same moved by two places; four rows of eight bits are.

    >>> len(all_shifts().X), round(all_shifts().bits, 6)
    (508, 8.984375)
    """
    rows = all_states(width)
    images = np.concatenate([np.hstack([rows, rows] + 2 * [np.roll(rows, step, axis=1)]) for step in (1, -1)])
    return _distinct(images > 0, np.full(len(images), 1 / len(images)))


def _distinct(images: np.ndarray, chance: np.ndarray) -> Images:
    """Take images that may come up more than once, each once."""
    found, which = np.unique(images, axis=0, return_inverse=True)
    return Images(found.astype(np.uint8), np.bincount(which.ravel(), weights=chance))
