"""The twos of figure 4: spectra, eigenvectors, a morph; and how well unseen twos are described."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.clipped_gaussian import ClippedGaussian, Morph
from latentbits.estimators.product import BernoulliProduct
from latentbits.figures.clipped_gaussian.arrays import flips, spectrum_of
from latentbits.papers.digits import Twos

__all__ = ["Pair", "fit_twos", "held_out", "numbers", "pick_pair", "wrong_bits"]

N_STEPS = 8
RARE = (0.0, 0.01, 0.05, 0.1)  # pixels that are on, or off, in no more than such a share of the images are left out


class Pair(NamedTuple):
    """Two rows, and the way from one to the other."""

    rows: np.ndarray
    morph: Morph


def fit_twos(twos: Twos, n_components: int, noise: str = "none") -> ClippedGaussian:
    """The model of the paper on all twos."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant pixels, and of the negative eigenvalues, which are reported
        return ClippedGaussian(n_components, noise=noise, random_state=0).fit(twos.X)


def numbers(model: ClippedGaussian, twos: Twos, pair: Pair, wrong: np.ndarray) -> dict[str, Any]:
    """The size of the negative part, how fast both spectra fall, what the model gets wrong, and the morph's flips."""
    bits, latent = spectrum_of(model.binary_eigenvalues_), spectrum_of(model.eigenvalues_)
    steps = flips(pair.morph.bits)
    return {
        "title": twos.title,
        "n_rows": len(twos.X),
        "n_columns": twos.X.shape[1],
        "n_constant": int((twos.X.min(axis=0) == twos.X.max(axis=0)).sum()),
        "P": int(model.n_components_),
        "eigenvalues": [float(value) for value in model.eigenvalues_[: model.n_components_]],
        "smallest": float(latent.eigenvalues[-1]),
        "n_negative": int((latent.kinds < 0).sum()),
        "negative_share": latent.negative_share,
        "without_rare": [_without_rare(model, least) for least in RARE],
        "negative_by_chance": _by_chance(twos, model.n_components_),
        "smallest_bits": float(bits.eigenvalues[-1]),
        "kept_latent": _kept(latent.eigenvalues, model.n_components_),
        "kept_bits": _kept(bits.eigenvalues, model.n_components_),
        "wrong_bits": float(wrong.mean()),
        "rows_without_error": float(np.mean(wrong == 0)),
        "morph": {
            "rows": pair.rows.tolist(),
            "apart": int(np.count_nonzero(twos.X[pair.rows[0]] != twos.X[pair.rows[1]])),
            "flips": steps.tolist(),
            "back": _flipped_back(pair.morph.bits),
            "grey_pixels": float(np.mean(np.abs(pair.morph.cross_fade - 0.5) < 0.4, axis=1).max()),
        },
    }


def _without_rare(model: ClippedGaussian, least: float) -> dict[str, Any]:
    """The negative part among the pixels that are neither on nor off too rarely."""
    kept = np.minimum(model.means_, 1 - model.means_) > least
    found = spectrum_of(np.linalg.eigvalsh(model.correlation_[np.ix_(kept, kept)]))
    return {
        "least": least,
        "n_columns": int(kept.sum()),
        "negative_share": found.negative_share,
        "smallest": float(found.eigenvalues[-1]),
    }


def _by_chance(twos: Twos, n_components: int) -> float:
    """The negative part in as many rows that a clipped Gaussian with noise did produce: what the rows' number makes."""
    source = fit_twos(twos, n_components, "unique")
    drawn = twos._replace(X=np.asarray(source.sample(len(twos.X), random_state=0)))
    return float(fit_twos(drawn, n_components, "unique").negative_share_)


def _kept(eigenvalues: np.ndarray, n: int) -> float:
    """Share of the first n in the sum of the positive eigenvalues."""
    positive = np.maximum(eigenvalues, 0)
    return float(positive[:n].sum() / positive.sum())


def _flipped_back(bits: np.ndarray) -> int:
    """Bits that flip more than once along a straight line: there are none, as each half-space is entered once."""
    return int((np.count_nonzero(bits[1:] != bits[:-1], axis=0) > 1).sum())


def wrong_bits(model: ClippedGaussian, X: np.ndarray) -> np.ndarray:
    """How many bits of each row its hidden variables, as the model finds them, get wrong."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no y produces some rows is what is counted here
        y = model.transform(X)
    return np.count_nonzero((model.thresholds_ + y @ model.components_ > 0) != (X == 1), axis=1)


def pick_pair(model: ClippedGaussian, X: np.ndarray, wrong: np.ndarray, n_steps: int = N_STEPS) -> Pair:
    """Two rows and the way between them: of the tenth with the fewest wrong bits, a pair that is typically far apart.

    That is, two of these rows that differ in the median number of bits.
    """
    best = np.argsort(wrong, kind="stable")[: max(len(X) // 10, 2)]
    some = X[best].astype(np.float64)
    left, right = np.triu_indices(len(best), 1)
    apart = np.abs(some[left] - some[right]).sum(axis=1)
    place = int(np.argsort(apart, kind="stable")[len(apart) // 2])
    rows = best[[left[place], right[place]]]
    return Pair(rows, model.morph(X[rows[0]], X[rows[1]], n_steps))


def held_out(twos: Twos, sizes: Sequence[int]) -> list[dict[str, Any]]:
    """Nats per unseen row and their standard error: independent bits, then several P."""
    train, test = twos.X[: twos.n_train], twos.X[twos.n_train :]
    rows = [_nats("independent bits", 0, BernoulliProduct().fit(train), test)]
    for size in sizes:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = ClippedGaussian(size, noise="unique", likelihood="ep", random_state=0).fit(train)
        rows.append(_nats(f"P = {size}", size, model, test))
    return rows


def _nats(name: str, size: int, model: Any, X: np.ndarray) -> dict[str, Any]:
    nats = -np.asarray(model.score_samples(X), np.float64)
    return {"model": name, "P": size, "nats": float(nats.mean()), "error": float(nats.std() / np.sqrt(len(nats)))}
