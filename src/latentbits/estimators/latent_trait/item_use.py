"""Methods of all models, with groups and covariates of people: fitting, likelihoods, latents, completing, drawing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from jax.tree_util import Partial
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from latentbits.core.model import Stop
from latentbits.engines.memory import MemoryEngine
from latentbits.estimators.history import history_table
from latentbits.estimators.latent_trait.base import LinearTrait
from latentbits.estimators.latent_trait.item_plan import template
from latentbits.estimators.latent_trait.people import beside
from latentbits.estimators.precision import DOUBLE
from latentbits.estimators.tables.beside_bits import Beside, Labels, columns_of, labels_of
from latentbits.estimators.tables.frames import like_input
from latentbits.models.latent_trait import items

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = ["complete", "fit", "from_items", "sample"]


def from_items(
    cls: type[ItemResponse],
    slopes: Any,
    intercepts: Any,
    asymptotes: Any = None,
    *,
    mean: float = 0.0,
    variance: float = 1.0,
    feature_names: Sequence[str] | None = None,
) -> ItemResponse:
    """Make a model of given items, which scores, samples and completes without any fit.

    Parameters
    ----------
    slopes, intercepts : array-like of shape (n_columns,)
        P(bit = 1 | trait) = g + (1 - g) sigmoid(slope trait + intercept).  For a difficulty b the intercept is
        ``-slope * b``.
    asymptotes : array-like of shape (n_columns,) or None
        Lower asymptotes g, from 0 to below 1; None for none.
    mean, variance : float
        Mean and variance of the trait among the people.
    feature_names : sequence of str or None
        Names of the columns.

    Returns
    -------
    ItemResponse

    Examples
    --------
    >>> from latentbits import ItemResponse
    >>> m = ItemResponse.from_items([1.0, 1.5], [0.0, -1.0], asymptotes=[0.0, 0.25])
    >>> m.transform([[1, 1], [0, 0]]).shape
    (2, 1)
    """
    given = [np.asarray(part, float) for part in (slopes, intercepts)]
    given.append(np.zeros_like(given[0]) if asymptotes is None else np.asarray(asymptotes, float))
    if given[0].ndim != 1 or not len(given[0]) or any(part.shape != given[0].shape for part in given):
        raise ValueError(
            "slopes, intercepts and asymptotes must be lists of one number for each item, found shapes "
            f"{', '.join(str(part.shape) for part in given)}"
        )
    if not (np.isfinite(mean) and np.isfinite(variance) and variance > 0):
        raise ValueError(f"mean must be finite and variance above 0, got {mean} and {variance}")
    fixed = {
        j: {"slope": float(a), "intercept": float(b), "asymptote": float(g)} for j, (a, b, g) in enumerate(zip(*given))
    }
    model = cls("2PL" if asymptotes is None else "3PL", fixed=fixed)
    model.n_features_in_ = len(fixed)
    if feature_names is not None:
        if len(feature_names) != len(fixed):
            raise ValueError(f"there are {len(feature_names)} names for {len(fixed)} items")
        model.feature_names_in_ = np.array([str(name) for name in feature_names], dtype=object)
    params = template(model._plan(), np.zeros(len(fixed), bool))
    model.params_ = params.replace(mean=np.array([float(mean)]), log_sd=np.array([0.5 * math.log(variance)]))
    model.history_table_ = history_table([])
    model.n_iter_, model.stop_reason_ = 0, str(Stop.GIVEN)
    model.objective_ = model.left_to_gain_ = math.nan
    model.dtype_ = DOUBLE.name
    model._expose()
    return model


def fit(
    self: ItemResponse,
    X: Any,
    y: Any = None,
    sample_weight: Any = None,
    checkpoint: Any = None,
    engine: Any = None,
    X_val: Any = None,
    groups: Any = None,
    covariates: Any = None,
) -> ItemResponse:
    """Learn the model from bits.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        0, 1 or bool, NaN for missing; a pandas or polars frame, SciPy sparse matrix, memory map, Dask array, a
        path (.parquet, .zarr or .npy, a pattern such as ``rows-*.npy``, or a list of them), or a function that
        gives an iterable of batches each time it is called (for tables larger than memory).
    y : Ignored
        Present for scikit-learn's pipelines.
    sample_weight : array-like of shape (n_rows,) or None
        How often each row counts: counts of patterns, survey weights, a bootstrap's draws.  A table of distinct
        rows with their counts gives the model of the table written out.  None counts each row once.
    checkpoint : str, path, latentbits.Checkpoint or None
        A folder in which learning is kept every half a minute: after a crash the same call goes on from there, and
        ends with the bits that it would have had.
    engine : "dask" or None
        "dask" has the workers of the active `distributed.Client` learn from tables in memory and from .npy and
        .zarr files, too; without a client, spawned processes, one for each core.  None goes by the kind
        of X.
    groups : array-like of shape (n_rows,) or None
        Label of each row's group, for a table in memory and one latent: items are the same in all groups, the trait
        is N(0, 1) in the first of the sorted labels, and its mean and variance are learned in the others.  A pandas
        Categorical (or polars Enum) has the order of its categories: the first that occurs is the first group.
    covariates : array-like of shape (n_rows, n_covariates) or None
        Numbers, none missing, for a table in memory and one latent: the trait's mean is ``covariates @
        coefficients_`` (latent regression).
    X_val : array-like of shape (n_validation_rows, n_columns) or None
        Rows that are not learned from, for early stopping: learning ends when they gain no more, and the point is
        kept at which they were most probable (`held_out_history_`).  Not with groups or covariates.

    Returns
    -------
    self
    """
    self._labels = Labels()
    if groups is None and covariates is None:
        return LinearTrait.fit(self, X, y, sample_weight, checkpoint, engine, X_val)
    if X_val is not None:
        raise ValueError("X_val does not go with groups or covariates")
    if engine is not None:
        raise ValueError(f"engine={engine!r} does not go with groups or covariates: these take a table in memory")
    rows = Beside(X, groups, covariates)
    self._labels = labels_of(rows, sample_weight)
    return LinearTrait.fit(self, rows, y, sample_weight, checkpoint)


def complete(self: ItemResponse, X: Any, groups: Any = None, covariates: Any = None) -> Any:
    """Fill in the missing bits with P(bit = 1 | the observed bits of the row); observed bits are kept.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns)
        Bits, NaN for missing.
    groups, covariates : array-like or None
        Values of the rows, where `fit` had some.

    Returns
    -------
    ndarray or frame of shape (n_rows, n_columns)
    """
    return like_input(X, LinearTrait.complete(self, beside(self, X, groups, covariates)))


def sample(self: ItemResponse, n: int = 1, random_state: Any = None, groups: Any = None, covariates: Any = None) -> Any:
    """Draw rows from the model.

    Parameters
    ----------
    n : int, default=1
        Number of rows.
    random_state : int, RandomState or None
        Seed.
    groups, covariates : array-like or None
        Values of the rows to draw, where `fit` had some.

    Returns
    -------
    ndarray of shape (n, n_columns)
    """
    check_is_fitted(self, "params_")
    labels = self._labels
    if not any(labels):
        if groups is not None or covariates is not None:
            raise ValueError("this model was fitted without groups and covariates: sample(n) draws from it")
        return LinearTrait.sample(self, n, random_state)
    if groups is None and covariates is None:
        raise ValueError(f"this model has groups or covariates: sample(n, {labels}) has those to draw")
    nothing = np.full((n, self.n_features_in_), np.nan)
    known = columns_of(Beside(nothing, groups, covariates), labels, n, f"call sample(n, {labels})")
    seed = check_random_state(random_state).randint(np.iinfo(np.int32).max)
    parts = list(self._map_engine(Partial(items.draw), MemoryEngine(np.column_stack([nothing, *known])), seed))
    return (np.concatenate(parts) if parts else nothing[:0]).astype(np.uint8)
