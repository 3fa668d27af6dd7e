"""Parts of the reports of a test: items, the answers to them, and a grid over the latents."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm

from latentbits.core.batch import MISSING

__all__ = ["MOST_ON_GRID", "Answers", "Grid", "Items", "curves", "distinct", "grid_for", "in_place", "listed",
           "log_curves", "slices", "still", "whole"]  # fmt: skip

REACH_SDS = 6.0  # standard deviations on either side that a grid covers: what is beyond is one part in 10^9
COARSEST_SPACING = {1: 0.2, 2: 0.4, 3: 0.6}  # spacing by number of dimensions
FINEST_SPACING = {1: 0.02, 2: 0.2, 3: 0.4}
MOST_ON_GRID = max(COARSEST_SPACING)


class Items(NamedTuple):
    """Items of a test: P(1 | z) = c + (1 - c) sigmoid(a z + d), z standard normal."""

    names: list[str]  # one for each item
    # slopes, intercepts: a (items, dimensions) and d (items,)
    slopes: np.ndarray
    intercepts: np.ndarray
    lower: np.ndarray  # c (items,), the probability that is left however low z is: 0 for an item that has none

    @property
    def n_dimensions(self) -> int:
        """Number of dimensions of the latent space."""
        return self.slopes.shape[1]

    @property
    def n_own(self) -> np.ndarray:
        """Parameters of each item: slopes, an intercept, and a lower asymptote where it has one."""
        return self.n_dimensions + 1 + (self.lower > 0).astype(int)

    def only(self, which: np.ndarray) -> Items:
        """Take some of the items."""
        names = [name for name, kept in zip(self.names, which) if kept]
        return Items(names, self.slopes[which], self.intercepts[which], self.lower[which])


class Answers(NamedTuple):
    """Distinct rows of a table, each with how often it counts."""

    rows: np.ndarray  # (patterns, items) 0, 1, or 255 where there is no answer
    counts: np.ndarray  # (patterns,) how often each counts
    place: np.ndarray  # (rows of the table,) which pattern each row is

    @property
    def right(self) -> np.ndarray:
        """Mark answers of 1, as numbers."""
        return (self.rows == 1).astype(float)

    @property
    def wrong(self) -> np.ndarray:
        """Mark answers of 0, as numbers."""
        return (self.rows == 0).astype(float)

    @property
    def answered(self) -> np.ndarray:
        """(patterns,) whether there is any answer."""
        return (self.rows != MISSING).any(1)

    @property
    def complete(self) -> np.ndarray:
        """(patterns,) whether there is an answer to every item."""
        return (self.rows != MISSING).all(1)

    @property
    def varying(self) -> np.ndarray:
        """(items,) whether there are answers of both kinds, in rows that count."""
        return (self.counts @ self.right > 0) & (self.counts @ self.wrong > 0)

    def only(self, patterns: np.ndarray | slice) -> Answers:
        """Take some of the patterns; which rows of the table they are is left out."""
        return Answers(self.rows[patterns], self.counts[patterns], np.zeros(0, int))

    def of_items(self, which: np.ndarray) -> Answers:
        """Take the answers to some of the items."""
        return self._replace(rows=self.rows[:, which])


class Grid(NamedTuple):
    """Evenly spaced points (points, dimensions) over a standard normal, and weights that sum to 1."""

    points: np.ndarray
    weights: np.ndarray


class Curves(NamedTuple):
    """Items at given points, each (points, items), so arranged that nothing cancels far out."""

    # right, wrong: P and 1 - P
    right: np.ndarray
    wrong: np.ndarray
    sigmoid: np.ndarray  # P without the lower asymptote
    # up, down: change of log P and of -log(1 - P) with the item's logit; the item's slopes times them, with the
    # latents
    up: np.ndarray
    down: np.ndarray

    @property
    def information(self) -> np.ndarray:
        """For each item, about its logit: P'^2 / (P (1 - P)).  Times a a' it is that about the latents."""
        return self.up * self.down


def curves(items: Items, points: np.ndarray) -> Curves:
    """Compute the probabilities of the items at points (points, dimensions)."""
    z, c = points @ items.slopes.T + items.intercepts, items.lower
    up, down = expit(z), expit(-z)
    right = c + (1 - c) * up
    # of those who are right, they who would be without the lower asymptote; without one, all, though P may be 0
    share = np.divide((1 - c) * up, right, out=np.ones_like(right), where=np.broadcast_to(c > 0, right.shape))
    return Curves(right, (1 - c) * down, up, down * share, up)


def log_curves(items: Items, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute log P and log(1 - P) of the items at points."""
    z, c = points @ items.slopes.T + items.intercepts, items.lower
    with np.errstate(divide="ignore"):
        guessed = np.log(c)
    right = np.logaddexp(guessed, np.log1p(-c) - np.logaddexp(0, -z))
    return right, np.log1p(-c) - np.logaddexp(0, z)


