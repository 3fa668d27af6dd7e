"""`TraitMaps`: a mixture of maps as a user meets it."""

from __future__ import annotations

from copy import copy

import numpy as np
import pytest
from made import set_to
from sklearn.base import clone
from tests import tables

from latentbits import LatentTrait, TraitMaps, load
from latentbits.core.errors import ModelFileError
from latentbits.models.latent_trait import map_params
from latentbits.reports.render import cells
from latentbits.reports.summaries.records import Rows
from latentbits.reports.summaries.trait_maps import show, summarize

N, D = 400, 8
SETTINGS = {"n_components": 1, "random_state": 0, "n_init": 2, "method": "quadrature"}


SHARES = np.array([0.65, 0.35])
SLOPES = np.kron([[1, 0], [0, 1]], [2.0] * 4)
INTERCEPTS = np.kron([[0, 1], [1, 0]], [2.5, -2.5, 2.5, -2.5])


def two_maps(n=N, seed=0, missing=0.05):
    """Draw rows of two kinds, each with a separate trait that moves other columns."""
    rng = np.random.default_rng(seed)
    kind = (rng.random(n) < SHARES[1]).astype(int)
    p = 1 / (1 + np.exp(-(rng.normal(size=(n, 1)) * SLOPES[kind] + INTERCEPTS[kind])))
    X = (rng.random((n, D)) < p).astype(float)
    X[rng.random(X.shape) < missing] = np.nan
    return X, kind


@pytest.fixture(scope="module")
def table():
    return two_maps()


@pytest.fixture(scope="module")
def model():
    """Set the parameters that rows are drawn from: several maps take long to learn."""
    none = np.zeros(0)
    maps = np.log(SHARES), SLOPES[..., None], INTERCEPTS, np.zeros((2, 0)), none, none
    return set_to(TraitMaps(2, **SETTINGS), map_params.Params, *maps, d=D)


@pytest.fixture(scope="module")
def learned(table):
    return TraitMaps(2, **SETTINGS).fit(table[0])


@pytest.mark.slow("two maps are learned")
def test_it_finds_the_maps(table, learned):
    """Shares, the map of each row, and which columns a map's trait moves; and the report of how it ended."""
    (X, kind), model = table, learned
    assert model.converged_
    assert model.left_to_gain_ < 1e-4
    np.testing.assert_allclose(model.shares_, [np.mean(kind == 0), np.mean(kind == 1)], atol=0.06)
    sure = model.responsibilities(X)
    np.testing.assert_allclose(sure.sum(1), 1, atol=1e-6)
    assert np.mean(sure.argmax(1) == kind) > 0.93
    assert model.intercept_.shape == (2, D)
    assert np.abs(model.components_[0, 0, :4]).min() > np.abs(model.components_[0, 0, 4:]).max()
    assert np.all(np.diff([one["objective"] for one in model.history_table_ if "starts" not in one["stage"]]) > -1)
    np.testing.assert_allclose(model.objective_, model.log_likelihood(X), atol=0.01)
    assert model.n_parameters_ == 2 * 2 * D + 1
    assert model.bic(X) == pytest.approx(model.n_parameters_ * np.log(N) - 2 * model.log_likelihood(X))


@pytest.mark.slow("a page of two maps")
def test_the_page_has_the_traits_of_each_map(table, model):
    X, kind = table
    (layer,) = show("1 latent trait", model, X, N).gallery.layers
    assert layer.names == ("map 1, trait 1", "map 2, trait 1")
    np.testing.assert_array_equal(layer.weights, model.components_[:, 0])
    assert layer.active.shape == (N, 2)
    assert np.mean(np.abs(layer.active[kind == 0]).argmax(1) == 0) > 0.8  # places on the other map hardly count


def test_places_are_on_the_most_probable_map(table, model):
    X, _ = table
    posterior = model.posterior(X)
    best = model.responsibilities(X).argmax(1)
    np.testing.assert_array_equal(posterior.map, best)
    np.testing.assert_array_equal(model.transform(X), posterior.means[np.arange(N), best])
    assert posterior.covariance.shape == (N, 1, 1)
    by_hand = 1 / (1 + np.exp(-(0.7 * model.components_[1, 0] + model.intercept_[1])))
    np.testing.assert_allclose(model.inverse_transform([[0.7]], maps=1)[0], by_hand, rtol=1e-5)
    with pytest.raises(ValueError, match="maps is required: the model has 2 maps"):
        model.inverse_transform([[0.7]])
    with pytest.raises(ValueError, match="whole numbers from 0 to 1"):
        model.inverse_transform([[0.7]], maps=2)


