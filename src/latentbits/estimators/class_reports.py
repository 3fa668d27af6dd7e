"""Reports that latent class analysts read: errors, fit of patterns and pairs, classification, outside variables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError
from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import WithCriteria, is_sampling
from latentbits.estimators.tables.beside_bits import Labels
from latentbits.estimators.tables.columns import read
from latentbits.estimators.tables.weights import open_weights
from latentbits.reports import class_errors, class_fit, outside
from latentbits.reports.class_errors import ClassErrors
from latentbits.reports.class_fit import BivariateResiduals, ClassFitReport, Classification
from latentbits.reports.classes import shares_of
from latentbits.reports.fit import FitReport
from latentbits.reports.membership import MembershipErrors
from latentbits.reports.outside import ClassDifferences
from latentbits.reports.patterns import Patterns, blocks_of, distinct

__all__ = ["WithClassReports"]


class WithClassReports(WithCriteria):
    """Reports of a mixture of Bernoulli products."""

    smoothing_: float
    weights_: np.ndarray
    means_: np.ndarray
    _labels: Labels

    if TYPE_CHECKING:

        def membership_errors(self, X: Any, covariates: Any, sample_weight: Any = None) -> MembershipErrors: ...

        def _beside(self, X: Any, covariates: Any) -> Any: ...

        def _class_shares(self, table: np.ndarray) -> np.ndarray: ...

    def standard_errors(
        self,
        X: Any,
        sample_weight: Any = None,
        *,
        level: float = 0.95,
        weights_are: str = "counts",
        covariates: Any = None,
    ) -> ClassErrors | MembershipErrors:
        """Compute standard errors of shares and probabilities of the classes, and intervals.

        By the observed information of the rows (Louis's identity, in float64) in the metric of probabilities.
        Probabilities at 0 or 1 are held there: they have none (NaN), which `notes` says.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The rows that the model was fitted to.
        sample_weight : array-like of shape (n_rows,) or None
            The weights that it was fitted with.
        level : float, default=0.95
            Coverage of the intervals, which are symmetric on the scale of log-odds; with covariates there are none.
        weights_are : {"counts", "sampling"}, default="counts"
            How often a row was met, or the inverse of the chance that it had to come into the sample (in any unit).
            Then errors are those of the sandwich form, and rows must not have been put together: two that are alike
            are two draws.  Without weights it is the form that holds for a model that is not quite right.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Values of the rows, where `fit` had some: the errors are then those of `membership_errors`.

        Returns
        -------
        ClassErrors
            `weights` (n_components,), `means` (n_components, n_columns), their `_low` and `_high`, and `covariance`.

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
        >>> m.standard_errors(X).means.shape
        (2, 4)
        """
        check_is_fitted(self, "params_")
        if self._labels.covariates:
            if is_sampling(weights_are):
                raise ValueError(
                    "weights_are='sampling' is not for a mixture with covariates, whose errors take weights as "
                    "counts: leave it out"
                )
            return self.membership_errors(X, covariates, sample_weight)
        size = self.weights_.size + self.means_.size
        if size > class_errors.MOST_PARAMETERS:
            raise ValueError(
                f"standard errors need a matrix of {size} x {size} numbers, and this stops at "
                f"{class_errors.MOST_PARAMETERS}: fit fewer columns or classes"
            )
        sampling = is_sampling(weights_are)
        _check_level(level)
        found = class_errors.class_errors(
            self._patterns(X, sample_weight),
            *self._classes(),
            self._column_names(),
            smoothing=self.smoothing_,
            level=float(level),
            sampling=sampling,
        )
        if self.converged_:
            return found
        why = f"learning ended by {self.stop_reason_!r}: errors are those of a maximum, and this may be none"
        return replace(found, notes=(*found.notes, why))

    def classification(self, X: Any, sample_weight: Any = None, covariates: Any = None) -> Classification:
        """Measure how clearly rows belong to classes: mean posteriors by most probable class, and expected errors.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.  Rows without an answer are left out.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Values of the rows, where `fit` had some.

        Returns
        -------
        Classification

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
        >>> m.classification(X).counts.astype(int).tolist()
        [20, 20]
        """
        check_is_fitted(self, "params_")
        rows, weights = self._rows_and_shares(X, sample_weight, covariates)
        return class_fit.classification(rows, weights, self._classes()[1])

    def bivariate_residuals(self, X: Any, sample_weight: Any = None, covariates: Any = None) -> BivariateResiduals:
        """Test whether classes explain that columns go together: X2 of the 2 x 2 table of each pair of columns.

        Large where two columns go together within classes, which the model says they do not.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing: a pair is of the rows in which both were observed.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Values of the rows, where `fit` had some.

        Returns
        -------
        BivariateResiduals

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
        >>> m.bivariate_residuals(X).matrix.shape
        (4, 4)
        """
        check_is_fitted(self, "params_")
        rows, weights = self._rows_and_shares(X, sample_weight, covariates)
        return class_fit.bivariate_residuals(rows, weights, self._classes()[1], self._column_names())

    def class_differences(
        self, X: Any, y: Any, method: str = "bch", *, sample_weight: Any = None, kind: str = "auto"
    ) -> ClassDifferences:
        """Compare classes in a variable that is not in the model, corrected for rows in the wrong class.

        Means of the rows that are most probably of a class lie too close together, since some rows are of another: how
        many is known from the posteriors, and is corrected for (Vermunt 2010; Bakk, Tekle & Vermunt 2013).  Errors are
        of the sandwich form and hold the classes for known, so that they are somewhat small where the model is
        uncertain itself.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        y : array-like of shape (n_rows,)
            The outside variable: numbers, or labels of categories.  Rows in which it is missing are left out.
        method : {"bch", "ml"}, default="bch"
            "bch" is by weights (Bolck, Croon & Hagenaars 2004), which assume nothing of the distribution of y.  "ml" is
            maximum likelihood with y normal in each class, whose variances differ, or with shares of categories: more
            precise where that holds, and for categories, for which it gives no share below 0.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        kind : {"auto", "continuous", "categorical"}, default="auto"
            "auto" takes text, booleans and nothing but 0 and 1 for categories, and other numbers for continuous.

        Returns
        -------
        ClassDifferences
            `estimate` and `error` by class, `statistic`, `df` and `p` of Wald's test that classes are alike, and the
            same of pairs.

        References
        ----------
        Bolck, A., Croon, M. & Hagenaars, J. (2004). Estimating latent structure models with categorical variables:
        one-step versus three-step estimators. Political Analysis 12, 3-27.

        Vermunt, J. K. (2010). Latent class modeling with covariates: two improved three-step approaches. Political
        Analysis 18, 450-469.

        Bakk, Z., Tekle, F. B. & Vermunt, J. K. (2013). Estimating the association between latent class membership and
        external variables using bias-adjusted three-step approaches. Sociological Methodology 43, 272-311.

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> X = np.array([[1, 1, 1, 1], [1, 1, 1, 0], [0, 0, 0, 0]] * 20)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X)
        >>> found = m.class_differences(X, ["often", "often", "never"] * 20)
        >>> found.categories, found.estimate.shape
        (['never', 'often'], (2, 2))
        """
        check_is_fitted(self, "params_")
        if method not in outside.METHODS:
            raise ValueError(f"method must be 'bch' or 'ml', got {method!r}")
        engine = self._open(X, reset=False)
        given = [(self._modal(block), (block != MISSING).any(1)) for block in engine.blocks()]
        modal, answered = (np.concatenate(parts) for parts in zip(*given))
        weights = open_weights(sample_weight, len(modal), X)
        weights = np.ones(len(modal)) if weights is None else weights
        values, seen, categories, codes = _outside(y, kind, len(modal))
        used = seen & answered & (weights > 0)
        if not used.any():
            raise DataError("no row has both an answer in X and a value of y")
        if np.ptp(values[used]) == 0:  # rounding errors would be tested against each other
            raise DataError("y is the same in all rows, so that there is nothing to compare")
        notes = [codes] if codes else []
        if (answered & (weights > 0) & ~seen).any():
            notes.append(f"rows without a value of y are left out: {float(weights[answered & ~seen].sum()):g}")
        errors = self.classification(X, sample_weight).modal_by_class
        found = outside.class_differences(modal[used], values[used], weights[used], errors, method, categories)
        return replace(found, notes=(*found.notes, *notes))

    def _modal(self, bits: np.ndarray) -> np.ndarray:
        """Find the most probable class of each row."""
        weights, means = self._classes()
        parts = [
            shares_of(bits[some], weights, means)[0].argmax(1)
            for some in blocks_of(len(bits), 2 * means.shape[1] + 3 * len(weights))
        ]
        return np.concatenate(parts) if parts else np.zeros(0, int)

    def _more_of_fit(self, X: Any, sample_weight: Any, report: FitReport) -> ClassFitReport:
        """Add what patterns say of classes to the report of all families."""
        rows = self._patterns(X, sample_weight)
        return class_fit.class_fit(report, rows, *self._classes(), self._idle, self.smoothing_)

    def _classes(self) -> tuple[np.ndarray, np.ndarray]:
        return np.asarray(self.weights_, np.float64), np.asarray(self.means_, np.float64)

    def _rows_and_shares(self, X: Any, sample_weight: Any, covariates: Any) -> tuple[Patterns, np.ndarray]:
        """Return distinct rows and shares of the classes; with covariates all rows, and P(class) of each by these."""
        if not self._labels.covariates and covariates is None:
            return self._patterns(X, sample_weight), self._classes()[0]
        engine = self._open(self._beside(X, covariates), reset=False, sample_weight=sample_weight)
        table = np.concatenate(list(engine.blocks()))
        counts = np.ones(len(table)) if engine.weights is None else engine.weights
        seen = ~np.isnan(table[:, : self.n_features_in_])
        table, counts, seen = (part[seen.any(1) & (counts > 0)] for part in (table, counts, seen))
        if not len(table):
            raise DataError("X has no row with an answer: at least one is needed")
        bits = np.where(seen, table[:, : self.n_features_in_], MISSING).astype(np.uint8)
        return Patterns(bits, counts, counts**2), self._class_shares(table)

    def _patterns(self, X: Any, sample_weight: Any) -> Patterns:
        return distinct(_with_weights(self._open(X, reset=False, sample_weight=sample_weight)))


def _with_weights(engine: Engine) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Yield the blocks of an engine, each with the weights of its rows."""
    first = 0
    for block in engine.blocks():
        yield block, None if engine.weights is None else engine.weights[first : first + len(block)]
        first += len(block)


