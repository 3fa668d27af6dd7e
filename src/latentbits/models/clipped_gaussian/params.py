"""The parameters of a clipped Gaussian, and bits as it takes them."""

from __future__ import annotations

from jaxtyping import Bool, Float

from latentbits.core.arrays import Array
from latentbits.core.batch import Batch
from latentbits.core.module import Module

__all__ = ["Params", "signs_of"]


class Params(Module):
    """The model, and the moments that it was made from."""

    # weights, phi, psi: W, the biases of eq. 9, and the variance of each column's own noise (0 without).
    weights: Float[Array, "columns latents"]
    phi: Float[Array, " columns"]
    psi: Float[Array, " columns"]
    means: Float[Array, " columns"]  # P(bit = 1) in the data
    # binary, correlation, error, undetermined, corrected: C^ss, C^xx, standard errors of the latter, the pairs that
    # the data cannot tell, and those with an empty cell that was corrected; without any entries where pairs were not
    # kept
    binary: Float[Array, "pairs pairs"]
    correlation: Float[Array, "pairs pairs"]
    error: Float[Array, "pairs pairs"]
    undetermined: Bool[Array, "pairs pairs"]
    corrected: Bool[Array, "pairs pairs"]
    # eigenvalues, binary_eigenvalues: of C^xx and C^ss, largest first; the first few where pairs were not kept
    eigenvalues: Float[Array, " known"]
    binary_eigenvalues: Float[Array, " known"]
    negative_share: Float[Array, ""]  # of the eigenvalues of C^xx, before any repair; NaN where not all are known


def signs_of(batch: Batch) -> Float[Array, "rows columns"]:
    """Return bits as +1 and -1, and 0 where missing."""
    return (2 * batch.values - 1) * batch.mask
