"""Every synthetic table of the tests, one function a kind of cause.

Tables have 240 rows of 6 columns unless a test says otherwise: 240 rows are padded to one chunk of 256, so that tests
share compiled programs.  Bits are floats with NaN for holes, as users have them; `as_bytes` makes what engines take.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.batch import MISSING

N, D = 240, 6
NAMES = ("hair", "milk", "eggs", "wings", "fins", "legs")


def with_holes(X: np.ndarray, share: float, seed: int = 0) -> np.ndarray:
    """Hide a share of the cells."""
    X = np.array(X, float)
    X[np.random.default_rng([seed, 255]).random(X.shape) < share] = np.nan
    return X


def as_bytes(X: np.ndarray) -> np.ndarray:
    """Encode bits as the engines take them: holes are 255."""
    return np.where(np.isnan(X), MISSING, X).astype(np.uint8)


def as_floats(X: np.ndarray) -> np.ndarray:
    """Undo `as_bytes`."""
    return np.where(X == MISSING, np.nan, X.astype(float))


def class_means(k: int = 2, d: int = D, seed: int = 0) -> np.ndarray:
    """Draw probabilities of bits in each class, (k, d), most of them far from one half."""
    return np.random.default_rng([seed, 1]).beta(0.6, 0.6, (k, d)) * 0.9 + 0.05


def classes(
    n: int = N, d: int = D, k: int = 2, seed: int = 0, missing: float = 0.0, means: np.ndarray | None = None
) -> np.ndarray:
    """Draw bits of k latent classes of equal size."""
    rng = np.random.default_rng(seed)
    means = class_means(k, d, seed) if means is None else np.asarray(means)
    bits = rng.random((n, means.shape[1])) < means[rng.integers(len(means), size=n)]
    return with_holes(bits, missing, seed)


class Answers(NamedTuple):
    """Answers, and the slopes (d, q), intercepts (d,) and traits (n, q) behind them."""

    X: np.ndarray
    slopes: np.ndarray
    intercepts: np.ndarray
    traits: np.ndarray


def answers_and_truth(
    n: int = N,
    d: int = D,
    q: int = 1,
    seed: int = 0,
    missing: float = 0.0,
    scale: float = 1.3,
    slopes: np.ndarray | None = None,
    intercepts: np.ndarray | None = None,
    traits: np.ndarray | None = None,
    guessing: float = 0.0,
) -> Answers:
    """Draw answers to items with logistic curves on q normal traits, with what they were drawn from."""
    rng = np.random.default_rng(seed)
    slopes = scale * rng.lognormal(0, 0.3, (d, q)) * _mostly_one(d, q) if slopes is None else np.atleast_2d(slopes)
    slopes = slopes.T if slopes.shape[0] == 1 and q == 1 else slopes
    intercepts = rng.normal(size=len(slopes)) if intercepts is None else np.asarray(intercepts, float)
    traits = rng.normal(size=(n, q)) if traits is None else np.reshape(traits, (n, -1))
    p = guessing + (1 - guessing) / (1 + np.exp(-(traits @ slopes.T + intercepts)))
    return Answers(with_holes(rng.random(p.shape) < p, missing, seed), slopes, intercepts, traits)


def answers(*args: int, **settings: object) -> np.ndarray:
    """Draw answers to items (`answers_and_truth`), without what they were drawn from."""
    return answers_and_truth(*args, **settings).X  # type: ignore[arg-type]


def _mostly_one(d: int, q: int) -> np.ndarray:
    """Give each column one trait that moves it most."""
    return np.where(np.arange(d)[:, None] % q == np.arange(q), 1, 0.2)


class Clipped(NamedTuple):
    """Bits, and the weights (d, k), thresholds (d,) and uniquenesses (d,) of the Gaussian behind them."""

    X: np.ndarray
    weights: np.ndarray
    phi: np.ndarray
    psi: np.ndarray


def clipped(
    n: int = N, d: int = D, k: int = 1, seed: int = 0, missing: float = 0.0, low: float = 0.3, high: float = 0.8
) -> Clipped:
    """Draw signs of a Gaussian of k factors with communalities between `low` and `high`."""
    rng = np.random.default_rng(seed)
    weights = rng.normal(size=(d, k))
    weights *= np.sqrt(rng.uniform(low, high, (d, 1))) / np.linalg.norm(weights, axis=1, keepdims=True)
    phi, psi = 0.7 * rng.normal(size=d), 1 - np.sum(weights**2, 1)
    x = phi + rng.normal(size=(n, k)) @ weights.T + np.sqrt(psi) * rng.normal(size=(n, d))
    return Clipped(with_holes(x > 0, missing, seed), weights, phi, psi)


def bars(n: int = N, seed: int = 1, missing: float = 0.0) -> np.ndarray:
    """Draw real numbers: four binary causes, two of them negative, on six pixels, and noise of one."""
    rng = np.random.default_rng(seed)
    W = np.array([[5, 5, 0, 0, 0, 0], [0, 0, 5, 5, 0, 0], [-5, 0, -5, 0, 0, 5], [0, 0, 0, -5, 5, 0]], float)
    return with_holes((rng.random((n, 4)) < 0.35) @ W + rng.normal(size=(n, 6)), missing, seed)


def chain(n: int = N, d: int = D, seed: int = 0, missing: float = 0.0) -> np.ndarray:
    """Draw bits each of which is mostly that on its left."""
    rng = np.random.default_rng(seed)
    return with_holes(np.cumsum(rng.random((n, d)) < 0.25, axis=1) % 2, missing, seed)


def baskets(n: int = 700, d: int = 40, k: int = 3, seed: int = 0) -> np.ndarray:
    """Draw few ones, in kinds of rows; the first column is always 1, the last never, and some rows are empty."""
    rng = np.random.default_rng(seed)
    means = rng.beta(0.3, 6, (k, d))
    rows = (rng.random((n, d)) < means[rng.integers(k, size=n)]).astype(np.uint8)
    rows[:, 0], rows[:, -1], rows[5:8] = 1, 0, 0
    return rows
