"""`ClippedGaussian`: the hidden continuous variables behind binary correlations."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache, partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core import tree
from latentbits.core.errors import ModelFileError
from latentbits.core.limits import check_memory
from latentbits.core.model import Measure, Model, Stage, Stop
from latentbits.engines.chunks import Layout, rechunk
from latentbits.engines.fit import FitResult
from latentbits.engines.monitor import Record
from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.criteria import Criteria, WithCriteria
from latentbits.estimators.moments import checked_moments
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.psychometrics import Rotation
from latentbits.estimators.showing import named_weights
from latentbits.estimators.tables.refusals import at_column
from latentbits.models.clipped_gaussian import cell_probability, cells, em, spectrum, tetrachoric, wide
from latentbits.models.clipped_gaussian import expectation as ep
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.clipped_gaussian.gibbs import gibbs
from latentbits.models.clipped_gaussian.likelihood import is_sampled

__all__ = ["ClippedGaussian", "Morph"]

MOST_KEPT = 1024  # columns up to which matrices of pairs are kept unless told otherwise: a file of 26 MB
BLOCK_BYTES = 2**26  # of rows that are packed at a time
MOST_TOLD = 5  # columns that a warning names
LARGE_NEGATIVE_SHARE, LARGE_NEGATIVE_VALUE = 0.1, 0.2  # of the spectrum of C^xx: worth a warning


class Morph(NamedTuple):
    """The way from one row to another.

    Attributes
    ----------
    position : (n_steps,)
        From 0 at the first row to 1 at the second.
    latents : (n_steps, n_components)
        y along the straight line between the two.
    bits : (n_steps, n_columns)
        sgn(phi + W y) there, as 0 and 1: bits flip one after another, in the model's order.
    cross_fade : (n_steps, n_columns)
        The same by linear PCA of the bits with as many components: shades between the two rows.
    """

    position: np.ndarray
    latents: np.ndarray
    bits: np.ndarray
    cross_fade: np.ndarray


class ClippedGaussian(WithCriteria):
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
        Where a cell of a pair's 2 x 2 table is empty, it is taken to hold so many rows, margins kept, but no more than
        would make the bits independent.  Without (0), the correlation of such a pair is +1 or -1.
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
        first few, `negative_share_` is NaN, and `history_` of "moments" has nothing.  What would not fit into
        memory either way is refused before the rows are read.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_columns)
        Weights, W.T; the longest first, each with a sum that is not negative.  Components are eigenvectors of
        `correlation_` times the roots of their eigenvalues.  Those of "likelihood" are orthogonal to each other.
    thresholds_ : ndarray of shape (n_columns,)
        phi of eq. 9, ``sqrt(2 C_ii) erfinv(<s_i>)``: a bit is 1 where ``phi + x > 0``.  C_ii is the variance of x: 1
        with ``noise="unique"``, that of W y without.  "likelihood" learns them along with the weights.
    noise_variance_ : ndarray of shape (n_columns,)
        Uniquenesses: what W leaves over of a variance of 1.  0 without noise.  With factors at least 0.005; where that
        bound holds (a Heywood case) a warning names the columns.  With components, which take part of the noise for
        their own, at least 0.1: the weights of a column that would leave less are shortened.
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
        Pairs whose correlation the data cannot tell: never seen together, constant, or with means so extreme that
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
        **WithCriteria._parameter_constraints,
        "n_components": [Interval(Integral, 1, None, closed="left"), StrOptions({"positive", "parallel"})],
        "noise": [StrOptions(set(clipped_gaussian.NOISES))],
        "bias": ["boolean"],
        "correction": [Interval(Real, 0, 1, closed="left")],
        "repair": ["boolean"],
        "extraction": [StrOptions(set(clipped_gaussian.EXTRACTIONS))],
        "likelihood": [StrOptions(set(clipped_gaussian.LIKELIHOODS))],
        "learner": [StrOptions(set(clipped_gaussian.LEARNERS))],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "keep_pairs": ["boolean", StrOptions({"auto"})],
    }

    components_: np.ndarray
    thresholds_: np.ndarray

    _params_class: ClassVar[type] = clipped_gaussian.Params
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
        """A model of bits with given means and covariances, ready to sample from: the dichotomised Gaussian.

        Where the bits have a Gaussian behind them, ``from_moments(mean, cov).sample(n)`` has these moments exactly, but
        for chance.  Where they have not (see `negative_share_`), the nearest correlation matrix is taken instead.

        Parameters
        ----------
        mean : array-like of shape (n_columns,)
            P(bit = 1) of each column, between 0 and 1.
        cov : array-like of shape (n_columns, n_columns)
            Covariances of the bits as 0 and 1; the diagonal must be ``mean (1 - mean)``.
        **params
            Hyper-parameters; ``n_components="positive", noise="none", repair=True`` unless told otherwise.

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
        learned = tree.to_numpy(
            clipped_gaussian.from_correlations(
                found, int(size), m.noise, bool(m.bias), bool(m.repair), m.extraction, 1e-16
            )
        )
        m.n_features_in_ = len(means)
        m._adopt(FitResult(learned, None, -np.inf, (), 0, Stop.CONVERGED, 0.0))
        m._warn_of_bounds(stacklevel=3)
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

    def _model(self) -> Model:
        size = self.n_components
        return clipped_gaussian.model(
            n_components=size if isinstance(size, str) else int(size),
            noise=self.noise,
            bias=bool(self.bias),
            correction=float(self.correction),
            repair=bool(self.repair),
            extraction=self.extraction,
            likelihood=self.likelihood,
            learner=self.learner,
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
        )

    def _model_for(self, engine: Engine) -> Model:
        d = engine.n_features
        if self._keeps(d):
            check_memory(
                clipped_gaussian.whole_bytes(d),
                f"learning a clipped Gaussian of {d} columns with all matrices of pairs",
                wide.FEWER_COLUMNS + ("; a number as n_components without repair or keep_pairs takes a thirtieth"),
            )
            if self.n_components != "parallel":
                return self._model()
            stages = clipped_gaussian.whole_stages(
                "parallel",
                self.noise,
                bool(self.bias),
                float(self.correction),
                bool(self.repair),
                self.extraction,
                partial(_encoded, engine),
                engine.weights,
            )
            return self._beginning_with(stages)
        check_memory(wide.bytes_needed(d), f"learning a clipped Gaussian of {d} columns", wide.FEWER_COLUMNS)
        stages = clipped_gaussian.wide_stages(
            partial(_encoded, engine),
            int(self.n_components),
            self.noise,
            bool(self.bias),
            float(self.correction),
            self.extraction,
            engine.weights,
        )
        return self._beginning_with(stages)

    def _beginning_with(self, stages: tuple[Stage, ...]) -> Model:
        """The record, with other stages for the moments."""
        size = self.n_components
        size = size if isinstance(size, str) else int(size)
        climb = em.stages(size, bool(self.bias), accelerate=True) if self._climbs else ()
        return self._model()._replace(stages=(*stages, *climb))

    @property
    def _climbs(self) -> bool:
        return bool(self.learner == "likelihood")

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
        self.params_ = eqx.tree_at(lambda p: p.error, self.params_, self.params_.error / np.sqrt(unit))
        self._expose()

    def _keeps(self, n_columns: int) -> bool:
        """Whether matrices of pairs are kept."""
        needs = [
            argument
            for argument, given in (
                ("repair=True", self.repair),
                (f"n_components={self.n_components!r}", isinstance(self.n_components, str)),
            )
            if given
        ]
        if self.keep_pairs == "auto":
            return n_columns <= MOST_KEPT or bool(needs)
        if needs and not self.keep_pairs:
            raise ValueError(f"keep_pairs=False does not go with {needs[0]}, which needs the correlations of all pairs")
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
            params = eqx.tree_at(lambda p: p.weights, p, turned)
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
        # a likelihood needs neither pairs nor a correlation matrix; of pairs that are not kept all has been said
        if self.correlation_ is not None and not self._climbs:
            self._warn_of_pairs()
            if not self.repair:
                self._warn_of_misfit()
        self._warn_of_bounds(stacklevel=5)

    def _warn_of_bounds(self, stacklevel: int) -> None:
        """Of Heywood cases; components do not end at this bound but by chance."""
        least = clipped_gaussian.LEAST_UNIQUENESS
        found = np.flatnonzero(np.abs(self.communalities_ - (1 - least)) < 1e-9)
        if not len(found):
            return
        names = getattr(self, "feature_names_in_", None)
        told = ", ".join(at_column(int(i), names) for i in found[:MOST_TOLD])
        more = f" and {len(found) - MOST_TOLD} more" if len(found) > MOST_TOLD else ""
        fewer = "take fewer components (n_components), " if self.n_components_ > 1 else ""
        fewer += "give a prior (weight_prior=3, say), " if self._climbs else ""
        warnings.warn(
            f"a Heywood case: factors explain all that they may of {told}{more}, whose uniqueness is at its bound of "
            f"{least}, so that their weights say little: {fewer}leave out a column that hardly differs from another, "
            "or take more rows, since with few of them chance does that",
            UserWarning,
            stacklevel=stacklevel,
        )

    def _warn_of_pairs(self) -> None:
        varying = np.flatnonzero(np.diag(self.correlation_))
        pairs = np.triu_indices(len(varying), 1)
        n_untold = int(np.sum(self.undetermined_[np.ix_(varying, varying)][pairs]))
        if n_untold:
            warnings.warn(clipped_gaussian.untold(n_untold, len(pairs[0])), UserWarning, stacklevel=5)

    def _warn_of_misfit(self) -> None:
        lowest, chance = self.eigenvalues_[-1], spectrum.lowest_by_chance(self.correlation_, self.correlation_error_)
        if lowest < -max(LARGE_NEGATIVE_VALUE, -2 * chance):
            why = (
                f"the smallest eigenvalue of the correlations is {lowest:.2f}, far below what chance would make it "
                f"({chance:.2f}). Constraints on whole rows (a fixed number of ones, say) do that"
            )
        elif self.negative_share_ > LARGE_NEGATIVE_SHARE:
            empty = int(np.sum(np.triu(self.corrected_)))
            why = (
                f"{self.negative_share_:.0%} of the spectrum of the correlations is negative, as chance would make it "
                f"with so few rows, or so rare ones, for so many columns ({empty} pairs have an empty cell)"
            )
        else:
            return
        warnings.warn(
            f"no Gaussian has these correlations: {why}. The first components can be used; repair=True takes them from "
            "the nearest correlation matrix",
            UserWarning,
            stacklevel=5,
        )

    # ---------------------------------------------------------------- use

    def criteria(self, X: Any, sample_weight: Any = None) -> Criteria:
        """Log-likelihood with its error, parameters and rows that count, and the information criteria made of them.

        Of ``learner="likelihood"`` alone: the criteria are of a maximum of the likelihood.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None for once.

        Returns
        -------
        Criteria
            `log_likelihood`, `error`, `n_parameters`, `n_rows` (those with an answer), `aic` and `bic`.
        """
        self._fitted()
        if not self._climbs:
            raise ValueError(
                "information criteria are of a maximum of the likelihood, which learner='moments' does not look for: "
                "fit with learner='likelihood'"
            )
        return super().criteria(X, sample_weight)

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
        """Posterior means of the hidden variables of each row.

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
        """Posterior of the hidden variables of each row.

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
        """Draws of the hidden variables of each row by Markov chains, which have the exact posterior as their limit.

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
        function = _draws(self.noise, int(n_samples), int(n_between))
        return np.concatenate(list(self._map_engine(function, self._open(X, reset=False), seed)))

    def morph(self, x_a: Any, x_b: Any, n_steps: int = 8) -> Morph:
        """The way from one row to another through the space of the hidden variables.

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
        ends = np.stack([self._one_row(name, x) for name, x in (("x_a", x_a), ("x_b", x_b))])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".* rows cannot be produced", category=UserWarning)
            y = self._without_names(self.transform, ends).astype(float)
        position = np.linspace(0, 1, n_steps)
        latents = y[0] + position[:, None] * (y[1] - y[0])
        bits = (self.thresholds_ + latents @ self.components_ > 0).astype(np.uint8)
        covariance = self.binary_correlation_
        if covariance is None:
            raise ValueError(
                "the cross-fade of a morph needs the covariances of all pairs of columns, which are not kept beyond "
                f"{MOST_KEPT} columns: fit with keep_pairs=True"
            )
        if not self.bias:  # then it is not centred, and PCA is
            spins = 2 * self.means_ - 1
            covariance = covariance - np.outer(spins, spins)
        vectors = np.linalg.eigh(covariance)[1][:, ::-1][:, : self.n_components_]
        away = np.where(np.isnan(ends), 0.0, ends - self.means_)
        kept = self.means_ + away @ vectors @ vectors.T
        return Morph(position, latents, bits, kept[0] + position[:, None] * (kept[1] - kept[0]))

    def n_states(self) -> int:
        """How many rows can occur without noise: cells of as many hyperplanes as there are columns.

        Returns
        -------
        int
            ``sum_{k <= P} C(N, k)``, and ``2 sum_{k < P} C(N - 1, k)`` with ``bias=False``, for N distinct hyperplanes
            in general position; columns with the same one, and constant columns, are not counted again.
        """
        self._fitted()
        weights, phi = self.params_.weights, self.params_.phi
        length = np.linalg.norm(weights, axis=1)
        planes = np.column_stack([weights, phi])[length > 0] / length[length > 0, None]
        turned = planes * np.where(planes[np.arange(len(planes)), np.argmax(np.abs(planes), 1)] < 0, -1, 1)[:, None]
        distinct = len(np.unique(turned.round(9) + 0.0, axis=0))
        return cells.n_cells(distinct, int(np.sum(np.any(weights != 0, 0))), bool(self.bias))

    def rotate(self, method: str = "varimax") -> Rotation:
        """Components in rotated coordinates; the fitted model stays as it is.

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

    def _one_row(self, name: str, x: Any) -> np.ndarray:
        """One row as numbers; of a Series, or a frame of one row, by the names of its columns."""
        x = x.iloc[0] if hasattr(x, "iloc") and getattr(x, "ndim", 1) == 2 and len(x) == 1 else x
        names = getattr(self, "feature_names_in_", None)
        if names is not None and hasattr(x, "reindex"):
            missing = [str(column) for column in names if column not in x.index]
            if missing:
                raise ValueError(f"{name} has no {missing[0]!r}: it must have the columns that the model was fitted to")
            x = x.reindex(names)
        row = np.asarray(x, float).ravel()
        if len(row) != self.n_features_in_ or np.ndim(x) > 2:
            raise ValueError(f"{name} must be one row of {self.n_features_in_} bits, found {np.shape(x)}")
        return row

    def _without_names(self, function: Callable[..., Any], X: np.ndarray) -> Any:
        """Rows that a user picked out of a frame have lost its names, which is no reason to warn."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="X does not have valid feature names", category=UserWarning)
            return function(X)


