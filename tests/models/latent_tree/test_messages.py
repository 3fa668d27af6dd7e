"""Sums over a tree, against sums over all hidden states."""

from __future__ import annotations

from functools import partial

import equinox as eqx
import jax
import numpy as np
import pytest
from tests.models.latent_tree.twin import PAIRS, WEIGHTS, close, joint_of, random_params, rows, sums_of
from tests.models.steps import batch_of

from latentbits.core.tree import double
from latentbits.models.latent_tree import model as latent_tree

MODEL = latent_tree.model(3, softening=0.2)  # which is for learning alone
CASES = [(*PAIRS[0], 0.3), (*PAIRS[1], 0.3), ([[1, 4, 1, 2]], [2, 3, 1, 2], 0.0)]


@partial(jax.jit, static_argnames="complete")
def everything(p, table, complete):
    """Ask a model all that it says of rows, in one program."""
    batch, shared = batch_of(table, WEIGHTS, complete), MODEL.prepare(p, None, None)
    counted = {"stats": MODEL.e_step(p, shared, batch, None)[0]}
    if complete:
        return counted
    found = MODEL.infer(p, shared, batch)
    return counted | {
        "log p": MODEL.log_likelihood(p, shared, batch).value,
        "mean": found.mean,
        "mode": found.mode,
        "completed": MODEL.complete(p, shared, batch),
        "decoded": MODEL.decode(p, found.mean),
    }


@pytest.mark.parametrize(("parents", "sizes", "missing"), CASES, ids=["chain and star", "fork and forest", "no holes"])
def test_likelihood_posteriors_and_expected_counts_are_sums_over_all_states(parents, sizes, missing):
    p, table = random_params(parents, sizes), rows(12, len(sizes), missing)
    with double():
        found = jax.tree.map(np.asarray, everything(p, table, complete=not missing))
    stats, wanted = found["stats"], sums_of(p, table, WEIGHTS)
    close(stats.n_rows, WEIGHTS.sum())
    close(stats.log_likelihood.sum(), wanted.log_p)
    close(stats.members, wanted.members)
    for name in ("moved", "ones", "zeros"):
        close(getattr(stats.counts, name), getattr(wanted, name))
    if not missing:
        return
    m, d, k = p.emission.shape
    joint, every = joint_of(p, table)
    total = joint.sum((0, 1))
    close(found["log p"], np.log(total))
    belief = np.einsum("mar,ajt->rmjt", joint / total, np.eye(k)[every])
    close(found["mean"], belief.reshape(len(table), -1))
    close(found["completed"], np.einsum("rmjt,mjt->rj", belief, p.emission))
    close(found["decoded"], found["completed"])
    tree, states = np.unravel_index(joint.reshape(-1, len(table)).argmax(0), joint.shape[:2])
    mode = np.zeros((len(table), m, d, k))
    mode[np.arange(len(table)), tree] = np.eye(k)[every[states]]
    np.testing.assert_array_equal(found["mode"], mode.reshape(len(table), -1))


def test_a_hub_of_contrary_bits_is_no_number_too_small():
    """Products of 300 messages: 0 in float32 for every state, and far apart between states along the way."""
    d = 300
    p = random_params([[d, *[0] * (d - 1)]], [2] * d)
    moves = np.where((p.parent == d)[..., None, None], 0.5, np.eye(2))
    sure = np.broadcast_to([1e-6, 1 - 1e-6], p.emission.shape)
    p = eqx.tree_at(lambda q: (q.transition, q.emission), p, (moves, sure))
    table = (np.arange(d) < d // 2).astype(np.uint8)[None]

    @jax.jit
    def log_p(p):
        shared = jax.tree.map(lambda x: x.astype(np.float32) if x.dtype == float else x, MODEL.prepare(p, None, None))
        return MODEL.log_likelihood(p, shared, batch_of(table, np.ones(1), True, np.float32)).value

    with double():
        np.testing.assert_allclose(log_p(p), np.log([1e-6, 1 - 1e-6]).sum() * (d // 2), rtol=1e-5)
