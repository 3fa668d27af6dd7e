"""What networks learn from states: sums over rows against plain loops, the update (9), and the best states."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import noisy_or_examples as examples
import numpy as np
import pytest

from latentbits.core.tree import double
from latentbits.models.noisy_or import equations, learning, map_states, sampling, tuning
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or.network import Params

SIZES = (5, 3, 2)  # inputs first
statistics = jax.jit(learning.state_statistics)


def rows_last(x):
    """Inputs that are on, off and observed, (columns, rows)."""
    return tuple(jnp.asarray(a.T.astype(float)) for a in (x == 1, x == 0, ~np.isnan(x)))


def test_the_update_is_a_maximum_of_the_posterior():
    """(9): the derivative of what EM maximises is zero, for weak and strong causes, and the second is negative."""
    seen, credit, beta = np.array([3.0, 50.0, 1e4, 40.0]), np.array([0.5, 45.0, 20.0, 1e-3]), 1.5
    with double():
        for alpha in (None, 1.3, 4.0):
            found = jax.jit(lambda *given, a=alpha: learning.new_weight(*given, a, beta))(
                *map(jnp.asarray, (seen, credit))
            )
            w, more = np.asarray(found), (alpha or 1) - 1
            slope = credit / np.expm1(w) - (seen - credit + beta) + more / w
            bend = -credit * np.exp(w) / np.expm1(w) ** 2 - more / w**2
            np.testing.assert_allclose(slope / seen, 0, atol=1e-9)
            assert (bend < 0).all()
            np.testing.assert_allclose(-np.expm1(-w), equations.frequency(credit, seen, alpha or 1.0, beta), rtol=1e-9)


def test_weights_stay_in_their_range():
    @jax.jit
    def run(seen, credit):
        return learning.new_weight(seen, credit, None, 0.0, 0.01), learning.new_weight(0 * seen, credit, None, 0.0)

    ends, never = run(jnp.asarray([5.0, 5.0]), jnp.asarray([0.0, 5.0]))
    assert ends.tolist() == pytest.approx([0.01, tuning.STRONGEST_WEIGHT])
    assert never[0] == 0  # never on, and no prior


def test_statistics_of_states_are_those_of_plain_loops():
    """Holes, row weights, a row that does not count, layers that are not there yet."""
    network = examples.some_network(SIZES, seed=1)
    x, states = examples.draw(network, 7, seed=2, missing=0.3)
    weight = np.array([1, 1, 0.5, 1, 0, 1, 1])
    pivots = [np.array([4, 0, 2]), np.array([1, 2])]
    chances = [np.random.default_rng(layer).uniform(0.1, 0.9, s.T.shape) for layer, s in enumerate(states)]
    with double():
        on, _, observed = rows_last(x)
        hidden = [jnp.asarray(s.T) for s in states]
        rest = (
            [jnp.asarray(c) for c in chances],
            jnp.asarray(weight),
            [jnp.asarray(p, jnp.int32) for p in pivots],
        )
        level = [jnp.asarray(0.0)] * 2
        params = examples.as_params(network)
        whole = statistics(params, on, observed, hidden, *rest, jnp.asarray(2), level)
        lowest = [hidden[0], jnp.asarray(0 * states[1].T)]
        half = statistics(params, on, observed, lowest, *rest, jnp.asarray(1), level)
    seen, credit, pivot_seen, pivot_credit = ([np.zeros_like(w) for w in network.weights] for _ in range(4))
    bias_seen, bias_credit = ([np.zeros_like(b) for b in network.biases] for _ in range(2))
    gain, change, odd = ([np.zeros(n) for n in sizes] for sizes in (SIZES[1:], SIZES[1:], SIZES[:-1]))
    odd_weight = np.zeros(2)
    lowest_layer = equations.Network(network.weights[:1], network.biases[:2])
    joint = lower = 0.0
    for n, row in enumerate(x):
        own = [s[n] for s in states]
        joint += weight[n] * equations.log_joint(network, row, own)
        lower += weight[n] * equations.log_joint(lowest_layer, row, own[:1])
        for layer, values in enumerate([row, *own]):
            u = equations.causal_input(network, layer, own)
            by_bias = 1 - np.exp(-network.biases[layer])
            causeless = np.where(values == 1, by_bias / (1 - np.exp(-u)), 0)  # the bias alone has succeeded
            for j, value in enumerate(values):
                if np.isnan(value):
                    continue
                g = 1 - np.exp(-u[j])
                bias_seen[layer][j] += weight[n]
                bias_credit[layer][j] += weight[n] * causeless[j]
                if layer == 2:
                    continue
                for i, on_above in enumerate(own[layer]):
                    trial, success = weight[n] * on_above, value * (1 - np.exp(-network.weights[layer][i, j])) / g
                    pivot = values[pivots[layer][i]] == 1
                    seen[layer][i, j] += trial
                    credit[layer][i, j] += trial * success
                    pivot_seen[layer][i, j] += trial * pivot
                    pivot_credit[layer][i, j] += trial * success * pivot
            if layer < 2:  # rows count by one over the probability of the bits that have no cause
                rare = weight[n] * np.exp(-np.log(by_bias) @ causeless)
                odd[layer] += rare * causeless
                odd_weight[layer] += rare
            if layer:
                p = chances[layer - 1][:, n]
                gain[layer - 1] += weight[n] * (-np.log(1 - p) - u)
                change[layer - 1] += weight[n] * 2 * p * (1 - p)
    np.testing.assert_allclose([np.asarray(part.log_joint).sum() for part in (whole, half)], [joint, lower], rtol=1e-10)
    expected = {
        "seen": seen,
        "credit": credit,
        "bias_seen": bias_seen,
        "bias_credit": bias_credit,
        "pivot_seen": pivot_seen,
        "pivot_credit": pivot_credit,
        "gain": gain,
        "change": change,
        "odd": odd,
        "odd_weight": odd_weight,
    }
    for name, layers in expected.items():
        for got, exact in zip(getattr(whole, name), layers, strict=True):
            np.testing.assert_allclose(got, exact, rtol=1e-10, atol=1e-12, err_msg=name)


def test_gain_of_a_unit_is_what_rows_gain_by_it():
    """log p(x, rest) with the unit summed out, less that of the network without it; the chance as Gibbs has it."""
    network = examples.some_network((4, 2), seed=5)
    row, rest = np.array([1.0, 1.0, 0.0, 1.0]), 1.0
    on, off = (equations.log_joint(network, row, [np.array([s, rest])]) for s in (1.0, 0.0))
    without = off + network.biases[1][0]  # its factor P(off) taken away
    chance = 1 / (1 + np.exp(off - on))
    with double():
        stats = statistics(
            *(examples.as_params(network), jnp.asarray(row[:, None]), None),
            [jnp.asarray([[0.0], [rest]])],
            [jnp.asarray([[chance], [0.5]])],
            jnp.asarray(np.ones(1)),
            [jnp.asarray(np.zeros(2, np.int32))],
            jnp.asarray(1),
            [jnp.asarray(0.0)],
        )
    np.testing.assert_allclose(stats.gain[0][0], np.logaddexp(on, off) - without, rtol=1e-10)


def test_chains_start_where_float32_has_an_exponential():
    """All units on, but where they are very many causes of the same child; then some of them, evenly."""
    for n, fewest, most in ((20, 20, 20), (100, 25, 30)):
        weights, biases = jnp.asarray(np.full((n, 2), 2.0), "f"), [jnp.asarray(np.full(k, 0.1), "f") for k in (2, n)]
        on = jax.jit(sampling.states_on, static_argnums=1)(Params((weights,), tuple(biases)), 3)[0]
        assert on.shape == (n, 3)
        assert fewest <= np.asarray(on)[:, 0].sum() <= most


def test_the_most_probable_states_are_found():
    """Against all states, in a network with feedback and holes.  A row may miss it by chance; its probability tells."""
    network = examples.some_network(SIZES, seed=7, scale=2.0)
    x, _ = examples.draw(network, 24, seed=8, missing=0.1)
    hidden = equations.all_hidden(network)
    with double():
        on, off, _ = rows_last(x)
        states, value = jax.jit(map_states.probable_states)(
            examples.as_params(network), on, off, jax.random.split(jax.random.key(0), 24)
        )
    for row, found, log_p in zip(x, np.asarray(states), value, strict=True):
        np.testing.assert_allclose(log_p, equations.log_joint(network, row, hidden).max(), rtol=1e-9)
        np.testing.assert_allclose(equations.log_joint(network, row, np.split(found, [SIZES[1]])), log_p, rtol=1e-9)


@pytest.mark.parametrize("sizes", [(5,), (9, 4)])
def test_numbers_are_no_part_of_compiled_functions(sizes):
    """Models that differ in numbers only hand the same functions to an engine, with the same structure of settings."""
    one = networks.model(sizes, alpha=1.2, ranked=True)
    counts = {"n_updates": 40, "n_joint": 9, "n_sweeps": 4, "n_samples": 2, "n_steps": 30}
    other = networks.model(sizes, alpha=1.7, beta=0.5, leak=1e-4, **counts, batch_size=100, ranked=True)
    names = ("init", "prepare", "e_step", "update", "objective", "log_likelihood", "infer", "complete", "start", "done")
    pairs = [(getattr(one, name), getattr(other, name)) for name in names]
    for a, b in zip(one.stages, other.stages, strict=True):
        pairs += [(getattr(a, name, None), getattr(b, name, None)) for name in ("start", "e_step")]
    for a, b in pairs:
        assert jax.tree.structure(a) == jax.tree.structure(b)
    assert sum(len(jax.tree.leaves(a)) > 0 for a, _ in pairs) > len(names)
    assert jax.tree.structure(networks.model(sizes).update) != jax.tree.structure(one.update)  # alpha = 1 is a ratio
