"""`LatentTrait`: a map of binary data, and of columns of several kinds."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import jax
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.model import Model
from latentbits.estimators.base import LatentModel
from latentbits.estimators.latent_trait.columns import TraitOfColumns
from latentbits.models.latent_trait import column_kinds, variational
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.column_kinds import Columns

__all__ = ["LatentTrait", "Variational"]


class Variational(NamedTuple):
    """The approximate posterior of each row, eqs. 6 and 7 with xi converged, and the bound on its log p.

    `bound` is a lower bound on log p(x), eq. 4; for the log-likelihood itself see `score_samples`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    bound: np.ndarray


class LatentTrait(TraitOfColumns):
    """Latent trait model (Tipping 1998): a map of binary data, logistic PCA with the latents integrated out.

    x ~ N(0, I),  P(t_i = 1 | x) = sigmoid(w_i.x + b_i): Gaussian latents, logistic bits.  With two latents it is a map
    of the data.  Where logistic PCA finds places of rows along with the weights, here they are integrated out.  Missing
    bits are left out, which marginalises them.  `ItemResponse` has the same model for the items of a test,
    `CurvedTrait` a curved surface, and `TraitMaps` several maps.

    Parameters
    ----------
    n_components : int, default=2
        Number of latent dimensions, q, up to 32.  Many need many columns, and likelihoods have a larger error, which is
        stated: the steeper the bits, the larger.
    method : {"auto", "variational", "quadrature", "monte_carlo"}, default="auto"
        "variational" is the EM of the paper's section 4, which maximises a bound; "monte_carlo" that of its section 3,
        with `n_samples` fixed draws of the latents.  "quadrature" is EM by nodes adapted to each row (Gauss-Hermite up
        to three dimensions, quasi-Monte Carlo above): maximum likelihood.  "auto" is variational EM to get near, and
        then quadrature: the same optimum, sooner (quadrature alone where rows have observed fewer than ten columns a
        latent dimension).
    column_types : None, "infer", list or dict, default=None
        None takes bits only.  A list with "binary", "continuous" or "categorical" for each column; a dict from column
        names or positions to these, the rest being binary; or "infer": booleans and columns of nothing but 0 and 1 are
        binary, other numbers continuous (a warning names columns of so few whole numbers that they may be codes), and
        text and categorical dtypes categorical, two categories or more.  Continuous columns are
        Gaussian with a variance for each, categorical ones a softmax.  Such a table must be in memory, as a frame,
        an array or a list of rows.
    noise : {"own", "shared"}, default="own"
        Variance of the continuous columns: one for each, or one for all, in the units of the data.  With nothing but
        continuous columns the latter is probabilistic principal component analysis: the components span the principal
        subspace, and `noise_variance_` is the mean of the variances that it leaves out.
    weight_prior : float or None, default=None
        Standard deviation of a Gaussian prior on the weights.  None is maximum likelihood, whose weights run to
        infinity where bits are separable; 3 is weak, and stops them.  For a continuous column it is in units of the
        column's standard deviation.
    n_samples : int, default=500
        Draws of the latents for ``method="monte_carlo"``, L of eq. 3.
    n_rounds : int, default=1
        Rounds of eqs. 8 and 6, 7 in an E-step of variational EM, each from the last.  The paper finds that two are
        enough; with one, EM takes fewer passes, and each is shorter.
    n_nodes : int or None, default=None
        Nodes a dimension to learn with by quadrature (above three dimensions: 2 to this power in all).  None
        chooses: first by the number of columns that rows have observed, then, where slopes turn out to be steep, by
        these too, and learning goes on with more.  A fitted model looks at rows of bits with other nodes in one
        dimension and two, which resolve any slope.  Else likelihoods are computed with ever more for the rows that need
        them, until their error in all is small or more would take long; scores and completions with a number that
        depends on the columns.
    accelerate : bool, default=True
        Parameter expansion and Anderson acceleration.  Without, EM goes step by step as in the paper.
    validation_fraction : float or None, default=None
        Share of the rows of a dense table in memory that is held out: learning stops when they gain no more, and the
        point is kept at which they were most probable.  ``fit(X, X_val=...)`` takes other rows.  None is 0.
    n_init : int or None, default=None
        Number of restarts; the best objective is kept.  None is 1 up to three dimensions, and 4 above,
        where there are several maxima: all of them a part of the way, and the best to the end.
    random_state, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.  Where columns are of several kinds `binarize` is for the binary ones.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_outputs)
        Weights: ``P(bit = 1 | z) = sigmoid(z @ components_ + intercept_)``.  In a canonical rotation: components are
        orthogonal, the longest first, each with a sum that is not negative.  There is one output for each column, and
        one for each category of a categorical column, whose probabilities are the softmax over its outputs (those of
        its first category are 0).  The mean of a continuous column is its output, in the units of the data; the
        rotation is canonical when each is divided by its standard deviation.
    intercept_ : ndarray of shape (n_outputs,)
        Biases.
    noise_variance_ : ndarray of shape (n_columns,)
        With `column_types`: variance of each continuous column given the latents, NaN for the others.  It stays above
        1e-4 of the column's variance.
    categories_ : dict
        With `column_types`: sorted labels of each categorical column, by name (or position, where columns have none).
    output_names_ : list of str
        With `column_types`: names of the outputs, such as "age" or "colour=red".
    n_parameters_ : int
        Free parameters, the rotation taken off.  A column that is constant, or never observed, has none: its
        probability is that of the maximum (a thousandth of a nat short of 0 or 1 in all), its weights are 0.
    dtype_, history_, history_table_, objective_, n_iter_, left_to_gain_, converged_, stop_reason_
        As everywhere.  `history_` is the log-likelihood by the nodes of learning, the bound where all of learning was
        variational, each less the penalty of the prior.
    n_rows_, n_features_in_, feature_names_in_
        As everywhere.

    Examples
    --------
    >>> from latentbits import LatentTrait, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> m = LatentTrait(1, random_state=0).fit(X)
    >>> m.components_.round(2)
    array([[0.83, 0.72, 0.89, 0.69, 0.66]])
    >>> round(m.log_likelihood(X), 2)
    -2466.65
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        **TraitOfColumns._column_constraints,
        "n_components": [Interval(Integral, 1, 32, closed="both")],
        "method": [StrOptions(set(latent_trait.METHODS))],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_nodes": [Interval(Integral, 1, 60, closed="both"), None],
        "accelerate": ["boolean"],
        "validation_fraction": [Interval(Real, 0, 1, closed="left"), None],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }
    _params_class: ClassVar[type] = column_kinds.Params
    _most_work: ClassVar[tuple[tuple[str, ...], int]] = (("n_samples",), 10**6)  # draws, made at every use

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: str = "auto",
        column_types: Any = None,
        noise: str = "own",
        weight_prior: float | None = None,
        n_samples: int = 500,
        n_rounds: int = 1,
        n_nodes: int | None = None,
        accelerate: bool = True,
        validation_fraction: float | None = None,
        random_state: Any = None,
        n_init: int | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-7,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.n_components = n_components
        self.method = method
        self.column_types = column_types
        self.noise = noise
        self.weight_prior = weight_prior
        self.n_samples = n_samples
        self.n_rounds = n_rounds
        self.n_nodes = n_nodes
        self.accelerate = accelerate
        self.validation_fraction = validation_fraction
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    def _build(self, **settings: Any) -> Model:
        given = {"n_samples": int(self.n_samples), "n_rounds": int(self.n_rounds), "accelerate": bool(self.accelerate)}
        return latent_trait.model(**given, **settings)

    def _check(self) -> None:
        super()._check()
        if self.method == "monte_carlo":
            self._bits_only("method='monte_carlo'", "choose another method")

    def _held_out_share(self) -> float:
        return float(self.validation_fraction or 0)

    def variational(self, X: Any) -> Variational:
        """Compute the paper's approximate posterior of each row (eqs. 6 and 7), and the variational bound on log p(x).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        Variational
            `mean` (n_rows, n_components), `covariance` (n_rows, n_components, n_components) and `bound` (n_rows,).
        """
        self._fitted()
        mean, covariance, bound = self._map_rows(_variational_rows(self._columns()), X)
        return Variational(mean, covariance, np.asarray(bound, np.float64))


@cache
def _variational_rows(columns: Columns) -> Callable[..., Any]:
    def rows_of(params: Any, shared: Any, batch: Any) -> tuple[jax.Array, ...]:
        rows = column_kinds.rows_of(columns, params, batch)
        posterior, bound, _ = variational.improve(columns, params, rows, variational.converge(columns, params, rows))
        return posterior.mean, posterior.covariance, bound

    return rows_of
