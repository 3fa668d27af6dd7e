"""Settings that all estimators share, what each family provides, and the precision of rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from jaxtyping import PyTree
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.errors import ModelFileError, did_you_mean
from latentbits.core.model import Model
from latentbits.engines.column_sums import Powers
from latentbits.engines.passes import Engine
from latentbits.engines.sparse import SparseEngine
from latentbits.estimators.precision import DOUBLE, FLOAT32_MOST_COLUMNS, NEGLIGIBLE_NATS_PER_ROW, SINGLE
from latentbits.estimators.tables.opening import open_rows
from latentbits.estimators.tables.weights import weighted

__all__ = ["Settings"]


class Settings(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator, ABC):
    """Estimator with the settings that all families share; a family adds its record, shapes and attributes.

    Parameters
    ----------
    random_state : int, RandomState or None
        Seed; the same seed gives the same fit.
    n_init : int, default=1
        Number of restarts; the best objective is kept.
    max_iter : int, default=1000
        Most iterations of each stage.
    max_time : float or None
        Most seconds of learning, all restarts together; compiling programs at the first fit comes in addition.
    tol : float, default=1e-6
        Stop when less than this is left to gain, in nats per row (`left_to_gain_` is that of all rows together).
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; parameters and sums are always float64.  "auto" is
        float32, unless that loses more than 0.001 nats of a row, as it does from 2000 columns on.
    binarize : float or None
        Values above it become 1 and all others 0; None accepts bits only.
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

    # A model file is checked against these: the pytree of parameters, their ranges, and which are bool, int or may be
    # NaN.
    _params_class: ClassVar[type]
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {}
    _flags: ClassVar[frozenset[str]] = frozenset()
    _whole: ClassVar[frozenset[str]] = frozenset()
    _with_holes: ClassVar[frozenset[str]] = frozenset()
    # Using a model takes time in proportion to its arrays and to the product of these hyper-parameters: a file may ask
    # for no more than the number.
    _most_work: ClassVar[tuple[tuple[str, ...], int]] = ((), 1)
    _sample_dtype: Any = np.uint8  # bits; a family of real-valued rows sets another
    _sparse: ClassVar[bool] = False  # its records take lists of ones, so that a sparse table stays one

    def __new__(cls, *args: Any, **given: Any) -> Self:
        """Refuse unknown parameters, and list the known ones, which Python does not."""
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
        # scikit-learn reads the names from the signature of each family, which repeats these and hands them on
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
        """Make the record of functions for these hyper-parameters."""

    @abstractmethod
    def _expose(self) -> None:
        """Set the fitted attributes from `params_`."""

    @abstractmethod
    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        """Return the shapes of the parameters by name, None for a free length; a model file must have them."""

    def _params_type(self) -> type:
        """Return the pytree of the parameters, for these hyper-parameters."""
        return self._params_class

    def _extra(self) -> dict[str, Any]:
        """Return entries of a model file beside parameters and hyper-parameters, as JSON can hold them."""
        return {}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        """Set attributes from the entries of `_extra`; refuse all others."""
        if extra:
            raise ModelFileError(f"unknown entries {sorted(extra)}")

    @property
    def real_valued(self) -> bool:
        """Whether rows are real numbers with densities; else they are bits."""
        return False

    @property
    def takes_reals(self) -> bool:
        """Whether X stays real numbers: `binarize` gives bits to a model of real numbers, too."""
        return self.real_valued and self.binarize is None

    def _given_dtype(self) -> np.dtype | None:
        """Read `dtype`, None for "auto"."""
        if isinstance(self.dtype, str) and self.dtype == "auto":
            return None
        dtype = np.dtype(self.dtype)
        if dtype not in (SINGLE, DOUBLE):
            raise ValueError(f"dtype must be 'auto', float32 or float64, got {self.dtype!r}")
        return dtype

    def _dtype(self) -> np.dtype:
        """Choose the precision of rows by their number of columns."""
        given = self._given_dtype()
        if given is not None:
            return given
        return SINGLE if self.n_features_in_ < FLOAT32_MOST_COLUMNS else DOUBLE

    def _dtype_on(self, engine: Engine) -> np.dtype:
        """Choose the precision of the rows of an engine; float64 costs lists of ones hardly any time."""
        dtype = self._dtype()
        return DOUBLE if isinstance(engine, SparseEngine) and self._may_widen(dtype) else dtype

    def _may_widen(self, dtype: np.dtype) -> bool:
        """Return whether float64 may replace this precision where it loses too much."""
        return dtype == SINGLE and self._given_dtype() is None

    def _dtype_for(self, engine: Engine) -> np.dtype:
        """Choose the precision for rows under the fitted parameters; it does not depend on the kind of engine."""
        dtype = self._dtype_on(engine)
        if (
            self._may_widen(dtype)
            and self.takes_reals
            and self._rounding_of(engine, dtype).largest > NEGLIGIBLE_NATS_PER_ROW
        ):
            return DOUBLE
        return dtype

    def _rounding_foreseen(self, engine: Engine, dtype: np.dtype) -> float:
        """Return nats that a row would lose on average, as far as can be known before there are parameters."""
        return 0.0

    def _rounding_of(self, engine: Engine, dtype: np.dtype) -> Powers:
        """Compute the nats, mean and largest, that real-valued rows lose in this precision under the parameters."""
        return Powers(0.0, 0.0)

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        """Open rows as an engine; `reset` takes number and names of columns from X, else they are checked."""
        engine = open_rows(self, X, reset=reset, binarize=self.binarize, real=self.takes_reals, sparse=self._sparse)
        return weighted(engine, sample_weight, X)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.sparse = True
        tags.transformer_tags.preserves_dtype = []  # `dtype` says in what precision answers come, not X
        return tags
