"""The results as a page to read: the paper's numbers beside ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from latentbits.papers.henniges_2010.bars import SIMILAR, is_recovered
from latentbits.papers.henniges_2010.images import GLOBULAR
from latentbits.papers.pages import markdown, page, pictures, spread

__all__ = ["report"]

NAMES = {"paper": "the paper's recipe", "ours": "our defaults, with its gamma and H'", "default": "our defaults"}
CAPTIONS = {
    "1": "Linear bars. A: rows. B: components after so many iterations, each on its own scale; red is plus, blue is "
    "minus. C: the number of active causes and the noise, from two starts; the truth is dashed.",
    "2": "Patches of natural images. A: components drawn at random. B: the most globular ones. C: the number of active "
    "causes and the noise; from the first grey line to the second the patches learned from become fewer.",
}


def report(results: Mapping[str, Any], expected: Mapping[str, Any]) -> str:
    """The whole page, in Markdown."""
    body = [
        "## How often all bars are found",
        _bars(results["bars"], expected["bars"]),
        f"10 bars of 5 x 5 pixels, 2 active on average, noise 2. *All found*: every bar has a component of its own, "
        f"cosine above {SIMILAR:g}; in brackets the paper's share. pi H and sigma: mean and standard deviation of the "
        "trials in which all were found. *Of the rows drawn*: standard deviation of pi H about the number of bars that "
        "are really active in a row of the set. All recipes begin with the same pi H and learn from the same sets.",
        f"In figure 1 the rows drawn have {results['course']['drawn']:.2f} active bars on average.",
        *_images(results["images"], expected["images"]),
    ]
    captions = {name: CAPTIONS[name.split()[0]] for name in results["figures"]}  # 2, and 2 with fewer causes
    title, quick = "Henniges et al. (2010): the paper's numbers beside ours", "few trials, few small patches"
    return page(title, quick, results, expected, body, pictures(results["figures"], captions))


def _bars(table: Mapping[str, Mapping[str, Any]], paper: Mapping[str, Mapping[str, Any]]) -> str:
    rows = []
    for key, one in table.items():
        for name, found in one["recipes"].items():
            kept = is_recovered(found)
            theirs = paper.get(key, {}) if name == "paper" else {}
            share = f" ({theirs['share']:.1%})" if theirs else ""
            about = np.array(found["sparseness"]) - np.array(one["drawn"])
            rows.append(
                [
                    NAMES[name],
                    str(one["n_rows"]),
                    f"{one['start']:g}",
                    f"{kept.sum()} of {len(kept)}, {kept.mean():.1%}{share}",
                    _spread(np.array(found["sparseness"])[kept], theirs.get("sparseness")),
                    f"{np.std(about[kept]):.3f}" if kept.any() else "",
                    _spread(np.array(found["noise"])[kept], theirs.get("noise")),
                    f"{np.median(found['seconds'][1:] or found['seconds']):.2f}",
                ]
            )
    columns = ["", "rows", "pi H at first", "all found", "pi H", "of the rows drawn", "sigma", "seconds a fit"]
    return markdown(columns, rows)


def _spread(values: np.ndarray, paper: str | None) -> str:
    """Mean and standard deviation, with the paper's in brackets."""
    if not len(values):
        return ""
    return spread(values) + (f" ({paper})" if paper else "")


def _images(found: Mapping[str, Any] | None, paper: Mapping[str, Any]) -> list[str]:
    if found is None:
        return []
    rows = [
        [
            name,
            f"{one['sparseness']:.2f}" + (f" ({paper['sparseness']:g})" if place == 0 and found["full_scale"] else ""),
            f"{one['noise']:.3f}",
            str(one["n_globular"]),
            f"{one['selectivity']:.2f}",
            f"{one['localisation']:.2f}",
            f"{one['envelope']:.1f}",
            str(one["reseeded"]),
            f"{one['seconds']:.0f}",
        ]
        for place, (name, one) in enumerate(found["fits"].items())
    ]
    columns = [
        "causes",
        "pi H",
        "sigma",
        "globular",
        "selectivity",
        "near the centre",
        "envelope",
        "begun anew",
        "seconds",
    ]
    return [
        f"## Natural images ({found['name']})",
        f"{found['n_patches']} patches of {found['side']} x {found['side']} pixels, at most {found['max_active']} of "
        f"{found['n_candidates']} candidates active, {found['max_iter']} iterations"
        + ("." if found["full_scale"] else "; the paper has 200 000 patches of 26 x 26 pixels and 700 causes."),
        markdown(columns, rows),
        "*sigma*: in units of the patches' standard deviation. *Globular*: fields of a globularity above "
        f"{GLOBULAR:g} that the border does not cut. "
        "*Selectivity* (median): 0 for a spot, near 1 for a wavelet with several stripes. *Near the centre* (mean): "
        "share of a field's energy in the disc about its centre that has a quarter of the patch's area. *Envelope* "
        "(median): standard deviation in pixels. *Begun anew*: unused causes that were given a new start. In brackets "
        "the paper's number, for other images.",
    ]
