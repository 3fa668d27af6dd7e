"""Worth of a fit for its parameters, and the part of a table that counts: rows with an answer, columns that vary."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from latentbits.core import interrupts
from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError, ModelFileError
from latentbits.core.model import Model, Stop
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.engines.summary import column_moments
from latentbits.engines.threads import by_slices
from latentbits.estimators.base import LatentModel
from latentbits.reports.fit import FitReport, fit_report

__all__ = ["FEW_SEEN_SHARE", "Seen", "WithCriteria", "WithFitReport", "is_sampling", "look"]

FEW_SEEN_SHARE = 0.1  # the share of rows that may have fewer observed columns than `Seen.few`
MOST_COUNTED_COLUMNS = 60  # columns of bits: the cells of a table of more are beyond any number of parameters


class Seen(NamedTuple):
    """The observed part of a table."""

    n_rows: float | int  # rows with at least one observed entry, each as often as it counts
    few: int  # observed columns of nearly every one of them: a tenth may have fewer
    idle: np.ndarray  # (columns,) which are constant or never observed, and so say nothing of the latents


def look(engine: Engine) -> Seen:
    """Read the rows once; of complete bits in memory the counts of columns say all, and are needed anyway."""
    d = getattr(engine, "n_answers", engine.n_features)  # what comes after is known of people, and no answer
    if isinstance(engine, MemoryEngine) and engine.weights is None and engine.holds_complete_bits:
        mean = column_moments(engine).mean
        return Seen(len(engine.table), d, (mean == 0) | (mean == 1))
    if isinstance(engine, SparseEngine):  # nothing is missing
        n = engine.n_rows if engine.weights is None else engine.weights.sum()
        ones = np.bincount(engine.columns, minlength=d)
        return Seen(_whole(n), d, (ones == 0) | (ones == engine.n_rows))
    lengths = np.zeros(d + 1)  # rows by how much of them is observed
    low, high = np.full(d, np.inf), np.full(d, -np.inf)
    first = 0
    for block in engine.blocks():
        interrupts.check()
        weights = None
        if engine.weights is not None:
            weights = engine.weights[first : first + len(block)]
            if len(weights) < len(block):
                n = len(engine.weights)
                raise DataError(f"X has more rows than sample_weight, {n}: there must be one for each row")
        first += len(block)
        for part in by_slices(partial(_seen_in, block[:, :d], weights), block):
            lengths += part.lengths
            low, high = np.minimum(low, part.low), np.maximum(high, part.high)
    answered = lengths[1:]
    few = 1 + int(np.searchsorted(np.cumsum(answered), FEW_SEEN_SHARE * answered.sum(), side="right"))
    return Seen(_whole(answered.sum()), min(few, d), low >= high)


def _whole(n: float | int) -> float | int:
    """Round a number of rows to a whole one where it is one but for rounding."""
    return round(n) if abs(n - round(n)) <= 1e-9 * n else float(n)


def is_sampling(weights_are: str) -> bool:
    """Return whether weights of rows are inverse chances to come into a sample, and no counts."""
    if weights_are not in ("counts", "sampling"):
        raise ValueError(f"weights_are must be 'counts' or 'sampling', got {weights_are!r}")
    return weights_are == "sampling"


class _SeenIn(NamedTuple):
    """Counts of some rows by how much of them is observed; the least and the largest entry of each column."""

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


class WithFitReport(LatentModel):
    """A model whose parameters can be counted; a column of bits that is constant, or never observed, has none."""

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

    def _model_for(self, engine: Engine) -> Model:
        self._idle = self._idle_in(engine)
        return super()._model_for(engine)

    def _column_names(self) -> list[str]:
        names = getattr(self, "feature_names_in_", None)
        return [f"column {j}" for j in range(self.n_features_in_)] if names is None else [str(name) for name in names]

    def _idle_in(self, engine: Engine) -> tuple[int, ...]:
        """Find columns without parameters; a constant column of real numbers has some, as it determines the noise."""
        idle = column_moments(engine).observed == 0 if self.real_valued else look(engine).idle
        return tuple(np.flatnonzero(idle).tolist())

    @property
    def _n_varying(self) -> int:
        return self.n_features_in_ - len(self._idle)

    def fit_report(self, X: Any, sample_weight: Any = None) -> FitReport:
        """Report log-likelihood, free parameters, AIC, BIC, sample-size adjusted BIC and CAIC of a fit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The rows that the model was fitted to; NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Returns
        -------
        FitReport
            A record with `log_likelihood`, `error`, `n_parameters`, `n_rows`, `aic`, `bic`, `sabic`, `caic` and
            `notes`, which prints as a table.  The criteria are those of a maximum of the likelihood: `notes` say where
            a prior, smoothing or an early end keeps a fit away from it.

        Examples
        --------
        >>> from latentbits import BernoulliProduct
        >>> found = BernoulliProduct(smoothing=0).fit([[1, 0], [0, 0], [1, 1]]).fit_report([[1, 0], [0, 0], [1, 1]])
        >>> found.n_parameters, found["n_rows"], found.notes
        (2, 3, ())
        """
        return self._more_of_fit(X, sample_weight, self._fit_report(X, sample_weight))

    def _more_of_fit(self, X: Any, sample_weight: Any, report: FitReport) -> FitReport:
        """Add to the report what else a family knows of a fit."""
        return report

    def _fit_report(self, X: Any, sample_weight: Any) -> FitReport:
        total, error = self.log_likelihood(X, return_error=True, sample_weight=sample_weight)  # type: ignore[misc]
        n_rows = look(self._open(X, reset=False, sample_weight=sample_weight)).n_rows
        notes = [*self._notes_of_fit(total, error)]
        if n_rows < self.n_parameters_ and sample_weight is not None:
            notes.append(
                f"by their weights the rows are {n_rows:.3g}, fewer than parameters: BIC and its like say nothing"
            )
        return fit_report(total, error, self.n_parameters_, n_rows, tuple(notes))

    def _notes_of_fit(self, total: float, error: float) -> Iterator[str]:
        if reasons := " and ".join(self._off_maximum()):
            yield f"the likelihood is not at its maximum ({reasons}), where the criteria would be lower"
        if self.stop_reason_ == Stop.GIVEN:
            yield "the parameters were given, and not learned"
        elif not self.converged_:
            yield f"learning ended by {self.stop_reason_!r}, so that the likelihood may be below its maximum"
        if total == -np.inf:
            yield "some rows have probability 0 under this model"
        elif np.isnan(error):
            yield "the error of the log-likelihood is not known"
        elif error > 0.5:  # twice that is an error of a criterion by which models are ranked wrongly
            yield f"the log-likelihood is an estimate, known to ±{error:.2g} nats; the criteria to twice that"
        freedom = self._freedom()
        if freedom is not None and self.n_parameters_ > freedom:
            yield (
                f"{self.n_parameters_} parameters for {freedom} degrees of freedom, as columns that vary have "
                f"{freedom + 1} patterns: not all of them can be determined, and the criteria count too many"
            )

    def _off_maximum(self) -> Iterator[str]:
        """Name what keeps a fit with these settings away from the maximum of the likelihood."""
        yield from ()

    def _freedom(self) -> int | None:
        """Return the degrees of freedom of the rows; None where they are too many to matter."""
        return 2**self._n_varying - 1 if not self.real_valued and self._n_varying <= MOST_COUNTED_COLUMNS else None


class WithCriteria(WithFitReport):
    """A model that is fitted by maximum likelihood, so that information criteria are of it."""

    def criteria(self, X: Any, sample_weight: Any = None) -> FitReport:
        """Compute the log-likelihood with its error, and the information criteria made of it.

        They are those of a maximum of the likelihood: settings that keep a fit away from it are refused here, and
        named by the notes of `fit_report`.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Returns
        -------
        FitReport
            `log_likelihood`, `error`, `n_parameters`, `n_rows` (those with an answer), `aic`, `bic`, `sabic`, `caic`.
        """
        self._fitted()
        if reason := self._why_no_criteria():
            raise ValueError(f"information criteria are of a maximum of the likelihood, {reason}")
        return self._fit_report(X, sample_weight)

    def _why_no_criteria(self) -> str | None:
        """Return what keeps these settings from a maximum, and what to do; None where nothing does."""
        return None

    def aic(self, X: Any, sample_weight: Any = None) -> float:
        """Compute Akaike's information criterion: 2 parameters - 2 log-likelihood; the lower the better.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        return self.criteria(X, sample_weight).aic

    def bic(self, X: Any, sample_weight: Any = None) -> float:
        """Compute Schwarz's information criterion: parameters log(n_rows) - 2 log-likelihood; the lower the better.

        Rows without any answer do not count.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        """
        return self.criteria(X, sample_weight).bic
