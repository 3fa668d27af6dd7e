"""The contract: one table of models, one list of promises."""

from __future__ import annotations

from itertools import product as pairs

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, each
from on_workers import NAMES

from latentbits.core import tree
from latentbits.core.batch import MISSING, make_batch
from latentbits.core.model import Schedule
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import map_rows, start_pass, sum_blocks

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
ONE_OF_EACH = (*NAMES, "latent tree")  # family, where one will do
BUDGET = 2**14  # of memory, of all fits: so small that there are several chunks, whose shape is compiled once


@pytest.fixture(params=each(CASES))
def case(request):
    return request.param


def not_excused(case, clause):
    """Excuses are given by name and with a reason; a clause that a case is excused from is not tested for it."""
    return clause not in case.excused


def keeping(clause, quick=""):
    cases = [c for c in CASES if not_excused(c, clause)]
    assert cases
    return pytest.mark.parametrize("case", each(cases, quick))


def learn(case, engine, dtype="float32", max_iter=12, seed=3):
    limits = Limits(max_iter, 1e-9)
    return fit(case.model, engine, seed_key(seed), dtype=dtype, limits=limits, memory_budget=BUDGET)


def learned(case, found={}):  # noqa: B006
    """Parameters for the promises that only look at them: one fit a case."""
    if case.name not in found:
        found[case.name] = learn(case, MemoryEngine(case.table)).params
    return found[case.name]


def same(a, b):
    leaves = jax.tree.leaves(a), jax.tree.leaves(b)
    assert len(leaves[0]) == len(leaves[1])
    return all(np.array_equal(x, y) for x, y in zip(*leaves))


def e_step(case, params, table, first_row=0, dtype=FLOAT64):
    """Statistics of some rows in float64, as one batch."""
    with tree.double():
        params = jax.tree.map(jnp.asarray, params)
        shared = case.model.prepare(params, None, None)
        holes = (table == MISSING) if table.dtype == np.uint8 else np.isnan(table)
        batch = make_batch(
            jnp.asarray(table),
            jnp.uint32(first_row),
            jnp.uint32(len(table)),
            seed_key(0),
            not holes.any(),
            dtype,
        )
        model = case.model
        state = None if model.start_rows is None else jax.jit(model.start_rows)(params, shared, batch)
        return tree.to_numpy(jax.jit(model.e_step)(params, shared, batch, state)[0])


