"""`latentbits fit`: learn a model and write it to a file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import click

from latentbits.cli import causes, correlations, layers, units
from latentbits.cli.console import common_options, give, say, told_warnings
from latentbits.cli.families import LEARNERS, OWN_OPTIONS, STARTS, WORDS, new_estimator, refuse_foreign
from latentbits.cli.inputs import Reading, fit_named, load_rows, reading_options
from latentbits.cli.items import Items, describe, show_items, write_items
from latentbits.cli.outputs import Outputs
from latentbits.cli.signals import keeping

__all__ = ["fit"]


class Size(click.ParamType):
    """A number from 1, or a word for how to find one."""

    def __init__(self, *words: str) -> None:
        self.words = words
        self.name = "|".join(("N", *words))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        text = str(value)
        if text in self.words:
            return text
        if not (text.isdecimal() and int(text) > 0):
            named = f"one of {' and '.join(self.words)}" if len(self.words) > 1 else self.words[0]
            self.fail(f"{text!r} is neither a number from 1 nor {named}.", param, ctx)
        return int(text)


class Sizes(click.ParamType):
    """Numbers from 1 with commas between."""

    name = "N,N,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        words = [word.strip() for word in str(value).split(",")]
        if not all(word.isdecimal() and int(word) > 0 for word in words):
            self.fail(f"{value!r} is no list of numbers from 1 such as 10,5.", param, ctx)
        return tuple(map(int, words))


@click.command(short_help="Learn a model and write it to a file.")
@click.argument("source", metavar="DATA")
@click.option("-m", "--model", type=click.Choice(list(OWN_OPTIONS)), default="mixture", help="What to learn.")
@click.option(
    "-k",
    "--components",
    type=Size(*WORDS),
    metavar="N|parallel|positive",
    help="Components of a mixture, latent dimensions, hidden units, or causes.  [default: 8; latent-trait and "
    "clipped-gaussian: 2; binary-sparse-coding: 10]  "
    "Clipped Gaussian: parallel takes those that are larger than chance would make them, positive all that it can.",
)
@click.option(
    "--layers",
    type=Sizes(),
    metavar="N,N,...",
    default="10,5",
    help="Noisy OR: hidden units of each layer, the lowest first.",
)
@click.option("--smoothing", type=click.FloatRange(0), default=1.0, help="Rows' worth of prior; 0: maximum likelihood.")
@click.option(
    "--init",
    type=click.Choice(list(dict.fromkeys(start for starts in STARTS.values() for start in starts))),
    default="random",
    help="How to start.  Mixture: random or split.  Binary sparse coding: random, the mean of the rows plus noise, or "
    "rows of the data.",
)
@click.option(
    "--method",
    type=click.Choice(["auto", "variational", "quadrature", "monte_carlo"]),
    default="auto",
    help="Latent trait: how to learn.  auto and quadrature: maximum likelihood.",
)
@click.option("--equal-discrimination", is_flag=True, help="Latent trait with -k 1: the one-parameter (Rasch) model.")
@click.option(
    "--weight-prior",
    type=click.FloatRange(0, min_open=True),
    metavar="SD",
    help="Latent trait: Gaussian prior on the weights, of this standard deviation.  [default: none]",
)
@click.option("--samples", type=click.IntRange(1), default=500, help="Latent trait, monte_carlo: draws of the latents.")
@click.option("--nodes", type=click.IntRange(1, 60), help="Latent trait: nodes a dimension.  [default: by the columns]")
@click.option("--plain", is_flag=True, help="Latent trait: EM step by step, without acceleration.")
@click.option("--errors", is_flag=True, help="Standard errors of a latent trait's items, or in --correlations.")
@click.option(
    "--items",
    type=click.Path(dir_okay=False),
    help="Latent trait, clipped Gaussian, combination machine, binary sparse coding and noisy OR: write the table of "
    "items (thresholds or biases, weights or components; of the lowest layer) to this file.",
)
@click.option(
    "--correlations",
    type=click.Path(dir_okay=False),
    help="Clipped Gaussian: write the matrix of tetrachoric correlations to this file.",
)
@click.option(
    "--noise",
    type=click.Choice(["unique", "none"]),
    default="unique",
    help="Clipped Gaussian: what the components leave over is noise of each column, or is dropped.",
)
@click.option(
    "--no-bias",
    is_flag=True,
    help="Clipped Gaussian: take all means to be 1/2.  Noisy OR: only the top layer has biases, as in the paper.",
)
@click.option(
    "--correction",
    type=click.FloatRange(0, 1, max_open=True),
    default=0.5,
    help="Clipped Gaussian: rows that an empty cell of a pair's table is taken to hold.",
)
@click.option(
    "--extraction",
    type=click.Choice(["auto", "components", "factors"]),
    default="auto",
    help="Clipped Gaussian: principal components, or factor analysis (minres), which auto takes with few columns.",
)
@click.option("--repair", is_flag=True, help="Clipped Gaussian: take the nearest correlation matrix.")
@click.option(
    "--likelihood",
    type=click.Choice(["importance", "ep"]),
    default="importance",
    help="Clipped Gaussian: how `score` will integrate; ep is faster, without an error.",
)
@click.option(
    "--kind",
    type=click.Choice(["binary", "real"]),
    default="binary",
    help="Combination machine: of bits, or of real numbers, which should be scaled to a noise of variance 1.",
)
@click.option(
    "--learner",
    type=click.Choice(list(dict.fromkeys(way for ways in LEARNERS.values() for way in ways))),
    default="auto",
    help="How to learn.  Combination machine: auto is pursuit+gradient (exact) up to 16 units, stochastic above; "
    "gradient, pursuit.  Noisy OR: auto is robust; paper is the paper's schedule.",
)
@click.option(
    "--epochs", type=click.IntRange(1), help="Combination machine: passes in batches of rows.  [default: 100]"
)
@click.option("--no-input-bias", is_flag=True, help="Combination machine: no biases of the columns, as in the paper.")
@click.option(
    "--max-active",
    type=Size("auto"),
    metavar="N|auto",
    default="auto",
    help="Binary sparse coding: most causes that are on together in a row; auto grows it while that pays.",
)
@click.option(
    "--candidates",
    type=Size("auto"),
    metavar="N|auto",
    default="auto",
    help="Binary sparse coding: causes of a row that are looked at together; the more, the slower.",
)
@click.option(
    "--init-sparseness",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    help="Binary sparse coding: causes that are on in a row, to start with.  [default: 5, or half of all]",
)
@click.option(
    "--restarts",
    type=click.IntRange(1),
    help="Fit so many times and keep the best.  [default: 1; binary-sparse-coding: 2]",
)
@click.option(
    "--max-iter",
    type=click.IntRange(0),
    help="Most iterations.  [default: 1000; combination-machine: 2000; binary-sparse-coding: 60, always gone through]  "
    "Noisy OR: most updates of each stage.",
)
@click.option("--max-time", type=click.FloatRange(0, min_open=True), help="Most seconds, all restarts together.")
@click.option(
    "--tol",
    type=float,
    help="Stop when iterations gain less, in nats per row.  "
    "[default: 1e-6; latent-trait: 1e-7; combination-machine: 1e-5; noisy-or: 1e-4]",
)
@click.option("--seed", type=click.IntRange(0), default=0, help="The same seed gives the same model.")
@click.option("--binarize", type=float, metavar="T", help="Values above T are 1, others 0.")
@click.option(
    "--dtype",
    type=click.Choice(["auto", "float32", "float64"]),
    default="auto",
    help="Precision of the rows; auto is float32 unless that loses digits that matter.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(dir_okay=False),
    default="model.safetensors",
    help="Where the model goes.",
)
@reading_options
@common_options
@click.pass_context
def fit(
    context: click.Context,
    source: str,
    reading: Reading,
    model: str,
    output: str,
    seed: int,
    restarts: int | None,
    max_iter: int | None,
    max_time: float | None,
    tol: float | None,
    binarize: float | None,
    dtype: str,
    as_json: bool,
    **own: Any,
) -> None:
    """Learn a model from DATA (a file, or the name of a public data set) and write it to a file.

    Of a latent trait model it prints the items with their discriminations and difficulties, and AIC and BIC; of a
    clipped Gaussian the spectrum of the correlations, and how many pairs were corrected or cannot be told; of a
    combination machine log Z with its error, nats per row, and the units with the columns that they act on most; of
    binary sparse coding, which takes real numbers, sparseness, noise, and the causes with what they add to the columns;
    of a noisy-OR network nats and bits per row, and layer by layer the units with what they turn on.

    Ctrl-C or SIGTERM ends the fit, keeps the best model so far, and exits with 130 or 143; a second one ends at once.
    """
    from latentbits.cli.cache import use_compile_cache

    refuse_foreign(context, model)
    files = {"--output": output, "--items": own["items"], "--correlations": own["correlations"]}
    outputs = Outputs(files, tables=("--items", "--correlations"))  # before minutes of fitting
    rows = load_rows(source, reading)
    use_compile_cache()
    estimator, what = new_estimator(model, own)
    given = {"n_init": restarts, "max_iter": max_iter, "tol": tol}  # else the estimator's own, which differ
    estimator.set_params(
        max_time=max_time,
        random_state=seed,
        binarize=binarize,
        dtype=dtype,
        verbose=1,
        **{name: value for name, value in given.items() if value is not None},
    )
    tries = estimator.n_init
    say(f"fitting {what}" + (f", best of {tries} restarts" if tries > 1 else ""))
    began = time.perf_counter()
    with told_warnings(rows.names), keeping(f"nothing was learned yet: {output} is not written"):
        fit_named(estimator, rows)
        seconds = time.perf_counter() - began
        objective = _told(estimator, rows.shape[0], seconds)
        written = outputs.write(output, lambda path: _save(estimator, path))
    result = {
        "output": written,
        "model": type(estimator).__name__,
        "n_rows": rows.shape[0],
        "n_columns": rows.shape[1],
        "n_iter": int(estimator.n_iter_),
        "converged": bool(estimator.converged_),
        "stop_reason": estimator.stop_reason_,
        "objective": objective,
        "seconds": seconds,
    }
    if model == "latent-trait":
        with told_warnings(rows.names):
            items = describe(estimator, rows, own["errors"])
        _write_items(outputs, items, own)
        give({**result, **items.as_dict()}, as_json, lambda: show_items(items))
    elif model == "clipped-gaussian":
        if own["correlations"] is not None:
            outputs.write(
                own["correlations"],
                lambda path: correlations.write_correlations(estimator, rows, path, own["errors"]),
            )
        _write_items(outputs, correlations.weights_of(estimator, rows), own)
        found = correlations.describe(estimator)
        give({**result, **asdict(found)}, as_json, lambda: correlations.show(found))
    elif model == "combination-machine":
        machine = units.describe(estimator, rows)
        _write_items(outputs, units.weights_of(estimator, rows), own)
        give({**result, **asdict(machine)}, as_json, lambda: units.show(machine, estimator, rows))
    elif model == "binary-sparse-coding":
        code = causes.describe(estimator, rows)
        _write_items(outputs, causes.components_of(estimator, rows), own)
        give({**result, **asdict(code)}, as_json, lambda: causes.show(code, estimator, rows))
    elif model == "noisy-or":
        network = layers.describe(estimator, rows)
        _write_items(outputs, layers.weights_of(estimator, rows), own)
        give({**result, **asdict(network)}, as_json, lambda: layers.show(network, estimator, rows))
    else:
        give(result, as_json)
    if estimator.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # the model is safe; whoever pressed the key also stops the script around us
    outputs.finish()


def _told(estimator: Any, n_rows: int, seconds: float) -> float | None:
    """Say how learning ended, and return its objective in nats; None of a model that has none."""
    if hasattr(estimator, "correlation_"):
        k, rest = estimator.n_components_, correlations.left_over(estimator)
        say(f"counted and diagonalised in {seconds:.1f} s")
        left = "" if rest != rest else f"; left over of a correlation, root mean square: {rest:.4f}"
        say(f"{k} component{'s' if k > 1 else ''}{left}")
        return None
    state = {"converged": "converged", "completed": "done"}.get(estimator.stop_reason_, "stopped")
    say(f"{state} after {estimator.n_iter_} iterations and {seconds:.1f} s")
    objective = estimator.objective_
    if math.isnan(objective):  # learning was cut short before anything was told of the rows
        return None
    say(f"objective: {objective:.6g} nats, {objective / n_rows:.6g} per row")
    return objective


def _save(estimator: Any, path: str) -> None:
    estimator.save(path)
    say(f"wrote {path}")


def _write_items(outputs: Outputs, items: Items, own: Mapping[str, Any]) -> None:
    if own["items"] is not None:
        outputs.write(own["items"], lambda path: write_items(items, path))
