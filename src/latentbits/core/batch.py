"""A batch of rows as a model sees it, and how raw rows become one.

Raw rows are compact: uint8 bits with `MISSING` (255) for a hole, complete bits eight to a byte (`Packed`), or floats
with NaN for a hole.  They are turned into floats inside the compiled function, chunk by chunk, so that no float copy of
a whole table ever exists.
"""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, Num, UInt8, UInt32

__all__ = ["MISSING", "Batch", "Packed", "make_batch", "row_keys"]

MISSING = 255  # the mark of a hole among uint8 bits
# What is folded into the keys of rows from 2^32 on, beside the upper word of their number: models fold small numbers
# into the keys of rows, and what they get of row 1 would be the keys of rows 2^32, 2^32 + 1, ...
BEYOND = 0x9E3779B9


class Packed(eqx.Module):
    """Complete bits, eight to a byte, as `numpy.packbits` of rows along their columns gives them.

    Attributes
    ----------
    values
        The bytes, (rows, bytes of a row).
    n_columns
        Bits of a row; what the last byte has beyond them does not count.
    """

    values: Any  # of NumPy, of JAX, or a shape alone
    n_columns: int = eqx.field(static=True)

    def __len__(self) -> int:
        return int(self.values.shape[0])

    def bits(self) -> UInt8[Array, "rows columns"]:
        """A byte for each bit; traced."""
        places = jnp.arange(7, -1, -1, dtype=jnp.uint8)
        bits = (self.values[:, :, None] >> places) & jnp.uint8(1)
        return bits.reshape(len(self), -1)[:, : self.n_columns]


class Batch(eqx.Module):
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
    key: Key[Array, ""]
    high: UInt32[Array, " rows"] | None = None

    @property
    def keys(self) -> Key[Array, " rows"]:
        """A key per row: the same whatever the chunking or the engine, fresh at every pass."""
        return row_keys(self.key, self.rows, self.high)

    @property
    def mask(self) -> Float[Array, "rows columns"]:
        """`observed`, spelled out when nothing is missing."""
        return jnp.ones_like(self.values) if self.observed is None else self.observed


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
    raw: Num[Array, "rows columns"] | Packed,
    first_row: UInt32[Array, ""] | UInt32[Array, "2"],
    n_rows: UInt32[Array, ""] | Float[Array, " rows"],
    key: Key[Array, ""],
    complete: bool,
    dtype: np.dtype,
) -> Batch:
    """Turn a padded raw chunk into a `Batch`; traced inside every compiled pass.

    Parameters
    ----------
    raw
        uint8 bits with 255 for missing, packed bits, which are complete, or floats with NaN.
    first_row, n_rows
        Global number of the first row, as two words (the lower first) where rows reach beyond 2^32; how many rows are
        real (the rest is padding), or the weight of each (0 for padding).
    complete
        Static: the caller looked, and no real row has a hole.
    """
    raw = raw.bits() if isinstance(raw, Packed) else raw
    position = jnp.arange(raw.shape[0], dtype=jnp.uint32)
    bits = raw.dtype == jnp.uint8
    if complete:
        observed = None
        values = raw.astype(dtype)
    else:
        seen = (raw != MISSING) if bits else ~jnp.isnan(raw)
        observed = seen.astype(dtype)
        values = jnp.where(seen, raw, 0).astype(dtype)
    weight = n_rows.astype(dtype) if n_rows.ndim else (position < n_rows).astype(dtype)
    if not first_row.ndim:
        return Batch(values, observed, weight, first_row + position, key)
    rows = first_row[0] + position
    return Batch(values, observed, weight, rows, key, first_row[1] + (rows < first_row[0]))
