"""Patches of natural images: random places, and what is done to images before a model of causes sees them.

Images are grey: one (height, width) array, a stack (m, height, width), or a sequence of 2-D arrays of any shapes.  They
are converted and filtered one at a time, and what is kept is the patches alone; so images may be memory maps.  A patch
is a row of pixels, line after line, as float32.  Patches of pixels as they are come from scikit-learn's
`extract_patches_2d`, whitened ones from its `PCA(whiten=True)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError

__all__ = ["NaturalPatches", "clamp_brightest", "difference_of_gaussians", "natural_patches"]

RandomState = int | np.random.Generator | None
Images = np.ndarray | Sequence[Any]

BLOCK_PATCHES = 8192  # patches that are cut or summed at a time, to bound temporary arrays
REACH_DEVIATIONS = 4.0  # where a Gaussian is cut off, as in SciPy


class NaturalPatches(NamedTuple):
    """Patches in the form that a model takes.

    Attributes
    ----------
    X : (n, height * width) float32
    image_shape : (height, width)
    positions : (n, 3) int
        Image, and row and column of the upper left pixel in it.
    scale : float
        By which X was divided: its standard deviation over all pixels is 1.
    """

    X: np.ndarray
    image_shape: tuple[int, int]
    positions: np.ndarray
    scale: float


def natural_patches(
    images: Images,
    n_patches: int,
    size: tuple[int, int] = (26, 26),
    *,
    clamp: float = 0.02,
    centre: float = 1.0,
    surround: float = 3.0,
    random_state: RandomState = None,
) -> NaturalPatches:
    """Cut random patches of natural images, ready for learning (Henniges et al. 2010, section 3).

    The brightest pixels of every image are clamped, whole images are filtered, and patches are cut where the border of
    the image does not reach, at places drawn uniformly, with replacement, from all places in all images.  Patches that
    are constant (sky that saturated the film) have no contrast and are drawn again.

    Parameters
    ----------
    images : grey images
    n_patches : int
        N = 200 000 in the paper.
    size : (height, width)
    clamp : float
        Share of the pixels that `clamp_brightest` clamps; 0 for none.
    centre, surround : float
        Of `difference_of_gaussians`.
    random_state : int, Generator or None

    Returns
    -------
    NaturalPatches

    Examples
    --------
    >>> image = np.random.default_rng(0).normal(size=(64, 64)).cumsum(axis=0).cumsum(axis=1)
    >>> found = natural_patches(image, 500, (8, 8), random_state=0)
    >>> found.X.shape, found.X.dtype.name, round(float(found.X.std()), 3)
    ((500, 64), 'float32', 1.0)
    """
    _check_share("clamp", clamp)
    if int(n_patches) != n_patches or n_patches < 1:
        raise DataError(f"n_patches must be a whole number of at least 1, found {n_patches!r}")
    if len(size) != 2 or any(int(side) != side or side < 1 for side in size):
        raise DataError(f"size must be (height, width) of at least 1, found {size!r}")
    n_patches, size = int(n_patches), (int(size[0]), int(size[1]))

    def prepare(image: np.ndarray) -> np.ndarray:
        return difference_of_gaussians(clamp_brightest(image, clamp), centre, surround, crop=False)

    stack = _stack(images)
    places = _Places.of([np.shape(image) for image in stack], size, _margin(centre, surround))
    rng = np.random.default_rng(random_state)
    positions = places.draw(rng, n_patches)
    x = np.empty((n_patches, size[0] * size[1]), np.float32)
    contrast = _cut(stack, positions, size, prepare, x)
    for _ in range(100):
        # relative to the typical contrast: below it, a patch is constant but for rounding
        flat = np.flatnonzero(contrast <= 1e-4 * np.sqrt(np.mean(np.square(contrast))))
        if len(flat) == 0:
            scale = _spread(x)
            x /= np.float32(scale)
            return NaturalPatches(x, size, positions, scale)
        positions[flat] = places.draw(rng, len(flat))
        again = np.empty((len(flat), x.shape[1]), np.float32)
        contrast[flat] = _cut(stack, positions[flat], size, prepare, again)
        x[flat] = again
    raise DataError(f"patches of {size[0]} x {size[1]} pixels are constant wherever they are cut; are these images?")


class _Places(NamedTuple):
    """Places where a patch fits: how many lie in each image and all before it, and how many side by side."""

    up_to: np.ndarray
    across: np.ndarray
    margin: int

    @classmethod
    def of(cls, shapes: list[tuple[int, ...]], size: tuple[int, int], margin: int) -> _Places:
        room = np.array(shapes, np.int64) - np.array(size) - 2 * margin + 1
        room = np.maximum(room, 0)
        up_to = np.cumsum(room.prod(axis=1))
        if up_to[-1] == 0:
            largest = max(shapes, key=lambda shape: min(shape))
            raise DataError(
                f"no image has room for {size[0]} x {size[1]} pixels and {margin} more on every side for the filter; "
                f"found images of {largest}"
            )
        return cls(up_to, room[:, 1], margin)

    def draw(self, rng: np.random.Generator, n: int) -> np.ndarray:
        number = rng.integers(self.up_to[-1], size=n)
        image = np.searchsorted(self.up_to, number, side="right")
        before = np.concatenate([[0], self.up_to])[image]
        row, column = np.divmod(number - before, self.across[image])
        return np.stack([image, row + self.margin, column + self.margin], axis=1)


def _cut(
    stack: Sequence[Any],
    positions: np.ndarray,
    size: tuple[int, int],
    prepare: Callable[[np.ndarray], np.ndarray],
    out: np.ndarray,
) -> np.ndarray:
    """Fill `out` with the patches at these positions, image by image; return the contrast of each."""
    contrast = np.empty(len(positions))
    order = np.argsort(positions[:, 0], kind="stable")
    wanted, first = np.unique(positions[order, 0], return_index=True)
    for image, rows in zip(wanted, np.split(order, first[1:])):
        windows = np.lib.stride_tricks.sliding_window_view(prepare(_grey(stack, int(image))), size)
        for start in range(0, len(rows), BLOCK_PATCHES):
            some = rows[start : start + BLOCK_PATCHES]
            found = windows[positions[some, 1], positions[some, 2]].reshape(len(some), -1)
            out[some] = found
            contrast[some] = found.std(axis=1, dtype=np.float64)
    return contrast


def _stack(images: Images) -> Sequence[Any]:
    """Check the shapes of images without reading them; return them as a sequence."""
    stack: Any = images[None] if isinstance(images, np.ndarray) and images.ndim == 2 else images
    if len(stack) == 0:
        raise DataError("images must hold at least one image, found none")
    for number, image in enumerate(stack):
        if np.ndim(image) != 2:
            raise DataError(
                f"images must be grey, (height, width) each; image {number} has shape {np.shape(image)} (colours can "
                "be averaged over their axis first)"
            )
    return stack


def _grey(stack: Sequence[Any], number: int) -> np.ndarray:
    image = np.asarray(stack[number])
    if image.dtype.kind not in "buif":
        raise DataError(f"images must be numbers, image {number} has type {image.dtype}")
    image = image.astype(np.float32)
    if not np.isfinite(image).all():
        row, column = np.argwhere(~np.isfinite(image))[0]
        raise DataError(
            f"images must be finite; image {number} holds {image[row, column]} at row {row}, column {column}"
        )
    return image


# --- before cutting ---


def clamp_brightest(image: np.ndarray, share: float = 0.02) -> np.ndarray:
    """Set the brightest pixels to the largest value of the others, which removes reflections of light.

    Henniges et al. (2010) clamp 2 % before they filter (their footnote 1).

    Parameters
    ----------
    image : (height, width) array, or (m, height, width), each image by itself
    share : float
        Share of the pixels, at least 0 and below 1.

    Examples
    --------
    >>> clamp_brightest(np.arange(10).reshape(2, 5), 0.2).tolist()
    [[0, 1, 2, 3, 4], [5, 6, 7, 7, 7]]
    """
    image = np.asarray(image)
    _check_share("share", share)
    if image.ndim not in (2, 3) or image.size == 0:
        raise DataError(f"image must be (height, width) or (m, height, width), found shape {image.shape}")
    pixels = image.reshape(*image.shape[:-2], -1)
    last = pixels.shape[-1] - int(share * pixels.shape[-1]) - 1
    limit = np.partition(pixels, last, axis=-1)[..., last, None, None]
    return np.minimum(image, limit)


def difference_of_gaussians(
    image: np.ndarray, centre: float = 1.0, surround: float = 3.0, *, crop: bool = True
) -> np.ndarray:
    """Subtract the image blurred by a wide Gaussian from that by a narrow one: a band of spatial frequencies.

    Both Gaussians sum to 1, so that a constant image gives 0.

    Henniges et al. (2010) take the parameters of Lücke (2009, Neural Computation 21), which they do not repeat and
    which are not known here: one to three pixels is our choice.  The ratio of 1 to 3 is usual for centre and surround;
    and at this width about 160 directions hold 99 % of the variance of 26 x 26 patches of natural images, where 3 and 9
    pixels would leave 28, too few for hundreds of causes.

    Parameters
    ----------
    image : (height, width) array
    centre, surround : float
        Standard deviations in pixels, `centre` the smaller; it may be 0, which leaves the image as it is.
    crop : bool
        Leave out the margin where the wide Gaussian, cut off at four standard deviations, reaches over the border.

    Returns
    -------
    float32 array

    Examples
    --------
    >>> flat = difference_of_gaussians(np.full((40, 50), 7))
    >>> flat.shape, np.allclose(flat, 0, atol=1e-5)
    ((16, 26), True)
    """
    from scipy.ndimage import gaussian_filter

    margin = _margin(centre, surround)
    values = np.asarray(image, np.float64)
    if values.ndim != 2:
        raise DataError(f"image must be (height, width), found shape {values.shape}")
    if crop and min(values.shape) <= 2 * margin:
        raise DataError(
            f"an image of {values.shape} has nothing inside a margin of {margin} pixels; crop=False keeps it"
        )
    values = values - values.mean()  # the difference does not see it, and rounds less without it
    narrow, wide = (
        gaussian_filter(values, width, mode="reflect", truncate=REACH_DEVIATIONS) for width in (centre, surround)
    )
    band = (narrow - wide).astype(np.float32)
    return band[margin:-margin, margin:-margin] if crop else band


def _margin(centre: float, surround: float) -> int:
    if not 0 <= centre < surround < np.inf:
        raise DataError(f"centre must be at least 0 and less than surround, found {centre!r} and {surround!r}")
    return int(REACH_DEVIATIONS * surround + 0.5)


def _spread(patches: np.ndarray) -> float:
    """Compute the standard deviation over all pixels of all patches."""
    mean = patches.mean(dtype=np.float64)
    blocks = range(0, len(patches), BLOCK_PATCHES)
    return float(np.sqrt(sum(np.square(patches[i : i + BLOCK_PATCHES] - mean).sum() for i in blocks) / patches.size))


def _check_share(name: str, share: float) -> None:
    if not 0 <= share < 1:
        raise DataError(f"{name} must be at least 0 and below 1, found {share!r}")
