"""A page's content without a fit: all parts are there, small, and made of known numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from scipy.special import expit, logsumexp

from latentbits.explorer.content import (
    Axes,
    Content,
    Course,
    Labels,
    Map,
    Maps,
    Meaning,
    ModelRow,
    Table,
    Trial,
)
from latentbits.reports.summaries.records import Gallery, Layer, Morph, Spectra

HOSTILE = "</script><img src=x onerror=alert(1)><!--\"'&{{7*7}}"


def _water(means: np.ndarray) -> np.ndarray:
    """Numbers that fall along the first trait; of one row it is not known."""
    water = 500 - 100 * means[:, 0]
    water[2] = np.nan
    return water


def small_content(
    n: int = 60, *, image: bool = False, missing: bool = False, hostile: bool = False, seed: int = 0
) -> Content:
    """Rows drawn from two latent traits on 12 columns; with `hostile`, every name that a table brings is markup."""
    rng = np.random.default_rng(seed)
    d, k, m = 12, 2, 3

    def called(name: str) -> str:
        return f"{HOSTILE} {name}" if hostile else name

    weights, bias = rng.normal(size=(2, d)) * 1.5, rng.normal(size=d) * 0.5
    means = rng.normal(size=(n, 2))
    bits = (rng.random((n, d)) < 1 / (1 + np.exp(-means @ weights - bias))).astype(float)
    if missing:
        bits[rng.random((n, d)) < 0.1] = np.nan
    spread = 0.1 + 0.1 * rng.random((n, 2))
    table = Table(
        source=called("toy"),
        n_rows=n,
        columns=tuple(called(f"column {j}") for j in range(d)),
        values=bits,
        numbers=np.arange(n),
        image_shape=(3, 4) if image else None,
        labels=(
            Labels(called("party"), (called("left"), called("right")), rng.integers(-1, 2, n)),
            Labels(called("water"), (), np.where(np.arange(n) == 2, -1, 0), _water(means)),
        ),
        left_out_labels=((called("site"), "no two rows share one: they name rows"),),
        row_names=tuple(called(f"row {i}") for i in range(n)),
    )
    where = Map(
        name="2 latent traits",
        means=means,
        covariances=np.column_stack([spread, 0.3 * np.sqrt(spread.prod(axis=1))]),
        weights=weights,
        bias=bias,
        noise=None,
        cost=rng.gamma(5.0, 2.0, n),
        lines=np.array([0, 3, 5]),
    )

    def layer(title: str, n_units: int, n_below: int, **more: np.ndarray) -> Layer:
        active = rng.random((n, n_units))
        return Layer(
            title=title,
            names=tuple(f"{title} {i + 1}" for i in range(n_units)),
            weights=rng.gamma(1.0, 1.0, (n_units, n_below)),
            bias=rng.gamma(1.0, 0.1, n_below),
            usage=active.mean(axis=0),
            active=active,
            examples=np.argsort(-active, axis=0)[:5].T,
            **more,
        )

    lower = layer("cause", m, d, states=rng.random((n, m)) < 0.5)
    upper = layer("cause of causes", 2, m, states=rng.random((n, 2)) < 0.5, projected=rng.random((2, d)))
    kinds = layer("kind", 4, d)
    mixture = ModelRow("mixture of 4", "mixture", 4, 7.5, 0.2, 0.0, 0.0, 1.5, (Trial(2, 8.0, 0.3), Trial(4, 7.6, 0.3)))
    trials = (Trial(1, 8.6, 0.3), Trial(2, 9.9, 0.3, converged=False), Trial(3, 7.9, 0.3, converged=False))
    network = ModelRow(
        "noisy OR of 3", "noisy-or", 3, 7.9, 0.2, 0.4, 0.1, 9.5, trials, "not converged", converged=False
    )
    alone = ModelRow("independent bits", "product", 1, 10.25, 0.25, 2.75, 0.2, 0.1, n_rows=n)
    return Content(
        title=f"{called('toy')}: what is hidden in the bits",
        findings=(f"Rows differ most in {called('column 1')}.", "A second finding.", "A third."),
        table=table,
        n_close=n,
        map=where,
        models=(mixture, network, alone),
        sound=(mixture, alone),
        unit="bits per row",
        how_compared="Scored on rows that no fit saw.",
        galleries=(
            Gallery("mixture of 4", "Each row is of one kind.", "probability", (kinds,)),
            Gallery("noisy OR of 3, 2", "Causes turn bits on.", "strength", (lower, upper)),
        ),
        morph=Morph("clipped Gaussian of 2", rng.normal(size=(k, d)), rng.normal(size=d), rng.normal(size=(n, k))),
        spectra=Spectra(
            "clipped Gaussian of 2", np.sort(rng.gamma(1.0, 1.0, d))[::-1], np.sort(rng.normal(1.0, 1.0, d))[::-1], k
        ),
        courses=(
            Course("mixture of 4", 9 - np.arange(30) / 20),
            Course("noisy OR of 3", 10 - np.sqrt(np.arange(900)) / 9),
        ),
        tried="5 of 6 families were fitted; not fitted: combination-machine (no time was left for it).",
        meanings=(
            Meaning("trait 1", called("water"), "rank correlation", -1.0, 1e-9, n - 1),
            Meaning("trait 2", "", "rank correlation", 0.84, 1e-9, n, number=1),
            Meaning(
                "cause 2",
                called("party"),
                "AUC",
                0.91,
                0.0004,
                n,
                (called("left"), called("right")),
                "noisy OR of 3, 2",
                number=1,
            ),
        ),
        axes=Axes(
            errors=np.linspace(0.1, 0.6, 2 * d).reshape(2, d),
            why="",
            again="The axes were found again in 4 of 4 rounds (correlation of rows' places at least 0.93).",
        ),
        poles=(((called("column 1"),), (called("column 2"), called("column 3"))), ((called("column 4"),), ())),
    )


def _falling(n: int) -> np.ndarray:
    return np.arange(n, 0, -1) / (n * (n + 1) / 2)


def with_maps(content: Content, n_maps: int = 3, seed: int = 1) -> Content:
    """Make the same page with several maps, on which rows lie where their bits place them; each has a row."""
    rng = np.random.default_rng(seed)
    values, n, d = content.table.values, len(content.table.values), len(content.table.columns)
    home = np.concatenate([np.arange(n_maps), rng.choice(n_maps, n - n_maps, p=_falling(n_maps))])
    weights, bias = rng.normal(size=(n_maps, 2, d)), rng.normal(size=(n_maps, d))
    each = [placed(weights[m], bias[m], values) for m in range(n_maps)]
    own = [each[m] for m in home]
    maps = Maps(
        name=f"{n_maps} maps of 2 latent traits",
        shares=np.bincount(home, minlength=n_maps) / n,
        home=home,
        sure=0.5 + 0.5 * rng.random(n),
        means=np.array([one.means[i] for i, one in enumerate(own)]),
        covariances=np.array([one.covariances[i] for i, one in enumerate(own)]),
        weights=weights,
        bias=bias,
        noise=None,
        cost=np.array([one.cost[i] for i, one in enumerate(own)]),
        lines=tuple(np.array([m, m + 2]) for m in range(n_maps)),
        places=rng.normal(size=(n_maps, 2)),
        sentences=f"{n_maps} maps hold all of the rows.",
    )
    return replace(content, maps=maps)


# --- what rows say of their places, by sums over a grid ---

AXIS = np.linspace(-6, 6, 49)
GRID = np.stack(np.meshgrid(AXIS, AXIS), axis=-1).reshape(-1, 2)
LOG_PRIOR = -0.5 * np.square(GRID).sum(axis=1)
LOG_PRIOR -= logsumexp(LOG_PRIOR)


def log_joint(weights: np.ndarray, bias: np.ndarray, bits: np.ndarray) -> np.ndarray:
    """Sum log p(row, x) for each row and point of the grid."""
    towards = GRID @ weights + bias
    on, seen = np.nan_to_num(bits), (~np.isnan(bits)).astype(float)
    return (seen * on) @ towards.T - seen @ np.logaddexp(0, towards).T + LOG_PRIOR


def placed(weights: np.ndarray, bias: np.ndarray, bits: np.ndarray) -> Map:
    """Make the map whose posteriors are those of the grid."""
    joint = log_joint(weights, bias, bits)
    evidence = logsumexp(joint, axis=1)
    share = np.exp(joint - evidence[:, None])
    means = share @ GRID
    second = np.einsum("nk,ki,kj->nij", share, GRID, GRID) - means[:, :, None] * means[:, None]
    covariances = second[:, [0, 1, 0], [0, 1, 1]]
    lines = np.arange(min(3, len(bias)))
    return Map("2 latent traits", means, covariances, weights, bias, None, -evidence / np.log(2), lines)


def predicted_from_others(where: Map, bits: np.ndarray) -> np.ndarray:
    """Sum P(bit = 1) of each cell given the other cells of its row."""
    towards = GRID @ where.weights + where.bias
    joint = log_joint(where.weights, where.bias, bits)
    found = np.empty(bits.shape)
    for j, (own, along) in enumerate(zip(bits.T, towards.T)):
        term = np.outer(np.nan_to_num(own), along) - np.outer(~np.isnan(own), np.logaddexp(0, along))
        share = np.exp(joint - term - (joint - term).max(axis=1, keepdims=True))
        found[:, j] = share @ expit(along) / share.sum(axis=1)
    return found


def traits_content(n: int = 150, d: int = 12, seed: int = 4) -> Content:
    """Rows of two traits, some bits missing, whose places on the map are exact."""
    rng = np.random.default_rng(seed)
    weights, bias = 1.2 * rng.normal(size=(2, d)), 0.3 * rng.normal(size=d)
    X = (rng.random((n, d)) < expit(rng.normal(size=(n, 2)) @ weights + bias)).astype(float)
    X[rng.random(X.shape) < 0.08] = np.nan
    content = small_content(n)
    columns = tuple(f"column {j}" for j in range(d))
    table = replace(content.table, values=X, columns=columns)
    return replace(content, table=table, map=placed(weights, bias, X))
