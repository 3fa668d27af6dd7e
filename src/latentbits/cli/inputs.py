"""Inputs of a command: a table from a file or a public set, and its columns put in a model's order."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latentbits.cli.completion import model_files, tables_and_sets
from latentbits.cli.console import own_advice, printed_warnings, say

if TYPE_CHECKING:
    from latentbits.data.columns import ColumnsError, Odd

__all__ = [
    "ARGUMENTS",
    "Reading",
    "Rows",
    "align",
    "check_bits",
    "data_argument",
    "fit_named",
    "labels_beside",
    "load_model",
    "load_rows",
    "model_argument",
    "reading_options",
    "to_apply",
    "weights_option",
    "without_names",
]

ARGUMENTS = "latentbits.arguments"  # where a context has what the tool was called with


@dataclass(frozen=True)
class Reading:
    """How to read DATA: the options that all commands share."""

    header: bool | None = None
    missing: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    key: str | None = None
    split: str | None = None
    weights: str | None = None


@dataclass(frozen=True, eq=False)
class Rows:
    """A table, and what is known of its columns."""

    source: str
    values: Any
    names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None
    labels: Mapping[str, Any] = field(default_factory=dict)  # what goes with the rows: ids, groups, names
    weights: Any = None  # how often each row counts; None for once

    @property
    def n_counted(self) -> float:
        """Rows, each as often as it counts."""
        return float(self.shape[0] if self.weights is None else self.weights.sum())

    @property
    def shape(self) -> tuple[int, int]:
        return self.values.shape

    @property
    def all_names(self) -> tuple[str, ...]:
        """Names of the columns; their numbers where they have none."""
        return self.names or tuple(f"column {j}" for j in range(self.shape[1]))


def model_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("model_path", metavar="MODEL", shell_complete=model_files)(command)


def data_argument(command: Callable[..., Any]) -> Callable[..., Any]:
    return click.argument("source", metavar="DATA", shell_complete=tables_and_sets)(command)


def reading_options(
    command: Callable[..., Any], labels_help: str = "A column that holds no bits, to be left out"
) -> Callable[..., Any]:
    """Add the options of `Reading`, handed to the command as one argument `reading`."""

    @click.option(
        "--header/--no-header",
        default=None,
        show_default=False,
        help="Of text files: whether the first line holds names.  [default: look]",
    )
    @click.option(
        "--missing",
        metavar="MARK",
        multiple=True,
        help="One more mark of a missing cell, e.g. -1; empty, NA, N/A, NaN, ? and . always are.  Repeatable.",
    )
    @click.option(
        "--labels",
        metavar="COLUMN",
        multiple=True,
        help=f"{labels_help}, by name or by number from 0.  May be repeated.",
    )
    @click.option("--key", metavar="NAME", help="Which array of an npz or zarr file.")
    @click.option("--split", metavar="NAME", help="Only these rows of a public data set: train, valid or test.")
    @functools.wraps(command)
    def wrapped(
        *args: Any,
        header: bool | None,
        missing: tuple[str, ...],
        labels: tuple[str, ...],
        key: str | None,
        split: str | None,
        **others: Any,
    ) -> Any:
        return command(*args, reading=Reading(header, missing, labels, key, split), **others)

    return wrapped


def weights_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the option --weights, which goes into `reading`."""

    @click.option(
        "--weights",
        metavar="COLUMN",
        help="A column that holds no bits, but how often each row counts, by name or by number from 0.",
    )
    @functools.wraps(command)
    def wrapped(*args: Any, reading: Reading, weights: str | None, **others: Any) -> Any:
        return command(*args, reading=replace(reading, weights=weights), **others)

    return wrapped


