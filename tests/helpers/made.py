"""Models whose parameters are set, with rows drawn alike: learning compiles for longer than all the rest."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax.numpy as jnp
import numpy as np
from networks import adopt as adopt_network
from tests.tables import NAMES, D, N, answers_and_truth, bars, classes, clipped

import latentbits
from latentbits.core.model import Measure, Stop
from latentbits.core.tree import double, to_numpy
from latentbits.engines.fit import FitResult
from latentbits.engines.monitor import Record
from latentbits.models.binary_sparse_coding.posterior import Params as Causes
from latentbits.models.combination_machine.machine import Params as Machine
from latentbits.models.latent_trait.column_kinds import Params as Items

__all__ = ["BARS", "MADE", "made", "rows_for", "set_to"]

BARS = np.array([[5, 5, 0, 0, 0, 0], [0, 0, 5, 5, 0, 0], [-5, 0, -5, 0, 0, 5], [0, 0, 0, -5, 5, 0]], float)
MADE = ("latent-trait", "item-response", "clipped-gaussian", "combination-machine", "binary-sparse-coding", "noisy-or")
HOLES = 0.1


def set_to(model: Any, kind: type, *numbers: Any, objective: float = -800.0, d: int = D) -> Any:
    """Leave an estimator as if a fit of two passes to d columns had found these parameters."""
    model.n_features_in_ = d
    with double():
        params = to_numpy(kind(*(jnp.asarray(x, jnp.float64) for x in numbers)))
    history = [Record(0, "em", Measure.LIKELIHOOD, i, value, 0.0, {}) for i, value in enumerate((-900.0, objective))]
    model._adopt(FitResult(params, None, objective, tuple(history), 2, Stop.CONVERGED, 0.1, n_rows=N))
    return model


@cache
def rows_for(name: str) -> np.ndarray:
    """Draw rows that the family describes, some of their cells missing."""
    if name in ("latent-trait", "item-response"):
        return answers_and_truth(missing=HOLES).X
    if name == "clipped-gaussian":
        return clipped(missing=HOLES).X
    return bars(missing=HOLES) if name == "binary-sparse-coding" else classes(missing=HOLES)


def made(name: str, model: Any = None) -> Any:
    """Give the estimator, or a new one, the parameters that `rows_for` are drawn from, or others like them."""
    if name in ("latent-trait", "item-response"):
        new = latentbits.LatentTrait(1) if name == "latent-trait" else latentbits.ItemResponse()
        model, truth, none = model or new, answers_and_truth(missing=HOLES), np.zeros(0)
        set_to(model, Items, truth.slopes, truth.intercepts, none, none, none)
    elif name == "clipped-gaussian":
        model = model or latentbits.ClippedGaussian(1, extraction="components")
        model.fit(rows_for(name))  # by moments, in no time
    elif name == "combination-machine":
        set_to(model := model or latentbits.CombinationMachine(2), Machine, *_machine())
    elif name == "binary-sparse-coding":
        model = model or latentbits.BinarySparseCoding(4, max_active=3, n_candidates=4)
        model.max_active_, model.n_candidates_ = 3, 4
        model.sparseness_history_, model.noise_history_ = np.array([1.3, 1.4]), np.array([1.1, 1.0])
        set_to(model, Causes, BARS, 1.0, 0.35, 0.0, 0.0)
    else:
        weights = [np.array([[3.0, 2.0, 0, 0, 0, 0.1], [0.5, 0, 4.0, 3.0, 0, 0]]), np.array([[2.0, 0.05]])]
        biases = [np.full(D, 0.1), np.array([0.02, 0.3]), np.array([0.4])]
        adopt_network(model := model or latentbits.NoisyOrNetwork((2, 1)), weights, biases)
        model.n_rows_ = float(N)
    model.feature_names_in_ = np.array(NAMES, dtype=object)
    return model


def _machine() -> tuple[Any, ...]:
    """Set two units, and log Z as the sum over their four states."""
    weights = np.array([[1.2, 0.8, -0.9, 0, 0.3, 0], [-0.4, 0, 0.7, 1.1, 0, -0.8]])
    hidden, inputs = np.array([-0.3, 0.4]), np.array([0.2, -0.1, 0, 0.3, -0.2, 0.1])
    states = np.array([[0, 0], [0, 1], [1, 0], [1, 1]])
    log_z = np.logaddexp.reduce(states @ hidden + np.log(2 * np.cosh(inputs + states @ weights)).sum(axis=1))
    return weights, hidden, inputs, log_z, 0.0, 1.0, 0.0
