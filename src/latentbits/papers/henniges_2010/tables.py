"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from latentbits.papers.forms import fill, table
from latentbits.papers.henniges_2010.accuracy import CLOSE_ERROR, N_COLUMNS, N_ROWS
from latentbits.papers.henniges_2010.bars import ALTERED, SIMILAR_COSINE
from latentbits.papers.pages import Measured, measured_on, page, pictures, share_of

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
TIMES = (
    "With H = {causes!j} an E-step of {n} rows of {columns} columns, with 3 of 6 candidates, takes {seconds!j:.1f} ms "
    "of CPU time of all threads, compilation left out, the fastest of several. Less a fixed cost of {fixed:.1f} ms, "
    "which the paper does not count, it grows with an exponent of {exponent:.2f} ± {error:.2f}."
)


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
    return fill("In figure 1 the rows drawn have {drawn:.2f} active bars on average; {runs!j}.", found, runs=runs)


def _bars(lines: Mapping[str, Mapping[str, Any]], paper: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for key, one in lines.items():
        for recipe, found in one["recipes"].items():
            if recipe in ALTERED and recipe != "about":
                continue
            theirs = paper.get(key, {}) if recipe == "paper" else {}
            share = _share(found["recovered"], found["n"])
            cells = {
                "name": NAMES[recipe],
                "share": _in_percent(share) + (f" ({theirs['share']:.1%})" if theirs else ""),
                "z": _z(share, theirs) if theirs else None,
                **{name: _spread(found[name], theirs.get(name)) for name in ("sparseness", "noise")},
            }
            rows.append({**one, **found, **cells})
    return table(
        " | rows | pi H at first | all found | z | pi H | of the rows drawn | sigma | seconds a fit",
        "{name} | {n_rows} | {start:g} | {recovered} of {n}, {share} | {z:.1f} | {sparseness} | {about:.3f} | "
        "{noise} | {seconds:.2f}",
        rows,
    )


def _share(recovered: int, n: int) -> Measured:
    return share_of(np.arange(n) < recovered)


def _in_percent(share: Measured) -> str:
    return f"{share.value:.1%} ± {share.error:.1%}"


def _z(share: Measured, theirs: Mapping[str, Any]) -> float:
    """Compute by how many standard errors a share is above the paper's, which has the error of its trials."""
    error = np.sqrt(theirs["share"] * (1 - theirs["share"]) / theirs["n_trials"])
    return (share.value - theirs["share"]) / float(np.hypot(share.error or 0.0, error))


def _spread(found: Sequence[float] | None, paper: str | None) -> str | None:
    """Write mean and standard deviation, with the paper's in brackets."""
    return None if found is None else f"{found[0]:.3f} ± {found[1]:.3f}" + (f" ({paper})" if paper else "")


def _changes(found: Mapping[str, Any], lines: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Write the ablation."""
    n, keys = found["n"], found["lines"]
    if not keys:
        return []
    rows = []
    for name, recovered in found["recovered"].items():
        what = "none" if name == "paper" else "; ".join(CHANGES[change] for change in name.split("+"))
        shares = [*(_share(recovered[key], n) for key in keys), _share(sum(recovered.values()), n * len(keys))]
        rows.append({"what": what, "shares": list(map(_in_percent, shares))})
    heads = [fill("{n_rows} rows, from {start:g}", lines[key]) for key in keys]
    return [
        "## What our changes do",
        table(
            " | ".join(["changes to the paper's recipe", *heads, "all"]),
            " | ".join(["{what}", *(f"{{shares[{place}]}}" for place in range(len(keys) + 1))]),
            rows,
        ),
        f"Share of {n} trials of each line in which all bars were found, the same sets of rows and the same starts for "
        "all recipes, with binomial errors.",
    ]


def _accuracy(found: Mapping[str, Any]) -> list[str]:
    by_gamma = [
        {"gamma": key, "close": found["close"][key], "in": found["close_within"][key]} for key in found["close"]
    ]
    active = [f"{share:.0%} with {n}" for n, share in enumerate(found["by_active"]) if share is not None]
    return [
        table("gamma | accurate rows | among the N_cut rows", "{gamma} | {close!a:.1%} | {in!a:.1%}", by_gamma),
        f"Bars, true parameters, H' = 5, {len(by_gamma[0]['close'])} sets of {found['n_rows']} rows. A row is "
        f"*accurate* if no <s_h> and no <s_i s_j> is off by {CLOSE_ERROR:g}. With gamma = 3, by the number of active "
        f"bars: {', '.join(active)}.",
    ]


def _costs(found: Mapping[str, Any]) -> list[str]:
    parts = [
        table(
            fill("gamma | states of H' = {candidates!j} candidates | exponent", found),
            "{gamma} | {counts!j} | {exponent:.2f}",
            [{"gamma": g, "counts": n, "exponent": found["exponents"][g]} for g, n in found["states"].items()],
        ),
        "States that an E-step sums over for each row, counted, beside one for each further cause. The exponent is the "
        "slope of log states over log H'.",
    ]
    if "seconds" in found:
        milliseconds = {name: 1000 * np.array(found[name]) for name in ("seconds", "fixed")}
        parts.append(
            fill(TIMES, found, n=N_ROWS, columns=N_COLUMNS, **milliseconds) + f" {measured_on(found['machine'])}"
        )
    return parts


def _images(found: Mapping[str, Any] | None, paper: Mapping[str, Any]) -> list[str]:
    if found is None:
        return []
    fits = [{**one, "of": "", "theirs": ""} for one in found["fits"].values()]
    if found["nearest"]:
        nearest = [{**one, "of": f", {found['nearest']['name']}"} for one in found["nearest"]["fits"].values()]
        fits += [{**one, "theirs": "" if k else fill(" ({sparseness:g})", paper)} for k, one in enumerate(nearest)]
    scale = "." if found["full_scale"] else "; the paper has 200 000 patches of 26 x 26 pixels and 700 causes."
    return [
        f"## Natural images ({found['name']})",
        fill("{n_patches} patches of {side} x {side} pixels, {max_iter} iterations", found) + scale,
        table(
            " | causes | gamma of H' | pi H | sigma | globular | selectivity | near the centre | envelope | "
            "new starts | seconds",
            "{whose}{of} | {n_causes} | {max_active} of {n_candidates} | {sparseness:.2f}{theirs} | {noise:.3f} | "
            "{n_globular} | {selectivity:.2f} | {localisation:.2f} | {envelope:.1f} | {reseeded} | {seconds:.0f}",
            [{**one, "whose": NAMES["paper"] if one["recipe"] == "paper" else "ours"} for one in fits],
        ),
        "*sigma*: in units of the patches' standard deviation. *Globular*: fields of a globularity above "
        "0.1 that the border does not cut. "
        "*Selectivity* (median): 0 for a spot, near 1 for a wavelet with several stripes. *Near the centre* (mean): "
        "share of a field's energy in the disc about its centre that has a quarter of the patch's area. *Envelope* "
        "(median): standard deviation in pixels. *New starts*: of unused causes. In brackets the paper's number, for "
        "more images of the same collection.",
    ]
