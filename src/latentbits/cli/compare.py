"""`latentbits compare`: which model describes rows that it has not seen in the fewest bits?"""

from __future__ import annotations

from typing import Any

import click

from latentbits.cli.completion import tables_and_sets
from latentbits.cli.console import check_checkpoint, checkpoint_options, common_options, give, printed_warnings, say
from latentbits.cli.inputs import Reading, check_bits, load_rows, reading_options, weights_option
from latentbits.cli.options import size_from
from latentbits.cli.reports import show_tables
from latentbits.core.interrupts import keeping
from latentbits.estimators.families import families, family_of
from latentbits.estimators.family_record import Family

__all__ = ["compare", "named_models"]


def _words() -> list[str]:
    """List what --models may hold."""
    return [f"{one.name}:K" if one.size else one.name for one in families("bits")]


@click.command(short_help="Which model describes unseen rows in the fewest bits?")
@click.argument("source", metavar="[DATA]", default="digits", shell_complete=tables_and_sets)
@click.option(
    "--models",
    metavar="LIST",
    help=f"Names with commas between: {', '.join(_words())}; K is a number, of a clipped Gaussian also parallel or "
    "positive, and without it the usual sizes are taken.  [default: all]",
)
@click.option("--restarts", type=click.IntRange(1), default=1, help="Fits of each model; the best is kept.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the split and of the fits.")
@click.option("--binarize", type=float, metavar="T", help="Values above T are 1, others 0.")
@click.option("--folds", type=click.IntRange(2), help="K-fold cross-validation instead of one split.")
@click.option(
    "--test-size",
    type=click.FloatRange(0, 1, min_open=True, max_open=True),
    default=0.25,
    help="Share of rows that is held out.",
)
@click.option(
    "--stack", is_flag=True, help="Also the mixture of all models, its weights chosen on other rows than those scored."
)
@checkpoint_options
@reading_options
@weights_option
@common_options
def compare(
    source: str,
    reading: Reading,
    models: str | None,
    restarts: int,
    seed: int,
    binarize: float | None,
    folds: int | None,
    test_size: float,
    stack: bool,
    checkpoint: str | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Fit several models to a part of DATA and score them on the rest, in bits per row.

    DATA is a file or the name of a public data set; without it, the bundled digits.

    Ctrl-C ends it, prints the table of the models that are finished, and exits with 130.
    """
    check_checkpoint(checkpoint, resume)
    rows = load_rows(source, reading, guess="numbers" if binarize is None else "text")
    check_bits(rows, binarize)
    from latentbits.choosing.compare import compare as run_comparison

    named = named_models(models, round(rows.n_counted), seed, restarts, binarize)
    held_out = f"{folds} folds" if folds else f"{test_size:.0%} of the rows held out"
    say(f"fitting {', '.join(named)} ({held_out})")
    with keeping("no model was finished"):
        with printed_warnings(rows.names):
            found = run_comparison(
                rows.values,
                named,
                sample_weight=rows.weights,
                test_size=test_size,
                n_folds=folds,
                random_state=seed,
                checkpoint=checkpoint,
                stack=stack,
            )
        give({"source": source, **found.to_json()}, as_json, lambda: show_tables(found.shown()))
    if found.interrupted:
        raise KeyboardInterrupt  # the table is printed; Ctrl-C also stops the script around us


def named_models(text: str | None, n_rows: int, seed: int, restarts: int, binarize: float | None) -> dict[str, Any]:
    """Make the estimators that --models names, each under a name for people.

    `text`: the value of --models; None takes the default set.  `n_rows`: of the table; it limits the sizes that are
    tried by default.  `seed`, `restarts`, `binarize`: given to every estimator.
    """
    from latentbits.choosing.compare import default_models

    chosen: dict[str, Any] = default_models(n_rows) if text is None else {}
    for word in [] if text is None else text.split(","):
        name, _, size = word.strip().partition(":")
        record = _family_of_bits(name, word.strip())
        if size:
            value = _size(record, size, word.strip())
            chosen[record.title(value)] = record.new(value)
        else:
            chosen.update(default_models(n_rows, only=[name]))
    if not chosen:
        raise ValueError(f"--models: {n_rows} rows are too few for the default sizes; name them, e.g. mixture:2")
    for estimator in chosen.values():
        tries = restarts if family_of(estimator).restarts else 1
        estimator.set_params(n_init=tries, random_state=seed, binarize=binarize, verbose=1)
    return chosen


def _family_of_bits(name: str, word: str) -> Family:
    known = {one.name: one for one in families()}
    if name in known and "bits" not in known[name].rows:
        raise click.UsageError(
            f"--models: {word!r} is a model of real numbers, whose densities cannot be compared with probabilities of "
            "bits; `latentbits fit` and `score` take it"
        )
    if name not in known:
        raise _unknown(word)
    return known[name]


def _size(record: Family, text: str, word: str) -> Any:
    """Read a size of the family, as `latentbits fit` takes it."""
    try:
        return size_from(record, text)
    except click.UsageError as error:
        raise _unknown(word) from error


def _unknown(word: str) -> click.UsageError:
    return click.UsageError(
        f"--models: {word!r} is none of {', '.join(_words())} (K a number from 1, of a clipped Gaussian also parallel "
        "or positive; or the name alone)"
    )
