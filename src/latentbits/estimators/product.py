"""`BernoulliProduct`: independent bits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from latentbits.core.model import Model
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithFitReport
from latentbits.models import product

__all__ = ["BernoulliProduct"]


class BernoulliProduct(WithFitReport):
    """Independent bits, the baseline that any model with hidden causes must beat.

    P(x) = prod_j m_j^x_j (1 - m_j)^(1 - x_j).  Learned in one pass; missing bits are left out.

    Parameters
    ----------
    smoothing : float, default=1.0
        Rows of fair coins that are added to the data, so that no bit is impossible; 0 is maximum likelihood.
    random_state : int, RandomState or None
        Not used: learning is deterministic.  Present, as are the next four, because all estimators share them.
    n_init, max_iter, max_time, tol
        Not used: there is one optimum, and one pass finds it.
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; parameters and sums are always float64.  "auto" is
        float32, unless that loses more than 0.001 nats of a row, as it does from 2000 columns on.
    binarize : float or None
        Turn values above it into 1 and the rest into 0; None takes nothing but bits.

    Attributes
    ----------
    means_ : ndarray of shape (n_columns,)
        P(bit = 1) of each column.
    dtype_ : str
        Precision of the rows in the fit, "float32" or "float64".
    history_ : ndarray
        Objective (log-likelihood with the prior of `smoothing`, nats) before and after the update.
    history_table_ : structured ndarray
        Every pass: `stage`, `measure` (what its objective is of), `iteration` and `objective`.
    objective_ : float
        Objective of the parameters that were kept; NaN where learning was cut short before there was one.
    n_iter_ : int
        1, the one pass.
    converged_ : bool
        True, unless the pass was interrupted.
    left_to_gain_ : float
        0: one pass is all there is.
    stop_reason_ : str
        "converged", "max_iter", "max_time" or "interrupted".
    n_parameters_ : int
        Free parameters: one for each column, those that are constant or were never seen left out.
    n_rows_ : float
        Rows learned from, each as often as it counts; NaN where that is not known.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a frame.

    Examples
    --------
    >>> import numpy as np
    >>> from latentbits import BernoulliProduct
    >>> X = np.array([[1, 0], [1, 1], [1, np.nan], [0, 0]])
    >>> BernoulliProduct(smoothing=0).fit(X).means_.round(3).tolist()
    [0.75, 0.333]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "smoothing": [Interval(Real, 0, None, closed="left")],
    }

    means_: np.ndarray

    _params_class: ClassVar[type] = product.Params
    _sparse: ClassVar[bool] = True
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"means": (0, 1)}

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.smoothing = smoothing
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    @property
    def _has_prior(self) -> bool:
        return self.smoothing > 0

    def _model(self) -> Model:
        return product.model(smoothing=float(self.smoothing))

    def _off_maximum(self) -> Iterator[str]:
        if self.smoothing > 0:
            yield f"smoothing={self.smoothing:g}"

    def _provisos(self) -> Iterator[str]:
        if self.smoothing > 0:
            yield f"with the penalty of smoothing={self.smoothing:g}"

    def _expose(self) -> None:
        self.means_ = self.params_.means
        self.n_parameters_ = self._n_varying
        self._n_features_out = 0

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        return {"means": (self.n_features_in_,)}
