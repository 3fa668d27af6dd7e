"""`CombinationMachine` as its users meet it."""

from __future__ import annotations

import warnings

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from tests import tables

import latentbits
from latentbits import CombinationMachine
from latentbits.core.states import all_states
from latentbits.data import toys
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.models.combination_machine import rows
from latentbits.papers.freund_haussler_1994.targets import TARGETS, draw

W = np.array([[1.5, 1.5, 1.5, 0, 0, 0], [0, 0, 0, -1.5, 1.5, 1.5]])


@pytest.fixture(scope="module")
def truth():
    """Two units that combine, on six columns."""
    return CombinationMachine.from_parameters(W, [-1.0, -1.0], np.full(6, -0.3))


@pytest.fixture(scope="module")
def table(truth):
    return truth.sample(3000, random_state=0)


@pytest.fixture(scope="module")
def fitted(table):
    return CombinationMachine(2, n_epochs=30, random_state=0).fit(table)


@pytest.mark.slow("3000 rows are learned from")
def test_learns_a_known_machine(truth, table, fitted):
    """As probable as the truth on rows that neither has seen, and all 64 probabilities close to it."""
    fresh = truth.sample(3000, random_state=1)
    difference = fitted.score_samples(fresh) - truth.score_samples(fresh)
    assert difference.mean() > -0.01
    rows = all_states(6)
    np.testing.assert_allclose(np.exp(fitted.score_samples(rows)).sum(), 1, atol=1e-5)
    assert np.abs(np.exp(fitted.score_samples(rows)) - np.exp(truth.score_samples(rows))).sum() < 0.1
    assert fitted.stop_reason_ == "completed"  # by the steps on all rows, after the end that held-out rows have made
    assert not fitted.converged_
    assert 0.3 < fitted.weight_prior_ <= 3
    assert fitted.log_partition_error_ == 0
    assert fitted.log_likelihood(fresh, return_error=True)[1] == 0


@pytest.mark.slow("3000 rows are learned from")
@pytest.mark.parametrize("learner", ["pursuit", "pursuit+gradient", "stochastic"])
def test_every_learner_is_ahead_of_independent_bits(table, truth, learner):
    fresh = truth.sample(2000, random_state=1)
    m = CombinationMachine(3, learner=learner, n_epochs=20, random_state=0).fit(table)
    alone = latentbits.BernoulliProduct().fit(table).score(fresh)
    gained = (m.score(fresh) - alone) / (truth.score(fresh) - alone)
    assert gained > (0.5 if learner == "pursuit" else 0.95)


@pytest.mark.slow("4000 rows of a large machine")
def test_batches_do_not_drive_the_machine_away():
    """A pursuit of rows with large weights leaves a machine whose means are far from those of the rows."""
    X = draw(TARGETS["large"], 4000, np.random.default_rng([13, 4000])).X
    m = CombinationMachine(10, n_epochs=10, max_iter=0, random_state=13).fit(X)
    assert m.score(X) > -19  # the truth has -17.3, independent bits -28.5


@pytest.mark.slow("30 epochs of 256 columns")
def test_chains_keep_up_with_the_machine():
    """Few rows of many columns that go together: a machine that leaves its chains behind is lost."""
    X = np.kron(load_digits().images[:300] > 7, np.ones((1, 2, 2))).reshape(300, 256)
    m = CombinationMachine(24, n_epochs=30, annealing=(100, 2000), random_state=0).fit(X)
    assert m.score(X) > -51  # independent bits have -96; -47 can be had, and -57 by a machine that runs ahead


@pytest.mark.slow("two fits")
def test_a_sorted_memory_map_gives_what_the_array_gives(table, tmp_path):
    """Batches are cut by row number, so both are shuffled, in the same way.  (A pursuit keeps rows in memory alone.)"""
    table = table[np.lexsort(table.T)]
    np.save(tmp_path / "x.npy", table)
    settings = {"n_hidden": 2, "learner": "gradient", "n_epochs": 3, "random_state": 0}
    array, mapped = (CombinationMachine(**settings).fit(X) for X in (table, np.load(tmp_path / "x.npy", mmap_mode="r")))
    np.testing.assert_array_equal(array.components_, mapped.components_)
    assert array.log_partition_ == mapped.log_partition_
    table = np.array(table, np.uint8)
    table[17, 1] = 7
    np.save(tmp_path / "x.npy", table)
    with pytest.raises(ValueError, match="row 17, column 1 holds 7"):
        CombinationMachine(2, random_state=0).fit(np.load(tmp_path / "x.npy", mmap_mode="r"))