def test_a_file_holds_all_maps(table, model, tmp_path):
    X, _ = table
    model.save(tmp_path / "maps.safetensors")
    back = load(tmp_path / "maps.safetensors")
    np.testing.assert_array_equal(back.transform(X), model.transform(X))
    np.testing.assert_array_equal(back.shares_, model.shares_)
    np.testing.assert_array_equal(back.score_samples(X), model.score_samples(X))
    wrong = copy(model).set_params(n_maps=3)  # the file would not say what it holds
    wrong.save(tmp_path / "wrong.safetensors")
    with pytest.raises(ModelFileError):
        load(tmp_path / "wrong.safetensors")


@pytest.mark.slow("three fits, two of them of several maps")
@pytest.mark.filterwarnings("ignore:the weights of column:UserWarning")  # one trait has to do with two kinds of rows
def test_one_map_is_not_enough_for_two(table, learned):
    """Nor do two pay where there is one: BIC says so."""
    X, _ = table
    one = LatentTrait(1, method="quadrature", random_state=0).fit(X)
    assert one.bic(X) > learned.bic(X) + 20
    plain = one.sample(N, random_state=2).astype(float)
    alone, both = (m.set_params(tol=1e-2).fit(plain) for m in (clone(one), TraitMaps(2, **SETTINGS)))
    assert alone.bic(plain) < both.bic(plain) - 20


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"method": "monte_carlo"}, "method"),
        ({"n_components": 4}, "n_components"),
        ({"n_maps": 1}, "n_maps"),
    ],
)
def test_what_several_maps_cannot(table, settings, message):
    with pytest.raises(ValueError, match=message):
        TraitMaps(**settings).fit(table[0])


def test_its_reports(table, model):
    """Shares and rows of the maps; what is written has the number of the map behind each quantity."""
    X, _ = table
    found = summarize(model, Rows(X, tuple("abcdefgh")))
    assert found["shares"] == model.shares_.tolist()
    assert found["n_parameters"] == model.n_parameters_
    maps = cells(found.tables[0])[1:]
    assert [line[:2] for line in maps] == [[str(m + 1), f"{model.shares_[m]:.3f}"] for m in range(2)]
    assert sum(float(line[2]) for line in maps) == N
    items = found.files["items"]()
    np.testing.assert_array_equal(items.columns["intercept_map_2"], model.intercept_[1])


def dense(model, X, step=0.002, reach=8.0):
    """log p of each row, P(map | row), means on each map, and the table filled in: sums over a dense grid, float64."""
    z = np.arange(-reach, reach + step / 2, step)
    log_prior = -0.5 * z**2 + np.log(step / np.sqrt(2 * np.pi))
    seen, values = ~np.isnan(X), np.nan_to_num(X)
    joint, means, filled = [], [], []
    for share, slope, intercept in zip(model.shares_, model.components_[:, 0], model.intercept_):
        f = z[:, None] * slope + intercept
        each = log_prior - values @ np.logaddexp(0, -f).T - (seen - values) @ np.logaddexp(0, f).T
        top = each.max(1, keepdims=True)
        weight = np.exp(each - top)
        total = weight.sum(1)
        joint.append(np.log(share) + top[:, 0] + np.log(total))
        means.append(weight @ z / total)
        filled.append(weight @ (0.5 + 0.5 * np.tanh(f / 2)) / total[:, None])
    value = np.logaddexp.reduce(joint)
    sure = np.exp(joint - value)
    return value, sure.T, np.array(means).T, np.where(seen, X, np.einsum("mn,mnd->nd", sure, filled))


@pytest.mark.parametrize("steeper", [1, 4, 12])
def test_steep_columns_are_reported_as_others_are(table, model, steeper):
    """By sums over a dense grid, for slopes up to 24, of rows with holes and of one of which nothing is known."""
    X = tables.with_holes(table[0], 0.3)
    X[0], X[1, 1:] = np.nan, np.nan
    params = model.params_
    steep = copy(model)
    steep.params_ = params.replace(weights=params.weights * steeper, bias=params.bias * steeper)
    steep._expose()
    value, sure, means, filled = dense(steep, X)
    total, error = steep.log_likelihood(X, return_error=True)
    assert abs(total - value.sum()) < error + 1e-3
    assert error < 0.1
    np.testing.assert_allclose(steep.score_samples(X), value, atol=1e-4)
    posterior = steep.posterior(X)
    np.testing.assert_allclose(posterior.responsibilities, sure, atol=1e-4)
    np.testing.assert_allclose(posterior.means[..., 0], means, atol=1e-4)
    np.testing.assert_allclose(steep.complete(X), filled, atol=1e-4)
