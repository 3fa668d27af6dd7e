"""The paper's equations against each other: each follows from the joint probability (1) by sums and differences."""

from __future__ import annotations

import noisy_or_examples as examples
import numpy as np
import pytest

from latentbits.models.noisy_or import equations


def units_and_rows(network, n=30, missing=0.0):
    """Each hidden unit, with rows and states drawn from the network."""
    rows, hidden = examples.draw(network, n, seed=6, missing=missing)
    for k, x in enumerate(rows):
        states = [s[k] for s in hidden]
        for layer, own in enumerate(states, 1):
            for unit in range(len(own)):
                other = [s.copy() for s in states]
                other[layer - 1][unit] = 1 - own[unit]
                yield x, states, other, layer, unit


def test_the_joint_probability_adds_up_to_one():
    network = examples.some_network((3, 2, 2), seed=1)
    x = equations.all_hidden(equations.Network([np.zeros((3, 1))], []))[0]  # all states of three units
    assert np.exp(equations.log_evidence(network, x)).sum() == pytest.approx(1)


def test_a_unit_is_drawn_as_the_joint_probability_has_it():
    """(5) to (7), in all layers, with holes: what changes is the log of (1)."""
    network = examples.some_network((6, 3, 2), seed=5)
    for x, states, other, layer, unit in units_and_rows(network, missing=0.2):
        gain = equations.log_joint(network, x, other) - equations.log_joint(network, x, states)
        change, on = 1 / (1 + np.exp(-gain)), states[layer - 1][unit]
        at = network, x, states, layer, unit
        assert equations.evidence_for_change(*at) == pytest.approx(gain, abs=1e-10)
        assert equations.change_probability(*at) == pytest.approx(change, rel=1e-10)
        assert equations.conditional(*at) == pytest.approx(1 - change if on else change, rel=1e-10)


def test_the_factor_in_the_printed_7_is_a_misprint():
    """With S_j in delta_ij, what the inputs that are off say is left out: the sum of their weights."""
    network = examples.some_network((6, 3, 2), seed=5)
    wrong, missing = [], []
    for x, states, other, layer, unit in units_and_rows(network):
        if layer > 1:
            continue
        s, w, u = states[0][unit], network.weights[0][unit], equations.causal_input(network, 0, states)
        own = equations.causal_input(network, 1, states)[unit]
        delta = (1 - 2 * s) * w * x  # as printed
        feedback = equations.log_noisy_or(own, 1 - s) - equations.log_noisy_or(own, s)
        printed = feedback + np.sum(equations.log_noisy_or(u + delta, x) - equations.log_noisy_or(u, x))
        truth = equations.log_joint(network, x, other) - equations.log_joint(network, x, states)
        wrong.append(printed - truth)
        missing.append((1 - 2 * s) * w @ (1 - x))
    np.testing.assert_allclose(wrong, missing, atol=1e-10)
    assert np.abs(wrong).max() > 1


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_the_garbled_9_is_where_the_gradient_of_8_is_zero(alpha):
    """By sums over all states: the slope of (8) is A / f - N + (alpha - 1) / w - beta, and is zero at (9)."""
    network, beta = examples.some_network((4, 2, 2), seed=7), 1.5
    rows, _ = examples.draw(network, 5, seed=8)
    found = examples.expected_sums(network, rows, np.ones(5))

    def objective(kind, layer, place, change):
        changed = equations.Network(*([value.copy() for value in values] for values in network))
        changed[kind][layer][place] += change
        return equations.log_objective(changed, rows, alpha, beta)

    for kind, (values, credits, counts) in enumerate(zip(network, found[1::2], found[::2], strict=True)):
        for layer, w in enumerate(values):
            for place in np.ndindex(w.shape):
                step = 3e-4 * w[place]
                ends = (objective(kind, layer, place, by) for by in (step, -step))
                slope = np.subtract(*ends) / (2 * step)
                a_by_f, n = credits[layer][place], counts[layer][place]
                assert slope == pytest.approx(a_by_f - n + (alpha - 1) / w[place] - beta, rel=1e-5, abs=1e-5)
    a, n = np.array([4.0, 0.3, 8.9]), np.array([9.0, 50.0, 9.0])
    f = equations.frequency(a, n, alpha, beta)
    np.testing.assert_allclose(a / f - n + (alpha - 1) / -np.log1p(-f) - beta, 0, atol=1e-9)
    if alpha == 1:
        np.testing.assert_allclose(f, a / (n + beta), rtol=1e-12)


def test_sums_are_those_of_plain_loops():
    network = examples.some_network((4, 3, 2), seed=1)
    rows, hidden = examples.draw(network, 6, seed=2, missing=0.3)
    weight = np.array([1, 2, 0.5, 0, 1, 1])
    found = equations.sums(network, rows, hidden, weight)
    for layer, below in enumerate([rows, *hidden]):
        for j in range(below.shape[1]):
            known = [k for k in range(6) if not np.isnan(below[k, j])]
            u = {k: equations.causal_input(network, layer, [s[k] for s in hidden])[j] for k in known}
            explained = {k: weight[k] * below[k, j] / (1 - np.exp(-u[k])) for k in known}
            assert found.bias_counts[layer][j] == pytest.approx(weight[known].sum())
            assert found.bias_credits[layer][j] == pytest.approx(sum(explained.values()))
            for i in range(hidden[layer].shape[1] if layer < 2 else 0):
                on = [k for k in known if hidden[layer][k, i]]
                assert found.counts[layer][i, j] == pytest.approx(weight[on].sum())
                assert found.credits[layer][i, j] == pytest.approx(sum(explained[k] for k in on))
