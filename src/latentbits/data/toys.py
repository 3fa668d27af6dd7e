"""The synthetic sets of the five papers, each with the truth beside the data.

Every function takes sizes and `random_state` (an int, a `numpy.random.Generator`, or None for fresh noise)
and returns a named tuple whose first field is the data; the others say how it came about.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = [
    "Bars",
    "Lines",
    "Prototypes",
    "Shifter",
    "bars",
    "bump",
    "linear_bars",
    "lines",
    "noisy_prototypes",
    "shifter",
    "sum_constrained",
]

RandomState = int | np.random.Generator | None

# The higher-order patterns of Lewicki & Sejnowski's figure 1: (columns, rows) of a 5 x 5 grid.
LINE_PATTERNS = {"||": ((1, 3), ()), "=": ((), (1, 3)), "+": ((2,), (2,)), "]": ((4,), (0, 4))}


class Bars(NamedTuple):
    """`X` (n, D) bits or reals; `causes` (n, H) 0/1; `components` (H, D): the bars, columns first."""

    X: np.ndarray
    causes: np.ndarray
    components: np.ndarray


class Lines(NamedTuple):
    """`X` (n, 25) bits; `causes` (n, 10) lines that are on by themselves; `patterns` (n, 4), in the order of
    `LINE_PATTERNS`; `components` (10, 25): columns first; `pattern_components` (4, 25)."""

    X: np.ndarray
    causes: np.ndarray
    patterns: np.ndarray
    components: np.ndarray
    pattern_components: np.ndarray


class Shifter(NamedTuple):
    """`X` (n, 4 width) bits; `direction` (n,): 1 where the row was moved right, 0 for left."""

    X: np.ndarray
    direction: np.ndarray


class Prototypes(NamedTuple):
    """`X` (n, d) bits; `labels` (n,) which prototype; `prototypes` (k, d) bits."""

    X: np.ndarray
    labels: np.ndarray
    prototypes: np.ndarray


class Bump(NamedTuple):
    """`X` (n, d) bits; `shift` (n,): where the run of ones begins."""

    X: np.ndarray
    shift: np.ndarray


def _check_count(name: str, value: int, least: int = 1) -> None:
    if int(value) != value or value < least:
        raise DataError(f"{name} must be a whole number of at least {least}, found {value!r}")


def _check_probability(name: str, value: float) -> None:
    if not 0.0 <= value <= 1.0:
        raise DataError(f"{name} must be between 0 and 1, found {value!r}")


def _bar_components(size: int) -> np.ndarray:
    """Return all bars of a size x size grid, (2 size, size^2) 0/1: the columns, then the rows."""
    grid = np.eye(size, dtype=np.uint8)
    columns = np.repeat(grid[:, None, :], size, axis=1)
    rows = np.repeat(grid[:, :, None], size, axis=2)
    return np.concatenate([columns, rows]).reshape(2 * size, size * size)


def linear_bars(
    n_samples: int = 1000,
    *,
    size: int = 5,
    value: float = 10.0,
    active: float = 2.0,
    noise_std: float = 2.0,
    random_state: RandomState = None,
) -> Bars:
    """Return bars that add up, half of them negative, in Gaussian noise (Henniges et al. 2010, section 3).

    H = 2 size -> the bars; pi H -> `active`; sigma -> `noise_std`; W -> `components` (transposed).

    Parameters
    ----------
    n_samples : int
    size : int
        Side of the square grid; D = size^2.
    value : float
        Of a bar's pixels; a random half of the bars has minus this.
    active : float
        Bars in an image on average.
    noise_std : float
    random_state : int, Generator or None

    Examples
    --------
    >>> toy = linear_bars(100, random_state=0)
    >>> toy.X.shape, sorted(set(toy.components.ravel().tolist()))
    ((100, 25), [-10.0, 0.0, 10.0])
    """
    _check_count("n_samples", n_samples)
    _check_count("size", size)
    n_bars = 2 * size
    _check_probability("active / (2 size)", active / n_bars)
    rng = np.random.default_rng(random_state)
    signs = rng.permutation(np.repeat([1.0, -1.0], size))
    components = value * signs[:, None] * _bar_components(size)
    causes = (rng.random((n_samples, n_bars)) < active / n_bars).astype(np.uint8)
    noise = noise_std * rng.standard_normal((n_samples, size * size))
    return Bars(causes @ components + noise, causes, components)


def bars(n_samples: int = 1000, *, size: int = 5, active: float = 2.0, random_state: RandomState = None) -> Bars:
    """Return bars that hide each other, the superposition being OR (Foldiak 1989; no noise).

    Parameters
    ----------
    n_samples, size : int
    active : float
        Bars in an image on average; each of the 2 size bars is on independently.
    random_state : int, Generator or None

    Examples
    --------
    >>> toy = bars(3, random_state=0)
    >>> bool(((toy.causes @ toy.components > 0) == toy.X).all())
    True
    """
    _check_count("n_samples", n_samples)
    _check_count("size", size)
    n_bars = 2 * size
    _check_probability("active / (2 size)", active / n_bars)
    rng = np.random.default_rng(random_state)
    components = _bar_components(size)
    causes = (rng.random((n_samples, n_bars)) < active / n_bars).astype(np.uint8)
    return Bars((causes.astype(int) @ components > 0).astype(np.uint8), causes, components)


def lines(
    n_samples: int = 1000,
    *,
    line_probability: float = 0.3,
    pattern_probability: float = 0.15,
    patterns: Literal["any", "one", "alone"] = "any",
    random_state: RandomState = None,
) -> Lines:
    """Return the higher-order lines on a 5 x 5 grid (Lewicki & Sejnowski 1996, figure 1).

    Ten lines, each by itself, and four patterns of lines (two verticals, two horizontals, a cross, a bracket;
    `LINE_PATTERNS`), joined by OR.

    The caption of the figure says that one of the pattern types is selected by its probability, that "top patterns are
    copied to the input", and that "the horizontal and vertical lines on the left are selected with probability 0.3".
    The nearest to it is "alone"; "one" is how it can be read as well, and "any" is a problem of our own, in which
    images have more parts.  How probable each pattern is stands in the figure, which we do not have.

    Parameters
    ----------
    n_samples : int
    line_probability, pattern_probability : float
        Probabilities of each line, and of each pattern.
    patterns : {"any", "one", "alone"}
        "any": each pattern independently of the others, over the lines.  "one": one at most, over the lines.
        "alone": one at most, and lines only in images that have none.
    random_state : int, Generator or None

    Examples
    --------
    >>> toy = lines(100, patterns="alone", random_state=0)
    >>> bool((toy.patterns.sum(axis=1) <= 1).all()), bool(toy.causes[toy.patterns.any(axis=1)].any())
    (True, False)
    """
    _check_count("n_samples", n_samples)
    _check_probability("line_probability", line_probability)
    _check_probability("pattern_probability", pattern_probability)
    if patterns not in ("any", "one", "alone"):
        raise DataError(f'patterns must be "any", "one" or "alone", found {patterns!r}')
    rng = np.random.default_rng(random_state)
    components = _bar_components(5)
    members = [[*columns, *(5 + row for row in rows)] for columns, rows in LINE_PATTERNS.values()]
    pattern_components = np.stack([components[chosen].max(axis=0) for chosen in members])
    causes = (rng.random((n_samples, 10)) < line_probability).astype(np.uint8)
    if patterns == "any":
        laid = (rng.random((n_samples, len(members))) < pattern_probability).astype(np.uint8)
    else:
        _check_probability("four times pattern_probability", len(members) * pattern_probability)
        place = rng.random((n_samples, 1)) / max(pattern_probability, 1e-300)  # from 4 on, none
        laid = (np.floor(place) == np.arange(len(members))).astype(np.uint8)
    if patterns == "alone":
        causes[laid.any(axis=1)] = 0
    covered = causes.astype(int) @ components + laid.astype(int) @ pattern_components
    return Lines((covered > 0).astype(np.uint8), causes, laid, components, pattern_components)


def shifter(n_samples: int = 1000, *, width: int = 8, random_state: RandomState = None) -> Shifter:
    """Return a random row and its copy moved by one place, round the end, each twice (Dayan et al. 1995).

    The rows of an image are: row, row, moved row, moved row.

    Parameters
    ----------
    n_samples : int
    width : int
        Bits of a row; there are 4 width inputs.
    random_state : int, Generator or None

    Examples
    --------
    >>> toy = shifter(2, random_state=0)
    >>> toy.X.shape
    (2, 32)
    """
    _check_count("n_samples", n_samples)
    _check_count("width", width, least=3)
    rng = np.random.default_rng(random_state)
    row = rng.integers(0, 2, (n_samples, width), dtype=np.uint8)
    direction = rng.integers(0, 2, n_samples, dtype=np.uint8)
    moved = np.where(direction[:, None] == 1, np.roll(row, 1, axis=1), np.roll(row, -1, axis=1))
    return Shifter(np.concatenate([row, row, moved, moved], axis=1), direction)


def noisy_prototypes(
    n_per_prototype: int = 200,
    *,
    n_prototypes: int = 3,
    n_features: int = 16,
    flip: float = 0.05,
    random_state: RandomState = None,
) -> Prototypes:
    """Return copies of random prototypes with some bits inverted (Tipping 1998, section 5: flip 0.05, and 0.15).

    Parameters
    ----------
    n_per_prototype, n_prototypes, n_features : int
    flip : float
        Probability that a bit is inverted.
    random_state : int, Generator or None

    Examples
    --------
    >>> noisy_prototypes(flip=0.15, random_state=0).X.shape
    (600, 16)
    """
    _check_count("n_per_prototype", n_per_prototype)
    _check_count("n_prototypes", n_prototypes)
    _check_count("n_features", n_features)
    _check_probability("flip", flip)
    rng = np.random.default_rng(random_state)
    prototypes = rng.integers(0, 2, (n_prototypes, n_features), dtype=np.uint8)
    labels = np.repeat(np.arange(n_prototypes), n_per_prototype)
    inverted = rng.random((len(labels), n_features)) < flip
    return Prototypes(prototypes[labels] ^ inverted.astype(np.uint8), labels, prototypes)


def bump(n_samples: int | None = None, *, n_features: int = 256, random_state: RandomState = None) -> Bump:
    """Return a run of ones, half as long as the circle, anywhere on it (Lee & Sompolinsky 1998, figure 3).

    Parameters
    ----------
    n_samples : int, optional
        Rows with a random shift each; if not given, every shift once, in order: then all moments are exact.
    n_features : int
        N, even.
    random_state : int, Generator or None

    Examples
    --------
    >>> bump(n_features=4).X.tolist()
    [[1, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 1], [1, 0, 0, 1]]
    """
    _check_even(n_features)
    if n_samples is None:
        shift = np.arange(n_features)
    else:
        _check_count("n_samples", n_samples)
        shift = np.random.default_rng(random_state).integers(0, n_features, n_samples)
    place = (np.arange(n_features) - shift[:, None]) % n_features
    return Bump((place < n_features // 2).astype(np.uint8), shift)


def sum_constrained(n_samples: int = 1000, *, n_features: int = 16, random_state: RandomState = None) -> np.ndarray:
    """Return bits that are uniform but for one constraint: exactly half are ones, so that spins sum to zero.

    Lee & Sompolinsky (1998) give it as what a clipped Gaussian cannot represent.

    Parameters
    ----------
    n_samples, n_features : int
        n_features is even.
    random_state : int, Generator or None

    Examples
    --------
    >>> sum_constrained(3, n_features=6, random_state=0).sum(axis=1).tolist()
    [3, 3, 3]
    """
    _check_count("n_samples", n_samples)
    _check_even(n_features)
    row = np.repeat(np.array([0, 1], dtype=np.uint8), n_features // 2)
    return np.random.default_rng(random_state).permuted(np.tile(row, (n_samples, 1)), axis=1)


def _check_even(n_features: int) -> None:
    _check_count("n_features", n_features, least=2)
    if n_features % 2:
        raise DataError(f"n_features must be even, so that half of the bits can be ones; found {n_features}")
