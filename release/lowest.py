"""The oldest versions that pyproject.toml allows, as constraints for pip: `python release/lowest.py > lowest.txt`.

They are of what users install, and of Python 3.11; newer Pythons need newer versions of some.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

EXTRAS = ("dask", "tables", "plot", "rotate")


def lowest(project: dict) -> list[str]:
    """``name==version`` of each dependency of the library and of its extras, as the lower bound has it."""
    asked = [*project["dependencies"], *(one for extra in EXTRAS for one in project["optional-dependencies"][extra])]
    return [f"{name}=={version}" for name, version in (_bound(one) for one in asked)]


def _bound(requirement: str) -> tuple[str, str]:
    found = re.fullmatch(r"([\w.-]+)(?:\[[\w,]+\])?>=([\d.]+)", requirement)
    if found is None:
        raise ValueError(f"{requirement!r} is no name with a lower bound")
    return found[1], found[2]


if __name__ == "__main__":
    pyproject = Path(__file__).resolve().parents[1] / "pyproject.toml"
    print("\n".join(lowest(tomllib.loads(pyproject.read_text("utf-8"))["project"])))
