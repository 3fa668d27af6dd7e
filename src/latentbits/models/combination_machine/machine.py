"""The influence combination machine itself: energy, product form, conditionals (Freund & Haussler 1994, section 2).

n inputs x, m hidden units h in {0, 1}, a weight for every pair and a bias for every unit:

    E(x, h) = - sum_i (w_i . x + theta_i) h_i - b . x                (2.1)   x in {-1, +1}^n
    E(x, h) = the same + |x|^2 / 2                                   (2.5)   x in R^n

The paper's machine has b = 0.  Given h the inputs are independent, and given x the hidden units are, so that each side
can be summed out:

    sum_h exp(-E) = exp(b . x) prod_i (1 + exp(w_i . x + theta_i))                  (2.4), (2.6)
    sum_x exp(-E) = exp(theta . h) prod_j 2 cosh(b_j + w(h)_j),   w(h) = sum_i h_i w_i      (2.2)
    int_x exp(-E) = exp(theta . h) (2 pi)^(n/2) exp(|b + w(h)|^2 / 2)                       (2.8)

The two kinds of inputs differ in one function, the log of the sum (integral) over a single input of exp(a x), and its
derivatives: `Units` holds it.

`equations.py` lists the paper's misprints.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Key
from scipy.special import expit

from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.module import Module
from latentbits.core.special import log_cosh

__all__ = [
    "BINARY",
    "REAL",
    "UNITS",
    "Machine",
    "Params",
    "Units",
    "energy",
    "hidden_field",
    "input_field",
    "log_weight",
    "machine_of",
    "sigmoid",
    "softplus",
    "some",
]


class Machine(Module):
    """Parameters of a machine; also anything of their shapes (a gradient, expected products of units).

    w -> weights, theta -> hidden_bias, b -> input_bias (zeros in the paper).
    """

    weights: Float[Array, "hidden inputs"]
    hidden_bias: Float[Array, " hidden"]
    input_bias: Float[Array, " inputs"]


class Params(Machine):
    """A machine that knows its log Z: what learning gives and a model file holds."""

    # log_partition, log_partition_error: log Z (2.2, 2.8) and its standard error, 0 where exact.  They are set at the
    # end of learning.
    log_partition: Float[Array, ""]
    log_partition_error: Float[Array, ""]
    # share of the annealed chains that count in an estimate of log Z; 1 where exact
    log_partition_effective: Float[Array, ""]
    # of the Gaussian prior that the weights were learned with; 0 for none, NaN where that is not known
    precision: Float[Array, ""]


class Units(NamedTuple):
    """Kind of inputs, as functions of the field a = b + w(h) that acts on one."""

    name: str  # "binary" or "real"
    # log of the sum over x of exp(a x): log 2 cosh a; or of the integral of exp(a x - x^2 / 2)
    log_sum: Callable[[Array], Array]
    mean: Callable[[Array], Array]  # E[x | a], its derivative: tanh a, or a
    draw: Callable[[Array, Array], Array]  # ``(key, a) -> x``
    base: Callable[[Array], Array]  # ``x -> log of the base measure``: 0, or -x^2 / 2


def _draw_sign(key: Key[Array, ""], a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    u = jax.random.uniform(key, a.shape, a.dtype, minval=-1, maxval=1)
    return jnp.where(u < jnp.tanh(a), 1, -1).astype(a.dtype)


def _draw_normal(key: Key[Array, ""], a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return a + jax.random.normal(key, a.shape, a.dtype)


def _tanh(a: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return namespace(a).tanh(a)


BINARY = Units("binary", lambda a: np.log(2.0) + log_cosh(a), _tanh, _draw_sign, jnp.zeros_like)
REAL = Units("real", lambda a: 0.5 * (a**2 + np.log(2 * np.pi)), lambda a: a, _draw_normal, lambda x: -0.5 * x**2)
UNITS = {"binary": BINARY, "real": REAL}


def machine_of(params: Params) -> Machine:
    """Take a machine without its log Z."""
    return Machine(params.weights, params.hidden_bias, params.input_bias)


def softplus(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute log(1 + exp x), of which XLA makes a far smaller program than of `jax.nn.softplus`."""
    xp = namespace(x)
    return xp.maximum(x, 0) + xp.log1p(xp.exp(-xp.abs(x)))


def sigmoid(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Compute the logistic function, the derivative of `softplus`."""
    found: Any = jax.nn.sigmoid(x) if on_device(x) else expit(x)
    return found


def some(rows: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return numbers of rows to divide by, 1 where there are none."""
    return namespace(rows).where(rows > 0, rows, 1)


def hidden_field(machine: Machine, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows hidden"]:
    """Compute ``w_i . x + theta_i``, the log-odds of each hidden unit given the inputs."""
    return x @ machine.weights.T + machine.hidden_bias


def input_field(machine: Machine, h: Float[Array, "*rows hidden"]) -> Float[Array, "*rows inputs"]:
    """Compute ``b + w(h)``, which acts on each input given the hidden units."""
    return h @ machine.weights + machine.input_bias


def energy(
    units: Units, machine: Machine, x: Float[Array, "*rows inputs"], h: Float[Array, "*rows hidden"]
) -> Float[Array, "*rows"]:
    """Compute equation 2.1, or 2.5 for real inputs; with the input biases."""
    return -jnp.sum(hidden_field(machine, x) * h, -1) - x @ machine.input_bias - jnp.sum(units.base(x), -1)


def log_weight(units: Units, machine: Machine, x: Float[Array, "*rows inputs"]) -> Float[Array, "*rows"]:
    """Compute ``log sum_h exp(-E(x, h))``: log p(x) but for log Z, by the product form 2.4 (2.6)."""
    own = x @ machine.input_bias + jnp.sum(units.base(x), -1)
    return own + jnp.sum(softplus(hidden_field(machine, x)), -1)
