"""How a search spends its time: families take turns, and each looks for its number of causes on validation rows.

Sizes that take next to nothing come first, then the first size of every family, the cheapest first; after that the
size that promises most bits for its seconds (`_turn`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from latentbits.choosing.climb import (
    LEAST_FIT_SECONDS,
    LEAST_SCORING_SECONDS,
    Axis,
    Place,
    best_place,
    doublings,
    next_places,
)
from latentbits.choosing.compare import FAILURES, fit_copy, reason_of, score_rows, weights_of
from latentbits.choosing.real_tables import units_of, varied
from latentbits.core.compilation import seconds_waited
from latentbits.core.errors import OutOfTimeError
from latentbits.core.limits import within
from latentbits.estimators.families import family, name_of, size_of
from latentbits.estimators.family_record import Family, Rows

__all__ = ["Climb", "Clock", "Entrant", "Fit", "Split", "SplitRows", "new_entrant", "split_rows", "take_turns"]

TIMES_EXPECTED = 2.0  # times the expected seconds that a fit may take, even where others would need the time
FIT_TIME_SHARE = 0.8  # of the time left that a fit may take; scoring takes some too
QUICK_TIME_SHARE = 0.1  # of the budget: what is expected to take less does not wait for families not yet begun


# --- rows ---


class Split(NamedTuple):
    """Numbers of the rows to learn from, to choose the number of causes on, and to test on."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class SplitRows(NamedTuple):
    """The rows of a split as models take them."""

    # train, held_out: to learn from; and to score, validation rows first, then test rows
    train: Any
    held_out: Any
    n_validation: int  # how many of those held out are for validation
    # of real numbers: what was subtracted from each column, and what it was divided by
    units: tuple[np.ndarray, np.ndarray] | None = None
    # (d,) bool or None: of real numbers: columns that are not constant.  The others are not scored: their densities
    # have no bound.
    varied: np.ndarray | None = None
    log_units: np.ndarray | float = 0.0  # bits by which each row held out costs more in the units of the table
    # train_weights, weights: how often each row to learn from, and each held out, counts; None for once
    train_weights: np.ndarray | None = None
    weights: np.ndarray | None = None


def split_rows(source: Any, split: Split, real: bool, weights: np.ndarray | None = None) -> SplitRows:
    """Take the rows of a split; real numbers in units that are learned from the training rows.

    `weights` are how often each row of the source counts; None for once.
    """
    others = np.concatenate([split.validation, split.test])
    own, theirs = weights_of(weights, split.train), weights_of(weights, others)
    train, held_out = _safe_indexing(source, split.train), _safe_indexing(source, others)
    if not real:
        return SplitRows(train, held_out, len(split.validation), train_weights=own, weights=theirs)
    train, held_out = (_dense(part) for part in (train, held_out))
    centre, scale = units_of(train, own)
    vary = varied(train)
    held_out = np.where(vary, held_out, np.nan)
    return SplitRows(
        train=(train - centre) / scale,
        held_out=(held_out - centre) / scale,
        n_validation=len(split.validation),
        units=(centre, scale),
        varied=vary,
        log_units=~np.isnan(held_out) @ np.log2(scale),
        train_weights=own,
        weights=theirs,
    )


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)


# --- the search of one family ---


class Fit(NamedTuple):
    """A model fitted in one split, with -log2 p of its validation and test rows; `weights` are of the former."""

    model: Any
    validation: np.ndarray
    test: np.ndarray
    common: float
    seconds: float
    converged: bool
    in_time: bool
    weights: np.ndarray | None = None
    compiling: float = 0.0  # of the seconds
    scoring: float = 0.0  # of the others: what no limit makes shorter

    @property
    def cost(self) -> float:
        """Bits per validation row, by which sizes are chosen."""
        return float(np.average(self.validation, weights=self.weights))

    @property
    def learning(self) -> float:
        """Seconds spent on learning."""
        return max(0.0, self.seconds - self.compiling - self.scoring)


