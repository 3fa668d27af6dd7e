"""`CombinationMachine`: a restricted Boltzmann machine that knows its own likelihood."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions

from latentbits.core.errors import ModelFileError
from latentbits.core.model import Model, Stop
from latentbits.engines.column_sums import Powers
from latentbits.engines.fit import FitResult
from latentbits.engines.order import in_random_order
from latentbits.engines.passes import Engine
from latentbits.engines.stream import moved
from latentbits.engines.summary import column_moments, row_powers
from latentbits.estimators.base import LatentModel
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.machine_fits import MachineFits
from latentbits.estimators.precision import NEGLIGIBLE_NATS_PER_ROW, SINGLE
from latentbits.models.combination_machine import model as machines
from latentbits.models.combination_machine.machine import UNITS, Params
from latentbits.models.combination_machine.partition import n_enumerated
from latentbits.models.combination_machine.recipes import RECIPES, recipe_of
from latentbits.models.combination_machine.tuning import STOCHASTIC_RATE

__all__ = ["CombinationMachine"]


class CombinationMachine(MachineFits):
    """Influence combination machine (restricted Boltzmann machine; Freund & Haussler 1994).

    Binary causes that act together: each row has hidden units h in {0, 1}, and each column a field
    b_j + sum_i h_i w_ij, whose sign the bit prefers: P(bit = 1 | h) = logistic(2 field).  With x = -1, +1 for the bits,

        P(x) = exp(b . x) prod_i (1 + exp(w_i . x + theta_i)) / Z.

    Several units can be on at once, so m units describe up to 2^m kinds of rows.  `transform` gives P(h_i = 1 | x).
    Where the 2^m hidden states (or the 2^d rows, if those are fewer) can be counted, everything is exact: the
    likelihood, its gradient, completion, samples.  Beyond, log Z is an estimate that knows its error.

    Parameters
    ----------
    n_hidden : int, default=8
        Number of hidden units, m.
    kind : {"binary", "real"}, default="binary"
        Bits, or real numbers with unit variance around b + w(h) (the paper's equations 2.5 to 2.8).
    input_bias : bool, default=True
        Whether columns have a bias b; the paper's machine has none.
    learner : {"auto", "gradient", "pursuit", "pursuit+gradient", "stochastic"}, default="auto"
        "gradient" climbs the exact likelihood; "pursuit" adds one unit after the other (projection pursuit; fast, any
        number of units, and it may find fewer than `n_hidden`); "stochastic" follows sampled gradients (persistent
        contrastive divergence, begun by a pursuit), for hundreds of units.  "auto" is "pursuit+gradient" where at most
        2^16 states are to be summed, "stochastic" above.
    n_epochs : int or None
        Passes over the rows in batches.  None takes 100 ("stochastic"); for the gradient, 100 with exact and 30 with
        sampled expectations, but no more than 4000 updates.  More for small tables, which have few batches of 100 rows.
    learning_rate : float or None
        Step size at the start; it falls along a cosine.  None takes 0.03 (Adam), 0.1
        (momentum) or 0.01 ("stochastic").  Smaller where the history swings; the paper's reproduction has its own.
        Where "stochastic" ends with rows less probable than independent columns make them, its chains could not follow:
        it learns again with a fifth of it, at most twice, and says so.
    validation_fraction : "auto" or float, default="auto"
        Share of the rows that is held out of the gradient, to stop when they gain no more (where these are 50 or
        more); 0 learns from all rows.  "auto" is 0.1, but 0 where there are fewer rows than weights and the rows choose
        the prior: rows are worth more there than the stop.
        With ``weight_prior="auto"`` all rows are learned from at last, in a few steps from there.
        With ``fit(X, X_val=V)`` none of X is held out: L-BFGS ends when V gains no more.
        The paper's ascent with momentum, pursuit and "stochastic" always learn from all.
    weight_prior : "auto", float or None, default="auto"
        Standard deviation of a Gaussian prior on the weights, in L-BFGS and in "stochastic".  "auto" chooses it by the
        evidence of the rows while these are learned from, up to 3: narrow where a table has few rows and many columns,
        so that noise is not learned.  None is maximum likelihood.
    max_active : int or None
        A machine that has only hidden states with at most this number of active units (the paper's section 3.0.1): its
        sums take O(m^k) terms, and with 1 it is a mixture of n_hidden + 1 products.  Not with missing entries, and
        with a gradient only.  `left_out_` is what the same machine with all states would have in the others.
    recipe : {"ours", "freund1994"} or dict, default="ours"
        How the pursuit, the gradient and the chains go: ours, the paper's, or ours with changes by the names of
        `latentbits.models.combination_machine.recipes.Recipe`, such as ``{"n_chains": 100}``.  Ours has Adam on batches
        and then L-BFGS, and 8 starts for every unit of a pursuit; the paper's has ascent with momentum for `max_iter`
        steps, and one start.
    annealing : (int, int), default=(512, 2000)
        Chains and temperatures of the estimate of log Z, where it cannot be summed; more make its error smaller.
    random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.  `max_iter` and `tol` are those of L-BFGS, or of the momentum.  Restarts are ranked by the
        held-out rows where there are 50 or more, otherwise by all.

    Attributes
    ----------
    components_ : ndarray of shape (n_hidden, n_columns)
        Weights w, for inputs of -1 and +1.
    hidden_bias_ : ndarray of shape (n_hidden,)
        theta.
    input_bias_ : ndarray of shape (n_columns,)
        b; zeros without `input_bias`.
    log_partition_ : float
        log Z.
    log_partition_error_ : float
        Its standard error; 0 when exact.
    log_partition_effective_ : float
        Share of the annealed chains that count; 1 when exact.
    weight_prior_ : float or None
        Standard deviation of the prior that the weights were learned with; None where there was none ("pursuit" and
        "momentum" know of none), NaN if the model file is of a version that did not keep it.
    left_out_, left_out_error_ : float
        With `max_active`: the share of Z in states with more active units, estimated, and its standard error.  With
        `max_terms` of the recipe: the share of Z that is not in the terms found.
    n_parameters_ : int
        Free parameters: weights and biases, those of bits that are constant or were never seen left out.
    dtype_, history_, history_table_, objective_, left_to_gain_, n_iter_, converged_, stop_reason_, n_rows_, \
    n_features_in_, feature_names_in_
        As everywhere.  `history_` has log-likelihoods: of the held-out rows, scaled up to all, and at last of all rows.
        `history_table_` also has the gains of a pursuit and the like.

    Examples
    --------
    >>> import numpy as np
    >>> from latentbits import CombinationMachine
    >>> rng = np.random.default_rng(0)
    >>> causes = rng.random((400, 2)) < 0.5
    >>> X = np.repeat(causes, 3, axis=1) ^ (rng.random((400, 6)) < 0.05)
    >>> m = CombinationMachine(2, random_state=0).fit(X)
    >>> m.complete([[1, 1, np.nan, 0, 0, np.nan]]).round().tolist()
    [[1.0, 1.0, 1.0, 0.0, 0.0, 0.0]]
    >>> m.log_partition_error_
    0.0
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_hidden": [Interval(Integral, 1, None, closed="left")],
        "kind": [StrOptions({"binary", "real"})],
        "input_bias": ["boolean"],
        "learner": [StrOptions({"auto", *machines.LEARNERS})],
        "n_epochs": [Interval(Integral, 1, None, closed="left"), None],
        "learning_rate": [Interval(Real, 0, None, closed="neither"), None],
        "validation_fraction": [Interval(Real, 0, 1, closed="left"), StrOptions({"auto"})],
        "weight_prior": [Interval(Real, 0, None, closed="neither"), StrOptions({"auto"}), None],
        "max_active": [Interval(Integral, 1, None, closed="left"), None],
        "recipe": [StrOptions(set(RECIPES)), dict],
        "annealing": [tuple, list],
    }

    components_: np.ndarray
    hidden_bias_: np.ndarray
    input_bias_: np.ndarray
    log_partition_: float
    log_partition_error_: float
    log_partition_effective_: float
    weight_prior_: float | None
    left_out_: float
    left_out_error_: float

    # Real rows that are far from 0 are moved there, in float64: b . x, |x|^2 / 2 and log Z would cancel.  `params_` is
    # the machine of the moved rows; the attributes are those of the user's.
    _offset: np.ndarray | None = None

    _sparse: ClassVar[bool] = True
    _params_class: ClassVar[type] = Params
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "log_partition_error": (0, np.inf),
        "log_partition_effective": (0, 1),
        "precision": (0, np.inf),
    }
    _with_holes: ClassVar[frozenset[str]] = frozenset({"precision"})

    def __init__(
        self,
        n_hidden: int = 8,
        *,
        kind: str = "binary",
        input_bias: bool = True,
        learner: str = "auto",
        n_epochs: int | None = None,
        learning_rate: float | None = None,
        validation_fraction: float | str = "auto",
        weight_prior: float | str | None = "auto",
        max_active: int | None = None,
        recipe: str | Mapping[str, Any] = "ours",
        annealing: tuple[int, int] = (512, 2000),
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 2000,
        max_time: float | None = None,
        tol: float = 1e-5,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.n_hidden = n_hidden
        self.kind = kind
        self.input_bias = input_bias
        self.learner = learner
        self.n_epochs = n_epochs
        self.learning_rate = learning_rate
        self.validation_fraction = validation_fraction
        self.weight_prior = weight_prior
        self.max_active = max_active
        self.recipe = recipe
        self.annealing = annealing
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    @classmethod
    def from_parameters(
        cls,
        components: Any,
        hidden_bias: Any,
        input_bias: Any = None,
        *,
        random_state: Any = None,
        **settings: Any,
    ) -> Self:
        """Make a machine with given parameters: for a known truth, or weights learned elsewhere.

        Parameters
        ----------
        components : array-like of shape (n_hidden, n_columns)
            Weights, for inputs of -1 and +1.
        hidden_bias : array-like of shape (n_hidden,)
        input_bias : array-like of shape (n_columns,) or None
            None is 0.
        random_state : int, RandomState or None
            Seed of the estimate of log Z, where it cannot be summed.
        **settings
            Arguments of the constructor, such as ``kind="real"``.

        Examples
        --------
        >>> from latentbits import CombinationMachine
        >>> m = CombinationMachine.from_parameters([[1.0, -1.0]], [0.0])
        >>> m.score_samples([[1, 0], [0, 1]]).round(3).tolist()
        [-0.478, -2.478]
        """
        weights = np.atleast_2d(np.asarray(components, np.float64))
        m, d = weights.shape
        theta = np.asarray(hidden_bias, np.float64)
        bias = np.zeros(d) if input_bias is None else np.asarray(input_bias, np.float64)
        for name, values, shape in (("hidden_bias", theta, (m,)), ("input_bias", bias, (d,))):
            if values.shape != shape:
                raise ValueError(
                    f"{name} must have shape {shape}, as components have {weights.shape}; got {values.shape}"
                )
        if not all(np.isfinite(values).all() for values in (weights, theta, bias)):
            raise ValueError("components, hidden_bias and input_bias must be finite")
        machine = cls(m, input_bias=input_bias is not None, **settings)
        machine._validate_params()
        machine.n_features_in_ = d
        if machine.takes_reals and _is_far(bias):
            machine._offset = bias
            theta, bias = theta + weights @ bias, np.zeros(d)
        params = machine._known(weights, theta, bias, random_state)
        machine._adopt(FitResult(params, None, -np.inf, (), 0, Stop.GIVEN, 0.0))
        machine._warn_of_few_chains()
        return machine

    def estimate_log_partition(self, n_chains: int = 2048, n_steps: int = 10000, random_state: Any = None) -> Self:
        """Estimate log Z again, with more chains or temperatures; where it can be summed, it is.

        Parameters
        ----------
        n_chains, n_steps : int
            Chains and temperatures of annealed importance sampling.
        random_state : int, RandomState or None
            Seed.

        Returns
        -------
        self
        """
        self._fitted()
        if n_chains < 2 or n_steps < 1:
            raise ValueError(f"n_chains must be at least 2 and n_steps at least 1, got {n_chains} and {n_steps}")
        p = self.params_
        arrays = p.weights, p.hidden_bias, p.input_bias
        self.params_ = self._known(*arrays, random_state, (n_chains, n_steps), precision=p.precision)
        self._expose()
        self._warn_of_few_chains()
        return self

    # ---------------------------------------------------------------- inside

    @property
    def _has_prior(self) -> bool:
        return self.weight_prior is not None

    def _model(self) -> Model:
        learner, recipe = self._learner(), recipe_of(self.recipe)
        stochastic, watched = learner == "stochastic", self._held_out is not None
        n_states = n_enumerated(UNITS[self.kind], int(self.n_hidden), self.n_features_in_)
        # the most that are summed for every batch; with more, chains are cheaper until L-BFGS
        sampled = not stochastic and n_states > 12 and not self._few_terms()
        rate = STOCHASTIC_RATE if stochastic else 0.1 if recipe.optimizer == "momentum" else 0.03
        rate = self._shortened * float(self.learning_rate or rate)
        return machines.model(
            int(self.n_hidden),
            self.kind,
            input_bias=bool(self.input_bias),
            learner=learner,
            recipe=recipe,
            n_epochs=int(self.n_epochs or (30 if sampled else 100)),
            # then L-BFGS takes over: by then it is in the basin of a good optimum
            n_updates=4000 if self.n_epochs is None else None,
            learning_rate=rate,
            held_out=0.0 if watched else self._share(),
            max_active=self._most_active(),
            weight_prior=self.weight_prior if self.weight_prior in (None, "auto") else float(self.weight_prior),
            sampled=sampled,
            refit_biases=machines.is_exact(UNITS[self.kind], self.n_hidden, self.n_features_in_),
            annealing=self._annealing(),
            ranked=self.n_init > 1,
            watched=watched,
        )

    @property
    def real_valued(self) -> bool:
        """Whether rows are real numbers: `kind`."""
        return self.kind == "real"

    @property
    def _sample_dtype(self) -> Any:
        return np.float64 if self.real_valued else np.uint8

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        engine = super()._open(X, reset=reset, sample_weight=sample_weight)
        if reset:
            engine = in_random_order(engine)  # updates are made from blocks of rows
            self._offset = None
            if self.takes_reals and self.input_bias:  # without biases of inputs 0 is not a place like any other
                mean = column_moments(engine).mean
                self._offset = mean if _is_far(mean) else None
        return engine if self._offset is None else moved(engine, -self._offset)

    def _in_place(self, rows: np.ndarray) -> np.ndarray:
        return rows if self._offset is None else rows + self._offset

    def _rounding_foreseen(self, engine: Engine, dtype: np.dtype) -> float:
        _, mean, variance = column_moments(engine)
        return machines.rounding_share(engine.n_features, dtype) * float(np.sum(mean**2 + variance))

    def _rounding_of(self, engine: Engine, dtype: np.dtype) -> Powers:
        share = machines.rounding_share(engine.n_features, dtype)
        mean, largest = row_powers(engine)
        return Powers(share * mean, share * largest)

    def _expose(self) -> None:
        p = self.params_
        self.components_, self.hidden_bias_, self.input_bias_ = p.weights, p.hidden_bias, p.input_bias
        self.log_partition_ = float(p.log_partition)
        if self._offset is not None:  # E(x - c) = E'(x) + b . c + |c|^2 / 2, with theta' = theta - W c and b' = b + c
            self.log_partition_ += float(p.input_bias @ self._offset + 0.5 * np.sum(self._offset**2))
            self.hidden_bias_ = p.hidden_bias - p.weights @ self._offset
            self.input_bias_ = p.input_bias + self._offset
        self.log_partition_error_ = float(p.log_partition_error)
        self.log_partition_effective_ = float(p.log_partition_effective)
        self.weight_prior_ = None if p.precision == 0 else float(p.precision) ** -0.5
        self._n_features_out = m = len(self.hidden_bias_)
        self.n_parameters_ = m + (m + bool(self.input_bias)) * self._n_varying

    def _off_maximum(self) -> Iterator[str]:
        learner = self._learner()
        if "gradient" not in learner:
            yield f"learner={learner!r} does not look for it"
        elif recipe_of(self.recipe).optimizer == "adam":
            if self.weight_prior_ is not None:
                yield f"weight_prior={self.weight_prior_:.2g}"
            if self._rows_have_stopped:
                yield f"validation_fraction={self._share():g}"
        if (n_terms := recipe_of(self.recipe).max_terms) is not None:
            yield f"max_terms={n_terms} of the recipe"

    def _provisos(self) -> Iterator[str]:
        if self.log_partition_error_ > 0:
            yield f"by an estimate of log Z, ± {self.log_partition_error_:.2g} nats"

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("unit", self._input_names(), self.components_)

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | ({} if self._offset is None else {"offset": self._offset.tolist()})

    def _take_extra(self, extra: dict[str, Any]) -> None:
        offset = extra.get("offset")
        if offset is not None:
            whole = isinstance(offset, list) and all(isinstance(x, float) and np.isfinite(x) for x in offset)
            if not whole or len(offset) != self.n_features_in_ or not self.takes_reals:
                raise ModelFileError(
                    f"offset must be a number for each of {self.n_features_in_} columns of real numbers"
                )
            self._offset = np.array(offset)
        super()._take_extra({name: value for name, value in extra.items() if name != "offset"})

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        m, d = int(self.n_hidden), self.n_features_in_
        if self.learner == "pursuit":
            m = min(m, len(self.params_.hidden_bias))  # it may find fewer units
        scalars = ("log_partition", "log_partition_error", "log_partition_effective", "precision")
        return {"weights": (m, d), "hidden_bias": (m,), "input_bias": (d,), **dict.fromkeys(scalars, ())}


def _is_far(place: np.ndarray) -> bool:
    """Check whether float32 has too few digits for log p(x) around a place, in units of the noise."""
    return machines.rounding_share(len(place), SINGLE) * float(np.sum(place**2)) > NEGLIGIBLE_NATS_PER_ROW
