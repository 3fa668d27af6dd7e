"""Binary sparse coding at the command line: real numbers, causes, what is filled in, and what is refused."""

import equinox as eqx
import numpy as np
import pytest

import latentbits
from latentbits.data import read

NAMES = ("bass", "drums", "flute", "harp")
COMPONENTS = np.array([[6.0, 5.0, 0.0, 0.0], [0.0, 0.0, -4.0, 0.0], [0.0, 0.0, 3.0, 7.0]])
FIT = ("-m", "binary-sparse-coding", "-k", 3, "--max-active", 2, "--candidates", 3, "--max-iter", 30)


@pytest.fixture(scope="module")
def rows():
    """Three causes, each in three rows of ten, and noise of 0.5."""
    rng = np.random.default_rng(0)
    causes = rng.random((200, 3)) < 0.3
    return causes, causes @ COMPONENTS + 0.5 * rng.standard_normal((200, 4))


@pytest.fixture
def csv(tool, rows):
    lines = [",".join(NAMES), *(",".join(f"{x:.4f}" for x in row) for row in rows[1])]
    (tool.folder / "x.csv").write_text("\n".join(lines) + "\n")
    return tool.folder / "x.csv"


@pytest.mark.slow
def test_what_is_printed_and_written(tool, csv, rows):
    result = tool("fit", csv, *FIT, "--items", "i.csv")
    assert "fitting binary sparse coding of 3" in result.stderr
    assert "done after 30 iterations" in result.stderr
    for words in ("pi H", "of 3", "noise, sigma", "exact", "adds most to"):
        assert words in result.stdout
    model = latentbits.load("model.safetensors")
    assert model.noise_std_ == pytest.approx(0.5, abs=0.1)
    order = [int(np.argmin(np.abs(model.components_ - truth).sum(axis=1))) for truth in COMPONENTS]
    np.testing.assert_allclose(model.components_[order], COMPONENTS, atol=0.3)
    assert f"harp {model.components_[order[2], 3]:+.3g}" in result.stdout
    items = read("i.csv", labels=["item"])
    assert items.labels["item"].tolist() == list(NAMES)
    assert items.feature_names == ("component_1", "component_2", "component_3")
    np.testing.assert_allclose(items.values, model.components_.T, rtol=1e-5)


def test_the_other_commands(tool, csv, rows):
    causes = rows[0]
    tool("fit", csv, *FIT)
    model = latentbits.load("model.safetensors")
    order = [int(np.argmin(np.abs(model.components_ - truth).sum(axis=1))) for truth in COMPONENTS]
    scored = tool("score", "model.safetensors", csv).stdout
    assert "nats per row" in scored
    assert "bits per row" not in scored  # densities
    tool("transform", "model.safetensors", csv, "-o", "on.csv", "--scores", "map")
    np.testing.assert_array_equal(read("on.csv").values[:, order], causes)
    refused = tool("transform", "model.safetensors", csv, "-o", "on.csv", "--errors", code=1)
    assert "--errors is for latent-trait and clipped-gaussian" in refused.stderr
    tool("sample", "model.safetensors", "-n", 7, "-o", "new.npy")
    drawn = np.load("new.npy")
    assert (drawn.shape, drawn.dtype) == ((7, 4), np.float64)
    tool("complete", "model.safetensors", csv, "--denoise", "-o", "clean.npy")
    np.testing.assert_allclose(np.load("clean.npy"), causes @ COMPONENTS, atol=0.7)


def test_holes(tool, csv):
    """The flute cannot be told from the harp alone: a cause of its own may be on."""
    tool("fit", csv, *FIT)
    (tool.folder / "holes.csv").write_text(",".join(NAMES) + "\nNA,5,0.1,0\n0,0,NA,7\n")
    assert tool.json("complete", "model.safetensors", "holes.csv", "-o", "full.csv")["n_filled"] == 2
    filled = read("full.csv").values
    np.testing.assert_array_equal(filled[0, 1:], [5, 0.1, 0])
    prior = latentbits.load("model.safetensors").prior_
    np.testing.assert_allclose([filled[0, 0], filled[1, 2]], [6, 3 - 4 * prior], atol=0.3)


