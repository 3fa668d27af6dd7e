"""Several maps: where each row is on which of them, how the maps lie to each other, and whether they are worth it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from latentbits.choosing.compare import fit_copy, score_rows, weights_of
from latentbits.estimators.families import family_of_maps
from latentbits.explorer.content import Maps
from latentbits.explorer.map_content import lines_of, short_covariances
from latentbits.reports.comparison import ranked
from latentbits.reports.numbers import with_error

__all__ = ["MOST_MAPS", "Gain", "check_maps", "gain_of", "in_sentences", "like", "maps_asked", "maps_of"]

MOST_MAPS = 12  # that a page shows beside each other
HELD_OUT_SHARE = 0.25  # of the rows, on which several maps are compared with one
SURE_ERRORS = 3.0  # standard errors from which a difference is reported as one


@dataclass(frozen=True)
class Gain:
    """Costs of several maps and of one for the same unseen rows, in bits per row.

    `fewer` is how many fewer several need, `error` its standard error, row by row; `converged` whether both fits did.
    """

    n_rows: int
    one: float
    several: float
    fewer: float
    error: float
    converged: bool


def check_maps(n_maps: int) -> None:
    """Check that a page can show this number of maps."""
    whole = isinstance(n_maps, int | np.integer) and not isinstance(n_maps, bool)
    if not (whole and 1 <= n_maps <= MOST_MAPS):
        raise ValueError(f"n_maps must be a whole number from 1 to {MOST_MAPS}, found {n_maps!r}")


def maps_asked(model: Any) -> int:
    """Count the maps of two traits of a model that the page can show; 1 for any other, and for a name."""
    several = getattr(model, "n_maps", 1)
    return several if getattr(model, "n_components", 0) == 2 and 1 < several <= MOST_MAPS else 1


def like(model: Any, n_maps: int) -> Any:
    """Make a model of `n_maps` maps, or of one, with the options that it shares with another."""
    cls = family_of_maps(several=n_maps > 1).cls
    both = {name: value for name, value in model.get_params(deep=False).items() if name in cls._get_param_names()}
    return cls(**both | ({"n_maps": n_maps} if n_maps > 1 else {}))


def gain_of(values: Any, one: Any, several: Any, weights: np.ndarray | None, seed: int | None) -> Gain:
    """Fit both estimators to three quarters of the rows, and compare them on the rest."""
    shuffled = np.random.default_rng(seed).permutation(values.shape[0])
    n_unseen = max(1, round(HELD_OUT_SHARE * len(shuffled)))
    unseen, seen = np.sort(shuffled[:n_unseen]), np.sort(shuffled[n_unseen:])
    own = weights_of(weights, unseen)
    row_bits, common, converged = {}, {}, {}
    for name, estimator in (("one", one), ("several", several)):
        fitted = fit_copy(estimator, values[seen], weights_of(weights, seen))
        row_bits[name], common[name] = score_rows(fitted, values[unseen], own)
        converged[name] = bool(fitted._finished)
    entries = {entry.name: entry for entry in ranked(row_bits, common, dict.fromkeys(row_bits, 0.0), converged, own)}
    several_behind, behind = entries["several"].behind, max(entries.values(), key=lambda entry: entry.behind)
    return Gain(
        n_rows=n_unseen,
        one=entries["one"].bits_per_row,
        several=entries["several"].bits_per_row,
        fewer=behind.behind if several_behind == 0 else -behind.behind,
        error=behind.behind_error,
        converged=all(converged.values()),
    )


def maps_of(
    name: str, model: Any, values: np.ndarray, weights: np.ndarray | None, n_lines: int, gain: Gain | None
) -> Maps:
    """Place rows (n, d) by a model of several maps with two latent traits, each on its most probable map.

    Parameters
    ----------
    name
        Of the model.
    model
        The fitted estimator.
    values, weights
        The rows that are shown, and how often each counts.
    n_lines
        Columns of each map whose lines are drawn at first.
    gain
        What was measured on unseen rows; None where there was no time.
    """
    found = model.posterior(values)
    sure, home = np.asarray(found.responsibilities, np.float64), np.asarray(found.map, int)
    means = np.asarray(found.mean, np.float64)
    slopes, bias = np.asarray(model.components_, np.float64), np.asarray(model.intercept_, np.float64)
    noise = getattr(model, "noise_variance_", None)
    own = sure[np.arange(len(home)), home]
    shares = np.asarray(model.shares_, np.float64)
    lines = tuple(
        lines_of(slopes[m], bias[m], means[home == m], n_lines if noise is None and (home == m).any() else 0)
        for m in range(len(shares))
    )
    converged = bool(model._finished)
    return Maps(
        name=name,
        shares=shares,
        home=home,
        sure=own,
        means=means,
        covariances=short_covariances(found.covariance),
        weights=slopes,
        bias=bias,
        noise=None if noise is None else np.asarray(noise, np.float64),
        cost=-np.asarray(model.score_samples(values), np.float64) / np.log(2),
        lines=lines,
        places=places_among(_profiles(values, sure, weights, noise is not None)),
        sentences=in_sentences(shares, float(np.average(own, weights=weights)), gain) if converged else "",
        converged=converged,
    )


def _profiles(values: np.ndarray, sure: np.ndarray, weights: np.ndarray | None, real: bool) -> np.ndarray:
    """Average each column over the rows of each map (m, d), by how probably they are on it; in its units."""
    counts = sure if weights is None else sure * weights[:, None]
    there = ~np.isnan(values)
    known = np.where(there, values, 0.0).astype(np.float64)
    overall = known.sum(0) / np.maximum(there.sum(0), 1)
    # as if one more row had been seen, with the means of all: of a map without rows nothing is known
    means = (counts.T @ known + overall) / (counts.T @ there + 1)
    return means / np.maximum(np.nanstd(values, axis=0), 1e-12) if real else means


def places_among(profiles: np.ndarray) -> np.ndarray:
    """Place maps in a plane (m, 2) in which those with like columns are near: principal components, 1 across.

    >>> places_among(np.array([[0.0, 0.0, 0.0], [1.0, 1.0, 1.0]])).tolist()
    [[-0.5, 0.0], [0.5, 0.0]]
    """
    centred = profiles - profiles.mean(axis=0)
    left, size, _ = np.linalg.svd(centred, full_matrices=False)
    places = np.zeros((len(profiles), 2))
    n = min(2, int(np.sum(size > 1e-9 * max(size[0], 1e-9))))
    places[:, :n] = left[:, :n] * size[:n]
    signs = np.sign(places[np.argmax(np.abs(np.round(places, 9)), axis=0), np.arange(2)])
    places *= np.where(signs == 0, 1.0, -signs)
    across = np.ptp(places, axis=0).max()
    return np.round(places / (across if across > 0 else 1.0), 9) + 0.0


def in_sentences(shares: np.ndarray, sure: float, gain: Gain | None) -> str:
    """Describe several maps in sentences: shares, how sure rows are on them, and bits of unseen rows.

    >>> in_sentences(np.array([0.7, 0.3]), 0.9, None)
    '2 maps hold 70 % and 30 % of the rows; a row is on its map with a probability of 0.90 on average. Whether they \
describe unseen rows better than one map was not measured: no time was left.'
    """
    percent = [f"{100 * share:.0f} %" for share in shares]
    n, parts = len(shares), f"{', '.join(percent[:-1])} and {percent[-1]}"
    text = f"{n} maps hold {parts} of the rows; a row is on its map with a probability of {sure:.2f} on average."
    if gain is None:
        return f"{text} Whether they describe unseen rows better than one map was not measured: no time was left."
    if not gain.converged:
        return f"{text} Whether they describe unseen rows better than one map is unknown: a fit had not converged."
    by = with_error(abs(gain.fewer), gain.error, ".2f")
    need = f"For {gain.n_rows:,} unseen rows they need {gain.several:.2f} bits per row, and one map {gain.one:.2f}"
    if not abs(gain.fewer) > SURE_ERRORS * gain.error:  # also where the error is not known
        more = "more" if gain.fewer < 0 else "fewer"
        return f"{text} {need}: no clear difference ({by} {more}), so one map may be all that there is."
    if gain.fewer < 0:
        return f"{text} {need}: one map describes unseen rows better, by {by}."
    return f"{text} {need}: {by} fewer."
