"""Entropy regularisation of trees (Liu & Van den Broeck 2021): EM that also wants the model to be spread out.

The entropy of tree, hidden states and bits together, in nats, is a sum over the variables of each tree,

    H = H(w) + sum_m w_m sum_j [ sum_s P(z_parent = s) H(T_j(.|s)) + sum_t P(z_j = t) H(x_j | t) ],

with margins P that come from what is above, and with E_j(t), the entropy of the bit of j and of all below it, given
z_j = t, that comes from what is below.  As a function of one distribution T_j(.|s) alone, expected log-likelihood,
prior and n tau H are

    sum_t N(s, t) log T(t) + n tau w P(z_parent = s) sum_t T(t) (E_j(t) - log T(t)) + what does not depend on it,

which is concave, and its top is found exactly (`best_shares`).  So are those of P(bit | state) and of the shares of
trees.  One sweep from the leaves to the root takes each in turn: margins are those of the parameters before, for
nothing above has been changed yet, and E is that of the new ones.  No step of the sweep can lower the sum, and with it
no pass of EM the objective.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import entr
from jaxtyping import Bool, Float, Int, ScalarLike

from latentbits.core.arrays import Array
from latentbits.models.latent_tree.messages import Counts

__all__ = ["best_shares", "entropies", "margins", "spread_out"]

NOTHING = 1e-15  # of the counts: entropy that is worth less does not change the shares
CLOSE = 1e-10  # how far from 1 shares may add up before the last step, which squares that
MOST = 60  # steps of Newton's method, which takes about ten at most
INNER = 7  # the same of the inner one, from where it always begins well


def _log_omega(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Solve ``v + exp v = x`` for v, the logarithm of Lambert's W of exp(x).

    The left side is convex and rises, so that Newton's method from above stays above.
    """

    def step(_: ScalarLike, v: Array) -> Array:
        e = jnp.exp(v)
        return v - (e + v - x) / (1 + e)

    return jax.lax.fori_loop(0, INNER, step, jnp.where(x < 1, x, jnp.log(jnp.maximum(x, 1))))


