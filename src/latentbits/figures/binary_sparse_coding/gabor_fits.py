"""Gabor functions fitted to basis functions of image patches, by least squares."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.figures.binary_sparse_coding.arrays import FieldSummary, as_fields, summarize_fields

__all__ = ["GaborFits", "fit_gabors", "gabor"]

LEAST, MOST = np.log(0.3), np.log(100.0)  # of the logarithm of a width in pixels
TOL, MOST_STEPS = 1e-4, 100  # a field that is no Gabor function creeps on, for a thousandth of its sum of squares
STARTS = (1.0, 0.5, 0.0)  # of the frequency with most power: a wave within a narrow envelope has a lower one


class GaborFits(NamedTuple):
    """Gabor functions of H fields, each an (H,) array but for `centre`; NaN where a field is zero.

    Attributes
    ----------
    explained : share of the sum of squares, 1 for a Gabor function
    orientation : degrees, 0 up to 180
        Of the stripes: 0 is horizontal, 90 vertical, 45 rises to the right.
    frequency : cycles per pixel
    phase : degrees, -180 to 180
        Of the wave at the centre: 0 for a bright bar, 180 for a dark one, 90 and -90 for edges.
    centre : (H, 2), row and column
    length, width : pixels
        Standard deviations of the envelope along the stripes and across them.
    amplitude : of the envelope
    n_along, n_across : cycles
        length and width times frequency.  Globular fields lie near the origin of the plane of the two (Ringach 2002).
    """

    explained: np.ndarray
    orientation: np.ndarray
    frequency: np.ndarray
    phase: np.ndarray
    centre: np.ndarray
    length: np.ndarray
    width: np.ndarray
    amplitude: np.ndarray
    n_along: np.ndarray
    n_across: np.ndarray


def gabor(
    image_shape: tuple[int, int],
    *,
    centre: tuple[float, float],
    orientation: float,
    frequency: float,
    length: float,
    width: float,
    phase: float = 0.0,
) -> np.ndarray:
    """Draw a wave within a Gaussian envelope of height 1, (height, width); `GaborFits` defines the arguments.

    Examples
    --------
    >>> bar = gabor((5, 5), centre=(2, 2), orientation=90, frequency=0.25, length=2, width=1)
    >>> np.allclose(bar[2], [-np.exp(-2), 0, 1, 0, -np.exp(-2)])
    True
    """
    wave = np.radians(orientation - 90)
    place = np.array([*centre, wave, frequency, np.log(width), np.log(length)])
    turned = np.radians(phase)
    return _wave(place, np.array([np.cos(turned), -np.sin(turned)]), _grid(image_shape))[0].reshape(image_shape)


def fit_gabors(components: np.ndarray, image_shape: tuple[int, int], summary: FieldSummary | None = None) -> GaborFits:
    """Fit a Gabor function to every field, beginning at its moments.

    Parameters
    ----------
    components : (H, height * width) array
    image_shape : (height, width)
    summary : FieldSummary, optional
        Of these fields, if `summarize_fields` has been asked before.

    Returns
    -------
    GaborFits

    Examples
    --------
    >>> bar = gabor((16, 16), centre=(8, 7), orientation=30, frequency=0.15, length=3, width=2, phase=90)
    >>> found = fit_gabors(bar.reshape(1, -1), (16, 16))
    >>> [round(float(one[0]), 2) for one in (found.explained, found.orientation, found.frequency, found.length)]
    [1.0, 30.0, 0.15, 3.0]
    """
    fields = as_fields(components, image_shape).reshape(len(components), -1)
    seen = summarize_fields(components, image_shape) if summary is None else summary
    size = np.linalg.norm(fields, axis=1)
    grid = _grid(image_shape)
    found = np.full((len(fields), 9), np.nan)
    for h in np.flatnonzero((size > 0) & np.isfinite(seen.frequency)):
        found[h] = _fit(fields[h] / size[h], grid, _starts(seen, int(h)))
    return _named(found, size)


def _starts(seen: FieldSummary, h: int) -> np.ndarray:
    """List starts, one a row: row, column, angle of the wave, frequency, logarithms of width and length."""
    row, column = seen.centre[h]
    wave = np.radians(seen.orientation[h] - 90)
    sides = np.log(np.clip([seen.width[h], seen.length[h]], 0.7, 30))
    return np.array([[row, column, wave, max(share * seen.frequency[h], 0.01), *sides] for share in STARTS])


def _fit(field: np.ndarray, grid: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Find the best fit: row, column, angle, frequency, log width, log length, cosine, sine, and the remainder."""
    from scipy.optimize import least_squares

    def miss(p: np.ndarray) -> np.ndarray:
        return _wave(p[:6], p[6:], grid)[0] - field

    def slopes(p: np.ndarray) -> np.ndarray:
        return _slopes(p[:6], p[6:], grid)

    best = np.full(9, np.inf)
    for start in starts:
        # the cosine and the sine are linear, and so best from the beginning
        waves = np.stack([_wave(start, both, grid)[0] for both in np.eye(2)], axis=1)
        linear = np.linalg.lstsq(waves, field, rcond=None)[0]
        begin = np.concatenate([start, linear])
        fit = least_squares(miss, begin, slopes, method="lm", xtol=TOL, ftol=TOL, max_nfev=MOST_STEPS)
        if 2 * fit.cost < best[8]:
            best = np.append(fit.x, 2 * fit.cost)
    return best


