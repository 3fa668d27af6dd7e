"""Hidden causes on a tree, against sums over all hidden states and all trees."""

from __future__ import annotations

from itertools import combinations, product

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from latentbits.core.batch import make_batch
from latentbits.core.model import Progress
from latentbits.core.pair_counts import count
from latentbits.core.tree import double
from latentbits.models.latent_tree import model as latent_tree
from latentbits.models.latent_tree.dimension import dimension
from latentbits.models.latent_tree.entropy import best_shares
from latentbits.models.latent_tree.structure import (
    is_order,
    joint_probabilities,
    mutual_information,
    ordered,
    spanning_tree,
)

# chains, stars, forks; with a root in the middle, at an end, and two of them
TREES = {
    "chain": [1, 2, 5, 2, 3],
    "star": [5, 0, 0, 0, 0],
    "fork": [2, 2, 3, 5, 3],
    "forest": [5, 0, 5, 2, 2],
    "alone": [1],
}


def random_params(parents, sizes, seed=0, hidden=True):
    """Parameters of some trees, far from even; sizes of the variables may differ."""
    rng = np.random.default_rng(seed)
    parents = np.array(parents)
    m, d = parents.shape
    k, sizes = max(sizes), np.array(sizes)
    there = np.arange(k) < sizes[:, None]
    roots = parents == d
    transition = rng.gamma(0.5, size=(m, d, k, k)) * there[:, None]
    transition = np.where(roots[:, :, None, None], transition[:, :, :1], transition)
    transition /= transition.sum(3, keepdims=True)
    from_there = roots[:, :, None] | there[np.where(roots, 0, parents)]
    transition *= from_there[..., None]
    emission = rng.uniform(0.05, 0.95, (m, d, k)) if hidden else np.broadcast_to([0.0, 1.0], (m, d, 2))
    forms = [ordered(one) for one in parents]
    weights = rng.dirichlet(np.ones(m))
    found = (weights, parents, np.zeros((m, d)), *(_padded([getattr(f, n) for f in forms], d) for n in FORMS))
    return latent_tree.Params(*(jnp.asarray(x) for x in (*found, transition, emission)))


FORMS = ("steps", "leaves")


def _padded(parts, d):
    """Orders of several trees in one array."""
    shape = np.max([x.shape for x in parts], axis=0)
    found = np.full((len(parts), *shape), d + 1, np.int32)
    for one, part in zip(found, parts):
        one[: part.shape[0], : part.shape[1]] = part
    return found


def rows(n, d, missing=0.0, seed=0):
    rng = np.random.default_rng(seed)
    table = rng.integers(0, 2, (n, d)).astype(np.uint8)
    table[rng.random((n, d)) < missing] = 255
    return table


def joint_of(p, table):
    """P(tree, all states, row): (trees, states..., rows), term by term; and the states."""
    m, d, k = p.emission.shape
    every = np.array(list(product(range(k), repeat=d)))
    columns = np.arange(d)
    found = np.empty((m, len(every), len(table)))
    for tree in range(m):
        parent, moves, emits = (np.asarray(x[tree]) for x in (p.parent, p.transition, p.emission))
        above = np.where(parent == d, 0, every[:, np.where(parent == d, 0, parent)])
        prior = np.prod(moves[columns, above, every], axis=1)
        one = emits[columns, every]  # (all states, columns)
        terms = np.where(table[None] == 1, one[:, None], np.where(table[None] == 0, 1 - one[:, None], 1.0))
        found[tree] = np.asarray(p.weights)[tree] * prior[:, None] * terms.prod(2)
    return found, every


def batch_of(table, dtype=float, weights=None):
    counted = jnp.uint32(len(table)) if weights is None else jnp.asarray(weights)
    complete = not np.any(table == 255)
    return make_batch(jnp.asarray(table), jnp.uint32(0), counted, jax.random.key(0), complete, np.dtype(dtype))


def now():
    """Somewhere in learning."""
    return Progress(jnp.int32(0), jnp.int32(10), jnp.int32(0), jax.random.key(0))


