"""A page for every paper, made of the full run that is kept in the package; conf.py writes them into ``docs/papers``.

What a paper claims is in its expected.json, where its equations are in its README; what its figures show is here.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

from latentbits.papers import PAPERS, pages, summary

__all__ = ["FIGURES", "page", "write"]

NONE_KEPT = "No full run is kept yet"
LOST = "Beyond the point where the text that we have breaks off; from memory, unverified: "
# What the papers' figures show, by their captions and text.
FIGURES: dict[str, dict[str, str]] = {
    "tipping_1998": {
        "1": "Two plots of posterior means, of the synthetic sets with flips of 0.05 and 0.15. The three clusters "
        "have glyphs of their own, the larger, the more rows are at a place; the right plot has the lines P(bit = 1) "
        "= 1/2.",
        "2": "Left, 1000 twos of 16 × 16 pixels as a map, which looks like a horseshoe; right, in grey, the "
        "probability of each bit at four numbered places.",
        "3": "Error against time of both algorithms from the same start: left the synthetic data, right the twos.",
        "4": "Contours of the true and the approximated posterior of a single row: above of the synthetic data, "
        "below of the twos.",
    },
    "lee_sompolinsky_1998": {
        "1": "A diagram of the generative model: hidden variables, weights, and clipping.",
        "2": "The plane of P = 2 hidden variables, cut by the dashed lines of N = 3 bits into cells of one state each.",
        "3": "Left, rows of the bump of N = 256 bits; right, the eigenvalues of C^ss and C^xx by their rank.",
        "4": "Eigenvalues of C^ss and C^xx of the twos; in an inset the 16 eigenvectors of C^xx with the largest "
        "eigenvalues, by rows; right, a morph between two twos.",
    },
    "freund_haussler_1994": {
        "2.1": "The bipartite graph of input units and hidden units.",
        "2.2": "Three hidden units in the plane: eight pairs of concentric circles, a Gaussian each.",
        "4.1": "Weights as squares, full for plus and empty for minus, in matrices of 8 × 8 with the bias above: (a) "
        "the target, (b) gradient ascent, (c) pursuit, (d) both, with histograms of the rows' projections, which "
        "have two modes.",
        "4.2": "The same with weights divided by seven: (a) gradient ascent, (b) pursuit, (c) both.",
        "4.3": "Some of the digits of NIST, 16 × 16 pixels.",
        "4.4": "Typical weight vectors of the combination model: lines and curves.",
        "4.5": "Typical weight vectors of the mixture: averages of a digit.",
        "4.6": "Input reconstruction in bits per pixel along learning, of test and training rows: left the mixture, "
        "whose components double every 20 iterations with a spike each time, right the combination model.",
        "4.7": "Mistakes in a single bit along learning, in the same two graphs.",
        "4.8": "All 45 weight vectors of the mixture.",
        "4.9": "All 45 weight vectors of the combination model. (The caption says mixture; the text says which it is.)",
    },
    "henniges_2010": {
        "1": "Linear bars, 500 rows: A, 12 rows; B, the components after some iterations; C, sparseness and noise "
        "along the iterations, from pi H = 5 in blue and from 1 in red, the truth dashed.",
        "2": "Natural images, 700 causes: A, 200 of the components at random; B, the most globular ones; C, "
        "sparseness and noise along the iterations.",
    },
    "lewicki_sejnowski_1996": {
        "1": "The lines problem: (A) pattern types with their probabilities beside arrows, one of which is selected "
        "and copied, and lines on the left, each with probability 0.3; (B) typical inputs.",
        "2": "Weights of a 25-10-5 network as squares in blocks: lines in the second layer; in the third the types "
        "'||', '+', '=' and ']', and one unit that acts as a bias.",
        "3": LOST + "the weights of a network that has learned the shifter.",
        "4": LOST + "the cost in bits per pattern along learning.",
    },
}


def write(folder: Path) -> None:
    """All pages and the figures that they show, in place of those that are there."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir()
    results = {name: summary.in_package(name) for name in PAPERS}
    (folder / "index.md").write_text(overview(results), "utf-8")
    for name, one in results.items():
        (folder / f"{name}.md").write_text(page(name, one), "utf-8")
        for file in sorted(summary.kept_folder(name).glob("*.png")):
            (folder / name).mkdir(exist_ok=True)
            shutil.copyfile(file, folder / name / file.name)


# --- all papers ---


