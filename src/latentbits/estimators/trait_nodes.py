"""How many nodes `LatentTrait` learns with, and tells likelihoods with: as many as slopes ask for and time allows."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from latentbits.core.model import LogLikelihood, Model, Stop
from latentbits.core.nodes import MANY_COLUMNS, MOST_GRID
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine, distinct
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import Seen
from latentbits.estimators.item_models import WithItemModels
from latentbits.estimators.precision import error_of_sum, sum_of
from latentbits.estimators.psychometrics import RUNAWAY
from latentbits.estimators.several_maps import WithMaps
from latentbits.estimators.trait_likelihoods import ENOUGH, refined
from latentbits.models.latent_trait import grid, mixture_of_maps, quadrature
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.kinds import ALL_BITS

__all__ = ["WithNodes"]

FEW_COLUMNS = 10  # per latent dimension
MOST_TERMS = 2**25  # rows x columns x nodes to learn with, where slopes ask for more than the first
FEW_NODES = 5  # a dimension, where rows have observed many columns
MOST_CHECKED = {1: 2**20, 2: 2**20, 3: 2**16, 4: 2**20}  # rows x columns of which the likelihood takes seconds


class WithNodes(WithMaps, WithItemModels):
    """A latent trait model that learns by quadrature, with more nodes where slopes turn out to be steep."""

    method: str
    n_samples: int
    n_rounds: int
    accelerate: bool

    _seen: Seen | None = None  # of the table of the last fit

    @property
    def _on_grid(self) -> bool:
        return self.n_components <= MOST_GRID

    @property
    def _few(self) -> int | None:
        """Columns that nearly every row of the table of the last fit has observed; None for all of them."""
        return self._seen.few if self._seen is not None and self._seen.few < self.n_features_in_ else None

    def _record(self, n_nodes: int | None = None, method: str | None = None, few: int | None = None) -> Model:
        """The record for so many nodes to learn with, None chooses; `few` is what nearly every row has observed."""
        # with few columns the bound is so loose that its optimum is no place to start from, and can be w = 0
        alone = self.method == "auto" and (few or self.n_features_in_) < FEW_COLUMNS * self.n_components
        n_nodes = n_nodes or self.n_nodes
        settings: dict[str, Any] = {
            "n_components": int(self.n_components),
            "method": method or ("quadrature" if alone else self.method),
            "columns": self._columns(),
            "weight_prior": None if self.weight_prior is None else float(self.weight_prior),
            "n_nodes": None if n_nodes is None else int(n_nodes),
            "accelerate": bool(self.accelerate),
            "seen": few,
            "n_rounds": int(self.n_rounds),
        }
        if self.n_maps > 1:
            return mixture_of_maps.model(n_maps=int(self.n_maps), **settings)
        tied, n_samples = bool(self.equal_discrimination), int(self.n_samples)
        return latent_trait.model(equal_discrimination=tied, n_samples=n_samples, **settings)

    # ---------------------------------------------------------------- to learn with

    def _learned_on(self, engine: Engine, result: FitResult) -> bool:
        """Go on with more nodes while slopes ask for them; whether they ask for more than there are, to be checked."""
        by_nodes, seen = self.n_nodes is None and self.method in ("auto", "quadrature"), self._seen
        assert seen is not None
        used = quadrature.nodes_at_first(int(self.n_components), seen.few)
        used = used if self.n_components <= MOST_GRID else quadrature.LAST_NET
        small = seen.n_rows * self.n_features_in_ <= MOST_CHECKED[min(int(self.n_components), MOST_GRID + 1)]
        if by_nodes and small and self._nodes_needed(seen) > self._affordable(seen, engine):
            engine = distinct(engine)
        most = max(self._affordable(seen, engine), used)
        by_nodes &= result.reason is not Stop.HELD_OUT
        while by_nodes and not result.reason.cut_short and (needed := min(self._nodes_needed(seen), most)) > used:
            left = None if self.max_time is None else max(self.max_time - result.seconds, 1e-3)
            limits, used = Limits(self.max_iter, self.tol, left), needed
            try:
                more = fit(
                    self._record(used, "quadrature", self._few),
                    engine,
                    seed_key(0),
                    params=result.params,
                    limits=limits,
                    dtype=np.dtype(self.dtype_),
                    verbose=self.verbose,
                    held_out=self._held_out,
                )
            except KeyboardInterrupt:  # what was learned with fewer stands
                result = result._replace(reason=Stop.INTERRUPTED)
                self._adopt(result)
                break
            result = more._replace(
                history=result.history + more.history,
                n_iter=result.n_iter + more.n_iter,
                seconds=result.seconds + more.seconds,
            )
            self._adopt(result)
        needed, last = self._nodes_needed(seen), quadrature.MOST_NODES[min(int(self.n_components), MOST_GRID + 1)]
        return by_nodes and small and (needed > used or used == last)

    def _short_by(self, engine: Engine) -> float:
        """By how many nats the nodes of learning tell the log-likelihood wrong, by those of use."""
        precision = 0.0 if self.weight_prior is None else 1 / float(self.weight_prior) ** 2
        by_learning = self.objective_ + 0.5 * precision * float(np.sum(self.params_.weights**2))
        model, dtype = self._fitted(), np.dtype(self.dtype_)
        rows = super()._rounded(model, engine, dtype)
        short = abs(by_learning - sum_of(rows, engine.weights))
        # only where the first net cannot tell whether that is much, those for rows that need them are asked too
        if self._on_grid or abs(short - ENOUGH) > error_of_sum(rows, self._errors_average_out, engine.weights):
            return short
        rows = self._rounded(model, engine, dtype)
        return abs(by_learning - sum_of(rows, engine.weights))

    def _nodes_needed(self, seen: Seen) -> int:
        bend = max(quadrature.bend_of(self._columns(), one, seen.few) for one in self._maps())
        return quadrature.nodes_for(int(self.n_components), bend, seen.n_rows)

    def _affordable(self, seen: Seen, engine: Engine) -> int:
        """The most nodes with which a pass takes a fraction of a second; steep slopes would ask for any number."""
        n_rows = len(engine.table) if isinstance(engine, MemoryEngine) else seen.n_rows
        q, each = int(self.n_components), MOST_TERMS / max(n_rows * self.n_features_in_ * self.n_maps, 1)
        most = quadrature.MOST_NODES[min(q, MOST_GRID + 1)]
        if q <= MOST_GRID and seen.few >= MANY_COLUMNS:
            # posteriors are narrow; slopes that run to infinity ask for any number of nodes, and find no maximum
            steepest = np.linalg.norm(self.params_.weights, axis=-1).max()
            most = 0 if steepest > RUNAWAY and self.weight_prior is None else FEW_NODES
        return min(most, int(each ** (1 / q)) if q <= MOST_GRID else int(math.log2(max(each, 1))))

    # ---------------------------------------------------------------- to look at rows with

    @property
    def _of_bits(self) -> bool:
        """Whether rows can be looked at by nodes that stand for all of them: of bits, on lines or planes."""
        linear = not (self._curved or self._by_items)
        return linear and self.n_components <= grid.MOST_DIMENSIONS and self._columns() == ALL_BITS

    @property
    def _grids(self) -> tuple[grid.Grid, ...]:
        """Nodes for each map; none where rows have nodes of their own."""
        found = (
            [grid.for_use(np.asarray(one.weights), np.asarray(one.bias)) for one in self._maps()]
            if self._of_bits
            else []
        )
        return tuple(one for one in found if one is not None) if None not in found else ()

    def _by_grids(self, model: Model, grids: tuple[grid.Grid, ...]) -> Model:
        if not grids:
            return model
        return latent_trait.with_grid(model, *grids) if self.n_maps == 1 else mixture_of_maps.with_grids(model, grids)

    def _fitted(self) -> Model:
        return self._by_grids(super()._fitted(), self._grids)

    @property
    def _errors_average_out(self) -> bool:
        return not self._on_grid

    def _rounded(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        """log p(x) of each row; above three dimensions by finer nets where errors are largest, until all is small."""
        if self._by_items:
            return self._rounded_items(model, engine, dtype)
        rows = super()._rounded(model, engine, dtype)
        if self._curved or self._on_grid:
            return rows
        return refined(rows, model, self.params_, engine, self._columns(), dtype)