@pytest.mark.slow("60 steps on all rows")
def test_momentum_is_plain_ascent(table):
    """The paper's optimiser takes max_iter steps, all rows at each, and climbs; without input biases if asked."""
    settings = {"learner": "gradient", "recipe": "freund1994", "max_iter": 60, "random_state": 0}
    m = CombinationMachine(2, input_bias=False, **settings).fit(table)
    assert (m.n_iter_, m.stop_reason_, m.converged_) == (60, "completed", False)
    assert m.history_[-1] > m.history_[0]
    np.testing.assert_array_equal(m.input_bias_, 0)


def test_holes_are_marginalised_and_filled(truth):
    """Against the table of all 64 rows."""
    rows = all_states(6)
    p = np.exp(truth.score_samples(rows))
    X = np.array([[1, np.nan, 1, 0, np.nan, 0], [np.nan] * 6, [0, 1, 0, 1, 1, np.nan]])
    for x, found, log_p, hidden in zip(X, truth.complete(X), truth.score_samples(X), truth.transform(X), strict=True):
        fits = np.all((rows == x) | np.isnan(x), axis=1)
        assert np.isclose(log_p, np.log(p[fits].sum()), atol=1e-5)
        np.testing.assert_allclose(found, p[fits] @ rows[fits] / p[fits].sum(), atol=1e-5)
        np.testing.assert_allclose(hidden, p[fits] @ truth.transform(rows[fits]) / p[fits].sum(), atol=1e-5)


def likelihood_and_slope(flat, X, k):
    """Sum over all states of k units, what is missing left out, in float64: log p of the table, and its gradient."""
    d = X.shape[1]
    weights, hidden, inputs = flat[: k * d].reshape(k, d), flat[k * d : -d], flat[-d:]
    states = np.asarray(all_states(k), float)
    field = states @ weights + inputs
    log_cosh, mean = np.logaddexp(field, -field), np.tanh(field)
    signs, hole = np.where(np.isnan(X), 0, 2 * X - 1), np.isnan(X).astype(float)
    joint = states @ hidden + signs @ field.T + hole @ log_cosh.T
    prior = states @ hidden + log_cosh.sum(1)
    value, log_z = logsumexp(joint, axis=1), logsumexp(prior)
    share, free = np.exp(joint - value[:, None]), len(X) * np.exp(prior - log_z)
    by_field = share.T @ signs + (share.T @ hole) * mean - free[:, None] * mean
    slope = states.T @ by_field, states.T @ (share.sum(0) - free), by_field.sum(0)
    return value.sum() - len(X) * log_z, np.concatenate([part.ravel() for part in slope])


@pytest.mark.slow("a separate fit, to the end")
def test_a_climb_that_converged_has_little_left_to_gain():
    """By another one that goes on from there: plateaus, where float32 stands still, are no end."""
    X = tables.classes(missing=0.1)
    m = CombinationMachine(3, weight_prior=None, validation_fraction=0.0, random_state=0).fit(X)
    p = m.params_
    found = np.concatenate([p.weights.ravel(), p.hidden_bias, p.input_bias])
    value, slope = likelihood_and_slope(found, X, 3)
    assert value == pytest.approx(m.objective_, abs=1e-6)
    step = 1e-5 * np.random.default_rng(0).normal(size=len(found))
    ends = [likelihood_and_slope(found + sign * step, X, 3)[0] for sign in (1, -1)]
    assert ends[0] - ends[1] == pytest.approx(2 * slope @ step, abs=1e-7)
    down = lambda x: tuple(-part for part in likelihood_and_slope(x, X, 3))  # noqa: E731
    further = -minimize(
        down, found, jac=True, method="L-BFGS-B", options={"maxiter": 3000, "ftol": 0, "gtol": 1e-6}
    ).fun
    assert m.converged_
    assert further - value < m.tol * len(X)


@pytest.mark.slow("forty units")
def test_more_units_than_columns_are_summed_over_the_rows():
    """2^4 rows instead of 2^40 hidden states."""
    X = toys.bars(500, size=2, random_state=0).X
    m = CombinationMachine(40, n_epochs=3, random_state=0).fit(X)
    assert m.log_partition_error_ == 0
    assert np.isclose(np.exp(m.score_samples(all_states(4))).sum(), 1, atol=1e-5)


