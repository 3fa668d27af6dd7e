"""The parameters of an item model that are free, held or equal: from a user's words to places in a vector."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.models.latent_trait.item_params import Params

__all__ = ["LOGIT_PRIOR", "PARAMETERS", "Plan", "Positions", "make_plan", "names_of_free", "template", "with_own_items"]

PARAMETERS = ("slope", "intercept", "asymptote")
LOGIT_PRIOR = (-1.1, 0.5)  # of the logit of an asymptote: 0.25, and 0.11 to 0.47 in 95 of 100


class Plan(NamedTuple):
    """The user's words on items, by position."""

    tied: bool  # one slope for all items: a free one, or 1 where the trait's variance is free
    guessed: tuple[bool, ...]  # which have a free lower asymptote
    # mean and standard deviation of the logit of each asymptote; None for no prior
    priors: tuple[tuple[float, float] | None, ...]
    fixed: dict[tuple[int, str], float]  # values that are held, by item and parameter
    shared: dict[str, tuple[tuple[int, ...], ...]]  # for each parameter, sets of items that have it in common
    population: str  # "standard", "variance" or "free": what of the trait's distribution is learned, in the first group
    weight_prior: float | None  # standard deviation of a normal prior on slopes


def make_plan(
    n_items: int,
    names: Sequence[str] | None,
    *,
    tied: bool,
    asymptote: Any,
    asymptote_prior: Any,
    fixed: Any,
    shared: Any,
    population: str,
    weight_prior: float | None,
) -> Plan:
    """Check the words, and give items by position."""
    position = Positions(n_items, names)
    if isinstance(asymptote, bool | np.bool_):
        guessed = (bool(asymptote),) * n_items
    else:
        chosen = {position("model", item) for item in asymptote}
        guessed = tuple(j in chosen for j in range(n_items))
    held = _fixed(fixed, position)
    plan = Plan(
        tied,
        tuple(free and (j, "asymptote") not in held for j, free in enumerate(guessed)),
        _priors(asymptote_prior, n_items, position),
        held,
        _shared(shared, position),
        population,
        weight_prior,
    )
    _check(plan)
    return plan


class Positions:
    """The position of an item that is given by its name or its position."""

    def __init__(self, n_items: int, names: Sequence[str] | None) -> None:
        self.n_items = n_items
        self.known = {} if names is None else {str(name): j for j, name in enumerate(names)}

    def __call__(self, argument: str, item: Any) -> int:
        place = self.known.get(item) if isinstance(item, str) else item
        if isinstance(place, bool) or not isinstance(place, int | np.integer) or not 0 <= place < self.n_items:
            has = f"columns {', '.join(list(self.known)[:10])}" if self.known else f"columns 0 to {self.n_items - 1}"
            raise ValueError(f"{argument} has {item!r}, which is no column of X: it has {has}")
        return int(place)


def _priors(given: Any, n_items: int, position: Positions) -> tuple[tuple[float, float] | None, ...]:
    if isinstance(given, Mapping):
        own = {position("asymptote_prior", item): prior for item, prior in given.items()}
        return tuple(_prior(own.get(j, LOGIT_PRIOR)) for j in range(n_items))
    return (_prior(given),) * n_items


def _prior(given: Any) -> tuple[float, float] | None:
    if given is None:
        return None
    pair = tuple(float(number) for number in given)
    if len(pair) != 2 or not np.isfinite(pair).all() or pair[1] <= 0:
        raise ValueError(
            "asymptote_prior must be a mean and a standard deviation above 0 of the asymptote's logit, as (-1.1, 0.5), "
            f"None, or these by item; got {given!r}"
        )
    return pair[0], pair[1]


