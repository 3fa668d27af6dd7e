"""`latentbits explore`: from a table to a page and three sentences."""

from __future__ import annotations

import functools
import math
import sys
import webbrowser
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click

from latentbits.cli.completion import tables_and_sets
from latentbits.cli.console import (
    check_checkpoint,
    checkpoint_options,
    common_options,
    give,
    printed_warnings,
    say,
    show_line,
)
from latentbits.cli.figures import check_figures, draw_figures, figure_options
from latentbits.cli.inputs import Reading, Rows, load_rows, reading_options, weights_option
from latentbits.cli.options import FamilyName, Numbers
from latentbits.cli.outputs import Outputs
from latentbits.cli.reports import show_tables
from latentbits.core.interrupts import keeping
from latentbits.core.printable import printable
from latentbits.estimators.families import families, family

__all__ = ["explore"]

PAGES = (".html", ".htm")
DEFAULT_OUT = "latentbits-explore.html"
NAME_IN_FOLDER = "explore.html"
FIGURES = ("explore", "map", "loadings", "table", "misfit")
UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}


class ImageShape(click.ParamType):
    """HxW, two numbers."""

    name = "HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        height, _, width = str(value).lower().partition("x")
        if not (height.isdecimal() and width.isdecimal() and int(height) * int(width) > 0):
            self.fail(f"{value!r} is not a height and a width such as 8x8.", param, ctx)
        return int(height), int(width)