@pytest.mark.slow("real rows are learned from")
def test_real_inputs(tmp_path):
    """Two shifts in the plane: four Gaussians at 0, w_1, w_2 and w_1 + w_2."""
    truth = CombinationMachine.from_parameters([[6.0, 0.0], [0.0, 6.0]], [-18.0, -18.0], kind="real")
    X = truth.sample(1500, random_state=0)
    assert X.dtype == np.float64
    X[0, 1] = np.nan
    m = CombinationMachine(2, kind="real", learner="pursuit+gradient", n_epochs=10, random_state=0).fit(X)
    fresh = truth.sample(1000, random_state=1)
    assert m.score(fresh) > truth.score(fresh) - 0.03
    filled = m.complete([[0.0, np.nan], [5.9, 6.1]])
    assert abs(filled[0, 1] - truth.complete([[0.0, np.nan]])[0, 1]) < 0.5
    assert filled[1].tolist() == [5.9, 6.1]
    m.save(tmp_path / "m.safetensors")
    again = latentbits.load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.score_samples(fresh), m.score_samples(fresh))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"components": [[1.0, 2.0]], "hidden_bias": [0.0, 1.0]}, "hidden_bias must have shape"),
        ({"components": [[1.0, np.inf]], "hidden_bias": [0.0]}, "must be finite"),
    ],
)
def test_given_parameters_are_checked(arguments, message):
    with pytest.raises(ValueError, match=message):
        CombinationMachine.from_parameters(**arguments)


def test_too_many_states_are_refused_with_advice(table):
    wide = np.tile(table[:50], (1, 6))
    with pytest.raises(ValueError, match="learner='stochastic'"):
        CombinationMachine(36, learner="gradient").fit(wide)


@pytest.mark.slow("every learner begins")
def test_a_fit_cut_short_knows_its_log_z(table):
    """Whatever ends learning, probabilities add up to 1."""
    for learner in ("pursuit+gradient", "pursuit", "stochastic"):
        with pytest.warns(ConvergenceWarning, match="max_time"):
            m = CombinationMachine(3, learner=learner, random_state=0, max_time=1e-3).fit(table)
        assert np.isclose(np.exp(m.score_samples(all_states(6))).sum(), 1, atol=1e-5)
        assert set(m.history_table_["stage"]) == {"pursuit"}  # whose gains are no likelihoods
        assert len(m.history_) == 0
        assert np.isnan(m.objective_)


@pytest.mark.slow("3000 rows are learned from")
def test_the_history_of_likelihoods_begins_after_the_pursuit(fitted):
    table = fitted.history_table_
    assert list(dict.fromkeys(table["stage"].tolist())) == ["pursuit", "Adam", "L-BFGS", "all rows", "log-likelihood"]
    np.testing.assert_array_equal(fitted.history_, table["objective"][table["stage"] != "pursuit"])
    assert fitted.objective_ == fitted.history_[-1]


@pytest.mark.slow("3000 rows are learned from")
def test_few_active_units(table, truth):
    """With at most one active unit it is a mixture of four products; the share that is left out is stated."""
    m = CombinationMachine(3, max_active=1, n_epochs=20, random_state=0).fit(table)
    alone = latentbits.BernoulliProduct().fit(table).score(table)
    assert m.score(table) > alone
    mixture = latentbits.BernoulliMixture(4, smoothing=0, n_init=5, random_state=0).fit(table)
    assert abs(m.score(table) - mixture.score(table)) < 0.02
    assert np.all(m.posterior(table[:50]).mode.sum(1) <= 1)
    assert abs(m.sample(4000, random_state=0).mean(0) - table.mean(0)).max() < 0.05
    probabilities = np.exp(m.score_samples(all_states(6)))
    assert np.isclose(probabilities.sum(), 1, atol=1e-5)
    assert 0.9 < m.left_out_ <= 1  # the machine without the limit has other states nearly always
    with pytest.raises(ValueError, match="missing entries"):
        CombinationMachine(3, max_active=1, n_epochs=1).fit(np.where(table[:50] == 0, np.nan, 1.0))


@pytest.mark.slow("a pursuit")
def test_no_unit_at_all():
    """A pursuit in noise finds none; what is left is a product, with holes and without."""
    X = np.random.default_rng(0).integers(0, 2, (400, 6))
    m = CombinationMachine(3, learner="pursuit", random_state=0).fit(X)
    assert m.components_.shape == (0, 6)
    holes = X[:5].astype(float)
    holes[:, 2] = np.nan
    assert m.transform(holes).shape == (5, 0)
    p = 1 / (1 + np.exp(-2 * m.input_bias_))
    np.testing.assert_allclose(m.complete(holes)[:, 2], p[2], atol=1e-6)
    assert np.isclose(m.score_samples([[np.nan] * 6])[0], 0, atol=1e-5)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"annealing": (1, 10)}, "chains from 2"),
        ({"annealing": (10, 2.5)}, "temperatures from 1"),
        ({"annealing": (10,)}, "annealing must be"),
        ({"recipe": {"n_chains": 0}}, "n_chains must be a whole number from 1"),
        ({"recipe": {"pursuit_starts": True}}, "pursuit_starts must be a whole number"),
        ({"recipe": {"optimizer": "sgd"}}, "optimizer must be 'adam' or 'momentum'"),
        ({"recipe": {"faithful": 1}}, "faithful must be True or False"),
        ({"recipe": {"mood": 1}}, "recipe has no mood: it has optimizer,"),
    ],
)
def test_recipes_and_annealing_are_checked(table, settings, message):
    with pytest.raises(ValueError, match=message):
        CombinationMachine(2, **settings).fit(table)


