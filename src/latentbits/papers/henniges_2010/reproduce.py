"""The experiments of the paper; ``latentbits reproduce henniges_2010`` runs it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.data.toys import linear_bars
from latentbits.papers.henniges_2010 import bars, figures, images, tables
from latentbits.papers.henniges_2010.bars import Setting
from latentbits.papers.skeleton import Part, Run, Say, repeat, silent

__all__ = ["Plan", "reproduce"]

STARTS = (5.0, 1.0)  # pi H, of figure 1 C
ITERATIONS = (0, 1, 3, 5, 10, 20, 30, 60)  # shown in figure 1 B
ENOUGH = 100  # trials from which shares of them are held to ranges


class Plan(NamedTuple):
    """How much is done.

    Attributes
    ----------
    n_rows
        Of figure 1.
    settings, n_trials
        The rows of the reliability table, and sets of bars for each.
    patches
        The experiment on natural images; None takes the paper's on a GPU and the small one elsewhere.
    """

    n_rows: int = 500
    settings: tuple[Setting, ...] = (
        Setting(1000, 5.0, tuple(bars.RECIPES)),
        Setting(2000, 3.0),
        Setting(2000, 1.0),
        Setting(4000, 5.0),
    )
    n_trials: int = 300
    patches: images.Setup | None = None


QUICK = Plan(settings=(Setting(1000, 5.0), Setting(2000, 1.0)), n_trials=10, patches=images.QUICK)


def reproduce(
    out: Path,
    *,
    quick: bool = False,
    say: Say = silent,
    natural: str = "bsds_nature",
    n_trials: int | None = None,
    full_scale: bool | None = None,
) -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        As there; quick has few trials, and few small patches.
    natural
        The set of natural images, by its name for `load_dataset`, or "none"; left out with a note where it cannot be
        had.
    n_trials
        Sets of bars for each row of the table; None takes 300, or 10.
    full_scale
        200 000 patches of 26 x 26 pixels as in the paper, or 20 000 of 16 x 16; None asks whether there is a GPU.
    """
    plan = QUICK if quick else Plan()
    run = Run(plan if n_trials is None else plan._replace(n_trials=n_trials), out, say)
    parts: dict[str, Part] = {"course": _figure_1, "bars": _bars, "images": partial(_images, natural, full_scale)}
    return repeat(__package__, run, quick, parts, tables.report)


# --- bars ---


def _figure_1(run: Run) -> dict[str, Any]:
    run.say(f"bars, {run.plan.n_rows} rows: figure 1")
    toy = linear_bars(run.plan.n_rows, size=bars.SIZE, random_state=0)
    traces = {f"from {start:g}": bars.trace(toy, start, seed=0) for start in STARTS}
    run.draw("1", figures.figure_1(toy, traces, ITERATIONS))
    runs = {
        name: {"sparseness": one.sparseness.tolist(), "noise": one.noise.tolist(), "recovered": one.recovered}
        for name, one in traces.items()
    }
    return {"drawn": float(toy.causes.sum(1).mean()), "runs": runs}


def _bars(run: Run) -> dict[str, Any]:
    table = {one.key: bars.reliability(one, run.plan.n_trials, run.say) for one in run.plan.settings}
    run.measured |= _of_bars(table)
    return table


def _of_bars(table: Mapping[str, Mapping[str, Any]]) -> dict[str, float]:
    measured: dict[str, float] = {}
    failures, work = [], []
    for key, one in table.items():
        found, ours = one["recipes"]["paper"], one["recipes"]["ours"]
        kept = bars.is_recovered(found)
        if kept.any():
            measured[f"sparseness_{key}"] = float(np.mean(np.array(found["sparseness"])[kept]))
            measured[f"noise_{key}"] = float(np.mean(np.array(found["noise"])[kept]))
        if len(kept) >= ENOUGH:
            measured[f"recovered_{key}"] = float(kept.mean())
            failures += [
                1 - bars.is_recovered(other).mean() for name, other in one["recipes"].items() if name != "paper"
            ]
            # the first trial compiles
            work.append(float(np.median(ours["seconds"][1:]) / np.median(found["seconds"][1:])))
    if failures:
        measured |= {"failures": float(max(failures)), "work": max(work)}
    return measured


# --- natural images ---


def _scale(planned: images.Setup | None, full_scale: bool | None, notes: list[str]) -> images.Setup:
    if planned is not None:
        return planned
    if full_scale is None:
        import jax

        full_scale = jax.default_backend() == "gpu"
        if not full_scale:
            notes.append(
                "There is no GPU: natural images are learned from at a small scale, whose numbers cannot be compared "
                "with the paper's."
            )
    return images.FULL if full_scale else images.SMALL


def _images(natural: str, full_scale: bool | None, run: Run) -> dict[str, Any] | None:
    pictures = images.load_images(natural, run.notes)
    if pictures is None:
        return None
    setup = _scale(run.plan.patches, full_scale, run.notes)
    found, fields = images.run(pictures, setup, run.say)
    for n_causes, one in fields.items():
        is_first = n_causes == setup.n_causes[0]
        name, file = ("2", "figure_2") if is_first else (f"2 with {n_causes} causes", f"figure_2_{n_causes}")
        run.draw(name, figures.figure_2(one, setup), file)
    found = {**found, "full_scale": setup == images.FULL, "name": natural}
    run.measured |= _of_images(found)
    return found


def _of_images(found: Mapping[str, Any]) -> dict[str, float]:
    """Only the paper's scale is held to what the paper says of it, but for orientations."""
    first, *others = found["fits"].values()
    measured = {"images_oriented": first["selectivity"]}
    if found["full_scale"]:
        measured |= {"images_sparseness": first["sparseness"], "images_globular": first["n_globular"]}
        if others:
            measured["images_constrained"] = others[-1]["localisation"] - first["localisation"]
    return measured
