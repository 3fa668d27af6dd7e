"""The families of the benchmark beside peers: what they call a likelihood is one, and their tables are of bits."""

from __future__ import annotations

import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from benchmarks.peers import __main__ as run  # noqa: E402
from benchmarks.peers.families import chow_liu, noisy_or  # noqa: E402

D = 4
CHAIN = np.array([-1, 0, 1, 0])


def made_up(family):
    """Parameters of a model of four columns."""
    rng = np.random.default_rng(0)
    if family == "chow_liu":
        return {"parent": CHAIN, "ones": np.where(CHAIN[:, None] < 0, 0.3, rng.random((D, 2)))}
    if family == "latent_tree":
        moves = rng.random((D, 3, 3))
        moves[0] = moves[0, :1]
        return {"parent": CHAIN, "transition": moves / moves.sum(2, keepdims=True), "emission": rng.random((D, 3))}
    if family == "combination_machine":
        return {"weights": rng.normal(size=(3, D)), "hidden": rng.normal(size=3), "visible": rng.normal(size=D)}
    if family == "noisy_or":
        return {"weights": rng.random((3, D)), "leak": 0.1 * rng.random(D), "prior": rng.random(3)}
    if family == "latent_trait":
        return {"weights": rng.normal(size=(D, 2)), "bias": rng.normal(size=D)}
    weights = np.array([[0.7, 0.1], [0.6, -0.3], [-0.5, 0.5], [0.1, 0.6]])
    correlation = weights @ weights.T
    np.fill_diagonal(correlation, 1)
    return {"correlation": correlation, "threshold": rng.normal(size=D), "factors": np.array([[2]])}


FAMILIES = ["chow_liu", "latent_tree", "combination_machine", "noisy_or", "latent_trait", "clipped_gaussian"]


@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_of_all_rows_sum_to_one(family):
    rows = np.array(list(product((0, 1), repeat=D)), np.uint8)
    params, held_out = made_up(family), run.load(family).held_out
    each = np.array([held_out(params, row[None]) for row in rows])
    assert np.exp(each).sum() == pytest.approx(1, abs=1e-4)
    assert each.std() > 0.1
    assert held_out(params, rows) == pytest.approx(each.mean())


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_holds_what_the_frame_asks_for(family):
    module = run.load(family)
    assert next(iter(module.CONTENDERS)) == "latentbits"
    assert set(module.WHY) <= set(module.CONTENDERS)
    assert "rows" in module.GROWTH
    for made in module.tables(quick=True).values():
        assert made.train.shape[1] == made.test.shape[1]
        assert set(np.unique(made.train)) == {0, 1}


def test_families_need_neither_us_nor_jax():
    names = ", ".join(f"benchmarks.peers.families.{family}" for family in FAMILIES)
    look = f"import sys, {names}; sys.exit(bool({{'latentbits', 'jax', 'scipy', 'sklearn'}} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", look], cwd=ROOT, check=False).returncode == 0


@pytest.mark.parametrize("module", [chow_liu, noisy_or])
def test_plain_numpy_learns_more_than_independent_bits(module):
    (made,) = module.tables(quick=True).values()
    found = module.numpy_(made.train.astype(np.float32), seed=0, **made.settings)
    p = made.train.mean(0)
    alone = np.log(np.where(made.test == 1, p, 1 - p)).sum(1).mean()
    assert module.held_out(found, made.test) > alone + 0.1
