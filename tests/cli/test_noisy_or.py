"""Noisy-OR networks at the command line: layers, what units turn on, and what is refused.

The network is made, not learned; tests of the estimator learn.
"""

import numpy as np
import pytest
from networks import adopt

import latentbits
from latentbits.data import read
from latentbits.telling import noisy_or
from latentbits.telling.records import Table

NAMES = ("fever", "cough", "rash", "itch")
WEIGHTS = [np.array([[3.0, 2.0, 0.0, 0.0], [0.5, 0.0, 4.0, 3.0]]), np.array([[2.0, 0.05]])]
BIASES = [np.full(4, 0.01), np.array([0.02, 0.3]), np.array([0.4])]
FIT = ("-m", "noisy-or", "--layers", "2,1")


@pytest.fixture
def rows():
    return np.array([[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 1, 1], [0, 0, 0, 0]] * 5)


@pytest.fixture
def csv(tool, rows, monkeypatch):
    """A table, and `fit` that takes no time."""
    monkeypatch.setattr(
        "latentbits.cli.fit.fit_named", lambda model, rows, *_: adopt(model, WEIGHTS, BIASES, rows.names)
    )
    lines = [",".join(NAMES), *(",".join(map(str, row)) for row in rows)]
    (tool.folder / "x.csv").write_text("\n".join(lines) + "\n")
    return tool.folder / "x.csv"


def test_what_is_printed_and_written(tool, csv, rows):
    result = tool("fit", csv, *FIT, "--items", "i.csv")
    assert "fitting noisy OR of 2, 1" in result.stderr
    for words in ("2, 1", "exact", "Layer 1", "Layer 2", "fever 0.95, cough 0.86", "rash 0.98, itch 0.95, fever 0.39"):
        assert words in result.stdout
    assert "h1_0 0.86" in result.stdout  # of the unit above, which turns the other on too rarely to say so
    assert "h1_1 0.05" not in result.stdout
    items = read("i.csv", labels=["item"])
    assert items.feature_names == ("bias", "weight_0", "weight_1")
    np.testing.assert_allclose(items.values, np.column_stack([BIASES[0], WEIGHTS[0].T]), rtol=1e-5)
    tool("transform", "model.safetensors", csv, "-o", "on.csv")
    on = read("on.csv")
    assert on.feature_names == ("h1_0", "h1_1", "h2_0")
    np.testing.assert_array_equal(on.values[:4, :2] > 0.5, [[1, 0], [0, 1], [1, 1], [0, 0]])
    assert "--errors is" in tool("transform", "model.safetensors", csv, "-o", "on.csv", "--errors", code=1).stderr


def test_numbers_are_those_of_the_estimator(csv, rows):
    model = adopt(latentbits.NoisyOrNetwork((2, 1)), WEIGHTS, BIASES)
    found = noisy_or.tell(model, Table(rows, NAMES)).facts
    assert found["layer_sizes"] == (2, 1)
    assert found["nats_per_row"] == pytest.approx(model.score(rows), rel=1e-5)
    assert found["bits_per_row"] == pytest.approx(-model.score(rows) / np.log(2), rel=1e-5)
    assert found["nats_per_row_error"] == 0
    np.testing.assert_allclose(np.concatenate(found["shares"]), model.transform(rows).mean(axis=0), rtol=1e-5)


def test_options_reach_the_estimator(tool, csv, monkeypatch):
    made = []
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made.append(estimator) or 1 / 0)
    tool("fit", csv, "-m", "noisy-or", code=1)
    tool("fit", csv, "-m", "noisy-or", "--layers", "7, 3,2", "--learner", "paper", "--no-bias", "--tol", 0.01, code=1)
    plain, other = (estimator.get_params() for estimator in made)
    assert plain == latentbits.NoisyOrNetwork(random_state=0, verbose=1).get_params()
    expected = {"layer_sizes": (7, 3, 2), "learner": "paper", "bias": False, "tol": 0.01}
    assert {key: other[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "noisy-or", "--layers", "10,x"), "'10,x' is no list of numbers from 1"),
        (("-m", "noisy-or", "--layers", "10,0"), "'10,0' is no list of numbers from 1"),
        (("-m", "noisy-or", "--learner", "pursuit"), "'pursuit' is not one of 'robust', 'paper'"),
        (("-m", "noisy-or", "-k", 3), "not noisy-or"),
        (("-m", "combination-machine", "--learner", "paper"), "'paper' is not one of 'auto', 'gradient'"),
        (("-m", "mixture", "--layers", "3"), "--layers is for --model noisy-or, not mixture"),
    ],
)
def test_what_is_not_understood(tool, csv, options, words):
    assert words in tool("fit", csv, *options, code=2).stderr
