"""The bootstrap likelihood-ratio test of the number of latent classes (McLachlan 1987).

Tables are drawn from the mixture of k classes, with the holes of the table at hand, and each is fitted with k classes
and with more.  The table at hand goes through the same program, from as many starts, so that maxima are searched for as
hard in it as in the draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import jax
import numpy as np

from latentbits.core import interrupts
from latentbits.core.batch import MISSING
from latentbits.core.tree import double
from latentbits.engines.parallel_chunks import InFlight
from latentbits.models.mixture import bootstrap as many
from latentbits.reports.record import Report, Table

__all__ = ["BootstrapTest", "bootstrap_test"]

TOL_NATS = 1e-5  # left to gain; LR of draws is compared to far fewer digits
SHORT_CYCLES = 4  # cycles, three steps of EM each, after which the best starts are chosen
BLOCK_BYTES = 2**22  # of what is climbed at a time
# climbs of a block: few, since all of them go on until the last has arrived; more, where calls of the program
# would take much of the time
CHUNK_BYTES = 2**27  # of the draws that are held at a time


@dataclass(frozen=True)
class BootstrapTest(Report):
    """Whether a mixture of k classes needs more of them, by tables that were drawn from it."""

    statistic: float  # 2 (log L of k + n_more classes - log L of k classes), each at the best maximum that was found
    p_value: float  # (1 + draws whose statistic is as large) / (draws + 1)
    # n_components, n_more, n_draws: k, the classes more, and the tables that were drawn
    n_components: int
    n_more: int
    n_draws: int
    # log_likelihood, log_likelihood_more: of the table, in nats, with k and with k + n_more classes
    log_likelihood: float
    log_likelihood_more: float
    # g2, g2_p, x2, x2_p: likelihood-ratio and Pearson's statistic of the k classes against all patterns, with their
    # p-values by the same draws, which hold where patterns are too many for a chi-square distribution.  NaN where
    # bits are missing.
    g2: float
    g2_p: float
    x2: float
    x2_p: float
    # draws, g2_draws, x2_draws: the statistics of the draws
    draws: np.ndarray
    g2_draws: np.ndarray
    x2_draws: np.ndarray
    notes: tuple[str, ...]  # what has to be said of these numbers

    def table(self) -> Table:
        """Make one row for each statistic: its value, the p-value, and the spread of the draws."""
        k, more = self.n_components, self.n_components + self.n_more
        names = [f"LR, {k} against {more} classes", f"G2, {k} classes", f"X2, {k} classes"]
        drawn = np.array([self.draws, self.g2_draws, self.x2_draws])
        columns = {
            "statistic": [self.statistic, self.g2, self.x2],
            "p": [self.p_value, self.g2_p, self.x2_p],
            "mean of draws": drawn.mean(1).tolist(),
            "95 % of draws": np.quantile(drawn, 0.95, axis=1).tolist(),
        }
        return Table(names, columns, f"Bootstrap test, {self.n_draws} draws", self.notes)


class _Tables(NamedTuple):
    """Small tables as distinct patterns with their counts, filled up to one length by patterns that count nothing."""

    patterns: np.ndarray
    counts: np.ndarray


class _Climbs(NamedTuple):
    """The values of `many.Climb`, on the host."""

    at: np.ndarray
    value: np.ndarray
    left: np.ndarray


class _Fits(NamedTuple):
    """For each table: the best mixture, its log-likelihood, and whether it has arrived."""

    at: np.ndarray
    value: np.ndarray
    arrived: np.ndarray


def bootstrap_test(
    rows: np.ndarray,
    counts: np.ndarray | None,
    weights: np.ndarray,
    means: np.ndarray,
    *,
    n_draws: int,
    seed: int,
    n_starts: int,
    n_more: int = 1,
    after_each: Callable[[int], None] = lambda n: None,
) -> BootstrapTest:
    """Draw, fit and count.

    Parameters
    ----------
    rows, counts
        Bits with 255 for missing, and how often each row counts: whole numbers; None for once.
    weights, means
        Of the mixture of k classes that is tested.
    n_draws, seed, n_starts, n_more
        As `BernoulliMixture.bootstrap_test` has them.
    after_each
        Called after every draw that is done, by their number.
    """
    repeats = np.ones(len(rows), np.int64) if counts is None else np.asarray(counts).astype(np.int64)
    answered = (rows != MISSING).any(1) & (repeats > 0)
    rows, repeats = rows[answered], repeats[answered]
    first, kind, _ = many.distinct(rows)
    holes = np.repeat(rows == MISSING, repeats, axis=0) if (rows == MISSING).any() else None
    n, k = int(repeats.sum()), len(weights)
    search = _Search(k, k + n_more, n_starts, holes is None)
    seeds = np.random.SeedSequence(seed).spawn(2)

    rng = np.random.default_rng(seeds[0])
    # of the length that draws will have, so that one program does for both
    pilot = _drawn(rng, weights, means, holes, n, 16)
    own = _padded([rows[first]], [np.bincount(kind, repeats)], 9 * int((pilot.counts > 0).sum(1).max()) // 8)
    begin = many.padded(weights, means, k + n_more)
    fewer = search.of_fewer(rng, own, begin)
    more = search.of_more(rng, own, fewer)
    null = fewer.at[0, :k, 0] ** 2, np.sin(fewer.at[0, :k, 1:] / 2) ** 2
    found = [_statistics(own, fewer, more, holes is None)]
    late = int((~fewer.arrived | ~more.arrived).sum())

    size = _chunk_size(n, rows.shape[1], k + n_more, n_starts)
    for chunk in range(0, n_draws, size):
        rng = np.random.default_rng(seeds[1].spawn(1)[0])
        drawn = _drawn(rng, *null, holes, n, min(size, n_draws - chunk), own.counts.shape[1])
        fewer_of_draws = search.of_fewer(rng, drawn, fewer.at[0])
        more_of_draws = search.of_more(rng, drawn, fewer_of_draws)
        found.append(_statistics(drawn, fewer_of_draws, more_of_draws, holes is None))
        late += int((~fewer_of_draws.arrived | ~more_of_draws.arrived).sum())
        after_each(len(found[-1]))

    own_numbers, draws = found[0][0], np.concatenate(found[1:])
    # what is equal but for rounding and the tolerance of the climbs counts as large
    exceed = (draws >= own_numbers - 10 * TOL_NATS).sum(0)
    p = np.where(np.isnan(own_numbers), np.nan, (1 + exceed) / (n_draws + 1))
    at_params = _log_likelihood(search, own, begin)
    notes = _notes(fewer.value[0] - at_params, late, holes is not None)
    return BootstrapTest(
        statistic=float(own_numbers[0]),
        p_value=float(p[0]),
        n_components=k,
        n_more=n_more,
        n_draws=n_draws,
        log_likelihood=float(fewer.value[0]),
        log_likelihood_more=float(more.value[0]),
        g2=float(own_numbers[1]),
        g2_p=float(p[1]),
        x2=float(own_numbers[2]),
        x2_p=float(p[2]),
        draws=draws[:, 0],
        g2_draws=draws[:, 1],
        x2_draws=draws[:, 2],
        notes=notes,
    )


def _notes(below: float, late: int, with_holes: bool) -> tuple[str, ...]:
    notes = []
    if below > 0.01:
        notes.append(
            f"this model is {below:.3g} nats below a better maximum of as many classes, which the test was made with: "
            "fit it with more restarts (n_init)"
        )
    if late:
        notes.append(f"{late} tables have a maximum that is not reached to {TOL_NATS:g} nats")
    if with_holes:
        notes.append("G2 and X2 compare with the counts of complete patterns, and bits are missing here")
    return tuple(notes)


def _statistics(tables: _Tables, fewer: _Fits, more: _Fits, complete: bool) -> np.ndarray:
    """Compute LR, G2 and X2 of each table."""
    ratio = 2 * (more.value - fewer.value)
    if not complete:
        return np.column_stack([ratio, np.full((len(ratio), 2), np.nan)])
    n = tables.counts.sum(1)
    there = tables.counts > 0
    some = np.where(there, tables.counts, 1)
    log_expected = np.log(n)[:, None] + _log_probabilities(tables.patterns, fewer.at)
    g2 = 2 * (tables.counts * np.where(there, np.log(some) - log_expected, 0)).sum(1)
    # expected counts of all patterns add to n, so those that are not there need not be listed
    x2 = np.where(there, some**2 * np.exp(-log_expected), 0).sum(1) - n
    return np.column_stack([ratio, g2, x2])


def _log_probabilities(patterns: np.ndarray, at: np.ndarray) -> np.ndarray:
    """Compute the log-likelihood of complete patterns under the mixture of each table."""
    squares = at[..., 0] ** 2
    means = np.clip(np.sin(at[..., 1:] / 2) ** 2, 1e-12, 1 - 1e-12)
    ones = (patterns == 1).astype(float)
    joint = ones @ np.log(means).swapaxes(1, 2) + (1 - ones) @ np.log1p(-means).swapaxes(1, 2)
    with np.errstate(divide="ignore"):
        return np.logaddexp.reduce(joint + np.log(squares / squares.sum(1, keepdims=True))[:, None], axis=2)


def _log_likelihood(search: _Search, tables: _Tables, at: np.ndarray) -> float:
    return float(search.climbed(tables, np.zeros(1, int), at[None], 0).value[0])


# ---------------------------------------------------------------- tables


def _drawn(
    rng: np.random.Generator,
    weights: np.ndarray,
    means: np.ndarray,
    holes: np.ndarray | None,
    n: int,
    n_tables: int,
    at_least: int = 1,
) -> _Tables:
    """Draw tables of n rows, with room for at least `most` patterns."""
    patterns, counts = [], []
    for _ in range(n_tables):
        interrupts.check()
        rows = many.draw(rng, weights, means, holes, n)
        first, _, of_kind = many.distinct(rows)
        patterns.append(rows[first])
        counts.append(of_kind)
    return _padded(patterns, counts, at_least)


def _padded(patterns: list[np.ndarray], counts: list[np.ndarray], at_least: int) -> _Tables:
    longest = _rounded_up(max(at_least, *map(len, patterns)))
    out = _Tables(
        np.zeros((len(patterns), longest, patterns[0].shape[1]), np.uint8), np.zeros((len(patterns), longest))
    )
    for table, (rows, times) in enumerate(zip(patterns, counts)):
        out.patterns[table, : len(rows)] = rows
        out.counts[table, : len(rows)] = times
    return out


def _rounded_up(n: int) -> int:
    """Round up to one of few numbers, so that few shapes are compiled: 16, 24, 32, 48, 64, ...

    >>> _rounded_up(3), _rounded_up(17), _rounded_up(33), _rounded_up(49)
    (16, 24, 48, 64)
    """
    power = max(16, 1 << (n - 1).bit_length())
    return power * 3 // 4 if power > 16 and n <= power * 3 // 4 else power


def _chunk_size(n_rows: int, n_columns: int, n_components: int, n_starts: int) -> int:
    """Give the number of draws that are held at a time; it depends on the table alone, as the draws do."""
    longest = min(n_rows, 2 ** min(n_columns, 30))
    # starts, and patterns as bytes and for a moment as two float64
    room = 8 * 6 * n_starts * n_components * (n_columns + 1) + longest * (17 * n_columns + 8)
    return min(250, max(1, CHUNK_BYTES // room))


# ---------------------------------------------------------------- maxima


@dataclass(frozen=True)
class _Search:
    """How maxima are looked for."""

    # n_classes, n_components: classes of the smaller and of the larger mixture
    n_classes: int
    n_components: int
    n_starts: int  # random starts of each table and mixture
    complete: bool  # whether no bit is missing

    def of_fewer(self, rng: np.random.Generator, tables: _Tables, truth: np.ndarray) -> _Fits:
        """Find the best mixtures of `n_classes`: from where the rows were drawn, and from random starts."""
        here = np.broadcast_to(truth, (len(tables.counts), 1, *truth.shape))
        if self.n_classes == 1:
            return self._best(tables, here)
        return self._best(tables, np.concatenate([here, self._random(rng, tables, self.n_classes)], 1))

    def of_more(self, rng: np.random.Generator, tables: _Tables, fewer: _Fits) -> _Fits:
        """Find the best mixtures of `n_components`: from fewer with classes split or added, and from random starts.

        They are never worse than those of fewer, which are among them.
        """
        split = many.splits(rng, fewer.at, self.n_classes, min(self.n_classes, self.n_starts))
        added = many.additions(rng, fewer.at, *tables, self.n_classes, self.n_starts)
        best = self._best(tables, np.concatenate([split, added, self._random(rng, tables, self.n_components)], 1))
        better = best.value >= fewer.value
        return _Fits(
            np.where(better[:, None, None], best.at, fewer.at), np.maximum(best.value, fewer.value), best.arrived
        )

    def _random(self, rng: np.random.Generator, tables: _Tables, n_classes: int) -> np.ndarray:
        return many.random_starts(rng, tables.patterns, tables.counts, self.n_starts, n_classes, self.n_components)

    def _best(self, tables: _Tables, starts: np.ndarray) -> _Fits:
        """Climb in each table from (tables, starts) points, a short way; the best go on to the end."""
        n_tables, n_starts = starts.shape[:2]
        table = np.repeat(np.arange(n_tables), n_starts)
        at = starts.reshape(-1, *starts.shape[2:])
        n_kept = min(n_starts, max(2, n_starts // 8))  # the best of eight goes on
        if n_kept < n_starts:
            short = self.climbed(tables, table, at, SHORT_CYCLES)
            order = np.argsort(-short.value.reshape(n_tables, n_starts), axis=1)[:, :n_kept]
            chosen = (np.arange(n_tables)[:, None] * n_starts + order).ravel()
            table, at = table[chosen], short.at[chosen]
        end = self._arrived(tables, table, at)
        best = np.argmax(end.value.reshape(n_tables, n_kept), axis=1) + n_kept * np.arange(n_tables)
        return _Fits(end.at[best], end.value[best], end.left[best] <= TOL_NATS)

    def _arrived(self, tables: _Tables, table: np.ndarray, at: np.ndarray) -> _Climbs:
        """Climb to the end, in rounds: the points that have not arrived go on together."""
        end = _Climbs(at.copy(), np.full(len(at), -np.inf), np.full(len(at), np.inf))
        going, n_cycles = np.arange(len(at)), 2 * SHORT_CYCLES
        best = np.full(len(tables.counts), -np.inf)
        while len(going) and n_cycles <= 4096:
            found = self.climbed(tables, table[going], end.at[going], n_cycles)
            end.at[going], end.value[going], end.left[going] = found.at, found.value, found.left
            np.maximum.at(best, table[going], found.value)
            # a climb that is ten times its expected gain behind another is given up
            may_win = found.value + 10 * found.left >= best[table[going]]
            going, n_cycles = going[(found.left > TOL_NATS) & may_win], 2 * n_cycles
        return end

    def climbed(self, tables: _Tables, table: np.ndarray, at: np.ndarray, n_cycles: int) -> _Climbs:
        """Run `cycles` cycles from each point, in the table of its number."""
        parts = list(self._blocks(tables, table, at, n_cycles))
        return _Climbs(*(np.concatenate(x)[: len(at)] for x in zip(*parts)))

    def _blocks(self, tables: _Tables, table: np.ndarray, at: np.ndarray, n_cycles: int) -> Iterator[_Climbs]:
        size = self._block_size(tables, len(at))
        work = InFlight()
        for start in range(0, len(at), size):
            interrupts.check()
            which = np.arange(start, start + size)
            which[which >= len(at)] = start  # padding, which ends when its twin does
            yield from work.add(
                partial(self._block, tables.patterns[table[which]], tables.counts[table[which]], at[which], n_cycles)
            )
        yield from work.rest()

    def _block(self, patterns: np.ndarray, counts: np.ndarray, at: np.ndarray, n_cycles: int) -> _Climbs:
        with double():
            found = many.climb(patterns, counts, at, np.int64(n_cycles), np.float64(TOL_NATS), complete=self.complete)
            return _Climbs(*jax.device_get((found.at, found.value, found.left)))

    def _block_size(self, tables: _Tables, n_climbs: int) -> int:
        _, n_patterns, d = tables.patterns.shape
        width = d * (1 if self.complete else 2) + 3 * self.n_components
        room = 8 * (n_patterns * width + 8 * self.n_components * (d + 1))
        # climbs of a block: few, since all of them go on until the last has arrived; more, where calls of the program
        # would take much of the time
        most = 64 if n_climbs >= 2048 else 16
        return most if most * room <= BLOCK_BYTES else max(4, 1 << max(0, (BLOCK_BYTES // room).bit_length() - 1))