def best_shares(
    counts: Float[Array, "*#shape states"],
    bonus: Float[Array, "*#shape states"],
    worth: Float[Array, "*#shape"],
    there: Bool[Array, "*#shape states"] | bool = True,
) -> Float[Array, "*shape states"]:
    """Find the shares t, with sum 1, that maximise ``sum counts log t + worth sum t (bonus - log t)``.

    With a = counts / worth each is ``a / t - log t = mu - bonus``, so a = t W(a exp(mu - bonus)), and mu makes the sum
    1.  The logarithm of that sum is convex in mu and falls: Newton's method from below never goes too far.

    Parameters
    ----------
    counts, bonus, worth
        Not negative.  Shares are NaN where there is neither a count nor any worth.
    there
        States that there are; the share of others is 0.
    """
    total = counts.sum(-1, keepdims=True)
    some = worth[..., None] > NOTHING * total
    a = jnp.where(some, counts / jnp.where(some, worth[..., None], 1), 1.0)
    bonus = jnp.where(some, jnp.where(there, bonus, -jnp.inf), 0.0)
    log_a = jnp.log(jnp.where(a > 0, a, 1))

    def log_shares(mu: Float[Array, "*shape 1"]) -> Float[Array, "*shape states"]:
        y = mu - bonus
        v = _log_omega(jnp.where(a > 0, log_a + y, 0))
        return jnp.where(a > 0, jnp.where(v < 0, jnp.exp(v) - y, log_a - v), -y)

    def step(at: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        n, mu, _ = at
        t = jnp.exp(log_shares(mu))
        total = t.sum(-1, keepdims=True)
        slope = jnp.sum(jnp.where(t > 0, t * t / jnp.where(t > 0, t + a, 1), 0), -1, keepdims=True) / total
        return n + 1, mu + jnp.log(total) / slope, jnp.max(jnp.abs(jnp.log(total)))

    # no share is above 1; and mu is the sum of a, the entropy of the shares and the mean of the bonus
    least = jnp.min(jnp.where(jnp.isfinite(bonus), bonus, jnp.inf), -1, keepdims=True)
    begin = jnp.maximum(jnp.max(a + bonus, -1, keepdims=True), a.sum(-1, keepdims=True) + least)
    far = jnp.asarray(jnp.inf, begin.dtype)
    _, mu, _ = jax.lax.while_loop(lambda at: (at[0] < MOST) & (at[2] > CLOSE), step, (jnp.asarray(0), begin, far))
    t = jnp.exp(log_shares(mu))
    return jnp.where(some, t / t.sum(-1, keepdims=True), counts / total)


def margins(
    parent: Int[Array, " columns"],
    steps: Int[Array, "steps width"],
    leaves: Int[Array, "batches together"],
    transition: Float[Array, "columns states states"],
) -> Float[Array, "nodes states"]:
    """Compute P(z_j = t) of every column; two rows follow: the node above roots (first state), and nothing."""
    d, k, _ = transition.shape
    above, moves = _beyond(parent), _padded(transition)

    def step(found: Float[Array, "nodes states"], nodes: Int[Array, " width"]) -> tuple[Array, None]:
        return found.at[nodes].set(jnp.einsum("ws,wst->wt", found[above[nodes]], moves[nodes])), None

    found = jnp.zeros_like(transition, shape=(d + 2, k)).at[d, 0].set(1)
    found, _ = jax.lax.scan(step, found, steps, reverse=True)
    return jax.lax.scan(step, found, leaves)[0]


def _beyond(parent: Int[Array, " columns"]) -> Int[Array, " nodes"]:
    """Append the parents of the two nodes that are no columns."""
    return jnp.append(parent, jnp.full(2, len(parent) + 1, parent.dtype))


def _padded(x: Float[Array, "columns *rest"]) -> Float[Array, "nodes *rest"]:
    return jnp.concatenate([x, jnp.zeros_like(x, shape=(2, *x.shape[1:]))])


def _of_bits(emission: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    return entr(emission) + entr(1 - emission)


def entropies(
    parent: Int[Array, " columns"],
    steps: Int[Array, "steps width"],
    leaves: Int[Array, "batches together"],
    transition: Float[Array, "columns states states"],
    emission: Float[Array, "columns states"],
) -> Float[Array, ""]:
    """Compute the joint entropy of the hidden states and bits of a tree, in nats."""
    reach = margins(parent, steps, leaves, transition)
    moves = jnp.sum(reach[parent][:, :, None] * entr(transition))
    return moves + jnp.sum(reach[: len(parent)] * _of_bits(emission))


def spread_out(
    parent: Int[Array, " columns"],
    steps: Int[Array, "steps width"],
    leaves: Int[Array, "batches together"],
    transition: Float[Array, "columns states states"],
    emission: Float[Array, "columns states"],
    counts: Counts,
    worth: Float[Array, ""],
    hidden: bool,
) -> tuple[Float[Array, "columns states states"], Float[Array, "columns states"], Float[Array, ""]]:
    """Sweep once over a tree: return its new transitions, emissions and entropy.

    Parameters
    ----------
    counts
        Expected ones, with those of the prior; of a root the same for every state of what it hangs from.
    worth
        Of a nat of the tree's entropy.
    hidden
        Whether P(bit | state) is learned.
    """
    d = len(parent)
    reach = margins(parent, steps, leaves, transition)
    if hidden:
        seen = jnp.stack([counts.ones, counts.zeros], -1)
        found = best_shares(seen, jnp.zeros_like(seen), worth * reach[:d])[..., 0]
        emission = jnp.where(jnp.isfinite(found), found, emission)
    above, moves, moved = _beyond(parent), _padded(transition), _padded(counts.moved)
    own = _padded(_of_bits(emission))
    # whatever a root hangs from, its one distribution always counts
    each = worth * _padded(jnp.where((parent == d)[:, None], 1.0, reach[parent]))

    def step(gathered: Float[Array, "nodes states"], nodes: Int[Array, " width"]) -> tuple[Array, Array]:
        below = (own[nodes] + gathered[nodes])[:, None, :]
        shares = best_shares(moved[nodes], below, each[nodes], moves[nodes] > 0)
        shares = jnp.where(jnp.isfinite(shares), shares, moves[nodes])
        return gathered.at[above[nodes]].add(jnp.sum(entr(shares) + shares * below, -1)), shares

    gathered, of_leaves = jax.lax.scan(step, jnp.zeros_like(own), leaves)
    gathered, of_inner = jax.lax.scan(step, gathered, steps)
    found = transition.at[leaves].set(of_leaves, mode="drop").at[steps].set(of_inner, mode="drop")
    return found, emission, gathered[d, 0]