def load_rows(source: str, reading: Reading, *, streams: bool = False, guess: str = "nothing") -> Rows:
    """Load the table that DATA names: a file if there is one of that name, else a public set.

    `streams` says that the command reads rows by passes alone: large files, and several, then stay on the disk.
    `guess` says which columns that hold no bits are labels, named or not: "nothing", "text", or "numbers" too.
    """
    from latentbits.core.errors import DataError, did_you_mean, did_you_mean_file
    from latentbits.data.columns import ColumnsError
    from latentbits.data.fetch import datasets

    known = [info.name for info in datasets()]
    if not Path(source).exists() and source in known:
        rows = _load_set(source, reading)
    elif Path(source).exists() or Path(source).suffix:
        try:
            rows = (_left_on_disk(source, reading) if streams else None) or _load_file(source, reading, guess)
        except ColumnsError as error:
            raise DataError(_with_command(error)) from error
    else:
        close = did_you_mean(source, known) or did_you_mean_file(source)
        raise DataError(
            f"{source}: there is neither a file nor a public data set of that name "
            f"(`latentbits data` lists the sets).{close}"
        )
    n, d = rows.shape
    counted = "" if rows.weights is None else f", which count as {rows.n_counted:g}"
    say(f"reading {source}: {_counted(n, 'row')} x {_counted(d, 'column')}, {_missing(rows.values)}{counted}")
    return rows


def _counted(n: int, what: str) -> str:
    return f"{n} {what}{'' if n == 1 else 's'}"


def _left_on_disk(source: str, reading: Reading) -> Rows | None:
    """Open files that a pattern finds, or a large one; None where the options are those of a reading in memory."""
    from latentbits.data.read import MMAP_BYTES
    from latentbits.data.row_files import open_files

    pattern = not Path(source).exists() and any(mark in source for mark in "*?[")
    named = reading.missing or reading.labels or reading.key or reading.split or reading.weights
    if named or reading.header is not None or not (pattern or Path(source).suffix.lower() in (".parquet", ".zarr")):
        return None
    files = open_files(source)
    if not pattern and files.shape[0] * files.shape[1] <= MMAP_BYTES:
        return None
    return Rows(source, files.unnamed(), files.names)


def _with_command(error: ColumnsError) -> str:
    """Say what is wrong with columns, and give the command that would work."""
    options = [word for mark in error.missing for word in ("--missing", mark)]
    options += [word for label in error.labels for word in ("--labels", label)]
    context = click.get_current_context().find_root()
    command = shlex.join(["latentbits", *context.meta.get(ARGUMENTS, ()), *options])
    whether = " and ".join(error.conditions.values())
    return " ".join(
        [error.what, *([f"If {whether}: {command}."] if options else []), *map(own_advice, error.hints)]
    ).strip()


def _load_file(source: str, reading: Reading, guess: str) -> Rows:
    from latentbits.core.errors import DataError
    from latentbits.data.read import MISSING, read

    if reading.split is not None:
        raise click.UsageError(f"--split is for public data sets, but {source} is a file")
    own = () if reading.weights is None else (reading.weights,)
    with printed_warnings():
        table = read(
            source,
            header="auto" if reading.header is None else reading.header,
            missing=(*MISSING, *reading.missing),
            key=reading.key,
            labels=(*reading.labels, *own),
            keep_text=guess != "nothing",
        )
    if reading.header is None:
        _tell_of_a_first_row(source, table)
    # a column without a name is how csv files hold the names of rows
    labels_of_rows = {} if table.row_names is None else {"": table.row_names}
    labels, weights = dict(table.labels), None
    if reading.weights is not None:
        asked = [name for name in labels if name not in {one.label for one in table.odd}]
        if not asked:  # arrays have bits alone
            raise DataError(f"{source}: --weights names a column of text or parquet files")
        if len(asked) <= len(set(reading.labels)):
            raise click.UsageError(f"{source}: --weights and --labels both name column {reading.weights!r}")
        weights = _weights(source, reading.weights, labels.pop(asked[-1]))
    rows = Rows(source, table.values, table.feature_names, labels={**labels_of_rows, **labels}, weights=weights)
    if guess == "nothing":
        return rows
    places = [j for j in range(table.shape[1] + len(table.labels)) if str(j) not in table.labels]
    return _with_labels(rows, places, table.odd, guess == "numbers")