def _outside(y: Any, kind: str, n_rows: int) -> tuple[np.ndarray, np.ndarray, list[str], str]:
    """Read an outside variable: numbers, where it was observed, labels of its categories (none of numbers), a note."""
    if kind not in ("auto", "continuous", "categorical"):
        raise ValueError(f"kind must be 'auto', 'continuous' or 'categorical', got {kind!r}")
    if hasattr(y, "to_frame"):
        table = y.to_frame()
    else:
        table = np.asarray(y, object) if isinstance(y, list | tuple) else np.asarray(y)
        if table.ndim != 1:
            raise DataError(f"y must be 1-dimensional, one value for each row; found {table.ndim} dimensions")
        table = table[:, None]
    (column,) = read(table)
    if len(column.values) != n_rows:
        raise DataError(f"X has {n_rows} rows and y {len(column.values)}: there must be one for each row")
    seen = ~column.missing
    if kind == "continuous" and not column.numeric:
        raise DataError("y holds text, which cannot be continuous: leave kind out, or make it 'categorical'")
    if kind == "continuous" or (kind == "auto" and column.inferred == "continuous"):
        if np.isinf(column.values).any():
            raise DataError(f"y contains infinity, in row {int(np.argmax(np.isinf(column.values)))}")
        few = (
            "y has few values, all whole numbers, and was taken as continuous: kind='categorical' makes them categories"
        )
        return column.values.astype(np.float64), seen, [], few if kind == "auto" and column.like_codes else ""
    present = column.values[seen]
    labels = np.unique(present) if column.numeric else np.array(sorted({str(v) for v in present}), object)
    codes = np.zeros(n_rows)
    codes[seen] = np.searchsorted(labels, present if column.numeric else np.array([str(v) for v in present], object))
    words = [f"{v:g}" for v in labels] if column.numeric else [str(v) for v in labels]
    return codes, seen, [str(bool(v)) for v in labels] if column.boolean else words, ""


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise ValueError(f"level must be between 0 and 1, got {level!r}")
