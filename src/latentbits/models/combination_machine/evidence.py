"""How wide a Gaussian prior on the weights should be, by the evidence of the rows (MacKay 1992).

With weights w ~ N(0, 1 / alpha), the log of the probability of the rows with the weights integrated out is, around the
weights that the climb has found and for the diagonal of the information H,

    log-likelihood - alpha |w|^2 / 2 - sum_ij log(1 + H_ij / alpha) / 2,

and it is largest in alpha where

    alpha = gamma / |w|^2,    gamma = sum_ij H_ij / (H_ij + alpha):

gamma is the number of weights that the rows determine, rather than the prior.  H is taken as if the hidden units were
seen, of weights that act on (h - its mean) (x - its mean) as in `centring.py`: n (var h_i var x_j - cov(h_i, x_j)^2).

A climb takes a step to that alpha now and then, so that it costs nothing: no path of priors has to be gone, and no row
held out.
"""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Float

from latentbits.core.arrays import Array, namespace
from latentbits.models.combination_machine.bordered import Bordered
from latentbits.models.combination_machine.machine import Units
from latentbits.models.combination_machine.tuning import PRIOR_LEAST_PRECISION, PRIOR_MOST_PRECISION

__all__ = ["Prior", "information", "lost", "now", "precision"]


class Prior(NamedTuple):
    """A Gaussian prior on the weights: its precision, and whether that is to be chosen by the rows (1, else 0)."""

    precision: float
    chosen: float = 0.0

    @classmethod
    def of(cls, width: float | str | None) -> Prior:
        """Make a prior by its standard deviation; None is no prior, "auto" one that the rows choose."""
        if width == "auto":
            return cls(PRIOR_LEAST_PRECISION, 1.0)
        return cls(0.0 if width is None else float(width) ** -2)


def now(prior: Prior, alpha: Float[Array, ""]) -> Float[Array, ""]:
    """Return the precision where learning stands; nothing was chosen yet where it is 0."""
    chosen = (prior.chosen > 0) & (alpha > 0)
    return namespace(alpha).where(chosen, alpha, prior.precision)


def information(units: Units, expected: Bordered, n_rows: Float[Array, ""]) -> Float[Array, "hidden inputs"]:
    """Compute H by the expectations under a machine."""
    xp = namespace(expected)
    p, m = expected[:-1, -1:], expected[-1:, :-1]
    of_inputs = 1 - m**2 if units.name == "binary" else xp.ones_like(m)
    return n_rows * xp.maximum(p * (1 - p) * of_inputs - (expected[:-1, :-1] - p * m) ** 2, 0)


def precision(
    prior: Prior, alpha: Float[Array, ""], weights: Float[Array, "hidden inputs"], known: Float[Array, "hidden inputs"]
) -> Float[Array, ""]:
    """Choose the next alpha; a prior that is given keeps its precision."""
    xp, alpha = namespace(known), now(prior, alpha)
    determined = (known / xp.maximum(known + alpha, 1e-12)).sum()
    chosen = determined / xp.maximum((weights**2).sum(), 1e-12)
    return xp.where(prior.chosen > 0, xp.clip(chosen, PRIOR_LEAST_PRECISION, PRIOR_MOST_PRECISION), prior.precision)


def lost(
    prior: Prior, alpha: Float[Array, ""], weights: Float[Array, "hidden inputs"], known: Float[Array, "hidden inputs"]
) -> Float[Array, ""]:
    """Compute what the prior takes off the log-likelihood, and what weights could be where it is chosen."""
    xp, alpha = namespace(known), now(prior, alpha)
    occam = 0.5 * xp.log1p(known / xp.where(alpha > 0, alpha, 1)).sum()
    return 0.5 * alpha * (weights**2).sum() + prior.chosen * occam
