"""Special functions that keep their digits where the plain formulas lose them."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

__all__ = ["TINY", "log1mexp", "log_cosh", "log_probabilities"]

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
    small = u < np.log(2.0)
    # both branches get an argument that is safe for them: a NaN in the branch not taken would poison gradients
    near = jnp.log(-jnp.expm1(-jnp.where(small, u, 1.0)))
    far = jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, u)))
    return jnp.where(small, near, far)


def log_cosh(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """``log cosh x`` without overflow.

    >>> import jax.numpy as jnp
    >>> float(log_cosh(jnp.asarray(0.0)))
    0.0
    """
    size = jnp.abs(x)
    return size + jnp.log1p(jnp.exp(-2 * size)) - np.log(2.0)


def log_probabilities(p: Float[Array, "*shape"]) -> tuple[Float[Array, "*shape"], Float[Array, "*shape"]]:
    """``log p`` and ``log(1 - p)``, both finite: p is first kept `TINY` away from 0 and 1.

    In float64, please: in float32 ``1 - TINY`` is 1.
    """
    p = jnp.clip(p, TINY, 1 - TINY)
    return jnp.log(p), jnp.log1p(-p)
