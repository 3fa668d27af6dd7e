"""Answers of a fitted clipped Gaussian: criteria, hidden variables, morphs, states, rotations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from latentbits.estimators import psychometrics
from latentbits.estimators.clipped_gaussian.morph import Morph, along, one_row
from latentbits.estimators.criteria import WithCriteria
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.psychometrics import Rotation
from latentbits.models.clipped_gaussian import hyperplane_cells
from latentbits.models.clipped_gaussian.likelihood import is_sampled
from latentbits.models.clipped_gaussian.tuning import MOST_KEPT_COLUMNS
from latentbits.models.clipped_gaussian.use import draws_of

__all__ = ["Answers"]


class Answers(WithCriteria):
    """The methods of a fitted model."""

    noise: str
    bias: bool
    learner: str
    weight_prior: float | None
    n_components_: int
    components_: np.ndarray
    thresholds_: np.ndarray
    means_: np.ndarray
    binary_correlation_: Any  # None where pairs are not kept

    @property
    def _climbs(self) -> bool:
        return bool(self.learner == "likelihood")

    def _why_no_criteria(self) -> str | None:
        return None if self._climbs else "which learner='moments' does not look for: fit with learner='likelihood'"

    def _off_maximum(self) -> Iterator[str]:
        if not self._climbs:
            yield "learner='moments' does not look for it"
        elif self.weight_prior is not None:
            yield f"weight_prior={self.weight_prior:g}"

    def _provisos(self) -> Iterator[str]:
        if self.weight_prior is not None:
            yield f"with the penalty of weight_prior={self.weight_prior:g}"

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("factor", self._input_names(), self.components_)

    @property
    def _errors_average_out(self) -> bool:
        return self.noise == "none" or is_sampled(self.n_components_, self.n_features_in_)

    def transform(self, X: Any) -> np.ndarray:
        """Compute posterior means of the hidden variables of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Without noise, rows that no y produces get a y with the fewest wrong bits, and a warning says how many.
        """
        if self.noise == "unique":
            return super().transform(X)
        return self.posterior(X).mean

    def posterior(self, X: Any) -> Any:
        """Compute the posterior of the hidden variables of each row.

        With noise exactly where likelihoods are by a lattice: of one component, and of two or three of fewer than 50
        columns unless these are very steep.  Else, and with ``likelihood="ep"``, by expectation propagation, which is
        mostly right to a few hundredths of a standard deviation.
        Without noise by points within the row's cell, from where expectation propagation puts it, which itself would
        make the posterior too narrow there; beyond some ten components these points are too few, and it is expectation
        propagation again.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        Posterior
            `mean` (n_rows, n_components), `covariance`, `mode`, and `violated` (n_rows,): without noise the number of
            bits that no y gets right; mean and mode of such a row are a y with the fewest, its covariance is NaN.
        """
        found = super().posterior(X)
        impossible = int(np.sum(found.violated > 0))
        if impossible:
            warnings.warn(
                f"{impossible} of {len(found.violated)} rows cannot be produced by any y (noise='none'): they get a y "
                f"with the fewest wrong bits, {np.mean(found.violated[found.violated > 0]):.1f} on average",
                UserWarning,
                stacklevel=3,
            )
        return found

    def sample_posterior(
        self, X: Any, n_samples: int = 100, *, n_between: int = 10, random_state: Any = None
    ) -> np.ndarray:
        """Draw the hidden variables of each row by Markov chains, which have the exact posterior as their limit.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        n_samples : int, default=100
            Draws for each row.
        n_between : int, default=10
            Sweeps from one draw to the next; before the first, as many as between all draws, and at least 100.  Where a
            column has hardly any noise (`noise_variance_`) a sweep goes a short way, and hundreds are needed.
        random_state : int, RandomState or None
            Seed.

        Returns
        -------
        ndarray of shape (n_rows, n_samples, n_components)
            NaN for rows that no y produces.
        """
        self._fitted()
        for name, number in (("n_samples", n_samples), ("n_between", n_between)):
            if number < 1:
                raise ValueError(f"{name} must be at least 1, got {number}")
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        function = draws_of(self.noise, int(n_samples), int(n_between))
        return np.concatenate(list(self._map_engine(function, self._open(X, reset=False), seed)))

    def morph(self, x_a: Any, x_b: Any, n_steps: int = 8) -> Morph:
        """Go from one row to another through the space of the hidden variables.

        It starts and ends at the posterior means of the two rows, whose bits need not be quite the rows themselves.

        Parameters
        ----------
        x_a, x_b : array-like of shape (n_columns,)
            Two rows of bits, NaN for missing.
        n_steps : int, default=8
            Points on the way, both ends included.

        Returns
        -------
        Morph
            `position`, `latents`, `bits` and `cross_fade`.
        """
        self._fitted()
        if n_steps < 2:
            raise ValueError(f"n_steps must be at least 2, both ends, got {n_steps}")
        names, d = getattr(self, "feature_names_in_", None), self.n_features_in_
        ends = np.stack([one_row("x_a", x_a, d, names), one_row("x_b", x_b, d, names)])
        with warnings.catch_warnings():
            for known in (".* rows cannot be produced", "X does not have valid feature names"):
                warnings.filterwarnings("ignore", message=known, category=UserWarning)
            y = self.transform(ends).astype(float)
        covariance = self.binary_correlation_
        if covariance is None:
            raise ValueError(
                "the cross-fade of a morph needs the covariances of all pairs of columns, which are not kept beyond "
                f"{MOST_KEPT_COLUMNS} columns: fit with keep_pairs=True"
            )
        if not self.bias:  # then it is not centred, and PCA is
            spins = 2 * self.means_ - 1
            covariance = covariance - np.outer(spins, spins)
        return along(y, ends, n_steps, self.components_, self.thresholds_, self.means_, covariance)

    def n_states(self) -> int:
        """Count the rows that can occur without noise: cells of as many hyperplanes as there are columns.

        Returns
        -------
        int
            ``sum_{k <= P} C(N, k)``, and ``2 sum_{k < P} C(N - 1, k)`` with ``bias=False``, for N distinct hyperplanes
            in general position; columns with the same one, and constant columns, are not counted again.
        """
        self._fitted()
        weights = self.params_.weights
        distinct = hyperplane_cells.n_distinct_planes(weights, self.params_.phi)
        return hyperplane_cells.n_cells(distinct, int(np.sum(np.any(weights != 0, 0))), bool(self.bias))

    def rotate(self, method: str = "varimax") -> Rotation:
        """Return the components in rotated coordinates; the fitted model stays as it is.

        Parameters
        ----------
        method : {"varimax", "promax", "oblimin"}, default="varimax"
            Towards simple structure of the weights, which are loadings; the last two let hidden variables correlate.

        Returns
        -------
        Rotation
            `components`, `correlation` of the rotated variables, and `matrix`: rotated ones are ``Z @ matrix``.
        """
        self._fitted()
        weights = self.params_.weights
        scale = np.sqrt(np.maximum(np.sum(weights**2, 1) + self.params_.psi, 1e-300))
        return psychometrics.rotate(weights, method, weights / scale[:, None])
