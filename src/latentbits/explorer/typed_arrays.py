"""Typed arrays as text: base64 of little-endian numbers, deflated where that saves something."""

from __future__ import annotations

import base64
import zlib
from typing import Any

import numpy as np

__all__ = ["Arrays"]

WIDTHS = {"u1": "<u1", "u2": "<u2", "u4": "<u4", "f4": "<f4"}
MOST_DEFLATED_SHARE = 0.9  # of its size an array must have shrunk to, to be inflated in the browser


class Arrays:
    """Arrays by name, and how to read each back.

    Examples
    --------
    >>> arrays = Arrays()
    >>> arrays.add("x", np.array([[1, 2], [3, 4]]), "u2")
    >>> arrays.heads["x"]
    {'dtype': 'u2', 'shape': [2, 2], 'deflated': False}
    >>> arrays.texts["x"]
    'AQACAAMABAA='
    """

    def __init__(self) -> None:
        self.heads: dict[str, dict[str, Any]] = {}
        self.texts: dict[str, str] = {}

    def add(self, name: str, values: np.ndarray, dtype: str) -> None:
        """Add numbers of one of the types in `WIDTHS`."""
        array = np.ascontiguousarray(values, WIDTHS[dtype])
        self._put(name, array, {"dtype": dtype, "shape": list(array.shape)})

    def add_scaled(self, name: str, values: np.ndarray, dtype: str = "u2") -> None:
        """Add whole numbers between the least and the greatest of each column: value = low + step * number.

        The error is at most half a step: 1/131070 of a column's range in two bytes, 1/510 in one.  Infinite numbers
        become the greatest or the least of their column, NaN its least; the page knows of missing cells otherwise.
        """
        top = np.iinfo(WIDTHS[dtype]).max
        x = np.asarray(values, np.float64)
        flat = x.reshape(-1, x.shape[-1]) if x.ndim > 1 else x.reshape(-1, 1)
        known = np.isfinite(flat)
        low = np.min(flat, axis=0, where=known, initial=np.inf)
        high = np.max(flat, axis=0, where=known, initial=-np.inf)
        low, high = (np.where(known.any(axis=0), edge, 0.0) for edge in (low, high))
        step = np.where(high > low, (high - low) / top, 1.0)
        within = np.clip(np.nan_to_num(flat, nan=-np.inf, posinf=np.inf, neginf=-np.inf), low, high)
        array = np.ascontiguousarray(np.rint((within - low) / step).reshape(x.shape), WIDTHS[dtype])
        self._put(name, array, {"dtype": dtype, "shape": list(x.shape), "low": low.tolist(), "step": step.tolist()})

    def add_bits(self, name: str, values: np.ndarray) -> None:
        """Add rows of bits, eight a byte, the first bit the highest; a row begins a byte."""
        packed = np.packbits(np.asarray(values, bool), axis=1)
        self._put(name, packed, {"dtype": "bits", "shape": list(np.shape(values))})

    def _put(self, name: str, array: np.ndarray, head: dict[str, Any]) -> None:
        raw = array.tobytes()
        small = zlib.compress(raw, 9)
        deflated = len(small) < MOST_DEFLATED_SHARE * len(raw)
        self.heads[name] = {**head, "deflated": deflated}
        self.texts[name] = base64.b64encode(small if deflated else raw).decode("ascii")
