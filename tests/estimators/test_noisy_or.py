"""`NoisyOrNetwork`: learning, explanations, clamped units, more layers; its equations are tested in tests/models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from networks import network
from sklearn.base import clone

from latentbits import NoisyOrNetwork
from latentbits.core import compilation
from latentbits.data import toys
from latentbits.estimators.explanations import explanation_of
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or import tuning

SIZES = (10, 4)

pytestmark = pytest.mark.optimised


@pytest.fixture(scope="module")
def lines():
    return toys.lines(600, random_state=3)


@pytest.fixture(scope="module")
def fitted(lines):
    """Of a table with names."""
    return NoisyOrNetwork(SIZES, random_state=0).fit(named(lines.X))


def named(X):
    return pd.DataFrame(X, columns=[f"pixel {j // 5},{j % 5}" for j in range(25)])


def effects(weights):
    return -np.expm1(-weights)


def matches(fitted, components):
    """For each line, the units of layer 1 that turn on its pixels and no others."""
    on = effects(fitted.weights_[0]) > 0.5
    return [np.flatnonzero((on == (line > 0)).all(1)) for line in components]


@pytest.mark.slow("a network of two layers is learned")
def test_all_lines_are_found(fitted, lines):
    """Ten units for ten lines that types of patterns tie together: none to spare, none twice."""
    assert all(len(found) == 1 for found in matches(fitted, lines.components))
    assert fitted.converged_
    assert fitted.cost_history_[-1] < 10.5 < fitted.cost_history_[5]
    exact_end = fitted.history_  # after 120 sampled updates of each layer
    table = fitted.history_table_
    assert len(table) == len(fitted.cost_history_) == 240 + len(exact_end)
    assert list(dict.fromkeys(table["stage"].tolist())) == ["layer 1", "layer 2", "all layers, exactly"]
    assert set(table["measure"][:240]) == {"joint"}
    assert fitted.objective_ == exact_end.max()
    assert len(exact_end) > 3
    slack = 2e-6 * abs(exact_end[0])
    fell = np.flatnonzero(np.diff(exact_end) < -slack)  # a step that goes too far is taken back at the next pass
    assert (exact_end[fell + 2] >= exact_end[fell] - slack).all()


@pytest.mark.slow("a network of two layers is learned")
def test_causes_of_a_row_are_what_was_drawn(fitted, lines):
    """Posterior means and explanations against the lines that are on, of themselves or by a pattern."""
    members = [np.flatnonzero((lines.components <= pattern).all(1)) for pattern in lines.pattern_components]
    truth = lines.causes.copy()
    for k, chosen in enumerate(members):
        truth[:, chosen] |= lines.patterns[:, [k]]
    unit_of = np.array([found[0] for found in matches(fitted, lines.components)])
    means = fitted.transform(named(lines.X[:200]), layer=1)[:, unit_of]
    assert ((means > 0.5) == truth[:200]).mean() > 0.97
    for row, explanation in zip(lines.X[:20], fitted.explain(named(lines.X[:20])), strict=True):
        found = {cause.unit for cause in explanation.causes[0]}
        pixels = effects(fitted.weights_[0])[sorted(found)].max(0, initial=0) > 0.5
        assert (pixels == row).all() or explanation.unexplained
        assert explanation.log_joint < 0


def test_what_is_unexplained_is_not_explained_too():
    """Columns 0 and 2 of a row: one by a cause, one mostly by its bias; the numbers are those of the page's test."""
    weights = [np.array([[3, 0.1, 1, 0], [1, 0, 1, 2], [9, 9, 9, 9.0]]), np.array([[1, 1, 1.0]])]
    biases = [np.array([0, 0.1, 2, 0.5]), np.array([1, 0.01, 1]), np.array([0.1])]
    names = [["p", "q", "r", "s"], ["a", "b", "c"], ["top"]]
    states = [np.array([1.0, 1, 0]), np.array([1.0])]
    explanation = explanation_of(weights, biases, names, np.array([1, 1, 1, np.nan]), states, states, -1.0)
    assert explanation.unexplained == {"r": 0.5}
    assert [(cause.name, cause.explains) for cause in explanation.causes[0]] == [
        ("a", {"p": 0.75, "q": 0.5}),
        ("b", {"p": 0.25}),
    ]
    assert [cause.explains["a"] for cause in explanation.causes[1]] == [0.5]
    assert str(explanation).splitlines()[-1] == "unexplained: r"


