"""Tables and parameters of the latent trait model, and the paper's equations of rows in which bits are missing."""

from __future__ import annotations

import numpy as np
from scipy.special import expit
from tests.models.steps import unchecked

from latentbits.core.batch import MISSING
from latentbits.models.latent_trait.column_kinds import Params


def simulate(n=240, d=6, q=1, seed=0, missing=0.0, scale=1.3):
    """Draw answers, and the weights and biases behind them."""
    rng = np.random.default_rng(seed)
    w, b = scale * rng.normal(size=(d, q)), rng.normal(size=d)
    table = (rng.random((n, d)) < expit(rng.normal(size=(n, q)) @ w.T + b)).astype(np.uint8)
    table[rng.random((n, d)) < missing] = MISSING
    return table, w, b


def parameters(w, b) -> Params:
    return unchecked(Params, w, b, *[np.zeros(0)] * 3)


def by_row(equation, table, w, b):
    """Ask an equation of (t, w, b) for each row alone, of the model of the bits that are observed in it."""
    seen = table != MISSING
    return np.stack([equation(row[None, at].astype(float), w[at], b[at])[0] for row, at in zip(table, seen)])
