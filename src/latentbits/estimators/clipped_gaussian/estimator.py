"""`ClippedGaussian`: the hidden continuous variables behind binary correlations."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.errors import ModelFileError
from latentbits.core.limits import check_memory
from latentbits.core.model import Measure, Model, Stop
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.fit import FitResult
from latentbits.engines.monitor import Record
from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.clipped_gaussian import misfit
from latentbits.estimators.clipped_gaussian.answers import Answers
from latentbits.estimators.moments import checked_moments
from latentbits.estimators.precision import DOUBLE
from latentbits.models.clipped_gaussian import em, learning, many_columns, model, tetrachoric
from latentbits.models.clipped_gaussian.learning import Recipe
from latentbits.models.clipped_gaussian.params import Params
from latentbits.models.clipped_gaussian.tuning import MOST_KEPT_COLUMNS

__all__ = ["ClippedGaussian"]


class ClippedGaussian(Answers):
    """Clipped low-rank Gaussian (Lee & Sompolinsky 1998): tetrachoric correlations, their components and factors.

    y ~ N(0, I), x = W y, bit i is 1 where phi_i + x_i > 0.  Means and correlations of the bits are mapped, pair by
    pair, to those of the Gaussian behind them, and that matrix is diagonalised: one pass over the rows, no iterations.
    Missing entries are left out of the pairs they are in.  From there `learner="likelihood"` climbs to the weights and
    biases of the largest likelihood.

    Parameters
    ----------
    n_components : int, "positive" or "parallel", default=2
        Number of hidden variables, P.  "positive" takes every positive eigenvalue; "parallel" those that are larger
        than chance would make them (parallel analysis: the same table with the bits of each column shuffled; one of
        twenty tables of independent bits has a component by chance), at least one.
    noise : {"unique", "none"}, default="unique"
        What becomes of the variance that P components leave over.  "unique" keeps it as independent noise of each
        column: a probit factor model, in which every row has a probability.  "none" is the paper's deterministic
        clipping: bits are a function of y, and rows that no y produces have probability 0.
    bias : bool, default=True
        Whether columns have biases phi; without, as in eqs. 3 and 7 of the paper, all means are taken to be 1/2.
    correction : float, default=0.5
        Where a cell of a pair's 2 x 2 table is empty, it is taken to hold this many rows, margins kept, and at most
        what makes the bits independent.  Without (0), the correlation of such a pair is +1 or -1.
    extraction : {"auto", "components", "factors"}, default="auto"
        "components" takes the principal components of the correlation matrix, as the paper does.  "factors" is factor
        analysis (minres): weights that reproduce the correlations and not the variances.  Below some tens of columns
        components are far too long (on five items their likelihood can be worse than that of independent bits); with
        hundreds there is little between them.  "auto" takes factors where there is noise and fewer than ten columns for
        each component, and components otherwise.
    repair : bool, default=False
        Replace the matrix of correlations by the nearest one without negative eigenvalues before taking components.
    likelihood : {"importance", "ep"}, default="importance"
        How y is integrated over: by nodes or points, with an error; or by expectation propagation alone, which is
        mostly right to 0.01 to 0.03 nats (0.1 to 0.5 without noise), but cannot tell (the error is NaN).  With noise
        nodes are a lattice that all rows share, and exact (one component, two or three of fewer than 50 columns); else
        points are around the posterior that expectation propagation finds, more for rows where the error would be
        above 0.05 nats.
    learner : {"moments", "likelihood"}, default="moments"
        "moments" is the paper's.  "likelihood" begins there and maximises the log-likelihood of the rows over weights
        and thresholds, by accelerated EM with posteriors by Gauss-Hermite nodes (up to three components) or a
        quasi-random net around where expectation propagation puts them.  It needs noise, and passes over the rows some
        tens of times; in return it describes rows better, missing entries are left out of the likelihood and not of
        pairs, and there are `aic` and `bic`.
    weight_prior : float or None
        Of "likelihood": standard deviation of a Gaussian prior on the slopes ``w_i / sqrt(psi_i)`` of each column
        (Martin & McDonald 1975).  None is maximum likelihood.  With many columns for the rows, or rare bits, slopes
        of some columns would run to infinity, and end at a uniqueness of 0.005: 3, say, keeps them from it.
    random_state : int, RandomState or None
        Seed, of "parallel" only: nothing else in learning is random.
    n_init : int, default=1
        Ignored; there is one solution.
    max_iter : int, default=1000
        Most iterations of each stage of "likelihood"; "moments" make one pass.
    max_time : float or None
        Seconds.  Half a diagonalisation is no model: where all pairs of columns will take longer (and more than two
        seconds), `fit` raises `latentbits.core.errors.OutOfTimeError` as soon as that shows, after the first pairs, or
        when the time is over while factors are found.
    tol : float, default=1e-6
        "likelihood" stops when less than this is left to gain, in nats per row; "moments" do not need it.
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; without noise always float64.  "auto" is
        float32, unless that loses more than 0.001 nats of a row, as it does from 2000 columns on.
    binarize : float or None
        Turn values above it into 1 and the rest into 0; None takes nothing but bits.
    keep_pairs : bool or "auto", default="auto"
        Whether the matrices over pairs of columns are kept, in memory and in files.  "auto" keeps them up to 1024
        columns, and beyond where `repair` or an `n_components` that is no number needs them.  Without them learning
        takes far less memory and time, and there are no standard errors: `correlation_`, `binary_correlation_`,
        `correlation_error_`, `undetermined_` and `corrected_` are None, `eigenvalues_` and `binary_eigenvalues_` the
        first few, `negative_share_` is NaN, and `history_` of "moments" has nothing.  A table that would not fit into
        memory either way is refused before the rows are read.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_columns)
        Weights, W.T; the longest first, each with a sum that is not negative.  Components are eigenvectors of
        `correlation_` times the roots of their eigenvalues.  With "likelihood" they are orthogonal to each other.
    thresholds_ : ndarray of shape (n_columns,)
        phi of eq. 9, ``sqrt(2 C_ii) erfinv(<s_i>)``: a bit is 1 where ``phi + x > 0``.  C_ii is the variance of x: 1
        with ``noise="unique"``, that of W y without.  "likelihood" learns them along with the weights.
    noise_variance_ : ndarray of shape (n_columns,)
        Uniquenesses: what W leaves over of a variance of 1.  0 without noise.  With factors at least 0.005; where that
        bound holds (a Heywood case) a warning names the columns.  With components, which take in part of
        the noise, at least 0.1: the weights of a column that would leave less are shortened.
    communalities_ : ndarray of shape (n_columns,)
        Sums of squares of the weights: with noise, what the hidden variables explain of a variance of 1.
    means_ : ndarray of shape (n_columns,)
        Share of ones.
    binary_correlation_ : ndarray of shape (n_columns, n_columns)
        C^ss: ``<s_i s_j> - <s_i><s_j>`` of the bits as -1 and +1 (``<s_i s_j>`` with ``bias=False``).
    correlation_ : ndarray of shape (n_columns, n_columns)
        C^xx: tetrachoric correlations; with `repair`, the nearest correlation matrix to them.  Rows of constant
        columns, which are set aside, are 0, the diagonal too.
    correlation_error_ : ndarray of shape (n_columns, n_columns)
        Their standard errors, by the delta method; NaN where there is none: undetermined pairs, and correlations of +1
        and -1 that have not been corrected.
    undetermined_ : ndarray of bool of shape (n_columns, n_columns)
        Pairs whose correlation the data leave open: never seen together, constant, or with means so extreme that
        every correlation gives the same table.
    corrected_ : ndarray of bool of shape (n_columns, n_columns)
        Pairs with an empty cell, to which `correction` applied.
    eigenvalues_, binary_eigenvalues_ : ndarray of shape (n_columns,)
        Of `correlation_` and of `binary_correlation_`, largest first.
    negative_share_ : float
        Sum of the negative eigenvalues of C^xx over the sum of all, by size: what no clipped Gaussian can produce, and
        what chance did.
    n_components_ : int
        P.
    dtype_ : str
        Precision of the rows in the fit, "float32" or "float64".
    n_parameters_ : int
        Free parameters: weights but for a rotation, and thresholds, of columns that vary; without noise less one for
        each of them, as bits do not depend on the scale of weights and threshold.
    history_ : ndarray
        One number: minus half the sum of squares of what W W' leaves over of the correlations.  Of "likelihood": the
        log-likelihoods of its passes, less the penalty of `weight_prior`.
    history_table_, objective_
        The same, as everywhere.
    n_iter_, converged_, stop_reason_, left_to_gain_
        Of "moments" 1, True, "converged" and 0; of "likelihood" as everywhere.
    n_rows_ : float
        Rows learned from, each as often as it counts; NaN where that is not known.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a frame.

    Examples
    --------
    >>> from latentbits import ClippedGaussian
    >>> from latentbits.data import load_dataset
    >>> X = load_dataset("lsat6").X
    >>> m = ClippedGaussian(1).fit(X)
    >>> m.correlation_[0].round(2)
    array([1.  , 0.17, 0.23, 0.11, 0.07])
    >>> m.thresholds_.round(2)
    array([1.43, 0.55, 0.13, 0.72, 1.13])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **Answers._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"positive", "parallel"})],
        "noise": [StrOptions(set(model.CHOICES["noise"]))],
        "bias": ["boolean"],
        "correction": [Interval(Real, 0, 1, closed="left")],
        "repair": ["boolean"],
        "extraction": [StrOptions(set(model.CHOICES["extraction"]))],
        "likelihood": [StrOptions(set(model.CHOICES["likelihood"]))],
        "learner": [StrOptions(set(model.CHOICES["learner"]))],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "keep_pairs": ["boolean", StrOptions({"auto"})],
    }

    _params_class: ClassVar[type] = Params
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "means": (0, 1),
        "psi": (0, 1),
        "negative_share": (0, 1),
        "correlation": (-1, 1),
        "binary": (-1, 1),
    }
    _flags: ClassVar[frozenset[str]] = frozenset({"undetermined", "corrected"})
    _with_holes: ClassVar[frozenset[str]] = frozenset({"error", "negative_share"})

    def __init__(
        self,
        n_components: int | str = 2,
        *,
        noise: str = "unique",
        bias: bool = True,
        correction: float = 0.5,
        extraction: str = "auto",
        repair: bool = False,
        likelihood: str = "importance",
        learner: str = "moments",
        weight_prior: float | None = None,
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
        keep_pairs: bool | str = "auto",
    ) -> None:
        self.keep_pairs = keep_pairs
        self.n_components = n_components
        self.noise = noise
        self.bias = bias
        self.correction = correction
        self.extraction = extraction
        self.repair = repair
        self.likelihood = likelihood
        self.learner = learner
        self.weight_prior = weight_prior
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    @classmethod
    def from_moments(cls, mean: Any, cov: Any, **params: Any) -> Self:
        """Make a model of bits with given means and covariances, ready to sample from: the dichotomised Gaussian.

        Where the bits have a Gaussian behind them, ``from_moments(mean, cov).sample(n)`` has these moments exactly, but
        for chance.  Where they have not (see `negative_share_`), the nearest correlation matrix is taken instead.

        Parameters
        ----------
        mean : array-like of shape (n_columns,)
            P(bit = 1) of each column, between 0 and 1.
        cov : array-like of shape (n_columns, n_columns)
            Covariances of the bits as 0 and 1; the diagonal must be ``mean (1 - mean)``.
        **params
            Hyper-parameters; ``n_components="positive", noise="none", repair=True`` where not given.

        Returns
        -------
        ClippedGaussian

        Examples
        --------
        >>> m = ClippedGaussian.from_moments([0.1, 0.2, 0.3], [[0.09, 0.03, 0], [0.03, 0.16, 0], [0, 0, 0.21]])
        >>> X = m.sample(100_000, random_state=0)
        >>> (X[:, 0] & X[:, 1]).mean().round(2)
        np.float64(0.05)
        """
        m = cls(**{"n_components": "positive", "noise": "none", "repair": True, **params})
        m._validate_params()
        if m._climbs:
            raise ValueError("learner='likelihood' needs rows: moments alone have no likelihood")
        means, covariance = checked_moments(mean, cov, bool(m.bias))
        found = tetrachoric.from_covariance(means, 4 * covariance)
        size = m.n_components
        if size == "parallel":
            raise ValueError("n_components='parallel' needs rows: pass a number or 'positive'")
        if size == "positive":
            size = len(means)  # those that are not positive have no weight
        learned = learning.from_correlations(m._recipe(), found, int(size), 1e-16)
        m.n_features_in_ = len(means)
        m._adopt(FitResult(learned, None, -np.inf, (), 0, Stop.CONVERGED, 0.0))
        if bounds := misfit.of_bounds(learned, None, climbed=False):
            warnings.warn(bounds, UserWarning, stacklevel=2)
        implied = learned.weights @ learned.weights.T
        spread = np.sqrt(np.maximum(np.diag(implied) + learned.psi, 1e-300))
        off = np.max(np.abs(np.tril(implied / np.outer(spread, spread) - found.latent, -1)), initial=0.0)
        if off > 1e-3:
            exact = m.noise == "none" and m.n_components_ == len(means)
            why = "no Gaussian has bits with these covariances" if exact else "this model leaves something over"
            warnings.warn(
                f"{why}: its bits have the means, but the correlations behind them are off by up to {off:.3f}",
                UserWarning,
                stacklevel=2,
            )
        return m

    # ---------------------------------------------------------------- learning

    def _recipe(self) -> Recipe:
        size = self.n_components
        size = size if isinstance(size, str) else int(size)
        return Recipe(size, self.noise, bool(self.bias), float(self.correction), bool(self.repair), self.extraction)

    def _model(self) -> Model:
        prior = None if self.weight_prior is None else float(self.weight_prior)
        return model.model(
            **self._recipe()._asdict(), likelihood=self.likelihood, learner=self.learner, weight_prior=prior
        )

    def _model_for(self, engine: Engine) -> Model:
        d, recipe, rows = engine.n_features, self._recipe(), partial(_encoded, engine)
        fewer = "leave columns out (those that are nearly constant first), or take another family, such as a mixture"
        if self._keeps(d):
            check_memory(
                learning.whole_bytes(d),
                f"learning a clipped Gaussian of {d} columns with all matrices of pairs",
                f"{fewer}; a number as n_components without repair or keep_pairs takes a thirtieth",
            )
            if self.n_components != "parallel":
                return self._model()
            stages = learning.whole_stages(recipe, rows, engine.weights)
        else:
            check_memory(many_columns.bytes_needed(d), f"learning a clipped Gaussian of {d} columns", fewer)
            stages = learning.wide_stages(recipe, rows, engine.weights)
        climb = em.stages(recipe.n_components, recipe.bias, accelerate=True) if self._climbs else ()
        return self._model()._replace(stages=(*stages, *climb))

    @property
    def _has_prior(self) -> bool:
        return self.weight_prior is not None if self._climbs else self.correction > 0

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        weights = engine.weights
        if weights is not None and not np.array_equal(weights, np.rint(weights)):
            dtype = DOUBLE  # an empty cell is a difference of sums, which float32 does not tell from a small one
        return super()._learn(engine, seed, dtype, max_time)

    def _count_in(self, unit: float) -> None:
        super()._count_in(unit)
        self.params_ = self.params_.replace(error=self.params_.error / np.sqrt(unit))
        self._expose()

    def _keeps(self, n_columns: int) -> bool:
        """Tell whether matrices of pairs are kept."""
        needs = f"n_components={self.n_components!r}" if isinstance(self.n_components, str) else None
        needs = "repair=True" if self.repair else needs
        if self.keep_pairs == "auto":
            return n_columns <= MOST_KEPT_COLUMNS or needs is not None
        if needs and not self.keep_pairs:
            raise ValueError(
                f"keep_pairs=False does not go with {needs}, which needs the correlations of all pairs: leave one of "
                "the two out"
            )
        return bool(self.keep_pairs)

    def _dtype(self) -> np.dtype:
        # cells between hundreds of hyperplanes are smaller than what float32 can tell
        return super()._dtype() if self.noise == "unique" else np.dtype(np.float64)

    @property
    def _n_restarts(self) -> int:
        return 1  # there is one solution

    def _adopt(self, result: FitResult) -> None:
        if result.reason == Stop.INTERRUPTED and not (self._climbs and np.isfinite(result.objective)):
            raise KeyboardInterrupt  # half of a diagonalisation is no model
        p = result.params
        if self._climbs:
            turned = p.weights @ psychometrics.canonical_axes(p.weights)
            reason = result.reason if self.max_iter > 0 else Stop.MAX_ITER  # counting pairs has converged, but not this
            params = p.replace(weights=turned)
            return super()._adopt(result._replace(params=params, reason=reason))
        if len(p.correlation):
            left = p.correlation - p.weights @ p.weights.T
            value = -np.sum(np.tril(left, -1) ** 2)
            end = Record(0, "diagonalising", Measure.LEFT_OVER, 0, value, result.seconds, {})
            result = result._replace(history=(end,))
        else:  # what was learned in one go has made no iterations
            result = result._replace(reason=Stop.CONVERGED, n_iter=1)
        super()._adopt(result)

    def _expose(self) -> None:
        p = self.params_
        self.components_, self.thresholds_, self.noise_variance_ = p.weights.T, p.phi, p.psi
        self.means_ = p.means
        self.communalities_ = np.sum(np.square(p.weights), 1)
        pairs = p.binary, p.correlation, p.error, p.undetermined, p.corrected
        if len(p.correlation) != len(p.phi):
            pairs = (None,) * 5  # not kept
        self.binary_correlation_, self.correlation_, self.correlation_error_ = pairs[:3]
        self.undetermined_, self.corrected_ = pairs[3:]
        self.eigenvalues_, self.binary_eigenvalues_ = p.eigenvalues, p.binary_eigenvalues
        self.negative_share_ = float(p.negative_share)
        self.n_components_ = self._n_features_out = p.weights.shape[1]
        self._idle = tuple(np.flatnonzero(~np.any(p.weights != 0, 1)).tolist())  # constant columns have no weights
        n_free = self._n_varying
        rank = min(n_free, self.n_components_)
        each = rank + bool(self.bias) - (self.noise == "none")  # without noise the scale of a column says nothing
        self.n_parameters_ = n_free * each - rank * (rank - 1) // 2

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        d = self.n_features_in_
        k = None if isinstance(self.n_components, str) else int(self.n_components)
        each = dict.fromkeys(("phi", "psi", "means"), (d,))
        # a file may have them and need not: they were kept whatever the number of columns once
        kept = len(self.params_.correlation) > 0 or self._keeps(d)
        if kept and np.isnan(self.params_.negative_share):
            raise ModelFileError("parameter 'negative_share' is not finite")
        values = dict.fromkeys(("eigenvalues", "binary_eigenvalues"), (d if kept else None,))
        size = d if kept else 0
        pairs = dict.fromkeys(("binary", "correlation", "error", "undetermined", "corrected"), (size, size))
        return {"weights": (d, k), **each, **values, **pairs, "negative_share": ()}

    def _finish(self, engine: Engine, result: FitResult) -> None:
        p, found = self.params_, []
        # a likelihood needs neither pairs nor a correlation matrix; of pairs that are not kept all has been said
        if self.correlation_ is not None and not self._climbs:
            found = [misfit.of_pairs(p), None if self.repair else misfit.of_spectrum(p)]
        for words in (*found, misfit.of_bounds(p, getattr(self, "feature_names_in_", None), self._climbs)):
            if words:
                warnings.warn(words, UserWarning, stacklevel=4)


def _encoded(engine: Engine) -> Iterator[np.ndarray]:
    """Give the rows of an engine, without padding, in blocks of up to 64 MB of bytes."""
    rows = 1 << max(6, (2**26 // engine.n_features).bit_length() - 1)
    for chunk in rechunk(engine.blocks(), Layout(rows, np.dtype(np.float32)), complete=True):
        yield np.asarray(chunk.values)[: chunk.n_rows]
