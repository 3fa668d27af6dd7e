"""Warnings: factors at their bounds, pairs that the data do not determine, correlations that no Gaussian has."""

from __future__ import annotations

import numpy as np

from latentbits.estimators.tables.refusals import at_column
from latentbits.models.clipped_gaussian.learning import undetermined_words
from latentbits.models.clipped_gaussian.params import Params
from latentbits.models.clipped_gaussian.spectrum import lowest_by_chance
from latentbits.models.clipped_gaussian.tuning import LEAST_UNIQUENESS

__all__ = ["of_bounds", "of_pairs", "of_spectrum"]


def of_bounds(params: Params, names: np.ndarray | None, climbed: bool) -> str | None:
    """Warn of Heywood cases; components do not end at this bound but by chance."""
    communalities = np.sum(np.square(params.weights), 1)
    found = np.flatnonzero(np.abs(communalities - (1 - LEAST_UNIQUENESS)) < 1e-9)
    if not len(found):
        return None
    columns = ", ".join(at_column(int(i), names) for i in found[:5])
    more = f" and {len(found) - 5} more" if len(found) > 5 else ""
    fewer = "take fewer components (n_components), " if params.weights.shape[1] > 1 else ""
    fewer += "give a prior (weight_prior=3, say), " if climbed else ""
    return (
        f"a Heywood case: factors explain all that they may of {columns}{more}, whose uniqueness is at its bound of "
        f"{LEAST_UNIQUENESS}, so that their weights say little: {fewer}leave out a column that hardly differs from "
        "another, or take more rows, since with few of them chance does that"
    )


def of_pairs(params: Params) -> str | None:
    """Warn of pairs whose correlation the data do not determine."""
    varying = np.flatnonzero(np.diag(params.correlation))
    pairs = np.triu_indices(len(varying), 1)
    found = int(np.sum(params.undetermined[np.ix_(varying, varying)][pairs]))
    return undetermined_words(found, len(pairs[0])) if found else None


def of_spectrum(params: Params) -> str | None:
    """Warn of negative eigenvalues, by chance or beyond it."""
    correlation, error = np.asarray(params.correlation), np.asarray(params.error)
    lowest, chance = params.eigenvalues[-1], lowest_by_chance(correlation, error)
    share = float(params.negative_share)
    if lowest < -max(0.2, -2 * chance):
        why = (
            f"the smallest eigenvalue of the correlations is {lowest:.2f}, far below what chance would make it "
            f"({chance:.2f}). Constraints on whole rows (a fixed number of ones, say) do that"
        )
    elif share > 0.1:
        empty = int(np.sum(np.triu(params.corrected)))
        why = (
            f"{share:.0%} of the spectrum of the correlations is negative, as chance would make it "
            f"with few rows, or rare ones, for the number of columns ({empty} pairs have an empty cell)"
        )
    else:
        return None
    return (
        f"no Gaussian has these correlations: {why}. The first components can be used; repair=True takes them from "
        "the nearest correlation matrix"
    )
