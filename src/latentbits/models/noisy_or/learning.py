"""Learning from states of the network: sums over rows, and the update (9) of the weights (section 4).

Behind a noisy OR stand coins: cause i, where it is on, turns child j on with probability f_ij = 1 - exp(-w_ij), and
with several causes it takes one success.  Given that j is on, cause i has succeeded with probability f_ij / g_j, where
g_j = 1 - exp(-u_j).  So EM counts, with

    A_ij = sum_n S_i S_j f_ij / g_j     successes (`Stats.credit`)
    N_ij = sum_n S_i                    trials, in rows where child j is observed (`Stats.seen`)

and the gamma prior p(w) ~ w^(alpha - 1) exp(-beta w), the maximum over w of

    A log(1 - exp(-w)) - (N - A) w + (alpha - 1) log w - beta w .

Its derivative is zero where

    f = [A + (alpha - 1) f / w] / (N + beta) ,        w = -log(1 - f) .                                           (9)

`equations.py` has the same without coins, from the derivative of (8), as the paper says.  For alpha = 1 it is
A / (N + beta).

For alpha > 1 the right side falls as f grows, so the root is unique, and is found by halving.  (For alpha < 1 the prior
has a pole at w = 0, where all weights would end.)  A bias is the weight of a cause that is always on.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Float, Int

from latentbits.core.arrays import Array, namespace, on_device
from latentbits.core.deterministic_sums import over_last
from latentbits.core.module import Module
from latentbits.core.tree import sum_rows
from latentbits.models.noisy_or import tuning
from latentbits.models.noisy_or.network import Params, log_noisy_or

__all__ = ["Stats", "counted", "log_prior_density", "new_weight", "state_statistics"]


class Stats(Module):
    """Sums over rows; tuples run over the layers, from the bottom."""

    n_rows: Float[Array, ""]
    rounding: Float[Array, ""]  # the rows, times the machine epsilon of the numbers in which they were computed
    log_joint: Float[Array, "2"]  # log p(x, S), or log p(x) where states are summed over
    # seen, credit: trials and successes of each cause at each child, (parents, children)
    seen: tuple[Float[Array, "_ _"], ...]
    credit: tuple[Float[Array, "_ _"], ...]
    # bias_seen, bias_credit: the same of the biases, the top layer's too
    bias_seen: tuple[Float[Array, " _"], ...]
    bias_credit: tuple[Float[Array, " _"], ...]
    # pivot_seen, pivot_credit: trials and successes in the rows where the pivot child of a cause is on
    # (`reseed_units.py`)
    pivot_seen: tuple[Float[Array, "_ _"], ...]
    pivot_credit: tuple[Float[Array, "_ _"], ...]
    # for each hidden unit, log of how much more probable rows are with it than without it, all else as it is
    gain: tuple[Float[Array, " _"], ...]
    # for each hidden unit, the probability that two draws at its turn in the last sweep differ
    change: tuple[Float[Array, " _"], ...]
    # odd, odd_weight: bits of each layer that no cause explains, in the rows where these are least probable
    # (`reseed_units.py`)
    odd: tuple[Float[Array, " _"], ...]
    odd_weight: tuple[Float[Array, ""], ...]


def state_statistics(
    params: Params,
    on: Float[Array, "columns rows"],
    observed: Float[Array, "columns rows"] | None,
    states: Sequence[Float[Array, "_ rows"]],
    chances: Sequence[Float[Array, "_ rows"]],
    weight: Float[Array, " rows"],
    pivots: Sequence[Int[Array, " _"]],
    depth: Int[Array, ""],
    level: Sequence[Float[Array, ""]],
) -> Stats:
    """Sum statistics of one state a row.

    `on`: 1 where an input is on.  `states`, `chances`: hidden states of each layer, (units, rows), and P(S_i = 1 |
    rest) from which they were drawn.  `weight`: how often each row counts.  `pivots`: a child of each cause.  `depth`:
    hidden layers in use; those above are off and do not count.  `level`: for each layer, nats that the least probable
    bits without a cause cost in the rows before.
    """
    layers = [on, *states]
    log_joint = jnp.zeros_like(weight)
    sums: list[list[Array]] = [[] for _ in range(10)]
    seen, credit, bias_seen, bias_credit, pivot_seen, pivot_credit, gain, change, odd, odd_weight = sums
    for layer, x in enumerate(layers):
        top = layer == len(states)
        u = params.biases[layer][:, None]
        u = jnp.broadcast_to(u, x.shape) if top else u + params.weights[layer].T @ states[layer]
        mask = observed if layer == 0 else None
        # the joint probability, and successes of the bias
        terms = log_noisy_or(u, x)
        log_joint = log_joint + (layer <= depth) * (terms if mask is None else terms * mask).sum(0)
        share = weight * x / -jnp.expm1(-u)  # of a unit success in each child that is on
        bias_seen.append(jnp.full(len(x), weight.sum()) if mask is None else mask @ weight)
        by_bias = -jnp.expm1(-params.biases[layer])
        bias_credit.append(by_bias * share.sum(1))
        # what each unit is good for, and how often it changes
        if layer > 0:
            p, s = chances[layer - 1], x
            most = 1 - jnp.finfo(p.dtype).eps
            gain.append((-jnp.log1p(-jnp.minimum(p, most)) - u) @ weight)
            change.append((2 * p * (1 - p)) @ weight)
        if top:
            break
        # bits without a cause: P(the bias alone has succeeded at least) of each bit that is on
        causeless = by_bias[:, None] * x / -jnp.expm1(-u)
        surprise = -jnp.log(by_bias) @ causeless
        # by which a row may be less probable than those before it, and count for more
        rare = weight * jnp.exp(jnp.minimum(surprise - level[layer], 40.0))
        odd.append(causeless @ rare)
        odd_weight.append(rare.sum())
        # successes of the causes in the layer above, in all rows and in those with the pivot
        s, f = states[layer], -jnp.expm1(-params.weights[layer])
        with_pivot = s * x[pivots[layer]]
        for parents, trials, successes in ((s, seen, credit), (with_pivot, pivot_seen, pivot_credit)):
            weighted = parents * weight
            everywhere = jnp.broadcast_to(weighted.sum(1)[:, None], f.shape)
            trials.append(everywhere if mask is None else over_last(weighted, mask))
            successes.append(f * over_last(parents, share))
    return Stats(*counted(weight), sum_rows(weight, log_joint), *(tuple(x) for x in sums))


def counted(weight: Float[Array, " rows"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Count rows, and how far they are rounded."""
    n_rows = weight.sum()
    return n_rows, n_rows * jnp.finfo(weight.dtype).eps