CASES = {
    "chain": ([TREES["chain"]], [3] * 5, 0.0),
    "star": ([TREES["star"]], [3] * 5, 0.3),
    "fork": ([TREES["fork"]], [2, 4, 1, 3, 2], 0.3),
    "forest": ([TREES["forest"]], [3, 2, 2, 3, 1], 0.2),
    "alone": ([TREES["alone"]], [3], 0.3),
    "two trees": ([TREES["fork"], TREES["star"]], [2] * 5, 0.3),
    "two trees, different states": ([TREES["chain"], TREES["star"]], [1, 2, 3, 2, 1], 0.0),
}


MODEL = latent_tree.model(3)


@jax.jit
def everything(p, batch):
    """All that a model tells of rows, and the gradient of their likelihood, in one program."""

    def total(transition, emission):
        at = eqx.tree_at(lambda q: (q.transition, q.emission), p, (transition, emission))
        return MODEL.log_likelihood(at, MODEL.prepare(at, None, None), batch).value.sum()

    shared = MODEL.prepare(p, None, None)
    found = MODEL.infer(p, shared, batch)
    return {
        "log p": MODEL.log_likelihood(p, shared, batch).value,
        "stats": MODEL.e_step(p, shared, batch, None)[0],
        "mean": found.mean,
        "mode": found.mode,
        "completed": MODEL.complete(p, shared, batch),
        "decoded": MODEL.decode(p, found.mean),
        "gradient": jax.grad(total, argnums=(0, 1))(p.transition, p.emission),
    }


@pytest.fixture(params=CASES, scope="module")
def small(request):
    """Parameters, rows, P(tree, states, row), all states, and all that the model tells."""
    parents, sizes, missing = CASES[request.param]
    with double():
        p = random_params(parents, sizes)
        table = rows(12, len(sizes), missing)
        told = jax.tree.map(np.asarray, everything(p, batch_of(table)))
        return jax.tree.map(np.asarray, p), table, *joint_of(p, table), told


def close(found, wanted):
    np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-12)


def test_likelihood_and_posteriors_are_sums_over_all_states(small):
    p, table, joint, every, told = small
    m, d, k = p.emission.shape
    total = joint.sum((0, 1))
    close(told["log p"], np.log(total))
    belief = np.einsum("mar,ajt->rmjt", joint / total, np.eye(k)[every])
    close(told["mean"], belief.reshape(len(table), -1))
    close(told["completed"], np.einsum("rmjt,mjt->rj", belief, p.emission))
    close(told["decoded"], told["completed"])
    mode = told["mode"].reshape(len(table), m, d, k)
    tree, states = np.unravel_index(joint.reshape(-1, len(table)).argmax(0), joint.shape[:2])
    wanted = np.zeros_like(mode)
    wanted[np.arange(len(table)), tree] = np.eye(k)[every[states]]
    np.testing.assert_array_equal(mode, wanted)


def test_expected_counts_are_sums_over_all_states(small):
    p, table, joint, every, told = small
    m, d, k = p.emission.shape
    stats = told["stats"]
    share = joint / joint.sum((0, 1))
    close(stats.members, share.sum((1, 2)))
    close(stats.log_likelihood.sum(), np.log(joint.sum((0, 1))).sum())
    own = np.eye(k)[every]
    for bit, found in ((1, stats.counts.ones), (0, stats.counts.zeros)):
        close(found, np.einsum("mar,ajt,rj->mjt", share, own, table == bit))
    for tree in range(m):
        parent = p.parent[tree]
        for j in range(d):
            above = np.eye(k)[np.zeros(len(every), int) if parent[j] == d else every[:, parent[j]]]
            close(stats.counts.moved[tree, j], np.einsum("ar,as,at->st", share[tree], above, own[:, j]))


