"""Model files: what is written comes back, and nothing else is taken.  Each family's own round trip is in test_face."""

from __future__ import annotations

import json
import os
import struct

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_safetensors
from tests.fitted import known

import latentbits
from latentbits import BernoulliMixture, BinarySparseCoding, CombinationMachine, LatentTrait, NoisyOrNetwork, load
from latentbits.core.errors import LatentBitsError, ModelFileError
from latentbits.core.model import Measure, Stop
from latentbits.core.tree_serialization import digest
from latentbits.estimators import files
from latentbits.estimators.families import families
from latentbits.estimators.history import history_table

D = 6


def mixture(k=3, **options):
    means = np.random.default_rng(0).uniform(0.1, 0.9, (k, D))
    return known(BernoulliMixture(**{"n_components": k, **options}), {"weights": np.full(k, 1 / k), "means": means})


def machine():
    return CombinationMachine.from_parameters(np.ones((2, D)), np.zeros(2), np.zeros(D))


def network(**options):
    arrays = {"weights.0": np.ones((2, D)), "biases.0": np.full(D, 0.1), "biases.1": np.full(2, 0.3)}
    return known(NoisyOrNetwork((2,), **options), arrays, cost_history_=np.array([12.0, 11.0, 10.8]))


def trait():
    none = dict.fromkeys(("log_variance", "centre", "scale"), np.zeros(0))
    return known(LatentTrait(2), {"weights": np.eye(D)[:, :2], "bias": np.zeros(D), **none})


def causes():
    numbers = {"noise_std": 1.0, "prior": 0.2, "reseeded": 0.0, "truncation_loss": 0.0}
    learned = {"max_active_": 1, "n_candidates_": 2, "sparseness_history_": np.ones(1), "noise_history_": np.ones(1)}
    return known(BinarySparseCoding(4), {"components": np.eye(4, D), **numbers}, **learned)


@pytest.fixture(scope="module")
def fitted():
    return mixture(random_state=0, binarize=0.5, dtype=np.float64)


@pytest.fixture
def written(fitted, tmp_path):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    return path


def _given():
    """Give models of every family that takes parameters."""
    made = {
        "CombinationMachine": lambda cls: cls.from_parameters([[1.0, -1.0]], [0.0], [0.1, 0.2]),
        "ClippedGaussian": lambda cls: cls.from_moments([0.1, 0.2], [[0.09, 0.03], [0.03, 0.16]]),
    }
    able = {one.class_name for one in families() if {"from_parameters", "from_moments"} & set(dir(one.cls))}
    assert able == set(made)
    return [make(getattr(latentbits, name)) for name, make in made.items()]


@pytest.mark.parametrize("model", _given(), ids=lambda model: type(model).__name__)
def test_a_given_model_is_the_same_after_a_file(model, tmp_path):
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert (model.converged_, model.n_iter_) == (True, 0)
    for name in ("converged_", "stop_reason_", "n_iter_"):
        assert getattr(again, name) == getattr(model, name)
    np.testing.assert_array_equal(again.history_table_, model.history_table_)
    np.testing.assert_array_equal(again.objective_, model.objective_)


def test_stages_of_the_history_survive_a_file(tmp_path):
    joint, exact = ("layer 1", Measure.JOINT), ("exactly", Measure.LIKELIHOOD)
    model = network()
    model.history_table_ = history_table([(*joint, -9.0), (*joint, -8.0), (*exact, -7.0)])
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.history_table_, model.history_table_)
    np.testing.assert_array_equal(again.history_, [-7.0])
    np.testing.assert_array_equal(again.cost_history_, model.cost_history_)


def test_a_generator_as_seed_is_not_written(tmp_path):
    mixture(random_state=np.random.RandomState(0)).save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").random_state is None


def test_a_splitting_schedule_that_was_cut_short(tmp_path):
    m = mixture(1, n_components=8, init="split")
    m.save(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(load(tmp_path / "m.safetensors").means_, m.means_)


def test_what_the_header_says(written):
    raw = written.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["latentbits"])
    assert header["class"] == "BernoulliMixture"
    assert header["hyperparameters"]["n_components"] == 3
    assert header["library_version"]


