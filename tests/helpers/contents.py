"""A page's content without a fit: all parts are there, small, and made of known numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

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
from latentbits.telling.records import Gallery, Layer, Morph, Spectra

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
    """The same page with several maps, on which rows lie as on the one of all rows, but moved; each has a row."""
    rng = np.random.default_rng(seed)
    where, n, d = content.map, len(content.table.values), len(content.table.columns)
    assert where is not None
    home = np.concatenate([np.arange(n_maps), rng.choice(n_maps, n - n_maps, p=_falling(n_maps))])
    maps = Maps(
        name=f"{n_maps} maps of 2 latent traits",
        shares=np.bincount(home, minlength=n_maps) / n,
        home=home,
        sure=0.5 + 0.5 * rng.random(n),
        means=where.means + 0.1 * home[:, None],
        covariances=where.covariances / 2,
        weights=rng.normal(size=(n_maps, 2, d)),
        bias=rng.normal(size=(n_maps, d)),
        noise=None,
        cost=where.cost + 1,
        lines=tuple(np.array([m, m + 2]) for m in range(n_maps)),
        places=rng.normal(size=(n_maps, 2)),
        told=f"{n_maps} maps hold all of the rows.",
    )
    return replace(content, maps=maps)
