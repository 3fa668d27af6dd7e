"""Find the hidden causes of binary data.

The public names are imported when they are first used: JAX and scikit-learn take seconds, and
``latentbits --help`` should not.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from latentbits.core.errors import did_you_mean
from latentbits.core.version import __version__ as __version__
from latentbits.estimators.families import families

if TYPE_CHECKING:
    # checkers of types know no families; a test holds these to the records
    from latentbits import plot as plot
    from latentbits.choosing.compare import compare as compare
    from latentbits.choosing.sizes import size_table as size_table
    from latentbits.data.fetch import load_dataset as load_dataset
    from latentbits.data.read import read as read
    from latentbits.engines.checkpoint import Checkpoint as Checkpoint
    from latentbits.estimators.binary_sparse_coding import BinarySparseCoding as BinarySparseCoding
    from latentbits.estimators.clipped_gaussian import ClippedGaussian as ClippedGaussian
    from latentbits.estimators.combination_machine import CombinationMachine as CombinationMachine
    from latentbits.estimators.files import load as load
    from latentbits.estimators.latent_trait.curved_trait import CurvedTrait as CurvedTrait
    from latentbits.estimators.latent_trait.item_response import ItemResponse as ItemResponse
    from latentbits.estimators.latent_trait.latent_trait import LatentTrait as LatentTrait
    from latentbits.estimators.latent_trait.trait_maps import TraitMaps as TraitMaps
    from latentbits.estimators.latent_tree import ChowLiuTree as ChowLiuTree
    from latentbits.estimators.latent_tree import LatentTree as LatentTree
    from latentbits.estimators.mixture import BernoulliMixture as BernoulliMixture
    from latentbits.estimators.noisy_or import NoisyOrNetwork as NoisyOrNetwork
    from latentbits.estimators.product import BernoulliProduct as BernoulliProduct
    from latentbits.explorer.explore import explore as explore

_FUNCTIONS = {
    "Checkpoint": "latentbits.engines.checkpoint",
    "compare": "latentbits.choosing.compare",
    "explore": "latentbits.explorer.explore",
    "load": "latentbits.estimators.files",
    "load_dataset": "latentbits.data.fetch",
    "read": "latentbits.data.read",
    "size_table": "latentbits.choosing.sizes",
}

__all__ = sorted([*_FUNCTIONS, "plot", *(family.class_name for family in families())])


def __getattr__(name: str) -> Any:
    if name == "plot":
        return import_module("latentbits.plot")
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
    for family in families():
        if family.class_name == name:
            return family.cls
    hint = "" if name.startswith("_") else did_you_mean(name, __all__)
    raise AttributeError(f"module 'latentbits' has no attribute {name!r}.{hint}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
