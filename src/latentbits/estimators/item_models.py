"""Item models of one trait for `LatentTrait`: guessing, anchors, groups and covariates; scores with given items."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from scipy.stats import norm
from sklearn.utils import check_random_state

from latentbits.core.errors import DataError, ModelFileError, PrecisionWarning
from latentbits.core.model import LogLikelihood, Model, Stop
from latentbits.core.tree import double, to_numpy
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine, start_pass, sum_blocks
from latentbits.estimators import psychometrics
from latentbits.estimators.criteria import Seen, WithCriteria, is_sampling, look
from latentbits.estimators.history import history_table
from latentbits.estimators.item_templates import Plan, Positions, make_plan, names_of_free, template
from latentbits.estimators.precision import DOUBLE, error_of_sum
from latentbits.estimators.tables.covariates import read_covariates, same_covariates
from latentbits.estimators.tables.weights import open_weights, weighted
from latentbits.models.latent_trait import items
from latentbits.models.latent_trait.items import FEWEST_NODES, MOST_NODES, Params
from latentbits.reports.items import listed
from latentbits.reports.record import Report, Table

__all__ = ["ItemErrors", "People", "WithItemModels", "as_given", "asymptotes", "condensed", "covariance_of", "moved_by",
           "standardised", "traits_of"]  # fmt: skip

AT_BOUND = 1e-3  # an asymptote below it cannot be told from 0
ENOUGH = 1e-3  # nats in all that the nodes may be wrong by
FARTHEST = 10.0  # standard deviations of the trait that a group, or people a covariate apart, are believed to differ by
VARIANCES = 0.01, 100.0  # between which that of a group is believed to be, in units of the first
MOST_GROUPS = 1000
FEWEST_EACH, MANY_GROUPS, FEWEST_OF_MANY = 5, 50, 10  # people a group, on average; of more groups more are asked
NORMAL_95 = float(norm.ppf(0.975))


class People(NamedTuple):
    """Rows with what is known of the people beside their answers; every method takes it for X.

    Attributes
    ----------
    X
        Answers.
    groups
        Label of each row's group; None where there is one.
    covariates
        (n_rows, n_covariates) numbers, or a frame; None where there are none.
    """

    X: Any
    groups: Any = None
    covariates: Any = None


class Population(NamedTuple):
    """What a fit has learned the labels and names of: groups, the reference first, and covariates; () for none."""

    groups: tuple[Any, ...]
    covariates: tuple[str, ...]


@dataclass(frozen=True)
class ItemErrors(Report):
    """Estimates and standard errors of all that was learned, by the observed information of the marginal likelihood.

    Attributes
    ----------
    components, intercept, difficulty, discrimination
        Errors, shaped like the attributes of the model; NaN for what is held.
    asymptote, asymptote_logit
        Errors of the lower asymptotes, and of their logits, which is the scale that they are learned on.
    group_means, group_variances
        Errors of the trait's mean and variance in each group, NaN for what is held.
    coefficients
        Errors of the latent regression.
    parameters, estimates, errors
        Names, values and errors of the free numbers: slopes, intercepts, logits of asymptotes, means, logarithms of
        standard deviations, coefficients.
    covariance
        Of these.
    notes
        What cannot be told, and why.
    """

    components: np.ndarray
    intercept: np.ndarray
    difficulty: np.ndarray
    discrimination: np.ndarray
    asymptote: np.ndarray
    asymptote_logit: np.ndarray
    group_means: np.ndarray
    group_variances: np.ndarray
    coefficients: np.ndarray
    parameters: tuple[str, ...]
    estimates: np.ndarray
    errors: np.ndarray
    covariance: np.ndarray
    notes: tuple[str, ...]

    def table(self) -> Table:
        """One row for each free number, with its interval of 95 %."""
        low, high = (self.estimates + sign * NORMAL_95 * self.errors for sign in (-1, 1))
        columns = {"estimate": self.estimates, "error": self.errors, "low": low, "high": high}
        return Table(list(self.parameters), columns, "standard errors, intervals of 95 %", self.notes)


class WithItemModels(WithCriteria):
    """What `LatentTrait` does where one of the options of item models is given; `_by_items` says whether."""

    n_components: int
    equal_discrimination: bool
    asymptote: Any
    asymptote_prior: Any
    population: str
    fixed: Any
    shared: Any
    weight_prior: float | None

    components_: np.ndarray
    intercept_: np.ndarray
    difficulty_: np.ndarray
    discrimination_: np.ndarray
    asymptote_: np.ndarray
    group_means_: np.ndarray
    group_variances_: np.ndarray
    groups_: np.ndarray
    coefficients_: np.ndarray
    trait_mean_: float
    trait_variance_: float

    _people: Population | None = None  # of a fit with groups or covariates
    _n_item_nodes: int = FEWEST_NODES
    _item_attributes: ClassVar[tuple[str, ...]] = (
        "asymptote_", "group_means_", "group_variances_", "groups_", "coefficients_", "trait_mean_", "trait_variance_",
    )  # fmt: skip

    @property
    def _by_items(self) -> bool:
        asked = self.asymptote is not False or self.population != "standard" or bool(self.fixed) or bool(self.shared)
        return asked or self._people is not None

    @property
    def _nodes_of_use(self) -> int:
        """Nodes of learning, or more where the steepest item asks for them."""
        params = self.__dict__.get("params_")
        return max(self._n_item_nodes, items.nodes_for(params)) if isinstance(params, Params) else self._n_item_nodes

    # ---------------------------------------------------------------- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        engine: Any = None,
        X_val: Any = None,
        groups: Any = None,
        covariates: Any = None,
    ) -> Self:
        """Learn the model from bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            0, 1 or bool, NaN for missing; a pandas or polars frame, SciPy sparse matrix, memory map, Dask array, a
            path (.parquet, .zarr or .npy, a pattern such as ``rows-*.npy``, or a list of them), or a function that
            gives an iterable of batches each time it is called (for tables larger than memory).
        y : Ignored
            Present for scikit-learn's pipelines.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts: counts of patterns, survey weights, a bootstrap's draws.  A table of distinct
            rows with their counts gives the model of the table written out.  None counts each row once.
        checkpoint : str, path, latentbits.Checkpoint or None
            A folder in which learning is kept every half a minute: after a crash the same call goes on from there, and
            ends with the bits that it would have had.
        engine : "dask" or None
            "dask" has the workers of the active `distributed.Client` learn from tables in memory and from .npy and
            .zarr files, too; without a client, spawned processes of its own, one for each core.  None goes by the kind
            of X.
        groups : array-like of shape (n_rows,) or None
            Label of each row's group, for a table in memory and one latent: items are the same in all groups, the trait
            is N(0, 1) in the first of the sorted labels, and its mean and variance are learned in the others.  A pandas
            Categorical (or polars Enum) has the order of its categories: the first that occurs is the first group.
        covariates : array-like of shape (n_rows, n_covariates) or None
            Numbers, none missing, for a table in memory and one latent: the trait's mean is ``covariates @
            coefficients_`` (latent regression).
        X_val : array-like of shape (n_validation_rows, n_columns) or None
            Rows that are not learned from, for early stopping: learning ends when they gain no more, and the point is
            kept at which they were most probable (`held_out_history_`).  Not with groups or covariates.

        Returns
        -------
        self
        """
        self._people = None
        if groups is None and covariates is None:
            return super().fit(X, y, sample_weight, checkpoint, engine, X_val)
        if X_val is not None:
            raise ValueError("X_val does not go with groups or covariates")
        if engine is not None:
            raise ValueError(f"engine={engine!r} does not go with groups or covariates: these take a table in memory")
        people = People(X, groups, covariates)
        self._people = _population_of(people, sample_weight)
        return super().fit(people, y, sample_weight, checkpoint)

    def people(self, X: Any, groups: Any = None, covariates: Any = None) -> People:
        """Rows with their groups and covariates, for all methods that take X of a model that was fitted with these.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing, in memory.
        groups : array-like of shape (n_rows,) or None
            Labels among `groups_`.
        covariates : array-like of shape (n_rows, n_covariates) or None
            As `fit` had them.

        Returns
        -------
        People

        Examples
        --------
        >>> from latentbits import LatentTrait, load_dataset
        >>> X = load_dataset("lsat7").X[::10]
        >>> g = ["a", "b"] * (len(X) // 2)
        >>> m = LatentTrait(1, random_state=0).fit(X, groups=g)
        >>> m.transform(m.people(X, groups=g)).shape == (len(X), 1)
        True
        """
        return People(X, groups, covariates)

    def _item_plan(self) -> Plan:
        names = getattr(self, "feature_names_in_", None)
        return make_plan(
            self.n_features_in_,
            None if names is None else [str(name) for name in names],
            tied=bool(self.equal_discrimination),
            asymptote=self.asymptote,
            asymptote_prior=self.asymptote_prior,
            fixed=self.fixed,
            shared=self.shared,
            population=self.population,
            weight_prior=None if self.weight_prior is None else float(self.weight_prior),
        )

    def _check_item_options(self) -> None:
        """Refuse what goes with no item model."""
        for name, good, why in (
            ("n_components", (1,), "have one latent dimension"),
            ("n_maps", (1,), "have one map"),
            ("column_types", (None,), "are for binary columns"),
            ("method", ("auto", "quadrature"), "are learned by quadrature"),
            ("n_nodes", (None,), "choose their nodes themselves"),
        ):
            value = getattr(self, name)
            if not any(value is one or value == one for one in good):
                raise ValueError(
                    f"asymptote, population, fixed, shared, groups and covariates make item models, which {why}: "
                    f"{name} is {value!r}"
                )

    def _item_model_for(self, engine: Engine) -> tuple[Model, Seen]:
        """The record to learn with, and what of the table is observed."""
        self._check_item_options()
        plan, seen = self._item_plan(), look(engine)
        self._n_item_nodes = FEWEST_NODES
        people = self._people or Population((), ())
        begin = template(plan, seen.idle, max(len(people.groups), 1), len(people.covariates))
        if people.covariates:
            begin = items.recentred(begin, *_spread_of(engine, len(people.covariates)))
        if not len(begin.prior_mean):
            raise ValueError("nothing is left to learn: all parameters are fixed. LatentTrait.from_items makes a model "
                             "of given items")  # fmt: skip
        flat = [self._item_name(j) for j, free in enumerate(plan.guessed) if free and plan.priors[j] is None]
        if flat:
            warnings.warn(
                f"the asymptotes of {listed(flat)} have no prior: the likelihood is nearly flat in them, so that they, "
                "and the slopes and intercepts of their items, may be far off. asymptote_prior=(-1.1, 0.5) is a weak "
                "one",
                UserWarning,
                stacklevel=6,
            )
        return items.model(FEWEST_NODES, begin), seen

    def _open_people(self, X: Any, *, reset: bool, sample_weight: Any) -> Engine:
        """The rows, with groups and covariates as further columns."""
        people = X if isinstance(X, People) else People(X)
        bits = super()._open(people.X, reset=reset)
        population = self._people
        if population is None:
            if people.groups is not None or people.covariates is not None:
                raise ValueError("this model was fitted without groups and covariates: give X alone")
            return weighted(bits, sample_weight, people.X)
        if not isinstance(bits, MemoryEngine):
            raise TypeError("groups and covariates go with a table in memory: pass a frame, an array or a list of rows")
        n, d = bits.table.shape
        answers = np.where(bits.table == 255, np.nan, bits.table) if bits.table.dtype == np.uint8 else bits.table
        extra = [answers, *_columns_of(people, population, n, f"pass m.people(X, {_words(population)}) in place of X")]
        engine = weighted(MemoryEngine(np.column_stack(extra)), sample_weight, people.X)
        engine.n_answers = d  # type: ignore[attr-defined]
        return engine

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        return super()._learn(condensed(engine) if self._by_items else engine, seed, dtype, max_time)

    def _adopt_items(self, result: FitResult) -> FitResult:
        """Turn the trait so that the end which most items agree with is up, where no slope is held.

        Covariates are then taken as they were given.
        """
        params: Params = result.params
        held = (params.item_places[..., 0] >= len(params.prior_mean)) & (params.items[..., 0] != 0)
        if not held.any() and params.items[0, :, 0].sum() < 0:
            turned = (params.items * np.array([-1.0, 1.0, 1.0])[: params.items.shape[2]], 0 - params.mean,
                      0 - params.coefficients)  # fmt: skip
            params = eqx.tree_at(lambda p: (p.items, p.mean, p.coefficients), params, turned)
        return result._replace(params=as_given(params))

    def _expose_item_model(self) -> None:
        params: Params = self.params_
        weights, bias = np.asarray(params.weights), np.asarray(params.bias)
        self.components_, self.intercept_ = weights.T.copy(), bias.copy()
        self.difficulty_ = psychometrics.difficulty(weights, bias)
        self.discrimination_ = psychometrics.discrimination(weights)
        self.asymptote_ = asymptotes(params)
        variance = np.exp(2 * params.log_sd)
        self.trait_mean_, self.trait_variance_ = float(params.mean[0]), float(variance[0])
        people = self._people or Population((), ())
        if people.groups:
            self.groups_ = np.array(people.groups)
            self.group_means_, self.group_variances_ = np.array(params.mean), variance
        if people.covariates:
            self.coefficients_ = np.array(params.coefficients)
        self.n_parameters_ = len(params.prior_mean)
        self._n_features_out = 1
        self._sample_dtype = np.uint8

    def _item_shapes(self) -> dict[str, tuple[int | None, ...]]:
        people, d = self._people or Population((), ()), self.n_features_in_
        groups, covariates = max(len(people.groups), 1), len(people.covariates)
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

    def _item_extra(self) -> dict[str, Any]:
        people = self._people or Population((), ())
        return {"nodes": self._n_item_nodes, "groups": list(people.groups), "covariates": list(people.covariates)}

    def _take_item_extra(self, extra: dict[str, Any]) -> dict[str, Any]:
        """Take what is of item models, and return the rest."""
        if "nodes" not in extra:
            return extra
        nodes, groups, covariates = (extra.pop(name, None) for name in ("nodes", "groups", "covariates"))
        if type(nodes) is not int or not FEWEST_NODES <= nodes <= MOST_NODES or nodes % 2 == 0:
            raise ModelFileError(f"'nodes' must be an odd number from {FEWEST_NODES} to {MOST_NODES}")
        plain = isinstance(groups, list) and all(type(label) in (str, int, float, bool) for label in groups)
        if not plain or len(set(groups)) < len(groups) or len(groups) == 1 or len(groups) > MOST_GROUPS:
            raise ModelFileError("'groups' must be a list of different labels")
        if not (isinstance(covariates, list) and all(isinstance(name, str) for name in covariates)):
            raise ModelFileError("'covariates' must be a list of names")
        self._n_item_nodes = nodes
        self._people = Population(tuple(groups), tuple(covariates)) if groups or covariates else None
        return extra

    def _finish_items(self, engine: Engine, result: FitResult) -> None:
        """Go on with more nodes where these tell the likelihood wrong, and say what has to be said of the estimates."""
        while True:
            rows = self._rounded_items(items.model(self._n_item_nodes), engine, DOUBLE)
            short = error_of_sum(rows, False, engine.weights)
            if short <= ENOUGH or self._n_item_nodes >= MOST_NODES or result.reason.cut_short:
                break
            self._n_item_nodes = 2 * self._n_item_nodes - 1
            left = None if self.max_time is None else max(self.max_time - result.seconds, 1e-3)
            more = fit(
                items.model(self._n_item_nodes),
                engine,
                seed_key(0),
                params=result.params,
                limits=Limits(self.max_iter, self.tol, left),
                dtype=DOUBLE,
                verbose=self.verbose,
            )
            result = more._replace(
                history=result.history + more.history,
                n_iter=result.n_iter + more.n_iter,
                seconds=result.seconds + more.seconds,
            )
            self._adopt(result)
        if short > ENOUGH and not result.reason.cut_short:
            warnings.warn(
                f"slopes are so steep that {MOST_NODES} nodes tell the log-likelihood to ±{short:.2g} nats only: "
                "weight_prior=3, say, makes them less steep",
                PrecisionWarning,
                stacklevel=6,
            )
        low = [self._item_name(j) for j in np.flatnonzero(_at_bound(self.params_)).tolist()]
        if low:
            warnings.warn(
                f"the asymptotes of {listed(low)} have gone to 0, the bound: without them the items fit as well",
                UserWarning,
                stacklevel=6,
            )
        far = [] if self._people is None else _run_away(self.params_, self._people, engine)
        if far:
            warnings.warn(
                f"{listed(far)}: so far out a fit has run away, and these numbers are no findings. Groups or "
                "covariates that are made of the answers themselves do this, and groups that the answers of "
                "few people tell of",
                UserWarning,
                stacklevel=6,
            )

    def _rounded_items(self, model: Model, engine: Engine, dtype: np.dtype) -> LogLikelihood:
        rows = WithCriteria._rounded(self, model, engine, dtype)
        return eqx.tree_at(lambda r: r.mean, rows, None, is_leaf=lambda leaf: leaf is None)

    # ---------------------------------------------------------------- use

    @classmethod
    def from_items(
        cls,
        slopes: Any,
        intercepts: Any,
        asymptotes: Any = None,
        *,
        mean: float = 0.0,
        variance: float = 1.0,
        feature_names: Sequence[str] | None = None,
    ) -> Self:
        """A model of given items, which scores, samples and completes without any fit.

        Parameters
        ----------
        slopes, intercepts : array-like of shape (n_columns,)
            P(bit = 1 | trait) = g + (1 - g) sigmoid(slope trait + intercept).  Of a difficulty b the intercept is
            ``-slope * b``.
        asymptotes : array-like of shape (n_columns,) or None
            Lower asymptotes g, from 0 to below 1; None for none.
        mean, variance : float
            Of the trait among the people.
        feature_names : sequence of str or None
            Names of the columns.

        Returns
        -------
        LatentTrait

        Examples
        --------
        >>> from latentbits import LatentTrait
        >>> m = LatentTrait.from_items([1.0, 1.5], [0.0, -1.0], asymptotes=[0.0, 0.25])
        >>> m.transform([[1, 1], [0, 0]]).shape
        (2, 1)
        """
        given = [np.asarray(part, float) for part in (slopes, intercepts)]
        given.append(np.zeros_like(given[0]) if asymptotes is None else np.asarray(asymptotes, float))
        if given[0].ndim != 1 or not len(given[0]) or any(part.shape != given[0].shape for part in given):
            raise ValueError(
                f"slopes, intercepts and asymptotes must be lists of one number for each item, found shapes "
                f"{', '.join(str(part.shape) for part in given)}"
            )
        if not (np.isfinite(mean) and np.isfinite(variance) and variance > 0):
            raise ValueError(f"mean must be finite and variance above 0, got {mean} and {variance}")
        fixed = {
            j: {"slope": float(a), "intercept": float(b), "asymptote": float(g)}
            for j, (a, b, g) in enumerate(zip(*given))
        }
        self = cls(1, fixed=fixed)  # type: ignore[call-arg]
        self.n_features_in_ = len(fixed)
        if feature_names is not None:
            if len(feature_names) != len(fixed):
                raise ValueError(f"there are {len(feature_names)} names for {len(fixed)} items")
            self.feature_names_in_ = np.array([str(name) for name in feature_names], dtype=object)
        params = template(self._item_plan(), np.zeros(len(fixed), bool))
        placed = np.array([float(mean)]), np.array([0.5 * math.log(variance)])
        self.params_ = eqx.tree_at(lambda p: (p.mean, p.log_sd), params, placed)
        self.history_table_ = history_table([])
        self.n_iter_, self.stop_reason_ = 0, str(Stop.GIVEN)
        self.objective_ = self.left_to_gain_ = math.nan
        self.dtype_ = DOUBLE.name
        self._expose()
        return self

    def _sample_people(self, n: int, random_state: Any, groups: Any, covariates: Any) -> np.ndarray:
        """New rows of given groups and covariates."""
        people = self._people
        if people is None:
            raise ValueError("this model was fitted without groups and covariates: sample(n) draws from it")
        if groups is None and covariates is None:
            raise ValueError(f"this model has groups or covariates: m.sample(n, {_words(people)}) has those to draw")
        nothing = np.full((n, self.n_features_in_), np.nan)
        advice = f"call m.sample(n, {_words(people)})"
        table = np.column_stack([nothing, *_columns_of(People(nothing, groups, covariates), people, n, advice)])
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        parts = list(self._map_engine(Partial(items.draw), MemoryEngine(table), seed))
        return (np.concatenate(parts) if parts else nothing[:0]).astype(np.uint8)

    def _item_errors(self, X: Any, sample_weight: Any, weights_are: str) -> ItemErrors:
        """Standard errors of all free numbers, and of what is made of them."""
        sandwich = is_sampling(weights_are)
        params: Params = self.params_
        if not len(params.prior_mean):
            raise ValueError(
                "all parameters of this model were given, and none estimated: there are no standard errors"
            )
        engine = self._open(X, reset=False, sample_weight=sample_weight)
        covariance, notes = covariance_of(params, self._n_item_nodes, engine, sandwich=sandwich)
        low = np.flatnonzero(_at_bound(params)).tolist()
        if low:
            names = listed([self._item_name(j) for j in low])
            notes = (*notes, f"the asymptotes of {names} are at their bound, 0, and are held there: no errors")
        if np.isnan(covariance).all() and len(covariance):
            warnings.warn(notes[0], UserWarning, stacklevel=3)
        return _report_of(params, covariance, self._free_names(), notes)

    def _free_names(self) -> list[str]:
        people = self._people or Population((), ())
        names = [self._item_name(j) for j in range(self.n_features_in_)]
        return names_of_free(self.params_, names, [str(g) for g in people.groups], people.covariates)

    def _item_position(self, item: Any) -> int:
        names = getattr(self, "feature_names_in_", None)
        return Positions(self.n_features_in_, names)("items", item)

    def _item_name(self, column: int) -> str:
        return self._column_names()[column]

    def _name(self, column: int) -> str:
        """The same, in quotes if it has a name, for a sentence."""
        names = getattr(self, "feature_names_in_", None)
        return f"column {column}" if names is None else f"{str(names[column])!r}"


# ---------------------------------------------------------------- sums and errors


def as_given(params: Params) -> Params:
    """The same model, of covariates as they were given."""
    n = len(params.coefficients)
    if not n:
        return params
    with double():
        return to_numpy(items.recentred(params, np.zeros(n), np.ones(n)))


def standardised(params: Params, engine: Engine) -> Params:
    """The same model, of covariates in standard deviations from their mean in a table."""
    n = len(params.coefficients)
    if not n:
        return params
    with double():
        return to_numpy(items.recentred(params, *_spread_of(engine, n)))


def _spread_of(engine: Engine, n_covariates: int) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the covariates, which are the last columns."""
    assert isinstance(engine, MemoryEngine)  # as covariates have it
    Z = engine.table[:, -n_covariates:].astype(float)
    mean = np.average(Z, 0, engine.weights)
    spread = np.sqrt(np.average((Z - mean) ** 2, 0, engine.weights))
    return mean, np.where(spread > 0, spread, 1.0)


def _summed(params: Params, n_nodes: int, engine: Engine) -> items.Stats:
    """Log-likelihood, gradient and information of all rows, in float64."""
    model = items.model(n_nodes)
    layout = layout_for(model.row_floats(engine.n_features), DOUBLE)
    given = start_pass(model, DOUBLE, params, seed_key(0, "use"))
    (stats,) = sum_blocks(model, engine, layout, lambda: given, {})
    return stats


def condensed(engine: Engine) -> Engine:
    """Distinct rows and how often each counts, where that halves a table in memory: with few items many are alike."""
    if not isinstance(engine, MemoryEngine):
        return engine
    table = engine.table
    marked = table if table.dtype == np.uint8 else np.where(np.isnan(table), np.inf, table)  # two NaNs are not equal
    _, first, which = np.unique(marked, axis=0, return_index=True, return_inverse=True)
    if 2 * len(first) > len(table):
        return engine
    new = MemoryEngine(table[first], np.bincount(which.ravel(), engine.weights).astype(float))
    if hasattr(engine, "n_answers"):
        new.n_answers = engine.n_answers  # type: ignore[attr-defined]
    return new


def covariance_of(
    params: Params, n_nodes: int, engine: Engine, sandwich: bool = False
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Covariance of the free numbers, NaN for those at a bound, and what has to be said of it.

    Sums and inverse are of standardised covariates, and are carried over to those that were given by the derivatives.
    """
    inner = standardised(params, engine)
    covariance, notes = _inverse(inner, _summed(inner, n_nodes, engine), sandwich)
    known = np.isfinite(np.diag(covariance))
    if inner is params or not known.any():
        return covariance, notes
    none, one, shifting = jnp.zeros(len(inner.scale)), jnp.ones(len(inner.scale)), items.can_shift(inner)

    def given(free: jax.Array) -> jax.Array:
        return items.free_of(items.recentred(items.with_free(inner, free), none, one, shifting))

    with double():
        to = np.asarray(jax.jacobian(given)(items.free_of(inner)))
    covariance = to @ np.where(np.isfinite(covariance), covariance, 0.0) @ to.T
    covariance[~known] = covariance[:, ~known] = np.nan
    return covariance, notes


def _inverse(params: Params, stats: items.Stats, sandwich: bool) -> tuple[np.ndarray, tuple[str, ...]]:
    """Covariance of the free numbers by these sums."""
    information = np.asarray(stats.information) + np.diag(params.prior_precision)
    bound = np.zeros(len(information) + 1, bool)
    if params.items.shape[2] == 3:
        bound[params.item_places[:, _at_bound(params), 2].astype(int)] = True
    kept = ~bound[:-1]
    covariance = np.full_like(information, np.nan)
    inner = information[np.ix_(kept, kept)]
    scale = 1 / np.sqrt(np.maximum(np.diag(inner), 1e-300))
    values = np.linalg.eigvalsh(inner * np.outer(scale, scale)) if len(inner) else np.ones(1)
    if values[0] <= 1e-12:
        said = "the observed information is singular or not positive definite, so there are no standard errors (NaN): "
        return covariance, (said + "the fit has not converged, or the data do not determine all of the parameters",)
    inverse = np.linalg.inv(inner)
    if sandwich:
        inverse = inverse @ np.asarray(stats.spread)[np.ix_(kept, kept)] @ inverse
    covariance[np.ix_(kept, kept)] = inverse
    return covariance, ()


def _report_of(params: Params, covariance: np.ndarray, names: list[str], notes: tuple[str, ...]) -> ItemErrors:
    n = len(covariance)
    errors = np.sqrt(np.diag(covariance))
    padded = np.append(errors, np.nan)
    of = lambda places: padded[places.astype(int)]  # noqa: E731
    by_item = of(params.item_places[0])
    slope, bias = params.items[0, :, 0], params.items[0, :, 1]
    g = asymptotes(params)
    by_logit = g * (1 - g)
    logit = by_item[:, 2] if params.items.shape[2] == 3 else np.full(len(slope), np.nan)
    # of -d / a by the delta method; what is held has no variance
    whole = np.pad(covariance, (0, 1))
    at = params.item_places[0, :, :2].astype(int)
    own = whole[at[:, :, None], at[:, None, :]]
    with np.errstate(divide="ignore", invalid="ignore"):
        to = np.stack([bias / slope**2, -1 / slope], 1)
        place = np.sqrt(np.einsum("di,dij,dj->d", to, own, to))
    place = np.where((at == n).all(1), np.nan, place)
    variances = 2 * np.exp(2 * params.log_sd) * of(params.sd_places)
    with double():
        estimates = np.asarray(items.free_of(params))
    return ItemErrors(
        by_item[None, :, 0], by_item[:, 1], place, by_item[:, 0].copy(), by_logit * logit, logit,
        of(params.mean_places), variances, of(params.coefficient_places), tuple(names), estimates, errors,
        covariance, notes,
    )  # fmt: skip


def asymptotes(params: Params) -> np.ndarray:
    """Lower asymptotes; 0 where there is none."""
    if params.items.shape[2] == 2:
        return np.zeros(params.items.shape[1])
    return np.where(params.guessed > 0, 1 / (1 + np.exp(-np.asarray(params.items[0, :, 2]))), 0.0)


def moved_by(params: Params, step: np.ndarray) -> Params:
    """Parameters whose free numbers are moved by a step."""
    with double():
        return to_numpy(items.with_free(params, items.free_of(params) + step))


def traits_of(params: Params, beside: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each row's trait before it has answered, by the columns after the bits."""
    with double():
        mean, spread = items.traits(jax.tree.map(jnp.asarray, params), jnp.asarray(beside, float))
        return np.asarray(mean), np.asarray(spread)


def _at_bound(params: Params) -> np.ndarray:
    """(columns,) which have a free asymptote, without a prior, that has gone to 0."""
    if params.items.shape[2] == 2:
        return np.zeros(params.items.shape[1], bool)
    places = params.item_places[0, :, 2].astype(int)
    flat = np.append(params.prior_precision == 0, False)
    return flat[places] & (asymptotes(params) < AT_BOUND)


# ---------------------------------------------------------------- groups and covariates


def _labels_of(groups: Any) -> np.ndarray:
    labels = np.asarray(groups)
    if labels.ndim != 1:
        raise DataError(f"groups must be 1-dimensional, one label for each row; found {labels.ndim} dimensions")
    missing = [_is_missing(label) for label in labels.tolist()]
    if any(missing):
        raise DataError(f"groups has no label for row {missing.index(True)}: leave such rows out")
    return labels


def _is_missing(label: Any) -> bool:
    same = label == label  # neither true nor false of pandas' NA
    return label is None or not isinstance(same, bool | np.bool_) or not same


def _in_order(labels: list[Any], groups: Any) -> tuple[Any, ...]:
    """Sorted labels as they are, or in the order of the categories where groups has some."""
    kind = getattr(groups, "dtype", None)
    if type(kind).__name__ not in ("CategoricalDtype", "Enum"):  # of pandas, of polars
        return tuple(labels)
    return tuple(sorted(labels, key=list(kind.categories).index))  # type: ignore[union-attr]


def _refuse_scattered(n_groups: int, n_people: float) -> None:
    """Refuse groups that hardly anybody is in: mostly a number was given for a label."""
    each = n_people / n_groups
    if n_groups > MOST_GROUPS or each < (FEWEST_OF_MANY if n_groups > MANY_GROUPS else FEWEST_EACH):
        raise DataError(
            f"groups has {n_groups} different labels for {n_people:g} people, {each:.1f} in each: a mean and a "
            f"variance cannot be learned from so few, nor of more than {MOST_GROUPS} groups. Groups are labels, as of "
            "schools or countries; a number such as age goes into covariates"
        )


def _unnamed(n: int) -> tuple[str, ...]:
    """Names of covariates that an array has none of."""
    return tuple(f"z{i}" for i in range(n))


def _population_of(people: People, sample_weight: Any) -> Population:
    """Labels and names to learn with; refuses what a fit could not tell."""
    labels: tuple[Any, ...] = ()
    one = [np.ones((1, 1))]
    if people.groups is not None:
        found, which = np.unique(_labels_of(people.groups), return_inverse=True)
        labels = _in_order(found.tolist(), people.groups)
        if len(labels) < 2:
            raise DataError(f"groups must have at least 2 different labels, found {len(labels)}")
        # rows may be patterns with counts, and weights of a survey may be shares
        weights = open_weights(sample_weight, len(which), people.X)
        _refuse_scattered(len(labels), len(which) if weights is None else max(len(which), float(weights.sum())))
        if weights is not None:
            empty = [str(label) for label, n in zip(found.tolist(), np.bincount(which, weights)) if not n > 0]
            if empty:
                raise DataError(f"no row of groups {listed(empty)} has a weight above 0: leave these rows out")
        one = [np.eye(len(labels))[which]]
    names: tuple[str, ...] = ()
    if people.covariates is not None:
        values, found_names = read_covariates(people.covariates)
        names = found_names or _unnamed(values.shape[1])
        weights = open_weights(sample_weight, len(values), people.X)
        counted = np.ones(len(values), bool) if weights is None else weights > 0
        one = [np.broadcast_to(one[0], (len(values), one[0].shape[1]))[counted], values[counted]]
        one[1] = one[1] - one[1].mean(0)
        spread = one[1].std(0)
        if (spread == 0).any() or np.linalg.matrix_rank(np.concatenate([one[0], one[1] / spread], 1)) < sum(
            part.shape[1] for part in one
        ):
            raise DataError("covariates must not be constant, nor sums of each other or of the groups: leave some out")
    return Population(labels, names)


def _words(population: Population) -> str:
    """How groups and covariates of a model are given."""
    return ", ".join(word for word, known in zip(("groups=g", "covariates=Z"), population) if known)


def _columns_of(people: People, population: Population, n_rows: int, advice: str) -> list[np.ndarray]:
    """Numbers of groups, and covariates, as columns beside the bits; `advice` says how to give all of them."""
    out: list[np.ndarray] = []
    for name, known in zip(("groups", "covariates"), population):
        if bool(known) != (getattr(people, name) is not None):
            there = "with" if known else "without"
            raise ValueError(f"this model was fitted {there} {name}: {advice}")
    if people.groups is not None:
        labels = _labels_of(people.groups)
        code = {label: number for number, label in enumerate(population.groups)}
        unknown = [label for label in labels.tolist() if label not in code]
        if unknown:
            raise DataError(f"groups has {unknown[0]!r}; the model knows {listed([str(g) for g in population.groups])}")
        out.append(np.array([code[label] for label in labels.tolist()], float))
    if people.covariates is not None:
        known = population.covariates
        values, names = read_covariates(people.covariates)
        if values.shape[1] != len(known):
            raise DataError(f"covariates has {values.shape[1]} columns, the model {len(known)}")
        if known != _unnamed(len(known)) or sorted(names or ()) == sorted(known):
            same_covariates(names, known)
        out.append(values)
    for name, part in zip([n for n in ("groups", "covariates") if getattr(people, n) is not None], out):
        if len(part) != n_rows:
            raise DataError(f"{name} has {len(part)} rows, X has {n_rows}")
    return out


def _run_away(params: Params, population: Population, engine: Engine) -> list[str]:
    """What is said of coefficients, means and variances that cannot be of people."""
    unit, out = float(np.exp(params.log_sd[0])), []
    away = np.asarray(params.mean - params.mean[0]) / unit
    ratio = np.exp(2 * (params.log_sd - params.log_sd[0]))
    for label, mean, variance in zip(population.groups, away.tolist(), ratio.tolist()):
        if abs(mean) > FARTHEST:
            out.append(f"the mean of {label} is {mean:.3g} standard deviations from that of {population.groups[0]}")
        if not VARIANCES[0] <= variance <= VARIANCES[1]:
            out.append(f"the variance of {label} is {variance:.2g} times that of {population.groups[0]}")
    if population.covariates:
        _, spread = _spread_of(engine, len(population.covariates))
        for name, size in zip(population.covariates, (params.coefficients * spread / unit).tolist()):
            if abs(size) > FARTHEST:
                out.append(f"one standard deviation of {name} moves the trait by {size:.3g} of its own")
    return out
