"""The face: one thin scikit-learn estimator over a `Model` record.

A family adds a constructor, `_model` (its record for the hyper-parameters) and `_expose` (its fitted attributes).
"""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from numbers import Integral, Real
from os import PathLike
from typing import Any, ClassVar, Self

import jax
import numpy as np
from jaxtyping import PyTree
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted

from latentbits.core import interrupts
from latentbits.core.errors import DataError, ModelFileError
from latentbits.core.model import LogLikelihood, Model
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine, map_rows, start_pass
from latentbits.estimators.frames import like_input
from latentbits.estimators.validate import open_rows, open_values

__all__ = ["LatentModel", "means_of"]


class LatentModel(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Base of all estimators; every method of the face is here, once."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "random_state": ["random_state"],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "max_iter": [Interval(Integral, 0, None, closed="left")],
        "max_time": [Interval(Real, 0, None, closed="neither"), None],
        "tol": [Interval(Real, None, None, closed="neither")],
        "verbose": ["verbose"],
        "dtype": [StrOptions({"float32", "float64"}), type, np.dtype],
        "binarize": [Interval(Real, None, None, closed="neither"), None],
    }

    params_: PyTree
    n_features_in_: int

    # what a model file is held to: ranges of parameters, and which of them are bool, and which may be NaN in places
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    _flags: ClassVar[frozenset[str]] = frozenset()
    _with_holes: ClassVar[frozenset[str]] = frozenset()
    _sample_dtype: Any = np.uint8  # of bits; a family of real-valued rows has its own

    def __init__(
        self,
        *,
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "float32",
        binarize: float | None = None,
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

    def _extra(self) -> dict[str, Any]:
        """What a model file must keep beside parameters and hyper-parameters, as JSON can hold it."""
        return {}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        """Take back what `_extra` gave, and complain of anything else."""
        if extra:
            raise ModelFileError(f"unknown entries {sorted(extra)}")

    # ---------------------------------------------------------------- learning

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn the model from bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            0, 1 or bool, NaN for missing; a pandas or polars frame, SciPy sparse matrix, memory map, Dask array, or
            a function that gives an iterable of batches each time it is called (for tables larger than memory).
        y : Ignored
            Present for scikit-learn's pipelines.

        Returns
        -------
        self
        """
        self._validate_params()
        dtype = self._dtype()
        self.__dict__.pop(
            "params_", None
        )  # if this fit fails, the estimator is not fitted, rather than half of another
        engine = self._open(X, reset=True)
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        with interrupts.held():
            result = fit(
                self._model_for(engine),
                engine,
                seed_key(seed),
                limits=Limits(self.max_iter, self.tol, self.max_time),
                n_init=self._n_restarts,
                dtype=dtype,
                verbose=self.verbose,
            )
            self._adopt(result)
            self._finish(engine, result)
            if interrupts.take():  # when all was learned: it stands, but whoever goes on to another fit should know
                self.stop_reason_, self.converged_ = "interrupted", False
        if not self.converged_:
            warnings.warn(
                _not_converged(type(self).__name__, self.stop_reason_, self.n_iter_), ConvergenceWarning, stacklevel=2
            )
        return self

    def _model_for(self, engine: Engine) -> Model:
        """The record to learn with; a family whose way of learning depends on the size of the table has its own."""
        return self._model()

    @property
    def _n_restarts(self) -> int:
        return self.n_init

    def _adopt(self, result: FitResult) -> None:
        self.params_ = result.params
        self.history_ = np.array([r.objective for r in result.history])
        self.n_iter_ = result.n_iter
        self.stop_reason_ = result.reason
        self.converged_ = result.reason in ("converged", "completed")
        self._expose()

    def _finish(self, engine: Engine, result: FitResult) -> None:
        """What a family does with the rows once they are learned: standard errors, reports."""

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
        return self._map_rows(means_of(self._fitted().infer), X)

    def posterior(self, X: Any) -> Any:
        """Posterior of the latents of each row; what it holds beside `mean` and `mode` is the family's.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        """
        return self._map_rows(self._fitted().infer, X)

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
        model = self._fitted()
        engine = open_values(self, X, self._n_features_out)
        return _join(self._map_engine(_decode_rows(model.decode), engine))

    def score_samples(self, X: Any) -> np.ndarray:
        """log p(x) of each row, in nats; missing bits are marginalised.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows,), float64
        """
        return np.asarray(self.log_likelihoods(X).value, np.float64)

    def log_likelihoods(self, X: Any) -> LogLikelihood:
        """log p(x) of each row with its standard error, and the error that all rows share.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        latentbits.core.model.LogLikelihood
            With `value` and `error`, (n_rows,), and `common_error`; the errors are 0 where exact.
        """
        return self._map_rows(self._fitted().log_likelihood, X)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean of `score_samples`: nats per row, the larger the better.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        y : Ignored
            Present for scikit-learn's pipelines.
        """
        return float(np.mean(self.score_samples(X)))

    def log_likelihood(self, X: Any, return_error: bool = False) -> float | tuple[float, float]:
        """Log-likelihood of a table: the sum over its rows, in nats.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        return_error : bool, default=False
            Also return the standard error with which the number is known; 0 where it is exact.
        """
        rows = self.log_likelihoods(X)
        total = float(np.sum(rows.value, dtype=np.float64))
        return (total, self._error_of_sum(rows)) if return_error else total

    def _error_of_sum(self, rows: LogLikelihood) -> float:
        own = np.asarray(rows.error, np.float64)
        common = len(own) * float(np.max(rows.common_error))
        if self._errors_average_out:
            return float(np.sqrt(np.sum(own**2) + common**2))
        rounding = float(np.finfo(self._dtype()).eps) * abs(float(np.sum(rows.value, dtype=np.float64)))
        return float(np.sum(own)) + rounding + common

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
        return like_input(X, self._map_rows(_fill_in(self._fitted().complete), X))

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
        parts = list(self._map_engine(_sample_rows(model.sample), MemoryEngine(nothing), seed))
        bits = np.concatenate(parts) if parts else np.zeros((0, self.n_features_in_))
        return bits.astype(self._sample_dtype)

    # ---------------------------------------------------------------- files

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a safetensors file; `latentbits.load` reads it back, bit for bit.

        Parameters
        ----------
        path : str or path
            Written to a temporary name first, so that a crash leaves no half of a file.
        """
        from latentbits.estimators.files import save

        self._fitted()
        save(self, path)

    # ---------------------------------------------------------------- inside

    def _dtype(self) -> np.dtype:
        dtype = np.dtype(self.dtype)
        if dtype not in (np.dtype(np.float32), np.dtype(np.float64)):
            raise ValueError(f"dtype must be float32 or float64, got {self.dtype!r}")
        return dtype

    def _open(self, X: Any, *, reset: bool) -> Engine:
        return open_rows(self, X, reset=reset, binarize=self.binarize, real=self.takes_reals)

    def _fitted(self) -> Model:
        check_is_fitted(self, "params_")
        return self._model()

    def _map_rows(self, function: Callable[..., Any], X: Any) -> Any:
        return _join(self._map_engine(function, self._open(X, reset=False)))

    def _map_engine(self, function: Callable[..., Any], engine: Engine, seed: int = 0) -> Iterator[PyTree]:
        model, dtype = self._model(), self._dtype()
        layout = layout_for(model.row_floats(self.n_features_in_), dtype)
        given = start_pass(model, dtype, self.params_, seed_key(seed, "use"))
        return map_rows(function, engine, layout, given)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # `dtype` says in what precision answers come, not X
        return tags


def _not_converged(name: str, reason: str, n_iter: int) -> str:
    why, advice = {
        "max_iter": ("reached max_iter", "raise max_iter or tol"),
        "max_time": ("ran out of max_time", "raise max_time or tol"),
        "interrupted": ("was interrupted", "fit again to go on"),
    }[reason]
    return f"{name} {why} after {n_iter} iterations and keeps the best parameters so far; {advice}"


def _join(parts: Iterator[PyTree]) -> Any:
    """Chunk results end to end; scalars, the same in every chunk, as they are."""

    def leaf(*pieces: np.ndarray) -> np.ndarray:
        return np.concatenate(pieces) if pieces[0].ndim else pieces[0]

    pieces: Sequence[PyTree] = list(parts)
    if not pieces:
        raise DataError("X has no rows: at least one is needed.")
    return jax.tree.map(leaf, *pieces)


# Compiled code is found again by the identity of its function, so these wrappers are made once per model function.


@cache
def means_of(infer: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, shared, batch: infer(params, shared, batch).mean


@cache
def _decode_rows(decode: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, shared, batch: decode(params, batch.values)


@cache
def _sample_rows(sample: Callable[..., Any]) -> Callable[..., Any]:
    return lambda params, shared, batch: sample(params, shared, batch.keys)


@cache
def _fill_in(complete: Callable[..., Any]) -> Callable[..., Any]:
    def filled(params: PyTree, shared: PyTree, batch: Any) -> Any:
        if batch.observed is None:
            return batch.values
        guess = complete(params, shared, batch)
        return batch.values * batch.observed + guess * (1 - batch.observed)

    return filled
