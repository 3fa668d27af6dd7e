"""`latentbits score`, `transform`, `complete` and `sample`: what a model file is good for."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import click

from latentbits.cli.console import common_options, give, print_table, say, told_warnings
from latentbits.cli.inputs import Reading, load_model, reading_options, to_apply
from latentbits.cli.outputs import Outputs

__all__ = ["complete", "sample", "score", "transform"]

FORMATS = "csv, tsv, npy, npz or parquet, by the extension"


def model_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("model_path", metavar="MODEL")(command)


def data_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("source", metavar="DATA")(command)


def output_option(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "-o",
        "--output",
        required=True,
        type=click.Path(dir_okay=False),
        help=f"Where the result goes ({FORMATS}).",
    )(command)


@click.command(short_help="How well a model describes a table.")
@model_argument
@data_argument
@click.option(
    "--per-row", type=click.Path(dir_okay=False), help=f"Also write log p(x), in nats, of each row ({FORMATS})."
)
@reading_options
@common_options
def score(model_path: str, source: str, reading: Reading, per_row: str | None, as_json: bool) -> None:
    """How well the model in file MODEL describes DATA (a file, or the name of a public data set).

    Prints the log-likelihood in nats, its mean, and bits per row (the fewer the better) with the standard error over
    rows, which includes what is estimated in them: log Z, integrals, rounding.  Where the model holds a row impossible,
    these are infinite (null in JSON), and the rows are counted.  Of a model of real numbers they are densities, which
    depend on the units, and are printed in nats alone; where binary sparse coding sums over some of the states of a
    row, it is told by how much that is too low.
    """
    import numpy as np

    from latentbits.cli.cache import use_compile_cache

    outputs = Outputs({"--per-row": per_row}, tables=("--per-row",))
    use_compile_cache()
    model, rows = to_apply(model_path, source, reading)
    with told_warnings(rows.names):
        known = model.log_likelihoods(rows.values)
    nats, loss = np.asarray(known.value, np.float64), float(getattr(model, "truncation_loss_", 0.0))
    common = 0.0 if loss else float(np.max(known.common_error))  # a loss has a sign, and is no standard error
    lost = float(np.mean(known.rounding))  # it may have one sign in all rows
    estimated = lost if hasattr(model, "truncation_loss_") else model.error_of_mean(known)
    estimated = estimated if math.isfinite(estimated) else 0.0  # unknown, or of rows that are impossible
    if per_row is not None:
        per_row = _write(outputs, per_row, nats[:, None], ["log_likelihood"], rows.labels)
    n_impossible = int(np.sum(np.isneginf(nats)))  # under a clipped Gaussian without noise
    several = len(nats) > 1 and not n_impossible
    over_rows = float(np.std(nats, ddof=1) / math.sqrt(len(nats))) if several else math.nan
    error = math.hypot(over_rows, estimated)
    mean = float(np.mean(nats))
    result = {
        "n_rows": len(nats),
        "n_impossible": n_impossible,
        "log_likelihood": float(np.sum(nats)),
        "nats_per_row": mean,
        "nats_per_row_error": error,
        "bits_per_row": -mean / math.log(2),
        "bits_per_row_error": error / math.log(2),
        "log_partition_error": common,
        "estimate_error": estimated,
        "rounding_error": lost,
        "truncation_loss": loss,
        "per_row": per_row,
    }

    def show() -> None:
        lines = [
            ["log-likelihood, nats", f"{result['log_likelihood']:.3f}", ""],
            ["nats per row", f"{mean:.4f}", "" if n_impossible else f"{error:.4f}"],
        ]
        if len(nats) * estimated >= 0.0005:
            lines[0][-1] = f"{len(nats) * estimated:.3f}"
        if common:
            lines.append(["  of that by log Z", "", f"{common:.4f}"])
        if lost:
            lines.append(["  of that by rounding", "", f"{lost:.4f}"])
        if loss:
            lines.append(["  too low by about", f"{loss:.4f}", ""])
        if not model.real_valued:
            bits = "" if n_impossible else f"{error / math.log(2):.4f}"
            lines.append(["bits per row", f"{-mean / math.log(2):.4f}", bits])
        if n_impossible:
            possible = nats[np.isfinite(nats)]
            lines.append(["rows of probability 0", f"{n_impossible} of {len(nats)}", ""])
            if len(possible):
                lines.append(["nats per row, of the others", f"{np.mean(possible):.4f}", ""])
        print_table(["", "value", "std. error"], lines)

    give(result, as_json, show)
    outputs.finish()


@click.command(short_help="The hidden causes of each row.")
@model_argument
@data_argument
@output_option
@click.option(
    "--scores",
    type=click.Choice(["eap", "map"]),
    default="eap",
    help="Posterior means or modes; of units and causes that are on or off, the most probable state.",
)
@click.option("--errors", is_flag=True, help="Latent traits and clipped Gaussians: also the error of each score.")
@reading_options
@common_options
def transform(
    model_path: str, source: str, reading: Reading, output: str, scores: str, errors: bool, as_json: bool
) -> None:
    """Write the hidden causes of each row of DATA, as the model in file MODEL sees them.

    Of a mixture: the probability of each component.  Of a latent trait model: the scores.  Of a clipped Gaussian: the
    posterior means of its Gaussian variables.  Of a combination machine, of binary sparse coding and of a noisy-OR
    network, all layers side by side: the probability that each unit or cause is on.
    """
    import numpy as np

    from latentbits.cli.cache import use_compile_cache
    from latentbits.core.errors import DataError

    outputs = Outputs({"--output": output}, tables=("--output",))
    use_compile_cache()
    model, rows = to_apply(model_path, source, reading)
    names = [str(name) for name in model.get_feature_names_out()]
    if not names:
        raise DataError(f"{model_path} is a {type(model).__name__}, which has no hidden causes to write")
    if errors or scores != "eap":
        on_or_off = any(hasattr(model, name) for name in ("hidden_bias_", "sparseness_", "biases_"))
        if not (on_or_off or hasattr(model, "components_")) or (on_or_off and errors):
            raise DataError(
                f"{'--errors is' if on_or_off else '--scores and --errors are'} for latent traits and clipped "
                f"Gaussians, but {model_path} is a {type(model).__name__}"
            )
        with told_warnings(rows.names):
            value, error = _scores(model, rows.values, scores)
        latents = np.column_stack([value, error]) if errors else value
        names += [f"{name}_error" for name in names] if errors else []
    else:
        with told_warnings(rows.names):
            latents = model.transform(rows.values)
    output = _write(outputs, output, latents, names, rows.labels)
    give({"output": output, "n_rows": len(latents), "columns": names}, as_json)
    outputs.finish()


def _scores(model: Any, values: Any, method: str) -> tuple[Any, Any]:
    """Scores of each row by posterior mean or mode, and their standard errors."""
    import numpy as np

    if hasattr(model, "scores"):
        found = model.scores(values, method)
        return found.value, found.error
    found = model.posterior(values)
    if not hasattr(found, "covariance"):
        return found.mode, None
    spread = np.sqrt(np.diagonal(found.covariance, axis1=1, axis2=2))
    return (found.mean if method == "eap" else found.mode), spread


@click.command(short_help="Fill in missing cells.")
@model_argument
@data_argument
@output_option
@click.option("--denoise", is_flag=True, help="Binary sparse coding: all cells as expected without noise.")
@reading_options
@common_options
def complete(model_path: str, source: str, reading: Reading, output: str, denoise: bool, as_json: bool) -> None:
    """Write DATA with each missing cell filled in by P(bit = 1 | the observed bits of its row).

    Of a model of real numbers: by the expected value.
    """
    import numpy as np

    from latentbits.cli.cache import use_compile_cache
    from latentbits.core.errors import DataError

    outputs = Outputs({"--output": output}, tables=("--output",))
    use_compile_cache()
    model, rows = to_apply(model_path, source, reading)
    stored = rows.values.data if hasattr(rows.values, "tocsr") else rows.values
    n_missing = int(np.isnan(stored).sum()) if stored.dtype.kind == "f" else 0
    if denoise and not hasattr(model, "denoise"):
        raise DataError(f"--denoise is for binary sparse coding, but {model_path} is a {type(model).__name__}")
    filled = model.denoise(rows.values) if denoise else model.complete(rows.values)
    kept = "" if denoise else ": the rows stay as they are"
    say(f"filled in {n_missing} cells" if n_missing else f"nothing is missing{kept}")
    output = _write(outputs, output, filled, rows.names, rows.labels)
    give({"output": output, "n_rows": len(filled), "n_filled": n_missing}, as_json)
    outputs.finish()


@click.command(short_help="Draw new rows from a model.")
@model_argument
@click.option("-n", "--rows", "n_rows", type=click.IntRange(1), default=100, help="Number of rows.")
@click.option("--seed", type=click.IntRange(0), default=0, help="The same seed gives the same rows.")
@output_option
@common_options
def sample(model_path: str, n_rows: int, seed: int, output: str, as_json: bool) -> None:
    """Draw new rows from the model in file MODEL."""
    from latentbits.cli.cache import use_compile_cache

    outputs = Outputs({"--output": output}, tables=("--output",))
    use_compile_cache()
    model, names = load_model(model_path)
    drawn = model.sample(n_rows, random_state=seed)
    output = _write(outputs, output, drawn, names)
    give({"output": output, "n_rows": len(drawn), "n_columns": drawn.shape[1], "seed": seed}, as_json)
    outputs.finish()


def _write(outputs: Outputs, path: str, values: Any, names: Any, labels: Any = None) -> str:
    """Write a table, and return where it is."""
    from latentbits.data.write import write

    def save(there: str) -> None:
        write(there, values, names, labels)
        say(f"wrote {there}: {values.shape[0]} rows x {values.shape[1]} columns")

    return outputs.write(path, save)
