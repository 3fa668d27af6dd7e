"""Content of the page, as plain arrays and words; nothing here fits, and nothing here knows of HTML.

Rows "shown" are the n rows of the map: all of the table, or a sample of very many.  The first `n_close` are looked
at closely: what each model says of them is on the page, too.  Arrays have rows first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from latentbits.explorer.column_dependence import Together
from latentbits.reports.record import Report
from latentbits.reports.summaries.records import Gallery, Morph, Spectra

__all__ = [
    "Axes",
    "Content",
    "Course",
    "Guesses",
    "Labels",
    "Map",
    "Maps",
    "Meaning",
    "Misfit",
    "ModelRow",
    "Table",
    "Trial",
]


@dataclass(frozen=True)
class Labels:
    """Known kinds or numbers of the rows, which no model sees.

    Kinds have `codes` (n,) into `levels`, -1 where nothing is known.  Numbers have no levels: `numbers` (n,) holds
    them, NaN where nothing is known, and codes are 0 where something is.  Kinds that are whole numbers are `ordered`:
    from 0 to 6, say, which may be grades, or codes.
    """

    name: str
    levels: tuple[str, ...]
    codes: np.ndarray
    numbers: np.ndarray | None = None
    ordered: bool = False


@dataclass(frozen=True)
class Table:
    """The user's table, or the part of it that is shown.

    Attributes
    ----------
    source
        Its name.
    n_rows
        In all that count, shown or not.
    columns
        Their names (d).
    values : (n, d) float
        Bits, or real numbers; NaN for missing.
    numbers : (n,) int
        Which row of the table each is, from 0.
    real
        Whether the values are real numbers.
    image_shape
        Height and width where rows are images, else None.
    labels
        What rows are known to be.
    left_out_labels
        Names of labels that say nothing of rows, and why.
    row_names
        One a row, or None.
    weights : (n,) or None
        How often each row counts; None for once.
    n_counted
        All rows, each as often as it counts; None without weights.
    """

    source: str
    n_rows: int
    columns: tuple[str, ...]
    values: np.ndarray
    numbers: np.ndarray
    real: bool = False
    image_shape: tuple[int, int] | None = None
    labels: tuple[Labels, ...] = ()
    left_out_labels: tuple[tuple[str, str], ...] = ()
    row_names: tuple[str, ...] | None = None
    weights: np.ndarray | None = None
    n_counted: float | None = None


@dataclass(frozen=True)
class Map:
    """Places of the rows under a model with two latent traits."""

    name: str  # of the model
    means: np.ndarray  # (n, 2): posterior means
    covariances: np.ndarray  # (n, 3): posterior (co)variances: xx, yy, xy
    # weights, bias: (2, d) and (d,): P(bit = 1 | x) = sigmoid(x @ weights + bias); of real columns, their mean given
    # x is x @ weights + bias
    weights: np.ndarray
    bias: np.ndarray
    noise: np.ndarray | None  # (d,) or None: of real columns: the variance given x
    cost: np.ndarray  # (n,): -log2 p(row) under this model
    lines: np.ndarray  # (m,) int: columns whose lines P(bit = 1 | x) = 0.5 separate most rows
    converged: bool = True  # whether its fit did; else nothing is reported as found on it

    @property
    def note(self) -> str:
        """A warning; "" where its fit has converged."""
        if self.converged:
            return ""
        return "The fit of the map had not converged: where rows lie on it, and which bits surprise it, may change."


@dataclass(frozen=True)
class Maps:
    """Places of the rows under a model of several maps, each on its most probable map."""

    name: str  # of the model
    shares: np.ndarray  # (m,): of the rows, as the model has them
    # home, sure: (n,): number of the row's map, from 0, and the probability that it is on it
    home: np.ndarray
    sure: np.ndarray
    # means, covariances: (n, 2) and (n, 3): posterior means, and (co)variances xx, yy, xy, on that map
    means: np.ndarray
    covariances: np.ndarray
    # weights, bias, noise: (m, 2, d), (m, d) and (m, d) or None: of each map, as of `Map`
    weights: np.ndarray
    bias: np.ndarray
    noise: np.ndarray | None
    cost: np.ndarray  # (n,): -log2 p(row) under all maps together
    lines: tuple[np.ndarray, ...]  # for each map, columns whose lines separate most rows
    places: np.ndarray  # (m, 2): of the maps to each other: near where the means of columns are alike
    sentences: str  # what is seen of them, in sentences; "" where the fit has not converged
    converged: bool = True  # whether it has

    @property
    def note(self) -> str:
        """A warning; "" where its fit has converged."""
        if self.converged:
            return ""
        return (
            f"The fit of the {len(self.shares)} maps had not converged: which rows are on which, and where, may change."
        )


@dataclass(frozen=True)
class Axes:
    """How sure the axes of the map are."""

    errors: np.ndarray | None  # (2, d) or None: standard errors of the map's weights, NaN where a column has none
    why: str  # there are no errors, in words; "" where there are
    again: str  # a sentence: whether fits to other parts of the rows have found the axes, too, or why that is unknown


@dataclass(frozen=True)
class Meaning:
    """A label that an axis of the map, or a cause, goes with."""

    of: str  # the name of the axis or the cause
    label: str  # the name of the label; "" for how many ones a row has, which is no label: models saw it
    # "rank correlation" (Spearman's) of numbers; "AUC" of two kinds: how often a row of the first of `kinds` is
    # further along than one of the second; "eta squared" of more: their share of the variance of the ranks, less what
    # chance would give that many kinds, so that it is 0 on average where there is nothing
    measure: str
    value: float  # of the measure
    p: float  # the chance of as much where nothing goes with anything, adjusted by Holm for all that was tested
    n: int  # rows that it is of
    # for an AUC, the kind that is further along, and the other; for eta squared, the kind that is furthest
    kinds: tuple[str, ...] = ()
    # gallery, layer, number: which cause: the name of its model, its layer, and its number there.  Without a model:
    # the axis of the map.
    gallery: str | None = None
    layer: int = 0
    number: int = 0


@dataclass(frozen=True)
class Misfit:
    """Rows and columns that the model of the map fits worst, each cell given the other cells of its row."""

    n_rows: int  # that were looked at: the first of those shown
    # (r,) int: rows shown whose surprising cells cost more than is expected, those first that cost most beyond it
    rows: np.ndarray
    # beyond, sd: (r,): bits beyond what is expected, and the standard deviation of what is expected
    beyond: np.ndarray
    sd: np.ndarray
    # n_odd, expected_odd: (r,): surprising cells: how many there are, and how many are expected
    n_odd: np.ndarray
    expected_odd: np.ndarray
    odd: np.ndarray  # (r, c) int: columns in which each is most surprising
    # (r, c): P(bit as observed | the others) there; of real columns, standard deviations off.  NaN where missing.
    surprise: np.ndarray
    # column_bits, column_alone: (d,): bits per cell of each column; and by its share of ones (or its variance) alone,
    # without the others
    column_bits: np.ndarray
    column_alone: np.ndarray


@dataclass(frozen=True)
class Course:
    """How learning went: `values` of the objective, in bits per row, over the iterations."""

    name: str
    values: np.ndarray


@dataclass(frozen=True)
class Guesses:
    """Guesses of the best model at the hidden part of unseen rows."""

    hidden: str  # the part, in words
    # truth, given, completed: (m, d): some of these rows; with NaN for what is hidden; and with this filled in by
    # probabilities
    truth: np.ndarray
    given: np.ndarray
    completed: np.ndarray
    # right, right_alone: share of the hidden bits that were guessed right, and that the average row guesses right; of
    # real numbers the share of their variance that is explained, and 0
    right: float
    right_alone: float


@dataclass(frozen=True)
class Trial:
    """A size that was tried: bits per row on the rows that chose among sizes; no result where it has not converged."""

    size: int
    bits: float
    error: float
    converged: bool = True


@dataclass(frozen=True)
class ModelRow:
    """A line of the comparison, on `n_rows` unseen rows, each as often as it counts.

    `trials` are what the size was chosen from; `note` says what a reader should know.  `by_shares` are the bits that a
    model without causes may lose by its guesses of rare shares alone.
    """

    name: str
    family: str
    size: int | None
    bits: float
    error: float
    behind: float
    behind_error: float
    seconds: float
    trials: tuple[Trial, ...] = ()
    note: str = ""
    converged: bool = True
    n_rows: int = 0
    by_shares: float = 0.0


@dataclass(frozen=True)
class Content:
    """All of the page.

    `models` are all that were compared, the best first; `sound` are those of them that had converged, and how far they
    are behind the best of those: titles and findings are about these.
    """

    title: str
    findings: tuple[str, ...]
    table: Table
    n_close: int
    map: Map | None
    models: tuple[ModelRow, ...]
    sound: tuple[ModelRow, ...]
    unit: str  # of the comparison: "bits per row"
    how_compared: str  # a sentence: which rows fitted, chose and scored
    galleries: tuple[Gallery, ...] = ()
    morph: Morph | None = None
    spectra: Spectra | None = None
    courses: tuple[Course, ...] = ()
    guesses: Guesses | None = None  # in the sentences and static figures
    tried: str = ""  # a sentence: which families were not tried and why, and what more time would do; "" where all were
    methods: str = ""  # a paragraph that can be cited
    meanings: tuple[Meaning, ...] = ()  # the strongest first
    poles: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = ()  # of each axis: columns that grow, and that fall
    axes: Axes | None = None  # of the map
    misfit: Misfit | None = None
    together: Together | None = None  # of bits that no model explains clearly: do columns go together?
    maps: Maps | None = None  # several, beside the one map of all rows
    reports: tuple[tuple[str, Mapping[str, Report]], ...] = ()  # of fits to all rows: name of the model, and by title
    n_compared: int | None = None  # rows that the models have seen or were scored on, where these are a sample