# ---------------------------------------------------------------- machines that run away, and restarts


@pytest.fixture(scope="module")
def pairs():
    """Six columns that come in pairs, 600 rows."""
    rng = np.random.default_rng(0)
    return np.repeat(rng.random((600, 3)) < 0.5, 2, axis=1) ^ (rng.random((600, 6)) < 0.05)


RUNNING = {"learner": "stochastic", "n_epochs": 4, "recipe": {"n_chains": 40}, "weight_prior": None, "random_state": 0}


@pytest.mark.slow("fits that run away")
def test_a_machine_that_runs_away_from_its_chains_is_learned_again_in_shorter_steps(pairs):
    with pytest.warns(ConvergenceWarning, match="ran away from its chains.*0.4 was taken instead"):
        m = CombinationMachine(3, learning_rate=2.0, **RUNNING).fit(pairs)
    independent = latentbits.BernoulliProduct().fit(pairs).log_likelihood(pairs)
    assert m.log_likelihood(pairs) > independent + 100
    assert m.objective_ == pytest.approx(m.log_likelihood(pairs), rel=1e-5)


@pytest.mark.slow("fits that run away")
def test_a_machine_that_runs_away_again_and_again_ends_as_independent_columns(pairs):
    with pytest.warns(ConvergenceWarning) as warned:
        m = CombinationMachine(3, learning_rate=1e4, **RUNNING).fit(pairs)
    assert any("all weights are 0 now" in str(w.message) for w in warned)
    assert not m.converged_
    independent = latentbits.BernoulliProduct().fit(pairs).log_likelihood(pairs)
    assert m.log_likelihood(pairs) == pytest.approx(independent, abs=0.01)
    assert m.objective_ == pytest.approx(independent, abs=0.01)


@pytest.mark.slow("two starts, twice")
def test_restarts_are_ranked_by_rows_that_were_not_learned_from(pairs):
    m = CombinationMachine(2, learner="gradient", n_epochs=2, n_init=2, weight_prior=3.0, random_state=0)
    m.n_features_in_ = 6
    record = m._model()
    assert record.stages[-1].name == "held-out rows"
    result = fit(record, MemoryEngine(pairs), seed_key(0), n_init=2)
    p = result.params
    x = 2.0 * pairs - 1
    value = x @ p.input_bias + np.logaddexp(0, x @ p.weights.T + p.hidden_bias).sum(1) - p.log_partition
    held_out = np.asarray(rows.is_held_out(jnp.arange(600, dtype=jnp.uint32), rows.held_below(0.1)))
    assert held_out.sum() >= 50
    assert result.objective == pytest.approx(600 * value[held_out].mean(), rel=1e-5)
    m.fit(pairs)
    assert m.objective_ == pytest.approx(m.log_likelihood(pairs), rel=1e-5)  # users see that of all rows
    assert m.history_table_["stage"][-1] == "log-likelihood"


@pytest.mark.slow("three fits")
def test_largest_terms(table):
    """Gradients from all terms are the exact ones; from few the machine is another, and the share left out is given."""
    settings = {"learner": "gradient", "max_iter": 30, "random_state": 0}
    exact, whole, few = (
        CombinationMachine(3, recipe={"optimizer": "momentum", "max_terms": n}, **settings).fit(table)
        for n in (None, 8, 2)
    )
    np.testing.assert_allclose(whole.components_, exact.components_, rtol=0, atol=1e-4)
    assert whole.left_out_ < 1e-6
    assert 0.01 < few.left_out_ < 1
    assert few.left_out_error_ == 0
    assert np.isclose(np.exp(few.score_samples(all_states(6))).sum(), 1, atol=1e-5)  # all states are the machine's
    assert abs(few.components_ - exact.components_).max() > 0.01
    with pytest.raises(ValueError, match="two ways"):
        CombinationMachine(3, recipe={"max_terms": 2}, max_active=1).fit(table)
    with pytest.raises(ValueError, match="max_terms needs learner"):
        CombinationMachine(3, recipe={"max_terms": 2}, learner="stochastic").fit(table)


