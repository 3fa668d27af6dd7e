"""Latent traits at the command line: items, errors, scores, comparisons and maps."""

from pathlib import Path

import numpy as np
import pytest

import latentbits
from latentbits.data import read

# --- fit ---


@pytest.mark.slow
def test_items_of_a_published_test(tool):
    """Bock and Lieberman's LSAT section 6: log-likelihood -2466.653, with the slopes and intercepts of mirt."""
    result = tool("fit", "lsat6", "-m", "latent-trait", "-k", 1, "--errors", "--items", "items.csv")
    assert "fitting 1 latent trait" in result.stderr
    for words in ("discrimination", "difficulty", "item5", "± standard error", "-2466.653", "AIC", "4953.307"):
        assert words in result.stdout
    written = read("items.csv", labels=["item"])
    assert written.labels["item"].tolist() == ["item1", "item2", "item3", "item4", "item5"]
    assert written.feature_names == (
        "discrimination",
        "discrimination_error",
        "difficulty",
        "difficulty_error",
        "intercept",
        "intercept_error",
    )
    np.testing.assert_allclose(written.values[:, 0], [0.825, 0.723, 0.890, 0.689, 0.658], atol=0.003)
    np.testing.assert_allclose(written.values[:, 4], [2.773, 0.990, 0.249, 1.285, 2.053], atol=0.003)
    np.testing.assert_allclose(written.values[:, 2], -written.values[:, 4] / written.values[:, 0])


@pytest.mark.slow
def test_items_as_json(tool, csv, names):
    found = tool.json("fit", csv, "-m", "latent-trait", "-k", 2, "--weight-prior", 3)
    assert [line["item"] for line in found["items"]] == list(names)
    assert set(found["items"][0]) == {"item", "discrimination", "difficulty", "intercept", "slope_1", "slope_2"}
    first = found["items"][0]
    assert first["discrimination"] == pytest.approx(np.hypot(first["slope_1"], first["slope_2"]))
    assert found["n_parameters"] == 17
    assert found["aic"] == pytest.approx(2 * 17 - 2 * found["log_likelihood"])
    assert found["bic"] == pytest.approx(17 * np.log(120) - 2 * found["log_likelihood"])


@pytest.fixture
def asked(tool, csv, monkeypatch):
    """A function that gives the estimator that options make, without a fit."""

    def ask(*options):
        made = []
        monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made.append(estimator) or 1 / 0)
        tool("fit", csv, "-m", "latent-trait", *options, code=1)
        return made[0].get_params()

    return ask


def test_options_reach_the_estimator(asked):
    found = asked("-k", 1, "--method", "monte_carlo", "--samples", 20, "--nodes", 7, "--plain", "--weight-prior", 2.5,
                  "--equal-discrimination", "--max-iter", 3, "--tol", 1e-3, "--seed", 4, "--n-maps", 3,
                  "--noise", "shared")  # fmt: skip
    expected = {"n_components": 1, "method": "monte_carlo", "n_samples": 20, "n_nodes": 7, "accelerate": False,
                "equal_discrimination": True, "weight_prior": 2.5, "max_iter": 3, "tol": 1e-3,
                "random_state": 4, "n_maps": 3, "noise": "shared"}  # fmt: skip
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "told"), [((), "2 latent traits"), (("-k", 1, "--n-maps", 3), "3 maps of 1 latent trait")]
)
def test_what_is_fitted_is_told(tool, csv, monkeypatch, options, told):
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda *_: 1 / 0)
    assert f"fitting {told}\n" in tool("fit", csv, "-m", "latent-trait", *options, code=1).stderr


def test_the_defaults_are_those_of_the_estimator(asked):
    assert asked() == latentbits.LatentTrait(random_state=0, verbose=1).get_params()


