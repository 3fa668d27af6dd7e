"""Which family, and how many causes?  Every family that suits the data, within a time budget."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from sklearn.mixture import GaussianMixture
from sklearn.utils import _safe_indexing, check_array

from latentbits.core.errors import FitError
from latentbits.estimators.binary_sparse_coding import BinarySparseCoding
from latentbits.estimators.compare import (
    FAMILIES,
    WEAK_PRIOR,
    Comparison,
    fit_copy,
    new_model,
    ranked,
    score_rows,
    shared_error,
    standard_error,
)
from latentbits.estimators.latent_trait import LatentTrait
from latentbits.estimators.validate import encode_bits

__all__ = ["REAL_FAMILIES", "Search", "Trial", "holds_reals", "real_model", "search", "units_of"]

REAL_FAMILIES = ("independent-gaussians", "latent-trait", "binary-sparse-coding")
CHEAP_FIRST = ("product", "independent-gaussians", "mixture", "clipped-gaussian", "latent-trait", "noisy-or")
SINGLE = ("product", "independent-gaussians")  # families without a number of causes
ROWS_PER_CAUSE = 10
MOST_CAUSES = 128
FEW_ROWS = 1000  # up to which one split is too noisy
FEW_FOLDS = 4
CELLS_PER_SECOND = 25_000  # of the table for each second of the budget; of larger tables a sample is taken
FEWEST_ROWS = 1000  # of such a sample
FIT_SHARE = 0.8  # of the time left that a fit may take; scoring takes some too
GROWTH = 2.0  # a fit with more causes is expected to take this much longer than the one before


@dataclass(frozen=True)
class Trial:
    """One family with one number of causes, on the validation rows.

    Attributes
    ----------
    size
        Number of causes.
    bits_per_row, error
        Mean of -log2 p(x) over the validation rows, and its standard error.
    seconds
        Time to fit and to score, all folds together, compilation included.
    converged
        Whether every fit converged.
    """

    size: int
    bits_per_row: float
    error: float
    seconds: float
    converged: bool


@dataclass(frozen=True)
class Search:
    """What a search found.  Names are those of `comparison`, for people; families those that `search` takes.

    Attributes
    ----------
    comparison
        The chosen model of every family, best first, scored on the test rows.  Its `fitted` models have learned from
        the training rows alone (with folds, from those of the last).
    families
        By name: the family.
    sizes
        By name: the number of causes that was chosen on the validation rows.
    trials
        By name: what was tried, in that order.
    left_out
        By family: why it is not there.
    cut_short
        By name: what was not tried for want of time.
    n_train, n_validation, n_test
        Rows, of one fold where there are several; the test rows of all folds together.
    n_folds
        1 for a single split.
    n_rows, n_used
        Rows of the table, and how many of them the search took: fewer if the table is too large for the budget.
    real
        Whether rows are real numbers; then "bits" are -log2 of densities, in the units of the table.
    seconds
        Time taken.
    """

    comparison: Comparison
    families: Mapping[str, str]
    sizes: Mapping[str, int]
    trials: Mapping[str, tuple[Trial, ...]]
    left_out: Mapping[str, str]
    cut_short: Mapping[str, str]
    n_train: int
    n_validation: int
    n_test: int
    n_folds: int
    n_rows: int
    n_used: int
    real: bool
    seconds: float

    @property
    def fitted(self) -> Mapping[str, Any]:
        """The fitted models by name."""
        return self.comparison.fitted

    def __str__(self) -> str:
        notes = [f"{name}: {why}" for name, why in (*self.cut_short.items(), *self.left_out.items())]
        if self.n_used < self.n_rows:
            notes.append(f"a sample of {self.n_used} of the {self.n_rows} rows")
        return "\n".join([str(self.comparison), *notes])


def search(
    X: Any,
    families: Collection[str] | None = None,
    *,
    budget: float | None = 60.0,
    test_size: float = 0.25,
    validation_size: float = 0.15,
    n_folds: int | None = None,
    random_state: int | None = 0,
    real: bool | None = None,
    report: Callable[[str, float], None] | None = None,
) -> Search:
    """Fit every family that suits the data, each with the number of causes that describes unseen rows best.

    Rows are split into three: the models learn from the first, their number of causes is chosen on the second, and
    what is reported is measured on the third, which neither fitting nor choosing has seen: the least of several noisy
    numbers is too low, so the rows that choose cannot also tell how good the choice is.  All families get the same
    rows.  With folds every row is tested once, and each fold chooses for itself.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits or real numbers, NaN for missing, in memory.
    families : collection of str or None
        Some of `latentbits.estimators.compare.FAMILIES`, or of `REAL_FAMILIES` for real numbers; None takes all.
    budget : float or None, default=60.0
        Seconds, compilation included.  Families take turns, the one that has used least time first, so that each
        gets its first size; what did not fit in is told.  The result then depends on the speed of the machine; with
        None all is tried, and the same seed gives the same result.
    test_size, validation_size : float
        Shares of rows to test and to choose the number of causes on.
    n_folds : int or None
        Number of folds, 1 for a single split; None takes 4 up to 1000 rows, else 1.
    random_state : int or None, default=0
        Seed of the splits and of every model.
    real : bool or None
        Whether X is to be taken as real numbers; None looks whether there is anything but 0, 1 and NaN.  Columns are
        centred and scaled for the models (`units_of` the training rows), densities are those of X.
    report : function or None
        Called before every fit with the name of the model and the seconds used.

    Returns
    -------
    Search
        Printing it shows the table.

    Examples
    --------
    >>> from latentbits import load_dataset
    >>> print(search(load_dataset("digits").X, budget=30))  # doctest: +SKIP
    """
    clock = _Clock(budget, report)
    values = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=8)
    real = holds_reals(values) if real is None else real
    if not real:
        encode_bits(values, binarize=None)  # what is no bit is named by its row in X, not in a split of it
    known = REAL_FAMILIES if real else FAMILIES
    asked = known if families is None else tuple(families)
    for name in asked:
        if name not in known:
            raise ValueError(f"families: {name!r} is none of {', '.join(known)}, which are for such data")
    if not asked:
        raise ValueError("families is empty: nothing to search")
    used = _used_rows(values.shape, budget, random_state)
    splits = _splits(used, n_folds, test_size, validation_size, random_state)
    source = X if hasattr(X, "columns") and not real else values  # frames keep their names
    data = [_Data.of(source, split, real) for split in splits]
    order = sorted(asked, key=lambda name: (*CHEAP_FIRST, *known).index(name))
    climbs = {
        family: _Family(family, [_Climb(*_range(family, values.shape[1], len(s.train))) for s in splits], real)
        for family in order
    }
    left_out = _unfit(climbs, values)
    _take_turns(climbs, data, clock, left_out, random_state)
    return _result(climbs, left_out, splits, values.shape[0], len(used), real, clock)


def holds_reals(values: Any) -> bool:
    """Whether a table holds anything but 0, 1 and NaN.

    >>> holds_reals(np.array([[0.0, np.nan], [1.0, 1.0]])), holds_reals(np.array([[0, 2]]))
    (False, True)
    """
    stored = values.data if hasattr(values, "tocsr") else np.asarray(values)
    return bool(((stored != 0) & (stored != 1) & ~np.isnan(stored)).any()) if stored.dtype != bool else False


def units_of(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """What to subtract from each column of real numbers, and to divide it by: its median and standard deviation.

    Binary sparse coding has no constant, and one noise for all columns.  The median is what a column is where no cause
    is on, if those are most rows.

    >>> units_of(np.array([[0.0, 5.0], [0.0, 5.0], [3.0, 5.0]]))[0].tolist()
    [0.0, 5.0]
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a column without any number
        centre, scale = np.nanmedian(values, axis=0), np.nanstd(values, axis=0)
    return np.nan_to_num(centre), np.where(scale > 0, scale, 1.0)


