"""The digits of section 4: 16 x 16 pixels, 500 + 500 rows, 45 hidden units against 45 components and the product.

The paper has digits of NIST, which are not to be had; these are of USPS.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from latentbits.estimators.combination_machine import CombinationMachine
from latentbits.estimators.mixture import BernoulliMixture
from latentbits.estimators.product import BernoulliProduct
from latentbits.metrics import log_loss, reconstruction, single_bit_error
from latentbits.models.combination_machine import equations
from latentbits.models.combination_machine.recipes import FREUND
from latentbits.models.mixture.initialisation import split_sizes
from latentbits.papers.digits import load_or_stand_in
from latentbits.papers.skeleton import fitted

__all__ = [
    "MEASURES",
    "METHODS",
    "N_EM_STEPS",
    "Digits",
    "Setup",
    "area",
    "assembled",
    "backfitted",
    "curves",
    "likelihoods",
    "likeness",
    "load_digits",
    "mixture_weights",
    "one_seed",
    "second_order_error",
    "split",
]

METHODS = ("product", "mixture", "mixture, smoothed", "pursuit", "pursuit, 8 starts", "pursuit, ours", "default")
MEASURES = ("single_bit", "reconstruction")
N_EM_STEPS = 4  # of a pursuit, for each unit
ITERATIONS_PER_SPLIT = 20  # EM iterations before each doubling of a mixture
TINY = 1e-3
SEED_SHOWN = 0  # the seed whose weights are drawn
CHAINS, STEPS = 512, 2000  # of the annealed log Z of a machine that cannot be summed


class Digits(NamedTuple):
    """`X` (n, height * width) bits, the digit of each, the size of an image, and whether they are those of USPS."""

    X: np.ndarray
    labels: np.ndarray
    image_shape: tuple[int, int]
    is_usps: bool

    @property
    def title(self) -> str:
        height, width = self.image_shape
        return f"{'digits of USPS' if self.is_usps else 'stand-in: digits of scikit-learn'}, {height} x {width}"


class Setup(NamedTuple):
    """Amount of work to be done."""

    n_units: int = 45  # units, and components
    # n_train, n_test: rows to learn from and to test
    n_train: int = 500
    n_test: int = 500
    n_seeds: int = 10  # repetitions
    methods: tuple[str, ...] = METHODS  # of the table
    # units of the smaller machine whose likelihood is summed exactly, and set against a mixture of as many
    # parameters; None leaves likelihoods out
    summed: int | None = 12


def load_digits(which: str, notes: list[str]) -> Digits | None:
    """Load all digits, ink where the grey value is above the middle; what could not be had is noted.

    `which`: "usps" (scikit-learn's stand in where they cannot be had), "bundled" for these at once, or "none".
    `notes`: gets a line where something is not as it should be.
    """
    loaded = load_or_stand_in(which, "usps", "digits", notes)
    if loaded is None:
        return None
    found, is_usps = loaded
    labels = np.asarray(found.labels["digit"])
    if is_usps:
        return Digits((np.asarray(found.X) > 0).astype(np.uint8), labels, (16, 16), True)
    return Digits(np.asarray(found.X, np.uint8), labels, (8, 8), False)


def _places(n: int, setup: Setup, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Draw which rows are to learn from, and which to test."""
    order = np.random.default_rng([seed, 500]).permutation(n)
    return order[: setup.n_train], order[setup.n_train :][: setup.n_test]


def split(X: np.ndarray, setup: Setup, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Split rows at random, some to learn from and others to test."""
    train, test = _places(len(X), setup, seed)
    return X[train], X[test]


def model_of(method: str, n_units: int, seed: int) -> Any:
    """Make a method an estimator.

    "mixture" and "pursuit" are the paper's to the letter: maximum likelihood without any smoothing, where not all
    components are split the first of them (footnote 5), and a machine without input biases whose units have one start
    each.  "default" has the prior of when its numbers were kept.
    """
    if method == "product":
        return BernoulliProduct()
    if method == "mixture":
        return BernoulliMixture(n_units, init="split-first", smoothing=0.0, random_state=seed)
    if method == "mixture, smoothed":
        return BernoulliMixture(n_units, init="split", random_state=seed)
    if method == "default":
        return CombinationMachine(n_units, weight_prior=3.0, random_state=seed)
    paper: dict[str, Any] = {"input_bias": False, "recipe": "freund1994"}
    starts = {**paper, "recipe": {**FREUND._asdict(), "pursuit_starts": 8}}
    settings = {"pursuit": paper, "pursuit, 8 starts": starts, "pursuit, ours": {}}[method]
    return CombinationMachine(n_units, learner="pursuit", random_state=seed, **settings, **NO_LOG_Z)


# neither of the two measures asks for log Z, which a pursuit leaves unused
NO_LOG_Z: dict[str, Any] = {"annealing": (2, 1)}


def errors_of(model: Any, X: np.ndarray, seed: int) -> dict[str, float]:
    """Measure the two errors that need no log Z."""
    return {
        "single_bit": single_bit_error(model, X, n_bits=5, random_state=seed),
        "reconstruction": reconstruction(model, X),
    }


def one_seed(digits: Digits, setup: Setup, seed: int) -> dict[str, Any]:
    """Learn by all methods from the rows of one seed; give numbers that JSON can hold.

    Returns `methods`: errors, seconds and units of each; `weights`: how local those of the mixture and of the
    pursuit are; `second_order`: single-bit error of principal components; `backfitting`: errors before and after it;
    `likelihood`; `vectors`, of the seed that is drawn.
    """
    train, test = split(digits.X, setup, seed)
    labels = digits.labels[_places(len(digits.X), setup, seed)[0]]
    found: dict[str, Any] = {}
    vectors: dict[str, np.ndarray] = {}
    models = {}
    for name in setup.methods:
        models[name], seconds = fitted(model_of(name, setup.n_units, seed), train)
        model = models[name]
        parts = {part: errors_of(model, rows, seed) for part, rows in (("train", train), ("test", test))}
        errors = {measure: {part: parts[part][measure] for part in parts} for measure in MEASURES}
        n_units = len(model.hidden_bias_) if hasattr(model, "hidden_bias_") else None
        found[name] = {"seconds": seconds, "n_units": n_units, **errors}
        if name != "product":
            vectors[name] = mixture_weights(model) if hasattr(model, "means_") else model.components_
    return {
        "methods": found,
        "weights": {
            name: {"area": area(one), "likeness": likeness(one, train, labels)} for name, one in vectors.items()
        },
        "second_order": {
            part: second_order_error(train, rows, setup.n_units, seed)
            for part, rows in (("train", train), ("test", test))
        },
        "backfitting": backfitting(models["pursuit"], train, test, seed),
        "likelihood": None if setup.summed is None else likelihoods(train, test, setup.n_units, setup.summed, seed),
        **(
            {"vectors": {name: np.round(one, 4).tolist() for name, one in vectors.items()}}
            if seed == SEED_SHOWN
            else {}
        ),
    }


def assembled(digits: Digits, setup: Setup, seeds: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Assemble what ``results.json`` holds of all seeds: lists over them."""
    results = {
        name: {
            "seconds": [seed["methods"][name]["seconds"] for seed in seeds],
            "n_units": [seed["methods"][name]["n_units"] for seed in seeds],
            **{
                measure: {part: [seed["methods"][name][measure][part] for seed in seeds] for part in ("train", "test")}
                for measure in MEASURES
            },
        }
        for name in setup.methods
    }
    weights = {
        name: {key: [seed["weights"][name][key] for seed in seeds] for key in ("area", "likeness")}
        for name in seeds[0]["weights"]
    }
    return {
        "title": digits.title,
        "is_usps": digits.is_usps,
        **setup._asdict(),
        "methods": list(setup.methods),
        "results": results,
        "weights": weights,
        "second_order": {part: [seed["second_order"][part] for seed in seeds] for part in ("train", "test")},
        "backfitting": [seed["backfitting"] for seed in seeds],
        "likelihood": [seed["likelihood"] for seed in seeds],
    }


def mixture_weights(model: BernoulliMixture) -> np.ndarray:
    """Turn components into weight vectors, the largest first: (1/2) log(p / (1 - p)), equation 2.9."""
    means = np.clip(model.means_[np.argsort(-model.weights_)], TINY, 1 - TINY)
    return 0.5 * (np.log(means) - np.log1p(-means))


# --- local features or whole digits (figures 4.4, 4.5, 4.8, 4.9) ---


def area(weights: np.ndarray) -> float:
    """Average over vectors the share of the pixels that each acts on, (sum w^2)^2 / (n sum w^4).

    >>> area(np.array([[1.0, -1.0, 1.0, 1.0], [0.0, 2.0, 0.0, 0.0]]))
    0.625
    """
    square = np.asarray(weights, np.float64) ** 2
    return float(np.mean(square.sum(1) ** 2 / (square.shape[1] * (square**2).sum(1))))


def likeness(weights: np.ndarray, X: np.ndarray, labels: np.ndarray) -> float:
    """Compute the cosine of a weight vector and the mean image of the digit most like it; the mean over all vectors."""
    images = np.stack([2 * X[labels == digit].mean(0) - 1 for digit in np.unique(labels)])
    cosine = _unit(np.asarray(weights, np.float64)) @ _unit(images).T
    return float(cosine.max(1).mean())


def _unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


# --- only the second order (section 2.4) ---


def second_order_error(train: np.ndarray, X: np.ndarray, n_components: int, seed: int, n_bits: int = 5) -> float:
    """Measure the single-bit error of principal components: each bit from the others, by a Gaussian.

    The Gaussian has the variance of the leading components, and the same in all other directions (probabilistic PCA);
    a bit is predicted by its conditional mean.  Bits are those that `single_bit_error` chooses for the seed.
    """
    known = PCA(n_components).fit(2.0 * train - 1)
    precision = known.get_precision()
    x = 2.0 * X - 1
    away = (x - known.mean_) @ precision
    guess = x - away / np.diag(precision)  # the mean of each bit given all others
    order = np.argsort(np.random.default_rng(seed).random(X.shape), axis=1)[:, :n_bits]
    return float(np.mean(np.take_along_axis((guess > 0) != (x > 0), order, axis=1)))


# --- likelihoods at equally many parameters (section 2.3) ---


def likelihoods(train: np.ndarray, test: np.ndarray, n_units: int, summed: int, seed: int) -> dict[str, Any]:
    """Measure log-losses of machines without input biases, m (n + 1) parameters, and of mixtures of m, one fewer.

    Returns by the number of units log-losses on training and test rows of the machine that climbs the likelihood,
    of the paper's pursuit, of the mixture by maximum likelihood and of the smoothed one; `error` is the largest
    standard error of the machines', from log Z.
    """
    found = {}
    for size in (summed, n_units):
        machine = CombinationMachine(size, input_bias=False, weight_prior=None, random_state=seed)
        machine.set_params(annealing=(CHAINS, STEPS))
        pursuit = fitted(model_of("pursuit", size, seed), train).model.estimate_log_partition(CHAINS, STEPS, seed)
        models = {
            "machine": fitted(machine, train).model,
            "pursuit": pursuit,
            "mixture": fitted(model_of("mixture", size, seed), train).model,
            "mixture, smoothed": fitted(model_of("mixture, smoothed", size, seed), train).model,
        }
        found[str(size)] = {
            "error": max(one.log_partition_error_ for one in (machine, pursuit)) / np.log(2) / train.shape[1],
            **{
                name: {"train": _finite(log_loss(one, train)), "test": _finite(log_loss(one, test))}
                for name, one in models.items()
            },
        }
    return found


def _finite(loss: float) -> float | None:
    """Replace by None what is not finite, where a row is impossible; JSON has no infinity."""
    return loss if np.isfinite(loss) else None


# --- backfitting (figures 4.6 and 4.7) ---


def backfitting(
    machine: CombinationMachine, train: np.ndarray, test: np.ndarray, seed: int
) -> dict[str, dict[str, float]]:
    """Measure errors on test rows of the paper's pursuit, `before` and `after` a round of backfitting."""
    rng = np.random.default_rng([seed, 46])
    refitted = backfitted(machine.components_, machine.hidden_bias_, 2.0 * train - 1, rng)
    after = CombinationMachine.from_parameters(*refitted, random_state=0, **NO_LOG_Z)
    return {"before": errors_of(machine, test, seed), "after": errors_of(after, test, seed)}


def backfitted(
    weights: np.ndarray, hidden_bias: np.ndarray, rows: np.ndarray, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Learn units once more, each with the structure of all others removed; the paper does not say how it does it.

    The structure of all units is removed, as in the pursuit.  Then, unit by unit, its own is put back, EM goes on from
    the unit, and the structure of what EM finds is removed.
    """
    w, theta = weights.copy(), hidden_bias.copy()
    heads = np.zeros((len(w), len(rows)))
    edge = 0.5 / len(rows)  # a unit that is on in all rows, or in none, has no finite odds: half a row is not
    for i in range(len(w)):
        rows, heads[i] = equations.without_unit(w[i], theta[i], rows, rng.random(len(rows)))
    for i in range(len(w)):
        rows = rows + heads[i][:, None] * w[i]
        for _ in range(N_EM_STEPS):
            mean_h, mean_hx = equations.expected(w[i], theta[i], rows)
            w[i], theta[i] = equations.m_step(min(max(mean_h, edge), 1 - edge), mean_hx)
        rows, heads[i] = equations.without_unit(w[i], theta[i], rows, rng.random(len(rows)))
    return w, theta


# --- errors along learning (figures 4.6 and 4.7) ---


def curves(digits: Digits, setup: Setup, stops: Sequence[int], n_points: int, seed: int = SEED_SHOWN) -> dict[str, Any]:
    """Measure errors of a mixture and of the paper's pursuit along their learning."""
    parts = split(digits.X, setup, seed)
    machine = fitted(model_of("pursuit", setup.n_units, seed), parts[0]).model
    return {
        "Mixture": mixture_curve(setup.n_units, parts, seed, stops),
        "Combination model, pursuit": pursuit_curve(machine, parts, n_points, seed),
    }


def pursuit_curve(machine: CombinationMachine, parts: Sequence[np.ndarray], n_points: int, seed: int) -> dict[str, Any]:
    """Measure errors of a pursuit after each of its units: the first k are the pursuit of k units.

    Returns lists of `steps` (EM iterations), and for each measure one list for every part of the rows.
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
    return {"steps": (N_EM_STEPS * sizes).tolist(), **_errors_along(prefixes, parts, seed)}


def mixture_curve(
    n_units: int, parts: Sequence[np.ndarray], seed: int, stops: Sequence[int] = (0, 1, 2, 4, 8, 20)
) -> dict[str, Any]:
    """Measure errors of a mixture along the splitting schedule, at iterations after each doubling; 0 is just after it.

    A fit of k components that is stopped after i iterations is the fit of all, stopped there.

    Return what `pursuit_curve` does, and `doublings`: the numbers of components by the iteration at which they begin.
    """
    sizes = split_sizes(n_units)
    steps, models = [], []
    for place, size in enumerate(sizes):
        for stop in stops:
            steps.append(ITERATIONS_PER_SPLIT * place + stop)
            model = model_of("mixture", size, seed).set_params(max_iter=stop, tol=-1e9)  # no fit stops by its gain
            models.append(fitted(model, parts[0]).model)
    doublings = {str(ITERATIONS_PER_SPLIT * place): size for place, size in enumerate(sizes)}
    return {"steps": steps, **_errors_along(models, parts, seed), "doublings": doublings}


def _errors_along(models: Sequence[Any], parts: Sequence[np.ndarray], seed: int) -> dict[str, list[list[float]]]:
    found = [[errors_of(model, rows, seed) for model in models] for rows in parts]
    return {measure: [[one[measure] for one in part] for part in found] for measure in MEASURES}