def _grid(image_shape: tuple[int, int]) -> np.ndarray:
    return np.indices(image_shape).reshape(2, -1).astype(np.float64)


def _wave(place: np.ndarray, linear: np.ndarray, grid: np.ndarray) -> tuple[np.ndarray, ...]:
    """Compute values at all pixels, their derivative by the phase, and coordinates in widths across and along."""
    row, column, angle, frequency, *logs = place
    width, length = np.exp(np.clip(logs, LEAST, MOST))
    up, right = row - grid[0], grid[1] - column
    across, along = right * np.cos(angle) + up * np.sin(angle), up * np.cos(angle) - right * np.sin(angle)
    envelope = np.exp(-(np.square(across / width) + np.square(along / length)) / 2)
    cosine, sine = (envelope * turn(2 * np.pi * frequency * across) for turn in (np.cos, np.sin))
    values = linear[0] * cosine + linear[1] * sine
    return values, linear[1] * cosine - linear[0] * sine, across, along, cosine, sine


def _slopes(place: np.ndarray, linear: np.ndarray, grid: np.ndarray) -> np.ndarray:
    """Differentiate the values by the eight parameters, (pixels, 8)."""
    values, turned, across, along, cosine, sine = _wave(place, linear, grid)
    angle, frequency = place[2:4]
    width, length = np.exp(np.clip(place[4:], LEAST, MOST))
    by_across = 2 * np.pi * frequency * turned - values * across / width**2
    by_along = -values * along / length**2
    free = (place[4:] > LEAST) & (place[4:] < MOST)
    return np.stack(
        [
            np.sin(angle) * by_across + np.cos(angle) * by_along,
            np.sin(angle) * by_along - np.cos(angle) * by_across,
            by_across * along - by_along * across,
            2 * np.pi * across * turned,
            free[0] * values * np.square(across / width),
            free[1] * values * np.square(along / length),
            cosine,
            sine,
        ],
        axis=1,
    )


def _named(found: np.ndarray, size: np.ndarray) -> GaborFits:
    """Convert parameters to those of `GaborFits`: no negative frequency, angles in degrees."""
    row, column, angle, frequency, log_width, log_length, cosine, sine, left = found.T
    sine = np.where(frequency < 0, -sine, sine)
    frequency = np.abs(frequency)
    width, length = np.exp(np.clip(log_width, LEAST, MOST)), np.exp(np.clip(log_length, LEAST, MOST))
    orientation = np.degrees(angle) + 90
    # a wave turned by 180 degrees is the same wave with its sine reversed
    sine = np.where(np.floor(orientation / 180) % 2 == 1, -sine, sine)
    return GaborFits(
        explained=1 - left,
        orientation=orientation % 180,
        frequency=frequency,
        phase=np.degrees(np.arctan2(-sine, cosine)),
        centre=np.stack([row, column], axis=1),
        length=length,
        width=width,
        amplitude=size * np.hypot(cosine, sine),
        n_along=length * frequency,
        n_across=width * frequency,
    )