class Seconds(click.ParamType):
    """A time such as 60s, 2m or 90; "none" is infinity."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        if isinstance(value, float):
            return value
        text = str(value).strip().lower()
        if text == "none":
            return math.inf
        try:
            seconds = float(text.rstrip("smh")) * UNITS[text[-1] if text[-1:] in UNITS else "s"]
        except ValueError:
            seconds = math.nan
        if not (0 < seconds < math.inf) or len(text) - len(text.rstrip("smh")) > 1:
            self.fail(f"{value!r} is not a time such as 60s, 2m or none.", param, ctx)
        return seconds


@click.command(short_help="From a table to a page that shows what is hidden in it (start here).")
@click.argument("source", metavar="[DATA]", default="digits", shell_complete=tables_and_sets)
@click.option(
    "--model", type=FamilyName("auto", alone=False), default="auto", help="All models that suit (auto), or one by name."
)
@click.option("--layers", type=Numbers(), help="With --model noisy-or: units of each layer, lowest first.")
@click.option(
    "--maps",
    "n_maps",
    type=click.IntRange(1, 12),  # several_maps.MOST_MAPS, without importing it
    default=1,
    help="With more than one: also a map of this many maps, each row on one of them, that one can step into.",
)
@click.option("--image", type=ImageShape(), help="Show each row as an image of this height and width, e.g. 8x8.")
@click.option(
    "-o", "--out", type=click.Path(), default=DEFAULT_OUT, help="The page: a file that ends in .html, or a folder."
)
@click.option(
    "--budget", type=Seconds(), default="60s", help="Time for the comparison of models: 60s, 2m; none for no limit."
)
@click.option("--open", "open_page", is_flag=True, help="Open the page in a browser.")
@figure_options
@click.option("--binarize", type=float, metavar="T", help="Values above T are 1, others 0.")
@click.option("--real", is_flag=True, help="Take whole numbers, too, as real numbers; fractions always are.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Seed of the splits and of the fits.")
@checkpoint_options
@functools.partial(
    reading_options,
    labels_help="A column that says what rows are, beside those that hold no bits: it can colour the map, and no "
    "model sees it",
)
@weights_option
@common_options
def explore(
    source: str,
    reading: Reading,
    model: str,
    layers: tuple[int, ...] | None,
    n_maps: int,
    image: tuple[int, int] | None,
    out: str,
    budget: float,
    open_page: bool,
    figures: str | None,
    figure_format: str,
    binarize: float | None,
    real: bool,
    seed: int,
    checkpoint: str | None,
    resume: bool,
    as_json: bool,
) -> None:
    """Find out what is hidden in DATA, and write one page that shows it.

    DATA is a file or the name of a public data set; without it, the bundled digits.  Models of all families that suit
    are compared within the budget, each with the number of causes that describes unseen rows best.  The page is one
    file, which needs no network.

    Ctrl-C ends the fits, writes the page of those that are finished, and exits with 130.
    """
    if layers is not None and (model == "auto" or not family(model).has_layers):
        able = " or ".join(one.name for one in families() if one.has_layers)
        raise click.UsageError(f"--layers needs --model {able}")
    path = _page_path(out)
    outputs = Outputs({"--out": path})
    check_figures(figures, FIGURES, figure_format, "explore")
    check_checkpoint(checkpoint, resume)
    numbers = real or binarize is not None or image is not None  # all that are there are wanted
    rows = load_rows(source, reading, guess="text" if numbers else "numbers")
    labels = _labels(rows, reading)
    from latentbits.explorer.explore import explore as run
    from latentbits.explorer.page import write_page

    limit = None if budget == math.inf else budget
    if limit is not None and limit < 20.0:
        say(
            f"--budget {limit:g}s is for fits, and none is begun after it but the first: compiling their programs, "
            "about 10 s once on a machine, and making the page come in addition"
        )
    nothing = f"nothing was finished that a page could show: {path} is not written"

    def save(there: str) -> None:
        write_page(found.content, there)
        say(f"wrote {there}")

    def save_first(content: Any) -> None:
        write_page(content, path)
        say(f"wrote a first page, {path}; the search goes on")

    with keeping(nothing):
        with printed_warnings(rows.all_names), _progress(limit) as report:
            found = run(
                rows.values,
                model=model if layers is None else family(model).new(layers),
                labels=labels,
                image_shape=image or rows.image_shape,
                column_names=rows.names,
                row_names=None if "" not in rows.labels else [str(name) for name in rows.labels[""]],
                source=Path(source).name,
                out=None,
                budget=limit,
                binarize=binarize,
                real=real or None,
                random_state=seed,
                report=report,
                checkpoint=checkpoint,
                sample_weight=rows.weights,
                n_maps=n_maps,
                soon=save_first,
            )
        path = Path(outputs.write(str(path), save))
    if open_page:
        webbrowser.open(path.resolve().as_uri())
    with printed_warnings():
        makers = {} if figures is None else _makers(found)
        drawn = draw_figures(makers, figures, figure_format, outputs)
    searched = found.search
    for name, why in searched.cut_short.items():
        say(f"{name}: {why}")
    if searched.n_used < searched.n_rows:
        say(f"models were compared on a sample of {searched.n_used} of the {searched.n_rows} rows")
    kept = len(found.content.table.columns)
    if kept < rows.shape[1]:
        say(f"of the {rows.shape[1]} columns the page and its models have the {kept} that vary most")

    say(f"{searched.seconds_compiling:.0f} of {searched.seconds:.0f} s went into compiling programs, which are kept")

    def show() -> None:
        show_tables(searched.comparison.shown())
        for line in (*found.findings, *found.notes, f"Page: {path}", *(f"Figure: {figure}" for figure in drawn)):
            show_line(line)

    result = {
        "source": source,
        **searched.comparison.to_json(),
        "sizes": dict(searched.sizes),
        "left_out": dict(searched.left_out),
        "cut_short": dict(searched.cut_short),
        "n_used": searched.n_used,
        "trials": {name: [trial.size for trial in trials] for name, trials in searched.trials.items()},
        "seconds": searched.seconds,
        "seconds_compiling": searched.seconds_compiling,
        "page": str(path),
        "figures": [str(figure) for figure in drawn],
        "findings": list(found.findings),
        "notes": list(found.notes),
        "map_converged": bool(found.map._finished),
    }
    give(result, as_json, show)
    outputs.finish()
    if searched.interrupted:
        raise KeyboardInterrupt  # the page is safe; Ctrl-C also stops the script around us


def _page_path(out: str) -> Path:
    """Give the path of the page, and make its folder now, so that a bad name fails before the fits."""
    path = Path(out)
    if path.suffix.lower() not in PAGES or path.is_dir():
        if path.suffix and not path.is_dir():
            raise click.UsageError(f"--out {out}: a page is written as .html; --figures draws pictures")
        path = path / NAME_IN_FOLDER
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _labels(rows: Rows, reading: Reading) -> dict[str | int, Any]:
    """Give what is known of the rows, by name (or number, without names); what --labels names comes first."""
    from latentbits.core.errors import DataError

    known = {name: values for name, values in rows.labels.items() if name}
    for name in reading.labels:
        if name not in known and not name.isdecimal():
            there = ", ".join(known) or "none"
            raise DataError(f"--labels {name}: {rows.source} has no such column of labels; there is {there}")
    first = {name: known[name] for name in reading.labels if name in known}
    nameless = rows.names is None
    return {int(name) if nameless and name.isdecimal() else name: cells for name, cells in (first | known).items()}


@contextmanager
def _progress(budget: float | None) -> Iterator[Callable[[str, float], None]]:
    """Show what is being done: in a terminal beside a clock, elsewhere a line for each step."""
    begun: list[str] = []

    def line(what: str, seconds: float) -> None:
        if begun[-1:] != [what]:  # folds fit the same model again
            begun.append(what)
            say(f"{seconds:6.1f} s  {what}")

    if not sys.stderr.isatty():
        yield line
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("starting", total=budget)

        def show(what: str, seconds: float) -> None:
            bar.update(task, description=printable(what), completed=seconds if budget is None else min(seconds, budget))

        yield show


def _makers(found: Any) -> dict[str, Callable[[], Any]]:
    """Give by name the functions that draw the figures for print."""
    from latentbits import plot

    pictures = (plot.exploration, plot.map, plot.loadings, plot.table, plot.misfit)
    makers: dict[str, Callable[[], Any]] = {
        name: functools.partial(picture, found) for name, picture in zip(FIGURES, pictures, strict=True)
    }
    if found.content.misfit is None:
        del makers["misfit"]
        say("no figure of what fits worst: the fit of the map had not converged")
    return makers
