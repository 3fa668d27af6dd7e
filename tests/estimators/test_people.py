"""Groups and covariates of `LatentTrait`: what is refused, what is warned of, and which label is the reference."""

import numpy as np
import pytest

from latentbits import BernoulliMixture, LatentTrait
from latentbits.core.errors import DataError

pandas = pytest.importorskip("pandas")


@pytest.fixture(scope="module")
def table():
    """120 people with 4 items, and their age and income, which tell a little."""
    rng = np.random.default_rng(0)
    Z = pandas.DataFrame(rng.normal(size=(120, 2)), columns=["age", "inc"])
    theta = 0.5 * Z["age"].to_numpy() + rng.normal(size=120)
    X = (rng.random((120, 4)) < 1 / (1 + np.exp(-1.2 * theta[:, None] - [0.5, -0.5, 0.0, 0.3]))).astype(int)
    return X, Z


def test_covariates_in_another_order_are_refused(table):
    X, Z = table
    turned = Z[["inc", "age"]]
    m = LatentTrait(1, random_state=0).fit(X, covariates=Z)
    for use in (m.transform, m.score_samples):
        with pytest.raises(DataError, match="must be age, inc, in this order, as in fit"):
            use(m.people(X, covariates=turned))
    with pytest.raises(DataError, match="in this order"):
        m.sample(120, random_state=0, covariates=turned)
    same = m.transform(m.people(X, covariates=Z))
    np.testing.assert_array_equal(m.transform(m.people(X, covariates=Z.to_numpy())), same)  # no names, no order


def test_names_of_an_array_bind_no_frame(table):
    X, Z = table
    m = LatentTrait(1, random_state=0).fit(X, covariates=Z.to_numpy())
    np.testing.assert_array_equal(
        m.transform(m.people(X, covariates=Z)), m.transform(m.people(X, covariates=Z.to_numpy()))
    )
    with pytest.raises(DataError, match="z0, z1"):  # they are not a coincidence
        m.transform(m.people(X, covariates=Z.set_axis(["z1", "z0"], axis=1)))


@pytest.mark.parametrize("model", [LatentTrait(1), BernoulliMixture(2)])
def test_text_among_covariates_is_named(table, model):
    X, Z = table
    with pytest.raises(DataError, match=r"column 'place' has 'a': categories need .*pandas.get_dummies"):
        model.fit(X, covariates=Z.assign(place=["a", "b"] * 60))
    with pytest.raises(DataError, match="column 0 has 'a'"):
        model.fit(X, covariates=["a", "b"] * 60)
    with pytest.raises(DataError, match="row 3 of column 'inc' is NaN"):
        model.fit(X, covariates=Z.assign(inc=Z["inc"].where(np.arange(120) != 3)))
