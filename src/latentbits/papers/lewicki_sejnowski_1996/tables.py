"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.data.toys import LINE_PATTERNS
from latentbits.papers.forms import table
from latentbits.papers.lewicki_sejnowski_1996.figures import WAYS
from latentbits.papers.pages import page, pictures

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
    ours = results["shifts"]["runs"]["ours"]
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
        f"Run by run, {NAMES['ours']}:",
        table(
            "run | bits | error | shifts | dead units | overlap | belong | direction",
            "{run} | {bits:.3f} | {error:.3f} | {n_covered} | {n_dead} | {overlap:.2f} | {belong:.0%} | "
            "{direction:.1%}",
            sorted(({**one, "run": k} for k, one in enumerate(ours, 1)), key=lambda one: one["bits"]),
        ),
        "## Digits",
        table(
            " | bits per unseen digit | error | units on in a digit | seconds",
            "{name} | {bits!a:.2f} | {error} | {active:.1f} | {seconds:.0f}",
            _digits(results["digits"]),
        ),
        f"{results['digits']['n_train']} of scikit-learn's 8 x 8 digits to learn from, {results['digits']['n_test']} "
        "others to score. *Error*: standard error of the estimate of log p.",
    ]
    title, quick = "Lewicki & Sejnowski (1996): the paper's numbers beside ours", "few runs, and small ones"
    return page(title, quick, results, expected, body, pictures(results["figures"], CAPTIONS, TITLES, alt="{}"))


def _over(runs: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
    """List the numbers of all runs, by recipe."""
    return [
        {
            "name": NAMES[recipe],
            **{key: np.array([one[key] for one in many]) for key, value in many[0].items() if np.isscalar(value)},
        }
        for recipe, many in runs.items()
    ]


def _lines(found: Mapping[str, Any]) -> str:
    rows = [{**one, "all": one["n_lines"] == 10, "of": len(LINE_PATTERNS)} for one in _over(found["runs"])]
    return table(
        f" | all ten | lines found | patterns | like a bias | a bias | bits (best possible {found['optimum']:.3f}) | "
        "seconds a run",
        "{name} | {all!n} | {n_lines!b:g} | {n_patterns!a:.1f} of {of} | {broad_on!b:.2f} | {has_bias!n} | "
        "{bits!b:.2f} | {seconds!m:.1f}",
        rows,
    )


def _shifts(found: Mapping[str, Any]) -> str:
    return table(
        " | at most 10.5 bits | bits | shifts | dead units | overlap | direction | seconds a run",
        "{name} | {good!n} | {bits!b:.2f} | {n_covered!b:g} | {n_dead!b:g} | {overlap!m:.2f} | {direction!m:.1%} | "
        "{seconds!m:.1f}",
        [{**one, "good": one["bits"] <= 10.5} for one in _over(found["runs"])],
    )


def _digits(found: Mapping[str, Any]) -> list[dict[str, Any]]:
    networks = [
        {**one, "name": f"network {name}", "error": f"{one['error']:.2f}"} for name, one in found["networks"].items()
    ]
    exact = {"error": "0", "active": None, "seconds": None}
    return [*networks, *({**exact, "name": name, "bits": bits} for name, bits in found["others"].items())]
