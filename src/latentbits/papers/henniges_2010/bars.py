"""The linear bars test of section 3: one run as in figure 1, and how often all bars are found."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment

from latentbits.data.toys import Bars, linear_bars
from latentbits.estimators.binary_sparse_coding import BinarySparseCoding
from latentbits.models.binary_sparse_coding.recipes import HENNIGES
from latentbits.papers.skeleton import Fitted, fitted, kept

__all__ = [
    "ALTERED",
    "OURS",
    "PAPER",
    "STATES",
    "Setting",
    "Trace",
    "block",
    "is_recovered",
    "least_cosine",
    "starts_of",
    "summary",
    "trace",
    "trials",
]

SIZE, N_BARS = 5, 10
SIMILAR_COSINE = 0.9  # cosine from which a component is a bar; found ones have 0.99, and two bars that are merged 0.7
TRIALS_PER_BLOCK = 50  # trials that are kept together
STATES: dict[str, Any] = {"max_active": 3, "n_candidates": 5}
# what the library does otherwise, beside temperature and several starts
OURS: dict[str, dict[str, Any]] = {
    "ranking": {"ranking": "previous"},
    "renewal": {"renew": True},
    "noise": {"init_noise": "rms"},
    "about": {"noise_about": "new"},
}


def with_changes(names: Sequence[str]) -> dict[str, Any]:
    """Return options of the estimator: the paper's recipe, with these of our changes."""
    changes = {key: value for name in names for key, value in OURS[name].items()}
    return {**STATES, "n_init": 1, "recipe": {**HENNIGES._asdict(), **changes}}


PAPER = with_changes(())
# the paper's recipe with one, all but one, or all of these
ALTERED = {
    "+".join(names): with_changes(names) for n in (1, len(OURS) - 1, len(OURS)) for names in combinations(OURS, n)
}
# ours looks at the same states as the paper's, and so does comparable work; the default lets them grow
RECIPES: dict[str, dict[str, Any]] = {
    "paper": PAPER,
    **ALTERED,
    "ours": STATES,
    "default": {},
}


class Setting(NamedTuple):
    """Rows, the number of active causes that learning begins with (pi H), and how many trials each recipe has."""

    n_rows: int
    start: float
    n_trials: Mapping[str, int]

    @property
    def key(self) -> str:
        return f"{self.n_rows}_{self.start:g}"


class Trace(NamedTuple):
    """One run of the paper's recipe: pi H and sigma of every iteration, and components (passes, H, D), in the order of
    the true bars."""

    sparseness: np.ndarray
    noise: np.ndarray
    components: np.ndarray
    recovered: bool


def learn(X: np.ndarray, options: Mapping[str, Any], start: float, seed: int, **more: Any) -> Fitted:
    """Learn ten causes, from pi H = `start`."""
    recipe = {**options.get("recipe", {}), "init_sparseness": start}
    return fitted(BinarySparseCoding(N_BARS, random_state=seed, **{**options, **more, "recipe": recipe}), X)


def cosines(components: np.ndarray, truth: np.ndarray) -> np.ndarray:
    """Compute cosines (learned, true): a bar is positive or negative, so that signs count."""
    tiny = np.finfo(float).tiny
    learned, true = (v / np.maximum(np.linalg.norm(v, axis=1, keepdims=True), tiny) for v in (components, truth))
    return learned @ true.T


def least_cosine(components: np.ndarray, truth: np.ndarray) -> float:
    """Measure how well the worst bar is found, each by another component; -1 where two bars share their best component.

    >>> least_cosine(np.array([[0, 2.0], [3.0, 0]]), np.eye(2)), least_cosine(np.array([[1.0, 1], [-1, 0]]), np.eye(2))
    (1.0, -1.0)
    """
    found = cosines(components, truth)
    alone = len(set(found.argmax(0).tolist())) == len(truth)
    return float(found.max(0).min()) if alone else -1.0


def data_of(n_rows: int, trial: int) -> Bars:
    return linear_bars(n_rows, size=SIZE, random_state=np.random.default_rng([trial, n_rows]))


