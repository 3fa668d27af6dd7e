"""Methods, as a paragraph that can go into a paper: rows, models, splits, seeds, versions and numbers."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from typing import Any

import numpy as np

from latentbits.choosing.search import Search
from latentbits.core.version import __version__
from latentbits.estimators.families import family
from latentbits.explorer.content import ModelRow
from latentbits.explorer.tables import Given
from latentbits.reports.numbers import with_error

__all__ = ["methods"]


def methods(
    given: Given, found: Search, models: Sequence[ModelRow], n_for_map: int, seed: int | None, n_maps: int = 1
) -> str:
    """Write the paragraph; `n_for_map` are the rows that the map (and the `n_maps`, if there are more) learned from."""
    several = f" So were {n_maps} maps, a mixture of such models." if n_maps > 1 else ""
    texts = (
        _table(given, found),
        _fits(found),
        _scores(models),
        _unconverged(models),
        f"The map has two latent traits (Tipping 1998), learned from {n_for_map:,} rows.{several}",
        _software(seed),
    )
    return " ".join(text for text in texts if text)


def _table(given: Given, found: Search) -> str:
    n, d = given.values.shape
    holes = _missing(given.values)
    kind = "real numbers" if given.real else "bits"
    text = f"The table ({given.source}) has {n:,} rows and {given.n_columns:,} columns of {kind}"
    text += f", of which {holes:.1%} are missing" if holes > 0 else ""
    text += f"; the {d:,} columns that vary most were kept" if d < given.n_columns else ""
    text += "; rows count as often as their weights say" if given.weights is not None else ""
    if found.n_used < found.n_rows:
        text += f"; models were compared on a random sample of {found.n_used:,} rows"
    return f"{text}."


def _missing(values: Any) -> float:
    """Share of the cells; a sparse table may hold some as well."""
    stored = values.data if hasattr(values, "tocsr") else values
    return float(np.isnan(stored).sum() / np.prod(values.shape))


def _fits(found: Search) -> str:
    named = [f"{name}{_source(of)}" for name, of in found.families.items()]
    chose = any(len(trials) > 1 for trials in found.trials.values())
    chosen = f", their sizes were chosen on {found.n_validation:,} others" if chose else ""
    rounds = f", in {found.n_folds} rounds that test every row once" if found.n_folds > 1 else ""
    return (
        f"Compared were {_and(named)}. They were fitted to {found.n_train:,} rows{chosen}, and scored by the mean of "
        f"-log2 p(row) on {found.n_test:,} rows that took part in neither{rounds}."
    )


def _source(name: str) -> str:
    paper = family(name).paper
    return "" if not paper or paper.startswith("a baseline") else f" ({paper})"


def _scores(models: Sequence[ModelRow]) -> str:
    values = [f"{model.name} {with_error(model.bits, model.error, '.2f')}" for model in models]
    return f"Bits per row, with standard errors over rows: {'; '.join(values)}."


def _unconverged(models: Sequence[ModelRow]) -> str:
    names = [model.name for model in models if not model.converged]
    return f"Not converged: {_and(names)}." if names else ""


def _software(seed: int | None) -> str:
    seeded = "without a seed" if seed is None else f"with seed {seed}"
    versions = ", ".join(f"{name} {version(package)}" for name, package in (("JAX", "jax"), ("NumPy", "numpy")))
    return f"All fits were made by latentbits {__version__} {seeded} ({versions})."


def _and(words: Sequence[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
