from __future__ import annotations

import copy
import json
import os
import struct
from functools import cache

import jax
import numpy as np
import pandas as pd
import pytest
import quick
from cases import bits
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from quick import every
from safetensors.numpy import save as to_safetensors
from sklearn.exceptions import ConvergenceWarning

import latentbits
from latentbits import (
    BernoulliMixture,
    BinarySparseCoding,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
    load,
)
from latentbits.core.errors import LatentBitsError, ModelFileError
from latentbits.core.model import Stop
from latentbits.core.packing import digest
from latentbits.estimators import files
from latentbits.estimators.families import families

TABLE = bits(n=80)


@pytest.fixture(scope="module")
def fitted():
    return BernoulliMixture(3, random_state=0, binarize=0.5, dtype=np.float64, n_init=1).fit(TABLE)


@pytest.fixture
def written(fitted, tmp_path):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    return path


@every(slow=("latent-trait", "combination-machine", "noisy-or"))
def test_round_trip_to_the_bit(name, tmp_path):
    X, model = quick.table(name), copy.copy(quick.fitted(name))
    names = [f"c{j}" for j in range(X.shape[1])]
    model.feature_names_in_ = np.array(names, dtype=object)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.feature_names_in_.tolist() == names
    for one in jax.tree.leaves(jax.tree.map(np.array_equal, again.params_, model.params_)):
        assert one
    for one in ("history_", "history_table_", "objective_"):
        np.testing.assert_array_equal(getattr(again, one), getattr(model, one))
    frame = pd.DataFrame(X[:40], columns=names)
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    np.testing.assert_array_equal(again.transform(frame), model.transform(frame))
    np.testing.assert_array_equal(again.sample(9, random_state=0), model.sample(9, random_state=0))
    assert (again.n_iter_, again.converged_, again.stop_reason_) == (
        model.n_iter_,
        model.converged_,
        model.stop_reason_,
    )
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "n.safetensors").read_bytes()


def _given():
    """Models whose parameters were given, of every family that can be."""
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
    model = _network()
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    np.testing.assert_array_equal(again.history_table_, model.history_table_)
    assert set(model.history_table_["stage"]) == {"layer 1", "all layers, exactly"}
    end = model.history_table_["stage"] == "all layers, exactly"
    np.testing.assert_array_equal(again.history_, model.history_table_["objective"][end])
    assert model.objective_ == max(model.history_)


def test_a_file_of_the_first_version(written, fitted):
    """It had the objectives of all passes, and did not say of which stages."""

    def older(header, tensors):
        header.update(format_version=1)
        del header["stages"], header["objective"]

    rewrite(written, older)
    again = load(written)
    np.testing.assert_array_equal(again.history_, fitted.history_)
    assert set(again.history_table_["measure"]) == {"unknown"}
    assert np.isnan(again.objective_)
    again.save(written)
    np.testing.assert_array_equal(load(written).history_, fitted.history_)


def test_a_generator_as_seed_is_not_written(tmp_path):
    m = BernoulliMixture(2, random_state=np.random.RandomState(0), n_init=1).fit(TABLE)
    m.save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").random_state is None


def test_a_splitting_schedule_that_was_cut_short(tmp_path):
    with pytest.warns(ConvergenceWarning, match="ran out of max_time"):
        m = BernoulliMixture(8, init="split", random_state=0, max_time=1e-9).fit(TABLE)
    assert len(m.weights_) == 1
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
    with pytest.raises(ModelFileError, match="is a folder"):
        load(tmp_path)