@dataclass
class Climb:
    """The number of causes of one family in one split, chosen by its validation rows alone.

    From the first size it goes up, `stride` times as many at once, as long as validation bits fall, and then looks at
    half and double of the best size until neither is better: every size has its own programs to be compiled, so few
    should be tried.  Where there is no time for the size that comes next, it takes the one after it.
    """

    first: int
    most: int
    stride: int = 4
    least: int = 1
    growth: float = 2.0  # the power of the number of causes with which the time of a fit is expected to grow
    tried: dict[int, Fit] = field(default_factory=dict)

    @property
    def best(self) -> int:
        """The size of the fewest bits, of those whose fits have converged if any have: a fit cut off is no result."""
        return self._axis.values[best_place(self._worth)[0]]

    @property
    def cut_off(self) -> int | None:
        """The size whose fit ran out of time, if there is one: it goes on before another is begun."""
        return next((size for size, fit in self.tried.items() if not fit.in_time), None)

    @property
    def _axis(self) -> Axis:
        steps = max(1, round(np.log2(self.stride)))
        return Axis("size", doublings(self.first, self.least, self.most), self.first, steps)

    @property
    def _worth(self) -> dict[Place, tuple[bool, float]]:
        places = self._axis.values
        return {(places.index(size),): (fit.converged, -fit.cost) for size, fit in self.tried.items()}

    def candidates(self) -> list[int]:
        """List what to try next, in this order; empty where nothing is left to try."""
        return [self._axis.values[number] for (number,) in next_places((self._axis,), self._worth, down_first=True)]

    def next_size(self, left: float = np.inf) -> int | None:
        """Find the first candidate that there is time for; None where there is none."""
        return next((size for size in self.candidates() if self._is_affordable(size, left)), None)

    def expected(self, size: int) -> float:
        """Estimate the seconds of a size, once another was tried."""
        near = min(self.tried, key=lambda other: (abs(np.log(other / size)), other))
        fit = self.tried[near]
        return fit.compiling + (fit.seconds - fit.compiling) * max(1.0, size / near) ** self.growth

    def gain(self, size: int, without: float) -> float:
        """Estimate the bits per row that a larger size gains, if bits above their limit fall as 1 / size.

        `without` are bits per row without any cause, with which the first fit is compared.
        """
        best = self.best
        cost, others = self.tried[best].cost, [other for other in self.tried if other < best]
        near = max(others, default=0)
        before = self.tried[near].cost if near else without
        each = (before - cost) / (1 / max(near, 1) - 1 / best) if best > max(near, 1) else before - cost
        return each * (1 / best - 1 / size) if size > best and 0 < each < np.inf else 0.0

    def _is_affordable(self, size: int, left: float) -> bool:
        if not self.tried:
            return True
        # a larger fit may take longer than expected
        return self.expected(size) <= (0.5 if size > max(self.tried) else 1.0) * left


@dataclass
class Entrant:
    """One family in all splits; `note` says what was not tried for want of time."""

    family: Family
    climbs: list[Climb]
    rows: Rows
    given: Any = None  # an estimator that is fitted as it is
    done: bool = False
    note: str = ""
    seconds: float = 0.0

    @property
    def name(self) -> str:
        return self.family.name

    def title(self, size: int) -> str:
        """Name it for people."""
        return self.family.title(size) if self.given is None else name_of(self.given)

    def new(self, size: int, n_columns: int) -> Any:
        """Make a model of this size."""
        return self.family.new(size, self.rows, n_columns) if self.given is None else clone(self.given)

    @property
    def size(self) -> int:
        """The number of causes that is reported: that of the last fold, whose model is shown, on rows new to both."""
        return self.climbs[-1].best

    @property
    def begun(self) -> bool:
        return all(climb.tried for climb in self.climbs)