def real_model(family: str, size: int, n_columns: int) -> tuple[str, Any]:
    """A model of real numbers of one of the `REAL_FAMILIES`, and its name for people.

    >>> real_model("binary-sparse-coding", 8, 3)[0], real_model("latent-trait", 1, 3)[0]
    ('binary sparse coding of 8', '1 latent trait')
    """
    if family == "independent-gaussians":
        return "independent Gaussians", GaussianMixture(1, covariance_type="diag")
    if family == "binary-sparse-coding":
        return f"binary sparse coding of {size}", BinarySparseCoding(size)
    types = ["continuous"] * n_columns
    return new_model(family, size)[0], LatentTrait(size, column_types=types, weight_prior=WEAK_PRIOR)


# --- rows ---


class _Split(NamedTuple):
    """Numbers of rows."""

    train: np.ndarray
    validation: np.ndarray
    test: np.ndarray


class _Data(NamedTuple):
    """The rows of a split as models take them: to learn from, and held out (validation first, then test)."""

    train: Any
    held_out: Any
    n_validation: int
    log_units: np.ndarray | float  # bits by which a row costs more in the units of the table

    @classmethod
    def of(cls, source: Any, split: _Split, real: bool) -> _Data:
        train = _safe_indexing(source, split.train)
        held_out = _safe_indexing(source, np.concatenate([split.validation, split.test]))
        if not real:
            return cls(train, held_out, len(split.validation), 0.0)
        train, held_out = (_dense(part) for part in (train, held_out))
        centre, scale = units_of(train)
        log_units = ~np.isnan(held_out) @ np.log2(scale)
        return cls((train - centre) / scale, (held_out - centre) / scale, len(split.validation), log_units)


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)


