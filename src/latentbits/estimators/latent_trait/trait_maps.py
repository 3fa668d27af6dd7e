"""`TraitMaps`: a mixture of latent trait maps."""

from __future__ import annotations

from collections.abc import Iterator
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.model import Model
from latentbits.core.nodes import MOST_GRID
from latentbits.estimators.base import LatentModel
from latentbits.estimators.estimator_repr import named_weights, short
from latentbits.estimators.latent_trait.columns import TraitOfColumns
from latentbits.estimators.psychometrics import canonical_axes
from latentbits.models.latent_trait import column_kinds, grid, map_params, maps_use, mixture_of_maps

__all__ = ["TraitMaps"]

OF_EACH = ("log_share", "weights", "bias", "log_variance")  # parameters that every map has


class TraitMaps(TraitOfColumns):
    """A mixture of latent trait maps, the hierarchy in the conclusion of Tipping (1998).

    Each map is a `LatentTrait` model with weights, biases and a share of the rows; a row is on one of them, on which
    with the probabilities of `responsibilities`.  Where rows are of several kinds that vary in different ways, one map
    shows the kinds, and several what varies within each.

    Parameters
    ----------
    n_maps : int, default=2
        Number of maps, from 2.
    n_components : int, default=2
        Number of latent dimensions of each, up to three.
    method : {"auto", "variational", "quadrature"}, default="auto"
        "variational" is EM that maximises a bound, as in the paper; "quadrature" is maximum likelihood by nodes adapted
        to each row.  "auto" is variational EM to get near, and then quadrature.
    column_types : None, "infer", list or dict, default=None
        None takes bits only; else the kinds of the columns, as in `LatentTrait`.
    noise : {"own", "shared"}, default="own"
        Variance of the continuous columns on each map: one for each, or one for all, in the units of the data.
    weight_prior : float or None, default=None
        Standard deviation of a Gaussian prior on the weights: None is maximum likelihood, 3 is weak.
    n_nodes : int or None, default=None
        Nodes a dimension to learn with by quadrature; None chooses by what rows have observed and by slopes.
    n_init : int or None, default=None
        Number of restarts; the best objective is kept.  None is 4, as there are several maxima:
        all of them go a part of the way, and the best to the end.
    random_state, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.  Where columns are of several kinds `binarize` is for the binary ones.

    Attributes
    ----------
    shares_ : ndarray of shape (n_maps,)
        Share of the rows on each map, the largest first.
    components_ : ndarray of shape (n_maps, n_components, n_outputs)
        Weights of each map: ``P(bit = 1 | z) = sigmoid(z @ components_[m] + intercept_[m])``.  In a canonical rotation:
        components are orthogonal, the longest first, each with a sum that is not negative.
    intercept_ : ndarray of shape (n_maps, n_outputs)
        Biases.
    noise_variance_ : ndarray of shape (n_maps, n_columns)
        With `column_types`: variance of each continuous column given the latents, NaN for the others.
    categories_ : dict
        With `column_types`: sorted labels of each categorical column, by name (or position, where columns have none).
    output_names_ : list of str
        With `column_types`: names of the outputs, such as "age" or "colour=red".
    n_parameters_ : int
        Free parameters, the rotation taken off.  A column that is constant, or never observed, has none: its
        probability is that of the maximum (a thousandth of a nat short of 0 or 1 in all), its weights are 0.
    dtype_, history_, history_table_, objective_, n_iter_, left_to_gain_, converged_, stop_reason_
        As everywhere.
    n_rows_, n_features_in_, feature_names_in_
        As everywhere.

    Examples
    --------
    >>> from latentbits import TraitMaps, load_dataset
    >>> X = load_dataset("lsat7").X
    >>> m = TraitMaps(2, n_components=1, n_init=1, max_iter=5, tol=1.0, random_state=0).fit(X)
    >>> m.components_.shape, m.responsibilities(X).shape
    ((2, 1, 5), (1000, 2))
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        **TraitOfColumns._column_constraints,
        "n_maps": [Interval(Integral, 2, 1000, closed="both")],
        "n_components": [Interval(Integral, 1, MOST_GRID, closed="both")],
        "method": [StrOptions(set(mixture_of_maps.METHODS))],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "n_nodes": [Interval(Integral, 1, 60, closed="both"), None],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }
    _params_class: ClassVar[type] = map_params.Params

    shares_: np.ndarray

    def __init__(
        self,
        n_maps: int = 2,
        n_components: int = 2,
        *,
        method: str = "auto",
        column_types: Any = None,
        noise: str = "own",
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
        self.n_maps = n_maps
        self.n_components = n_components
        self.method = method
        self.column_types = column_types
        self.noise = noise
        self.weight_prior = weight_prior
        self.n_nodes = n_nodes
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # ---------------------------------------------------------------- the record

    def _build(self, **settings: Any) -> Model:
        return mixture_of_maps.model(n_maps=int(self.n_maps), **settings)

    def _with_grids(self, model: Model, grids: tuple[grid.Grid, ...]) -> Model:
        return maps_use.with_grids(model, grids)

    def _each_map(self, params: Any) -> list[column_kinds.Params]:
        return [map_params.one_map(params, number) for number in range(int(self.n_maps))]

    @property
    def _scored(self) -> bool:
        return False

    @property
    def _n_restarts(self) -> int:
        return 4 if self.n_init is None else int(self.n_init)

    # ---------------------------------------------------------------- what was learned

    def _canonical(self, params: map_params.Params) -> map_params.Params:
        """Put the map with the largest share first, and each in its canonical axes."""
        order = np.argsort(-params.log_share, kind="stable")
        params = params.replace(**{name: getattr(params, name)[order] for name in OF_EACH})
        weights = np.stack([one @ canonical_axes(one) for one in params.weights])
        return params.replace(weights=weights)

    def _expose_outputs(self) -> None:
        parts = zip(*(self._outputs_of(one) for one in self._each_map(self.params_)))
        self.components_, self.intercept_, *noise = (np.stack(part) for part in parts)
        if noise:
            (self.noise_variance_,) = noise
        self.shares_ = np.exp(self.params_.log_share)

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        n, one = int(self.n_maps), super()._shapes()
        shared = {name: one.pop(name) for name in ("centre", "scale")}
        return {**{name: (n, *shape) for name, shape in one.items()}, "log_share": (n,), **shared}

    def _causes(self) -> Iterator[tuple[str, str]]:
        for place, share in enumerate(self.shares_):
            found = named_weights("", self._output_words(), self.components_[place])
            yield f"map {place + 1}", f"{share:.0%} of rows; {', '.join(short(words) for _, words in found)}"

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> np.ndarray:
        """Compute posterior means of the latents of each row, on the map that it most probably is on.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Places on different maps cannot be compared: `responsibilities` has the map, and `posterior(X).means` the
            means on all of them, (n_rows, n_maps, n_components).
        """
        return super().transform(X)

    def responsibilities(self, X: Any) -> np.ndarray:
        """Compute P(map | row): the probability of each map, given what is observed of a row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_maps)
            Rows sum to 1.
        """
        return self.posterior(X).responsibilities

    def inverse_transform(self, X: Any, maps: Any = None) -> np.ndarray:
        """Compute the mean of each column at given points of the maps: P(bit = 1 | latents) for bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_components)
            Latents, as `transform` gives them.
        maps : int or array-like of shape (n_rows,)
            Number of the map, from 0, that each point is on.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            For a categorical column the probabilities of its categories; `output_names_` has the names.
        """
        self._fitted()
        if maps is None:
            raise ValueError(f"maps is required: the model has {self.n_maps} maps (0 to {self.n_maps - 1})")
        points, numbers = np.asarray(X, float), np.asarray(maps)
        if points.ndim != 2 or points.shape[1] != self._q:
            raise ValueError(f"points must have shape (n, {self._q}), found {points.shape}")
        if numbers.dtype.kind not in "iu" or ((numbers < 0) | (numbers >= self.n_maps)).any():
            raise ValueError(f"maps must be whole numbers from 0 to {self.n_maps - 1}, found {maps!r}")
        numbers = np.broadcast_to(numbers, len(points))
        return self._in_units(self._decoded(np.column_stack([numbers, points]), self._q + 1))
