"""The tables and figures of the paper; ``latentbits reproduce freund_haussler_1994`` runs it.

The work is a list of tasks that need nothing of each other: seeds of the experiments, and the curves.  What each finds
is kept in ``runs``, so that they can be done in several processes, and a run that was stopped goes on where it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.papers.freund_haussler_1994 import figures, findings, synthetic, tables, theory, usps
from latentbits.papers.freund_haussler_1994.synthetic import Experiment
from latentbits.papers.skeleton import Part, Run, Say, kept, repeat, silent

__all__ = ["Plan", "Task", "reproduce", "tasks_of", "trials"]

GALLERIES = {
    "pursuit": "4.9",
    "pursuit, 8 starts": "4.9 eight starts",
    "pursuit, ours": "4.9 ours",
    "default": "4.9 default",
}
NAMES = {
    "pursuit": "The paper's pursuit",
    "pursuit, 8 starts": "The best of 8 starts",
    "pursuit, ours": "Our pursuit",
    "default": "Default learner",
}


class Plan(NamedTuple):
    """Amount of work to be done."""

    # large, few, small: the synthetic experiments: with weights as they are, the same from 500 rows, and with weights
    # divided by seven
    large: Experiment = Experiment("large", "large", 1000, 100)
    few: Experiment = Experiment("few", "large", 1000, 100, n_rows=500, ours=())
    small: Experiment = Experiment("small", "small", 400, None)
    theory: theory.Theory = theory.Theory()  # sections 2.5, 2.6 and appendix A
    digits: usps.Setup = usps.Setup()  # the digits experiment
    # iterations after each doubling at which the mixture's errors are drawn
    stops: tuple[int, ...] = (0, 1, 2, 4, 8, 20)
    n_points: int = 15  # units at which the pursuit's errors are drawn
    is_quick: bool = False  # whether runs are too small for most of the findings


QUICK = Plan(
    large=Experiment("large", "large", 60, 20, n_rows=500, n_seeds=1, ours=(), rates=(0.05,)),
    few=Experiment("few", "large", 60, 20, n_rows=200, n_seeds=1, ours=(), rates=(0.05,)),
    small=Experiment("small", "small", 60, None, n_rows=500, n_seeds=1, ours=(), rates=(0.05,)),
    theory=theory.Theory(n_seeds=5),
    digits=usps.Setup(n_units=8, n_train=200, n_test=200, n_seeds=1, methods=usps.METHODS[:-1], summed=None),
    stops=(0, 1, 20),
    n_points=4,
    is_quick=True,
)


class Task(NamedTuple):
    """One of the things to be done: a name, a function that can be sent to a process, and its arguments."""

    name: str
    compute: Callable[..., Any]
    args: tuple[Any, ...]
    asked: Any


def tasks_of(plan: Plan, images: usps.Digits | None) -> list[Task]:
    """List all that is to be done, the longest first."""
    tasks = []
    if images is not None:
        setup = plan.digits._replace(n_seeds=0)
        asked = [images.title, *setup]
        tasks += [
            Task(f"digits_{seed}", usps.one_seed, (images, setup, seed), asked) for seed in range(plan.digits.n_seeds)
        ]
        course = (images, setup, plan.stops, plan.n_points)
        tasks.append(Task("curves", usps.curves, course, [*asked, *course[2:]]))
    for one in (plan.large, plan.few, plan.small):
        each = one._replace(n_seeds=0)
        tasks += [
            Task(f"{one.name}_{seed}", synthetic.one_seed, (each, seed), list(each)) for seed in range(one.n_seeds)
        ]
    each_theory = plan.theory._replace(n_seeds=0)
    tasks += [
        Task(f"theory_{seed}", theory.one_seed, (each_theory, seed), list(each_theory))
        for seed in range(plan.theory.n_seeds)
    ]
    return tasks


def _do(folder: Path, task: Task) -> Any:
    return kept(folder, task.name, partial(task.compute, *task.args), task.asked)


def trials(
    out: Path, *, quick: bool = False, digits: str = "usps", n_seeds: int | None = None
) -> list[Callable[[], Any]]:
    """List the tasks as calls that may be made in any order and process; `reproduce` finds what they have kept."""
    plan = _seeded(QUICK if quick else Plan(), n_seeds)
    return [partial(_do, out / "runs", task) for task in tasks_of(plan, usps.load_digits(digits, []))]


def reproduce(
    out: Path, *, quick: bool = False, say: Say = silent, digits: str = "usps", n_seeds: int | None = None
) -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        The same as there; quick has fewer rows, epochs, units and seeds.
    digits
        "usps" (scikit-learn's 8 x 8 digits stand in where they cannot be had, and all output says so), "bundled" for
        these at once, or "none".
    n_seeds
        Repetitions of every experiment; None takes 20 of the synthetic ones and 10 of the digits.
    """
    run = Run(_seeded(QUICK if quick else Plan(), n_seeds), out, say)
    images = usps.load_digits(digits, run.notes)
    import_extra("matplotlib", extra="plot", purpose="drawing the figures of the paper")  # before any fitting
    found = {}
    for task in tasks_of(run.plan, images):
        say(task.name)
        found[task.name] = _do(out / "runs", task)
    parts: dict[str, Part] = {
        "theory": partial(_theory, found),
        "synthetic": partial(_synthetic, found),
        "digits": partial(_digits, found, images),
    }
    return repeat(__package__, run, quick, parts, tables.report)