def new_entrant(name: str, n_columns: int, n_train: Sequence[int], rows: Rows, given: Any = None) -> Entrant:
    """Make an entrant of which nothing has been tried; `n_train` are the training rows of each split, by weight."""
    record = family(name)
    if given is not None or record.sizes is None:
        size = 1 if given is None else size_of(given)
        return Entrant(record, [Climb(size, size, least=size) for _ in n_train], rows, given)
    steps = [record.sizes.steps(n_columns, n) for n in n_train]
    return Entrant(record, [Climb(*own, growth=record.sizes.growth) for own in steps], rows)


# --- time ---


class Clock:
    """The seconds used and left, counted from when it is made."""

    def __init__(self, budget: float | None, report: Callable[[str, float], None] | None) -> None:
        self.budget, self._report, self._began = budget, report, time.perf_counter()
        self._waited = seconds_waited()
        self.interrupted = False
        self.was_short = False  # whether with more time more would have been tried, or finished

    @property
    def compiling(self) -> float:
        """Seconds spent on programs rather than on running them."""
        return seconds_waited() - self._waited

    @property
    def used(self) -> float:
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        return np.inf if self.budget is None else self.budget - self.used

    def tell(self, name: str) -> None:
        if self._report is not None:
            self._report(name, self.used)


def take_turns(
    entrants: dict[str, Entrant],
    splits: Sequence[SplitRows],
    clock: Clock,
    seed: int | None,
    asked: bool = False,
    soon: Callable[[], None] | None = None,
) -> dict[str, str]:
    """Fit until nothing is left to try, or no time; what could not be fitted is taken out, and the reasons returned.

    Families that were `asked` for by name get their first fit whatever the time.  Ctrl-C ends the turns: what was not
    finished is left as if there had been no time for it.  It is passed on where no family has been fitted.  `soon` is
    called once, as soon as a family with hidden causes has been fitted, and what comes next takes time.
    """
    left_out: dict[str, str] = {}
    while pending := [entrant for entrant in entrants.values() if not entrant.done]:
        entrant, is_quick = _turn(pending, list(entrants.values()), clock)
        if soon is not None and not is_quick and any(f.begun and f.family.sizes for f in entrants.values()):
            try:
                soon()
            except KeyboardInterrupt:
                clock.interrupted = True
                return left_out | _cut(entrants)
            soon = None
        is_first, began = not entrant.begun, clock.used
        any_begun = any(f.begun for f in entrants.values())  # there is always one result
        try:
            if is_first and any_begun and clock.left <= 0 and not asked:
                raise OutOfTimeError("no time was left for it")
            share = clock.left / _sharers(entrant, pending)
            if any(climb.cut_off is not None for climb in entrant.climbs):
                _finish(entrant, splits, clock, share, seed)
            else:
                _step(entrant, splits, clock, share, seed, asked or not any_begun)
        except FAILURES as error:
            clock.was_short |= isinstance(error, OutOfTimeError)
            if is_first:
                left_out[entrant.name] = reason_of(error)
                del entrants[entrant.name]
            entrant.note, entrant.done = f"more causes could not be fitted: {reason_of(error)}", True
        except KeyboardInterrupt:
            if not any_begun:
                raise
            clock.interrupted = True
            return left_out | _cut(entrants)
        entrant.seconds += clock.used - began
    return left_out