def _used_rows(shape: tuple[int, int], budget: float | None, seed: int | None) -> np.ndarray:
    """Numbers of the rows that the search takes, in random order."""
    shuffled = np.random.default_rng(seed).permutation(shape[0])
    if budget is None:
        return shuffled
    return shuffled[: max(FEWEST_ROWS, int(budget * CELLS_PER_SECOND / shape[1]))]


def _splits(
    used: np.ndarray, n_folds: int | None, test_size: float, validation_size: float, seed: int | None
) -> list[_Split]:
    """One split, or folds; folds of one size share compiled programs."""
    n = len(used)
    if n_folds is None:
        n_folds = FEW_FOLDS if n <= FEW_ROWS else 1
    if not 1 <= n_folds <= n // 2:
        raise ValueError(f"n_folds must be between 1 and half of the number of rows, {n}; got {n_folds}")
    if not (test_size > 0 and validation_size > 0 and test_size + validation_size < 1):
        raise ValueError(
            f"test_size and validation_size must be above 0 and together below 1, got {test_size} and {validation_size}"
        )
    parts = np.array_split(used, n_folds) if n_folds > 1 else [used[: max(1, round(test_size * n))]]
    splits = []
    for part in parts:
        rest = used[~np.isin(used, part)]
        n_validation = max(1, round(validation_size / (1 - test_size) * len(rest)))
        shuffled = np.random.default_rng(seed).permutation(rest)
        splits.append(_Split(np.sort(shuffled[n_validation:]), np.sort(shuffled[:n_validation]), np.sort(part)))
    return splits


# --- the search of one family ---


class _Fit(NamedTuple):
    """A model fitted in one split, with -log2 p of its validation and test rows."""

    model: Any
    validation: np.ndarray
    test: np.ndarray
    common: float
    seconds: float
    converged: bool
    in_time: bool


