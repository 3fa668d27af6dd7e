"""`latentbits complete`: missing cells filled in."""

from __future__ import annotations

import click

from latentbits.cli.console import common_options, give, say
from latentbits.cli.inputs import Reading, data_argument, model_argument, reading_options, to_apply
from latentbits.cli.outputs import Outputs, output_option, write_table

__all__ = ["complete"]


@click.command(short_help="Fill in missing cells.")
@model_argument
@data_argument
@output_option
@click.option("--denoise", is_flag=True, help="Binary sparse coding: all cells as expected without noise.")
@reading_options
@common_options
def complete(model_path: str, source: str, reading: Reading, output: str, denoise: bool, as_json: bool) -> None:
    """Write DATA with each missing cell filled in by P(bit = 1 | the observed bits of its row).

    For a model of real numbers: by the expected value.
    """
    import numpy as np

    from latentbits.core.errors import DataError

    outputs = Outputs({"--out": output}, tables=("--out",), read=(model_path, source))
    model, rows = to_apply(model_path, source, reading)
    stored = rows.values.data if hasattr(rows.values, "tocsr") else rows.values
    n_missing = int(np.isnan(stored).sum()) if stored.dtype.kind == "f" else 0
    if denoise and not hasattr(model, "denoise"):
        raise DataError(f"--denoise is for binary sparse coding, but {model_path} is a {type(model).__name__}")
    filled = model.denoise(rows.values) if denoise else model.complete(rows.values)
    kept = "" if denoise else ": the rows stay as they are"
    say(f"filled in {n_missing} cells" if n_missing else f"nothing is missing{kept}")
    output = write_table(outputs, output, filled, rows.names, rows.labels)
    give({"output": output, "n_rows": len(filled), "n_filled": n_missing}, as_json)
    outputs.finish()
