"""Learning and drawing of hidden trees, against sums over all hidden states."""

from __future__ import annotations

from functools import partial
from itertools import product

import jax
import numpy as np
import pytest
from tests.models.latent_tree.twin import (
    PAIRS,
    WEIGHTS,
    close,
    entropy_of,
    expected_log_p,
    joint_of,
    random_params,
    rows,
    sums_of,
    with_prior,
)
from tests.models.steps import batch_of, now

from latentbits.core import keys
from latentbits.core.batch import make_batch
from latentbits.core.tree import double, to_numpy
from latentbits.models.latent_tree import model as latent_tree

TABLE = rows(12, 5, 0.2)
OLD = random_params(*PAIRS[1])


@jax.jit
def _updated(functions, p):
    prepare, e_step, update, objective = functions
    shared = prepare(p, None, now())
    stats, _ = e_step(p, shared, batch_of(TABLE, WEIGHTS), None)
    return update(None, p, shared, stats, now())[1], objective(p, shared, stats)


def updated(smoothing, softening, entropy):
    """Update the old parameters once: the new ones, and the objective of the old."""
    model = latent_tree.model(3, 2, True, smoothing, softening, entropy)
    functions = model.prepare, jax.tree_util.Partial(model.e_step), model.update, model.objective
    with double():
        return jax.tree.map(np.asarray, _updated(functions, OLD))


def plain_update(smoothing, softening):
    """Update by the formulas: shares of expected counts, those of a root whatever it hangs from."""
    sums, _ = with_prior(OLD, TABLE, WEIGHTS, smoothing, softening)
    roots = (OLD.parent == 5)[..., None, None]
    moved = np.where(roots, sums.moved.sum(2, keepdims=True), sums.moved)
    total, seen = moved.sum(3, keepdims=True), sums.ones + sums.zeros
    return {
        "weights": sums.members / sums.members.sum(),
        "transition": np.where(total > 0, moved / np.where(total > 0, total, 1), OLD.transition),
        "emission": np.where(seen > 0, sums.ones / np.where(seen > 0, seen, 1), OLD.emission),
    }


@pytest.mark.parametrize(("smoothing", "softening"), [(0.0, 0.0), (0.7, 0.2)])
def test_an_update_has_the_shares_of_expected_counts(smoothing, softening):
    new, objective = updated(smoothing, softening, 0.0)
    for name, wanted in plain_update(smoothing, softening).items():
        close(getattr(new, name), wanted)
    sums, prior = with_prior(OLD, TABLE, WEIGHTS, smoothing, softening)
    close(objective, sums.log_p + expected_log_p(OLD, prior))


def test_numpy_gives_what_programs_give():
    """Two steps of L-BFGS, with all that sees no rows."""
    model = latent_tree.model(3, 2, True, 0.7, 0.2)
    names = ("prepare", "start", "update", "objective")

    def course(functions, p, stats):
        prepare, start, update, objective = functions
        state, found = start(p), []
        for _ in range(2):
            shared = prepare(p, None, now())
            state, ahead = update(state, p, shared, stats, now())
            found.append((shared, objective(p, shared, stats), ahead))
            p = ahead
        return state, found

    with double():
        functions = tuple(jax.tree_util.Partial(getattr(model, name)) for name in names)
        prepared = jax.jit(model.prepare)(OLD, None, now())
        stats = to_numpy(jax.jit(model.e_step)(OLD, prepared, batch_of(TABLE, WEIGHTS), None)[0])
        wanted, found = jax.jit(course)(functions, OLD, stats), course(functions, OLD, stats)
    assert not any(isinstance(x, jax.Array) for x in jax.tree.leaves(found))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-11, atol=1e-13), found, wanted)


def test_rows_in_which_nothing_is_hidden_need_no_messages():
    """In NumPy, and without sums over states: as the program that passes messages."""
    model, table = latent_tree.model(2, 2, False, 0.7), rows(12, 5)
    p = random_params(PAIRS[1][0], [2] * 5, hidden=False)

    def of_rows(p, shared, batch):
        latents = model.infer(p, shared, batch)
        likelihood = model.log_likelihood(p, shared, batch)
        return model.e_step(p, shared, batch, None)[0], likelihood, latents, model.decode(p, latents.mean)

    with double():
        raw, double_rows = (np.uint32(0), WEIGHTS, keys.of_seed(0)), np.dtype(float)
        found = of_rows(p, model.prepare(p, None, None), make_batch(table, *raw, True, double_rows))
        wanted = jax.jit(of_rows)(p, model.prepare(p, None, None), batch_of(table, WEIGHTS))
    assert not any(isinstance(x, jax.Array) for x in jax.tree.leaves(found))
    jax.tree.map(partial(np.testing.assert_allclose, rtol=1e-9, atol=1e-9), found, wanted)


