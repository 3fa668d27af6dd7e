"""`BernoulliMixture`: latent classes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.model import Model
from latentbits.engines.fit import FitResult
from latentbits.engines.passes import Engine
from latentbits.estimators.base import LatentModel
from latentbits.estimators.class_reports import WithClassReports
from latentbits.estimators.class_tests import WithClassTests
from latentbits.estimators.criteria import look
from latentbits.estimators.estimator_repr import named_weights
from latentbits.models.mixture import model as mixture
from latentbits.models.mixture import tuning
from latentbits.models.mixture.smoothing import Smoothed

__all__ = ["BernoulliMixture"]


class BernoulliMixture(WithClassTests, WithClassReports):
    """Latent class analysis: a mixture of Bernoulli products, by EM.

    P(x) = sum_k w_k prod_j m_kj^x_j (1 - m_kj)^(1 - x_j).  Each row comes from one of the components;
    `transform` gives the responsibilities.  Missing bits are marginalised exactly.

    Parameters
    ----------
    n_components : int, default=2
        Number of components, k.
    smoothing : float or "auto", default=1.0
        Rows with the column means of the data that are added to each component, which keeps probabilities off
        0 and 1 and predicts new rows better.  **0 is maximum likelihood**, which latent class analysis and `aic` and
        `bic` ask for: with smoothing the log-likelihood is below its maximum, and can fall with more components.
        "auto" chooses it by the data, without held-out rows: the strength under which the components' counts are most
        probable, with their probabilities integrated out (`smoothing_`).
    init : {"random", "split", "split-first", "anneal"}, default="random"
        "random" starts around randomly drawn rows: several short runs on a sample, of which the best goes on.  "split"
        is the schedule of Freund & Haussler (1994, section 4): one component, EM, split each in two and perturb, EM,
        ... up to any number (45 = 32 + 13): where not all are split, those whose rows differ most, or, with
        "split-first", the first, as in the paper.  It is one greedy path, so compare several (`n_init`).  "anneal"
        starts around random rows with responsibilities that are nearly alike, and sharpens them in ten passes
        (deterministic annealing).  With held-out rows (`X_val`), which may end it on the way, it predicts new rows
        better where hundreds of components would fit too closely.
    accelerate : bool, default=True
        Accelerated EM from the best of several short runs, and Newton's method at the end where parameters are few
        (up to 256).  Without, EM goes step by step from one start.
    random_state : int, RandomState or None
        Seed; the same seed gives the same fit.
    n_init : int or None, default=None
        Number of restarts, each from the best of some short runs; the best objective is kept.  None is 24 where they
        take no time to speak of (rows x squared parameters up to 16 million), else 6 (up to 128 million) or 1.
    max_iter : int, default=1000
        Most iterations of the last EM stage, and of Newton's method after it.
    max_time : float or None
        Most seconds of learning, all restarts together; compiling programs, at the first fit, comes in addition.
    tol : float, default=1e-7
        Stop when less than this is left to gain, in nats per row (`left_to_gain_` is that of all rows together).
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; parameters and sums are always float64.  "auto" is float64 where that
        takes no time to speak of (rows x columns x components up to 8 million) and where float32 loses more than 0.001
        nats of a row, as it does from 2000 columns on; else float32.
    binarize : float or None
        Turn values above it into 1 and the rest into 0; None takes nothing but bits.

    Attributes
    ----------
    weights_ : ndarray of shape (n_components,)
        Share of each component, the largest first; with covariates, that in the rows it was fitted to.
    means_ : ndarray of shape (n_components, n_columns)
        P(bit = 1) of each column in each component.
    smoothing_ : float
        Strength of the smoothing: as given, or as chosen.  Where held-out rows ended learning early, it is the one that
        the parameters had then.
    coefficients_ : ndarray of shape (n_components, n_covariates + 1)
        Where ``fit(X, covariates=Z)`` learned how membership depends on covariates: log P(component | z) is these times
        (1, z), but for what makes probabilities add up to 1.  The first component's are 0.
    covariate_names_ : ndarray of str
        Names of the covariates, where they came as a frame.
    dtype_ : str
        Precision of the rows in the fit, "float32" or "float64".
    history_ : ndarray
        Objective (log-likelihood with the prior of `smoothing`, nats) of every iteration.
    history_table_ : structured ndarray
        Every pass: `stage`, `measure` (what its objective is of), `iteration` and `objective`.
    objective_ : float
        Objective of the parameters that were kept; NaN where learning was cut short before there was one.
    n_iter_ : int
        Iterations of the restart that was kept.
    left_to_gain_ : float
        Estimate of the nats left to gain, all rows together: by the observed information where parameters
        are few, else by the quadratic model of the acceleration.  NaN where it is not known.
    converged_ : bool
        Whether it stopped because less than `tol` nats per row are left to gain.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "stalled" or "interrupted".
    n_parameters_ : int
        Free parameters: k - 1 weights and k x d probabilities, columns that are constant or were never seen left out.
    n_rows_ : float
        Rows learned from, each as often as it counts; NaN where that is not known.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a frame.

    Examples
    --------
    >>> import numpy as np
    >>> from latentbits import BernoulliMixture
    >>> X = np.array([[1, 1, 0, 0], [1, 1, 1, 0], [0, 0, 1, 1], [0, 0, 0, 1]] * 10)
    >>> m = BernoulliMixture(2, smoothing=0, random_state=0, n_init=5).fit(X)
    >>> np.allclose(np.sort(m.means_[:, 0]), [0, 1], atol=1e-3)
    True
    >>> np.allclose(m.complete([[1, np.nan, 0, 0]]), [1, 1, 0, 0], atol=0.01)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left")],
        "smoothing": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "init": [StrOptions({"random", "split", "split-first", "anneal"})],
        "accelerate": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }

    weights_: np.ndarray
    means_: np.ndarray
    smoothing_: float

    _params_class: ClassVar[type] = mixture.Params
    _sparse: ClassVar[bool] = True
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "weights": (0, 1),
        "means": (0, 1),
        "smoothing": (0, np.inf),
    }

    def __init__(
        self,
        n_components: int = 2,
        *,
        smoothing: float | str = 1.0,
        init: str = "random",
        accelerate: bool = True,
        random_state: Any = None,
        n_init: int | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-7,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.smoothing = smoothing
        self.init = init
        self.accelerate = accelerate
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    @property
    def _has_prior(self) -> bool:
        return self.smoothing == "auto" or float(self.smoothing) > 0

    def _model(self) -> Model:
        if self._n_covariates:
            return self._membership_model()
        k, accelerate = int(self.n_components), bool(self.accelerate)
        few = k * (self.n_features_in_ + 1) <= tuning.NEWTON_MOST_PARAMETERS
        return mixture.model(
            n_components=k,
            smoothing="auto" if self.smoothing == "auto" else float(self.smoothing),
            init=self.init,
            accelerate=accelerate,
            by_newton=accelerate and few,
        )

    @property
    def _n_restarts(self) -> int | Callable[[float], int]:
        if self.n_init is not None:
            return int(self.n_init)
        size = int(self.n_components) * (self.n_features_in_ + 1)
        if self.n_components == 1 or size > tuning.NEWTON_MOST_PARAMETERS:
            return 1
        # rows x squared parameters for which a step of Newton's takes milliseconds
        return lambda n: 24 if n * size**2 <= 2**24 else 6 if n * size**2 <= 8 * 2**24 else 1

    @property
    def _double_rows(self) -> int:
        # rows x columns x components for which float64 takes no time to speak of
        return 2**23 // (int(self.n_components) * self.n_features_in_)

    def _idle_in(self, engine: Engine) -> tuple[int, ...]:
        return tuple(np.flatnonzero(look(engine).idle[: self.n_features_in_]).tolist())  # covariates come after

    def _why_no_criteria(self) -> str | None:
        if self.smoothing_ > 0:
            return f"and smoothing={self.smoothing_:g} keeps this mixture away from it: fit it with smoothing=0"
        return None

    def _off_maximum(self) -> Iterator[str]:
        if self.smoothing_ > 0:
            yield f"smoothing={self.smoothing_:g}"

    def _provisos(self) -> Iterator[str]:
        if self.smoothing_ > 0:
            yield f"with the penalty of smoothing={self.smoothing_:g}"

    def _causes(self) -> Iterator[tuple[str, str]]:
        """Yield the kinds by the columns in which their rows differ most from all rows."""
        names, apart = self._input_names(), self.means_ - self.weights_ @ self.means_
        for place, (share, mean) in enumerate(zip(self.weights_, self.means_)):
            ((_, listed),) = named_weights("", names, apart[place : place + 1], values=mean[None], form=".2f")
            yield f"kind {place + 1}", f"{share:.0%} of rows; {listed}"

    def _adopt(self, result: FitResult) -> None:
        params, own = result.params, ["weights", "means", *(["slopes"] if self._n_covariates else [])]
        order = np.argsort(-params.weights, kind="stable")
        ordered = params.replace(**{name: getattr(params, name)[order] for name in own})
        super()._adopt(result._replace(params=ordered))

    def _params_type(self) -> type:
        return Smoothed if self.smoothing == "auto" else super()._params_type()

    def _expose(self) -> None:
        self.weights_, self.means_ = self.params_.weights, self.params_.means
        self.smoothing_ = float(self.params_.smoothing if self.smoothing == "auto" else self.smoothing)
        k = len(self.weights_)
        self.n_parameters_ = (k - 1) * (1 + self._n_covariates) + k * self._n_varying
        self._expose_coefficients()
        self._n_features_out = len(self.weights_)

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        k = int(self.n_components)
        if self.init.startswith("split"):
            k = min(k, len(self.params_.weights))  # the schedule may have been cut short
        own: dict[str, tuple[int | None, ...]] = {"smoothing": ()} if self.smoothing == "auto" else {}
        return {"weights": (k,), "means": (k, self.n_features_in_), **own, **self._membership_shapes(k)}
