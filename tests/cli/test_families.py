"""Each family at the command line: what `fit` tells and writes of it, and what the other commands make of its file."""

import warnings
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from made import BARS, MADE, made, rows_for, set_to

import latentbits
from latentbits.data import read
from latentbits.data.toys import sum_constrained
from latentbits.models.combination_machine.machine import Params as Machine

MANY = ("clipped-gaussian", "noisy-or", "latent-trait")
SLOW = pytest.mark.slow("every command compiles its program")
FAMILIES = pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW if name in MANY else []) for name in MADE])
FIT = {
    "latent-trait": ("-k", 1),
    "item-response": (),
    "clipped-gaussian": ("-k", 1, "--extraction", "components", "--correlations", "c.csv", "--errors"),
    "combination-machine": ("-k", 2),
    "binary-sparse-coding": ("-k", 4, "--max-active", 3, "--candidates", 4),
    "noisy-or": ("--layers", "2,1"),
}
FITTING = {
    "latent-trait": "1 latent trait",
    "item-response": "1 factor of a test",
    "clipped-gaussian": "clipped Gaussian of 1",
    "combination-machine": "combination machine of 2",
    "binary-sparse-coding": "binary sparse coding of 4",
    "noisy-or": "noisy OR of 2, 1",
}
PRINTED = {
    "latent-trait": ("weight 1", "intercept", "milk", "AIC"),
    "item-response": ("discrimination", "difficulty", "milk", "AIC"),
    "clipped-gaussian": ("of the bits", "of the Gaussian", "kept", "root mean square", "negative part of the spectrum"),
    "combination-machine": ("log Z", "exact", "nats per row", "hair +1.20", "wings +1.10", "on in"),
    "binary-sparse-coding": ("pi H", "1.400 of 4", "noise, sigma", "exact", "hair +5", "legs +5", "adds most to"),
    "noisy-or": ("2, 1", "exact", "Layer 1", "Layer 2", "hair 0.95, milk 0.86", "eggs 0.98, wings 0.95", "h1_0 0.86"),
}


def bare(name):
    """The model for arrays, which have no names."""
    model = made(name)
    del model.feature_names_in_
    return model


def items_of(name, model):
    """Columns and values of the file that --items writes."""
    if name == "latent-trait":
        return ("weight_1", "intercept"), [model.components_[0], model.intercept_]
    if name == "item-response":
        columns = ("discrimination", "difficulty", "intercept")
        return columns, [model.discrimination_, model.difficulty_, model.intercept_]
    if name == "clipped-gaussian":
        columns = ("mean", "threshold", "weight_1", "noise_variance")
        return columns, [model.means_, model.thresholds_, *model.components_, model.noise_variance_]
    if name == "combination-machine":
        return ("input_bias", "weight_1", "weight_2"), [model.input_bias_, *model.components_]
    if name == "binary-sparse-coding":
        return tuple(f"component_{k}" for k in (1, 2, 3, 4)), list(BARS)
    return ("bias", "weight_0", "weight_1"), [model.params_.biases[0], *model.weights_[0]]


def facts_of(name, model, X):
    """Facts that JSON has."""
    nats, share = model.score(X), model.transform(X).mean(axis=0)
    if name in ("latent-trait", "item-response"):
        total, n = len(X) * nats, model.n_parameters_
        return {"n_parameters": 12, "log_likelihood": total, "aic": 2 * n - 2 * total, "objective": -800}
    if name == "clipped-gaussian":
        left = (model.correlation_ - model.components_.T @ model.components_)[np.triu_indices(6, 1)]
        return {
            "objective": None,
            "n_components": 1,
            "eigenvalues": model.eigenvalues_,
            "binary_eigenvalues": model.binary_eigenvalues_,
            "negative_share": model.negative_share_,
            "n_corrected": np.triu(model.corrected_).sum(),
            "left_over": np.sqrt(np.mean(left**2)),
        }
    if name == "combination-machine":
        facts = {"n_hidden": 2, "log_partition": model.log_partition_, "log_partition_error": 0}
        return facts | {"log_partition_effective": 1, "nats_per_row": nats, "shares": share}
    if name == "binary-sparse-coding":
        facts = {"n_causes": 4, "max_active": 3, "n_candidates": 4, "truncation_loss": 0, "noise_std": 1}
        return facts | {"sparseness": 1.4, "shares": share, "nats_per_row": nats}
    facts = {"layer_sizes": [2, 1], "nats_per_row": nats, "bits_per_row": -nats / np.log(2)}
    return facts | {"nats_per_row_error": 0, "shares": [share[:2], share[2:]]}


