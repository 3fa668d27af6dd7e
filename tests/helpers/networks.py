"""Noisy-OR networks that were made, not learned: fitting one takes longer to compile than all that is done with it."""

import jax.numpy as jnp
import numpy as np

from latentbits import NoisyOrNetwork
from latentbits.core.tree import double, to_numpy
from latentbits.estimators.history import history_table
from latentbits.models.noisy_or.network import Params


def adopt(model, weights, biases, names=None):
    """The estimator as if `fit` had found these weights and biases."""
    with double():
        params = Params(*(tuple(jnp.asarray(x, jnp.float64) for x in xs) for xs in (weights, biases)))
        model.params_ = to_numpy(params)
    model.n_features_in_ = len(biases[0])
    if names is not None:
        model.feature_names_in_ = np.array(names, dtype=object)
    model.history_table_ = history_table([("layer 1", "joint", -500.0), ("layer 1", "joint", -400.0)])
    model.cost_history_ = np.array([9.0, 8.0])
    model.n_iter_, model.stop_reason_, model.objective_ = 2, "completed", -400.0
    model._expose()
    return model


def network(weights, biases, **settings):
    """A fitted `NoisyOrNetwork` with these weights, bottom first, and biases, inputs first."""
    return adopt(NoisyOrNetwork(tuple(len(w) for w in weights), **settings), weights, biases)
