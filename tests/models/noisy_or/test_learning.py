"""What networks learn from states: sums over rows, the update (9), splits of units; against loops and gradients."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
import noisy_or_twin as twin
import numpy as np
import pytest

from latentbits.core.model import Progress
from latentbits.core.tree import double
from latentbits.models.noisy_or import enumeration, learning, probable, renewal, sampling
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or.network import STRONGEST, Params

SIZES = (5, 3, 2)  # inputs first


def rows_last(x):
    """Inputs that are on, off and observed, (columns, rows)."""
    seen = ~np.isnan(x)
    on = np.where(seen, x, 0)
    return tuple(jnp.asarray(a.T.astype(float)) for a in (on, seen - on, seen))


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [1.0, 1.3, 4.0])
def test_the_update_is_a_maximum_of_the_posterior(alpha):
    """(9): the derivative of what EM maximises is zero, for weak and strong causes, and the second is negative."""
    seen, credit, beta = np.array([3.0, 50.0, 1e4, 40.0]), np.array([0.5, 45.0, 20.0, 1e-3]), 1.5

    def gain(w):
        return jnp.sum(credit * jnp.log(-jnp.expm1(-w)) - (seen - credit + beta) * w + (alpha - 1) * jnp.log(w))

    with double():
        w = learning.new_weight(jnp.asarray(seen), jnp.asarray(credit), None if alpha == 1 else alpha, beta)
        slope, bend = jax.grad(gain)(w), jnp.diagonal(jax.hessian(gain)(w))
        np.testing.assert_allclose(slope / seen, 0, atol=1e-9)
        assert (bend < 0).all()
        if alpha == 1:
            np.testing.assert_allclose(-jnp.expm1(-w), credit / (seen + beta), rtol=1e-12)


def test_weights_stay_in_their_range():
    seen, credit = jnp.asarray([5.0, 5.0]), jnp.asarray([0.0, 5.0])
    assert learning.new_weight(seen, credit, None, 0.0, 0.01).tolist() == pytest.approx([0.01, STRONGEST])
    assert learning.new_weight(jnp.zeros(1), jnp.zeros(1), None, 0.0).tolist() == [0]  # never on, and no prior


@pytest.mark.slow
def test_the_last_rows_of_a_table_do_not_undo_what_is_learned():
    """An update from one row after one from a thousand: the thousand count, less the one."""
    model = networks.model((1,), batch_size=1000)

    def stats(n, credit):
        layers = (jnp.full((1, 2), n), jnp.full((1, 2), credit))
        biases = ((jnp.full(2, n), jnp.full(1, n)), (jnp.full(2, 0.1 * n), jnp.full(1, 0.5 * n)))
        return learning.Stats(
            jnp.asarray(n),
            jnp.zeros(2),
            *((one,) for one in layers),
            *biases,
            *((one,) for one in layers),
            (jnp.zeros(1),),
            (jnp.zeros(1),),
            (jnp.zeros(2),),
            (jnp.zeros(()),),
        )

    with double():
        params = Params((jnp.full((1, 2), 0.1),), (jnp.full(2, 0.01), jnp.full(1, 0.3)))
        state = model.stages[0].start(params)
        progress = Progress(*(jnp.asarray(k) for k in (0, 10, 0)), jax.random.key(0))
        shared = model.prepare(params, state, progress)
        state, params = model.update(state, params, shared, stats(1000.0, 800.0), progress)
        np.testing.assert_allclose(-np.expm1(-params.weights[0]), 800 / 1001.5, rtol=1e-9)
        state, params = model.update(state, params, shared, stats(1.0, 0.0), progress)
        np.testing.assert_allclose(-np.expm1(-params.weights[0]), 800 * 0.999 / 1001.5, rtol=1e-9)


@pytest.mark.slow
def test_a_rare_cause_is_not_forgotten_by_an_update_without_it():
    """Once common causes are found, a unit looks back on as many updates as it takes to see it on in some rows."""
    model = networks.model((1,), batch_size=1000)

    def stats(on):
        biases = (jnp.full(2, 1000.0), jnp.full(1, 1000.0)), (jnp.full(2, 10.0), jnp.full(1, on))
        layers = jnp.full((1, 2), on), jnp.full((1, 2), 0.8 * on)
        none = (jnp.zeros(1),)
        counts = (layers[0],), (layers[1],), *biases, (layers[0],), (layers[1],)
        return learning.Stats(jnp.asarray(1000.0), jnp.zeros(2), *counts, none, none, (jnp.zeros(2),), (jnp.ones(()),))

    with double():
        params = Params((jnp.full((1, 2), 0.1),), (jnp.full(2, 0.01), jnp.full(1, 0.3)))
        state = eqx.tree_at(lambda s: s.step, model.stages[0].start(params), jnp.asarray(93))
        progress = Progress(*(jnp.asarray(k) for k in (0, 10, 0)), jax.random.key(0))
        shared = model.prepare(params, state, progress)
        for on in (6.0, 6.0, 0.0, 0.0):
            state, params = model.update(state, params, shared, stats(on), progress)
    effect, prior = -np.expm1(-np.asarray(params.weights[0])), -np.expm1(-np.asarray(params.biases[1]))
    kept = 6 * (1 - 1 / 3) * (1 - 1 / 4)  # the table has been met to a third, and a fourth, by then
    np.testing.assert_allclose(effect, 0.8 * kept / (kept + 1.5), rtol=1e-9)
    np.testing.assert_allclose(prior, kept / 1001.5, rtol=1e-9)


def test_a_unit_without_work_starts_from_the_rows_that_are_least_probable():
    weights = jnp.asarray([[2.0, 2.0, 2.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0, 0.5]])  # the second is a bias
    odd = jnp.asarray([0.0, 0.1, 0.0, 0.9, 1.0, 0.8])
    gain = jnp.asarray([1e4, 1e4])
    args = jnp.asarray([0.1, 0.2]), gain, odd, jnp.asarray(2000.0), jnp.asarray(20000.0)
    new, bias, chosen = renewal.from_odd_rows(weights, *args)
    assert chosen.tolist() == [False, True]
    np.testing.assert_allclose(-np.expm1(-new[1]), [0.05, 0.1, 0.05, 0.9, 0.95, 0.8], rtol=1e-5)
    np.testing.assert_allclose(-np.expm1(-bias[1]), 3 / 2000, rtol=1e-5)
    np.testing.assert_array_equal(new[0], weights[0])
    assert not renewal.from_odd_rows(weights[:, ::-1] + weights, *args)[2].any()  # all have something to do


def test_the_bits_without_a_cause_are_those_of_the_least_probable_rows():
    rows = np.array([[1, 0, 0, 0], [1, 1, 1, 0], [0, 1, 0, 0]], float).T
    with double():
        params = Params((jnp.zeros((1, 4)),), (jnp.full(4, 0.01), jnp.ones(1)))
        args = [jnp.zeros((1, 3))], [jnp.full((1, 3), 0.5)], jnp.ones(3), [jnp.zeros(1, jnp.int32)], jnp.asarray(1)
        stats = learning.state_statistics(params, jnp.asarray(rows), None, *args, [jnp.asarray(0.0)])
    f = -np.expm1(-0.01)
    weight = f ** -rows.sum(0)
    np.testing.assert_allclose(stats.odd_weight[0], weight.sum(), rtol=1e-9)
    np.testing.assert_allclose(stats.odd[0], rows @ weight, rtol=1e-9)


def test_chains_start_where_float32_has_an_exponential():
    """All units on, but where they are very many causes of the same child; then some of them, evenly."""
    few, many = (Params((jnp.full((n, 2), 2.0),), (jnp.full(2, 0.1), jnp.full(n, 0.1))) for n in (20, 100))
    assert (sampling.states_on(few, 3)[0] == 1).all()
    on = sampling.states_on(many, 3)[0]
    assert on.shape == (100, 3)
    assert 25 <= on[:, 0].sum() <= 30


@pytest.mark.slow
def test_gradient_of_the_likelihood_from_the_statistics():
    """d log p / d w_ij = A_ij / f_ij - N_ij, exactly: credit and counts are what EM says they are, biases and all."""
    network = twin.some_network(SIZES, seed=3)
    x, _ = twin.draw(network, 6, seed=4, missing=0.2)
    with double():
        params = twin.as_params(network)
        on, _, observed = rows_last(x)

        def total(params):
            return enumeration.log_evidence(params, enumeration.log_prior(params), on.T, observed.T).sum()

        slope = jax.jit(jax.grad(total))(params)
        found, _ = enumeration.expected_statistics(
            params, enumeration.log_prior(params), on.T, observed.T, jnp.ones(len(x))
        )
        for got, credit, count in zip(
            (*slope.weights, *slope.biases),
            (*found.credits, *found.bias_credits),
            (*found.counts, *found.bias_counts),
            strict=True,
        ):
            np.testing.assert_allclose(got, credit - count, rtol=1e-8, atol=1e-10)


@pytest.mark.slow
def test_statistics_of_states_are_those_of_plain_loops():
    """Holes, row weights, a row that does not count, layers that are not there yet."""
    network = twin.some_network(SIZES, seed=1)
    x, states = twin.draw(network, 7, seed=2, missing=0.3)
    weight = np.array([1, 1, 0.5, 1, 0, 1, 1])
    pivots = [np.array([4, 0, 2]), np.array([1, 2])]
    chances = [np.random.default_rng(layer).uniform(0.1, 0.9, s.T.shape) for layer, s in enumerate(states)]
    with double():
        on, _, observed = rows_last(x)
        args = (
            twin.as_params(network),
            on,
            observed,
            [jnp.asarray(s.T) for s in states],
            [jnp.asarray(c) for c in chances],
            jnp.asarray(weight),
            [jnp.asarray(p, jnp.int32) for p in pivots],
        )
        level = [jnp.asarray(0.0)] * 2
        whole = learning.state_statistics(*args, jnp.asarray(2), level)
        lowest = [args[3][0], jnp.zeros_like(args[3][1])]
        half = learning.state_statistics(*args[:3], lowest, *args[4:], jnp.asarray(1), level)
        joints = [float(np.sum(part.log_joint)) for part in (whole, half)]
    seen, credit, pivot_seen, pivot_credit = ([np.zeros_like(w) for w in network.weights] for _ in range(4))
    bias_seen, bias_credit = ([np.zeros_like(b) for b in network.biases] for _ in range(2))
    gain = [np.zeros(len(w)) for w in network.weights]
    joint = lower = 0.0
    for n, row in enumerate(x):
        own = [s[n] for s in states]
        joint += weight[n] * twin.log_joint(network, row, own)
        lower += weight[n] * twin.log_joint(twin.Network(network.weights[:1], network.biases[:2]), row, own[:1])
        for layer, values in enumerate([row, *own]):
            u = twin.causal_input(network, layer, own)
            for j, value in enumerate(values):
                if np.isnan(value):
                    continue
                g = 1 - np.exp(-u[j])
                bias_seen[layer][j] += weight[n]
                bias_credit[layer][j] += weight[n] * value * (1 - np.exp(-network.biases[layer][j])) / g
                if layer == 2:
                    continue
                for i, on_above in enumerate(own[layer]):
                    trial, success = weight[n] * on_above, value * (1 - np.exp(-network.weights[layer][i, j])) / g
                    pivot = values[pivots[layer][i]] == 1
                    seen[layer][i, j] += trial
                    credit[layer][i, j] += trial * success
                    pivot_seen[layer][i, j] += trial * pivot
                    pivot_credit[layer][i, j] += trial * success * pivot
            if layer:
                gain[layer - 1] += weight[n] * (-np.log(1 - chances[layer - 1][:, n]) - u)
    np.testing.assert_allclose(joints, [joint, lower], rtol=1e-10)
    expected = {
        "seen": seen,
        "credit": credit,
        "bias_seen": bias_seen,
        "bias_credit": bias_credit,
        "pivot_seen": pivot_seen,
        "pivot_credit": pivot_credit,
        "gain": gain,
    }
    for name, layers in expected.items():
        for got, exact in zip(getattr(whole, name), layers, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-10, atol=1e-12, err_msg=name)


@pytest.mark.slow
def test_gain_of_a_unit_is_what_rows_gain_by_it():
    """log p(x, rest) with the unit summed out, less that of the network without it; the chance as Gibbs has it."""
    network = twin.some_network((4, 2), seed=5)
    row, rest = np.array([1.0, 1.0, 0.0, 1.0]), 1.0
    on, off = (twin.log_joint(network, row, [np.array([s, rest])]) for s in (1.0, 0.0))
    without = off + network.biases[1][0]  # its factor P(off) taken away
    chance = 1 / (1 + np.exp(off - on))
    with double():
        stats = learning.state_statistics(
            twin.as_params(network),
            *(jnp.asarray(row)[:, None], None),
            [jnp.asarray([[0.0], [rest]])],
            [jnp.asarray([[chance], [0.5]])],
            jnp.ones(1),
            [jnp.zeros(2, jnp.int32)],
            jnp.asarray(1),
            [jnp.asarray(0.0)],
        )
    np.testing.assert_allclose(stats.gain[0][0], np.logaddexp(on, off) - without, rtol=1e-10)


# ---------------------------------------------------------------- idle units


@pytest.mark.slow
def test_a_unit_that_stands_for_two_causes_is_split():
    """Children 0, 1 and 2, 3 are on in turn: the halves are the two causes, and an idle unit takes one of them."""
    seen = np.full((3, 4), 100.0)
    credit = np.array([[50.0] * 4, [90.0, 10, 10, 90], [0.0] * 4])
    pivot_seen = np.array([[50.0] * 4, [90.0] * 4, [0.0] * 4])
    pivot_credit = np.array([[50.0, 50, 0, 0], [90.0, 9, 9, 81], [0.0] * 4])
    gain, first, second = renewal.split_gain(
        *(jnp.asarray(a) for a in (seen, credit, pivot_seen, pivot_credit)), jnp.zeros(3, jnp.int32)
    )
    # three children whose entropy of log 2 is gone; those of the second unit do not depend on its pivot
    np.testing.assert_allclose(gain, [3 * np.log(2), 0, 0], atol=1e-5)
    idle = jnp.asarray([False, False, True])
    weights, bias = renewal.renew(
        jax.random.key(0),
        jnp.asarray(credit / 100),
        jnp.asarray([0.5, 0.7, 0.2]),
        idle,
        gain,
        (first, second),
        jnp.ones(4),
        (0.05, 0.15),
    )
    strong = -np.log1p(-0.95)
    np.testing.assert_allclose(weights[2], [strong, strong, 0, 0], atol=1e-5)
    np.testing.assert_allclose(weights[0], [0, 0, strong, strong], atol=1e-5)
    np.testing.assert_allclose(weights[1], credit[1] / 100, atol=1e-6)
    np.testing.assert_allclose(-np.expm1(-bias), [-np.expm1(-0.5) / 2, -np.expm1(-0.7), -np.expm1(-0.5) / 2], atol=1e-6)


@pytest.mark.slow
def test_an_idle_unit_that_finds_nothing_to_split_starts_anew():
    """With weights to what is left to the biases."""
    halves = (jnp.ones((2, 3)), jnp.zeros((2, 3)))
    weights, bias = renewal.renew(
        jax.random.key(1),
        jnp.full((2, 3), 2.0),
        jnp.asarray([0.5, 0.0]),
        jnp.asarray([False, True]),
        jnp.asarray([0.01, 5.0]),
        halves,
        jnp.asarray([0.0, 0.5, 1.0]),
        (0.05, 0.15),
    )
    np.testing.assert_allclose(weights[0], 2.0)
    assert weights[1, 0] == 0
    assert 0.025 <= weights[1, 1] <= 0.075
    assert 0.05 <= weights[1, 2] <= 0.15
    np.testing.assert_allclose(bias, [0.5, renewal.FRESH_PRIOR])


@pytest.mark.slow
def test_weak_units_and_duplicates_are_idle():
    """Of those that are alike, the best stays; one that is like a weak one stays too."""
    f = jnp.asarray([[0.9, 0.9, 0.0], [0.8, 0.9, 0.1], [0.0, 0.1, 0.9], [0.0, 0.1, 0.8]])
    gain = jnp.asarray([50.0, 80.0, 30.0, 9.0])
    idle, inside = renewal.idle_units(f, gain)
    assert idle.tolist() == [True, False, False, True]
    assert not inside.any()


@pytest.mark.slow
def test_a_unit_for_causes_that_have_units_is_idle():
    """A and B together, A, B, and one that has B and more."""
    f = jnp.asarray([[0.9, 0.9, 0.9, 0.9, 0.0], [0.9, 0.8, 0, 0, 0], [0, 0, 0.9, 0.8, 0], [0, 0, 0.9, 0.9, 0.9]])
    idle, inside = renewal.idle_units(f, jnp.full(4, 50.0))
    assert idle.tolist() == [True, False, False, False]
    assert np.argwhere(inside).tolist() == [[2, 3]]


@pytest.mark.parametrize("unexplained", [0.0, 0.3])
def test_a_part_is_taken_from_a_whole_whose_rest_nothing_explains(unexplained):
    f = jnp.asarray([[0.9, 0.9, 0.9, 0.9], [0, 0, 0.9, 0.8]])
    inside = jnp.asarray([[False, False], [True, False]])
    rest, called_for = renewal.without_parts(f, inside, jnp.asarray([unexplained, unexplained, 0, 0]))
    assert called_for.tolist() == [unexplained > 0, False]
    np.testing.assert_allclose(rest[0], [0.9, 0.9, 0.09, 0.18], rtol=1e-5)


def test_pivots_are_children_in_doubt():
    f = jnp.tile(jnp.asarray([[1.0, 0.5, 0.0, 0.5]]), (400, 1))
    counts = np.bincount(renewal.choose_pivots(jax.random.key(0), f), minlength=4)
    assert counts[[1, 3]].sum() == 400
    assert abs(counts[1] - 200) < 50  # five standard deviations


# ---------------------------------------------------------------- start and best states


def test_the_most_probable_states_are_found():
    """Against all states, in a network with feedback and holes.  A row may miss it by chance; its probability tells."""
    network = twin.some_network(SIZES, seed=7, scale=2.0)
    x, _ = twin.draw(network, 24, seed=8, missing=0.1)
    hidden = twin.all_hidden(network)
    with double():
        on, off, _ = rows_last(x)
        states, value = jax.jit(probable.probable_states)(
            twin.as_params(network), on, off, jax.random.split(jax.random.key(0), 24)
        )
    for row, found, log_p in zip(x, states, value, strict=True):
        every = [twin.log_joint(network, row, s) for s in hidden]
        np.testing.assert_allclose(log_p, max(every), rtol=1e-9)
        np.testing.assert_allclose(
            twin.log_joint(network, row, np.split(np.asarray(found), [SIZES[1]])), log_p, rtol=1e-9
        )


@pytest.mark.parametrize("sizes", [(5,), (9, 4)])
def test_numbers_are_no_part_of_compiled_functions(sizes):
    """Models that differ in numbers only hand the same functions to an engine, with the same structure of settings."""
    one = networks.model(sizes, alpha=1.2, ranked=True)
    other = networks.model(
        sizes,
        alpha=1.7,
        beta=0.5,
        leak=1e-4,
        n_updates=40,
        n_joint=9,
        n_sweeps=4,
        n_samples=2,
        n_steps=30,
        n_epochs=3,
        batch_size=100,
        ranked=True,
    )
    names = ("init", "prepare", "e_step", "update", "objective", "log_likelihood", "infer", "complete", "start", "done")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    for a, b in zip(one.stages, other.stages, strict=True):
        pairs += [(getattr(a, name, None), getattr(b, name, None)) for name in ("start", "e_step")]
    for a, b in pairs:
        assert jax.tree.structure(a) == jax.tree.structure(b)
    assert sum(len(jax.tree.leaves(a)) > 0 for a, _ in pairs) > len(names)
    assert jax.tree.structure(networks.model(sizes).update) != jax.tree.structure(one.update)  # alpha = 1 is a ratio
