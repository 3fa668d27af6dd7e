"""`latentbits transform`: the hidden causes of each row."""

from __future__ import annotations

from typing import Any

import click

from latentbits.cli.console import common_options, give, printed_warnings
from latentbits.cli.inputs import Reading, data_argument, model_argument, reading_options, to_apply
from latentbits.cli.outputs import Outputs, output_option, write_table

__all__ = ["transform"]


@click.command(short_help="The hidden causes of each row.")
@model_argument
@data_argument
@output_option
@click.option(
    "--scores",
    type=click.Choice(["eap", "map", "ml", "wle"]),
    default="eap",
    help="Posterior means or modes; of units and causes that are on or off, the most probable state.  Of latent traits "
    "also maximum likelihood, and Warm's weighted likelihood.",
)
@click.option("--errors", is_flag=True, help="Also the error of each score, where the model has one.")
@reading_options
@common_options
def transform(
    model_path: str, source: str, reading: Reading, output: str, scores: str, errors: bool, as_json: bool
) -> None:
    """Write the hidden causes of each row of DATA, as the model in file MODEL sees them.

    A mixture gives the probability of each component; a latent trait or item response model, the scores; a clipped
    Gaussian, the posterior means of its Gaussian variables; a combination machine, binary sparse coding and a noisy-OR
    network (all layers side by side), the probability that each unit or cause is on.
    """
    import numpy as np

    from latentbits.core.errors import DataError

    outputs = Outputs({"--out": output}, tables=("--out",), read=(model_path, source))
    model, rows = to_apply(model_path, source, reading, streams=True)
    names = [str(name) for name in model.get_feature_names_out()]
    if not names:
        raise DataError(f"{model_path} is a {type(model).__name__}, which has no hidden causes to write")
    if scores in ("ml", "wle") and not hasattr(model, "scores"):
        raise DataError(f"--scores {scores} is for item-response, but {model_path} is a {type(model).__name__}")
    if errors or scores != "eap":
        with printed_warnings(rows.names):
            value, error = _scores(model, rows.values, scores)
        if errors and error is None:
            raise DataError(f"--errors: {model_path} is a {type(model).__name__}, whose causes have none")
        latents = np.column_stack([value, error]) if errors else value
        names += [f"{name}_error" for name in names] if errors else []
    else:
        with printed_warnings(rows.names):
            latents = model.transform(rows.values)
    output = write_table(outputs, output, latents, names, rows.labels)
    give({"output": output, "n_rows": len(latents), "columns": names}, as_json)
    outputs.finish()


def _scores(model: Any, values: Any, method: str) -> tuple[Any, Any]:
    """Score each row by posterior mean or mode, and their standard errors."""
    import numpy as np

    if hasattr(model, "scores"):
        found = model.scores(values, method)
        return found.value, found.error
    found = model.posterior(values)
    if not hasattr(found, "covariance"):
        return found.mode, None
    spread = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    return (found.mean if method == "eap" else found.mode), spread
