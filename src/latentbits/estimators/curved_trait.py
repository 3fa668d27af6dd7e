"""A curved surface for `LatentTrait`: what it does with ``decoder="mlp"``."""

from __future__ import annotations

import math
from itertools import pairwise
from numbers import Integral
from typing import Any

import numpy as np

from latentbits.core.model import LogLikelihood, Model
from latentbits.core.nodes import quasi_monte_carlo
from latentbits.engines.fit import FitResult
from latentbits.engines.held_out import split
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.order import in_random_order
from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import Seen
from latentbits.estimators.item_templates import DEFAULT_PRIOR
from latentbits.models.latent_trait import curved

__all__ = ["WithCurve"]

LOG2_NODES = 10  # of a net, where none is given
MOST_NODES = 16
RATE = 3e-3
HELD_OUT, FEWEST = 0.1, 500  # share of the rows of a table in memory that stops learning, if it has so many
TURNS = 4  # of the axes: points of a net are not those of the net turned, and their mean is another
UPDATES, MOST_EPOCHS = 10_000, 300  # of learning, where no number of passes is given; the latter of small tables
# options of items, kinds of columns, several maps and other ways to learn, and what they are where they are not given
ELSEWHERE: dict[str, Any] = {
    "method": "auto",
    "column_types": None,
    "n_maps": 1,
    "noise": "own",
    "equal_discrimination": False,
    "asymptote": False,
    "asymptote_prior": DEFAULT_PRIOR,
    "population": "standard",
    "fixed": None,
    "shared": None,
}
ONLY_HERE = ("decoder_layers", "n_epochs", "learning_rate")


