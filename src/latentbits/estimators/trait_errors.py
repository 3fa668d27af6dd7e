"""The covariance of a latent trait model's estimates, by rules that become finer until it is steady."""

from __future__ import annotations

import numpy as np

from latentbits.core.model import Model
from latentbits.core.nodes import MOST_GRID
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import seed_key
from latentbits.engines.passes import Engine, start_pass, sum_blocks
from latentbits.estimators.criteria import look
from latentbits.models.latent_trait import information, quadrature
from latentbits.models.latent_trait.kinds import ALL_BITS, Params

__all__ = ["steady_covariance"]

STEADY = 0.02  # relative change of a standard error by a finer rule that is let pass
NOTHING = 1e-12  # of the rows: sums of weights that are no whole numbers differ by so much
SURELY_STEADY = 0.75  # of `quadrature.bend_of`: below, the nodes for it are known to do


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
