"""`latentbits fit`: learn a model and write it to a file."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from latentbits.cli.console import common_options, give, say, told_warnings
from latentbits.cli.inputs import Reading, fit_named, load_rows, reading_options

__all__ = ["fit"]


@click.command(short_help="Learn a model and write it to a file.")
@click.argument("source", metavar="DATA")
@click.option("-m", "--model", type=click.Choice(["mixture", "product"]), default="mixture", help="What to learn.")
@click.option("-k", "--components", type=click.IntRange(1), default=8, help="Mixture: number of components.")
@click.option("--smoothing", type=click.FloatRange(0), default=1.0, help="Rows' worth of prior; 0: maximum likelihood.")
@click.option("--init", type=click.Choice(["random", "split"]), default="random", help="Mixture: how to start.")
@click.option("--restarts", type=click.IntRange(1), default=1, help="Fit so many times and keep the best.")
@click.option("--max-iter", type=click.IntRange(0), default=1000, help="Most iterations.")
@click.option("--max-time", type=click.FloatRange(0, min_open=True), help="Most seconds, all restarts together.")
@click.option("--tol", type=float, default=1e-6, help="Stop when an iteration gains less, in nats per row.")
@click.option("--seed", type=click.IntRange(0), default=0, help="The same seed gives the same model.")
@click.option("--binarize", type=float, metavar="T", help="Values above T are 1, others 0.")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), default="float32", help="Precision of the rows.")
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    default="model.safetensors",
    help="Where the model goes.",
)
@reading_options
@common_options
def fit(
    source: str,
    reading: Reading,
    model: str,
    components: int,
    smoothing: float,
    init: str,
    restarts: int,
    max_iter: int,
    max_time: float | None,
    tol: float,
    seed: int,
    binarize: float | None,
    dtype: str,
    output: str,
    as_json: bool,
) -> None:
    """Learn a model from DATA (a file, or the name of a public data set) and write it to a file.

    Ctrl-C ends the fit, keeps the best model so far, and exits with 130.
    """
    from latentbits.cli.cache import use_compile_cache

    if not Path(output).parent.is_dir():
        raise ValueError(f"--output {output}: there is no folder {Path(output).parent}")  # before minutes of fitting
    rows = load_rows(source, reading)
    use_compile_cache()
    shared: dict[str, Any] = {
        "smoothing": smoothing,
        "n_init": restarts,
        "max_iter": max_iter,
        "max_time": max_time,
        "tol": tol,
        "random_state": seed,
        "binarize": binarize,
        "dtype": dtype,
        "verbose": 1,
    }
    if model == "mixture":
        from latentbits.estimators.mixture import BernoulliMixture

        estimator: Any = BernoulliMixture(components, init=init, **shared)
        say(f"fitting a mixture of {components}" + (f", best of {restarts} restarts" if restarts > 1 else ""))
    else:
        from latentbits.estimators.product import BernoulliProduct

        estimator = BernoulliProduct(**shared)
        say("fitting independent bits")
    began = time.perf_counter()
    with told_warnings():
        fit_named(estimator, rows)
    seconds = time.perf_counter() - began
    objective = float(max(estimator.history_))
    state = "converged" if estimator.converged_ else "stopped"
    say(f"{state} after {estimator.n_iter_} iterations and {seconds:.1f} s")
    say(f"objective: {objective:.6g} nats, {objective / rows.shape[0]:.6g} per row")
    estimator.save(output)
    say(f"wrote {output}")
    result = {
        "output": output,
        "model": type(estimator).__name__,
        "n_rows": rows.shape[0],
        "n_columns": rows.shape[1],
        "n_iter": int(estimator.n_iter_),
        "converged": bool(estimator.converged_),
        "stop_reason": estimator.stop_reason_,
        "objective": objective,
        "seconds": seconds,
    }
    give(result, as_json)
    if estimator.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # the model is safe; whoever pressed the key also stops the script around us
