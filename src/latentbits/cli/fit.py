"""`latentbits fit`: learn a model and write it to a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from latentbits.cli import causes, correlations, units
from latentbits.cli.console import common_options, give, say, told_warnings
from latentbits.cli.inputs import Reading, Rows, fit_named, load_rows, reading_options
from latentbits.cli.items import describe, show_items, write_items

__all__ = ["fit"]


# The options that not every model has; the others refuse them.
OWN_OPTIONS: dict[str, tuple[str, ...]] = {
    "mixture": ("components", "smoothing", "init"),
    "product": ("smoothing",),
    "latent-trait": (
        "components",
        "method",
        "equal_discrimination",
        "weight_prior",
        "samples",
        "nodes",
        "plain",
        "errors",
        "items",
    ),
    "clipped-gaussian": (
        "components",
        "noise",
        "no_bias",
        "correction",
        "extraction",
        "repair",
        "likelihood",
        "correlations",
        "errors",
        "items",
    ),
    "combination-machine": ("components", "kind", "learner", "epochs", "no_input_bias", "items"),
    "binary-sparse-coding": ("components", "max_active", "candidates", "init", "init_sparseness", "items"),
}
STARTS = {"mixture": ("random", "split"), "binary-sparse-coding": ("random", "mean", "data")}
WORDS = ("parallel", "positive")  # for a number of components, of a clipped Gaussian alone


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
    help="Latent trait, clipped Gaussian, combination machine and binary sparse coding: write the table of items "
    "(thresholds or biases, weights or components) to this file.",
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
@click.option("--no-bias", is_flag=True, help="Clipped Gaussian: take all means to be 1/2.")
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
    type=click.Choice(["auto", "gradient", "pursuit", "pursuit+gradient", "stochastic"]),
    default="auto",
    help="Combination machine: how to learn.  auto: pursuit+gradient (exact) up to 16 units, stochastic above.",
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
    help="Most iterations.  [default: 1000; combination-machine: 2000; binary-sparse-coding: 60, always gone through]",
)
@click.option("--max-time", type=click.FloatRange(0, min_open=True), help="Most seconds, all restarts together.")
@click.option(
    "--tol",
    type=float,
    help="Stop when iterations gain less, in nats per row.  "
    "[default: 1e-6; latent-trait: 1e-7; combination-machine: 1e-5]",
)
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
    binary sparse coding, which takes real numbers, sparseness, noise, and the causes with what they add to the columns.

    Ctrl-C ends the fit, keeps the best model so far, and exits with 130.
    """
    from latentbits.cli.cache import use_compile_cache

    _refuse_foreign(context, model)
    files = {"--output": output, "--items": own["items"], "--correlations": own["correlations"]}
    for option, path in files.items():  # before minutes of fitting
        if path is not None and not Path(path).parent.is_dir():
            raise ValueError(f"{option} {path}: there is no folder {Path(path).parent}")
    rows = load_rows(source, reading)
    use_compile_cache()
    estimator, what = _estimator(model, own)
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
    with told_warnings(rows.names):
        fit_named(estimator, rows)
    seconds = time.perf_counter() - began
    objective = _told(estimator, rows.shape[0], seconds)
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
    if model == "latent-trait":
        with told_warnings(rows.names):
            items = describe(estimator, rows, own["errors"])
        if own["items"] is not None:
            write_items(items, own["items"])
        give({**result, **items.as_dict()}, as_json, lambda: show_items(items))
    elif model == "clipped-gaussian":
        found = _write_clipped(estimator, rows, own)
        give({**result, **asdict(found)}, as_json, lambda: correlations.show(found))
    elif model == "combination-machine":
        machine = units.describe(estimator, rows)
        if own["items"] is not None:
            write_items(units.weights_of(estimator, rows), own["items"])
        give({**result, **asdict(machine)}, as_json, lambda: units.show(machine, estimator, rows))
    elif model == "binary-sparse-coding":
        code = causes.describe(estimator, rows)
        if own["items"] is not None:
            write_items(causes.components_of(estimator, rows), own["items"])
        give({**result, **asdict(code)}, as_json, lambda: causes.show(code, estimator, rows))
    else:
        give(result, as_json)
    if estimator.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # the model is safe; whoever pressed the key also stops the script around us


