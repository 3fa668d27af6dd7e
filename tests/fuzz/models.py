"""The estimators that cases choose from: small, with few iterations, and few different compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["BITS", "LIGHT", "REALS", "new_model"]

SHORT: dict[str, Any] = {"random_state": 0, "max_iter": 15}


def _models() -> dict[str, Callable[..., Any]]:
    import latentbits as lb

    return {
        "product": lambda **k: lb.BernoulliProduct(**k),
        "mixture": lambda **k: lb.BernoulliMixture(2, **SHORT | k),
        "mixture by splitting": lambda **k: lb.BernoulliMixture(3, init="split", smoothing=0.0, **SHORT | k),
        "latent trait": lambda **k: lb.LatentTrait(1, **SHORT | k),
        "latent trait by the bound": lambda **k: lb.LatentTrait(2, method="variational", weight_prior=3.0, **SHORT | k),
        "latent trait of kinds": lambda **k: lb.LatentTrait(1, column_types="infer", **SHORT | k),
        "clipped Gaussian": lambda **k: lb.ClippedGaussian(1, **SHORT | k),
        "clipped Gaussian without noise": lambda **k: lb.ClippedGaussian(1, noise="none", **SHORT | k),
        "combination machine": lambda **k: lb.CombinationMachine(2, n_epochs=3, **SHORT | k),
        "combination machine by pursuit": lambda **k: lb.CombinationMachine(2, learner="pursuit", **SHORT | k),
        "combination machine of reals": lambda **k: lb.CombinationMachine(2, kind="real", n_epochs=3, **SHORT | k),
        "sparse coding": lambda **k: lb.BinarySparseCoding(3, n_init=1, **SHORT | k),
        "noisy OR": lambda **k: lb.NoisyOrNetwork((2,), n_updates=5, sampling=(1, 3), **SHORT | k),
    }


REALS = ("sparse coding", "combination machine of reals", "latent trait of kinds")
LIGHT = ("product", "mixture")
BITS = (
    "product",
    "mixture",
    "mixture by splitting",
    "latent trait",
    "latent trait by the bound",
    "clipped Gaussian",
    "clipped Gaussian without noise",
    "combination machine",
    "combination machine by pursuit",
    "noisy OR",
)


def new_model(name: str, **options: Any) -> Any:
    """An estimator by its name above."""
    return _models()[name](**options)