def overview(results: Mapping[str, Mapping[str, Any] | None]) -> str:
    """The table of verdicts, and the list of pages."""
    found = {name: summary.summarize(name, one)["relations"] for name, one in results.items() if one is not None}
    columns = ("paper", "claims", "reproduced", "not reproduced", "cannot be told", "our own findings", "within range")
    keys = ("claims", "reproduced", "not_reproduced", "cannot_be_told", "ours", "ours_within")
    rows = []
    for name in PAPERS:
        counts = summary.counts(found[name]) if name in found else None
        cells = [NONE_KEPT.lower(), *[""] * (len(keys) - 1)] if counts is None else [str(counts[key]) for key in keys]
        rows.append([f"{{doc}}`{name}`", *cells])
    counted = summary.counts_of_all(found.values())
    parts = [
        "# The papers",
        "Five of the families come each from one paper. `latentbits reproduce all` repeats their experiments and gives "
        "every claim a verdict: our number is within the range that follows from the paper (*reproduced*), outside "
        "of it by more than two standard errors (*not reproduced*), or *it cannot be told*: the paper gives nothing "
        "to hold it to, or our runs are too few. Apart from that, every number is held to a range of our own, about "
        "what our runs gave, so that a change of the library that spoils a result is seen. `latentbits reproduce "
        "--summary` prints all of it.",
        pages.markdown(columns, rows),
        *(["\n".join(f"- {line}." for line in summary.counts_in_words(counted))] if found else []),
        "```{toctree}\n:hidden:\n\n" + "\n".join(PAPERS) + "\n```",
    ]
    return "\n\n".join(parts) + "\n"


# --- one paper ---


def page(name: str, results: Mapping[str, Any] | None) -> str:
    """What the paper claims, what came out, its figures beside ours, and where its equations are."""
    expected = pages.expected(f"latentbits.papers.{name}")
    readme = resources.files(f"latentbits.papers.{name}").joinpath("README.md").read_text("utf-8")
    text = "" if results is None else (summary.kept_folder(name) / "results.md").read_text("utf-8")
    parts = [
        f"# {PAPERS[name].citation.split(',')[0]}",
        expected["citation"],
        "## What it claims",
        "\n".join(f"- {line}" for line in dict.fromkeys(_claims(expected))),
        *([expected["missing"]] if "missing" in expected else []),
        "## What came out",
        *_outcome(name, results),
        "## Figures",
        _figures(name, list(pictures_in(text))),
        "## Where the equations are",
        section(readme, "Where the equations are"),
        "## Where the results are",
        section(readme, "Where the results are"),
    ]
    return "\n\n".join(parts) + "\n"


def _claims(expected: Mapping[str, Any]) -> Iterator[str]:
    """In the paper's words where expected.json has them, else what the findings are held to."""
    for one in expected.get("in_words", ()):
        yield f"{one['where']}: {one['says']}."
    if "in_words" not in expected:
        for one in expected["relations"].values():
            if "words" in one.get("paper", {}):
                yield f"{one['where']}: {one['paper']['words']}" + (
                    " (unverified)." if one["paper"].get("unverified") else "."
                )


def _outcome(name: str, results: Mapping[str, Any] | None) -> Iterator[str]:
    if results is None:
        yield f"{NONE_KEPT}. `latentbits reproduce {name}` makes one."
        return
    found = summary.summarize(name, results)
    yield from (f"**Note.** {note}" for note in found["notes"])
    yield pages.findings(found["relations"])
    yield "\n".join(f"- {line}." for line in summary.counts_in_words(summary.counts(found["relations"])))
    if found["not_measured"]:
        yield f"Not measured in this run: {', '.join(f'`{key}`' for key in found['not_measured'])}."
    yield pages.measured_on(found["machine"])


class Picture(NamedTuple):
    """A figure of ours as results.md has it."""

    title: str
    caption: str
    file: str


def pictures_in(text: str) -> Iterator[Picture]:
    """What `pages.pictures` wrote into a page."""
    for found in re.finditer(r"^\*\*([^*]+)\.\*\* (.+)\n\n!\[[^\]]*\]\(([^)]+)\)$", text, re.MULTILINE):
        yield Picture(*found.groups())


def _figures(name: str, ours: list[Picture]) -> str:
    """The paper's figures in words, beside ours; those that only we have at the end."""
    rows = []
    left = list(ours)
    for number, words in FIGURES[name].items():
        mine = [one for one in ours if re.match(rf"Figure {re.escape(number)}(?![\d.])", one.title)]
        left = [one for one in left if one not in mine]
        shown = " ".join(_shown(name, one) for one in mine) or ("not drawn" if ours else NONE_KEPT.lower())
        rows.append([number, words, shown])
    rows += [["", "not in the paper", _shown(name, one)] for one in left]
    rows = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    return pages.markdown(["figure", "the paper's", "ours"], rows, left=3)


def _shown(name: str, one: Picture) -> str:
    if (summary.kept_folder(name) / one.file).is_file():
        return f"![{one.title}]({name}/{one.file}) *{one.title}.* {one.caption}"
    return f"*{one.title}.* {one.caption} (`{one.file}` is not kept; `latentbits reproduce {name}` draws it)"


def section(readme: str, title: str) -> str:
    """What stands below a heading.

    >>> section("# a\\n\\n## b\\n\\nc\\n\\n## d\\n", "b")
    'c'
    """
    found = re.search(rf"^## {re.escape(title)}\n+(.*?)(?=^## |\Z)", readme, re.MULTILINE | re.DOTALL)
    if found is None:
        raise ValueError(f"a paper's README must have a section {title!r}")
    return found[1].strip()
