"""The contract: one table of models, one list of promises."""

from __future__ import annotations

from functools import partial
from itertools import product as pairs

import dask
import equinox as eqx
import jax
import numpy as np
import pytest
from cases import CASES, each
from on_workers import alone, budget, learn, on_dask, same_bits

from latentbits.core import compilation, keys, tree
from latentbits.core.batch import MISSING
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Schedule, Transform
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.fit import seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import (
    START_ROWS,
    Clock,
    Elsewhere,
    Pass,
    chunk_rows,
    chunk_stats,
    map_rows,
    prepared,
    start_pass,
    sum_blocks,
)
from latentbits.engines.sparse import layout_of
from latentbits.engines.stage import begin, call
from latentbits.engines.stream import StreamEngine
from latentbits.engines.summary import summarise

FLOAT32, FLOAT64 = np.dtype(np.float32), np.dtype(np.float64)
# The bound of a chunk is improved until its last row has settled, and which rows are in a chunk is not the same.
ROUGH = {"latent trait": 1e-5, "trait maps": 1e-5}
WEIGHTED = ("product", "mixture", "sparse coding", "latent trait", "clipped Gaussian")  # quick with weights, too
STATED = 2e-3  # by how much a family with a state per row may differ in memory
# plain EM of two stages, each cut off after a few passes: the second begins where the first stood
CUT_OFF = {"trait maps by the bound, then by nodes": 0.01}


@pytest.fixture(params=each())
def case(request):
    return request.param


def keeping(clause, quick=None):
    """Excuses are given by name and with a reason; a clause that a case is excused from is not tested for it.

    Where one will do the others are slow.
    """
    cases = [c if quick is None else c._replace(slow=c.name not in quick) for c in CASES if clause not in c.excused]
    assert cases
    return pytest.mark.parametrize("case", each(cases))


def learned(case, found={}):  # noqa: B006
    """One fit a case, for all promises that only look at it, and the names of the programs that it made."""
    if case.name not in found:
        before = len(compilation.made())
        result = learn(case, MemoryEngine(case.table), 15)
        found[case.name] = result, [one.name for one in compilation.made()[before:]]
    return found[case.name]


def stages(case):
    return [stage for stage in case.model.stages if not isinstance(stage, Transform)]


def same(a, b):
    return all(np.array_equal(x, y) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True))


def assert_same(a, b, rtol=1e-9):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        # of an unevaluated pair the lower part is what rounding left of the upper one
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(1, np.abs(y).max(initial=0)))


def rough(case):
    return next((error for name, error in ROUGH.items() if case.name.startswith(name)), 1e-9)


# ---------------------------------------------------------------- learning


def test_same_seed_same_result(case):
    first, _ = learned(case)
    again = learn(case, MemoryEngine(case.table), 15)
    assert same(first.params, again.params)
    assert [r.objective for r in first.history] == [r.objective for r in again.history]


def test_one_compilation_per_shape(case):
    """Chunks, passes and restarts share one compiled E-step: there is one for each stage, and other seeds need none."""
    _, made = learned(case)
    own = [s for s in stages(case) if isinstance(s, Schedule) and s.e_step is None]
    evaluations = sum(s.rows_per_update is not None and s.comparable for s in own)
    assert made.count(chunk_stats.name) <= len(stages(case)) + evaluations
    before = len(compilation.made())
    learn(case, MemoryEngine(case.table), 6, seed=4, n_init=2 if case.model.stages[-1].comparable else 1)
    assert not [one.name for one in compilation.made()[before:]]


def assert_monotone(result, slack):
    for stage in {r.stage for r in result.history}:
        objective = np.array([r.objective for r in result.history if r.stage == stage])
        assert np.diff(objective, prepend=objective[0]).min() >= -slack * abs(objective[0]) - 1e-300


@keeping("monotone")
def test_em_is_monotone(case):
    assert_monotone(learned(case)[0], 1e-12)


