"""Figures 1 to 4 of the paper, and several maps, from fitted models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from latentbits.estimators.latent_trait.latent_trait import LatentTrait
from latentbits.estimators.latent_trait.trait_maps import TraitMaps
from latentbits.figures.latent_trait.arrays import posterior_grid, spread_places
from latentbits.figures.latent_trait.curves import plot_error_against_time
from latentbits.figures.latent_trait.maps import plot_decoded, plot_map, plot_posterior_contours
from latentbits.figures.latent_trait.several_maps import plot_several_maps
from latentbits.papers.skeleton import in_style, new_figure
from latentbits.papers.tipping_1998.claims import has_loop

__all__ = ["Clusters", "figure_1", "figure_2", "figure_3", "figure_4", "several_maps"]

N_PLACES = 6  # of figure 2; the paper has 4


class Clusters(NamedTuple):
    """A synthetic set on its map: a title, the model, the rows, the prototype of each, and the prototypes."""

    title: str
    model: LatentTrait
    X: np.ndarray
    labels: np.ndarray
    prototypes: np.ndarray


def _new(size: tuple[float, float], n_columns: int, **options: Any) -> tuple[Any, Any]:
    figure = new_figure(size, None)
    return figure, figure.subplots(1, n_columns, squeeze=False, **options)[0]


@in_style
def figure_1(panels: Sequence[Clusters]) -> Any:
    """Draw maps of the synthetic sets, rows by posterior mean (eq. 7); in the last also the lines P(t_i | x) = 1/2.

    The places of the prototypes themselves are numbered.
    """
    figure, axes = _new((6.4 * len(panels), 7.0), len(panels))
    for ax, panel in zip(axes, panels):
        model, n = panel.model, len(panel.X)
        names = [f"prototype {k + 1}" for k in range(len(panel.prototypes))]
        places = model.variational(np.concatenate([panel.X, panel.prototypes])).mean
        plot_map(
            places[:n],
            ax,
            labels=panel.labels,
            label_names=names,
            boundaries=(model.components_, model.intercept_) if panel is panels[-1] else None,
            marks=places[n:],
        )
        ax.set_title(panel.title)
    return figure


@in_style
def figure_2(model: LatentTrait, X: np.ndarray, image_shape: tuple[int, int], title: str) -> Any:
    """Draw the map of the digits, and P(t | x) as images at some of its places."""
    figure, axes = _new((11.5, 6.6), 2, width_ratios=(1.4, 1))
    means = model.variational(X).mean
    places = spread_places(means, N_PLACES)
    plot_map(means, axes[0], marks=places)
    axes[0].set_title(title)
    plot_decoded(model.inverse_transform(places), image_shape, axes[1], n_columns=2)
    axes[1].set_title("P(pixel = 1) at the numbered places")
    return figure


@in_style
def figure_3(curves: Mapping[str, Mapping[str, Mapping[str, Sequence[float]]]]) -> Any:
    """Draw the error by the sample against time: a panel for each set, a curve for each algorithm."""
    from matplotlib.ticker import LogLocator, NullFormatter

    figure, axes = _new((7.4 * len(curves), 4.6), len(curves))
    for ax, (title, algorithms) in zip(axes, curves.items()):
        lines = {name: (np.array(one["cpu_seconds"]), np.array(one["error"])) for name, one in algorithms.items()}
        plot_error_against_time(lines, ax, "error: nats per row, by the 500-point sample")
        ax.set_xlabel("seconds of one process")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))  # a decade or less has few round numbers else
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_title(title)
    return figure


@in_style
def figure_4(panels: Sequence[tuple[str, LatentTrait, np.ndarray]]) -> Any:
    """Draw the posterior of a typical row of each set, exact and by eqs. 6 and 7."""
    figure, axes = _new((6.0 * len(panels), 6.6), len(panels))
    for ax, (title, model, X) in zip(axes, panels):
        approximate = model.variational(X)
        row = _typical(model.score_samples(X) - approximate.bound)
        exact = posterior_grid(model.components_, model.intercept_, X[row])
        mean, covariance = approximate.mean[row], approximate.covariance[row]
        plot_posterior_contours(exact.log_density, mean, covariance, exact.extent, ax)
        ax.set_title(f"{title}: row {row}")
    return figure


@in_style
def several_maps(model: TraitMaps, X: np.ndarray, image_shape: tuple[int, int], title: str) -> Any:
    """Draw the rows on each of several maps, coloured by whether they have a loop, and P(t | x) at some places."""
    found, n_maps = model.posterior(X), int(model.n_maps)
    home = found.responsibilities.argmax(axis=1)
    places = [spread_places(found.means[home == m, m], N_PLACES // 2 + 1) for m in range(n_maps)]
    figure = new_figure((5.6 * n_maps, 8.4), None)
    above, below = figure.subplots(2, n_maps, squeeze=False, height_ratios=(2.2, 1))
    loops = has_loop(X, image_shape).astype(int)
    plot_several_maps(
        found.means, found.responsibilities, above, labels=loops, label_names=["no loop", "a loop"], marks=places
    )
    number = 1
    for m, ax in enumerate(below):
        images = model.inverse_transform(places[m], maps=m)
        numbers = range(number, number + len(images))
        plot_decoded(images, image_shape, ax, numbers=list(numbers), n_columns=len(images))
        number += len(images)
    figure.suptitle(title)
    return figure


def _typical(gap: np.ndarray) -> int:
    """Find the row whose log-likelihood is above its bound by the median amount: neither the best nor the worst."""
    return int(np.argsort(gap, kind="stable")[len(gap) // 2])
