"""Fit: learn a model from the rows of an engine, by restarts (`restarts.py`) of stages (`stage.py`) of passes.

A model is a record of functions, an engine a supply of chunks; nothing here knows which.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Key, PyTree

from latentbits.core import interrupts, keys, tree
from latentbits.core.arrays import Array
from latentbits.core.compilation import callable_tree
from latentbits.core.model import Model, Stop
from latentbits.engines import checkpoint
from latentbits.engines.held_out import mean_log_likelihood
from latentbits.engines.host import without_rows
from latentbits.engines.memory_backoff import Room
from latentbits.engines.monitor import Limits, Monitor, Record
from latentbits.engines.passes import Engine
from latentbits.engines.restarts import Restarts, check_place
from latentbits.engines.stage import Run, begin
from latentbits.engines.summary import shapes_only, summarise

__all__ = ["FitResult", "fit", "go_on", "seed_key"]

DEFAULT_LIMITS = Limits()


class FitResult(NamedTuple):
    """Result of a fit.

    Attributes
    ----------
    params
        The parameters, float64 NumPy leaves.
    state
        State of the optimiser of the last stage.
    objective
        Objective of the parameters (the sum over rows, in nats); -inf where no comparable one was evaluated.
    history
        Every pass of the restart that won.
    n_iter
        Its number of passes that ended in an update; one that counts what they begin with is none of them.
    reason
        Why it stopped.
    seconds
        Time taken, all restarts together.
    left
        Estimate of what is left to gain, in nats, all rows together; NaN where it is not known.
    dtype
        Precision of the rows.
    n_rows
        Rows learned from, each as often as it counts; NaN where no pass has counted them.
    """

    params: PyTree
    state: PyTree
    objective: float
    history: tuple[Record, ...]
    n_iter: int
    reason: Stop
    seconds: float
    left: float = np.nan
    dtype: np.dtype = np.dtype(np.float32)
    n_rows: float = np.nan


def seed_key(seed: int, purpose: str = "fit") -> Key[Array, ""]:
    """Return the key of a seed for one purpose: fitting and sampling with the same seed share nothing."""
    return keys.typed(keys.fold(keys.of_seed(seed), zlib.crc32(purpose.encode())))


def fit(
    model: Model,
    engine: Engine,
    key: Key[Array, ""],
    *,
    params: PyTree | None = None,
    limits: Limits = DEFAULT_LIMITS,
    n_init: int | Callable[[float], int] = 1,
    dtype: Any = np.float32,
    verbose: int = 0,
    memory_budget: int | None = None,
    held_out: Engine | None = None,
) -> FitResult:
    """Learn a model from the rows of an engine.

    Parameters
    ----------
    model, engine
        What to learn, and from where.
    key
        The only source of randomness.
    params
        Starting parameters; None lets the model make its own.
    limits
        Iterations, tolerance and seconds.
    n_init
        Number of restarts; the one with the best objective is kept.  May be a function of the number of rows.
    dtype
        Precision of the rows, float32 or float64.  May be a function of the number of rows.
    verbose
        Above 0: after two seconds a progress bar with the time left, in a terminal or a notebook.
    memory_budget
        Bytes that a chunk's E-step may take; None chooses by device.
    held_out
        Rows that are not learned from, and stop the stages that may be stopped early (`engines/held_out.py`).  Restarts
        are ranked by them.

    Notes
    -----
    On Ctrl-C, which takes effect at the end of the chunk of rows in work, or when the time is over, the best parameters
    so far are returned with the `reason`; Ctrl-C before anything was learned is passed on.  A restart that fails
    numerically is dropped, unless all do.  A journal (`engines/checkpoint.py`) says where to go on.
    """
    # a checkpoint may hold the result, or the place to go on from
    journal, root = checkpoint.current(), keys.raw(key)
    number, known, place = (0, None, None) if journal is None else journal.begin()
    if known is not None:
        if not isinstance(known, FitResult):
            raise TypeError("it holds another result than that of a fit")
        return known
    if place is not None:
        assert journal is not None
        check_place(place, journal.check)
    with interrupts.held(), Monitor(limits, verbose, model.name) as monitor:
        # one pass for what the initialisation needs to know
        if model.needs_summary:
            summary = summarise(engine)
            if engine.weights is None:  # weights are counted against the rows elsewhere
                monitor.check_rows(float(summary.n_rows))
        else:
            summary = shapes_only(engine)
        # settings that depend on the number of rows
        n_rows = float(summary.n_rows)
        dtype = np.dtype(dtype(n_rows) if _by_rows(dtype) else dtype)
        n_init = n_init(n_rows) if callable(n_init) else n_init
        if n_init > 1 and not model.stages[-1].comparable:
            raise ValueError(
                f"n_init must be 1 for {model.name}, got {n_init}: its last stage has no likelihood or bound by which "
                "restarts could be ranked"
            )
        watched = None if held_out is None else mean_log_likelihood(model, held_out, dtype, memory_budget)
        if place is not None:
            monitor.take_up(place.history, place.seconds)

        def start(restart: int) -> PyTree:
            with tree.double():
                if params is not None:
                    return params
                key = keys.fold(keys.fold(root, restart), 0)
                return without_rows(begin, model.on_host)(callable_tree(model.init), key, summary)

        # all restarts, of which one wins
        n_once = n_rows if engine.weights is None else len(engine.weights)
        run = Run(engine, dtype, memory_budget, monitor, 0, Room(), held_out=watched, n_rows=n_once)
        keep = None if journal is None else partial(journal.stand, number)
        restarts = Restarts(model, n_init, root, start, run, keep, place)
        best, winner = restarts.best()
        seconds, counted = monitor.seconds, n_rows if model.needs_summary else monitor.n_rows
    if best is None:
        assert restarts.failure is not None
        raise restarts.failure
    # its history and parameters, as NumPy
    history = tuple(record for record in monitor.history if record.restart == winner)
    found = tree.to_numpy(best.params), tree.to_numpy(best.state), best.objective, history
    result = FitResult(*found, best.n_iter, best.reason, seconds, best.left, dtype, counted)
    if journal is not None:
        journal.finish(number, result, cut_short=best.reason.cut_short)
    return result


def go_on(
    model: Model,
    engine: Engine,
    before: FitResult,
    limits: Limits,
    *,
    verbose: int = 0,
    held_out: Engine | None = None,
) -> FitResult:
    """Continue a fit with another record of the same parameters; passes and seconds add up.

    On Ctrl-C before anything was learned, what was learned before stands, and `reason` says so.
    """
    left = None if limits.max_time is None else max(limits.max_time - before.seconds, 1e-3)
    rest = limits._replace(max_time=left)
    given: dict[str, Any] = {"params": before.params, "limits": rest, "dtype": before.dtype}
    try:
        more = fit(model, engine, seed_key(0), **given, verbose=verbose, held_out=held_out)
    except KeyboardInterrupt:
        return before._replace(reason=Stop.INTERRUPTED)
    return more._replace(
        history=before.history + more.history,
        n_iter=before.n_iter + more.n_iter,
        seconds=before.seconds + more.seconds,
    )


def _by_rows(setting: Any) -> bool:
    """Whether a setting is a function of the number of rows; types of numbers can be called, too."""
    return callable(setting) and not isinstance(setting, type)
