"""The synthetic target of section 4: 8 x 8 bits, ten hidden units, weights in [-6, 6], no input biases.

The paper's weights are only in its figure 4.1 (a), which is lost.  These are of the same kind (lines and curves, some
black, some white, some with borders of the other colour) and were fixed before anything was learned from them, so that
the true machine has about the errors of the paper's:

                        log-loss    single bit    reconstruction    (paper, mean of its two sets of rows)
    weights as they are     .391          .079              .297    (.399  .074  .285)
    divided by seven        .936          .373              .866    (.940  .36   .865)

The log-losses are entropies in bits per bit (50 000 rows; standard errors below .001).  2 to 8 of the units are
on at the same time, 5 on average, and their states have an entropy of 6.1 bits.

"All the weights divided by seven" cannot mean the weights alone: with the biases of the large weights, or a seventh of
them, hardly a unit would be on, and the true log-loss would be .99 or .98 instead of the paper's .94.  The biases of
the small target make each unit be on as often as in the large one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError
from latentbits.models.combination_machine import equations

__all__ = ["PATTERNS", "TARGETS", "Sample", "Target", "draw", "hidden_distribution", "parse"]

# 1 to 6 are positive weights, a to f negative ones (-1 to -6), + and - are halves
PATTERNS = """
...f....  .444....  11......  .......+  ........
....f...  44.44...  111.....  ......+e  c.......
.....f..  4...4...  1111....  ......+e  .c......
......f.  ...44...  31111...  ......+e  ..c.....
.......f  ........  131111..  ......+e  ...c....
........  ........  1131111.  ......+e  ....c...
........  ........  11131111  ........  ........
........  ........  11113111  ........  ........

........  ..ddddd1  ........  ........  ...444..
........  ..111111  ++++....  ........  ..44.44.
.....11.  ..111111  dddd+...  f+......  ..4...4.
....1ee1  ..111111  ++++....  +f+.....  ........
.....1ee  ........  ........  .+f+....  ........
......1e  ........  ........  ..+f+...  ........
.....1ee  ........  ........  ...+f+..  ........
....1ee1  ........  ........  ........  ........
"""
LEVELS = {
    ".": 0.0,
    "+": 0.5,
    "-": -0.5,
    **{str(size): float(size) for size in range(1, 7)},
    **{"abcdef"[size - 1]: -float(size) for size in range(1, 7)},
}
MOST_UNITS = 16


class Target(NamedTuple):
    """`weights` (m, n) and `hidden_bias` (m,), for inputs of -1 and +1."""

    weights: np.ndarray
    hidden_bias: np.ndarray


class Sample(NamedTuple):
    """`X` (rows, n) bits, and `hidden` (rows, m): the units that were on."""

    X: np.ndarray
    hidden: np.ndarray


def parse(patterns: str) -> np.ndarray:
    """Read weights from a picture: matrices side by side, then below one another.

    >>> parse("1.  .b\\n.f  +-").tolist()
    [[1.0, 0.0, 0.0, -6.0], [0.0, -2.0, 0.5, -0.5]]
    """
    blocks = [block.split("\n") for block in patterns.strip("\n").split("\n\n")]
    matrices = [matrix for block in blocks for matrix in zip(*(line.split() for line in block), strict=True)]
    return np.array([[LEVELS[mark] for line in matrix for mark in line] for matrix in matrices])


TARGETS = {
    "large": Target(parse(PATTERNS), np.array((-23.1, -33.9, -13.9, -18.4, -1.5, -38.4, -0.6, -8.8, -22.6, -14.2))),
    "small": Target(
        parse(PATTERNS) / 7, np.array((-2.23, -2.89, 1.63, -0.93, -0.08, -2.47, 1.15, -1.29, -1.71, -1.68))
    ),
}


def hidden_distribution(target: Target) -> tuple[np.ndarray, np.ndarray]:
    """List all states of the hidden units (2^m, m) and their probabilities (2^m,), equation 3.4.

    >>> states, p = hidden_distribution(TARGETS["large"])
    >>> (p @ states).round(1).tolist()
    [0.4, 0.2, 0.9, 0.6, 0.5, 0.5, 0.9, 0.3, 0.4, 0.4]
    """
    m = len(target.hidden_bias)
    if m > MOST_UNITS:
        raise DataError(f"at most {MOST_UNITS} hidden units are enumerated here, found {m}")
    return equations.states(m), equations.hidden_distribution(target.weights, target.hidden_bias)


def draw(target: Target, n_rows: int, random_state: int | np.random.Generator | None = None) -> Sample:
    """Draw an exact sample: a state of the hidden units by its probability, then bits that are independent given it.

    >>> draw(TARGETS["large"], 5, 0).X.shape
    (5, 64)
    """
    rng = np.random.default_rng(random_state)
    states, p = hidden_distribution(target)
    hidden = states[rng.choice(len(states), n_rows, p=p / p.sum())]
    mean = np.tanh(hidden @ target.weights)
    X = rng.random(mean.shape) < 0.5 * (1 + mean)
    return Sample(X.astype(np.uint8), hidden.astype(np.uint8))
