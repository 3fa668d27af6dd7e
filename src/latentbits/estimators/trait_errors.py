"""Standard errors of a latent trait model's estimates, by rules that become finer until they are steady."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import Model
from latentbits.core.nodes import MOST_GRID
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import seed_key
from latentbits.engines.passes import Engine, start_pass, sum_blocks
from latentbits.estimators import psychometrics
from latentbits.estimators.criteria import is_sampling, look
from latentbits.estimators.item_models import ItemErrors, WithItemModels
from latentbits.estimators.psychometrics import RUNAWAY, StandardErrors
from latentbits.estimators.several_maps import WithMaps
from latentbits.models.latent_trait import information, quadrature
from latentbits.models.latent_trait.kinds import ALL_BITS, Params
from latentbits.reports.items import listed

__all__ = ["WithTraitErrors", "steady_covariance"]

LARGEST_INFORMATION = 6000  # parameters; the square of it in float64 is 288 MB
STEADY = 0.02  # relative change of a standard error by a finer rule that is let pass
NOTHING = 1e-12  # of the rows: sums of weights that are no whole numbers differ by so much
SURELY_STEADY = 0.75  # of `quadrature.bend_of`: below, the nodes for it are known to do


class WithTraitErrors(WithMaps, WithItemModels):
    """A latent trait model whose estimates have standard errors."""

    def standard_errors(
        self, X: Any, sample_weight: Any = None, weights_are: str = "counts"
    ) -> StandardErrors | ItemErrors:
        """Standard errors of weights, biases, difficulties and discriminations.

        From the observed information of the rows (Louis's identity, by quadrature, in float64).  In several dimensions
        they are those of the canonical rotation: components orthogonal to each other, which is how `components_` is
        given.  With `weight_prior` the information of the prior is added.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The rows that the model was fitted to.
        sample_weight : array-like of shape (n_rows,) or None
            The weights that it was fitted with.
        weights_are : {"counts", "sampling"}, default="counts"
            How often a row was met, or the inverse of the chance that it had to come into the sample (in any unit).
            Then errors are those of the sandwich form, and rows must not have been put together: two that are alike
            are two draws.  Without weights it is the form that holds for a model that is not quite right.

        Returns
        -------
        StandardErrors
            `components` (n_components, n_columns), `intercept`, `difficulty`, `discrimination` (n_columns,), and the
            `covariance` of all estimates.  NaN for columns without a finite estimate, and for those whose error finer
            and finer rules do not agree on, which a warning names.  Of item models an `ItemErrors`, which has those of
            asymptotes, groups and coefficients, too; the information of their priors is added.
        """
        model = self._fitted()
        if self._by_items:
            return self._item_errors(X, sample_weight, weights_are)
        self._one_map_only("standard_errors")
        self._bits_only("standard_errors")
        weights, bias = self.params_.weights, self.params_.bias
        d, q = weights.shape
        if d * (q + 1) > LARGEST_INFORMATION:
            raise ValueError(
                f"standard errors need a matrix of {d * (q + 1)} x {d * (q + 1)} numbers, and this stops at "
                f"{LARGEST_INFORMATION}: fit fewer columns"
            )
        sandwich = is_sampling(weights_are)
        engine = self._open(X, reset=False, sample_weight=sample_weight)
        # under a prior a steep weight is an estimate like any other
        steep = (np.linalg.norm(weights, axis=1) > RUNAWAY) & (self.weight_prior is None)
        if steep.any():
            names = [self._name(i) for i in np.flatnonzero(steep).tolist()]
            warnings.warn(
                f"the weights of {listed(names)} run to infinity: they have no standard errors (NaN), and those of "
                "the other columns hold them fixed. weight_prior=3, say, keeps them finite",
                UserWarning,
                stacklevel=2,
            )
        prior = None if self.weight_prior is None else float(self.weight_prior)
        covariance, unsteady = steady_covariance(
            model,
            engine,
            self.params_,
            steep,
            int(self.n_nodes or 0),
            bool(self.equal_discrimination),
            prior,
            sandwich=sandwich,
        )
        if covariance is None:
            warnings.warn(
                "the observed information is not positive definite, so there are no standard errors (NaN): the fit has "
                "not converged, or there are more latents than the data can tell",
                UserWarning,
                stacklevel=2,
            )
            covariance = np.full((d * (q + 1), d * (q + 1)), np.nan)
        elif unsteady.any():
            names = [self._name(i) for i in np.flatnonzero(unsteady).tolist()]
            warnings.warn(
                f"the standard errors of {listed(names)} still change with the number of nodes, and are not told "
                "(NaN): their slopes are steep for what rows have observed. weight_prior=3, say, makes them less steep",
                PrecisionWarning,
                stacklevel=2,
            )
            gone = np.repeat(unsteady, q + 1)
            covariance[gone] = covariance[:, gone] = np.nan
        return psychometrics.item_errors(weights, bias, covariance, self._column_names())


def steady_covariance(
    model: Model,
    engine: Engine,
    params: Params,
    steep: np.ndarray,
    n_nodes: int,
    tied: bool,
    weight_prior: float | None,
    sandwich: bool = False,
) -> tuple[np.ndarray | None, np.ndarray]:
    """Covariance of the estimates, by finer and finer rules until it is steady; and which columns' is not.

    None where the information is not positive definite.

    Parameters
    ----------
    steep
        (columns,) which have no finite estimate, and are held where they are.
    n_nodes
        The fewest nodes to begin with.
    tied
        All columns share one weight.
    sandwich
        Whether the weights of rows are those of a sample, and not counts.
    """
    weights, double = np.asarray(params.weights), np.dtype(np.float64)
    d, q = weights.shape
    seen = look(engine)
    bend = quadrature.bend_of(ALL_BITS, params, seen.few)
    needed = quadrature.nodes_for(q, bend, seen.n_rows)
    n_nodes = max(needed, n_nodes, quadrature.nodes_at_first(q, seen.few))
    most = max(n_nodes, quadrature.MOST_NODES[min(q, MOST_GRID + 1)])
    if bend > SURELY_STEADY and not steep.any():  # two rules at least are compared
        n_nodes = min(n_nodes, most - 1 if q > MOST_GRID else (most + 1) // 2)
    precision = 0.0 if weight_prior is None else 1 / weight_prior**2
    given = start_pass(model, double, params, seed_key(0, "use"))

    def by(n_nodes: int) -> np.ndarray | None:
        summing = model._replace(e_step=information.e_step(q, n_nodes), start_rows=None)
        layout = layout_for(information.row_floats(q, d, n_nodes), double)
        (stats,) = sum_blocks(summing, engine, layout, lambda: given, {})
        ones, observed = np.asarray(stats.ones), np.asarray(stats.observed)
        free = (ones > 0) & (observed - ones > NOTHING * observed) & ~steep
        spread = np.asarray(stats.spread) if sandwich else None
        try:
            return information.covariance(np.asarray(stats.information), weights, free, tied, precision, spread)
        except np.linalg.LinAlgError:
            return None

    found, unsteady = by(n_nodes), np.zeros(d, bool)
    if found is not None and bend <= SURELY_STEADY:
        return found, unsteady
    while n_nodes < most:
        n_nodes = min(n_nodes + 1 if q > MOST_GRID else 2 * n_nodes - 1, most)
        finer = by(n_nodes)
        if finer is not None and found is not None:
            before, after = (np.sqrt(np.diag(one)).reshape(d, q + 1) for one in (found, finer))
            unsteady = np.nan_to_num(np.abs(before / after - 1)).max(1) > STEADY
            if not unsteady.any():
                return finer, unsteady
        found = finer
    return found, unsteady
