"""Groups and covariates: labels and numbers of the rows, beside their bits.

`labels_of` reads and checks them to learn with, `columns_of` to use what was learned; `joined` puts them after the bits
as further columns.  A model keeps `Labels`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_array

from latentbits.core.batch import MISSING
from latentbits.core.errors import DataError, ModelFileError
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.estimators.tables.weights import open_weights, weighted
from latentbits.reports.items import listed

__all__ = ["Beside", "Labels", "columns_of", "joined", "labels_in_file", "labels_of", "names_for", "whitening"]

MOST_GROUPS = 1000
LEAST_ROWS_PER_GROUP, MANY_GROUPS, LEAST_ROWS_PER_GROUP_OF_MANY = 5, 50, 10  # on average
LEAST_SPREAD_SHARE = 1e-12  # of the largest value of a covariate; below, it is constant but for rounding
LEAST_VARIANCE_SHARE = 1e-10  # of the largest variance of standardised covariates; below, one follows from others


class Beside(NamedTuple):
    """Rows with what is known of them beside their bits."""

    X: Any  # bits
    groups: Any = None  # label of each row's group; None where there is one
    covariates: Any = None  # (n_rows, n_covariates) numbers, or a frame; None where there are none


class Labels(NamedTuple):
    """Labels of the groups that a fit has learned, the reference first, and names of covariates; () for none."""

    groups: tuple[Any, ...] = ()
    covariates: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write how they are given to a method."""
        return ", ".join(word for word, known in zip(("groups=g", "covariates=Z"), self) if known)

    @property
    def named(self) -> bool:
        """Whether covariates came with names, as those of a frame."""
        return self.covariates != names_for(len(self.covariates))


def names_for(n: int) -> tuple[str, ...]:
    """Make names of covariates for an array, which has none."""
    return tuple(f"z{i}" for i in range(n))


# ---------------------------------------------------------------- to learn with


def labels_of(rows: Beside, sample_weight: Any) -> Labels:
    """Read labels and names to learn with; refuse what a fit could not find out."""
    labels: tuple[Any, ...] = ()
    which = None
    if rows.groups is not None:
        found, which = np.unique(_one_each(rows.groups), return_inverse=True)
        labels = _in_order(found.tolist(), rows.groups)
        if len(labels) < 2:
            raise DataError(f"groups must have at least 2 different labels, found {len(labels)}")
        # rows may be patterns with counts, and weights of a survey may be shares
        weights = open_weights(sample_weight, len(which), rows.X)
        _refuse_scattered(len(labels), len(which) if weights is None else max(len(which), float(weights.sum())))
        if weights is not None:
            empty = [str(label) for label, n in zip(found.tolist(), np.bincount(which, weights)) if not n > 0]
            if empty:
                raise DataError(f"no row of groups {listed(empty)} has a weight above 0: leave these rows out")
    names: tuple[str, ...] = ()
    if rows.covariates is not None:
        values, found_names = _read_covariates(rows.covariates)
        names = found_names or names_for(values.shape[1])
        if which is not None and len(which) != len(values):
            raise DataError(f"covariates has {len(values)} rows, groups has {len(which)}")
        whitening(values, names, open_weights(sample_weight, len(values), rows.X), which)
    return Labels(labels, names)


