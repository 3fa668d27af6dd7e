"""Records of trees: parameters, quantities that a pass shares, sums over rows, posteriors, settings."""

from __future__ import annotations

from jaxtyping import Float, Int, ScalarLike

from latentbits.core.arrays import Array
from latentbits.core.module import Module, static
from latentbits.models.latent_tree.messages import Counts, Tree

__all__ = ["Params", "Posterior", "Settings", "Shared", "Stats"]


class Params(Module):
    """Trees, one after the other; states of the parent come before those of the column."""

    weights: Float[Array, " trees"]  # share of the rows of each tree
    parent: Int[Array, "trees columns"]  # the column that each hangs from; d for a root
    # mutual information of each column with its parent, nats, in the table; 0 for a root
    information: Float[Array, "trees columns"]
    # steps, leaves: the order in which sums run over a tree (`structure.py`)
    steps: Int[Array, "trees steps width"]
    leaves: Int[Array, "trees batches together"]
    # P(state | state of the parent); of a root the same for every state of what it hangs from
    transition: Float[Array, "trees columns states states"]
    emission: Float[Array, "trees columns states"]  # P(bit = 1 | state)


class Shared(Module):
    """Quantities shared by a pass: logs of shares, and the trees with logs of their emissions.

    And where states are the bits, log P(bit | bit of the parent), the parent's first.
    """

    log_weights: Float[Array, " trees"]
    trees: Tree
    log_cells: Float[Array, "trees columns states 2"] | None


class Stats(Module):
    """Sums over rows: of log p, of responsibilities of trees, and expected counts within each."""

    n_rows: Float[Array, ""]
    log_likelihood: Float[Array, "2"]
    members: Float[Array, " trees"]
    counts: Counts


class Posterior(Module):
    """P(tree, state of a column | x), tree after tree, column after column; and the most probable states together."""

    mean: Float[Array, "rows latents"]
    mode: Float[Array, "rows latents"]


class Settings(Module):
    """Settings of a model: numbers are arguments of its programs; fields that shapes depend on are static."""

    smoothing: ScalarLike
    softening: ScalarLike
    entropy: ScalarLike
    hidden: bool = static()
    soft: bool = static()  # whether bits are taken to have been flipped at all
    spread: bool = static()  # whether entropy is wanted at all
