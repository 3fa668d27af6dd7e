"""Experiments that do not depend on each other, over sets, starts, pixels and maps: each is kept as it ends."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from latentbits.data.toys import Prototypes, noisy_prototypes
from latentbits.engines.fit import FitResult
from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.estimators.latent_trait.trait_maps import TraitMaps
from latentbits.models.latent_trait.column_kinds import Params
from latentbits.papers.digits import Twos, load_twos
from latentbits.papers.skeleton import kept
from latentbits.papers.tipping_1998 import claims
from latentbits.papers.tipping_1998.fits import ALGORITHMS, MAIN, estimator_of, exact_error, learn, sample_error, start

__all__ = ["FLIPS", "QUICK", "Plan", "all_trials", "of_maps", "of_pixels", "of_set", "of_start", "principal"]

FLIPS = (0.05, 0.15)
N_ROWS_COMPARED = 200  # rows whose posteriors are compared
WEAK_PRIOR_DEVIATION = 3.0  # standard deviation of the weights of maps that are held to unseen rows


class Plan(NamedTuple):
    """Amount of work to be done."""

    # n_per_prototype, n_digits: rows of each prototype, and of the digits at most
    n_per_prototype: int = 200
    n_digits: int = 10_000
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)  # rows of table 1
    repeats: int = 7  # of the fits that are timed
    # n_timed, n_timed_starts: synthetic sets with flips of 0.05, and starts on the digits, on which the paper's two
    # algorithms are timed
    n_timed: int = 20
    n_timed_starts: int = 5
    # n_seeds, n_starts: synthetic sets of each noise, and starts on the digits
    n_seeds: int = 20
    n_starts: int = 10
    # pixels, n_draws: numbers of pixels of the digits, and how often each number is drawn
    pixels: tuple[int, ...] = (16, 64, 256)
    n_draws: int = 5
    # maps, n_mixtures: numbers of maps, and mixtures of each, from starts of their own
    maps: tuple[int, ...] = (1, 2, 3)
    n_mixtures: int = 5
    step: float = 0.05  # of the grid for exact errors
    tol: float = 1e-5  # nats per row: an algorithm stops when an iteration gains less


QUICK = Plan(n_digits=150, algorithms=MAIN, repeats=1, n_timed=2, n_timed_starts=0, n_seeds=3, n_starts=0, n_draws=0,
             n_mixtures=0, step=0.1, tol=1e-4)  # fmt: skip


def all_trials(out: Path, plan: Plan, digits: str) -> list[Callable[[], Any]]:
    """List what can be done in other processes, in any order."""
    trials: list[Callable[[], Any]] = [partial(principal, out)]
    trials += [partial(of_set, out, plan, flip, seed) for flip in FLIPS for seed in range(plan.n_seeds)]
    if digits == "none":
        return trials
    trials += [partial(of_start, out, plan, digits, seed) for seed in range(plan.n_starts)]
    trials += [partial(of_pixels, out, plan, digits, n, seed) for n in plan.pixels for seed in range(plan.n_draws)]
    return trials + [partial(of_maps, out, plan, digits, n, seed) for n in plan.maps for seed in range(plan.n_mixtures)]


def _twos(digits: str, plan: Plan) -> Twos:
    twos = load_twos(digits, [])
    assert twos is not None
    return twos._replace(X=twos.X[: plan.n_digits])


# --- synthetic sets ---


def of_set(out: Path, plan: Plan, flip: float, seed: int) -> dict[str, Any]:
    """Measure errors and separation by each algorithm on a set with new prototypes, and how good its posteriors are."""

    def compute() -> dict[str, Any]:
        toy = noisy_prototypes(plan.n_per_prototype, flip=flip, random_state=seed)
        params = start(toy.X, seed)
        found: dict[str, Any] = {}
        for name in MAIN:
            result = learn(name, toy.X, params, plan.tol)
            found[name] = _errors(result, toy.X)
            found[name]["separation"] = _separation(result, toy, variational=name == "variational")
            if name == "variational":
                found[name] |= _posteriors(params, result, toy.X)
                found[name]["lines"] = claims.lines_apart(estimator_of(result, toy.X.shape[1]), toy)
        found["by_bits"] = _nearest(toy.X.astype(float), toy.prototypes.astype(float), toy.labels)
        found["prototypes"], found["stands_out"] = claims.prototypes_evident(toy)
        return found

    return kept(out / "runs", f"set_{flip}_{seed}", compute, [plan.n_per_prototype, plan.tol, claims.N_ITERATIONS])


def _errors(result: FitResult, X: np.ndarray) -> dict[str, float]:
    history = np.array([record.objective for record in result.history])
    stage = np.array([record.stage for record in result.history])
    return {
        "sample_error": sample_error(result.params, X),
        "exact_error": exact_error(result.params, X, step=0.1),
        "largest_fall": float(max(0.0, -np.min(np.diff(history)[stage[1:] == stage[:-1]], initial=0.0)) / len(X)),
    }


def _posteriors(start: Params, result: FitResult, X: np.ndarray) -> dict[str, float]:
    return {
        "divergence": _divergence(result, X),
        "rounds": claims.two_are_enough(start, X),
        "rounds_cold": float(np.median(claims.rounds_from_prior(result.params, X[:N_ROWS_COMPARED]))),
    }


def _divergence(result: FitResult, X: np.ndarray) -> float:
    return float(np.median(claims.divergence(estimator_of(result, X.shape[1]), X[:N_ROWS_COMPARED])))


def _separation(result: FitResult, toy: Prototypes, variational: bool) -> float:
    """Compute the share of rows whose place on the map is nearest to that of their prototype.

    Places are posterior means: by eq. 7 for the variational algorithm, exact for the others.
    """
    model = estimator_of(result, toy.X.shape[1])
    both = np.concatenate([toy.X, toy.prototypes])
    places = model.variational(both).mean if variational else model.posterior(both).mean
    return _nearest(places[: len(toy.X)], places[len(toy.X) :], toy.labels)


def _nearest(rows: np.ndarray, prototypes: np.ndarray, labels: np.ndarray) -> float:
    """Compute the share of rows nearest to the prototype of their label; among equally near ones by chance.

    >>> _nearest(np.array([[0.0], [3.0]]), np.array([[0.0], [6.0]]), np.array([0, 1]))
    0.75
    """
    distance = np.square(rows[:, None] - prototypes).sum(axis=2)
    near = distance <= distance.min(axis=1, keepdims=True) + 1e-12
    return float(np.mean(near[np.arange(len(rows)), labels] / near.sum(axis=1)))


# --- the digits ---


def of_start(out: Path, plan: Plan, digits: str, seed: int) -> dict[str, Any]:
    """Measure errors on the digits from a start; starts differ in rotation, and the sample is no even one."""

    def compute() -> dict[str, Any]:
        twos = _twos(digits, plan)
        params = start(twos.X, seed)
        found: dict[str, Any] = {}
        for name in MAIN:
            result = learn(name, twos.X, params, plan.tol)
            found[name] = _errors(result, twos.X)
            if name == "variational":
                means = estimator_of(result, twos.X.shape[1]).variational(twos.X).mean
                loop = claims.told_by_place(means, claims.has_loop(twos.X, twos.image_shape))
                found[name] |= _posteriors(params, result, twos.X)
                found[name] |= {"bend": claims.bend(means), "loop": loop.value, "loop_error": loop.error}
        return found

    return kept(out / "runs", f"start_{seed}", compute, [digits, plan.n_digits, plan.tol, claims.N_ITERATIONS])


def of_pixels(out: Path, plan: Plan, digits: str, n_pixels: int, seed: int) -> float:
    """Measure divergence of the approximate posteriors on a map of some pixels of the digits, drawn at random."""

    def compute() -> float:
        X = _twos(digits, plan).X
        varied = np.flatnonzero(X.var(axis=0) > 0)
        some = np.random.default_rng(seed).permutation(varied)[:n_pixels]
        result = learn("variational", X[:, some], start(X[:, some], seed), plan.tol)
        return _divergence(result, X[:, some])

    return kept(out / "runs", f"pixels_{n_pixels}_{seed}", compute, [digits, plan.n_digits, plan.tol])


def of_maps(out: Path, plan: Plan, digits: str, n_maps: int, seed: int) -> dict[str, Any]:
    """Learn a mixture of maps, by the paper's bound alone: how well it describes unseen digits, and where loops go."""

    def compute() -> dict[str, Any]:
        twos = _twos(digits, plan)
        n = min(twos.n_train, round(0.8 * len(twos.X)))
        new = partial(TraitMaps, n_maps) if n_maps > 1 else LatentTrait
        model = new(
            n_components=2, method="variational", weight_prior=WEAK_PRIOR_DEVIATION, random_state=seed, tol=plan.tol
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(twos.X[:n])
        sure = model.responsibilities(twos.X) if n_maps > 1 else np.ones((len(twos.X), 1))
        loops = claims.has_loop(twos.X, twos.image_shape)
        by_map = [claims.area_under_curve(sure[:, k], loops) for k in range(n_maps)]
        best = max(by_map, key=lambda one: one.value)
        return {
            "seen": model.score(twos.X[:n]),
            "unseen": model.score(twos.X[n:]),
            "shares": [1.0] if n_maps == 1 else model.shares_.tolist(),
            "loop": best.value,
            "loop_error": best.error,
            "converged": model.converged_,
            "iterations": model.n_iter_,
        }

    return kept(out / "runs", f"maps_{n_maps}_{seed}", compute, [digits, plan.n_digits, plan.tol])


# --- principal components ---


def principal(out: Path) -> dict[str, float]:
    """Measure angles to the principal subspace, with one variance for all columns and with one for each."""

    def compute() -> dict[str, float]:
        rng = np.random.default_rng(0)
        noise = np.array([0.3, 0.5, 0.7, 0.9, 1.1, 1.3])
        X = rng.normal(size=(300, 2)) @ rng.normal(size=(2, 6)) + noise * rng.normal(size=(300, 6))
        return {name: claims.principal_angles(X, name) for name in ("shared", "own")}

    return kept(out / "runs", "principal", compute)
