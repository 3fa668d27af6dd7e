"""What families share: public sets as tables, and the reason that most of them have."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Table

__all__ = ["COMPILED", "public"]

COMPILED = "the first answer waits for programs to be compiled, and the peak of memory has what compiling takes"


def public(name: str, rare: float = 0.0, most: int | None = None, **settings: Any) -> Table | str:
    """A set by its name, or words on why it is not there; called in the run's own process, which has latentbits.

    Where custom has no test rows, every fifth of the shuffled rows is one.  Columns that have no ones or no zeros in
    more than a share `rare` of the rows to learn from are left out: maximum likelihood has no finite answer there.
    `most` rows are learned from.
    """
    from latentbits.core.errors import DataError, DownloadError
    from latentbits.data import load_dataset

    try:
        data = load_dataset(name)
    except (DataError, DownloadError) as error:
        return f"{error}".partition("\n")[0]
    if data.splits:
        train, test = data.split("train").X, data.split("test").X
    else:
        order = np.random.default_rng(0).permutation(len(data.X))
        train, test = data.X[order[len(order) // 5 :]], data.X[order[: len(order) // 5]]
    train = train[:most]
    share = np.asarray(train, float).mean(0)
    kept = (share > rare) & (share < 1 - rare)
    return Table(
        np.ascontiguousarray(train[:, kept], np.uint8), np.ascontiguousarray(test[:, kept], np.uint8), settings
    )
