"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.forms import fill, named, table
from latentbits.papers.pages import page, pictures

__all__ = ["report"]

CAPTIONS = {
    "2": "Three bits of two hidden variables. Each dashed line has its bit positive on one side and negative on the "
    "other; cells that share an edge differ in one sign.",
    "3": "The bump. Top: rows, and the spectra of exact correlations. Below: the two eigenvectors and the spectra of a "
    "sample. Eigenvalues on the lowest line are zero but for rounding.",
    "4": "Spectra of the twos, eigenvectors with their eigenvalues (red: plus, blue: minus), and a morph.",
    "5": "The number of states and their entropy, against the number of bits.",
}
DRAWN = (
    "Of {n_drawn} rows drawn from the model with two components, {are_bumps:.2%} are bumps, {distinct} different ones. "
    "Lines in general position would make {generic} states; here the lines of bits half a ring apart coincide, which "
    "leaves {N}."
)
VECTORS = (
    "Eigenvectors: in the basis of the Fourier modes the largest entry of C^ss outside of the diagonal is "
    "{vectors[off_fourier]:.1e} of its largest eigenvalue, and the planes of the first two eigenvectors of C^ss and "
    "C^xx are apart by a sine of {vectors[plane]:.1e}. Rank of C^xx of variables in other units: {ranks!j} (standard "
    "deviation of their logarithms); in the first case an eigenvalue changes by {change:.1%} at most."
)
TWOS = (
    "Of {n_columns} eigenvalues of C^xx, {n_negative} are negative, the smallest {smallest:.3f}; by size they are "
    "{negative_share:.1%} of all ({n_constant} constant pixels are set aside); the smallest has {modes[negative]:.0%} "
    "of the size of the last that is kept. The smallest eigenvalue of C^ss is {smallest_bits:.1e}. The first {P} are "
    "{modes[kept_latent]:.1%} of the positive part of C^xx and {modes[kept_bits]:.1%} of C^ss."
)
CHANCE = (
    "As many rows drawn from a clipped Gaussian that was fitted to the twos ({P} components and noise), which has no "
    "misfit, have a negative part of {negative_by_chance:.1%}: that much is chance."
)
MORPH = (
    "With {P} components and no noise {rows_without_error:.1%} of the twos can be produced exactly; the best y found "
    "for a row gets {wrong_bits:.1f} bits wrong on average. The morph is between rows {morph[rows][0]} and "
    "{morph[rows][1]}, which differ in {morph[apart]} bits; from step to step {morph[flips]!j} bits flip. At most "
    "{morph[grey_pixels]:.0%} of the pixels of the linear cross-fade are between 0.1 and 0.9. In {n_pairs} pairs the "
    "middle of the morph is nearer to another two than the middle of the cross-fade by {nearer!a:.1f} pixels on "
    "average, and in {are_nearer!a:.0%} of them."
)
MODES = (
    "The first {P} eigenvectors of C^ss and C^xx span subspaces that have {modes[vectors]:.0%} in common (mean squared "
    "cosine of the angles between them; {by_chance:.0%} by chance).",
    "A turn of the mean image of x lies in the subspace of C^xx with {modes[rotations]:.0%} of its square, a stretch "
    "from side to side or from top to bottom with {modes[stretching]:.0%} at least.",
)


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Write the whole page, in Markdown."""
    body = [
        "## The bump (figure 3)",
        table(
            "shifts | positive in C^ss | not zero in C^xx | first two | third | off the circle | negative part",
            "{name} | {n_positive_bits} | {n_latent} | {first:.6g}, {second:.6g} | {third_share:.1e} | "
            "{off_circle:.1e} | {negative_share:.1%}",
            named(results["bump"]["fits"]),
        ),
        "*Positive in C^ss*, *not zero in C^xx*: eigenvalues larger than 1e-12 of the largest. *Third*: size of the "
        "third largest eigenvalue of C^xx over the first. *Off the circle*: largest part of a unit eigenvector outside "
        "of the plane of cosine and sine of the warped angle. No biases and no correction unless named.",
        fill(DRAWN, results["bump"]),
        fill(VECTORS, results["bump"], **_units(results["bump"]["rescaled"])),
        "## Bits that sum to zero",
        table(
            "N | theory | from data | negative part | warned",
            "{N} | {theory:.5f} | {measured:.5f} | {negative_share:.1%} | {warned!w}",
            results["constraint"],
            left=0,
        ),
        "The smallest eigenvalue of C^xx, by theory 1 - (N - 1) sin(pi / (2 (N - 1))), and from samples.",
        *_twos(results["twos"]),
        "## States and entropy",
        _laws(results["laws"]),
        "*Counted*: every cell found, from the corners of the arrangement. *Seen*: distinct states among draws of y ~ "
        "N(0, I); cells far out or small are missed. *Walls*: states one flip away, the fewest and the mean. "
        "*Neighbours*: states one or two flips away, the fewest. Entropy in nats.",
        table(
            "P | biases | slope of log states | slope of entropy",
            "{P} | {bias!w} | {slope_states:.3f} | {slope_entropy:.3f}",
            results["laws"],
            left=0,
        ),
        "The paper's S = P log N has a slope of P. Without biases the number of states is 2 sum_{k<P} C(N-1, k), which "
        "grows as N^(P-1), and so does the entropy's slope.",
        "## Simulated data: 50 bits, 3 hidden variables",
        _simulated(results["simulated"]),
        "*Empty*: pairs of columns in whose 2 x 2 table a cell is empty, on average. *Largest error*: of the 1225 "
        "mapped correlations, in their own standard errors, over all sets; then of those without an empty cell, and "
        "the root of the mean square of these. *Angle*: the largest principal angle between the true and the found "
        "subspace. *P found*: sets in which parallel analysis finds 3.",
    ]
    title, quick = "Lee & Sompolinsky (1998): the paper's claims beside our numbers", "few samples, sizes and seeds"
    shown = pictures(results["figures"], CAPTIONS, {"5": "The law of entropy"})
    return page(title, quick, results, expected, body, shown)


def _units(rescaled: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    ranks = [f"{one['rank']} where they are spread by {spread}" for spread, one in rescaled.items()]
    return {"ranks": ranks, "change": next(iter(rescaled.values()))["change"]}


def _twos(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    nearer = np.array(found["nearer"])
    return [
        f"## {found['title']} (figure 4)",
        fill(TWOS, found),
        "How much is negative depends on pixels that are rarely on, whose correlations the data hardly tell:",
        table(
            "pixels on in more than | pixels | negative part | smallest eigenvalue",
            "{least:.0%} | {n_columns} | {negative_share:.1%} | {smallest:.2f}",
            found["without_rare"],
            left=0,
        ),
        fill(CHANCE, found),
        fill(MORPH, found, n_pairs=len(nearer), are_nearer=nearer > 0),
        *(fill(form, found) for form in MODES),
        "Nats per unseen row (the set's own test rows), by expectation propagation:",
        table("model | nats", "{model} | {nats:.2f} ± {error:.2f}", found["held_out"]),
        'Maximum likelihood (`learner="likelihood"`), per unseen row, over the moments:',
        table(
            "P | nats gained | bits gained | iterations | seconds | converged | columns at their bound",
            "{P} | {gain[nats]:.2f} ± {gain[error]:.2f} | {bits:.2f} | {n_iter} | {seconds:.0f} | {converged!w} | "
            "{at_bound}",
            [{**row, "bits": row["gain"]["nats"] / np.log(2)} for row in found["likelihood"]],
            left=0,
        ),
    ]


def _laws(laws: Sequence[Mapping[str, Any]]) -> str:
    blank = {"counted": None, "fewest_neighbours": None}
    rows = [
        {**blank, **law, **row, "near": _walls(row), "grows": law["P"] * np.log(row["N"])}
        for law in laws
        for row in law["rows"]
    ]
    return table(
        "P | biases | N | formula | counted | seen | walls | neighbours | entropy | P log N",
        "{P} | {bias!w} | {N} | {formula} | {counted} | {sampled} | {near} | {fewest_neighbours} | {entropy:.3f} | "
        "{grows:.3f}",
        rows,
        left=0,
    )


def _walls(row: Mapping[str, Any]) -> str | None:
    return fill("{fewest_walls}, {mean_walls:.2f}", row) if "counted" in row else None


def _simulated(sets: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for one in sets:
        runs = {name: np.array([run[name] for run in one["runs"]]) for name in one["runs"][0]}
        words = "clipping alone" if one["explained"] == 1 else "noise, {explained:.0%} of a variance shared"
        most = {name: runs[name].max() for name in ("largest_error", "largest_error_full", "degrees")}
        rms, found = np.sqrt(np.mean(runs["rms_error_full"] ** 2)), runs["found"] == 3
        rows.append({**runs, **one, **most, "words": fill(words, one), "n": len(found), "rms": rms, "found": found})
    return table(
        "data | rows | sets | empty | largest error | no empty cell | rms | angle | P found",
        "{words} | {n_rows} | {n} | {n_empty!a:.1f} | {largest_error:.2f} | {largest_error_full:.2f} | {rms:.3f} | "
        "{degrees:.2f}° | {found!n}",
        rows,
    )