def _fixed(given: Any, position: Positions) -> dict[tuple[int, str], float]:
    held = {}
    for item, values in (given or {}).items():
        j = position("fixed", item)
        if not isinstance(values, Mapping):
            raise ValueError(f"fixed must have a dict such as {{'slope': 1.0}} for each item; {item!r} has {values!r}")
        for parameter, value in values.items():
            _known(parameter, "fixed")
            value = float(value)
            if not np.isfinite(value) or (parameter == "asymptote" and not 0 <= value < 1):
                allowed = "from 0 to below 1" if parameter == "asymptote" else "a finite number"
                raise ValueError(f"the {parameter} of {item!r} in fixed must be {allowed}, got {value}")
            held[j, parameter] = value
    return held


def _shared(given: Any, position: Positions) -> dict[str, tuple[tuple[int, ...], ...]]:
    out = {}
    for parameter, sets in (given or {}).items():
        _known(parameter, "shared")
        found = tuple(tuple(position("shared", item) for item in one) for one in sets)
        flat = [j for one in found for j in one]
        if len(set(flat)) < len(flat):
            raise ValueError(f"shared has an item twice among the sets of {parameter!r}: {sets!r}")
        out[parameter] = found
    return out


def _known(parameter: Any, argument: str) -> None:
    if parameter not in PARAMETERS:
        raise ValueError(f"{argument} has {parameter!r}; parameters are {', '.join(PARAMETERS)}")


def _check(plan: Plan) -> None:
    if plan.tied:
        for parameter, where in [*((p, "fixed") for _, p in plan.fixed), *((p, "shared") for p in plan.shared)]:
            if parameter == "slope":
                raise ValueError(f"model='Rasch' and '1PL' say all of the slopes: leave those in {where} out")
    anchored = plan.tied or any(p == "slope" and value != 0 for (_, p), value in plan.fixed.items())
    if plan.population != "standard" and not anchored:
        raise ValueError(
            f"population={plan.population!r} learns the trait's variance, which slopes must set the unit of: give "
            "model='Rasch' (slopes of 1), or hold a slope by fixed"
        )
    if plan.population == "free" and not any(p == "intercept" for _, p in plan.fixed):
        raise ValueError("population='free' learns the trait's mean: hold an intercept by fixed, which sets its origin")
    for parameter, sets in plan.shared.items():
        for one in sets:
            if any((j, parameter) in plan.fixed for j in one):
                raise ValueError(
                    f"the {parameter} of columns {list(one)} is shared, and fixed for some: one of the two"
                )
            if parameter == "asymptote" and len({(plan.guessed[j], plan.priors[j]) for j in one}) > 1:
                raise ValueError(f"columns {list(one)} share an asymptote: all must have a free one, with one prior")


