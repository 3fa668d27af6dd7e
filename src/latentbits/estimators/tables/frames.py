"""Kinds of tables, distinguished without importing a library that the user has not; frames in, frames out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

__all__ = ["is_dask", "is_sparse", "library_of", "like_input"]


def is_sparse(X: Any) -> bool:
    """Return whether X is a sparse matrix of SciPy's."""
    return bool(issparse(X))  # typed so that X stays Any: SciPy's own narrowing forgets shape and data


def is_dask(X: Any) -> bool:
    """Return whether X is a collection of Dask's."""
    return type(X).__module__.startswith("dask.")


def library_of(X: Any) -> str | None:
    """Return the name of the library, "pandas" or "polars", where X is a frame of theirs."""
    library = type(X).__module__.partition(".")[0]
    return library if library in ("pandas", "polars") and hasattr(X, "columns") else None


def like_input(X: Any, values: np.ndarray) -> Any:
    """Give `values` the column names (and index) of X where X is a pandas or polars frame."""
    library = library_of(X)
    if library == "pandas":
        import pandas as pd

        return pd.DataFrame(values, index=X.index, columns=X.columns)
    if library == "polars":
        import polars as pl

        return pl.DataFrame(values, schema=list(X.columns))
    return values
