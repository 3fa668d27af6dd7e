"""The quick start as a notebook, from the page; run it after the page has changed.

Text becomes cells of text, with what only Sphinx knows made plain; Python becomes cells of code, without results:
they are seen by running it.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGE, NOTEBOOK = ROOT / "docs" / "quickstart.md", ROOT / "docs" / "quickstart.ipynb"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SKIP = re.compile(r"^## Install\n[\s\S]*?(?=^## )|^\(.*\)=\n|^<!--.*-->\n\n?|^.*\{download\}.*\n\n?", re.MULTILINE)


def written() -> str:
    """The notebook that the page makes, as the text of its file."""
    site = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["urls"]["Documentation"]
    parts = BLOCK.split(PAGE.read_text("utf-8"))  # text and code by turns
    texts = [_text(part, site) for part in parts[0::2]]
    codes = [_code(part.strip("\n")) for part in parts[1::2]]
    cells = [cell for pair in zip(texts, [*codes, None]) for cell in pair if cell is not None and cell["source"]]
    book = {
        "cells": [{"id": f"cell-{number}", **cell} for number, cell in enumerate(cells)],
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"


def _code(source: str) -> dict[str, Any]:
    lines = source.splitlines(keepends=True)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": lines}


def _text(page: str, site: str) -> dict[str, Any]:
    plain = SKIP.sub("", page)
    plain = re.sub(r"\{doc\}`([\w/-]+)`", lambda found: f"[{found[1]}]({site}{found[1]}.html)", plain)
    plain = re.sub(r"\{py:\w+\}`~?(?:\w+\.)*(\w+)`", r"`\1`", plain)
    return {"cell_type": "markdown", "metadata": {}, "source": plain.strip("\n").splitlines(keepends=True)}


if __name__ == "__main__":
    NOTEBOOK.write_text(written(), "utf-8")
