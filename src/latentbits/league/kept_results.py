"""The results of the league that come with the package, and those in the folder of a run."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from latentbits.core.atomic import write_atomically
from latentbits.league.sets import SETS

__all__ = ["in_folder", "in_package", "keep", "kept_file"]


def kept_file() -> Path:
    """Give the file in which the package has the results, if it has any."""
    return Path(str(resources.files("latentbits.league"))) / "results.json"


def in_package() -> dict[str, dict[str, Any]]:
    """Read the results, by set, that come with the package."""
    path = kept_file()
    found = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    return {name: found[name] for name in SETS if name in found}


def in_folder(folder: Path) -> dict[str, dict[str, Any]]:
    """Read the results, by set, that a run wrote."""
    paths = {name: folder / name / "results.json" for name in SETS}
    return {name: json.loads(path.read_text("utf-8")) for name, path in paths.items() if path.is_file()}


def keep(results: Mapping[str, Any]) -> None:
    """Take the results of sets into the package, in place of those that it had of them."""
    merged = {**in_package(), **results}
    text = json.dumps({name: merged[name] for name in SETS if name in merged}, indent=1)
    with write_atomically(kept_file()) as file:
        file.write((text + "\n").encode())
