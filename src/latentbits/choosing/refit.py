"""The models that a search has chosen, fitted again to all rows that it used: those are the ones to look at."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from latentbits.choosing.climb import LEAST_FIT_SECONDS
from latentbits.choosing.compare import FAILURES
from latentbits.choosing.search import Search
from latentbits.core import interrupts
from latentbits.estimators.base import LatentModel

__all__ = ["Refitted", "as_searched", "refit"]


class Refitted(NamedTuple):
    """A model, the number of rows that it has learned from, and whether those are all rows of the search.

    Rows are counted as often as their weights say.
    """

    model: Any
    n_rows: float
    again: bool = False


def as_searched(found: Search) -> dict[str, Refitted]:
    """Give the models of a search as they are."""
    return {name: Refitted(model, found.n_learned) for name, model in found.fitted.items()}


def refit(
    found: Search,
    X: Any,
    *,
    budget: float | None = None,
    report: Callable[[str], None] | None = None,
    ready: Mapping[str, Any] | None = None,
) -> Mapping[str, Refitted]:
    """Fit the chosen model of every family to all rows of the search; best first, as long as there is time.

    The scores remain those of the search: there are no unseen rows left.  A model for which there was no time, or
    that failed on more rows, is the one of the search.

    `found`: what `search` gave.  `X`: the same table; weights are those of the
    search.  `budget`: seconds.  `report`: called before every fit with the name of the model.  `ready`: by
    name, models that were fitted to all these rows before.
    """
    rows = _safe_indexing(X, found.used)
    if found.units is not None:
        rows = (np.asarray(rows.toarray() if hasattr(rows, "toarray") else rows) - found.units[0]) / found.units[1]
    models = as_searched(found)
    models |= {name: Refitted(model, found.n_counted, True) for name, model in (ready or {}).items()}
    until = time.perf_counter() + (np.inf if budget is None else budget)
    names = [
        entry.name
        for entry in found.comparison.entries
        if isinstance(found.fitted[entry.name], LatentModel) and entry.name not in (ready or {})
    ]
    for place, name in enumerate(names):
        left = (until - time.perf_counter()) / (len(names) - place)
        if left < LEAST_FIT_SECONDS:
            break
        if report is not None:
            report(name)
        model = clone(found.fitted[name])
        if np.isfinite(left):
            model.set_params(max_time=left)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # the search has warned of it
                model.fit(rows, sample_weight=found.weights)
        except FAILURES:
            continue
        except KeyboardInterrupt:
            break
        if interrupts.take():
            break
        if model._finished:
            models[name] = Refitted(model.set_params(max_time=None), found.n_counted, True)
    return models
