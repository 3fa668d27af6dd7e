"""The `Model` record: what a family of equations must supply, and nothing else.

A model is a record of pure functions over pytrees.  It knows no device, file, cluster or progress bar.  Functions of
rows are compiled, in the precision of the rows; the rest is NumPy in float64 (`on_host`), or compiled in float64 where
parameters are many.  ``docs/add-a-model.md`` builds one step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

from jaxtyping import Float, Int, Key, UInt8, UInt32

from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.batch import Batch
from latentbits.core.module import Module

__all__ = [
    "Evaluate",
    "Iterate",
    "Learned",
    "LogLikelihood",
    "Measure",
    "Model",
    "OnePass",
    "Over",
    "Progress",
    "Schedule",
    "Stage",
    "Stop",
    "Summary",
    "Transform",
]

# Pytrees, each of a shape of the model's own.
Params = Any
Shared = Any
Stats = Any
State = Any
RowState = Any


class Progress(Module):
    """State of learning; schedules (annealing, cuts, step sizes) are functions of it.

    Attributes
    ----------
    iteration
        Passes over the data finished in this stage.
    max_iter
        The most there will be.
    step
        Updates made in this stage; the same as `iteration` but in minibatch stages.
    key
        Fresh at every update, for whatever is random outside the rows; raw on the host (`core/keys.py`).
    rows
        Numbers of some rows, drawn by their weights at every update: a model that looks at a few rows in the next
        pass takes some of these.  None where each row counts once, and any number is as good as another.
    """

    iteration: Int[Array, ""]
    max_iter: Int[Array, ""]
    step: Int[Array, ""]
    key: AnyKey
    rows: UInt32[Array, " drawn"] | None = None

    @property
    def fraction(self) -> Float[Array, ""]:
        """How much of the stage is over, from 0 to 1; a stage that only evaluates is at its end."""
        xp = namespace(self.max_iter)
        return xp.where(self.max_iter > 0, self.iteration / xp.maximum(self.max_iter, 1), 1.0)


class Summary(Module):
    """Summary of the data for an initialisation, from one pass, the same on every engine.

    Attributes
    ----------
    n_rows
        Number of rows.
    mean, variance
        Of each column, over its observed entries (0.5 and 0.25 where a column has none).
    observed
        Number of observed entries of each column.
    sample, sample_observed
        1024 rows (fewer where columns are very many) drawn at random by a hash of their global number, in rotation
        where the table has fewer; and where they are observed.
    """

    n_rows: Float[Array, ""]
    mean: Float[Array, " columns"]
    variance: Float[Array, " columns"]
    observed: Float[Array, " columns"]
    sample: Float[Array, "sampled columns"]
    sample_observed: UInt8[Array, "sampled columns"]

    def of_first(self, n: int) -> Summary:
        """Summarise the first n columns alone."""
        columns = self.mean[:n], self.variance[:n], self.observed[:n]
        return Summary(self.n_rows, *columns, self.sample[:, :n], self.sample_observed[:, :n])


class LogLikelihood(Module):
    """log p(x) of each row, with what is known of its error.

    Attributes
    ----------
    value
        log p(x) in nats.
    error
        Standard error of each value, independent from row to row but for the rounding; 0 where exact.
    common_error
        Standard error that all rows share (that of an estimated log Z); 0 where exact.
    rounding
        The part of `error` that is due to the digits of the rows, where these are too few (0 elsewhere).  It may have
        one sign in all rows, and then does not average out.  A model leaves it to the caller (None).
    """

    value: Float[Array, " rows"]
    error: Float[Array, " rows"]
    common_error: Float[Array, ""]
    rounding: Float[Array, " rows"] | None = None

    @classmethod
    def exact(cls, value: Float[Array, " rows"]) -> LogLikelihood:
        """Return a likelihood without error."""
        xp = namespace(value)
        return cls(value, xp.zeros_like(value), xp.zeros((), value.dtype))


# ---------------------------------------------------------------- stages


class Stop(StrEnum):
    """Why learning stopped; the values are what users see."""

    CONVERGED = "converged"
    COMPLETED = "completed"  # a schedule at its end
    MAX_ITER = "max_iter"
    MAX_TIME = "max_time"
    HELD_OUT = "held_out"  # rows that were held out gained no more
    STALLED = "stalled"  # no pass gains any more, though more seems to be left than the tolerance
    INTERRUPTED = "interrupted"
    GIVEN = "given"  # parameters that were not learned

    @property
    def converged(self) -> bool:
        """Whether nothing is left to gain, by an estimate; or nothing was to be learned."""
        return self in (Stop.CONVERGED, Stop.GIVEN)

    @property
    def finished(self) -> bool:
        """Whether learning was not cut off; true also after a whole schedule, when the rest to gain is not known."""
        return self.converged or self in (Stop.COMPLETED, Stop.HELD_OUT)

    @property
    def cut_short(self) -> bool:
        """Whether it was not learning that made an end."""
        return self in (Stop.MAX_TIME, Stop.INTERRUPTED)


class Measure(StrEnum):
    """Quantity that an objective measures.  Values of one measure make one curve; two measures do not compare."""

    LIKELIHOOD = "log-likelihood"  # of the rows, or of some of them scaled up to all, less a penalty
    BOUND = "bound"  # on the log-likelihood
    REGULARISED = "regularised"  # log-likelihood, and what an entropy is worth: so no word on the rows alone
    JOINT = "joint"  # probability of rows and sampled states
    LEFT_OVER = "left over"  # of second moments, as minus the sum of squares
    PROGRESS = "progress"  # to watch, and no word on how well rows are described


class Over(Enum):
    """Return value of a `Transform` that ends learning."""

    LEARNING = "learning is over"


class Learned(NamedTuple):
    """Return value of a `Transform` that ends learning at the maximum: where it is, and the objective there."""

    params: Params
    objective: float
    measure: Measure = Measure.LIKELIHOOD


Prepare: TypeAlias = Callable[[Params, State, Progress | None], Shared]
EStep: TypeAlias = Callable[[Params, Shared, Batch, RowState], tuple[Stats, RowState]]
Update: TypeAlias = Callable[[State, Params, Shared, Stats, Progress], tuple[State, Params]]
Objective: TypeAlias = Callable[[Params, Shared, Stats], Float[Array, ""]]
Start: TypeAlias = Callable[[Params], State]
StartRows: TypeAlias = Callable[[Params, Shared, Batch], RowState]
Done: TypeAlias = Callable[[State], Array]
Left: TypeAlias = Callable[[State], Float[Array, ""]]
RowFloats: TypeAlias = Callable[[int], int]
RowsOnHost: TypeAlias = Literal["never", "small", "complete", "always"]


@dataclass(frozen=True, kw_only=True)
class _Passing:
    """A stage that passes over the rows."""

    name: str = field(kw_only=False)  # shown by the progress bar and kept in the history
    measure: Measure = Measure.LIKELIHOOD  # what its objective is of
    # prepare, e_step, objective, start, start_rows, row_floats: functions of the stage, and `update` and `done` where
    # it has them; None takes the model's.  A variational and a quadrature stage differ in `e_step`, an EM and an
    # ascent stage in `update`.  `start_rows` goes with `e_step`: a stage with its own E-step has its own, or none.
    prepare: Prepare | None = None
    e_step: EStep | None = None
    objective: Objective | None = None
    start: Start | None = None
    start_rows: StartRows | None = None
    row_floats: RowFloats | None = None
    # sparse, rows_on_host: whether its own `e_step` takes a `SparseBatch`, too, or runs in NumPy; of the model's the
    # model says so
    sparse: bool = False
    rows_on_host: RowsOnHost = "never"
    # whether rows that are held out, if there are any, may end it, and with it learning: its points are models that
    # can be used (`engines/held_out.py`)
    stops_early: bool = False


@dataclass(frozen=True, kw_only=True)
class Iterate(_Passing):
    """Updates, one a pass, until what is left to gain is below the tolerance; the best point is kept.

    Attributes
    ----------
    max_iter, tol
        Limits of this stage; None takes the user's.
    left
        What is left to gain, as its update knows it; without, it is guessed from the gains of its passes
        (`engines/monitor.py`).
    patience
        Passes whose gain is compared with that of as many before them, where it is guessed.  A stage whose update may
        take back a bad step needs a few.
    patience_share
        Patience grows to this share of the passes made, for a climb with long plateaus.
    """

    comparable: ClassVar[bool] = True
    update: Update | None = None
    done: Done | None = None
    left: Left | None = None
    max_iter: int | None = None
    tol: float | None = None
    patience: int = 1
    patience_share: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Schedule(_Passing):
    """A number of iterations: complete at the last of them, whatever the objective, unless `done` says so before.

    Attributes
    ----------
    max_iter
        How many; None takes the user's.
    rows_per_update
        None updates once a pass, a number after every block of this many rows, cut by global row number.
    comparable
        The objective is a log-likelihood or a bound on it (less a penalty), so that larger is better: the best point
        is kept, and restarts can be ranked by it.  False for the joint probability of sampled states and the like:
        then the last point is kept.
    """

    update: Update | None = None
    done: Done | None = None
    max_iter: int | None = None
    rows_per_update: int | None = None
    comparable: bool = True


@dataclass(frozen=True, kw_only=True)
class OnePass(_Passing):
    """The update is exact: one pass, one update, and the new objective follows from the same statistics."""

    max_iter: ClassVar[int] = 1
    update: Update | None = None
    comparable: bool = True  # as in `Schedule`


@dataclass(frozen=True, kw_only=True)
class Evaluate(_Passing):
    """The objective of where learning stands: one pass, no update."""

    max_iter: ClassVar[int] = 0
    comparable: ClassVar[bool] = True


@dataclass(frozen=True)
class Transform:
    """Work on the host between two passes, outside any compilation: it may change shapes, and so grow the model.

    Its random numbers are of the stage that follows, so there is one between two stages at most.

    Attributes
    ----------
    function
        ``(key, params, state) -> params``, or `Over.LEARNING`, so that growth can depend on what the data gave; or
        `Learned`, where sums over the rows are all that the maximum depends on.
        `state` is the optimiser's of the stage before (None at the beginning).
    timed
        It takes long: `function` gets a fourth argument, a function that gives the seconds left now (infinitely many
        without `max_time`), and raises `FitError` where they will not do.
    """

    max_iter: ClassVar[int] = 0
    comparable: ClassVar[bool] = False
    name: str
    function: Callable[..., Params | Over | Learned]
    timed: bool = False


# One leg of learning.  A model's stages are run in order by the one loop.
Stage: TypeAlias = Iterate | Schedule | OnePass | Evaluate | Transform


# ---------------------------------------------------------------- models


def _nothing(params: Params) -> dict[str, Array]:
    return {}


class Model(NamedTuple):
    """A family with its hyper-parameters, as a record of pure functions.

    Learning
        ``init(key, summary) -> params``
            Starting parameters, float64.
        ``prepare(params, state, progress) -> shared``
            What a whole pass shares, computed once: log Z and its gradient, Gram matrices, logs of probabilities, a
            temperature.  `state` and `progress` are None where a model is used rather than learned.
        ``e_step(params, shared, batch, row_state) -> (stats, row_state)``
            Statistics that ADD over rows, the row part of the objective among them.
        ``update(state, params, shared, stats, progress) -> (state, params)``
            Summed statistics into new parameters; never sees a row.  `state` is what an optimiser carries from step
            to step (a former point to go back to, momentum, a threshold for the next pass).  None where every stage
            that updates has its own.
        ``objective(params, shared, stats) -> number``
            The row part plus what is no sum over rows (a prior, -n log Z), for the parameters that made `stats`.

    Use (answers are per row of the batch)
        ``log_likelihood(params, shared, batch) -> LogLikelihood``
            log p(x), missing bits marginalised.
        ``infer(params, shared, batch) -> posterior``
            With at least `mean` and `mode`, (rows, latents).
        ``decode(params, latents) -> P(bit = 1 | latents)``
            Or the mean of a real column.
        ``complete(params, shared, batch) -> E[P(bit = 1 | latents) | observed]``
            (rows, columns); not the decoding of a mean.
        ``sample(params, shared, keys) -> rows``
            One per key.

    Optional
        ``start(params) -> state``
            The optimiser's first state.
        ``start_rows(params, shared, batch) -> row_state``
            A small state per row (a warm start, a Gibbs chain).  An engine that keeps rows calls it once a stage, one
            that does not, at every pass; the result of learning may not depend on which beyond the stopping tolerance.
        ``done(state) -> bool``
            Learning of a stage may end by what its update has seen.
        ``left(state) -> nats``
            How much the objective could still gain, all rows together, by what the update has seen (the quadratic model
            of an accelerator, an information matrix): inf where that is much for all it knows, NaN where it cannot
            tell.  An `Iterate` stage ends when this is below the tolerance.
        ``watch(params) -> {name: number or array}``
            Numbers, or small arrays, to keep in the history.
        ``row_floats(n_columns) -> int``
            Numbers that the E-step holds per row at its widest; sets the chunk size.  Of sparse rows it is asked with
            the ones of a row for its columns.
        ``mean(params, shared, batch) -> (rows, latents)``
            The mean of `infer` alone, where its mode, say, takes as long to compile.
        ``rounding(params, shared, batch) -> nats``
            By how much the precision of the rows may have put each log-likelihood wrong.  Only where terms cancel:
            without it, it is taken to be a small part of the log-likelihood itself.
        ``stages``
            The legs of learning, in order.
        ``heats``
            How many of the first of them restarts go through before the best alone goes on; 0 for all.
        ``needs_summary``
            False spares the pass that makes the `Summary`; `init` may then use its shapes alone.
        ``sparse``
            Whether `e_step`, `log_likelihood`, `infer` and `rounding` take a `SparseBatch`, too: a sparse table then
            stays one.  Without, its rows are written out chunk by chunk.
        ``on_host``
            Whether the functions that see no rows (`init`, `prepare`, `update`, `objective`, `start`, `done`, `left`,
            `watch`, and those of stages) take their functions from `core/arrays.py`, and so run in NumPy: they do, as
            long as parameters are few (`engines/host.py`).  Keys are raw there.
        ``rows_on_host``
            Whether `e_step`, `log_likelihood`, `infer`, `decode` and `complete` do, too: "never", in "small" tables
            (`engines/host.py`), or, where they do nothing but count, in larger ones in memory as well: "always", or
            where nothing is missing ("complete").
        ``abreast(n_starts) -> Abreast``
            Starts that climb side by side, where rows are on the host: so each pass costs one call, not one a start.
    """

    name: str
    init: Callable[[Key[Array, ""], Summary], Params]
    prepare: Prepare
    e_step: EStep
    objective: Objective
    log_likelihood: Callable[[Params, Shared, Batch], LogLikelihood]
    infer: Callable[[Params, Shared, Batch], Any]
    decode: Callable[[Params, Float[Array, "rows latents"]], Float[Array, "rows columns"]]
    complete: Callable[[Params, Shared, Batch], Float[Array, "rows columns"]]
    sample: Callable[[Params, Shared, Key[Array, " rows"]], Float[Array, "rows columns"]]
    row_floats: RowFloats
    stages: tuple[Stage, ...] = (Iterate("EM"),)
    update: Update | None = None
    start: Start | None = None
    start_rows: StartRows | None = None
    done: Done | None = None
    left: Left | None = None
    heats: int = 0
    watch: Callable[[Params], dict[str, Array]] = _nothing
    mean: Callable[[Params, Shared, Batch], Float[Array, "rows latents"]] | None = None
    rounding: Callable[[Params, Shared, Batch], Float[Array, " rows"]] | None = None
    needs_summary: bool = True
    sparse: bool = False
    on_host: bool = False
    rows_on_host: RowsOnHost = "never"
    abreast: Callable[[int], Abreast] | None = None

    def acting_in(self, stage: Iterate | Schedule | OnePass | Evaluate) -> Model:
        """Replace functions of the model by those of a stage."""
        own: dict[str, Any] = {name: getattr(stage, name, None) for name in _OF_STAGES}
        own = {name: function for name, function in own.items() if function is not None}
        of_rows = {"start_rows": None, "sparse": stage.sparse, "rows_on_host": stage.rows_on_host}
        without: dict[str, Any] = of_rows if "e_step" in own else {}
        if "update" in own:  # what is left is the word of an update
            without["left"] = None
        return self._replace(**without | own)


class Abreast(NamedTuple):
    """Several starts of a model as one fit, before the best goes on alone.

    Attributes
    ----------
    model
        Leaves of its parameters have an axis of starts in front; its objective is that of the best start.
    ends
        ``ends(params, state) -> (objectives, params)``: the best point of each start.
    """

    model: Model
    ends: Callable[[Params, State], tuple[Float[Array, " starts"], Params]]


_OF_STAGES = ("prepare", "e_step", "update", "objective", "start", "start_rows", "done", "left", "row_floats")
