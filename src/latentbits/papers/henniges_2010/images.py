"""The experiment on natural images of section 3: patches, fits with more and with fewer causes, and their fields."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from latentbits.core.errors import LatentBitsError
from latentbits.data.fetch import load_dataset
from latentbits.data.patches import natural_patches
from latentbits.estimators.binary_sparse_coding import BinarySparseCoding
from latentbits.figures.binary_sparse_coding.arrays import FieldSummary, summarize_fields
from latentbits.models.binary_sparse_coding.recipes import HENNIGES
from latentbits.papers.skeleton import Fitted, Say, fitted, kept

__all__ = ["FULL", "QUICK", "RECIPES", "SMALL", "Fields", "Fit", "Setup", "likeness", "load_images", "run"]

# from the mean and a little noise, and from one active cause
START: dict[str, Any] = {"init": "mean", "init_scale": None, "init_sparseness": 1.0, "temperature": 1.0}
RECIPES: dict[str, dict[str, Any]] = {
    "paper": {**HENNIGES._asdict(), "init_noise": "residual", "parameter_noise": None, **START},
    "ours": START,
}


class Fit(NamedTuple):
    """H, gamma and H', and whose recipe."""

    n_causes: int
    max_active: int = 8
    n_candidates: int = 10
    recipe: str = "paper"

    @property
    def key(self) -> str:
        return f"{self.n_causes}_{self.max_active}_{self.n_candidates}_{self.recipe}"


class Setup(NamedTuple):
    """Amount of work to be done."""

    side: int = 26  # width and height of a patch in pixels
    n_patches: int = 200_000  # N
    # the first two are drawn, the paper's and one with fewer causes; then the same two by our recipe
    fits: tuple[Fit, ...] = (
        Fit(700),
        Fit(200),
        Fit(700, recipe="ours"),
        Fit(200, recipe="ours"),
    )
    # fits to an image of the paper's collection, at its scale: its own first, one with fewer causes, others
    nearest: tuple[Fit, ...] = (Fit(700), Fit(200), Fit(400), Fit(700, 6, 8), Fit(200, 6, 8))
    # cut, max_iter: iterations: all patches before the first of `cut`, N_cut of them from the second on
    cut: tuple[int, int] = (66, 100)
    max_iter: int = 200


FULL = Setup()
SMALL = Setup(16, 20_000, (Fit(200, 6, 8), Fit(60, 6, 8), Fit(200, 6, 8, "ours")), ())
QUICK = Setup(8, 2000, (Fit(20, 3, 5), Fit(12, 3, 5)), (), cut=(10, 15), max_iter=30)


class Fields(NamedTuple):
    """Result of a fit: components (H, D), their measures, and the course of pi H and sigma."""

    components: np.ndarray
    summary: FieldSummary
    sparseness: np.ndarray
    noise: np.ndarray


def load_images(name: str, notes: list[str]) -> np.ndarray | None:
    """Load grey images by the name of the set; None, and a note, where they cannot be had or "none" is asked for."""
    if name == "none":
        notes.append("The natural images were left out.")
        return None
    try:
        return np.asarray(load_dataset(name).X)
    except (LatentBitsError, OSError) as error:
        notes.append(
            f"The natural images {name!r} could not be had, so figure 2 is left out: {error}. The environment variable "
            "LATENTBITS_DATA must name a folder that has them (natimg/)."
        )
        return None