def test_statistics_add(case):
    """stats(A) + stats(B) == stats(A and B), rows keeping their global numbers."""
    params = learned(case)
    whole = e_step(case, params, case.table)
    cut = len(case.table) // 2  # one shape, compiled once
    parts = e_step(case, params, case.table[:cut]), e_step(case, params, case.table[cut:], first_row=cut)
    for total, a, b in zip(jax.tree.leaves(whole), *(jax.tree.leaves(p) for p in parts)):
        # of an unevaluated pair the lower part is what rounding left of the upper one
        np.testing.assert_allclose(a + b, total, rtol=1e-9, atol=1e-9 * max(1, np.abs(total).max()))


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(case, id=case.name) for case in CASES if case.name in ONE_OF_EACH])
def test_a_call_of_several_chunks_computes_each_of_them(case):
    """Statistics and answers are those of one chunk at a time, but for how XLA compiles a loop.

    How many chunks a call computes follows from the table, not from the engine or the machine.
    """
    table, model = np.tile(case.table, (-(-700 // len(case.table)), 1))[:700], case.model
    found = []
    for together in (1, 4):
        layout = Layout(8, FLOAT32, together=together)
        assert {chunk.parts for chunk in rechunk([table], layout)} == {together}
        given = start_pass(model, FLOAT32, learned(case), seed_key(5))
        states = {}
        (stats,) = sum_blocks(model, MemoryEngine(table), layout, lambda given=given: given, states)
        (again,) = sum_blocks(model, MemoryEngine(table), layout, lambda given=given: given, states)
        answers = []
        for function in (model.infer, lambda *given: model.log_likelihood(*given).value):
            of_chunks = map_rows(function, MemoryEngine(table), layout, given)
            answers.append(jax.tree.map(lambda *parts: np.concatenate(parts), *of_chunks))
        found.append((stats, again, answers))
    for one, several in zip(*map(jax.tree.leaves, found), strict=True):
        np.testing.assert_allclose(several, one, rtol=1e-4, atol=1e-4 * max(1, np.abs(one).max(initial=0)))


def test_same_seed_same_result(case):
    one, two = (learn(case, MemoryEngine(case.table)) for _ in range(2))
    assert same(one.params, two.params)
    assert [r.objective for r in one.history] == [r.objective for r in two.history]


@keeping("monotone")
@pytest.mark.parametrize(("dtype", "slack"), [("float64", 1e-12), ("float32", 2e-6)])
def test_em_is_monotone(case, dtype, slack):
    result = learn(case, MemoryEngine(case.table), dtype=dtype, max_iter=60)
    for stage in {r.stage for r in result.history}:
        objective = np.array([r.objective for r in result.history if r.stage == stage])
        scale = slack * abs(objective[0]) + 1e-300
        assert np.diff(objective, prepend=objective[0]).min() >= -scale


def test_one_compilation_per_shape(case):
    """Chunks, passes and restarts share one compiled E-step: it is traced once per shape and stage."""
    traced = []

    def counting(*args):
        traced.append(jax.tree.map(jnp.shape, args[0]))
        return case.model.e_step(*args)

    counted = case.model._replace(e_step=counting)
    table = case.table if not (case.table == MISSING).any() else np.where(case.table == 0, MISSING, case.table)
    for n_init in (1, 2) if case.model.stages[-1].comparable else (1, 1):
        fit(counted, MemoryEngine(table), seed_key(0), limits=Limits(6), memory_budget=BUDGET, n_init=n_init)
    shapes = {str(t) for t in traced}
    own = [s for s in case.model.stages if isinstance(s, Schedule) and s.e_step is None]
    evaluations = sum(s.rows_per_update is not None and s.comparable for s in own)
    assert len(traced) == len(shapes) + evaluations


@keeping("missing", quick="noisy-OR network")  # the one case of its family
def test_missing_bits_are_marginalised(case):
    """log p of a row with holes is the log of the sum over all ways to fill them."""
    params = learned(case)
    d = case.table.shape[1]
    table = np.array([[1, 0, 1] + [MISSING] * 2 + [1] * (d - 5), [MISSING] * d, [0] * (d - 1) + [MISSING]], np.uint8)
    score = log_likelihoods(case, params, table)
    for row, value in zip(table, score):
        holes = np.flatnonzero(row == MISSING)
        filled = np.repeat(row[None], 2 ** len(holes), 0)
        filled[:, holes] = np.array(list(pairs([0, 1], repeat=len(holes))))
        np.testing.assert_allclose(
            value, np.logaddexp.reduce(log_likelihoods(case, params, filled)), atol=tolerance(case)
        )


@keeping("missing", quick="noisy-OR network")
def test_completion_is_the_conditional_probability(case):
    """`complete` is P(bit = 1 | observed), by brute force over the two ways to fill one hole."""
    params = learned(case)
    row = np.where(case.table[0] == MISSING, 1, case.table[0]).astype(np.uint8)
    hidden = row.copy()
    hidden[2] = MISSING
    on, off = row.copy(), row.copy()
    on[2], off[2] = 1, 0
    a, b = log_likelihoods(case, params, np.stack([on, off]))
    given = start_pass(case.model, FLOAT64, params, seed_key(0))
    (filled,) = map_rows(case.model.complete, MemoryEngine(hidden[None]), Layout(256, FLOAT64), given)
    slack = 0.01 if "Gaussian" in case.name else tolerance(case)  # its posterior is EP's
    np.testing.assert_allclose(filled[0, 2], 1 / (1 + np.exp(b - a)), atol=slack)


def test_samples_have_the_model_s_moments(case):
    """Means of 20000 sampled rows against brute force over all rows of bits: 5 standard errors, each column.

    The false-alarm rate is below 1e-6 a column.
    """
    params = learned(case)
    if case.table.dtype != np.uint8:
        W, pi = params.components, params.prior
        mean, spread = pi * W.sum(0), np.sqrt(params.noise_std**2 + pi * (1 - pi) * (W**2).sum(0))
    else:
        every = np.array(list(pairs([0, 1], repeat=case.table.shape[1])), np.uint8)
        p = np.exp(log_likelihoods(case, params, every))
        np.testing.assert_allclose(p.sum(), 1, atol=tolerance(case))
        mean = p @ every
        spread = np.sqrt(mean * (1 - mean))
    sample = _sample(case, params, 20000)
    assert np.all(np.abs(sample.mean(0) - mean) < 5 * spread / np.sqrt(20000) + tolerance(case))


def tolerance(case):
    if case.name == "adaptive quadrature":
        return 2e-4  # seven nodes are that good
    # as are twenty-one and more a dimension
    return 1e-5 if "trait" in case.name or "Gaussian" in case.name else 1e-9


def log_likelihoods(case, params, table):
    given = start_pass(case.model, FLOAT64, params, seed_key(0))
    parts = map_rows(case.model.log_likelihood, MemoryEngine(table), Layout(1024, FLOAT64), given)
    return np.concatenate([part.value for part in parts])


def _sample(case, params, n):
    given = start_pass(case.model, FLOAT32, params, seed_key(5))
    rows = MemoryEngine(np.zeros((n, 1), np.uint8))

    def draw(params, shared, batch):
        return case.model.sample(params, shared, batch.keys)

    return np.concatenate(list(map_rows(draw, rows, Layout(4096, FLOAT32), given)))
