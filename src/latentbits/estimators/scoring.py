"""Log-likelihoods of rows and tables under a fitted model, with their errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from jax.tree_util import Partial
from jaxtyping import PyTree

from latentbits.core.compilation import callable_tree
from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import LogLikelihood, Model
from latentbits.engines.dask import DaskEngine
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.estimators.answers import Answers, joined
from latentbits.estimators.lazy import lazy_scores
from latentbits.estimators.precision import DOUBLE, WARNING_NATS_PER_ROW, error_of_sum, imprecise, rounded, sum_of
from latentbits.estimators.tables.encoding import check_observed
from latentbits.estimators.tables.frames import is_dask
from latentbits.estimators.tables.weights import open_weights

__all__ = ["LEAST_NATS", "Scoring"]

LEAST_NATS = 1.0  # if no row has more, rows may be empty: those have 0, up to 0.01 where log p(x) is estimated


class Scoring(Answers):
    """Estimator that computes log-likelihoods."""

    def score_samples(self, X: Any) -> np.ndarray:
        """Compute log p(x) of each row, in nats; missing bits are marginalised.

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
        if is_dask(X) and type(self)._rounded is Scoring._rounded:  # some families look at all rows at once
            engine = self._open(X, reset=False)
            if isinstance(engine, DaskEngine):
                return self._lazy_scores(engine)
        rows = self.log_likelihoods(X)
        self._warn_of_error(rows)
        return np.asarray(rows.value, np.float64)

    def _lazy_scores(self, engine: DaskEngine) -> Any:
        """Compute log p(x) of each row as a Dask array; in float64 where float32 is too coarse for some row."""
        model, dtype = self._fitted(), self._dtype_for(engine)
        dtypes = (dtype, DOUBLE) if self._may_widen(dtype) else (dtype,)
        passes = [(self._layout(one, engine), self._given(one)) for one in dtypes]
        return lazy_scores(self._likelihood(model), model.rounding is not None, engine, passes)

    def log_likelihoods(self, X: Any) -> LogLikelihood:
        """Compute log p(x) of each row with its standard error, and the error that all rows share.

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
                f"log p(x) of {n_unknown} rows is not a number (NaN): parameters or rows are too large to compute with",
                PrecisionWarning,
                stacklevel=2,
            )
        return rows

    def _rounded(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        """Compute log p(x) of each row in this precision, with its rounding error."""
        found = joined(self._map_engine(self._likelihood(model), engine, dtype=dtype, sparse=True))
        return rounded(found, self.n_features_in_, dtype, known=model.rounding is not None)

    @staticmethod
    def _likelihood(model: Model) -> Callable[..., Any]:
        """Make the function of each row that `log_likelihoods` computes."""
        if model.rounding is None:
            return model.log_likelihood
        return Partial(_with_rounding, callable_tree(model.log_likelihood), callable_tree(model.rounding))

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Compute the mean of `score_samples`: nats per row, the larger the better.

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
        """Compute the log-likelihood of a table: the sum over its rows, in nats.

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
        """Compute the standard error of the mean of these log-likelihoods, in nats per row; 0 where it is exact.

        Parameters
        ----------
        rows : latentbits.core.model.LogLikelihood
            The log-likelihoods, from `log_likelihoods`.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        weights = open_weights(sample_weight, len(rows.value))
        return self._error_of_sum(rows, weights) / float(len(rows.value) if weights is None else weights.sum())

    def _warn_of_error(self, rows: LogLikelihood) -> None:
        """Warn where the error of the mean is large, also beside the differences between rows."""
        values, error = np.asarray(rows.value, np.float64), self.error_of_mean(rows)
        spread = float(np.std(values)) if np.isfinite(values).all() else 0.0
        if error > WARNING_NATS_PER_ROW and error > spread / 10:
            lost = float(np.mean(np.asarray(rows.rounding)))
            why = f"; {imprecise(lost, rows.value.dtype.name)}" if lost > WARNING_NATS_PER_ROW else ""
            warnings.warn(
                f"the log-likelihoods are known to ±{error:.2g} nats per row only (log_likelihoods(X) has each){why}",
                PrecisionWarning,
                stacklevel=3,
            )

    @property
    def _errors_average_out(self) -> bool:
        """Whether errors of rows are chance; those of a quadrature rule may all have one sign."""
        return True


def _with_rounding(
    log_likelihood: Partial, rounding: Partial, params: PyTree, shared: PyTree, batch: Any
) -> tuple[Any, Any]:
    return log_likelihood(params, shared, batch), rounding(params, shared, batch)
