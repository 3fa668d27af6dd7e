"""`latentbits sample`: new rows from a model."""

from __future__ import annotations

import click

from latentbits.cli.console import common_options, give
from latentbits.cli.inputs import load_model, model_argument
from latentbits.cli.outputs import Outputs, output_option, write_table

__all__ = ["sample"]


@click.command(short_help="Draw new rows from a model.")
@model_argument
@click.option("-n", "--rows", "n_rows", type=click.IntRange(1), default=100, help="Number of rows.")
@click.option("--seed", type=click.IntRange(0), default=0, help="The same seed gives the same rows.")
@output_option
@common_options
def sample(model_path: str, n_rows: int, seed: int, output: str, as_json: bool) -> None:
    """Draw new rows from the model in file MODEL."""
    outputs = Outputs({"--out": output}, tables=("--out",), read=(model_path,))
    model, names = load_model(model_path)
    drawn = model.sample(n_rows, random_state=seed)
    output = write_table(outputs, output, drawn, names)
    give({"output": output, "n_rows": len(drawn), "n_columns": drawn.shape[1], "seed": seed}, as_json)
    outputs.finish()
