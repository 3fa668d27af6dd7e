"""What newcomers pass by mistake: the message says what is wrong, where, and what to do."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import latentbits
from latentbits import BernoulliMixture, BernoulliProduct, compare
from latentbits.core.errors import DataError, ModelFileError
from latentbits.estimators.families import families

BITS = np.array([[0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 0, 1]])
FRAME = pd.DataFrame(BITS, columns=["tea", "milk", "honey"])


@pytest.mark.parametrize(
    ("X", "words"),
    [
        (FRAME.replace({0: "no", 1: "Yes"}), r"column 0 \('tea'\) holds 'no'.*X.replace\({'no': 0, 'Yes': 1}\)"),
        (FRAME.replace({0: "never", 1: "always"}), r"two answers.*X.replace\({'always': 0, 'never': 1}\)"),
        (np.where(BITS, "yes", "no"), r"row 0, column 0 holds 'no'.*X == 'yes'"),
        (np.array([[0, "a"], [1, "b"], [1, "c"]], dtype=object), r"row 0, column 1 holds 'a'\. Leave columns of text"),
        (FRAME.astype(object).mask(FRAME == 0, ""), r"row 0, column 0 \('tea'\) holds ''.*X.replace\('', numpy.nan\)"),
        (FRAME.assign(id=[1, 2, 3, 4]), r"holds 2\. The other columns hold bits: .* leave 'id' out \(labels='id' when"),
        (
            FRAME.assign(rye=[0, 1, 0, 1], fig=[0, 1, 1, 1], oil=[1, 1, 0, 1], id=[1, 2, 3, 4], group=[4, 3, 2, 1]),
            r"if these columns say what rows are .*'id', 'group' out",
        ),
        (FRAME.assign(group=[3.0, 1, 2, 1]), r"\('group'\) holds 3\. The other columns .* leave 'group' out"),
        (FRAME.astype(float).replace(0, np.inf), r"contains infinity: row 0, column 0 \('tea'\) holds inf"),
        (np.array([[0, 1.0], [-np.inf, 0]]), r"contains infinity: row 1, column 0 holds -inf"),
        (FRAME.astype("category"), r"column 0 \('tea'\) is categorical.*X.astype\(float\)"),
        (FRAME.iloc[:, :0], "X has no columns"),
        ([["bread", "milk"], ["beer"]], "row 0 has 2 and row 1 has 1.*MultiLabelBinarizer"),
        ("lsat6", r"no such file.*load_dataset\('lsat6'\).X"),
    ],
)
def test_what_is_wrong_where_and_what_to_do(X, words):
    with pytest.raises(DataError, match=words):
        BernoulliProduct().fit(X)


def test_where_most_columns_hold_no_bits_none_is_blamed():
    with pytest.raises(DataError) as error:
        BernoulliProduct().fit(FRAME + 1)
    assert "other columns" not in str(error.value)
    assert "binarize=1.5" in str(error.value)


@pytest.mark.filterwarnings("ignore:Downcasting behavior in `replace`:FutureWarning")  # of pandas 2
def test_advice_that_is_followed_works():
    expected = BernoulliProduct().fit(FRAME).means_
    words = FRAME.replace({0: "no", 1: "yes"})
    for X in (words == "yes", words.replace({"no": 0, "yes": 1}), np.where(BITS, "1", "0")):
        np.testing.assert_allclose(BernoulliProduct().fit(X).means_, expected)


def test_a_dict_of_columns():
    with pytest.raises(TypeError, match=r"X is a dict, not a table: pass pandas.DataFrame\(X\)"):
        BernoulliProduct().fit({"a": [0, 1]})


@pytest.mark.parametrize("models", [[BernoulliMixture], "mixture", {"a": "mixture"}])
def test_models_to_compare_are_estimators(models):
    with pytest.raises(TypeError, match=r"models must be estimators, such as BernoulliMixture\(\.\.\.\).*found"):
        compare(FRAME, models)


def test_names_that_are_nearly_right():
    with pytest.raises(AttributeError, match=r"'BernouliMixture'\. Did you mean BernoulliMixture\?"):
        latentbits.BernouliMixture  # noqa: B018
    with pytest.raises(DataError, match=r"Did you mean lsat6\?"):
        latentbits.load_dataset("lsat_6")
    assert all(hasattr(latentbits, one.class_name) for one in families())
    assert not hasattr(latentbits, "__path_of_no_one__")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("n_component", "BernoulliMixture has no parameter 'n_component'. Did you mean n_components?"),
        ("learning_rate", "BernoulliMixture has no parameter 'learning_rate'. It has accelerate"),
    ],
)
def test_a_parameter_that_is_not_known(name, words):
    with pytest.raises(TypeError) as error:
        BernoulliMixture(**{name: 2})
    assert str(error.value).startswith(words)


def test_a_model_file_that_is_none(tmp_path):
    BernoulliProduct().fit(BITS).save(tmp_path / "bits.safetensors")
    with pytest.raises(FileNotFoundError, match=r"Did you mean bits\.safetensors\?"):
        latentbits.load(tmp_path / "bit.safetensors")
    with pytest.raises(FileNotFoundError, match="There is no folder"):
        latentbits.load(tmp_path / "nowhere" / "bits.safetensors")
    (tmp_path / "x.csv").write_text("a,b\n0,1\n")
    with pytest.raises(ModelFileError, match=r"x\.csv is by its name a table"):
        latentbits.load(tmp_path / "x.csv")