@pytest.mark.slow("three pursuits")
def test_the_papers_pursuit_has_one_start(table):
    """And others if asked for."""
    settings = {"learner": "pursuit", "input_bias": False, "random_state": 0}
    recipes = "freund1994", *({"faithful": True, "pursuit_starts": n} for n in (1, 8))
    alone, one, eight = (CombinationMachine(2, recipe=recipe, **settings).fit(table) for recipe in recipes)
    np.testing.assert_array_equal(alone.components_, one.components_)
    assert not np.array_equal(alone.components_, eight.components_)


PASSES = ("Adam", "L-BFGS", "all rows")


def noisy(n=300, d=12, seed=0):
    """Rows of two kinds, and columns of which half know nothing of them."""
    rng = np.random.default_rng(seed)
    kind = rng.random((n, 1)) < 0.5
    return rng.random((n, d)) < np.where(np.arange(d) < d // 2, np.where(kind, 0.8, 0.2), 0.5)


@pytest.fixture(scope="module")
def chosen():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return CombinationMachine(3, n_epochs=10, max_iter=60, random_state=0).fit(noisy())


@pytest.mark.slow("all stages of learning are compiled for")
def test_rows_choose_the_prior(chosen, tmp_path):
    assert 0.05 < chosen.weight_prior_ < 3
    assert "all rows" in chosen.history_table_["stage"]
    chosen.save(tmp_path / "m.safetensors")
    assert latentbits.load(tmp_path / "m.safetensors").weight_prior_ == chosen.weight_prior_


@pytest.mark.slow("two more fits")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_prior_may_be_given_or_left_out(chosen):
    settings = {"n_epochs": 10, "max_iter": 60, "random_state": 0}
    loose, given = (CombinationMachine(3, weight_prior=prior, **settings).fit(noisy()) for prior in (None, 0.5))
    assert loose.weight_prior_ is None
    assert np.abs(chosen.components_).max() < np.abs(loose.components_).max()
    assert given.weight_prior_ == pytest.approx(0.5)


def test_all_rows_are_learned_from_at_last():
    """And before that none that is held out; where weights are more than rows, none is held out at all."""
    m = CombinationMachine(3)
    m.n_features_in_ = 12
    held = {stage.name: int(stage.e_step.args[0]) for stage in m._model().stages if stage.name in PASSES}
    tenth = int(rows.held_below(0.1))
    assert held == {"Adam": tenth, "L-BFGS": tenth, "all rows": 0}
    record = m._model()
    assert record.stages[record.heats - 1].name == "L-BFGS"  # restarts are ranked by the rows held out
    m._n_rows = 35.0
    held = {stage.name: int(stage.e_step.args[0]) for stage in m._model().stages if stage.name in PASSES}
    assert held == {"Adam": 0, "L-BFGS": 0}
    names = [stage.name for stage in m.set_params(weight_prior=1.0)._model().stages]
    assert "all rows" not in names


@pytest.mark.slow("a table of another size")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_few_rows_are_all_learned_from():
    few = CombinationMachine(3, n_epochs=10, max_iter=20, random_state=0).fit(noisy(n=35))
    assert "all rows" not in few.history_table_["stage"]
    assert not few._rows_have_stopped


@pytest.mark.slow("all stages of learning are compiled for")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_rows_of_their_own_stop_a_machine():
    X, V = noisy(), noisy(seed=1)
    m = CombinationMachine(3, n_epochs=10, weight_prior=None, random_state=0).fit(X, X_val=V)
    assert m.stop_reason_ == "held_out"
    assert m.score(V) == pytest.approx(m.held_out_history_.max(), abs=1e-4)
    assert m.held_out_history_[-1] < m.held_out_history_.max()
    assert not {"all rows", "log-likelihood"} & {*m.history_table_["stage"]}
    with pytest.raises(ValueError, match="cannot stop early with these settings"):
        CombinationMachine(3, learner="stochastic").fit(X, X_val=V)


@pytest.mark.slow("three fits by chains")
def test_a_prior_acts_with_chains():
    settings = {"learner": "stochastic", "n_epochs": 10, "recipe": {"n_chains": 50}, "random_state": 0}
    none, narrow, auto = (
        CombinationMachine(3, weight_prior=prior, **settings).fit(noisy()) for prior in (None, 0.1, "auto")
    )
    assert none.weight_prior_ is None
    assert narrow.weight_prior_ == pytest.approx(0.1)
    assert 0.05 < auto.weight_prior_ < 3
    assert np.square(narrow.components_).sum() < 0.9 * np.square(none.components_).sum()
