"""Pairs of columns: what a model says of them against what is observed, as arrays and as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import chi2

from latentbits.core.errors import DataError
from latentbits.figures.placing import text_widths
from latentbits.figures.style import INK, PAPER, SMALL, axes_or_new, short, signed

__all__ = ["PairResiduals", "beyond_chance", "implied_pairs", "pair_residuals", "plot_pair_residuals", "worst_columns"]

MOST_NUMBERS = 14  # columns up to which the numbers stand in the cells
SPARSE = 5.0  # rows expected in a cell, below which X² is not taken for chi-squared


class PairResiduals(NamedTuple):
    """Residuals of all pairs of columns, (d, d), symmetric; NaN on the diagonal and for pairs never observed together.

    Attributes
    ----------
    signed
        Pearson's X² of the observed 2 x 2 table against that of the model; negative where the two are less often equal
        than the model says.
    counts
        Rows in which both were observed.
    least
        Rows expected in the emptiest of the four cells; where they are few, X² is far from chi-squared.
    """

    signed: np.ndarray
    counts: np.ndarray
    least: np.ndarray


def implied_pairs(shares: np.ndarray, means: np.ndarray) -> np.ndarray:
    """Compute P(bits j and k = 1) where bits are independent given a hidden state; P(bit j = 1) on the diagonal.

    Parameters
    ----------
    shares : (m,) array
        Probabilities of the states: classes, or nodes of a rule for the latents.
    means : (m, d) array
        P(bit = 1) in each.

    Examples
    --------
    >>> implied_pairs(np.array([0.5, 0.5]), np.array([[0.0, 0.0], [1.0, 1.0]])).tolist()
    [[0.5, 0.5], [0.5, 0.5]]
    """
    both = means.T @ (np.asarray(shares)[:, None] * means)
    both[np.diag_indices(len(both))] = shares @ means
    return both


def pair_residuals(bits: np.ndarray, both: np.ndarray, weights: np.ndarray | None = None) -> PairResiduals:
    """Compare the observed 2 x 2 table of every pair of columns with that of a model.

    Rows in which one of the two is missing are left out of a pair's table, which is right where being missing depends
    on neither.

    Parameters
    ----------
    bits : (n, d) array
        0, 1 or NaN.
    both : (d, d) array
        By the model, as `implied_pairs` gives it.
    weights : (n,) array or None
        How often each row counts; None for once.

    Examples
    --------
    Bits that are always equal, where the model says that they are independent:

    >>> found = pair_residuals(np.array([[0, 0], [1, 1]] * 8), np.array([[0.5, 0.25], [0.25, 0.5]]))
    >>> found.signed.tolist()
    [[nan, 16.0], [16.0, nan]]
    """
    bits, both = np.asarray(bits, np.float64), np.asarray(both, np.float64)
    d = bits.shape[1]
    if both.shape != (d, d):
        raise DataError(f"the model's probabilities of pairs must have shape ({d}, {d}), found {both.shape}")
    times = np.ones(len(bits)) if weights is None else np.asarray(weights, np.float64)
    one, zero = (bits == 1).astype(np.float64), (bits == 0).astype(np.float64)
    own = np.diag(both)
    cells = {  # (observed, expected) of each cell, and whether the two bits are equal in it
        (1, 1): ((one * times[:, None]).T @ one, both),
        (1, 0): ((one * times[:, None]).T @ zero, own[:, None] - both),
        (0, 1): ((zero * times[:, None]).T @ one, own - both),
        (0, 0): ((zero * times[:, None]).T @ zero, 1 - own[:, None] - own + both),
    }
    counts = sum(observed for observed, _ in cells.values())
    (total, equal), least = np.zeros((2, d, d)), np.full((d, d), np.inf)
    for (first, second), (observed, share) in cells.items():
        expected = counts * np.maximum(share, 0)
        least = np.minimum(least, expected)
        gap = observed - expected
        # a cell that cannot be is no misfit as long as it is empty
        possible = (expected > 1e-9 * np.maximum(counts, 1)) | (observed > 0)
        total += np.divide(gap**2, expected, out=np.where(possible, np.inf, 0.0), where=expected > 0) * possible
        equal += gap if first == second else -gap
    result = np.where(equal < 0, -total, total)
    result[counts == 0] = np.nan
    np.fill_diagonal(result, np.nan)
    return PairResiduals(result, counts, least)


def beyond_chance(n_pairs: int, level: float = 0.05) -> float:
    """Return the X² (1 degree of freedom) that no independent pair exceeds in 95 of 100 tables.

    >>> round(beyond_chance(1), 2), beyond_chance(100) > 10
    (3.84, True)
    """
    return float(chi2.isf(level / max(n_pairs, 1), 1))


def worst_columns(residuals: np.ndarray, most: int) -> np.ndarray:
    """Choose the columns with the largest residuals, in the order of the table.

    >>> worst_columns(np.array([[0, 1, 9], [1, 0, 2], [9, 2, 0]]), 2).tolist()
    [0, 2]
    """
    size = np.nan_to_num(np.abs(residuals), posinf=np.finfo(float).max)
    np.fill_diagonal(size, 0)
    return np.sort(np.argsort(-size.max(axis=1, initial=0.0), kind="stable")[:most])


def plot_pair_residuals(
    residuals: np.ndarray,
    names: Sequence[str] | None = None,
    ax: Any = None,
    most: int = 60,
    least: np.ndarray | None = None,
) -> Any:
    """Plot signed X² of pairs of columns as a heat map: observed 2 x 2 tables against those of a model.

    Red pairs are equal more often than the model says, blue ones less often.  Colours go by the root of X².  Pairs
    with a frame lie beyond chance, given the number of pairs, taking X² for chi-squared with 1 degree of freedom,
    which is a rough rule; pairs with cells too sparse for it are pale, and have none.

    Parameters
    ----------
    residuals : (d, d) array
        X² with a sign, symmetric; NaN where there is none.
    names : sequence of d names, optional
    ax : matplotlib Axes, optional
    most : int
        Columns shown: those with the largest residuals, in the order of the table.
    least : (d, d) array or None
        Rows expected in the emptiest cell of each pair's table; below 5 a pair is too sparse.  None: none is.
    """
    residuals = np.asarray(residuals, np.float64)
    d = len(residuals)
    if residuals.shape != (d, d) or d < 2:
        raise DataError(f"residuals of pairs are a (d, d) array of two columns or more, found shape {residuals.shape}")
    dense = np.isfinite(residuals) & (np.ones((d, d), bool) if least is None else np.asarray(least) >= SPARSE)
    n_pairs = int(dense[np.tril_indices(d, -1)].sum())
    limit = beyond_chance(n_pairs)
    chosen = worst_columns(np.where(dense, residuals, 0), most)
    m = len(chosen)
    part, known = residuals[np.ix_(chosen, chosen)], dense[np.ix_(chosen, chosen)]
    below = np.tril(np.ones((m, m), bool), -1)
    root = np.where(below, np.sign(part) * np.sqrt(np.abs(part)), np.nan)
    # colours are full at no less than the root of X² of 4
    top = max(4.0, float(np.abs(root[below & known]).max(initial=0.0)))
    faint = np.where(known, 1.0, 0.35)[1:, :-1]
    side = min(10.0, max(4.6, 2.2 + 0.17 * m))
    ax = axes_or_new(ax, (side + 0.8, side))
    image = ax.imshow(
        np.clip(root[1:, :-1], -top, top),
        cmap=signed(),
        vmin=-top,
        vmax=top,
        alpha=np.where(np.isnan(root[1:, :-1]), 0.0, faint),
        interpolation="nearest",
        aspect="equal",
    )
    words = [str(column + 1) if names is None else short(str(names[column])) for column in chosen]
    size = 9 if m <= 16 else 7 if m <= 40 else 5.5
    upright = text_widths(words, size).max() > 0.7 * 72 * side / m
    ax.set_yticks(range(m - 1), labels=words[1:], fontsize=size, parse_math=False)
    ax.set_xticks(range(m - 1), labels=words[:-1], fontsize=size, rotation=90 if upright else 0, parse_math=False)
    ax.set_xticks(np.arange(m) - 0.5, minor=True)
    ax.set_yticks(np.arange(m) - 0.5, minor=True)
    ax.grid(which="minor", color=PAPER, linewidth=1.5 if m <= 24 else 0.5)
    ax.tick_params(which="minor", length=0)
    for spine in ax.spines.values():
        spine.set_visible(False)
    _mark(ax, part, below & known & (np.abs(part) > limit), below & ~np.isnan(part))
    bar = ax.figure.colorbar(image, ax=ax, shrink=0.6, aspect=18, pad=0.02)
    bar.outline.set_visible(False)
    bar.set_label("root of X², with the sign", fontsize=SMALL + 1)
    numbers = "numbers: X²; " if m <= MOST_NUMBERS else ""
    count = f"\n{m} of {d} columns: those with the largest" if m < d else ""
    n_sparse = d * (d - 1) // 2 - n_pairs
    sparse = f"; {n_sparse:,} pairs too sparse to tell" if n_sparse else ""
    ax.set_xlabel(
        f"{numbers}red: equal more often than the model says, blue: less often\n"
        f"framed: X² > {limit:.1f}, beyond chance for {n_pairs:,} pairs (5 % in all){sparse}{count}",
        fontsize=SMALL,
    )
    return ax


def _mark(ax: Any, part: np.ndarray, framed: np.ndarray, numbered: np.ndarray) -> None:
    """Frame the cells beyond chance, and print numbers where there is room."""
    from matplotlib.patches import Rectangle

    for row, column in np.argwhere(framed):
        ax.add_patch(
            Rectangle((column - 0.5, row - 1.5), 1, 1, fill=False, edgecolor=INK, linewidth=1.2, clip_on=False)
        )
    if len(part) > MOST_NUMBERS:
        return
    for row, column in np.argwhere(numbered):
        size = abs(part[row, column])
        words = f"{size:.1f}" if size < 99.95 else f"{size:.0f}"
        sign = "−" if part[row, column] < 0 and float(words) > 0 else ""
        look: Any = {"fontsize": SMALL - (1 if len(part) > 9 else 0), "color": INK}
        ax.text(column, row - 1, sign + words, ha="center", va="center", **look)
