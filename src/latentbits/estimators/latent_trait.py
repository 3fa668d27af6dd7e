"""`LatentTrait`: a map of binary data, and item response theory."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from functools import cache
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.errors import PrecisionWarning
from latentbits.core.model import Model
from latentbits.core.nodes import MOST_GRID
from latentbits.engines.fit import FitResult
from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import look
from latentbits.estimators.item_dif import WithDif
from latentbits.estimators.item_scores import WithScores
from latentbits.estimators.item_templates import DEFAULT_PRIOR
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.psychometrics import RUNAWAY, Rotation
from latentbits.estimators.several_maps import by_share
from latentbits.estimators.showing import named_weights, short
from latentbits.estimators.tables.column_types import Encoding
from latentbits.estimators.trait_errors import WithTraitErrors
from latentbits.estimators.trait_likelihoods import ENOUGH
from latentbits.estimators.trait_nodes import WithNodes
from latentbits.models.latent_trait import curved, items, kinds, mixture_of_maps, variational
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.kinds import Columns
from latentbits.reports.items import listed

__all__ = ["LatentTrait"]


class Variational(NamedTuple):
    """The approximate posterior of each row, eqs. 6 and 7 with xi converged, and the bound on its log p.

    `bound` is a lower bound on log p(x), eq. 4; for the log-likelihood itself see `score_samples`.
    """

    mean: np.ndarray
    covariance: np.ndarray
    bound: np.ndarray


class LatentTrait(WithScores, WithTraitErrors, WithNodes, WithDif):
    """Latent trait model (Tipping 1998): item response theory (Rasch, 2PL, in one dimension or more) and logistic PCA.

    x ~ N(0, I),  P(t_i = 1 | x) = sigmoid(w_i.x + b_i): Gaussian latents, logistic bits.  With two latents it is a map
    of the data; with one, the two-parameter logistic model of item response theory.  Where logistic PCA finds places of
    rows along with the weights, here they are integrated out.  Missing bits are left out, which marginalises them.

    Parameters
    ----------
    n_components : int, default=2
        Number of latent dimensions, q, up to 32.  Many need many columns, and likelihoods have a larger error, which is
        told: the steeper the bits, the larger.
    method : {"auto", "variational", "quadrature", "monte_carlo"}, default="auto"
        "variational" is the EM of the paper's section 4, which maximises a bound; "monte_carlo" that of its section 3,
        with `n_samples` fixed draws of the latents.  "quadrature" is EM by nodes adapted to each row (Gauss-Hermite up
        to three dimensions, quasi-Monte Carlo above): maximum likelihood.  "auto" is variational EM to get near, and
        then quadrature: the same optimum, sooner (quadrature alone where rows have observed fewer than ten columns a
        latent dimension).
    decoder : {"linear", "mlp"}, default="linear"
        What leads from the latents to the log-odds of the bits.  "mlp" adds a small network to the linear map, so that
        the surface on which rows lie may be curved: better maps, and likelihoods of unseen rows, at the price of slopes
        that are the same nowhere.  It learns by Adam on batches of rows, with 2 to the power of `n_nodes` (10 where
        None) quasi-random points in all, drawn anew for every batch.  Likelihoods are told by eight such nets, whose
        spread is the stated error.  Options of items, of kinds of columns and of several maps, and `method`, are for
        "linear".
    decoder_layers : sequence of int or None, default=None
        Of "mlp": units of each layer.  None is two layers of 64, or of 128 above 32 columns.
    n_epochs : int or None, default=None
        Of "mlp": passes over the rows, no more than `max_iter`.  None makes about 10 000 updates, and 300 passes at
        most.
    learning_rate : float or None, default=None
        Of "mlp": length of the first steps, which fall along a cosine; None is 0.003.
    validation_fraction : float or None, default=None
        Share of the rows of a dense table in memory that is held out: learning stops when they gain no more, and the
        point is kept at which they were most probable.  ``fit(X, X_val=...)`` takes rows of their own.  None is 0, but
        0.1 with "mlp" where such a table has 500 rows or more.
    column_types : None, "infer", list or dict, default=None
        None takes bits only.  A list with "binary", "continuous" or "categorical" for each column; a dict from column
        names or positions to these, the rest being binary; or "infer": booleans and columns of nothing but 0 and 1 are
        binary, other numbers continuous (a warning names columns of so few whole numbers that they may be codes), and
        text and categorical dtypes categorical, two categories or more.  Continuous columns are
        Gaussian with a variance of their own, categorical ones a softmax.  Such a table must be in memory, as a frame,
        an array or a list of rows.
    n_maps : int, default=1
        Number of maps.  With several the model is a mixture of them (the hierarchy of the paper's conclusion): each has
        weights, biases and a share of the rows of its own, and a row is on one of them, on which with the probabilities
        of `responsibilities`.  Of up to three dimensions, and not by sampling.
    noise : {"own", "shared"}, default="own"
        Variance of the continuous columns: one for each, or one for all, in the units of the data.  With nothing but
        continuous columns the latter is probabilistic principal component analysis: the components span the principal
        subspace, and `noise_variance_` is the mean of the variances that it leaves out.
    equal_discrimination : bool, default=False
        One weight for all columns: the one-parameter (Rasch) model.  Needs ``n_components=1``.
    asymptote : bool or list, default=False
        Lower asymptotes (guessing): True for all columns, or names or positions of those that have one.  With slopes
        it is the three-parameter model (3PL): P = g + (1 - g) sigmoid(w x + b).  This and the next four are for one
        latent and binary columns, and learn by Newton's method on the marginal likelihood.
    asymptote_prior : (float, float), dict or None, default=(-1.1, 0.5)
        Mean and standard deviation of a normal prior on the logit of each asymptote: here it is 0.25, and between 0.11
        and 0.47 with 95 %.  A dict has them by column, the default for others; None is no prior, and the likelihood is
        then nearly flat in the asymptotes, which a warning says.
    population : {"standard", "variance", "free"}, default="standard"
        What of the trait is learned: nothing, N(0, 1); its variance, where slopes set the unit (with
        `equal_discrimination` they are 1 then, the Rasch model as others have it); or its mean, too, where intercepts
        are held.  In the first group, where there are several.
    fixed : dict or None, default=None
        Parameters that are held, by column: ``{"item1": {"slope": 1.2, "intercept": 0.3, "asymptote": 0.2}}``, any of
        the three; anchors.  For given items and no fit see `from_items`.
    shared : dict or None, default=None
        Columns that have a parameter in common: ``{"slope": [["item1", "item6"]], "intercept": [[...]]}``.
    weight_prior : float or None, default=None
        Standard deviation of a Gaussian prior on the weights.  None is maximum likelihood, whose weights run to
        infinity where bits are separable; 3 is weak, and stops them.  For a continuous column it is in units of the
        column's standard deviation.  Of "mlp", on all weights of the network.
    n_samples : int, default=500
        Draws of the latents for ``method="monte_carlo"``, L of eq. 3.
    n_rounds : int, default=1
        Rounds of eqs. 8 and 6, 7 in an E-step of variational EM, each from the last.  The paper finds that two are
        enough; with one, EM takes fewer passes, and each is shorter.
    n_nodes : int or None, default=None
        Nodes a dimension to learn with by quadrature, and to tell standard errors with (above three dimensions, and
        with "mlp": 2 to this power in all).  None chooses: first by the number of columns that rows have observed,
        then, where slopes turn out to be steep, by these too, and learning goes on with more.  A fitted model looks at
        rows of bits with other nodes in one dimension and two, which resolve any slope.  Else likelihoods are told with
        ever more for the rows that need them, until their error in all is small or more would take long; scores and
        completions with a number that depends on the columns.
    accelerate : bool, default=True
        Parameter expansion and Anderson acceleration.  Without, EM goes step by step as in the paper.
    random_state : int, RandomState or None
        Seed; the same seed gives the same fit.
    n_init : int or None, default=None
        Number of restarts; the best objective is kept.  None is 1 up to three dimensions, and 4 above, and with several
        maps, where there are several maxima: all of them a part of the way, and the best to the end.
    max_iter : int, default=1000
        Most EM iterations of each stage.
    max_time : float or None
        Most seconds of learning, all restarts together; compiling programs, at the first fit, comes in addition.
    tol : float, default=1e-7
        Stop when less than this is left to gain, in nats per row (`left_to_gain_` tells it for all rows together).
    verbose : int, default=0
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    dtype : "auto", "float32" or "float64", default="auto"
        Precision in which rows are computed; parameters and sums are always float64.  "auto" is
        float32, unless that loses more than 0.001 nats of a row, as it does from 2000 columns on.
    binarize : float or None
        Turn values above it into 1 and the rest into 0; None takes nothing but bits.  Of columns of several kinds it
        is for the binary ones.

    Attributes
    ----------
    components_ : ndarray of shape (n_components, n_outputs)
        Weights: ``P(bit = 1 | z) = sigmoid(z @ components_ + intercept_)``.  In a canonical rotation: components are
        orthogonal, the longest first, each with a sum that is not negative.  There is one output for each column, and
        one for each category of a categorical column, whose probabilities are the softmax over its outputs (those of
        its first category are 0).  The mean of a continuous column is its output, in the units of the data; the
        rotation is canonical when each is divided by its standard deviation.  With several maps this and the next four
        have a map in front, (n_maps, n_components, n_outputs) and so on: the map with the largest share first.
    intercept_ : ndarray of shape (n_outputs,)
        Biases.
    difficulty_ : ndarray of shape (n_columns,)
        -b / w in one dimension, ``-b / |w|`` (MDIFF) in several; NaN for columns that are not binary.
    discrimination_ : ndarray of shape (n_columns,)
        w in one dimension, ``|w|`` (MDISC) in several; NaN for columns that are not binary.
    mean_slopes_ : ndarray of shape (n_components, n_columns)
        With ``decoder="mlp"``, instead of the four before this one: by how much log-odds change along each axis, on
        average over the latents.  Axes are such that these are orthogonal, the longest first.
    noise_variance_ : ndarray of shape (n_columns,)
        With `column_types`: variance of each continuous column given the latents, NaN for the others.  It stays above
        1e-4 of the column's own variance.
    asymptote_ : ndarray of shape (n_columns,)
        Of item models: lower asymptotes.
    trait_mean_, trait_variance_ : float
        Of item models: mean and variance of the trait, in the first group, and where covariates are 0.
    groups_, group_means_, group_variances_ : ndarray of shape (n_groups,)
        Of a fit with groups: labels, the reference first, and mean and variance of the trait in each.
    coefficients_ : ndarray of shape (n_covariates,)
        Of a fit with covariates.
    shares_ : ndarray of shape (n_maps,)
        With several maps: share of the rows on each.
    categories_ : dict
        With `column_types`: sorted labels of each categorical column, by name (or position, where columns have none).
    output_names_ : list of str
        With `column_types`: names of the outputs, such as "age" or "colour=red".
    n_parameters_ : int
        Free parameters, the rotation taken off.  A column that is constant, or never observed, has none: its
        probability is that of the maximum (a thousandth of a nat short of 0 or 1 in all), its weights are 0.
    dtype_ : str
        Precision of the rows in the fit, "float32" or "float64".
    history_ : ndarray
        Objective of every iteration, nats: the log-likelihood by the nodes used for learning in a quadrature stage, the
        bound where all of learning was variational, each less the penalty of the prior.
    history_table_ : structured ndarray
        Every pass: `stage`, `measure` (what its objective is of), `iteration` and `objective`.
    objective_ : float
        Of the parameters that were kept; NaN where learning was cut short before there was one.
    n_iter_ : int
        Iterations of the restart that was kept.
    left_to_gain_ : float
        What is estimated to be left to gain, in nats, all rows together: by the step that the acceleration would make
        next, or by the gains of the last passes.  NaN where it is not known.
    converged_ : bool
        Whether it stopped because less than `tol` nats per row are left to gain.
    stop_reason_ : str
        "converged", "max_iter", "max_time", "stalled" or "interrupted"; "held_out" where rows that were held
        out gained no more, and with "mlp" "completed" where all passes were made: what is left to gain is not known
        then.
    n_rows_ : float
        Rows learned from, each as often as it counts; NaN where that is not known.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a frame.

    Examples
    --------
    >>> from latentbits import LatentTrait
    >>> from latentbits.data import load_dataset
    >>> X = load_dataset("lsat6").X
    >>> m = LatentTrait(1, random_state=0).fit(X)
    >>> m.components_.round(2)
    array([[0.83, 0.72, 0.89, 0.69, 0.66]])
    >>> round(m.log_likelihood(X), 2)
    -2466.65
    >>> m.standard_errors(X).components.round(2)
    array([[0.26, 0.19, 0.23, 0.19, 0.21]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_components": [Interval(Integral, 1, 32, closed="both")],
        "method": [StrOptions(set(latent_trait.METHODS))],
        "decoder": [StrOptions({"linear", "mlp"})],
        "decoder_layers": ["array-like", None],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="left"), None],
        "column_types": [None, StrOptions({"infer"}), "array-like", dict],
        "n_maps": [Interval(Integral, 1, 1000, closed="both")],
        "noise": [StrOptions({"own", "shared"})],
        "equal_discrimination": ["boolean"],
        "asymptote": ["boolean", "array-like"],
        "asymptote_prior": ["array-like", dict, None],
        "population": [StrOptions({"standard", "variance", "free"})],
        "fixed": [dict, None],
        "shared": [dict, None],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "n_samples": [Interval(Integral, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "n_nodes": [Interval(Integral, 1, 60, closed="both"), None],
        "accelerate": ["boolean"],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }

    _params_class: ClassVar[type] = kinds.Params
    _ranges: ClassVar[Any] = {"guessed": (0.0, 1.0)} | dict.fromkeys(
        ("item_places", "mean_places", "sd_places", "coefficient_places", "prior_precision"), (0.0, np.inf)
    )
    _most_work: ClassVar[tuple[tuple[str, ...], int]] = (("n_samples",), 10**6)  # draws, made at every use

    def __init__(
        self,
        n_components: int = 2,
        *,
        method: str = "auto",
        decoder: str = "linear",
        decoder_layers: Any = None,
        n_epochs: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | None = None,
        column_types: Any = None,
        n_maps: int = 1,
        noise: str = "own",
        equal_discrimination: bool = False,
        asymptote: Any = False,
        asymptote_prior: Any = DEFAULT_PRIOR,
        population: str = "standard",
        fixed: dict[Any, Any] | None = None,
        shared: dict[str, Any] | None = None,
        weight_prior: float | None = None,
        n_samples: int = 500,
        n_rounds: int = 1,
        n_nodes: int | None = None,
        accelerate: bool = True,
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
        self.decoder = decoder
        self.decoder_layers = decoder_layers
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.column_types = column_types
        self.n_maps = n_maps
        self.noise = noise
        self.equal_discrimination = equal_discrimination
        self.asymptote = asymptote
        self.asymptote_prior = asymptote_prior
        self.population = population
        self.fixed = fixed
        self.shared = shared
        self.weight_prior = weight_prior
        self.n_samples = n_samples
        self.n_rounds = n_rounds
        self.n_nodes = n_nodes
        self.accelerate = accelerate
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # ---------------------------------------------------------------- learning

    def _model(self) -> Model:
        self._check_curve()
        if self._curved:
            return self._curve()
        if self._by_items:
            self._check_item_options()
            return items.model(self._nodes_of_use)
        if self.equal_discrimination and self.n_components != 1:
            raise ValueError(
                f"equal_discrimination=True is the one-parameter model, which has one latent dimension: "
                f"n_components must be 1, got {self.n_components}"
            )
        if self.n_components > MOST_GRID and self.n_nodes is not None and not 5 <= self.n_nodes <= 14:
            raise ValueError(
                f"n_nodes must be between 5 and 14 above {MOST_GRID} latent dimensions, where 2 to that power is the "
                f"number of points, got {self.n_nodes}"
            )
        if self.n_maps > 1:
            self._check_several()
        if self.noise == "shared" and not self._columns().n_reals:
            raise ValueError("noise='shared' is for continuous columns, and there are none: column_types names them")
        if self.method == "monte_carlo":
            self._bits_only("method='monte_carlo'", "choose another method")
        if self.equal_discrimination:
            self._bits_only("equal_discrimination=True", "leave it out")
        return self._record()

    def _params_type(self) -> type:
        if self._curved:
            return curved.Params
        if self._by_items:
            return items.Params
        return kinds.Params if self.n_maps == 1 else mixture_of_maps.Params

    def _model_for(self, engine: Engine) -> Model:
        if self._curved:
            self._seen = look(engine)
            return self._curve_for(engine, self._seen)
        if self._by_items:
            model, self._seen = self._item_model_for(engine)
            return model
        model = self._model()
        self._seen = look(engine)
        return model if self._few is None else self._record(few=self._few)

    @property
    def _n_restarts(self) -> int:
        if self.n_init is not None:
            return int(self.n_init)
        by_net = (
            not self._curved
            and self.n_components > MOST_GRID
            and self.n_nodes is None
            and self.method in ("auto", "quadrature")
        )
        return 4 if by_net or self.n_maps > 1 else 1

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        self._check_curve()
        if self._curved:
            engine = super()._open(X, reset=reset, sample_weight=sample_weight)
            return self._shuffled(engine) if reset else engine
        if self._by_items:
            self._encoding = None
            return self._open_people(X, reset=reset, sample_weight=sample_weight)
        if self.column_types is None:
            self._encoding = None
            return super()._open(X, reset=reset, sample_weight=sample_weight)
        return self._open_mixed(X, reset=reset, sample_weight=sample_weight)

    @property
    def _has_prior(self) -> bool:
        asymptotes = self.asymptote is not False and self.asymptote_prior is not None
        return asymptotes or self.weight_prior is not None

    def _dtype(self) -> np.dtype:
        return DOUBLE if self._by_items and self._given_dtype() is None else super()._dtype()

    def _in_place(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, : self.n_features_in_] if self._by_items else rows  # without groups and covariates

    def _adopt(self, result: FitResult) -> None:
        columns = self._columns()
        bits = range(self.n_features_in_) if columns.binary is None else columns.binary
        self._idle = () if self._seen is None else tuple(place for place in bits if self._seen.idle[place])
        if self._curved:
            return super()._adopt(self._canonical(result))
        if self._by_items:
            return super()._adopt(self._adopt_items(result))
        params = result.params
        if self.n_maps > 1:
            params = by_share(params)
        else:
            weights = params.weights @ psychometrics.canonical_axes(params.weights)
            params = eqx.tree_at(lambda p: p.weights, params, weights)
        super()._adopt(result._replace(params=params))

    def _expose(self) -> None:
        for name in (
            "noise_variance_",
            "categories_",
            "output_names_",
            "shares_",
            "mean_slopes_",
            *self._item_attributes,
        ):
            self.__dict__.pop(name, None)  # of an earlier fit
        if self._curved:
            return self._expose_curve()
        if self._by_items:
            return self._expose_item_model()
        if self.n_maps == 1:
            self._expose_items(*self._items_of(self.params_))
        else:
            items = [self._items_of(one) for one in self._maps()]
            self._expose_items(*(np.stack(parts) if parts[0] is not None else None for parts in zip(*items)))
            self.shares_ = np.exp(self.params_.log_share)
        if self._encoding is not None:
            self._expose_names(self._encoding)
        weights, bias, noise = (getattr(self.params_, name) for name in ("weights", "bias", "log_variance"))
        n_outputs, q = weights.shape[-2:]
        self._sample_dtype = np.uint8 if self._encoding is None else np.float64
        n_idle = len(self._idle)
        n_free = n_outputs - n_idle
        rank = min(n_free, q)
        slopes = n_free * rank - rank * (rank - 1) // 2
        slopes = min(1, n_free) if self.equal_discrimination else slopes
        n_variances = min(noise.shape[-1], 1 if self.noise == "shared" else n_outputs)
        each = slopes + bias.shape[-1] - n_idle + n_variances
        self.n_parameters_ = int(self.n_maps) * each + int(self.n_maps) - 1
        self._n_features_out = q

    def _off_maximum(self) -> Iterator[str]:
        if self._curved:
            yield "decoder='mlp' ends with a schedule, wherever that is"
        if self.method in ("variational", "monte_carlo"):
            yield f"method={self.method!r} maximises something near to it"
        if self.weight_prior is not None:
            yield f"weight_prior={self.weight_prior:g}"

    def _provisos(self) -> Iterator[str]:
        if self.weight_prior is not None:
            yield f"with the penalty of weight_prior={self.weight_prior:g}"
        if self._by_items and np.any(self.params_.prior_precision):
            yield "with the penalty of asymptote_prior"

    def _causes(self) -> Iterator[tuple[str, str]]:
        names = getattr(self, "output_names_", None) or self._input_names()
        if self._curved:  # slopes are another everywhere
            yield from named_weights("mean slopes of trait", names, self.mean_slopes_)
            return
        if self.n_maps == 1:
            yield from named_weights("trait", names, self.components_)
            return
        for place in np.argsort(-self.shares_, kind="stable").tolist():
            traits = ", ".join(short(told) for _, told in named_weights("", names, self.components_[place]))
            yield f"map {place + 1}", f"{self.shares_[place]:.0%} of rows; {traits}"

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        if self._curved:
            return self._curve_shapes()
        if self._by_items:
            return self._item_shapes()
        columns, q = self._columns(), self.n_components
        outputs, reals = columns.n_outputs(self.n_features_in_), columns.n_reals
        own: dict[str, tuple[int | None, ...]] = {
            "weights": (outputs, q),
            "bias": (outputs,),
            "log_variance": (reals,),
        }
        if self.n_maps > 1:
            own = {name: (int(self.n_maps), *shape) for name, shape in own.items()} | {"log_share": (self.n_maps,)}
        return {**own, "centre": (reals,), "scale": (reals,)}

    def _extra(self) -> dict[str, Any]:
        idle = super()._extra()
        if self._by_items:
            return self._item_extra() | idle
        return idle if self._encoding is None else {"columns": self._encoding.to_json(), **idle}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        if self.column_types is None:
            return super()._take_extra(self._take_item_extra(extra))
        names = getattr(self, "feature_names_in_", None)
        self._encoding = Encoding.from_json(extra.get("columns"), self.n_features_in_, self.column_types, names)
        super()._take_extra({name: value for name, value in extra.items() if name != "columns"})

    def _finish(self, engine: Engine, result: FitResult) -> None:
        if self._curved:
            return
        if self._by_items:
            return self._finish_items(engine, result)
        at_the_end = self._learned_on(engine, result)
        columns = self._columns()
        size = np.linalg.norm(self.params_.weights, axis=-1).reshape(self.n_maps, -1).max(0)
        if columns.binary is None:
            places = np.arange(len(size))
        else:
            several = [place for place, n in zip(columns.categorical, columns.n_classes) for _ in range(n - 1)]
            places = np.array([*columns.binary, *columns.continuous, *several])
            size[len(columns.binary) : len(columns.binary) + columns.n_reals] = 0  # a Gaussian's do not run away
        names = [self._name(i) for i in np.unique(places[size > RUNAWAY]).tolist()]
        if names and self.weight_prior is None:
            warnings.warn(
                f"the weights of {listed(names)} run to infinity (|w| up to {size.max():.0f} when the fit stopped): "
                "the latents determine these bits wholly. Their probabilities are near 0 and 1 and can be used; "
                "weights and difficulties mean little. weight_prior=3, say, keeps them finite",
                UserWarning,
                stacklevel=4,
            )
        elif at_the_end and (short := self._short_by(engine)) > ENOUGH:
            warnings.warn(
                "slopes are so steep for what rows have observed that the nodes of learning tell the log-likelihood to "
                f"±{short:.2g} nats only, and its maximum may be missed by as much: weight_prior=3, say, makes slopes "
                "less steep, and n_nodes can be given",
                PrecisionWarning,
                stacklevel=4,
            )
        self._warn_of_freedom()

    def _warn_of_freedom(self) -> None:
        """Say so where answers can differ in fewer ways than there are parameters."""
        freedom = self._freedom()
        if freedom is not None and self.n_parameters_ > freedom and self.weight_prior is None:
            kinds_of = f"{self._n_bits} binary columns" + (" and the categories" if self._columns().categorical else "")
            warnings.warn(
                f"{self.n_parameters_} parameters for {freedom} degrees of freedom, as {kinds_of} that vary have "
                f"{freedom + 1} patterns: many parameters fit equally well, and these are one choice. Fewer "
                "n_components, equal_discrimination=True or weight_prior=3, say, would do",
                UserWarning,
                stacklevel=5,
            )

    # ---------------------------------------------------------------- use

    def transform(self, X: Any) -> np.ndarray:
        """Posterior means of the latents of each row; with several maps, on the one it most probably is on.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_components)
            Places on different maps cannot be compared: `responsibilities` tells the map, and `posterior(X).means`
            has the means on all of them, (n_rows, n_maps, n_components).
        """
        # by the program of `score`, where that has looked at the posterior
        scored = self._on_grid and self.n_maps == 1 and not self._curved
        return self._map_rows(self._fitted().log_likelihood, X).mean if scored else super().transform(X)

    def inverse_transform(self, X: Any, maps: Any = None) -> np.ndarray:
        """Mean of each column at given points of the latent space: P(bit = 1 | latents) for bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_components)
            Latents, as `transform` gives them.
        maps : int, array-like of shape (n_rows,) or None
            Number of the map, from 0, that each point is on; needed where there are several.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            For a categorical column the probabilities of its categories; `output_names_` has the names.
        """
        self._fitted()
        means = super().inverse_transform(X) if self.n_maps == 1 else self._decoded_on(X, maps)
        if self._encoding is None:
            return means
        means = means.astype(np.float64)
        for place in self._columns().continuous:
            means[:, self._encoding.blocks[place]] += self._encoding.offset[place]
        return means

    def sample(self, n: int = 1, random_state: Any = None, groups: Any = None, covariates: Any = None) -> Any:
        """Draw rows from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None
            Seed.
        groups, covariates : array-like or None
            Of each row to draw, of a model that was fitted with these.

        Returns
        -------
        ndarray or frame of shape (n, n_columns)
            Bits; with `column_types` values of the columns, as a frame where the model was fitted to one.  Else an
            array of numbers, or of objects where categories are text.
        """
        if self._people is not None or groups is not None or covariates is not None:
            self._fitted()
            return self._sample_people(n, random_state, groups, covariates)
        drawn = super().sample(n, random_state)
        if self._encoding is None:
            return drawn
        return self._encoding.drawn(drawn, getattr(self, "feature_names_in_", None))

    def variational(self, X: Any) -> Variational:
        """The paper's approximate posterior of each row (eqs. 6 and 7), and the variational bound on log p(x).

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
        self._one_map_only("variational")
        if self._by_items:
            raise ValueError("variational is not defined for item models: posterior(X) has the exact one")
        mean, covariance, bound = self._map_rows(_variational_rows(self._columns()), X)
        return Variational(mean, covariance, np.asarray(bound, np.float64))

    def rotate(self, method: str = "varimax") -> Rotation:
        """Components in rotated coordinates; the fitted model stays as it is.

        Parameters
        ----------
        method : {"varimax", "promax", "oblimin"}, default="varimax"
            Towards simple structure of the loadings ``w / sqrt(1.702^2 + |w|^2)``; the last two let latents correlate.

        Returns
        -------
        Rotation
            `components`, `correlation` of the rotated latents, and `matrix`: rotated latents are ``Z @ matrix``.
        """
        self._fitted()
        self._one_map_only("rotate")
        self._bits_only("rotate")
        weights = self.params_.weights
        return psychometrics.rotate(weights, method, psychometrics.loadings(weights))


@cache
def _variational_rows(columns: Columns) -> Callable[..., Any]:
    def rows_of(params: Any, shared: Any, batch: Any) -> tuple[jax.Array, ...]:
        rows = kinds.rows_of(columns, params, batch)
        posterior, bound, _ = variational.improve(columns, params, rows, variational.converge(columns, params, rows))
        return posterior.mean, posterior.covariance, bound

    return rows_of