def test_nothing_is_left_behind_when_writing_fails(fitted, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    path.write_bytes(b"old")

    def fail(*args):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        fitted.save(path)
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["m.safetensors"]


def test_no_folder(fitted, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        fitted.save(tmp_path / "nowhere" / "m.safetensors")
    with pytest.raises(FileNotFoundError, match="no model file"):
        load(tmp_path / "m.safetensors")
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)


@pytest.mark.parametrize("keep", [0, 4, 8, 100, -1])
def test_truncated(written, keep):
    written.write_bytes(written.read_bytes()[:keep])
    with pytest.raises(ModelFileError, match="truncated, damaged or foreign"):
        load(written)


def test_foreign(tmp_path):
    path = tmp_path / "x.safetensors"
    path.write_bytes(to_safetensors({"weight": np.ones(3)}))
    with pytest.raises(ModelFileError, match="not one that latentbits wrote"):
        load(path)
    path.write_bytes(b"PK\x03\x04 a zip file, not a model")
    with pytest.raises(ModelFileError):
        load(path)


def rewrite(path, change):
    """Change the header or the tensors of a model file, and put the right checksum on it."""
    header, tensors = files._read(path)
    header.pop("sha256")
    change(header, tensors)
    header["sha256"] = digest(header, tensors)
    path.write_bytes(to_safetensors(tensors, metadata={"latentbits": json.dumps(header)}))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda h, t: h.update({"class": "os.system"}), "unknown class 'os.system'"),
        (lambda h, t: h.update(format_version=99), "format version 99"),
        (lambda h, t: h["hyperparameters"].update(n_components=-1), "n_components"),
        (lambda h, t: h["hyperparameters"].update(exec="rm"), "valid model"),
        (lambda h, t: t.pop("params.means"), "'means' is missing"),
        (lambda h, t: t.update({"params.extra": np.ones(2)}), "unknown parameters"),
        (lambda h, t: t.update({"params.means": np.ones((3, 4))}), "shape"),
        (lambda h, t: t.update({"params.weights": np.ones(3, np.float32)}), "float64"),
        (lambda h, t: t.update({"params.means": np.full((3, 6), np.nan)}), "finite"),
        (lambda h, t: h.update(n_features="many"), "'n_features' must be a whole number from 1, found 'many'"),
        (lambda h, t: h.update(feature_names=["a"]), "'feature_names' must be 6 names"),
        (lambda h, t: h.update(feature_names=["a", *"abcde"]), "'feature_names' must be different names"),
        (lambda h, t: h.update(feature_names=[*"abcde", 6]), "'feature_names' must be a list of texts"),
        (lambda h, t: h.update(n_iter=-1), "'n_iter' must be a whole number from 0, found -1"),
        (lambda h, t: h.update(stop_reason="tired"), "'stop_reason' must be one of converged"),
        (lambda h, t: h.update(library_version=1), "'library_version' must be a text"),
        (lambda h, t: h.update(format_version=True), "format version True"),
        (lambda h, t: h.update(extra=[]), "'extra' must be an object"),
        (lambda h, t: h.update(more=1), "unknown fields"),
        (lambda h, t: h.pop("stages"), "the header lacks"),
        (lambda h, t: h.update(stages=[]), "do not have the"),
        (lambda h, t: h.update(stages=[["EM", "joy", 3]]), "'stages' must be names with a measure"),
        (lambda h, t: h.update(stages=[["E" * 101, "joint", 3]]), "'stages' must be names with a measure"),
        (lambda h, t: h.update(objective="low"), "'objective' must be a number"),
        (lambda h, t: h["hyperparameters"].update(max_iter=10**30), "no whole number of 2"),
        (lambda h, t: t.update(history=np.array([np.nan])), "'history' must be a list of finite numbers"),
        (lambda h, t: t.pop("history"), "'history' must be a list of finite numbers"),
        (lambda h, t: t.update({"params.weights": np.array([-1.0, 1.0, 1.0])}), "between 0 and 1"),
        (lambda h, t: t.update({"params.means": np.full((3, 6), 7.0)}), "between 0 and 1"),
    ],
)
def test_a_file_that_claims_nonsense(written, change, message):
    """Even with a checksum that fits."""
    rewrite(written, change)
    with pytest.raises(ModelFileError, match=message):
        load(written)


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (network, lambda h: h["hyperparameters"].update(annealing=[16, 10**8]), "annealing is 1600000000"),
        (network, lambda h: h["hyperparameters"].update(annealing=[10**8, 100]), "may ask for at most 1000000"),
        (network, lambda h: h["extra"].update(cost_history=[float("nan")]), "cost_history must be a list of numbers"),
        (network, lambda h: h["hyperparameters"].update(recipe="robust"), "The 'recipe' parameter of NoisyOrNetwork"),
        (trait, lambda h: h["hyperparameters"].update(n_samples=10**9), "n_samples is 1000000000"),
        (trait, lambda h: h["hyperparameters"].update(noise="shared"), "noise=.shared. is for continuous columns"),
        (machine, lambda h: h["hyperparameters"].update(n_hidden=10**8, max_active=10**8), "shape"),
        (machine, lambda h: h["hyperparameters"].update(annealing=[1, 10]), "chains from 2"),
        (
            machine,
            lambda h: h["hyperparameters"].update(recipe={"items": [["n_chains", 0]]}),
            "n_chains must be a whole",
        ),
        (causes, lambda h: h["hyperparameters"].update(recipe={"items": [["cut", ["a", 1]]]}), "two iterations"),
        (
            causes,
            lambda h: (
                h["hyperparameters"].update(n_causes=10**7),
                h["extra"].update(max_active=10**7, n_candidates=10**7),
            ),
            "do not fit 10000000 causes",
        ),
    ],
)
def test_a_file_cannot_ask_for_endless_work(tmp_path, make, change, message):
    """Nor for settings that do not go together; the checksum fits."""
    path = tmp_path / "m.safetensors"
    make().save(path)
    load(path)
    rewrite(path, lambda header, tensors: change(header))
    with pytest.raises(ModelFileError, match=message):
        load(path)


