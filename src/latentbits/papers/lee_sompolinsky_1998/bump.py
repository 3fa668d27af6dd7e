"""The bump of figure 3: a cosine and a sine behind 256 bits, whatever the sample; and a sum that no Gaussian keeps."""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import subspace_angles

from latentbits.data.toys import bump, sum_constrained
from latentbits.estimators.clipped_gaussian import ClippedGaussian
from latentbits.figures.clipped_gaussian.arrays import spectrum_of

__all__ = ["BumpFit", "angles", "are_bumps", "constraint", "fit_bump", "rescaled", "smallest_eigenvalue", "vectors"]


class BumpFit(NamedTuple):
    """Bumps, what their spectra are, and the model with two components."""

    X: np.ndarray
    model: ClippedGaussian
    numbers: dict[str, Any]


def fit_bump(
    n_columns: int, n_samples: int | None, bias: bool = False, correction: float = 0.0, seed: int = 0
) -> BumpFit:
    """Fit the model of the paper to every shift once (`n_samples` None: exact moments), or to shifts at random."""
    X = bump(n_samples, n_features=n_columns, random_state=seed).X
    model = ClippedGaussian(2, noise="none", bias=bias, correction=correction, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a misfit is what some of these are to show
        model.fit(X)
    return BumpFit(X, model, spectrum_numbers(model, X))


def spectrum_numbers(model: ClippedGaussian, X: np.ndarray) -> dict[str, Any]:
    """Measure ranks and sizes of both spectra, and how far eigenvectors are from the cosine and sine of `angles`."""
    bits, latent = spectrum_of(model.binary_eigenvalues_), spectrum_of(model.eigenvalues_)
    sizes = np.sort(np.abs(latent.eigenvalues))[::-1]
    theta = angles(X)
    circle = np.linalg.qr(np.column_stack([np.cos(theta), np.sin(theta)]))[0]
    unit = model.components_.T / np.linalg.norm(model.components_.T, axis=0)
    return {
        "n_rows": len(X),
        "n_positive_bits": int((bits.kinds > 0).sum()),
        "n_latent": int((latent.kinds != 0).sum()),
        "first": float(latent.eigenvalues[0]),
        "second": float(latent.eigenvalues[1]),
        "third_share": float(sizes[2] / sizes[0]),
        "negative_share": latent.negative_share,
        "off_circle": float(np.linalg.norm(unit - circle @ (circle.T @ unit), axis=0).max()),
        "off_cosine": float(np.abs(model.correlation_ - np.cos(theta[:, None] - theta)).max()),
    }


def vectors(model: ClippedGaussian) -> dict[str, float]:
    """Compare the eigenvectors of C^ss and C^xx of the exact bump.

    `off_fourier`: the largest entry of C^ss outside of the diagonal in the basis of the Fourier modes, over its largest
    eigenvalue (a circulant matrix has none).  `plane`: sine of the largest angle between the planes of the first two
    eigenvectors of either matrix.
    """
    bits, latent = model.binary_correlation_, model.correlation_
    n = len(bits)
    modes = np.exp(2j * np.pi * np.outer(np.arange(n), np.arange(n)) / n) / np.sqrt(n)
    turned = np.abs(modes.conj().T @ bits @ modes)
    planes = [np.linalg.eigh(matrix)[1][:, -2:] for matrix in (bits, latent)]
    return {
        "off_fourier": float((turned - np.diag(np.diag(turned))).max() / np.diag(turned).max()),
        "plane": float(np.sin(subspace_angles(*planes)).max()),
    }


def rescaled(model: ClippedGaussian, spread: float, seed: int = 0) -> dict[str, float]:
    """Measure C^xx of variables x_i in other units: its rank, and by how much its eigenvalues change.

    Units are drawn with a standard deviation of their logarithms of `spread`, and brought to a mean square of 1, so
    that what changes is not the sum of all variances.
    """
    units = np.exp(spread * np.random.default_rng(seed).standard_normal(len(model.correlation_)))
    units /= np.sqrt(np.mean(units**2))
    before, after = (
        np.linalg.eigvalsh(c)[::-1] for c in (model.correlation_, np.outer(units, units) * model.correlation_)
    )
    rank = int((np.abs(after) > 1e-12 * after[0]).sum())
    return {"rank": rank, "change": float(np.max(np.abs(after[:rank] / before[:rank] - 1)))}


def angles(X: np.ndarray) -> np.ndarray:
    """Place each bit on a circle on which the borders of the bumps in X are uniform.

    From one bit to the next the angle grows by pi times the share of rows in which these two differ; half way round the
    ring it has grown by pi, since every bump has one border in either half.

    >>> np.round(angles(bump(n_features=8).X) / np.pi, 3).tolist()
    [0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 1.75, 2.0]
    """
    X = np.asarray(X)
    return np.pi * np.cumsum(np.mean(np.roll(X, 1, axis=1) != X, axis=0))


def are_bumps(X: np.ndarray) -> np.ndarray:
    """Find which rows have half of their bits on, all in one run round the ring.

    >>> are_bumps(np.array([[1, 0, 0, 1], [1, 0, 1, 0], [1, 1, 1, 0]])).tolist()
    [True, False, False]
    """
    X = np.asarray(X)
    borders = np.count_nonzero(np.roll(X, 1, axis=1) != X, axis=1)
    return (borders == 2) & (2 * X.sum(axis=1) == X.shape[1])


# --- a constraint that no Gaussian keeps ---


def smallest_eigenvalue(n_columns: int) -> float:
    """Compute that of C^xx if half of N bits are on, 1 - (N - 1) sin(pi / (2 (N - 1))), negative from N = 4 on.

    >>> round(smallest_eigenvalue(4), 9)
    -0.5
    """
    return float(1 - (n_columns - 1) * np.sin(np.pi / (2 * (n_columns - 1))))


def constraint(n_columns: int, n_samples: int, seed: int = 0) -> dict[str, Any]:
    """Compute the smallest eigenvalue of C^xx by theory and from a sample; and whether the model warned of it."""
    X = sum_constrained(n_samples, n_features=n_columns, random_state=seed)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = ClippedGaussian(1, noise="none", bias=False, correction=0.0).fit(X)
    return {
        "N": n_columns,
        "theory": smallest_eigenvalue(n_columns),
        "measured": float(model.eigenvalues_[-1]),
        "negative_share": abs(float(model.negative_share_)),
        "warned": any("no Gaussian" in str(one.message) for one in caught),
    }