def test_what_was_found_as_json(tool, csv, rows):
    found = tool.json("fit", csv, *FIT)
    assert found["model"] == "BinarySparseCoding"
    assert (found["n_causes"], found["max_active"], found["n_candidates"]) == (3, 2, 3)
    assert found["truncation_loss"] == 0
    assert found["sparseness"] == pytest.approx(rows[0].sum(axis=1).mean(), abs=0.1)
    assert sum(found["shares"]) == pytest.approx(found["sparseness"], abs=0.1)
    assert found["objective"] <= 200 * found["nats_per_row"] + 1e-3  # truncated: a lower bound


def test_a_truncated_score_says_by_how_much_it_is_too_low(tool, csv):
    tool("fit", csv, *FIT)
    model = latentbits.load("model.safetensors")
    exact = tool.json("score", "model.safetensors", csv)
    model.params_ = eqx.tree_at(lambda params: params.truncation_loss, model.params_, np.array(0.25))
    model.save("t.safetensors")
    found = tool.json("score", "t.safetensors", csv)
    assert (exact.pop("truncation_loss"), found.pop("truncation_loss")) == (0, 0.25)
    assert found == exact  # it has a sign, and is no part of the standard error
    assert "too low by about" in tool("score", "t.safetensors", csv).stdout


def test_options_reach_the_estimator(tool, csv, monkeypatch):
    made = []
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made.append(estimator) or 1 / 0)
    tool("fit", csv, "-m", "binary-sparse-coding", code=1)
    cut = ("--cut", "0,20")  # fewer rows from the first iteration on
    tool("fit", csv, *FIT, "--init", "mean", "--init-sparseness", 1.5, "--restarts", 3, *cut, code=1)
    plain, other = (estimator.get_params() for estimator in made)
    assert plain == latentbits.BinarySparseCoding(random_state=0, verbose=1).get_params()
    expected = {"n_causes": 3, "max_active": 2, "n_candidates": 3, "init": "mean", "init_sparseness": 1.5, "n_init": 3,
                "cut": (0, 20)}  # fmt: skip
    assert {key: other[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "binary-sparse-coding", "--init", "split"), "'split' is not one of 'random', 'data', 'mean'"),
        (("-m", "mixture", "--init", "data"), "'data' is not one of 'random', 'anneal', 'split'"),
        (
            ("-m", "mixture", "--max-active", 2),
            "is for --model combination-machine and binary-sparse-coding, not mixture",
        ),
        (("-m", "binary-sparse-coding", "--candidates", "few"), "neither a number from 1 nor auto"),
        (("-m", "binary-sparse-coding", "--cut", "-1,5"), "'-1,5' is no list of numbers from 0 such as 5,10"),
    ],
)
def test_what_is_not_understood(tool, csv, options, words):
    assert words in tool("fit", csv, *options, code=2).stderr


def test_too_many_on_together(tool, csv):
    found = tool("fit", csv, "-m", "binary-sparse-coding", "--max-active", 5, "--candidates", 3, code=1)
    assert "--max-active 5 of --candidates 3 causes cannot be on together" in found.stderr


def test_no_comparison_with_models_of_bits(tool, write_csv, table):
    bits = write_csv("bits.csv", table)
    found = tool("compare", bits, "--models", "product,binary-sparse-coding:4", code=2)
    assert "'binary-sparse-coding:4' is a model of real numbers" in found.stderr
    with pytest.raises(ValueError, match="densities cannot be compared with probabilities"):
        latentbits.compare(table, [latentbits.BernoulliProduct(), latentbits.BinarySparseCoding(2)])


@pytest.mark.slow
def test_what_rounding_costs_is_printed_and_never_called_exact(tool, rows):
    np.save(tool.folder / "far.npy", rows[1] + 10_000)
    result = tool("fit", "far.npy", *FIT, "--dtype", "float32")
    assert "by rounding" in result.stdout
    assert "exact" not in result.stdout
    assert "--dtype auto" in result.stderr
    assert "by rounding" in tool("score", "model.safetensors", "far.npy").stdout
    assert tool.json("score", "model.safetensors", "far.npy")["rounding_error"] > 1
    found = tool.json("fit", "far.npy", *FIT)
    assert found["nats_per_row_error"] == 0
    told = tool.json("score", "model.safetensors", "far.npy")
    assert told["rounding_error"] == 0
    assert told["nats_per_row"] == pytest.approx(found["nats_per_row"])
