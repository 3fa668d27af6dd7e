"""Plain sums over all states of a small combination machine in NumPy, straight from its energy (2.1, 2.5)."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from latentbits.models.combination_machine.bases import Base
from latentbits.models.combination_machine.machine import Machine

STEP, REACH = 0.8, 11.2  # a trapezoidal rule this fine is right to 1e-13 for Gaussians of unit variance


def single_base(field: jnp.ndarray) -> Base:
    """One product distribution, for annealed chains to begin at."""
    return Base(jnp.zeros((1,), field.dtype), field[None])


class Sums(NamedTuple):
    """log of the sum of exp(-E) over what is not observed, and means under it."""

    log_sum: float
    products: np.ndarray
    hidden: np.ndarray
    inputs: np.ndarray
    squares: np.ndarray


def some_machine(n_hidden: int, n_inputs: int, seed: int = 0, size: float = 0.8) -> Machine:
    """Random weights and biases; call it where float64 exists."""
    rng = np.random.default_rng(seed)
    return Machine(
        jnp.asarray(rng.normal(size=(n_hidden, n_inputs)) * size),
        jnp.asarray(rng.normal(size=n_hidden) * 0.5),
        jnp.asarray(rng.normal(size=n_inputs) * 0.3),
    )


def sums(kind: str, machine: Machine, x: np.ndarray, observed: np.ndarray) -> Sums:
    """Over all completions of one row and all hidden states; real inputs on a grid."""
    w, theta, b = (np.asarray(v, float) for v in (machine.weights, machine.hidden_bias, machine.input_bias))
    grid = np.array([-1.0, 1.0]) if kind == "binary" else np.arange(-REACH, REACH + STEP / 2, STEP)
    missing = np.flatnonzero(np.asarray(observed) == 0)
    x_all = np.tile(np.asarray(x, float), (len(grid) ** len(missing), 1))
    x_all[:, missing] = np.array(list(product(grid, repeat=len(missing)))).reshape(len(x_all), len(missing))
    h_all = np.array(list(product([0.0, 1.0], repeat=len(theta))))
    minus_energy = (x_all @ w.T + theta) @ h_all.T + (x_all @ b)[:, None]
    if kind == "real":
        minus_energy += len(missing) * np.log(STEP) - 0.5 * (x_all**2).sum(1)[:, None]
    top = minus_energy.max()
    p = np.exp(minus_energy - top)
    total = p.sum()
    p /= total
    p_x, p_h = p.sum(1), p.sum(0)
    return Sums(top + np.log(total), h_all.T @ p.T @ x_all, p_h @ h_all, p_x @ x_all, p_x @ x_all**2)