def _refuse_foreign(context: click.Context, model: str) -> None:
    """An option of another model would be without effect: better to say so."""
    for name in sorted({name for names in OWN_OPTIONS.values() for name in names} - set(OWN_OPTIONS[model])):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            *others, last = (other for other, names in OWN_OPTIONS.items() if name in names)
            able = f"{', '.join(others)} and {last}" if others else last
            raise click.UsageError(f"--{name.replace('_', '-')} is for --model {able}, not {model}.")
    size = context.params["components"]
    if size in WORDS and model != "clipped-gaussian":
        raise click.UsageError(f"--components {size} is for --model clipped-gaussian; {model} needs a number.")
    start, starts = context.params["init"], STARTS.get(model)
    if starts is not None and start not in starts:
        raise click.UsageError(f"--init {start} is not for --model {model}, which has {', '.join(starts)}.")


def _told(estimator: Any, n_rows: int, seconds: float) -> float | None:
    """Say how learning ended, and return its objective in nats; None of a model that has none."""
    if hasattr(estimator, "correlation_"):
        k, rest = estimator.n_components_, correlations.left_over(estimator)
        say(f"counted and diagonalised in {seconds:.1f} s")
        say(f"{k} component{'s' if k > 1 else ''}; left over of a correlation, root mean square: {rest:.4f}")
        return None
    # the history of a combination machine is first of other objectives, and at the end of the likelihood of all rows;
    # that of binary sparse coding first of heated posteriors
    is_last = hasattr(estimator, "hidden_bias_") or hasattr(estimator, "sparseness_")
    objective = float(estimator.history_[-1] if is_last else max(estimator.history_))
    state = {"converged": "converged", "completed": "done"}.get(estimator.stop_reason_, "stopped")
    say(f"{state} after {estimator.n_iter_} iterations and {seconds:.1f} s")
    say(f"objective: {objective:.6g} nats, {objective / n_rows:.6g} per row")
    return objective


def _write_clipped(estimator: Any, rows: Rows, own: Mapping[str, Any]) -> correlations.Found:
    if own["correlations"] is not None:
        correlations.write_correlations(estimator, rows, own["correlations"], own["errors"])
    if own["items"] is not None:
        write_items(correlations.weights_of(estimator, rows), own["items"])
    return correlations.describe(estimator)


def _estimator(model: str, own: Mapping[str, Any]) -> tuple[Any, str]:
    """The estimator with the options of its own, and its name in a sentence."""
    if model == "mixture":
        from latentbits.estimators.mixture import BernoulliMixture

        k = own["components"] or 8
        return BernoulliMixture(k, init=own["init"], smoothing=own["smoothing"]), f"a mixture of {k}"
    if model == "product":
        from latentbits.estimators.product import BernoulliProduct

        return BernoulliProduct(smoothing=own["smoothing"]), "independent bits"
    if model == "combination-machine":
        from latentbits.estimators.combination_machine import CombinationMachine

        m, bias = own["components"] or 8, not own["no_input_bias"]
        machine = CombinationMachine(
            m, kind=own["kind"], learner=own["learner"], n_epochs=own["epochs"], input_bias=bias
        )
        return machine, f"a combination machine of {m} unit{'s' if m > 1 else ''}"
    if model == "binary-sparse-coding":
        from latentbits.estimators.binary_sparse_coding import BinarySparseCoding

        h = own["components"] or 10
        code = BinarySparseCoding(
            h,
            max_active=own["max_active"],
            n_candidates=own["candidates"],
            init=own["init"],
            init_sparseness=own["init_sparseness"],
        )
        return code, f"binary sparse coding with {h} cause{'s' if h > 1 else ''}"
    if model == "clipped-gaussian":
        from latentbits.estimators.clipped_gaussian import ClippedGaussian

        names = ("noise", "correction", "extraction", "repair", "likelihood")
        size = own["components"] or 2
        clipped = ClippedGaussian(size, bias=not own["no_bias"], **{name: own[name] for name in names})
        words = {"parallel": "parallel analysis", "positive": "all positive components", "1": "1 component"}
        return clipped, f"a clipped Gaussian ({words.get(str(size), f'{size} components')})"
    from latentbits.estimators.latent_trait import LatentTrait

    q = own["components"] or 2
    estimator = LatentTrait(
        q,
        method=own["method"],
        equal_discrimination=own["equal_discrimination"],
        weight_prior=own["weight_prior"],
        n_samples=own["samples"],
        n_nodes=own["nodes"],
        accelerate=not own["plain"],
    )
    return estimator, "1 latent trait" if q == 1 else f"{q} latent traits"
