"""What an estimator is called in a comparison: its family, its number of causes, its name for people."""

from __future__ import annotations

from typing import Any

__all__ = ["family_of", "name_of", "size_of"]

# by class: the family, the parameter that holds the number of causes, and the name for people
KINDS = {
    "BernoulliProduct": ("product", "", "independent bits"),
    "BernoulliMixture": ("mixture", "n_components", "mixture of {}"),
    "LatentTrait": ("latent-trait", "n_components", "{} latent traits"),
    "ClippedGaussian": ("clipped-gaussian", "n_components", "clipped Gaussian of {}"),
    "CombinationMachine": ("combination-machine", "n_hidden", "combination machine of {}"),
    "BinarySparseCoding": ("binary-sparse-coding", "n_causes", "binary sparse coding of {}"),
    "NoisyOrNetwork": ("noisy-or", "layer_sizes", "noisy OR of {}"),
}


def family_of(estimator: Any) -> str:
    """The family of an estimator of this library.

    >>> from latentbits import NoisyOrNetwork
    >>> network = NoisyOrNetwork((16, 4))
    >>> family_of(network), size_of(network), name_of(network)
    ('noisy-or', 16, 'noisy OR of 16, 4')
    """
    return _kind(estimator)[0]


def size_of(estimator: Any) -> int:
    """Its number of causes; of layers, that of the lowest."""
    sizes = _sizes(estimator)
    return sizes[0] if sizes else 1


def name_of(estimator: Any) -> str:
    """Its name for people.

    >>> from latentbits import BernoulliMixture, LatentTrait
    >>> name_of(BernoulliMixture(4)), name_of(LatentTrait(1))
    ('mixture of 4', '1 latent trait')
    """
    text = _kind(estimator)[2].format(", ".join(str(size) for size in _sizes(estimator)))
    return text.removesuffix("s") if text == "1 latent traits" else text


def _kind(estimator: Any) -> tuple[str, str, str]:
    name = type(estimator).__name__
    if name not in KINDS:
        raise TypeError(f"an estimator must be one of {', '.join(KINDS)}, found {name}")
    return KINDS[name]


def _sizes(estimator: Any) -> tuple[int, ...]:
    _, parameter, _ = _kind(estimator)
    if not parameter:
        return ()
    size = getattr(estimator, parameter)
    sizes = tuple(size) if isinstance(size, list | tuple) else (size,)
    if any(isinstance(one, str) for one in sizes):
        raise ValueError(f"{parameter} must be a number here, found {size!r}")
    return tuple(int(one) for one in sizes)
