"""The equations of Lee & Sompolinsky (1998), by their numbers, in plain NumPy and SciPy with float64.

P hidden variables y are mixed into N Gaussian variables x = W y, and each is clipped to a bit s = sgn(x), -1 or +1.
Learning goes back from correlations of bits C^ss to those of the Gaussians C^xx, and from them to W.

Nothing here is fast, and the library does not use it: its functions are tested against these.  Where each of them is
stands in the README of ``latentbits/papers/lee_sompolinsky_1998``.

Misprints and gaps, in the text that we have:

* (5) integrates over dy_k and P(x_k).  The variables of the integral are x, and P is their joint density (6); there it
  is written as one.
* (6) and (10) are lost after "where" and "the following integral equation".  (6) is the density of a Gaussian with
  covariance C^xx, which is what (5) asks for; (10) is derived at `covariance_of_biased_bits`.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import quad
from scipy.special import erf, erfinv

__all__ = [
    "bias_of_mean",
    "biased_bits",
    "bits",
    "correlation_of_bits",
    "correlation_of_gaussians",
    "covariance_of_biased_bits",
    "covariance_of_gaussians",
    "density_of_gaussians",
    "density_of_hidden",
    "gaussians",
    "mean_product",
]

Numbers = np.ndarray | float


def density_of_hidden(y: Numbers) -> np.ndarray:
    """Compute (1): P(y_i) = exp(-y_i^2 / 2) / (2 pi)^(1/2), of each hidden variable."""
    return np.asarray(np.exp(-np.square(y) / 2) / np.sqrt(2 * np.pi))


def gaussians(weights: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Compute (2): x_i = sum_j W_ij y_j; weights are (N, P), y is (P,) or rows of them."""
    return y @ weights.T


def bits(x: Numbers) -> np.ndarray:
    """Compute (3): s_i = sgn(x_i); x = 0, which has no probability, gives -1."""
    return np.where(np.asarray(x) > 0, 1.0, -1.0)


def covariance_of_gaussians(weights: np.ndarray) -> np.ndarray:
    """Compute (4): C^xx = <x x'> = W W'."""
    return weights @ weights.T


def mean_product(covariance: np.ndarray, biases: tuple[float, float] = (0.0, 0.0)) -> float:
    """Compute (5): <s_i s_j> = Int dx P(x) sgn(x_i) sgn(x_j), of two bits; with biases, those of (8).

    All x but two integrate to 1.  The inner integral over x_j given x_i is that of a sign over a Gaussian with mean m
    and variance v, which is erf(m / (2 v)^(1/2)).

    `covariance` (2, 2): C^xx of the two, of rank 2.  `biases`: phi of the two.
    """
    (c_ii, c_ij), (_, c_jj) = covariance
    phi_i, phi_j = biases
    v = c_jj - c_ij**2 / c_ii

    def inner(x: float) -> float:
        density = np.exp(-(x**2) / (2 * c_ii)) / np.sqrt(2 * np.pi * c_ii)
        return float(density * erf((phi_j + c_ij / c_ii * x) / np.sqrt(2 * v)))

    far = 10 * np.sqrt(c_ii)
    at = float(np.clip(-phi_i, -far, far))  # where the sign of bit i changes
    below = quad(inner, -far, at, epsabs=1e-13, limit=500)[0]
    return float(quad(inner, at, far, epsabs=1e-13, limit=500)[0] - below)


def density_of_gaussians(x: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Compute (6): P(x) = exp(-x' C^-1 x / 2) / ((2 pi)^n det C)^(1/2), of n variables x; n is at most C's rank."""
    distance = np.sum(x * np.linalg.solve(covariance, x.T).T, axis=-1)
    return np.exp(-distance / 2) / np.sqrt(np.linalg.det(2 * np.pi * covariance))


def correlation_of_bits(covariance: np.ndarray) -> np.ndarray:
    """Compute (7): C^ss_ij = (2 / pi) asin(C^xx_ij / (C^xx_ii C^xx_jj)^(1/2)), without biases."""
    size = np.sqrt(np.diag(covariance))
    return 2 / np.pi * np.arcsin(np.clip(covariance / np.outer(size, size), -1, 1))


def correlation_of_gaussians(binary: np.ndarray) -> np.ndarray:
    """Invert (7) where variances are 1: C^xx = sin(pi C^ss / 2)."""
    return np.sin(np.pi / 2 * binary)


def biased_bits(phi: Numbers, x: Numbers) -> np.ndarray:
    """Compute (8): s_i = sgn(phi_i + x_i)."""
    return bits(np.add(phi, x))


def bias_of_mean(mean: Numbers, variance: Numbers = 1.0) -> np.ndarray:
    """Compute (9): phi_i = (2 C^xx_ii)^(1/2) erf^-1(<s_i>)."""
    return np.asarray(np.sqrt(np.multiply(2, variance)) * erfinv(mean))


def covariance_of_biased_bits(phi_i: float, phi_j: float, rho: float) -> float:
    """Compute (10): C^ss_ij = <s_i s_j> - <s_i> <s_j> of bits with biases, from the correlation rho of their x.

    The paper's equation is lost; this one follows from (5), (6) and (8), for variances of 1.  It is 0 at rho = 0.  By
    Price's theorem d<f(x_i) g(x_j)> / drho = <f'(x_i) g'(x_j)>, and sgn(phi + x) has the derivative 2 delta(phi + x):
    dC^ss_ij / drho is four times the density (6) at (-phi_i, -phi_j).  With rho = sin(theta) the root in the density
    cancels:

        C^ss_ij = (2 / pi) Int_0^asin(rho) exp(-(phi_i^2 + phi_j^2 - 2 phi_i phi_j sin theta) / (2 cos^2 theta)) dtheta

    Without biases this is (7).  The printed one may have another form.
    """

    def slope(theta: float) -> float:
        s, c = np.sin(theta), np.cos(theta)
        # the square is complete, so that nothing cancels where theta is near a right angle
        return float(np.exp(-((phi_i - phi_j * s) ** 2 / c**2 + phi_j**2) / 2))

    return 2 / np.pi * quad(slope, 0, np.arcsin(rho), epsabs=1e-14, epsrel=1e-13, limit=500)[0]
