"""Groups and covariates of `LatentTrait`: what is refused, what is warned of, and which label is the reference."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import latentbits
from latentbits import BernoulliMixture, LatentTrait
from latentbits.core.errors import DataError
from latentbits.core.tree import double
from latentbits.estimators.item_models import People, _population_of
from latentbits.models.latent_trait import items

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


def test_numbers_as_groups_are_refused(table):
    X, Z = table
    with pytest.raises(DataError, match=r"120 different labels for 120 people, 1\.0 in each.*goes into covariates"):
        LatentTrait(1).fit(X, groups=Z["age"])
    with pytest.raises(DataError, match="60 different labels for 480 people"):  # enough for a few groups, not for many
        LatentTrait(1).fit(np.tile(X, (4, 1)), groups=np.arange(480) % 60)
    with pytest.raises(DataError, match="1001 different labels"):
        LatentTrait(1).fit(np.ones((20020, 2)), groups=np.arange(20020) % 1001)


def test_weights_count_people_of_groups(table):
    X, _ = table
    people = People(X[:8], ["a", "b"] * 4)
    with pytest.raises(DataError, match="2 different labels for 8 people"):
        LatentTrait(1).fit(people.X, groups=people.groups)
    assert _population_of(people, np.full(8, 5.0)).groups == ("a", "b")  # 40 people in 8 patterns
    with pytest.raises(DataError, match="for 8 people"):
        _population_of(people, np.full(8, 0.1))


@pytest.mark.parametrize("of", [pandas.Categorical, lambda *a, **k: pandas.Series(pandas.Categorical(*a, **k))])
def test_first_category_is_the_reference(table, of, tmp_path):
    X, _ = table
    g = np.array(["f", "m"] * 60)
    first = LatentTrait(1, random_state=0).fit(X, groups=of(g, categories=["x", "m", "f"]))
    assert first.groups_.tolist() == ["m", "f"]  # nobody is x
    assert (first.group_means_[0], first.group_variances_[0]) == (0.0, 1.0)
    np.testing.assert_array_equal(first.transform(first.people(X, groups=g)),
                                  first.transform(first.people(X, groups=of(g))))  # fmt: skip
    sorted_labels = LatentTrait(1, random_state=0).fit(X, groups=g)
    assert sorted_labels.groups_.tolist() == ["f", "m"]
    assert first.objective_ == pytest.approx(sorted_labels.objective_, abs=1e-6)
    first.save(tmp_path / "m.safetensors")
    assert latentbits.load(tmp_path / "m.safetensors").groups_.tolist() == ["m", "f"]


def test_order_of_a_polars_enum(table):
    polars = pytest.importorskip("polars")
    g = ["f", "m"] * 60
    of = lambda kind: _population_of(People(table[0], polars.Series(g, dtype=kind)), None).groups  # noqa: E731
    assert of(polars.Enum(["x", "m", "f"])) == ("m", "f")
    assert of(polars.Categorical()) == of(polars.String()) == ("f", "m")


def test_rows_without_a_label_are_told(table):
    X, _ = table
    with pytest.raises(DataError, match="row 2"):
        LatentTrait(1).fit(X, groups=pandas.Series(["a", "b", None] * 40, dtype="string"))


def test_given_items_have_no_errors(table):
    with pytest.raises(ValueError, match="none estimated"):
        LatentTrait.from_items([1.0] * 4, [0.0] * 4).standard_errors(table[0])


def test_the_call_that_works_is_shown(table):
    X, Z = table
    g = ["a", "b"] * 60
    m = LatentTrait(1, random_state=0).fit(X, groups=g)
    with pytest.raises(ValueError, match=r"m\.scores\(m\.people\(X, groups=g\)\)"):
        m.scores(X)
    with pytest.raises(ValueError, match=r"m\.sample\(n, groups=g\)"):
        m.sample(3)
    assert m.scores(m.people(X, groups=g)).value.shape == (120, 1)
    both = LatentTrait(1, random_state=0).fit(X, groups=g, covariates=Z)
    with pytest.raises(ValueError, match=r"m\.scores\(m\.people\(X, groups=g, covariates=Z\)\)"):
        both.scores(both.people(X, groups=g))
    with pytest.raises(ValueError, match=r"m\.sample\(n, groups=g, covariates=Z\)"):
        both.sample(120, groups=g)


def test_what_runs_away_is_warned_of(table):
    X, Z = table
    total = X.sum(1)
    m = LatentTrait(1, max_iter=25, random_state=0)
    with pytest.warns(UserWarning, match="run away|max_iter") as said:
        m.fit(X, covariates=Z.assign(inc=total))
    (told,) = [str(one.message) for one in said if "run away" in str(one.message)]
    assert "one standard deviation of inc moves the trait" in told
    assert "of age" not in told
    with pytest.warns(UserWarning, match="run away|max_iter") as said:
        m.fit(X, groups=np.where(total > 3, "high", "average"))
    (told,) = [str(one.message) for one in said if "run away" in str(one.message)]
    assert "the mean of high is" in told
    assert "standard deviations from that of average, the variance of high is" in told


def test_units_of_covariates_do_not_warn(table):
    X, Z = table
    m = LatentTrait(1, random_state=0).fit(X, covariates=Z / [50.0, 1.0])  # a warning is an error here
    assert abs(m.coefficients_[0]) > 10


@pytest.mark.parametrize(("points", "groups"), [(2, 1), (2, 3), (5, 3)])
def test_squares_by_group(points, groups):
    rng = np.random.default_rng(0)
    group, share = rng.integers(0, groups, 40), rng.random((40, points))
    scores = rng.normal(size=(40, points, 10))  # wide for 2 points, not for 5
    with double():
        given = jnp.asarray(group), jnp.asarray(share), jnp.asarray(scores)
        found = items._squares(*given, groups)
        program = str(jax.make_jaxpr(partial(items._squares, groups=groups))(*given))
    assert ("scan" in program) == (points == 2 and groups > 1)  # a loop over groups, which many make slow
    expected = [np.einsum("nk,nkl,nkm->lm", share[group == g], scores[group == g], scores[group == g])
                for g in range(groups)]  # fmt: skip
    np.testing.assert_allclose(found, expected, rtol=1e-10, atol=1e-12)
