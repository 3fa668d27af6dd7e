"""Clipped Gaussians at the command line: spectra, tetrachoric correlations, rows that cannot be, comparisons."""

import warnings
from pathlib import Path

import numpy as np
import pytest

import latentbits
from latentbits.data import read
from latentbits.data.toys import sum_constrained

LSAT6 = np.array(
    [
        [1, 0.1703, 0.2275, 0.1072, 0.0665],
        [0.1703, 1, 0.1891, 0.1111, 0.1724],
        [0.2275, 0.1891, 1, 0.1867, 0.1055],
        [0.1072, 0.1111, 0.1867, 1, 0.2009],
        [0.0665, 0.1724, 0.1055, 0.2009, 1],
    ]
)


@pytest.fixture
def gaussian(tool, csv):
    tool("fit", csv, "-m", "clipped-gaussian", "-k", 2, "--extraction", "factors", "-o", "g.safetensors")
    return tool.folder / "g.safetensors"


# --- fit ---


@pytest.mark.slow
def test_correlations_of_a_published_test(tool):
    """LSAT section 6: the tetrachoric correlations that R gives, and as thresholds R's tau with the sign turned."""
    options = ("--correlations", "c.csv", "--errors", "--items", "i.csv")
    result = tool("fit", "lsat6", "-m", "clipped-gaussian", "-k", "parallel", *options)
    assert "fitting clipped Gaussian (parallel)" in result.stderr
    assert "objective" not in result.stderr
    for words in (
        "of the bits",
        "of the Gaussian",
        "1.619",
        "kept",
        "left over, root mean square",
        "negative part of the spectrum",
        "0.0%",
    ):
        assert words in result.stdout
    found = read("c.csv", labels=["column"])
    names = ["item1", "item2", "item3", "item4", "item5"]
    assert found.labels["column"].tolist() == names
    assert list(found.feature_names) == names + [f"{name}_error" for name in names]
    np.testing.assert_allclose(found.values[:, :5], LSAT6, atol=5e-4)
    assert np.all((found.values[:, 5:] > 0.04) == ~np.eye(5, dtype=bool))
    items = read("i.csv", labels=["item"])
    assert items.feature_names == ("mean", "threshold", "weight_1", "noise_variance")
    np.testing.assert_allclose(items.values[:, 1], [1.4325, 0.5505, 0.1332, 0.7160, 1.1264], atol=5e-4)
    np.testing.assert_allclose(items.values[:, 2] ** 2 + items.values[:, 3], 1)


@pytest.mark.slow
def test_pairs_that_cannot_be_told_are_empty_cells(tool, write_csv, table):
    """A constant column is set aside; two that were never seen together have no correlation."""
    odd = np.column_stack([table, np.zeros(120)])
    odd[:60, 0] = odd[60:, 2] = np.nan
    path = write_csv("odd.csv", odd, ("hair", "milk", "eggs", "wings", "fins", "legs", "stripes"))
    found = tool.json("fit", path, "-m", "clipped-gaussian", "-k", "positive", "--correlations", "c.csv")
    assert found["n_constant"] == 1
    assert (found["n_pairs"], found["n_undetermined"]) == (15, 1)
    assert found["n_components"] == sum(value > 1e-9 for value in found["eigenvalues"])
    written = read("c.csv", labels=["column"])
    lost = np.isnan(written.values)
    assert lost[6].all()
    assert lost[:, 6].all()
    assert lost[:6, :6].sum() == 2
    assert lost[0, 2]


def test_what_was_found_as_json(tool, csv):
    found = tool.json("fit", csv, "-m", "clipped-gaussian", "-k", 1)
    model = latentbits.load("model.safetensors")
    assert found["model"] == "ClippedGaussian"
    assert found["objective"] is None
    assert found["n_components"] == 1
    np.testing.assert_allclose(found["eigenvalues"], model.eigenvalues_)
    np.testing.assert_allclose(found["binary_eigenvalues"], model.binary_eigenvalues_)
    assert found["negative_share"] == model.negative_share_
    assert found["n_corrected"] == np.triu(model.corrected_).sum()
    left = (model.correlation_ - model.components_.T @ model.components_)[np.triu_indices(6, 1)]
    assert found["left_over"] == pytest.approx(np.sqrt(np.mean(left**2)))


def test_options_reach_the_estimator(tool, csv, monkeypatch):
    made = []
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda estimator, *_: made.append(estimator) or 1 / 0)
    tool("fit", csv, "-m", "clipped-gaussian", code=1)
    tool("fit", csv, "-m", "clipped-gaussian", "-k", "positive", "--noise", "none", "--no-bias", "--correction", 0,
         "--extraction", "factors", "--repair", "--likelihood", "ep", code=1)  # fmt: skip
    plain, other = (estimator.get_params() for estimator in made)
    assert plain == latentbits.ClippedGaussian(random_state=0, verbose=1).get_params()
    expected = {"n_components": "positive", "noise": "none", "bias": False, "correction": 0, "extraction": "factors",
                "repair": True, "likelihood": "ep"}  # fmt: skip
    assert {key: other[key] for key in expected} == expected


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-m", "mixture", "-k", "parallel"), "'parallel' is no number from 1"),
        (("-m", "latent-trait", "-k", "positive"), "'positive' is no number from 1 to 32"),
        (("-m", "clipped-gaussian", "-k", "0"), "'0' is neither a number from 1 nor one of parallel and positive"),
        (("-m", "clipped-gaussian", "-k", "many"), "'many' is neither a number"),
        (("-m", "clipped-gaussian", "--nodes", 5), "is for --model latent-trait, not clipped-gaussian"),
        (("-m", "latent-trait", "--extraction", "factors"), "is for --model clipped-gaussian, not latent-trait"),
        (("-m", "mixture", "--errors"), "is for --model latent-trait and clipped-gaussian, not mixture"),
    ],
)
def test_what_is_not_understood(tool, csv, options, words):
    assert words in tool("fit", csv, *options, code=2).stderr


