"""What is compiled ahead is what is called: nothing more is compiled by the fit itself, nor by what follows it."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

from latentbits import BernoulliMixture, BinarySparseCoding, NoisyOrNetwork
from latentbits.core import programs
from latentbits.engines import ahead

pytestmark = pytest.mark.slow("compiled ahead, all of it")


@pytest.mark.parametrize(
    "estimator",
    [BernoulliMixture(3, random_state=0, n_init=2), NoisyOrNetwork((2,), random_state=0)],
)
def test_what_is_foreseen_is_what_a_fit_needs(estimator):
    table = (np.random.default_rng(0).random((90, 7)) < 0.4).astype(np.uint8)
    estimator.foresee(table)
    before = programs.made()
    estimator.fit(table)
    later = [one.name for one in programs.made()[len(before) :]]
    assert not [name for name in later if name.endswith(("begin", "chunk_stats", "advance"))]


def test_what_follows_a_fit_is_compiled_with_it(monkeypatch):
    monkeypatch.setattr(ahead, "using", importlib.reload(ahead).using)  # as it is outside of tests
    table = (np.random.default_rng(0).random((90, 9)) < 0.4).astype(np.uint8)
    model = BernoulliMixture(3, random_state=0, n_init=1).fit(table)
    before = programs.made()
    model.score(table)
    model.transform(table)
    assert programs.made() == before


def test_of_starts_side_by_side_the_use_of_one_is_foreseen(monkeypatch):
    foreseen = []
    monkeypatch.setattr(ahead, "using", lambda model, likelihood, means, engine, dtype, params: foreseen.append(params))
    BinarySparseCoding(4, random_state=0).foresee(np.random.default_rng(0).normal(size=(90, 7)))
    (params,) = foreseen
    assert params.components.shape == (4, 7)
