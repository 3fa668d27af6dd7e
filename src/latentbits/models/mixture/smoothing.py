"""How strongly components are drawn to the column means, chosen by the data: empirical Bayes.

Where each probability m_kj is drawn from Beta(s c_j, s (1 - c_j)) around its column's mean c_j, rows whose components
are known have the probability

    prod_kj  B(s c_j + ones_kj, s (1 - c_j) + zeros_kj) / B(s c_j, s (1 - c_j))

with all m_kj integrated out.  With the expected counts of EM for the known ones, and the entropy of responsibilities
added, it is a lower bound on the log-probability of the rows (Beal & Ghahramani 2003), and its maximum over s is the
strength (Minka 2000).  With it, a probability's posterior mean is what `model.with_prior` and the M-step give.
"""

from __future__ import annotations

from typing import Any

import jax.scipy.special
import scipy.special
from jaxtyping import Float, ScalarLike

from latentbits.core.arrays import Array, namespace, on_device, repeat
from latentbits.core.special import TINY
from latentbits.models.mixture import tuning
from latentbits.models.mixture.coordinates import Counts, Params

__all__ = ["Smoothed", "log_evidence", "most_probable", "moved", "strength_of"]


class Smoothed(Params):
    """Parameters with the strength that was chosen for them."""

    smoothing: Float[Array, ""]


def strength_of(given: ScalarLike, params: Params) -> ScalarLike:
    """Return the strength that was chosen, or else the one given."""
    return params.smoothing if isinstance(params, Smoothed) else given


def moved(params: Params, to: Params) -> Params:
    """Replace weights and means, and keep the kind of parameters."""
    return Smoothed(to.weights, to.means, params.smoothing) if isinstance(params, Smoothed) else to


def _special(counts: Counts) -> Any:
    return jax.scipy.special if on_device(counts) else scipy.special


def _zeros(owned: Counts) -> Float[Array, "components columns"]:
    return namespace(owned).maximum(owned.observed - owned.ones, 0)  # but for rounding


def most_probable(strength: ScalarLike, owned: Counts, mean: Float[Array, " columns"]) -> Float[Array, ""]:
    """Find the strength under which the counts are most probable.

    By Minka's fixed point, which never makes them less probable but crawls, so that each two of its steps are
    extrapolated as Aitken does, on the scale of logarithms.
    """
    zeros, xp, digamma = _zeros(owned), namespace(owned), _special(owned).digamma

    def seen(counts: Float[Array, "components columns"], prior: Float[Array, "*columns"]) -> Float[Array, " columns"]:
        return (digamma(counts + prior) - digamma(prior)).sum(0)

    def image(at: Float[Array, ""]) -> Float[Array, ""]:
        s = xp.exp(at)
        apart = mean * seen(owned.ones, s * mean) + (1 - mean) * seen(zeros, s * (1 - mean))
        together = xp.maximum(seen(owned.observed, s).sum(), TINY)
        return xp.clip(
            at + xp.log(xp.maximum(apart.sum(), TINY) / together),
            xp.log(tuning.SMOOTHING_LEAST_ROWS),
            xp.log(tuning.SMOOTHING_MOST_ROWS),
        )

    def cycle(at: Float[Array, ""]) -> Float[Array, ""]:
        first = image(at)
        second = image(first)
        step = first - at
        rate = xp.clip((second - first) / xp.where(step == 0, 1, step), 0, tuning.SMOOTHING_MOST_RATE)
        return image(second + rate / (1 - rate) * (second - first))

    at = xp.log(xp.asarray(strength, mean.dtype))
    return xp.exp(repeat(tuning.SMOOTHING_CYCLES_PER_PASS, cycle, at))


def log_evidence(strength: ScalarLike, owned: Counts, mean: Float[Array, " columns"]) -> Float[Array, ""]:
    """Compute the log-probability of rows whose components are known, means and weights integrated out."""
    s, k, gammaln = strength, len(owned.members), _special(owned).gammaln

    def betaln(a: Any, b: Any) -> Any:
        return gammaln(a) + gammaln(b) - gammaln(a + b)  # JAX's own is wrong by 1e-6 where a and b are about 10

    ones, zeros = s * mean, s * (1 - mean)
    bits = betaln(owned.ones + ones, _zeros(owned) + zeros) - betaln(ones, zeros)
    share = namespace(owned).asarray(s, mean.dtype)
    members = gammaln(owned.members + share) - gammaln(share)
    return bits.sum() + members.sum() + gammaln(k * share) - gammaln(owned.members.sum() + k * share)
