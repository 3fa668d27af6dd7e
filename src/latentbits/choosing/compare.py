"""Which model is right?  Held-out bits per row of several models on the same rows."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from typing import Any

import jax
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import KFold, ShuffleSplit
from sklearn.utils import _safe_indexing, check_array
from sklearn.utils.validation import has_fit_parameter

from latentbits.choosing.stack import crossed
from latentbits.choosing.stack import stack as stack_of
from latentbits.core import interrupts
from latentbits.core.errors import FitError, OutOfTimeError, PrecisionWarning, TooLargeError, is_out_of_memory
from latentbits.engines.checkpoint import under
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.families import families, name_of
from latentbits.estimators.tables.encoding import check_bits, check_observed
from latentbits.estimators.tables.missing import with_nan
from latentbits.estimators.tables.weights import open_weights
from latentbits.reports.fit import FitReport
from latentbits.reports.numbers import Measured, measured
from latentbits.reports.record import Report, Table

__all__ = [
    "FAILURES",
    "Comparison",
    "Entry",
    "compare",
    "default_models",
    "fit_copy",
    "ranked",
    "reason_of",
    "score_rows",
    "shared_error",
    "short_names",
    "standard_error",
    "weights_of",
]

# What one family may fail by while others do not: numbers, memory (of the host and of the device), its own arguments.
FAILURES = (FitError, ValueError, MemoryError, jax.errors.JaxRuntimeError)
LEARNED = "On the rows that were learned from; the lower AIC and BIC, the better"
NOT_HIGHEST = "the likelihood is not at its maximum, or not well known"
STACK = "stack of all"
MOST_ENTRIES = 2 * 10**10  # of a table: learning reads all of them, zeros too, again and again


@dataclass(frozen=True)
class Entry:
    """One model's result.

    Attributes
    ----------
    name
        As the model was named.
    bits_per_row, error
        Mean of -log2 p(x) over the held-out rows, and its standard error: over rows, and of what is estimated in p(x).
        With weights, each row counts as often as its weight says, in both.
    behind, behind_error
        How many bits per row more than the best model, and the standard error of that difference, row by row.
    seconds
        Time to fit and to score, all folds together, compilation included.
    converged
        Whether every fit converged, or went through its schedule.
    n_parameters, log_likelihood, aic, bic
        Of the fit that is in `Comparison.fitted`, to the rows that it has learned from; None and NaN where a model
        does not say.
    """

    name: str
    bits_per_row: float
    error: float
    behind: float
    behind_error: float
    seconds: float
    converged: bool
    n_parameters: int | None = None
    log_likelihood: float = float("nan")
    aic: float = float("nan")
    bic: float = float("nan")


@dataclass(frozen=True)
class Comparison(Report):
    """The result of a comparison.

    Attributes
    ----------
    entries
        One for each model, best first.
    n_rows
        Number of held-out rows.
    row_bits
        -log2 p(x) of every held-out row under every model.
    rows
        Numbers of the held-out rows in X, in the order of `row_bits`.
    weights
        How often each of them counts; None for once.
    fitted
        The fitted models; with folds, those of the last fold.
    left_out
        By name: why a model is not there.  One that fails, or would not fit into memory, does not stop the others.
    interrupted
        Whether Ctrl-C ended the comparison; it is then of the models that were finished.
    unfinished
        Names of those that were not.
    reports
        By name: the report of each of the fits in `fitted`, to the rows that it has learned from.  Its `notes` say
        where a prior or smoothing keeps it from the maximum of the likelihood.
    stack_weights
        By name: the weight of each model in the stack of all, chosen on all held-out rows; empty where none was asked
        for.  The bits of the stack are not of these weights: see `compare`.
    """

    entries: tuple[Entry, ...]
    n_rows: int
    row_bits: Mapping[str, np.ndarray]
    rows: np.ndarray
    fitted: Mapping[str, Any]
    left_out: Mapping[str, str] = field(default_factory=dict)
    interrupted: bool = False
    unfinished: tuple[str, ...] = ()
    weights: np.ndarray | None = None
    reports: Mapping[str, FitReport] = field(default_factory=dict)
    stack_weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def simplest(self) -> str:
        """The first model, in the order they were given, that is within one standard error of the best.

        A difference smaller than that is not known to be one, so where models are given from simple to complex this is
        the one to take.  Where a stack is ahead of every model by more, it is the best of them.
        """
        behind = {entry.name: entry for entry in self.entries if not (self.stack_weights and entry.name == STACK)}
        level = (name for name in self.row_bits if name in behind and behind[name].behind <= behind[name].behind_error)
        return next(level, next(iter(behind)))

    @property
    def off_maximum(self) -> tuple[str, ...]:
        """Names of models whose reports have something to say of the likelihood that criteria are made of."""
        return tuple(name for name, report in self.reports.items() if report.notes)

    @property
    def stack_in_words(self) -> str:
        """The weights of the stack, the largest first; models of weight 0 are left out."""
        used = sorted((pair for pair in self.stack_weights.items() if pair[1] > 0), key=lambda pair: -pair[1])
        return f"{STACK}: " + ", ".join(f"{weight:.3f} {name}" for name, weight in used)

    def keys(self) -> list[str]:
        """Give the names of what is in it; models are no numbers, and only an attribute."""
        return [field.name for field in fields(self) if field.name != "fitted"]

    def table(self) -> Table:
        """Make one row a model, the best first: bits per row, how far it is behind the best, and the seconds."""
        columns = {
            "bits per row": measured(*zip(*((e.bits_per_row, e.error) for e in self.entries)), form=".3f"),
            "behind the best": [
                Measured(e.behind, e.behind_error if e.behind else None, form=".3f") for e in self.entries
            ],
            "seconds": measured((e.seconds for e in self.entries), form=".1f"),
        }
        names = [e.name if e.converged else f"{e.name} (not converged)" for e in self.entries]
        title = f"{self.n_rows} held-out rows, ± standard error; fewer bits are better"
        notes = [self.stack_in_words] if self.stack_weights else []
        notes += [f"{name} is left out: {why}" for name, why in self.left_out.items()]
        if self.unfinished:
            notes.append(f"interrupted before {', '.join(self.unfinished)} could be fitted")
        return Table(names, columns, title, tuple(notes), corner="model")

    def costs(self) -> Table:
        """Make one row a model, the best first: parameters, log-likelihood, AIC and BIC of the rows learned from."""
        off = self.off_maximum
        known = [e for e in self.entries if e.name in self.reports]
        columns = {
            "parameters": [e.n_parameters for e in known],
            "log-lik.": measured((e.log_likelihood for e in known), form=".1f"),
            "AIC": measured((e.aic for e in known), form=".1f"),
            "BIC": measured((e.bic for e in known), form=".1f"),
        }
        if off:
            columns[""] = ["*" * (e.name in off) for e in known]
        notes = (f"* {NOT_HIGHEST}: reports[name].notes say why",) if off else ()
        return Table([e.name for e in known], columns, LEARNED, notes, corner="model")

    def shown(self) -> tuple[Table, ...]:
        """Make both tables."""
        return (self.table(), self.costs()) if self.reports else (self.table(),)

    def to_json(self) -> dict[str, Any]:
        """Give the entries and what is missing, without the bits of every row."""
        return {
            "n_held_out": self.n_rows,
            "best": self.entries[0].name,
            "models": [asdict(entry) for entry in self.entries],
            "stack_weights": dict(self.stack_weights),
            "left_out": dict(self.left_out),
            "interrupted": self.interrupted,
            "unfinished": list(self.unfinished),
        }


def default_models(n_rows: int, random_state: Any = None, only: Collection[str] | None = None) -> dict[str, Any]:
    """Make the models that `compare` fits by default, in the order of their sizes.

    Parameters
    ----------
    n_rows : int
        Models that have not ten rows for each component, latent or unit are left out.
    random_state : int, RandomState or None
        Given to every model.
    only : collection of str or None
        Names of the families to take; None takes all.
    """
    asked = [family for family in families("bits") if only is None or family.name in only]
    sized = [(size, family) for family in asked for size in family.compared if size == 1 or size * 10 <= n_rows]
    by_size = sorted(sized, key=lambda one: one[0])
    return {family.title(size): family.new(size).set_params(random_state=random_state) for size, family in by_size}


def compare(
    X: Any,
    models: Mapping[str, Any] | Sequence[Any] | None = None,
    *,
    sample_weight: Any = None,
    test_size: float = 0.25,
    n_folds: int | None = None,
    random_state: int | None = 0,
    verbose: int = 0,
    checkpoint: Any = None,
    stack: bool = False,
) -> Comparison:
    """Fit several models to a part of the rows and score them on the rest.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.  In memory: rows are drawn from it, so no function of batches.  A sparse table stays one.
    models : mapping of names to estimators, sequence of estimators, or None
        What to compare; None takes every family of models of bits, some in several sizes.  Models of a sequence are
        named by family and size, such as "mixture of 2".
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts, in learning and in scoring; None for once.  A row is held out with all its weight.
    test_size : float, default=0.25
        Share of rows that is held out.
    n_folds : int or None
        With a number, k-fold cross-validation instead of one split: every row is held out once.
    random_state : int or None, default=0
        Seed of the split, and of the default models.
    verbose : int, default=0
        Passed on to the estimators that are given here by default.
    checkpoint : str, path, latentbits.Checkpoint or None
        A folder in which fits are kept: after a crash the same call goes on, and makes none of them again.
    stack : bool, default=False
        One more entry, "stack of all": the mixture of the fitted models whose weights suit held-out rows best.  Its
        bits are honest: held-out rows are cut into two halves, and each half is scored with weights chosen on the
        other, so that no row has a say in the weights that it is scored with (and none in what the models learned).
        `Comparison.stack_weights` are chosen on all held-out rows, for use.

    Returns
    -------
    Comparison
        Printing it shows the table.

    Raises
    ------
    latentbits.core.errors.TooLargeError
        Where reading all entries, the zeros of a sparse table among them, would take hours.

    Notes
    -----
    Ctrl-C ends the comparison, and gives that of the models that are finished by then, with a warning; if none is,
    KeyboardInterrupt is raised.

    Examples
    --------
    >>> from latentbits import compare, load_dataset
    >>> print(compare(load_dataset("digits").X))  # doctest: +SKIP
    """
    X = with_nan(X)
    values = check_array(X, accept_sparse="csr", dtype="numeric", ensure_all_finite="allow-nan", ensure_min_samples=2)
    check_observed(values)
    weights = open_weights(sample_weight, values.shape[0], X)
    counting = np.arange(values.shape[0]) if weights is None else np.flatnonzero(weights)
    n_counted = len(counting) if weights is None else round(weights.sum())
    named = _named(models, n_counted, random_state, verbose)
    if stack and STACK in named:
        raise ValueError(f"models: no model may be called {STACK!r} beside a stack of them")
    for name, m in named.items():
        if getattr(m, "real_valued", False):
            raise ValueError(
                f"models: {name} is a model of real numbers, whose densities cannot be compared with probabilities of "
                "bits; compare such models by their score on rows held out"
            )
    _check_size(values.shape)
    for threshold in {getattr(m, "binarize", None) for m in named.values()}:
        check_bits(values, binarize=threshold)  # what is no bit is named by its row in X, not in a split of it
    X = X if hasattr(X, "columns") else values  # frames keep their names
    if n_folds is not None and not 2 <= n_folds <= len(counting):
        raise ValueError(f"n_folds must be between 2 and the number of rows, {len(counting)}; got {n_folds}")
    if n_folds is None:
        splitter = ShuffleSplit(1, test_size=test_size, random_state=random_state)
    else:
        splitter = KFold(n_folds, shuffle=True, random_state=random_state)
    splits = [(counting[train], counting[test]) for train, test in splitter.split(counting)]
    row_bits, common, seconds, converged = {}, {}, {}, {}
    last: dict[str, Any] = {}
    left_out: dict[str, str] = {}
    reports: dict[str, FitReport] = {}
    with interrupts.held(), under(checkpoint):
        for name, estimator in named.items():
            began = time.perf_counter()
            try:
                fits = [
                    fit_copy(estimator, _safe_indexing(X, train), weights_of(weights, train)) for train, _ in splits
                ]
                held_out = [
                    score_rows(m, _safe_indexing(X, test), weights_of(weights, test))
                    for m, (_, test) in zip(fits, splits)
                ]
            except FAILURES as error:
                if len(named) == 1:
                    raise
                left_out[name] = reason_of(error)
                continue
            except KeyboardInterrupt:
                if not last:
                    raise
                break
            row_bits[name] = np.concatenate([bits for bits, _ in held_out])
            common[name] = shared_error([error for _, error in held_out])
            seconds[name] = time.perf_counter() - began
            converged[name] = all(getattr(m, "_finished", True) for m in fits)
            last[name] = fits[-1]
            learned = splits[-1][0]
            report = _report(last[name], _safe_indexing(X, learned), weights_of(weights, learned))
            reports |= {} if report is None else {name: report}
        unfinished = tuple(name for name in named if name not in last and name not in left_out)
        interrupted = interrupts.take() or bool(unfinished)
    if not row_bits:
        raise FitError("no model could be fitted: " + "; ".join(f"{name}: {why}" for name, why in left_out.items()))
    rows = np.concatenate([test for _, test in splits])
    if unfinished:
        warnings.warn(f"interrupted before {', '.join(unfinished)} could be compared", UserWarning, stacklevel=2)
    own = weights_of(weights, rows)
    weights_in_stack: dict[str, float] = {}
    if stack:
        try:
            row_bits[STACK], weights_in_stack = _stacked(row_bits, random_state, own)
        except ValueError as error:  # a row that every model holds impossible
            left_out[STACK] = reason_of(error)
        else:  # its mean moves with a model's in proportion to the weight
            common[STACK] = float(np.sqrt(sum((w * common[name]) ** 2 for name, w in weights_in_stack.items())))
            seconds[STACK], converged[STACK] = sum(seconds.values()), all(converged.values())
    entries = ranked(row_bits, common, seconds, converged, own, reports)
    return Comparison(
        entries, len(rows), row_bits, rows, last, left_out, interrupted, unfinished, own, reports, weights_in_stack
    )


def _stacked(
    row_bits: Mapping[str, np.ndarray], seed: int | None, weights: np.ndarray | None
) -> tuple[np.ndarray, dict[str, float]]:
    """Compute -log2 p(x) of each row under a stack with weights of other rows, and the weights that all rows choose."""
    rows = -np.log(2) * np.stack(list(row_bits.values()), axis=1)
    chosen = stack_of(rows, weights).weights
    return -crossed(rows, seed, weights) / np.log(2), dict(zip(row_bits, chosen.tolist()))


def _check_size(shape: tuple[int, ...]) -> None:
    n, d = shape
    if n * d > MOST_ENTRIES:
        raise TooLargeError(
            f"X has {n:,} x {d:,} entries, zeros included, and comparing models stops at {MOST_ENTRIES:,}: pass a "
            "sample of the rows, or fewer columns (explore takes such samples by itself)"
        )


# --- the pieces, which `search` uses too ---


def reason_of(error: BaseException) -> str:
    """Say in a line why a model was left out.

    >>> reason_of(MemoryError())
    'out of memory'
    >>> reason_of(FitError("the objective became nan"))
    'the objective became nan'
    >>> reason_of(OutOfTimeError("it takes longer than max_time", "raise max_time"))
    'it takes longer than max_time'
    """
    text = " ".join((error.what if isinstance(error, OutOfTimeError) else str(error)).split())
    if is_out_of_memory(error) and not isinstance(error, TooLargeError):
        return "out of memory" + (f" ({text[:200]})" if text else "")  # a device adds a page of allocations
    return text or type(error).__name__


def ranked(
    row_bits: Mapping[str, np.ndarray],
    common: Mapping[str, float],
    seconds: Mapping[str, float],
    converged: Mapping[str, bool],
    weights: np.ndarray | None = None,
    reports: Mapping[str, FitReport] | None = None,
) -> tuple[Entry, ...]:
    """Make the entries of a comparison, best first.

    Parameters
    ----------
    row_bits
        By name: -log2 p(x) of the same held-out rows in the same order.
    common
        By name: the standard error with which a mean is known, in bits, beside its spread over rows: of an estimated
        log Z, of integrals, of rounding; 0 where all is exact.
    seconds, converged
        By name, as in `Entry`.
    weights
        How often each row counts; None for once.
    reports
        By name: reports of fits, where models have them.
    """
    costs = ("n_parameters", "log_likelihood", "aic", "bic")
    best = min(row_bits, key=lambda name: np.average(row_bits[name], weights=weights))
    entries = []
    for name, bits in row_bits.items():
        with np.errstate(invalid="ignore"):  # rows that both models hold impossible
            difference = np.zeros_like(bits) if name == best else bits - row_bits[best]
        entries.append(
            Entry(
                name=name,
                bits_per_row=float(np.average(bits, weights=weights)),
                error=float(np.hypot(standard_error(bits, weights), common[name])),
                behind=float(np.average(difference, weights=weights)),
                behind_error=0.0
                if name == best
                else float(np.hypot(standard_error(difference, weights), np.hypot(common[name], common[best]))),
                seconds=seconds[name],
                converged=converged[name],
                **({cost: reports[name][cost] for cost in costs} if reports and name in reports else {}),
            )
        )
    return tuple(sorted(entries, key=lambda e: e.bits_per_row))


def weights_of(weights: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Take the weights of the rows of these numbers; None where each counts once."""
    return None if weights is None else weights[rows]


