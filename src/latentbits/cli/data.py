"""`latentbits data`: the public data sets."""

from __future__ import annotations

from typing import Any

import click

from latentbits.cli.completion import public_sets
from latentbits.cli.console import common_options, give, say
from latentbits.cli.outputs import Outputs
from latentbits.cli.reports import show_table

__all__ = ["data"]


@click.command(short_help="List, describe and fetch public data sets.")
@click.argument("name", required=False, shell_complete=public_sets)
@click.option(
    "-o", "--out", "output", type=click.Path(dir_okay=False), help="Write the set (csv, tsv, npy, npz or parquet)."
)
@click.option("--split", metavar="NAME", help="Only these rows: train, valid or test.")
@common_options
def data(name: str | None, output: str | None, split: str | None, as_json: bool) -> None:
    """List the public data sets; with NAME, describe one; with -o, fetch it and write it to a file.

    Sets are bundled, or read from the folder that LATENTBITS_DATA names, or downloaded once and checked by their
    sha256.
    """
    if name is None:
        if output is not None or split is not None:
            raise click.UsageError("-o and --split need the NAME of a data set.")
        _list(as_json)
    elif output is None:
        if split is not None:
            raise click.UsageError("--split needs -o: it says which rows to write.")
        _tell(name, as_json)
    else:
        _fetch(name, output, split, as_json)


def _list(as_json: bool) -> None:
    from latentbits.data.fetch import datasets

    infos = datasets()

    def show() -> None:
        lines = [[info.name, info.access, _shape(info.shape), info.description] for info in infos]
        show_table(["name", "access", "shape", "description"], lines)

    give({"datasets": [_as_dict(info) for info in infos]}, as_json, show)


def _tell(name: str, as_json: bool) -> None:
    info = _find(name)

    def show() -> None:
        facts = [(key, _shape(value) if key == "shape" else str(value)) for key, value in _as_dict(info).items()]
        show_table(["", ""], facts)

    give(_as_dict(info), as_json, show)


def _fetch(name: str, output: str, split: str | None, as_json: bool) -> None:
    from latentbits.data.fetch import load_dataset
    from latentbits.data.write import write

    info = _find(name)
    outputs = Outputs({"--out": output}, tables=("--out",))
    if info.access == "download":
        say(f"getting {name}, from the network if it is not here yet")
    found = load_dataset(name, split=split)

    def save(path: str) -> None:
        write(path, found.X, found.feature_names, found.labels)
        say(f"wrote {path}: {_shape(found.X.shape)}")

    output = outputs.write(output, save)
    give({"name": name, "split": split, "output": output, "shape": list(found.X.shape)}, as_json)
    outputs.finish()


def _find(name: str) -> Any:
    from latentbits.core.errors import DataError, did_you_mean
    from latentbits.data.fetch import datasets

    infos = {info.name: info for info in datasets()}
    if name not in infos:
        raise DataError(f"there is no data set {name!r}; known are {', '.join(infos)}.{did_you_mean(name, infos)}")
    return infos[name]


def _as_dict(info: Any) -> dict[str, Any]:
    return info._asdict()


def _shape(shape: Any) -> str:
    return " x ".join(str(size) for size in shape)
