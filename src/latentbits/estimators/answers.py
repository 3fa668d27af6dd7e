"""Answers of a fitted model for each row: latents, completed and drawn rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import numpy as np
from jax.tree_util import Partial
from jaxtyping import PyTree
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from latentbits.core.compilation import callable_tree
from latentbits.core.errors import DataError
from latentbits.core.model import Model
from latentbits.engines.chunks import Layout, layout_for
from latentbits.engines.dask import DaskEngine
from latentbits.engines.fit import seed_key
from latentbits.engines.host import host_rows
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine, Pass, map_rows, start_pass
from latentbits.engines.sparse import SparseEngine, layout_of
from latentbits.estimators.lazy import lazy_rows
from latentbits.estimators.settings import Settings
from latentbits.estimators.tables.frames import is_dask, like_input
from latentbits.estimators.tables.opening import open_rows, open_values

__all__ = ["Answers", "joined", "means_of"]


class Answers(Settings):
    """Estimator that answers questions about single rows."""

    def transform(self, X: Any) -> np.ndarray:
        """Compute posterior means of the latents of each row.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.

        Returns
        -------
        ndarray of shape (n_rows, n_latents)
        """
        return self._map_rows(means_of(self._fitted()), X, sparse=True)

    def posterior(self, X: Any) -> Any:
        """Compute the posterior of the latents of each row; it has `mean`, `mode`, and more in some families.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.
        """
        return self._map_rows(self._fitted().infer, X, sparse=True)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Compute P(bit = 1 | latents) of each column, at given points of the latent space.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_latents)
            Latents, as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_rows, n_columns)
        """
        self._fitted()  # an unfitted model has no latents
        return self._decoded(X, self._n_features_out)

    def _decoded(self, latents: Any, n_latents: int) -> np.ndarray:
        """Return means of the columns at latents in the form of the model's record."""
        model = self._fitted()
        engine = open_values(self, latents, n_latents)
        return self._in_place(joined(self._map_engine(Partial(_decode_rows, callable_tree(model.decode)), engine)))

    def complete(self, X: Any) -> Any:
        """Fill in the missing bits with P(bit = 1 | the observed bits of the row); observed bits are kept.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            Bits, NaN for missing.  A frame comes back as a frame.

        Returns
        -------
        ndarray or frame of shape (n_rows, n_columns)
        """
        filled = self._in_place(self._map_rows(Partial(_fill_in, callable_tree(self._fitted().complete)), X))
        if self.takes_reals:
            filled = (
                _with_given(filled, X)
                if is_dask(X)
                else _with_observed(filled, open_rows(self, X, reset=False, real=True))
            )
        return like_input(X, filled)

    def sample(self, n: int = 1, random_state: Any = None) -> np.ndarray:
        """Draw rows from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None
            Seed.

        Returns
        -------
        ndarray of shape (n, n_columns)
        """
        model = self._fitted()
        if n < 0:
            raise ValueError(f"n must be at least 0, got {n}")
        seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
        nothing = np.zeros((n, 1), np.uint8)  # rows stand for their numbers, from which each gets its key
        draw = Partial(_sample_rows, callable_tree(model.sample))
        parts = list(self._map_engine(draw, MemoryEngine(nothing), seed))
        bits = np.concatenate(parts) if parts else np.zeros((0, self.n_features_in_))
        return self._in_place(bits).astype(self._sample_dtype)

    def _in_place(self, rows: np.ndarray) -> np.ndarray:
        """Undo what a family did to the rows of the user before learning; nothing in most."""
        return rows

    def _fitted(self) -> Model:
        """Return the record of a fitted model."""
        check_is_fitted(self, "params_")
        return self._model()

    def _map_rows(self, function: Callable[..., Any], X: Any, *, sparse: bool = False) -> Any:
        """Apply a function of each row to X, lazily where X is a Dask collection."""
        engine = self._open(X, reset=False)
        dtype = self._dtype_for(engine)
        if isinstance(engine, DaskEngine):
            return lazy_rows(function, engine, self._layout(dtype, engine), self._given(dtype))
        return joined(self._map_engine(function, engine, dtype=dtype, sparse=sparse))

    def _map_engine(
        self,
        function: Callable[..., Any],
        engine: Engine,
        seed: int | None = None,
        dtype: np.dtype | None = None,
        *,
        sparse: bool = False,
    ) -> Iterator[PyTree]:
        """Apply a function of each row, chunk by chunk, with a seed if it draws random numbers.

        `sparse` if it takes lists of ones where the model does.
        """
        dtype = self._dtype() if dtype is None else dtype
        if sparse and isinstance(engine, SparseEngine):
            layout = layout_of(self._model(), engine, dtype)
        else:
            layout = self._layout(dtype, engine, draws=seed is not None)
        return map_rows(function, engine, layout, self._given(dtype, seed or 0))

    def _layout(self, dtype: np.dtype, engine: Engine, *, draws: bool = False) -> Layout:
        """Cut written-out rows; random numbers of rows are drawn by programs."""
        model = self._fitted()
        layout = layout_for(model.row_floats(self.n_features_in_), dtype, n_columns=self.n_features_in_)
        return layout if draws else layout._replace(host_rows=host_rows(model, engine, layout.rows_per_chunk))

    def _given(self, dtype: np.dtype, seed: int = 0) -> Pass:
        """Prepare parameters, shared quantities and key for functions of rows."""
        return start_pass(self._model(), dtype, self.params_, seed_key(seed, "use"))


def joined(parts: Iterator[PyTree]) -> Any:
    """Join the results of chunks; scalars are the same in every chunk."""

    def leaf(*pieces: np.ndarray) -> np.ndarray:
        return np.concatenate(pieces) if pieces[0].ndim else pieces[0]

    pieces: Sequence[PyTree] = list(parts)
    if not pieces:
        raise DataError("X has no rows: at least one is needed.")
    return jax.tree.map(leaf, *pieces)


# Functions of each row are trees, so that the numbers that a model's function holds stay arguments of programs.


def means_of(model: Model) -> Partial:
    """Make the function that gives posterior means."""
    return callable_tree(model.mean) or Partial(_mean, callable_tree(model.infer))


def _mean(infer: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return infer(params, shared, batch).mean


def _decode_rows(decode: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return decode(params, batch.values)


def _sample_rows(sample: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    return sample(params, shared, batch.keys)


def _with_observed(filled: np.ndarray, rows: Engine) -> np.ndarray:
    """Put back observed real numbers, which were rounded on their way through the model."""
    out = filled.astype(np.float64)
    first = 0
    for block in rows.blocks():
        np.copyto(out[first : first + len(block)], block, where=~np.isnan(block))
        first += len(block)
    narrow = out.astype(filled.dtype)
    return narrow if np.array_equal(narrow, out) else out


def _with_given(filled: Any, X: Any) -> Any:
    """Put back the observed numbers of a Dask array or frame; return a Dask array."""
    import dask.array as da

    given = (X.to_dask_array(lengths=True) if hasattr(X, "columns") else X).astype(np.float64)
    return da.where(da.isnan(given), filled, given)


def _fill_in(complete: Partial, params: PyTree, shared: PyTree, batch: Any) -> Any:
    if batch.observed is None:
        return batch.values
    guess = complete(params, shared, batch)
    return batch.values * batch.observed + guess * (1 - batch.observed)
