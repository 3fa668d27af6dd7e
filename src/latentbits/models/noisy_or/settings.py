"""Settings of a noisy-OR network and its learning, and where sums over all of its states replace samples."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real

import numpy as np

from latentbits.core.module import Module, static
from latentbits.models.noisy_or import enumeration, tuning

__all__ = ["Settings", "counts_of", "is_exact", "prior_of"]


def is_exact(sizes: Sequence[int], limit: int) -> bool:
    """Decide whether sums over all hidden states are at most a limit in number: pairs of states."""
    return enumeration.n_pairs(sizes) <= limit


def prior_of(value: Sequence[float] | None) -> tuple[float, float]:
    """Return shape and rate of the prior of the weights; complain of what is neither a pair of numbers nor None.

    >>> prior_of((1, 2)), prior_of(None)
    ((1.0, 2.0), (1.0, 0.0))
    """
    if value is None:
        return 1.0, 0.0
    numbers = [float(x) if isinstance(x, Real) else np.nan for x in value]
    if len(numbers) != 2 or not (1 <= numbers[0] < np.inf and 0 <= numbers[1] < np.inf):
        raise ValueError(f"prior must be (alpha, beta), alpha from 1 and beta from 0, or None, got {value!r}")
    return numbers[0], numbers[1]


def counts_of(name: str, value: Sequence[int], second: str, least: int) -> tuple[int, int]:
    """Return a pair of whole numbers, chains and another; complain of anything else."""
    counts = [int(x) for x in value if isinstance(x, Integral) and not isinstance(x, bool)]
    if len(value) != 2 or len(counts) != 2 or counts[0] < least or counts[1] < 1:
        raise ValueError(f"{name} must be a number of chains from {least} and one of {second} from 1, got {value!r}")
    return counts[0], counts[1]


class Settings(Module):
    """Settings of a network and its learning: numbers are arguments of what is compiled, the rest is its structure."""

    layer_sizes: tuple[int, ...] = static()  # units of each hidden layer, bottom first
    bias: bool = static()  # whether biases are learned; otherwise they are `leak`, but for those of the top layer
    # of the recipe
    schedule: str = static()
    inference: str = static()
    n_chains: int = static()  # chains of the estimate of log p(x)
    # the least bias while layers are learned one by one; at the end biases may be as small as the table says
    leak: float
    # alpha, beta: shape and rate of the gamma prior of the weights; None is an alpha of 1, with which the update is a
    # ratio
    alpha: float | None
    beta: float
    # n_updates, n_joint: updates of each layer, and of all together, of our recipe
    n_updates: int
    n_joint: int
    n_sweeps: int  # most sweeps of a chain
    n_samples: int  # chains a row
    n_steps: int  # temperatures of the estimate of log p(x)

    @property
    def n_layers(self) -> int:
        """Number of hidden layers."""
        return len(self.layer_sizes)

    @property
    def paper(self) -> bool:
        """Whether learning is the paper's."""
        return self.schedule != "robust"

    @property
    def at_once(self) -> bool:
        """Whether all layers are learned from the beginning."""
        return self.schedule in ("stability", "together")

    @property
    def exact_all(self) -> bool:
        """Whether every stage sums over states."""
        return self.inference == "exact"

    @property
    def exact_end(self) -> bool:
        """Whether the last stage does."""
        small = self.inference == "auto" and is_exact(self.layer_sizes, tuning.EXACT_MOST_PAIRS)
        return not self.paper and (self.exact_all or small)

    @property
    def drawn(self) -> bool:
        """Whether states to learn from are drawn from all states of a row rather than by chains."""
        # it takes less time to draw one of all than to make a chain
        few = self.n_layers == 1 and 2 ** self.layer_sizes[0] <= 2**10
        return self.exact_end and not self.exact_all and few

    @property
    def exact_means(self) -> bool:
        """Whether posterior means and completions are sums."""
        return is_exact(self.layer_sizes, tuning.EXACT_MOST_PAIRS)
