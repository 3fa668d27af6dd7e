"""The face: one thin scikit-learn estimator over a `Model` record.

A family adds a constructor, `_model` (its record for the hyper-parameters) and `_expose` (its fitted attributes).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Literal, Self

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import PyTree
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin, clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from latentbits.core import interrupts
from latentbits.core.errors import DataError, ModelFileError, PrecisionWarning, did_you_mean
from latentbits.core.model import LogLikelihood, Measure, Model, Stop
from latentbits.core.programs import callable_tree, later, seconds_waited
from latentbits.core.version import __version__
from latentbits.engines import ahead
from latentbits.engines.checkpoint import Journal, fingerprint, going_on, keeping, of_fit
from latentbits.engines.chunks import Layout, layout_for
from latentbits.engines.dask import DaskEngine
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.held_out import split
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine, Pass, map_rows, start_pass
from latentbits.engines.sparse import SparseEngine, layout_of
from latentbits.engines.spread import spread, workers
from latentbits.engines.summary import Powers
from latentbits.estimators.callbacks import WithCallbacks, told_to_callbacks
from latentbits.estimators.files import check, check_numbers, plain, save
from latentbits.estimators.history import comparable_end, history_table
from latentbits.estimators.lazy import lazy_rows, lazy_scores
from latentbits.estimators.precision import (
    DOUBLE,
    MOST_COLUMNS,
    SINGLE,
    TOLD,
    TOLERANCE,
    error_of_sum,
    imprecise,
    rounded,
    sum_of,
)
from latentbits.estimators.showing import as_html, as_text, found_by, keep_nested_lines
from latentbits.estimators.tables.file_blocks import file_blocks
from latentbits.estimators.tables.frames import like_input
from latentbits.estimators.tables.validate import check_observed, is_dask, open_rows, open_values
from latentbits.estimators.tables.weights import InRows, in_rows, open_weights, weighted

__all__ = ["LatentModel", "means_of"]

LEAST_NATS = 1.0  # of some row, or all may have been empty: these have 0, up to .01 where log p(x) is estimated


class LatentModel(WithCallbacks, ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all estimators; every method of the face is here, once.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed; the same seed gives the same fit.
    n_init : int, default=1
        Number of restarts; the best objective is kept.
    max_iter : int, default=1000
        Most iterations of each stage.
    max_time : float or None
        Most seconds of learning, all restarts together; compiling programs, at the first fit, comes in addition.
    tol : float, default=1e-6
        Stop when less than this is left to gain, in nats per row (`left_to_gain_` tells it for all rows together).
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; parameters and sums are always float64.  "auto" is
        float32, unless that loses more than 0.001 nats of a row, as it does from 2000 columns on.
    binarize : float or None
        Turn values above it into 1 and the rest into 0; None takes nothing but bits.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "random_state": ["random_state"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, None, None, closed="neither")],
        "verbose": ["verbose"],
        "dtype": [StrOptions({"auto", "float32", "float64"}), type, np.dtype],
        "binarize": [Interval(Real, None, None, closed="neither"), None],
    }

    params_: PyTree
    n_features_in_: int
    n_iter_: int
    stop_reason_: str
    objective_: float
    left_to_gain_: float = np.nan
    n_rows_: float = np.nan
    history_table_: np.ndarray
    held_out_history_: np.ndarray  # nats per row of the held-out rows, after each pass; empty where there were none
    dtype_: str
    _held_out: Engine | None = None  # while it learns

    # what a model file is held to: the pytree of parameters, their ranges, and which are bool, are int or may be NaN
    _params_class: ClassVar[type]
    _former_options: ClassVar[frozenset[str]] = frozenset()  # of earlier versions: files still name them
    _former_lacks: ClassVar[Mapping[str, float]] = {}  # numbers that their files lack, with what stands for each
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    _flags: ClassVar[frozenset[str]] = frozenset()
    _whole: ClassVar[frozenset[str]] = frozenset()
    _with_holes: ClassVar[frozenset[str]] = frozenset()
    # using a model takes time in proportion to its arrays, but for the product of these hyper-parameters: the most that
    # a file may ask for
    _most_work: ClassVar[tuple[tuple[str, ...], int]] = ((), 1)
    _sample_dtype: Any = np.uint8  # of bits; a family of real-valued rows has its own
    _sparse: ClassVar[bool] = False  # its records take lists of ones, so that a sparse table stays one

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Python names a parameter that is not known, but none that is."""
        known = cls._get_param_names() if given else []
        for name in given:
            if name not in known:
                there = did_you_mean(name, known) or f" It has {', '.join(known)}."
                raise TypeError(f"{cls.__name__} has no parameter {name!r}.{there}")
        return super().__new__(cls)

    def __init__(
        self,
        random_state: Any,
        n_init: Any,  # a family that chooses it itself takes None
        max_iter: int,
        max_time: float | None,
        tol: float,
        verbose: int,
        dtype: Any,
        binarize: float | None,
    ) -> None:
        # a family repeats these by name in its own signature, where scikit-learn looks for them, and hands them on
        self.random_state = random_state
        self.n_init = n_init
        self.max_iter = max_iter
        self.max_time = max_time
        self.tol = tol
        self.verbose = verbose
        self.dtype = dtype
        self.binarize = binarize

    @abstractmethod
    def _model(self) -> Model:
        """The record of functions for these hyper-parameters."""

    @abstractmethod
    def _expose(self) -> None:
        """Set the fitted attributes from `params_`."""

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Shapes of the parameters by name, None for a free length: what a model file is held to."""

    def _params_type(self) -> type:
        """The pytree of the parameters, for these hyper-parameters."""
        return self._params_class

    def _extra(self) -> dict[str, Any]:
        """What a model file must keep beside parameters and hyper-parameters, as JSON can hold it."""
        return {}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        """Take back what `_extra` gave, and complain of anything else."""
        if extra:
            raise ModelFileError(f"unknown entries {sorted(extra)}")

    # ---------------------------------------------------------------- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        engine: Literal["dask"] | None = None,
        X_val: Any = None,
    ) -> Self:
        """Learn the model from bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            0, 1 or bool, NaN for missing; a pandas or polars frame, SciPy sparse matrix, memory map, Dask array, a
            path (.parquet, .zarr or .npy, a pattern such as ``rows-*.npy``, or a list of them), or a function that
            gives an iterable of batches each time it is called (for tables larger than memory).
        y : Ignored
            Present for scikit-learn's pipelines.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts: counts of patterns, survey weights, a bootstrap's draws.  A table of distinct
            rows with their counts gives the model of the table written out.  None counts each row once.
        checkpoint : str, path, latentbits.Checkpoint or None
            A folder in which learning is kept every half a minute: after a crash the same call goes on from there, and
            ends with the bits that it would have had.
        engine : "dask" or None
            "dask" has the workers of the active `distributed.Client` learn from tables in memory and from .npy and
            .zarr files, too; without a client, spawned processes of its own, one for each core.  None goes by the kind
            of X.
        X_val : array-like of shape (n_validation_rows, n_columns) or None
            Rows that are not learned from, for early stopping: learning ends when they gain no more, and the point is
            kept at which they were most probable (`held_out_history_`).  Families whose learning cannot be stopped
            refuse it.

        Returns
        -------
        self
        """
        self._validate_params()
        self._given_dtype()
        self.__dict__.pop(
            "params_", None
        )  # if this fit fails, the estimator is not fitted, rather than half of another
        weights, unit = self._in_rows(X, sample_weight)
        with workers(engine) as n_workers:
            rows = self._open_for(n_workers, X, weights)
            seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
            rows, self._held_out = self._hold_out(rows, X_val)
            dtype = self._dtype_on(rows)
            journal = self._journal(checkpoint, rows, seed)
            if journal is not None:
                seed = journal.seed
            with (
                interrupts.held(),
                keeping(journal),
                going_on(journal),
                told_to_callbacks(self, X, y, sample_weight),
            ):
                if self._may_widen(dtype) and self.takes_reals and self._rounding_foreseen(rows, dtype) > TOLERANCE:
                    dtype = DOUBLE
                seconds = self._learn(rows, seed, dtype, self.max_time)
                lost = self._rounding_of(rows, dtype).mean if self.takes_reals else 0.0
                if lost > TOLERANCE and self._may_widen(dtype) and not Stop(self.stop_reason_).cut_short:
                    # the noise was not known before
                    left = None if self.max_time is None else max(self.max_time - seconds, 1e-3)
                    self._learn(rows, seed, DOUBLE, left)
                    lost = self._rounding_of(rows, DOUBLE).mean
                if journal is not None and journal.taken is not None:
                    check(self)
                self._count_in(unit)
                if interrupts.take():  # when all was learned: it stands, but whoever goes on to another fit should know
                    self.stop_reason_ = str(Stop.INTERRUPTED)
            if not self._finished:
                warnings.warn(
                    _not_converged(type(self).__name__, self.stop_reason_, self.n_iter_, self.left_to_gain_),
                    ConvergenceWarning,
                    stacklevel=2,
                )
            self._warn_of_rounding(rows, lost)
            self._held_out = None
        return self

    @property
    def _has_prior(self) -> bool:
        """Whether something is weighed against rows, so that it matters how many they are: a prior, smoothing."""
        return True

    def _in_rows(self, X: Any, sample_weight: Any) -> InRows:
        """The weights to learn with, and their unit: that of the user where a prior is weighed against the rows."""
        weights = open_weights(sample_weight, None, X)
        return InRows(weights, 1.0) if self._has_prior else in_rows(weights)

    def _count_in(self, unit: float) -> None:
        """Turn what was learned of sums over rows into sums by weights of this unit."""
        self.n_rows_ *= unit
        self.left_to_gain_ *= unit
        of_rows = self.history_table_["measure"] != Measure.LEFT_OVER
        self.history_table_["objective"][of_rows] *= unit
        if len(of_rows) == 0 or of_rows[-1]:
            self.objective_ *= unit

    def _hold_out(self, rows: Engine, X_val: Any) -> tuple[Engine, Engine | None]:
        """Rows to learn from, and those that say when to stop; None where nobody asked."""
        share = self._held_out_share()
        if X_val is None and share == 0:
            return rows, None
        if not self._stops_early(rows):
            raise ValueError(
                f"X_val and validation_fraction are no use here: {type(self).__name__} learns, with these settings, "
                "in no way that held-out rows could stop"
            )
        if X_val is None:
            return split(rows, share)
        try:
            return rows, self._open(X_val, reset=False)
        except ValueError as error:
            raise type(error)(f"X_val: {error}") from error

    def _stops_early(self, rows: Engine) -> bool:
        """Whether held-out rows can end learning, with these settings."""
        return any(getattr(stage, "stops_early", False) for stage in self._model_for(rows).stages)

    def _held_out_share(self) -> float:
        """Share of the rows that is held out to stop by, where no rows of their own are given."""
        return 0.0

    def _open_for(self, n_workers: int | None, X: Any, sample_weight: Any) -> Engine:
        """The rows to learn from: as X is given, or in blocks for so many workers of Dask's."""
        if n_workers is None:
            return self._open(X, reset=True, sample_weight=sample_weight)
        return spread(self._open(file_blocks(X, n_workers), reset=True, sample_weight=sample_weight), n_workers)

    def _journal(self, checkpoint: Any, engine: Engine, seed: int) -> Journal | None:
        """What is kept of this fit; None where nothing is."""
        names = getattr(self, "feature_names_in_", None)
        options = {name: plain(name, value) for name, value in self.get_params(deep=False).items()}
        identity = {
            "model": type(self).__name__,
            **{name: value for name, value in options.items() if name not in ("verbose", "max_time")},
            "columns": engine.n_features if names is None else [str(name) for name in names],
            "latentbits": __version__,
            "jax": jax.__version__,
            "device": jax.default_backend(),
            **({} if self._held_out is None else {"held out": fingerprint(self._held_out)}),
        }
        return of_fit(checkpoint, engine, identity, seed, partial(check_numbers, self))

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        """Learn with rows of this precision; the seconds it took, without those of compiling."""
        model, waited = self._model_for(engine), seconds_waited()
        result = fit(
            model,
            engine,
            seed_key(seed),
            limits=Limits(self.max_iter, self.tol, max_time),
            n_init=self._n_restarts,
            dtype=self._dtype_of_rows(dtype),
            verbose=self.verbose,
            then=lambda shapes: self._foresee_use(model, engine, shapes),
            held_out=self._held_out,
        )
        result = self._learn_on(engine, result)
        self.dtype_ = result.dtype.name
        self._adopt(result)
        self._finish(engine, result)
        return result.seconds - (seconds_waited() - waited)

    def _learn_on(self, engine: Engine, result: FitResult) -> FitResult:
        """Go on from what was found, where it asks for another record, such as one with more nodes of quadrature.

        Every fit takes this step, between its stages and the fitted attributes.
        """
        return result

    def _dtype_of_rows(self, dtype: np.dtype) -> Callable[[float], np.dtype]:
        """The precision of so many rows in learning, where it would be `dtype` for very many."""
        return lambda n: DOUBLE if self._may_widen(dtype) and n <= self._double_rows else dtype

    def foresee(self, X: Any, sample_weight: Any = None) -> None:
        """Begin to compile, in other threads, what `fit` of X will need, while something else is done, and after it.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            As `fit` takes it, in memory.
        sample_weight : array-like of shape (n_rows,) or None
            As `fit` takes it.
        """
        copy = clone(self)
        engine = copy._open(X, reset=True, sample_weight=copy._in_rows(X, sample_weight).weights)
        if isinstance(engine, MemoryEngine):
            n_rows = float(len(engine.table) if engine.weights is None else engine.weights.sum())
            dtype = copy._dtype_of_rows(copy._dtype())(n_rows)
            model = copy._first_model(engine, dtype)
            with later():
                shapes = ahead.fitting(model, engine, dtype)
                if shapes is not None:
                    copy._foresee_rest(model, engine, shapes)

    def _foresee_rest(self, model: Model, engine: Engine, shapes: PyTree) -> None:
        """Begin to compile what follows the stages of `_first_model`, given the shapes of what they end with."""
        self._foresee_use(model, engine, shapes)

    def _foresee_use(self, model: Model, engine: Engine, shapes: PyTree) -> None:
        """Begin to compile what `score` and `transform` will need."""
        ahead.using(model, self._likelihood(model), means_of(model.infer), engine, self._dtype(), shapes)

    def _first_model(self, engine: Engine, dtype: np.dtype) -> Model:
        """The record that learning begins with, where nothing is known yet."""
        return self._model_for(engine)

    def _warn_of_rounding(self, engine: Engine, lost: float) -> None:
        """Say so where learning lost nats of a row to the precision of the rows."""
        if lost > TOLD:
            warnings.warn(f"{type(self).__name__} was {imprecise(lost, self.dtype_)}", PrecisionWarning, stacklevel=3)

    def _model_for(self, engine: Engine) -> Model:
        """The record to learn with; a family whose way of learning depends on the size of the table has its own."""
        return self._model()

    @property
    def _double_rows(self) -> int:
        """Rows up to which a fit in float64 takes no time to speak of, so that float32 has nothing to offer."""
        return 0

    @property
    def _n_restarts(self) -> int | Callable[[float], int]:
        """Number of restarts; or a function that gives it for a number of rows."""
        return self.n_init

    def _adopt(self, result: FitResult) -> None:
        self.params_ = result.params
        self.history_table_ = history_table([(r.stage, r.measure, r.objective) for r in result.history])
        self.held_out_history_ = np.array([r.watched["held_out"] for r in result.history if "held_out" in r.watched])
        self.n_iter_ = result.n_iter
        self.n_rows_ = float(result.n_rows)
        self.stop_reason_ = str(result.reason)
        self.left_to_gain_ = float(result.left) if np.isfinite(result.left) else np.nan
        last = self.history_[-1] if len(self.history_) else np.nan
        self.objective_ = float(result.objective if np.isfinite(result.objective) else last)
        self._expose()

    def _finish(self, engine: Engine, result: FitResult) -> None:
        """What a family does with the rows once they are learned: standard errors, reports."""

    @property
    def history_(self) -> np.ndarray:
        """The objectives of the end of learning, as far back as they are of one measure; see `history_table_`."""
        return comparable_end(self.history_table_)

    @property
    def converged_(self) -> bool:
        """Whether less than `tol` was left to gain when learning stopped; see `left_to_gain_` and `stop_reason_`.

        False also after a schedule that was gone through ("completed"), where that is not known.
        """
        return Stop(self.stop_reason_).converged

    @property
    def _finished(self) -> bool:
        """Whether learning was not cut off: there is no use in a warning, or in more iterations."""
        return Stop(self.stop_reason_).finished

    # ---------------------------------------------------------------- use

    @property
    def real_valued(self) -> bool:
        """Whether rows are real numbers, and what is said of them are densities; else they are bits."""
        return False

    @property
    def takes_reals(self) -> bool:
        """Whether X is taken as it is: with `binarize` a model of real numbers too is given bits."""
        return self.real_valued and self.binarize is None

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means of the latents of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_latents)
        """
        return self._map_rows(means_of(self._fitted().infer), X, sparse=True)

    def posterior(self, X: Any) -> Any:
        """Posterior of the latents of each row; what it holds beside `mean` and `mode` is the family's.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        """
        return self._map_rows(self._fitted().infer, X, sparse=True)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """P(bit = 1 | latents) of each column, at given points of the latent space.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_latents)
            Latents, as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        self._fitted()  # or it has no latents yet
        return self._decoded(X, self._n_features_out)

    def _decoded(self, latents: Any, n_latents: int) -> np.ndarray:
        """Means of the columns at latents as the model's record has them."""
        model = self._fitted()
        engine = open_values(self, latents, n_latents)
        return self._in_place(_join(self._map_engine(Partial(_decode_rows, callable_tree(model.decode)), engine)))

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x) of each row, in nats; missing bits are marginalised.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows,), float64

        Warns
        -----
        PrecisionWarning
            Where the error that `log_likelihoods` states is too large to be left out.
        """
        if is_dask(X) and type(self)._rounded is LatentModel._rounded:  # which may look at all rows at a time
            engine = self._open(X, reset=False)
            if isinstance(engine, DaskEngine):
                return self._lazy_scores(engine)
        rows = self.log_likelihoods(X)
        self._warn_of_error(rows)
        return np.asarray(rows.value, np.float64)

    def _lazy_scores(self, engine: DaskEngine) -> Any:
        """log p(x) of each row as a Dask array; in float64 where float32 turns out to be too little for some."""
        model, dtype = self._fitted(), self._dtype_for(engine)
        dtypes = (dtype, DOUBLE) if self._may_widen(dtype) else (dtype,)
        passes = [(self._layout(one), self._given(one)) for one in dtypes]
        return lazy_scores(self._likelihood(model), model.rounding is not None, engine, passes)

    def log_likelihoods(self, X: Any) -> LogLikelihood:
        """log p(x) of each row with its standard error, and the error that all rows share.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        latentbits.core.model.LogLikelihood
            With `value` and `error`, (n_rows,), and `common_error`; the errors are 0 where exact.  `rounding` is the
            part of `error` that is due to the precision of the rows; below 0.001 nats it counts as 0.
        """
        model, engine = self._fitted(), self._open(X, reset=False)
        dtype = self._dtype_for(engine)
        rows = self._rounded(model, engine, dtype)
        if self._may_widen(dtype) and (np.any(np.asarray(rows.rounding) > 0) or np.isnan(rows.value).any()):
            rows = self._rounded(model, engine, DOUBLE)
        if n_unknown := int(np.isnan(rows.value).sum()):
            warnings.warn(
                f"log p(x) of {n_unknown} rows is not a number (NaN): the parameters of this model, or these rows, are "
                "beyond what can be computed",
                PrecisionWarning,
                stacklevel=2,
            )
        return rows

    def _rounded(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        """log p(x) of each row computed in this precision, with what that costs."""
        found = _join(self._map_engine(self._likelihood(model), engine, dtype=dtype, sparse=True))
        return rounded(found, self.n_features_in_, dtype, told=model.rounding is not None)

    @staticmethod
    def _likelihood(model: Model) -> Callable[..., Any]:
        """The function of each row that `log_likelihoods` asks for."""
        if model.rounding is None:
            return model.log_likelihood
        return Partial(_with_rounding, callable_tree(model.log_likelihood), callable_tree(model.rounding))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Mean of `score_samples`: nats per row, the larger the better.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        y : Ignored
            Present for scikit-learn's pipelines.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Warns
        -----
        PrecisionWarning
            Where the error that `log_likelihood` states is too large to be left out.
        """
        rows = self.log_likelihoods(X)
        if np.max(np.abs(rows.value), initial=0.0) < LEAST_NATS:
            engine = self._open(X, reset=False)
            if isinstance(engine, MemoryEngine):
                check_observed(engine.table)
        weights = open_weights(sample_weight, len(rows.value), X)
        self._warn_of_error(rows)
        return sum_of(rows, weights) / float(len(rows.value) if weights is None else weights.sum())

    def log_likelihood(
        self, X: Any, return_error: bool = False, sample_weight: Any = None
    ) -> float | tuple[float, float]:
        """Log-likelihood of a table: the sum over its rows, in nats.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        return_error : bool, default=False
            Also return the standard error with which the number is known; 0 where it is exact.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        rows = self.log_likelihoods(X)
        weights = open_weights(sample_weight, len(rows.value), X)
        total = sum_of(rows, weights)
        return (total, self._error_of_sum(rows, weights)) if return_error else total

    def _error_of_sum(self, rows: LogLikelihood, weights: np.ndarray | None = None) -> float:
        return error_of_sum(rows, self._errors_average_out, weights)

    def error_of_mean(self, rows: LogLikelihood, sample_weight: Any = None) -> float:
        """Standard error with which the mean of these log-likelihoods is known, in nats per row; 0 where it is exact.

        Parameters
        ----------
        rows : latentbits.core.model.LogLikelihood
            As `log_likelihoods` gives them.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        weights = open_weights(sample_weight, len(rows.value))
        return self._error_of_sum(rows, weights) / float(len(rows.value) if weights is None else weights.sum())

    def _warn_of_error(self, rows: LogLikelihood) -> None:
        values, error = np.asarray(rows.value, np.float64), self.error_of_mean(rows)
        spread = float(np.std(values)) if np.isfinite(values).all() else 0.0
        if error > TOLD and error > spread / 10:
            lost = float(np.mean(np.asarray(rows.rounding)))
            why = f"; {imprecise(lost, rows.value.dtype.name)}" if lost > TOLD else ""
            warnings.warn(
                f"the log-likelihoods are known to ±{error:.2g} nats per row only (log_likelihoods(X) tells each){why}",
                PrecisionWarning,
                stacklevel=3,
            )

    @property
    def _errors_average_out(self) -> bool:
        """Whether errors of rows' likelihoods are chance; those of a quadrature rule may all have one sign."""
        return True

    def complete(self, X: Any) -> Any:
        """Fill in the missing bits with P(bit = 1 | the observed bits of the row); observed bits are kept.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.  A frame comes back as a frame.

        Returns
        -------
        ndarray or frame of shape (n_rows, n_columns)
        """
        filled = self._in_place(self._map_rows(Partial(_fill_in, callable_tree(self._fitted().complete)), X))
        if self.takes_reals:
            filled = (
                _with_given(filled, X)
                if is_dask(X)
                else _with_observed(filled, open_rows(self, X, reset=False, real=True))
            )
        return like_input(X, filled)

    def sample(self, n: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw rows from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None
            Seed.

        Returns
        -------
        ndarray of shape (n, n_columns)
        """
        model = self._fitted()
        if n < 0:
            raise ValueError(f"n must be at least 0, got {n}")
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        nothing = np.zeros((n, 1), np.uint8)  # rows that are only numbers: each gets its key from its own
        draw = Partial(_sample_rows, callable_tree(model.sample))
        parts = list(self._map_engine(draw, MemoryEngine(nothing), seed))
        bits = np.concatenate(parts) if parts else np.zeros((0, self.n_features_in_))
        return self._in_place(bits).astype(self._sample_dtype)

    # ---------------------------------------------------------------- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a safetensors file; `latentbits.load` reads it back, bit for bit.

        Parameters
        ----------
        path : str or path
            Written to a temporary name first, so that a crash leaves no half of a file.
        """
        check_is_fitted(self, "params_")
        save(self, path)

    # ---------------------------------------------------------------- showing

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        line = super().__repr__(N_CHAR_MAX)
        return as_text(line, found_by(self)) if hasattr(self, "params_") else line

    def _html_repr(self) -> str:
        diagram = super()._html_repr()
        return as_html(diagram, found_by(self)) if hasattr(self, "params_") else diagram

    def _causes(self) -> Iterator[tuple[str, str]]:
        """What is hidden in the rows, in a line each, the most important first: its name, and what to say of it."""
        yield from ()

    def _provisos(self) -> Iterator[str]:
        """Why `objective_` is not quite the log-likelihood of the rows where learning calls it that."""
        yield from ()

    def _input_names(self) -> list[str]:
        columns = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if columns is None else [str(c) for c in columns]

    # ---------------------------------------------------------------- inside

    def _given_dtype(self) -> np.dtype | None:
        """`dtype`, None for "auto"."""
        if isinstance(self.dtype, str) and self.dtype == "auto":
            return None
        dtype = np.dtype(self.dtype)
        if dtype not in (SINGLE, DOUBLE):
            raise ValueError(f"dtype must be 'auto', float32 or float64, got {self.dtype!r}")
        return dtype

    def _dtype(self) -> np.dtype:
        """The precision of rows as far as their number of columns decides it."""
        given = self._given_dtype()
        if given is not None:
            return given
        return SINGLE if self.n_features_in_ < MOST_COLUMNS else DOUBLE

    def _dtype_on(self, engine: Engine) -> np.dtype:
        """The same for the rows of an engine; of lists of ones most of the time goes into finding places."""
        dtype = self._dtype()
        return DOUBLE if isinstance(engine, SparseEngine) and self._may_widen(dtype) else dtype

    def _may_widen(self, dtype: np.dtype) -> bool:
        return dtype == SINGLE and self._given_dtype() is None

    def _dtype_for(self, engine: Engine) -> np.dtype:
        """The precision for these rows under the fitted parameters; whatever the engine, they are the same."""
        dtype = self._dtype_on(engine)
        if self._may_widen(dtype) and self.takes_reals and self._rounding_of(engine, dtype).largest > TOLERANCE:
            return DOUBLE
        return dtype

    def _rounding_foreseen(self, engine: Engine, dtype: np.dtype) -> float:
        """Nats that a row would lose on average, as far as this can be told before parameters are known."""
        return 0.0

    def _rounding_of(self, engine: Engine, dtype: np.dtype) -> Powers:
        """Nats that real-valued rows lose in this precision under the fitted parameters: on average, and at most."""
        return Powers(0.0, 0.0)

    def _in_place(self, rows: np.ndarray) -> np.ndarray:
        """Rows of the model as rows of the user; a family that moves its rows moves them back."""
        return rows

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        engine = open_rows(self, X, reset=reset, binarize=self.binarize, real=self.takes_reals, sparse=self._sparse)
        return weighted(engine, sample_weight, X)

    def _fitted(self) -> Model:
        check_is_fitted(self, "params_")
        return self._model()

    def _map_rows(self, function: Callable[..., Any], X: Any, *, sparse: bool = False) -> Any:
        engine = self._open(X, reset=False)
        dtype = self._dtype_for(engine)
        if isinstance(engine, DaskEngine):
            return lazy_rows(function, engine, self._layout(dtype), self._given(dtype))
        return _join(self._map_engine(function, engine, dtype=dtype, sparse=sparse))

    def _map_engine(
        self,
        function: Callable[..., Any],
        engine: Engine,
        seed: int = 0,
        dtype: np.dtype | None = None,
        *,
        sparse: bool = False,
    ) -> Iterator[PyTree]:
        """A function of each row; `sparse` if it takes lists of ones where the model does."""
        dtype = self._dtype() if dtype is None else dtype
        listed = sparse and isinstance(engine, SparseEngine)
        layout = layout_of(self._model(), engine, dtype) if listed else self._layout(dtype)
        return map_rows(function, engine, layout, self._given(dtype, seed))

    def _layout(self, dtype: np.dtype) -> Layout:
        return layout_for(self._model().row_floats(self.n_features_in_), dtype, n_columns=self.n_features_in_)

    def _given(self, dtype: np.dtype, seed: int = 0) -> Pass:
        """What functions of rows are given where the fitted model is used."""
        return start_pass(self._model(), dtype, self.params_, seed_key(seed, "use"))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # `dtype` says in what precision answers come, not X
        return tags


keep_nested_lines(LatentModel.__repr__)


def _not_converged(name: str, reason: str, n_iter: int, left: float) -> str:
    why, advice = {
        Stop.MAX_ITER: ("reached max_iter", "raise max_iter or tol"),
        Stop.MAX_TIME: ("ran out of max_time", "raise max_time or tol"),
        Stop.STALLED: ("gains no more by its steps", "try dtype='float64' or another seed, or raise tol"),
        Stop.INTERRUPTED: ("was interrupted", "fit again to go on"),
    }[Stop(reason)]
    rest = f", with about {float(f'{left:.2g}'):g} nats left to gain" if np.isfinite(left) else ""
    return f"{name} {why} after {n_iter} iterations and keeps the best parameters so far{rest}; {advice}"


def _join(parts: Iterator[PyTree]) -> Any:
    """Chunk results end to end; scalars, the same in every chunk, as they are."""

    def leaf(*pieces: np.ndarray) -> np.ndarray:
        return np.concatenate(pieces) if pieces[0].ndim else pieces[0]

    pieces: Sequence[PyTree] = list(parts)
    if not pieces:
        raise DataError("X has no rows: at least one is needed.")
    return jax.tree.map(leaf, *pieces)


# Functions of each row made of a model's: as trees, so that the numbers that a model's function holds stay arguments.


def means_of(infer: Callable[..., Any]) -> Partial:
    """Posterior means."""
    return Partial(_mean, callable_tree(infer))


def _mean(infer: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return infer(params, shared, batch).mean


def _with_rounding(
    log_likelihood: Partial, rounding: Partial, params: PyTree, shared: PyTree, batch: Any
) -> tuple[Any, Any]:
    return log_likelihood(params, shared, batch), rounding(params, shared, batch)


def _decode_rows(decode: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return decode(params, batch.values)


def _sample_rows(sample: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return sample(params, shared, batch.keys)


def _with_observed(filled: np.ndarray, rows: Engine) -> np.ndarray:
    """Rows with the real numbers that were observed, which have been rounded on their way through a model."""
    out = filled.astype(np.float64)
    first = 0
    for block in rows.blocks():
        np.copyto(out[first : first + len(block)], block, where=~np.isnan(block))
        first += len(block)
    narrow = out.astype(filled.dtype)
    return narrow if np.array_equal(narrow, out) else out


def _with_given(filled: Any, X: Any) -> Any:
    """The same of a Dask array or frame, as a Dask array."""
    import dask.array as da

    given = (X.to_dask_array(lengths=True) if hasattr(X, "columns") else X).astype(np.float64)
    return da.where(da.isnan(given), filled, given)


def _fill_in(complete: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    if batch.observed is None:
        return batch.values
    guess = complete(params, shared, batch)
    return batch.values * batch.observed + guess * (1 - batch.observed)