def _encoded(engine: Engine) -> Iterator[np.ndarray]:
    """The rows of an engine, without padding."""
    rows = 1 << max(6, (BLOCK_BYTES // engine.n_features).bit_length() - 1)
    for chunk in rechunk(engine.blocks(), Layout(rows, np.dtype(np.float32)), complete=True):  # nobody asks
        yield np.asarray(chunk.values)[: chunk.n_rows]


@cache
def _draws(noise: str, n_samples: int, n_between: int) -> Callable[..., Any]:
    n_forget = max(100, n_samples * n_between)

    def rows_of(params: Any, shared: Any, batch: Any) -> jax.Array:
        signs = clipped_gaussian.signs_of(batch)
        if noise == "unique":
            start = ep.approximate(shared, signs).posterior.mean
            return gibbs(shared, signs, start, batch.keys, n_samples, n_between, n_forget)
        y, violated = cells.find(params.weights, params.phi, signs, batch.key, n_slides=0)
        model, keys = (params.weights, params.phi, signs), batch.keys
        y = cell_probability.gibbs(*model, y, keys, n_forget)[0]
        later = jax.vmap(jax.random.fold_in, in_axes=(0, None))(keys, n_samples)
        drawn = jnp.swapaxes(cell_probability.gibbs(*model, y, later, n_between, n_samples), 0, 1)
        return jnp.where((violated == 0)[:, None, None], drawn, jnp.nan)

    return rows_of
