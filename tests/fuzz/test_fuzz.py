"""Two dozen random cases, and the instruments themselves: sums against the twins, and faults that must be seen."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import noisy_or_examples
import numpy as np
import pytest
import sparse_coding
from tests.fuzz.brute import answers, states_of
from tests.fuzz.names import foreign_tags, judge
from tests.fuzz.verdict import Fault, attempt, new_case

from latentbits.models.noisy_or import equations

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.slow("a process that fits random tables")
def test_two_dozen_cases():
    """Two workers would compile the same twice; these cases are of the families that compile in no time."""
    command = ["--light", "--cases", "24", "--seed", "7", "--workers", "1", "--only", "inputs,numbers,files,names"]
    done = subprocess.run([sys.executable, "-m", "tests.fuzz.run", *command], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_case_is_made_of_its_number_alone(tmp_path):
    def drawn(number):
        with new_case("inputs", 3, number, tmp_path) as case:
            return case.rng.random(4).tolist()

    assert drawn(5) == drawn(5)
    assert drawn(5) != drawn(6)


def named(kind, /, **attributes):
    return type(kind, (SimpleNamespace,), {})(**attributes)


def test_sums_of_sparse_coding():
    theta = sparse_coding.some_theta(4, 5)
    X = sparse_coding.draw(theta, 12, missing=0.2)
    rows = sparse_coding.infer_all(X, theta)
    model = named("BinarySparseCoding", components_=theta.W.T, noise_std_=theta.sigma, prior_=theta.pi)
    found = answers(states_of(model), X)
    np.testing.assert_allclose(found.log_likelihood, [row.log_evidence for row in rows], rtol=1e-10)
    np.testing.assert_allclose(found.latents, [row.mean for row in rows], rtol=1e-8, atol=1e-12)


def test_sums_of_a_network_of_two_layers():
    network = noisy_or_examples.some_network((5, 3, 2))
    X, _ = noisy_or_examples.draw(network, 10, missing=0.2)
    found = answers(states_of(named("NoisyOrNetwork", weights_=network.weights, biases_=network.biases)), X)
    np.testing.assert_allclose(found.log_likelihood, equations.log_evidence(network, X), rtol=1e-10)
    np.testing.assert_allclose(found.latents, np.hstack(noisy_or_examples.posterior_means(network, X)), rtol=1e-8)
    np.testing.assert_allclose(found.filled, noisy_or_examples.completion(network, X), rtol=1e-8)


@pytest.mark.parametrize("kind", ["binary", "real"])
def test_sums_of_a_machine(kind):
    """A machine's probabilities of all rows add up to 1, and its unnormalised ones are those of its energy."""
    rng = np.random.default_rng(0)
    w, theta, b = rng.normal(size=(3, 4)), rng.normal(size=3), rng.normal(size=4)
    model = named("CombinationMachine", kind=kind, components_=w, hidden_bias_=theta, input_bias_=b)
    X = np.array([[(i >> j) & 1 for j in range(4)] for i in range(16)], float)
    log_p = answers(states_of(model), X).log_likelihood
    x = 2 * X - 1 if kind == "binary" else X
    energy = x @ b + np.logaddexp(0, x @ w.T + theta).sum(1) - (0 if kind == "binary" else 0.5 * (x**2).sum(1))
    np.testing.assert_allclose(log_p - log_p[0], energy - energy[0], rtol=1e-10, atol=1e-12)
    if kind == "binary":
        assert np.exp(log_p).sum() == pytest.approx(1)


def test_what_is_a_fault(tmp_path):
    with new_case("names", 0, 0, tmp_path) as case:
        judge(case, 1, "", "error: a clear line\n")
        for code, out, err in [
            (0, "\x1b[31m", ""),
            (1, "", "Oops"),
            (-11, "", ""),
            (0, "", "Traceback (most recent call"),
        ]:
            with pytest.raises(Fault):
                judge(case, code, out, err)
        assert attempt(case, "int", lambda: int("x")) is None
        with pytest.raises(ZeroDivisionError):
            attempt(case, "divide", lambda: 1 / 0)
        with pytest.raises(Fault, match="a message"):
            attempt(case, "raise", lambda: (_ for _ in ()).throw(ValueError("")))


def test_elements_from_names_are_seen():
    assert foreign_tags("<p title='&lt;zzfuzz&gt;'>&lt;zzfuzz&gt;</p><script>var x = '\\u003czzfuzz>'</script>") == []
    assert foreign_tags("<p><zzfuzz></p>") == ["<zzfuzz>"]
    assert foreign_tags("<script>'</script><zzfuzz onzz=1>'</script>") == ["<zzfuzz onzz=1>"]
    assert foreign_tags("<img src=zz onerror=zzfuzz>") != []