def grid_for(items: Items) -> Grid:
    """Make a grid on which integrals over these items, and over the posteriors of their answers, are accurate.

    The error of evenly spaced points falls as exp(-2 pi y / spacing), with y the distance of the nearest pole, pi / a
    for a sigmoid of slope a, and as exp(-2 (pi s / spacing)^2) for a Gaussian of standard deviation s.
    """
    q = items.n_dimensions
    steepest = np.linalg.norm(items.slopes, axis=1).max(initial=1e-9)
    narrowest = 1 / np.sqrt(1 + 0.25 * np.sum(items.slopes**2))  # no posterior is narrower than that
    spacing = max(min(COARSEST_SPACING[q], 1 / steepest, narrowest), FINEST_SPACING[q])
    line = np.linspace(-REACH_SDS, REACH_SDS, 2 * int(np.ceil(REACH_SDS / spacing - 1e-9)) + 1)
    points = np.stack([axis.ravel() for axis in np.meshgrid(*[line] * q, indexing="ij")], 1)
    weights = np.exp(norm.logpdf(points).sum(1))
    return Grid(points, weights / weights.sum())


def distinct(blocks: Iterable[np.ndarray], weights: np.ndarray | None = None) -> Answers:
    """Find the distinct rows of a table that comes in blocks of bytes."""
    parts = [np.unique(np.ascontiguousarray(block), axis=0, return_inverse=True) for block in blocks]
    starts = np.cumsum([0, *(len(rows) for rows, _ in parts)])
    rows, merged = np.unique(np.concatenate([rows for rows, _ in parts]), axis=0, return_inverse=True)
    place = np.concatenate([merged.ravel()[start + own.ravel()] for start, (_, own) in zip(starts, parts)])
    return Answers(rows, np.bincount(place, weights, minlength=len(rows)).astype(float), place)


def slices(n: int, width: int) -> Iterator[slice]:
    """Cut n rows into runs of a length at which an array of these columns stays small."""
    step = max(1, 2**22 // max(width, 1))  # numbers of one array
    for first in range(0, n, step):
        yield slice(first, min(first + step, n))


def whole(counts: np.ndarray) -> np.ndarray:
    """Give counts as whole numbers where they are, which prints better."""
    rounded = np.rint(counts)
    return rounded.astype(int) if np.array_equal(rounded, counts) else counts


def in_place(values: np.ndarray, which: np.ndarray, nothing: float = np.nan) -> np.ndarray:
    """Put the values of some columns (or of pairs) among those of all, which have nothing."""
    full = np.full((len(which),) * values.ndim, nothing, values.dtype if nothing == 0 else float)
    full[np.ix_(*[which] * values.ndim)] = values
    return full


def still(items: Items, answers: Answers) -> str:
    """Write a note on items that do not vary in a table; nothing where all do."""
    names = [name for name, varies in zip(items.names, answers.varying) if not varies]
    return f"in this table all rows answer alike: {listed(names)}" if names else ""


def listed(names: list[str], most: int = 5) -> str:
    """Write names in a sentence, the first few if they are many."""
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
