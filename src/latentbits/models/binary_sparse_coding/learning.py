"""The course of learning: random starts, the best of them, more states, and exact EM at the end.

All of it is a function of a `Plan`, what is known of the rows (`Rows`) and the means to learn by (`Means`): nothing is
kept between calls.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Key, PyTree

from latentbits.core.arrays import Array
from latentbits.core.errors import FitError
from latentbits.core.model import Model, Stop
from latentbits.models.binary_sparse_coding.exact_em import at_rest
from latentbits.models.binary_sparse_coding.initialisation import Starts, evaluation, side_by_side
from latentbits.models.binary_sparse_coding.model import model
from latentbits.models.binary_sparse_coding.posterior import Params
from latentbits.models.binary_sparse_coding.recipes import Recipe
from latentbits.models.binary_sparse_coding.sizes import Size, Sizes, n_states
from latentbits.models.binary_sparse_coding.tuning import LEAST_GAIN_NATS_PER_ROW, STARTS_AT_ONCE, STARTS_AT_ONCE_CELLS

if TYPE_CHECKING:
    from latentbits.engines.fit import FitResult
    from latentbits.engines.monitor import Record

__all__ = ["Learned", "Means", "Plan", "Rows", "best_start", "finish"]


class Plan(NamedTuple):
    """The wishes of a caller: sizes, the recipe and its iterations, starts, and options of `model`."""

    sizes: Sizes
    recipe: Recipe
    n_iter: int
    n_init: int | None
    keep_components: bool
    precision: str
    quietest: float

    def model(self, size: Size) -> Model:
        """Make the record of the schedule."""
        return self._model(size, self.n_iter, self.recipe)

    def grown(self, size: Size) -> Model:
        """Make the record of a third of the iterations again, with more states and with N_cut rows."""
        cut = None if self.recipe.cut is None else (0, 0)
        return self._model(size, self.n_iter_grown, self._warmed(cut))

    @property
    def n_iter_grown(self) -> int:
        """Iterations of `grown`."""
        return -(-self.n_iter // 3)

    def settler(self) -> Model:
        """Make the record of exact EM."""
        return self._model(self.sizes.every, 0, self._warmed(None), settling=True)

    def starts(self, size: Size, n: int) -> Model:
        """Make the record of the schedule from n starts at once."""
        one = self.model(size)
        return one if n == 1 else side_by_side(one, n, n_states(size))

    def most_starts(self, cells: float) -> int:
        """Return the most starts of a table, by its rows x columns x causes."""
        if self.n_init is not None:
            return self.n_init
        return 16 if cells <= 2**23 else 2  # rows x columns x causes up to which there may be more starts than two

    def at_a_time(self, cells: float) -> int:
        """Return how many starts are learned from together: with few rows several take little longer than one."""
        if cells > STARTS_AT_ONCE_CELLS or jax.default_backend() != "cpu":
            return 1
        most = self.most_starts(cells)
        return max(n for n in range(1, STARTS_AT_ONCE + 1) if most % n == 0)  # rounds of one size, and one compilation

    def _warmed(self, cut: tuple[int, int] | None) -> Recipe:
        return self.recipe._replace(cut=cut, temperature=1.0, init_noise="rms")

    def _model(self, size: Size, n_iter: int, recipe: Recipe, settling: bool = False) -> Model:
        return model(
            self.sizes.n_causes,
            *size,
            recipe,
            n_iter=n_iter,
            keep_components=self.keep_components,
            precision=self.precision,
            quietest=self.quietest,
            settling=settling,
        )


class Rows(NamedTuple):
    """Facts about the rows: their number, rows x columns x causes, their weights, and a random sample."""

    n: float
    cells: float
    weights: np.ndarray | None
    sample: np.ndarray


class Means(NamedTuple):
    """Means to learn by, which an estimator has."""

    # (model, key, seconds left) to a fit from random starts
    begin: Callable[[Model, Key[Array, ""], float | None], FitResult]
    # (model, key, fit, iterations) to a fit from where another ended
    go_on: Callable[[Model, Key[Array, ""], FitResult, int], FitResult]
    evaluate: Callable[[Model, PyTree], FitResult]  # (model, parameters) to a fit of no iteration
    # (parameters, present size, size, sample or None for all rows) to the log evidence of each row
    evidence: Callable[[Params, Size, Size, np.ndarray | None], np.ndarray]


class Learned(NamedTuple):
    """The end of learning, and the gamma and H' that it has."""

    result: FitResult
    size: Size


# ---------------------------------------------------------------- starts