@pytest.mark.slow("the same in single precision")
@keeping("monotone")
def test_em_is_monotone_in_single_precision(case):
    assert_monotone(learn(case, MemoryEngine(case.table), 60, dtype="float32"), 2e-6)


# ---------------------------------------------------------------- engines: one fixed tree of sums


def streamed(table, sizes):
    """The table in batches of the given sizes, in rotation."""
    ends = np.cumsum(np.resize(sizes, len(table)))
    return StreamEngine(lambda: iter(np.split(table, ends[ends < len(table)])), table.shape[1])


WAYS = {
    "in memory": MemoryEngine,
    "in batches": partial(streamed, sizes=(7, 90, 1)),
    "in Dask's blocks": partial(on_dask, sizes=(80, 1, 77)),
}


def test_every_way_learns_the_same_parameters(case):
    """Only a model with a state per row may differ in memory, within what a fit is worth."""
    expected = alone(case)  # a stream of one batch
    for way, engine_of in WAYS.items():
        engine = engine_of(case.table)
        assert isinstance(engine, Elsewhere) == ("Dask" in way)
        with dask.config.set(scheduler="synchronous"):
            found = learn(case, engine)
        if way == "in memory" and any(case.model.acting_in(stage).start_rows for stage in stages(case)):
            for a, b in zip(jax.tree.leaves(found.params), jax.tree.leaves(expected.params), strict=True):
                near = CUT_OFF.get(case.name, STATED)
                np.testing.assert_allclose(a, b, rtol=near, atol=near)
        else:
            assert same_bits(found, expected), way


def test_the_budget_makes_several_chunks(case):
    """Otherwise the test before this one would compare nothing."""
    engine = MemoryEngine(case.table)
    layouts = [layout_of(case.model.acting_in(stage), engine, FLOAT64, budget(case)) for stage in stages(case)]
    assert max(sum(1 for _ in rechunk([case.table], layout)) for layout in layouts) > 2


SEVERAL = ("product", "sparse coding", "latent tree", "noisy-OR network", "combination machine", "clipped Gaussian")


@pytest.mark.parametrize("case", each(c._replace(slow=c.name != "product") for c in CASES if c.name in SEVERAL))
def test_a_call_of_several_chunks_computes_each_of_them(case):
    """Statistics and answers are those of one chunk at a time, but for how XLA compiles a loop."""
    table, model = np.tile(case.table, (3, 1))[:700], case.model
    found = []
    for together in (1, 4):
        layout = Layout(8, FLOAT64, together=together)
        assert {chunk.parts for chunk in rechunk([table], layout)} == {together}
        given = start_pass(model, FLOAT64, learned(case)[0].params, seed_key(5))
        states = {}
        (stats,) = sum_blocks(model, MemoryEngine(table), layout, lambda given=given: given, states)
        (again,) = sum_blocks(model, MemoryEngine(table), layout, lambda given=given: given, states)
        answers = []
        for function in (model.infer, lambda *given: model.log_likelihood(*given).value):
            of_chunks = map_rows(function, MemoryEngine(table), layout, given)
            answers.append(jax.tree.map(lambda *parts: np.concatenate(parts), *of_chunks))
        found.append((stats, again, answers))
    assert_same(found[1], found[0], 1e-6)


# ---------------------------------------------------------------- statistics and weights


def given_in(case, stage):
    """The model that acts in a stage, and what its passes are given: the first begins at the start."""
    model, params = case.model.acting_in(stage), learned(case)[0].params
    with tree.double():
        if stage is case.model.stages[0] and len(case.model.stages) > 1:
            params = begin(callable_tree(model.init), keys.raw(seed_key(0)), summarise(MemoryEngine(case.table)))
        params = tree.strong(params)
        state = None if model.start is None else tree.strong(call(callable_tree(model.start), params))
    clock = Clock(np.int32(0), np.int32(5), np.int32(0), keys.raw(seed_key(1)))
    _, in_rows, shared = prepared(model, FLOAT64, params, state, clock)
    return model, Pass(in_rows, shared, keys.raw(seed_key(2)))


