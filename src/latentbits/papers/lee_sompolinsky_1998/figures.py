"""Figures 2 to 4 of the paper, and one for its law of entropy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.estimators.clipped_gaussian import ClippedGaussian
from latentbits.figures.clipped_gaussian.pictures import plot_cells, plot_morph, plot_spectra, plot_weights
from latentbits.figures.style import GREY, INK, PALETTE, SMALL, for_words, show
from latentbits.models.clipped_gaussian.hyperplane_cells import n_cells
from latentbits.papers.digits import Twos
from latentbits.papers.lee_sompolinsky_1998.bump import BumpFit, angles
from latentbits.papers.lee_sompolinsky_1998.twos import Pair
from latentbits.papers.skeleton import in_style, new_figure

__all__ = ["THREE_LINES", "figure_2", "figure_3", "figure_4", "figure_5"]

# weights and biases of figure 2: three directions about as far from each other as they can be
THREE_LINES = (np.array([[1.0, 0.15], [-0.35, 1.0], [0.65, 0.9]]), np.array([0.75, 0.8, -0.7]))


def _mosaic(size: tuple[float, float], panels: Sequence[Sequence[str]], **ratios: Any) -> tuple[Any, Any]:
    figure = new_figure(size, 0.1)
    return figure, figure.subplot_mosaic([list(row) for row in panels], **ratios)


@in_style
def figure_2() -> Any:
    """Draw three lines in the plane of two hidden variables, without biases and with."""
    figure, axes = _mosaic((11.0, 5.8), [["plain", "biased"]])
    weights, phi = THREE_LINES
    for name, biases, words in (("plain", 0 * phi, "Without biases"), ("biased", phi, "With biases")):
        plot_cells(weights, biases, axes[name], window=(-3.0, 3.0, -3.0, 3.0))
        axes[name].set_title(f"{words}: {n_cells(3, 2, name == 'biased')} of 8 states")
    return figure


@in_style
def figure_3(exact: BumpFit, sampled: BumpFit) -> Any:
    """Draw bumps, the spectra of their exact correlations and of a sample's, and the eigenvectors of both."""
    figure, axes = _mosaic((13.0, 8.6), [["rows", "exact"], ["waves", "sampled"]], width_ratios=(1, 1.25))
    n_columns = exact.X.shape[1]
    rows = sampled.X[:40]
    show(axes["rows"], rows)
    axes["rows"].set_aspect("auto")
    axes["rows"].set_xlabel(f"{n_columns} bits, in a ring")
    axes["rows"].set_title(f"{len(rows)} rows: half of the bits are on, in one run")
    for name, fit, words in (
        ("exact", exact, f"Exact correlations: all {n_columns} shifts"),
        ("sampled", sampled, f"Correlations in {len(sampled.X)} random shifts"),
    ):
        plot_spectra(fit.model.binary_eigenvalues_, fit.model.eigenvalues_, 2, axes[name], True)
        axes[name].set_title(words)
    _draw_waves(axes["waves"], exact, sampled)
    return figure


def _draw_waves(ax: Any, exact: BumpFit, sampled: BumpFit) -> None:
    """Draw the two components of each fit along the ring, turned so that the first is the cosine of its angles."""
    bit = np.arange(1, exact.X.shape[1] + 1)
    for fit, look, words in ((exact, "-", "all shifts"), (sampled, ":", f"{len(sampled.X)} shifts")):
        theta = angles(fit.X)
        waves = np.column_stack([np.cos(theta), np.sin(theta)])
        turned = fit.model.components_.T @ np.linalg.lstsq(fit.model.components_.T, waves, rcond=None)[0]
        for wave, colour, name in zip(turned.T, PALETTE, ("cosine", "sine")):
            ax.plot(bit, wave, look, color=colour, linewidth=1.6, label=f"{name}, {words}")
    ax.set_xlim(1, len(bit))
    ax.set_ylim(-1.1, 1.65)
    ax.set_yticks([-1, 0, 1])
    ax.set_xlabel("bit")
    ax.set_ylabel("weight")
    ax.grid(axis="y")
    ax.legend(frameon=False, ncols=2, loc="upper center", fontsize=SMALL + 1, labelcolor=INK)
    ax.set_title("The two eigenvectors of $C^{xx}$, turned within their plane")


