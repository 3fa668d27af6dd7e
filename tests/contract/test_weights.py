"""The contract of weights: a table with counts is the table written out, in what is summed and what is learned."""

from __future__ import annotations

from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from cases import CASES, Case, each

from latentbits.core import keys, tree
from latentbits.core.model import Progress, Transform
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Pass, sum_blocks
from latentbits.engines.summary import summarise
from latentbits.models.combination_machine import ascent
from latentbits.models.combination_machine import model as combination_machine
from latentbits.models.combination_machine.machine import BINARY
from latentbits.models.combination_machine.pursuit import stage as pursuit

FLOAT64 = np.dtype(np.float64)
BUDGET = 2**14  # of memory: several chunks
OWN_CHAINS = "every row has random numbers of its own number, and the same row written out has several"
OWN_PLACE = "rows are held out, and drawn, by their number"
# Machines without held-out rows, which are chosen by number, and a pursuit, which no other case has.
MACHINES = [
    Case("machine without held-out rows", combination_machine.model(2, learner="gradient", held_out=0.0), None, {}),
    Case(
        "pursuit",
        combination_machine.model(2)._replace(stages=(pursuit(2, BINARY),)),
        None,
        {"written": OWN_CHAINS},
        slow=True,
    ),
]
EXCUSED = {
    "noisy-OR network": {"written": OWN_CHAINS, "fit": OWN_CHAINS},
    "combination machine": {"written": OWN_PLACE, "linear": OWN_PLACE, "fit": OWN_PLACE},
    "combination machine by chains": {"written": OWN_PLACE, "linear": OWN_PLACE, "fit": OWN_CHAINS},
    "sparse coding": {"fit": "its components get noise, and new ones are drawn rows"},
    "exact sparse coding": {"fit": "components that are not used are drawn rows"},
    "machine without held-out rows": {"fit": "updates are made from blocks of rows"},
    "curved latent trait": {"fit": "updates are made from blocks of rows"},
    "pursuit": {"written": OWN_CHAINS, "fit": OWN_CHAINS},
    "accelerated clipped Gaussian": {"fit": "until it has converged, extrapolation enlarges what rounding does"},
}
# The bound of a chunk is improved until its last row has settled, and which rows are in a chunk is not the same.
ROUGH = dict.fromkeys(
    (
        "latent trait",
        "latent trait by the bound",
        "trait maps",
        "trait maps by the bound",
        "trait maps by the bound, then by nodes",
    ),
    1e-5,
)


def tabled(case):
    return case if case.table is not None else case._replace(table=CASES[0].table)


ALL = [tabled(case) for case in [*CASES, *MACHINES]]


def keeping(clause):
    return pytest.mark.parametrize("case", each(c for c in ALL if clause not in EXCUSED.get(c.name, {})))


def counted(table, seed=0, least=1):
    """Distinct rows, a number for each, and the table written out."""
    rows = np.unique(table, axis=0)
    rows = np.random.default_rng(seed).permutation(rows)[:300]
    counts = np.random.default_rng(seed + 1).integers(least, 6, len(rows))
    return rows, counts.astype(float), np.repeat(rows, counts, axis=0)


def learned(case, found={}):  # noqa: B006
    if case.name not in found:
        engine = MemoryEngine(case.table)
        found[case.name] = fit(case.model, engine, seed_key(3), limits=Limits(3), memory_budget=BUDGET).params
    return found[case.name]


def stages(model):
    return [stage for stage in model.stages if not isinstance(stage, Transform)]


def sums(model, params, table, weights=None):
    """The statistics of one pass in float64, without what is of single rows."""
    with tree.double():
        params = tree.strong(params)
        progress = Progress(jnp.asarray(0), jnp.asarray(5), jnp.asarray(0), seed_key(1))
        state = None if model.start is None else model.start(params)
        given = Pass(params, tree.strong(model.prepare(params, state, progress)), keys.raw(seed_key(2)))
    layout = layout_for(model.row_floats(table.shape[1]), FLOAT64, BUDGET)
    (total,) = sum_blocks(model, MemoryEngine(table, weights), layout, lambda: given, {})
    total = tree.to_numpy(total)
    for name in ("n_places", "residuals", "drawn", "drawn_seen"):
        if hasattr(total, name):
            total = eqx.tree_at(lambda t, name=name: getattr(t, name), total, 0.0)
    return total