def test_a_prior_is_of_the_likelihood(tool, csv):
    result = tool("fit", csv, "-m", "clipped-gaussian", "--weight-prior", 3, code=1)
    assert "weight" in result.stderr
    assert "learner" in result.stderr


def test_a_folder_that_is_not_there(tool, csv):
    result = tool("fit", csv, "-m", "clipped-gaussian", "--correlations", "nowhere/c.csv", code=1)
    assert "--correlations: cannot write nowhere/c.csv: there is no folder nowhere" in result.stderr


def test_a_negative_spectrum_is_told_with_the_option_that_mends_it(tool, write_csv):
    path = write_csv("sums.csv", sum_constrained(2000, n_features=6, random_state=0))
    result = tool("fit", path, "-m", "clipped-gaussian")
    (line,) = [line for line in result.stderr.splitlines() if "no Gaussian" in line]
    assert line.startswith("warning: ")
    assert "--repair takes them from the nearest correlation matrix" in line


# --- use ---


def test_the_other_commands(tool, csv, gaussian, table):
    scored = tool.json("score", gaussian, csv)
    assert scored["n_impossible"] == 0
    assert scored["bits_per_row"] < 6
    assert tool.json("complete", gaussian, csv, "-o", "full.csv")["n_filled"] == 12
    filled = read("full.csv").values
    assert np.all((filled[np.isnan(table)] > 0) & (filled[np.isnan(table)] < 1))
    assert tool.json("sample", gaussian, "-n", 7, "-o", "new.csv")["n_rows"] == 7
    assert set(np.unique(read("new.csv").values)) <= {0, 1}


def test_scores(tool, csv, gaussian, table):
    model = latentbits.load(gaussian)
    del model.feature_names_in_
    at = model.posterior(table)
    spread = np.sqrt(np.diagonal(at.covariance, axis1=1, axis2=2))
    found = tool.json("transform", gaussian, csv, "-o", "z.csv")
    assert found["columns"] == ["clippedgaussian0", "clippedgaussian1"]
    np.testing.assert_allclose(read("z.csv").values, at.mean, rtol=1e-5)
    found = tool.json("transform", gaussian, csv, "--scores", "map", "--errors", "-o", "z.csv")
    assert found["columns"][2:] == ["clippedgaussian0_error", "clippedgaussian1_error"]
    np.testing.assert_allclose(read("z.csv").values, np.column_stack([at.mode, spread]), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_rows_that_cannot_be(tool, csv):
    """Without noise and with one component few rows are possible: infinite numbers, told as such and valid in JSON."""
    tool("fit", csv, "-m", "clipped-gaussian", "-k", 1, "--noise", "none", "--likelihood", "ep", "-o", "n.safetensors")
    found = tool.json("score", "n.safetensors", csv, "--per-row", "p.csv")
    assert 0 < found["n_impossible"] < 120
    assert found["log_likelihood"] is found["bits_per_row"] is found["bits_per_row_error"] is None
    lines = Path("p.csv").read_text().split()
    assert lines[1:].count("-inf") == found["n_impossible"]
    result = tool("score", "n.safetensors", csv)
    assert f"{found['n_impossible']} of 120" in result.stdout
    assert "nan" not in result.stdout


def test_warnings_speak_of_options(tool, csv, gaussian, monkeypatch):
    def transform(self, X):
        warnings.warn("3 rows cannot be produced by any y (noise='none')", UserWarning, stacklevel=2)
        return np.zeros((len(X), 2))

    monkeypatch.setattr(latentbits.ClippedGaussian, "transform", transform)
    told = tool("transform", gaussian, csv, "-o", "z.csv").stderr
    assert "warning: 3 rows cannot be produced by any y (--noise none)\n" in told


# --- compare ---


def test_compare_takes_clipped_gaussians(tool, csv):
    models = "product,clipped-gaussian:2,clipped-gaussian:parallel"
    found = tool.json("compare", csv, "--models", models, "--restarts", 2)
    names = {"independent bits", "clipped Gaussian of 2", "clipped Gaussian (parallel)"}
    assert {m["name"] for m in found["models"]} == names
    assert found["best"] != "independent bits"
    for wrong in ("clipped-gaussian:0", "clipped-gaussian:all", "mixture:parallel"):
        assert "clipped-gaussian:K" in tool("compare", csv, "--models", wrong, code=2).stderr
