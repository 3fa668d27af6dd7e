"""The three error measures of Freund & Haussler (1994, section 4), for any fitted model.

Their formulas have two misprints, set right here: for +-1 units the probability of a bit is logistic(2 * sum), and
the cost of a reconstruction carries a minus sign.  Both are inside the models; a measure only asks a model for
probabilities, so it means the same for every family.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array

from latentbits.core.batch import MISSING
from latentbits.core.special import TINY
from latentbits.estimators.tables.encoding import encode_bits
from latentbits.estimators.tables.frames import like_input

__all__ = ["log_loss", "reconstruction", "single_bit_error"]


def log_loss(model: Any, X: Any) -> float:
    """Average log-loss, scaled so that the uniform distribution over all rows has 1.

    -mean log2 P(x) / d, in bits per bit; with missing bits, per observed bit.

    Parameters
    ----------
    model : fitted estimator
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    """
    bits = _bits(model, X)
    return float(-np.sum(model.score_samples(X)) / np.log(2) / np.sum(~np.isnan(bits)))


def single_bit_error(model: Any, X: Any, n_bits: int | None = 5, random_state: Any = None) -> float:
    """Share of mistakes when one bit of a row is hidden and predicted from all the others.

    The prediction is the value that gives the more probable row.  As in the paper, `n_bits` locations are drawn for
    each row, all different; None tries every bit.

    Parameters
    ----------
    model : fitted estimator
    X : array-like of shape (n_rows, n_columns)
        Bits; a missing one is never chosen.
    n_bits : int or None, default=5
        Locations per row.
    random_state : int, Generator or None
        Seed of the choice.
    """
    bits, values = _bits(model, X), _values(X)
    rng = np.random.default_rng(random_state)
    # a random order of the columns for each row, its missing bits last
    order = np.argsort(rng.random(bits.shape) + np.isnan(bits), axis=1)
    rows = np.arange(len(bits))
    mistakes = tried = 0
    for column in order.T[:n_bits]:
        truth = bits[rows, column]
        known = ~np.isnan(truth)
        if not known.any():
            continue
        hidden = values[known]
        at = np.arange(len(hidden)), column[known]
        hidden[at] = np.nan
        guess = np.asarray(model.complete(_named(X, hidden)))[at] > 0.5
        mistakes += int(np.sum(guess != (truth[known] > 0.5)))
        tried += int(known.sum())
    if tried == 0:
        raise ValueError("X has no observed bit to predict")
    return mistakes / tried


def reconstruction(model: Any, X: Any) -> float:
    """Bits per bit that are needed to write down a row when its most probable hidden state is known.

    -mean log2 P(x | h*) / d with h* the mode of the posterior (no hidden state at all for independent bits).

    Parameters
    ----------
    model : fitted estimator
    X : array-like of shape (n_rows, n_columns)
        Bits; missing ones cost nothing.
    """
    bits = _bits(model, X)
    p = np.asarray(model.inverse_transform(model.posterior(X).mode), np.float64)
    p = np.clip(p, TINY, 1 - TINY)
    cost = -np.where(bits > 0.5, np.log2(p), np.log2(1 - p))
    seen = ~np.isnan(bits)
    return float(np.sum(cost[seen]) / np.sum(seen))


def _named(X: Any, values: np.ndarray) -> Any:
    """Select rows, with the column names of X where it has any, in the order that the model knows."""
    return like_input(X[: len(values)], values) if hasattr(X, "columns") else values


def _values(X: Any) -> np.ndarray:
    X = check_array(X, accept_sparse=True, dtype=np.float64, ensure_all_finite="allow-nan", input_name="X")
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


def _bits(model: Any, X: Any) -> np.ndarray:
    """Return the bits as the model sees them, with NaN for missing: its `binarize` is applied."""
    codes = encode_bits(_values(X), binarize=getattr(model, "binarize", None))
    return np.where(codes == MISSING, np.nan, codes)
