"""Measures of the basis functions of image patches: where, how wide, of which orientation, how globular.

Fields of natural images are wavelets (Gabor functions: a wave within an envelope) and globular ones (a spot, or a spot
with a surround).  Two measures separate them, neither of which needs a fit:

- in the plane of frequencies a wavelet has two opposite lobes and a globular field a disc or a ring, so the second
  moments of the spectrum say how oriented a field is;
- a field that is turned about its middle by all angles and averaged keeps what depends on the distance alone: all of a
  globular field, little of a wavelet.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = ["FieldSummary", "by_globularity", "summarize_fields"]

SMOOTH = 1.5  # pixels over which energy is smoothed to find where a field is
BLOCK = 64  # fields whose padded spectra are held at a time


class FieldSummary(NamedTuple):
    """Measures of H fields, each an (H,) array but for `centre`; NaN where a field is zero (`globularity` is 0 there).

    None depends on the size of a field, and only `polarity` on its sign.

    Attributes
    ----------
    globularity : 0 to 1
        1 for a field that depends on the distance from its middle alone: `radial_share` times (1 - `selectivity`).
    selectivity : 0 to 1
        Of orientation: (a - b) / (a + b) for the mean squares a >= b of the frequency along and across the preferred
        direction, weighted by the squared power.  0 for a spot, near 1 for a wavelet with several stripes.
    radial_share : 0 to 1
        Share of the energy in what is left after averaging over all rotations about the centre.
    orientation : degrees, 0 up to 180
        Of the stripes: 0 is horizontal, 90 vertical, 45 rises to the right.
    frequency : cycles per pixel
        Where the power is greatest; 0 for a spot without surround.
    centre : (H, 2)
        Row and column of the middle of the energy, in pixels.
    length, width : pixels
        Along the stripes and across them: the standard deviation of a Gaussian envelope with the same spread.
    aspect : ratio
        length / width.
    elongation : 0 up to 1
        1 - the ratio of the lesser to the greater spread of the energy, in whichever direction.
    localisation : 0 to 1
        Share of the energy in the disc about the centre that has a quarter of the area of the patch.
    margin : ratio
        Of the distance of the centre from the nearest border to the spread of the energy towards it: below 2 a field is
        likely to be cut by the border.
    symmetry : 0 to 1
        Share of the energy that is even about the centre: 1 for a spot or a bar, 0 for an edge.
    polarity : -1 to 1
        Sum over the sum of sizes: 1 for a field that only adds light, -1 for one that only takes it away.
    signal : 0 to 1
        Share of the energy that stands out of the noise.
    """

    globularity: np.ndarray
    selectivity: np.ndarray
    radial_share: np.ndarray
    orientation: np.ndarray
    frequency: np.ndarray
    centre: np.ndarray
    length: np.ndarray
    width: np.ndarray
    aspect: np.ndarray
    elongation: np.ndarray
    localisation: np.ndarray
    margin: np.ndarray
    symmetry: np.ndarray
    polarity: np.ndarray
    signal: np.ndarray


def by_globularity(summary: FieldSummary, localised: float = 0.5, inside: float = 1.5) -> np.ndarray:
    """Order the fields, the most globular first (figure 2B).

    Parameters
    ----------
    summary : FieldSummary
    localised, inside : float
        Fields with less `localisation` or a smaller `margin` come after all others: what is spread out over the patch
        is round only because the patch is, and of what the border cuts one cannot say.  0 turns either off.

    Returns
    -------
    (H,) integers

    Examples
    --------
    >>> y, x = np.mgrid[-8:9, -8:9]
    >>> spot = np.exp(-(x**2 + y**2) / 8)
    >>> fields = np.array([spot * np.sin(x), spot, spot * np.cos(x - y)]).reshape(3, -1)
    >>> by_globularity(summarize_fields(fields, (17, 17))).tolist()[0]
    1
    """
    whole = (summary.localisation >= localised) & (summary.margin >= inside)  # a field of zero has NaN
    return np.lexsort([-summary.globularity, ~whole])


def summarize_fields(components: np.ndarray, image_shape: tuple[int, int]) -> FieldSummary:
    """Measure every basis function.

    White noise on a field is estimated from the weakest quarter of its pixels and of its spectrum; frequencies that do
    not stand out of it count less or not at all.

    Parameters
    ----------
    components : (H, height * width) array
        One field a row, as in `components_`.
    image_shape : (height, width)

    Examples
    --------
    >>> y, x = np.mgrid[-8:9, -8:9]
    >>> stripes = np.exp(-(x**2 + y**2) / 18) * np.cos(2 * np.pi * x / 5)
    >>> found = summarize_fields(stripes.reshape(1, -1), (17, 17))
    >>> np.allclose(found.orientation, 90), np.allclose(found.frequency, 1 / 5, rtol=0.1), np.allclose(found.centre, 8)
    (True, True, True)
    """
    fields = as_fields(components, image_shape)
    largest = np.abs(fields).max(axis=(1, 2), keepdims=True)
    fields = np.divide(fields, largest, out=np.zeros_like(fields), where=largest > 0)
    with np.errstate(invalid="ignore", divide="ignore"):  # fields of zero
        clean = _without_noise(fields)
        energy = _strong(np.square(clean))
        centre, spread = _second_moments(energy)
        seen = [_spectral(clean[i : i + BLOCK], centre[i : i + BLOCK]) for i in range(0, len(clean), BLOCK)]
        selectivity, angle, frequency, radial, even = (np.concatenate(parts) for parts in zip(*seen))
        radius = np.sqrt(energy[0].size / (4 * np.pi))
        near = np.sum(energy, axis=(1, 2), where=_distance(energy.shape[1:], centre) <= radius)
        lesser, greater = np.sqrt(np.maximum(np.linalg.eigvalsh(np.nan_to_num(spread)), 0)).T
        length, width = _widths(spread, angle)
        return FieldSummary(
            globularity=np.nan_to_num(radial * (1 - selectivity)),
            selectivity=selectivity,
            radial_share=radial,
            orientation=np.degrees(angle + np.pi / 2) % 180,
            frequency=frequency,
            centre=centre,
            length=length,
            width=width,
            aspect=length / width,
            elongation=1 - lesser / greater,
            localisation=near / energy.sum(axis=(1, 2)),
            margin=_margins(energy.shape[1:], centre, spread),
            symmetry=even,
            polarity=clean.sum(axis=(1, 2)) / np.abs(clean).sum(axis=(1, 2)),
            signal=np.square(clean).sum(axis=(1, 2)) / np.square(fields).sum(axis=(1, 2)),
        )


def as_fields(components: np.ndarray, image_shape: tuple[int, int]) -> np.ndarray:
    """Check components and return them as finite (H, height, width) in float64."""
    fields = np.asarray(components, np.float64)
    height, width = image_shape
    if fields.ndim != 2 or len(fields) == 0 or fields.shape[1] != height * width or not np.isfinite(fields).all():
        raise DataError(
            f"components must be finite and (H, {height * width}) for images of {height} x {width}, found "
            f"{fields.shape}"
        )
    return fields.reshape(-1, height, width)


def _without_noise(fields: np.ndarray) -> np.ndarray:
    """Remove pixels far from each field, and frequencies that do not stand out of white noise."""
    from scipy.ndimage import gaussian_filter

    variance = _noise_variance(fields)
    energy = gaussian_filter(np.square(fields), (0, SMOOTH, SMOOTH), mode="nearest")
    # smoothed, the energy of noise has a standard deviation of 1 / sqrt(2 pi SMOOTH^2) of its mean
    energy = energy - variance * (1 + 3 / np.sqrt(2 * np.pi * SMOOTH**2))
    centre, spread = _second_moments(_strong(energy))
    # a field is looked at within three standard deviations of its envelope
    radius = 3.0 * np.sqrt(2 * np.linalg.eigvalsh(np.nan_to_num(spread))[:, 1, None, None])
    # whole inside the radius, nothing from half as much again on
    window = np.clip(3 - 2 * _distance(fields.shape[1:], centre) / radius, 0, 1)
    window = np.nan_to_num(window * window * (3 - 2 * window), nan=1.0)
    spectrum = np.fft.fft2(fields * window)
    noise = variance * np.square(window).sum(axis=(1, 2), keepdims=True)
    power = np.square(np.abs(spectrum))
    # a soft threshold: what stands out far stays whole
    # frequencies with less than three times the noise's power are left out
    gain = np.maximum(1 - np.divide(3.0 * noise, power, out=np.full_like(power, np.inf), where=power > 0), 0)
    return np.fft.ifft2(spectrum * gain).real


def _noise_variance(fields: np.ndarray) -> np.ndarray:
    """Estimate the variance of white noise from the weakest quarter of pixels and of the spectrum, (H, 1, 1)."""
    power = np.square(np.abs(np.fft.fft2(fields))) / fields[0].size
    weakest = [np.quantile(one, 0.25, axis=(1, 2), keepdims=True) for one in (power, np.square(fields))]
    # lower quartiles of what white noise of variance 1 has in a frequency (exponential) and in a pixel (chi-square)
    return np.minimum(weakest[0] / 0.2877, weakest[1] / 0.1015)


def _strong(energy: np.ndarray) -> np.ndarray:
    """Set faint energy to zero."""
    # fainter pixels are not part of a field
    return np.where(energy < 0.01 * energy.max(axis=(1, 2), keepdims=True), 0, np.maximum(energy, 0))


def _second_moments(energy: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute mean (H, 2) and covariance (H, 2, 2) of row and column, weighted by energy (H, height, width)."""
    grid = np.indices(energy.shape[1:]).reshape(2, -1).astype(np.float64)
    weight = energy.reshape(len(energy), -1)
    weight = weight / weight.sum(axis=1, keepdims=True)
    centre = weight @ grid.T
    square = np.einsum("hd,id,jd->hij", weight, grid, grid, optimize=True)
    return centre, square - centre[:, :, None] * centre[:, None, :]


