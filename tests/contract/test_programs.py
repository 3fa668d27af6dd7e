"""How many programs a first fit, score and transform compile in each family, and that other numbers compile none."""

from __future__ import annotations

import numpy as np
import pytest

from latentbits import (
    BernoulliMixture,
    BernoulliProduct,
    BinarySparseCoding,
    ClippedGaussian,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
)
from latentbits.core import compilation

COLD = {"init_sparseness": 0.3, "temperature": 2.0}
# class, size, settings to begin with, settings that are numbers, the most programs
FAMILIES = {
    "product": (BernoulliProduct, (), {}, [{"smoothing": 0.5}], 8),
    "mixture": (BernoulliMixture, (2,), {"n_init": 1}, [{"smoothing": 0.5}], 12),
    "trait": (LatentTrait, (1,), {"weight_prior": 2.0}, [{"weight_prior": 3.0}], 16),
    "clipped": (ClippedGaussian, (1,), {}, [{"correction": 0.3}], 16),
    "machine": (CombinationMachine, (2,), {}, [{"weight_prior": 2.0}], 26),
    "sparse coding": (BinarySparseCoding, (2,), {"n_init": 1}, [{"recipe": COLD}], 20),
    "noisy OR": (NoisyOrNetwork, ((2,),), {}, [{"prior": (1.0, 2.0)}, {"leak": 0.01}, {"n_updates": 60}], 14),
}
EVERYWHERE = [{"random_state": 1}, {"max_iter": 7}, {"max_iter": 13}, {"tol": 1e-3}]


def answer(cls, size, settings, table):
    model = cls(*size, **{"random_state": 0, "max_iter": 5} | settings)
    model.fit(table)
    model.score(table)
    model.transform(table)


@pytest.mark.slow("seven families, each fitted many times")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", FAMILIES)
def test_numbers_compile_nothing(name):
    cls, size, settings, numbers, most = FAMILIES[name]
    rng = np.random.default_rng(0)
    kind = rng.integers(0, 2, (150, 1))
    table = (rng.random((150, 6)) < np.where(kind, 0.8, 0.2) * np.linspace(0.4, 1, 6)).astype(float)
    if cls is BinarySparseCoding:
        table += 0.1 * rng.normal(size=table.shape)
    before = len(compilation.made())
    answer(cls, size, settings, table)
    first = compilation.made()[before:]
    assert len(first) <= most, [one.name for one in first]
    known = len(compilation.made())
    for other in (*EVERYWHERE, *numbers):
        answer(cls, size, settings | other, table)
        new = [one.name for one in compilation.made()[known:]]
        assert not new, (other, new)