def test_what_could_not_be_loaded_is_not_written(tmp_path):
    model = network(annealing=(16, 10**6))
    with pytest.raises(ModelFileError, match="set_params to less, and save again"):
        model.save(tmp_path / "m.safetensors")
    model.set_params(annealing=(16, 10)).save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").annealing == (16, 10)


def test_every_field_of_the_header_is_held_to_what_is_written(written, fitted):
    """Whatever is put in its place is refused, or gives a model that works."""
    rewrite(written, lambda header, tensors: None)
    original = written.read_bytes()
    header, _ = files._read(written)
    places = [(name,) for name in header if name != "sha256"]
    places += [("hyperparameters", name) for name in header["hyperparameters"]]
    nonsense = [
        None, True, 0, -1, 10**8, 10**30, 0.5, float("nan"), float("inf"), "", "x", [], [1], ["a"] * 6, [[1]], {},
        {"a": 1}, {"items": 5}, {"items": [["a", "b"]]},
    ]  # fmt: skip
    n_refused = 0
    for place in places:
        for value in nonsense:
            written.write_bytes(original)

            def change(header, tensors, place=place, value=value):
                for name in place[:-1]:
                    header = header[name]
                header[place[-1]] = value

            rewrite(written, change)
            try:
                again = load(written)
            except ModelFileError:
                n_refused += 1
                continue
            assert again.params_.means.shape == fitted.params_.means.shape
            assert isinstance(again.n_iter_, int)
            assert again.n_iter_ >= 0
            assert again.stop_reason_ in [*Stop]
            assert isinstance(repr(again), str)
    assert n_refused > 0.7 * len(places) * len(nonsense)


def test_numbers_of_a_strange_type(tmp_path):
    path = tmp_path / "x.safetensors"
    header = {"w": {"dtype": "F8_E4M3", "shape": [2], "data_offsets": [0, 2]}, "__metadata__": {"latentbits": "{}"}}
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"ab")
    with pytest.raises(ModelFileError):
        load(path)


def test_every_changed_byte_is_noticed(written, fitted):
    raw = bytearray(written.read_bytes())
    rng = np.random.default_rng(0)
    for place in rng.integers(len(raw), size=60):
        changed = raw.copy()
        changed[place] ^= 1 << rng.integers(8)
        written.write_bytes(bytes(changed))
        try:
            again = load(written)
        except ModelFileError:
            continue
        # a byte of safetensors' own header that means nothing, such as white space: then nothing may have changed
        np.testing.assert_array_equal(again.means_, fitted.means_)
        assert again.get_params() == fitted.get_params()


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(junk=st.binary(max_size=400), sized=st.booleans())
def test_junk_is_refused(tmp_path, junk, sized):
    path = tmp_path / "junk.safetensors"
    path.write_bytes(struct.pack("<Q", len(junk)) + junk if sized else junk)
    with pytest.raises(LatentBitsError):
        load(path)