def agree(found, expected):
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected):
            agree(one, other)
    elif expected is None:
        assert found is None
    else:
        np.testing.assert_allclose(found, expected, rtol=1e-4)


@FAMILIES
def test_fit_prints_writes_and_gives(tool, ready, names, name):
    words = ("fit", ready(name), "-m", name, *FIT[name], "--items", "i.csv")
    result = tool(*words)
    assert f"fitting {FITTING[name]}\n" in result.stderr
    assert [text for text in PRINTED[name] if text not in result.stdout] == []
    assert "h1_1 0.05" not in result.stdout  # a unit that another turns on too rarely to say so
    items, (columns, values) = read("i.csv", labels=["item"]), items_of(name, made(name))
    assert items.labels["item"].tolist() == list(names)
    assert items.feature_names == columns
    np.testing.assert_allclose(items.values, np.column_stack(values), rtol=1e-5)
    found = tool.json(*words)
    assert (found["model"], found["n_rows"], found["n_columns"]) == (type(made(name)).__name__, 240, 6)
    for key, value in facts_of(name, bare(name), rows_for(name)).items():
        agree(found[key], value)
    if name in ("latent-trait", "item-response"):
        assert [line["item"] for line in found["items"]] == list(names)


@FAMILIES
def test_the_other_commands(tool, ready, names, name):
    csv, X, model = ready(name), rows_for(name), bare(name)
    made(name).save("f.safetensors")
    scored, real = tool.json("score", "f.safetensors", csv), name == "binary-sparse-coding"
    assert scored["nats_per_row"] == pytest.approx(model.score(X), rel=1e-5)
    assert (scored["n_impossible"], scored["log_partition_error"], scored["truncation_loss"]) == (0, 0, 0)
    assert ("bits per row" in tool("score", "f.safetensors", csv).stdout) != real  # a density has none

    assert tool.json("complete", "f.safetensors", csv, "-o", "full.csv")["n_filled"] == np.isnan(X).sum()
    np.testing.assert_allclose(read("full.csv").values, model.complete(X), rtol=1e-4, atol=1e-5)

    found = tool.json("transform", "f.safetensors", csv, "-o", "z.csv")
    assert found["columns"] == list(model.get_feature_names_out())
    np.testing.assert_allclose(read("z.csv").values, model.transform(X), rtol=1e-4, atol=1e-6)
    errors = ("transform", "f.safetensors", csv, "--scores", "map", "--errors", "-o", "z.csv")
    if name in ("latent-trait", "item-response", "clipped-gaussian"):
        assert tool.json(*errors)["columns"] == [f"{type(model).__name__.lower()}0{end}" for end in ("", "_error")]
        at = model.posterior(X)
        spread = np.sqrt(np.diagonal(at.covariance, axis1=1, axis2=2))
        expected = np.column_stack(model.scores(X, "map") if name == "item-response" else [at.mode, spread])
        np.testing.assert_allclose(read("z.csv").values, expected, rtol=1e-4, atol=1e-5)
    else:
        refused = tool(*errors, code=1).stderr
        assert f"--errors: f.safetensors is a {type(model).__name__}, whose causes have none" in refused
        tool("transform", "f.safetensors", csv, "--scores", "map", "-o", "z.csv")
        assert set(read("z.csv").values.flat) == {0, 1}

    assert tool.json("sample", "f.safetensors", "-n", 7, "-o", "new.csv")["n_rows"] == 7
    new = read("new.csv")
    assert (new.feature_names, new.values.shape) == (names, (7, 6))
    assert (set(new.values.flat) <= {0, 1}) != real


# --- latent traits ---


@pytest.mark.slow("a published fit")
def test_items_of_a_published_test(tool):
    """Bock and Lieberman's LSAT section 6: log-likelihood -2466.653, with the slopes and intercepts of mirt."""
    result = tool("fit", "lsat6", "-m", "item-response", "--errors", "--items", "items.csv")
    for words in ("discrimination", "difficulty", "item5", "± standard error", "-2466.653", "AIC", "4953.307"):
        assert words in result.stdout
    written = read("items.csv", labels=["item"])
    assert written.labels["item"].tolist() == ["item1", "item2", "item3", "item4", "item5"]
    quantities = ("discrimination", "difficulty", "intercept")
    assert written.feature_names == tuple(f"{one}{end}" for one in quantities for end in ("", "_error"))
    np.testing.assert_allclose(written.values[:, 0], [0.825, 0.723, 0.890, 0.689, 0.658], atol=0.003)
    np.testing.assert_allclose(written.values[:, 4], [2.773, 0.990, 0.249, 1.285, 2.053], atol=0.003)
    np.testing.assert_allclose(written.values[:, 2], -written.values[:, 4] / written.values[:, 0])


