"""`latentbits sizes`: a model in several sizes side by side, by its information criteria."""

from __future__ import annotations

import re
from typing import Any

import click

from latentbits.cli.console import common_options, give, printed_warnings, say
from latentbits.cli.fit import USUAL, Fit
from latentbits.cli.inputs import (
    Reading,
    check_bits,
    data_argument,
    labels_beside,
    load_rows,
    reading_options,
    weights_option,
)
from latentbits.cli.options import FamilyName, options_of, settings_of
from latentbits.cli.outputs import Outputs
from latentbits.cli.reports import EXTENSIONS, report_file, show_reports, write_reports
from latentbits.core.interrupts import keeping
from latentbits.estimators.families import family
from latentbits.estimators.family_record import Family

__all__ = ["sizes"]


class Sizes(Fit):
    """A command that has the options of the family that --model names, but for its size and its files."""

    def families(self) -> list[Family]:
        return [one for one in super().families() if one.size]

    def options_of(self, record: Family) -> list[click.Option]:
        left_out = {record.size, "errors", *record.files}
        return [option for option in options_of(record) if option.name not in left_out]


class SizeList(click.ParamType):
    """Numbers from 1, and ranges of them, with commas between."""

    name = "LIST"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        found: list[int] = []
        for part in value.split(","):
            ends = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
            first, last = (int(ends[1]), int(ends[2] or ends[1])) if ends else (0, 0)
            if not 1 <= first <= last:
                self.fail(f"{value!r} is no list of numbers from 1 such as 1-5 or 1,2,4,8.", param, ctx)
            found += range(first, last + 1)
        return tuple(dict.fromkeys(found))


@click.command(cls=Sizes, short_help="How many classes, traits or causes? Fits of several sizes side by side.")
@data_argument
@click.option("-m", "--model", type=FamilyName(alone=False), default=USUAL, help="What to learn.")
@click.option("--sizes", "asked", type=SizeList(), default="1-5", help="How many: 1-5, or 1,2,4,8.")
@click.option(
    "-o",
    "--out",
    "output",
    type=click.Path(dir_okay=False),
    help=f"Write the table to a file ({', '.join(EXTENSIONS)}, by the extension).",
)
@reading_options
@weights_option
@common_options
def sizes(
    source: str,
    reading: Reading,
    model: str,
    asked: tuple[int, ...],
    output: str | None,
    as_json: bool,
    **own: Any,
) -> None:
    """Fit a model to all of DATA in several sizes: parameters, log-likelihood, AIC, BIC, SABIC and CAIC of each.

    Criteria are those of a maximum of the likelihood: mixtures need --smoothing 0.  `latentbits compare` judges sizes
    by rows that were not learned from.
    """
    path = report_file(output, "--out")
    outputs = Outputs({"--out": path}, read=(source,))
    record = family(model)
    estimator = record.cls(**settings_of(record, own), verbose=1)
    rows = load_rows(source, reading, streams=True, guess=labels_beside(estimator))
    if not estimator.takes_reals:
        check_bits(rows, estimator.binarize)
    from latentbits.choosing.sizes import size_table

    say(f"fitting {', '.join(record.title(size) for size in asked)}")
    with printed_warnings(rows.names), keeping("no size was finished"):
        found = size_table(estimator, rows.values, asked, sample_weight=rows.weights)
    reports = {record.class_name: found}
    if path is not None:
        write_reports(outputs, path, reports)
    give({"source": source, "model": record.class_name, **found.to_json()}, as_json, lambda: show_reports(reports))
    if found.interrupted:
        raise KeyboardInterrupt  # the table is printed; Ctrl-C also stops the script around us
    outputs.finish()