def best_start(plan: Plan, rows: Rows, means: Means, key: Key[Array, ""], max_time: float | None) -> FitResult:
    """Learn from several random starts, and return the best.

    They are ranked by one evaluation for all that leaves out as little as it can: by the states that were learned
    with, a fit would be preferred that needs few of them, rather than one that describes the rows.
    """
    best: FitResult | None = None
    failure: FitError | None = None
    values: list[float] = []
    size, n, most, spent = plan.sizes.first(), plan.at_a_time(rows.cells), plan.most_starts(rows.cells), 0.0
    starts = plan.starts(size, n)
    often = max(2, n // 2)  # of eight starts two may well agree on a poor optimum
    while len(values) < most and not (plan.n_init is None and found_often(values, often)):
        left = None if max_time is None else max(max_time - spent, 1e-3)
        try:
            found = means.begin(starts, jax.random.fold_in(key, len(values)) if values else key, left)
        except FitError as error:
            failure = error
            values += [-np.inf] * n
            continue
        except KeyboardInterrupt:
            if best is None:
                raise
            best = best._replace(reason=Stop.INTERRUPTED)
            break
        # keep the best; several starts were learned from at once
        spent += found.seconds
        if found.reason.cut_short:
            best = _best_so_far(found) if best is None else best._replace(reason=found.reason)
            break
        each = [_value(plan, rows, means, size, params) for params in _separate(found.params)]
        first = int(np.argmax(each))
        if best is None or each[first] > max(values):
            best = _one_of(means, starts, found, first)
        values += each
    if best is None:
        assert failure is not None
        raise failure
    return best._replace(seconds=spent)


def found_often(values: list[float], often: int) -> bool:
    """Tell whether the best was found by at least `often` fits, up to 0.01 nats a row."""
    return bool(values) and sum(value > max(values) - 0.01 for value in values) >= often


def _value(plan: Plan, rows: Rows, means: Means, size: Size, params: Params) -> float:
    """Rank a start: by nats of a row, -inf where it has failed."""
    if plan.sizes.settle(rows.n):  # by the program of exact EM, which is there anyway
        try:
            return means.evaluate(at_rest(plan.settler()), params).objective / rows.n
        except FitError:
            return -np.inf
    more = plan.sizes.in_use(size)
    more = plan.sizes.beyond(size) if more == size else more
    value = float(np.average(means.evidence(params, size, more, None), weights=rows.weights))
    return value if np.isfinite(value) else -np.inf


def _one_of(means: Means, starts: Model, found: FitResult, number: int) -> FitResult:
    """Take one of the starts that were learned from side by side."""
    if not isinstance(found.params, Starts):
        return found
    last = means.evaluate(evaluation(starts, number), found.params)
    history = _course((*found.history, *last.history), number)
    return found._replace(params=found.params.one(number), objective=last.objective, history=history, state=None)


def _best_so_far(found: FitResult) -> FitResult:
    """Take the best of the starts that were cut short, as far as is known."""
    if not isinstance(found.params, Starts):
        return found
    number = int(np.argmax(np.nan_to_num(found.params.values, nan=-np.inf)))
    return found._replace(params=found.params.one(number), history=_course(found.history, number), state=None)


def _separate(params: PyTree) -> list[Params]:
    return [params.one(i) for i in range(len(params.values))] if isinstance(params, Starts) else [params]


def _course(history: tuple[Record, ...], number: int) -> tuple[Record, ...]:
    """Return the records of one of several starts: the next one has what a start had reached; the last has its own."""
    values = [*(record.watched["values"][number] for record in history[1:]), history[-1].objective]
    return tuple(
        record._replace(
            objective=float(value),
            watched={name: _plain(x[number]) for name, x in record.watched.items() if name != "values"},
        )
        for record, value in zip(history, values, strict=True)
    )


def _plain(x: Any) -> Any:
    return float(x) if np.ndim(x) == 0 else x


# ---------------------------------------------------------------- the end


def finish(plan: Plan, rows: Rows, means: Means, result: FitResult, key_of: Callable[[str], Key[Array, ""]]) -> Learned:
    """Go on with more states, or with all; and estimate what those that were left out would add."""
    learned = Learned(result, plan.sizes.first())
    settles = plan.sizes.settle(rows.n)
    while learned.result.reason == Stop.COMPLETED and not settles:
        size = plan.sizes.after(learned.size)
        if not _is_worth(plan, rows, means, learned, size):
            break
        learned = _further(means, learned, size, plan.grown(size), key_of(f"grow to {size}"), plan.n_iter_grown)
    if learned.result.reason == Stop.COMPLETED and settles:
        most = max(10 * plan.n_iter, 300)
        learned = _further(means, learned, plan.sizes.every, plan.settler(), key_of("settle"), most)
    loss = _loss(plan, rows, means, learned)
    params = learned.result.params.replace(truncation_loss=np.asarray(loss))
    return learned._replace(result=learned.result._replace(params=params))


def _further(means: Means, learned: Learned, size: Size, one: Model, key: Key[Array, ""], max_iter: int) -> Learned:
    """Go on from where learning stands; what was learned before an interruption stands."""
    before = learned.result
    try:
        more = means.go_on(one, key, before, max_iter)
    except KeyboardInterrupt:
        return learned._replace(result=before._replace(reason=Stop.INTERRUPTED))
    more = more._replace(
        history=(*before.history, *more.history),
        n_iter=before.n_iter + more.n_iter,
        seconds=before.seconds + more.seconds,
    )
    return Learned(more, size)


def _is_worth(plan: Plan, rows: Rows, means: Means, learned: Learned, size: Size) -> bool:
    """Tell whether learning goes on with this gamma and H'."""
    if size == learned.size:
        return False
    return plan.sizes.given is not None or _gain(rows, means, learned, size) > LEAST_GAIN_NATS_PER_ROW


def _loss(plan: Plan, rows: Rows, means: Means, learned: Learned) -> float:
    """Estimate what more states would add, as far as they can be looked at; NaN where none can."""
    if plan.sizes.in_use(learned.size)[0] == plan.sizes.n_causes:
        return 0.0
    size = plan.sizes.beyond(learned.size)
    return max(_gain(rows, means, learned, size), 0.0) if size > learned.size else np.nan


def _gain(rows: Rows, means: Means, learned: Learned, size: Size) -> float:
    """Estimate what these gamma and H' would add to the evidence of a row on average."""
    params, now = learned.result.params, learned.size
    larger, present = (means.evidence(params, now, x, rows.sample) for x in (size, now))
    return float(np.mean(larger - present))
