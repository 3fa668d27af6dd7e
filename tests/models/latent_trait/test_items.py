"""Item models of one trait against a brute-force twin: likelihood, gradient and information, by other code."""

from __future__ import annotations

import jax
import numpy as np
import pytest
from scipy.special import expit, log_softmax, logsumexp
from scipy.stats import norm
from tests.models.steps import batch_of

from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait import items
from latentbits.models.latent_trait.item_params import Params, free_of, recentred

D = 4
VALUES = (("items", "item_places"), ("mean", "mean_places"), ("log_sd", "sd_places"),
          ("coefficients", "coefficient_places"))  # fmt: skip


def case(rng, kinds, groups, covariates):
    """Draw parameters, each a free number of its own, but the asymptote of the third item, which has none."""
    shape = (groups, D)
    every = np.stack([rng.uniform(0.5, 2, shape), rng.normal(size=shape), rng.normal(-1, 0.5, shape)], -1)
    values = [every[..., :kinds], rng.normal(size=groups), 0.3 * rng.normal(size=groups)]
    values.append(0.5 * rng.normal(size=covariates))
    n = sum(v.size for v in values)
    ends = np.cumsum([v.size for v in values])[:-1]
    places = [part.reshape(v.shape) for part, v in zip(np.split(np.arange(n, dtype=float), ends), values)]
    if kinds == 3:
        places[0][:, 2, 2] = n
    guessed = np.array([1.0, 1.0, 0.0, 1.0]) * (kinds == 3)
    return Params(values[0], guessed, *values[1:], *places, *np.zeros((2, n)), *covariates_at(rng, covariates))


def covariates_at(rng, covariates):
    """Draw a centre and a scale, as if covariates had been standardised."""
    return rng.normal(size=covariates), rng.uniform(0.5, 2, covariates)


def table(rng, n, groups, covariates, missing=0.2):
    bits = (rng.random((n, D)) < 0.6).astype(float)
    bits[rng.random((n, D)) < missing] = np.nan
    parts = [bits, *([rng.integers(groups, size=(n, 1))] if groups > 1 else []), rng.normal(size=(n, covariates))]
    return np.concatenate(parts, 1)


def twin(params, rows, n_nodes=61):
    """Give log P(row, node) of each row: (rows, nodes); and P(bit = 1) there, and the nodes."""
    x = np.linspace(-6, 6, n_nodes)
    groups, _, kinds = params.items.shape
    group = rows[:, D].astype(int) if groups > 1 else np.zeros(len(rows), int)
    mean = params.mean[group] + ((rows[:, D + (groups > 1) :] - params.centre) / params.scale) @ params.coefficients
    theta = mean[:, None] + np.exp(params.log_sd[group])[:, None] * x
    own = params.items[group][:, None]  # by rows, nodes, columns and kinds
    low = expit(own[..., 2]) * params.guessed if kinds == 3 else 0.0
    p = low + (1 - low) * expit(own[..., 0] * theta[..., None] + own[..., 1])
    bits = rows[:, None, :D]
    log_bits = np.where(np.isnan(bits), 0, np.log(np.where(bits == 1, p, 1 - p)))
    return log_bits.sum(2) + np.log(norm.pdf(x) / norm.pdf(x).sum()), p, theta


def log_p(params, rows):
    return logsumexp(twin(params, rows)[0], axis=1)


def with_free(params, free):
    """Put free numbers in their places, by NumPy."""
    padded, n = np.append(free, np.nan), len(free)
    out = dict(vars(params))
    for name, places in VALUES:
        at = out[places].astype(int)
        out[name] = np.where(at < n, padded[at], out[name])
    return Params(**out)


@jax.jit
def everything(params, rows, weight):
    record, batch = items.model(), batch_of(rows, weight)
    stats, _ = record.e_step(params, None, batch, None)
    posterior, scored = record.infer(params, None, batch), record.log_likelihood(params, None, batch)
    return stats, scored, posterior, record.complete(params, None, batch), free_of(params)


