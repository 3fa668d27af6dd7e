"""The experiments of the paper; ``latentbits reproduce henniges_2010`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.data.toys import linear_bars
from latentbits.papers.henniges_2010 import accuracy, bars, figures, images, tables
from latentbits.papers.henniges_2010.bars import Setting
from latentbits.papers.pages import Measured, averaged, machine, share_of
from latentbits.papers.skeleton import Part, Run, Say, repeat, silent

__all__ = ["Plan", "reproduce", "trials"]

START_N_ACTIVE = (5.0, 1.0)  # pi H, of figure 1 C
HATEREN = "vanhateren_one"
ENOUGH_TRIALS = 100  # trials from which shares of them are held to ranges

N_PAPER, N_OTHER = 1000, 200  # trials of the paper's recipe, as in the paper, and of the others
OTHERS = {**dict.fromkeys(bars.ALTERED, N_OTHER), "ours": N_OTHER}


class Plan(NamedTuple):
    """Amount of work to be done."""

    n_rows: int = 500  # of figure 1
    # the lines of the reliability table
    settings: tuple[Setting, ...] = (
        Setting(1000, 5.0, {"paper": N_PAPER, **OTHERS, "about": N_PAPER, "default": 100}),
        Setting(2000, 3.0, {"paper": N_PAPER, **OTHERS}),
        Setting(2000, 1.0, {"paper": N_PAPER, **OTHERS}),
        Setting(4000, 5.0, {"paper": N_PAPER, **OTHERS}),
        Setting(500, 5.0, {"paper": N_OTHER}),  # more runs like those of figure 1
        Setting(500, 1.0, {"paper": N_OTHER}),
    )
    # rows, and sets of them, in which truncated expectations are held against exact ones
    n_compared: tuple[int, int] = (5000, 10)
    timed: bool = True  # whether times are taken
    # the experiment on natural images; None takes the paper's on a GPU and the small one elsewhere
    patches: images.Setup | None = None


QUICK = Plan(
    settings=(Setting(1000, 5.0, {"paper": 12, "ours": 4}), Setting(2000, 1.0, {"paper": 8})),
    n_compared=(2000, 2),
    patches=images.QUICK,
)


def reproduce(
    out: Path,
    *,
    quick: bool = False,
    say: Say = silent,
    natural: str = "bsds_nature",
    full_scale: bool | None = None,
) -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        The same as there; quick has few trials, and few small patches.
    natural
        The set of natural images, by its name for `load_dataset`, or "none"; left out with a note where it cannot be
        had.
    full_scale
        200 000 patches of 26 x 26 pixels as in the paper, or 20 000 of 16 x 16; None asks whether there is a GPU.
    """
    run = Run(QUICK if quick else Plan(), out, say)
    parts: dict[str, Part] = {
        "course": _figure_1,
        "bars": _bars,
        "accuracy": _accuracy,
        "costs": _costs,
        "images": partial(_images, natural, full_scale),
    }
    return repeat(__package__, run, quick, parts, tables.report)


def trials(out: Path, *, quick: bool = False) -> list[Callable[[], Any]]:
    """List the experiments on bars, block by block: `reproduce` finds what they keep.  The longest come first.

    Natural images are not among them, which take the accelerator, nor are times, which need a machine to themselves.
    """
    plan, folder = QUICK if quick else Plan(), out / "runs"
    blocks = [
        (setting.n_rows, setting.start, recipe, *part)
        for setting in plan.settings
        for recipe, n in setting.n_trials.items()
        for part in bars.starts_of(n)
    ]
    # times as long as the others, about
    longest_first = sorted(blocks, key=lambda one: -one[0] * one[-1] * {"ours": 2, "default": 2}.get(one[2], 1))
    return [
        *(partial(bars.block, folder, *one) for one in longest_first),
        partial(accuracy.accuracy, folder, *plan.n_compared),
    ]


# --- bars ---


def _figure_1(run: Run) -> dict[str, Any]:
    run.say(f"bars, {run.plan.n_rows} rows: figure 1")
    toy = linear_bars(run.plan.n_rows, size=bars.SIZE, random_state=0)
    traces = {f"from {start:g}": bars.trace(toy, start, seed=0) for start in START_N_ACTIVE}
    run.draw("1", figures.figure_1(toy, traces, (0, 1, 3, 5, 10, 20, 30, 60)))
    runs = {
        name: {"sparseness": one.sparseness.tolist(), "noise": one.noise.tolist(), "recovered": one.recovered}
        for name, one in traces.items()
    }
    return {"drawn": float(toy.causes.sum(1).mean()), "runs": runs}


