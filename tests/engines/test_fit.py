from __future__ import annotations

import signal
from functools import cache
from itertools import count
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import sketches
from scipy.stats import binom
from tests.tables import answers, as_bytes, bars, classes

from latentbits.core.errors import DataError, FitError
from latentbits.core.model import Evaluate, Iterate, Measure, Over, Schedule, Stop, Transform
from latentbits.engines import monitor
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits, Monitor, Remaining
from latentbits.engines.stream import StreamEngine
from latentbits.models import product
from latentbits.models.binary_sparse_coding import model as binary_sparse_coding
from latentbits.models.binary_sparse_coding.recipes import OURS
from latentbits.models.mixture import model as mixture

PLAIN = mixture.model(2, accelerate=False)  # compiled once for all tests


def bits(n=240, k=2, seed=0):
    return as_bytes(classes(n, k=k, seed=seed))


def run(model, table, seed=0, **options):
    options.setdefault("limits", Limits(60, 1e-7))
    return fit(model, MemoryEngine(table), seed_key(seed), **options)


def objectives(result):
    return np.array([r.objective for r in result.history])


@cache
def of_restarts(n):
    """The best of several starts from single rows, which differ."""
    return run(mixture.model(4, accelerate=False), bits(k=4, seed=1), n_init=n, limits=Limits(20, -np.inf))


def test_the_best_restart_is_kept():
    best = [of_restarts(n).objective for n in (1, 2, 3, 4)]
    assert best == sorted(best)
    assert len({round(one, 3) for one in best}) > 1  # so there was something to choose
    assert of_restarts(4).history[-1].objective == of_restarts(4).objective


def test_a_restart_that_is_cut_in_its_last_stage_may_still_win():
    ranked = [of_restarts(n).objective for n in (1, 2, 3, 4)]
    best = int(np.argmax(ranked))  # number of the restart that beats all before it
    assert best > 0
    model = mixture.model(4, accelerate=False)
    engine = interrupted_after(21 * best + 20)(bits(k=4, seed=1))  # pressed in its very last pass
    result = fit(model, engine, seed_key(0), limits=Limits(20, -np.inf), n_init=10)
    assert result.reason == "interrupted"
    assert result.objective > ranked[best - 1]


def test_restarts_are_refused_where_nothing_ranks_them():
    with pytest.raises(ValueError, match="n_init must be 1"):
        run(sketches.noisy_or(), bits(), n_init=2)


def test_given_params_are_where_it_starts():
    table = bits()
    first = run(PLAIN, table, limits=Limits(5, -np.inf))
    second = run(PLAIN, table, params=first.params, limits=Limits(0))
    assert second.history[0].objective == pytest.approx(first.objective, rel=1e-7)


def test_limits():
    table = bits(k=3)
    assert run(PLAIN, table, limits=Limits(4, -np.inf)).n_iter == 4
    result = run(PLAIN, table, limits=Limits(4, -np.inf))
    assert (result.reason, len(result.history)) == ("max_iter", 5)  # four updates, five evaluated points
    loose, tight = (run(PLAIN, table, limits=Limits(500, tol)) for tol in (1e-3, 1e-6))
    assert loose.reason == tight.reason == "converged"
    assert loose.n_iter < tight.n_iter
    assert loose.left < 1e-3 * len(table)
    assert tight.left < 1e-6 * len(table)


def test_time_is_up():
    result = run(PLAIN, bits(k=3), limits=Limits(10**6, -np.inf, max_time=0.05), n_init=50)
    assert result.reason == "max_time"  # or it would run for ever
    assert result.objective == objectives(result).max()


def interrupted_after(passes):
    """An engine, with a user who presses Ctrl-C during a later pass."""
    seen = 0

    class Impatient(MemoryEngine):
        def chunks(self, layout):
            nonlocal seen
            seen += 1
            if seen > passes:
                raise KeyboardInterrupt
            yield from super().chunks(layout)

    return Impatient


@pytest.mark.parametrize("model", [PLAIN, sketches.noisy_or(), sketches.rbm(2, "minibatch")], ids=lambda m: m.name)
def test_ctrl_c_keeps_the_best_so_far(model):
    engine = interrupted_after(4)(bits())
    result = fit(model, engine, seed_key(0), limits=Limits(1000, -np.inf))
    assert result.reason == "interrupted"
    assert result.n_iter == 4  # the passes that were whole
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(result.params))