def run(
    images: np.ndarray, name: str, setup: Setup, folder: Path, say: Say
) -> tuple[dict[str, Any], dict[str, Fields]]:
    """Make all fits, on the same patches; each is kept in the folder.

    `images`, `name`: grey images, and what they are called.  Returns what ``results.json`` holds, and
    what can be drawn, by the key of the fit.
    """
    say(f"natural images: {setup.n_patches} patches of {setup.side} x {setup.side} pixels")
    shape = (setup.side, setup.side)
    patches = natural_patches(images, setup.n_patches, shape, random_state=0)
    fits, drawn = {}, {}
    for fit in setup.fits:
        say(f"natural images: {fit.n_causes} causes, gamma {fit.max_active}, recipe {fit.recipe}")
        asked = [
            name,
            setup.side,
            setup.n_patches,
            setup.cut,
            setup.max_iter,
            RECIPES[fit.recipe],
            jax.default_backend(),
        ]
        found = kept(folder, f"images_{fit.key}", partial(_found, patches.X, fit, setup), asked)
        components = np.asarray(found.pop("components"))
        course = np.asarray(found["sparseness_history"]), np.asarray(found["noise_history"])
        drawn[fit.key] = Fields(components, summarize_fields(components, shape), *course)
        fits[fit.key] = {**fit._asdict(), **found, **_numbers(drawn[fit.key])}
    plan = {"side": setup.side, "n_patches": setup.n_patches, "cut": list(setup.cut), "max_iter": setup.max_iter}
    return {**plan, "scale": patches.scale, "fits": fits}, drawn


def _found(X: np.ndarray, fit: Fit, setup: Setup) -> dict[str, Any]:
    """Measure what is kept of a fit."""
    model, seconds = learn(X, fit, setup)
    return {
        "seconds": seconds,
        "reseeded": int(model.reseeded_),
        "sparseness_history": _course(model.sparseness_history_, fit),
        "noise_history": _course(model.noise_history_, fit),
        "components": np.round(model.components_.astype(float), 5).tolist(),
    }


def _course(history: np.ndarray, fit: Fit) -> list[float]:
    """Leave out the passes that only rank, the first of which also makes the noise to begin with.

    >>> _course(np.array([1.0, 0.9, 0.9, 0.7, 0.7]), Fit(700))
    [0.9, 0.7, 0.7]
    """
    learned = np.append(history[1:-1:2], history[-1]) if fit.recipe == "paper" else history
    return np.round(learned, 5).tolist()


def learn(X: np.ndarray, fit: Fit, setup: Setup) -> Fitted:
    """Learn the components of patches."""
    model = BinarySparseCoding(
        fit.n_causes,
        max_active=fit.max_active,
        n_candidates=fit.n_candidates,
        grow=False,
        recipe={**RECIPES[fit.recipe], "cut": setup.cut},
        max_iter=setup.max_iter,
        n_init=1,
        random_state=0,
    )
    return fitted(model, X)


def count_globular(summary: FieldSummary) -> int:
    """Count fields without a preferred orientation; not those that the border cuts or that fill the patch."""
    whole = (summary.localisation >= 0.5) & (summary.margin >= 1.5)
    # a whole field that is more globular looks round; most wavelets have 0.01
    return int(np.sum(whole & (summary.globularity > 0.1)))


def likeness(fields: np.ndarray, others: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Find for each field the one of the others that is most like it, wherever in the patch either lies.

    Returns (H,) the largest cosine, over all others and all shifts; its square is the share of the energy that
    both share.

    >>> spots = np.zeros((3, 5, 5))
    >>> spots[0, 0, 0] = spots[1, 3, 2] = spots[2, 1:3, 1] = 1
    >>> likeness(spots[:1].reshape(1, -1), spots[1:].reshape(2, -1), (5, 5)).round(3).tolist()
    [1.0]
    """
    padded = (2 * shape[0] - 1, 2 * shape[1] - 1)  # so that what is shifted out of the patch does not come in again
    one, other = (
        np.fft.rfft2((x / np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-30)).reshape(-1, *shape), padded)
        for x in (fields, others)
    )
    return np.array([np.fft.irfft2(spectrum.conj() * other, padded).max() for spectrum in one])


def _numbers(fields: Fields) -> dict[str, Any]:
    summary = fields.summary
    return {
        "sparseness": float(fields.sparseness[-1]),
        "noise": float(fields.noise[-1]),
        "n_globular": count_globular(summary),
        "localisation": float(np.nanmean(summary.localisation)),
        "envelope": float(np.nanmedian(np.sqrt(summary.length * summary.width))),
        "selectivity": float(np.nanmedian(summary.selectivity)),
    }
