"""Held-out bits per row of several models on the same rows: which model is right?"""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import jax
import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
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
from latentbits.reports.comparison import STACK, Comparison, ranked, shared_error
from latentbits.reports.fit import FitReport

__all__ = ["FAILURES", "compare", "default_models", "fit_copy", "reason_of", "score_rows", "weights_of"]

# What one family may fail by while others do not: numbers, memory (of the host and of the device), its own arguments.
FAILURES = (FitError, ValueError, MemoryError, jax.errors.JaxRuntimeError)
MOST_ENTRIES = 2 * 10**10  # of a table: learning reads all of them, zeros too, again and again


def default_models(n_rows: int, random_state: Any = None, only: Collection[str] | None = None) -> dict[str, Any]:
    """Make the models that `compare` fits by default, in the order of their sizes.

    `n_rows`: models that have not ten rows for each component, latent or unit are left out.  `random_state`: given to
    every model.  `only`: names of the families to take; None takes all.
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
    from sklearn.model_selection import KFold, ShuffleSplit  # with all metrics and neighbours behind it

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


def weights_of(weights: np.ndarray | None, rows: np.ndarray) -> np.ndarray | None:
    """Take the weights of the rows of these numbers; None where each counts once."""
    return None if weights is None else weights[rows]


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
        for words in ("no Gaussian has these correlations", "a Heywood case", ".* pairs of columns are not determined"):
            warnings.filterwarnings("ignore", message=words)  # unseen rows decide
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
