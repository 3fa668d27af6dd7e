"""The table of the contract tests: every model, with data to learn from and what it is excused from, by name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests import tables
from tests.tables import as_bytes

from latentbits.core.model import Model
from latentbits.models import product
from latentbits.models.binary_sparse_coding import model as binary_sparse_coding
from latentbits.models.binary_sparse_coding.recipes import OURS
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.combination_machine import model as combination_machine
from latentbits.models.combination_machine.recipes import Recipe
from latentbits.models.latent_trait import curved, mixture_of_maps
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_tree import model as latent_tree
from latentbits.models.mixture import model as mixture
from latentbits.models.noisy_or import model as noisy_or


class Case(NamedTuple):
    """One model under contract.

    `excused` maps a clause of the contract to the reason why the model cannot keep it.  Of each family one case is
    quick; `make test-all` has the others, which are `slow`.
    """

    name: str
    model: Model
    table: np.ndarray
    excused: dict[str, str]
    slow: bool = False


def classed(**settings):
    """Draw bits of latent classes, as engines take them."""
    return as_bytes(tables.classes(**settings))


def answered(**settings):
    """Draw answers of normal traits, as engines take them."""
    return as_bytes(tables.answers(seed=2, **settings))


SAMPLED = "its statistics are sampled: the objective is the joint probability of a Gibbs state"
SAMPLED_GRADIENT = "its gradient is sampled: the objective is how far rows are above the chains"
STEPS_BACK = "its optimiser may take a bad step and goes back at the next pass"
ONE_BY_ONE = "every unit is looked for from new starts, which may be worse than none"
TRUNCATED = "rows are left out by an evidence threshold, which moves"
REAL = "its rows are real numbers, which cannot be summed over: its own tests have a twin"
ACCELERATED = "an extrapolated step may go too far, and is taken back at the next pass"
SETTLED = "rows begin where the last of their chunk has settled, and extrapolation makes more of what that changes"
NO_ASCENT = "it learns from moments in one pass, and its objective is no likelihood"
POINTS = "the points of the objective are drawn for every update"
OWN_CHAINS = "every row has the random numbers of its position, and the same row written out has several"
OWN_PLACE = "rows are held out, and drawn, by their number"
BLOCKS = "updates are made from blocks of rows"
DRAWN = "components that are not used are drawn rows"

CASES = [
    Case("product", product.model(1.0), classed(missing=0.2), {}),
    Case("mixture", mixture.model(3, accelerate=False), classed(k=3), {}),
    Case("latent tree", latent_tree.model(3, accelerate=False), classed(k=3, missing=0.2), {}),
    Case("Chow-Liu tree", latent_tree.model(hidden=False, accelerate=False), classed(k=3, missing=0.2), {}),
    Case(
        "sparse coding",
        binary_sparse_coding.model(4, 4, 4, OURS._replace(temperature=1.0, cut=None, parameter_noise=0.0), n_iter=12),
        tables.bars(),
        {"missing": REAL, "weighted fit": DRAWN},
    ),
    Case(
        "noisy-OR network",
        noisy_or.model((3,), alpha=1.2, n_updates=4, n_joint=0, n_sweeps=4, n_samples=3, batch_size=500),
        classed(missing=0.2),
        {"monotone": SAMPLED, "written": OWN_CHAINS, "weighted fit": OWN_CHAINS},
    ),
    Case(
        "combination machine",
        combination_machine.model(2, learner="gradient", n_epochs=2, held_out=0.0),
        classed(missing=0.2),
        {"monotone": STEPS_BACK, "weighted fit": BLOCKS},
    ),
    Case("latent trait", latent_trait.model(1, "variational", accelerate=False), answered(missing=0.2), {}),
    Case("clipped Gaussian", clipped_gaussian.model(1), answered(missing=0.2), {"monotone": NO_ASCENT}),
    Case(
        "curved latent trait",
        curved.model(2, (4,), 5, 3.0, n_epochs=2, batch_size=100, n_rows=240.0),
        answered(missing=0.2),
        {"monotone": POINTS, "weighted fit": BLOCKS},
        slow=True,
    ),
    Case(
        "mixture with holes",
        mixture.model(3, 0.5, by_newton=True),
        classed(k=3, missing=0.2),
        {"monotone": ACCELERATED},
        slow=True,
    ),
    Case("mixture by splitting", mixture.model(5, 1.0, "split"), classed(k=5), {"monotone": ACCELERATED}, slow=True),
    Case(
        "mixture, smoothing chosen",
        mixture.model(3, "auto"),
        classed(k=3, missing=0.2),
        {"monotone": "the choice of smoothing may lower it, and an extrapolated step"},
        slow=True,
    ),
    Case(
        "mixture of latent trees",
        latent_tree.model((1, 2, 3, 2, 4, 2), 2, smoothing=0.5, accelerate=False),
        classed(k=3),
        {},
        slow=True,
    ),
    Case(
        "truncated sparse coding",
        binary_sparse_coding.model(4, 2, 3, OURS._replace(temperature=1.0, cut=(2, 4)), n_iter=8),
        tables.bars(missing=0.2),
        {"missing": REAL, "monotone": TRUNCATED, "weighted fit": DRAWN},
        slow=True,
    ),
    Case(
        "noisy-OR network of two layers",
        noisy_or.model((3, 2), alpha=1.2, n_updates=4, n_sweeps=4, n_samples=3, batch_size=500),
        classed(missing=0.2),
        {"monotone": SAMPLED, "written": OWN_CHAINS, "weighted fit": OWN_CHAINS},
        slow=True,
    ),
    Case(
        "combination machine with held-out rows",
        combination_machine.model(2, learner="gradient", n_epochs=2),
        classed(missing=0.2),
        {"monotone": STEPS_BACK, "written": OWN_PLACE, "linear": OWN_PLACE, "weighted fit": OWN_PLACE},
        slow=True,
    ),
    Case(
        "combination machine by chains",
        combination_machine.model(2, learner="gradient", sampled=True, n_epochs=2, recipe=Recipe(n_chains=20)),
        classed(),
        {"monotone": SAMPLED_GRADIENT, "written": OWN_PLACE, "linear": OWN_PLACE, "weighted fit": OWN_CHAINS},
        slow=True,
    ),
    Case(
        "combination machine by pursuit",
        combination_machine.model(2, learner="pursuit", refit_biases=False),
        classed(),
        {"monotone": ONE_BY_ONE, "written": OWN_CHAINS, "weighted fit": OWN_CHAINS},
        slow=True,
    ),
    Case(
        "latent trait by quadrature", latent_trait.model(1), answered(missing=0.2), {"monotone": ACCELERATED}, slow=True
    ),
    Case(
        "latent trait by sampling",
        latent_trait.model(2, "monte_carlo"),
        answered(),
        {"monotone": ACCELERATED},
        slow=True,
    ),
    Case(
        "trait maps by quadrature",
        mixture_of_maps.model(2, 1, "quadrature"),
        classed(k=3, missing=0.2),
        {"monotone": ACCELERATED, "weighted fit": SETTLED},
        slow=True,
    ),
    Case(
        "trait maps by the bound, then by nodes",  # as they are learned where nothing is asked for
        mixture_of_maps.model(2, 1, "auto", accelerate=False),
        classed(k=3, missing=0.2),
        {},
        slow=True,
    ),
    Case(
        "clipped Gaussian by likelihood",
        clipped_gaussian.model(1, learner="likelihood", accelerate=False),
        answered(missing=0.2),
        {},
        slow=True,
    ),
    Case(
        "accelerated clipped Gaussian",
        clipped_gaussian.model(2, learner="likelihood"),
        answered(),
        {"monotone": ACCELERATED, "weighted fit": "until it has converged, extrapolation enlarges what rounding does"},
        slow=True,
    ),
]


def each(cases: Iterable[Case] = CASES) -> list[Any]:
    """The cases as parameters of a test, named, and marked where they are slow."""
    slow = pytest.mark.slow("another way of learning of a family that is under contract")
    return [pytest.param(case, id=case.name, marks=[slow] if case.slow else []) for case in cases]
