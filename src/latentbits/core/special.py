"""Special functions that keep their digits where the plain formulas lose them."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy.special import erfcx

from latentbits.core.arrays import Array, namespace

__all__ = ["TINY", "HalfLine", "half_line", "log1mexp", "log_cosh", "log_probabilities"]

# Probabilities are kept this far from 0 and 1 before a logarithm: far below what any data can tell, and a float32
# logarithm of it is an ordinary number.
TINY = 1e-12


def log1mexp(u: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log(1 - exp(-u))`` for u > 0 without cancellation, of use in every noisy-OR.

    Near 0 it is ``log(-expm1(-u))``, far from it ``log1p(-exp(-u))``; they meet at log 2.

    >>> import jax.numpy as jnp
    >>> bool(jnp.isclose(log1mexp(jnp.asarray(1e-7)), jnp.log(1e-7)))
    True
    """
    xp = namespace(u)
    small = u < np.log(2.0)
    # both branches get an argument that is safe for them: a NaN in the branch not taken would poison gradients
    near = xp.log(-xp.expm1(-xp.where(small, u, 1.0)))
    far = xp.log1p(-xp.exp(-xp.where(small, 1.0, u)))
    return xp.where(small, near, far)


def log_cosh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log cosh x`` without overflow.

    >>> import jax.numpy as jnp
    >>> round(float(log_cosh(jnp.asarray(1.0))), 4)
    0.4338
    """
    xp = namespace(x)
    size = xp.abs(x)
    return size + xp.log1p(xp.exp(-2 * size)) - np.log(2.0)


def log_probabilities(p: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """``log p`` and ``log(1 - p)``, both finite: p is first kept `TINY` away from 0 and 1.

    In float64, please: in float32 ``1 - TINY`` is 1.
    """
    xp = namespace(p)
    p = xp.clip(p, TINY, 1 - TINY)
    return xp.log(p), xp.log1p(-p)


class HalfLine(NamedTuple):
    """Standard Gaussian beyond a cut: all functions of the place z of the cut."""

    log_mass: Float[Array, "*shape"]  # log Phi(z)
    ratio: Float[Array, "*shape"]  # phi(z) / Phi(z), the derivative of `log_mass`
    # ``1 - ratio (z + ratio)``, that of the Gaussian below z; 1 plus the second derivative of `log_mass`
    variance: Float[Array, "*shape"]


def half_line(z: Float[Array, "*shape"]) -> HalfLine:
    """Compute log Phi, its slope and its curvature at once, without cancellation in either tail.

    All follow from ``excess = z + ratio`` at ``z <= 0``, a smooth function that falls like 1/|z|: a polynomial for it,
    one exponential and one logarithm do.

    >>> import jax.numpy as jnp
    >>> cut = half_line(jnp.asarray(-20.0))
    >>> round(float(cut.log_mass), 3), round(float(cut.ratio), 4), round(float(400 * cut.variance), 3)
    (-203.917, 20.0498, 0.985)
    """
    xp = namespace(z)
    single = z.dtype == np.float32
    size = xp.abs(z)
    t = (size - MIDDLE) / (size + MIDDLE)
    smooth = xp.zeros_like(t)
    for coefficient in _excess_coefficients(12 if single else 24):
        smooth = smooth * t + coefficient
    excess = smooth / (size + 1.25)
    tail = size + excess  # phi / Phi at -|z|
    density = xp.exp(-0.5 * size**2) / np.sqrt(2 * np.pi)
    outside = density / tail  # Phi(-|z|)
    below = z <= 0
    log_mass = xp.where(
        below,
        -0.5 * size**2 - xp.log(np.sqrt(2 * np.pi) * tail),
        xp.log1p(xp.where(below, 0.0, -outside)),  # of an argument that is safe where it is not taken
    )
    ratio = xp.where(below, tail, density / (1 - outside))
    variance = 1 - ratio * xp.where(below, excess, z + ratio)
    far = -z > (30.0 if single else 1000.0)  # where that has no digits left, two terms of its series do
    inverse_square = 1 / xp.where(far, z, 1.0) ** 2
    return HalfLine(log_mass, ratio, xp.where(far, inverse_square * (1 - 6 * inverse_square), variance))


MIDDLE = 4.0  # |z| that `half_line` maps to 0; with it, polynomials of these degrees are right to rounding


@cache
def _excess_coefficients(degree: int) -> tuple[float, ...]:
    """Compute coefficients, highest power first, of a polynomial in (x - 4) / (x + 4).

    It stands for ``(x + 1.25) (phi(x) / Phi(-x) - x)``.
    """

    def scaled(t: np.ndarray) -> np.ndarray:
        x = MIDDLE * (1 + t) / (1 - t)
        near = np.sqrt(2 / np.pi) / erfcx(np.minimum(x, 3) / np.sqrt(2)) - np.minimum(x, 3)
        far = np.zeros_like(x)  # 1 / (x + 2 / (x + 3 / (x + ...))), which does not cancel
        for k in range(200, 0, -1):
            far = k / (np.maximum(x, 3) + far)
        return np.where(x < 3, near, far) * (x + 1.25)

    chebyshev = np.polynomial.Chebyshev.interpolate(scaled, degree)
    return tuple(chebyshev.convert(kind=np.polynomial.Polynomial).coef[::-1].tolist())
