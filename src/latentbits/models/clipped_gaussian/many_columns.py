"""Learning from tables with very many columns: the leading components, and no matrix of pairs that outlives the fit.

It learns what `model.py` learns: pairs are counted, each count is inverted (eqs. 7, 9 and 10), and the largest
eigenvalues of the matrix of correlations give the weights.  But

- the rows are kept, as packed bits, and pairs are counted and inverted some columns at a time.  Columns are put in the
  order of their number of ones: pairs of a block then have few different 2 x 2 tables, and each table is solved once;
- C^xx and C^ss exist in float32, once, while the leading eigenvalues are found by Lanczos' method.  There are no
  standard errors, and neither the negative part of the spectrum nor what was undetermined is known pair by pair.

Columns that are constant take no part.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from latentbits.core.batch import MISSING
from latentbits.core.limits import Pace, TimeLeft, check_memory
from latentbits.models.clipped_gaussian import tetrachoric
from latentbits.models.clipped_gaussian.spectrum import Spectrum, leading, watch_factors, within_bounds
from latentbits.models.clipped_gaussian.tuning import EMPTY_CELL_SHARE, WIDE_PAIRS_AT_ONCE

__all__ = ["Found", "Packed", "bytes_needed", "correlate", "factor_weights", "pack"]

ROWS_PER_WORD = 64


class Packed(NamedTuple):
    """Rows as bits: 64 of them in a word of each column, the last ones padded with rows that were not seen."""

    n_rows: float  # without the padding
    # ones, seen: (words, d) uint64: bits that are 1; entries that are not missing, None where none is
    ones: np.ndarray
    seen: np.ndarray | None
    weights: np.ndarray | None = None  # (words, 64): how often each row counts, 0 for padding; None for once


class Found(NamedTuple):
    """The correlations of the columns that vary, and counts of pairs."""

    means: np.ndarray  # (d,): shares of ones; 0.5 of a column that was never observed
    observed: np.ndarray  # (d,): rows with a bit
    columns: np.ndarray  # (v,): numbers of the columns that vary, in the order of the matrices
    # binary, latent: (v, v) float32: C^ss and C^xx
    binary: np.ndarray
    latent: np.ndarray
    # n_undetermined, n_corrected, n_pairs: pairs that the data do not determine; those with an empty cell, which was
    # corrected; all
    n_undetermined: int
    n_corrected: int
    n_pairs: int

    def spectra(self, n_components: int, left: TimeLeft) -> tuple[Spectrum, Spectrum]:
        """Find the leading eigenvalues of C^xx with eigenvectors over all columns, and those of C^ss."""
        n = min(max(8, n_components + 3), len(self.columns))  # some more, to see where they fall off
        latent, binary = (self._over_columns(leading(x, n, left)) for x in (self.latent, self.binary))
        return latent, binary

    def _over_columns(self, found: Spectrum) -> Spectrum:
        vectors = np.zeros((len(self.means), len(found.values)))
        vectors[self.columns] = found.vectors
        return Spectrum(found.values, vectors * np.where(vectors.sum(0) < 0, -1.0, 1.0))


def bytes_needed(n_columns: int) -> int:
    """Return the memory that learning takes beside the rows: two matrices in float32, and what the blocks take."""
    threads = os.cpu_count() or 1
    return 8 * n_columns**2 + threads * 160 * WIDE_PAIRS_AT_ONCE


def pack(blocks: Iterable[np.ndarray], n_columns: int, weights: np.ndarray | None = None) -> Packed:
    """Pack encoded rows (uint8, 255 for missing), in blocks of any size, as bits; and how often each counts."""
    ones, seen, n_rows, n_bytes = [], [], 0, 0
    for rows in _whole_words(blocks):
        n_rows += len(rows)
        ones.append(_words(rows == 1))
        seen.append(_words(rows != MISSING))
        n_bytes += 2 * ones[-1].nbytes
        if len(ones) % 64 == 1:
            check_memory(
                bytes_needed(n_columns) + n_bytes,
                f"learning from {n_columns} columns and more than {n_rows} rows",
                "learn from a sample of the rows; with keep_pairs=True memory does not grow with the rows",
            )
    both = [np.concatenate(parts) if parts else np.zeros((0, n_columns), np.uint64) for parts in (ones, seen)]
    complete = bool(np.all(_count_bits(both[1], None) == n_rows))
    packed = Packed(n_rows, both[0], None if complete else both[1])
    if weights is None:
        return packed
    padded = np.pad(weights, (0, -n_rows % ROWS_PER_WORD)).reshape(-1, ROWS_PER_WORD)
    return packed._replace(n_rows=float(weights.sum()), weights=padded)


def correlate(packed: Packed, bias: bool, correction: float | int, left: TimeLeft) -> Found:
    """Compute C^ss and C^xx of the columns that vary.

    `packed`: the rows.  `bias`, `correction`: as in `tetrachoric.correlations`.  `left`: seconds left: where they will
    not do, `OutOfTimeError` says so after the first block.
    """
    n, d = packed.n_rows, packed.ones.shape[1]
    ones = _count_bits(packed.ones, packed.weights)
    observed = np.full(d, n) if packed.seen is None else _count_bits(packed.seen, packed.weights)
    means = np.divide(ones, observed, out=np.full(d, 0.5), where=observed > 0)
    varying = np.flatnonzero((ones > 0) & (observed - ones > EMPTY_CELL_SHARE * observed))
    columns = varying[np.argsort(np.minimum(ones, observed - ones)[varying], kind="stable")]
    # both matrices, filled block by block
    v = len(columns)
    binary, latent = np.empty((2, v, v), np.float32)
    seen = None if packed.seen is None else packed.seen[:, columns]
    rows = packed._replace(ones=packed.ones[:, columns], seen=seen)
    counts = ones[columns]

    def fill(part: slice) -> tuple[int, int, int]:
        """Fill rows `part` of both matrices, from the diagonal on, and what is below them by symmetry."""
        found = _block(rows, counts, part, bias, correction)
        for matrix, values in ((binary, found.binary), (latent, found.latent)):
            matrix[part, part.start :] = values
            matrix[part.start :, part] = values.T
        return part.stop - part.start, _above_diagonal(found.undetermined), _above_diagonal(found.corrected)

    n_pairs = v * (v - 1) // 2
    pace = Pace(f"inverting {n_pairs:,} pairs of columns", max(1, n_pairs), left)
    undetermined = corrected = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        parts = list(_parts(v))
        # a few at a time, so that an end is noticed before all are done
        step = 2 * (os.cpu_count() or 1)
        for first in range(0, len(parts), step):
            for part, (height, some, empty) in zip(parts[first:], pool.map(fill, parts[first : first + step])):
                undetermined, corrected = undetermined + some, corrected + empty
                pace.done += max(1, height * (v - part.start) - height * (height + 1) // 2)
            pace.add(0)
    np.fill_diagonal(latent, 1)
    if not bias:
        np.fill_diagonal(binary, 1)
    return Found(means, observed, columns, binary, latent, undetermined, corrected, n_pairs)


def factor_weights(found: Found, start: Spectrum, n_components: int, least_noise: float, left: TimeLeft) -> np.ndarray:
    """Find weights whose W W' comes closest to correlations, the diagonal left out (`spectrum.factor_weights`).

    With very many columns for each component the noise is known to begin with, but for little: it is taken off the
    diagonal, components are found again, and so on (principal axes), which ends where least squares does.
    """
    d, n = len(found.means), min(n_components, len(found.columns))
    weights = start.weights(n)[found.columns]
    psi = np.clip(1 - np.sum(weights**2, 1), least_noise, 1)
    top = Spectrum(start.values[:n], start.vectors[found.columns, :n])
    check = watch_factors(len(found.columns), left)
    for _ in range(20):
        check()
        top = leading(found.latent, n, left, less=psi, start=top.vectors.sum(1))
        weights = top.weights(n)
        before, psi = psi, np.clip(1 - np.sum(weights**2, 1), least_noise, 1)
        if np.max(np.abs(psi - before), initial=0) < 1e-4:
            break
    whole = np.zeros((d, n_components))
    whole[found.columns, :n] = within_bounds(found.latent, weights, 1 - least_noise, left)
    return whole * np.where(whole.sum(0) < 0, -1.0, 1.0)


# --- blocks of pairs ---


class _Block(NamedTuple):
    """Some rows of the matrices, from their first diagonal entry on."""

    binary: np.ndarray
    latent: np.ndarray
    undetermined: np.ndarray
    corrected: np.ndarray


def _parts(v: int) -> Iterator[slice]:
    first = 0
    while first < v:
        last = min(v, first + max(1, WIDE_PAIRS_AT_ONCE // (v - first)))
        yield slice(first, last)
        first = last


def _block(rows: Packed, ones: np.ndarray, part: slice, bias: bool, correction: float | int) -> _Block:
    both = _both(rows.ones, rows.ones, part, rows.weights)
    if rows.seen is None:
        left, right = np.broadcast_arrays(*(x.astype(both.dtype) for x in (ones[part, None], ones[None, part.start :])))
        seen = np.full_like(both, rows.n_rows)
    else:
        left, right = (_both(*x, part, rows.weights) for x in ((rows.ones, rows.seen), (rows.seen, rows.ones)))
        seen = _both(rows.seen, rows.seen, part, rows.weights)
    # a table and its mirror image are one
    tables = [x.reshape(-1) for x in (both, np.minimum(left, right), np.maximum(left, right), seen)]
    distinct, place = _distinct(tables)
    rho, undetermined, corrected = tetrachoric.of_tables(*distinct, bias=bias, correction=correction)
    binary = tetrachoric.covariance_of_bits(both, left, right, seen, bias)
    return _Block(binary, *(x[place].reshape(both.shape) for x in (rho.astype(np.float32), undetermined, corrected)))


def _distinct(tables: list[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
    """Find the different tables among some, given by counts in four arrays, and which of them each table is."""
    if tables[0].dtype.kind == "f":  # sums of weights, of which hardly two are alike
        return tables, np.arange(len(tables[0]))
    lows = [int(x.min()) for x in tables]
    widths = [int(x.max()) - low + 1 for x, low in zip(tables, lows)]
    size, m = math.prod(widths), len(tables[0])
    if size >= 2**62:  # with these many rows hardly two tables are alike
        return tables, np.arange(m)
    # one number for each table, and its place among the different ones
    code = np.zeros(m, np.int64)
    for x, low, width in zip(tables, lows, widths):
        code *= width
        code += x - low
    place: np.ndarray
    if size <= 4 * m:
        there = np.zeros(size, bool)
        there[code] = True
        distinct = np.flatnonzero(there)
        number = np.empty(size, np.int32)
        number[distinct] = np.arange(len(distinct), dtype=np.int32)
        place = number[code]
    else:
        distinct, place = np.unique(code, return_inverse=True)
    found = []  # from numbers back to counts
    for low, width in zip(reversed(lows), reversed(widths)):
        found.append(distinct % width + low)
        distinct = distinct // width
    return found[::-1], place.reshape(-1)


def _both(left: np.ndarray, right: np.ndarray, part: slice, weights: np.ndarray | None) -> np.ndarray:
    """Count the rows in which both are set: columns `part` against all from its first on."""
    if weights is not None:
        sums = np.zeros((part.stop - part.start, left.shape[1] - part.start))
        for some in _some_words(len(left)):
            weighed = weights[some].reshape(-1, 1) * _bits(left[some, part])
            sums += weighed.T @ _bits(right[some, part.start :])
        return sums
    total = np.zeros((part.stop - part.start, left.shape[1] - part.start), np.int32)
    for a, b in zip(left, right):
        total += np.bitwise_count(a[part, None] & b[None, part.start :])
    return total


def _above_diagonal(flags: np.ndarray) -> int:
    """Count the set ones of the pairs i < j of a block that begins on the diagonal."""
    return int(np.triu(flags, 1).sum())


# --- bits ---


def _whole_words(blocks: Iterable[np.ndarray]) -> Iterator[np.ndarray]:
    """Cut rows into blocks of a multiple of 64 rows, but for the last."""
    rest: np.ndarray | None = None
    for block in blocks:
        rows = block if rest is None or not len(rest) else np.concatenate([rest, block])
        whole = len(rows) - len(rows) % ROWS_PER_WORD
        if whole:
            yield rows[:whole]
        rest = rows[whole:]
    if rest is not None and len(rest):
        yield rest


def _words(bits: np.ndarray) -> np.ndarray:
    """Pack (rows, d) of bool as (words, d)."""
    rows, d = bits.shape
    padded = bits if rows % ROWS_PER_WORD == 0 else np.pad(bits, ((0, -rows % ROWS_PER_WORD), (0, 0)))
    eights = np.packbits(padded, axis=0).reshape(-1, ROWS_PER_WORD // 8, d)
    return np.ascontiguousarray(eights.swapaxes(1, 2)).view(np.uint64).reshape(-1, d)


def _bits(words: np.ndarray) -> np.ndarray:
    """Unpack (words, d) as (rows, d) of 0 and 1 in float64: `_words` undone."""
    n, d = words.shape
    eights = np.ascontiguousarray(words).view(np.uint8).reshape(n, d, ROWS_PER_WORD // 8).swapaxes(1, 2)
    return np.unpackbits(eights.reshape(-1, d), axis=0).astype(np.float64)


def _some_words(n: int) -> Iterator[slice]:
    """Go through words whose bits are unpacked, sixteen at a time."""
    return (slice(first, first + 16) for first in range(0, n, 16))


def _count_bits(words: np.ndarray, weights: np.ndarray | None) -> np.ndarray:
    """Count the set bits of each column, each as often as its row counts."""
    if weights is not None:
        parts = (weights[some].ravel() @ _bits(words[some]) for some in _some_words(len(words)))
        return sum(parts, np.zeros(words.shape[1]))
    total = np.zeros(words.shape[1], np.int64)
    for row in words:
        total += np.bitwise_count(row)
    return total
