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

from latentbits.core.arrays import Array
from latentbits.models.binary_sparse_coding.tuning import SCORE_BINS

__all__ = ["correction", "histogram", "look_ahead", "scores", "share_within"]


def share_within(prior: Float[Array, ""], n_causes: int, max_active: int) -> Float[Array, ""]:
    """Compute A(pi): the probability that at most `max_active` of `n_causes` are active."""
    return jnp.exp(_log_at_most(prior, n_causes, max_active))


def correction(prior: Float[Array, ""], n_causes: int, max_active: int) -> Float[Array, ""]:
    """Compute A(pi) pi / B(pi) of eq. (8), which turns the truncated mean number of active causes into pi.

    As k C(H, k) = H C(H - 1, k - 1), B(pi) = H pi P(at most gamma - 1 of H - 1), and the pi cancel.
    """
    if max_active == n_causes:
        return jnp.asarray(1 / n_causes)
    fewer = _log_at_most(prior, n_causes - 1, max_active - 1)
    return jnp.exp(_log_at_most(prior, n_causes, max_active) - fewer) / n_causes


def _log_at_most(prior: Float[Array, ""], n: int, most: int) -> Float[Array, ""]:
    k = np.arange(min(most, n) + 1)
    ways = gammaln(n + 1) - gammaln(k + 1) - gammaln(n - k + 1)
    logs = ways + k * jnp.log(prior) + (n - k) * jnp.log1p(-prior)
    top = jnp.max(logs)
    return top + jnp.log(jnp.sum(jnp.exp(logs - top)))


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
    counts: Float[Array, " bins"],
    centre: Float[Array, ""],
    width: Float[Array, ""],
    mean: Float[Array, ""],
    spread: Float[Array, ""],
    share: Float[Array, ""],
) -> tuple[Float[Array, ""], Float[Array, ""], Float[Array, ""]]:
    """Find the score above which lies this share of the rows, and centre and width of the next histogram.

    The threshold is -inf for all rows.  The next histogram goes by quantiles, so that an outlier does not push all
    others into one bin; where the last one missed many rows, or was none, by mean and standard deviation.
    """
    quantiles = _quantiles(counts, centre, width, jnp.append(jnp.asarray([0.05, 0.5, 0.95]), 1 - share))
    low, middle, high = quantiles[0], quantiles[1], quantiles[2]
    threshold = jnp.where((share < 1) & jnp.isfinite(width), quantiles[3], -jnp.inf)
    missed = jnp.maximum(counts[0], counts[-1]) > 0.04 * counts.sum()
    by_moments = missed | ~jnp.isfinite(width)
    spread = jnp.where(by_moments, spread, (high - low) / 3.29)  # as far apart as in a Gaussian
    least = 1e-6 * (jnp.abs(mean) + 1e-30)
    reach = 6.0  # standard deviations to both sides
    return threshold, jnp.where(by_moments, mean, middle), 2 * reach * jnp.maximum(spread, least)


def _quantiles(
    counts: Float[Array, " bins"], centre: Float[Array, ""], width: Float[Array, ""], shares: Float[Array, " shares"]
) -> Float[Array, " shares"]:
    """Find scores below which lie these shares of the rows, which are spread evenly over each bin."""
    below = _sums_before(counts)
    wanted = shares * counts.sum()
    bin_of = jnp.sum(below <= wanted[:, None], 1) - 1  # no loop of a search: there are few shares
    here = counts[bin_of]
    way = jnp.where(here > 0, (wanted - below[bin_of]) / jnp.where(here > 0, here, 1), 0)
    return centre + width * ((bin_of + jnp.minimum(way, 1)) / SCORE_BINS - 0.5)


def _sums_before(counts: Float[Array, " bins"]) -> Float[Array, " bins"]:
    """Sum what lies before each bin: in its group, and in the groups before; products compile faster than sums."""
    groups = counts.reshape(-1, 32)
    before = [jnp.asarray(np.triu(np.ones((n, n)), 1), counts.dtype) for n in groups.shape]
    return (groups @ before[1] + (groups.sum(1) @ before[0])[:, None]).reshape(-1)