def whitening(
    Z: np.ndarray, names: Sequence[str], weights: np.ndarray | None = None, which: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Find centre and turn, for which (Z - centre) @ turn has mean 0 and the identity for its covariance.

    Covariates that say nothing more are refused: constant ones, and those that follow from others, or from `which`,
    the number of each row's group; the covariance is then that within groups.
    """
    share = np.ones(len(Z)) if weights is None else weights
    counts = share > 0
    Z, share = Z[counts], share[counts] / share.sum()
    if not len(Z):
        raise DataError("covariates has no rows: a fit needs some")
    centre = share @ Z
    spread = np.sqrt(share @ (Z - centre) ** 2)
    constant = spread <= LEAST_SPREAD_SHARE * np.maximum(1e-300, np.abs(Z).max(0))
    if constant.any():
        called = listed([names[j] for j in np.flatnonzero(constant).tolist()])
        raise DataError(f"covariates must not be constant, and {called} is the same in all rows: leave it out")
    inner = (Z - centre) / spread
    if which is not None:
        member = np.eye(which.max() + 1)[which[counts]]
        inner = inner - member @ ((member * share[:, None]).T @ inner / (share @ member)[:, None])
    variances, axes = np.linalg.eigh((share[:, None] * inner).T @ inner)
    if variances[0] < LEAST_VARIANCE_SHARE * max(variances[-1], 1.0):
        from_groups = "" if which is None else " or from the groups"
        raise DataError(
            f"a covariate follows from the others{from_groups} (or there are more of them than rows): leave it out"
        )
    return centre, axes / np.sqrt(variances) / spread[:, None]


def _one_each(groups: Any) -> np.ndarray:
    labels = np.asarray(groups)
    if labels.ndim != 1:
        raise DataError(f"groups must be 1-dimensional, one label for each row; found {labels.ndim} dimensions")
    missing = [_is_missing(label) for label in labels.tolist()]
    if any(missing):
        raise DataError(f"groups has no label for row {missing.index(True)}: leave such rows out")
    return labels


def _is_missing(label: Any) -> bool:
    same = label == label  # neither true nor false of pandas' NA
    return label is None or not isinstance(same, bool | np.bool_) or not same


def _in_order(labels: list[Any], groups: Any) -> tuple[Any, ...]:
    """Sort labels, or keep the order of the categories where groups has some."""
    kind = getattr(groups, "dtype", None)
    if type(kind).__name__ not in ("CategoricalDtype", "Enum"):  # of pandas, of polars
        return tuple(labels)
    return tuple(sorted(labels, key=list(kind.categories).index))  # type: ignore[union-attr]


def _refuse_scattered(n_groups: int, n_rows: float) -> None:
    """Refuse groups that hardly anybody is in: mostly a number was given for a label."""
    each = n_rows / n_groups
    if n_groups > MOST_GROUPS or each < (
        LEAST_ROWS_PER_GROUP_OF_MANY if n_groups > MANY_GROUPS else LEAST_ROWS_PER_GROUP
    ):
        raise DataError(
            f"groups has {n_groups} different labels for {n_rows:g} people, {each:.1f} in each: a mean and a "
            f"variance cannot be learned from so few, nor of more than {MOST_GROUPS} groups. Groups are labels, as of "
            "schools or countries; a number such as age goes into covariates"
        )


def _read_covariates(given: Any) -> tuple[np.ndarray, tuple[str, ...] | None]:
    """Read (rows, covariates) as float64, none missing, and their names if any; one covariate may be a plain list."""
    columns = getattr(given, "columns", None)
    names = None if columns is None else tuple(str(name) for name in columns)
    table = np.asarray(given) if names is None else given
    if names is None and table.ndim == 1:
        table = table[:, None]
    if names is None and table.ndim != 2:
        raise DataError(f"covariates must be 2-dimensional, found {table.ndim} dimensions")
    try:
        values = check_array(table, dtype=np.float64, ensure_all_finite=False, ensure_min_samples=0)
    except (TypeError, ValueError):
        _refuse_text(np.asarray(table, object), names)
        raise
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0].tolist()
        found = "NaN" if np.isnan(values[row, column]) else "infinite"
        raise DataError(f"covariates must be numbers, none missing: row {row} of {_called(names, column)} is {found}")
    return values, names


def _refuse_text(table: np.ndarray, names: Sequence[str] | None) -> None:
    for column, row in np.ndindex(table.shape[::-1]):
        try:
            float(table[row, column])
        except (TypeError, ValueError):
            raise DataError(
                f"covariates must be numbers, and {_called(names, column)} has {table[row, column]!r}: categories need "
                "a column of 0 and 1 for each but one of them, as pandas.get_dummies(..., drop_first=True) makes them"
            ) from None


def _called(names: Sequence[str] | None, column: int) -> str:
    return f"column {column}" if names is None else f"column {names[column]!r}"


# ---------------------------------------------------------------- to use what was learned


def columns_of(rows: Beside, known_labels: Labels, n_rows: int, advice: str) -> list[np.ndarray]:
    """Make columns beside the bits: numbers of groups, and covariates; `advice` says how to give all of them."""
    out: list[np.ndarray] = []
    for name, known in zip(("groups", "covariates"), known_labels):
        if bool(known) != (getattr(rows, name) is not None):
            raise DataError(
                f"this model was fitted with {name}: {advice}"
                if known
                else f"this model was fitted without {name}, and takes none"
            )
    if rows.groups is not None:
        labels = _one_each(rows.groups)
        code = {label: number for number, label in enumerate(known_labels.groups)}
        unknown = [label for label in labels.tolist() if label not in code]
        if unknown:
            raise DataError(
                f"groups has {unknown[0]!r}; the model knows {listed([str(g) for g in known_labels.groups])}"
            )
        out.append(np.array([code[label] for label in labels.tolist()], float))
    if rows.covariates is not None:
        known = known_labels.covariates
        values, names = _read_covariates(rows.covariates)
        if values.shape[1] != len(known):
            raise DataError(f"covariates has {values.shape[1]} columns, the model {len(known)}")
        # an array has no names, and is taken as it is
        if names is not None and names != known and (known_labels.named or sorted(names) == sorted(known)):
            raise DataError(f"covariates must be {', '.join(known)}, in this order, as in fit")
        out.append(values)
    for name, part in zip([n for n in ("groups", "covariates") if getattr(rows, n) is not None], out):
        if len(part) != n_rows:
            raise DataError(f"{name} has {len(part)} rows, X has {n_rows}")
    return out


def joined(bits: Engine, rows: Beside, labels: Labels, sample_weight: Any, advice: str) -> MemoryEngine:
    """Make the table of bits, NaN where missing, with numbers of groups and covariates as further columns."""
    if not isinstance(bits, MemoryEngine):
        raise TypeError(
            "groups and covariates go with a table in memory, not sparse: pass a frame, an array or a list of rows"
        )
    n, d = bits.table.shape
    answers = np.where(bits.table == MISSING, np.nan, bits.table) if bits.table.dtype == np.uint8 else bits.table
    table = np.column_stack([answers, *columns_of(rows, labels, n, advice)])
    engine = weighted(MemoryEngine(table), sample_weight, rows.X)
    assert isinstance(engine, MemoryEngine)
    engine.n_answers = d  # type: ignore[attr-defined]
    return engine


def labels_in_file(groups: Any, covariates: Any) -> Labels:
    """Read labels and names as a model file has them; refuse what is neither."""
    plain = isinstance(groups, list) and all(type(label) in (str, int, float, bool) for label in groups)
    if not plain or len(set(groups)) < len(groups) or len(groups) == 1 or len(groups) > MOST_GROUPS:
        raise ModelFileError("'groups' must be a list of different labels")
    if not (isinstance(covariates, list) and all(isinstance(name, str) for name in covariates)):
        raise ModelFileError("'covariates' must be a list of names")
    return Labels(tuple(groups), tuple(covariates))