def shared_error(errors: Sequence[float]) -> float:
    """Compute the standard error that all folds share: folds are of about one size, and their log Z independent."""
    return float(np.sqrt(np.mean(np.square(errors)) / len(errors)))


def score_rows(fitted: Any, X: Any, weights: np.ndarray | None = None) -> tuple[np.ndarray, float]:
    """Compute -log2 p(x) of each row under any density model, and the standard error of its mean by estimates."""
    if not hasattr(fitted, "log_likelihoods"):
        return -np.asarray(fitted.score_samples(X), float) / np.log(2), 0.0
    rows = fitted.log_likelihoods(X)
    error = fitted.error_of_mean(rows, weights)
    error = error if np.isfinite(error) else 0.0  # not known ("ep"), or of rows that the model holds impossible
    return -np.asarray(rows.value, float) / np.log(2), error / np.log(2)


def _report(fitted: Any, X: Any, weights: np.ndarray | None) -> FitReport | None:
    """Report a fit on the rows that it has learned from; None for a model without a report."""
    if not isinstance(fitted, WithFitReport):
        return None
    with interrupts.shielded(), warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # its error is in the report
        try:
            return fitted._fit_report(X, weights)
        except FAILURES:
            return None


def fit_copy(estimator: Any, X: Any, weights: np.ndarray | None = None) -> Any:
    """Fit a copy of the estimator, without the warnings that unseen rows or the table make needless."""
    given = {} if weights is None else {"sample_weight": weights}
    if given and not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(f"{type(estimator).__name__} takes no sample_weight")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table says so
        for told in ("no Gaussian has these correlations", "a Heywood case", ".* pairs of columns cannot be told"):
            warnings.filterwarnings("ignore", message=told)  # unseen rows decide
        fitted = clone(estimator).fit(X, **given)
    interrupts.check()  # models of others do not look
    if getattr(fitted, "stop_reason_", None) == "interrupted":
        raise KeyboardInterrupt  # a fit that is cut short says nothing of its model
    return fitted


