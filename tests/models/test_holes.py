"""Rows with missing inputs against sums over all completions and hidden states."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from machine_sums import single_base, some_machine, sums

from latentbits.core.tree import double
from latentbits.models.combination_machine import annealing, holes, patterns
from latentbits.models.combination_machine.machine import BINARY, UNITS, log_weight

D = 4
N_HIDDEN = 3
# nothing missing, everything, and what is between
OBSERVED = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [1, 0, 1, 1], [0, 1, 0, 1], [0, 0, 0, 1], [1, 1, 0, 0]], float)
WEIGHT = np.array([1.0, 0.5, 2.0, 1.0, 0.0, 3.0])


def table(kind):
    rng = np.random.default_rng(8)
    x = rng.choice([-1.0, 1.0], OBSERVED.shape) if kind == "binary" else rng.normal(size=OBSERVED.shape)
    return x * OBSERVED


@pytest.fixture(scope="module", params=["binary", "real"])
def case(request):
    """Kind, machine, rows, and the sums for each row."""
    kind = request.param
    x = table(kind)
    with double():
        machine = some_machine(N_HIDDEN, D, seed=4)
        return kind, machine, x, [sums(kind, machine, *row) for row in zip(x, OBSERVED)]


def check(got, exact, x):
    np.testing.assert_allclose(got.log_sum, [e.log_sum for e in exact], rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.hidden, [e.hidden for e in exact], rtol=0, atol=1e-10)
    np.testing.assert_allclose(got.inputs, [e.inputs for e in exact], rtol=0, atol=1e-10)
    assert np.all(np.where(OBSERVED > 0, got.inputs == x, True)), "what was observed stays as it is"


def check_moments(got, exact):
    log_sum, moments = got
    np.testing.assert_allclose(log_sum, [e.log_sum for e in exact], rtol=0, atol=1e-10)
    for name, part in (("weights", "products"), ("hidden_bias", "hidden"), ("input_bias", "inputs")):
        wanted = sum(w * getattr(e, part) for w, e in zip(WEIGHT, exact))
        np.testing.assert_allclose(getattr(moments, name), wanted, rtol=0, atol=1e-10)


def test_over_hidden_states(case, monkeypatch):
    monkeypatch.setattr(holes, "BLOCK", 1)  # several blocks
    kind, machine, x, exact = case
    with double():
        rows = jnp.asarray(x), jnp.asarray(OBSERVED)
        check(jax.jit(holes.by_hidden, static_argnums=0)(UNITS[kind], machine, *rows), exact, x)
        run = jax.jit(holes.moments_by_hidden, static_argnums=0)
        check_moments(run(UNITS[kind], machine, *rows, jnp.asarray(WEIGHT)), exact)


@pytest.mark.parametrize("at_once", [12, 1024])
def test_over_missing_bits(case, at_once, monkeypatch):
    monkeypatch.setattr(patterns, "AT_ONCE", at_once)  # blocks of 4 patterns, and all at once
    kind, machine, x, exact = case
    if kind == "real":
        pytest.skip("only bits have patterns")
    with double():
        rows = jnp.asarray(x), jnp.asarray(OBSERVED)
        check(jax.jit(partial(patterns.by_inputs, most=9))(machine, *rows), exact, x)
        check_moments(jax.jit(partial(patterns.moments_by_inputs, most=4))(machine, *rows, jnp.asarray(WEIGHT)), exact)


def test_more_holes_than_asked_for_are_not_passed_over_in_silence():
    with double():
        found = patterns.by_inputs(some_machine(N_HIDDEN, D), jnp.asarray(table("binary")), jnp.asarray(OBSERVED), 2)
    np.testing.assert_array_equal(np.isnan(found.log_sum), OBSERVED.sum(1) < 2)


def test_the_chooser_is_exact_by_whatever_route(case, monkeypatch):
    """Routes by level of holes, then by hidden states; and levels alone, where the hidden states are too many."""
    kind, machine, x, exact = case
    monkeypatch.setattr(holes, "_levels", lambda units, m, d, few: [1, 2] if units is BINARY else [])
    with double():
        keys = jax.random.split(jax.random.key(0), len(x))
        run = jax.jit(holes.moments, static_argnums=0)
        for some in ([0, 0, 2, 2, 0, 0], [3, 3, 5, 5, 2, 2], [1, 2, 3, 4, 5, 0]):
            rows = jnp.asarray(x[some]), jnp.asarray(OBSERVED[some])
            log_sum, got = run(UNITS[kind], machine, keys, *rows, jnp.ones(6))
            np.testing.assert_allclose(log_sum, [exact[i].log_sum for i in some], rtol=0, atol=1e-10)
            np.testing.assert_allclose(got.weights, sum(exact[i].products for i in some), rtol=0, atol=1e-10)


def test_which_routes_there_are():
    assert holes._levels(BINARY, 4, 60, True) == [], "the hidden states are cheaper"
    assert holes._levels(BINARY, 16, 64, True) == [4, 8]
    assert holes._levels(BINARY, 100, 64, False) == [4, 8, 12]
    assert holes._levels(BINARY, 100, 3, False) == [4]
    assert holes._levels(UNITS["real"], 16, 64, True) == []


@pytest.mark.slow
def test_what_cannot_be_summed_is_sampled(case, monkeypatch):
    """Annealed chains, within their errors; rows with few holes are summed all the same."""
    kind, machine, x, exact = case
    monkeypatch.setattr(holes, "_few", lambda m, most: False)
    monkeypatch.setattr(holes, "LEVELS", (1, 2))
    monkeypatch.setattr(annealing, "SLICE_FLOATS", 2**16)
    monkeypatch.setattr(annealing, "pilot_base", lambda units, machine, key: single_base(machine.input_bias))  # quicker
    n = 20
    with double():
        keys = jax.random.split(jax.random.key(5), n * len(x))
        rows = jnp.asarray(np.tile(x, (n, 1))), jnp.asarray(np.tile(OBSERVED, (n, 1)))
        found = jax.jit(holes.conditional, static_argnums=0)(UNITS[kind], machine, keys, *rows)
        log_sum, error = jax.jit(holes.log_sums, static_argnums=0)(UNITS[kind], machine, keys, *rows)
    few = (OBSERVED == 0).sum(1) <= (2 if kind == "binary" else -1)
    hidden, inputs = (np.asarray(v).reshape(n, len(x), -1) for v in (found.hidden, found.inputs))
    np.testing.assert_array_equal(np.asarray(found.error) > 0, np.tile(~few, n))
    for got, wanted in ((hidden, [e.hidden for e in exact]), (inputs, [e.inputs for e in exact])):
        noise = got.std(0) / np.sqrt(n)
        assert np.all(np.abs(got.mean(0) - wanted) <= 5 * noise + 1e-9)
        assert np.all(got.std(0) < 0.3)
    wanted = np.array([e.log_sum for e in exact])
    z = (np.asarray(log_sum).reshape(n, -1) - wanted)[:, ~few] / np.asarray(error).reshape(n, -1)[:, ~few]
    assert np.mean(np.abs(z) < 3) > 0.97
    np.testing.assert_allclose(log_sum[: len(x)][few], wanted[few], rtol=0, atol=1e-10)


def test_sampled_moments_and_their_bound(case):
    kind, machine, x, exact = case
    n = 300
    with double():
        keys = jax.random.split(jax.random.key(6), n * len(x))
        rows = jnp.asarray(np.tile(x, (n, 1))), jnp.asarray(np.tile(OBSERVED, (n, 1)))
        run = jax.jit(holes.moments_by_gibbs, static_argnums=0)
        bound, got = run(UNITS[kind], machine, keys, *rows, jnp.full(n * len(x), 1.0 / n))
        whole = log_weight(UNITS[kind], machine, jnp.asarray(x[:1]))[0]
    assert np.all(np.asarray(bound) <= np.tile([e.log_sum for e in exact], n) + 1e-9)
    assert bound[0] == pytest.approx(float(whole), abs=1e-9), "without holes it is no bound but the thing itself"
    wanted = [sum(getattr(e, part) for e in exact) for part in ("products", "hidden", "inputs")]
    for a, b in zip(jax.tree.leaves(got), wanted):
        # a sum of six means of n, each of variance at most E[x^2], which is below 3 here
        assert np.all(np.abs(np.asarray(a) - b) < 5 * np.sqrt(6 * 3 / n))
