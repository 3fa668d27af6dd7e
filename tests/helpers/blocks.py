"""The code blocks of README and docs, which of them tests/docs/test_pages.py runs, and scripts as modules."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
MADE = ("league", "evidence")  # pages that docs/conf.py writes: tables

LONG = [
    "README.md",
    "docs/index.md",
    "docs/data.md",
    "docs/missing-data.md",
    "docs/scale.md",
    "docs/models.md",
    "docs/latent-trait.md",
    "docs/curved-trait.md",
    "docs/trait-maps.md",
    "docs/latent-classes.md",
    "docs/item-response.md",
    "docs/tutorial-items.md",
    "docs/tutorial-classes.md",
    "docs/coming-from-mirt.md",
    "docs/coming-from-polca.md",
    "docs/tetrachoric.md",
    "docs/reports.md",
    "docs/combination-machine.md",
    "docs/sparse-coding.md",
    "docs/noisy-or.md",
    "docs/latent-tree.md",
    "docs/which-model.md",
    "docs/explorer.md",
    "docs/tutorial-images.md",
]
NOTEBOOK = "docs/quickstart.md"  # run as the notebook that is made of it, by tests/project/test_release.py
# These load public sets that do not come with the package.
REAL = ["docs/tutorial-neurons.md", "docs/tutorial-species.md", "docs/tutorial-baskets-votes.md"]

# What would take minutes is shown as {code-block} python, and run with other numbers than are printed.
SHORTER = {
    "docs/explorer.md": {
        "import explore,": "import BernoulliMixture, explore,",
        '"digits")': '"lsat7")',
        ", out=": ", model=BernoulliMixture(2), budget=None, out=",
    },
    "docs/combination-machine.md": {"n_epochs=50": "n_epochs=1"},
    "docs/curved-trait.md": {"n_epochs=60": "n_epochs=2"},
    "docs/noisy-or.md": {"lines(2000,": "lines(200,"},
    "docs/sparse-coding.md": {"20_000": "200", "max_iter=200": "max_iter=2"},
}


class Block(NamedTuple):
    """Code of a page: the line that it begins at, from 1; what follows the fence, or nothing where it is indented."""

    page: str
    line: int
    info: str
    text: str


def script(path: str) -> ModuleType:
    """Load a script of the repository as a module."""
    spec = spec_from_file_location(Path(path).stem, ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def pages() -> list[str]:
    """README and the like, the docs, and what the papers' folders say."""
    found = [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]
    found += ROOT.glob("src/latentbits/papers/*/README.md")
    return sorted(path.relative_to(ROOT).as_posix() for path in found if path.stem not in MADE)


def blocks(page: str) -> list[Block]:
    """All code of a page, in order."""
    tokens = MarkdownIt("commonmark").parse((ROOT / page).read_text("utf-8"))
    return [
        Block(page, token.map[0] + 1, token.info.strip(), token.content)
        for token in tokens
        if token.type in ("fence", "code_block")
    ]


def python_blocks(page: str, long: bool = False) -> list[str]:
    """The ``python`` blocks of a Markdown page, in order; on request with those that take long, made shorter.

    Each is preceded by as many blank lines as there are lines before it, so that a traceback has the page's numbers.
    """
    found = []
    for block in blocks(page):
        text = block.text
        if block.info == "{code-block} python":
            if not long:
                continue
            for old, new in SHORTER[page].items():
                text = text.replace(old, new)
        elif block.info != "python":
            continue
        found.append("\n" * block.line + text)
    return found


def printed(page: str) -> dict[str, str]:
    """What the page says that its ``python`` blocks print: the ``text`` block that follows one at once."""
    found = blocks(page)
    lines = (ROOT / page).read_text("utf-8").split("\n")
    outputs = {}
    for block, after in pairwise(found):
        end = block.line + block.text.count("\n")  # of the closing fence, counted from 0
        between = "".join(lines[end + 1 : after.line - 1])
        if (block.info, after.info) == ("python", "text") and not between.strip():
            outputs["\n" * block.line + block.text] = after.text
    return outputs


def commands(block: Block) -> list[str]:
    """The lines of an indented block, without comments; of a session, which shows what is printed, those after $."""
    lines = block.text.splitlines()
    if block.text.startswith("$ "):
        lines = [line[2:] for line in lines if line.startswith("$ ")]
    return [re.sub(r"\s+# .*$", "", line) for line in lines if line.strip()]