def _named(models: Any, n_rows: int, random_state: Any, verbose: int) -> dict[str, Any]:
    if models is None:
        defaults = default_models(n_rows, random_state)
        return {name: m.set_params(verbose=verbose) for name, m in defaults.items()}
    for m in models.values() if isinstance(models, Mapping) else [models] if isinstance(models, str) else models:
        if isinstance(m, type) or not hasattr(m, "get_params"):
            made = f"{m.__name__ if isinstance(m, type) else 'BernoulliMixture'}(...)"
            raise TypeError(f"models must be estimators, such as {made}, in a list or a dict by name; found {m!r}")
    if not isinstance(models, Mapping):
        models = dict(zip(short_names(models), models, strict=True))
    if not models:
        raise ValueError("models is empty: nothing to compare")
    return dict(models)


def short_names(models: Sequence[Any]) -> list[str]:
    """Name each model: family and size, and a number where two would be called the same.

    >>> from latentbits import BernoulliMixture, ClippedGaussian
    >>> short_names([BernoulliMixture(2), BernoulliMixture(2, smoothing=1.0), ClippedGaussian("parallel")])
    ['mixture of 2', 'mixture of 2 (2)', 'clipped Gaussian (parallel)']
    """
    seen: Counter[str] = Counter()
    names = []
    for title in map(_title, models):
        seen[title] += 1
        names.append(title if seen[title] == 1 else f"{title} ({seen[title]})")
    return names


def _title(model: Any) -> str:
    """Give family and size; for another library's model, the name of its class."""
    for family in families():
        if family.class_name == type(model).__name__:
            return name_of(model)
    return type(model).__name__


def standard_error(x: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Compute that of the mean of x; NaN for a single number, and where some are infinite (rows of probability 0).

    >>> standard_error(np.array([0.0, 1.0]), np.array([2.0, 2.0])) == standard_error(np.array([0.0, 0.0, 1.0, 1.0]))
    True
    """
    n = float(len(x) if weights is None else weights.sum())
    if n <= 1 or not np.isfinite(x).all():
        return float("nan")
    squares = np.square(x - np.average(x, weights=weights))
    return float(np.sqrt(np.average(squares, weights=weights) / (n - 1)))
