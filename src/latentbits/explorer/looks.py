"""What fitted models say of a table's rows, as the records of content.py.

A new family gets a function here and a line in `LOOKS`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from latentbits.explorer.content import Course, Gallery, Layer, Map, Morph, Spectra
from latentbits.figures.latent_trait.arrays import data_window, telling_boundaries
from latentbits.figures.noisy_or.arrays import names_of, project_down

__all__ = ["course_of", "gallery_of", "map_of", "morph_of", "spectra_of"]

N_EXAMPLES = 12  # rows that show a cause
N_LINES = 6  # columns whose lines are drawn at first


def map_of(name: str, model: Any, values: np.ndarray, n_lines: int = N_LINES) -> Map:
    """Where a model with two latent traits places rows (n, d); `n_lines` columns have their lines drawn at first."""
    found = model.posterior(values)
    means = np.asarray(found.mean, np.float64)
    covariance = np.asarray(found.covariance, np.float64)
    weights, bias = np.asarray(model.components_, np.float64), np.asarray(model.intercept_, np.float64)
    noise = getattr(model, "noise_variance_", None)
    lines = np.zeros(0, int)  # of real columns there is no P = 0.5
    if noise is None:
        lines = telling_boundaries(weights.T, bias, means, n_lines, data_window(means))
    return Map(
        name=name,
        means=means,
        covariances=covariance[:, [0, 1, 0], [0, 1, 1]],
        weights=weights,
        bias=bias,
        noise=None if noise is None else np.asarray(noise, np.float64),
        cost=-np.asarray(model.score_samples(values), np.float64) / np.log(2),
        lines=lines,
    )


def gallery_of(family: str, name: str, model: Any, values: np.ndarray) -> Gallery | None:
    """The causes that a model found, and how the rows (n, d) use them; None for a model without any."""
    return LOOKS[family](family, name, model, values) if family in LOOKS else None


def morph_of(name: str, model: Any, values: np.ndarray) -> Morph:
    """A clipped Gaussian, and where it places rows (n, d)."""
    return Morph(name, model.components_, model.thresholds_, _places(model, values))


def spectra_of(model: Any) -> Spectra:
    """Of a clipped Gaussian."""
    return Spectra(model.binary_eigenvalues_, model.eigenvalues_, len(model.components_))


def course_of(name: str, model: Any, n_rows: int) -> Course:
    """How the fit of a model to n rows went, in bits per row."""
    return Course(name, -np.asarray(model.history_, np.float64) / n_rows / np.log(2))


def strongest_rows(active: np.ndarray, most: int = N_EXAMPLES) -> np.ndarray:
    """The rows in which each column of `active` (n, m) is greatest, the greatest first: (m, e).

    >>> strongest_rows(np.array([[0.1, 0.9], [0.8, 0.2]]), 1).tolist()
    [[1], [0]]
    """
    return np.argsort(-active, axis=0, kind="stable")[:most].T


def _mixture(family: str, name: str, model: Any, values: np.ndarray) -> Gallery:
    order = np.argsort(-model.weights_, kind="stable")
    active = np.asarray(model.transform(values))[:, order]
    names = tuple(f"kind {i + 1}" for i in range(len(order)))
    layer = Layer(
        "Kinds of rows", names, model.means_[order], None, model.weights_[order], active, strongest_rows(active)
    )
    about = "Each row is of one kind. Shown is P(bit = 1) in rows of that kind."
    return Gallery(family, name, about, "probability", (layer,))


def _traits(family: str, name: str, model: Any, values: np.ndarray) -> Gallery:
    active = _places(model, values)
    what = "trait" if family == "latent-trait" else "factor"
    names = tuple(f"{what} {i + 1}" for i in range(active.shape[1]))
    usage = np.full(active.shape[1], np.nan)  # a row is always somewhere along a trait
    layer = Layer(f"{what.capitalize()}s", names, model.components_, None, usage, active, strongest_rows(active))
    about = f"Each row has a place along each {what}. Shown is how much a bit is pulled up or down along it."
    return Gallery(family, name, about, "signed", (layer,))


def _switches(family: str, name: str, model: Any, values: np.ndarray) -> Gallery:
    active = np.asarray(model.transform(values))
    order = np.argsort(-active.mean(axis=0), kind="stable")
    active = active[:, order]
    names = tuple(f"cause {i + 1}" for i in range(len(order)))
    layer = Layer("Causes", names, model.components_[order], None, active.mean(axis=0), active, strongest_rows(active))
    about = "Any number of causes are on in a row. Shown is what a cause that is on adds to each column."
    return Gallery(family, name, about, "signed", (layer,))


def _network(family: str, name: str, model: Any, values: np.ndarray) -> Gallery:
    found = model.posterior(values)
    edges = np.cumsum([len(w) for w in model.weights_])[:-1]
    means, modes = (np.split(np.asarray(x), edges, axis=1) for x in (found.mean, found.mode))
    layers = []
    for number, (weights, bias, active, states) in enumerate(zip(model.weights_, model.biases_, means, modes), 1):
        layers.append(
            Layer(
                f"Layer {number}",
                tuple(names_of(number, len(weights))),
                weights,
                bias,
                active.mean(axis=0),
                active,
                strongest_rows(active),
                projected=None if number == 1 else project_down(model.weights_, model.biases_, number),
                states=states > 0.5,
            )
        )
    about = "A bit is on if any cause that is on turns it on. Shown is how surely each cause does: 1 - exp(-weight)."
    return Gallery(family, name, about, "strength", tuple(layers))


def _places(model: Any, values: np.ndarray) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".* rows cannot be produced", category=UserWarning)
        return np.asarray(model.transform(values), np.float64)


LOOKS: dict[str, Callable[[str, str, Any, np.ndarray], Gallery]] = {
    "mixture": _mixture,
    "latent-trait": _traits,
    "clipped-gaussian": _traits,
    "combination-machine": _switches,
    "binary-sparse-coding": _switches,
    "noisy-or": _network,
}