def block(folder: Path, n_rows: int, start: float, recipe: str, first: int, n_trials: int) -> dict[str, list[float]]:
    """Make trials from the first on, or read them from the folder.  All recipes learn from the same sets of rows.

    Returns lists over trials of `least_cosine`, `sparseness`, `noise`, `first_noise` (sigma that learning begins
    with), `seconds`, and `drawn`: how many bars are active in a row of each set on average.
    """

    def compute() -> dict[str, list[float]]:
        names = ("least_cosine", "sparseness", "noise", "first_noise", "seconds", "drawn")
        found: dict[str, list[float]] = {name: [] for name in names}
        for trial in range(first, first + n_trials):
            toy = data_of(n_rows, trial)
            model, seconds = learn(toy.X, RECIPES[recipe], start, trial)
            found["least_cosine"].append(least_cosine(model.components_, toy.components))
            found["sparseness"].append(float(model.sparseness_))
            found["noise"].append(float(model.noise_std_))
            found["first_noise"].append(float(model.noise_history_[0]))
            found["seconds"].append(seconds)
            found["drawn"].append(float(toy.causes.sum(1).mean()))
        return found

    name = f"bars_{n_rows}_{start:g}_{recipe}_{first}"
    return kept(folder, name, compute, {**RECIPES[recipe], "n_trials": n_trials})


def starts_of(n_trials: int) -> Iterable[tuple[int, int]]:
    """List first trial and number of trials of each block.

    >>> list(starts_of(120))
    [(0, 50), (50, 50), (100, 20)]
    """
    return ((first, min(TRIALS_PER_BLOCK, n_trials - first)) for first in range(0, n_trials, TRIALS_PER_BLOCK))


def trials(folder: Path, setting: Setting, recipe: str) -> dict[str, list[float]]:
    """Make all trials of a recipe."""
    blocks = [
        block(folder, setting.n_rows, setting.start, recipe, *part) for part in starts_of(setting.n_trials[recipe])
    ]
    return {name: [x for one in blocks for x in one[name]] for name in blocks[0]}


def is_recovered(found: Mapping[str, Sequence[float]]) -> np.ndarray:
    """Find in which trials every bar has a component to itself."""
    return np.asarray(found["least_cosine"]) > SIMILAR_COSINE


def summary(found: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """Summarize what ``results.json`` holds of the trials of a recipe.

    Returns
    -------
    dict
        `n` trials, in `recovered` of which all bars were found; of those mean and standard deviation of `sparseness`
        and `noise`, and the deviation of pi H `about` the bars drawn, None where there are none; median of `seconds`,
        without the first of a block, which compiles.
    """
    kept = is_recovered(found)
    sparseness, noise, drawn = (np.array(found[name]) for name in ("sparseness", "noise", "drawn"))
    about = sparseness - drawn
    seconds = [x for i, x in enumerate(found["seconds"]) if i % TRIALS_PER_BLOCK or len(kept) == 1]
    return {
        "n": len(kept),
        "recovered": int(kept.sum()),
        "sparseness": [float(sparseness[kept].mean()), float(sparseness[kept].std())] if kept.any() else None,
        "noise": [float(noise[kept].mean()), float(noise[kept].std())] if kept.any() else None,
        "about": float(about[kept].std()) if kept.any() else None,
        "seconds": float(np.median(seconds)),
    }


def trace(toy: Bars, start: float, seed: int) -> Trace:
    """Trace one run by the paper's recipe: the passes that learn, not those that rank."""
    model = learn(toy.X, PAPER, start, seed, keep_components=True).model
    order = linear_sum_assignment(-cosines(model.components_, toy.components).T)[1]
    return Trace(
        np.asarray(model.sparseness_history_)[::2],
        np.asarray(model.noise_history_)[::2],
        np.asarray(model.components_history_)[::2, order],
        least_cosine(model.components_, toy.components) > SIMILAR_COSINE,
    )
