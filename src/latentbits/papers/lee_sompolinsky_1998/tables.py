"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.pages import markdown, page, pictures

__all__ = ["report"]

CAPTIONS = {
    "2": "Three bits of two hidden variables. Each dashed line has its bit positive on one side and negative on the "
    "other; cells that share an edge differ in one sign.",
    "3": "The bump. Top: rows, and the spectra of exact correlations. Below: the two eigenvectors and the spectra of a "
    "sample. Eigenvalues on the lowest line are zero but for rounding.",
    "4": "Spectra of the twos, eigenvectors with their eigenvalues (red: plus, blue: minus), and a morph.",
    "5": "The number of states and their entropy, against the number of bits.",
}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Write the whole page, in Markdown."""
    body = [
        "## The bump (figure 3)",
        _bump(results["bump"]),
        "*Positive in C^ss*, *not zero in C^xx*: eigenvalues larger than 1e-12 of the largest. *Third*: size of the "
        "third largest eigenvalue of C^xx over the first. *Off the circle*: largest part of a unit eigenvector outside "
        "of the plane of cosine and sine of the warped angle. No biases and no correction unless named.",
        _drawn(results["bump"]),
        _vectors(results["bump"]),
        "## Bits that sum to zero",
        _constraint(results["constraint"]),
        "The smallest eigenvalue of C^xx, by theory 1 - (N - 1) sin(pi / (2 (N - 1))), and from samples.",
        *_twos(results["twos"]),
        "## States and entropy",
        _laws(results["laws"]),
        "*Counted*: every cell found, from the corners of the arrangement. *Seen*: distinct states among draws of y ~ "
        "N(0, I); cells far out or small are missed. *Walls*: states one flip away, the fewest and the mean. "
        "*Neighbours*: states one or two flips away, the fewest. Entropy in nats.",
        _slopes(results["laws"]),
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


def _bump(bump: Mapping[str, Any]) -> str:
    rows = [
        [
            name,
            str(one["n_positive_bits"]),
            str(one["n_latent"]),
            f"{one['first']:.6g}, {one['second']:.6g}",
            f"{one['third_share']:.1e}",
            f"{one['off_circle']:.1e}",
            f"{one['negative_share']:.1%}",
        ]
        for name, one in bump["fits"].items()
    ]
    columns = [
        "shifts",
        "positive in C^ss",
        "not zero in C^xx",
        "first two",
        "third",
        "off the circle",
        "negative part",
    ]
    return markdown(columns, rows)


def _drawn(bump: Mapping[str, Any]) -> str:
    return (
        f"Of {bump['n_drawn']} rows drawn from the model with two components, {bump['are_bumps']:.2%} are bumps, "
        f"{bump['distinct']} different ones. Lines in general position would make {bump['generic']} states; here the "
        f"lines of bits half a ring apart coincide, which leaves {bump['N']}."
    )


def _vectors(bump: Mapping[str, Any]) -> str:
    ranks = [f"{one['rank']} where they are spread by {spread}" for spread, one in bump["rescaled"].items()]
    change = next(iter(bump["rescaled"].values()))["change"]
    return (
        f"Eigenvectors: in the basis of the Fourier modes the largest entry of C^ss outside of the diagonal is "
        f"{bump['vectors']['off_fourier']:.1e} of its largest eigenvalue, and the planes of the first two eigenvectors "
        f"of C^ss and C^xx are apart by a sine of {bump['vectors']['plane']:.1e}. Rank of C^xx of variables in other "
        f"units: {', '.join(ranks)} (standard deviation of their logarithms); in the first case an eigenvalue changes "
        f"by {change:.1%} at most."
    )


def _constraint(rows: Sequence[Mapping[str, Any]]) -> str:
    cells = [
        [
            str(row["N"]),
            f"{row['theory']:.5f}",
            f"{row['measured']:.5f}",
            f"{row['negative_share']:.1%}",
            "yes" if row["warned"] else "no",
        ]
        for row in rows
    ]
    return markdown(["N", "theory", "from data", "negative part", "warned"], cells, left=0)


def _twos(found: Mapping[str, Any] | None) -> list[str]:
    if found is None:
        return []
    morph, k = found["morph"], found["P"]
    held_out = [[row["model"], f"{row['nats']:.2f} ± {row['error']:.2f}"] for row in found["held_out"]]
    return [
        f"## {found['title']} (figure 4)",
        f"Of {found['n_columns']} eigenvalues of C^xx, {found['n_negative']} are negative, the smallest "
        f"{found['smallest']:.3f}; by size they are {found['negative_share']:.1%} of all ({found['n_constant']} "
        f"constant pixels are set aside); the smallest has {found['modes']['negative']:.0%} of the size of "
        f"the last that is kept. The smallest eigenvalue of C^ss is {found['smallest_bits']:.1e}. The first "
        f"{k} are {found['modes']['kept_latent']:.1%} of the positive part of C^xx and "
        f"{found['modes']['kept_bits']:.1%} of C^ss.",
        "How much is negative depends on pixels that are rarely on, whose correlations the data hardly tell:",
        markdown(["pixels on in more than", "pixels", "negative part", "smallest eigenvalue"], _rare(found), left=0),
        f"As many rows drawn from a clipped Gaussian that was fitted to the twos ({k} components and noise), which has "
        f"no misfit, have a negative part of {found['negative_by_chance']:.1%}: that much is chance.",
        f"With {k} components and no noise {found['rows_without_error']:.1%} of the twos can be produced exactly; the "
        f"best y found for a row gets {found['wrong_bits']:.1f} bits wrong on average. The morph is between rows "
        f"{morph['rows'][0]} and {morph['rows'][1]}, which differ in {morph['apart']} bits; from step to step "
        f"{', '.join(map(str, morph['flips']))} bits flip. At most {morph['grey_pixels']:.0%} of the pixels of the "
        f"linear cross-fade are between 0.1 and 0.9. In {len(found['nearer'])} pairs the middle of the morph is nearer "
        f"to another two than the middle of the cross-fade by {np.mean(found['nearer']):.1f} pixels on average, and in "
        f"{np.mean(np.array(found['nearer']) > 0):.0%} of them.",
        f"The first {k} eigenvectors of C^ss and C^xx span subspaces that have {found['modes']['vectors']:.0%} in "
        f"common (mean squared cosine of the angles between them; {found['by_chance']:.0%} by chance).",
        f"A turn of the mean image of x lies in the subspace of C^xx with {found['modes']['rotations']:.0%} of its "
        f"square, a stretch from side to side or from top to bottom with {found['modes']['stretching']:.0%} at least.",
        "Nats per unseen row (the set's own test rows), by expectation propagation:",
        markdown(["model", "nats"], held_out),
        *_likelihood(found["likelihood"]),
    ]


def _likelihood(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Write what maximum likelihood gains on unseen rows over the moments that it begins with."""
    cells = [
        [
            str(row["P"]),
            f"{row['gain']['nats']:.2f} ± {row['gain']['error']:.2f}",
            f"{row['gain']['nats'] / np.log(2):.2f}",
            str(row["n_iter"]),
            f"{row['seconds']:.0f}",
            "yes" if row["converged"] else "no",
            str(row["at_bound"]),
        ]
        for row in rows
    ]
    columns = ["P", "nats gained", "bits gained", "iterations", "seconds", "converged", "columns at their bound"]
    return [
        'Maximum likelihood (`learner="likelihood"`), per unseen row, over the moments:',
        markdown(columns, cells, left=0),
    ]


