"""Several maps: likelihood, responsibilities and steps of EM against plain sums over a dense grid, in float64."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from scipy.stats import norm

from latentbits.core.batch import MISSING
from latentbits.engines.chunks import Layout
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import map_rows, start_pass
from latentbits.models.latent_trait import mixture_of_maps
from latentbits.models.latent_trait.kinds import Columns

FLOAT64 = np.dtype(np.float64)
N_COLUMNS, MAPS = 5, 3
EVERY = np.array(list(product([0, 1], repeat=N_COLUMNS)), np.uint8)
RECORD = mixture_of_maps.model(MAPS, 2, "quadrature")


def parameters(seed=0):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(MAPS, 4.0))
    weights = rng.normal(size=(MAPS, N_COLUMNS, 2))
    return mixture_of_maps._unchecked(
        mixture_of_maps.Params, np.log(share), weights, rng.normal(size=(MAPS, N_COLUMNS)), np.zeros((MAPS, 0)),
        np.zeros(0), np.zeros(0),
    )  # fmt: skip


def grid(step=0.2, reach=7.0):
    axis = np.arange(-reach, reach + step / 2, step)
    points = np.stack(np.meshgrid(axis, axis), -1).reshape(-1, 2)
    return points, norm.logpdf(points).sum(1) + 2 * np.log(step)


def twin(params, table):
    """log p(row, map) by a dense grid, and the mean of the latents on each map; missing bits are left out."""
    points, log_prior = grid()
    seen, values = table != MISSING, np.where(table == MISSING, 0, table)
    joint, means = [], []
    for m in range(MAPS):
        p = expit(points @ params.weights[m].T + params.bias[m])
        each = log_prior + (values * seen) @ np.log(p).T + ((1 - values) * seen) @ np.log1p(-p).T
        total = logsumexp(each, axis=1)
        joint.append(params.log_share[m] + total)
        means.append(np.exp(each - total[:, None]) @ points)
    return SimpleNamespace(joint=np.array(joint).T, means=np.array(means).swapaxes(0, 1))


def told(function, params, table):
    given = start_pass(RECORD, FLOAT64, params, seed_key(0))
    (found,) = map_rows(function, MemoryEngine(table), Layout(len(table), FLOAT64), given)
    return found


def test_likelihood_responsibilities_and_places_against_a_grid():
    """All rows of bits together have probability 1; holes are summed out."""
    params = parameters()
    rng = np.random.default_rng(1)
    holes = np.where(rng.random(EVERY.shape) < 0.4, MISSING, EVERY).astype(np.uint8)
    assert np.exp(told(RECORD.log_likelihood, params, EVERY).value).sum() == pytest.approx(1, abs=1e-6)
    expected = twin(params, holes)
    value = logsumexp(expected.joint, axis=1)
    found = told(RECORD.log_likelihood, params, holes)
    np.testing.assert_allclose(found.value, value, atol=1e-5)
    assert np.all(np.abs(found.value - value) <= found.error + 1e-9)
    posterior = told(RECORD.infer, params, holes)
    np.testing.assert_allclose(posterior.responsibilities, np.exp(expected.joint - value[:, None]), atol=1e-5)
    np.testing.assert_allclose(posterior.means, expected.means, atol=1e-4)
    best = np.argmax(expected.joint, axis=1)
    np.testing.assert_array_equal(posterior.map, best)
    np.testing.assert_allclose(posterior.mean, expected.means[np.arange(len(holes)), best], atol=1e-4)


def test_a_step_of_em_has_the_gradient_of_the_likelihood():
    """By Fisher's identity the sums of the E-step are the gradient of log p, here by differences of the grid's."""
    params = parameters(2)

    def gradient(params, shared, batch):
        stats, _ = RECORD.e_step(params, shared, batch, RECORD.start_rows(params, shared, batch))
        return jnp.broadcast_to(stats.of_maps.bits.gradient, (len(batch.values), MAPS, N_COLUMNS, 3))

    found = told(gradient, params, EVERY)[0]
    for m, column, entry in [(0, 1, 0), (1, 3, 1), (2, 0, 2)]:
        values = []
        for change in (-1e-4, 1e-4):
            moved = parameters(2)
            target = moved.bias if entry == 2 else moved.weights
            place = (m, column) if entry == 2 else (m, column, entry)
            target[place] += change
            values.append(logsumexp(twin(moved, EVERY).joint, axis=1).sum())
        assert found[m, column, entry] == pytest.approx(np.diff(values)[0] / 2e-4, abs=2e-3)


def test_samples_and_completions_are_of_the_mixture():
    params = parameters(3)
    p = np.exp(logsumexp(twin(params, EVERY).joint, axis=1))
    given = start_pass(RECORD, np.dtype(np.float32), params, seed_key(4))
    draw = lambda params, shared, batch: RECORD.sample(params, shared, batch.keys)  # noqa: E731
    rows = np.concatenate(
        list(map_rows(draw, MemoryEngine(np.zeros((20000, 1), np.uint8)), Layout(4096, np.dtype(np.float32)), given))
    )
    counts = np.bincount(rows.astype(int) @ 2 ** np.arange(N_COLUMNS)[::-1], minlength=len(EVERY))
    assert np.all(np.abs(counts / 20000 - p) < 5 * np.sqrt(p / 20000) + 1e-4)
    holes = EVERY.copy()
    holes[:, 2] = MISSING
    on, off = EVERY.copy(), EVERY.copy()
    on[:, 2], off[:, 2] = 1, 0
    ahead = logsumexp(twin(params, on).joint, axis=1) - logsumexp(twin(params, off).joint, axis=1)
    np.testing.assert_allclose(told(RECORD.complete, params, holes)[:, 2], expit(ahead), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("columns", "method"),
    [
        (Columns(binary=(0, 2), continuous=(1, 3), categorical=(4,), n_classes=(3,)), "variational"),
        (Columns(binary=(), continuous=(0, 1, 2, 3), shared_noise=True), "quadrature"),
    ],
)
def test_no_step_goes_down_with_columns_of_all_kinds(columns, method):
    rng = np.random.default_rng(5)
    kind = rng.integers(2, size=(150, 1))
    table = rng.normal(size=(150, 1)) * np.array([1, 2, -1, 1, 0.5]) + 3 * kind + 0.5 * rng.normal(size=(150, 5))
    for column in columns.binary:
        table[:, column] = table[:, column] > 1.5
    table[:, 4] = np.digitize(table[:, 4], [1, 3])
    table = table[:, : 4 + len(columns.categorical)]
    table[rng.random(table.shape) < 0.1] = np.nan
    record = mixture_of_maps.model(2, 1, method, columns, accelerate=False)
    result = fit(record, MemoryEngine(table), seed_key(0), dtype="float64", limits=Limits(30, -np.inf))
    last = [one.objective for one in result.history if one.stage == result.history[-1].stage]
    assert last[-1] > last[0]
    assert np.diff(last).min() >= -(1e-5 if method == "quadrature" else 1e-9)
    np.testing.assert_allclose(np.exp(result.params.log_share).sum(), 1)
