"""Information criteria, and what of a table counts for them: rows with an answer, columns that vary."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from latentbits.core import interrupts
from latentbits.core.batch import MISSING
from latentbits.core.errors import ModelFileError
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.summary import column_moments
from latentbits.engines.threads import by_slices
from latentbits.estimators.base import LatentModel

__all__ = ["Criteria", "Seen", "WithCriteria", "criteria", "look"]

FEW_SEEN = 0.1  # the share of rows that may have fewer observed columns than `Seen.few`


class Seen(NamedTuple):
    """What of a table is observed.

    Attributes
    ----------
    n_rows
        Rows with at least one observed entry, each as often as it counts.
    few
        Observed columns of nearly every one of them: a tenth may have fewer.
    idle
        (columns,) which are constant or never observed, and so tell nothing of the latents.
    """

    n_rows: int
    few: int
    idle: np.ndarray


class Criteria(NamedTuple):
    """How well a model describes a table for what it costs: the lower `aic` and `bic`, the better.

    Attributes
    ----------
    log_likelihood, error
        In nats, and the error with which it is known; that of `aic` and `bic` is twice that.
    n_parameters
        Free parameters.
    n_rows
        Rows with at least one answer.
    """

    log_likelihood: float
    error: float
    n_parameters: int
    n_rows: int
    aic: float
    bic: float


def look(engine: Engine) -> Seen:
    """One reading of the rows; of complete bits in memory the counts of columns tell all, and are needed anyway."""
    d = getattr(engine, "n_answers", engine.n_features)  # what comes after is known of people, and no answer
    if isinstance(engine, MemoryEngine) and engine.weights is None and engine.holds_complete_bits:
        mean = column_moments(engine).mean
        return Seen(len(engine.table), d, (mean == 0) | (mean == 1))
    if isinstance(engine, SparseEngine):  # nothing is missing
        n = engine.n_rows if engine.weights is None else engine.weights.sum()
        ones = np.bincount(engine.columns, minlength=d)
        return Seen(round(n), d, (ones == 0) | (ones == engine.n_rows))
    lengths = np.zeros(d + 1)  # rows by how much of them is observed
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    first = 0
    for block in engine.blocks():
        interrupts.check()
        weights = None if engine.weights is None else engine.weights[first : first + len(block)]
        first += len(block)
        for part in by_slices(partial(_seen_in, block[:, :d], weights), block):
            lengths += part.lengths
            low, high = np.minimum(low, part.low), np.maximum(high, part.high)
    answered = lengths[1:]
    few = 1 + int(np.searchsorted(np.cumsum(answered), FEW_SEEN * answered.sum(), side="right"))
    return Seen(round(answered.sum()), min(few, d), low >= high)


class _SeenIn(NamedTuple):
    """Of some rows: how many by how much of them is observed; the least and the largest entry of each column."""

    lengths: np.ndarray
    low: np.ndarray
    high: np.ndarray


def _seen_in(block: np.ndarray, weights: np.ndarray | None, some: slice) -> _SeenIn:
    rows, weights = block[some], None if weights is None else weights[some]
    bits = rows.dtype == np.uint8
    seen = rows != MISSING if bits else ~np.isnan(rows)
    lengths = np.bincount(np.count_nonzero(seen, axis=1), weights, minlength=rows.shape[1] + 1)
    seen = seen if weights is None else seen & (weights > 0)[:, None]
    low = np.min(rows, axis=0, initial=MISSING if bits else np.inf, where=seen)
    return _SeenIn(lengths, low, np.max(rows, axis=0, initial=0 if bits else -np.inf, where=seen))


def criteria(total: float, error: float, n_parameters: int, n_rows: int) -> Criteria:
    """Akaike's and Schwarz's; a row without an answer is no observation."""
    bic = n_parameters * math.log(max(n_rows, 1)) - 2 * total
    return Criteria(total, error, n_parameters, n_rows, 2 * n_parameters - 2 * total, bic)


class WithCriteria(LatentModel):
    """A model whose parameters can be counted; a column that is constant, or never observed, has none."""

    n_parameters_: int
    _idle: tuple[int, ...] = ()  # such columns

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | ({"idle": list(self._idle)} if self._idle else {})

    def _take_extra(self, extra: dict[str, Any]) -> None:
        idle = extra.pop("idle", [])
        if not (isinstance(idle, list) and all(type(i) is int and 0 <= i < self.n_features_in_ for i in idle)):
            raise ModelFileError(f"'idle' must be a list of columns below {self.n_features_in_}")
        self._idle = tuple(sorted(set(idle)))
        super()._take_extra(extra)

    def criteria(self, X: Any, sample_weight: Any = None) -> Criteria:
        """Log-likelihood with its error, parameters and rows that count, and the information criteria made of them.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Returns
        -------
        Criteria
            `log_likelihood`, `error`, `n_parameters`, `n_rows` (those with an answer), `aic` and `bic`.
        """
        total, error = self.log_likelihood(X, return_error=True, sample_weight=sample_weight)  # type: ignore[misc]
        n_rows = look(self._open(X, reset=False, sample_weight=sample_weight)).n_rows
        return criteria(total, error, self.n_parameters_, n_rows)

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Akaike's information criterion: 2 parameters - 2 log-likelihood; the lower the better.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        return self.criteria(X, sample_weight).aic

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Schwarz's information criterion: parameters log(n_rows) - 2 log-likelihood; the lower the better.

        Rows without any answer do not count.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        return self.criteria(X, sample_weight).bic
