"""Combination machines at the command line: log Z and its error, units, real numbers, comparisons, pictures."""

import equinox as eqx
import numpy as np
import pytest

import latentbits
from latentbits.data import read

FIT = ("-m", "combination-machine", "-k", 2, "--epochs", 5)


@pytest.fixture
def whole(table):
    """The table without holes: those are summed by other programs, which take long to compile."""
    return np.nan_to_num(table)


@pytest.fixture
def full(write_csv, whole):
    return write_csv("full.csv", whole)


@pytest.fixture
def machine(tool, full):
    tool("fit", full, *FIT, "-o", "c.safetensors")
    return tool.folder / "c.safetensors"


# --- fit ---


@pytest.mark.slow
def test_what_is_printed_and_written(tool, full, names):
    result = tool("fit", full, *FIT, "--items", "i.csv")
    assert "fitting combination machine of 2" in result.stderr
    for words in ("log Z", "exact", "nats per row", "on in"):
        assert words in result.stdout
    model = latentbits.load("model.safetensors")
    for weights in model.components_:  # the column with the largest weight of each unit, by its name
        strongest = np.abs(weights).argmax()
        assert f"{names[strongest]} {weights[strongest]:+.2f}" in result.stdout
    items = read("i.csv", labels=["item"])
    assert items.labels["item"].tolist() == list(names)
    assert items.feature_names == ("input_bias", "weight_1", "weight_2")
    np.testing.assert_allclose(items.values, np.column_stack([model.input_bias_, model.components_.T]), rtol=1e-6)


def test_what_was_found_as_json(tool, full, whole):
    found = tool.json("fit", full, *FIT)
    model = latentbits.load("model.safetensors")
    del model.feature_names_in_
    assert found["model"] == "CombinationMachine"
    assert (found["n_hidden"], found["log_partition_error"], found["log_partition_effective"]) == (2, 0, 1)
    assert found["log_partition"] == model.log_partition_
    assert found["nats_per_row"] == pytest.approx(model.score(whole), rel=1e-5)
    assert found["objective"] == pytest.approx(120 * found["nats_per_row"], rel=1e-5)  # of all rows, not of a stage
    np.testing.assert_allclose(found["shares"], model.transform(whole).mean(axis=0), rtol=1e-4)


def test_what_a_pursuit_gained_is_no_objective(tool, full):
    """Cut short before there was a likelihood: none is told."""
    found = tool.json("fit", full, *FIT, "--max-time", 1e-6)
    assert (found["stop_reason"], found["converged"], found["objective"]) == ("max_time", False, None)


def test_options_reach_the_estimator(tool, csv, monkeypatch):
    made = []
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made.append(estimator) or 1 / 0)
    tool("fit", csv, "-m", "combination-machine", code=1)
    tool("fit", csv, "-m", "combination-machine", "-k", 3, "--kind", "real", "--learner", "pursuit", "--epochs", 7,
         "--no-input-bias", code=1)  # fmt: skip
    plain, other = (estimator.get_params() for estimator in made)
    assert plain == latentbits.CombinationMachine(random_state=0, verbose=1).get_params()
    expected = {"n_hidden": 3, "kind": "real", "learner": "pursuit", "n_epochs": 7, "input_bias": False}
    assert {key: other[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "combination-machine", "-k", "parallel"), "'parallel' is no number from 1"),
        (
            ("-m", "combination-machine", "--smoothing", 1),
            "is for --model product, chow-liu-tree, latent-tree and mixture, not combination-machine",
        ),
        (
            ("-m", "mixture", "--learner", "pursuit"),
            "is for --model clipped-gaussian, combination-machine and noisy-or, not mixture",
        ),
    ],
)
def test_what_is_not_understood(tool, csv, options, words):
    assert words in tool("fit", csv, *options, code=2).stderr


@pytest.mark.slow
def test_real_numbers(tool):
    """Two clusters: the one unit tells them apart."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 200)
    values = rng.normal(size=(200, 3)) + np.outer(kind, [3.0, -2.0, 1.0])
    np.save("x.npy", values)
    tool("fit", "x.npy", "-m", "combination-machine", "-k", 1, "--kind", "real", "--epochs", 5)
    tool("transform", "model.safetensors", "x.npy", "-o", "on.csv")
    on = read("on.csv").values[:, 0] > 0.5
    assert abs(np.corrcoef(on, kind)[0, 1]) > 0.8
    tool("sample", "model.safetensors", "-n", 500, "-o", "new.npy")
    drawn = np.load("new.npy")
    assert drawn.shape == (500, 3)
    assert np.all(drawn.std(axis=0) > 0.9)  # real numbers, not bits
    assert tool.json("score", "model.safetensors", "x.npy")["nats_per_row"] < 0


# --- use ---


def test_the_other_commands(tool, csv, machine, table):
    scored = tool.json("score", machine, csv)
    assert scored["bits_per_row"] < 6
    assert scored["log_partition_error"] == 0
    assert tool.json("complete", machine, csv, "-o", "full.csv")["n_filled"] == 12
    filled = read("full.csv").values
    assert np.all((filled[np.isnan(table)] > 0) & (filled[np.isnan(table)] < 1))
    assert tool.json("sample", machine, "-n", 7, "-o", "new.csv")["n_rows"] == 7
    assert set(np.unique(read("new.csv").values)) <= {0, 1}


def test_states(tool, full, machine, whole):
    model = latentbits.load(machine)
    del model.feature_names_in_
    found = tool.json("transform", machine, full, "-o", "z.csv")
    assert found["columns"] == ["combinationmachine0", "combinationmachine1"]
    np.testing.assert_allclose(read("z.csv").values, model.transform(whole), rtol=1e-5)
    tool("transform", machine, full, "--scores", "map", "-o", "z.csv")
    np.testing.assert_array_equal(read("z.csv").values, model.posterior(whole).mode)
    assert (
        "--errors is for latent-trait and clipped-gaussian"
        in tool("transform", machine, full, "--errors", "-o", "z.csv", code=1).stderr
    )


def test_the_error_of_an_estimated_log_z_is_told(tool, full, machine):
    """As if log Z of this machine had been annealed."""
    model = latentbits.load(machine)
    exact = tool.json("score", machine, full)
    model.params_ = eqx.tree_at(lambda params: params.log_partition_error, model.params_, np.array(0.3))
    model.save("e.safetensors")
    found = tool.json("score", "e.safetensors", full)
    assert found["log_partition_error"] == pytest.approx(0.3)
    assert found["nats_per_row_error"] == pytest.approx(np.hypot(exact["nats_per_row_error"], 0.3))
    assert "of that by log Z" in tool("score", "e.safetensors", full).stdout


# --- compare ---


def test_compare(tool, full):
    models = ("--models", "product,combination-machine:2")
    found = tool.json("compare", full, *models)
    assert {m["name"] for m in found["models"]} == {"independent bits", "combination machine of 2"}
    assert found["best"] == "combination machine of 2"
    for wrong in ("combination-machine:0", "combination-machine:parallel"):
        assert "combination-machine:K" in tool("compare", full, "--models", wrong, code=2).stderr
