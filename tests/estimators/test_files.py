from __future__ import annotations

import json
import os
import struct

import numpy as np
import pandas as pd
import pytest
from cases import bits
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors.numpy import save as to_safetensors
from sklearn.exceptions import ConvergenceWarning

from latentbits import BernoulliMixture, BernoulliProduct, load
from latentbits.core.errors import LatentBitsError, ModelFileError
from latentbits.estimators import files

TABLE = bits(n=80)


@pytest.fixture(scope="module")
def fitted():
    return BernoulliMixture(3, random_state=0, binarize=0.5, dtype=np.float64).fit(TABLE)


@pytest.fixture
def written(fitted, tmp_path):
    path = tmp_path / "m.safetensors"
    fitted.save(path)
    return path


@pytest.mark.parametrize("model", [BernoulliProduct(), BernoulliMixture(2, random_state=3)], ids=str)
def test_round_trip_to_the_bit(model, tmp_path):
    frame = pd.DataFrame(TABLE, columns=list("abcdef"))
    model.fit(frame)
    model.save(tmp_path / "m.safetensors")
    again = load(tmp_path / "m.safetensors")
    assert type(again) is type(model)
    assert again.get_params() == model.get_params()
    assert again.feature_names_in_.tolist() == list("abcdef")
    for name in ("means_", "history_"):
        np.testing.assert_array_equal(getattr(again, name), getattr(model, name))
    np.testing.assert_array_equal(again.score_samples(frame), model.score_samples(frame))
    np.testing.assert_array_equal(again.sample(9, random_state=0), model.sample(9, random_state=0))
    assert (again.n_iter_, again.converged_) == (model.n_iter_, model.converged_)
    again.save(tmp_path / "n.safetensors")
    assert (tmp_path / "m.safetensors").read_bytes() == (tmp_path / "n.safetensors").read_bytes()


def test_a_generator_as_seed_is_not_written(tmp_path):
    m = BernoulliMixture(2, random_state=np.random.RandomState(0)).fit(TABLE)
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
    header["sha256"] = files._digest(header, tensors)
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