def test_ctrl_c_in_a_later_restart_keeps_the_finished_one():
    table, model = bits(), PLAIN
    alone = run(model, table, limits=Limits(5, -np.inf))
    engine = interrupted_after(6 + 3)(table)
    result = fit(model, engine, seed_key(0), limits=Limits(5, -np.inf), n_init=3)
    assert result.reason == "interrupted"
    np.testing.assert_array_equal(result.params.means, alone.params.means)


@pytest.fixture
def ctrl_c():
    """A function that presses the key; a job in the background would ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize("where", ["init", "e_step", "update"])
def test_ctrl_c_while_compiling_is_no_fit(where, ctrl_c):
    """A step that is compiled has not run yet, and where it started is nothing that was learned."""
    base = PLAIN
    function = getattr(base, where)

    def pressed(*args):
        ctrl_c()
        traced.append(where)
        return function(*args)

    traced = []
    model = base._replace(**{where: pressed})
    with pytest.raises(KeyboardInterrupt):
        run(model, bits(), limits=Limits(5, -np.inf))
    assert traced  # the compiler was left to finish


@pytest.mark.parametrize("passes", [0, 1])
def test_ctrl_c_before_a_second_point_was_evaluated_is_no_fit(passes):
    engine = interrupted_after(passes)(bits())
    with pytest.raises(KeyboardInterrupt):
        fit(PLAIN, engine, seed_key(0))


def pressing(press, at_chunk, base=MemoryEngine):
    """An engine during whose chunk of this number, counted over all passes, the key is pressed."""
    seen = 0

    class Pressing(base):
        def chunks(self, layout):
            nonlocal seen
            for chunk in super().chunks(layout):
                seen += 1
                if seen == at_chunk:
                    press()
                yield chunk
            self.seen = seen

    return Pressing


def test_ctrl_c_within_a_pass_ends_it(ctrl_c):
    table, budget = bits(), 1
    chunks = len(list(MemoryEngine(table).chunks(layout_for(1, np.dtype(np.float32), budget))))
    assert chunks > 20
    engine = pressing(ctrl_c, 2 * chunks + 5)(table)  # two passes, and a part of one
    result = fit(PLAIN, engine, seed_key(0), limits=Limits(9, -np.inf), memory_budget=budget)
    assert (result.reason, result.n_iter, len(result.history)) == ("interrupted", 2, 2)


def test_ctrl_c_in_the_first_pass_of_batches_keeps_their_updates(ctrl_c):
    model, table = sketches.rbm(2, "minibatch"), bits()
    untouched = fit(model, MemoryEngine(table), seed_key(0), limits=Limits(0))
    engine = pressing(ctrl_c, 2)(table)
    result = fit(model, engine, seed_key(0), limits=Limits(1000, -np.inf))
    assert (result.reason, result.n_iter, result.history) == ("interrupted", 0, ())
    assert any(not np.array_equal(a, b) for a, b in zip(*map(jax.tree.leaves, (result.params, untouched.params))))


@pytest.mark.parametrize("where", ["transform", "first pass"])
def test_ctrl_c_between_two_stages_keeps_the_first(where, ctrl_c):
    def impatient(*args):
        raise KeyboardInterrupt

    base, table = PLAIN, bits()
    alone = fit(base, MemoryEngine(table), seed_key(0))
    by_transform = where == "transform"
    second = (Transform("second", impatient),) if by_transform else ()
    pressed = 10**9 if by_transform else len(alone.history) + 1  # after the passes of the first stage
    model = base._replace(stages=(Iterate("first"), *second, Iterate("third", tol=-np.inf)))
    result = fit(model, pressing(ctrl_c, pressed)(table), seed_key(0))
    assert result.reason == "interrupted"
    np.testing.assert_array_equal(result.params.means, alone.params.means)
    assert (result.objective, result.n_iter) == (alone.objective, alone.n_iter)


def test_an_objective_that_is_no_number_is_an_error():
    model = PLAIN
    broken = model._replace(objective=lambda p, s, stats: jnp.log(-stats.n_rows))
    with pytest.raises(FitError, match="became nan at iteration 0"):
        run(broken, bits())


@pytest.mark.parametrize("model", [product.model(), PLAIN], ids=lambda m: m.name)
def test_no_rows_is_an_error(model):
    with pytest.raises(DataError, match="no rows"):
        fit(model, StreamEngine(lambda: iter(()), 3), seed_key(0))


def test_a_restart_that_fails_is_dropped():
    base = PLAIN

    def objective(params, shared, stats):
        # the second restart starts badly
        return jnp.where(params.weights[0] == 0.123, jnp.nan, stats.log_likelihood.sum())

    def init(key, summary):
        start = base.init(key, summary)
        bad = jax.random.uniform(key) < 0.5
        return mixture.Params(jnp.where(bad, jnp.asarray([0.123, 0.877]), start.weights), start.means)

    result = run(base._replace(objective=objective, init=init), bits(), n_init=12, limits=Limits(3, -np.inf))
    assert np.isfinite(result.objective)


def test_a_stream_that_changes_its_length_is_refused():
    table, calls = bits(), []

    def blocks():
        calls.append(1)
        yield table[: 200 + 10 * len(calls)]

    with pytest.raises(DataError, match="210 rows in one pass and 220 in another"):
        fit(PLAIN, StreamEngine(blocks, 6), seed_key(0))


def test_time_is_up_within_a_minibatch_pass(monkeypatch):
    """By a clock of which every look takes a second."""
    ticks = count()
    monkeypatch.setattr(monitor, "seconds_waited", lambda: 0.0)
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: float(next(ticks))))
    result = run(sketches.rbm(2, "minibatch"), bits(n=950), limits=Limits(100, max_time=5.0))
    assert (result.reason, result.n_iter) == ("max_time", 1)
    assert next(ticks) < 10 + 10  # not all of its blocks


def test_compiling_is_outside_the_limits(monkeypatch):
    clock = {"now": 100.0, "waited": 7.0}
    monkeypatch.setattr(monitor, "seconds_waited", lambda: clock["waited"])
    monkeypatch.setattr(monitor, "time", SimpleNamespace(perf_counter=lambda: clock["now"]))
    watch = Monitor(Limits(max_time=5.0))
    clock |= {"now": 108.0, "waited": 11.0}
    assert (watch.seconds, watch.seconds_left, watch.out_of_time) == (8.0, 1.0, False)
    clock["now"] += 2
    assert watch.out_of_time


def test_no_two_purposes_share_a_key():
    """Keys seen by init, prepare, update, start_rows and e_step over three passes are all different."""
    seen = []

    def spy(name, key):
        jax.debug.callback(lambda k: seen.append((name, *np.ravel(k).tolist())), jax.random.key_data(key))

    base = sketches.noisy_or()

    def init(key, summary):
        spy("init", key)
        return base.init(key, summary)

    def prepare(params, state, progress):
        spy("prepare", progress.key)

    def update(state, params, shared, stats, progress):
        spy("update", progress.key)
        return base.update(state, params, shared, stats, progress)

    def start_rows(params, shared, batch):
        spy("start_rows", batch.keys[0])
        return base.start_rows(params, shared, batch)

    def e_step(params, shared, batch, row_state):
        spy("e_step", batch.keys[0])
        return base.e_step(params, shared, batch, row_state)

    model = base._replace(init=init, prepare=prepare, update=update, start_rows=start_rows, e_step=e_step)
    table = bits()
    fit(model, StreamEngine(lambda: iter([table]), 6), seed_key(0), limits=Limits(3))
    jax.effects_barrier()
    assert len({key for _, *key in [(n, tuple(k)) for n, *k in seen] for key in key}) == len(seen)
    assert {name for name, *_ in seen} == {"init", "prepare", "update", "start_rows", "e_step"}


def test_a_schedule_that_ran_to_its_end_is_complete():
    assert run(sketches.noisy_or(), bits()).reason == "completed"
    assert run(sketches.rbm(2, "minibatch"), bits()).reason == "completed"


def test_a_last_stage_that_only_evaluates_keeps_the_reason():
    model = PLAIN._replace(stages=(Iterate("EM"), Evaluate("evaluation")))
    assert run(model, bits(), limits=Limits(500, 1e-4)).reason == "converged"


def test_every_pass_tells_its_stage_and_measure():
    stages = (Iterate("bound", measure=Measure.BOUND, max_iter=2), Evaluate("evaluation"))
    result = run(PLAIN._replace(stages=stages), bits())
    assert [(r.stage, r.measure, r.iteration) for r in result.history] == [
        *(("bound", "bound", i) for i in range(3)),
        ("evaluation", "log-likelihood", 0),
    ]
    assert result.objective == result.history[-1].objective
    assert (result.reason, result.n_iter) == (Stop.MAX_ITER, 2)


def test_a_stage_with_its_own_e_step_keeps_no_state_of_the_models():
    base = sketches.trait()
    assert base.acting_in(Iterate("same")).start_rows is base.start_rows
    assert base.acting_in(Iterate("other", e_step=lambda *args: None)).start_rows is None


def test_a_transform_before_a_stage_and_none_gives_the_same_draws():
    """A transform draws from the keys of the stage that it comes before, which has its own purposes."""
    model = sketches.noisy_or()
    still = Transform("nothing", lambda key, params, state: params)
    a, b = (run(model._replace(stages=stages), bits()) for stages in (model.stages, (still, *model.stages)))
    np.testing.assert_array_equal(objectives(a), objectives(b))


def test_growth_may_end_by_what_the_stage_before_has_seen():
    base = PLAIN

    def update(state, params, shared, stats, progress):
        return stats.log_likelihood.sum(), base.update(None, params, shared, stats, progress)[1]

    asked = []

    def look(key, params, state):
        asked.append(float(state))
        return Over.LEARNING

    model = base._replace(
        start=lambda p: jnp.zeros(()),
        prepare=lambda params, state, progress: base.prepare(params, None, None),
        update=update,
        stages=(Iterate("first"), Transform("second", look), Iterate("never")),
    )
    result = run(model, bits(), limits=Limits(500, 1e-4))
    assert asked == [pytest.approx(result.objective, rel=1e-6)]
    assert {r.stage for r in result.history} == {"first"}
    assert result.reason == "converged"


def ends(remaining, objectives, n_rows=10, stated=np.nan):
    return [remaining.ends(x, n_rows, stated) for x in objectives]


@pytest.mark.parametrize("rate", [0.5, 0.9, 0.97])
def test_what_is_left_of_a_geometric_series(rate):
    """The guess is never too small, and not many times too large."""
    remaining = Remaining(tol=1e-4)
    for t in range(1000):
        if remaining.ends(-100 * rate**t, 10):
            break
    truth = 100 * rate**t
    assert 0.999 * truth <= remaining.left <= 1e-3
    assert remaining.left < 1.01 * truth or rate**3 < 0.5


def test_a_plateau_that_is_left_again_is_no_end():
    """Gains fall below the tolerance a pass, and grow again: nothing has converged."""
    path = np.cumsum(0.002 * np.cosh(0.05 * np.arange(-100, 100)))
    assert not any(ends(Remaining(tol=1e-3), path))


def test_steps_that_are_taken_back_are_no_end():
    path = [-100, -200, -150, -90, -300, -89.5, -88, -200, -85]
    assert not any(ends(Remaining(tol=1e-3, patience=3), path))
    assert ends(Remaining(tol=1e-3, patience=3), [-100, -90, -89, -88, -88, -88, -88])[-1] == Stop.CONVERGED
    growing = Remaining(tol=1e-3, share=0.5)  # half of the passes may gain nothing
    assert ends(growing, [-100, -90, -80, -70, -60, -50, -50, -50, -50, -50]) == [None] * 10


def test_a_tolerance_without_end_never_stops():
    assert not any(ends(Remaining(tol=-np.inf), [0.0] * 100))


def test_the_word_of_a_model_goes_before_the_guess():
    assert ends(Remaining(tol=0.1), [-5, -4, -3], stated=0.5) == [None, Stop.CONVERGED, Stop.CONVERGED]
    assert not any(ends(Remaining(tol=0.1), np.zeros(20), stated=2.0))
    stalled = ends(Remaining(tol=0.1), np.zeros(40), stated=np.inf)
    assert stalled[-1] == Stop.STALLED
    assert not any(stalled[:25])


# ---------------------------------------------------------------- the hard cases


def test_a_step_back():
    """The optimiser overshoots, sees it in the next pass, goes back, and what is returned is the best point."""
    result = run(sketches.rbm(), bits(k=3), limits=Limits(300, 1e-3), dtype="float64")
    values = objectives(result)
    assert np.diff(values).min() < -1  # it did overshoot
    assert result.objective == values.max()
    assert result.reason == "converged"


def test_the_gradient_of_the_partition_function_reaches_the_update():
    """The step that the first update takes is the gradient of the objective, log Z and all: finite differences."""
    model, table, h = sketches.rbm(), bits(k=3), 1e-5

    def objective_at(params):
        return run(model, table, params=params, limits=Limits(0), dtype="float64").objective / len(table)

    rng = np.random.default_rng(0)
    start = sketches.RBMParams(jnp.asarray(rng.normal(size=(2, 6))), jnp.asarray(rng.normal(size=2)))
    start = jax.tree.map(lambda x: np.asarray(x, float), start)
    moved = []
    spying = model._replace(
        update=lambda *a: moved.append(1) or model.update(*a),
        watch=lambda p: {f"W{i}{j}": p.W[i, j] for i in range(2) for j in range(6)},
    )
    watched = run(spying, table, params=start, limits=Limits(1, -np.inf), dtype="float64").history
    assert moved
    for i, j in ((0, 0), (1, 4)):
        up, down = (jax.tree.map(np.copy, start) for _ in range(2))
        up.W[i, j] += h
        down.W[i, j] -= h
        slope = (objective_at(up) - objective_at(down)) / (2 * h)
        step = watched[1].watched[f"W{i}{j}"] - watched[0].watched[f"W{i}{j}"]  # twice the gradient: a step of 2
        assert step == pytest.approx(2 * slope, rel=1e-5)


def test_minibatches_update_many_times_a_pass():
    steps = []

    def update(state, params, shared, stats, progress):
        jax.debug.callback(lambda step: steps.append(int(step)), progress.step)
        return model.update(state, params, shared, stats, progress)

    model = sketches.rbm(2, "minibatch")
    result = run(model._replace(update=update), bits(), limits=Limits(100))
    jax.effects_barrier()
    values = objectives(result)
    assert result.n_iter == 20
    assert len(values) == 21  # twenty passes, and one to evaluate the end
    assert result.objective == values[-1] > values[0]
    assert steps == list(range(3 * 20))  # three blocks a pass, the last one short


@pytest.mark.slow("compiled for chunks of two sizes")
def test_minibatch_blocks_do_not_depend_on_the_chunks():
    model, table = sketches.rbm(2, "minibatch"), bits()
    small, large = (run(model, table, memory_budget=b, dtype="float64") for b in (2**10, 2**22))
    np.testing.assert_allclose(small.params.W, large.params.W, rtol=1e-10)


@pytest.mark.slow("compiled for four numbers of components")
def test_a_stage_grows_the_model():
    result = run(mixture.model(5, 0.0, "split", accelerate=False), bits(k=5))
    stages = list(dict.fromkeys(r.stage for r in result.history))
    assert stages == [*(f"EM, {k} of 5 components" for k in (1, 2, 4)), "EM"]
    assert result.params.means.shape == (5, 6)


def test_samples_are_fresh_at_every_pass_and_follow_the_row():
    """With the parameters held still, two passes of a sampled model differ; two runs do not."""
    model = sketches.noisy_or()
    still = model._replace(update=lambda state, params, shared, stats, progress: (state, params))
    a, b = (objectives(run(still, bits(), seed=1)) for _ in range(2))
    assert len(set(a.tolist())) > len(a) // 2
    np.testing.assert_array_equal(a, b)


@pytest.mark.slow("a Gibbs sampler, compiled twice")
def test_a_row_keeps_its_state_in_memory_and_does_without_in_a_stream():
    """Ages of the Gibbs chains: in memory they grow with the passes, in a stream every pass begins again."""
    ages = {}
    model = sketches.noisy_or()

    def spying(name):
        def e_step(params, shared, batch, row_state):
            stats, state = model.e_step(params, shared, batch, row_state)
            age = jnp.max(row_state["age"]).astype(batch.values.dtype)
            return (stats, age * batch.weight.sum()), state

        return model._replace(
            e_step=lambda *a: _with_age(e_step, *a),
            update=lambda state, params, shared, stats, progress: (state, params),
            watch=lambda p: {},
            objective=lambda p, s, stats: stats.age / stats.n_rows,
        )

    table = bits()
    for name, engine in {
        "memory": MemoryEngine(table),
        "stream": StreamEngine(lambda: iter([table]), table.shape[1]),
    }.items():
        ages[name] = objectives(fit(spying(name), engine, seed_key(0), limits=Limits(4))).tolist()
    assert ages["memory"][:4] == [0, 1, 2, 3]
    assert set(ages["stream"]) == {0}


class _Aged(sketches.NoisyOrStats):
    age: object = None


def _with_age(e_step, *args):
    (stats, age), state = e_step(*args)
    return _Aged(stats.n_rows, stats.log_joint, stats.s, stats.share, age), state


def test_one_newton_step_a_pass_finds_the_optimum():
    """Adaptive quadrature with a warm start per row against one that starts cold and takes its time."""
    table = as_bytes(answers())
    warm = run(sketches.trait(), table, dtype="float64", limits=Limits(200, 1e-10))
    stream = StreamEngine(lambda: iter([table]), table.shape[1])
    cold = fit(sketches.trait(), stream, seed_key(0), dtype="float64", limits=Limits(200, 1e-10))
    assert warm.objective == pytest.approx(cold.objective, abs=1e-4)
    np.testing.assert_allclose(warm.params.w, cold.params.w, atol=1e-3)


def test_the_threshold_of_a_truncated_model_comes_from_the_pass_before():
    """Passes before the cut use every row, those after it the share that should have at most two of four causes."""
    model = binary_sparse_coding.model(4, 2, 3, OURS._replace(temperature=1.0, cut=(5, 8)), n_iter=20)
    used = model._replace(objective=lambda p, s, stats: stats.used / stats.n_rows)
    result = run(used, bars())
    shares = objectives(result)
    assert all(share == 1 for share in shares[:5])
    assert shares[5] < 1
    within = binom.cdf(2, 4, float(result.params.prior))
    assert shares[19] == pytest.approx(within, abs=0.03)
    assert shares[-1] == 1  # the last stage evaluates
    assert set(result.history[0].watched) == {"sparseness", "noise_std"}
    assert result.history[-1].watched["noise_std"] < result.history[0].watched["noise_std"]


def test_a_stage_may_end_by_its_own_word():
    base = PLAIN

    def update(state, params, shared, stats, progress):
        return state + 1, base.update(None, params, shared, stats, progress)[1]

    model = base._replace(
        start=lambda p: jnp.zeros((), int),
        prepare=lambda params, state, progress: base.prepare(params, None, progress),
        update=update,
        done=lambda state: state >= 3,
    )
    result = run(model, bits(), limits=Limits(50, -np.inf))
    assert (result.n_iter, result.reason) == (3, "converged")
    assert result.objective == objectives(result)[-1]
    # what is left of a schedule is unknown
    scheduled = run(model._replace(stages=(Schedule("scheduled", max_iter=50),)), bits())
    assert (scheduled.n_iter, scheduled.reason) == (3, "completed")
    assert np.isnan(scheduled.left)


def test_progress_tells_iteration_and_step():
    seen = []
    base = PLAIN

    def update(state, params, shared, stats, progress):
        jax.debug.callback(
            lambda i, m, s, f: seen.append((int(i), int(m), int(s), float(f))),
            progress.iteration,
            progress.max_iter,
            progress.step,
            progress.fraction,
        )
        return base.update(state, params, shared, stats, progress)

    model = base._replace(update=update, stages=(Schedule("batches", rows_per_update=128, max_iter=2),))
    run(model, bits())
    jax.effects_barrier()
    assert seen == [(0, 2, 0, 0.0), (0, 2, 1, 0.0), (1, 2, 2, 0.5), (1, 2, 3, 0.5)]


def test_no_bar_without_a_terminal(capfd):
    run(PLAIN, bits(), verbose=1)
    assert capfd.readouterr() == ("", "")


def test_a_bar_where_somebody_does(monkeypatch):
    shown = []

    class Kept:
        def show(self, line):
            shown.append(line)

        def close(self):
            shown.append("closed")

    monkeypatch.setattr(monitor, "bar_for", lambda verbose: Kept() if verbose else None)
    run(PLAIN, bits(), verbose=1, n_init=2)
    first = next(line.name for line in shown)
    assert first.startswith("Bernoulli mixture: ")
    assert first.endswith(" (1 of 2)")
    assert any(line.state.startswith("objective -") for line in shown[:-1])
    assert any("to go" in line.left for line in shown[:-1])
    assert shown[-1] == "closed"


def test_the_global_setting_of_jax_changes_nothing():
    """A user with 64 bits switched on gets the same float32 fit, and finds the switch where it was."""
    table = bits()
    plain = run(PLAIN, table)
    with jax.enable_x64(True):
        wide = run(PLAIN, table)
        assert jax.config.jax_enable_x64
    np.testing.assert_array_equal(plain.params.means, wide.params.means)
    assert not jax.config.jax_enable_x64