@pytest.mark.slow("item models are compiled for")
def test_fixed_slopes_and_asymptotes_are_shown(tool):
    """A Rasch model shows the trait's variance, and slopes that are fixed; a 3PL its asymptotes, with a given prior."""
    args = ("fit", "lsat7", "-m", "item-response", "--errors")
    result = tool(*args, "--item-model", "Rasch")
    assert "nan" not in result.stdout
    assert result.stdout.count("1.000 (fixed)") == 5
    assert "variance of the trait  1.023 ± 0.131" in result.stdout  # mirt has 1.022
    result = tool(*args, "--item-model", "3PL", "--asymptote-prior", "-1.1,0.5", "--items", "items.csv")
    assert "asymptote" in result.stdout
    written = read("items.csv", labels=["item"])
    at = written.feature_names.index("asymptote")
    model = latentbits.ItemResponse("3PL").fit(latentbits.load_dataset("lsat7").X)
    np.testing.assert_allclose(written.values[:, at], model.asymptote_, atol=1e-4)
    said = tool(*args, "--asymptote-prior", "low", code=2).stderr
    assert "'low' is neither 2 numbers such as -1.1,0.5 nor none" in " ".join(said.split())


@pytest.mark.slow("separable answers: learning to the end")
def test_warnings_name_the_columns(tool):
    """The weights of a Guttman scale run to infinity."""
    steps = np.repeat(np.tri(4, 3, -1, dtype=int), 12, axis=0)
    Path("scale.csv").write_text("easy,fair,hard\n" + "".join(f"{a},{b},{c}\n" for a, b, c in steps))
    result = tool("fit", "scale.csv", "-m", "item-response", "--max-iter", 300)
    (line,) = [line for line in result.stderr.splitlines() if "run to infinity" in line]
    assert line.startswith("warning: ")
    assert "'easy'" in line or "'fair'" in line or "'hard'" in line
    assert "--weight-prior 3" in line


def test_impossible_requests_are_refused_in_terms_of_options(tool, csv):
    result = tool("fit", csv, "-m", "item-response", "-k", 2, "--item-model", "1PL", code=1)
    assert "error: --components must be 1 for any model but '2PL'" in result.stderr


def test_maps_are_reported(tool, csv, monkeypatch):
    monkeypatch.setattr("latentbits.cli.fit.fit_named", lambda *_: 1 / 0)
    printed = tool("fit", csv, "-m", "trait-maps", "-k", 1, "--maps", 3, code=1).stderr
    assert "fitting 3 maps of 1 latent trait\n" in printed


# --- clipped Gaussians ---

LSAT6 = np.array(
    [
        [1, 0.1703, 0.2275, 0.1072, 0.0665],
        [0.1703, 1, 0.1891, 0.1111, 0.1724],
        [0.2275, 0.1891, 1, 0.1867, 0.1055],
        [0.1072, 0.1111, 0.1867, 1, 0.2009],
        [0.0665, 0.1724, 0.1055, 0.2009, 1],
    ]
)


def test_correlations_of_a_published_test(tool):
    """LSAT section 6: the tetrachoric correlations that R gives, and as thresholds R's tau with the sign turned."""
    options = ("--correlations", "c.csv", "--errors", "--items", "i.csv")
    result = tool("fit", "lsat6", "-m", "clipped-gaussian", "-k", "parallel", *options)
    assert "fitting clipped Gaussian (parallel)" in result.stderr
    assert "objective" not in result.stderr
    assert "1.619" in result.stdout
    assert "0.0%" in result.stdout
    found = read("c.csv", labels=["column"])
    names = ["item1", "item2", "item3", "item4", "item5"]
    assert found.labels["column"].tolist() == names
    assert list(found.feature_names) == names + [f"{name}_error" for name in names]
    np.testing.assert_allclose(found.values[:, :5], LSAT6, atol=5e-4)
    assert np.all((found.values[:, 5:] > 0.04) == ~np.eye(5, dtype=bool))
    items = read("i.csv", labels=["item"])
    np.testing.assert_allclose(items.values[:, 1], [1.4325, 0.5505, 0.1332, 0.7160, 1.1264], atol=5e-4)
    np.testing.assert_allclose(items.values[:, 2] ** 2 + items.values[:, 3], 1)