def of_single_rows_apart(total):
    total = tree.to_numpy(total)
    for name in ("n_places", "residuals", "drawn", "drawn_seen"):
        if hasattr(total, name):
            total = eqx.tree_at(lambda t, name=name: getattr(t, name), total, 0.0)
    return total


def sums(case, stage, table, weights=None):
    """The statistics of one pass of a stage."""
    model, given = given_in(case, stage)
    engine = MemoryEngine(table, weights)
    (total,) = sum_blocks(model, engine, layout_of(model, engine, FLOAT64, budget(case)), lambda: given, {})
    return of_single_rows_apart(total)


def counted(table, seed=0):
    """Distinct rows, a number for each, and the table written out."""
    rows = np.unique(table, axis=0)
    rows = np.random.default_rng(seed).permutation(rows)
    counts = np.random.default_rng(seed + 1).integers(1, 5, len(rows))
    return rows, counts.astype(float), np.repeat(rows, counts, axis=0)


def test_statistics_add(case):
    """stats(A) + stats(B) == stats(A and B), rows keeping their global numbers; what pads a chunk does not count."""
    for stage in stages(case):
        model, given = given_in(case, stage)
        layout = layout_of(model, MemoryEngine(case.table), FLOAT64, budget(case))
        layout = layout._replace(rows_per_update=getattr(stage, "rows_per_update", None))
        chunk = next(MemoryEngine(case.table).chunks(layout))
        table, cut = np.asarray(chunk.values), chunk.n_rows // 3
        known = {"complete": chunk.complete, "dtype": FLOAT64, "parts": 1}

        def stats(first, end, table=table, model=model, given=given, known=known):
            rows = np.roll(table, -first, 0), np.uint32(first), np.uint32(end - first)
            state, few = None, {"few": True}
            with tree.rows_in(FLOAT64):
                if model.start_rows is not None:
                    state = chunk_rows(
                        callable_tree(model.start_rows), given, *rows, purpose=START_ROWS, **few, **known
                    )
                total, _ = chunk_stats(callable_tree(model.e_step), given, *rows, state, **known)
            return of_single_rows_apart(total)

        whole, a, b = stats(0, chunk.n_rows), stats(0, cut), stats(cut, chunk.n_rows)
        assert_same(jax.tree.map(np.add, a, b), whole)


@keeping("linear", WEIGHTED)
def test_statistics_are_linear_in_the_weights(case):
    """Rows without weight are no rows."""
    rows, counts, _ = counted(case.table)
    kept = 2 * len(rows) // 3
    for stage in stages(case):
        once, more = (sums(case, stage, rows, by) for by in (counts, 1.75 * counts))
        assert_same(jax.tree.map(lambda x: 1.75 * x, once), more)
        some = sums(case, stage, rows, np.where(np.arange(len(rows)) < kept, counts, 0.0))
        assert_same(some, sums(case, stage, rows[:kept], counts[:kept]), rough(case))


@keeping("written", WEIGHTED)
def test_counts_are_the_table_written_out(case):
    """So are weights of one the table itself."""
    rows, counts, written = counted(case.table)
    assert_same(summarise(MemoryEngine(rows, counts)), summarise(MemoryEngine(written)), 1e-12)
    for stage in stages(case):
        assert_same(sums(case, stage, rows, counts), sums(case, stage, written), rough(case))
        assert_same(sums(case, stage, rows, np.ones(len(rows))), sums(case, stage, rows), 1e-12)


