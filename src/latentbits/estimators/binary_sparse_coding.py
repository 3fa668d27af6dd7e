"""`BinarySparseCoding`: binary causes that add up to real numbers, with the noise and the sparseness learned too."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import comb
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, NamedTuple, Self

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core import interrupts
from latentbits.core.batch import Batch
from latentbits.core.errors import FitError, ModelFileError, PrecisionWarning
from latentbits.core.model import Model, Stop
from latentbits.engines.column_sums import Powers
from latentbits.engines.fit import FitResult, fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits, Record
from latentbits.engines.passes import Engine
from latentbits.engines.summary import column_moments, row_powers, summarise
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.precision import DOUBLE, SINGLE, TOLD
from latentbits.estimators.showing import named_weights
from latentbits.models.binary_sparse_coding import model as sparse_coding
from latentbits.models.binary_sparse_coding.posterior import Params, Shared, expectations, state_table
from latentbits.models.binary_sparse_coding.probable import probable_states
from latentbits.models.binary_sparse_coding.settling import at_rest
from latentbits.models.binary_sparse_coding.starts import Starts, evaluation, side_by_side

__all__ = ["BinarySparseCoding", "SparsePosterior"]

FIRST = (3, 5)  # gamma and H' that "auto" begins with
MOST_STATES = 4096  # of a row's candidates, up to which it grows
MOST_SETTLED = 14  # causes, and
EXACT_WORK = 2**24  # states of all rows, up to which "auto" ends with exact EM
SETTLING, LEAST_SETTLING = 10, 300  # times `max_iter`, and in any case: the most passes of that
FEWEST_STARTS, MOST_STARTS = 2, 16
SMALL_TABLE = 2**23  # rows x columns x causes up to which there may be more starts than the fewest
SIDE_BY_SIDE, SMALLER_TABLE = 8, 2**21  # starts learned from at a time, and rows x columns x causes up to which
SAME = 0.01  # nats per row by which two fits differ that have found the same
MOST_LOADED = 20  # bits: states of a row that a model file may ask for


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
        Otherwise it grows, with more iterations of learning, until the estimated truncation loss is below
        `truncation_tol`.
    n_candidates : int or "auto", default="auto"
        Causes that are looked at together, H'; "auto" grows with `max_active`.  With both equal to `n_causes`,
        learning ends with exact EM.
    grow : bool, default=True
        Whether learning begins with 3 of 5 also where a larger `max_active` and `n_candidates` are given, and goes on
        with those for another third of the iterations.  With many states to choose from, components that are still
        wrong explain every row, and learning settles there.
    init : {"random", "mean", "data"}, default="random"
        Components to start with: random, the mean of the rows plus noise, or rows plus noise.
    init_scale : float or None, default=None
        Standard deviation of what is random in them.  None takes a third ("random") or a twentieth of the root mean
        square of X.
    init_noise : {"rms", "std", "residual"}, default="rms"
        Noise to start with: the root mean square of X; its standard deviation about the means of the columns, as the
        paper has it for bars; or what the first components leave over, eq. (7) on all rows, as it has it for images.
        That takes the first iteration, unless `ranking` is "exact", whose first pass has nothing to rank for.
    init_sparseness : float or None, default=None
        pi H to start with; None takes 5, or half of the causes if that is less.
    cut : "auto", (int, int) or None, default="auto"
        (first, last): all rows are learned from before iteration `first`; then ever fewer, until from iteration
        `last` on they are the N_cut rows of highest evidence, as many as should have at most `max_active` causes.
        Without this, rows with more causes bias noise and sparseness.  "auto" is a third and two thirds of
        `max_iter`, None never.
    parameter_noise : float or "auto", default="auto"
        Standard deviation of noise that is added to the components after each iteration, which separates equal ones.
        "auto" is 2.5 % of the present `noise_std_`, and nothing in the last tenth of the iterations.
    temperature : float, default=3.0
        To begin with, posteriors are flattened by this; it goes down to 1 in the first third of the iterations.  1 is
        the paper's learning, which ends in poor optima more often.
    ranking : {"previous", "exact"}, default="previous"
        Whether rows are ranked for `cut` by their evidence in the pass before, or in an additional pass of their own.
    renew : bool, default=True
        Whether a cause that no row uses begins anew from a row that is explained badly.  False is the paper's learning.
    precision : {"highest", "high", "tf32"}, default="highest"
        On a GPU, in float32: how the product of rows and components is rounded.  "high" keeps 17 bits of its factors,
        "tf32" 11, which is faster and good enough to learn by: sparseness and noise agree to three digits.
    truncation_tol : float, default=0.1
        Nats per row that "auto" may lose by looking at few states.
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
        "init": [StrOptions({"random", "mean", "data"})],
        "init_scale": [Interval(Real, 0, None, closed="left"), None],
        "init_noise": [StrOptions({"rms", "std", "residual"})],
        "init_sparseness": [Interval(Real, 0, None, closed="neither"), None],
        "cut": [StrOptions({"auto"}), tuple, list, None],
        "parameter_noise": [Interval(Real, 0, None, closed="left"), StrOptions({"auto"})],
        "temperature": [Interval(Real, 1, None, closed="left")],
        "ranking": [StrOptions({"previous", "exact"})],
        "renew": ["boolean"],
        "precision": [StrOptions({"highest", "high", "tf32"})],
        "truncation_tol": [Interval(Real, 0, None, closed="neither")],
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
        init: str = "random",
        init_scale: float | None = None,
        init_noise: str = "rms",
        init_sparseness: float | None = None,
        cut: str | tuple[int, int] | None = "auto",
        parameter_noise: float | str = "auto",
        temperature: float = 3.0,
        ranking: str = "previous",
        renew: bool = True,
        precision: str = "highest",
        truncation_tol: float = 0.1,
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
        self.init = init
        self.init_scale = init_scale
        self.init_noise = init_noise
        self.init_sparseness = init_sparseness
        self.cut = cut
        self.parameter_noise = parameter_noise
        self.temperature = temperature
        self.ranking = ranking
        self.renew = renew
        self.precision = precision
        self.truncation_tol = truncation_tol
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
        self._first_size()  # complains of sizes that do not fit together
        return super().fit(X, y, sample_weight, checkpoint, engine, X_val)

    def _stops_early(self, rows: Engine) -> bool:
        return False  # and its record needs sizes that are not known before learning

    # ---------------------------------------------------------------- use

    @property
    def real_valued(self) -> bool:
        """True: rows are real numbers, and also bits are taken for such."""
        return True

    def posterior(self, X: Any, n_states: int = 5) -> SparsePosterior:
        """Posterior of the causes of each row: probabilities of single causes, and of the most probable states.

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
        mean, states, probabilities = self._map_rows(_most_probable(gamma, candidates, int(n_states)), X)
        return SparsePosterior(mean, states[:, 0].astype(mean.dtype), states, probabilities)

    def denoise(self, X: Any) -> np.ndarray:
        """E[s W | row]: each row without its noise, and with its missing entries filled in.

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

    def _given_size(self) -> tuple[int | None, int | None]:
        """gamma and H' as they were given, None for "auto"."""
        h = int(self.n_causes)
        gamma, candidates = (int(x) if isinstance(x, Integral) else None for x in (self.max_active, self.n_candidates))
        if candidates is not None and candidates > h:
            raise ValueError(f"n_candidates={candidates} must not be larger than n_causes={h}")
        most = h if candidates is None else candidates
        if gamma is not None and gamma > most:
            raise ValueError(
                f"max_active={gamma} of n_candidates={most} causes cannot be on together: max_active must not be "
                "larger than n_candidates"
            )
        return gamma, candidates

    def _first_size(self) -> tuple[int, int]:
        """gamma and H' to begin with."""
        gamma, candidates = self._given_size()
        if gamma is not None and candidates is not None:
            small = self.grow and gamma > FIRST[0]
            return (FIRST[0], min(candidates, FIRST[1])) if small else (gamma, candidates)
        if gamma is not None:
            return gamma, min(max(gamma + 2, FIRST[1]), int(self.n_causes))
        candidates = min(FIRST[1], int(self.n_causes)) if candidates is None else candidates
        return min(FIRST[0], candidates), candidates

    def _next_size(self) -> tuple[int, int]:
        """gamma and H' that come next, which are the present ones where there is no room."""
        now = self.max_active_, self.n_candidates_
        gamma, candidates = self._given_size()
        if gamma is not None and candidates is not None:
            return gamma, candidates
        candidates = min(now[1] + 3, int(self.n_causes)) if candidates is None else candidates
        larger = min(now[0] + 2, candidates) if gamma is None else gamma, candidates
        return larger if _n_states(larger) <= MOST_STATES else now

    def _size_in_use(self) -> tuple[int, int]:
        h = int(self.n_causes)
        return (h, h) if h <= sparse_coding.MOST_EXACT else (self.max_active_, self.n_candidates_)

    def _cut(self, n_iter: int) -> tuple[int, int] | None:
        if self.cut is None:
            return None
        if isinstance(self.cut, str):
            return n_iter // 3, 2 * n_iter // 3
        whole = len(self.cut) == 2 and all(isinstance(x, Integral) for x in self.cut)
        if not whole or not 0 <= self.cut[0] <= self.cut[1]:
            raise ValueError(f"cut must be two iterations (first, last) with 0 <= first <= last, got {self.cut!r}")
        return int(self.cut[0]), int(self.cut[1])

    def _model(self) -> Model:
        return self._model_of((self.max_active_, self.n_candidates_))

    def _model_of(self, size: tuple[int, int]) -> Model:
        n_iter = int(self.max_iter)
        return self._learner(size, n_iter, self._cut(n_iter), float(self.temperature), self.init_noise)

    def _settler(self) -> Model:
        """The record of exact EM."""
        return self._learner((int(self.n_causes),) * 2, 0, None, 1.0, settling=True)

    def _learner(
        self,
        size: tuple[int, int],
        n_iter: int,
        cut: tuple[int, int] | None,
        temperature: float,
        init_noise: str = "rms",
        settling: bool = False,
    ) -> Model:
        return sparse_coding.model(
            int(self.n_causes),
            *size,
            init=self.init,
            init_scale=None if self.init_scale is None else float(self.init_scale),
            init_noise=init_noise,
            init_sparseness=None if self.init_sparseness is None else float(self.init_sparseness),
            n_iter=n_iter,
            cut=cut,
            parameter_noise=None if isinstance(self.parameter_noise, str) else float(self.parameter_noise),
            temperature=temperature,
            ranking=self.ranking,
            renew=bool(self.renew),
            keep_components=bool(self.keep_components),
            precision=self.precision,
            quietest=self._quietest(),
            settling=settling,
        )

    @property
    def _has_prior(self) -> bool:
        return False

    def _learn(self, engine: Engine, seed: int, dtype: np.dtype, max_time: float | None) -> float:
        self.dtype_ = dtype.name
        self._idle = self._idle_in(engine)
        self.max_active_, self.n_candidates_ = self._first_size()
        n_rows, rows = self._some_rows(engine)
        result = self._best_start(engine, seed_key(seed), n_rows, max_time)
        self._adopt(result)
        self._end(engine, result, n_rows, rows)
        return result.seconds

    def _best_start(self, engine: Engine, key: Key[Array, ""], n_rows: float, max_time: float | None) -> FitResult:
        """The best of several random starts.

        They are ranked by one evaluation for all that leaves out as little as it can: by the states that were learned
        with, a fit would be preferred that needs few of them, rather than one that describes the rows.
        """
        best: FitResult | None = None
        failure: FitError | None = None
        values: list[float] = []
        n, most, spent = self._side_by_side(n_rows), self._most_starts(n_rows), 0.0
        often = max(2, n // 2)  # of eight starts two may well agree on a poor optimum
        while len(values) < most and not (self.n_init is None and _found_often(values, often)):
            left = None if max_time is None else max(max_time - spent, 1e-3)
            try:
                found = self._fitted_from(engine, n, jax.random.fold_in(key, len(values)) if values else key, left)
            except FitError as error:
                failure = error
                values += [-np.inf] * n
                continue
            except KeyboardInterrupt:
                if best is None:
                    raise
                best = best._replace(reason=Stop.INTERRUPTED)
                break
            spent += found.seconds
            if found.reason.cut_short:
                best = self._best_so_far(found) if best is None else best._replace(reason=found.reason)
                break
            each = [self._value_of(engine, n_rows, params) for params in _separate(found.params)]
            first = int(np.argmax(each))
            if best is None or each[first] > max(values):
                best = self._one_of(engine, found, first)
            values += each
        if best is None:
            assert failure is not None
            raise failure
        return best._replace(seconds=spent)

    def _is_small(self, n_rows: float, most: int) -> bool:
        return n_rows * self.n_features_in_ * int(self.n_causes) <= most

    def _most_starts(self, n_rows: float) -> int:
        if self.n_init is not None:
            return int(self.n_init)
        return MOST_STARTS if self._is_small(n_rows, SMALL_TABLE) else FEWEST_STARTS

    def _side_by_side(self, n_rows: float) -> int:
        """How many starts are learned from at a time: with few rows several take little longer than one."""
        if not self._is_small(n_rows, SMALLER_TABLE) or jax.default_backend() != "cpu":
            return 1
        most = self._most_starts(n_rows)
        return max(n for n in range(1, SIDE_BY_SIDE + 1) if most % n == 0)  # rounds of one size, and one compilation

    def _from_starts(self, n: int) -> Model:
        one, size = self._model(), (self.max_active_, self.n_candidates_)
        return one if n == 1 else side_by_side(one, n, _n_states(size))

    def _fitted_from(self, engine: Engine, n: int, key: Key[Array, ""], max_time: float | None) -> FitResult:
        model = self._from_starts(n)
        return fit(
            model,
            engine,
            key,
            limits=Limits(self.max_iter, self.tol, max_time),
            dtype=np.dtype(self.dtype_),
            verbose=self.verbose,
        )

    def _evaluated(self, model: Model, engine: Engine, params: PyTree) -> FitResult:
        with interrupts.shielded():
            return fit(model, engine, seed_key(0), params=params, dtype=np.dtype(self.dtype_))

    def _value_of(self, engine: Engine, n_rows: float, params: Params) -> float:
        """What starts are ranked by: nats of a row, -inf of one that has failed."""
        if self._settles(n_rows):  # by the program of exact EM, which is there anyway
            try:
                return self._evaluated(at_rest(self._settler()), engine, params).objective / n_rows
            except FitError:
                return -np.inf
        self.params_ = params
        size = self._size_in_use()
        size = self._larger_size() if size == (self.max_active_, self.n_candidates_) else size
        value = float(np.average(self._evidence(engine, size), weights=engine.weights))
        return value if np.isfinite(value) else -np.inf

    def _one_of(self, engine: Engine, found: FitResult, number: int) -> FitResult:
        """One of the starts that were learned from side by side."""
        if not isinstance(found.params, Starts):
            return found
        last = self._evaluated(evaluation(self._from_starts(len(found.params.values)), number), engine, found.params)
        history = _course((*found.history, *last.history), number)
        return found._replace(params=found.params.one(number), objective=last.objective, history=history, state=None)

    def _best_so_far(self, found: FitResult) -> FitResult:
        """The best of the starts that were cut short, as far as is known."""
        if not isinstance(found.params, Starts):
            return found
        number = int(np.argmax(np.nan_to_num(found.params.values, nan=-np.inf)))
        return found._replace(params=found.params.one(number), history=_course(found.history, number), state=None)

    def _rounding_foreseen(self, engine: Engine, dtype: np.dtype) -> float:
        """With the most noise that there can be: all that columns vary."""
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
        """The least noise, as a part of the rows' root mean square, at which a row's density still has digits."""
        if getattr(self, "dtype_", SINGLE.name) == SINGLE.name:
            return sparse_coding.QUIETEST
        share = sparse_coding.rounding_share(self.n_features_in_, DOUBLE)
        return float(np.sqrt(2 * share * self.n_features_in_ / TOLD))

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

    def _end(self, engine: Engine, result: FitResult, n_rows: float, rows: np.ndarray) -> None:
        """The end of learning, with more states or with all."""
        seed = check_random_state(self.random_state).randint(np.iinfo(np.int32).max)
        everything = int(self.n_causes), int(self.n_causes)
        settles = self._settles(n_rows)
        while result.reason == Stop.COMPLETED and not settles and self._is_worth(size := self._next_size(), rows):
            result = self._further(engine, result, size, seed_key(seed, f"grow to {size}"))
        if result.reason == Stop.COMPLETED and settles:
            result = self._further(engine, result, everything, seed_key(seed, "settle"), settling=True)
        loss = 0.0 if self._size_in_use()[0] == self.n_causes else self._loss(rows)
        self.params_ = eqx.tree_at(lambda p: p.truncation_loss, self.params_, np.asarray(loss))
        self._expose()

    def _settles(self, n_rows: float) -> bool:
        """Whether learning ends with exact EM: it was asked for, or "auto" has the time."""
        h = int(self.n_causes)
        if None in self._given_size():
            gamma, candidates = (h if x is None else x for x in self._given_size())
            return (gamma, candidates) == (h, h) and h <= MOST_SETTLED and n_rows * 2**h <= EXACT_WORK
        return self._given_size() == (h, h)

    def _further(
        self,
        engine: Engine,
        result: FitResult,
        size: tuple[int, int],
        key: Key[Array, ""],
        settling: bool = False,
    ) -> FitResult:
        """Learning goes on from where it stands, with these gamma and H'."""
        before = self.max_active_, self.n_candidates_
        self.max_active_, self.n_candidates_ = size
        try:
            more = self._settled(engine, result, key) if settling else self._grown(engine, result, key)
        except KeyboardInterrupt:  # what was learned before stands
            self.max_active_, self.n_candidates_ = before
            more = result._replace(history=(), n_iter=0, seconds=0.0, reason=Stop.INTERRUPTED)
        result = more._replace(
            history=(*result.history, *more.history),
            n_iter=result.n_iter + more.n_iter,
            seconds=result.seconds + more.seconds,
        )
        self._adopt(result)
        return result

    def _is_worth(self, size: tuple[int, int], rows: np.ndarray) -> bool:
        """Whether learning goes on with this gamma and H'."""
        if size == (self.max_active_, self.n_candidates_):
            return False
        return None not in self._given_size() or self._gain(size, rows) > self.truncation_tol

    def _grown(self, engine: Engine, result: FitResult, key: Key[Array, ""]) -> FitResult:
        """A third of the iterations again, from where learning stands, with more states and with N_cut rows."""
        n_iter = -(-int(self.max_iter) // 3)
        size = self.max_active_, self.n_candidates_
        model = self._learner(size, n_iter, None if self.cut is None else (0, 0), 1.0)
        return self._fitted_on(model, engine, result, key, n_iter)

    def _settled(self, engine: Engine, result: FitResult, key: Key[Array, ""]) -> FitResult:
        """Exact EM from where learning stands, until nothing is left to gain."""
        most = max(SETTLING * int(self.max_iter), LEAST_SETTLING)
        return self._fitted_on(self._settler(), engine, result, key, most)

    def _fitted_on(
        self, model: Model, engine: Engine, result: FitResult, key: Key[Array, ""], max_iter: int
    ) -> FitResult:
        left = None if self.max_time is None else max(self.max_time - result.seconds, 1e-3)
        return fit(
            model,
            engine,
            key,
            params=result.params,
            limits=Limits(max_iter, self.tol, left),
            dtype=np.dtype(self.dtype_),
            verbose=self.verbose,
        )

    def _some_rows(self, engine: Engine) -> tuple[float, np.ndarray]:
        """The number of rows, and a random sample of them, the same on every engine."""
        with interrupts.shielded():  # what was learned before stands
            summary = summarise(engine)
        n = min(int(summary.n_rows), len(summary.sample))
        rows = np.where(np.asarray(summary.sample_observed)[:n] > 0, np.asarray(summary.sample)[:n], np.nan)
        return float(summary.n_rows), rows

    def _loss(self, rows: np.ndarray) -> float:
        """What more states would add, as far as they can be looked at; NaN where none can."""
        size = self._larger_size()
        return max(self._gain(size, rows), 0.0) if size > (self.max_active_, self.n_candidates_) else np.nan

    def _larger_size(self) -> tuple[int, int]:
        """gamma and H' beyond those learned with, as far as they can be looked at."""
        h, now = int(self.n_causes), (self.max_active_, self.n_candidates_)
        gamma, candidates = min(now[0] + 2, h), min(now[1] + 3, h)
        while _n_states((gamma, candidates)) > 4 * MOST_STATES and (gamma, candidates) > now:
            gamma, candidates = (gamma - 1, candidates) if gamma > now[0] else (gamma, candidates - 1)
        return gamma, candidates

    def _gain(self, size: tuple[int, int], rows: np.ndarray) -> float:
        """What these gamma and H' would add to the evidence of a row on average."""
        now, engine = (self.max_active_, self.n_candidates_), MemoryEngine(rows)
        return float(np.mean(self._evidence(engine, size) - self._evidence(engine, now)))

    def _evidence(self, engine: Engine, size: tuple[int, int]) -> np.ndarray:
        # all states: as `score` has it, so that it is compiled once
        exact = size == (self.n_causes,) * 2 and self._size_in_use() == size
        function = self._likelihood(self._model()) if exact else _log_evidence(*size)
        with interrupts.shielded():
            parts = list(self._map_engine(function, engine, dtype=np.dtype(self.dtype_)))
        return np.concatenate([part[0].value if exact else part for part in parts]).astype(np.float64)

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
        fits = whole and 1 <= gamma <= min(candidates, MOST_LOADED) and candidates <= self.n_causes
        if not fits or _n_states((gamma, candidates)) > 2**MOST_LOADED:  # these are no fewer than 2^gamma
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


def _separate(params: PyTree) -> list[Params]:
    return [params.one(i) for i in range(len(params.values))] if isinstance(params, Starts) else [params]


def _course(history: tuple[Record, ...], number: int) -> tuple[Record, ...]:
    """The records of one of several starts: what it had reached is told by the next; the last is its own."""
    told = [record.watched["values"][number] for record in history[1:]]
    values = [*told, history[-1].objective]
    return tuple(
        record._replace(
            objective=float(value),
            watched={name: _plain(x[number]) for name, x in record.watched.items() if name != "values"},
        )
        for record, value in zip(history, values, strict=True)
    )


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x


def _found_often(values: list[float], often: int) -> bool:
    """Whether the best was found by so many fits."""
    return bool(values) and sum(value > max(values) - SAME for value in values) >= often


def _n_states(size: tuple[int, int]) -> int:
    gamma, candidates = size
    return sum(comb(candidates, k) for k in range(gamma + 1))


# Compiled code is found again by the identity of its function, so these are made once for each size.


@cache
def _most_probable(gamma: int, candidates: int, n_states: int) -> Callable[..., Any]:
    states = state_table(candidates, gamma)

    def function(params: Params, shared: Shared, batch: Batch) -> tuple[Array, ...]:
        best = probable_states(params, shared, batch, states, n_states)
        means = expectations(params, shared, batch, states).means.T
        return means, best.states.astype(np.uint8), best.probabilities

    return function


@cache
def _log_evidence(gamma: int, candidates: int) -> Callable[..., Any]:
    states = state_table(candidates, gamma)

    def function(params: Params, shared: Shared, batch: Batch) -> Float[Array, " rows"]:
        return expectations(params, shared, batch, states).log_evidence

    return function