def test_undetermined_pairs_are_empty_cells(tool, write_csv, table):
    """A constant column is set aside; two that were never seen together have no correlation."""
    table[:, 5] = 0
    table[:120, 0] = table[120:, 2] = np.nan
    path = write_csv("odd.csv", table)
    found = tool.json("fit", path, "-m", "clipped-gaussian", "-k", "positive", "--correlations", "c.csv")
    assert found["n_constant"] == 1
    assert (found["n_pairs"], found["n_undetermined"]) == (10, 1)
    assert found["n_components"] == sum(value > 1e-9 for value in found["eigenvalues"])
    lost = np.isnan(read("c.csv", labels=["column"]).values)
    assert lost[5].all()
    assert lost[:, 5].all()
    assert lost[:5, :5].sum() == 2
    assert lost[0, 2]


def test_a_prior_is_of_the_likelihood(tool, csv):
    result = tool("fit", csv, "-m", "clipped-gaussian", "--weight-prior", 3, code=1)
    assert "weight" in result.stderr
    assert "learner" in result.stderr


def test_a_negative_spectrum_is_reported_with_the_option_that_mends_it(tool, write_csv):
    path = write_csv("sums.csv", sum_constrained(2000, n_features=6, random_state=0))
    result = tool("fit", path, "-m", "clipped-gaussian")
    (line,) = [line for line in result.stderr.splitlines() if "no Gaussian" in line]
    assert line.startswith("warning: ")
    assert "--repair takes them from the nearest correlation matrix" in line


def test_rows_that_cannot_be(tool, ready, monkeypatch):
    """Without noise few rows are possible: infinite numbers, valid in JSON; warnings name options."""

    def log_likelihoods(self, X):
        value, none = np.where(np.arange(len(X)) < 7, -np.inf, -3.0), np.zeros(len(X))
        return SimpleNamespace(value=value, error=none, common_error=0.0, rounding=none)

    def transform(self, X):
        warnings.warn("7 rows cannot be produced by any y (noise='none')", UserWarning, stacklevel=2)
        return np.zeros((len(X), 1))

    monkeypatch.setattr(latentbits.ClippedGaussian, "log_likelihoods", log_likelihoods)
    monkeypatch.setattr(latentbits.ClippedGaussian, "transform", transform)
    csv = ready("clipped-gaussian")
    made("clipped-gaussian").save("n.safetensors")
    found = tool.json("score", "n.safetensors", csv, "--per-row", "p.csv")
    assert found["n_impossible"] == 7
    assert found["log_likelihood"] is found["bits_per_row"] is found["bits_per_row_error"] is None
    assert Path("p.csv").read_text().split()[1:].count("-inf") == 7
    result = tool("score", "n.safetensors", csv)
    assert "7 of 240" in result.stdout
    assert "-3.0000" in result.stdout  # of the others
    assert "nan" not in result.stdout
    printed = tool("transform", "n.safetensors", csv, "-o", "z.csv").stderr
    assert "warning: 7 rows cannot be produced by any y (--noise none)\n" in printed


# --- combination machines and binary sparse coding ---


def test_a_pursuit_that_was_cut_off_has_no_unit_and_no_objective(tool, csv, monkeypatch):
    none = (np.zeros((0, 6)), np.zeros(0), np.zeros(6), 6 * np.log(2), 0.0, 1.0, 0.0)
    monkeypatch.setattr(
        "latentbits.cli.fit.fit_named", lambda model, *_: set_to(model, Machine, *none, objective=np.nan)
    )
    words = ("fit", csv, "-m", "combination-machine", "-k", 2, "--learner", "pursuit")
    found = tool.json(*words)
    assert (found["objective"], found["n_hidden"], found["shares"]) == (None, 0, [])
    assert "Units" not in tool(*words).stdout


def test_the_error_of_an_estimated_log_z_is_reported(tool, ready):
    csv, model = ready("combination-machine"), made("combination-machine")
    model.save("c.safetensors")
    exact = tool.json("score", "c.safetensors", csv)
    model.params_ = model.params_.replace(log_partition_error=np.array(0.3))
    model.save("e.safetensors")
    found = tool.json("score", "e.safetensors", csv)
    assert found["log_partition_error"] == pytest.approx(0.3)
    assert found["nats_per_row_error"] == pytest.approx(np.hypot(exact["nats_per_row_error"], 0.3))
    assert "of the error, by log Z" in tool("score", "e.safetensors", csv).stdout


def test_a_truncated_score_says_by_how_much_it_is_too_low(tool, ready):
    csv, model = ready("binary-sparse-coding"), made("binary-sparse-coding")
    model.save("c.safetensors")
    exact = tool.json("score", "c.safetensors", csv)
    model.params_ = model.params_.replace(truncation_loss=np.array(0.25))
    model.save("t.safetensors")
    found = tool.json("score", "t.safetensors", csv)
    assert (exact.pop("truncation_loss"), found.pop("truncation_loss")) == (0, 0.25)
    assert found == exact  # it has a sign, and is no part of the standard error
    assert "too low by about" in tool("score", "t.safetensors", csv).stdout