def _turn(pending: Sequence[Entrant], entrants: Sequence[Entrant], clock: Clock) -> tuple[Entrant, bool]:
    """Choose the family whose turn it is; also whether that is for the first of these reasons.

    1. One whose next size is expected to take next to nothing.
    2. The first, in the order given, that has not been fitted yet.
    3. One whose fit was cut off, and that has not had its share of the time: it counts for nothing as it is.
    4. The one that promises most bits for its seconds.
    5. Fits that were cut off again.
    """
    costs = [
        (entrant.family.alone, fit.cost)
        for entrant in entrants
        for climb in entrant.climbs
        for fit in climb.tried.values()
        if np.isfinite(fit.cost)
    ]
    # without hidden causes, or else the worst
    without = max((cost for alone, cost in costs if alone), default=max((cost for _, cost in costs), default=0.0))
    promises = {place: _promise(entrant, without) for place, entrant in enumerate(pending) if entrant.begun}
    budget = 0.0 if clock.budget is None else clock.budget

    def order(place: int) -> tuple[int, float]:
        entrant = pending[place]
        if not entrant.begun:
            return 1, place
        if any(climb.cut_off is not None for climb in entrant.climbs):
            return (2 if entrant.seconds < budget / len(entrants) else 4), entrant.seconds
        bits, seconds = promises[place]
        return (0 if seconds <= QUICK_TIME_SHARE * budget else 3), -bits / max(seconds, 1e-3)

    chosen = min(range(len(pending)), key=order)
    return pending[chosen], order(chosen)[0] == 0


def _promise(entrant: Entrant, without: float) -> tuple[float, float]:
    """Estimate the bits that the next size gains, and the seconds that it takes, in all splits."""
    wanted = [(climb, size) for climb in entrant.climbs for size in climb.candidates()[:1]]
    return (
        sum(climb.gain(size, without) for climb, size in wanted) / len(entrant.climbs),
        sum(climb.expected(size) for climb, size in wanted),
    )


def _sharers(entrant: Entrant, pending: Sequence[Entrant]) -> int:
    """Count the families that are to share the time that is left: those not fitted yet, while there are any."""
    return len(pending) if entrant.begun else sum(not other.begun for other in pending)


def _step(
    entrant: Entrant, splits: Sequence[SplitRows], clock: Clock, share: float, seed: int | None, needed: bool
) -> None:
    """Try the next size of a family in every split, in `share` seconds; a first size that is `needed`, in any case."""
    until = clock.used + share
    sizes = [climb.next_size(clock.left) for climb in entrant.climbs]
    wanted = [size for climb, now in zip(entrant.climbs, sizes) if now is None for size in climb.candidates()[:1]]
    if wanted:  # there is no time for one of the splits
        entrant.note, entrant.done = f"{entrant.title(wanted[0])} was not tried for want of time", True
        clock.was_short = True
        return
    for place, (climb, rows, size) in enumerate(zip(entrant.climbs, splits, sizes)):
        if size is None:
            continue
        name, model = entrant.title(size), entrant.new(size, rows.train.shape[1])
        if climb.tried and climb.expected(size) > clock.left:
            entrant.note, entrant.done = f"{name} was not tried for want of time", True
            clock.was_short = True
            _undo(entrant.climbs[:place], sizes)
            return
        clock.tell(name)
        # the first split compiles for all; the others divide what it left
        limit = (until - clock.used) / (min(2, len(splits)) if place == 0 else len(splits) - place)
        if climb.tried:  # what was worth beginning is worth some patience
            limit = max(limit, min(clock.left, TIMES_EXPECTED * climb.expected(size)))
        try:
            if not (climb.tried or needed):
                _check_scoring(entrant.climbs[:place], len(splits) - place, clock.left)
            climb.tried[size] = _fit(model, rows, FIT_TIME_SHARE * limit, seed)
        except BaseException:
            _undo(entrant.climbs[:place], sizes)
            raise
    entrant.done = all(climb.cut_off is None and not climb.candidates() for climb in entrant.climbs)


