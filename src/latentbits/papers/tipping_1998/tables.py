"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latentbits.papers.pages import findings, head, markdown, measured_on, pictures, spread

__all__ = ["report"]

DIGITS = (
    "The paper's error of 30 nats for digits is not to be had on the twos of USPS: independent pixels have 121 nats, "
    "and no fit of this model is below 105. The paper does not say where its digits come from or how they were made "
    "binary."
)
CAPTIONS = {
    "1": "Maps of the synthetic sets. The area of a glyph is the number of rows at a place; numbers mark the places of "
    "the prototypes themselves. The lines are P(bit = 1) = 1/2.",
    "2": "Map of the twos, and what some of its places stand for.",
    "3": "Error by the sample against time; the paper's two algorithms step by step, and `auto`.",
    "4": "The posterior of a typical row, exact and by equations 6 and 7.",
    "maps": "A mixture of two maps, by the bound: each row on both, as dark and large as the probability that it is on "
    "it; below, what numbered places stand for.",
}
TITLES = {"maps": "Several maps"}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Write the whole page, in Markdown."""
    stopping = results["stopping"]
    title, quick = "Tipping (1998): the paper's numbers beside ours", "few seeds and digits, times from a single fit"
    parts = [
        *head(title, quick, results, expected),
        "## Table 1",
        _table_1(results["sets"], expected["table_1"]),
        f"Errors are negative log-likelihoods per row in nats. *By the sample* is the paper's measure, equation 3 by "
        f"{stopping['n_samples']} draws; the sampling algorithm has learned with these very draws, which flatters it. "
        f"*By quadrature* is equation 1 by a fine grid. All algorithms start from the same parameters and stop when an "
        f"iteration gains less than {stopping['tol']:g} nats per row. `variational` and `sampling` are plain EM as in "
        f"the paper; `auto` is what LatentTrait does unless told otherwise (variational, then quadrature). Seconds are "
        f"those of the process, compilation left out, the median of {stopping['repeats']}; *time* is their ratio to "
        f"`variational`; *settled after* is when the error by the sample came within 0.01 nats of its end for good, "
        f"*as good after* when it was first below the end of `variational`. *Two rounds* takes (8) and (6, 7) twice in "
        f"an E-step.",
        *([DIGITS] if "best_digits" in results["relations"] else []),
        measured_on(results["machine"]),
        "## Do the paper's findings hold?",
        findings(results["relations"]),
        "## Many sets, many starts",
        _seeds(results["seeds"]),
        "Mean and standard deviation over synthetic sets with prototypes of their own, and over starts on the digits. "
        "*Separation* is the share of rows whose place on the map is nearest to the place of their own prototype; *the "
        "bits themselves* is the share with fewer bits to differ from their own prototype than from the others.",
        "## The approximate posterior",
        _posteriors(results["sets"]),
        "*Gap*: mean of log p(row) less its bound. *Shift*: median distance of the approximate posterior mean from the "
        "exact one, in posterior standard deviations. *Area*: median of the approximate over the exact posterior's "
        "area; below 1 the approximation is too sure.",
        *_words(results["words"]),
        "## Figures",
        *pictures(results["figures"], CAPTIONS, TITLES),
    ]
    return "\n\n".join(parts) + "\n"


def _table_1(sets: Mapping[str, Any], paper: Mapping[str, Any]) -> str:
    columns = ["set", "algorithm", "seconds", "time", "settled after", "as good after", "iterations",
               "error by the sample", "error by quadrature", "paper: seconds", "paper: time",
               "paper: error"]  # fmt: skip
    rows = []
    for key, one in sets.items():
        size = f"{one['title']} ({one['n_rows']} x {one['n_columns']})"
        theirs = paper.get(key, {})
        for place, (name, row) in enumerate(one["algorithms"].items()):
            rows.append([size if place == 0 else "", name, *_ours(row), *_theirs(theirs, name)])
        rows.append(["", "independent bits", "", "", "", "", "", "", f"{one['independent_error']:.2f}", "", "", ""])
    return markdown(columns, rows, left=2)


def _ours(row: Mapping[str, Any]) -> list[str]:
    times = [row.get(f"cpu_seconds_to_{what}") for what in ("settle", "variational_error")]
    digits = 2 if row["sample_error"] >= 20 else 3
    return [
        f"{row['cpu_seconds']:.3f}",
        f"{row['relative_time']:.1f}",
        *("" if one is None else f"{one:.3f} s" for one in times),
        f"{row['iterations']}" + ("" if row["stopped"] == "converged" else f" ({row['stopped']})"),
        f"{row['sample_error']:.{digits}f}",
        f"{row['exact_error']:.{digits}f}",
    ]


def _theirs(table: Mapping[str, Any], name: str) -> list[str]:
    if name not in table:
        return ["", "", ""]
    seconds, error = table[name]["seconds"], table[name]["error"]
    return [f"{seconds:g}", f"{seconds / table['variational']['seconds']:.1f}", f"{error:.2f}"]


def _seeds(seeds: Mapping[str, Any]) -> str:
    rows = []
    for one in seeds.values():
        head = one["title"]
        for name, by in one["algorithms"].items():
            errors = [spread(by["sample_error"], 3), spread(by["exact_error"], 3)]
            rows.append([head, name, *errors, *_shares(by.get("separation"))])
            head = ""
        by_bits = one.get("separation_by_bits")
        if by_bits is not None:
            rows.append(["", "the bits themselves", "", "", *_shares(by_bits)])
    columns = ["", "algorithm", "error by the sample", "error by quadrature", "separation", "worst set"]
    return markdown(columns, rows, left=2)


def _shares(values: Sequence[float] | None) -> list[str]:
    return ["", ""] if values is None else [spread(values, 4), f"{min(values):.4f}"]


def _words(found: Mapping[str, Any]) -> list[str]:
    """Write pixels and maps, where they were looked at."""
    parts = []
    if "pixels" in found:
        rows = [[n, spread(each, 4)] for n, each in found["pixels"].items()]
        parts += [
            "## Posteriors of maps of fewer pixels",
            markdown(["pixels", "divergence, nats"], rows),
            "Median over rows of the divergence of the approximate posterior from the exact one, on maps that were "
            "learned from so many pixels of the twos; mean and standard deviation over draws of pixels.",
        ]
    if "maps" in found:
        rows = [
            [n, spread(one["seen"], 2), spread(one["unseen"], 2), spread(one["loop"], 3) if n != "1" else ""]
            for n, one in found["maps"].items()
        ]
        parts += [
            "## Several maps",
            markdown(["maps", "log-likelihood of rows learned from", "of unseen rows", "loops told by the map"], rows),
            "Nats per row; a mixture of maps in two dimensions, by the bound, with a weak prior on the weights; mean "
            "and standard deviation over starts. *Loops told by the map*: the area under the curve (1/2 for nothing) "
            "of the responsibility of the map that tells them best.",
        ]
    return parts


def _posteriors(sets: Mapping[str, Any]) -> str:
    rows = []
    for one in sets.values():
        found = one["posterior"]
        cells = [f"{found['gap']:.3f}", f"{found['shift']:.3f}", f"{found['area']:.3f}"]
        rows.append([one["title"], str(one["n_columns"]), *cells])
    return markdown(["set", "bits", "gap, nats", "shift", "area"], rows)