def _widths(spread: np.ndarray, angle: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute standard deviations of Gaussian envelopes, along and across the stripes; `angle` is that of the wave."""
    along = np.stack([np.cos(angle), np.sin(angle)], axis=1)  # in rows, which run downwards, and columns
    across = np.stack([-np.sin(angle), np.cos(angle)], axis=1)
    # energy is the square of the envelope, and has half its variance
    length, width = (np.sqrt(2 * np.maximum(np.einsum("hi,hij,hj->h", u, spread, u), 0)) for u in (along, across))
    return length, width


def _margins(image_shape: tuple[int, ...], centre: np.ndarray, spread: np.ndarray) -> np.ndarray:
    """Count the standard deviations from the centre to the nearest border."""
    from_border = np.minimum(centre + 0.5, np.array(image_shape) - 0.5 - centre)
    # a pixel is as wide as a uniform variable on it
    return np.min(from_border / np.sqrt(np.diagonal(spread, axis1=1, axis2=2) + 1 / 12), axis=1)


def _distance(image_shape: tuple[int, ...], centre: np.ndarray) -> np.ndarray:
    """Compute the distance of every pixel from the centre of every field, (H, height, width)."""
    row, column = (np.arange(side) for side in image_shape)
    return np.hypot(row[None, :, None] - centre[:, :1, None], column[None, None, :] - centre[:, 1:, None])


def _spectral(fields: np.ndarray, centre: np.ndarray) -> tuple[np.ndarray, ...]:
    """Measure padded spectra: selectivity, direction of the wave (radians), peak frequency, radial and even share."""
    height, width = fields.shape[1:]
    sides = (4 * height, 4 * width)  # frequencies then lie close enough for rings
    rows, columns = np.fft.fftfreq(sides[0]), np.fft.fftfreq(sides[1])
    shift = [np.exp(2j * np.pi * f * c[:, None]) for f, c in zip((rows, columns), centre.T)]
    # with the centre at the origin, the real part belongs to what is even about it
    spectrum = np.fft.fft2(fields, sides) * shift[0][:, :, None] * shift[1][:, None, :]
    power = np.square(np.abs(spectrum))
    total = power.sum(axis=(1, 2))
    even = np.square(spectrum.real).sum(axis=(1, 2)) / total

    # seen with rows upwards, so that angles turn counter-clockwise
    up, right = -rows[:, None], columns[None, :]
    weight = np.square(power)
    sums = [np.sum(weight * term, axis=(1, 2)) for term in (right**2 - up**2, 2 * right * up, right**2 + up**2)]
    selectivity = np.hypot(sums[0], sums[1]) / sums[2]
    angle = np.arctan2(sums[1], sums[0]) / 2

    distance = np.hypot(up, right)
    ring = np.rint(distance.ravel() * min(sides)).astype(int)
    n_rings = ring.max() + 1
    counts = np.bincount(ring, minlength=n_rings)
    of_rings = np.stack([np.bincount(ring, one.ravel(), n_rings) for one in spectrum.real])
    radial = np.sum(np.square(of_rings) / np.maximum(counts, 1), axis=1) / total
    return selectivity, angle, _peak(power, distance), radial, even


def _peak(power: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Find the peak frequency: the mean distance from the origin of all power within 5 % of the maximum."""
    largest = power.max(axis=(1, 2), keepdims=True)
    top = power * (power >= 0.95 * largest)
    mean = np.sum(top * distance, axis=(1, 2)) / np.sum(top, axis=(1, 2))
    return np.where(power[:, 0, 0] == largest[:, 0, 0], 0 * mean, mean)  # NaN stays
