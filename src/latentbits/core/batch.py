"""A batch of rows as a model sees it, and how raw rows become one.

Raw rows are compact: uint8 bits with `MISSING` (255) for a hole, complete bits eight to a byte (`Packed`), or floats
with NaN for a hole.  They are turned into floats inside the compiled function, chunk by chunk, so that no float copy of
a whole table ever exists.

Complete bits that are nearly all 0 may come as lists of the ones instead (`SparseRows`, `SparseBatch`), which cost in
time and memory what the ones do.  A model takes either by the two products that both kinds of batches have.
"""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, Int32, Key, Num, UInt8, UInt32

from latentbits.core.arrays import AnyKey, Array, namespace
from latentbits.core.deterministic_sums import over_rows
from latentbits.core.module import Module, static

__all__ = ["MISSING", "Batch", "Packed", "SparseBatch", "SparseRows", "make_batch", "row_keys"]

MISSING = 255  # the mark of a hole among uint8 bits
# Folded into the keys of rows from 2^32 on, beside the upper word of their number: models fold small numbers
# into the keys of rows, and what they get of row 1 would be the keys of rows 2^32, 2^32 + 1, ...
BEYOND = 0x9E3779B9


class Packed(Module):
    """Complete bits, eight to a byte, as `numpy.packbits` of rows along their columns gives them."""

    # the bytes, (rows, bytes of a row)
    values: Any  # of NumPy, of JAX, or a shape alone
    n_columns: int = static()  # bits of a row; what the last byte has beyond them does not count

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def bits(self) -> UInt8[Array, "rows columns"]:
        """Return a byte for each bit; traced."""
        places = jnp.arange(7, -1, -1, dtype=jnp.uint8)
        bits = (self.values[:, :, None] >> places) & jnp.uint8(1)
        return bits.reshape(len(self), -1)[:, : self.n_columns]


class Batch(Module):
    """Rows of one chunk.

    Attributes
    ----------
    values
        The entries, 0 where missing.
    observed
        1 where an entry was seen, 0 where it is missing; None when the chunk has no holes at all, which saves a
        model products with the mask.
    weight
        How often a row counts: 1 where the user gave no weights, 0 for padding.  Every sum over rows must carry it.
    rows
        The global number of each row in the table, modulo 2^32.
    high
        How often 2^32 goes into it; None in the chunks of the first 2^32 rows.
    key
        The key of this pass: restart, stage and iteration are folded in already.
    """

    values: Float[Array, "rows columns"]
    observed: Float[Array, "rows columns"] | None
    weight: Float[Array, " rows"]
    rows: UInt32[Array, " rows"]
    key: AnyKey
    high: UInt32[Array, " rows"] | None = None

    @property
    def keys(self) -> Key[Array, " rows"]:
        """A key per row: the same whatever the chunking or the engine, fresh at every pass."""
        return row_keys(self.key, self.rows, self.high)

    @property
    def mask(self) -> Float[Array, "rows columns"]:
        """`observed`, spelled out when nothing is missing."""
        return namespace(self.values).ones_like(self.values) if self.observed is None else self.observed

    def times(self, table: Float[Array, "columns width"]) -> Float[Array, "rows width"]:
        """``values @ table``."""
        return self.values @ table

    def summed(self, left: Float[Array, "rows width"]) -> Float[Array, "width columns"]:
        """``left.T @ values``."""
        return over_rows(left, self.values)


class SparseRows(Module):
    """Raw rows as lists of their ones, in the order of the rows; padding is in a column that does not exist."""

    # columns, rows: of each one: its column, and its row as counted from the first of the chunk
    columns: Int32[Array, " ones"] | Int32[np.ndarray, " ones"]
    rows: Int32[Array, " ones"] | Int32[np.ndarray, " ones"]
    # n_rows, n_columns: of the chunk
    n_rows: int = static()
    n_columns: int = static()

    def __len__(self) -> int:
        return self.n_rows


class SparseBatch(Module):
    """Rows of complete bits of one chunk, as lists of their ones; weight and rows are those of `Batch`.

    Nothing here has the size of the rows written out: a model has what it asks of them from the two products.
    """

    ones: SparseRows
    weight: Float[Array, " rows"]
    rows: UInt32[Array, " rows"]
    observed: ClassVar[None] = None

    def times(self, table: Float[Array, "columns width"]) -> Float[Array, "rows width"]:
        """``values @ table``: for each row the sum of the table's rows at its ones."""
        found = table.at[self.ones.columns].get(mode="fill", fill_value=0)
        nothing = jnp.zeros((self.ones.n_rows, table.shape[1]), table.dtype)
        return nothing.at[self.ones.rows].add(found, indices_are_sorted=True)

    def summed(self, left: Float[Array, "rows width"]) -> Float[Array, "width columns"]:
        """``left.T @ values``: for each column the sum of what its ones' rows have."""
        nothing = jnp.zeros((self.ones.n_columns, left.shape[1]), left.dtype)
        return nothing.at[self.ones.columns].add(left[self.ones.rows], mode="drop").T


def row_keys(
    key: Key[Array, ""], rows: UInt32[Array, " rows"], high: UInt32[Array, " rows"] | None = None
) -> Key[Array, " rows"]:
    """One key per global row number, of which `high` is the upper word."""
    fold = jax.random.fold_in
    if high is None:
        return jax.vmap(fold, in_axes=(None, 0))(key, rows)

    def one(row: UInt32[Array, ""], high: UInt32[Array, ""]) -> Key[Array, ""]:
        beyond = fold(fold(key, high), BEYOND)
        return fold(jnp.where(high == 0, key, beyond), row)

    return jax.vmap(one)(rows, high)


def make_batch(
    raw: Num[Array, "rows columns"] | Packed | SparseRows,
    first_row: UInt32[Array, ""] | UInt32[Array, "2"],
    n_rows: UInt32[Array, ""] | Float[Array, " rows"],
    key: AnyKey,
    complete: bool,
    dtype: np.dtype,
) -> Batch | SparseBatch:
    """Turn a padded raw chunk into a batch; traced inside every compiled pass, or in NumPy where all arguments are.

    Parameters
    ----------
    raw
        uint8 bits with 255 for missing, packed bits, which are complete, floats with NaN, or lists of ones.
    first_row, n_rows
        Global number of the first row, as two words (the lower first) where rows reach beyond 2^32; how many rows are
        real (the rest is padding), or the weight of each (0 for padding).
    complete
        Static: the caller looked, and no real row has a hole.
    """
    xp = namespace(raw, key)
    raw = raw.bits() if isinstance(raw, Packed) else raw
    position = xp.arange(len(raw), dtype=np.uint32)
    weight = n_rows.astype(dtype) if n_rows.ndim else (position < n_rows).astype(dtype)
    if isinstance(raw, SparseRows):
        return SparseBatch(raw, weight, (first_row[0] if first_row.ndim else first_row) + position)
    bits = raw.dtype == np.uint8
    if complete:
        observed = None
        values = raw.astype(dtype)
    else:
        seen = (raw != MISSING) if bits else ~xp.isnan(raw)
        observed = seen.astype(dtype)
        values = xp.where(seen, raw, 0).astype(dtype)
    if not first_row.ndim:
        return Batch(values, observed, weight, first_row + position, key)
    rows = first_row[0] + position
    return Batch(values, observed, weight, rows, key, first_row[1] + (rows < first_row[0]))