@pytest.mark.slow("a network of two layers is learned")
def test_explanations_have_names(fitted, lines):
    for one in fitted.explain(named(lines.X[:3])):
        for cause in one.causes[0]:
            assert all(name.startswith("pixel") for name in cause.explains)
            assert cause.name == f"h1_{cause.unit}"
        assert str(one).startswith("layer 2")
    assert fitted.get_feature_names_out().tolist() == [f"h1_{i}" for i in range(10)] + [f"h2_{i}" for i in range(4)]


@pytest.mark.slow("chains of 200 sweeps")
def test_samples_given_some_units(fitted):
    """Means of columns and P(other unit) given clamped ones, against sums over all states; 5 standard errors each.

    The false-alarm rate is below 1e-6 a column.  Gibbs chains have 200 sweeps from a state of the network.
    """
    n = 4000
    clamp = {"h2_1": 1, "h1_3": 0, "pixel 1,2": 1}
    drawn = fitted.sample(n, random_state=1, clamp=clamp)
    assert (drawn[:, 7] == 1).all()
    weights, biases = fitted.weights_, fitted.biases_
    total, mean = 0.0, np.zeros(25)
    states1 = (np.arange(2**10)[:, None] >> np.arange(10)) & 1
    states1 = states1[states1[:, 3] == 0]
    u0 = biases[0] + states1 @ weights[0]
    seen = 1 - np.exp(-u0[:, 7])
    for number in range(16):
        h2 = (number >> np.arange(4)) & 1
        if not h2[1]:
            continue
        u1, p2 = biases[1] + h2 @ weights[1], 1 - np.exp(-biases[2])
        log_p = states1 @ np.log(1 - np.exp(-u1)) - (1 - states1) @ u1
        p = np.exp(log_p) * np.prod(np.where(h2, p2, 1 - p2)) * seen
        total += p.sum()
        mean += p @ (1 - np.exp(-u0))
    mean = mean / total
    mean[7] = 1
    spread = np.sqrt(mean * (1 - mean) / n)
    assert (np.abs(drawn.mean(0) - mean) < 5 * spread + 1e-9).all()


@pytest.mark.slow("a layer is learned")
def test_more_layers_on_top_of_those_learned(fitted, lines):
    """Begin with the lines, each as probable as it is, but independent."""
    causes = fitted.transform(named(lines.X), layer=1).mean(0)
    m = network(fitted.weights_[:1], [fitted.biases_[0], -np.log1p(-causes)], random_state=0)
    m.n_rows_ = 600.0
    flat = m.score(lines.X)
    m.set_params(layer_sizes=SIZES, warm_start=True).fit(lines.X)
    assert [w.shape for w in m.weights_] == [(10, 25), (4, 10)]
    assert m.score(lines.X) > flat + 0.1  # nats: the patterns
    assert all(len(found) == 1 for found in matches(m, lines.components))
    with pytest.raises(ValueError, match="must begin with them"):
        m.set_params(layer_sizes=(9, 4)).fit(lines.X)
    with pytest.raises(ValueError, match="goes on from 25 columns"):
        m.set_params(layer_sizes=SIZES).fit(lines.X[:, :20])


@pytest.mark.slow("each schedule is compiled for")
@pytest.mark.parametrize("schedule", ["layers", "stability", "together"])
def test_the_paper_s_learner(lines, schedule):
    """It learns, though not all lines; and its schedule has the paper's length."""
    m = NoisyOrNetwork(SIZES, recipe={"schedule": schedule}, bias=False, random_state=0).fit(lines.X)
    assert m.n_iter_ == 20
    assert sum(len(found) > 0 for found in matches(m, lines.components)) >= 4
    assert all((b == m.leak).all() for b in m.biases_[:-1])
    assert effects(m.weights_[1]).max() > 0.1


@pytest.mark.slow("5000 rows")
@pytest.mark.parametrize("inference", ["auto", "gibbs"])
def test_rare_bits_stay_rare(inference):
    """One 1 in 5000 rows, and none: biases are what the table has, where a floor of 0.001 would be 5 times that."""
    rng, n = np.random.default_rng(0), 5000
    on = rng.random((n, 2)) < 0.3
    X = np.repeat(on, 3, axis=1) & (rng.random((n, 6)) < 0.8)
    X = np.hstack([X, np.zeros((n, 2), bool)])
    X[123, 6] = True
    m = NoisyOrNetwork((2,), recipe={"inference": inference}, n_updates=40, random_state=0).fit(X)
    share = -np.expm1(-m.biases_[0])
    assert 0.05 / n < share[7] <= share[6] < 2.5 / n
    assert m.sample(50_000, random_state=0)[:, 6:].sum() < 50  # 100 by the floor


