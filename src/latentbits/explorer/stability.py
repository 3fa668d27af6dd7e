"""How sure causes and axes are: whether fits to other parts of the rows have found them, too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from scipy.optimize import linear_sum_assignment

from latentbits.reports.summaries.records import Gallery, Tree

__all__ = ["alike", "axes_again", "axes_alike", "with_rounds"]

FOUND_CORRELATION = 0.9  # correlation over rows from which a cause of another fit is the same


def with_rounds(gallery: Gallery, others: Sequence[Gallery]) -> Gallery:
    """Add to the lowest causes of a gallery in how many of the other fits they were found again.

    Parameters
    ----------
    others
        Of models of the same family and size, fitted to parts of the rows; their first rows are those of the gallery.
    """
    if not others:
        return gallery
    if gallery.trees:
        return replace(gallery, trees=tuple(_tree_again(tree, others) for tree in gallery.trees))
    lowest = gallery.layers[0]
    found = [alike(lowest.active, other.layers[0].active) >= FOUND_CORRELATION for other in others]
    layer = replace(lowest, found_again=np.sum(found, axis=0), n_rounds=len(others))
    return replace(gallery, layers=(layer, *gallery.layers[1:]))


def _tree_again(tree: Tree, others: Sequence[Gallery]) -> Tree:
    """Add to the edges of a tree in how many of the other fits they were found again, in whatever direction."""
    columns = np.arange(len(tree.parents))
    found = np.zeros(len(columns), int)
    for other in others:
        theirs = {frozenset(edge) for one in other.trees for edge in zip(columns.tolist(), one.parents.tolist())}
        found += [frozenset(edge) in theirs for edge in zip(columns.tolist(), tree.parents.tolist())]
    return replace(tree, found_again=np.where(tree.parents < 0, 0, found), n_rounds=len(others))


def alike(ours: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Measure how much each cause of ours (n, m) goes with its partner among theirs (n', k), over rows that both have.

    Each has one partner at most, so that together they are most alike.  A cause on in one fit may be off in another,
    and traits may point the other way: the sign of a correlation does not count.  A cause that never changes has none.

    >>> ours = np.array([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 0.0]])
    >>> (alike(ours, 1 - ours[:, ::-1]) > 0.999).tolist()
    [True, True]
    """
    n = min(len(ours), len(theirs))
    a, b = (_standard(x[:n]) for x in (ours, theirs))
    match = np.abs(a.T @ b)
    rows, columns = linear_sum_assignment(-match)
    found = np.zeros(ours.shape[1])
    found[rows] = match[rows, columns]
    return found


def axes_alike(means: np.ndarray, theirs: np.ndarray) -> np.ndarray:
    """Measure how much each axis of a map (n, 2) goes with that of another fit (n', q), q at least 2, over common rows.

    The likelihood fixes no rotation of the traits, so theirs are turned as a whole to lie on ours as well as they can
    (Procrustes), and an axis may point the other way.

    >>> turned = np.array([[0.6, 0.8], [-0.8, 0.6]])
    >>> places = np.random.default_rng(0).normal(size=(50, 2))
    >>> (axes_alike(places, places @ turned) > 0.999).tolist()
    [True, True]
    """
    n = min(len(means), len(theirs))
    ours, other = (x[:n] - x[:n].mean(0) for x in (means, theirs))
    left, _, right = np.linalg.svd(other.T @ ours, full_matrices=False)
    return np.sum(_standard(ours) * _standard(other @ left @ right), axis=0)


def axes_again(means: np.ndarray, rounds: Sequence[np.ndarray]) -> str:
    """Say in a sentence whether the axes of a map (n, 2) were found in rounds: places (n', q) of rows by each fit.

    >>> places = np.random.default_rng(0).normal(size=(50, 2))
    >>> axes_again(places, [places, -places])
    "The axes were found again in 2 of 2 rounds (correlation of rows' places at least 1.00)."
    """
    whole = [theirs for theirs in rounds if theirs.shape[1] > 1]
    if not whole:
        why = "the fits to parts of the rows had one trait" if len(rounds) else "no fit of traits to them has converged"
        return f"Whether other parts of the rows give the same axes is unknown: {why}."
    match = np.array([axes_alike(means, theirs) for theirs in whole])
    (first, second), m = (match >= FOUND_CORRELATION).sum(axis=0).tolist(), len(whole)
    least, s = f"{np.floor(100 * match.min()) / 100:.2f}", "s" if m > 1 else ""
    if first == second == m:
        return f"The axes were found again in {m} of {m} round{s} (correlation of rows' places at least {least})."
    so = "an axis that is not found again is not to be trusted" if m > 1 else "one round says little"
    return (
        f"Trait 1 was found again in {first} of {m} round{s}, trait 2 in {second} of {m} (correlation of rows' places "
        f"{FOUND_CORRELATION} or more; the least is {least}): {so}."
    )


def _standard(x: np.ndarray) -> np.ndarray:
    """Centre columns, and make their length 1; 0 where there is nothing but rounding."""
    x = x - x.mean(0)
    length = np.linalg.norm(x, axis=0)
    return np.divide(x, length, out=np.zeros_like(x), where=length > 1e-6 * np.sqrt(len(x)))
