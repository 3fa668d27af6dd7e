"""`BinarySparseCoding`: binary causes that add up to real numbers, with the noise and the sparseness learned too."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from numbers import Integral
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
from jaxtyping import Array, Key, PyTree
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core import interrupts
from latentbits.core.errors import ModelFileError, PrecisionWarning
from latentbits.core.model import Model
from latentbits.engines.chunks import layout_for
from latentbits.engines.column_sums import Powers
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.passes import Engine, map_rows, start_pass
from latentbits.engines.summary import column_moments, row_powers, summarise
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.precision import DOUBLE, SINGLE, WARNING_NATS_PER_ROW
from latentbits.models.binary_sparse_coding import model as sparse_coding
from latentbits.models.binary_sparse_coding.learning import Means, Plan, Rows, best_start, finish
from latentbits.models.binary_sparse_coding.map_states import log_evidence, most_probable
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.recipes import RECIPES, recipe_of
from latentbits.models.binary_sparse_coding.sizes import Size, Sizes, n_states
from latentbits.models.binary_sparse_coding.tuning import LEAST_NOISE_SHARE

__all__ = ["BinarySparseCoding", "SparsePosterior"]

MOST_LOADED_BITS = 20  # log2 of the states of a row that a model file may ask for


class SparsePosterior(NamedTuple):
    """Posterior of the causes of each row.

    Attributes
    ----------
    mean
        P(cause = 1 | row), (n_rows, n_causes).
    mode
        The most probable state, (n_rows, n_causes).
    states, probabilities
        The most probable states, best first, (n_rows, n_states, n_causes) uint8, and their probabilities.
    """

    mean: np.ndarray
    mode: np.ndarray
    states: np.ndarray
    probabilities: np.ndarray


class BinarySparseCoding(WithFitReport):
    """Rows of real numbers as sums of a few components, each on or off, in Gaussian noise (Henniges et al. 2010).

    A row is y = s W + noise, where each of the causes s is on with probability pi.  Components W, noise and sparseness
    pi H are learned together, by EM over the states that are probable for a row: those with at most `max_active` of its
    `n_candidates` best matching causes, and all with one.  There is no constant: subtract from each column what it is
    where no cause is on (its median, if most rows are; not its mean, which contains the causes).

    Parameters
    ----------
    n_causes : int, default=10
        Number of causes, H.
    max_active : int or "auto", default="auto"
        Most causes that are on together in a row, gamma.  "auto" begins with 3; with up to 14 causes and n_rows
        2^n_causes up to 2^24 (16 000 rows of 10), learning then ends with exact EM, until nothing is left to gain.
        Otherwise it grows, with more iterations of learning, until more states would add at most 0.1 nats a row.
    n_candidates : int or "auto", default="auto"
        Causes that are looked at together, H'; "auto" grows with `max_active`.  With both equal to `n_causes`,
        learning ends with exact EM.
    grow : bool, default=True
        Whether learning begins with 3 of 5 also where a larger `max_active` and `n_candidates` are given, and goes on
        with those for another third of the iterations.  With many states to choose from, components that are still
        wrong explain every row, and learning settles there.
    recipe : {"ours", "henniges2010"} or dict, default="ours"
        Where learning starts, and its schedule: ours, the paper's for its bars, or ours with changes by the names of
        `latentbits.models.binary_sparse_coding.recipes.Recipe`, such as ``{"init": "mean", "cut": None}``.
    precision : {"highest", "high", "tf32"}, default="highest"
        On a GPU, in float32: how the product of rows and components is rounded.  "high" keeps 17 bits of its factors,
        "tf32" 11, which is faster and good enough to learn by: sparseness and noise agree to three digits.
    keep_components : bool, default=False
        Whether `components_history_` is kept.
    n_init : int or None, default=None
        Number of random starts, of which the one with the highest likelihood is kept: exact with at most 12 causes,
        beyond from more states than were learned with.  None makes two, and with small tables (rows x columns x causes
        up to 2^23) as many as it takes to find the best one twice, but at most 16; up to 2^21 eight are learned at a
        time, until four have found the best.
    random_state, max_time, verbose, dtype, binarize
        As everywhere.
    max_iter : int, default=60
        Iterations of the schedule of truncated EM, which is always gone through.  Exact EM has at most ten times as
        many, or 300.
    tol : float
        Nats per row that exact EM may leave; without it, it has no effect.

    Attributes
    ----------
    components_ : ndarray of shape (n_causes, n_columns)
        W.
    noise_std_ : float
        Standard deviation of the noise, sigma.
    prior_ : float
        Probability that a cause is on, pi.
    sparseness_ : float
        Causes that are on in a row on average, pi H.
    max_active_, n_candidates_ : int
        gamma and H', with "auto" decided.
    truncation_loss_ : float
        Estimated nats per row by which `score_samples` is too low; also its error.  0 where it is exact, that is with
        at most 12 causes, and NaN where more states are too many to look at.
    n_parameters_ : int
        Free parameters: components of columns that were seen, noise and sparseness.
    reseeded_ : int
        How often a cause that no row used was given a new start.
    sparseness_history_, noise_history_ : ndarray
        pi H and sigma at every pass, the last ones are those of the fit.
    components_history_ : ndarray of shape (n_passes, n_causes, n_columns)
        With `keep_components`.
    dtype_, history_, history_table_, objective_, left_to_gain_, n_iter_, converged_, stop_reason_, n_rows_, \
    n_features_in_, feature_names_in_
        As everywhere.  `history_` is the free energy of all rows, which may fall when fewer rows are learned from.

    Examples
    --------
    >>> from latentbits import BinarySparseCoding
    >>> from latentbits.data import toys
    >>> toy = toys.linear_bars(500, random_state=1)
    >>> m = BinarySparseCoding(10, max_active=3, n_candidates=5, random_state=0).fit(toy.X)
    >>> round(m.sparseness_, 1), round(m.noise_std_, 1)
    (2.0, 2.0)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_causes": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left"), None],
        "max_active": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "n_candidates": [Interval(Integral, 1, None, closed="left"), StrOptions({"auto"})],
        "grow": ["boolean"],
        "recipe": [StrOptions(set(RECIPES)), dict],
        "precision": [StrOptions({"highest", "high", "tf32"})],
        "keep_components": ["boolean"],
    }

    components_: np.ndarray
    noise_std_: float
    prior_: float
    sparseness_: float
    max_active_: int
    n_candidates_: int
    truncation_loss_: float
    reseeded_: int
    sparseness_history_: np.ndarray
    noise_history_: np.ndarray
    components_history_: np.ndarray

    _params_class: ClassVar[type] = Params
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "noise_std": (0, np.inf),
        "prior": (0, 1),
        "reseeded": (0, np.inf),
        "truncation_loss": (0, np.inf),
    }
    _with_holes: ClassVar[frozenset[str]] = frozenset({"truncation_loss"})
    _sample_dtype: Any = np.float64

    def __init__(
        self,
        n_causes: int = 10,
        *,
        max_active: int | str = "auto",
        n_candidates: int | str = "auto",
        grow: bool = True,
        recipe: str | Mapping[str, Any] = "ours",
        precision: str = "highest",
        keep_components: bool = False,
        random_state: Any = None,
        n_init: int | None = None,
        max_iter: int = 60,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.n_causes = n_causes
        self.max_active = max_active
        self.n_candidates = n_candidates
        self.grow = grow
        self.recipe = recipe
        self.precision = precision
        self.keep_components = keep_components
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        engine: Literal["dask"] | None = None,
        X_val: Any = None,
    ) -> Self:
        """Learn components, noise and sparseness.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Real numbers, NaN for missing; a frame, memory map, Dask array, path, or a function that gives batches.
        y : Ignored
            Present for scikit-learn's pipelines.
        sample_weight : array-like of shape (n_rows,) or None
            How often each row counts; None counts each once.
        checkpoint : str, path, latentbits.Checkpoint or None
            A folder in which learning is kept, and from which it goes on; see `LatentTrait.fit`.
        engine : "dask" or None
            Who learns; see `LatentTrait.fit`.
        X_val : array-like of shape (n_validation_rows, n_columns) or None
            Rows to stop by; refused, since this family's learning cannot be stopped by them.

        Returns
        -------
        self
        """
        self._validate_params()
        self._sizes(), recipe_of(self.recipe)  # complain of what does not fit together
        return super().fit(X, y, sample_weight, checkpoint, engine, X_val)

    def _stops_early(self, rows: Engine) -> bool:
        return False  # and its record needs sizes that are not known before learning

    # ---------------------------------------------------------------- use

    @property
    def real_valued(self) -> bool:
        """True: rows are real numbers, and also bits are taken for such."""
        return True

    def posterior(self, X: Any, n_states: int = 5) -> SparsePosterior:
        """Compute the posterior of the causes of each row: probabilities of causes, and of the most probable states.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Real numbers, NaN for missing.
        n_states : int, default=5
            How many states of each row; fewer where there are no more.

        Returns
        -------
        SparsePosterior
            With `mean`, `mode`, `states` and `probabilities`.
        """
        self._fitted()
        if not isinstance(n_states, Integral) or n_states < 1:
            raise ValueError(f"n_states must be a whole number from 1, got {n_states!r}")
        gamma, candidates = self._size_in_use()
        mean, states, probabilities = self._map_rows(most_probable(gamma, candidates, int(n_states)), X)
        return SparsePosterior(mean, states[:, 0].astype(mean.dtype), states, probabilities)

    def denoise(self, X: Any) -> np.ndarray:
        """Compute E[s W | row]: each row without its noise, and with its missing entries filled in.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Real numbers, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        return self._map_rows(self._fitted().complete, X)

    # ---------------------------------------------------------------- inside

    def _sizes(self) -> Sizes:
        gamma, candidates = (int(x) if isinstance(x, Integral) else None for x in (self.max_active, self.n_candidates))
        return Sizes(int(self.n_causes), gamma, candidates, bool(self.grow)).checked()

    def _plan(self) -> Plan:
        return Plan(
            self._sizes(),
            recipe_of(self.recipe),
            int(self.max_iter),
            None if self.n_init is None else int(self.n_init),
            bool(self.keep_components),
            self.precision,
            self._quietest(),
        )

    def _size_in_use(self) -> Size:
        return self._sizes().in_use((self.max_active_, self.n_candidates_))

    def _model(self) -> Model:
        return self._plan().model((self.max_active_, self.n_candidates_))

    def _cells(self, n_rows: float) -> float:
        return n_rows * self.n_features_in_ * int(self.n_causes)

    @property
    def _has_prior(self) -> bool:
        return False

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        self.dtype_ = dtype.name
        self._idle = self._idle_in(engine)
        plan = self._plan()
        self.max_active_, self.n_candidates_ = plan.sizes.first()
        n_rows, sample = self._some_rows(engine)
        rows, means = Rows(n_rows, self._cells(n_rows), engine.weights, sample), self._means(engine)
        best = best_start(plan, rows, means, seed_key(seed), max_time)
        self._adopt(best)
        later = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        learned = finish(plan, rows, means, best, lambda name: seed_key(later, name))
        self.max_active_, self.n_candidates_ = learned.size
        self._adopt(learned.result)
        return best.seconds

    def _means(self, engine: Engine) -> Means:
        """Return how learning reaches the rows of an engine."""
        plan, dtype = self._plan(), np.dtype(self.dtype_)

        def begin(model: Model, key: Key[Array, ""], max_time: float | None) -> FitResult:
            limits = Limits(self.max_iter, self.tol, max_time)
            return fit(model, engine, key, limits=limits, dtype=dtype, verbose=self.verbose)

        def go_on(model: Model, key: Key[Array, ""], before: FitResult, max_iter: int) -> FitResult:
            left = None if self.max_time is None else max(self.max_time - before.seconds, 1e-3)
            limits = Limits(max_iter, self.tol, left)
            return fit(model, engine, key, params=before.params, limits=limits, dtype=dtype, verbose=self.verbose)

        def evaluate(model: Model, params: PyTree) -> FitResult:
            with interrupts.shielded():
                return fit(model, engine, seed_key(0), params=params, dtype=dtype)

        def evidence(params: Params, now: Size, size: Size, sample: np.ndarray | None) -> np.ndarray:
            # all states: as `score` has it, so that it is compiled once
            exact = size == plan.sizes.every == plan.sizes.in_use(now)
            model, rows = plan.model(now), engine if sample is None else MemoryEngine(sample)
            function = self._likelihood(model) if exact else log_evidence(*size)
            layout = layout_for(model.row_floats(self.n_features_in_), dtype, n_columns=self.n_features_in_)
            given = start_pass(model, dtype, params, seed_key(0, "use"))
            with interrupts.shielded():
                parts = list(map_rows(function, rows, layout, given))
            return np.concatenate([part[0].value if exact else part for part in parts]).astype(np.float64)

        return Means(begin, go_on, evaluate, evidence)

    def _rounding_foreseen(self, engine: Engine, dtype: np.dtype) -> float:
        """Return the rounding with the most noise that there can be: all that columns vary."""
        _, mean, variance = column_moments(engine)
        power, noise = float(np.sum(mean**2 + variance)), float(np.mean(variance))
        if noise == 0:
            return np.inf if power > 0 else 0.0
        return sparse_coding.rounding_share(engine.n_features, dtype) * power / noise

    def _rounding_of(self, engine: Engine, dtype: np.dtype) -> Powers:
        share = sparse_coding.rounding_share(engine.n_features, dtype) / self.noise_std_**2
        mean, largest = row_powers(engine)
        return Powers(share * mean, share * largest)

    def _quietest(self) -> float:
        """Return the least noise, as a part of the rows' root mean square, at which a density still has digits."""
        if getattr(self, "dtype_", SINGLE.name) == SINGLE.name:
            return LEAST_NOISE_SHARE
        share = sparse_coding.rounding_share(self.n_features_in_, DOUBLE)
        return float(np.sqrt(2 * share * self.n_features_in_ / WARNING_NATS_PER_ROW))

    def _warn_of_rounding(self, engine: Engine, lost: float) -> None:
        super()._warn_of_rounding(engine, lost)
        if not self.takes_reals or self.noise_std_ > self._quietest() * np.sqrt(row_powers(engine).mean):
            return  # the noise is not the least there can be
        observed, mean, variance = column_moments(engine)
        floor = self._quietest() * float(np.sqrt(np.average(mean**2 + variance, weights=observed)))
        typical = float(np.sqrt(np.average(variance, weights=observed)))
        if self.noise_std_ < 1.01 * floor and floor > typical / 100:  # columns are too far from 0 for what they vary
            warnings.warn(
                f"noise_std_ is {self.noise_std_:.2g}, the least that rows in {self.dtype_} can tell so far from 0, "
                f"while columns vary by {typical:.2g} only: subtract from each column what it is where no cause is on",
                PrecisionWarning,
                stacklevel=4,
            )

    def _adopt(self, result: FitResult) -> None:
        super()._adopt(result)
        kept = [record.watched for record in result.history if record.watched]
        self.sparseness_history_ = np.array([w["sparseness"] for w in kept])
        self.noise_history_ = np.array([w["noise_std"] for w in kept])
        if self.keep_components:
            self.components_history_ = np.array([w["components"] for w in kept])

    def _some_rows(self, engine: Engine) -> tuple[float, np.ndarray]:
        """Return the number of rows, and a random sample of them, the same on every engine."""
        with interrupts.shielded():  # what was learned before stands
            summary = summarise(engine)
        n = min(int(summary.n_rows), len(summary.sample))
        rows = np.where(np.asarray(summary.sample_observed)[:n] > 0, np.asarray(summary.sample)[:n], np.nan)
        return float(summary.n_rows), rows

    def _expose(self) -> None:
        p = self.params_
        self.components_, self.noise_std_, self.prior_ = p.components, float(p.noise_std), float(p.prior)
        self.sparseness_ = self.prior_ * len(p.components)
        self.reseeded_, self.truncation_loss_ = int(p.reseeded), float(p.truncation_loss)
        self._n_features_out = len(p.components)
        self.n_parameters_ = len(p.components) * self._n_varying + 2

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("cause", self._input_names(), self.components_, "+.3g")

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        scalars = ("noise_std", "prior", "reseeded", "truncation_loss")
        return {"components": (self.n_causes, self.n_features_in_), **dict.fromkeys(scalars, ())}

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | {
            "max_active": self.max_active_,
            "n_candidates": self.n_candidates_,
            "sparseness_history": self.sparseness_history_.tolist(),
            "noise_history": self.noise_history_.tolist(),
        }

    def _take_extra(self, extra: dict[str, Any]) -> None:
        gamma: Any = extra.get("max_active")
        candidates: Any = extra.get("n_candidates")
        sizes = (gamma, candidates, self.n_causes)
        whole = all(isinstance(x, int) and not isinstance(x, bool) for x in sizes)
        fits = whole and 1 <= gamma <= min(candidates, MOST_LOADED_BITS) and candidates <= self.n_causes
        if not fits or n_states((gamma, candidates)) > 2**MOST_LOADED_BITS:  # these are no fewer than 2^gamma
            raise ModelFileError(
                f"max_active {gamma!r} and n_candidates {candidates!r} do not fit {self.n_causes} causes"
            )
        self.max_active_, self.n_candidates_ = gamma, candidates
        for name in ("sparseness_history", "noise_history"):
            course = extra.get(name)
            if not isinstance(course, list) or not all(isinstance(x, float) and np.isfinite(x) for x in course):
                raise ModelFileError(f"{name} must be a list of numbers")
            setattr(self, f"{name}_", np.array(course))
        known = {"max_active", "n_candidates", "sparseness_history", "noise_history"}
        super()._take_extra({name: value for name, value in extra.items() if name not in known})

    @property
    def _errors_average_out(self) -> bool:
        return False  # a bound is below for every row
