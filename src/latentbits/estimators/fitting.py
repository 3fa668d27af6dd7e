"""Fitting: the one `fit` of all estimators."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, Self

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state

from latentbits.core import interrupts
from latentbits.core.compilation import seconds_waited
from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import Measure, Model, Stop
from latentbits.core.version import __version__
from latentbits.engines.checkpoint import Journal, fingerprint, going_on, keeping, of_fit
from latentbits.engines.dask_blocks import spread, workers
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.held_out import split
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine
from latentbits.estimators.callbacks import WithCallbacks, with_callbacks
from latentbits.estimators.files import check, check_numbers, plain
from latentbits.estimators.history import comparable_end, history_table
from latentbits.estimators.precision import DOUBLE, NEGLIGIBLE_NATS_PER_ROW, WARNING_NATS_PER_ROW, imprecise
from latentbits.estimators.settings import Settings
from latentbits.estimators.tables.file_blocks import file_blocks
from latentbits.estimators.tables.weights import InRows, in_rows, open_weights

__all__ = ["Fitting"]


class Fitting(WithCallbacks, Settings):
    """Estimator that learns its parameters from rows."""

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
            .zarr files, too; without a client, it spawns processes, one for each core.  None goes by the kind
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
        self.__dict__.pop("params_", None)  # an estimator whose fit fails is not fitted
        # rows, weights and held-out rows as engines
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
                with_callbacks(self, X, y, sample_weight),
            ):
                if (
                    self._may_widen(dtype)
                    and self.takes_reals
                    and self._rounding_foreseen(rows, dtype) > NEGLIGIBLE_NATS_PER_ROW
                ):
                    dtype = DOUBLE
                # learn, and once more in float64 where rounding turns out to cost too much
                seconds = self._learn(rows, seed, dtype, self.max_time)
                lost = self._rounding_of(rows, dtype).mean if self.takes_reals else 0.0
                if lost > NEGLIGIBLE_NATS_PER_ROW and self._may_widen(dtype) and not Stop(self.stop_reason_).cut_short:
                    # rounding depends on the noise, which is known only now
                    left = None if self.max_time is None else max(self.max_time - seconds, 1e-3)
                    self._learn(rows, seed, DOUBLE, left)
                    lost = self._rounding_of(rows, DOUBLE).mean
                if journal is not None and journal.taken is not None:
                    check(self)
                self._count_in(unit)
                if interrupts.take():  # all was learned before; a caller with more fits to make should stop
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
        """Whether a prior or smoothing is weighed against the rows, so that their number matters."""
        return True

    def _in_rows(self, X: Any, sample_weight: Any) -> InRows:
        """Return the weights to learn with, and their unit, which stays the user's where there is a prior."""
        weights = open_weights(sample_weight, None, X)
        return InRows(weights, 1.0) if self._has_prior else in_rows(weights)

    def _count_in(self, unit: float) -> None:
        """Multiply sums over rows by the unit of their weights."""
        self.n_rows_ *= unit
        self.left_to_gain_ *= unit
        of_rows = self.history_table_["measure"] != Measure.LEFT_OVER
        self.history_table_["objective"][of_rows] *= unit
        if len(of_rows) == 0 or of_rows[-1]:
            self.objective_ *= unit

    def _hold_out(self, rows: Engine, X_val: Any) -> tuple[Engine, Engine | None]:
        """Split off the rows that say when to stop; None where learning is not stopped early."""
        share = self._held_out_share()
        if X_val is None and share == 0:
            return rows, None
        if not self._stops_early(rows):
            raise ValueError(
                f"{type(self).__name__} cannot stop early with these settings: remove X_val and validation_fraction."
            )
        if X_val is None:
            return split(rows, share)
        try:
            return rows, self._open(X_val, reset=False)
        except ValueError as error:
            raise type(error)(f"X_val: {error}") from error

    def _stops_early(self, rows: Engine) -> bool:
        """Return whether held-out rows can end learning, with these settings."""
        return any(getattr(stage, "stops_early", False) for stage in self._model_for(rows).stages)

    def _held_out_share(self) -> float:
        """Return the share of the rows that is held out for early stopping where X_val is not given."""
        return 0.0

    def _open_for(self, n_workers: int | None, X: Any, sample_weight: Any) -> Engine:
        """Open the rows to learn from; in blocks where Dask has `n_workers` workers."""
        if n_workers is None:
            return self._open(X, reset=True, sample_weight=sample_weight)
        return spread(self._open(file_blocks(X, n_workers), reset=True, sample_weight=sample_weight), n_workers)

    def _journal(self, checkpoint: Any, engine: Engine, seed: int) -> Journal | None:
        """Make the journal of this fit; None without a checkpoint."""
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
        """Learn with rows of this precision; return the seconds used, less those of compiling."""
        model, waited = self._model_for(engine), seconds_waited()
        result = fit(
            model,
            engine,
            seed_key(seed),
            limits=Limits(self.max_iter, self.tol, max_time),
            n_init=self._n_restarts,
            dtype=self._dtype_of_rows(dtype),
            verbose=self.verbose,
            held_out=self._held_out,
        )
        result = self._learn_on(engine, result)
        self.dtype_ = result.dtype.name
        self._adopt(result)
        self._finish(engine, result)
        return result.seconds - (seconds_waited() - waited)

    def _learn_on(self, engine: Engine, result: FitResult) -> FitResult:
        """Continue from what was found, where it asks for another record, such as one with more nodes of quadrature.

        Every fit takes this step, between its stages and the fitted attributes.
        """
        return result

    def _dtype_of_rows(self, dtype: np.dtype) -> Callable[[float], np.dtype]:
        """Return a function from the number of rows to their precision in learning; `dtype` is that of very many."""
        return lambda n: DOUBLE if self._may_widen(dtype) and n <= self._double_rows else dtype

    def _warn_of_rounding(self, engine: Engine, lost: float) -> None:
        """Warn where learning lost nats per row to the precision of the rows."""
        if lost > WARNING_NATS_PER_ROW:
            warnings.warn(f"{type(self).__name__} was {imprecise(lost, self.dtype_)}", PrecisionWarning, stacklevel=3)

    def _model_for(self, engine: Engine) -> Model:
        """Make the record to learn with; families override this where learning depends on the table."""
        return self._model()

    @property
    def _double_rows(self) -> int:
        """Number of rows up to which a fit is so fast that float32 would save no time."""
        return 0

    @property
    def _n_restarts(self) -> int | Callable[[float], int]:
        """Number of restarts; or a function that gives it for a number of rows."""
        return self.n_init

    def _adopt(self, result: FitResult) -> None:
        """Take over parameters and history of a fit."""
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
        """Use the rows once more after learning, in families with standard errors or reports."""

    @property
    def history_(self) -> np.ndarray:
        """The last objectives that share one measure; `history_table_` has all."""
        return comparable_end(self.history_table_)

    @property
    def converged_(self) -> bool:
        """Whether less than `tol` was left to gain when learning stopped; see `left_to_gain_` and `stop_reason_`.

        False also after a schedule that was gone through ("completed"), when the rest is not known.
        """
        return Stop(self.stop_reason_).converged

    @property
    def _finished(self) -> bool:
        """Whether learning came to its own end, so that more iterations gain nothing."""
        return Stop(self.stop_reason_).finished


def _not_converged(name: str, reason: str, n_iter: int, left: float) -> str:
    why, advice = {
        Stop.MAX_ITER: ("reached max_iter", "raise max_iter or tol"),
        Stop.MAX_TIME: ("ran out of max_time", "raise max_time or tol"),
        Stop.STALLED: ("gains no more by its steps", "try dtype='float64' or another seed, or raise tol"),
        Stop.INTERRUPTED: ("was interrupted", "fit again to go on"),
    }[Stop(reason)]
    rest = f", with about {float(f'{left:.2g}'):g} nats left to gain" if np.isfinite(left) else ""
    return f"{name} {why} after {n_iter} iterations and keeps the best parameters so far{rest}; {advice}"