def _with_labels(rows: Rows, places: Sequence[int], text: Sequence[Odd], numbers_too: bool) -> Rows:
    """Take columns of numbers that are labels out of the table; `places` are those of its columns in the file."""
    import numpy as np

    from latentbits.data.columns import of_numbers, refusal, settle, taken_as_labels

    values, odd = rows.values, {}
    if type(values) is np.ndarray and values.dtype.kind == "f":
        labels = rows.names or tuple(str(place) for place in places)
        called = rows.names or tuple(f"column {place}" for place in places)
        found = (of_numbers(labels[j], called[j], values[:, j]) for j in range(values.shape[1]))
        odd = {j: one for j, one in enumerate(found) if one is not None}
    settled = settle((*text, *odd.values()), values.shape[1] + len(text), numbers_too=numbers_too)
    if settled.refused:
        raise refusal(f"{rows.source}: ", settled.refused, settled.labels)
    if settled.labels:
        say(taken_as_labels(settled.labels))
    moved = {j: one for j, one in odd.items() if one in settled.labels}
    kept = [j for j in range(values.shape[1]) if j not in moved]
    return replace(
        rows,
        values=values[:, kept] if moved else values,
        names=None if rows.names is None else tuple(rows.names[j] for j in kept),
        labels={**rows.labels, **{one.label: _numbers(values[:, j]) for j, one in moved.items()}},
    )


def _numbers(values: Any) -> Any:
    """Write numbers as labels: whole ones without a point, None where there is none."""
    import numpy as np

    cells = [int(cell) if cell.is_integer() else None if cell != cell else cell for cell in values.tolist()]
    return np.array(cells, dtype=object)


def _weights(source: str, column: str, cells: Any) -> Any:
    """Read how often each row counts, from the cells of a column."""
    import numpy as np

    from latentbits.core.errors import DataError

    weights = np.full(len(cells), np.nan)
    for row, cell in enumerate(cells):
        try:
            weights[row] = float(cell)
        except (TypeError, ValueError):
            pass
        if not (np.isfinite(weights[row]) and weights[row] >= 0):
            raise DataError(
                f"{source}: a weight must be a number from 0, but row {row} of column {column!r} (--weights) holds "
                f"{str(cell)!r}"
            )
    return weights


def _tell_of_a_first_row(source: str, table: Any) -> None:
    """Warn of a first line 0, or 0 and 1, of one or two columns: it can be a row, or the names that pandas gives."""
    from latentbits.data.text import is_text

    d = table.shape[1]
    if is_text(source) and table.feature_names is None and d <= 2 and table.values[0].tolist() == list(range(d)):
        line = "0,1" if d == 2 else "0"
        say(f"{source}: the first line ({line}) is taken for a row; --header says that it holds names")


def _load_set(name: str, reading: Reading) -> Rows:
    from latentbits.core.errors import DataError
    from latentbits.data.fetch import load_dataset

    if reading.weights is not None:
        raise click.UsageError(f"--weights is for files, and {name} is a public data set without such a column")
    found = load_dataset(name, split=reading.split)
    if found.X.ndim != 2:
        raise DataError(f"{name} holds whole images of shape {found.X.shape[1:]}, not a table of bits")
    return Rows(name, found.X, found.feature_names, found.image_shape, found.labels)


def _missing(values: Any) -> str:
    """Say in words how many cells are missing; a file that stays on the disk is not read for it."""
    import numpy as np

    from latentbits.data.row_files import RowFiles

    if isinstance(values, np.memmap | RowFiles):
        return "left on the disk"
    stored = values.data if hasattr(values, "tocsr") else values
    return f"{int(np.isnan(stored).sum()) if stored.dtype.kind == 'f' else 0} missing"


# --- names of columns ---
# pandas is optional, so tables are plain arrays here, and these functions alone keep the names.


def check_bits(rows: Rows, binarize: float | None) -> None:
    """Refuse what is no bit, by the row of the file and the name of the column.

    An estimator would refuse it too, but it knows neither the names nor which rows a split has given it.  A table that
    is sparse or on the disk is left to the estimator: it is not worth one more pass.
    """
    import numpy as np

    from latentbits.estimators.tables.encoding import encode_bits

    if type(rows.values) is np.ndarray:
        encode_bits(rows.values, binarize=binarize, names=rows.names)


def labels_beside(estimator: Any) -> str:
    """Say which columns are labels beside those of an estimator: numbers are where it takes bits as they are."""
    return "text" if estimator.takes_reals or getattr(estimator, "binarize", None) is not None else "numbers"


