"""The course of learning as a table, and which part of it is one curve."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

import numpy as np

from latentbits.core.model import Measure

__all__ = ["comparable_end", "history_table", "stages_of"]


def history_table(passes: Sequence[tuple[str, str, float]]) -> np.ndarray:
    """Make a structured array with a row for each pass, from its stage, its measure and its objective.

    >>> history_table([("Adam", "log-likelihood", -9.0), ("Adam", "log-likelihood", -8.0)])["iteration"].tolist()
    [0, 1]
    """
    width = max((len(stage) for stage, _, _ in passes), default=1)
    kinds = [("stage", f"U{width}"), ("measure", "U16"), ("iteration", np.int64), ("objective", np.float64)]
    rows = [
        (stage, measure, iteration, objective)
        for _, run in groupby(passes, key=lambda one: one[0])
        for iteration, (stage, measure, objective) in enumerate(run)
    ]
    return np.array(rows, dtype=kinds)


def stages_of(table: np.ndarray) -> list[tuple[str, str, int]]:
    """List the stages in order: name, measure, number of passes.

    >>> stages_of(history_table([("EM", "bound", -9.0), ("EM", "bound", -8.0), ("exactly", "log-likelihood", -7.0)]))
    [('EM', 'bound', 2), ('exactly', 'log-likelihood', 1)]
    """
    kinds = zip(table["stage"].tolist(), table["measure"].tolist())
    return [(*kind, len(list(run))) for kind, run in groupby(kinds)]


def comparable_end(table: np.ndarray) -> np.ndarray:
    """Return the objectives of the last passes that have the same measure; none, where it was mere progress.

    >>> comparable_end(history_table([("EM", "bound", -9.0), ("exactly", "log-likelihood", -7.0)])).tolist()
    [-7.0]
    """
    stages = stages_of(table)
    if not stages or stages[-1][1] == Measure.PROGRESS:
        return np.zeros(0)
    others = np.flatnonzero(table["measure"] != stages[-1][1])
    return np.array(table["objective"][np.max(others, initial=-1) + 1 :])
