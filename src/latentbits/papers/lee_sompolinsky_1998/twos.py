"""The twos of figure 4: spectra, eigenvectors, a morph; and how well unseen twos are described."""

from __future__ import annotations

import time
import warnings
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.clipped_gaussian import ClippedGaussian, Morph
from latentbits.estimators.product import BernoulliProduct
from latentbits.figures.clipped_gaussian.arrays import flips, spectrum_of
from latentbits.models.clipped_gaussian.tuning import LEAST_UNIQUENESS
from latentbits.papers.digits import Twos

__all__ = ["Pair", "fit_twos", "hidden", "nearer", "numbers", "pick_pair", "scored", "wrong_bits"]


class Pair(NamedTuple):
    """Two rows, and the way from one to the other."""

    rows: np.ndarray
    morph: Morph


def fit_twos(twos: Twos, n_components: int, noise: str = "none") -> ClippedGaussian:
    """Fit the model of the paper to all twos."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant pixels, and of the negative eigenvalues, which are reported
        return ClippedGaussian(n_components, noise=noise, random_state=0).fit(twos.X)


def numbers(model: ClippedGaussian, twos: Twos, pair: Pair, wrong: np.ndarray) -> dict[str, Any]:
    """Measure the negative part, how fast both spectra fall, what the model gets wrong, and the morph's flips."""
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
        # of the images in which a pixel must be on, and off, or is left out
        "without_rare": [_without_rare(model, least) for least in (0.0, 0.01, 0.05, 0.1)],
        "negative_by_chance": _by_chance(twos, model.n_components_),
        "smallest_bits": float(bits.eigenvalues[-1]),
        "by_chance": model.n_components_ / twos.X.shape[1],
        "wrong_bits": float(wrong.mean()),
        "rows_without_error": float(np.mean(wrong == 0)),
        "morph": {
            "rows": pair.rows.tolist(),
            "apart": int(np.count_nonzero(twos.X[pair.rows[0]] != twos.X[pair.rows[1]])),
            "flips": steps.tolist(),
            "grey_pixels": float(np.mean(np.abs(pair.morph.cross_fade - 0.5) < 0.4, axis=1).max()),
        },
    }


def _without_rare(model: ClippedGaussian, least: float) -> dict[str, Any]:
    """Measure the negative part among the pixels that are neither on nor off too rarely."""
    kept = np.minimum(model.means_, 1 - model.means_) > least
    found = spectrum_of(np.linalg.eigvalsh(model.correlation_[np.ix_(kept, kept)]))
    return {
        "least": least,
        "n_columns": int(kept.sum()),
        "negative_share": found.negative_share,
        "smallest": float(found.eigenvalues[-1]),
    }


def _by_chance(twos: Twos, n_components: int) -> float:
    """Measure the negative part in as many rows of a clipped Gaussian with noise: what the number of rows makes."""
    source = fit_twos(twos, n_components, "unique")
    drawn = twos._replace(X=np.asarray(source.sample(len(twos.X), random_state=0)))
    return float(fit_twos(drawn, n_components, "unique").negative_share_)


def nearer(model: ClippedGaussian, X: np.ndarray, y: np.ndarray, wrong: np.ndarray, n_pairs: int) -> list[float]:
    """Count the pixels by which a morph's middle is nearer to a real image than that of a linear cross-fade.

    Of pairs of rows drawn from the tenth that the model gets best: distances are sums of absolute differences to the
    nearest row that is not an end of the pair.
    """
    best = np.argsort(wrong, kind="stable")[: max(len(X) // 10, 3)]
    rng = np.random.default_rng(0)
    vectors = np.linalg.eigh(model.binary_correlation_)[1][:, ::-1][:, : model.n_components_]
    found = []
    for _ in range(n_pairs):
        a, b = rng.choice(best, 2, replace=False)
        others = np.delete(X, [a, b], axis=0).astype(float)
        middle = model.thresholds_ + (y[a] + y[b]) / 2 @ model.components_ > 0
        away = (X[a].astype(float) + X[b]) / 2 - model.means_
        faded = model.means_ + away @ vectors @ vectors.T
        morph, fade = (np.abs(others - one).sum(1).min() for one in (middle, faded))
        found.append(float(fade - morph))
    return found


def hidden(model: ClippedGaussian, X: np.ndarray) -> np.ndarray:
    """Find the hidden variables of each row."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that no y produces some rows is what `wrong_bits` counts
        return np.asarray(model.transform(X))


def wrong_bits(model: ClippedGaussian, X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Count the bits of each row that its hidden variables y get wrong."""
    return np.count_nonzero((model.thresholds_ + y @ model.components_ > 0) != (X == 1), axis=1)


def pick_pair(model: ClippedGaussian, X: np.ndarray, wrong: np.ndarray, n_steps: int = 8) -> Pair:
    """Pick two rows and the way between them: of the tenth with the fewest wrong bits, a pair typically far apart.

    That is, two of these rows that differ in the median number of bits.
    """
    best = np.argsort(wrong, kind="stable")[: max(len(X) // 10, 2)]
    some = X[best].astype(np.float64)
    left, right = np.triu_indices(len(best), 1)
    apart = np.abs(some[left] - some[right]).sum(axis=1)
    place = int(np.argsort(apart, kind="stable")[len(apart) // 2])
    rows = best[[left[place], right[place]]]
    return Pair(rows, model.morph(X[rows[0]], X[rows[1]], n_steps))


def scored(twos: Twos, size: int, learner: str = "moments") -> dict[str, Any]:
    """Score unseen rows, in nats a row with the standard error, with P hidden variables; none is independent bits.

    By expectation propagation.  What "likelihood" gains over "moments" is of the same rows, and by points.
    """
    train, test = twos.X[: twos.n_train], twos.X[twos.n_train :]
    if size == 0:
        model: Any = BernoulliProduct().fit(train)
        return {"model": "independent bits", "P": 0, **_nats(model.score_samples(test))}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        began = time.perf_counter()
        model = ClippedGaussian(size, likelihood="ep", learner=learner, random_state=0).fit(train)
        seconds = time.perf_counter() - began
        found = {"model": f"P = {size}", "P": size, **_nats(model.score_samples(test))}
        if learner == "moments":
            return found
        before = ClippedGaussian(size, random_state=0).fit(train).score_samples(test)
        after = model.set_params(likelihood="importance").score_samples(test)
    return {
        **found,
        "model": f"P = {size}, likelihood",
        "gain": _nats(before - after),
        "seconds": seconds,
        "n_iter": int(model.n_iter_),
        "converged": bool(model.converged_),
        "at_bound": int(np.sum(model.noise_variance_ < LEAST_UNIQUENESS + 1e-9)),
    }


def _nats(log_p: Any) -> dict[str, float]:
    nats = -np.asarray(log_p, np.float64)
    return {"nats": float(nats.mean()), "error": float(nats.std() / np.sqrt(len(nats)))}
