"""The table of the contract tests: every model, with data to learn from and what it is excused from, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
import sketches

from latentbits.core.model import Model
from latentbits.models import product
from latentbits.models.binary_sparse_coding import model as binary_sparse_coding
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.combination_machine import model as combination_machine
from latentbits.models.latent_trait import curved, mixture_of_maps
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_tree import model as latent_tree
from latentbits.models.mixture import model as mixture
from latentbits.models.noisy_or import model as noisy_or


class Case(NamedTuple):
    """One model under contract.

    `excused` maps a clause of the contract to the reason why the model cannot keep it.  What is compiled for a `slow`
    case takes seconds a test: `make test-all` tests it, and `make test` another of its family.
    """

    name: str
    model: Model
    table: np.ndarray
    excused: dict[str, str]
    slow: bool = False


def bits(n=700, d=6, k=2, seed=0, missing=0.0):
    rng = np.random.default_rng(seed)
    means = rng.beta(0.6, 0.6, (k, d)) * 0.9 + 0.05
    table = (rng.random((n, d)) < means[rng.integers(k, size=n)]).astype(np.uint8)
    table[rng.random((n, d)) < missing] = 255
    return table


def bars(n=600, seed=1, missing=0.0):
    """Two horizontal and two vertical bars on a 2 x 2 grid of pixel pairs, real-valued."""
    rng = np.random.default_rng(seed)
    W = np.array([[5, 5, 0, 0, 0], [0, 0, 5, 5, 0], [-5, 0, -5, 0, 0], [0, 0, 0, -5, 5]], float)
    table = (rng.random((n, 4)) < 0.35) @ W + rng.normal(size=(n, 5))
    table[rng.random(table.shape) < missing] = np.nan
    return table


def answers(n=600, d=6, seed=2, missing=0.0):
    rng = np.random.default_rng(seed)
    w, b = rng.uniform(0.5, 2, d), rng.normal(size=d)
    table = (rng.random((n, d)) < 1 / (1 + np.exp(-(rng.normal(size=(n, 1)) * w + b)))).astype(np.uint8)
    table[rng.random((n, d)) < missing] = 255
    return table


SAMPLED = "its statistics are sampled: the objective is the joint probability of a Gibbs state"
SAMPLED_GRADIENT = "its gradient is sampled: the objective is how far rows are above the chains"
STEPS_BACK = "its optimiser may take a bad step and goes back at the next pass"
TRUNCATED = "rows are left out by an evidence threshold, which moves"
REAL = "its rows are real numbers, which cannot be summed over: its own tests have a twin"
ACCELERATED = "an extrapolated step may go too far, and is taken back at the next pass"
NO_ASCENT = "it learns from moments in one pass, and its objective is no likelihood"
POINTS = "the points that the objective is told by are drawn anew for every update"
NEWTON = "an M-step that is one Newton step may overshoot"

CASES = [
    Case("product", product.model(), bits(), {}),
    Case("product with holes", product.model(1.0), bits(missing=0.2), {}),
    Case("mixture", mixture.model(3, accelerate=False), bits(k=3), {}),
    Case(
        "mixture with holes",
        mixture.model(3, 0.5, by_newton=True),
        bits(k=3, missing=0.2),
        {"monotone": ACCELERATED},
        slow=True,
    ),
    Case("mixture by splitting", mixture.model(5, 1.0, "split"), bits(k=5), {"monotone": ACCELERATED}, slow=True),
    Case(
        "mixture, smoothing chosen",
        mixture.model(3, "auto"),
        bits(k=3, missing=0.1),
        {"monotone": "the choice of smoothing may lower it, and an extrapolated step"},
        slow=True,
    ),
    Case("latent tree", latent_tree.model(3), bits(k=3, missing=0.1), {}, slow=True),
    Case("mixture of latent trees", latent_tree.model((1, 2, 3, 2, 4, 2), 2, smoothing=0.5), bits(k=3), {}, slow=True),
    Case("Chow-Liu tree", latent_tree.model(hidden=False), bits(k=3, missing=0.2), {}),
    Case(
        "sparse coding",
        binary_sparse_coding.model(4, 2, 3, n_iter=8, cut=(2, 4)),
        bars(missing=0.1),
        {"missing": REAL, "monotone": TRUNCATED},
        slow=True,
    ),
    Case(
        "exact sparse coding",
        binary_sparse_coding.model(4, 4, 4, n_iter=12, parameter_noise=0.0),
        bars(),
        {"missing": REAL},
    ),
    Case(
        "noisy-OR network",
        noisy_or.model((3, 2), alpha=1.2, n_updates=4, n_sweeps=4, n_samples=3, batch_size=500),
        bits(missing=0.1),
        {"monotone": SAMPLED},
        slow=True,
    ),
    Case(
        "combination machine",
        combination_machine.model(2, learner="gradient", n_epochs=2),
        bits(missing=0.1),
        {"monotone": STEPS_BACK},
    ),
    Case(
        "combination machine by chains",
        combination_machine.model(2, learner="gradient", sampled=True, n_epochs=2, n_chains=20),
        bits(),
        {"monotone": SAMPLED_GRADIENT},
        slow=True,
    ),
    Case("adaptive quadrature", sketches.trait(), answers(missing=0.2), {"monotone": NEWTON}, slow=True),
    Case("latent trait", latent_trait.model(1), answers(missing=0.1), {"monotone": ACCELERATED}, slow=True),
    Case(
        "latent trait by the bound",
        latent_trait.model(1, "variational", accelerate=False),
        answers(missing=0.2),
        {},
    ),
    Case(
        "trait maps by the bound",
        mixture_of_maps.model(2, 1, "variational", accelerate=False),
        bits(k=3, missing=0.1),
        {},
        slow=True,
    ),
    Case(
        "trait maps",
        mixture_of_maps.model(2, 1, "quadrature"),
        bits(k=3, missing=0.1),
        {"monotone": ACCELERATED},
        slow=True,
    ),
    Case(
        "trait maps by the bound, then by nodes",  # as they are learned where nothing is asked for
        mixture_of_maps.model(2, 1, "auto", accelerate=False),
        bits(n=300, k=3, missing=0.1),
        {},
        slow=True,
    ),
    Case("clipped Gaussian", clipped_gaussian.model(1), answers(missing=0.1), {"monotone": NO_ASCENT}),
    Case(
        "clipped Gaussian by likelihood",
        clipped_gaussian.model(1, learner="likelihood", accelerate=False),
        answers(n=300, missing=0.1),
        {},
        slow=True,
    ),
    Case(
        "accelerated clipped Gaussian",
        clipped_gaussian.model(2, learner="likelihood"),
        answers(n=300),
        {"monotone": ACCELERATED},
        slow=True,
    ),
    Case(
        "curved latent trait",
        curved.model(2, (8,), 5, 3.0, n_epochs=2, batch_size=100, n_rows=600.0),
        answers(missing=0.1),
        {"monotone": POINTS},
        slow=True,
    ),
    Case("latent trait by sampling", latent_trait.model(2, "monte_carlo"), answers(), {"monotone": ACCELERATED}, True),
]


def each(cases: Iterable[Case], quick: str = "") -> list[Any]:
    """The cases as parameters of a test, named, and marked where they are slow, but for the one called `quick`."""
    return [
        pytest.param(case, id=case.name, marks=[pytest.mark.slow] if case.slow and case.name != quick else [])
        for case in cases
    ]