@pytest.mark.slow("learning of real numbers")
def test_real_numbers(tool):
    """Two clusters: the one unit of a machine tells them apart."""
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, 200)
    np.save("x.npy", rng.normal(size=(200, 3)) + np.outer(kind, [3.0, -2.0, 1.0]))
    tool("fit", "x.npy", "-m", "combination-machine", "-k", 1, "--kind", "real", "--epochs", 5)
    tool("transform", "model.safetensors", "x.npy", "-o", "on.csv")
    assert abs(np.corrcoef(read("on.csv").values[:, 0] > 0.5, kind)[0, 1]) > 0.8
    tool("sample", "model.safetensors", "-n", 500, "-o", "new.npy")
    drawn = np.load("new.npy")
    assert (drawn.shape, drawn.dtype) == ((500, 3), np.float64)
    assert np.all(drawn.std(axis=0) > 0.9)  # real numbers, not bits
    assert tool.json("score", "model.safetensors", "x.npy")["nats_per_row"] < 0


@pytest.mark.slow("what rounding costs, of rows far away")
def test_causes_are_found_and_what_rounding_costs_is_never_called_exact(tool):
    fit = ("-m", "binary-sparse-coding", "-k", 3, "--max-active", 2, "--candidates", 3, "--max-iter", 30)
    components = np.array([[6.0, 5.0, 0.0, 0.0], [0.0, 0.0, -4.0, 0.0], [0.0, 0.0, 3.0, 7.0]])
    rng = np.random.default_rng(0)
    causes = rng.random((200, 3)) < 0.3
    rows = causes @ components + 0.5 * rng.standard_normal((200, 4))
    np.save("near.npy", rows)
    assert "done after 30 iterations" in tool("fit", "near.npy", *fit).stderr
    model = latentbits.load("model.safetensors")
    assert model.noise_std_ == pytest.approx(0.5, abs=0.1)
    order = [int(np.argmin(np.abs(model.components_ - truth).sum(axis=1))) for truth in components]
    np.testing.assert_allclose(model.components_[order], components, atol=0.3)
    tool("complete", "model.safetensors", "near.npy", "--denoise", "-o", "clean.npy")
    np.testing.assert_allclose(np.load("clean.npy"), causes @ components, atol=0.7)
    np.save("far.npy", rows + 10_000)
    result = tool("fit", "far.npy", *fit, "--dtype", "float32")
    assert "by rounding" in result.stdout
    assert "exact" not in result.stdout
    assert "--dtype auto" in result.stderr
    assert "by rounding" in tool("score", "model.safetensors", "far.npy").stdout
    assert tool.json("score", "model.safetensors", "far.npy")["rounding_error"] > 1
    found = tool.json("fit", "far.npy", *fit)
    assert found["nats_per_row_error"] == 0
    printed = tool.json("score", "model.safetensors", "far.npy")
    assert printed["rounding_error"] == 0
    assert printed["nats_per_row"] == pytest.approx(found["nats_per_row"])


def test_too_many_on_together(tool, csv):
    found = tool("fit", csv, "-m", "binary-sparse-coding", "--max-active", 5, "--candidates", 3, code=1)
    assert "--max-active 5 of --candidates 3 causes cannot be on together" in found.stderr


# --- trees ---


def test_states_of_a_tree_are_one_number_or_one_for_each_column(tool, csv, asked):
    assert asked("-m", "latent-tree", "-k", 2)["n_states"] == 2
    assert tuple(asked("-m", "latent-tree", "-k", "2,2,2,2,2,3")["n_states"]) == (2, 2, 2, 2, 2, 3)
    assert "numbers from 1" in tool("fit", csv, "-m", "latent-tree", "-k", 0, code=2).stderr


@pytest.mark.slow("a fit of a tree")
def test_a_tree_in_a_file_has_the_names_of_parents(tool, csv, names):
    result = tool("fit", csv, "-m", "latent-tree", "-k", 1, "-o", "m.safetensors", "--items", "items.csv")
    assert "fitting latent tree of 1 state\n" in result.stderr
    head, *lines = (line.split(",") for line in Path("items.csv").read_text().splitlines())
    assert head == ["item", "parent", "parent_number", "bits_in_common", "share_1", "p_1"]
    parents = latentbits.load("m.safetensors").parents_[0].tolist()
    expected = [[name, names[p] if p >= 0 else "", str(p)] for name, p in zip(names, parents)]
    assert [line[:3] for line in lines] == expected
