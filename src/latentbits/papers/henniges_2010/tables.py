"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.henniges_2010.accuracy import CLOSE_ERROR, N_COLUMNS, N_ROWS
from latentbits.papers.henniges_2010.bars import ALTERED, SIMILAR_COSINE
from latentbits.papers.henniges_2010.images import GLOBULAR
from latentbits.papers.pages import Measured, markdown, measured_on, page, pictures, share_of

__all__ = ["report"]

NAMES = {
    "paper": "the paper's recipe",
    "about": "the same, with W^new in (7)",
    "ours": "our defaults, with its gamma and H'",
    "default": "our defaults",
}
CHANGES = {
    "ranking": "rows ranked by the pass before",
    "renewal": "unused causes get new starts",
    "noise": "sigma from the root mean square",
    "about": "W^new in (7)",
}
CAPTIONS = {
    "1": "Linear bars. A: rows. B: components after the iterations on the left, each on its own scale; red is plus, "
    "blue is minus. C: the number of active causes and the noise, from two starts; the truth is dashed.",
    "2": "Patches of natural images. A: components drawn at random. B: the most globular ones. C: the number of active "
    "causes and the noise; from the first grey line to the second the patches learned from become fewer.",
}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """Write the whole page, in Markdown."""
    body = [
        "## How often all bars are found",
        _bars(results["bars"]["lines"], expected["bars"]),
        f"10 bars of 5 x 5 pixels, 2 active on average, noise 2. *All found*: every bar has a component of its own, "
        f"cosine above {SIMILAR_COSINE:g}. *z*: that share less the paper's, over the binomial errors of both. pi H "
        "and sigma: mean and standard deviation of the trials in which all were found; in brackets the paper's. *Of "
        "the rows drawn*: standard deviation of pi H about the number of bars that are really active in a row of the "
        "set. All recipes begin with the same pi H and learn from the same sets.",
        _course(results["course"]),
        *_changes(results["bars"]["changes"], results["bars"]["lines"]),
        "## Truncated expectations",
        *_accuracy(results["accuracy"]),
        *_costs(results["costs"]),
        *_images(results["images"], expected["images"]),
    ]
    captions = {name: CAPTIONS[name.split()[0]] for name in results["figures"]}  # 2, and 2 with fewer causes
    title, quick = "Henniges et al. (2010): the paper's numbers beside ours", "few trials, few small patches"
    return page(title, quick, results, expected, body, pictures(results["figures"], captions))


def _course(found: Mapping[str, Any]) -> str:
    """Say what is to be known of figure 1."""
    runs = [
        f"{name} {'all bars were found' if one['recovered'] else 'a bar was missed'}"
        for name, one in found["runs"].items()
    ]
    return f"In figure 1 the rows drawn have {found['drawn']:.2f} active bars on average; {', '.join(runs)}."


