"""Figures 2 to 4 and the claims in the text; ``latentbits reproduce lee_sompolinsky_1998`` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.models.clipped_gaussian.hyperplane_cells import n_cells
from latentbits.papers.digits import Twos, load_twos
from latentbits.papers.lee_sompolinsky_1998 import figures, tables
from latentbits.papers.lee_sompolinsky_1998.bump import BumpFit, are_bumps, constraint, fit_bump, rescaled, vectors
from latentbits.papers.lee_sompolinsky_1998.modes import errors, modes
from latentbits.papers.lee_sompolinsky_1998.simulated import recover
from latentbits.papers.lee_sompolinsky_1998.states import entropy_law
from latentbits.papers.lee_sompolinsky_1998.twos import fit_twos, hidden, nearer, numbers, pick_pair, scored, wrong_bits
from latentbits.papers.pages import Measured, averaged, share_of
from latentbits.papers.skeleton import Part, Run, Say, kept, repeat, silent

__all__ = ["Plan", "reproduce", "trials"]

N_BUMP = 256
UNIT_DEVIATIONS = (0.1, 1.0)  # of x_i: standard deviations of their logarithms
EXPLAINED_SHARES = (1.0, 0.5)  # simulated data: the paper's model, and one in which half of each variance is noise


class Plan(NamedTuple):
    """Amount of work to be done."""

    samples: tuple[int, ...] = (20, 100, 1000)  # numbers of random shifts of the bump; the last but one is drawn
    n_drawn: int = 20_000  # rows sampled from the fitted model of the bump
    # constraint_sizes, n_constrained: numbers of bits that sum to zero, and rows of each
    constraint_sizes: tuple[int, ...] = (2, 4, 6, 8, 16, 32, 64)
    n_constrained: int = 100_000
    # hidden variables, biases or none, and the numbers of bits for which states are counted
    laws: tuple[tuple[int, bool, tuple[int, ...]], ...] = (
        (1, True, (16, 32, 64, 128, 256)),
        (2, True, (16, 32, 64, 128, 256)),
        (3, True, (8, 16, 32, 64)),
        (2, False, (16, 32, 64, 128, 256)),
        (3, False, (16, 32, 64, 128)),
    )
    n_states: int = 400_000  # draws of the hidden variables for each of these
    most_cells: int = 50_000  # states are counted one by one up to this number
    # n_components, noise, n_morphs, n_draws: on the twos: of figure 4 (the paper's model has no noise), pairs between
    # which morphs are compared with cross-fades, and draws of the bootstrap for the errors of its spectra
    n_components: int = 16
    noise: str = "none"
    n_morphs: int = 100
    n_draws: int = 20
    # held_out, likelihood: components for which unseen twos are scored, and those for which the likelihood is
    # maximised, too
    held_out: tuple[int, ...] = (0, 1, 2, 4, 8, 16)
    likelihood: tuple[int, ...] = (1, 2, 4)
    # n_seeds, n_simulated: simulated sets of each kind, and rows of each
    n_seeds: int = 20
    n_simulated: int = 50_000


QUICK = Plan(
    samples=(20, 100),
    n_drawn=5000,
    constraint_sizes=(2, 4),
    n_constrained=20_000,
    laws=((2, True, (8, 16, 32)), (2, False, (16, 32, 64, 128, 256)), (3, False, (8, 16, 32))),
    n_states=50_000,
    most_cells=2000,
    n_morphs=20,
    n_draws=3,
    held_out=(0, 1, 2),
    likelihood=(1,),
    n_seeds=1,
    n_simulated=20_000,
)


def reproduce(out: Path, *, quick: bool = False, say: Say = silent, digits: str = "usps_twos") -> dict[str, Any]:
    """Repeat the paper's experiments, as `latentbits.papers.reproduce` does.

    Parameters
    ----------
    out, quick, say
        The same as there; quick has smaller samples, and fewer sizes and seeds.
    digits
        "usps_twos" (scikit-learn's 8 x 8 twos stand in where it cannot be had, and all output says so), "bundled" for
        these at once, or "none".
    """
    run = Run(QUICK if quick else Plan(), out, say)
    parts: dict[str, Part] = {
        "bump": _bump,
        "constraint": _constraint,
        "twos": partial(_twos, load_twos(digits, run.notes), digits),
        "laws": _laws,
        "simulated": _simulated,
    }
    return repeat(__package__, run, quick, parts, tables.report)


def trials(out: Path, *, quick: bool = False) -> list[Callable[[], Any]]:
    """List what may be done in any order, and in other processes: simulated sets, and models of the twos."""
    plan: Plan = QUICK if quick else Plan()
    models = [(size, "likelihood") for size in reversed(plan.likelihood)] + [
        (size, "moments") for size in plan.held_out
    ]
    return [
        *(partial(_scored, out, "usps_twos", *one) for one in models),
        *(
            partial(_recovered, out, plan.n_simulated, share, seed)
            for share in EXPLAINED_SHARES
            for seed in range(plan.n_seeds)
        ),
    ]


# --- figures 2 and 3 ---


def _bump(run: Run) -> dict[str, Any]:
    """Measure spectra of the bump with exact moments and in samples, as the paper does it and as the defaults do."""
    run.draw("2", figures.figure_2())
    run.say(f"the bump of {N_BUMP} bits")
    samples = run.plan.samples
    exact = fit_bump(N_BUMP, None)
    sampled = [fit_bump(N_BUMP, size, seed=size) for size in samples]
    fits = {
        "every shift once": exact,
        **{f"{size} shifts": fit for size, fit in zip(samples, sampled)},
        "every shift once, correction 0.5": fit_bump(N_BUMP, None, correction=0.5),
        f"{samples[-1]} shifts, biases": fit_bump(N_BUMP, samples[-1], bias=True, seed=samples[-1]),
    }
    run.draw("3", figures.figure_3(exact, sampled[-2]))
    found = {
        "N": N_BUMP,
        "fits": {name: fit.numbers for name, fit in fits.items()},
        "finite": [f"{size} shifts" for size in samples],
        "vectors": vectors(exact.model),
        "rescaled": {str(spread): rescaled(exact.model, spread) for spread in UNIT_DEVIATIONS},
        **_regenerated(exact, run.plan.n_drawn),
    }
    run.measured |= _of_bump(found)
    return found


def _regenerated(exact: BumpFit, n_drawn: int) -> dict[str, Any]:
    """Draw from the model with two components: are the rows bumps, and how many different ones?"""
    drawn = np.asarray(exact.model.sample(n_drawn))
    return {
        "n_drawn": n_drawn,
        "are_bumps": float(are_bumps(drawn).mean()),
        "distinct": len(np.unique(drawn, axis=0)),
        "generic": n_cells(N_BUMP, 2, False),
    }


def _of_bump(bump: Mapping[str, Any]) -> dict[str, float]:
    exact = bump["fits"]["every shift once"]
    finite = [bump["fits"][name] for name in bump["finite"]]
    return {
        "bump_latent": exact["n_latent"],
        "bump_first": exact["first"],
        "bump_second": exact["second"],
        "bump_bits": exact["n_positive_bits"],
        "bump_circle": exact["off_circle"],
        "bump_finite": max(one["third_share"] for one in finite),
        "bump_finite_cosine": max(one["off_cosine"] for one in finite),
        "bump_fourier": bump["vectors"]["off_fourier"],
        "bump_plane": bump["vectors"]["plane"],
        "rescaled_rank": max(one["rank"] for one in bump["rescaled"].values()),
        "rescaled_change": bump["rescaled"][str(UNIT_DEVIATIONS[0])]["change"],
        "bump_regenerated": bump["are_bumps"],
        "bump_distinct": bump["distinct"],
    }


def _constraint(run: Run) -> list[dict[str, Any]]:
    run.say(f"bits that sum to zero: {len(run.plan.constraint_sizes)} sizes")
    found = [constraint(size, run.plan.n_constrained) for size in run.plan.constraint_sizes]
    run.measured |= _of_constraint(found)
    return found


def _of_constraint(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    return {
        "constraint_four": next(row["measured"] for row in rows if row["N"] == 4),
        "constraint_largest": max(row["measured"] for row in rows if row["N"] >= 4),
        "constraint_warned": float(np.mean([row["warned"] for row in rows if row["N"] >= 4])),
        "constraint_off": max(abs(row["measured"] - row["theory"]) for row in rows if row["N"] <= 16),
    }


# --- figure 4 ---


def _twos(twos: Twos | None, digits: str, run: Run) -> dict[str, Any] | None:
    """Make figure 4 and its numbers, and measure how well unseen twos are described."""
    if twos is None:
        return None
    run.say(f"{twos.title}: {run.plan.n_components} components")
    model = fit_twos(twos, run.plan.n_components, run.plan.noise)
    y = hidden(model, twos.X)
    wrong = wrong_bits(model, twos.X, y)
    pair = pick_pair(model, twos.X, wrong)
    run.draw("4", figures.figure_4(model, twos, pair))
    run.say(f"{twos.title}: {len(twos.X) - twos.n_train} rows held out")
    found = {
        **numbers(model, twos, pair, wrong),
        "modes": modes(twos, run.plan.n_components),
        "mode_errors": errors(twos, run.plan.n_components, run.plan.n_draws),
        "nearer": nearer(model, twos.X, y, wrong, run.plan.n_morphs),
        "held_out": [_scored(run.out, digits, size, "moments", twos) for size in run.plan.held_out],
        "likelihood": [_scored(run.out, digits, size, "likelihood", twos) for size in run.plan.likelihood],
    }
    if twos.is_usps:
        run.measured |= _of_twos(found)
    return found


def _scored(out: Path, digits: str, size: int, learner: str, twos: Twos | None = None) -> dict[str, Any]:
    """Score unseen twos under one model, as kept or computed now."""

    def compute() -> dict[str, Any]:
        found = load_twos(digits, []) if twos is None else twos
        assert found is not None
        return scored(found, size, learner)

    return kept(out / "runs", f"twos-{learner}-{size}", compute, digits)


def _of_twos(found: Mapping[str, Any]) -> dict[str, float | Measured]:
    spectra = ("negative", "steeper", "vectors", "rotations", "stretching")
    return {
        **{f"twos_{name}": Measured(found["modes"][name], found["mode_errors"][name]) for name in spectra},
        "twos_negative_share": found["negative_share"],
        "twos_negative_count": found["n_negative"],
        "twos_morph_nearer": averaged(found["nearer"]),
        **{f"held_out_{row['P']}": row["nats"] for row in found["held_out"]},
        **{
            f"likelihood_{row['P']}": Measured(row["gain"]["nats"], row["gain"]["error"]) for row in found["likelihood"]
        },
    }


# --- the law of entropy ---


def _laws(run: Run) -> list[dict[str, Any]]:
    found, plan = [], run.plan
    for n_components, bias, sizes in plan.laws:
        run.say(f"states of {n_components} hidden variables, {'with' if bias else 'without'} biases")
        rng = np.random.default_rng(n_components)
        found.append(entropy_law(sizes, n_components, bias, plan.n_states, rng, plan.most_cells))
    run.draw("5", figures.figure_5(found))
    run.measured |= _of_laws(found)
    return found


def _of_laws(laws: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    counted = [{**row, "P": law["P"], "bias": law["bias"]} for law in laws for row in law["rows"] if "counted" in row]
    by_kind = {(law["P"], law["bias"]): law for law in laws}
    found: dict[str, float] = {
        "states_off": max(abs(row["counted"] - row["formula"]) for row in counted),
    }
    for bias in (True, False):
        rows, kind = [row for row in counted if row["bias"] == bias], "biased" if bias else "plain"
        for what in ("neighbours", "walls"):
            found[f"states_{what}_{kind}"] = min(row[f"fewest_{what}"] - row["P"] for row in rows)
    for (size, bias), law in by_kind.items():
        found[f"entropy_{'biased' if bias else 'plain'}_{size}"] = law["slope_entropy"]
        found[f"states_{'biased' if bias else 'plain'}_{size}"] = law["slope_states"]
    largest = by_kind[2, False]["rows"][-1]
    return {**found, f"states_{largest['formula']}": largest["counted"]}


# --- simulated data ---


def _simulated(run: Run) -> list[dict[str, Any]]:
    found, plan = [], run.plan
    for explained in EXPLAINED_SHARES:
        run.say(f"{plan.n_seeds} simulated sets, {explained:.0%} of each variance shared")
        runs = [_recovered(run.out, plan.n_simulated, explained, seed) for seed in range(plan.n_seeds)]
        found.append({"explained": explained, "n_rows": plan.n_simulated, "runs": runs})
    run.measured |= _of_simulated(found)
    return found


def _recovered(out: Path, n_rows: int, explained: float, seed: int) -> dict[str, Any]:
    """Recover one simulated set, as kept or computed now."""
    compute = partial(recover, 50, 3, n_rows, explained, seed)
    return kept(out / "runs", f"simulated-{explained:g}-{seed}", compute, n_rows)


def _of_simulated(sets: Sequence[Mapping[str, Any]]) -> dict[str, float | Measured]:
    found: dict[str, float | Measured] = {}
    for one in sets:
        name = "noisy" if one["explained"] < 1 else "clipped"
        runs = one["runs"]
        found[f"simulated_error_{name}"] = max(run["largest_error"] for run in runs)
        found[f"simulated_error_full_{name}"] = max(run["largest_error_full"] for run in runs)
        found[f"simulated_degrees_{name}"] = max(run["degrees"] for run in runs)
        found[f"simulated_found_{name}"] = share_of([run["found"] == 3 for run in runs])
    return found
