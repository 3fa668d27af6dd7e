"""Hidden bits in every family: their probabilities are ratios of likelihoods, however steep columns are.

P(bit = 1 | observed) = p(observed, bit = 1) / p(observed), by `complete` and by `score_samples`.  Where both sum over
the same nodes, grids in tests/models say whether there are enough.
Parameters are those of a fit, or set, and then made steeper: learning would not come as far.
"""

from __future__ import annotations

import copy
import warnings

import numpy as np
import pytest
from made import made, set_to
from scipy.special import expit, logit
from tests.fitted import fitted, table
from tests.tables import with_holes

from latentbits import LatentTrait, TraitMaps
from latentbits.core.errors import PrecisionWarning
from latentbits.estimators.families import families
from latentbits.models.latent_trait import map_params
from latentbits.models.latent_trait.column_kinds import Params as Items

ALIKE = 1e-4  # of a probability, beyond what the errors of the likelihoods allow
SURE = 1e-7  # of a bit that is all but certain
# by how much log-odds or slopes are multiplied, and the share of a clipped column's variance that its factors have
STEEPNESS = {"ordinary": (1.0, 0.6), "steep": (8.0, 0.95), "near-deterministic": (500.0, 0.999)}
NONE = np.zeros(0)


def _sharper(p, times):
    return np.clip(expit(times * logit(np.clip(p, SURE, 1 - SURE))), SURE, 1 - SURE)


def _trees(params, times):
    transition = np.asarray(params.transition) ** min(times, 20.0) + SURE
    transition = transition / transition.sum(-1, keepdims=True)
    return params.replace(transition=transition, emission=_sharper(params.emission, times))


def _machine(params, times):
    """Couplings as strong as that, up to those with which one state has nearly all the weight, and log Z by its sum."""
    times = min(times, 20.0)
    w, hidden, inputs = (times * np.asarray(x) for x in (params.weights, params.hidden_bias, params.input_bias))
    states = (np.arange(2 ** len(hidden))[:, None] >> np.arange(len(hidden))) & 1
    field = inputs + states @ w
    log_z = np.logaddexp.reduce(states @ hidden + np.logaddexp(field, -field).sum(1))
    return params.replace(weights=w, hidden_bias=hidden, input_bias=inputs, log_partition=np.asarray(log_z))


def _clipped(params, share):
    """Columns whose factors have this share of their variance, thresholds at the same quantiles."""
    w, phi, psi = (np.asarray(x) for x in (params.weights, params.phi, params.psi))
    size = np.sum(w**2, 1)
    by = np.sqrt(share / np.maximum(size, 1e-3))
    return params.replace(weights=by[:, None] * w, phi=phi / np.sqrt(size + psi), psi=1 - by**2 * size)


def _steeper(name, params, times, share):
    if name in ("product", "mixture"):
        return params.replace(means=_sharper(params.means, times))
    if name in ("latent-tree", "chow-liu-tree"):
        return _trees(params, times)
    if name == "latent-trait":
        return params.replace(weights=times * params.weights, bias=times * params.bias)
    if name == "clipped-gaussian":
        return _clipped(params, share)
    if name == "combination-machine":
        return _machine(params, times)
    assert name == "noisy-or", f"say here what steep means for the family {name!r}"
    return params.replace(weights=tuple(times * w for w in params.weights))


def _a_map(q):
    w, b = np.array([[1.3, 0.2], [0.9, -0.8], [1.1, 0.6], [-0.7, 1.0], [0.4, 1.6], [1.5, 0.1]])[:, :q], 0.3 * np.ones(6)
    return set_to(LatentTrait(q), Items, w, b * [1, -2, 0, 1, 2, -1], NONE, NONE, NONE)


def _two_maps():
    w = np.array([[1.3, 0.9, 1.1, -0.7, 0.4, 1.5], [0.2, 1.8, -1.1, 0.7, 0.9, -1.5]])[..., None]
    b = np.array([[0.3, -0.6, 0.0, 0.3, 0.6, -0.3], [0.5, 0.1, -0.4, -0.8, 0.2, 0.0]])
    numbers = np.log([0.6, 0.4]), w, b, np.zeros((2, 0)), NONE, NONE
    return set_to(TraitMaps(2, 1), map_params.Params, *numbers)


MADE = {
    "latent-trait in one dimension": lambda: _a_map(1),
    "latent-trait in two dimensions": lambda: _a_map(2),
    "latent-trait on two maps": _two_maps,
    "combination-machine": lambda: made("combination-machine"),
    "noisy-or": lambda: made("noisy-or"),
}
OF_BITS = [one.name for one in families("bits") if one.rows[0] == "bits" and one.name != "latent-trait"]
NAMES = sorted({*OF_BITS, *MADE})


def rows_of(name):
    """A few rows with holes, one without any observed bit, and one of nothing but ones."""
    X = with_holes(table(name if name in OF_BITS else "latent-trait")[:14], 0.3, seed=1)
    X[0], X[1] = np.nan, 1
    X[1, -1] = np.nan
    return X


SLOW = pytest.mark.slow("nodes as close as columns are steep")
CASES = [
    pytest.param(name, how, marks=[SLOW] if (name, how) == ("clipped-gaussian", "near-deterministic") else [])
    for name in NAMES
    for how in STEEPNESS
]


@pytest.mark.parametrize(("name", "steepness"), CASES)
def test_hidden_bits_have_the_ratio_of_likelihoods(name, steepness):
    model = copy.deepcopy(MADE[name]() if name in MADE else fitted(name))
    model.params_ = _steeper(name.split(" ")[0], model.params_, *STEEPNESS[steepness])
    model.dtype = "float64"
    model.__dict__.pop("feature_names_in_", None)  # rows come without
    X = rows_of(name)
    places = np.argwhere(np.isnan(X))
    with_one = X[places[:, 0]]
    with_one[np.arange(len(places)), places[:, 1]] = 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # errors are asked for
        filled = model.complete(X)
        known, one = model.log_likelihoods(X), model.log_likelihoods(with_one)
    before = np.asarray(known.value, np.float64)[places[:, 0]]
    ratio = np.exp(np.asarray(one.value, np.float64) - before)
    slack = ratio * 3 * (np.asarray(one.error) + np.asarray(known.error)[places[:, 0]])
    assert len(places) >= 30
    assert np.all(np.isfinite(before))
    np.testing.assert_array_equal(filled[~np.isnan(X)], X[~np.isnan(X)])
    off = np.abs(filled[tuple(places.T)] - ratio)
    assert np.all(off <= ALIKE + slack), f"off by {off.max():.2g}, and {slack[np.argmax(off)]:.2g} is allowed"
