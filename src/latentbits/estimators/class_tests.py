"""Tests of latent classes: whether more of them are needed."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from latentbits.core import interrupts
from latentbits.core.errors import DataError
from latentbits.engines.monitor import counted
from latentbits.estimators.class_covariates import WithCovariates
from latentbits.reports.bootstrap import BootstrapTest, bootstrap_test

__all__ = ["WithClassTests"]


class WithClassTests(WithCovariates):
    """Part of `BernoulliMixture`: the bootstrap test of the number of classes."""

    def bootstrap_test(
        self,
        X: Any,
        n_draws: int = 999,
        random_state: Any = None,
        n_starts: int = 16,
        n_more: int = 1,
        sample_weight: Any = None,
    ) -> BootstrapTest:
        """Test by bootstrapped likelihood ratios whether k classes are enough, or k + 1 are needed.

        Tables as large as X, with its holes, are drawn from this mixture and fitted with k and with k + 1 classes, and
        so is X itself.  A small p-value says that this many classes do not explain X.  All fits are made together, by
        EM from several starts each: some from this mixture with a class split or a small one added, so that the larger
        mixture is never the worse one.

        The mixture must have been fitted to X by maximum likelihood, with ``smoothing=0``.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            The bits that this mixture was fitted to, NaN for missing.
        n_draws : int, default=999
            Tables that are drawn.  The p-value is at least 1 / (n_draws + 1).
        random_state : int, RandomState or None
            Seed; the same seed gives the same draws.
        n_starts : int, default=16
            Random starts of each fit, and as many small classes that are added.  The best eighth of all goes on to the
            maximum.  More of them find higher maxima, of X and of the draws alike.
        n_more : int, default=1
            Classes more in the larger mixture.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts: whole numbers; None for once.

        Returns
        -------
        latentbits.reports.bootstrap.BootstrapTest
            With `statistic`, `p_value` and the `draws`; of the k classes also `g2` and `x2` with the p-values `g2_p`
            and `x2_p` by the same draws.

        Examples
        --------
        >>> import numpy as np
        >>> from latentbits import BernoulliMixture
        >>> rows = np.array([[1, 1, 1, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 0, 1], [0, 1, 0, 1]] * 12)
        >>> m = BernoulliMixture(1, smoothing=0).fit(rows)
        >>> test = m.bootstrap_test(rows, n_draws=19, random_state=0, n_starts=4)
        >>> test.p_value == 1 / 20, len(test.draws)
        (True, 19)
        """
        self._fitted()
        for name, value in {"n_draws": n_draws, "n_starts": n_starts, "n_more": n_more}.items():
            if not isinstance(value, Integral) or value < 1:
                raise ValueError(f"{name} must be a whole number of at least 1, got {value!r}")
        if self.smoothing_ > 0:
            raise ValueError(
                f"the test compares maxima of the likelihood, and smoothing={self.smoothing_:g} keeps this mixture "
                "away from them: fit it with smoothing=0"
            )
        if self._n_covariates:
            raise ValueError(
                "the test draws rows without covariates, and this mixture was fitted with them: fit it without"
            )
        rows, counts = self._rows_and_counts(X, sample_weight)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        with interrupts.held(), counted(int(n_draws), "draws", self.verbose) as count:
            return bootstrap_test(
                rows,
                counts,
                np.asarray(self.params_.weights),
                np.asarray(self.params_.means),
                n_draws=int(n_draws),
                seed=int(seed),
                n_starts=int(n_starts),
                n_more=int(n_more),
                after_each=count,
            )

    def _rows_and_counts(self, X: Any, sample_weight: Any) -> tuple[np.ndarray, np.ndarray | None]:
        """Return all bits, 255 for missing, and how often each row counts."""
        engine = self._open(X, reset=False, sample_weight=sample_weight)
        rows = np.concatenate(list(engine.blocks()))
        counts = engine.weights
        if counts is not None and not np.array_equal(counts, np.round(counts)):
            raise DataError(
                "sample_weight must be whole numbers here: as many rows are drawn, and a row cannot be drawn in part"
            )
        if not (rows != 255).any():
            raise DataError("X has no row with an observed bit: there is nothing to test")
        return rows, counts