@keeping("weighted fit", ("product", "mixture", "clipped Gaussian"))
def test_a_fit_ends_where_that_of_the_table_written_out_does(case):
    rows, counts, written = counted(case.table)
    a, b = (learn(case, engine, 12) for engine in (MemoryEngine(rows, counts), MemoryEngine(written)))
    np.testing.assert_allclose(a.objective, b.objective, rtol=1e-9)
    assert_same(a.params, b.params, 1e-6)
    unweighted = learn(case, MemoryEngine(rows), 12)
    with pytest.raises(AssertionError):  # or the test would say nothing
        assert_same(unweighted.params, b.params, 1e-3)


# ---------------------------------------------------------------- rows


def tolerance(case):
    """Twenty-one nodes a dimension, and more, are that good."""
    return 1e-5 if "trait" in case.name or "Gaussian" in case.name else 1e-9


def log_likelihoods(case, table):
    given = start_pass(case.model, FLOAT64, learned(case)[0].params, seed_key(0))
    parts = map_rows(case.model.log_likelihood, MemoryEngine(table), Layout(256, FLOAT64), given)
    return np.concatenate([part.value for part in parts])


@keeping("missing")
def test_missing_bits_are_marginalised(case):
    """log p of a row with holes is the log of the sum over all ways to fill them."""
    d = case.table.shape[1]
    table = np.array([[1, 0, 1] + [MISSING] * 2 + [1] * (d - 5), [MISSING] * d, [0] * (d - 1) + [MISSING]], np.uint8)
    for row, value in zip(table, log_likelihoods(case, table)):
        holes = np.flatnonzero(row == MISSING)
        filled = np.repeat(row[None], 2 ** len(holes), 0)
        filled[:, holes] = np.array(list(pairs([0, 1], repeat=len(holes))))
        np.testing.assert_allclose(value, np.logaddexp.reduce(log_likelihoods(case, filled)), atol=tolerance(case))


@keeping("missing")
def test_completion_is_the_conditional_probability(case):
    """`complete` is P(bit = 1 | observed), by brute force over the two ways to fill one hole."""
    hidden, on, off = np.repeat(np.where(case.table[:1] == MISSING, 1, case.table[:1]), 3, 0)
    hidden[2], on[2], off[2] = MISSING, 1, 0
    a, b = log_likelihoods(case, np.stack([on, off]))
    given = start_pass(case.model, FLOAT64, learned(case)[0].params, seed_key(0))
    (filled,) = map_rows(case.model.complete, MemoryEngine(hidden[None]), Layout(256, FLOAT64), given)
    slack = tolerance(case)
    np.testing.assert_allclose(filled[0, 2], 1 / (1 + np.exp(b - a)), atol=slack)


@pytest.mark.parametrize("case", each(c._replace(slow=c.slow or c.name == "Chow-Liu tree") for c in CASES))
def test_samples_have_the_model_s_moments(case):
    """Means of 20000 sampled rows against brute force over all rows of bits: 5 standard errors, each column.

    The false-alarm rate is below 1e-6 a column.
    """
    params = learned(case)[0].params
    if case.table.dtype != np.uint8:
        W, pi = params.components, params.prior
        mean, spread = pi * W.sum(0), np.sqrt(params.noise_std**2 + pi * (1 - pi) * (W**2).sum(0))
    else:
        every = np.array(list(pairs([0, 1], repeat=case.table.shape[1])), np.uint8)
        p = np.exp(log_likelihoods(case, every))
        np.testing.assert_allclose(p.sum(), 1, atol=tolerance(case))
        mean = p @ every
        spread = np.sqrt(mean * (1 - mean))
    given = start_pass(case.model, FLOAT64, params, seed_key(5))

    def draw(params, shared, batch):
        return case.model.sample(params, shared, batch.keys)

    rows = MemoryEngine(np.zeros((20000, 1), np.uint8))
    sample = np.concatenate(list(map_rows(draw, rows, Layout(4096, FLOAT64), given)))
    assert np.all(np.abs(sample.mean(0) - mean) < 5 * spread / np.sqrt(20000) + tolerance(case))