def test_no_file():
    with pytest.raises(FileNotFoundError, match="no model file"):
        load("nowhere.safetensors")


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
        (lambda h, t: h.update(n_features=True), "'n_features' must be a whole number"),
        (lambda h, t: h.update(feature_names=["a"]), "'feature_names' must be 6 names"),
        (lambda h, t: h.update(feature_names=["a", *"abcde"]), "'feature_names' must be different names"),
        (lambda h, t: h.update(feature_names=dict.fromkeys("abcdef")), "'feature_names' must be a list of texts"),
        (lambda h, t: h.update(feature_names=[*"abcde", 6]), "'feature_names' must be a list of texts"),
        (lambda h, t: h.update(n_iter=-1), "'n_iter' must be a whole number from 0, found -1"),
        (lambda h, t: h.update(n_iter=2.5), "'n_iter' must be a whole number"),
        (lambda h, t: h.update(stop_reason=["converged"]), "'stop_reason' must be one of converged"),
        (lambda h, t: h.update(stop_reason="tired"), "'stop_reason' must be one of converged"),
        (lambda h, t: h.update(library_version=1), "'library_version' must be a text"),
        (lambda h, t: h.update(format_version=True), "format version True"),
        (lambda h, t: h.update(extra=[]), "'extra' must be an object"),
        (lambda h, t: h.update(more=1), "unknown fields"),
        (lambda h, t: h.pop("stages"), "the header lacks"),
        (lambda h, t: h.update(stages=[]), "do not have the"),
        (lambda h, t: h.update(stages=[["EM", "joy", 3]]), "'stages' must be names with a measure"),
        (lambda h, t: h.update(stages=[["E" * 101, "joint", 3]]), "'stages' must be names with a measure"),
        (lambda h, t: h.update(stages=[["EM", "joint", 10**18]]), "do not have the"),
        (lambda h, t: h.update(objective="low"), "'objective' must be a number"),
        (lambda h, t: h.pop("hyperparameters"), "the header lacks"),
        (lambda h, t: h["hyperparameters"].update(max_iter=10**30), "no whole number of 2"),
        (lambda h, t: h["hyperparameters"].update(n_components=10**8), "shape"),
        (lambda h, t: t.update(history=np.array([np.nan])), "'history' must be a list of finite numbers"),
        (lambda h, t: t.update(history=np.zeros((2, 2))), "'history' must be a list of finite numbers"),
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


@cache
def _machine():
    return CombinationMachine.from_parameters(np.ones((2, 6)), np.zeros(2), np.zeros(6))


@cache
def _network(**settings):
    with pytest.warns(ConvergenceWarning):
        return NoisyOrNetwork((2,), random_state=0, max_iter=1, n_updates=1, **settings).fit(TABLE)


def test_options_of_earlier_versions_are_left_out(tmp_path):
    """What was learned does not ask for them; others that no version had are named."""
    for model, former in ((_machine(), {"weight_decay": 0.1, "n_sweeps": 2}), (_network(), {"chain_start": "prior"})):
        path = tmp_path / "m.safetensors"
        model.save(path)
        rewrite(path, lambda h, t, former=former: h["hyperparameters"].update(former))
        np.testing.assert_array_equal(load(path).score_samples(TABLE), model.score_samples(TABLE))
        rewrite(path, lambda h, t: h["hyperparameters"].update(mood="good"))
        with pytest.raises(ModelFileError, match="mood"):
            load(path)


@cache
def _causes():
    rows = np.random.default_rng(0).normal(size=(30, 5))
    return BinarySparseCoding(4, max_active=1, n_candidates=2, grow=False, random_state=0, max_iter=1, n_init=1).fit(
        rows
    )


@cache
def _trait():
    with pytest.warns(ConvergenceWarning):
        return LatentTrait(2, random_state=0, max_iter=1).fit(TABLE)


@pytest.mark.parametrize(
    ("make", "change", "message"),
    [
        (_network, lambda h: h["hyperparameters"].update(annealing_steps=10**8), "annealing_chains x annealing_steps"),
        (_network, lambda h: h["hyperparameters"].update(annealing_chains=10**8), "may ask for at most 1000000"),
        (_network, lambda h: h["extra"].update(cost_history=[float("nan")]), "cost_history must be a list of numbers"),
        (_network, lambda h: h["hyperparameters"].update(inference="exact", schedule="stability"), "stability"),
        pytest.param(
            _trait,
            lambda h: h["hyperparameters"].update(n_samples=10**9),
            "n_samples is 1000000000",
            marks=pytest.mark.slow,
        ),
        pytest.param(
            _trait,
            lambda h: h["hyperparameters"].update(equal_discrimination=True),
            "n_components must be 1",
            marks=pytest.mark.slow,
        ),
        (_machine, lambda h: h["hyperparameters"].update(n_hidden=10**8), "shape"),
        (_machine, lambda h: h["hyperparameters"].update(n_hidden=10**8, max_active=10**8), "shape"),
        (_causes, lambda h: h["hyperparameters"].update(cut=["a", "b"]), "cut must be two iterations"),
        (
            _causes,
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
    model = _network(annealing_steps=10**6)
    with pytest.raises(ModelFileError, match="set_params to less, and save again"):
        model.save(tmp_path / "m.safetensors")
    model.set_params(annealing_steps=10).save(tmp_path / "m.safetensors")
    assert load(tmp_path / "m.safetensors").annealing_steps == 10


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
