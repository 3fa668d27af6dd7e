"""The experiment on natural images of section 3: patches, fits with more and with fewer causes, and their fields."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import LatentBitsError
from latentbits.data.fetch import load_dataset
from latentbits.data.patches import natural_patches
from latentbits.estimators.binary_sparse_coding import BinarySparseCoding
from latentbits.figures.binary_sparse_coding.arrays import FieldSummary, by_globularity, summarize_fields
from latentbits.papers.skeleton import Fitted, Say, fitted

__all__ = ["FULL", "QUICK", "SMALL", "Fields", "Setup", "load_images", "run"]

# a field that is whole and more globular than this looks round; most wavelets have 0.01
GLOBULAR, LOCALISED, INSIDE = 0.1, 0.5, 1.5


class Setup(NamedTuple):
    """How much is done.

    Attributes
    ----------
    side
        Of a patch, in pixels.
    n_patches
        N.
    n_causes
        H, of each fit.
    max_active, n_candidates
        gamma and H'.
    cut, max_iter
        Iterations: all patches before the first of `cut`, N_cut of them from the second on.
    """

    side: int = 26
    n_patches: int = 200_000
    n_causes: tuple[int, ...] = (700, 200)
    max_active: int = 8
    n_candidates: int = 10
    cut: tuple[int, int] = (66, 100)
    max_iter: int = 200


FULL = Setup()
SMALL = Setup(side=16, n_patches=20_000, n_causes=(200, 60), max_active=6, n_candidates=8)
QUICK = Setup(8, 2000, (20, 12), max_active=3, n_candidates=5, cut=(10, 15), max_iter=30)


class Fields(NamedTuple):
    """What a fit found: components (H, D), their measures, and the course of pi H and sigma."""

    components: np.ndarray
    summary: FieldSummary
    sparseness: np.ndarray
    noise: np.ndarray


def load_images(name: str, notes: list[str]) -> np.ndarray | None:
    """Grey images by the name of the set; None, and a note, where they cannot be had or "none" is asked for."""
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


def run(images: np.ndarray, setup: Setup, say: Say) -> tuple[dict[str, Any], dict[int, Fields]]:
    """Fits of every size on the same patches.

    Returns
    -------
    numbers, fields
        What ``results.json`` holds; and what is drawn, by the number of causes.
    """
    say(f"natural images: {setup.n_patches} patches of {setup.side} x {setup.side} pixels")
    shape = (setup.side, setup.side)
    patches = natural_patches(images, setup.n_patches, shape, random_state=0)
    fits, drawn = {}, {}
    for n_causes in setup.n_causes:
        say(f"natural images: {n_causes} causes, {setup.max_iter} iterations")
        model, seconds = learn(patches.X, n_causes, setup)
        fields = Fields(
            model.components_,
            summarize_fields(model.components_, shape),
            np.asarray(model.sparseness_history_),
            np.asarray(model.noise_history_),
        )
        fits[str(n_causes)] = {"seconds": seconds, "reseeded": int(model.reseeded_), **_numbers(fields)}
        drawn[n_causes] = fields
    plan = {name: list(value) if isinstance(value, tuple) else value for name, value in setup._asdict().items()}
    return {**plan, "scale": patches.scale, "fits": fits}, drawn


def learn(X: np.ndarray, n_causes: int, setup: Setup) -> Fitted:
    """By the paper's recipe: the mean and a little noise, one active cause."""
    model = BinarySparseCoding(
        n_causes,
        max_active=setup.max_active,
        n_candidates=setup.n_candidates,
        grow=False,
        init="mean",
        init_sparseness=1.0,
        cut=setup.cut,
        max_iter=setup.max_iter,
        temperature=1.0,
        n_init=1,
        random_state=0,
    )
    return fitted(model, X)


def count_globular(summary: FieldSummary) -> int:
    """Fields without a preferred orientation; not those that the border cuts or that fill the patch."""
    whole = (summary.localisation >= LOCALISED) & (summary.margin >= INSIDE)
    return int(np.sum(whole & (summary.globularity > GLOBULAR)))


def _numbers(fields: Fields) -> dict[str, Any]:
    summary = fields.summary
    return {
        "sparseness": float(fields.sparseness[-1]),
        "noise": float(fields.noise[-1]),
        "sparseness_history": fields.sparseness.tolist(),
        "noise_history": fields.noise.tolist(),
        "n_globular": count_globular(summary),
        "globularity": summary.globularity[by_globularity(summary)].tolist(),
        "localisation": float(np.nanmean(summary.localisation)),
        "envelope": float(np.nanmedian(np.sqrt(summary.length * summary.width))),
        "selectivity": float(np.nanmedian(summary.selectivity)),
    }
