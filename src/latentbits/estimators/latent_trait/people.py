"""Groups and covariates of the people who answer: what `fit` learns of them, and rows together with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from latentbits.core.errors import DataError, ModelFileError
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.passes import Engine
from latentbits.estimators.latent_trait.base import LinearTrait
from latentbits.estimators.latent_trait.item_params import spread_of
from latentbits.estimators.tables.covariates import read_covariates, same_covariates
from latentbits.estimators.tables.weights import open_weights, weighted
from latentbits.models.latent_trait.item_params import Params
from latentbits.reports.items import listed

if TYPE_CHECKING:
    from latentbits.estimators.latent_trait.item_response import ItemResponse

__all__ = [
    "Labels",
    "People",
    "Population",
    "beside",
    "labels_in_file",
    "labels_of",
    "open_people",
    "population_of",
    "runaways",
]

# standard deviations of the trait by which groups, or people a covariate apart, are believed to differ
MOST_SDS_APART = 10.0
MOST_GROUPS = 1000


class Population(NamedTuple):
    """Distribution of the trait among the people: N(mean + covariates @ coefficients, variance) in each group.

    Attributes
    ----------
    groups
        Labels, the reference first; () where there is one group.
    mean, variance
        (n_groups,) those of the trait where covariates are 0; 0 and 1 of each factor where nothing was learned.
    covariates
        Names; () where there are none.
    coefficients
        (n_covariates,) of the latent regression.
    """

    groups: tuple[Any, ...]
    mean: np.ndarray
    variance: np.ndarray
    covariates: tuple[str, ...]
    coefficients: np.ndarray


class Labels(NamedTuple):
    """Labels of the groups that a fit has learned, the reference first, and names of covariates; () for none."""

    groups: tuple[Any, ...] = ()
    covariates: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Write how they are given to a method."""
        return ", ".join(word for word, known in zip(("groups=g", "covariates=Z"), self) if known)


class People(NamedTuple):
    """Rows with what is known of the people beside their answers."""

    X: Any  # answers
    groups: Any = None  # label of each row's group; None where there is one
    covariates: Any = None  # (n_rows, n_covariates) numbers, or a frame; None where there are none


# ---------------------------------------------------------------- what a fit learns of people


def population_of(params: Any, labels: Labels) -> Population:
    """Make the population of a fitted model."""
    if not isinstance(params, Params):
        return Population((), np.zeros(1), np.ones(1), (), np.zeros(0))
    variance = np.exp(2 * params.log_sd)
    return Population(labels.groups, np.array(params.mean), variance, labels.covariates, np.array(params.coefficients))


def labels_of(people: People, sample_weight: Any) -> Labels:
    """Read labels and names to learn with; refuse what a fit could not find out."""
    labels: tuple[Any, ...] = ()
    one = [np.ones((1, 1))]
    if people.groups is not None:
        found, which = np.unique(_one_each(people.groups), return_inverse=True)
        labels = _in_order(found.tolist(), people.groups)
        if len(labels) < 2:
            raise DataError(f"groups must have at least 2 different labels, found {len(labels)}")
        # rows may be patterns with counts, and weights of a survey may be shares
        weights = open_weights(sample_weight, len(which), people.X)
        _refuse_scattered(len(labels), len(which) if weights is None else max(len(which), float(weights.sum())))
        if weights is not None:
            empty = [str(label) for label, n in zip(found.tolist(), np.bincount(which, weights)) if not n > 0]
            if empty:
                raise DataError(f"no row of groups {listed(empty)} has a weight above 0: leave these rows out")
        one = [np.eye(len(labels))[which]]
    names: tuple[str, ...] = ()
    if people.covariates is not None:
        values, found_names = read_covariates(people.covariates)
        names = found_names or _unnamed(values.shape[1])
        weights = open_weights(sample_weight, len(values), people.X)
        counted = np.ones(len(values), bool) if weights is None else weights > 0
        one = [np.broadcast_to(one[0], (len(values), one[0].shape[1]))[counted], values[counted]]
        one[1] = one[1] - one[1].mean(0)
        spread = one[1].std(0)
        if (spread == 0).any() or np.linalg.matrix_rank(np.concatenate([one[0], one[1] / spread], 1)) < sum(
            part.shape[1] for part in one
        ):
            raise DataError("covariates must not be constant, nor sums of each other or of the groups: leave some out")
    return Labels(labels, names)


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


def _refuse_scattered(n_groups: int, n_people: float) -> None:
    """Refuse groups that hardly anybody is in: mostly a number was given for a label."""
    each = n_people / n_groups
    if n_groups > MOST_GROUPS or each < (
        10 if n_groups > 50 else 5  # people on average
    ):
        raise DataError(
            f"groups has {n_groups} different labels for {n_people:g} people, {each:.1f} in each: a mean and a "
            f"variance cannot be learned from so few, nor of more than {MOST_GROUPS} groups. Groups are labels, as of "
            "schools or countries; a number such as age goes into covariates"
        )


