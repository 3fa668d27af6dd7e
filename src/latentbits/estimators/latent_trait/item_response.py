"""`ItemResponse`: item response theory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.errors import ModelFileError, PrecisionWarning
from latentbits.core.model import LogLikelihood, Model
from latentbits.engines.fit import FitResult, go_on
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithCriteria, look
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.latent_trait import item_dif, item_errors, item_reports, item_scores, item_use, people
from latentbits.estimators.latent_trait.base import LinearTrait, in_canonical_axes, n_free
from latentbits.estimators.latent_trait.item_params import asymptotes, at_bound, condensed, spread_of, upright
from latentbits.estimators.latent_trait.item_plan import LOGIT_PRIOR, Plan, make_plan, template
from latentbits.estimators.latent_trait.people import Population
from latentbits.estimators.more_arguments import with_more
from latentbits.estimators.precision import DOUBLE, error_of_sum
from latentbits.estimators.psychometrics import Rotation
from latentbits.estimators.tables.beside_bits import Labels, labels_in_file
from latentbits.models.latent_trait import column_kinds, item_rows, items
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.latent_trait.item_params import Params, recentred
from latentbits.models.latent_trait.tuning import ITEM_FEWEST_NODES, ITEM_MOST_NODES
from latentbits.reports.fit import FitReport
from latentbits.reports.items import listed

__all__ = ["ItemResponse"]

MODELS = ("2PL", "Rasch", "1PL", "3PL")
BESIDE_X = ("groups", "covariates")
NODES_ERROR_NATS = 1e-3  # that the nodes may be wrong by, all rows together


class ItemResponse(LinearTrait):
    """Item response theory: Rasch, 1PL, 2PL and 3PL models, and the 2PL of several factors.

    P(bit = 1 | trait) = g + (1 - g) sigmoid(w.trait + b) for each item, by maximum likelihood with the traits
    integrated out.  Missing bits are left out, which marginalises them.

    Parameters
    ----------
    model : {"2PL", "Rasch", "1PL", "3PL"} or dict, default="2PL"
        "2PL": each item has a slope and an intercept.  "1PL": all have one slope, of a trait with variance 1.  "Rasch":
        slopes are 1, and the variance of the trait is learned; the same model as "1PL", in other units.  "3PL": each
        item has a lower asymptote (guessing), too.  A dict from columns, by name or position, to "2PL" or "3PL" is for
        tests of both, the rest being "2PL".
    n_factors : int, default=1
        Number of traits, up to 32; more than one for the "2PL" alone.
    asymptote_prior : (float, float), dict or None, default=(-1.1, 0.5)
        Mean and standard deviation of a normal prior on the logit of each asymptote: here it is 0.25, and between 0.11
        and 0.47 with 95 %.  A dict has them by column, the default for others; None is no prior, and the likelihood is
        then nearly flat in the asymptotes, which a warning says.
    population : {"standard", "variance", "free"}, default="standard"
        Learned of the trait: nothing, N(0, 1), or as the Rasch model has it; its variance, where slopes set the
        unit; or its mean, too, where intercepts are held.  In the first group, where there are several.
    fixed : dict or None, default=None
        Parameters that are held, by column: ``{"item1": {"slope": 1.2, "intercept": 0.3, "asymptote": 0.2}}``, any of
        the three; anchors.  For given items and no fit see `from_items`.
    shared : dict or None, default=None
        Columns that have a parameter in common: ``{"slope": [["item1", "item6"]], "intercept": [[...]]}``.
    weight_prior : float or None, default=None
        Standard deviation of a Gaussian prior on the slopes.  None is maximum likelihood, whose slopes run to infinity
        where bits are separable; 3 is weak, and stops them.
    n_nodes : int or None, default=None
        Nodes a dimension to learn with, and for standard errors (above three dimensions: 2 to this power in all).  None
        chooses: first by the number of columns that rows have observed, then, where slopes turn out to be steep, by
        these too, and learning goes on with more.  Models with asymptotes, groups, covariates, or parameters that are
        held or shared choose their nodes themselves.
    n_init : int or None, default=None
        Number of restarts; the best objective is kept.  None is 1 up to three factors, and 4 above,
        where there are several maxima: all of them a part of the way, and the best to the end.
    random_state, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.

    Attributes
    ----------
    discrimination_ : ndarray of shape (n_columns,)
        w in one dimension, ``|w|`` (MDISC) in several.
    difficulty_ : ndarray of shape (n_columns,)
        -b / w in one dimension, ``-b / |w|`` (MDIFF) in several.
    intercept_ : ndarray of shape (n_columns,)
        b; that of the first group.
    asymptote_ : ndarray of shape (n_columns,)
        Lower asymptotes, 0 where there is none.
    population_ : Population
        Distribution of the trait: `groups`, with `mean` and `variance` in each, and `coefficients` of `covariates`.
    components_ : ndarray of shape (n_factors, n_columns)
        Slopes.  In a canonical rotation: factors are orthogonal, the longest first, each with a sum that is not
        negative; `rotate` has others.
    n_parameters_ : int
        Free parameters, the rotation taken off.  A column that is constant, or never observed, has none: its
        probability is that of the maximum (a thousandth of a nat short of 0 or 1 in all), its weights are 0.
    dtype_, history_, history_table_, objective_, n_iter_, left_to_gain_, converged_, stop_reason_
        As everywhere.
    n_rows_, n_features_in_, feature_names_in_
        As everywhere.

    Examples
    --------
    >>> from latentbits import ItemResponse, load_dataset
    >>> X = load_dataset("lsat6").X
    >>> m = ItemResponse(random_state=0).fit(X)
    >>> m.discrimination_.round(2)
    array([0.83, 0.72, 0.89, 0.69, 0.66])
    >>> m.standard_errors(X).discrimination.round(2)
    array([0.26, 0.19, 0.23, 0.19, 0.21])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "model": [StrOptions(set(MODELS)), dict],
        "n_factors": [Interval(Integral, 1, 32, closed="both")],
        "asymptote_prior": ["array-like", dict, None],
        "population": [StrOptions({"standard", "variance", "free"})],
        "fixed": [dict, None],
        "shared": [dict, None],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), None],
        "n_nodes": [Interval(Integral, 1, 60, closed="both"), None],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
    }
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {"guessed": (0.0, 1.0)} | dict.fromkeys(
        ("item_places", "mean_places", "sd_places", "coefficient_places", "prior_precision"), (0.0, np.inf)
    )
    _fewer = "Fewer n_factors, model='1PL'"
    _labels: Labels = Labels()  # of the groups and covariates of the last fit
    _n_newton: int = ITEM_FEWEST_NODES  # nodes of Newton's method

    discrimination_: np.ndarray
    difficulty_: np.ndarray
    intercept_: np.ndarray
    asymptote_: np.ndarray
    population_: Population
    components_: np.ndarray

    def __init__(
        self,
        model: Any = "2PL",
        n_factors: int = 1,
        *,
        asymptote_prior: Any = LOGIT_PRIOR,
        population: str = "standard",
        fixed: dict[Any, Any] | None = None,
        shared: dict[str, Any] | None = None,
        weight_prior: float | None = None,
        n_nodes: int | None = None,
        random_state: Any = None,
        n_init: int | None = None,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-7,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.model = model
        self.n_factors = n_factors
        self.asymptote_prior = asymptote_prior
        self.population = population
        self.fixed = fixed
        self.shared = shared
        self.weight_prior = weight_prior
        self.n_nodes = n_nodes
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # ---------------------------------------------------------------- methods that are written in other files

    from_items = classmethod(item_use.from_items)
    # of all models, with groups and covariates
    fit = item_use.fit
    _beside = people.beside
    transform = with_more(LinearTrait.transform, BESIDE_X)
    posterior = with_more(LinearTrait.posterior, BESIDE_X)
    log_likelihoods = with_more(LinearTrait.log_likelihoods, BESIDE_X)
    score_samples = with_more(LinearTrait.score_samples, BESIDE_X)
    score = with_more(LinearTrait.score, BESIDE_X)
    log_likelihood = with_more(LinearTrait.log_likelihood, BESIDE_X)
    complete = item_use.complete
    sample = item_use.sample
    criteria = with_more(LinearTrait.criteria, BESIDE_X)
    fit_report = with_more(LinearTrait.fit_report, BESIDE_X)
    # of items
    standard_errors = item_errors.standard_errors
    item_fit = item_reports.item_fit
    local_dependence = item_reports.local_dependence
    dif = item_dif.dif
    # of persons
    scores = item_scores.scores
    person_fit = item_reports.person_fit
    plausible_values = item_scores.plausible_values
    sum_scores = item_scores.sum_scores
    # of the test
    reliability = item_scores.reliability
    test_information = item_scores.test_information
    item_information = item_scores.item_information

    def rotate(self, method: str = "varimax") -> Rotation:
        """Rotate the components; the fitted model stays as it is.

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
        weights = self.params_.weights
        return psychometrics.rotate(weights, method, psychometrics.loadings(weights))

    # ---------------------------------------------------------------- which model it is

    @property
    def _q(self) -> int:
        return int(self.n_factors)

    @property
    def _tied(self) -> bool:  # type: ignore[override]
        """Whether all items have one slope."""
        return self.model in ("Rasch", "1PL")

    @property
    def _guessed(self) -> Any:
        """Columns that have an asymptote, by name or position; or whether all have."""
        if isinstance(self.model, Mapping):
            return [column for column, model in self.model.items() if model == "3PL"]
        return self.model == "3PL"

    @property
    def _by_newton(self) -> bool:
        """Whether Newton's method learns it: where more, or less, is free than slopes and intercepts alone."""
        # Both ways are needed.  EM (`models/latent_trait/model.py`) takes several factors, any number of columns, and
        # rows of any engine: its sums are a few numbers a column.  Newton's method (`items.py`) takes whatever is held,
        # shared or learned of groups, since all are places in one vector; its sums are the square of that vector's
        # length, and its one trait is on equally spaced nodes.
        more = self.model not in ("2PL", "1PL") or self.population != "standard" or any(self._labels)
        return more or bool(self.fixed) or bool(self.shared)

    def _plan(self) -> Plan:
        """Check what is free, held and shared, with items by position."""
        names = getattr(self, "feature_names_in_", None)
        by_slopes = self.model == "Rasch" and self.population == "standard"
        return make_plan(
            self.n_features_in_,
            None if names is None else [str(name) for name in names],
            tied=self._tied,
            asymptote=self._guessed,
            asymptote_prior=self.asymptote_prior,
            fixed=self.fixed,
            shared=self.shared,
            population="variance" if by_slopes else self.population,
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
        )

    def _check(self) -> None:
        super()._check()
        if isinstance(self.model, Mapping) and set(self.model.values()) - {"2PL", "3PL"}:
            raise ValueError(f"model must be '2PL' or '3PL' for each column of a dict, got {self.model!r}")
        if self.n_factors != 1 and (self._by_newton or self._tied):
            raise ValueError(
                f"n_factors must be 1 for any model but '2PL', and with population, fixed, shared, groups or "
                f"covariates: got {self.n_factors}"
            )
        if self.n_nodes is not None and self._by_newton:
            raise ValueError(f"n_nodes must be None here, as the model chooses its nodes itself: got {self.n_nodes}")

    def _build(self, **settings: Any) -> Model:
        return latent_trait.model(equal_discrimination=self._tied, **settings)

    def _model(self) -> Model:
        if not self._by_newton:
            return super()._model()
        self._check()
        params = self.__dict__.get("params_")  # nodes of learning, or more where the steepest item asks for them
        n = item_rows.nodes_for(params) if isinstance(params, Params) else 0
        return items.model(max(self._n_newton, n))

    def _params_type(self) -> type:
        return Params if self._by_newton else column_kinds.Params

    @property
    def _of_bits(self) -> bool:
        return super()._of_bits and not self._by_newton

    @property
    def _has_prior(self) -> bool:
        return super()._has_prior or (bool(self._guessed) and self.asymptote_prior is not None)

    def _dtype(self) -> np.dtype:
        return DOUBLE if self._by_newton and self._given_dtype() is None else super()._dtype()

    # ---------------------------------------------------------------- learning

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        return people.open_people(self, X, self._labels, reset=reset, sample_weight=sample_weight)

    def _in_place(self, rows: np.ndarray) -> np.ndarray:
        return rows[:, : self.n_features_in_]  # without groups and covariates

    def _model_for(self, engine: Engine) -> Model:
        if not self._by_newton:
            return super()._model_for(engine)
        self._check()
        plan, labels = self._plan(), self._labels
        self._seen, self._n_newton = look(engine), ITEM_FEWEST_NODES
        begin = template(plan, self._seen.idle, max(len(labels.groups), 1), len(labels.covariates))
        if labels.covariates:
            begin = recentred(begin, *spread_of(engine, len(labels.covariates)))
        if not len(begin.prior_mean):
            raise ValueError(
                "nothing is left to learn: all parameters are fixed. ItemResponse.from_items makes a model of given "
                "items"
            )
        names = self._column_names()
        flat = [names[j] for j, free in enumerate(plan.guessed) if free and plan.priors[j] is None]
        if flat:
            warnings.warn(
                f"the asymptotes of {listed(flat)} have no prior: the likelihood is nearly flat in them, so that they, "
                "and the slopes and intercepts of their items, may be far off. asymptote_prior=(-1.1, 0.5) is a weak "
                "one",
                UserWarning,
                stacklevel=6,
            )
        return items.model(ITEM_FEWEST_NODES, begin)

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        return super()._learn(condensed(engine) if self._by_newton else engine, seed, dtype, max_time)

    def _learn_on(self, engine: Engine, result: FitResult) -> FitResult:
        """Continue with more nodes, where those of learning miss the log-likelihood."""
        if not self._by_newton:
            return super()._learn_on(engine, result)
        limits = Limits(self.max_iter, self.tol, self.max_time)
        self.params_ = self._canonical(result.params)
        while (
            self._n_newton < ITEM_MOST_NODES
            and not result.reason.cut_short
            and self._nats_off(engine) > NODES_ERROR_NATS
        ):
            self._n_newton = 2 * self._n_newton - 1
            result = go_on(items.model(self._n_newton), engine, result, limits, verbose=self.verbose)
            self.params_ = self._canonical(result.params)
        return result

    def _nats_off(self, engine: Engine) -> float:
        """Compute the error of the log-likelihood of all rows by the nodes of learning."""
        rows = self._rounded(items.model(self._n_newton), engine, DOUBLE)
        return error_of_sum(rows, False, engine.weights)

    def _rounded(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        if not self._by_newton:
            return super()._rounded(model, engine, dtype)
        rows = WithCriteria._rounded(self, model, engine, dtype)
        return rows.replace(mean=None)

    def _canonical(self, params: Any) -> Any:
        return upright(params) if isinstance(params, Params) else in_canonical_axes(params)

    def _finish(self, engine: Engine, result: FitResult) -> None:
        """Warn of estimates that are no findings."""
        if not self._by_newton:
            return super()._finish(engine, result)
        if not result.reason.cut_short and (short := self._nats_off(engine)) > NODES_ERROR_NATS:
            less_steep = ": weight_prior=3, say, makes slopes less steep" if self.weight_prior is None else ""
            warnings.warn(
                f"the log-likelihood, by which fits are compared, is known to ±{short:.2g} nats only, since slopes are "
                f"steep{less_steep}",
                PrecisionWarning,
                stacklevel=6,
            )
        names = self._column_names()
        low = [names[j] for j in np.flatnonzero(at_bound(self.params_)).tolist()]
        if low:
            warnings.warn(
                f"the asymptotes of {listed(low)} have gone to 0, the bound: without them the items fit as well",
                UserWarning,
                stacklevel=6,
            )
        far = people.runaways(self.params_, self._labels, engine) if any(self._labels) else []
        if far:
            warnings.warn(
                f"{listed(far)}: so far out a fit has run away, and these numbers are no findings. Groups or "
                "covariates that are made of the answers themselves do this, and groups with answers of few people: "
                "leave them out",
                UserWarning,
                stacklevel=6,
            )

    # ---------------------------------------------------------------- what was learned

    def _expose(self) -> None:
        params = self.params_
        weights, bias = np.asarray(params.weights), np.asarray(params.bias)
        self.components_, self.intercept_ = weights.T.copy(), bias.copy()
        self.difficulty_ = psychometrics.difficulty(weights, bias)
        self.discrimination_ = psychometrics.discrimination(weights)
        self.asymptote_ = asymptotes(params)
        self.population_ = people.population_of(params, self._labels)
        by_factors = n_free(weights, len(bias), len(self._idle), self._tied)
        self.n_parameters_ = len(params.prior_mean) if isinstance(params, Params) else by_factors
        self._n_features_out = self._q

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        q, d, labels = self._q, self.n_features_in_, self._labels
        if not self._by_newton:
            nothing = dict.fromkeys(("log_variance", "centre", "scale"), (0,))
            return {"weights": (d, q), "bias": (d,), **nothing}
        groups, covariates = max(len(labels.groups), 1), len(labels.covariates)
        kinds = self.params_.items.shape[-1] if self.params_.items.ndim == 3 else None
        return {
            "items": (groups, d, kinds),
            "guessed": (d,),
            "mean": (groups,),
            "log_sd": (groups,),
            "coefficients": (covariates,),
            "item_places": (groups, d, kinds),
            "mean_places": (groups,),
            "sd_places": (groups,),
            "coefficient_places": (covariates,),
            "prior_mean": (None,),
            "prior_precision": self.params_.prior_mean.shape,
            "centre": (covariates,),
            "scale": (covariates,),
        }

    def _extra(self) -> dict[str, Any]:
        idle = super()._extra()
        if not self._by_newton:
            return idle
        groups, covariates = (list(known) for known in self._labels)
        return {"nodes": self._n_newton, "groups": groups, "covariates": covariates, **idle}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        if "nodes" in extra:
            nodes, groups, covariates = (extra.pop(name, None) for name in ("nodes", "groups", "covariates"))
            if type(nodes) is not int or not ITEM_FEWEST_NODES <= nodes <= ITEM_MOST_NODES or nodes % 2 == 0:
                raise ModelFileError(f"'nodes' must be an odd number from {ITEM_FEWEST_NODES} to {ITEM_MOST_NODES}")
            self._n_newton, self._labels = nodes, labels_in_file(groups, covariates)
        super()._take_extra(extra)

    def _more_of_fit(self, X: Any, sample_weight: Any, report: FitReport) -> FitReport:
        return item_reports.with_m2(self, X, sample_weight, report)

    def _provisos(self) -> Iterator[str]:
        yield from super()._provisos()
        if self._by_newton and np.any(self.params_.prior_precision):
            yield "with the penalty of asymptote_prior"

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("trait", self._input_names(), self.components_)
