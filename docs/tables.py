"""What README and docs list of the families, from the records; run it after a record has changed.

Each list stands between two comments: ``<!-- families -->`` and ``<!-- end of families -->``, or with another word for
another list.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from latentbits.estimators.families import families
from latentbits.estimators.family_record import Family

ROOT = Path(__file__).parents[1]


def _in_readme(family: Family) -> list[str]:
    rows = " and ".join("real numbers" if kind == "reals" else kind for kind in family.rows)
    return [f"`{family.class_name}`", f"`{family.name}`", family.summary, rows, family.paper]


def _in_docs(family: Family) -> list[str]:
    guide = f"{{doc}}`{family.guide}`"
    return [family.summary, _linked(family), f"`{family.size}`" if family.size else "", guide]


def _linked(family: Family) -> str:
    return f"{{py:class}}`~latentbits.{family.class_name}`"


def _table(header: list[str], line: Callable[[Family], list[str]]) -> str:
    rows = [header, ["---"] * len(header), *(line(family) for family in families())]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


# --- which model? ---


def _known(family: Family) -> list[str]:
    return [_linked(family), family.likelihood, family.missing, family.grows]


def _can(family: Family) -> list[str]:
    cls = family.cls
    has = (
        "bits" in family.rows,
        "reals" in family.rows,
        family.errors or hasattr(cls, "standard_errors"),
        family.stops_early,
        cls._sparse,
        hasattr(cls, "aic"),
    )
    return [_linked(family), *("yes" if one else "" for one in has), family.paper]


def _pictures() -> str:
    """A card for each family: what is hidden as a drawing, its name, and what it takes rows to be."""
    from causes import DRAWINGS  # beside this file, which is on no path when it is imported as a module

    cards = []
    for family in families():
        words = DRAWINGS[family.name][1]
        cards.append(
            ":::{container} tile\n"
            f"```{{image}} _static/causes/{family.name}.svg\n:alt: {words}.\n```\n\n"
            f"**{_linked(family)}**: {family.summary}. {{doc}}`{family.guide}`\n"
            ":::\n"
        )
    return "::::{container} tiles\n" + "".join(cards) + "::::\n"


CAN = ["", "bits", "real columns", "standard errors", "early stopping", "stays sparse", "AIC, BIC", "from"]
# By page: what stands between which comments.
LISTS: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {
        "families": lambda: _table(["estimator", "`--model`", "what it takes rows to be", "rows", "from"], _in_readme)
    },
    "docs/quickstart.md": {
        "families": lambda: _table(["what it takes rows to be", "estimator", "its size", "guide"], _in_docs)
    },
    "docs/which-model.md": {
        "pictures": _pictures,
        "can": lambda: _table(CAN, _can),
        "known": lambda: _table(["", "log p(x) of a row is", "missing cells are", "time goes by"], _known),
    },
}


def written(page: str) -> str:
    """The page with the lists that the records make."""
    text = (ROOT / page).read_text("utf-8")
    for word, made in LISTS[page].items():
        between = re.compile(rf"(<!-- {word} -->\n\n)(.*?)(\n<!-- end of {word} -->)", re.DOTALL)
        text, n = between.subn(lambda found, made=made: found[1] + made() + found[3], text)  # type: ignore[misc]
        if n != 1:
            raise ValueError(f"{page} must have one place for the list of {word}, found {n}")
    return text


if __name__ == "__main__":
    for page in LISTS:
        (ROOT / page).write_text(written(page), "utf-8")
