"""The numbered equations of Tipping (1998), one function each, in plain NumPy and float64: where to begin reading.

    M. E. Tipping. Probabilistic visualisation of high-dimensional binary data. NIPS 11, 592-598.

The library learns by the fast forms of these (`bits.py`, `variational.py`, `sampling.py`, `quadrature.py`), which are
tested against them.  Here no bit is missing and no row is weighted.  Arguments, with the paper's symbols:

    t              (N, d)      rows of bits, t_n
    w, b           (d, q), (d) parameters w_i and b_i; q = 2 in the paper
    x              (L, q)      places in latent space
    xi             (N, d)      variational parameters xi_in
    mean           (N, q)      mu_n
    covariance     (N, q, q)   C_n

None of the numbered equations is misprinted.  Two things are worth knowing: A_i is w_i'x + b_i in (2), but
(2 t_i - 1)(w_i'x + b_i) from (5) on; and where section 2 recalls principal components, the variance sigma_i^2 has an
index too many: with a variance for each column the model is factor analysis.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit

__all__ = ["bit_bound", "bound", "covariances", "expected_place", "expected_square", "extended", "grid",
           "lambda_of", "likelihood", "likelihood_by_sample", "means", "posterior", "probability", "row_given",
           "weights_and_biases", "xi_of"]  # fmt: skip

Floats = NDArray[np.float64]


# --- section 2: the model ---


def grid(q: int, step: float = 0.1, reach: float = 8.0) -> tuple[Floats, Floats]:
    """Place x with equal steps in all q directions, with log p(x) dx there, where p(x) is N(0, I)."""
    axis = np.arange(-reach, reach + step / 2, step)
    x = np.stack([one.ravel() for one in np.meshgrid(*[axis] * q, indexing="ij")], axis=1)
    return x, q * (np.log(step) - 0.5 * np.log(2 * np.pi)) - 0.5 * np.sum(x**2, axis=1)


def likelihood(t: Floats, w: Floats, b: Floats, at: tuple[Floats, Floats] | None = None) -> Floats:
    """Compute (1): log p(t_n), the integral of prod_i p(t_i | x) p(x), as a sum over a grid; (N,)."""
    x, log_prior = grid(w.shape[1]) if at is None else at
    return _log_sum(row_given(t, x, w, b) + log_prior)


def posterior(t: Floats, w: Floats, b: Floats, at: tuple[Floats, Floats] | None = None) -> Floats:
    """Apply Bayes' rule of section 2: p(x | t_n) = p(t_n | x) p(x) / p(t_n), as shares of a grid's places; (N, L)."""
    x, log_prior = grid(w.shape[1]) if at is None else at
    joint = row_given(t, x, w, b) + log_prior
    return np.exp(joint - _log_sum(joint)[:, None])


def probability(x: Floats, w: Floats, b: Floats) -> Floats:
    """Compute (2): P(t_i = 1 | x) = sigma(A_i), with A_i = w_i'x + b_i; (L, d)."""
    return expit(x @ w.T + b)


def row_given(t: Floats, x: Floats, w: Floats, b: Floats) -> Floats:
    """Compute the logarithm of (2) for whole rows: sum_i log P(t_i | x); (N, L).

    t log sigma(A) + (1 - t) log(1 - sigma(A)) is t A + log(1 - sigma(A)), as log sigma(A) - log(1 - sigma(A)) = A.
    """
    a = x @ w.T + b
    return t @ a.T + log_expit(-a).sum(axis=1)


def _log_sum(joint: Floats) -> Floats:
    """Compute the logarithm of the sum of exp(joint) over places, in half the time of SciPy's."""
    top = joint.max(axis=1, keepdims=True)
    return top[:, 0] + np.log(np.exp(joint - top).sum(axis=1))


# --- section 3: a sample of the latents ---


def likelihood_by_sample(t: Floats, x: Floats, w: Floats, b: Floats) -> Floats:
    """Compute (3): log 1/L sum_l prod_i P(t_in | x_l), x_l drawn from the prior; (N,), whose sum is the paper's L."""
    return _log_sum(row_given(t, x, w, b)) - np.log(len(x))


# --- section 4: the variational bound ---


def lambda_of(xi: Floats) -> Floats:
    """Compute lambda(xi) = {0.5 - sigma(xi)} / 2 xi, which is below 0."""
    return (0.5 - expit(xi)) / (2 * xi)


