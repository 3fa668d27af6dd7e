"""`NoisyOrNetwork`: layers of hidden causes, each an OR of the causes above it."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from functools import partial
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, Self

import jax
import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils._set_output import _get_output_config

from latentbits.core.batch import MISSING, Batch
from latentbits.core.errors import ModelFileError
from latentbits.core.model import Model
from latentbits.engines.fit import FitResult
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.order import in_random_order
from latentbits.engines.passes import Engine
from latentbits.engines.summary import summarise
from latentbits.estimators.answers import means_of
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.explanations import Explanation, explanation_of
from latentbits.models.noisy_or import model as networks
from latentbits.models.noisy_or import sampling, tuning
from latentbits.models.noisy_or.network import Params
from latentbits.models.noisy_or.recipes import RECIPES, recipe_of
from latentbits.models.noisy_or.settings import counts_of, prior_of

__all__ = ["NoisyOrNetwork"]


class NoisyOrNetwork(WithFitReport):
    """Multilayer belief network of noisy-OR units (Lewicki & Sejnowski 1996).

    Each unit of each layer is an OR of its causes in the layer above, every one of which may fail:

        P(S_j = 1 | layer above) = 1 - exp(-(b_j + sum_i S_i w_ij)),     w, b >= 0.

    A cause explains those of its children that are on, two causes of the same child compete to explain it, and feedback
    from above settles what is ambiguous below.  `transform` gives the probability of every hidden unit, `explain` the
    most probable causes of a row.

    Parameters
    ----------
    layer_sizes : sequence of int, default=(10, 5)
        Hidden units of each layer, the lowest first; the inputs are left out.
    bias : bool, default=True
        Whether units have biases, causes that are always on.  False, as in the paper: only the top layer has, and the
        others a `leak`.
    leak : float, default=1e-3
        The least bias of a unit while layers are learned one by one; without one, a bit that no cause explains would be
        impossible.  When our recipe takes all layers together at the end, a bias may be smaller, as the bit is rarer:
        down to a tenth of a one in all rows.  For the paper's schedules and for ``bias=False`` it is the least, with a
        warning where a column has fewer ones than that gives.
    prior : (float, float) or None, default=(1.0, 1.5)
        Shape alpha and rate beta of the gamma prior of the weights, p(w) ~ w^(alpha - 1) exp(-beta w); None is maximum
        likelihood.  The larger beta, the more evidence a weight needs: raise it where units have children by chance, in
        tables of few rows.  alpha is at least 1; above, no weight is 0: for tables in which every cause may bring any
        column.
    recipe : {"ours", "lewicki1996"} or dict, default="ours"
        "lewicki1996" is the paper's schedule: layer by layer, with one update every `batch_size` rows.  "ours" goes
        from layer to layer too, each without those above it, but splits units that stand for several causes, and gives
        a half to units that do nothing or are duplicates; at the end all layers are learned together.  A dict is ours
        with changes by the names of `latentbits.models.noisy_or.recipes.Recipe`, such as ``{"inference": "exact"}``,
        which sums over all states: for a small network without the noise of samples.
    n_updates : int, default=120
        Updates of each layer of our recipe; more for many units, whose duplicates take time to find.
    batch_size : int or None, default=None
        Rows for an update; None takes 200 for the paper's schedules, otherwise 2000.  Our recipe remembers what it has
        seen of causes in one of a thousand rows; for rarer ones, or with the paper's, take more.  Rows of an array or a
        memory map are shuffled; those of a stream are taken as they come, and should be in no order.
    sampling : (int, int), default=(1, 15)
        Gibbs chains of each row in learning, and most sweeps of each; twice as many sweeps when all layers are learned
        together.  More chains make up for few rows.  Chains start with all units on, so that units which the row
        contradicts go off first; more sweeps help where causes are hard to tell apart.
    warm_start : bool, default=False
        `fit` goes on from what is fitted: layers that `layer_sizes` has in addition are learned on top of the others.
    annealing : (int, int), default=(16, 100)
        Chains and temperatures of the estimate of log p(x), where it cannot be summed; more make its error smaller.
    random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.  `max_iter` limits the updates of every stage; `tol` ends exact EM of small networks.  Real
        tables have many maxima, and which one is found depends on the seed (of 8 causes of digits, single starts differ
        by 0.2 nats an unseen row): raise `n_init`.

    Attributes
    ----------
    weights_ : list of ndarray of shape (parents, children)
        Bottom first.
    biases_ : list of ndarray
        One array a layer, the inputs first.
    n_parameters_ : int
        Free parameters: weights and biases, those of columns that are constant or were never seen left out, and those
        at their bound counted too.  With ``bias=False`` the biases of the top layer alone are free.
    dtype_, history_, history_table_, objective_, left_to_gain_, n_iter_, converged_, stop_reason_, n_rows_, \
    n_features_in_, feature_names_in_
        As everywhere.  `history_` is the log joint probability of rows and sampled states, or log p(x) plus the log
        prior of the weights where states are summed over at the end.
    cost_history_ : ndarray
        The objective of every pass in bits a row, as the paper plots it: of sampled states an upper bound of the
        description length, on average.

    Examples
    --------
    >>> from latentbits import NoisyOrNetwork
    >>> from latentbits.data import toys
    >>> toy = toys.lines(1000, random_state=0)
    >>> m = NoisyOrNetwork((10,), recipe={"inference": "exact"}, random_state=0).fit(toy.X)
    >>> [w.shape for w in m.weights_], [b.shape for b in m.biases_]
    ([(10, 25)], [(25,), (10,)])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "layer_sizes": ["array-like"],
        "bias": ["boolean"],
        "leak": [Interval(Real, 1e-9, 0.5, closed="both")],
        "prior": [tuple, list, None],
        "recipe": [StrOptions(set(RECIPES)), dict],
        "n_updates": [Interval(Integral, 1, None, closed="left")],
        "batch_size": [Interval(Integral, 1, None, closed="left"), None],
        "sampling": [tuple, list],
        "warm_start": ["boolean"],
        "annealing": [tuple, list],
    }

    weights_: list[np.ndarray]
    biases_: list[np.ndarray]
    cost_history_: np.ndarray

    _params_class: ClassVar[type] = Params
    # chains and steps of the estimate of log p(x) of each row
    _most_work: ClassVar[tuple[tuple[str, ...], int]] = (("annealing",), 10**6)
    _begun: Params | None = None  # the network that a warm start goes on from

    def __init__(
        self,
        layer_sizes: Any = (10, 5),
        *,
        bias: bool = True,
        leak: float = 1e-3,
        prior: tuple[float, float] | None = (1.0, 1.5),
        recipe: str | Mapping[str, Any] = "ours",
        n_updates: int = 120,
        batch_size: int | None = None,
        sampling: tuple[int, int] = (1, 15),
        warm_start: bool = False,
        annealing: tuple[int, int] = (16, 100),
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-4,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.layer_sizes = layer_sizes
        self.bias = bias
        self.leak = leak
        self.prior = prior
        self.recipe = recipe
        self.n_updates = n_updates
        self.batch_size = batch_size
        self.sampling = sampling
        self.warm_start = warm_start
        self.annealing = annealing
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # ---------------------------------------------------------------- learning

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        checkpoint: Any = None,
        engine: Literal["dask"] | None = None,
        X_val: Any = None,
    ) -> Self:
        """Learn the network from bits, or go on (`warm_start`).

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            0, 1 or bool, NaN for missing; whatever other estimators take.
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
        begun = self.__dict__.get("params_") if self.warm_start else None
        if begun is not None:
            known = tuple(len(w) for w in begun.weights)
            if recipe_of(self.recipe).schedule != "robust" and self._sizes() == known:
                raise ValueError("warm_start: the paper's schedule has no layer left to learn; add one to layer_sizes")
            if self._sizes()[: len(known)] != known:
                raise ValueError(
                    f"warm_start goes on from layers {known}: layer_sizes must begin with them, got {self._sizes()}"
                )
        self._begun = begun
        try:
            return super().fit(X, y, sample_weight, checkpoint, engine, X_val)
        finally:
            del self._begun

    def _sizes(self) -> tuple[int, ...]:
        sizes = np.atleast_1d(np.asarray(self.layer_sizes))
        if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
            raise ValueError(f"layer_sizes must be whole numbers of at least 1, got {self.layer_sizes!r}")
        return tuple(int(size) for size in sizes)

    @property
    def _has_prior(self) -> bool:
        return prior_of(self.prior) != (1, 0)

    def _model(self) -> Model:
        sizes, recipe = self._sizes(), recipe_of(self.recipe)
        if recipe.inference == "exact" and not networks.is_exact(sizes, tuning.EXACT_LIKELIHOOD_MOST_PAIRS):
            raise ValueError(
                f"recipe: inference 'exact' sums over pairs of states of neighbouring layers, too many for "
                f"layer_sizes={sizes}; leave it out"
            )
        batch_size = self.batch_size or (2000 if recipe.schedule == "robust" else 200)
        alpha, beta = prior_of(self.prior)
        n_samples, n_sweeps = counts_of("sampling", self.sampling, "sweeps", 1)
        n_chains, n_steps = counts_of("annealing", self.annealing, "temperatures", 4)
        begun = self._begun
        model = networks.model(
            sizes,
            bias=bool(self.bias),
            leak=float(self.leak),
            alpha=alpha,
            beta=beta,
            recipe=recipe._replace(n_epochs=min(recipe.n_epochs, int(self.max_iter))),
            n_updates=min(int(self.n_updates), int(self.max_iter)),
            n_joint=min(tuning.JOINT_UPDATES, int(self.max_iter)),
            batch_size=int(batch_size),
            n_sweeps=n_sweeps,
            n_samples=n_samples,
            n_chains=n_chains,
            n_steps=n_steps,
            ranked=self.n_init > 1,
            first_layer=1 if begun is None else len(begun.weights) + 1,
        )
        return model if begun is None else model._replace(init=networks.keeping_layers(model.init, begun))

    @property
    def _double_rows(self) -> int:
        sizes = self._sizes()
        if recipe_of(self.recipe).inference == "gibbs" or not networks.is_exact(sizes, tuning.EXACT_MOST_PAIRS):
            return 0
        # rows x columns x states for which float64 takes no time to speak of
        return 2**24 // (2 ** sizes[0] * self.n_features_in_)

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        engine = super()._open(X, reset=reset, sample_weight=sample_weight)
        if self._begun is not None and engine.n_features != self._begun.weights[0].shape[1]:
            raise ValueError(
                f"warm_start goes on from {self._begun.weights[0].shape[1]} columns, X has {engine.n_features}"
            )
        return in_random_order(engine) if reset else engine  # updates are made from blocks of rows

    def _expose(self) -> None:
        self.weights_ = [np.asarray(w) for w in self.params_.weights]
        self.biases_ = [np.asarray(b) for b in self.params_.biases]
        self._n_features_out = sum(len(w) for w in self.weights_)
        sizes = [self._n_varying, *(len(w) for w in self.weights_)]
        n_biases = sum(sizes) if self.bias else sizes[-1]
        self.n_parameters_ = n_biases + sum(below * above for below, above in pairwise(sizes))

    def _off_maximum(self) -> Iterator[str]:
        if self._has_prior:
            yield "the prior of the weights, alpha={:g} and beta={:g}".format(*prior_of(self.prior))

    def _provisos(self) -> Iterator[str]:
        if self._has_prior:
            yield "with the penalty of alpha={:g}, beta={:g}".format(*prior_of(self.prior))

    def _causes(self) -> Iterator[tuple[str, str]]:
        """List units of the lowest layer by the columns that they turn on, with the probability."""
        strength = -np.expm1(-self.weights_[0])
        for place, columns in named_weights("", self._input_names(), strength, ".2f"):
            yield f"h1_{int(place) - 1}", f"turns on {columns}"

    def _notes_of_fit(self, total: float, error: float) -> Iterator[str]:
        yield from super()._notes_of_fit(total, error)
        varying = np.delete(self.weights_[0], self._idle, axis=1)
        n_zero = sum(int(np.sum(w == 0)) for w in (varying, *self.weights_[1:]))
        if n_zero:
            yield f"{n_zero} weights are at their bound of 0, and are counted all the same"

    def _finish(self, engine: Engine, result: FitResult) -> None:
        summary = summarise(engine)
        self.cost_history_ = -self.history_table_["objective"] / (float(summary.n_rows) * np.log(2))
        self._warn_of_leak(np.asarray(summary.mean), np.asarray(summary.observed))

    def _warn_of_leak(self, share: np.ndarray, n_rows: np.ndarray) -> None:
        """Warn where the least bias alone gives more ones than the table has."""
        given, found = -np.expm1(-self.biases_[0]), (share * n_rows + 0.5) / (n_rows + 1)
        more = np.flatnonzero(given > 2 * found)
        if len(more):
            worst = more[np.argmax((given / found)[more])]
            warnings.warn(
                f"{len(more)} columns are rarer than the least bias lets them be: {self._input_names()[worst]!r} is on "
                f"in {share[worst]:.2g} of the rows, and by its bias alone in {given[worst]:.2g}; pass "
                f"leak={found[worst]:.1g}",
                stacklevel=6,
            )

    def _extra(self) -> dict[str, Any]:
        return super()._extra() | {"cost_history": self.cost_history_.tolist()}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        course = extra.get("cost_history")
        if not isinstance(course, list) or not all(isinstance(x, float) and np.isfinite(x) for x in course):
            raise ModelFileError("cost_history must be a list of numbers")
        self.cost_history_ = np.array(course)
        super()._take_extra({name: value for name, value in extra.items() if name != "cost_history"})

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        sizes = (self.n_features_in_, *self._sizes())
        weights = {f"weights.{k}": (above, below) for k, (below, above) in enumerate(pairwise(sizes))}
        return {**weights, **{f"biases.{k}": (size,) for k, size in enumerate(sizes)}}

    # ---------------------------------------------------------------- use

    def transform(self, X: Any, layer: int | None = None) -> np.ndarray:
        """Compute posterior probabilities that the hidden units are on.

        Exact where pairs of states of neighbouring layers are at most 2^16, otherwise averages over Gibbs chains.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        layer : int or None
            From 1, the lowest hidden layer; None gives all of them side by side, the lowest first.

        Returns
        -------
        ndarray of shape (n_rows, n_units)
        """
        model = self._fitted()
        if layer is not None and _get_output_config("transform", self)["dense"] != "default":
            raise ValueError(
                f"with set_output, take the columns h{layer}_... of transform(X) in place of layer={layer}"
            )
        chosen = slice(None) if layer is None else self._columns(layer)
        return self._map_rows(means_of(model), X)[:, chosen]

    def _columns(self, layer: int) -> slice:
        if not isinstance(layer, Integral) or not 1 <= layer <= len(self.weights_):
            raise ValueError(f"layer must be from 1 to {len(self.weights_)}, got {layer!r}")
        sizes = [len(w) for w in self.weights_]
        return slice(sum(sizes[: layer - 1]), sum(sizes[:layer]))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Name the hidden units, ``h<layer>_<unit>``, as columns of `transform`.

        Parameters
        ----------
        input_features : Ignored
            Present for scikit-learn's pipelines.
        """
        self._fitted()
        return np.asarray([name for names in self._unit_names() for name in names], dtype=object)

    def _unit_names(self) -> list[list[str]]:
        return [[f"h{layer}_{unit}" for unit in range(len(w))] for layer, w in enumerate(self.weights_, 1)]

    def explain(self, X: Any) -> list[Explanation]:
        """Find the most probable causes of each row, layer by layer, with what each of them explains.

        The states are the most probable ones together (of all that Gibbs chains with falling temperature have met),
        which need not be those that are most probable one by one.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        list of latentbits.estimators.explanations.Explanation
            With `causes` (a tuple a layer), `unexplained` and `log_joint`; ``print`` shows it in words.
        """
        found = self.posterior(X)
        rows = _bits_of(self._open(X, reset=False))
        names = [self._input_names(), *self._unit_names()]
        edges = np.cumsum([len(w) for w in self.weights_])[:-1]
        split = partial(np.split, indices_or_sections=edges)
        return [
            explanation_of(self.weights_, self.biases_, names, row, split(mode), split(mean), float(p))
            for row, mode, mean, p in zip(rows, found.mode, found.mean, found.log_joint, strict=True)
        ]

    def description_length(self, X: Any) -> np.ndarray:
        """Compute -log2 p(x) of each row: the bits that it takes to describe a row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing, which cost nothing.

        Returns
        -------
        ndarray of shape (n_rows,)
        """
        return -self.score_samples(X) / np.log(2)

    def sample(self, n: int = 1, random_state: Any = None, clamp: Mapping[str, int] | None = None) -> np.ndarray:
        """Draw rows from the network, or from what it is when some units are known.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None
            Seed.
        clamp : mapping of str to 0 or 1, optional
            Units that have a given state, by name: hidden units (``{"h2_0": 1}``) and columns.  The others are drawn
            from their distribution given these, by Gibbs sampling: causes above a clamped unit too are those that
            it suggests.

        Returns
        -------
        ndarray of shape (n, n_columns)
        """
        if not clamp:
            return super().sample(n, random_state)
        self._fitted()
        if n < 0:
            raise ValueError(f"n must be at least 0, got {n}")
        places = {name: k for k, name in enumerate([*self._input_names(), *self.get_feature_names_out()])}
        known = np.full(len(places), MISSING, np.uint8)
        for name, state in clamp.items():
            if name not in places:
                raise ValueError(f"clamp: there is no unit {name!r}; hidden units are h<layer>_<unit>, from h1_0")
            if state not in (0, 1):
                raise ValueError(f"clamp[{name!r}] must be 0 or 1, got {state!r}")
            known[places[name]] = int(state)
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        engine = MemoryEngine(np.tile(known, (n, 1)))
        parts = list(self._map_engine(_sample_given, engine, seed))
        drawn = np.concatenate(parts) if parts else np.zeros((0, self.n_features_in_))
        return drawn.astype(self._sample_dtype)


def _bits_of(engine: Engine) -> np.ndarray:
    """Collect the rows of an engine as one array, NaN for missing."""
    bits = np.concatenate([block.astype(np.float64) for block in engine.blocks()])
    bits[bits == MISSING] = np.nan
    return bits


def _sample_given(params: Params, shared: Any, batch: Batch) -> jax.Array:
    return sampling.sample_given(params, batch)