def new_weight(
    seen: Float[Array, "*shape"],
    credit: Float[Array, "*shape"],
    alpha: Any,
    beta: Any,
    least: Float[Array, "*shape"] | float = 0.0,
) -> Float[Array, "*shape"]:
    """Solve (9): the weight that maximises the posterior, between `least` and `STRONGEST_WEIGHT`.

    Without an alpha it is 1, and the root is a ratio.

    >>> import jax.numpy as jnp
    >>> round(float(new_weight(jnp.asarray(8.5), jnp.asarray(5.0), None, 1.5)), 4)
    0.6931
    """
    xp, total = namespace(seen), seen + beta
    if alpha is None:
        f = credit / xp.maximum(total, 1e-30)  # without a prior, and of a cause that was never on, 0
    else:

        def halve(_: Any, between: tuple[Array, Array]) -> tuple[Array, Array]:
            low, high = between
            f = (low + high) / 2
            above = f * total > credit + (alpha - 1) * f / -xp.log1p(-f)
            return xp.where(above, low, f), xp.where(above, f, high)

        between = xp.zeros_like(total), xp.ones_like(total)
        if on_device(seen):
            f = jax.lax.fori_loop(0, tuning.N_HALVINGS, halve, between)[0]
        else:
            f = reduce(lambda between, k: halve(k, between), range(tuning.N_HALVINGS), between)[0]
    return xp.clip(-xp.log1p(-xp.minimum(f, 1 - 1e-9)), least, tuning.STRONGEST_WEIGHT)


def log_prior_density(params: Params, alpha: Any, beta: Any) -> Float[Array, ""]:
    """Compute the log gamma prior of all weights and biases, up to a constant (8); without an alpha it is 1."""
    xp, values = namespace(params.biases[0]), [*params.weights, *params.biases]
    total = -beta * sum(xp.sum(w) for w in values)
    if alpha is not None:
        total = total + (alpha - 1) * sum(xp.sum(xp.log(xp.maximum(w, 1e-30))) for w in values)
    return total
