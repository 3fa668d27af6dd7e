"""Spectra and eigenmodes of the twos: what the paper's words on figure 4 claim as numbers, with errors by bootstrap."""

from __future__ import annotations

import numpy as np

from latentbits.models.clipped_gaussian.bivariate import thresholds
from latentbits.models.clipped_gaussian.spectrum import spectrum
from latentbits.models.clipped_gaussian.tetrachoric import correlations, count
from latentbits.papers.digits import Twos

__all__ = ["distortions", "errors", "modes"]


def modes(twos: Twos, n_modes: int) -> dict[str, float]:
    """Measure the first eigenvalues and eigenvectors of C^xx and C^ss.

    Returns
    -------
    dict
        `negative`: size of the smallest eigenvalue of C^xx, if it is negative, over that of the last eigenvalue kept.
        `kept_latent`, `kept_bits`: share of the eigenvalues kept in the sum of those above 0, in C^xx and C^ss;
        `steeper`: the first less the second.  `vectors`: mean squared cosine of the angles between the two subspaces of
        eigenvectors, which is 1 where they are the same, and `n_modes` over the pixels where they have nothing to do
        with each other.  `rotations`, `stretching`: share of the square of each of the `distortions` that lies in the
        subspace of C^xx; of the two stretches, the smaller one.
    """
    found = correlations(count(twos.X))
    latent, bits = spectrum(found.latent), spectrum(found.binary)
    kept, kept_bits = latent.vectors[:, :n_modes], bits.vectors[:, :n_modes]
    half_a_row = 0.5 / (len(twos.X) + 1)
    phi = thresholds(np.clip(found.means, half_a_row, 1 - half_a_row))
    turn, *stretches = distortions(phi.reshape(twos.image_shape)) * (np.diag(found.latent) > 0)
    shares = {"kept_latent": _kept(latent.values, n_modes), "kept_bits": _kept(bits.values, n_modes)}
    return {
        **shares,
        "negative": float(max(0, -latent.values[-1]) / latent.values[n_modes - 1]),
        "steeper": shares["kept_latent"] - shares["kept_bits"],
        "vectors": float(np.sum((kept_bits.T @ kept) ** 2) / n_modes),
        "rotations": _within(kept, turn),
        "stretching": min(_within(kept, one) for one in stretches),
    }


def errors(twos: Twos, n_modes: int, n_draws: int, seed: int = 0) -> dict[str, float]:
    """Estimate the standard errors of `modes` from tables of as many rows, drawn with replacement."""
    rng = np.random.default_rng(seed)
    n = len(twos.X)
    drawn = [modes(twos._replace(X=twos.X[rng.integers(n, size=n)]), n_modes) for _ in range(n_draws)]
    return {name: float(np.std([one[name] for one in drawn], ddof=1)) for name in drawn[0]}


def distortions(image: np.ndarray) -> np.ndarray:
    """Differentiate an image by a turn about its middle, and by stretches from side to side and from top to bottom.

    Returns
    -------
    (3, pixels)

    >>> distortions(np.tile(np.arange(4.0), (2, 1))).tolist()[1]  # a ramp is steeper on its way to the right
    [-1.5, -0.5, 0.5, 1.5, -1.5, -0.5, 0.5, 1.5]
    """
    down, right = np.gradient(image)
    row, column = (np.arange(n) - (n - 1) / 2 for n in image.shape)
    row = row[:, None]
    turn, wider, taller = column * down - row * right, column * right, row * down
    return np.stack([turn, wider, taller]).reshape(3, -1)


def _kept(eigenvalues: np.ndarray, n: int) -> float:
    positive = np.maximum(eigenvalues, 0)
    return float(positive[:n].sum() / positive.sum())


def _within(vectors: np.ndarray, direction: np.ndarray) -> float:
    """Compute the share of the square of a direction that lies in the span of orthonormal vectors."""
    return float(np.sum((direction @ vectors) ** 2) / (direction @ direction))