@dataclass
class _Climb:
    """The number of causes of one family in one split, chosen by its validation rows alone.

    From the first size it goes up by steps of 4 as long as validation bits fall, and then looks at half and at double
    the best size until neither is better.
    """

    first: int
    most: int
    tried: dict[int, _Fit] = field(default_factory=dict)

    @property
    def best(self) -> int:
        return min(self.tried, key=lambda size: (self.tried[size].validation.mean(), size))

    def next_size(self) -> int | None:
        """What to try next; None where nothing is left to try."""
        if not self.tried:
            return self.first
        if self.best == max(self.tried) and self.best * 4 <= self.most:
            return self.best * 4
        around = (self.best * 2, self.best // 2)
        return next((size for size in around if 1 <= size <= self.most and size not in self.tried), None)


@dataclass
class _Family:
    name: str
    climbs: list[_Climb]
    real: bool
    done: bool = False
    note: str = ""  # what was not tried for want of time
    seconds: float = 0.0

    def new(self, size: int, n_columns: int) -> tuple[str, Any]:
        return real_model(self.name, size, n_columns) if self.real else new_model(self.name, size)

    def pooled(self, size: int) -> np.ndarray:
        """Validation bits of the folds that tried a size."""
        return np.concatenate([climb.tried[size].validation for climb in self.climbs if size in climb.tried])

    @property
    def size(self) -> int:
        """The number of causes that is told: the best of those that every fold has tried."""
        everywhere = set.intersection(*(set(climb.tried) for climb in self.climbs))
        return min(everywhere, key=lambda size: (self.pooled(size).mean(), size))

    @property
    def begun(self) -> bool:
        return all(climb.tried for climb in self.climbs)


def _range(family: str, n_columns: int, n_train: int) -> tuple[int, int]:
    """The first number of causes to try, and the most."""
    if family in SINGLE:
        return 1, 1
    most = min(MOST_CAUSES, n_train // ROWS_PER_CAUSE)
    if family in ("latent-trait", "clipped-gaussian"):
        most = min(most, (n_columns - 1) // 2)  # more factors than that, and the columns cannot tell them apart
    most = _power_of_two(most)
    first = 2 if family == "latent-trait" else min(8, _power_of_two(n_columns / 4))
    return min(first, most), most


def _power_of_two(limit: float) -> int:
    """The largest that is not above, but at least 1."""
    return 1 << max(0, int(limit).bit_length() - 1)


def _unfit(families: dict[str, _Family], values: Any) -> dict[str, str]:
    """Take families out that cannot be fitted to this table, and say why."""
    reasons = {}
    if "independent-gaussians" in families and np.isnan(_stored(values)).any():
        reasons["independent-gaussians"] = "it takes no missing numbers"
    for name in reasons:
        del families[name]
    return reasons


def _stored(values: Any) -> np.ndarray:
    return values.data if hasattr(values, "tocsr") else values


# --- time ---


class _Clock:
    def __init__(self, budget: float | None, report: Callable[[str, float], None] | None) -> None:
        self.budget, self._report, self._began = budget, report, time.perf_counter()

    @property
    def used(self) -> float:
        return time.perf_counter() - self._began

    @property
    def left(self) -> float:
        return np.inf if self.budget is None else self.budget - self.used

    def tell(self, name: str) -> None:
        if self._report is not None:
            self._report(name, self.used)


def _take_turns(
    families: dict[str, _Family], data: Sequence[_Data], clock: _Clock, left_out: dict[str, str], seed: int | None
) -> None:
    """Fit until nothing is left to try, or no time; families that failed are moved to `left_out`."""
    while pending := [family for family in families.values() if not family.done]:
        family = min(pending, key=lambda f: f.seconds)  # the cheapest first while none has used any
        waiting = sum(not f.begun for f in pending)
        is_first = not family.begun
        is_alone = not any(f.begun for f in families.values())  # there is always one result
        began = clock.used
        if is_first and clock.left <= 0 and not is_alone:
            left_out[family.name] = "no time was left for it"
            del families[family.name]
            continue
        try:
            _step(family, data, clock, clock.left / max(1, waiting), seed)
        except (FitError, ValueError) as error:
            if is_first:
                left_out[family.name] = f"it could not be fitted: {error}"
                del families[family.name]
            else:
                family.note, family.done = f"more causes could not be fitted: {error}", True
        family.seconds += clock.used - began
    if not families:
        raise FitError("; ".join(f"{name}: {why}" for name, why in left_out.items()))


def _step(family: _Family, data: Sequence[_Data], clock: _Clock, share: float, seed: int | None) -> None:
    """The next size of a family in every split, as far as the time goes."""
    family.done = True
    for climb, rows in zip(family.climbs, data):
        size = climb.next_size()
        if size is None:
            continue
        name, model = family.new(size, rows.train.shape[1])
        if climb.tried and _expected(climb, size) > clock.left:
            family.note = f"{name} and what would have followed were not tried"
            continue
        clock.tell(name)
        limit = share / len(data) if not climb.tried else clock.left
        climb.tried[size] = _fit(model, rows, FIT_SHARE * limit, seed)
        family.done &= climb.next_size() is None
    if not all(climb.tried[climb.best].in_time for climb in family.climbs if climb.tried):
        family.note = family.note or "its fit ran out of time"


def _expected(climb: _Climb, size: int) -> float:
    """Seconds that a size may take."""
    last = list(climb.tried)[-1]
    return climb.tried[last].seconds * (GROWTH if size > last else 1.0)


def _fit(model: Any, rows: _Data, limit: float, seed: int | None) -> _Fit:
    began = time.perf_counter()
    model.set_params(random_state=seed)
    if np.isfinite(limit) and "max_time" in model.get_params():
        model.set_params(max_time=max(limit, 1e-3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a model that may not be chosen; unseen rows tell
        fitted = fit_copy(model, rows.train)
        bits, common = score_rows(fitted, rows.held_out)
    bits = np.where(np.isnan(bits), np.inf, bits + rows.log_units)
    return _Fit(
        model=fitted,
        validation=bits[: rows.n_validation],
        test=bits[rows.n_validation :],
        common=common,
        seconds=time.perf_counter() - began,
        converged=bool(getattr(fitted, "converged_", True)),
        in_time=getattr(fitted, "stop_reason_", "") != "max_time",
    )


# --- the result ---


def _result(
    families: Mapping[str, _Family],
    left_out: dict[str, str],
    splits: Sequence[_Split],
    n_rows: int,
    n_used: int,
    real: bool,
    clock: _Clock,
) -> Search:
    names = {family.new(family.size, 1)[0]: family for family in families.values()}
    chosen = {name: [climb.tried[climb.best] for climb in family.climbs] for name, family in names.items()}
    row_bits = {name: np.concatenate([fit.test for fit in fits]) for name, fits in chosen.items()}
    entries = ranked(
        row_bits,
        {name: shared_error([fit.common for fit in fits]) for name, fits in chosen.items()},
        {name: family.seconds for name, family in names.items()},
        {name: all(fit.converged for fit in fits) for name, fits in chosen.items()},
    )
    rows = np.concatenate([split.test for split in splits])
    fitted = {name: family.climbs[-1].tried[family.size].model for name, family in names.items()}
    return Search(
        comparison=Comparison(entries, len(rows), row_bits, rows, fitted),
        families={name: family.name for name, family in names.items()},
        sizes={name: family.size for name, family in names.items()},
        trials={name: _trials(family) for name, family in names.items()},
        left_out=left_out,
        cut_short={name: family.note for name, family in names.items() if family.note},
        n_train=len(splits[0].train),
        n_validation=len(splits[0].validation),
        n_test=len(rows),
        n_folds=len(splits),
        n_rows=n_rows,
        n_used=n_used,
        real=real,
        seconds=clock.used,
    )


def _trials(family: _Family) -> tuple[Trial, ...]:
    sizes = dict.fromkeys(size for climb in family.climbs for size in climb.tried)
    trials = []
    for size in sizes:
        fits = [climb.tried[size] for climb in family.climbs if size in climb.tried]
        bits = family.pooled(size)
        error = np.hypot(standard_error(bits), shared_error([fit.common for fit in fits]))
        seconds, converged = sum(fit.seconds for fit in fits), all(fit.converged for fit in fits)
        trials.append(Trial(size, float(bits.mean()), float(error), seconds, converged))
    return tuple(trials)