def _bars(table: Mapping[str, Mapping[str, Any]], paper: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for key, one in table.items():
        for name, found in one["recipes"].items():
            if name in ALTERED and name != "about":
                continue
            theirs = paper.get(key, {}) if name == "paper" else {}
            share = _share(found["recovered"], found["n"])
            rows.append(
                [
                    NAMES[name],
                    str(one["n_rows"]),
                    f"{one['start']:g}",
                    f"{found['recovered']} of {found['n']}, {_in_percent(share)}"
                    + (f" ({theirs['share']:.1%})" if theirs else ""),
                    f"{_z(share, theirs):.1f}" if theirs else "",
                    _spread(found["sparseness"], theirs.get("sparseness")),
                    "" if found["about"] is None else f"{found['about']:.3f}",
                    _spread(found["noise"], theirs.get("noise")),
                    f"{found['seconds']:.2f}",
                ]
            )
    columns = ["", "rows", "pi H at first", "all found", "z", "pi H", "of the rows drawn", "sigma", "seconds a fit"]
    return markdown(columns, rows)


def _share(recovered: int, n: int) -> Measured:
    return share_of(np.arange(n) < recovered)


def _in_percent(share: Measured) -> str:
    return f"{share.value:.1%} ± {share.error:.1%}"


def _z(share: Measured, theirs: Mapping[str, Any]) -> float:
    """Compute by how many standard errors a share is above the paper's, which has the error of its trials."""
    error = np.sqrt(theirs["share"] * (1 - theirs["share"]) / theirs["n_trials"])
    return (share.value - theirs["share"]) / float(np.hypot(share.error or 0.0, error))


def _spread(found: Sequence[float] | None, paper: str | None) -> str:
    """Write mean and standard deviation, with the paper's in brackets."""
    if found is None:
        return ""
    return f"{found[0]:.3f} ± {found[1]:.3f}" + (f" ({paper})" if paper else "")


def _changes(found: Mapping[str, Any], table: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Write the ablation."""
    n, lines = found["n"], found["lines"]
    if not lines:
        return []
    rows = []
    for name, recovered in found["recovered"].items():
        what = "none" if name == "paper" else "; ".join(CHANGES[change] for change in name.split("+"))
        shares = [_share(recovered[key], n) for key in lines]
        rows.append([what, *map(_in_percent, [*shares, _share(sum(recovered.values()), n * len(lines))])])
    heads = [f"{table[key]['n_rows']} rows, from {table[key]['start']:g}" for key in lines]
    return [
        "## What our changes do",
        markdown(["changes to the paper's recipe", *heads, "all"], rows),
        f"Share of {n} trials of each line in which all bars were found, the same sets of rows and the same starts for "
        "all recipes, with binomial errors.",
    ]


def _accuracy(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [gamma, *(f"{np.mean(found[name][gamma]):.1%}" for name in ("close", "close_within"))]
        for gamma in found["close"]
    ]
    active = ", ".join(f"{share:.0%} with {n}" for n, share in enumerate(found["by_active"]) if share is not None)
    n_sets = len(next(iter(found["close"].values())))
    return [
        markdown(["gamma", "accurate rows", "among the N_cut rows"], rows),
        f"Bars, true parameters, H' = 5, {n_sets} sets of {found['n_rows']} rows. A row is *accurate* if no <s_h> "
        f"and no <s_i s_j> is off by {CLOSE_ERROR:g}. With gamma = 3, by the number of active bars: {active}.",
    ]


def _costs(found: Mapping[str, Any]) -> list[str]:
    rows = [
        [gamma, ", ".join(map(str, counts)), f"{found['exponents'][gamma]:.2f}"]
        for gamma, counts in found["states"].items()
    ]
    parts = [
        markdown(["gamma", f"states of H' = {', '.join(map(str, found['candidates']))} candidates", "exponent"], rows),
        "States that an E-step sums over for each row, counted, beside one for each further cause. The exponent is the "
        "slope of log states over log H'.",
    ]
    if "seconds" in found:
        times = ", ".join(f"{1000 * x:.1f}" for x in found["seconds"])
        parts.append(
            f"With H = {', '.join(map(str, found['causes']))} an E-step of {N_ROWS} rows of {N_COLUMNS} columns, with "
            f"3 of 6 candidates, takes {times} ms of CPU time of all threads, compilation left out, the fastest of "
            f"several. Less a fixed cost of {1000 * found['fixed']:.1f} ms, which the paper does not count, it grows "
            f"with an exponent of {found['exponent']:.2f} ± {found['error']:.2f}. {measured_on(found['machine'])}"
        )
    return parts


def _images(found: Mapping[str, Any] | None, paper: Mapping[str, Any]) -> list[str]:
    if found is None:
        return []
    fits = list(found["fits"].values())
    if found["nearest"]:
        fits += [{**one, "name": found["nearest"]["name"]} for one in found["nearest"]["fits"].values()]
    rows = [
        [
            (NAMES["paper"] if one["recipe"] == "paper" else "ours") + (f", {one['name']}" if "name" in one else ""),
            f"{one['n_causes']}",
            f"{one['max_active']} of {one['n_candidates']}",
            f"{one['sparseness']:.2f}"
            + (f" ({paper['sparseness']:g})" if one.get("name") and place == len(found["fits"]) else ""),
            f"{one['noise']:.3f}",
            str(one["n_globular"]),
            f"{one['selectivity']:.2f}",
            f"{one['localisation']:.2f}",
            f"{one['envelope']:.1f}",
            str(one["reseeded"]),
            f"{one['seconds']:.0f}",
        ]
        for place, one in enumerate(fits)
    ]
    columns = [
        "",
        "causes",
        "gamma of H'",
        "pi H",
        "sigma",
        "globular",
        "selectivity",
        "near the centre",
        "envelope",
        "new starts",
        "seconds",
    ]
    return [
        f"## Natural images ({found['name']})",
        f"{found['n_patches']} patches of {found['side']} x {found['side']} pixels, {found['max_iter']} iterations"
        + ("." if found["full_scale"] else "; the paper has 200 000 patches of 26 x 26 pixels and 700 causes."),
        markdown(columns, rows),
        "*sigma*: in units of the patches' standard deviation. *Globular*: fields of a globularity above "
        f"{GLOBULAR:g} that the border does not cut. "
        "*Selectivity* (median): 0 for a spot, near 1 for a wavelet with several stripes. *Near the centre* (mean): "
        "share of a field's energy in the disc about its centre that has a quarter of the patch's area. *Envelope* "
        "(median): standard deviation in pixels. *New starts*: of unused causes. In brackets the paper's number, for "
        "more images of the same collection.",
    ]