class WithCurve(LatentModel):
    """What `LatentTrait` does where its decoder is a network; `_curved` says whether."""

    n_components: int
    decoder: str
    decoder_layers: Any
    n_epochs: int | None
    learning_rate: float | None
    validation_fraction: float | None
    n_nodes: int | None
    weight_prior: float | None

    mean_slopes_: np.ndarray
    n_parameters_: int
    _idle: tuple[int, ...]

    @property
    def _curved(self) -> bool:
        return self.decoder == "mlp"

    def _check_curve(self) -> None:
        """Refuse options that do not go with the decoder."""
        if not self._curved:
            for name in ONLY_HERE:
                if getattr(self, name) is not None:
                    raise ValueError(f"{name} is for decoder='mlp', and decoder is {self.decoder!r}: leave it out")
            return
        for name, usual in ELSEWHERE.items():
            value = getattr(self, name)
            if not np.array_equal(value, usual):  # of options that may be arrays
                raise ValueError(f"{name}={value!r} is for decoder='linear', and decoder is 'mlp': leave it out")
        if getattr(self, "_people", None) is not None:
            raise ValueError("groups and covariates are for decoder='linear', and decoder is 'mlp': leave them out")
        if self.n_nodes is not None and not 5 <= self.n_nodes <= MOST_NODES:
            raise ValueError(
                f"n_nodes must be between 5 and {MOST_NODES} with decoder='mlp', where 2 to that power is the number "
                f"of points, got {self.n_nodes}"
            )

    def _straight_only(self, what: str) -> None:
        if self._curved:
            raise ValueError(
                f"{what} is for decoder='linear', where slopes are the same everywhere, and decoder is 'mlp': "
                "inverse_transform tells what bits are along the latents"
            )

    # ---------------------------------------------------------------- learning

    def _widths(self) -> tuple[int, ...]:
        """Units of each layer."""
        if self.decoder_layers is None:
            return _usual_widths(self.n_features_in_)
        given = self.decoder_layers
        widths = tuple(given) if not isinstance(given, str | Integral) and np.ndim(given) == 1 else ()
        if not widths or any(not isinstance(w, Integral) or isinstance(w, bool) or w < 1 for w in widths):
            raise ValueError(f"decoder_layers must be numbers of units from 1 on, one a layer, got {given!r}")
        return tuple(int(w) for w in widths)

    def _curve(self, seen: Seen | None = None, n_places: int | None = None) -> Model:
        """The record; to learn from a table that has `n_places` rows, of which so much is seen."""
        n_rows = 1.0 if seen is None else float(max(seen.n_rows, 1))
        n_blocks = math.ceil((n_rows if n_places is None else n_places) / curved.BATCH)
        n_epochs = self.n_epochs or min(MOST_EPOCHS, math.ceil(UPDATES / n_blocks))
        return curved.model(
            int(self.n_components),
            self._widths(),
            int(self.n_nodes or LOG2_NODES),
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
            n_epochs=min(int(n_epochs), int(self.max_iter)),
            n_blocks=n_blocks,
            rate=float(self.learning_rate or RATE),
            n_rows=n_rows,
        )

    def _curve_for(self, engine: Engine, seen: Seen) -> Model:
        return self._curve(seen, None if engine.weights is None else len(engine.weights))

    def _held_out_share(self) -> float:
        return float(self.validation_fraction or 0)

    def _hold_out(self, rows: Engine, X_val: Any) -> tuple[Engine, Engine | None]:
        """A network has so many parameters that some rows are held out unless somebody says otherwise."""
        usual = self._curved and self.validation_fraction is None and X_val is None
        if usual and isinstance(rows, MemoryEngine) and len(rows.table) >= FEWEST:
            return split(rows, HELD_OUT)
        return super()._hold_out(rows, X_val)

    def _shuffled(self, engine: Engine) -> Engine:
        """Rows in no order, as updates are made from blocks of them."""
        return in_random_order(engine)

    # ---------------------------------------------------------------- what was learned

    def _canonical(self, result: FitResult) -> FitResult:
        """In axes along which log-odds change most on average, the first most of all."""
        params = result.params
        for _ in range(TURNS):
            slopes = curved.mean_slopes(params, self._prior_points())
            params = curved.turned(params, psychometrics.canonical_axes(slopes))
        return result._replace(params=params)

    def _prior_points(self) -> np.ndarray:
        return quasi_monte_carlo(2**LOG2_NODES, int(self.n_components)).nodes

    def _expose_curve(self) -> None:
        p, q = self.params_, int(self.n_components)
        for name in ("components_", "intercept_", "difficulty_", "discrimination_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        self.mean_slopes_ = curved.mean_slopes(p, self._prior_points()).T
        outputs = (p.weights.shape[1] + 1 + p.layers[-1].shape[0]) * (self.n_features_in_ - len(self._idle))
        inside = sum(layer.size for layer in p.layers[:-1]) + sum(offset.size for offset in p.offsets)
        self.n_parameters_ = outputs + inside - q * (q - 1) // 2
        self._n_features_out = q
        self._sample_dtype = np.uint8

    def _curve_shapes(self) -> dict[str, tuple[int | None, ...]]:
        q, d, widths = int(self.n_components), self.n_features_in_, self._widths()
        sizes = (q, *widths, d)
        return {
            "weights": (d, q),
            "bias": (d,),
            **{f"layers.{k}": shape for k, shape in enumerate(pairwise(sizes))},
            **{f"offsets.{k}": (width,) for k, width in enumerate(widths)},
        }

    # ---------------------------------------------------------------- use

    def _error_of_sum(self, rows: LogLikelihood, weights: np.ndarray | None = None) -> float:
        if not isinstance(rows, curved.Scored) or rows.deviations is None:
            return super()._error_of_sum(rows, weights)
        own = np.ones(len(rows.value)) if weights is None else np.asarray(weights, np.float64)
        return curved.error_of_sum(np.asarray(rows.deviations, np.float64), own) + float(
            np.sum(own * np.asarray(rows.rounding, np.float64))
        )


def _usual_widths(n_columns: int) -> tuple[int, int]:
    """Two layers, of more units where there are more columns to bend.

    >>> _usual_widths(10), _usual_widths(100)
    ((64, 64), (128, 128))
    """
    width = 64 if n_columns <= 32 else 128
    return width, width