def _rare(found: Mapping[str, Any]) -> list[list[str]]:
    return [
        [f"{one['least']:.0%}", str(one["n_columns"]), f"{one['negative_share']:.1%}", f"{one['smallest']:.2f}"]
        for one in found["without_rare"]
    ]


def _laws(laws: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for law in laws:
        head = [str(law["P"]), "yes" if law["bias"] else "no"]
        for row in law["rows"]:
            near = f"{row['fewest_walls']}, {row['mean_walls']:.2f}" if "counted" in row else ""
            counted, fewest = str(row.get("counted", "")), str(row.get("fewest_neighbours", ""))
            grows = law["P"] * np.log(row["N"])
            entropy = [f"{row['entropy']:.3f}", f"{grows:.3f}"]
            rows.append(
                [*head, str(row["N"]), str(row["formula"]), counted, str(row["sampled"]), near, fewest, *entropy]
            )
    columns = ["P", "biases", "N", "formula", "counted", "seen", "walls", "neighbours", "entropy", "P log N"]
    return markdown(columns, rows, left=0)


def _slopes(laws: Sequence[Mapping[str, Any]]) -> str:
    rows = [
        [
            str(law["P"]),
            "yes" if law["bias"] else "no",
            f"{law['slope_states']:.3f}",
            f"{law['slope_entropy']:.3f}",
        ]
        for law in laws
    ]
    return markdown(["P", "biases", "slope of log states", "slope of entropy"], rows, left=0)


def _simulated(sets: Sequence[Mapping[str, Any]]) -> str:
    rows = []
    for one in sets:
        runs = one["runs"]
        words = "clipping alone" if one["explained"] == 1 else f"noise, {one['explained']:.0%} of a variance shared"
        found = sum(run["found"] == 3 for run in runs)
        rows.append(
            [
                words,
                str(one["n_rows"]),
                str(len(runs)),
                f"{np.mean([run['n_empty'] for run in runs]):.1f}",
                f"{max(run['largest_error'] for run in runs):.2f}",
                f"{max(run['largest_error_full'] for run in runs):.2f}",
                f"{np.sqrt(np.mean([run['rms_error_full'] ** 2 for run in runs])):.3f}",
                f"{max(run['degrees'] for run in runs):.2f}°",
                f"{found} of {len(runs)}",
            ]
        )
    return markdown(
        ["data", "rows", "sets", "empty", "largest error", "no empty cell", "rms", "angle", "P found"], rows
    )