def _finish(entrant: Entrant, splits: Sequence[SplitRows], clock: Clock, share: float, seed: int | None) -> None:
    """Let the fits that ran out of time go on, in `share` seconds; where no time is left they stay as they are.

    Where fits are kept (`engines/checkpoint.py`), as a search keeps them, they go on from where they were.
    """
    until = clock.used + share
    waiting = [(climb, rows, climb.cut_off) for climb, rows in zip(entrant.climbs, splits) if climb.cut_off is not None]
    for place, (climb, rows, size) in enumerate(waiting):
        before = climb.tried[size]
        limit = max((until - clock.used) / (len(waiting) - place), min(clock.left, TIMES_EXPECTED * before.learning))
        if clock.left < LEAST_FIT_SECONDS + before.scoring:
            entrant.note, entrant.done = f"the fit of {entrant.title(size)} ran out of time", True
            clock.was_short = True
            return
        clock.tell(entrant.title(size))
        fit = _fit(entrant.new(size, rows.train.shape[1]), rows, FIT_TIME_SHARE * limit, seed)
        climb.tried[size] = fit._replace(
            seconds=before.seconds + fit.seconds, compiling=before.compiling + fit.compiling
        )
    entrant.done = all(climb.cut_off is None and not climb.candidates() for climb in entrant.climbs)


def _check_scoring(before: Sequence[Climb], n_rounds: int, left: float) -> None:
    """Refuse to go on with a first size where scoring alone would take longer than there is for all that is to come."""
    seconds = max((fit.scoring for climb in before for fit in climb.tried.values()), default=0.0)
    if seconds * n_rounds > max(left, LEAST_SCORING_SECONDS):
        raise OutOfTimeError(
            f"scoring its rows took {seconds:.0f} s in one round, and there was no time for {n_rounds} more"
        )


def _cut(entrants: dict[str, Entrant]) -> dict[str, str]:
    """End all turns: what was never fitted is taken out, and the reasons returned."""
    left_out = {name: "interrupted before it was fitted" for name, entrant in entrants.items() if not entrant.begun}
    for name in left_out:
        del entrants[name]
    for entrant in entrants.values():
        if not entrant.done:
            entrant.note, entrant.done = "interrupted before other sizes were tried", True
    return left_out


def _undo(climbs: Sequence[Climb], sizes: Sequence[int | None]) -> None:
    """Forget what these have just tried: a size counts if there was time for it in every split."""
    for climb, size in zip(climbs, sizes):
        if size is not None:
            del climb.tried[size]


def _fit(model: Any, rows: SplitRows, limit: float, seed: int | None) -> Fit:
    began, waited = time.perf_counter(), seconds_waited()
    model.set_params(random_state=seed)
    train, held_out = rows.train, rows.held_out
    settings = model.get_params(deep=False)
    own = settings.get("max_time")  # of an estimator that is fitted as it is
    is_limited = np.isfinite(limit) and (own is None or own > max(limit, LEAST_FIT_SECONDS))
    if "max_time" not in settings:  # a model of others, which knows no missing numbers either
        train, held_out = train[:, rows.varied], held_out[:, rows.varied]
    elif is_limited:
        model.set_params(max_time=max(limit, LEAST_FIT_SECONDS))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a model that may not be chosen; unseen rows decide
        fitted = fit_copy(model, train, rows.train_weights)
        fitted_at, compiled = time.perf_counter(), seconds_waited()
        with within(max(limit, LEAST_SCORING_SECONDS), f"scoring {held_out.shape[0]} rows"):
            bits, common = score_rows(fitted, held_out, rows.weights)
    scoring = time.perf_counter() - fitted_at - (seconds_waited() - compiled)
    if "max_time" in settings:
        fitted.set_params(max_time=own)  # not the limit of the search, which is of no use to the user
    bits = np.where(np.isnan(bits), np.inf, bits + rows.log_units)
    return Fit(
        model=fitted,
        validation=bits[: rows.n_validation],
        test=bits[rows.n_validation :],
        common=common,
        seconds=time.perf_counter() - began,
        converged=bool(getattr(fitted, "_finished", True)),
        in_time=not is_limited or getattr(fitted, "stop_reason_", "") != "max_time",
        weights=None if rows.weights is None else rows.weights[: rows.n_validation],
        compiling=seconds_waited() - waited,
        scoring=scoring,
    )