def bound(t: Floats, xi: Floats, w: Floats, b: Floats) -> Floats:
    """Compute (4): log P~(t_n), the integral of the bounds (5) over N(0, I), in closed form; (N,).

    The paper says that there is one and leaves it out.  A_i / 2 is (t_i - 1/2)(w_i'x + b_i) and A_i^2 is
    (w_i'x + b_i)^2, so that the exponents of (5) and of the prior add up to c - x'C^-1 x / 2 + x'C^-1 mu, with the C
    and mu of (6) and (7) and with

        c = sum_i log sigma(xi_i) - xi_i / 2 - lambda_i xi_i^2 + (t_i - 1/2) b_i + lambda_i b_i^2,

    whose integral is exp(c + mu'C^-1 mu / 2) |C|^(1/2).
    """
    lam, c = lambda_of(xi), covariances(xi, w)
    mu = means(t, xi, w, b, c)
    constant = np.sum(log_expit(xi) - xi / 2 - lam * xi**2 + (t - 0.5) * b + lam * b**2, axis=1)
    inside = np.einsum("ni,nij,nj->n", mu, np.linalg.inv(c), mu)
    return constant + 0.5 * inside + 0.5 * np.linalg.slogdet(c)[1]


def bit_bound(t: Floats, x: Floats, xi: Floats, w: Floats, b: Floats) -> Floats:
    """Compute (5): log P~(t_i | x, xi_i) = log sigma(xi_i) + (A_i - xi_i) / 2 + lambda(xi_i) (A_i^2 - xi_i^2)."""
    a = (2 * t - 1)[:, None] * (x @ w.T + b)
    xi = xi[:, None]
    return log_expit(xi) + (a - xi) / 2 + lambda_of(xi) * (a**2 - xi**2)


def covariances(xi: Floats, w: Floats) -> Floats:
    """Compute (6): C_n = [I - 2 sum_i lambda(xi_in) w_i w_i']^-1; (N, q, q)."""
    return np.linalg.inv(np.eye(w.shape[1]) - 2 * np.einsum("ni,ij,ik->njk", lambda_of(xi), w, w, optimize=True))


def means(t: Floats, xi: Floats, w: Floats, b: Floats, covariance: Floats) -> Floats:
    """Compute (7): mu_n = C_n sum_i [t_in - 1/2 + 2 lambda(xi_in) b_i] w_i; (N, q)."""
    return np.einsum("njk,nk->nj", covariance, (t - 0.5 + 2 * lambda_of(xi) * b) @ w)


def xi_of(mean: Floats, covariance: Floats, w: Floats, b: Floats) -> Floats:
    """Compute (8): xi_in, the root of w_i'<x x'>w_i + 2 b_i w_i'<x> + b_i^2; (N, d)."""
    square = np.einsum("ij,njk,ik->ni", w, expected_square(mean, covariance), w, optimize=True)
    return np.sqrt(square + 2 * b * (expected_place(mean) @ w.T) + b**2)


def expected_place(mean: Floats) -> Floats:
    """Compute (9): <x_n> = mu_n; (N, q)."""
    return mean


def expected_square(mean: Floats, covariance: Floats) -> Floats:
    """Compute (10): <x_n x_n'> = C_n + mu_n mu_n'; (N, q, q)."""
    return covariance + mean[:, :, None] * mean[:, None]


def weights_and_biases(t: Floats, xi: Floats, mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Solve (11): (w_i, b_i) = -[sum_n 2 lambda(xi_in) <x^ x^'>]^-1 [sum_n (t_in - 1/2) <x^>]; w and b."""
    place, square = extended(mean, covariance)
    left = np.einsum("ni,njk->ijk", 2 * lambda_of(xi), square, optimize=True)
    both = -np.linalg.solve(left, ((t - 0.5).T @ place)[:, :, None])[:, :, 0]
    return both[:, :-1], both[:, -1]


def extended(mean: Floats, covariance: Floats) -> tuple[Floats, Floats]:
    """Compute (12): <x^> and <x^ x^'> of x^ = (x, 1); (N, q + 1) and (N, q + 1, q + 1)."""
    place = np.column_stack([expected_place(mean), np.ones(len(mean))])
    square = place[:, :, None] * place[:, None]
    square[:, :-1, :-1] = expected_square(mean, covariance)
    return place, square
