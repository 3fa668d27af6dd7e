"""The clipped Gaussian of Lee & Sompolinsky (1998): a few Gaussian variables, mixed and cut; the model record.

    y ~ N(0, I_P),    x = W y (+ noise),    s_i = sgn(phi_i + x_i)                 (1), (2), (3), (8)

The paper's equations, by their numbers, are in `equations.py`; the README of `papers/lee_sompolinsky_1998` says which
function computes each of them here.

Learning is one pass, which counts how often bits are 1 together (`core/pair_counts.py`), and then a scalar function of
each pair and one diagonalisation.  The part of a column's variance that P components leave over is either dropped, as
in the paper (`noise="none"`: bits are a function of y), or kept as noise of each column (`noise="unique"`: a probit
factor model, in which every row has a probability).  With noise the paper's alternative, maximum likelihood, can go on
from there (`em.py`).  Given a row, y is integrated over (`use.py`) by a lattice of nodes for all rows (`lattice.py`) or
by points for each row, around where expectation propagation (`expectation.py`) puts it (`likelihood.py`); without noise
the rows that can occur are the cells of an arrangement of hyperplanes (`hyperplane_cells.py`).
"""

from __future__ import annotations

from functools import cache
from typing import Any

from latentbits.core.arrays import AnyKey, namespace
from latentbits.core.model import Model, Progress, Summary
from latentbits.models.clipped_gaussian import em
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian.expectation import Factors
from latentbits.models.clipped_gaussian.learning import Recipe, e_step, objective, whole_stages
from latentbits.models.clipped_gaussian.params import Params
from latentbits.models.clipped_gaussian.tuning import LATTICE_NODES_AT_ONCE
from latentbits.models.clipped_gaussian.use import use_of

__all__ = ["CHOICES", "model"]

CHOICES = {
    "noise": ("unique", "none"),
    "learner": ("moments", "likelihood"),
    "likelihood": ("importance", "ep"),
    "extraction": ("auto", "components", "factors"),
}


def _init(key: AnyKey, summary: Summary) -> Params:
    """Start from nothing: the pairs are not counted yet."""
    xp, d = namespace(summary), len(summary.mean)
    each, pair = xp.zeros(d), xp.zeros((0, 0))
    return Params(
        xp.zeros((d, 1)), each, each + 1, each, pair, pair, pair, pair > 0, pair > 0, each, each, xp.zeros(())
    )


def _prepare(params: Params, state: Any, progress: Progress | None) -> Factors:
    return ep.factors_of(params.weights, params.phi, params.psi)


@cache
def model(
    n_components: int | str = 2,
    noise: str = "unique",
    bias: bool = True,
    correction: float = 0.5,
    repair: bool = False,
    extraction: str = "auto",
    likelihood: str = "importance",
    learner: str = "moments",
    weight_prior: float | None = None,
    accelerate: bool = True,
) -> Model:
    """Make the record of a clipped Gaussian.

    Parameters
    ----------
    n_components, noise, bias, correction, repair, extraction
        As in `Recipe`.
    likelihood
        "importance" or "ep".
    learner
        "moments", or "likelihood", which goes on from there by EM (`em.py`) and needs noise.
    weight_prior
        Of that: standard deviation of a Gaussian prior on the slopes of a column, in units of its noise; None for none.
    accelerate
        Whether its steps are Newton's, expanded and extrapolated; without, each is one of EM that never falls.
    """
    given = {"noise": noise, "extraction": extraction, "likelihood": likelihood, "learner": learner}
    for name, value in given.items():
        if value not in CHOICES[name]:
            raise ValueError(f"{name} must be one of {', '.join(CHOICES[name])}, got {value!r}")
    use = use_of(noise, likelihood)

    def row_floats(n_columns: int) -> int:
        latents = n_components if isinstance(n_components, int) else min(16, n_columns)
        return 12 * n_columns + 4 * latents**2 + 2 * LATTICE_NODES_AT_ONCE

    by_moments = Model(
        name="clipped Gaussian",
        init=_init,
        prepare=_prepare,
        e_step=e_step,
        objective=objective,
        log_likelihood=use.log_likelihood,
        infer=use.infer,
        mean=use.mean,
        decode=use.decode,
        complete=use.complete,
        sample=use.sample,
        row_floats=row_floats,
        stages=whole_stages(Recipe(n_components, noise, bias, correction, repair, extraction)),
        needs_summary=False,
        on_host=True,
    )
    if learner == "moments":
        if weight_prior is not None:
            raise ValueError(
                "weight_prior does not go with learner='moments', which has no prior: take learner='likelihood'"
            )
        return by_moments
    if noise == "none":
        raise ValueError("learner='likelihood' needs noise='unique': without noise most rows have probability 0")
    if n_components == "positive":
        raise ValueError("learner='likelihood' needs a number of components, or 'parallel': 'positive' leaves no noise")
    return em.beyond(by_moments, n_components, bias, weight_prior, accelerate)
