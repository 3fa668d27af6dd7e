"""What the papers share: tables in Markdown, findings held to ranges, the machine, files."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.core.atomic import write_atomically
from latentbits.core.version import __version__

__all__ = [
    "expected",
    "findings",
    "head",
    "judge",
    "machine",
    "markdown",
    "measured_on",
    "page",
    "pictures",
    "range_in_words",
    "save",
    "spread",
    "write_results",
]


def expected(package: str) -> dict[str, Any]:
    """What a paper reports, and what we hold our numbers to: its expected.json."""
    return json.loads(resources.files(package).joinpath("expected.json").read_text("utf-8"))


def save(figure: Any, out: Path, name: str) -> list[str]:
    """Write a figure as png and svg; gives the names of the files."""
    from matplotlib import pyplot as plt

    from latentbits.figures.any_model.pictures import save_figure

    paths = [save_figure(figure, out / f"{name}.{kind}") for kind in ("png", "svg")]
    plt.close(figure)
    return [path.name for path in paths]


def markdown(columns: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table; the first `left` columns are text, the others are numbers.

    >>> print(markdown(["a", "b"], [["x", "1"]]))
    | a | b |
    | :-- | --: |
    | x | 1 |
    """
    marks = [":--" if place < left else "--:" for place in range(len(columns))]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (columns, marks, *rows))


def judge(bounds: Mapping[str, Mapping[str, Any]], measured: Mapping[str, float]) -> dict[str, dict[str, Any]]:
    """Each finding of expected.json that was measured: with what was found, and whether it is within its range.

    >>> judge({"a": {"least": 1.0, "most": None}}, {"a": 2.0})
    {'a': {'least': 1.0, 'most': None, 'measured': 2.0, 'holds': True}}
    """
    return {
        name: {**one, "measured": measured[name], "holds": _within(measured[name], one["least"], one["most"])}
        for name, one in bounds.items()
        if name in measured
    }


def _within(value: float, least: float | None, most: float | None) -> bool:
    return (least is None or value >= least) and (most is None or value <= most)


def findings(relations: Mapping[str, Mapping[str, Any]]) -> str:
    """What `judge` gave, as a table."""
    rows = []
    for one in relations.values():
        paper = one.get("paper", "")
        paper = paper if isinstance(paper, str) else f"{paper:g}"
        rows.append(
            [one["says"], range_in_words(one), f"{one['measured']:.4g}", paper, "yes" if one["holds"] else "**no**"]
        )
    return markdown(["finding", "held to", "measured", "paper", "holds"], rows)


def range_in_words(one: Mapping[str, Any]) -> str:
    """
    >>> range_in_words({"least": 1.0, "most": None}), range_in_words({"least": 0.2, "most": 0.35})
    ('at least 1', '0.2 to 0.35')
    """
    least, most = one["least"], one["most"]
    if least is None:
        return f"at most {most:.12g}"
    if most is None:
        return f"at least {least:.12g}"
    return f"{least:.12g}" if least == most else f"{least:.12g} to {most:.12g}"


def spread(values: Any, digits: int = 3) -> str:
    """Mean and standard deviation.

    >>> spread([1, 3])
    '2.000 ± 1.000'
    """
    return f"{np.mean(values):.{digits}f} ± {np.std(values):.{digits}f}"


def head(title: str, quick: str, results: Mapping[str, Any], expected: Mapping[str, Any]) -> list[str]:
    """How a page begins; `quick` says what a quick run is short of."""
    return [
        f"# {title}",
        expected["citation"],
        *(f"**Note.** {note}" for note in results["notes"]),
        *([f"**A quick run**: {quick}."] if results["quick"] else []),
    ]


def pictures(
    files: Mapping[str, Sequence[str]],
    captions: Mapping[str, str],
    titles: Mapping[str, str] | None = None,
    alt: str = "Figure {}",
) -> list[str]:
    """All figures with their captions; `titles` are of those that have other than a number."""
    return [
        f"**{(titles or {}).get(name, f'Figure {name}')}.** {captions[name]}\n\n![{alt.format(name)}]({found[0]})"
        for name, found in files.items()
    ]


def measured_on(machine: Mapping[str, Any]) -> str:
    """`machine` in words."""
    return (
        f"Measured on {machine['cores']} cores ({machine['processor']}, {machine['device']}), "
        f"latentbits {machine['latentbits']}, jax {machine['jax']}."
    )


def page(
    title: str,
    quick: str,
    results: Mapping[str, Any],
    expected: Mapping[str, Any],
    body: Sequence[str],
    shown: Sequence[str],
) -> str:
    """A page in Markdown: head, findings, what the paper has of its own, figures, and the machine."""
    parts = [
        *head(title, quick, results, expected),
        "## Do the paper's findings hold?",
        findings(results["relations"]),
        *body,
        "## Figures",
        *shown,
        measured_on(results["machine"]),
    ]
    return "\n\n".join(parts) + "\n"


def machine() -> dict[str, Any]:
    """What the numbers were measured with."""
    import jax

    return {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "device": jax.default_backend(),
        "latentbits": __version__,
        "jax": jax.__version__,
    }


def write_results(out: Path, results: Mapping[str, Any], page: str) -> None:
    """``results.json`` and ``results.md``, whole or not at all."""
    for name, text in (("results.json", json.dumps(results, indent=1) + "\n"), ("results.md", page)):
        with write_atomically(out / name) as file:
            file.write(text.encode())
