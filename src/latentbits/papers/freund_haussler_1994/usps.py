"""The digits of section 4: 16 x 16 pixels, 500 + 500 rows, 45 hidden units against 45 components and the product.

The paper has digits of NIST, which are not to be had; these are of USPS.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.combination_machine import CombinationMachine
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.estimators.product import BernoulliProduct
from latentbits.metrics import reconstruction, single_bit_error
from latentbits.models.mixture.starts import split_sizes
from latentbits.papers.digits import load_or_stand_in
from latentbits.papers.skeleton import Say, fitted

__all__ = [
    "EM_STEPS",
    "MEASURES",
    "METHODS",
    "SPLIT",
    "Digits",
    "Setup",
    "load_digits",
    "mixture_curve",
    "mixture_weights",
    "pursuit_curve",
    "run",
    "split",
]

METHODS = ("product", "mixture", "mixture, smoothed", "pursuit", "pursuit, ours", "default")
MEASURES = ("single_bit", "reconstruction")
EM_STEPS = 4  # of a pursuit, for each unit
SPLIT = 20  # EM iterations before each doubling of a mixture
TINY = 1e-3
NEVER = -1e9  # a gain below which no fit stops


class Digits(NamedTuple):
    """`X` (n, height * width) bits, the size of an image, and whether they are those of USPS."""

    X: np.ndarray
    image_shape: tuple[int, int]
    is_usps: bool

    @property
    def title(self) -> str:
        height, width = self.image_shape
        return f"{'digits of USPS' if self.is_usps else 'stand-in: digits of scikit-learn'}, {height} x {width}"


class Setup(NamedTuple):
    """How much is done: units (and components), rows to learn from and to test, and repetitions."""

    n_units: int = 45
    n_train: int = 500
    n_test: int = 500
    n_seeds: int = 10
    methods: tuple[str, ...] = METHODS


def load_digits(which: str, notes: list[str]) -> Digits | None:
    """All digits, ink where the grey value is above the middle; what could not be had is noted.

    Parameters
    ----------
    which
        "usps" (scikit-learn's stand in where they cannot be had), "bundled" for these at once, or "none".
    notes
        Gets a line where something is not as it should be.
    """
    loaded = load_or_stand_in(which, "usps", "digits", notes)
    if loaded is None:
        return None
    found, is_usps = loaded
    if is_usps:
        return Digits((np.asarray(found.X) > 0).astype(np.uint8), (16, 16), True)
    return Digits(np.asarray(found.X, np.uint8), (8, 8), False)


def split(X: np.ndarray, setup: Setup, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows to learn from and others to test, drawn at random from all."""
    order = np.random.default_rng([seed, 500]).permutation(len(X))
    return X[order[: setup.n_train]], X[order[setup.n_train :][: setup.n_test]]


def model_of(method: str, n_units: int, seed: int) -> Any:
    """A method as an estimator.

    "mixture" and "pursuit" are the paper's to the letter: maximum likelihood without any smoothing, and a machine
    without input biases.
    """
    if method == "product":
        return BernoulliProduct()
    if method == "mixture":
        return BernoulliMixture(n_units, init="split", smoothing=0.0, random_state=seed)
    if method == "mixture, smoothed":
        return BernoulliMixture(n_units, init="split", random_state=seed)
    if method == "default":
        return CombinationMachine(n_units, random_state=seed)
    paper: dict[str, Any] = {"input_bias": False, "faithful": True} if method == "pursuit" else {}
    return CombinationMachine(n_units, learner="pursuit", random_state=seed, **paper, **NO_LOG_Z)


# neither of the two measures asks for log Z, which a pursuit leaves unused
NO_LOG_Z: dict[str, Any] = {"annealing_chains": 2, "annealing_steps": 1}


def errors_of(model: Any, X: np.ndarray, seed: int) -> dict[str, float]:
    """The two measures that need no log Z."""
    return {
        "single_bit": single_bit_error(model, X, n_bits=5, random_state=seed),
        "reconstruction": reconstruction(model, X),
    }


def run(digits: Digits, setup: Setup, say: Say) -> tuple[dict[str, Any], dict[str, Any], np.ndarray]:
    """All methods and seeds.

    Returns
    -------
    numbers, models, rows
        What ``results.json`` holds; the models of the first seed and the rows they learned from.
    """
    found: dict[str, Any] = {
        name: {"seconds": [], "n_units": [], **{measure: {"train": [], "test": []} for measure in MEASURES}}
        for name in setup.methods
    }
    kept: dict[str, Any] = {}
    for seed in range(setup.n_seeds):
        say(f"{digits.title}: seed {seed}")
        train, test = split(digits.X, setup, seed)
        for name in setup.methods:
            model, seconds = fitted(model_of(name, setup.n_units, seed), train)
            found[name]["seconds"].append(seconds)
            found[name]["n_units"].append(len(model.hidden_bias_) if hasattr(model, "hidden_bias_") else None)
            for part, rows in (("train", train), ("test", test)):
                for measure, value in errors_of(model, rows, seed).items():
                    found[name][measure][part].append(value)
            if seed == 0:
                kept[name] = model
    numbers = {"title": digits.title, "is_usps": digits.is_usps, **setup._asdict(), "results": found}
    return numbers, kept, split(digits.X, setup, 0)[0]


def mixture_weights(model: BernoulliMixture) -> np.ndarray:
    """The components as weight vectors, the largest first: (1/2) log(p / (1 - p)), equation 2.9."""
    means = np.clip(model.means_[np.argsort(-model.weights_)], TINY, 1 - TINY)
    return 0.5 * (np.log(means) - np.log1p(-means))


# --- errors along learning (figures 4.6 and 4.7) ---


def pursuit_curve(machine: CombinationMachine, parts: Sequence[np.ndarray], n_points: int, seed: int) -> dict[str, Any]:
    """Errors of a pursuit after each of its units: the first k are the pursuit of k units.

    Returns
    -------
    dict
        Lists of `steps` (EM iterations), and for each measure one list for every part of the rows.
    """
    m = len(machine.components_)
    sizes = np.unique(np.linspace(1, m, min(n_points, m)).round().astype(int))
    # units without weights change nothing, and machines of one size are compiled once
    there = [np.arange(m) < size for size in sizes]
    prefixes = [
        CombinationMachine.from_parameters(
            np.where(kept[:, None], machine.components_, 0.0),
            np.where(kept, machine.hidden_bias_, -1.0),
            machine.input_bias_,
            random_state=0,
            **NO_LOG_Z,
        )
        for kept in there
    ]
    return {"steps": (EM_STEPS * sizes).tolist(), **_errors_along(prefixes, parts, seed)}


def mixture_curve(
    n_units: int, parts: Sequence[np.ndarray], seed: int, stops: Sequence[int] = (1, 2, 4, 8, 20)
) -> dict[str, Any]:
    """Errors of a mixture along the splitting schedule, at some iterations after each doubling.

    A fit of k components that is stopped after i iterations is the fit of all, stopped there.

    Returns
    -------
    dict
        As `pursuit_curve`, and `doublings`: the numbers of components by the iteration at which they begin.
    """
    sizes = split_sizes(n_units)
    steps, models = [], []
    for place, size in enumerate(sizes):
        for stop in stops:
            steps.append(SPLIT * place + stop)
            model = BernoulliMixture(size, init="split", smoothing=0.0, max_iter=stop, tol=NEVER, random_state=seed)
            models.append(fitted(model, parts[0]).model)
    doublings = {str(SPLIT * place): size for place, size in enumerate(sizes)}
    return {"steps": steps, **_errors_along(models, parts, seed), "doublings": doublings}


def _errors_along(models: Sequence[Any], parts: Sequence[np.ndarray], seed: int) -> dict[str, list[list[float]]]:
    found = [[errors_of(model, rows, seed) for model in models] for rows in parts]
    return {measure: [[one[measure] for one in part] for part in found] for measure in MEASURES}
