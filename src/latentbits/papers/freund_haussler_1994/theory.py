"""What the paper proves, as numbers: universality (2.5), the two kinds of machines (2.6), projections (appendix A)."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest

from latentbits.core.states import all_states
from latentbits.core.tree import double
from latentbits.models.combination_machine.machine import BINARY, REAL, Machine, Units, log_weight
from latentbits.models.combination_machine.partition import exact_log_partition
from latentbits.papers.freund_haussler_1994.targets import TARGETS
from latentbits.papers.freund_haussler_1994.universal import universal_machine

__all__ = ["Theory", "distance_from_normal", "exception", "normalisers", "one_seed", "projections", "universality"]

TOLERANCES = (1e-1, 1e-3, 1e-6)  # of a built machine, in total variation
SPREADS = (0.1, 1.0, 100.0)  # of Dirichlet draws: from almost concentrated to almost uniform
SCALES = (0.02, 0.01)  # of the target's weights, at which the two normalisers are compared


class Theory(NamedTuple):
    """How much is done.

    Attributes
    ----------
    n_bits
        Of the distributions that machines are built for.
    sizes
        Numbers of bits whose projections are compared with a normal distribution.
    n_seeds
        Repetitions.
    """

    n_bits: int = 6
    sizes: tuple[int, ...] = (16, 64, 256, 1024)
    n_seeds: int = 50


def one_seed(theory: Theory, seed: int) -> dict[str, Any]:
    """All numbers of one seed, for JSON."""
    rng = np.random.default_rng([seed, 25])
    return {
        "universality": universality(theory.n_bits, rng),
        "order": normalisers(rng),
        "projections": projections(theory.sizes, rng),
        "exception": exception(theory.sizes[-1], rng),
    }


def universality(n: int, rng: np.random.Generator) -> dict[str, float]:
    """Total variation between distributions on n bits and the machines built for them, over the distance asked for.

    Returns
    -------
    dict
        By this distance: the largest ratio over distributions of several kinds.
    """
    found = dict.fromkeys(map(str, TOLERANCES), 0.0)
    x = jnp.asarray
    for spread in SPREADS:
        p = rng.dirichlet(np.full(2**n, spread)) + 1e-6  # no state is impossible
        p /= p.sum()
        for tolerance in TOLERANCES:
            built = universal_machine(p, tolerance)
            with double():
                machine = Machine(x(built.weights), x(built.hidden_bias), jnp.zeros(n))
                log_p = np.asarray(log_weight(BINARY, machine, x(2.0 * all_states(n) - 1)))
            distance = 0.5 * np.abs(np.exp(log_p - logsumexp(log_p)) - p).sum()
            found[str(tolerance)] = max(found[str(tolerance)], float(distance / tolerance))
    return found


def normalisers(rng: np.random.Generator) -> float:
    """The power of the weights with which log Z_R - log Z_B - (n / 2) ln(pi / 2) vanishes (section 2.6).

    For the weights of the target, all of them small, and random biases of the units.
    """
    weights = TARGETS["large"].weights
    m, n = weights.shape
    theta = rng.normal(size=(m,))
    left = [
        _log_z(REAL, scale * weights, theta) - _log_z(BINARY, scale * weights, theta) - n / 2 * np.log(np.pi / 2)
        for scale in SCALES
    ]
    return float(np.log(left[0] / left[1]) / np.log(SCALES[0] / SCALES[1]))


def _log_z(units: Units, weights: np.ndarray, theta: np.ndarray) -> float:
    with double():
        machine = Machine(jnp.asarray(weights), jnp.asarray(theta), jnp.zeros(weights.shape[1]))
        return float(exact_log_partition(units, machine))


def projections(sizes: tuple[int, ...], rng: np.random.Generator) -> dict[str, float]:
    """Theorem A.0.1 to the letter, by the number of bits n: how far from normal a projection is.

    Means mu_j are drawn uniformly from [-1, 1], n rows from their product distribution, less mu, and a direction from
    the sphere; Kolmogorov's distance between the n projections and N(0, sigma^2), sigma^2 = 1 - E[mu^2] = 2 / 3.
    """
    found = {}
    for n in sizes:
        mean = rng.uniform(-1, 1, n)
        found[str(n)] = distance_from_normal(mean, np.sqrt(2 / 3), rng)
    return found


def exception(n: int, rng: np.random.Generator) -> float:
    """The same for the paper's counterexample: one fair bit among certain ones; sigma is that of the projections."""
    mean = np.ones(n)
    mean[0] = 0.0
    return distance_from_normal(mean, None, rng)


def distance_from_normal(mean: np.ndarray, sigma: float | None, rng: np.random.Generator) -> float:
    """Kolmogorov's distance between N(0, sigma^2) and a random projection of as many rows as bits.

    Parameters
    ----------
    mean
        Of each bit, -1 or +1.
    sigma
        None is the standard deviation of the projection.
    """
    n = len(mean)
    direction = rng.normal(size=n)
    direction /= np.linalg.norm(direction)
    x = np.where(rng.random((n, n)) < (1 + mean) / 2, 1.0, -1.0) - mean
    width = np.sqrt(direction**2 @ (1 - mean**2)) if sigma is None else sigma
    return float(kstest(x @ direction / width, "norm").statistic)