def _unnamed(n: int) -> tuple[str, ...]:
    """Make names of covariates for an array, which has none."""
    return tuple(f"z{i}" for i in range(n))


def labels_in_file(groups: Any, covariates: Any) -> Labels:
    """Read labels and names as a model file has them; refuse what is neither."""
    plain = isinstance(groups, list) and all(type(label) in (str, int, float, bool) for label in groups)
    if not plain or len(set(groups)) < len(groups) or len(groups) == 1 or len(groups) > MOST_GROUPS:
        raise ModelFileError("'groups' must be a list of different labels")
    if not (isinstance(covariates, list) and all(isinstance(name, str) for name in covariates)):
        raise ModelFileError("'covariates' must be a list of names")
    return Labels(tuple(groups), tuple(covariates))


def runaways(params: Params, labels: Labels, engine: Engine) -> list[str]:
    """Name coefficients, means and variances that cannot be of people."""
    unit, out = float(np.exp(params.log_sd[0])), []
    away = np.asarray(params.mean - params.mean[0]) / unit
    ratio = np.exp(2 * (params.log_sd - params.log_sd[0]))
    for label, mean, variance in zip(labels.groups, away.tolist(), ratio.tolist()):
        if abs(mean) > MOST_SDS_APART:
            out.append(f"the mean of {label} is {mean:.3g} standard deviations from that of {labels.groups[0]}")
        if not 0.01 <= variance <= 100.0:  # in units of the first group's
            out.append(f"the variance of {label} is {variance:.2g} times that of {labels.groups[0]}")
    if labels.covariates:
        _, spread = spread_of(engine, len(labels.covariates))
        for name, size in zip(labels.covariates, (params.coefficients * spread / unit).tolist()):
            if abs(size) > MOST_SDS_APART:
                out.append(f"one standard deviation of {name} moves the trait by {size:.3g} of the trait's")
    return out


# ---------------------------------------------------------------- rows with people


def open_people(self: ItemResponse, X: Any, labels: Labels, *, reset: bool, sample_weight: Any) -> Engine:
    """Open the rows, with groups and covariates as further columns."""
    people = X if isinstance(X, People) else People(X)
    bits = LinearTrait._open(self, people.X, reset=reset)
    if not any(labels):
        if people.groups is not None or people.covariates is not None:
            raise ValueError("this model was fitted without groups and covariates: give X alone")
        return weighted(bits, sample_weight, people.X)
    if not isinstance(bits, MemoryEngine):
        raise TypeError("groups and covariates go with a table in memory: pass a frame, an array or a list of rows")
    n, d = bits.table.shape
    answers = np.where(bits.table == 255, np.nan, bits.table) if bits.table.dtype == np.uint8 else bits.table
    extra = [answers, *columns_of(people, labels, n, f"pass {labels}")]
    engine = weighted(MemoryEngine(np.column_stack(extra)), sample_weight, people.X)
    engine.n_answers = d  # type: ignore[attr-defined]
    return engine


def columns_of(people: People, known_labels: Labels, n_rows: int, advice: str) -> list[np.ndarray]:
    """Make columns beside the bits of numbers of groups, and covariates; `advice` says how to give all of them."""
    out: list[np.ndarray] = []
    for name, known in zip(("groups", "covariates"), known_labels):
        if bool(known) != (getattr(people, name) is not None):
            there = "with" if known else "without"
            raise ValueError(f"this model was fitted {there} {name}: {advice}")
    if people.groups is not None:
        labels = _one_each(people.groups)
        code = {label: number for number, label in enumerate(known_labels.groups)}
        unknown = [label for label in labels.tolist() if label not in code]
        if unknown:
            raise DataError(
                f"groups has {unknown[0]!r}; the model knows {listed([str(g) for g in known_labels.groups])}"
            )
        out.append(np.array([code[label] for label in labels.tolist()], float))
    if people.covariates is not None:
        known = known_labels.covariates
        values, names = read_covariates(people.covariates)
        if values.shape[1] != len(known):
            raise DataError(f"covariates has {values.shape[1]} columns, the model {len(known)}")
        if known != _unnamed(len(known)) or sorted(names or ()) == sorted(known):
            same_covariates(names, known)
        out.append(values)
    for name, part in zip([n for n in ("groups", "covariates") if getattr(people, n) is not None], out):
        if len(part) != n_rows:
            raise DataError(f"{name} has {len(part)} rows, X has {n_rows}")
    return out


def beside(self: ItemResponse, X: Any, groups: Any, covariates: Any) -> Any:
    """Join rows with what is known of the people."""
    check_is_fitted(self, "params_")
    return X if groups is None and covariates is None else People(X, groups, covariates)
