"""Estimates from weights of annealed importance sampling (Neal 2001): the log of their mean, with its error.

The error was held against enumeration, in float64, as the root mean square of the distances from the exact value over
the errors given; 1 is right, more is too small an error:

    log Z of a combination machine, and its sums over the missing inputs of a row; 64 and 400 chains     0.9 to 1.1
    log p(x) of a noisy-OR network whose causes have doubles; 8 and 16 chains                            0.8 to 0.9
    rows that have two explanations (bars: all rows of an image, or all columns); 16 chains              0.8 to 1.8

Without `ALIKE_SHARE` the last is 1.0 to 5.  An explanation that no chain has found leaves no trace in the weights.
"""

from __future__ import annotations

import jax.numpy as jnp
from jaxtyping import Float

from latentbits.core.arrays import Array
from latentbits.core.module import Module

__all__ = ["Annealed", "log_mean_weight"]

ALIKE_SHARE = 0.1  # chains whose weights differ from the heaviest by less, relatively, went the same way


class Annealed(Module):
    """An estimate on the log scale."""

    value: Float[Array, "*rows"]  # log of the mean weight
    error: Float[Array, "*rows"]  # its standard error
    # effective number of chains, ``(sum w)^2 / sum w^2``, as a share of all: near 0, few chains carry the estimate,
    # and neither value nor error is to be trusted
    effective: Float[Array, "*rows"]


def log_mean_weight(log_weight: Float[Array, "chains *rows"]) -> Annealed:
    """Estimate the log of the mean weight of two or more chains, with an error that includes the heaviest.

    To the variance of the mean (delta method), with n - 3 in its denominator in place of n - 1 so that the variance of
    z-scores is 1 and not that of Student's t, two squares are added.  What the heaviest chain has above its share: a
    weight of that size was seen about once, and might as well have been seen never or twice.  And 1 / n, in so far as
    chains weigh about as much as the heaviest: that they all went the same way does not say that there is no other.
    """
    n = log_weight.shape[0]
    top = jnp.max(log_weight, 0)
    w = jnp.exp(log_weight - top)  # the heaviest is 1
    total = jnp.sum(w, 0)
    relative = n * w / total
    alike = (jnp.sum(w > 1 - ALIKE_SHARE, 0) - 1) / (n - 1)
    spread = jnp.sum((relative - 1) ** 2, 0) / (n * max(n - 3, 1))
    variance = spread + (1 / total - 1 / n) ** 2 + (alike / n) ** 2
    return Annealed(top + jnp.log(total / n), jnp.sqrt(variance), 1 / jnp.mean(relative**2, 0))
