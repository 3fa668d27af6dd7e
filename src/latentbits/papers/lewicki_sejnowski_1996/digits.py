"""The larger example: the 8 x 8 digits of scikit-learn, in bits per unseen digit.

The paper says that learning scales to such digits (those of Hinton et al. 1995), and gives no number.
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

__all__ = ["SHAPE", "experiment", "others", "split"]

SHAPE = (8, 8)
TEST_SIZE = 297  # of 1797 digits
N_MIXED = (16, 32)  # components of the mixtures beside it


def split(n_rows: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from, and others; fewer if `n_rows` of both together are asked for."""
    X = load_dataset("digits").X
    rows = np.random.default_rng(0).permutation(len(X))[:n_rows]
    n_test = round(TEST_SIZE / len(X) * len(rows))
    return X[rows[n_test:]], X[rows[:n_test]]


def experiment(
    sizes: tuple[int, ...], settings: Mapping[str, Any], n_rows: int | None, folder: Path
) -> tuple[NoisyOrNetwork, dict[str, Any]]:
    """A network of these layers, and bits per unseen digit with the standard error of the estimate."""
    train, test = split(n_rows)

    def measured(model: NoisyOrNetwork) -> Mapping[str, Any]:
        known = model.log_likelihoods(test)
        bits = -np.asarray(known.value, np.float64) / np.log(2)
        usage = model.transform(test).mean(axis=0)
        return {
            "bits": float(bits.mean()),
            "error": float(np.linalg.norm(known.error) / len(bits) / np.log(2)),
            "over_rows": float(bits.std(ddof=1) / np.sqrt(len(bits))),
            "usage": usage.tolist(),
            "active": float(usage.sum()),
        }

    model = NoisyOrNetwork(sizes, random_state=0, **settings)
    return run(folder, f"digits_{'-'.join(map(str, sizes))}", model, train, measured)


def others(n_rows: int | None) -> dict[str, float]:
    """Bits per unseen digit of independent bits and of mixtures."""
    train, test = split(n_rows)
    models = {
        "independent bits": BernoulliProduct(),
        **{f"mixture of {k}": BernoulliMixture(k, random_state=0) for k in N_MIXED},
    }
    return {name: float(-model.fit(train).score(test) / np.log(2)) for name, model in models.items()}
