"""Words that the Tab key offers beside commands and options: data sets, tables, model files, papers.

Nothing is imported for it: the user waits.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path

import click
from click.shell_completion import CompletionItem

__all__ = ["model_files", "papers", "public_sets", "tables_and_sets"]

TABLES = (".csv", ".tsv", ".txt", ".parquet", ".npy", ".npz", ".zarr", ".h5ad")
MODELS = (".safetensors",)


def public_sets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List the names of the public data sets."""
    registry = resources.files("latentbits").joinpath("data", "registry.json").read_text("utf-8")
    sets: Mapping[str, Mapping[str, str]] = json.loads(registry)
    return _beginning({name: entry["description"] for name, entry in sorted(sets.items())}, incomplete)


def tables_and_sets(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List files of tables and public data sets; where none begins so, the shell looks for any file."""
    return [*_files(TABLES, incomplete), *public_sets(ctx, param, incomplete), _any_file(incomplete)]


def model_files(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List files of models; where none begins so, the shell looks for any file."""
    return [*_files(MODELS, incomplete), _any_file(incomplete)]


def papers(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """List the names of the papers."""
    from latentbits.papers import PAPERS

    return _beginning({"all": "every one of them", **{one.name: one.citation for one in PAPERS.values()}}, incomplete)


def _beginning(known: Mapping[str, str], incomplete: str) -> list[CompletionItem]:
    return [CompletionItem(name, help=about) for name, about in known.items() if name.startswith(incomplete)]


def _files(endings: Iterable[str], incomplete: str) -> list[CompletionItem]:
    folder, _, start = incomplete.rpartition("/")
    try:
        names = sorted(path.name for path in Path(f"{folder}/" if "/" in incomplete else ".").iterdir())
    except OSError:
        return []
    before = incomplete[: len(incomplete) - len(start)]
    return [
        CompletionItem(before + name)
        for name in names
        if name.startswith(start) and Path(name).suffix.lower() in endings
    ]


def _any_file(incomplete: str) -> CompletionItem:
    return CompletionItem(incomplete, type="file")
