"""Rows with missing inputs against sums over all completions and hidden states."""

from __future__ import annotations

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import all_close, single_base, some_machine, sums

from latentbits.core.tree import double
from latentbits.models.combination_machine import annealing, missing_inputs, patterns
from latentbits.models.combination_machine.machine import BINARY, UNITS

# nothing missing, everything, and what is between
OBSERVED = np.array([[1, 1, 1], [0, 0, 0], [1, 0, 1], [0, 1, 0], [0, 0, 1], [1, 1, 0]], float)
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 3.0])


@cache
def a_case(kind):
    """Kind, machine, rows, and the sums for each row."""
    rng = np.random.default_rng(8)
    x = rng.choice([-1.0, 1.0], OBSERVED.shape) if kind == "binary" else rng.normal(size=OBSERVED.shape)
    with double():
        machine = some_machine(3, 3, seed=4)
    return kind, machine, x * OBSERVED, [sums(kind, machine, *row) for row in zip(x * OBSERVED, OBSERVED)]


def check(found, exact, x):
    """Compare what is said of each row, and weighted sums of moments."""
    got, (log_sum, moments) = found
    for name in ("log_sum", "hidden", "inputs"):
        np.testing.assert_allclose(getattr(got, name), [getattr(e, name) for e in exact], rtol=0, atol=1e-10)
    assert np.all(np.where(OBSERVED > 0, got.inputs == x, True)), "what was observed stays as it is"
    np.testing.assert_allclose(log_sum, [e.log_sum for e in exact], rtol=0, atol=1e-10)
    wanted = [sum(w * e[k] for w, e in zip(WEIGHT, exact)) for k in (1, 2, 3)]
    all_close(moments, wanted, rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_over_hidden_states(kind, monkeypatch):
    monkeypatch.setattr(missing_inputs, "LOG2_STATES_PER_BLOCK", 1)  # several blocks
    _, machine, x, exact = a_case(kind)

    @jax.jit
    def both(machine, *rows):
        given = UNITS[kind], machine, *rows[:2]
        return missing_inputs.by_hidden(*given), missing_inputs.moments_by_hidden(*given, rows[2])

    with double():
        check(both(machine, *map(jnp.asarray, (x, OBSERVED, WEIGHT))), exact, x)


def test_over_missing_bits(monkeypatch):
    """By blocks of 4 patterns; more holes than asked for are not passed over in silence."""
    monkeypatch.setattr(patterns, "FLOATS_PER_PATTERN_BLOCK", 12)
    _, machine, x, exact = a_case("binary")

    @jax.jit
    def every(machine, x, observed, weight):
        given = machine, x, observed
        found = patterns.by_inputs(*given, 9), patterns.moments_by_inputs(*given, weight, 3)
        return *found, patterns.by_inputs(*given, 1).log_sum

    with double():
        *found, few = every(machine, *map(jnp.asarray, (x, OBSERVED, WEIGHT)))
        check(found, exact, x)
    np.testing.assert_array_equal(np.isnan(few), OBSERVED.sum(1) < 2)


def test_the_chooser_is_exact_by_whatever_route(monkeypatch):
    """Routes by level of holes, then by hidden states; and levels alone, where the hidden states are too many."""
    kind, machine, x, exact = a_case("binary")
    monkeypatch.setattr(missing_inputs, "_levels", lambda units, m, d, few: [1, 2])
    with double():
        keys = jax.random.split(jax.random.key(0), len(x))
        run = jax.jit(missing_inputs.moments, static_argnums=0)
        for some in ([0, 0, 2, 2, 0, 0], [3, 3, 5, 5, 2, 2], [1, 2, 3, 4, 5, 0]):
            log_sum, got = run(UNITS[kind], machine, keys, *map(jnp.asarray, (x[some], OBSERVED[some], np.ones(6))))
            np.testing.assert_allclose(log_sum, [exact[i].log_sum for i in some], rtol=0, atol=1e-10)
            np.testing.assert_allclose(got.weights, sum(exact[i].products for i in some), rtol=0, atol=1e-10)


def test_which_routes_there_are():
    assert missing_inputs._levels(BINARY, 4, 60, True) == [], "the hidden states are cheaper"
    assert missing_inputs._levels(BINARY, 16, 64, True) == [4, 8]
    assert missing_inputs._levels(BINARY, 100, 64, False) == [4, 8, 12]
    assert missing_inputs._levels(BINARY, 100, 3, False) == [4]
    assert missing_inputs._levels(UNITS["real"], 16, 64, True) == []


@pytest.mark.slow("two programs of annealed chains within a choice; that of each row is in test_annealing")
def test_what_cannot_be_summed_is_sampled(monkeypatch):
    """Annealed chains, within their errors; rows with few holes are summed all the same."""
    kind, machine, x, exact = a_case("binary")
    monkeypatch.setattr(missing_inputs, "_few", lambda m, most: False)
    monkeypatch.setattr(missing_inputs, "PATTERN_MOST_BITS", (1,))
    monkeypatch.setattr(annealing, "FLOATS_PER_SLICE", 2**14)
    monkeypatch.setattr(annealing, "pilot_base", lambda units, machine, key: single_base(machine.input_bias))
    n = 20
    with double():
        keys = jax.random.split(jax.random.key(5), n * len(x))
        rows = jnp.asarray(np.tile(x, (n, 1))), jnp.asarray(np.tile(OBSERVED, (n, 1)))

        @jax.jit
        def both(*given):
            return missing_inputs.conditional(UNITS[kind], *given), missing_inputs.log_sums(UNITS[kind], *given)

        found, (log_sum, error) = both(machine, keys, *rows)
    few = (OBSERVED == 0).sum(1) <= 1
    hidden, inputs = (np.asarray(v).reshape(n, len(x), -1) for v in (found.hidden, found.inputs))
    np.testing.assert_array_equal(np.asarray(found.error) > 0, np.tile(~few, n))
    for got, wanted in ((hidden, [e.hidden for e in exact]), (inputs, [e.inputs for e in exact])):
        noise = got.std(0) / np.sqrt(n)
        assert np.all(np.abs(got.mean(0) - wanted) <= 5 * noise + 1e-9)
        assert np.all(got.std(0) < 0.3)
    wanted = np.array([e.log_sum for e in exact])
    z = (np.asarray(log_sum).reshape(n, -1) - wanted)[:, ~few] / np.asarray(error).reshape(n, -1)[:, ~few]
    assert np.mean(np.abs(z) < 3) > 0.95  # of 60
    np.testing.assert_allclose(np.asarray(log_sum)[: len(x)][few], wanted[few], rtol=0, atol=1e-10)


def test_sampled_moments_and_their_bound():
    kind, machine, x, exact = a_case("real")
    n = 300
    with double():
        keys = jax.random.split(jax.random.key(6), n * len(x))
        rows = np.tile(x, (n, 1)), np.tile(OBSERVED, (n, 1)), np.full(n * len(x), 1.0 / n)
        run = jax.jit(missing_inputs.moments_by_gibbs, static_argnums=0)
        bound, got = run(UNITS[kind], machine, keys, *map(jnp.asarray, rows))
    assert np.all(np.asarray(bound) <= np.tile([e.log_sum for e in exact], n) + 1e-9)
    assert bound[0] == pytest.approx(exact[0].log_sum, abs=1e-9), "without holes it is no bound but the thing itself"
    wanted = [sum(getattr(e, part) for e in exact) for part in ("products", "hidden", "inputs")]
    for a, b in zip(jax.tree.leaves(got), wanted):
        # a sum of six means of n, each of variance at most E[x^2], which is below 3 here
        assert np.all(np.abs(np.asarray(a) - b) < 5 * np.sqrt(6 * 3 / n))
