"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.data.toys import LINE_PATTERNS
from latentbits.papers.lewicki_sejnowski_1996.figures import WAYS
from latentbits.papers.pages import markdown, page, pictures

__all__ = ["NAMES", "report"]

NAMES = {
    "ours": "our learner",
    "paper": "the paper's: layer by layer",
    "stability": "the paper's: by stability",
    "together": "the paper's: all at once",
    "early": "the paper's, one epoch a layer",
}
CAPTIONS = {
    "1": "The lines problem. A: lines and patterns of lines, with how often each is there. B: images, by the caption "
    "of the paper's figure as near as we can tell, by another reading of it, and of a problem of our own.",
    "2": "Weights of the best lines network of the paper's schedule, layer by layer; the area of a square is the "
    "weight. Above a column, what the second-layer unit makes of the inputs; right of a line, what the third-layer "
    "unit does: P(pixel is on | that unit alone).",
    "2 ours": "The same of the best network of our learner, which has biases.",
    "3": "The shifter problem. A: images: a row twice, and the row moved by one place twice. B and C: weights of the "
    "best network of our learner; an arrow has the direction of a local shift, and the places of its bits.",
    "4": "Cost along learning on the shifter, in bits per pattern, one line a run: of patterns together with sampled "
    "states of the hidden units, which is above that of patterns alone. Dots, right: the latter, of the final network.",
    "rows": "What the causes of two patterns explain: of every pixel that is on, the share that comes from each unit.",
    "digits": "Digits: what each unit makes of the inputs, digits drawn from the network, and true ones.",
    "digit rows": "What the causes of two unseen digits explain.",
}
TITLES = {"2 ours": "Figure 2, our learner", "rows": "Rows", "digits": "Digits", "digit rows": "Digit rows"}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Write the whole page, in Markdown."""
    body = [
        f"**What we do not have.** {expected['missing']}",
        "## Lines",
        *(part for name, found in results["lines"].items() for part in (f"{WAYS[name].capitalize()}:", _lines(found))),
        "Networks 25-10-5. *All ten*: every line has a second-layer unit with f = 1 - exp(-w) above 1/2 on its five "
        "pixels and no others. *Patterns*: of the four types, those whose lines are exactly the strongest children of "
        "a third-layer unit. *Like a bias*: how often the third-layer unit is on that is most like one, that is no "
        "pattern, often on, and with many children; a *bias* has half of the second layer, and is on in nine of ten "
        "images. *Bits*: per image, exact over all images that can come up.",
        "## The shifter",
        _shifts(results["shifts"]),
        f"Networks 32-20-2, each learned from {results['shifts']['n_rows']} rows of its own. *Bits*: per pattern, over "
        "all 508 patterns, each as often as it comes up, so that no rows are drawn; *error*: the standard error of log "
        f"p, 0 where it is summed. The best possible is {results['shifts']['optimum']:.3f}; with two top units that do "
        "not exclude each other, about 10. *Shifts*: of the 16 local ones, those with a unit. *Overlap*: cosine of "
        "what the two top units do to the second layer. *Belong*: share of the shifts that one top unit makes at least "
        "three times as frequent as the other does. *Direction*: share of rows whose direction the top units tell.",
        *(_run_by_run(results["shifts"]["runs"])),
        "## Digits",
        _digits(results["digits"]),
        f"{results['digits']['n_train']} of scikit-learn's 8 x 8 digits to learn from, {results['digits']['n_test']} "
        "others to score. *Error*: standard error of the estimate of log p.",
    ]
    title, quick = "Lewicki & Sejnowski (1996): the paper's numbers beside ours", "few runs, and small ones"
    return page(title, quick, results, expected, body, pictures(results["figures"], CAPTIONS, TITLES, alt="{}"))


def _lines(found: Mapping[str, Any]) -> str:
    rows = []
    for recipe, runs in found["runs"].items():
        rows.append(
            [
                NAMES[recipe],
                f"{sum(one['n_lines'] == 10 for one in runs)} of {len(runs)}",
                _range([one["n_lines"] for one in runs], "g"),
                f"{np.mean([one['n_patterns'] for one in runs]):.1f} of {len(LINE_PATTERNS)}",
                _range([one["broad_on"] for one in runs], ".2f"),
                f"{sum(one['has_bias'] for one in runs)} of {len(runs)}",
                _range([one["bits"] for one in runs], ".2f"),
                f"{np.median([one['seconds'] for one in runs]):.1f}",
            ]
        )
    best = f"bits (best possible {found['optimum']:.3f})"
    columns = ["", "all ten", "lines found", "patterns", "like a bias", "a bias", best, "seconds a run"]
    return markdown(columns, rows)


def _shifts(found: Mapping[str, Any]) -> str:
    rows = []
    for recipe, runs in found["runs"].items():
        bits = [one["bits"] for one in runs]
        rows.append(
            [
                NAMES[recipe],
                f"{sum(b <= 10.5 for b in bits)} of {len(bits)}",
                _range(bits, ".2f"),
                _range([one["n_covered"] for one in runs], "g"),
                _range([one["n_dead"] for one in runs], "g"),
                f"{np.median([one['overlap'] for one in runs]):.2f}",
                f"{np.median([one['direction'] for one in runs]):.1%}",
                f"{np.median([one['seconds'] for one in runs]):.1f}",
            ]
        )
    columns = ["", "at most 10.5 bits", "bits", "shifts", "dead units", "overlap", "direction", "seconds a run"]
    return markdown(columns, rows)


def _run_by_run(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[str]:
    """List all runs of our learner, the best first."""
    lines = [
        [
            str(seed + 1),
            f"{one['bits']:.3f}",
            f"{one['error']:.3f}",
            str(one["n_covered"]),
            str(one["n_dead"]),
            f"{one['overlap']:.2f}",
            f"{one['belong']:.0%}",
            f"{one['direction']:.1%}",
        ]
        for seed, one in sorted(enumerate(runs["ours"]), key=lambda pair: pair[1]["bits"])
    ]
    columns = ["run", "bits", "error", "shifts", "dead units", "overlap", "belong", "direction"]
    return [f"Run by run, {NAMES['ours']}:", markdown(columns, lines)]


def _digits(found: Mapping[str, Any]) -> str:
    rows = [
        [
            f"network {name}",
            f"{one['bits']:.2f}",
            f"{one['error']:.2f}",
            f"{one['active']:.1f}",
            f"{one['seconds']:.0f}",
        ]
        for name, one in found["networks"].items()
    ]
    rows += [[name, f"{np.mean(bits):.2f}", "0", "", ""] for name, bits in found["others"].items()]
    return markdown(["", "bits per unseen digit", "error", "units on in a digit", "seconds"], rows)


def _range(values: Sequence[float], form: str) -> str:
    """Write the median, with least and largest in brackets.

    >>> _range([3, 1, 2, 7], "g"), _range([2.0], ".1f")
    ('2.5 (1 to 7)', '2.0')
    """
    middle = np.median(values)
    if min(values) == max(values):
        return f"{middle:{form}}"
    return f"{middle:{form}} ({min(values):{form}} to {max(values):{form}})"
