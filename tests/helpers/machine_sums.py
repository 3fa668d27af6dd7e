"""Small combination machines, and sums over their states by the paper's equations (`equations.py`)."""

from __future__ import annotations

from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from latentbits.models.combination_machine import equations
from latentbits.models.combination_machine.bases import Base
from latentbits.models.combination_machine.machine import Machine

STEP, REACH = 0.8, 11.2  # a trapezoidal rule this fine is right to 1e-13 for Gaussians of unit variance


def single_base(field: jnp.ndarray) -> Base:
    """Make one product distribution, for annealed chains to begin at."""
    return Base(jnp.zeros((1,), field.dtype), jnp.reshape(field, (1, -1)))


class Sums(NamedTuple):
    """log of the sum of exp(-E) over what is not observed, and means under it."""

    log_sum: float
    products: np.ndarray
    hidden: np.ndarray
    inputs: np.ndarray
    squares: np.ndarray


def some_machine(n_hidden: int, n_inputs: int, seed: int = 0, size: float = 0.8, bias: float = 0.0) -> Machine:
    """Draw weights and biases, those of the hidden units around `bias`; call it where float64 exists."""
    rng = np.random.default_rng(seed)
    return Machine(
        jnp.asarray(rng.normal(size=(n_hidden, n_inputs)) * size),
        jnp.asarray(rng.normal(size=n_hidden) * 0.5 + bias),
        jnp.asarray(rng.normal(size=n_inputs) * 0.3),
    )


def arrays(machine: Machine | tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    """Take weights, hidden and input biases as float64."""
    return tuple(np.asarray(leaf, float) for leaf in jax.tree.leaves(machine)[:3])


def sums(kind: str, machine: Machine, x: np.ndarray | None = None, observed: np.ndarray | None = None) -> Sums:
    """Sum over all completions of one row (None: of nothing) and all hidden states; real inputs on a grid."""
    w, theta, b = arrays(machine)
    x, observed = (np.zeros(len(b)) if v is None else np.asarray(v, float) for v in (x, observed))
    grid = np.array([-1.0, 1.0]) if kind == "binary" else np.arange(-REACH, REACH + STEP / 2, STEP)
    missing = np.flatnonzero(observed == 0)
    x_all = np.tile(x, (len(grid) ** len(missing), 1))
    x_all[:, missing] = np.array(list(product(grid, repeat=len(missing)))).reshape(len(x_all), len(missing))
    h_all = equations.states(len(theta))
    by, volume = (equations.energy, 1.0) if kind == "binary" else (equations.real_energy, STEP ** len(missing))
    minus_energy = np.log(volume) - by(w, theta, x_all[:, None], h_all, b)
    top = minus_energy.max()
    p = np.exp(minus_energy - top)
    total = p.sum()
    p /= total
    p_x, p_h = p.sum(1), p.sum(0)
    return Sums(top + np.log(total), h_all.T @ p.T @ x_all, p_h @ h_all, p_x @ x_all, p_x @ x_all**2)


def terms(kind: str, machine: Machine) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """List all hidden states, the logs of their terms of Z (2.2, 2.8), and the inputs' means given each."""
    w, theta, b = arrays(machine)
    h = equations.states(len(theta))
    field = equations.combined_weight(w, h, b)
    if kind == "binary":
        return h, equations.log_terms(w, theta, h, b), np.tanh(field)
    return h, equations.real_log_terms(w, theta, h, b), field


def log_probabilities(kind: str, machine: Machine | tuple[np.ndarray, ...], x: np.ndarray) -> np.ndarray:
    """Give log p of rows by the product form (2.4, 2.6)."""
    w, theta, b = arrays(machine)
    by = equations.log_probability if kind == "binary" else equations.real_log_density
    return by(w, theta, x, b)


def moments_over(h: np.ndarray, g: np.ndarray, x: np.ndarray) -> tuple[float, tuple[np.ndarray, ...]]:
    """Take some of `terms`: the log of their sum, and E[h x], E[h], E[x] given that the state is one of them."""
    log_z = np.logaddexp.reduce(g)
    p = np.exp(g - log_z)
    return log_z, (h.T @ (p[:, None] * x), p @ h, p @ x)


def all_close(found: object, expected: object, **tolerance: float) -> None:
    """Compare log Z and moments, leaf by leaf."""
    for ours, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(ours, theirs, **tolerance)
