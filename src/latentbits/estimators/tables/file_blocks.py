"""Files of rows as a Dask array: the process that computes a block reads its rows."""

from __future__ import annotations

import os
from itertools import pairwise
from typing import Any

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.data.row_files import RowFiles, are_paths, open_files
from latentbits.engines.dask_blocks import borders

__all__ = ["file_blocks"]


def file_blocks(X: Any, n_workers: int) -> Any:
    """Return X, or an array of its rows if it is the path of numbered files (.npy, .zarr), or a list of some."""
    if not are_paths(X):
        return X
    paths = [X] if isinstance(X, str | os.PathLike) else X
    files = open_files([os.path.abspath(path) for path in paths])  # a worker may be in another folder
    if not files.numbered:
        return files
    dask = import_extra("dask", extra="dask", purpose="engine='dask'")
    da = import_extra("dask.array", extra="dask", purpose="engine='dask'")
    rows = dask.delayed(_rows)
    blocks = []
    for part in files.parts:
        n, d = part.shape
        cut = borders(n, d, max(1, n_workers // len(files.parts)))
        alone = RowFiles([part])
        blocks += [da.from_delayed(rows(alone, a, b), (b - a, d), np.float64) for a, b in pairwise(cut)]
    return da.concatenate(blocks) if blocks else np.empty(files.shape)


def _rows(files: RowFiles, first: int, last: int) -> np.ndarray:
    return files.take(np.arange(first, last))
