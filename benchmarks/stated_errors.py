"""Stated errors against true ones: for every number that comes with an error, z = (estimate - truth) / stated error.

    python benchmarks/stated_errors.py [--quick] [--only NAME ...]

The spread of z (its root mean square) is 1 where errors are what they say.  Below 0.8 they are larger than need be, as
bounds are; above 1.2 they are too small, and marked.  "cases" are those that the spread is of, "±" what chance does to
it if z were Gaussian and cases independent.

Truth is, in float64,

    log-likelihoods of latent traits and clipped Gaussians    sums over a dense grid of the hidden variables, or a
                                                              product rule of 24 nodes in four dimensions
    of machines, and log Z                                    sums over all states: a machine of two parts that do not
                                                              know of each other is no less work for annealing, but
                                                              its Z is the product of theirs
    of noisy-OR networks                                      sums over all hidden states
    parameters and correlations                               those that tables were simulated with

Errors of sums over rows are what `log_likelihood(X, return_error=True)` gives; "rows" are single rows, as
`log_likelihoods` gives them, where errors are of chance.  Up to three hidden variables the error of a product rule is
that of a rougher one, which is a bound: the spread is far below 1.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import expit, log_expit, log_ndtr, logsumexp, ndtr, ndtri

from latentbits import ClippedGaussian, CombinationMachine, ItemResponse, LatentTrait
from latentbits.core.tree import double
from latentbits.models.clipped_gaussian import bivariate
from latentbits.models.noisy_or import enumeration
from latentbits.models.noisy_or.annealing import annealed_evidence
from latentbits.models.noisy_or.network import Params

LEAST, MOST = 0.8, 1.2  # spread of z
POINTS = 2**18  # of a grid at a time, times rows


class Errors(NamedTuple):
    """Of one kind of number: z-scores, and the size of the errors stated."""

    name: str
    z: np.ndarray
    error: float

    @property
    def spread(self) -> float:
        return float(np.sqrt(np.mean(self.z**2)))

    @property
    def chance(self) -> float:
        return float(self.spread / np.sqrt(2 * len(self.z)))

    @property
    def verdict(self) -> str:
        return "larger than need be" if self.spread < LEAST else "TOO SMALL" if self.spread > MOST else ""


def errors_of(name: str, estimate: Any, truth: Any, error: Any) -> Errors:
    """z-scores of estimates with an error; those that are not known (NaN) are left out."""
    estimate, truth, error = (np.asarray(x, float).ravel() for x in np.broadcast_arrays(estimate, truth, error))
    known = np.isfinite(error) & np.isfinite(estimate)
    return Errors(name, ((estimate - truth) / error)[known], float(np.median(error[known])))


# --- hidden variables: sums over a grid ---


def grid(q: int) -> tuple[np.ndarray, np.ndarray]:
    """Points in q dimensions and the log of what each stands for under N(0, I)."""
    if q <= 2:
        axis = np.linspace(-8, 8, {1: 8001, 2: 401}[q])
        logs = -0.5 * axis**2 - logsumexp(-0.5 * axis**2)
    else:
        axis, weights = np.polynomial.hermite_e.hermegauss(24)
        logs = np.log(weights / weights.sum())
    points = np.stack([g.ravel() for g in np.meshgrid(*[axis] * q, indexing="ij")], 1)
    return points, sum(g.ravel() for g in np.meshgrid(*[logs] * q, indexing="ij"))


def by_grid(
    link: Callable[[np.ndarray], np.ndarray], weights: np.ndarray, bias: np.ndarray, X: np.ndarray
) -> np.ndarray:
    """log p(x) of rows of bits, NaN for missing: `link` is the log of P(bit = 1) at bias + y @ weights."""
    points, logs = grid(len(weights))
    on, off = (X == 1).astype(float), (X == 0).astype(float)
    parts = []
    for first in range(0, len(points), max(1, 64 * POINTS // len(X))):
        part = slice(first, first + max(1, 64 * POINTS // len(X)))
        a = points[part] @ weights + bias
        parts.append(logsumexp(on @ link(a).T + off @ link(-a).T + logs[part], axis=1))
    return logsumexp(parts, axis=0)


def with_holes(X: np.ndarray, rng: np.random.Generator, share: float = 0.2) -> np.ndarray:
    return np.where(rng.random(X.shape) < share, np.nan, X)


def likelihoods(
    name: str, model: Any, truth: Callable[[np.ndarray], np.ndarray], tables: list[np.ndarray], rows: bool
) -> Iterator[Errors]:
    """Of sums over the rows of each table, and of rows."""
    exact = [truth(X) for X in tables]
    totals = [model.log_likelihood(X, return_error=True) for X in tables]
    values, errors = (np.array([float(t[i]) for t in totals]) for i in (0, 1))
    yield errors_of(f"log-likelihood, {name}", values, [x.sum() for x in exact], errors)
    if rows:
        found = [model.log_likelihoods(X) for X in tables]
        each = [np.concatenate([np.asarray(getattr(f, part), float) for f in found]) for part in ("value", "error")]
        yield errors_of(f"  its rows, {name}", each[0], np.concatenate(exact), each[1])


def traits(quick: bool) -> Iterator[Errors]:
    """Log-likelihoods of latent traits."""
    for q, d in ((1, 10), (2, 10), (4, 16)):
        rng = np.random.default_rng([1, q])
        weights, bias = 1.2 * rng.normal(size=(q, d)), rng.normal(size=d)

        def drawn(n: int, rng: Any = rng, weights: Any = weights, bias: Any = bias) -> np.ndarray:
            bits = rng.random((n, len(bias))) < expit(rng.normal(size=(n, len(weights))) @ weights + bias)
            return bits.astype(float)

        m = LatentTrait(q, random_state=0).fit(drawn(1000))
        at = (log_expit, m.components_, m.intercept_)
        tables = [with_holes(drawn(40 if quick else 100), rng) for _ in range(4 if quick else 20)]
        yield from likelihoods(f"latent trait q = {q}", m, lambda X, at=at: by_grid(*at, X), tables, q > 3)


def gaussians(quick: bool) -> Iterator[Errors]:
    """Log-likelihoods of clipped Gaussians, one column of which has hardly any noise."""
    for q, d in ((1, 10), (2, 10), (4, 16)):
        rng = np.random.default_rng([2, q])
        weights = rng.normal(size=(q, d))
        explained = np.r_[0.97, rng.uniform(0.3, 0.8, d - 1)]
        weights *= np.sqrt(explained / np.sum(weights**2, 0))
        phi = 0.5 * rng.normal(size=d)

        def drawn(
            n: int, rng: Any = rng, weights: Any = weights, phi: Any = phi, own: Any = 1 - explained
        ) -> np.ndarray:
            x = phi + rng.normal(size=(n, len(weights))) @ weights
            return (x + np.sqrt(own) * rng.normal(size=x.shape) > 0).astype(float)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Heywood cases
            m = ClippedGaussian(q, extraction="factors").fit(drawn(2000))
        own = np.sqrt(m.noise_variance_)
        at = (log_ndtr, m.components_ / own, m.thresholds_ / own)
        tables = [with_holes(drawn(40 if quick else 100), rng) for _ in range(4 if quick else 20)]
        yield from likelihoods(f"clipped Gaussian q = {q}", m, lambda X, at=at: by_grid(*at, X), tables, q > 3)


def cells(quick: bool) -> Iterator[Errors]:
    """Log-likelihoods of clipped Gaussians without noise: masses along one axis are known, and summed across it."""
    rng = np.random.default_rng(7)
    weights = rng.normal(size=(8, 2))
    correlation = weights @ weights.T / np.outer(*(np.linalg.norm(weights, axis=1),) * 2)
    mean = np.array([0.5, 0.4, 0.6, 0.3, 0.7, 0.5, 0.45, 0.55])
    phi = ndtri(mean)
    both = multivariate_bits(phi, correlation)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that two components leave something over
        m = ClippedGaussian.from_moments(mean, both - np.outer(mean, mean), n_components=2)
    X = m.sample(100 if quick else 500, random_state=0).astype(float)
    across = np.linspace(-8, 8, 200_001)
    w, bias = m.components_.T, m.thresholds_
    crossing = -(bias + across[:, None] * w[:, 0]) / w[:, 1]
    exact = []
    distinct, place = np.unique(X, axis=0, return_inverse=True)
    for row in distinct:
        above = (row == 1) == (w[:, 1] > 0)
        low = np.max(np.where(above, crossing, -np.inf), 1)
        high = np.min(np.where(above, np.inf, crossing), 1)
        mass = np.maximum(ndtr(high) - ndtr(low), 0)
        exact.append(np.log(np.sum(mass * np.exp(-(across**2) / 2)) * (across[1] - across[0]) / np.sqrt(2 * np.pi)))
    found = m.log_likelihoods(X)
    yield errors_of(
        "rows, clipped Gaussian q = 2 without noise", found.value, np.array(exact)[place.ravel()], found.error
    )


def multivariate_bits(phi: np.ndarray, correlation: np.ndarray) -> np.ndarray:
    """P(both bits are 1) of every pair, and of each bit on the diagonal."""
    means = ndtr(phi)
    both = bivariate.covariance(phi[:, None], phi, correlation) / 4 + np.outer(means, means)
    np.fill_diagonal(both, means)
    return both


# --- machines ---


def states(n: int) -> np.ndarray:
    return ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(float)


def log_sums(weights: np.ndarray, theta: np.ndarray, bias: np.ndarray, x: np.ndarray) -> np.ndarray:
    """Log of the sum over hidden states, and over missing inputs (0), for rows of -1 and 1."""
    h = states(len(theta))
    a = h @ weights + bias
    free = np.logaddexp(a, -a)
    return logsumexp(h @ theta + x @ a.T + (x == 0) @ free.T, axis=1)


def machines(quick: bool) -> Iterator[Errors]:
    """log Z of machines with too many units to be summed, and likelihoods of rows with holes."""
    m, n = 12, 12
    of_z, totals = [], []
    for seed in range(2 if quick else 4):
        rng = np.random.default_rng([3, seed])
        parts = [(rng.normal(size=(m, n)) * 0.5, rng.normal(size=m) - 1, 0.5 * rng.normal(size=n)) for _ in range(2)]
        zeros = np.zeros((m, n))
        weights = np.block([[parts[0][0], zeros], [zeros, parts[1][0]]])
        both = (np.concatenate([p[i] for p in parts]) for i in (1, 2))
        machine = CombinationMachine.from_parameters(weights, *both, random_state=seed, annealing=(256, 300))
        log_z = sum(float(log_sums(*p, np.zeros((1, n)))[0]) for p in parts)
        X = with_holes(machine.sample(20, random_state=seed).astype(float), rng, 0.3)
        x = np.nan_to_num(2 * X - 1)
        exact = sum(log_sums(*p, x[:, i * n : (i + 1) * n]) for i, p in enumerate(parts)) - log_z
        for again in range(5 if quick else 12):
            machine.estimate_log_partition(256, 300, random_state=again)
            of_z.append((machine.log_partition_, log_z, machine.log_partition_error_))
        total, error = machine.log_likelihood(X, return_error=True)
        totals.append((total, exact.sum(), error))
    yield errors_of("log Z, combination machine, annealed", *np.array(of_z).T)
    yield errors_of("log-likelihood, combination machine, holes", *np.array(totals).T)


# --- noisy OR ---


def noisy_or(quick: bool) -> Iterator[Errors]:
    """Annealed log p(x) of rows of networks whose causes have doubles, and of rows with two explanations."""
    n = 200 if quick else 1000
    sizes = (12, 8, 3)
    rng = np.random.default_rng(4)
    weights = [rng.gamma(0.6, 2.0, (8, 12)), rng.gamma(0.6, 2.0, (3, 8))]
    weights[0][4:] = weights[0][:4]
    weights[1][:, 4:] = weights[1][:, :4]
    biases = [rng.uniform(0.002, 0.02, s) for s in sizes[:2]] + [rng.uniform(0.2, 0.8, sizes[2])]
    above = (rng.random((n, 3)) < 1 - np.exp(-biases[2])).astype(float)
    for w, b in zip(weights[::-1], biases[1::-1]):
        above = (rng.random((n, len(b))) < 1 - np.exp(-(b + above @ w))).astype(float)
    yield _annealed("log p(x), noisy OR, causes with doubles", weights, biases, with_holes(above, rng, 0.2))

    bars = np.vstack([np.kron(np.eye(3), np.ones(3)), np.kron(np.ones(3), np.eye(3))])
    weights = [np.pad(3 * bars, ((0, 2), (0, 3))), np.zeros((3, 8))]
    biases = [np.full(12, 0.01), np.array([0.03] * 3 + [0.02] * 3 + [0.01] * 2), np.full(3, 0.01)]
    rows = np.tile(np.repeat([1.0, 0.0], [9, 3]), (n, 1))
    yield _annealed("log p(x), noisy OR, two explanations", weights, biases, rows)


def _annealed(name: str, weights: list[np.ndarray], biases: list[np.ndarray], X: np.ndarray) -> Errors:
    with double():
        params = Params(tuple(map(jnp.asarray, weights)), tuple(map(jnp.asarray, biases)))
        x, seen = jnp.asarray(np.nan_to_num(X)), jnp.asarray((~np.isnan(X)).astype(float))
        exact = jax.jit(lambda p, x, o: enumeration.log_evidence(p, enumeration.log_prior(p), x, o))(params, x, seen)
    single = jax.tree.map(lambda v: jnp.asarray(np.asarray(v), jnp.float32), (params, x, seen))
    keys = jax.random.split(jax.random.key(0), len(X))
    on, off = single[1].T, ((1 - single[1]) * single[2]).T
    found = jax.jit(annealed_evidence)(single[0], on, off, keys)
    return errors_of(name, found.value, exact, found.error)


# --- standard errors: simulated tables ---


def parameters(quick: bool) -> Iterator[Errors]:
    """Slopes and intercepts of latent traits."""
    w, b = np.linspace(0.7, 1.6, 6), np.linspace(-1, 1, 6)
    slopes, biases = [], []
    for seed in range(8 if quick else 60):
        rng = np.random.default_rng([5, seed])
        X = (rng.random((500, 6)) < expit(rng.normal(size=(500, 1)) * w + b)).astype(float)
        m = ItemResponse(random_state=0).fit(X)
        errors = m.standard_errors(X)
        slopes.append((m.components_[0], w, errors.components[0]))
        biases.append((m.intercept_, b, errors.intercept))
    yield errors_of("slopes of a latent trait, 500 rows", *(np.concatenate(p) for p in zip(*slopes)))
    yield errors_of("intercepts of a latent trait, 500 rows", *(np.concatenate(p) for p in zip(*biases)))


def correlations(quick: bool) -> Iterator[Errors]:
    """Tetrachoric correlations: common and rare bits, without and with holes."""
    loadings = np.array([0.9, 0.8, 0.6, 0.5, 0.3, -0.6])
    truth = np.outer(loadings, loadings)
    pairs = np.triu_indices(6, 1)
    for name, n, cuts, holes in (
        ("balanced, 500 rows", 500, np.zeros(6), 0.0),
        ("means 0.07 to 0.9, 500 rows", 500, np.array([-1.5, -1, -0.5, 0.5, 1, 1.3]), 0.0),
        ("means 0.07 to 0.9, 500 rows, 30 % holes", 500, np.array([-1.5, -1, -0.5, 0.5, 1, 1.3]), 0.3),
        ("means 0.16 to 0.84, 100 rows", 100, np.array([-1, -0.5, 0, 0.3, 0.7, 1]), 0.0),
    ):
        found = []
        for seed in range(40 if quick else 300):
            rng = np.random.default_rng([6, seed])
            x = rng.normal(size=(n, 1)) * loadings + np.sqrt(1 - loadings**2) * rng.normal(size=(n, 6))
            X = with_holes((x > cuts).astype(float), rng, holes)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                m = ClippedGaussian(1, extraction="components").fit(X)
            found.append((m.correlation_[pairs], truth[pairs], m.correlation_error_[pairs]))
        yield errors_of(f"tetrachoric correlations, {name}", *(np.concatenate(p) for p in zip(*found)))


KINDS: dict[str, Callable[[bool], Iterator[Errors]]] = {
    "traits": traits,
    "gaussians": gaussians,
    "cells": cells,
    "machines": machines,
    "noisy-or": noisy_or,
    "parameters": parameters,
    "correlations": correlations,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer tables: one or two minutes")
    parser.add_argument("--only", nargs="+", choices=sorted(KINDS), default=list(KINDS))
    options = parser.parse_args()
    print(f"{'':68} {'stated':>8} {'cases':>6} {'spread':>7} {'±':>5} {'most':>5}")
    for kind in options.only:
        began = time.perf_counter()
        for one in KINDS[kind](options.quick):
            numbers = f"{one.error:8.2g} {len(one.z):6d} {one.spread:7.2f} {one.chance:5.2f} {np.abs(one.z).max():5.1f}"
            print(f"{one.name:68} {numbers}  {one.verdict}".rstrip(), flush=True)
        print(f"  ({kind}: {time.perf_counter() - began:.0f} seconds)", flush=True)


if __name__ == "__main__":
    main()
