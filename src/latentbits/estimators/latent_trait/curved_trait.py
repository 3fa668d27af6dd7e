"""`CurvedTrait`: a latent trait model whose map is curved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from latentbits.core.model import LogLikelihood, Model
from latentbits.core.nodes import quasi_monte_carlo
from latentbits.engines.fit import FitResult
from latentbits.engines.held_out import split
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.order import in_random_order
from latentbits.engines.passes import Engine
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import Seen, WithCriteria, look
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.psychometrics import canonical_axes
from latentbits.models.latent_trait import curved, tuning

__all__ = ["CurvedTrait"]

LOG2_NODES = 10  # of a net, where none is given


class CurvedTrait(WithCriteria):
    """A latent trait model with a network: x ~ N(0, I), log-odds of bits = w.x + b + network(x).

    A small network is added to the linear map of `LatentTrait`, so that the surface on which rows lie may be curved:
    better maps, and likelihoods of unseen rows, at the price of slopes that are the same nowhere.  It learns by Adam on
    batches of rows, with 2 to the power of `n_nodes` quasi-random points in all, drawn again for every batch.
    Likelihoods are means over eight such nets, whose spread is the stated error.

    Parameters
    ----------
    n_components : int, default=2
        Number of latent dimensions, q, up to 32.
    layer_sizes : sequence of int or None, default=None
        Units of each layer of the network.  None is two layers of 64, or of 128 above 32 columns.
    n_epochs : int or None, default=None
        Passes over the rows, no more than `max_iter`.  None makes about 10 000 updates, and 300 passes at most.
    learning_rate : float or None, default=None
        Length of the first steps, which fall along a cosine; None is 0.003.
    validation_fraction : float or None, default=None
        Share of the rows of a dense table in memory that is held out: learning stops when they gain no more, and the
        point is kept at which they were most probable.  ``fit(X, X_val=...)`` takes other rows.  None is 0.1 where such
        a table has 500 rows or more.
    weight_prior : float or None, default=None
        Standard deviation of a Gaussian prior on all weights of the network.
    n_nodes : int or None, default=None
        2 to this power is the number of points, from 5 to 16; None is 10.
    n_init : int or None, default=None
        Number of restarts; the best objective is kept.  None is 1.
    random_state, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.  `max_iter` limits the passes over the rows.

    Attributes
    ----------
    mean_slopes_ : ndarray of shape (n_components, n_columns)
        By how much log-odds change along each axis, on average over the latents.  Axes are such that these are
        orthogonal, the longest first.
    n_parameters_ : int
        Free parameters, the rotation taken off.  A column that is constant, or never observed, has none: its
        probability is that of the maximum (a thousandth of a nat short of 0 or 1 in all), its weights are 0.
    dtype_, history_, history_table_, objective_, n_iter_, left_to_gain_, converged_, stop_reason_
        As everywhere.  `history_` is what the batches of a pass had for an objective; what is left to gain is not
        known, and `converged_` is false.
    n_rows_, n_features_in_, feature_names_in_
        As everywhere.

    Examples
    --------
    >>> from latentbits import CurvedTrait, load_dataset
    >>> X = load_dataset("lsat7").X
    >>> m = CurvedTrait(1, layer_sizes=(8,), n_epochs=2, n_nodes=6, random_state=0).fit(X)
    >>> m.mean_slopes_.shape, m.transform(X).shape
    ((1, 5), (1000, 1))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_components": [Interval(Integral, 1, 32, closed="both")],
        "layer_sizes": ["array-like", None],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="left"), None],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "n_nodes": [Interval(Integral, 5, 16, closed="both"), None],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }
    _params_class: ClassVar[type] = curved.Params

    mean_slopes_: np.ndarray
    _seen: Seen | None = None  # what the table of the last fit has observed

    def __init__(
        self,
        n_components: int = 2,
        *,
        layer_sizes: Any = None,
        n_epochs: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        weight_prior: float | None = None,
        n_nodes: int | None = None,
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
        self.layer_sizes = layer_sizes
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.weight_prior = weight_prior
        self.n_nodes = n_nodes
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # ---------------------------------------------------------------- learning

    def _widths(self) -> tuple[int, ...]:
        """Return the units of each layer."""
        if self.layer_sizes is None:
            return _usual_widths(self.n_features_in_)
        given = self.layer_sizes
        widths = tuple(given) if not isinstance(given, str | Integral) and np.ndim(given) == 1 else ()
        if not widths or any(not isinstance(w, Integral) or isinstance(w, bool) or w < 1 for w in widths):
            raise ValueError(f"layer_sizes must be numbers of units from 1 on, one a layer, got {given!r}")
        return tuple(int(w) for w in widths)

    def _model(self) -> Model:
        return self._record(1.0, 1.0)

    def _model_for(self, engine: Engine) -> Model:
        self._seen = look(engine)
        n_rows = float(max(self._seen.n_rows, 1))
        return self._record(n_rows, n_rows if engine.weights is None else len(engine.weights))

    def _record(self, n_rows: float, n_places: float) -> Model:
        """Make the record to learn from a number of rows, by weight, at a number of places in a table."""
        n_blocks = math.ceil(n_places / tuning.ROWS_PER_UPDATE)
        n_epochs = self.n_epochs or min(300, math.ceil(10_000 / n_blocks))  # at most 300 passes of small tables
        return curved.model(
            int(self.n_components),
            self._widths(),
            int(self.n_nodes or LOG2_NODES),
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
            n_epochs=min(int(n_epochs), int(self.max_iter)),
            n_blocks=n_blocks,
            rate=float(self.learning_rate or 3e-3),
            n_rows=n_rows,
        )

    @property
    def _n_restarts(self) -> int:
        return int(self.n_init or 1)

    @property
    def _has_prior(self) -> bool:
        return self.weight_prior is not None

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        """Open the rows; to learn from in no order, as updates are made from blocks of them."""
        engine = super()._open(X, reset=reset, sample_weight=sample_weight)
        return in_random_order(engine) if reset else engine

    def _held_out_share(self) -> float:
        return float(self.validation_fraction or 0)

    def _hold_out(self, rows: Engine, X_val: Any) -> tuple[Engine, Engine | None]:
        """Hold out some rows unless X_val or validation_fraction say otherwise: a network has many parameters."""
        usual = self.validation_fraction is None and X_val is None
        if usual and isinstance(rows, MemoryEngine) and len(rows.table) >= 500:
            return split(rows, 0.1)
        return super()._hold_out(rows, X_val)

    # ---------------------------------------------------------------- what was learned

    def _adopt(self, result: FitResult) -> None:
        """Take the parameters in axes along which log-odds change most on average, the first most of all."""
        self._idle = () if self._seen is None else tuple(np.flatnonzero(self._seen.idle).tolist())
        params = result.params
        for _ in range(4):  # points of a net are not those of the net turned, and their mean is another
            slopes = curved.mean_slopes(params, self._prior_points())
            params = curved.turned(params, canonical_axes(slopes))
        super()._adopt(result._replace(params=params))

    def _prior_points(self) -> np.ndarray:
        return quasi_monte_carlo(2**LOG2_NODES, int(self.n_components)).nodes

    def _expose(self) -> None:
        p, q = self.params_, int(self.n_components)
        self.mean_slopes_ = curved.mean_slopes(p, self._prior_points()).T
        outputs = (p.weights.shape[1] + 1 + p.layers[-1].shape[0]) * (self.n_features_in_ - len(self._idle))
        inside = sum(layer.size for layer in p.layers[:-1]) + sum(offset.size for offset in p.offsets)
        self.n_parameters_ = outputs + inside - q * (q - 1) // 2
        self._n_features_out = q

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        q, d, widths = int(self.n_components), self.n_features_in_, self._widths()
        sizes = (q, *widths, d)
        return {
            "weights": (d, q),
            "bias": (d,),
            **{f"layers.{k}": shape for k, shape in enumerate(pairwise(sizes))},
            **{f"offsets.{k}": (width,) for k, width in enumerate(widths)},
        }

    def _off_maximum(self) -> Iterator[str]:
        yield "learning by batches ends with a schedule, wherever that is"
        if self.weight_prior is not None:
            yield f"weight_prior={self.weight_prior:g}"

    def _provisos(self) -> Iterator[str]:
        if self.weight_prior is not None:
            yield f"with the penalty of weight_prior={self.weight_prior:g}"

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("mean slopes of trait", self._input_names(), self.mean_slopes_)

    # ---------------------------------------------------------------- use

    def _error_of_sum(self, rows: LogLikelihood, weights: np.ndarray | None = None) -> float:
        if not isinstance(rows, curved.Scored) or rows.deviations is None:
            return super()._error_of_sum(rows, weights)
        own = np.ones(len(rows.value)) if weights is None else np.asarray(weights, np.float64)
        return curved.error_of_sum(np.asarray(rows.deviations, np.float64), own) + float(
            np.sum(own * np.asarray(rows.rounding, np.float64))
        )


def _usual_widths(n_columns: int) -> tuple[int, int]:
    """Choose two layers, of more units where there are more columns to bend.

    >>> _usual_widths(10), _usual_widths(100)
    ((64, 64), (128, 128))
    """
    width = 64 if n_columns <= 32 else 128
    return width, width