@pytest.mark.slow("another way of learning is compiled")
def test_little_entropy_changes_little():
    new, _ = updated(0.7, 0.1, 1e-9)
    for name, wanted in plain_update(0.7, 0.1).items():
        np.testing.assert_allclose(getattr(new, name), wanted, atol=1e-6)


@pytest.mark.slow("another way of learning is compiled")
def test_every_step_of_a_sweep_with_entropy_is_a_top():
    """Blocks in the order in which they are taken: each is the best there is, with those before new and others old.

    So it never falls, and it ends where there is no slope.
    """
    smoothing, softening, tau = 0.7, 0.1, 0.4
    (parents, sizes), rng = PAIRS[1], np.random.default_rng(0)
    sums, prior = with_prior(OLD, TABLE, WEIGHTS, smoothing, softening)
    new, objective = updated(smoothing, softening, tau)
    worth = WEIGHTS.sum() * tau
    close(objective, sums.log_p + expected_log_p(OLD, prior) + worth * entropy_of(OLD))

    def value(p):
        return expected_log_p(p, sums) + worth * entropy_of(p)

    def depth(parent, j):
        return 0 if parent[j] == 5 else 1 + depth(parent, parent[j])

    blocks = [("emission", (m, j, t)) for m in range(2) for j in range(5) for t in range(sizes[j])]
    for m, parent in enumerate(parents):
        for j in sorted(range(5), key=lambda j, parent=parent: -depth(parent, j)):
            states = [slice(None)] if parent[j] == 5 else range(sizes[parent[j]])
            blocks += [("transition", (m, j, s)) for s in states]
    at = jax.tree.map(np.array, OLD)
    best = value(at)
    for name, place in [*blocks, ("weights", slice(None))]:
        block, known = getattr(at, name), best
        block[place] = getattr(new, name)[place]
        best = value(at)
        assert best >= known - 1e-10
        top = block[place].copy()
        for _ in range(2):
            if name == "emission":
                block[place] += 1e-2 * rng.choice([-1, 1]) * top * (1 - top)
            else:
                block[place] *= np.exp(1e-2 * rng.normal(size=top.shape[-1]))
                block[place] /= block[place].sum(-1, keepdims=True)
            assert value(at) <= best + 1e-12
            block[place] = top
    jax.tree.map(np.testing.assert_array_equal, at, new)  # nothing else has changed


def test_the_objective_of_plain_trees_has_the_entropy_of_their_bits():
    model, p = latent_tree.model(2, 2, False, 0.7, 0.0, 0.3), random_params(PAIRS[1][0], [2] * 5, hidden=False)

    @jax.jit
    def objective(p):
        shared = model.prepare(p, None, now())
        return model.objective(p, shared, model.e_step(p, shared, batch_of(TABLE, WEIGHTS), None)[0])

    with double():
        found = objective(p)
    sums, moves = sums_of(p, TABLE, WEIGHTS), p.transition
    prior = np.sum(0.7 / 4 * np.log(moves))  # four ways to go on from bit to bit
    close(found, sums.log_p + prior + WEIGHTS.sum() * 0.3 * entropy_of(p))


def test_samples_have_the_probabilities_of_the_model():
    p, n = random_params(*PAIRS[1]), 20000
    wanted = joint_of(p, np.array(list(product([0, 1], repeat=5)), np.uint8))[0].sum((0, 1))
    model = latent_tree.model(3, softening=0.2)

    @jax.jit
    def draw(p, key):
        return model.sample(p, model.prepare(p, None, None), jax.random.split(key, n))

    with double():
        drawn = np.asarray(draw(p, jax.random.key(5)))
    found = np.bincount(drawn.astype(int) @ (1 << np.arange(5)[::-1]), minlength=32) / n
    assert np.all(np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n) + 1e-9)
