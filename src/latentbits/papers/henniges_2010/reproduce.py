"""The experiments of the paper; ``latentbits reproduce henniges_2010`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.data.toys import linear_bars
from latentbits.papers import pages
from latentbits.papers.henniges_2010 import bars, figures, images, tables
from latentbits.papers.henniges_2010.bars import Setting

__all__ = ["Plan", "reproduce"]

Say = Callable[[str], None]
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
    say: Say = lambda text: None,
    natural: str = "bsds_nature",
    n_trials: int | None = None,
    full_scale: bool | None = None,
) -> dict[str, Any]:
    """Repeat the paper's experiments and write ``results.json``, ``results.md`` and the figures.

    Parameters
    ----------
    out
        A folder, made if need be.
    quick
        Few trials, and few small patches.
    say
        Called with a line for every part.
    natural
        The set of natural images, by its name for `load_dataset`, or "none"; left out with a note where it cannot be
        had.
    n_trials
        Sets of bars for each row of the table; None takes 300, or 10.
    full_scale
        200 000 patches of 26 x 26 pixels as in the paper, or 20 000 of 16 x 16; None asks whether there is a GPU.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    import_extra("matplotlib", extra="plot", purpose="drawing the figures of the paper")  # before any fitting
    plan = QUICK if quick else Plan()
    plan = plan if n_trials is None else plan._replace(n_trials=n_trials)
    out.mkdir(parents=True, exist_ok=True)
    notes: list[str] = []
    pictures = images.load_images(natural, notes)
    course, files = _figure_1(plan, out, say)
    table = {one.key: bars.reliability(one, plan.n_trials, say) for one in plan.settings}
    patches = None
    if pictures is not None:
        patches, drawn = _images(pictures, _scale(plan.patches, full_scale, notes), out, say)
        patches["name"] = natural
        files.update(drawn)
    held_to = pages.expected(__package__)
    measured = {**_of_bars(table), **(_of_images(patches) if patches is not None else {})}
    results = {
        "paper": "henniges_2010",
        "quick": quick,
        "machine": pages.machine(),
        "notes": notes,
        "course": course,
        "bars": table,
        "images": patches,
        "relations": pages.judge(held_to["relations"], measured),
        "figures": files,
    }
    pages.write_results(out, results, tables.report(results, held_to))
    return results


# --- bars ---


def _figure_1(plan: Plan, out: Path, say: Say) -> tuple[dict[str, Any], dict[str, list[str]]]:
    say(f"bars, {plan.n_rows} rows: figure 1")
    toy = linear_bars(plan.n_rows, size=bars.SIZE, random_state=0)
    traces = {f"from {start:g}": bars.trace(toy, start, seed=0) for start in STARTS}
    course: dict[str, Any] = {"drawn": float(toy.causes.sum(1).mean()), "runs": {}}
    course["runs"] = {
        name: {"sparseness": one.sparseness.tolist(), "noise": one.noise.tolist(), "recovered": one.recovered}
        for name, one in traces.items()
    }
    return course, {"1": pages.save(figures.figure_1(toy, traces, ITERATIONS), out, "figure_1")}


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


def _images(
    pictures: np.ndarray, setup: images.Setup, out: Path, say: Say
) -> tuple[dict[str, Any], dict[str, list[str]]]:
    found, fields = images.run(pictures, setup, say)
    files = {}
    for n_causes, one in fields.items():
        name = "2" if n_causes == setup.n_causes[0] else f"2 with {n_causes} causes"
        file = "figure_2" if name == "2" else f"figure_2_{n_causes}"
        files[name] = pages.save(figures.figure_2(one, setup), out, file)
    return {**found, "full_scale": setup == images.FULL}, files


def _of_images(found: Mapping[str, Any]) -> dict[str, float]:
    """Only the paper's scale is held to what the paper says of it, but for orientations."""
    first, *others = found["fits"].values()
    measured = {"images_oriented": first["selectivity"]}
    if found["full_scale"]:
        measured |= {"images_sparseness": first["sparseness"], "images_globular": first["n_globular"]}
        if others:
            measured["images_constrained"] = others[-1]["localisation"] - first["localisation"]
    return measured
