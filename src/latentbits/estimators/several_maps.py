"""Several maps for `LatentTrait`: what it does with `n_maps` above 1."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import numpy as np

from latentbits.core.nodes import MOST_GRID
from latentbits.estimators import psychometrics
from latentbits.estimators.curved_trait import WithCurve
from latentbits.estimators.mixed_columns import WithMixedColumns
from latentbits.models.latent_trait import kinds, mixture_of_maps

__all__ = ["WithMaps", "by_share"]

OF_EACH = ("log_share", "weights", "bias", "log_variance")  # parameters that every map has of its own


class WithMaps(WithMixedColumns, WithCurve):
    """What `LatentTrait` does where there may be several maps."""

    n_maps: int
    shares_: np.ndarray

    def _check_several(self) -> None:
        """Refuse what one map can and several cannot."""
        for name, value in (("equal_discrimination", True), ("method", "monte_carlo")):
            if getattr(self, name) == value:
                raise ValueError(f"{name}={value!r} is for one map, and n_maps is {self.n_maps}: leave one of them out")
        if self.n_components > MOST_GRID:
            raise ValueError(
                f"several maps have up to {MOST_GRID} dimensions each, and n_components is {self.n_components}"
            )

    def _one_map_only(self, what: str) -> None:
        self._straight_only(what)
        if self.n_maps > 1:
            raise ValueError(f"{what} is not defined for several maps, and n_maps is {self.n_maps}: fit one map")

    def _maps(self) -> list[kinds.Params]:
        """The parameters of each map."""
        if self.n_maps == 1:
            return [self.params_]
        return [mixture_of_maps.one_map(self.params_, number) for number in range(int(self.n_maps))]

    def responsibilities(self, X: Any) -> np.ndarray:
        """P(map | row): the probability of each map, given what is observed of a row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_maps)
            Rows sum to 1.
        """
        self._fitted()
        if self.n_maps == 1:
            return np.ones((len(self.transform(X)), 1))
        return self.posterior(X).responsibilities

    def _decoded_on(self, X: Any, maps: Any) -> np.ndarray:
        if maps is None:
            raise ValueError(f"a place alone does not tell its map, and there are {self.n_maps}: give maps, from 0")
        points, numbers = np.asarray(X, float), np.asarray(maps)
        if points.ndim != 2 or points.shape[1] != self._n_features_out:
            raise ValueError(f"points must have shape (n, {self._n_features_out}), found {points.shape}")
        if numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers >= self.n_maps)).any():
            raise ValueError(f"maps must be whole numbers from 0 to {self.n_maps - 1}, found {maps!r}")
        numbers = np.broadcast_to(numbers, len(points))
        return self._decoded(np.column_stack([numbers, points]), self._n_features_out + 1)


def by_share(params: mixture_of_maps.Params) -> mixture_of_maps.Params:
    """The map with the largest share first, and each in its canonical axes."""
    order = np.argsort(-params.log_share, kind="stable")
    ordered = [getattr(params, name)[order] for name in OF_EACH]
    params = eqx.tree_at(lambda p: [getattr(p, name) for name in OF_EACH], params, ordered)
    weights = np.stack([one @ psychometrics.canonical_axes(one) for one in params.weights])
    return eqx.tree_at(lambda p: p.weights, params, weights)
