"""Theorems of the paper as numbers.

Universality (2.5), the two kinds of machines (2.6), a mixture where one unit is on (3.0.1), the rule for orthogonal
weights (3.1), and projections (appendix A).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import logsumexp
from scipy.stats import kstest

from latentbits.estimators.combination_machine import CombinationMachine
from latentbits.models.combination_machine import equations
from latentbits.papers.freund_haussler_1994.targets import TARGETS
from latentbits.papers.freund_haussler_1994.universal import universal_machine

__all__ = ["Theory", "distance_from_normal", "one_seed"]

TOLERANCES = (1e-1, 1e-3, 1e-6)  # of a built machine, in total variation
SCALES = (0.02, 0.01)  # of the target's weights, at which the two normalisers are compared


class Theory(NamedTuple):
    """Amount of work to be done."""

    n_bits: int = 6  # of the distributions that machines are built for
    # numbers of bits whose projections are compared with a normal distribution
    sizes: tuple[int, ...] = (16, 64, 256, 1024)
    n_seeds: int = 50  # repetitions


def one_seed(theory: Theory, seed: int) -> dict[str, Any]:
    """Compute all numbers of one seed, for JSON."""
    rng = np.random.default_rng([seed, 25])
    return {
        "universality": universality(theory.n_bits, rng),
        "order": normalisers(rng),
        "projections": projections(theory.sizes, rng),
        "exception": exception(theory.sizes[-1], rng),
        "one_active": one_active(rng),
        "orthogonal": orthogonal(rng),
    }


def universality(n: int, rng: np.random.Generator) -> dict[str, float]:
    """Measure total variation between distributions on n bits and machines built for them, over what is asked for.

    Return, by this distance, the largest ratio over distributions of several kinds.
    """
    found = dict.fromkeys(map(str, TOLERANCES), 0.0)
    for spread in (0.1, 1.0, 100.0):  # of Dirichlet draws: from almost concentrated to almost uniform
        p = rng.dirichlet(np.full(2**n, spread)) + 1e-6  # no state is impossible
        p /= p.sum()
        for tolerance in TOLERANCES:
            built = universal_machine(p, tolerance)
            log_p = np.logaddexp(0, equations.inputs(n) @ built.weights.T + built.hidden_bias).sum(1)  # (2.4)
            distance = 0.5 * np.abs(np.exp(log_p - logsumexp(log_p)) - p).sum()
            found[str(tolerance)] = max(found[str(tolerance)], float(distance / tolerance))
    return found


def normalisers(rng: np.random.Generator) -> float:
    """Fit the power of the weights with which log Z_R - log Z_B - (n / 2) ln(pi / 2) vanishes (section 2.6).

    For the weights of the target, all of them small, and random biases of the units.
    """
    weights = TARGETS["large"].weights
    m, n = weights.shape
    theta = rng.normal(size=(m,))
    left = [
        equations.real_log_partition(scale * weights, theta)
        - equations.log_partition(scale * weights, theta)
        - n / 2 * np.log(np.pi / 2)
        for scale in SCALES
    ]
    return float(np.log(left[0] / left[1]) / np.log(SCALES[0] / SCALES[1]))


def one_active(rng: np.random.Generator, m: int = 4, n: int = 6) -> float:
    """Compute the largest difference of log P(x) between a machine with at most one unit on and a mixture (2.9).

    The mixture has the machine's weights, and a product more, the uniform one, for the state in which no unit is on.
    """
    w, theta, x = rng.normal(size=(m, n)), rng.normal(size=m), equations.inputs(n)
    machine = CombinationMachine.from_parameters(w, theta, max_active=1, dtype="float64", random_state=0)
    h = np.vstack([np.zeros(m), np.eye(m)])
    log_shares = equations.log_terms(w, theta, h)
    shares = np.exp(log_shares - logsumexp(log_shares))
    mixed = equations.mixture_log_probability(np.vstack([np.zeros(n), w]), shares, x)
    return float(abs(machine.score_samples((x > 0).astype(np.uint8)) - mixed).max())


def orthogonal(rng: np.random.Generator, n_machines: int = 100, m: int = 6, n: int = 8) -> dict[str, float]:
    """Compute the share of machines with orthogonal weights whose largest term of Z_R the rule of section 3.1 finds.

    Returns `corrected`: with |w|^2 / 2; `printed`: with |w| / 2, as the paper has it.
    """
    found = {"corrected": 0, "printed": 0}
    for _ in range(n_machines):
        w = np.linalg.qr(rng.normal(size=(n, n)))[0][:m] * rng.uniform(0.5, 4, (m, 1))
        theta = -rng.uniform(0, 8, m)
        best = equations.states(m)[np.argmax(equations.real_log_terms(w, theta, equations.states(m)))]
        printed = w @ equations.furthest_from(w, theta) <= 0.5 * np.linalg.norm(w, axis=1)
        found["corrected"] += np.array_equal(equations.rule_for_orthogonal(w, theta), best)
        found["printed"] += np.array_equal(printed, best)
    return {name: count / n_machines for name, count in found.items()}


def projections(sizes: tuple[int, ...], rng: np.random.Generator) -> dict[str, float]:
    """Follow theorem A.0.1 to the letter, by the number of bits n: how far from normal a projection is.

    Means mu_j are drawn uniformly from [-1, 1], n rows from their product distribution, less mu, and a direction from
    the sphere; Kolmogorov's distance between the n projections and N(0, sigma^2), sigma^2 = 1 - E[mu^2] = 2 / 3.
    """
    found = {}
    for n in sizes:
        mean = rng.uniform(-1, 1, n)
        found[str(n)] = distance_from_normal(mean, np.sqrt(2 / 3), rng)
    return found


def exception(n: int, rng: np.random.Generator) -> float:
    """Measure the same for the paper's counterexample, a fair bit among certain ones; sigma is of the projections."""
    mean = np.ones(n)
    mean[0] = 0.0
    return distance_from_normal(mean, None, rng)


def distance_from_normal(mean: np.ndarray, sigma: float | None, rng: np.random.Generator) -> float:
    """Compute Kolmogorov's distance between N(0, sigma^2) and a random projection of as many rows as bits.

    `mean`: of each bit, -1 or +1.  `sigma`: None is the standard deviation of the projection.
    """
    n = len(mean)
    direction = rng.normal(size=n)
    direction /= np.linalg.norm(direction)
    x = np.where(rng.random((n, n)) < (1 + mean) / 2, 1.0, -1.0) - mean
    width = np.sqrt(direction**2 @ (1 - mean**2)) if sigma is None else sigma
    return float(kstest(x @ direction / width, "norm").statistic)
