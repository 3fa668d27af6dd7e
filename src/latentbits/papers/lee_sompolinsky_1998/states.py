"""How many states lines and planes cut the hidden space into, how likely they are, and how they hang together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

import numpy as np

from latentbits.models.clipped_gaussian.hyperplane_cells import n_cells

__all__ = ["Planes", "all_states", "entropy_law", "random_planes", "sample_states", "two_flips_away", "walls"]

ROWS_AT_ONCE = 65_536


class Planes(NamedTuple):
    """The planes phi_i + w_i . y = 0: weights (N, P) of unit length, phi (N,)."""

    weights: np.ndarray
    phi: np.ndarray


class Sampled(NamedTuple):
    """Result of n draws of y: distinct states, and the entropy of the states in nats."""

    n_states: int
    entropy: float


def random_planes(n_columns: int, n_components: int, bias: bool, rng: np.random.Generator) -> Planes:
    """Draw planes in directions that are uniform on the sphere; without biases all go through the origin."""
    weights = rng.standard_normal((n_columns, n_components))
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    # means of the bits between about 0.16 and 0.84 for two thirds of them
    phi = 0.5 * rng.standard_normal(n_columns) if bias else np.zeros(n_columns)
    return Planes(weights, phi)


def sample_states(planes: Planes, n_samples: int, rng: np.random.Generator) -> Sampled:
    """Draw y ~ N(0, I); give distinct states, and their entropy by counts with Miller and Madow's correction."""
    keys = _keys(len(planes.phi))
    seen = []
    for start in range(0, n_samples, ROWS_AT_ONCE):
        y = rng.standard_normal((min(ROWS_AT_ONCE, n_samples - start), planes.weights.shape[1]))
        seen.append(_codes(y @ planes.weights.T + planes.phi > 0, keys))
    share = np.unique(np.concatenate(seen), return_counts=True)[1] / n_samples
    return Sampled(len(share), float(-share @ np.log(share) + (len(share) - 1) / (2 * n_samples)))


def all_states(planes: Planes) -> np.ndarray:
    """List every state that some y produces, each once, (n, N) bits; of planes of which no P + 1 meet in a point.

    With biases each cell has a corner, where P planes meet; the 2^P cells round it are all ways to choose these P bits.
    Without (P >= 2), a cell is a cone, and the same holds for its edges, where P - 1 planes meet.
    """
    weights, phi = planes
    n_columns, n_components = weights.shape
    biased = bool(np.any(phi != 0))
    order = n_components if biased else n_components - 1
    chosen = np.array(list(combinations(range(n_columns), order)))
    if biased:
        corners = np.linalg.solve(weights[chosen], -phi[chosen][..., None])[..., 0]
    else:
        along = np.linalg.svd(weights[chosen])[2][:, -1]
        chosen, corners = np.tile(chosen, (2, 1)), np.concatenate([along, -along])
    bits = (corners @ weights.T + phi > 0).astype(np.uint8)
    found = []
    for choice in product((0, 1), repeat=order):
        here = bits.copy()
        here[np.arange(len(here))[:, None], chosen] = np.array(choice, np.uint8)
        found.append(here)
    states = np.concatenate(found)
    return states[np.unique(_codes(states, _keys(n_columns)), return_index=True)[1]]


def walls(states: np.ndarray) -> np.ndarray:
    """Count the states that are one flip away from each: cells that differ in one sign share a wall."""
    keys = _keys(states.shape[1])
    codes = _codes(states, keys)
    ordered = np.sort(codes)
    found = np.zeros(len(states), int)
    for bit, key in enumerate(keys):
        flipped = np.where(states[:, bit] == 1, codes - key, codes + key)
        place = np.minimum(np.searchsorted(ordered, flipped), len(ordered) - 1)
        found += ordered[place] == flipped
    return found


def two_flips_away(states: np.ndarray) -> np.ndarray:
    """Count the states that are exactly two flips away from each.

    Two such states have two rows of bits between them, those that differ from both in one bit: each state in turn is
    flipped in each bit, and the states that arrive at the same row are pairs; every pair is found twice.
    """
    keys = _keys(states.shape[1])
    codes = _codes(states, keys)
    flipped = np.where(states == 1, codes[:, None] - keys, codes[:, None] + keys)
    _, row, n_arriving = np.unique(flipped, return_inverse=True, return_counts=True)
    return (n_arriving[row.reshape(flipped.shape)] - 1).sum(axis=1) // 2


def entropy_law(
    sizes: Sequence[int], n_components: int, bias: bool, n_samples: int, rng: np.random.Generator, most_cells: int
) -> dict[str, Any]:
    """Measure states and entropy for several N, and how both grow with log N; the paper says P log N."""
    whole = random_planes(max(sizes), n_components, bias, rng)
    # the same planes and ever more of them: what is left between the sizes is growth
    nested = (Planes(whole.weights[:size], whole.phi[:size]) for size in sizes)
    rows = [_one_size(planes, bias, n_samples, rng, most_cells) for planes in nested]
    logs = np.log([row["N"] for row in rows])
    return {
        "P": n_components,
        "bias": bias,
        "n_samples": n_samples,
        "rows": rows,
        "slope_entropy": float(np.polyfit(logs, [row["entropy"] for row in rows], 1)[0]),
        "slope_states": _slope([row for row in rows if "counted" in row]),
    }


def _slope(rows: Sequence[dict[str, Any]]) -> float:
    """Fit the slope of the logarithm of the number of states, counted one by one, against log N."""
    return float(np.polyfit(np.log([row["N"] for row in rows]), np.log([row["counted"] for row in rows]), 1)[0])


def _one_size(planes: Planes, bias: bool, n_samples: int, rng: np.random.Generator, most_cells: int) -> dict[str, Any]:
    size, n_components = planes.weights.shape
    formula = n_cells(size, n_components, bias)
    drawn = sample_states(planes, n_samples, rng)
    row: dict[str, Any] = {"N": size, "formula": formula, "sampled": drawn.n_states, "entropy": drawn.entropy}
    if formula <= most_cells:
        states = all_states(planes)
        near = walls(states)
        row |= {
            "counted": len(states),
            "fewest_walls": int(near.min()),
            "mean_walls": float(near.mean()),
            "fewest_neighbours": int((near + two_flips_away(states)).min()),
        }
    return row


def _keys(n_columns: int) -> np.ndarray:
    return np.random.default_rng(1998).integers(0, 2**64, n_columns, dtype=np.uint64)


def _codes(bits: np.ndarray, keys: np.ndarray) -> np.ndarray:
    """Give each row a number: equal for equal rows, and of others for none among any number that fits into memory."""
    codes = np.zeros(len(bits), np.uint64)
    for column, key in zip(bits.T, keys):
        codes += column.astype(np.uint64) * key
    return codes