# groups, covariates and asymptotes; and none of them but a covariate
@pytest.mark.parametrize(("kinds", "groups", "covariates"), [(3, 2, 2), (2, 1, 1)])
def test_likelihood_gradient_information_and_posteriors(kinds, groups, covariates):
    rng = np.random.default_rng(0)
    params, rows = case(rng, kinds, groups, covariates), table(rng, 12, groups, covariates)
    weight = rng.integers(0, 3, 12).astype(float)

    def told(params):
        with double():
            return to_numpy(everything(params, rows, weight))

    stats, scored, posterior, filled, free = told(params)
    joint, p, theta = twin(params, rows)
    assert np.allclose(scored.value, logsumexp(joint, axis=1), rtol=0, atol=1e-10)
    assert np.all(scored.error < 1e-6)
    assert stats.objective.sum() == pytest.approx(weight @ scored.value, abs=1e-9)
    share = np.exp(log_softmax(joint, axis=1))
    assert np.allclose(filled[:, :D], np.einsum("nk,nkd->nd", share, p), rtol=0, atol=1e-10)
    assert np.array_equal(filled[:, D:], rows[:, D:])
    mean = np.sum(share * theta, 1)
    assert np.allclose(posterior.mean[:, 0], mean, rtol=0, atol=1e-10)
    variance = np.sum(share * (theta - mean[:, None]) ** 2, 1)
    assert np.allclose(posterior.covariance[:, 0, 0], variance, rtol=0, atol=1e-10)
    assert np.all(np.abs(posterior.mode[:, 0] - theta[np.arange(12), joint.argmax(1)]) < 2 * np.ptp(theta, 1) / 61)

    step = 1e-5 * np.eye(len(free))
    moved = [(with_free(params, free + h), with_free(params, free - h)) for h in step]
    scores = np.array([(log_p(up, rows) - log_p(down, rows)) / 2e-5 for up, down in moved])  # by numbers and rows
    assert np.allclose(stats.gradient, scores @ weight, rtol=0, atol=1e-8)
    assert np.allclose(stats.spread, (scores * weight**2) @ scores.T, rtol=0, atol=1e-6)
    assert np.allclose(stats.information, stats.information.T, rtol=0, atol=1e-10)
    bend = -np.array([(told(up)[0].gradient - told(down)[0].gradient) / 2e-5 for up, down in moved])
    assert np.allclose(stats.information, bend, rtol=0, atol=1e-7)
    assert np.linalg.eigvalsh(stats.unit).min() > -1e-9


@pytest.mark.slow("a fit from far away, and its gradient by differences of all rows")
def test_learning_climbs():
    """From far away, with missing bits, weights, groups and guessing; the end is a maximum."""
    rng = np.random.default_rng(1)
    params, rows = case(rng, 3, 2, 1), table(rng, 240, 2, 1)
    n = len(params.prior_mean)
    held = np.full(2, float(n))
    params = Params(**dict(vars(params), mean_places=held, sd_places=held, prior_precision=np.full(n, 0.5)))
    weight = rng.integers(1, 4, 240).astype(float)
    engine = MemoryEngine(rows, weight)
    found = fit(items.model(61, params), engine, seed_key(0), limits=Limits(100, 1e-7, None), dtype=np.float64)
    assert found.reason.converged
    # a step that did not climb is in the history, and taken back
    assert found.objective >= max(one.objective for one in found.history) - 1e-9
    at = np.zeros(n)
    for name, places in VALUES:
        place = getattr(params, places).astype(int)
        at[place[place < n]] = np.asarray(getattr(found.params, name))[place < n]

    def value(x):
        return weight @ log_p(with_free(found.params, x), rows) - 0.25 * np.sum(x**2)

    assert found.objective == pytest.approx(value(at), abs=1e-8)
    for h in 1e-4 * np.eye(n):
        assert (value(at + h) - value(at - h)) / 2e-4 == pytest.approx(0, abs=1e-4)


@pytest.mark.parametrize("way", ["intercepts", "means", "neither"])
def test_another_centre_of_the_covariates_is_the_same_model(way):
    """The shift goes where nothing is held or shared by items of other slopes; else the centre stays."""
    rng = np.random.default_rng(5)
    params = case(rng, 3, 2, 2)
    n = len(params.prior_mean)
    fields, held = dict(vars(params)), params.item_places.copy()
    if way == "means":
        held[0, 0, 1] = n
    else:
        fields["mean_places"] = np.array([n, params.mean_places[1]])
    if way == "neither":  # an intercept in common, slopes apart
        held[:, 1, 1] = held[0, 1, 1]
        fields["items"] = params.items.copy()
        fields["items"][:, 1, 1] = 0.3
    params, rows = Params(**fields | {"item_places": held}), table(rng, 30, 2, 2)
    centre, scale = np.array([3.0, -2.0]), np.array([0.5, 4.0])
    with double():
        found = recentred(params, centre, scale)
        np.testing.assert_allclose(log_p(found, rows), log_p(params, rows), rtol=1e-10)
        back = recentred(found, params.centre, params.scale)
    np.testing.assert_array_equal(found.centre, params.centre if way == "neither" else centre)
    np.testing.assert_array_equal(found.scale, scale)
    assert np.array_equal(found.mean, params.mean) == (way != "means")
    assert np.array_equal(found.items, params.items) == (way != "intercepts")
    for name, _ in VALUES:
        np.testing.assert_allclose(getattr(back, name), getattr(params, name), atol=1e-12)
    np.testing.assert_array_equal(found.items[:, 1, 1] == found.items[0, 1, 1], [True, way == "neither"])
