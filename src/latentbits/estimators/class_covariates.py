"""Covariates of class membership: a table of bits, and beside it real numbers of each row that predict its class."""

from __future__ import annotations

from typing import Any, Literal, Self

import numpy as np
from scipy.special import softmax

from latentbits.core.model import Model
from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import WithCriteria
from latentbits.estimators.more_arguments import with_more
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.tables.beside_bits import Beside, Labels, joined, labels_in_file, labels_of, whitening
from latentbits.estimators.tables.weights import open_weights
from latentbits.models.mixture import membership
from latentbits.reports.class_fit import regression_fit
from latentbits.reports.fit import FitReport
from latentbits.reports.membership import MembershipErrors, membership_errors

__all__ = ["WithCovariates"]

BESIDE_X = ("covariates",)
ADVICE = (
    "pass covariates= to fit_report, standard_errors, classification, bivariate_residuals, score, "
    "score_samples, log_likelihood, log_likelihoods, transform or posterior; other methods are for mixtures without"
)


class WithCovariates(WithCriteria):
    """Part of `BernoulliMixture`: `fit(X, covariates=Z)`, and the methods that take covariates too.

    `fit_report`, `standard_errors`, `classification`, `bivariate_residuals`, `score`, `score_samples`,
    `log_likelihood`, `log_likelihoods`, `transform` and `posterior` do, and need them where `fit` had them.  The other
    methods that are given rows refuse a mixture with covariates; `sample` draws rows like those it was fitted to,
    whatever their covariates.
    """

    n_components: int
    smoothing: float | str
    smoothing_: float
    accelerate: bool
    init: str
    means_: np.ndarray
    coefficients_: np.ndarray
    covariate_names_: np.ndarray

    _labels: Labels = Labels()  # of the covariates of the last fit
    _whitening: tuple[np.ndarray, np.ndarray]

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        engine: Literal["dask"] | None = None,
        X_val: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Learn the model from bits, and how membership depends on covariates.

        With covariates z of each row, P(component | z) is a multinomial logistic regression that is learned in the same
        EM: see `coefficients_` and `membership_errors`.  `smoothing` then concerns the probabilities of bits alone.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            0, 1 or bool, NaN for missing; a pandas or polars frame, SciPy sparse matrix, memory map, Dask array, a
            path (.parquet, .zarr or .npy, a pattern such as ``rows-*.npy``, or a list of them), or a function that
            gives an iterable of batches each time it is called (for tables larger than memory).  In memory, where there
            are covariates.
        y : Ignored
            Present for scikit-learn's pipelines.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts: counts of patterns, survey weights, a bootstrap's draws.  None counts each once.
        checkpoint : str, path, latentbits.Checkpoint or None
            A folder in which learning is kept every half a minute: after a crash the same call goes on from there, and
            ends with the bits that it would have had.
        engine : "dask" or None
            "dask" has the workers of the active `distributed.Client` learn; None goes by the kind of X.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Real numbers, none missing, and none that follow from the others: of several groups leave one out.  An
            intercept is added.
        X_val : array-like of shape (n_validation_rows, n_columns) or None
            Rows that are not learned from, for early stopping: learning ends when they gain no more, and the point is
            kept at which they were most probable (`held_out_history_`).  Not with covariates.

        Returns
        -------
        self

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> rng = np.random.default_rng(0)
        >>> age = rng.normal(size=400)
        >>> of_second = rng.random(400) < 1 / (1 + np.exp(-2 * age))
        >>> X = (rng.random((400, 6)) < np.where(of_second, 0.9, 0.1)[:, None]).astype(int)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X, covariates=age)
        >>> m.coefficients_.shape, m.transform(X, covariates=age).shape
        ((2, 2), (400, 2))
        """
        self._know(Labels())
        self.__dict__.pop("coefficients_", None)
        if covariates is None:
            return super().fit(X, y, sample_weight, checkpoint, engine, X_val)
        if X_val is not None:
            raise ValueError("X_val does not go with covariates")
        if engine is not None:
            raise ValueError("covariates need a table in memory: leave engine out")
        if self.init != "random":
            raise ValueError(f"with covariates init must be 'random', got {self.init!r}")
        if self.smoothing == "auto":
            raise ValueError("with covariates smoothing is not chosen by the data: give a number")
        if self._given_dtype() not in (None, DOUBLE):
            raise ValueError("with covariates rows are computed in float64: dtype must be 'auto' or 'float64'")
        rows = Beside(X, None, covariates)
        self._know(labels_of(rows, sample_weight))
        return super().fit(rows, y, open_weights(sample_weight, None, X), checkpoint)

    # ---------------------------------------------------------------- use

    transform = with_more(WithCriteria.transform, BESIDE_X, "Compute P(component | row) of each row.")
    posterior = with_more(
        WithCriteria.posterior,
        BESIDE_X,
        "Compute P(component | row) of each row as `mean`, the most probable as `mode`.",
    )
    log_likelihoods = with_more(WithCriteria.log_likelihoods, BESIDE_X)
    score_samples = with_more(WithCriteria.score_samples, BESIDE_X)
    score = with_more(WithCriteria.score, BESIDE_X)
    log_likelihood = with_more(WithCriteria.log_likelihood, BESIDE_X)

    def fit_report(self, X: Any, sample_weight: Any = None, covariates: Any = None) -> FitReport:
        """Report log-likelihood, free parameters and criteria of a fit; G², X² and entropy without covariates.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The rows that the model was fitted to; NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Values of the rows, where `fit` had some.

        Returns
        -------
        ClassFitReport
            With covariates without G² and X²: patterns of bits have no one probability then.
        """
        both = self._beside(X, covariates)
        if not self._n_covariates:
            return super().fit_report(both, sample_weight)
        report, share = self._fit_report(both, sample_weight), np.asarray(self.transform(both), np.float64)
        weight = open_weights(sample_weight, len(share), X)
        return regression_fit(report, share, np.ones(len(share)) if weight is None else weight, self.means_)

    def membership_errors(self, X: Any, covariates: Any, sample_weight: Any = None) -> MembershipErrors:
        """Compute standard errors of `coefficients_`, with z and p-values, by the observed information.

        They are of a maximum of the likelihood, so only of a fit with ``smoothing=0``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The bits that this mixture was fitted to, NaN for missing.
        covariates : array-like of shape (n_rows, n_covariates)
            The covariates that it was fitted to.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Returns
        -------
        latentbits.reports.membership.MembershipErrors
            With `coefficients`, `errors`, `z` and `p`, (n_components - 1, n_covariates + 1) each, and `probabilities`
            of bits with their errors `means`, (n_components, n_columns) each.

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> rng = np.random.default_rng(0)
        >>> age = rng.normal(size=400)
        >>> of_second = rng.random(400) < 1 / (1 + np.exp(-2 * age))
        >>> X = (rng.random((400, 6)) < np.where(of_second, 0.9, 0.1)[:, None]).astype(int)
        >>> m = BernoulliMixture(2, smoothing=0, random_state=0).fit(X, covariates=age)
        >>> found = m.membership_errors(X, age)
        >>> found.errors.shape, bool(found.p[0, 1] < 0.001)
        ((1, 2), True)
        """
        self._fitted()
        if not self._n_covariates:
            raise ValueError("this mixture was fitted without covariates: fit(X, covariates=Z) learns coefficients")
        if self.smoothing_ > 0:
            raise ValueError(
                f"standard errors are of a maximum of the likelihood, and smoothing={self.smoothing_:g} keeps this "
                "mixture away from it: fit it with smoothing=0"
            )
        engine = self._open(self._beside(X, covariates), reset=False, sample_weight=sample_weight)
        rows = np.concatenate(list(engine.blocks()))
        weights = np.ones(len(rows)) if engine.weights is None else engine.weights
        d = self.n_features_in_
        called = ["intercept", *self._labels.covariates]
        return membership_errors(
            rows[:, :d], rows[:, d:], weights, self.means_, self.coefficients_, called, self._column_names()
        )

    # ---------------------------------------------------------------- inside

    @property
    def _n_covariates(self) -> int:
        return len(self._labels.covariates)

    def _know(self, labels: Labels) -> None:
        self._labels = labels
        self.__dict__.pop("covariate_names_", None)
        if labels.named:
            self.covariate_names_ = np.array(labels.covariates, dtype=object)

    def _beside(self, X: Any, covariates: Any) -> Any:
        self._fitted()
        return X if isinstance(X, Beside) or covariates is None else Beside(X, None, covariates)

    def _class_shares(self, table: np.ndarray) -> np.ndarray:
        """Compute P(class) of each row by its covariates, which come after its bits."""
        params = self.params_
        inner = (table[:, self.n_features_in_ :] - params.centre) @ params.turn
        return softmax(np.column_stack([np.ones(len(inner)), inner]) @ params.slopes.T, axis=1)

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        rows = X if isinstance(X, Beside) else Beside(X)
        if not self._n_covariates and rows.covariates is None:
            return super()._open(rows.X, reset=reset, sample_weight=sample_weight)
        engine = joined(super()._open(rows.X, reset=reset), rows, self._labels, sample_weight, ADVICE)
        if reset:
            Z = engine.table[:, self.n_features_in_ :]
            self._whitening = whitening(Z, self._labels.covariates, engine.weights)
        return engine

    def _dtype(self) -> np.dtype:
        return DOUBLE if self._n_covariates else super()._dtype()

    def _membership_model(self) -> Model:
        return membership.model(
            int(self.n_components), *self._whitening, smoothing=float(self.smoothing), accelerate=bool(self.accelerate)
        )

    def _params_type(self) -> type:
        return membership.Params if self._n_covariates else super()._params_type()

    def _membership_shapes(self, k: int) -> dict[str, tuple[int | None, ...]]:
        p = self._n_covariates
        return {"slopes": (k, p + 1), "centre": (p,), "turn": (p, p)} if p else {}

    def _expose_coefficients(self) -> None:
        """Set the slopes in units of the covariates as they were given, less those of the first class."""
        if not self._n_covariates:
            return
        params = self.params_
        self._whitening = np.asarray(params.centre), np.asarray(params.turn)
        slopes = params.slopes[:, 1:] @ params.turn.T
        both = np.column_stack([params.slopes[:, 0] - slopes @ params.centre, slopes])
        self.coefficients_ = both - both[0]

    def _extra(self) -> dict[str, Any]:
        if not self._n_covariates:
            return super()._extra()
        return super()._extra() | {"covariates": list(self._labels.covariates)}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        self._know(labels_in_file([], extra.pop("covariates", [])))
        super()._take_extra(extra)