@in_style
def figure_4(model: ClippedGaussian, twos: Twos, pair: Pair) -> Any:
    """Draw spectra of the twos, the eigenvectors that are kept, and a morph."""
    figure, axes = _mosaic(
        (13.0, 9.6), [["spectra", "weights"], ["morph", "morph"]], width_ratios=(1.25, 1), height_ratios=(1.75, 1)
    )
    k = model.n_components_
    plot_spectra(model.binary_eigenvalues_, model.eigenvalues_, k, axes["spectra"])
    axes["spectra"].set_title(f"Spectra of {twos.title}")
    sizes = [f"{value:.1f}" for value in model.eigenvalues_[:k]]
    plot_weights(model.components_, twos.image_shape, axes["weights"], sizes)
    axes["weights"].set_title(f"{k} eigenvectors of $C^{{xx}}$ and their eigenvalues")
    axes["weights"].set_anchor("N")
    plot_morph(pair.morph.bits, pair.morph.cross_fade, twos.X[pair.rows], twos.image_shape, axes["morph"])
    axes["morph"].set_title(
        f"From two {pair.rows[0]} to two {pair.rows[1]} along a straight line of {k} hidden variables"
    )
    return figure


@in_style
def figure_5(laws: Sequence[Mapping[str, Any]]) -> Any:
    """Draw number of states and entropy against N, for each number of hidden variables, with biases and without."""
    figure, axes = _mosaic((13.0, 5.4), [["biased", "plain"]])
    for name, bias, words in (("biased", True, "With biases"), ("plain", False, "Without biases")):
        ax = axes[name]
        for law in (one for one in laws if one["bias"] is bias):
            _draw_law(ax, law)
        ax.set_xscale("log", base=2)
        ax.xaxis.set_major_formatter("{x:g}")
        ax.set_xlabel("number of bits N")
        ax.set_ylabel("nats")
        ax.grid()
        ax.set_title(f"{words}: states grow as N to the power P{'' if bias else ' - 1'}")
        ax.margins(x=0.16)
    low, high = (function(one.get_ylim()[place] for one in axes.values()) for place, function in ((0, min), (1, max)))
    for ax in axes.values():
        ax.set_ylim(low, high)
    handles = _law_handles()
    axes["plain"].legend(handles=handles, frameon=False, loc="upper left", fontsize=SMALL + 1, labelcolor=INK)
    return figure


def _draw_law(ax: Any, law: Mapping[str, Any]) -> None:
    colour = PALETTE[law["P"] - 1]
    size = np.array([row["N"] for row in law["rows"]])
    ax.plot(size, np.log([row["formula"] for row in law["rows"]]), color=colour, linewidth=1.4)
    counted = [row for row in law["rows"] if "counted" in row]
    ax.plot([row["N"] for row in counted], np.log([row["counted"] for row in counted]), "o", color=colour, markersize=5)
    entropy = [row["entropy"] for row in law["rows"]]
    ax.plot(size, entropy, "D:", color=colour, markersize=5, markerfacecolor="white", linewidth=1.2)
    ax.annotate(
        f"P = {law['P']}",
        (size[-1], np.log(law["rows"][-1]["formula"])),
        xytext=(8, 0),
        textcoords="offset points",
        va="center",
        color=for_words(colour),
        fontweight="bold",
    )


def _law_handles() -> list[Any]:
    from matplotlib.lines import Line2D

    look: Any = {"color": GREY, "markersize": 5}
    return [
        Line2D([], [], linewidth=1.4, label="log of the number of states, by the formula", **look),
        Line2D([], [], marker="o", linestyle="", label="the same, counted", **look),
        Line2D([], [], marker="D", linestyle=":", markerfacecolor="white", label="entropy of sampled states", **look),
    ]
