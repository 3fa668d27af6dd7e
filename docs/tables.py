"""The tables of families in README and docs, from the records; run it after a record has changed.

Each stands between two comments: ``<!-- families -->`` and ``<!-- end of families -->``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from latentbits.estimators.families import Family, families

ROOT = Path(__file__).parents[1]
BETWEEN = re.compile(r"(<!-- families -->\n\n)(.*?)(\n<!-- end of families -->)", re.DOTALL)


def _in_readme(family: Family) -> list[str]:
    rows = " and ".join("real numbers" if kind == "reals" else kind for kind in family.rows)
    return [f"`{family.class_name}`", f"`{family.name}`", family.summary, rows, family.paper]


def _in_docs(family: Family) -> list[str]:
    guide = f"{{doc}}`{family.guide}`"
    return [
        family.summary,
        f"{{py:class}}`~latentbits.{family.class_name}`",
        f"`{family.size}`" if family.size else "",
        guide,
    ]


TABLES: dict[str, tuple[list[str], Callable[[Family], list[str]]]] = {
    "README.md": (["estimator", "`--model`", "what it takes rows to be", "rows", "from"], _in_readme),
    "docs/quickstart.md": (["what it takes rows to be", "estimator", "its size", "guide"], _in_docs),
}


def written(page: str) -> str:
    """The page with the table that the records make."""
    header, line = TABLES[page]
    rows = [header, ["---"] * len(header), *(line(family) for family in families())]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    text, n = BETWEEN.subn(lambda found: found[1] + table + found[3], (ROOT / page).read_text("utf-8"))
    if n != 1:
        raise ValueError(f"{page} must have one place for the table of families, found {n}")
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(written(page), "utf-8")