def template(plan: Plan, idle: np.ndarray, n_groups: int = 1, n_covariates: int = 0) -> Params:
    """Return values to begin with, and places of all that is free.

    `idle`: columns that are constant or never observed: their slope is held at 0, and their intercept, NaN here, where
    all of their rows are nearly certain.
    """
    d = len(plan.guessed)
    guessed = np.array([float(g or plan.fixed.get((j, "asymptote"), 0) > 0) for j, g in enumerate(plan.guessed)])
    kinds = 3 if guessed.any() else 2
    values = np.zeros((d, 3))
    places = np.full((d, 3), -1)
    priors: list[tuple[float, float]] = []  # mean and precision of each free number

    def free(mean: float = 0.0, precision: float = 0.0) -> int:
        priors.append((mean, precision))
        return len(priors) - 1

    on_slopes = 0.0 if plan.weight_prior is None else plan.weight_prior**-2
    common = free(0.0, on_slopes) if plan.tied and plan.population == "standard" and not idle.all() else -1
    of_set: dict[tuple[str, int], int] = {}  # places that sets of items have
    for j in range(d):
        values[j, 0] = 0.0 if idle[j] else 1.0
        for k, parameter in enumerate(PARAMETERS):
            own = next((i for i, one in enumerate(plan.shared.get(parameter, ())) if j in one), None)
            if (j, parameter) in plan.fixed:
                value = plan.fixed[j, parameter]
                values[j, k] = value if k < 2 else _logit(value)
            elif idle[j] and own is None:
                values[j, k] = (0.0, np.nan, 0.0)[k]
                guessed[j] = 0.0 if k == 2 else guessed[j]
            elif k == 0 and plan.tied:
                places[j, k] = common
            elif k == 2 and not plan.guessed[j]:
                continue
            elif own is not None and (parameter, own) in of_set:
                places[j, k] = of_set[parameter, own]
                values[j, k] = values[places[:, k].tolist().index(places[j, k]), k]
            else:
                prior = (0.0, on_slopes if k == 0 else 0.0)
                if k == 2:
                    values[j, k] = -1.5  # where an asymptote without a prior begins
                    if (given := plan.priors[j]) is not None:
                        values[j, k], prior = given[0], (given[0], given[1] ** -2)
                places[j, k] = free(*prior)
                if own is not None:
                    of_set[parameter, own] = int(places[j, k])
    means, sds = np.full(n_groups, -1), np.full(n_groups, -1)
    for g in range(n_groups):
        if g or plan.population == "free":
            means[g] = free()
        if g or plan.population != "standard":
            sds[g] = free()
    slopes = np.array([free() for _ in range(n_covariates)], int)
    n_free = len(priors)
    numbered = lambda at: np.where(at < 0, n_free, at).astype(float)  # noqa: E731
    groups = (n_groups, 1, 1)
    on_free = np.array(priors).reshape(-1, 2)
    return Params(
        np.tile(values[:, :kinds], groups),
        guessed,
        np.zeros(n_groups),
        np.zeros(n_groups),
        np.zeros(n_covariates),
        numbered(np.tile(places[:, :kinds], groups)),
        numbered(means),
        numbered(sds),
        numbered(slopes),
        on_free[:, 0].copy(),
        on_free[:, 1].copy(),
        np.zeros(n_covariates),
        np.ones(n_covariates),
    )


def _logit(value: float) -> float:
    return float(np.log(value / (1 - value))) if value > 0 else 0.0


def with_own_items(params: Params, item: int, parameters: Sequence[str]) -> Params:
    """Give an item parameters for itself in every group after the first; a parameter held stays so."""
    n_free, groups = len(params.prior_mean), len(params.mean)
    item_places = params.item_places.copy()
    new = 0
    for parameter in parameters:
        k = PARAMETERS.index(parameter)
        if item_places[0, item, k] < n_free:
            item_places[1:, item, k] = n_free + new + np.arange(groups - 1) + 0.5  # above the mark of what is held
            new += groups - 1
    total = n_free + new
    fields = dict(vars(params), item_places=item_places)
    for name in ("item_places", "mean_places", "sd_places", "coefficient_places"):
        at = fields[name]
        fields[name] = np.where(at == n_free, total, np.floor(at))
    own = np.zeros(new)
    fields["prior_mean"] = np.concatenate([params.prior_mean, own])
    fields["prior_precision"] = np.concatenate([params.prior_precision, own])
    return Params(**fields)


def names_of_free(params: Params, items: Sequence[str], groups: Sequence[str], covariates: Sequence[str]) -> list[str]:
    """Name the parameter that each free number stands for, the first of several."""
    names = [""] * len(params.prior_mean)
    labels = [
        *(((g, j, k), f"{item} {'logit of asymptote' if p == 'asymptote' else p}" + (f" in {group}" if g else ""))
          for g, group in enumerate(groups or [""]) for j, item in enumerate(items)
          for k, p in enumerate(PARAMETERS[: params.items.shape[2]])),
    ]  # fmt: skip
    population = [
        *zip(params.mean_places, (f"mean{f' of {g}' if groups else ''}" for g in groups or [""])),
        *zip(params.sd_places, (f"log sd{f' of {g}' if groups else ''}" for g in groups or [""])),
        *zip(params.coefficient_places, (f"coefficient of {name}" for name in covariates)),
    ]
    for place, label in [*((params.item_places[at], label) for at, label in labels), *population]:
        if place < len(names) and not names[int(place)]:
            names[int(place)] = label
    return names
