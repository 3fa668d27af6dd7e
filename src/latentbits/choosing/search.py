"""Search for the family and its number of causes: every family that suits the data, within a time budget."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
from sklearn.utils import check_array

from latentbits.choosing.budget import Climb, Clock, Entrant, Split, SplitRows, new_entrant, split_rows, take_turns
from latentbits.choosing.compare import weights_of
from latentbits.choosing.real_tables import holds_reals
from latentbits.core import interrupts
from latentbits.core.errors import FitError
from latentbits.engines.checkpoint import under
from latentbits.estimators import families as registry
from latentbits.estimators.family_record import Rows
from latentbits.estimators.tables.encoding import check_bits, check_observed
from latentbits.estimators.tables.missing import with_nan
from latentbits.estimators.tables.weights import open_weights
from latentbits.reports.comparison import Comparison, Entry, ranked, shared_error, standard_error

__all__ = ["Search", "Trial", "check_families", "search"]


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
        Whether every fit converged, or went through its schedule.
    """

    size: int
    bits_per_row: float
    error: float
    seconds: float
    converged: bool


@dataclass(frozen=True)
class Search:
    """The result of a search.  Names are those of `comparison`, for people; families those that `search` takes.

    Attributes
    ----------
    comparison
        The chosen model of every family, best first, scored on the test rows.  Its `fitted` models have learned from
        the training rows alone (with folds, from those of the last).
    sound
        Of its entries those that have converged, compared with the best of them: what may be reported as found.
    families
        By name: the family.
    sizes, fold_sizes
        By name: the number of causes that was chosen on the validation rows, of the last fold and of each; the scores
        are of what each fold chose, the fitted models are those of the last.
    trials
        By name: what was tried, in that order.
    left_out
        By family: why it is not there.
    cut_short
        By name: what was not tried for want of time.
    n_train, n_validation, n_test
        Rows, of one fold where there are several; the test rows of all folds together.
    rounds
        By name: the models of the chosen size, of every fold in which it was tried; of real numbers, whose units are
        those of a fold, that of the last.
    n_learned
        Training rows of the `fitted` models, each as often as it counts.
    n_folds
        1 for a single split.
    unseen
        Numbers of the rows that the `fitted` models neither learned from nor were chosen on.
    n_rows, used
        Rows of the table, without those of weight 0, and the numbers of those that the search took: fewer if the table
        is too large for the budget.
    weights
        How often each of those counts; None for once.
    units
        None for bits.  Of real numbers: what was subtracted from each column before the models saw it, and what it was
        divided by; "bits" are then -log2 of densities in the units of the table.
    seconds
        Time taken.
    seconds_compiling
        Of it: spent on compiling programs, while no fit went on.
    was_short
        Whether with more time more would have been tried, or finished.
    """

    comparison: Comparison
    sound: tuple[Entry, ...]
    families: Mapping[str, str]
    sizes: Mapping[str, int]
    fold_sizes: Mapping[str, tuple[int, ...]]
    trials: Mapping[str, tuple[Trial, ...]]
    left_out: Mapping[str, str]
    cut_short: Mapping[str, str]
    n_train: int
    n_validation: int
    n_test: int
    n_folds: int
    unseen: np.ndarray
    n_rows: int
    used: np.ndarray
    units: tuple[np.ndarray, np.ndarray] | None
    seconds: float
    seconds_compiling: float = 0.0
    weights: np.ndarray | None = None
    n_learned: float = 0.0
    rounds: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    was_short: bool = False

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended the search; `left_out` and `cut_short` then say what was not finished."""
        return self.comparison.interrupted

    @property
    def n_used(self) -> int:
        """How many rows the search took."""
        return len(self.used)

    @property
    def n_counted(self) -> float:
        """Rows that the search took, each as often as it counts."""
        return float(self.n_used if self.weights is None else self.weights.sum())

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
    families: Collection[Any] | None = None,
    *,
    sample_weight: Any = None,
    budget: float | None = 60.0,
    test_size: float = 0.25,
    validation_size: float = 0.15,
    n_folds: int | None = None,
    random_state: int | None = 0,
    real: bool | None = None,
    report: Callable[[str, float], None] | None = None,
    checkpoint: Any = None,
    soon: Callable[[Search], None] | None = None,
) -> Search:
    """Fit every family that suits the data, each with the number of causes that describes unseen rows best.

    Rows are split into three: the models learn from the first, their number of causes is chosen on the second, and
    what is reported is measured on the third, which neither fitting nor choosing has seen: the least of several noisy
    numbers is too low, so the rows that choose cannot also measure how good the choice is.  All families get the same
    rows.  With folds every row is tested once, and each fold chooses for itself.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits or real numbers, NaN for missing, in memory.  A sparse table stays one: rows are drawn from it first.
    families : collection of str and estimators, or None
        Names of families (`latentbits.estimators.families`); None takes all that suit such rows.  An estimator is
        fitted as it is, with the number of causes that it has.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts: in learning, in choosing and in scores; None for once.  A row is held out with all
        its weight, and rows of weight 0 are left out.  Families that take no weights are left out, with a note.
    budget : float or None, default=60.0
        Seconds, compilation included.  Families take turns, the one that has used least time first, so that each
        gets its first size (those named in `families` in any case); what did not fit in is listed.  The result then
        depends on the speed of the machine; with None all is tried, and the same seed gives the same result.
    test_size, validation_size : float
        Shares of rows to test and to choose the number of causes on.
    n_folds : int or None
        Number of folds, 1 for a single split; None takes 4 up to 1000 rows, else 1.
    random_state : int or None, default=0
        Seed of the splits and of every model.
    real : bool or None
        Whether X is to be taken as real numbers; None takes it to if there are fractions.  The models get
        columns that are centred and scaled (by the training rows); densities are those of X, without the columns that
        are constant.
    report : function or None
        Called before every fit with the name of the model and the seconds used.
    checkpoint : str, path, latentbits.Checkpoint or None
        A folder in which fits are kept: after a crash the same call goes on, and makes none of them again.
    soon : function or None
        Called once with what was found by the time that the first family with hidden causes has been fitted.

    Returns
    -------
    Search
        Printing it shows the table.

    Notes
    -----
    Ctrl-C ends the search, and gives what is finished by then, with a warning; if no family is, KeyboardInterrupt is
    raised.

    Examples
    --------
    >>> from latentbits import load_dataset
    >>> print(search(load_dataset("digits").X, budget=30))  # doctest: +SKIP
    """
    clock = Clock(budget, report)
    values = check_array(
        with_nan(X), accept_sparse="csr", dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=8
    )
    check_observed(values)
    real = holds_reals(values) if real is None else real
    if not real:
        check_bits(values, binarize=None)  # what is no bit is named by its row in X, not in a split of it
    asked = check_families(families, real)
    weights = open_weights(sample_weight, values.shape[0], X)
    counting = np.arange(values.shape[0]) if weights is None else np.flatnonzero(weights)
    used = _used_rows(counting, values.shape[1], budget, random_state)
    splits = _splits(used, n_folds, test_size, validation_size, random_state)
    source = X if hasattr(X, "columns") and not real else values  # frames keep their names
    rows = [split_rows(source, split, real, weights) for split in splits]
    left_out: dict[str, str] = {}
    if np.isnan(values.data if hasattr(values, "tocsr") else values).any():
        left_out = {name: "it takes no missing numbers" for name in asked if registry.family(name).foreign}
    kind: Rows = "reals" if real else "bits"
    climbing = {
        name: new_entrant(
            name, values.shape[1], [round(_n_counted(weights, split.train)) for split in splits], kind, given
        )
        for name, given in asked.items()
        if name not in left_out
    }

    def result(of: Mapping[str, Entrant]) -> Search:
        return _result(of, left_out, splits, rows, len(counting), np.sort(used), clock, weights)

    def first() -> None:
        assert soon is not None
        soon(result({name: entrant for name, entrant in climbing.items() if entrant.begun}))

    with interrupts.held(), _keeping(checkpoint, budget):
        pause = None if soon is None else first
        left_out |= take_turns(climbing, rows, clock, random_state, asked=families is not None, soon=pause)
        clock.interrupted |= interrupts.take()
    if clock.interrupted:
        warnings.warn("the search was interrupted: it reports the fits that were finished", UserWarning, stacklevel=2)
    if not climbing:
        raise FitError("; ".join(f"{name}: {why}" for name, why in left_out.items()))
    return result(climbing)


def check_families(asked: Collection[Any] | None, real: bool) -> dict[str, Any]:
    """Check the families to try; give them the cheapest first, each with the estimator given for it, or None."""
    rows: Rows = "reals" if real else "bits"
    known = {family.name: family for family in registry.FAMILIES if family.takes(rows)}
    tried = [family.name for family in known.values() if family.searched]
    given: dict[str, Any] = {}
    for one in tried if asked is None else asked:
        name = one if isinstance(one, str) else registry.family_of(one).name
        if name not in known:
            raise ValueError(f"families: {name!r} is none of {', '.join(known)}, which are those for such data")
        given[name] = None if isinstance(one, str) else one
    if not given:
        raise ValueError("families is empty: nothing to search")
    return {name: given[name] for name in sorted(given, key=lambda name: known[name].cost)}


@contextmanager
def _keeping(checkpoint: Any, budget: float | None) -> Iterator[None]:
    """Keep fits within, at least for as long as it lasts: what runs out of time can then go on."""
    with ExitStack() as stack:
        if checkpoint is None and budget is not None:
            checkpoint = stack.enter_context(TemporaryDirectory(prefix="latentbits-"))
        stack.enter_context(under(checkpoint))
        yield


def _n_counted(weights: np.ndarray | None, rows: np.ndarray) -> float:
    """Count these rows, each as often as its weight says."""
    return float(len(rows) if weights is None else weights[rows].sum())


def _used_rows(counting: np.ndarray, n_columns: int, budget: float | None, seed: int | None) -> np.ndarray:
    """Draw the numbers of the rows that the search takes, from the rows that count, in random order."""
    shuffled = np.random.default_rng(seed).permutation(counting)
    if budget is None:
        return shuffled
    # cells of the table for each second of the budget
    return shuffled[: max(1000, int(budget * 12_000 / n_columns))]


def _splits(
    used: np.ndarray, n_folds: int | None, test_size: float, validation_size: float, seed: int | None
) -> list[Split]:
    """Make one split, or folds; folds of one size share compiled programs."""
    n = len(used)
    if n_folds is None:
        # with so few rows one split is too noisy; a quarter is tested at a time, as in one split
        n_folds = 4 if n <= 1000 else 1
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
        splits.append(Split(np.sort(shuffled[n_validation:]), np.sort(shuffled[:n_validation]), np.sort(part)))
    return splits


def _result(
    entrants: Mapping[str, Entrant],
    left_out: dict[str, str],
    splits: Sequence[Split],
    split_rows: Sequence[SplitRows],
    n_rows: int,
    used: np.ndarray,
    clock: Clock,
    weights: np.ndarray | None,
) -> Search:
    names = {entrant.title(entrant.size): entrant for entrant in entrants.values()}
    chosen = {name: [climb.tried[climb.best] for climb in entrant.climbs] for name, entrant in names.items()}
    row_bits = {name: np.concatenate([fit.test for fit in fits]) for name, fits in chosen.items()}
    rows = np.concatenate([split.test for split in splits])
    own = weights_of(weights, rows)
    common = {name: shared_error([fit.common for fit in fits]) for name, fits in chosen.items()}
    seconds = {name: entrant.seconds for name, entrant in names.items()}
    converged = {name: all(fit.converged for fit in fits) for name, fits in chosen.items()}
    entries = ranked(row_bits, common, seconds, converged, own)
    sound = {name: bits for name, bits in row_bits.items() if converged[name]}
    fitted = {name: entrant.climbs[-1].tried[entrant.size].model for name, entrant in names.items()}
    return Search(
        comparison=Comparison(entries, len(rows), row_bits, rows, fitted, interrupted=clock.interrupted, weights=own),
        sound=ranked(sound, common, seconds, converged, own) if sound else (),
        families={name: entrant.name for name, entrant in names.items()},
        sizes={name: entrant.size for name, entrant in names.items()},
        fold_sizes={name: tuple(climb.best for climb in entrant.climbs) for name, entrant in names.items()},
        trials={name: _trials(entrant) for name, entrant in names.items()},
        left_out=left_out,
        cut_short={name: entrant.note for name, entrant in names.items() if entrant.note},
        n_train=len(splits[0].train),
        n_validation=len(splits[0].validation),
        n_test=len(rows),
        n_folds=len(splits),
        unseen=splits[-1].test,
        n_rows=n_rows,
        used=used,
        units=split_rows[-1].units,
        seconds=clock.used,
        seconds_compiling=clock.compiling,
        weights=weights_of(weights, used),
        n_learned=_n_counted(weights, splits[-1].train),
        rounds={
            name: _of_size(entrant, entrant.climbs if split_rows[-1].units is None else entrant.climbs[-1:])
            for name, entrant in names.items()
        },
        was_short=clock.was_short,
    )


def _of_size(entrant: Entrant, climbs: Sequence[Climb]) -> tuple[Any, ...]:
    return tuple(climb.tried[entrant.size].model for climb in climbs if entrant.size in climb.tried)


def _trials(entrant: Entrant) -> tuple[Trial, ...]:
    sizes = dict.fromkeys(size for climb in entrant.climbs for size in climb.tried)
    trials = []
    for size in sizes:
        fits = [climb.tried[size] for climb in entrant.climbs if size in climb.tried]
        bits = np.concatenate([fit.validation for fit in fits])
        weights = None if fits[0].weights is None else np.concatenate([fit.weights for fit in fits])
        error = np.hypot(standard_error(bits, weights), shared_error([fit.common for fit in fits]))
        seconds, converged = sum(fit.seconds for fit in fits), all(fit.converged for fit in fits)
        trials.append(Trial(size, float(np.average(bits, weights=weights)), float(error), seconds, converged))
    return tuple(trials)