def _seeded(plan: Plan, n_seeds: int | None) -> Plan:
    if n_seeds is None:
        return plan
    return plan._replace(
        large=plan.large._replace(n_seeds=n_seeds),
        few=plan.few._replace(n_seeds=n_seeds),
        small=plan.small._replace(n_seeds=n_seeds),
        theory=plan.theory._replace(n_seeds=n_seeds),
        digits=plan.digits._replace(n_seeds=n_seeds),
    )


def _tell(run: Run, measured: findings.Found) -> None:
    """Record all that was measured; of a quick run only what it can show."""
    shown = findings.QUICK if run.plan.is_quick else measured
    run.measured |= {name: value for name, value in measured.items() if name in shown}


def _of(found: Mapping[str, Any], name: str, n_seeds: int) -> list[Any]:
    return [found[f"{name}_{seed}"] for seed in range(n_seeds)]


def _theory(found: Mapping[str, Any], run: Run) -> dict[str, Any]:
    run.draw("2.2", figures.figure_2_2())
    seeds = _of(found, "theory", run.plan.theory.n_seeds)
    _tell(run, findings.of_theory(seeds))
    return {**run.plan.theory._asdict(), "sizes": list(run.plan.theory.sizes), "seeds": seeds}


# --- the synthetic target ---


def _synthetic(found: Mapping[str, Any], run: Run) -> dict[str, Any]:
    numbers = {}
    for one in (run.plan.large, run.plan.few, run.plan.small):
        seeds = _of(found, one.name, one.n_seeds)
        numbers[one.name] = synthetic.assembled(one, seeds)
        if one.name == "large":
            rows = synthetic.rows_of(one, synthetic.SEED_SHOWN)[0]
            run.draw("4.1", figures.figure_4_1(synthetic.machines_of(one, seeds), rows))
        elif one.name == "small":
            run.draw("4.2", figures.figure_4_2(synthetic.machines_of(one, seeds), 6 / 7))
    _tell(run, findings.of_synthetic(**numbers))
    return numbers


# --- digits ---


def _digits(found: Mapping[str, Any], images: usps.Digits | None, run: Run) -> dict[str, Any] | None:
    if images is None:
        return None
    setup = run.plan.digits
    seeds = _of(found, "digits", setup.n_seeds)
    numbers = {**usps.assembled(images, setup, seeds), "curves": found["curves"]}
    vectors = {name: np.array(one) for name, one in seeds[usps.SEED_SHOWN]["vectors"].items()}
    _draw_digits(images, vectors, found["curves"], usps.split(images.X, setup, usps.SEED_SHOWN)[0], run)
    if images.is_usps:
        _tell(run, findings.of_digits(numbers))
    return numbers


def _draw_digits(
    images: usps.Digits, vectors: Mapping[str, np.ndarray], curves: Mapping[str, Any], train: np.ndarray, run: Run
) -> None:
    """Draw figures 4.3 to 4.9, and weights beside principal components."""
    shape = images.image_shape
    weights = {name: one for name, one in vectors.items() if name in NAMES}
    components = vectors["mixture"]
    run.draw("4.3", figures.figure_examples(train, shape, images.title))
    for number, shown, words in (("4.4", weights["pursuit"], "Pursuit"), ("4.5", components, "Mixture")):
        run.draw(number, figures.figure_weights(shown, shape, f"{words}: weight vectors", 8, 16))
    run.draw("4.6", figures.figure_along(curves, "reconstruction", "input reconstruction, bits per pixel"))
    run.draw("4.7", figures.figure_along(curves, "single_bit", "mistakes in a single bit"))
    galleries = {"4.8": ("Mixture", components)}
    galleries.update({GALLERIES[name]: (NAMES[name], one) for name, one in weights.items()})
    for number, (words, one) in galleries.items():
        run.draw(number, figures.figure_weights(one, shape, f"{words}: all {len(one)} weight vectors", 9))
    n_shown = min(16, *(len(one) for one in weights.values()))
    beside = {NAMES[name]: weights[name] for name in ("pursuit", "pursuit, ours", "default") if name in weights}
    run.draw("section 2.4", figures.figure_principal(beside, train, shape, n_shown))