def assert_same(a, b, rtol=1e-9):
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        # of an unevaluated pair the lower part is what rounding left of the upper one
        np.testing.assert_allclose(x, y, rtol=rtol, atol=rtol * max(1, np.abs(y).max(initial=0)))


def each_stage(case):
    params = learned(case)
    for stage in stages(case.model):
        yield case.model.acting_in(stage), params


@keeping("written")
def test_counts_are_the_table_written_out(case):
    rows, counts, written = counted(case.table)
    for model, params in each_stage(case):
        assert_same(sums(model, params, rows, counts), sums(model, params, written), ROUGH.get(case.name, 1e-9))


@keeping("linear")
def test_statistics_are_linear_in_the_weights(case):
    """With the random numbers of each row as they are: sampled statistics are the same in expectation then."""
    rows, counts, _ = counted(case.table, least=0)
    counts = counts + np.where(counts > 0, 0.25, 0.0)  # no whole numbers
    steps = np.unique(counts)
    for model, params in each_stage(case):
        parts = [
            jax.tree.map(lambda x, by=high - low: by * x, sums(model, params, rows, (counts >= high).astype(float)))
            for low, high in pairwise(steps)
        ]
        assert_same(sums(model, params, rows, counts), jax.tree.map(lambda *x: sum(x), *parts))


@pytest.mark.parametrize("case", each(ALL))
def test_no_weight_is_no_row(case):
    """The last third of the rows, so that the numbers of the others stay what they are."""
    rows, counts, _ = counted(case.table)
    kept = 2 * len(rows) // 3
    zeros = np.where(np.arange(len(rows)) < kept, counts, 0.0)
    for model, params in each_stage(case):
        alone = sums(model, params, rows[:kept], counts[:kept])
        assert_same(sums(model, params, rows, zeros), alone, ROUGH.get(case.name, 1e-9))


@pytest.mark.parametrize("case", each(ALL))
def test_a_weight_of_one_is_no_weight(case):
    rows, counts, _ = counted(case.table)
    for model, params in each_stage(case):
        assert_same(sums(model, params, rows, np.ones(len(counts))), sums(model, params, rows), 1e-12)


@pytest.mark.parametrize("case", each(ALL))
def test_the_summary_is_that_of_the_table_written_out(case):
    rows, counts, written = counted(case.table)
    assert_same(summarise(MemoryEngine(rows, counts)), summarise(MemoryEngine(written)), 1e-12)


@keeping("fit")
def test_a_fit_ends_where_that_of_the_table_written_out_does(case):
    rows, counts, written = counted(case.table)
    limits = Limits(12, 1e-9)
    a, b = (
        fit(case.model, engine, seed_key(3), dtype="float64", limits=limits, memory_budget=BUDGET)
        for engine in (MemoryEngine(rows, counts), MemoryEngine(written))
    )
    np.testing.assert_allclose(a.objective, b.objective, rtol=1e-9)
    assert_same(a.params, b.params, 1e-6)
    unweighted = fit(case.model, MemoryEngine(rows), seed_key(3), dtype="float64", limits=limits, memory_budget=BUDGET)
    with pytest.raises(AssertionError):  # or the test would say nothing
        assert_same(unweighted.params, b.params, 1e-3)


def test_the_share_of_held_out_rows_is_that_of_the_table_written_out():
    """Of 3000 rows that count 7 times; a row that counts once is held out or not, whatever the precision."""
    table, below = CASES[0].table, ascent.held_below(0.1)
    rows, params = np.resize(table, (3000, table.shape[1])), learned(tabled(MACHINES[0]))
    step = combination_machine.model(2, learner="gradient")._replace(e_step=ascent.e_step(BINARY, 0.1), start_rows=None)

    def numbers(weight):
        return sums(step, params, rows, np.full(3000, weight)).sums[-2:, -1]

    learned_from, held_out = numbers(7.0)
    np.testing.assert_allclose(held_out / 21000, 0.1, atol=0.002)
    np.testing.assert_allclose(learned_from + held_out, 21000)
    once = np.asarray(ascent._is_held_out(jnp.arange(3000, dtype=jnp.uint32), below)).sum()
    np.testing.assert_allclose(numbers(0.3)[1], 0.3 * once)