def test_gradient_of_the_likelihood_is_that_of_the_expected_counts(small):
    """Fisher's identity: d log p / d parameter is the expected d log P(states, bits), along shares that add up to 1."""
    p, _, _, _, told = small
    by_move, by_bit = told["gradient"]
    counts = told["stats"].counts
    moves = p.transition

    def along(gradient):
        return np.where(moves > 0, gradient - np.sum(moves * gradient, axis=3, keepdims=True), 0)

    close(along(by_move), along(counts.moved / np.where(moves > 0, moves, 1)))
    close(by_bit, counts.ones / p.emission - counts.zeros / (1 - p.emission))


def test_a_row_that_counts_three_times_is_three_rows():
    with double():
        p = random_params([TREES["fork"]], [3] * 5)
        table = rows(4, 5, 0.2)
        shared = MODEL.prepare(p, None, None)
        e_step = jax.jit(MODEL.e_step)
        many = e_step(p, shared, batch_of(np.repeat(table, 3, axis=0)), None)[0]
        once = e_step(p, shared, batch_of(table, weights=np.full(4, 3.0)), None)[0]
        for a, b in zip(jax.tree.leaves(many), jax.tree.leaves(once)):
            close(a, b)


def test_a_hub_of_contrary_bits_is_no_number_too_small():
    """Products of 300 messages: 0 in float32 for every state, and far apart between states along the way."""
    d = 300
    with double():
        p = random_params([[d, *[0] * (d - 1)]], [2] * d)
        sure = np.where(np.arange(2) == 1, 1 - 1e-6, 1e-6)
        moves = jnp.asarray(np.where(np.asarray(p.parent == d)[..., None, None], 0.5, np.eye(2)))
        p = eqx.tree_at(lambda q: (q.transition, q.emission), p, (moves, jnp.broadcast_to(sure, p.emission.shape)))
        table = (np.arange(d) < d // 2).astype(np.uint8)[None]
        wanted = np.log(np.prod(np.where(np.arange(20) < 10, 1e-6, 1 - 1e-6))) * (d // 20)
        close(MODEL.log_likelihood(p, MODEL.prepare(p, None, None), batch_of(table)).value, wanted)
        shared = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == float else x, MODEL.prepare(p, None, None))
        found = MODEL.log_likelihood(p, shared, batch_of(table, np.float32)).value
        np.testing.assert_allclose(found, wanted, rtol=1e-5)


@pytest.mark.parametrize("case", ["fork", "two trees"])
def test_samples_have_the_probabilities_of_the_model(case):
    parents, sizes, _ = CASES[case]
    d, n = len(sizes), 20000
    with double():
        p = random_params(parents, sizes)
        every = np.array(list(product([0, 1], repeat=d)), np.uint8)
        wanted = joint_of(p, every)[0].sum((0, 1))
        drawn = MODEL.sample(p, MODEL.prepare(p, None, None), jax.random.split(jax.random.key(5), n))
        found = np.bincount(np.asarray(drawn).astype(int) @ (1 << np.arange(d)[::-1]), minlength=2**d) / n
    np.testing.assert_allclose(wanted.sum(), 1)
    assert np.all(np.abs(found - wanted) < 5 * np.sqrt(wanted * (1 - wanted) / n) + 1e-9)


@eqx.filter_jit
def one_update(model, p, batch):
    shared = model.prepare(p, None, now())
    stats, _ = model.e_step(p, shared, batch, None)
    return stats, model.update(None, p, shared, stats, now())[1]


@pytest.mark.parametrize(("smoothing", "softening"), [(0.0, 0.0), (0.7, 0.2)])
def test_em_against_em_over_all_states(smoothing, softening):
    """One update, term by term; a bit that is flipped with some probability has a state more."""
    parents, sizes = [TREES["fork"], TREES["chain"]], [2, 3, 1, 3, 2]
    model = latent_tree.model(tuple(sizes), 2, True, smoothing, softening)
    with double():
        p, table = random_params(parents, sizes), rows(15, 5, 0.2)
        soft = eqx.tree_at(lambda q: q.emission, p, (1 - softening) * p.emission + softening * (1 - p.emission))
        joint, every = joint_of(soft, table)
        stats, after = one_update(model, p, batch_of(table))
        close(stats.log_likelihood.sum(), np.log(joint.sum((0, 1))).sum())
        share = joint / joint.sum((0, 1))
        m, d, k = p.emission.shape
        own = np.eye(k)[every]
        seen = table != 255
        mean = (np.sum(table == 1, 0) + smoothing / 2) / (seen.sum(0) + smoothing)
        close(after.weights, share.sum((1, 2)) / len(table))
        for tree in range(m):
            for j in range(d):
                e = np.asarray(p.emission[tree, j])
                was_one = np.where(
                    (table[:, j] == 1)[:, None],
                    (1 - softening) * e / (e + softening * (1 - 2 * e)),
                    softening * e / (1 - e - softening * (1 - 2 * e)),
                )  # (rows, states)
                n = np.einsum("ar,at,r,rt->t", share[tree], own[:, j], seen[:, j], was_one)
                total = np.einsum("ar,at,r->t", share[tree], own[:, j], seen[:, j])
                more = smoothing / sizes[j] * (np.arange(k) < sizes[j])
                wanted = (n + more * mean[j]) / np.where(total + more > 0, total + more, 1)
                close(np.where(total + more > 0, after.emission[tree, j], 0), wanted)


# ---------------------------------------------------------------- entropy


def entropy_of(p):
    """Of tree, states and bits together, by all of them."""
    every = np.array(list(product([0, 1], repeat=p.emission.shape[1])), np.uint8)
    joint = joint_of(p, every)[0]
    np.testing.assert_allclose(joint.sum(), 1)
    return -np.sum(joint[joint > 0] * np.log(joint[joint > 0]))


ENTROPIC = {
    "fork": ([TREES["fork"]], [2, 3, 1, 3, 2]),
    "forest": ([TREES["forest"]], [2, 2, 2, 3, 1]),
    "alone": ([TREES["alone"]], [3]),
    "two trees": ([TREES["fork"], TREES["star"]], [2] * 5),
    "bits": ([TREES["fork"]], [2] * 5),
}


@eqx.filter_jit
def told_of(model, p, stats):
    return model.objective(p, model.prepare(p, None, now()), stats)


@pytest.mark.parametrize("case", ENTROPIC)
def test_the_objective_has_the_entropy_of_all_states_and_bits(case):
    parents, sizes = ENTROPIC[case]
    hidden = case != "bits"
    with double():
        p = random_params(parents, sizes, hidden=hidden)
        counts = latent_tree.Counts(*(jnp.ones_like(x) for x in (p.transition, p.emission, p.emission)))
        stats = latent_tree.Stats(jnp.asarray(9.0), jnp.asarray([-3.0, 0]), p.weights, counts)
        none, some = (
            told_of(latent_tree.model(tuple(sizes), len(parents), hidden, 0.7, 0.1, tau), p, stats)
            for tau in (0.0, 0.3)
        )
        close(some - none, 9 * 0.3 * entropy_of(p))


@pytest.mark.parametrize("worth", [1e-9, 1e-2, 1.0, 1e2, 1e6])
@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_shares_are_where_the_slope_is_the_same_for_all(worth, spread):
    """Of a concave sum under one constraint there is no other top."""
    rng = np.random.default_rng(0)
    counts, bonus = rng.gamma(0.3, size=(30, 5)) * 10 + 1e-3, rng.random((30, 5)) * spread
    counts[:10, :2] = 0
    worths = worth * rng.uniform(0.5, 2, 30)
    with double():
        found = np.asarray(best_shares(jnp.asarray(counts), jnp.asarray(bonus), jnp.asarray(worths)))
    np.testing.assert_allclose(found.sum(1), 1, rtol=1e-12)
    # t times the slope, whose second part is 0 where t is
    logs = np.log(np.where(found > 0, found, 1))
    times = counts + worths[:, None] * found * (bonus - logs)
    off = times - found * times.sum(1, keepdims=True)
    assert np.all(np.abs(off) < 1e-12 * (counts.sum(1) + worths * (1 + spread))[:, None])
    assert np.all(found[counts > 0] > 0)


def test_shares_without_counts_or_worth():
    with double():
        counts, bonus = jnp.asarray([[0.0, 0, 0], [1, 3, 0], [0, 0, 0]]), jnp.asarray([[1.0, 2, 5]] * 3)
        there = jnp.asarray([[True, True, False]])
        found = best_shares(counts, bonus, jnp.asarray([2.0, 0, 0]), there)
        close(found[:2], [[1 / (1 + np.e), np.e / (1 + np.e), 0], [0.25, 0.75, 0]])
        assert np.all(np.isnan(found[2]))


@eqx.filter_jit
def to_be_raised(model, p, stats):
    """By an update: expected log P(tree, states, bits) under the posterior before, with prior and entropy."""

    def log(x):
        return jnp.log(jnp.where(x > 0, x, 1))

    no_rows = eqx.tree_at(lambda s: s.log_likelihood, stats, jnp.zeros(2))
    counts = stats.counts
    by_state = counts.ones * log(p.emission) + counts.zeros * log(1 - p.emission)
    expected = jnp.sum(counts.moved * log(p.transition)) + jnp.sum(by_state) + jnp.sum(stats.members * log(p.weights))
    return expected + model.objective(p, model.prepare(p, None, now()), no_rows)


def turned_a_little(p, rng, where, size):
    """With one distribution moved a little, and still one."""
    name, at = where
    x = np.array(getattr(p, name))
    if name == "emission":
        x[at] += size * rng.choice([-1, 1]) * x[at] * (1 - x[at])
    else:
        x[at] *= np.exp(size * rng.normal(size=x[at].shape[-1]))
        x[at] /= x[at].sum(-1, keepdims=True)
    return eqx.tree_at(lambda q: getattr(q, name), p, jnp.asarray(x))


@pytest.mark.parametrize("smoothing", [0.0, 0.7])
def test_every_step_of_a_sweep_is_a_top(smoothing):
    """Blocks in the order in which they are taken: each is the best there is, with those before new and others old."""
    parents, sizes = [TREES["fork"], TREES["chain"]], [2, 3, 1, 3, 2]
    model = latent_tree.model(tuple(sizes), 2, True, smoothing, 0.0, 0.4)
    rng = np.random.default_rng(0)
    with double():
        old = random_params(parents, sizes)
        stats, new = one_update(model, old, batch_of(rows(15, 5, 0.2)))
        at, value = old, float(to_be_raised(model, old, stats))
        blocks = [("emission", (m, j, t)) for m in range(2) for j in range(5) for t in range(sizes[j])]
        for m, parent in enumerate(parents):
            depths = {}
            for j in range(5):
                up, depths[j] = parent[j], 0
                while up < 5:
                    up, depths[j] = parent[up], depths[j] + 1
            for j in sorted(depths, key=depths.get, reverse=True):
                states = [slice(None)] if parent[j] == 5 else range(sizes[parent[j]])
                blocks += [("transition", (m, j, s)) for s in states]
        blocks += [("weights", slice(None))]
        for where in blocks:
            name, place = where
            block = getattr(at, name).at[place].set(getattr(new, name)[place])
            at = eqx.tree_at(lambda q, name=name: getattr(q, name), at, block)
            before, value = value, float(to_be_raised(model, at, stats))
            assert value >= before - 1e-10
            for _ in range(2):
                other = turned_a_little(at, rng, where, 1e-2)
                assert float(to_be_raised(model, other, stats)) <= value + 1e-12
        for a, b in zip(jax.tree.leaves(at), jax.tree.leaves(new)):
            np.testing.assert_array_equal(a, b)  # nothing else has changed


@pytest.mark.parametrize("softening", [0.0, 0.1])
def test_em_with_entropy_climbs_to_where_the_gradient_is_none(softening):
    parents, sizes, tau = [[1, 3, 1], [3, 0, 1]], [2, 3, 2], 0.1
    model = latent_tree.model(tuple(sizes), 2, True, 0.5, softening, tau)

    @jax.jit
    def learn(p, batch):
        def step(p, _):
            shared = model.prepare(p, None, now())
            stats, _ = model.e_step(p, shared, batch, None)
            return model.update(None, p, shared, stats, now())[1], model.objective(p, shared, stats)

        return jax.lax.scan(step, p, length=3000)

    @jax.jit
    @jax.grad
    def gradient(learned, p, batch):
        at = eqx.tree_at(lambda q: (q.weights, q.transition, q.emission), p, learned)
        shared = model.prepare(at, None, now())
        stats, _ = model.e_step(at, shared, batch, None)
        # means of columns in the prior are sums of posteriors, and constants
        row = model.log_likelihood(at, shared, batch).value.sum()
        fixed = jax.lax.stop_gradient(eqx.tree_at(lambda s: s.log_likelihood, stats, jnp.zeros(2)))
        return row + model.objective(at, shared, fixed)

    with double():
        p, batch = random_params(parents, sizes), batch_of(rows(40, 3, 0.2))
        p, values = learn(p, batch)
        assert np.all(np.diff(values) > -1e-10)
        by_weight, by_move, by_bit = map(np.asarray, gradient((p.weights, p.transition, p.emission), p, batch))
        moves = np.asarray(p.transition)
        roots = np.asarray(p.parent == 3)[:, :, None, None]
        by_move = np.where(roots, by_move.sum(2, keepdims=True), by_move)
        for at, slope in ((np.asarray(p.weights), by_weight), (moves, by_move)):
            slope = np.where(at > 0, slope, 0)  # states that there are
            np.testing.assert_allclose(at * (slope - np.sum(at * slope, -1, keepdims=True)), 0, atol=1e-5)
        there = moves.any(2)
        e = np.asarray(p.emission)
        np.testing.assert_allclose(np.where(there, by_bit * e * (1 - e), 0), 0, atol=1e-5)


def test_little_entropy_changes_little():
    parents, sizes = [TREES["fork"], TREES["chain"]], [2, 3, 1, 3, 2]
    with double():
        p, batch = random_params(parents, sizes), batch_of(rows(15, 5, 0.2))
        none, little = (
            one_update(latent_tree.model(tuple(sizes), 2, True, 0.7, 0.1, tau), p, batch)[1] for tau in (0.0, 1e-9)
        )
        for name in ("weights", "transition", "emission"):
            np.testing.assert_allclose(getattr(none, name), getattr(little, name), atol=1e-6)


def test_the_structure_is_the_best_of_all_trees():
    rng = np.random.default_rng(0)
    for d in (2, 3, 5):
        edges = list(combinations(range(d), 2))
        for _ in range(5):
            information = rng.random((d, d))
            information = information + information.T
            found = spanning_tree(information).parent
            value = sum(information[j, p] for j, p in enumerate(found) if p < d)
            best = max(
                sum(information[a, b] for a, b in some) for some in combinations(edges, d - 1) if _joins(some, d)
            )
            assert np.isclose(value, best)
            assert np.sum(found == d) == 1


def _joins(edges, d):
    """Whether these edges make one tree of all columns."""
    group = list(range(d))
    for a, b in edges:
        old, new = group[a], group[b]
        if old == new:
            return False
        group = [new if x == old else x for x in group]
    return True


def test_mutual_information_by_its_definition():
    table = rows(200, 3, 0.2, seed=2)
    table[:, 1] = np.where(table[:, 0] == 255, table[:, 1], table[:, 0])
    with double():
        counts = count(batch_of(table))
    found = mutual_information(joint_probabilities(counts, 0.0))
    for i, j in combinations(range(3), 2):
        both = (table[:, i] != 255) & (table[:, j] != 255)
        cells = np.array([[np.sum(both & (table[:, i] == a) & (table[:, j] == b)) for b in (0, 1)] for a in (0, 1)])
        q = cells / cells.sum()
        outer = q.sum(1, keepdims=True) * q.sum(0)
        np.testing.assert_allclose(found[i, j], np.sum(q[q > 0] * np.log((q / outer)[q > 0])), atol=1e-12)


@pytest.mark.parametrize("shape", ["chain", "star", "random", "pairs"])
def test_orders_have_every_column_after_what_hangs_from_it(shape):
    rng = np.random.default_rng(0)
    for d in (1, 2, 3, 9, 40):
        parent = {
            "chain": np.arange(1, d + 1),
            "star": np.array([d, *[0] * (d - 1)]),
            "random": np.array([d, *(rng.integers(0, j) for j in range(1, d))]),
            "pairs": np.array([d if j % 2 == 0 else j - 1 for j in range(d)]),
        }[shape]
        found = ordered(parent)
        assert is_order(*found)
        other = np.roll(found.parent, 1) if d > 3 and shape == "random" else None
        assert other is None or not is_order(other, found.steps, found.leaves)


RANKED = [
    ([3, 0, 1], [1, 1, 1]),
    ([3, 0, 1], [2, 2, 2]),
    ([1, 4, 1, 2], [2, 3, 3, 2]),
    ([4, 0, 1, 2], [3, 3, 3, 3]),
    ([4, 0, 0, 0], [3, 2, 2, 4]),
    ([5, 0, 1, 2, 3], [2, 2, 2, 2, 2]),
    ([5, 0, 1, 2, 3], [4, 4, 4, 4, 4]),
    ([5, 0, 0, 0, 2], [4, 2, 3, 2, 1]),
    ([6, 0, 0, 1, 1, 2], [2, 2, 2, 2, 2, 2]),
    ([6, 0, 1, 2, 3, 4], [3, 3, 3, 3, 3, 3]),
    ([6, 0, 0, 1, 1, 2], [3, 4, 3, 2, 2, 3]),
    ([6, 0, 6, 2, 2, 4], [2, 3, 1, 2, 3, 2]),
    ([4, 0, 0, 0], [8, 8, 8, 8]),
]


# the first are small
@pytest.mark.parametrize(
    ("parent", "sizes"), [*RANKED[:8], *(pytest.param(*one, marks=pytest.mark.slow) for one in RANKED[8:])]
)
def test_parameters_are_as_many_as_ways_to_change(parent, sizes):
    """The rank of what the probabilities of all rows change by; they are linear in each parameter."""
    d = len(parent)
    with double():
        p = jax.tree.map(np.array, random_params([parent], sizes, seed=1))
    every = np.array(list(product([0, 1], repeat=d)), np.uint8)
    there = p.transition > 0
    there[p.parent == d, 1:] = False  # a root has one distribution

    def changes(name, where):
        at = getattr(p, name)
        before, at[where] = at[where], 1.0
        most = joint_of(p, every)[0].sum((0, 1))
        at[where] = 0.0
        least = joint_of(p, every)[0].sum((0, 1))
        at[where] = before
        return most - least

    found = [changes("emission", where) for where in zip(*np.nonzero(np.ones_like(p.emission)))]
    for above in zip(*np.nonzero(there.any(3))):
        each = np.array([changes("transition", (*above, t)) for t in np.flatnonzero(there[above])])
        found += list(each[1:] - each[0])  # shares that add up to 1
    values = np.linalg.svd(np.array(found), compute_uv=False)
    assert dimension(np.array(parent), np.array(sizes), np.ones(d, bool)) == np.sum(values > 1e-10 * values[0])


def test_columns_that_never_vary_have_no_parameters():
    few = dimension(np.array([-1, 0, 0]), np.full(3, 2), np.ones(3, bool))
    wide = np.array([-1, 0, 0, 2, 3])
    assert dimension(wide, np.full(5, 2), np.array([True, True, True, False, False])) == few
    assert dimension(np.array([-1]), np.array([4]), np.array([False])) == 0
    # a variable whose bit tells nothing, between others
    assert dimension(np.array([3, 3, 3, -1]), np.array([2, 2, 2, 2]), np.array([True, True, True, False])) == 7