def fit_named(estimator: Any, rows: Rows, checkpoint: Any = None) -> Any:
    """Fit, with the names of the columns kept as if they had come in a frame."""
    import numpy as np

    if not estimator.takes_reals:
        check_bits(rows, estimator.binarize)
    estimator.fit(rows.values, sample_weight=rows.weights, checkpoint=checkpoint)
    if rows.names is not None:
        estimator.feature_names_in_ = np.array(rows.names, dtype=object)
    return estimator


@contextmanager
def without_names(estimator: Any) -> Iterator[Any]:
    """Use the estimator on tables without names, of each of which scikit-learn would warn."""
    names = estimator.__dict__.pop("feature_names_in_", None)
    try:
        yield estimator
    finally:
        if names is not None:
            estimator.feature_names_in_ = names


def align(rows: Rows, n_columns: int, names: Sequence[str] | None) -> Rows:
    """Put the columns of the table in the order of the model's, or an error that says how they differ.

    `rows`: the table.  `n_columns`, `names`: of the table that the model was fitted to; names may be None.
    """
    from latentbits.core.errors import DataError
    from latentbits.core.printable import listed
    from latentbits.data.row_files import RowFiles

    if names is not None and rows.names is not None:
        absent = [name for name in names if name not in set(rows.names)]
        unknown = [name for name in rows.names if name not in set(names)]
        if absent or unknown:
            named = {"lacks": [repr(name) for name in absent], "has also": [repr(name) for name in unknown]}
            parts = [f"{word} {listed(some, 5)}" for word, some in named.items() if some]
            raise DataError(
                f"{rows.source}: its columns are not those that the model was fitted to: it {' and '.join(parts)}"
            )
        if list(names) != list(rows.names):
            say(f"the columns of {rows.source} are in another order than the model's: reordered by name")
            order = [rows.names.index(name) for name in names]
            values = rows.values.columns(order) if isinstance(rows.values, RowFiles) else rows.values[:, order]
            return replace(rows, values=values, names=tuple(names))
        return rows
    if rows.shape[1] != n_columns:
        raise DataError(f"{rows.source} has {rows.shape[1]} columns, but the model was fitted to {n_columns}")
    if names is not None:
        say(f"{rows.source} names no columns: they are taken to be in the model's order")
        return replace(rows, names=tuple(names))
    return rows


def load_model(path: str) -> tuple[Any, tuple[str, ...] | None]:
    """Load a model, and the names of its columns.

    The names are taken off the model: scikit-learn would warn of every table that is no frame.
    """
    from latentbits.estimators.files import load

    model = load(path)
    found = getattr(model, "feature_names_in_", None)
    say(f"loading {path}: {type(model).__name__} of {model.n_features_in_} columns")
    if found is None:
        return model, None
    del model.feature_names_in_
    return model, tuple(str(name) for name in found)


def _of_model(rows: Rows, names: tuple[str, ...] | None) -> Rows:
    """Leave out columns of numbers that a model does not know, and that were labels when it was fitted."""
    import numpy as np

    from latentbits.data.columns import of_numbers, taken_as_labels

    if names is None or rows.names is None or type(rows.values) is not np.ndarray or rows.values.dtype.kind != "f":
        return rows
    others = [(j, of_numbers(name, name, rows.values[:, j])) for j, name in enumerate(rows.names) if name not in names]
    odd = {j: one for j, one in others if one is not None}
    if odd:
        say(taken_as_labels(list(odd.values())))
    kept = [j for j in range(len(rows.names)) if j not in odd]
    return replace(rows, values=rows.values[:, kept], names=tuple(rows.names[j] for j in kept))


def to_apply(model_path: str, source: str, reading: Reading, *, streams: bool = False) -> tuple[Any, Rows]:
    """Load a model, and the table that it is to be applied to, checked against it; `streams` as of `load_rows`."""
    model, names = load_model(model_path)
    rows = align(
        _of_model(load_rows(source, reading, streams=streams, guess="text"), names), model.n_features_in_, names
    )
    if not model.takes_reals:
        check_bits(rows, model.binarize)
    return model, rows
