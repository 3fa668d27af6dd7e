"""Several maps: likelihood, responsibilities and steps of EM against plain sums over a dense grid, in float64."""

from __future__ import annotations

import functools
from itertools import product
from types import SimpleNamespace

import jax
import numpy as np
import pytest
from scipy.special import expit, logsumexp
from tests.models.steps import batch_of, now, unchecked
from traits import by_row

from latentbits.core.batch import MISSING
from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import equations, map_params, mixture_of_maps
from latentbits.models.latent_trait.column_kinds import Columns

N_COLUMNS, MAPS = 5, 3
EVERY = np.array(list(product([0, 1], repeat=N_COLUMNS)), np.uint8)
RECORD = mixture_of_maps.model(MAPS, 1, "quadrature", accelerate=False)


def parameters(seed=0):
    rng = np.random.default_rng(seed)
    share = rng.dirichlet(np.full(MAPS, 4.0))
    weights = rng.normal(size=(MAPS, N_COLUMNS, 1))
    return unchecked(
        map_params.Params, np.log(share), weights, rng.normal(size=(MAPS, N_COLUMNS)), np.zeros((MAPS, 0)),
        np.zeros(0), np.zeros(0),
    )  # fmt: skip


def twin(params, table):
    """log p(row, map) by the paper's equations of each map, and the mean of the latents there."""
    at, maps = equations.grid(1, 0.05), list(zip(params.weights, params.bias))
    value = np.array([by_row(lambda *given: equations.likelihood(*given, at), table, *one) for one in maps])
    share = np.array([by_row(lambda *given: equations.posterior(*given, at), table, *one) for one in maps])
    return SimpleNamespace(joint=value.T + params.log_share, means=np.swapaxes(share @ at[0], 0, 1))


@functools.cache
def found():
    """Ask for all that a model says of all rows, and of rows with holes, in one program."""
    params, holes = parameters(), np.where(np.random.default_rng(1).random(EVERY.shape) < 0.4, MISSING, EVERY)
    table = np.concatenate([EVERY, holes]).astype(np.uint8)
    weights = np.random.default_rng(2).integers(0, 3, len(table)).astype(float)

    @jax.jit
    def answers(p, table, key):
        batch, shared, state = batch_of(table, weights), RECORD.prepare(p, None, None), RECORD.start(p)
        stats, _ = RECORD.e_step(p, shared, batch, RECORD.start_rows(p, shared, batch))
        return (
            RECORD.log_likelihood(p, shared, batch),
            RECORD.infer(p, shared, batch),
            RECORD.complete(p, shared, batch),
            stats,
            RECORD.update(state, p, shared, stats, now())[1],
            RECORD.sample(p, shared, jax.random.split(key, 20000)),
        )

    with double():
        return params, table, weights, to_numpy(answers(params, table, jax.random.key(4)))


@pytest.mark.slow("a dense grid for each of two maps")
def test_likelihood_responsibilities_places_and_completions_against_a_grid():
    """All rows of bits together have probability 1; holes are summed out."""
    params, table, _, (scored, posterior, filled, *_) = found()
    expected = twin(params, table)
    value = logsumexp(expected.joint, axis=1)
    assert np.exp(scored.value[: len(EVERY)]).sum() == pytest.approx(1, abs=1e-6)
    np.testing.assert_allclose(scored.value, value, atol=1e-5)
    assert np.all(np.abs(scored.value - value) <= scored.error + 1e-9)
    share = np.exp(expected.joint - value[:, None])
    np.testing.assert_allclose(posterior.responsibilities, share, atol=1e-5)
    np.testing.assert_allclose(posterior.means, expected.means, atol=1e-4)
    best = np.argmax(expected.joint, axis=1)
    np.testing.assert_array_equal(posterior.map, best)
    np.testing.assert_allclose(posterior.mean, expected.means[np.arange(len(table)), best], atol=1e-4)
    on, off, hole = table.copy(), table.copy(), table[:, 2] == MISSING
    on[:, 2], off[:, 2] = 1, 0
    ahead = logsumexp(twin(params, on).joint, axis=1) - logsumexp(twin(params, off).joint, axis=1)
    np.testing.assert_allclose(filled[hole, 2], expit(ahead[hole]), atol=1e-5)


def test_a_step_of_em_has_the_gradient_of_the_likelihood():
    """By Fisher's identity the sums of the E-step are the gradient of log p, here by differences of the grid's."""
    params, table, weights, (*_, stats, after, _) = found()
    expected = twin(params, table)
    value = logsumexp(expected.joint, axis=1)
    assert stats.objective.sum() == pytest.approx(weights @ value, abs=1e-3)
    members = weights @ np.exp(expected.joint - value[:, None])
    np.testing.assert_allclose(stats.members, members, atol=1e-3)
    np.testing.assert_allclose(np.exp(after.log_share), members / weights.sum(), atol=1e-4)
    for m, column, entry in [(0, 1, 0), (1, 3, 0), (2, 0, 1)]:
        values = []
        for change in (-1e-4, 1e-4):
            moved = parameters()
            target, place = (moved.bias, (m, column)) if entry == 1 else (moved.weights, (m, column, entry))
            target[place] += change
            values.append(weights @ logsumexp(twin(moved, table).joint, axis=1))
        wanted = np.diff(values)[0] / 2e-4
        assert stats.of_maps.bits.gradient[m, column, entry] == pytest.approx(wanted, abs=2e-3)


def test_samples_are_of_the_mixture():
    params, *_, (*_, rows) = found()
    p = np.exp(logsumexp(twin(params, EVERY).joint, axis=1))
    counts = np.bincount(rows.astype(int) @ 2 ** np.arange(N_COLUMNS)[::-1], minlength=len(EVERY))
    assert np.all(np.abs(counts / 20000 - p) < 5 * np.sqrt(p / 20000) + 1e-4)


@pytest.mark.slow("fits of two maps with columns of all kinds")
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
