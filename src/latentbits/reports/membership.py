"""Standard errors of a latent class regression: coefficients of covariates together with the classes' probabilities."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax, logsumexp
from scipy.stats import norm

from latentbits.reports.information import LEAST_EIGENVALUE
from latentbits.reports.record import Report, Table

__all__ = ["MembershipErrors", "information", "membership_errors"]

BOUND_PROBABILITY = 1e-6  # probabilities nearer to 0 or 1 are held there


@dataclass(frozen=True)
class MembershipErrors(Report):
    """How well it is known how membership depends on covariates."""

    # coefficients, errors, z, p: (classes - 1, covariates + 1) log-odds of each class against the first: the
    # intercept, then the covariates; their standard errors, their ratio, and its two-sided p-value
    coefficients: np.ndarray
    errors: np.ndarray
    z: np.ndarray
    p: np.ndarray
    # probabilities, means: (classes, columns) P(bit = 1), and its standard errors; NaN where it is 0 or 1
    probabilities: np.ndarray
    means: np.ndarray
    # names, columns: of the intercept and the covariates, and of the columns
    names: list[str]
    columns: list[str]
    covariance: np.ndarray  # of the coefficients, class by class
    notes: tuple[str, ...]  # what has to be said of these numbers

    def table(self) -> Table:
        """Make one row for each coefficient, then one for each probability of a bit."""
        rows = [f"class {k + 2}, {name}" for k in range(len(self.coefficients)) for name in self.names]
        rows += [f"class {k + 1}: {name}" for k in range(len(self.means)) for name in self.columns]
        none = np.full(self.means.size, np.nan)
        columns = {
            "estimate": np.append(self.coefficients, self.probabilities),
            "standard error": np.append(self.errors, self.means),
            "z": np.append(self.z, none),
            "p": np.append(self.p, none),
        }
        return Table(rows, columns, "Log-odds of each class against the first, and probabilities of bits", self.notes)


def membership_errors(
    X: np.ndarray,
    Z: np.ndarray,
    weights: np.ndarray,
    means: np.ndarray,
    coefficients: np.ndarray,
    names: list[str],
    columns: list[str],
) -> MembershipErrors:
    """Compute errors from the observed information at a maximum of the likelihood.

    Covariates are centred and scaled inside: dates such as 20250131 would have an information that looks singular.

    Parameters
    ----------
    X, Z, weights
        Bits with NaN for missing, covariates, and how often each row counts.
    means, coefficients
        (k, d) and (k, p + 1), the first row of which is 0.
    names, columns
        Of the p + 1 coefficients, and of the columns of X.
    """
    k, q = coefficients.shape
    centre = np.average(Z, axis=0, weights=weights)
    spread = np.sqrt(np.average((Z - centre) ** 2, axis=0, weights=weights))
    spread[spread == 0] = 1.0
    # log-odds are coefficients . (1, z) = (coefficients @ to_inner) . (1, (z - centre) / spread)
    to_inner = np.block([[np.ones((1, 1)), np.zeros((1, q - 1))], [centre[:, None], np.diag(spread)]])
    inside = (means > BOUND_PROBABILITY) & (means < 1 - BOUND_PROBABILITY)
    observed = information(X, (Z - centre) / spread, weights, means, coefficients @ to_inner)
    free = np.concatenate([np.ones((k - 1) * q, bool), inside.ravel()])
    part = observed[np.ix_(free, free)]
    notes = []
    if not inside.all():
        notes.append(f"{(~inside).sum()} probabilities of bits are 0 or 1 and are taken as known")
    covariance = np.full(observed.shape, np.nan)
    scale = np.sqrt(np.maximum(np.diag(part), 1e-300))
    if len(part) and np.linalg.eigvalsh(part / np.outer(scale, scale))[0] > LEAST_EIGENVALUE:
        covariance[np.ix_(free, free)] = np.linalg.inv(part)
    else:
        notes.append("the information is singular: the table does not determine all parameters, so there are no errors")
    back = np.kron(np.eye(k - 1), np.linalg.inv(to_inner).T)
    of_coefficients = back @ covariance[: (k - 1) * q, : (k - 1) * q] @ back.T
    of_slopes = np.sqrt(np.diag(of_coefficients)).reshape(k - 1, q)
    of_means = np.sqrt(np.diag(covariance))[(k - 1) * q :].reshape(means.shape) * means * (1 - means)
    z = coefficients[1:] / of_slopes
    return MembershipErrors(
        coefficients[1:],
        of_slopes,
        z,
        2 * norm.sf(np.abs(z)),
        means,
        of_means,
        names,
        columns,
        of_coefficients,
        tuple(notes),
    )


def information(
    X: np.ndarray, Z: np.ndarray, weights: np.ndarray, means: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    """Compute minus the second derivatives of the log-likelihood by coefficients (but the first class's) and logits.

    With the scores a_k of a row if its class were known: the complete information less <a a'> - <a><a>' (Louis 1982).
    """
    k, q = coefficients.shape
    d = means.shape[1]
    size = (k - 1) * q + k * d
    total = np.zeros((size, size))
    step = max(1, 2**22 // (k * size))  # numbers of the scores of rows that are held at a time
    for first in range(0, len(X), step):
        some = slice(first, first + step)
        total += _of_rows(X[some], Z[some], weights[some], means, coefficients)
    return total


def _of_rows(
    X: np.ndarray, Z: np.ndarray, weights: np.ndarray, means: np.ndarray, coefficients: np.ndarray
) -> np.ndarray:
    n, (k, q), d = len(X), coefficients.shape, X.shape[1]
    seen = ~np.isnan(X)
    bits, inner = np.where(seen, X, 0), np.clip(means, 1e-12, 1 - 1e-12)
    with_one = np.column_stack([np.ones(n), Z])
    log_prior = log_softmax(with_one @ coefficients.T, axis=1)
    joint = log_prior + bits @ np.log(inner).T + (seen - bits) @ np.log1p(-inner).T
    prior, share = np.exp(log_prior), np.exp(joint - logsumexp(joint, axis=1, keepdims=True))

    scores = np.zeros((n, k, (k - 1) * q + k * d))
    of_class = np.eye(k)[None] - prior[:, None]  # (rows, class, by the linear predictor of each class)
    scores[:, :, : (k - 1) * q] = (of_class[:, :, 1:, None] * with_one[:, None, None]).reshape(n, k, -1)
    for c in range(k):
        place = (k - 1) * q + c * d
        scores[:, c, place : place + d] = bits - seen * means[c]
    complete = np.zeros((scores.shape[2],) * 2)
    spread = prior[:, 1:, None] * (np.eye(k)[None, 1:, 1:] - prior[:, None, 1:])
    products = with_one[:, :, None] * with_one[:, None] * weights[:, None, None]
    block = np.einsum("nab,nij->aibj", spread, products, optimize=True).reshape((k - 1) * q, -1)
    complete[: (k - 1) * q, : (k - 1) * q] = block
    of_means = ((share * weights[:, None]).T @ seen) * means * (1 - means)
    places = np.arange((k - 1) * q, len(complete))
    complete[places, places] = of_means.ravel()

    flat = scores.reshape(n * k, -1)
    mean = np.einsum("nk,nkp->np", share, scores)
    within = (flat * (share * weights[:, None]).reshape(-1, 1)).T @ flat
    return complete - (within - (mean * weights[:, None]).T @ mean)
