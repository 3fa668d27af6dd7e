"""The larger example: the 8 x 8 digits of scikit-learn, in bits per unseen digit.

That learning scales to such digits (those of Hinton et al. 1995) is in the part of the paper that we do not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.data.fetch import load_dataset
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.estimators.noisy_or import NoisyOrNetwork
from latentbits.estimators.product import BernoulliProduct
from latentbits.papers.lewicki_sejnowski_1996.runs import run
from latentbits.papers.skeleton import kept

__all__ = ["experiment", "name_of", "others", "split"]


def split(n_rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Split digits into rows to learn from, and others; fewer if `n_rows` of both together are asked for."""
    X = load_dataset("digits").X
    rows = np.random.default_rng(0).permutation(len(X))[:n_rows]
    n_test = round(297 / len(X) * len(rows))  # 297 of all 1797 digits
    return X[rows[n_test:]], X[rows[:n_test]]


def name_of(sizes: tuple[int, ...], n_rows: int | None) -> str:
    """Name the files of a network."""
    return f"digits_{'-'.join(map(str, sizes))}_{n_rows or 'all'}"


def experiment(sizes: tuple[int, ...], settings: Mapping[str, Any], n_rows: int | None, folder: Path) -> dict[str, Any]:
    """Measure a network of these layers: bits of every unseen digit, their mean and the standard error of log p."""
    train, test = split(n_rows)

    def measured(model: NoisyOrNetwork) -> Mapping[str, Any]:
        known = model.log_likelihoods(test)
        bits = -np.asarray(known.value, np.float64) / np.log(2)
        return {
            "bits": float(bits.mean()),
            "error": float(np.linalg.norm(known.error) / len(bits) / np.log(2)),
            "of_rows": np.round(bits, 4).tolist(),
            "active": float(model.transform(test).sum(axis=1).mean()),
        }

    model = NoisyOrNetwork(sizes, random_state=0, **settings)
    return run(folder, name_of(sizes, n_rows), model, train, measured)


def others(n_rows: int | None, folder: Path) -> dict[str, list[float]]:
    """Measure bits of every unseen digit under independent bits and mixtures."""
    models = {
        "independent bits": BernoulliProduct(),
        **{f"mixture of {k}": BernoulliMixture(k, random_state=0) for k in (16, 32)},
    }

    def compute() -> dict[str, list[float]]:
        train, test = split(n_rows)
        bits = {name: -model.fit(train).score_samples(test) / np.log(2) for name, model in models.items()}
        return {name: np.round(found, 4).tolist() for name, found in bits.items()}

    return kept(folder, f"digits_others_{n_rows or 'all'}", compute, list(models))
