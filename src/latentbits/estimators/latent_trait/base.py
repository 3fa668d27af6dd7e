"""The base of the models of this folder whose map is linear: how they learn, with enough nodes, and look at rows.

    LatentTrait     one map; columns of several kinds (columns.py)
    TraitMaps       several of them
    ItemResponse    bits, whose weights and biases are parameters of items

`CurvedTrait`, whose map is a network, stands beside them.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import LogLikelihood, Model, Stop
from latentbits.core.nodes import MOST_GRID
from latentbits.engines.fit import FitResult, go_on
from latentbits.engines.memory import distinct
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import Seen, WithCriteria, look
from latentbits.estimators.latent_trait import nodes
from latentbits.estimators.latent_trait.likelihoods import ENOUGH_NATS, refined
from latentbits.estimators.precision import error_of_sum, sum_of
from latentbits.estimators.psychometrics import RUNAWAY_SLOPE, canonical_axes
from latentbits.models.latent_trait import column_kinds, grid, tuning, use
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns
from latentbits.reports.items import listed

__all__ = ["LinearTrait", "in_canonical_axes", "n_free", "quoted"]


class LinearTrait(WithCriteria):
    """A model of Gaussian latents with a linear map to the log-odds of bits, which learns by quadrature.

    A class of this kind has a constructor, `_build` (its record), `_expose` and `_shapes`; the options below are those
    that not all of them have.
    """

    n_components: int
    weight_prior: float | None
    n_nodes: int | None
    method: str = "auto"
    n_maps: int = 1

    params_: Any
    _seen: Seen | None = None  # what the table of the last fit has observed
    _n_learned: int = 0  # nodes of the last fit, where it chose them
    _tied: bool = False  # one weight for all columns
    _fewer: str = "Fewer n_components"  # what would save parameters

    # ---------------------------------------------------------------- the record

    @abstractmethod
    def _build(self, **settings: Any) -> Model:
        """Build the record for these settings, and those that are the class's own."""

    @property
    def _q(self) -> int:
        """Number of latent dimensions."""
        return int(self.n_components)

    def _columns(self) -> Columns:
        """Return the kinds of the columns."""
        return ALL_BITS

    def _each_map(self, params: Any) -> list[column_kinds.Params]:
        """List the parameters map by map."""
        return [params]

    def _canonical(self, params: Any) -> Any:
        """Turn the model to the rotation in which it is shown."""
        return in_canonical_axes(params)

    @property
    def _on_grid(self) -> bool:
        return self._q <= MOST_GRID

    @property
    def _scored(self) -> bool:
        """Whether the program that gives likelihoods gives places, too."""
        return self._on_grid

    @property
    def _by_nodes(self) -> bool:
        """Whether it learns by nodes whose number it chooses."""
        return self.n_nodes is None and self.method in ("auto", "quadrature")

    @property
    def _few(self) -> int | None:
        """Columns that nearly every row of the table of the last fit has observed; None for all of them."""
        return self._seen.few if self._seen is not None and self._seen.few < self.n_features_in_ else None

    def _record(self, n_nodes: int | None = None, method: str | None = None, few: int | None = None) -> Model:
        """Make the record to learn with these nodes, None chooses; `few` is what nearly every row has observed."""
        # with few columns the bound is so loose that its optimum is no place to start from, and can be w = 0
        alone = self.method == "auto" and (few or self.n_features_in_) < 10 * self._q
        n_nodes = n_nodes or self.n_nodes
        return self._build(
            n_components=self._q,
            method=method or ("quadrature" if alone else self.method),
            columns=self._columns(),
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
            n_nodes=None if n_nodes is None else int(n_nodes),
            seen=few,
        )

    def _check(self) -> None:
        """Refuse options that do not go together."""
        if self._q > MOST_GRID and self.n_nodes is not None and not 5 <= self.n_nodes <= 14:
            raise ValueError(
                f"n_nodes must be between 5 and 14 above {MOST_GRID} latent dimensions, where 2 to that power is the "
                f"number of points, got {self.n_nodes}"
            )

    def _model(self) -> Model:
        self._check()
        return self._record()

    def _model_for(self, engine: Engine) -> Model:
        model = self._model()
        self._seen = look(engine)
        return model if self._few is None else self._record(few=self._few)

    @property
    def _n_restarts(self) -> int:
        if self.n_init is not None:
            return int(self.n_init)
        return 4 if self._by_nodes and not self._on_grid else 1

    @property
    def _has_prior(self) -> bool:
        return self.weight_prior is not None

    # ---------------------------------------------------------------- learning

    def _learn_on(self, engine: Engine, result: FitResult) -> FitResult:
        """Continue with more nodes, while slopes turn out to be steep for those that there are, and time allows."""
        seen = self._seen
        assert seen is not None
        self._n_learned = nodes.first(self._q, seen)
        if not self._by_nodes or result.reason is Stop.HELD_OUT:
            return result
        if self._checkable(seen) and self._needed(result.params) > self._affordable(result.params, engine):
            engine = distinct(engine)
        most = max(self._affordable(result.params, engine), self._n_learned)
        limits = Limits(self.max_iter, self.tol, self.max_time)
        while not result.reason.cut_short and (n := min(self._needed(result.params), most)) > self._n_learned:
            self._n_learned = n
            record = self._record(n, "quadrature", self._few)
            result = go_on(record, engine, result, limits, verbose=self.verbose, held_out=self._held_out)
        return result

    def _checkable(self, seen: Seen) -> bool:
        """Return whether the likelihood of the table takes seconds at most."""
        return seen.n_rows * self.n_features_in_ <= nodes.MOST_CHECKED_CELLS[min(self._q, MOST_GRID + 1)]

    def _needed(self, params: Any) -> int:
        assert self._seen is not None
        return nodes.needed(self._columns(), self._each_map(self._canonical(params)), self._seen)

    def _affordable(self, params: Any, engine: Engine) -> int:
        assert self._seen is not None
        maps, prior = self._each_map(self._canonical(params)), self.weight_prior is not None
        return nodes.affordable(maps, self._seen, engine, self.n_features_in_, prior)

    def _adopt(self, result: FitResult) -> None:
        columns = self._columns()
        bits = range(self.n_features_in_) if columns.binary is None else columns.binary
        self._idle = () if self._seen is None else tuple(place for place in bits if self._seen.idle[place])
        super()._adopt(result._replace(params=self._canonical(result.params)))

    def _finish(self, engine: Engine, result: FitResult) -> None:
        """Warn of weights without a maximum, of nodes that are too few, and of parameters that are too many."""
        columns = self._columns()
        size = np.max([np.linalg.norm(one.weights, axis=1) for one in self._each_map(self.params_)], axis=0)
        if columns.binary is None:
            places = np.arange(len(size))
        else:
            several = [place for place, n in zip(columns.categorical, columns.n_classes) for _ in range(n - 1)]
            places = np.array([*columns.binary, *columns.continuous, *several])
            size[len(columns.binary) : len(columns.binary) + columns.n_reals] = 0  # a Gaussian's do not run away
        names = [quoted(self, i) for i in np.unique(places[size > RUNAWAY_SLOPE]).tolist()]
        if names and self.weight_prior is None:
            warnings.warn(
                f"the weights of {listed(names)} run to infinity (|w| up to {size.max():.0f} when the fit stopped): "
                "the latents determine these bits wholly. Their probabilities are near 0 and 1 and can be used; "
                "weights and difficulties mean little. weight_prior=3, say, keeps them finite",
                UserWarning,
                stacklevel=4,
            )
        elif self._may_be_short(result) and (short := self._short_by(engine)) > ENOUGH_NATS:
            less_steep = ": weight_prior=3, say, makes slopes less steep" if self.weight_prior is None else ""
            warnings.warn(
                f"the log-likelihood, by which fits are compared, is known to ±{short:.2g} nats only, since slopes are "
                f"steep{less_steep}",
                PrecisionWarning,
                stacklevel=4,
            )
        self._warn_of_freedom()

    def _may_be_short(self, result: FitResult) -> bool:
        """Return whether slopes ask for more nodes than were used or can be, and this can be checked."""
        if not self._by_nodes or result.reason is Stop.HELD_OUT:
            return False
        assert self._seen is not None
        last = tuning.MOST_NODES_PER_DIMENSION[min(self._q, MOST_GRID + 1)]
        too_few = self._needed(self.params_) > self._n_learned or self._n_learned == last
        return self._checkable(self._seen) and too_few

    def _short_by(self, engine: Engine) -> float:
        """Compute by how many nats the nodes of learning miss the log-likelihood by those of use."""
        precision = 0.0 if self.weight_prior is None else 1 / float(self.weight_prior) ** 2
        by_learning = self.objective_ + 0.5 * precision * float(np.sum(self.params_.weights**2))
        model, dtype = self._fitted(), np.dtype(self.dtype_)
        rows = super()._rounded(model, engine, dtype)
        short = abs(by_learning - sum_of(rows, engine.weights))
        # only where the first net does not show whether that is much, those for rows that need them are asked too
        if self._on_grid or abs(short - ENOUGH_NATS) > error_of_sum(rows, self._errors_average_out, engine.weights):
            return short
        rows = self._rounded(model, engine, dtype)
        return abs(by_learning - sum_of(rows, engine.weights))

    def _warn_of_freedom(self) -> None:
        """Warn where answers can differ in fewer ways than there are parameters."""
        freedom = self._freedom()
        if freedom is not None and self.n_parameters_ > freedom and self.weight_prior is None:
            warnings.warn(
                f"{self.n_parameters_} parameters for {freedom} degrees of freedom, as {self._what_varies()} that vary "
                f"have {freedom + 1} patterns: many parameters fit equally well, and these are one choice. "
                f"{self._fewer} or weight_prior=3, say, would do",
                UserWarning,
                stacklevel=5,
            )

    def _what_varies(self) -> str:
        return f"{self._n_varying} binary columns"

    def _off_maximum(self) -> Iterator[str]:
        if self.weight_prior is not None:
            yield f"weight_prior={self.weight_prior:g}"

    def _provisos(self) -> Iterator[str]:
        if self.weight_prior is not None:
            yield f"with the penalty of weight_prior={self.weight_prior:g}"

    # ---------------------------------------------------------------- use

    @property
    def _of_bits(self) -> bool:
        """Whether rows can be looked at by nodes that stand for all of them: of bits, on lines or planes."""
        return self._q <= 2 and self._columns() == ALL_BITS

    def _with_grids(self, model: Model, grids: tuple[grid.Grid, ...]) -> Model:
        """Make the record that looks at rows by these nodes, one grid a map."""
        return use.with_grid(model, *grids)

    def _fitted(self) -> Model:
        model = super()._fitted()
        if not self._of_bits:
            return model
        found = [grid.for_use(np.asarray(one.weights), np.asarray(one.bias)) for one in self._each_map(self.params_)]
        grids = tuple(one for one in found if one is not None)
        return self._with_grids(model, grids) if len(grids) == len(found) else model

    @property
    def _errors_average_out(self) -> bool:
        return not self._on_grid

    def _rounded(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        """Compute log p(x) of each row; above three dimensions by finer nets where errors are largest."""
        rows = super()._rounded(model, engine, dtype)
        return rows if self._on_grid else refined(rows, model, self.params_, engine, self._columns(), dtype)

    def transform(self, X: Any) -> np.ndarray:
        """Compute posterior means of the latents of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_latents)
        """
        # by the program of `score`, where that has looked at the posterior
        return self._map_rows(self._fitted().log_likelihood, X).mean if self._scored else super().transform(X)


def in_canonical_axes(params: column_kinds.Params) -> column_kinds.Params:
    """Turn the model so that its components are orthogonal, the longest first."""
    return params.replace(weights=params.weights @ canonical_axes(np.asarray(params.weights)))


def n_free(weights: np.ndarray, n_biases: int, n_idle: int, tied: bool = False) -> int:
    """Count the free weights and biases of a map, less its rotation and the columns that do not vary."""
    n_outputs, q = weights.shape[-2:]
    n = n_outputs - n_idle
    rank = min(n, q)
    slopes = min(1, n) if tied else n * rank - rank * (rank - 1) // 2
    return slopes + n_biases - n_idle


def quoted(model: Any, column: int) -> str:
    """Write the name of a column for a sentence: in quotes, or by its number where it has none."""
    names = getattr(model, "feature_names_in_", None)
    return f"column {column}" if names is None else f"{str(names[column])!r}"
