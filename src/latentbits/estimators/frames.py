"""Frames in, frames out, without importing a frame library that the user has not."""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["like_input"]


def like_input(X: Any, values: np.ndarray) -> Any:
    """`values` with the column names (and index) of X where X is a pandas or polars frame; else as they are."""
    library = type(X).__module__.partition(".")[0]
    if library == "pandas" and hasattr(X, "columns"):
        import pandas as pd

        return pd.DataFrame(values, index=X.index, columns=X.columns)
    if library == "polars" and hasattr(X, "columns"):
        import polars as pl

        return pl.DataFrame(values, schema=list(X.columns))
    return values