@pytest.mark.parametrize(
    ("model", "option", "able"),
    [
        ("mixture", ("--method", "auto"), "latent-trait"),
        ("mixture", ("--errors",), "latent-trait and clipped-gaussian"),
        (
            "product",
            ("-k", 3),
            "latent-tree, mixture, latent-trait, clipped-gaussian, combination-machine and binary-sparse-coding",
        ),
        ("latent-trait", ("--smoothing", 2), "product, chow-liu-tree, latent-tree and mixture"),
    ],
)
def test_options_of_another_model_are_refused(tool, csv, model, option, able):
    result = tool("fit", csv, "--model", model, *option, code=2)
    assert f"is for --model {able}, not {model}." in result.stderr


def test_what_cannot_be_is_told_in_terms_of_options(tool, csv):
    result = tool("fit", csv, "-m", "latent-trait", "--equal-discrimination", code=1)
    assert "error: --equal-discrimination is the one-parameter model" in result.stderr
    assert "--components must be 1, got 2" in result.stderr
    assert "there is no folder nowhere" in tool(
        "fit", csv, "-m", "latent-trait", "--items", "nowhere/x.csv", code=1
    ).stderr  # fmt: skip


@pytest.mark.slow
def test_warnings_name_the_columns(tool):
    """Separable answers: the weights of a Guttman scale run to infinity."""
    steps = np.repeat(np.tri(4, 3, -1, dtype=int), 12, axis=0)
    Path("scale.csv").write_text("easy,fair,hard\n" + "".join(f"{a},{b},{c}\n" for a, b, c in steps))
    result = tool("fit", "scale.csv", "-m", "latent-trait", "-k", 1, "--max-iter", 300)
    (line,) = [line for line in result.stderr.splitlines() if "run to infinity" in line]
    assert line.startswith("warning: ")
    assert "'easy'" in line or "'fair'" in line or "'hard'" in line
    assert "--weight-prior 3" in line


# --- use ---


@pytest.mark.slow
def test_scores(tool, csv, trait, table):
    model = latentbits.load(trait)
    del model.feature_names_in_
    for method in ("eap", "map"):
        found = tool.json("transform", trait, csv, "--scores", method, "--errors", "-o", "z.csv")
        assert found["columns"] == ["latenttrait0", "latenttrait0_error"]
        expected = model.scores(table, method)
        np.testing.assert_allclose(read("z.csv").values, np.column_stack([expected.value, expected.error]), rtol=1e-5)
    assert tool.json("transform", trait, csv, "-o", "z.csv")["columns"] == ["latenttrait0"]
    np.testing.assert_allclose(read("z.csv").values, model.transform(table), rtol=1e-5)


def test_errors_are_for_families_that_have_them(tool, csv, model):
    result = tool("transform", model, csv, "--errors", "-o", "z.csv", code=1)
    assert "--errors is for latent-trait and clipped-gaussian, but" in result.stderr
    assert "is a BernoulliMixture" in result.stderr
    tool("transform", model, csv, "--scores", "map", "-o", "z.csv")
    assert set(read("z.csv").values.flat) == {0, 1}  # the most probable component


def test_the_other_commands(tool, csv, trait, table):
    scored = tool.json("score", trait, csv)
    assert scored["bits_per_row"] < 6
    assert tool.json("complete", trait, csv, "-o", "full.csv")["n_filled"] == 12
    filled = read("full.csv").values
    assert np.all((filled[np.isnan(table)] > 0) & (filled[np.isnan(table)] < 1))
    assert tool.json("sample", trait, "-n", 7, "-o", "new.csv")["n_rows"] == 7
    assert set(np.unique(read("new.csv").values)) <= {0, 1}


# --- compare ---


def test_compare_takes_latent_traits(tool, csv):
    found = tool.json("compare", csv, "--models", "product,latent-trait:1,mixture:2")
    assert {m["name"] for m in found["models"]} == {"independent bits", "1 latent trait", "mixture of 2"}
    assert found["best"] != "independent bits"
    assert "latent-trait:K" in tool("compare", csv, "--models", "latent-trait:0", code=2).stderr
