"""How many rows are learned from, and which: the subset M of the paper, and the correction of the sparseness.

A row made by more than gamma causes cannot be explained by the truncated posterior, and would spoil noise and
components.  So learning goes by the N_cut rows of highest evidence, as many as are expected to have at most gamma
causes.  The threshold is a quantile, read off a histogram, which adds over rows as all statistics do.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import gammaln

from latentbits.core.arrays import Array, namespace
from latentbits.models.binary_sparse_coding.tuning import SCORE_BINS

__all__ = ["correction", "histogram", "look_ahead", "scores", "share_within"]


def share_within(prior: Float[Array, "*starts"], n_causes: int, max_active: int) -> Float[Array, "*starts"]:
    """Compute A(pi): the probability that at most `max_active` of `n_causes` are active."""
    return namespace(prior).exp(_log_at_most(prior, n_causes, max_active))


def correction(prior: Float[Array, "*starts"], n_causes: int, max_active: int) -> Float[Array, "*starts"]:
    """Compute A(pi) pi / B(pi) of eq. (8), which turns the truncated mean number of active causes into pi.

    As k C(H, k) = H C(H - 1, k - 1), B(pi) = H pi P(at most gamma - 1 of H - 1), and the pi cancel.
    """
    xp = namespace(prior)
    if max_active == n_causes:
        return xp.full_like(prior, 1 / n_causes)
    fewer = _log_at_most(prior, n_causes - 1, max_active - 1)
    return xp.exp(_log_at_most(prior, n_causes, max_active) - fewer) / n_causes


def _log_at_most(prior: Float[Array, "*starts"], n: int, most: int) -> Float[Array, "*starts"]:
    xp, prior, k = namespace(prior), prior[..., None], np.arange(min(most, n) + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    logs = ways + k * xp.log(prior) + (n - k) * xp.log1p(-prior)
    top = xp.max(logs, -1, keepdims=True)
    return (top + xp.log(xp.sum(xp.exp(logs - top), -1, keepdims=True)))[..., 0]


def scores(
    log_evidence: Float[Array, " rows"],
    n_observed: Float[Array, " rows"],
    column: Float[Array, ""],
    precision: Float[Array, ""],
) -> Float[Array, " rows"]:
    """Score rows by sigma^2 (log evidence + D (log(2 pi sigma^2) + 1) / 2), D sigma^2 - |error|^2 or so.

    The order is that of the evidence.  But evidence leaps when sigma changes, and a threshold of the pass before would
    mean nothing; this does not.  And rows that show more or fewer pixels are on a par.
    """
    return (log_evidence + n_observed * (column + 0.5)) / precision


def histogram(
    score: Float[Array, " rows"], weight: Float[Array, " rows"], centre: Float[Array, ""], width: Float[Array, ""]
) -> Float[Array, " bins"]:
    """Count the rows in each bin of the score; what lies outside is counted in the outermost."""
    place = jnp.floor((score - centre) / width * SCORE_BINS + SCORE_BINS / 2)
    place = jnp.clip(jnp.nan_to_num(place), 0, SCORE_BINS - 1).astype(jnp.int32)
    return jnp.zeros(SCORE_BINS, weight.dtype).at[place].add(weight)


def look_ahead(
    counts: Float[Array, "*starts bins"],
    centre: Float[Array, "*starts"],
    width: Float[Array, "*starts"],
    mean: Float[Array, "*starts"],
    spread: Float[Array, "*starts"],
    share: Float[Array, "*starts"],
) -> tuple[Float[Array, "*starts"], Float[Array, "*starts"], Float[Array, "*starts"]]:
    """Find the score above which lies this share of the rows, and centre and width of the next histogram.

    The threshold is -inf for all rows.  The next histogram goes by quantiles, so that an outlier does not push all
    others into one bin; where the last one missed many rows, or was none, by mean and standard deviation.
    """
    xp = namespace(counts)
    shares = xp.stack([xp.full_like(share, 0.05), xp.full_like(share, 0.5), xp.full_like(share, 0.95), 1 - share])
    low, middle, high, above = _quantiles(counts, centre, width, shares)
    threshold = xp.where((share < 1) & xp.isfinite(width), above, -xp.inf)
    missed = xp.maximum(counts[..., 0], counts[..., -1]) > 0.04 * counts.sum(-1)
    by_moments = missed | ~xp.isfinite(width)
    spread = xp.where(by_moments, spread, (high - low) / 3.29)  # as far apart as in a Gaussian
    least = 1e-6 * (xp.abs(mean) + 1e-30)
    reach = 6.0  # standard deviations to both sides
    return threshold, xp.where(by_moments, mean, middle), 2 * reach * xp.maximum(spread, least)


def _quantiles(
    counts: Float[Array, "*starts bins"],
    centre: Float[Array, "*starts"],
    width: Float[Array, "*starts"],
    shares: Float[Array, "shares *starts"],
) -> Float[Array, "shares *starts"]:
    """Find scores below which lie these shares of the rows, which are spread evenly over each bin."""
    xp, below = namespace(counts), _sums_before(counts)
    wanted = shares * counts.sum(-1)
    bin_of = xp.sum(below <= wanted[..., None], -1) - 1  # no loop of a search: there are few shares
    here, before = (xp.take_along_axis(x[None], bin_of[..., None], -1)[..., 0] for x in (counts, below))
    way = xp.where(here > 0, (wanted - before) / xp.where(here > 0, here, 1), 0)
    return centre + width * ((bin_of + xp.minimum(way, 1)) / SCORE_BINS - 0.5)


def _sums_before(counts: Float[Array, "*starts bins"]) -> Float[Array, "*starts bins"]:
    """Sum what lies before each bin: in its group, and in the groups before; products compile faster than sums."""
    groups = counts.reshape(*counts.shape[:-1], -1, 32)
    before = [np.triu(np.ones((n, n), counts.dtype), 1) for n in groups.shape[-2:]]
    return (groups @ before[1] + (groups.sum(-1) @ before[0])[..., None]).reshape(counts.shape)