def _bars(run: Run) -> dict[str, Any]:
    table = {}
    for setting in run.plan.settings:
        recipes = {}
        for name, n in setting.n_trials.items():
            run.say(f"bars, {setting.n_rows} rows, pi H from {setting.start:g}, {name}: {n} trials")
            recipes[name] = bars.trials(run.out / "runs", setting, name)
        table[setting.key] = {"n_rows": setting.n_rows, "start": setting.start, "recipes": recipes}
    run.measured |= _of_bars(table)
    lines = {
        key: {**one, "recipes": {name: bars.summary(found) for name, found in one["recipes"].items()}}
        for key, one in table.items()
    }
    return {"lines": lines, "changes": _changes(table)}


def _changes(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Make the ablation: the paper's recipe with none, one, two and all of our changes, on the trials that all have."""
    lines = {key: one["recipes"] for key, one in table.items() if set(bars.ALTERED) <= set(one["recipes"])}
    names = ("paper", *bars.ALTERED)
    n = min((len(recipes[name]["noise"]) for recipes in lines.values() for name in names), default=0)
    recovered = {
        name: {key: int(bars.is_recovered(recipes[name])[:n].sum()) for key, recipes in lines.items()} for name in names
    }
    return {"n": n, "lines": list(lines), "recovered": recovered}


def _of_bars(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Measured]:
    """Average all lines; shares and spreads, and what is made of them, where there are trials enough."""
    measured: dict[str, Measured] = {}
    for key, one in table.items():
        found = one["recipes"]["paper"]
        kept, sparseness, noise = bars.is_recovered(found), np.array(found["sparseness"]), np.array(found["noise"])
        measured[f"first_noise_{key}"] = averaged(found["first_noise"])
        if kept.any():
            measured |= {f"sparseness_{key}": averaged(sparseness[kept]), f"noise_{key}": averaged(noise[kept])}
        if len(kept) >= ENOUGH_TRIALS:
            measured |= {
                f"recovered_{key}": share_of(kept),
                f"sparseness_spread_{key}": _deviation(sparseness[kept]),
                f"noise_spread_{key}": _deviation(noise[kept]),
                f"noise_spread_all_{key}": _deviation(noise),
            }
        if len(other := one["recipes"].get("about", {}).get("noise", [])) >= ENOUGH_TRIALS:
            measured |= {
                f"recovered_new_{key}": share_of(bars.is_recovered(one["recipes"]["about"])),
                f"noise_spread_all_new_{key}": _deviation(np.array(other)),
            }
    for name, (more, less) in {"more_rows": ("4000_5", "1000_5"), "lower_start": ("2000_3", "2000_1")}.items():
        shares = [measured[f"recovered_{key}"] for key in (more, less) if f"recovered_{key}" in measured]
        if len(shares) == 2:
            measured[name] = _difference(*shares)
    return measured | _of_changes(table) | _of_ours(table)


def _of_changes(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Measured]:
    """Measure what each of our changes does to the share of trials, of all lines, alone and beside the other two."""
    measured = {}
    everything = "+".join(bars.OURS)
    for change in bars.OURS:
        rest = "+".join(name for name in bars.OURS if name != change)
        for name, (after, before) in {"alone": (change, "paper"), "beside": (everything, rest)}.items():
            pairs = [
                (bars.is_recovered(one["recipes"][after]), bars.is_recovered(one["recipes"][before]))
                for one in table.values()
                if after in one["recipes"] and before in one["recipes"]
            ]
            gains = [
                1.0 * with_it - without[: len(with_it)] for with_it, without in pairs
            ]  # of the same rows and start
            if sum(map(len, gains)) >= ENOUGH_TRIALS:
                measured[f"{change}_{name}"] = averaged(np.concatenate(gains))
    return measured


def _of_ours(table: Mapping[str, Mapping[str, Any]]) -> dict[str, Measured]:
    missed = [
        ~bars.is_recovered(found)
        for one in table.values()
        for name, found in one["recipes"].items()
        if name in ("ours", "default")
    ]
    n = sum(map(len, missed))
    return {"failures": share_of(np.concatenate(missed))} if n >= ENOUGH_TRIALS else {}


def _deviation(values: np.ndarray) -> Measured:
    """Estimate a standard deviation, with an error that does not assume a Gaussian."""
    off = np.square(values - values.mean())
    deviation = float(np.sqrt(off.mean()))
    return Measured(deviation, float(off.std() / np.sqrt(len(off)) / (2 * deviation)), len(values))


def _difference(one: Measured, other: Measured) -> Measured:
    return Measured(one.value - other.value, float(np.hypot(one.error or 0.0, other.error or 0.0)), one.n)


# --- truncated expectations ---


def _accuracy(run: Run) -> dict[str, Any]:
    run.say("truncated expectations against exact ones")
    found = accuracy.accuracy(run.out / "runs", *run.plan.n_compared)
    close = found["close"]
    gains = [np.subtract(close[str(more)], close[str(less)]) for less, more in pairwise(accuracy.GAMMAS)]
    run.measured |= {
        "accurate": averaged(close["3"]),
        "accurate_within": averaged(found["close_within"]["3"]),
        "accurate_more": min((averaged(gain) for gain in gains), key=lambda gain: gain.value),
        "exact_step": Measured(accuracy.exact_em(500)),
    }
    return found


def _costs(run: Run) -> dict[str, Any]:
    run.say("states and times")
    states = {str(gamma): accuracy.counted(gamma) for gamma in (2, 3, 4)}
    slopes = {gamma: accuracy.exponent(accuracy.N_CANDIDATES, counts) for gamma, counts in states.items()}
    run.measured |= {f"states_{gamma}": Measured(slope) for gamma, slope in slopes.items()}
    found = {"candidates": accuracy.N_CANDIDATES, "states": states, "exponents": slopes}
    if not run.plan.timed:
        return found
    seconds = accuracy.timed(run.out / "runs")
    grows = accuracy.growth(accuracy.N_CAUSES, seconds)
    run.measured["time_causes"] = Measured(grows["exponent"], grows["error"], len(seconds))
    return {**found, "causes": accuracy.N_CAUSES, "seconds": seconds, "machine": machine(), **grows}


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
    found, fields = images.run(pictures, natural, setup, run.out / "runs", run.say)
    for place, fit in enumerate(setup.fits[:2]):
        name, file = (f"2 with {fit.n_causes} causes", f"figure_2_{fit.n_causes}") if place else ("2", "figure_2")
        run.draw(name, figures.figure_2(fields[fit.key], setup), file)
    full = setup == images.FULL
    found = {**found, "full_scale": full, "name": natural, "nearest": _nearest(setup, run) if full else None}
    run.measured |= _of_images(found, fields, setup)
    return found


def _nearest(setup: images.Setup, run: Run) -> dict[str, Any] | None:
    """Learn from patches of an image that is among van Hateren's, as the paper's are, with several H and gamma."""
    notes: list[str] = []
    pictures = images.load_images(HATEREN, notes)
    if pictures is None:
        run.notes.append(f"The set {HATEREN!r} could not be had, and is left out.")
        return None
    fits = images.run(pictures, HATEREN, setup._replace(fits=setup.nearest), run.out / "runs", run.say)[0]["fits"]
    return {"name": HATEREN, "fits": fits}


def _of_images(
    found: Mapping[str, Any], fields: Mapping[str, images.Fields], setup: images.Setup
) -> dict[str, Measured]:
    """Measure what the paper says at its scale, and at any scale the orientations alone."""

    def single(value: float) -> Measured:
        return Measured(float(value), None, 1)

    fits = list(found["fits"].values())
    theirs, ours = ([one for one in fits if one["recipe"] == name] for name in ("paper", "ours"))
    measured = {"images_oriented": averaged([one["selectivity"] for one in theirs])}
    if not found["full_scale"]:
        return measured
    for name, (first, second) in {"": theirs, "_ours": ours}.items():
        measured |= {
            f"images_globular{name}": _globular(first),
            f"images_constrained{name}": _constrained(first, second),
        }
    measured |= {"images_sparseness_other": single(theirs[0]["sparseness"])}
    measured |= {"images_sparseness_ours": single(ours[0]["sparseness"])}
    many, few = (fields[fit.key].components for fit in setup.fits[:2])
    measured["images_similar"] = share_of(
        # fields that share half of their energy are similar
        images.likeness(few, many, (setup.side, setup.side)) ** 2 >= 0.5
    )
    if found["nearest"] is None:
        return measured
    first, *others = found["nearest"]["fits"].values()
    return measured | {
        "images_sparseness": single(first["sparseness"]),
        "images_sparseness_others": averaged([one["sparseness"] for one in others]),
        "images_globular_nearest": _globular(first),
        "images_constrained_nearest": _constrained(first, others[0]),
    }


def _globular(fit: Mapping[str, Any]) -> Measured:
    """Count globular fields; the error is that over fields, of a share."""
    error = share_of(np.arange(fit["n_causes"]) < fit["n_globular"]).error or 0.0
    return Measured(float(fit["n_globular"]), fit["n_causes"] * error, 1)


def _constrained(many: Mapping[str, Any], few: Mapping[str, Any]) -> Measured:
    """Measure how much more of their energy fields have near their centre, where there are fewer of them.

    The error is that over fields at most: the variance of shares of energy, between 0 and 1, is 1/4 at most.
    """
    error = np.sqrt(0.25 / many["n_causes"] + 0.25 / few["n_causes"])
    return Measured(few["localisation"] - many["localisation"], float(error), 1)
