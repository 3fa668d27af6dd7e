"""The clipped Gaussian as users have it."""

from latentbits.estimators.clipped_gaussian.estimator import ClippedGaussian
from latentbits.estimators.clipped_gaussian.morph import Morph

__all__ = ["ClippedGaussian", "Morph"]
