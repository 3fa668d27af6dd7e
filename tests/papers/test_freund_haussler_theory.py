"""Section 2.5, 2.6 and Appendix A of Freund & Haussler (1994): what a machine can be, and what its projections are."""

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import kstest, norm

from latentbits.core.errors import DataError
from latentbits.core.states import all_states
from latentbits.models.combination_machine import equations
from latentbits.papers.freund_haussler_1994.universal import universal_machine


def distribution(weights, hidden_bias):
    """P(x) of every x by the product form (2.4), in the order of all_states."""
    return np.exp(equations.log_probability(weights, hidden_bias, equations.inputs(weights.shape[1])))


def total_variation(p, q):
    return 0.5 * np.abs(p - q).sum()


# --- universality (2.5) ---


@pytest.mark.parametrize("n", [3, 4])
@pytest.mark.parametrize("spread", [0.1, 1.0, 100.0])
def test_any_distribution_is_reached(n, spread):
    """Dirichlet draws from almost concentrated to almost uniform, to within 1e-3, without one unit too many."""
    p = np.random.default_rng(n).dirichlet(np.full(2**n, spread)) + 1e-6
    p /= p.sum()
    found = universal_machine(p)
    assert total_variation(distribution(*found), p) < 1e-3
    assert found.weights.shape == (2**n - 1, n)
    finer = universal_machine(p, 1e-6)
    assert total_variation(distribution(*finer), p) < 1e-6


def test_states_of_least_probability_need_no_unit():
    parity = all_states(4).sum(1) % 2  # the dependence of highest order: no three bits tell anything of the fourth
    p = np.where(parity == 1, 0.115, 0.01)
    found = universal_machine(p)
    assert len(found.hidden_bias) == 8
    assert total_variation(distribution(*found), p) < 1e-3
    assert universal_machine(np.full(8, 0.125)).weights.shape == (0, 3)


def test_the_papers_case():
    """One unit, p at (1, ..., 1) and the same everywhere else: w = (a, ..., a), theta = -n a + ln(q - 1)."""
    n, p = 3, 0.6
    weights, hidden_bias = universal_machine(np.array([*[(1 - p) / 7] * 7, p]), 1e-4)
    q = p * 7 / (1 - p)
    a = 0.5 * np.log(q - 1) + 0.5 * np.log(1e4)
    np.testing.assert_allclose(weights, np.full((1, n), a))
    np.testing.assert_allclose(hidden_bias, [-n * a + np.log(q - 1)])


@pytest.mark.parametrize(
    ("p", "tolerance", "words"),
    [
        (np.array([0.5, 0.5, 0.0, 0.0]), 1e-3, "impossible"),
        (np.ones(3), 1e-3, "2\\^n numbers"),
        (np.ones(4), 0.0, "tolerance"),
    ],
)
def test_what_cannot_be_built_is_told(p, tolerance, words):
    with pytest.raises(DataError, match=words):
        universal_machine(p, tolerance)


# --- the real machine for the binary one (2.6) ---


def test_normalisers_agree_for_small_weights():
    """log Z_R - log Z_B -> (n/2) ln(pi / 2); what is left is E[sum_j w(h)_j^4] / 12, of the fourth order."""
    rng = np.random.default_rng(1)
    n, m = 6, 4
    weights, theta = rng.normal(size=(m, n)), rng.normal(size=m)
    h = equations.states(m)
    p = np.exp(h @ theta - logsumexp(h @ theta))  # P(h) as the weights vanish
    fourth = float(p @ ((h @ weights) ** 4).sum(1)) / 12
    left = []
    for scale in (0.4, 0.2, 0.1, 0.05):
        both = [by(scale * weights, theta) for by in (equations.log_partition, equations.real_log_partition)]
        left.append(both[1] - both[0] - n / 2 * np.log(np.pi / 2))
    ratios = np.array(left[:-1]) / left[1:]
    np.testing.assert_allclose(ratios[-1], 16, rtol=0.05)
    assert (np.diff(np.abs(ratios - 16)) < 0).all()
    np.testing.assert_allclose(left[-1] / 0.05**4, fourth, rtol=0.05)


# --- projections (Appendix A) ---


def distance_from_normal(mean, rng, n_rows=20_000):
    """Kolmogorov's distance between the normal and a random projection of a product distribution, less its mean."""
    n = len(mean)
    direction = rng.normal(size=n)
    direction /= np.linalg.norm(direction)
    x = np.where(rng.random((n_rows, n)) < (1 + mean) / 2, 1.0, -1.0) - mean
    spread = np.sqrt(direction**2 @ (1 - mean**2))
    return kstest(x @ direction / spread, norm.cdf).statistic


def test_projections_of_product_distributions_are_close_to_normal():
    """Means drawn from any distribution on [-1, 1], a random direction: the closer, the more bits."""
    rng = np.random.default_rng(2)
    distances = [
        np.mean([distance_from_normal(rng.uniform(-0.95, 0.95, n), rng) for _ in range(8)]) for n in (4, 16, 64)
    ]
    assert distances[0] > 1.5 * distances[1] > 1.5**2 * distances[2]
    assert distances[2] < 0.02  # of which 0.006 is the size of the sample


def test_projections_of_almost_certain_bits_are_not():
    """The paper's counterexample: one fair bit among certain ones leaves two points."""
    mean = np.ones(64)
    mean[0] = 0
    assert distance_from_normal(mean, np.random.default_rng(3)) > 0.3
