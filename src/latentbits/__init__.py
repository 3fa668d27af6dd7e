"""Find the hidden causes of binary data.

The public names are imported when they are first used: JAX and scikit-learn take seconds, and
``latentbits --help`` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from latentbits import plot
    from latentbits.choosing.compare import compare
    from latentbits.data.fetch import load_dataset
    from latentbits.data.read import read
    from latentbits.estimators.binary_sparse_coding import BinarySparseCoding
    from latentbits.estimators.clipped_gaussian import ClippedGaussian
    from latentbits.estimators.combination_machine import CombinationMachine
    from latentbits.estimators.files import load
    from latentbits.estimators.latent_trait import LatentTrait
    from latentbits.estimators.mixture import BernoulliMixture
    from latentbits.estimators.noisy_or import NoisyOrNetwork
    from latentbits.estimators.product import BernoulliProduct
    from latentbits.explorer.explore import explore

__version__ = "0.1.0"

__all__ = [
    "BernoulliMixture",
    "BernoulliProduct",
    "BinarySparseCoding",
    "ClippedGaussian",
    "CombinationMachine",
    "LatentTrait",
    "NoisyOrNetwork",
    "compare",
    "explore",
    "load",
    "load_dataset",
    "plot",
    "read",
]

_HOME = {
    "BernoulliMixture": "latentbits.estimators.mixture",
    "BernoulliProduct": "latentbits.estimators.product",
    "BinarySparseCoding": "latentbits.estimators.binary_sparse_coding",
    "ClippedGaussian": "latentbits.estimators.clipped_gaussian",
    "CombinationMachine": "latentbits.estimators.combination_machine",
    "LatentTrait": "latentbits.estimators.latent_trait",
    "NoisyOrNetwork": "latentbits.estimators.noisy_or",
    "compare": "latentbits.choosing.compare",
    "explore": "latentbits.explorer.explore",
    "load": "latentbits.estimators.files",
    "load_dataset": "latentbits.data.fetch",
    "read": "latentbits.data.read",
}


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("latentbits.plot")
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'latentbits' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