@pytest.mark.slow("5000 rows")
def test_a_least_bias_that_is_too_large_is_refused():
    X = np.zeros((5000, 3), np.uint8)
    X[:2000, :2] = 1
    X[7, 2] = 1
    with pytest.warns(UserWarning, match=r"1 columns are rarer than the least bias.*'x2' is on in 0.0002.*by its bias"):
        NoisyOrNetwork((1,), recipe={"schedule": "layers", "n_epochs": 2}, random_state=0).fit(X)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"layer_sizes": ()}, "layer_sizes must be whole numbers"),
        ({"layer_sizes": (4, 0)}, "layer_sizes must be whole numbers"),
        ({"layer_sizes": (4.5,)}, "layer_sizes must be whole numbers"),
        ({"layer_sizes": (30,), "recipe": {"inference": "exact"}}, "too many for layer_sizes"),
        ({"recipe": {"schedule": "stability", "inference": "exact"}}, "looks at how units change"),
        ({"recipe": {"schedule": "random"}}, "must be one of robust, layers, stability, together"),
        ({"recipe": {"n_epochs": 0}}, "n_epochs must be a whole number from 1"),
        ({"prior": (0.5, 1.0)}, "alpha from 1"),
        ({"prior": (1.0,)}, "prior must be"),
        ({"sampling": (1, 2.5)}, "sweeps from 1"),
        ({"annealing": (2, 10)}, "chains from 4"),
        ({"leak": 0.0}, "leak"),
    ],
)
def test_what_cannot_be_is_refused(lines, settings, message):
    with pytest.raises(ValueError, match=message):
        NoisyOrNetwork(**settings).fit(lines.X)


@pytest.mark.slow("a network of two layers is learned")
def test_what_is_asked_for_must_exist(fitted, lines):
    framed = clone(fitted).set_output(transform="pandas")
    framed.__dict__.update(fitted.__dict__)
    with pytest.raises(ValueError, match="take the columns h1_"):
        framed.transform(named(lines.X[:2]), layer=1)
    with pytest.raises(ValueError, match="layer must be from 1 to 2"):
        fitted.transform(named(lines.X[:2]), layer=3)
    with pytest.raises(ValueError, match="there is no unit 'h3_0'"):
        fitted.sample(2, clamp={"h3_0": 1})
    with pytest.raises(ValueError, match="must be 0 or 1"):
        fitted.sample(2, clamp={"h1_0": 2})


@pytest.mark.slow("chains instead of sums")
def test_where_states_are_too_many_the_likelihood_knows_its_error(fitted, lines, monkeypatch):
    """As if this network were too large to sum: within 5 of the errors that it states.  False alarms: 1e-6.

    The last test of this fit: after it, everything is compiled again.
    """
    rows = named(lines.X[:40])
    exact = fitted.log_likelihood(rows)
    monkeypatch.setattr(tuning, "EXACT_LIKELIHOOD_MOST_PAIRS", 0)
    networks.model.cache_clear()
    compilation.clear()
    try:
        value, error = fitted.log_likelihood(rows, return_error=True)
    finally:
        networks.model.cache_clear()
        compilation.clear()
    assert 0 < error < 5
    assert abs(value - exact) < 5 * error


@pytest.mark.slow("20 000 rows")
def test_a_cause_in_one_of_a_thousand_rows_of_a_large_table_is_found():
    rng = np.random.default_rng(1)
    effect = np.zeros((8, 30))
    for cause in effect:
        cause[rng.choice(30, 6, replace=False)] = 0.85
    on = rng.random((20000, 8)) < np.array([0.001] + [0.15] * 7)
    X = rng.random((20000, 30)) > 0.99 * np.exp(on @ np.log1p(-effect))
    m = NoisyOrNetwork((8,), random_state=0).fit(X)
    found = -np.expm1(-m.weights_[0])
    cosine = found @ effect[0] / (np.linalg.norm(found, axis=1) * np.linalg.norm(effect[0]))
    assert cosine.max() > 0.95
    assert -np.expm1(-m.biases_[1][cosine.argmax()]) == pytest.approx(on[:, 0].mean(), rel=0.8)
