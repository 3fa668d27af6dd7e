"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from latentbits.papers.forms import fill, named, table
from latentbits.papers.pages import findings, head, measured_on, pictures

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
    stopping, paces = results["stopping"], results["paces"]["ratios"]
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
        table(
            "time of sampling over that of variational | runs | to the end | until the error by the sample has settled",
            "{title} | {n} | {slower!b:.1f} | {settles_later!b:.1f}",
            [{**one, "n": len(one["slower"]), "title": results["sets"][key]["title"]} for key, one in paces.items()],
        ),
        "Over synthetic sets with prototypes of their own, and over starts on the digits: the median, the least and "
        f"the most. {measured_on(results['paces']['machine'])}",
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
        table(
            "set | bits | gap, nats | shift | area",
            "{title} | {n_columns} | {posterior[gap]:.3f} | {posterior[shift]:.3f} | {posterior[area]:.3f}",
            results["sets"].values(),
        ),
        "*Gap*: mean of log p(row) less its bound. *Shift*: median distance of the approximate posterior mean from the "
        "exact one, in posterior standard deviations. *Area*: median of the approximate over the exact posterior's "
        "area; below 1 the approximation is too sure.",
        *_words(results["words"]),
        "## Figures",
        *pictures(results["figures"], CAPTIONS, TITLES),
    ]
    return "\n\n".join(parts) + "\n"


def _table_1(sets: Mapping[str, Any], paper: Mapping[str, Any]) -> str:
    rows: list[dict[str, Any]] = []
    for key, one in sets.items():
        theirs, title = paper.get(key, {}), fill("{title} ({n_rows} x {n_columns})", one)
        for name, row in one["algorithms"].items():
            rows.append({**_cells(row, theirs.get(name), theirs.get("variational")), "set": title, "name": name})
            title = ""
        independent = {"name": "independent bits", "exact": f"{one['independent_error']:.2f}"}
        rows.append({**dict.fromkeys(rows[-1]), **independent})
    return table(
        "set | algorithm | seconds | time | settled after | as good after | iterations | error by the sample | "
        "error by quadrature | paper: seconds | paper: time | paper: error",
        "{set} | {name} | {cpu_seconds:.3f} | {relative_time:.1f} | {settled} | {as_good} | {iterations} | {sample} | "
        "{exact} | {their_seconds:g} | {their_time:.1f} | {their_error:.2f}",
        rows,
        left=2,
    )


def _cells(row: Mapping[str, Any], theirs: Mapping[str, Any] | None, base: Mapping[str, Any] | None) -> dict[str, Any]:
    ends = (row.get(f"cpu_seconds_to_{what}") for what in ("settle", "variational_error"))
    settled, as_good = (None if end is None else f"{end:.3f} s" for end in ends)
    digits = 2 if row["sample_error"] >= 20 else 3
    return {
        **row,
        "settled": settled,
        "as_good": as_good,
        "iterations": f"{row['iterations']}" + ("" if row["stopped"] == "converged" else f" ({row['stopped']})"),
        "sample": f"{row['sample_error']:.{digits}f}",
        "exact": f"{row['exact_error']:.{digits}f}",
        "their_seconds": theirs and theirs["seconds"],
        "their_time": theirs and base and theirs["seconds"] / base["seconds"],
        "their_error": theirs and theirs["error"],
    }


def _seeds(seeds: Mapping[str, Any]) -> str:
    rows: list[dict[str, Any]] = []
    for one in seeds.values():
        title = one["title"]
        for name, by in one["algorithms"].items():
            rows.append({**by, "title": title, "name": name, "separation": by.get("separation")})
            title = ""
        if one.get("separation_by_bits") is not None:
            bits = {"name": "the bits themselves", "separation": one["separation_by_bits"]}
            rows.append({**dict.fromkeys(rows[-1]), **bits})
    return table(
        " | algorithm | error by the sample | error by quadrature | separation | worst set",
        "{title} | {name} | {sample_error!d:.3f} | {exact_error!d:.3f} | {separation!d:.4f} | {separation!l:.4f}",
        rows,
        left=2,
    )


def _words(found: Mapping[str, Any]) -> list[str]:
    """Write pixels and maps, where they were looked at."""
    parts = []
    if "pixels" in found:
        pixels = ({"n": n, "each": each} for n, each in found["pixels"].items())
        parts += [
            "## Posteriors of maps of fewer pixels",
            table("pixels | divergence, nats", "{n} | {each!d:.4f}", pixels),
            "Median over rows of the divergence of the approximate posterior from the exact one, on maps that were "
            "learned from so many pixels of the twos; mean and standard deviation over draws of pixels.",
        ]
    if "maps" in found:
        maps = ({**one, "loop": None if one["name"] == "1" else one["loop"]} for one in named(found["maps"]))
        parts += [
            "## Several maps",
            table(
                "maps | log-likelihood of rows learned from | of unseen rows | loops told by the map",
                "{name} | {seen!d:.2f} | {unseen!d:.2f} | {loop!d:.3f}",
                maps,
            ),
            "Nats per row; a mixture of maps in two dimensions, by the bound, with a weak prior on the weights; mean "
            "and standard deviation over starts. *Loops told by the map*: the area under the curve (1/2 for nothing) "
            "of the responsibility of the map that tells them best.",
        ]
    return parts
