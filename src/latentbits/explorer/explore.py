"""From a table to a page: fit a map and every family of models that suits the data, and write what they found."""

from __future__ import annotations

import os
import time
import warnings
import webbrowser
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np

from latentbits.choosing.compare import FAILURES, fit_copy, weights_of
from latentbits.choosing.real_tables import mean_seen
from latentbits.choosing.refit import Refitted, as_searched, refit
from latentbits.choosing.search import Search, check_families, search
from latentbits.core import interrupts
from latentbits.core.atomic import check_writable
from latentbits.core.errors import OutOfTimeError
from latentbits.engines.checkpoint import under
from latentbits.estimators.families import families, family, family_of_maps, name_of
from latentbits.explorer import map_content
from latentbits.explorer.column_dependence import go_together
from latentbits.explorer.content import Content, Course, Guesses, Map, Maps, ModelRow, Table, Trial
from latentbits.explorer.findings import findings, is_sure
from latentbits.explorer.fit_reports import fit_reports
from latentbits.explorer.guesses import N_EXAMPLES, guesses_of
from latentbits.explorer.loadings import axes_of
from latentbits.explorer.meanings import meanings_of, poles_of
from latentbits.explorer.methods import methods
from latentbits.explorer.misfit import misfit_of
from latentbits.explorer.notes import columns_kept, how_compared, how_shown, tried, with_note
from latentbits.explorer.page import write_page
from latentbits.explorer.several_maps import Gain, check_maps, gain_of, like, maps_asked, maps_of
from latentbits.explorer.stability import with_rounds
from latentbits.explorer.tables import WIDE, Given, shown_rows, take_table
from latentbits.reports.summaries.records import Gallery, Shown

__all__ = ["Explored", "explore"]

GOES_ON = "This is a first look: the search for models goes on, and replaces this page at the end."
MOST_MAP_ROWS = 20_000  # rows that the map is learned from
MAP_CELLS, FEWEST_MAP_ROWS = 2**24, 200  # of very many columns fewer rows
WIDE_MAP_CELLS = 2**20  # and of thousands, where a cell takes 3 us in each of some tens of passes, fewer still
FEW_COLUMNS, MISSING = 64, 255  # of more columns hardly any rows are equal, and pairs of columns are thousands
MODELS_TIME_SHARE = (
    1 / 3
)  # of the budget, at least, for the comparison; the map may take half, and placing rows on it the rest
LEAST_MAPS_SECONDS = 1.0  # seconds: with less, several maps are not compared with one
REFITS_TIME_SHARE = 0.2  # of the time for models, to fit those that were chosen to all rows
# Unseen rows of which a part is hidden, and their cells: the share that is guessed right is then sure to 1 or 2 %, and
# 64 digits take a clipped Gaussian, which integrates over each row, 4 seconds, where 449 took half of the budget.
MOST_GUESSED_ROWS, MOST_GUESSED_CELLS = 500, 2**12


@dataclass(frozen=True)
class Explored:
    """The result of `explore`.

    Attributes
    ----------
    path
        Of the page; None if none was written.
    findings
        Up to three sentences.
    content
        All that the page shows, as arrays: `latentbits.plot.exploration` draws them.
    search
        The comparison of models, and the models as they were compared; with those that have not converged, which the
        findings leave out.
    models
        By name: the models that are shown, fitted to all rows of the search where there was time.
    map
        The model that places the rows in the plane.
    maps
        The model that places them on several maps; None where none was asked for.
    """

    path: Path | None
    findings: tuple[str, ...]
    content: Content
    search: Search
    models: Mapping[str, Any]
    map: Any
    maps: Any = None

    def __str__(self) -> str:
        return "\n".join([*self.findings, *self.notes, *([f"Page: {self.path}"] if self.path else [])])

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes: what is seen of several maps, that a map has not converged, and what was not tried."""
        where, maps = self.content.map, self.content.maps
        several = "" if maps is None else maps.sentences or maps.note
        return tuple(text for text in (several, "" if where is None else where.note, self.content.tried) if text)


def explore(
    X: Any,
    *,
    model: Any = "auto",
    labels: Any = None,
    image_shape: tuple[int, int] | None = None,
    column_names: Sequence[str] | None = None,
    row_names: Sequence[str] | None = None,
    source: str | None = None,
    out: str | os.PathLike[str] | None = "latentbits-explore.html",
    budget: float | None = 60.0,
    binarize: float | None = None,
    real: bool | None = None,
    open_page: bool = False,
    random_state: int | None = 0,
    report: Callable[[str, float], None] | None = None,
    checkpoint: Any = None,
    sample_weight: Any = None,
    n_maps: int = 1,
    soon: Callable[[Content], Any] | None = None,
) -> Explored:
    """Find out what is hidden in a table, and write a page that shows it.

    A model with two latent traits makes the map; models of all families that suit the data are compared on unseen rows
    within the budget.  The page is one file that needs no network.

    Parameters
    ----------
    X : array-like of shape (n_rows, n_columns), frame, sparse matrix, or `latentbits.data.fetch.Dataset`
        Bits, NaN for missing; or real numbers, for which there are other models.  A sparse table is not made dense, but
        for the rows that are used.  From more than 5000 columns (that are no image) the ones that vary most are taken.
    model : str or estimator, default="auto"
        "auto" for all families that suit, or the name of one, such as "mixture" or "noisy-or".  An estimator, such as
        ``NoisyOrNetwork((16, 4))``, is fitted as it is.
    labels : str, array-like of n values, mapping of names to such, or None
        What rows are known to be: kinds, or numbers; no model sees it.  A name is that of a column of a frame, which is
        left out of the bits; None takes those that hold no bits, and a warning names them.  The page says which of them
        its axes and causes go with; that which the axes go with most colours the map.
    image_shape : (height, width) or None
        Where rows are images.
    column_names, row_names : sequences of str or None
        Else those of the frame, or numbers.
    source : str
        What the table is called.
    out : path or None
        Where the page goes; None writes none.
    budget : float or None, default=60
        Seconds for the fits; the comparison of models gets what the map leaves, and at least a third of it.
    binarize : float or None
        Numbers above it are 1.
    real : bool or None
        Whether X holds real numbers; None takes it to if there are fractions.
    open_page : bool, default=False
        Show the page in a browser.
    random_state : int or None, default=0
        Seed of all fits, splits and samples.
    report : function or None
        Called with what is being done and the seconds used.
    checkpoint : str, path, latentbits.Checkpoint or None
        A folder in which fits are kept: after a crash the same call goes on, and makes none of them again.  Where
        the budget is no bound, it finds the same.
    sample_weight : str, array-like of n values, or None
        How often each row counts: in fits, scores, and what is shown of them; None for once.  A name is that of a
        column of a frame, which is neither a bit nor a label.  Rows of weight 0 are left out.
    n_maps : int, default=1
        With more than one, the page also has a map of these maps that one can step into: a mixture of them is learned
        (`TraitMaps(n_maps, 2)`), and compared with one map on a quarter of the rows.  Up to 12.  Such an
        estimator as `model` asks for it, too.
    soon : function or None
        Called with the content of a first page once the map and the first models are there; None writes it to `out`.

    Returns
    -------
    Explored
        Printing it shows the findings.

    Notes
    -----
    Ctrl-C ends the fits: the page is made of the families that are finished by then, and says so.  Before the map and
    one family are, KeyboardInterrupt is raised.

    Examples
    --------
    >>> from latentbits import explore, load_dataset
    >>> print(explore(load_dataset("digits"), out="digits.html"))  # doctest: +SKIP
    """
    began = time.perf_counter()

    def tell(what: str) -> None:
        if report is not None:
            report(what, time.perf_counter() - began)

    def fitting(name: str, _: float) -> None:
        tell(f"fitting {name}")

    if budget is not None and not (isinstance(budget, Real) and budget > 0):
        raise ValueError(f"budget must be a number of seconds above 0, or None, found {budget!r}")
    check_maps(n_maps)
    n_maps = n_maps if n_maps > 1 else maps_asked(model)
    if out is not None:
        check_writable(out)  # before minutes of fitting
        soon = soon or partial(write_page, path=out)
    given = take_table(X, labels, image_shape, column_names, row_names, source, binarize, real, sample_weight)
    asked: list[Any] | None = None
    if not (isinstance(model, str) and model == "auto"):
        asked = [*(one.name for one in families("reals" if given.real else "bits") if one.alone), model]
        check_families(asked, given.real)  # before the map is fitted
    shown, n_close = shown_rows(given, random_state, several_maps=n_maps > 1)
    with interrupts.held(), under(checkpoint):
        tell("fitting the map")
        mapped = _fit_map(given, None if budget is None else budget / (2 if n_maps == 1 else 4), random_state)
        tell("placing the rows on it")
        # a line of one pixel says little
        n_lines = map_content.N_LINES if shown.image_shape is None else 0
        where = map_content.map_of("2 latent traits", mapped, shown.values, n_lines)
        several, maps = None, None
        if n_maps > 1:
            until = None if budget is None else began + (1 - MODELS_TIME_SHARE) * budget
            asked_for = model if maps_asked(model) == n_maps else mapped
            several, gain = _fit_maps(given, like(asked_for, n_maps), until, random_state, tell)
            maps = maps_of(name_of(several), several, shown.values, shown.weights, n_lines, gain)

        def first_look(found: Search) -> None:
            assert soon is not None
            tell("looking at the first models")
            with interrupts.shielded():
                try:
                    content = content_of(given, shown, n_close, where, found, as_searched(found), random_state, maps)
                    soon(replace(content, findings=(*content.findings, GOES_ON)))
                except (OSError, *FAILURES) as error:  # the search is worth more than a page that will be replaced
                    warnings.warn(f"no first page was written ({error})", UserWarning, stacklevel=2)

        left = None if budget is None else max(MODELS_TIME_SHARE * budget, budget - (time.perf_counter() - began))
        found = search(
            given.values,
            asked,
            budget=None if left is None else (1 - REFITS_TIME_SHARE) * left,
            random_state=random_state,
            real=given.real,
            report=fitting,
            checkpoint=checkpoint,
            sample_weight=given.weights,
            soon=None if soon is None else first_look,
        )
        models = _models(found, given, mapped, left, lambda name: tell(f"fitting {name} to all rows"))
        with interrupts.shielded():  # what is finished gets its page
            tell("looking at what was found")
            content = content_of(given, shown, n_close, where, found, models, random_state, maps)
            content = replace(content, tried=tried(found, budget, kept=checkpoint is not None))
            path = None
            if out is not None:
                tell(f"writing {out}")
                path = write_page(content, out)
    if open_page and path is not None:
        webbrowser.open(path.resolve().as_uri())
    shown_models = {name: one.model for name, one in models.items()}
    return Explored(path, content.findings, content, found, shown_models, mapped, several)


def _fit_map(given: Given, limit: float | None, seed: int | None) -> Any:
    """Fit two latent traits to all rows, or to a sample of very many."""
    estimator = family_of_maps().new(2, "reals" if given.real else "bits", given.values.shape[1])
    estimator.set_params(random_state=seed, max_time=limit)
    values, weights = _to_learn_maps_from(given, seed)
    if not given.real:
        values, weights = _each_once(values, weights)
    return fit_copy(estimator, values, weights).set_params(max_time=None)


def _to_learn_maps_from(given: Given, seed: int | None) -> tuple[Any, np.ndarray | None]:
    """Choose rows, and say how often each counts."""
    n = _rows_for_map(given.values.shape[1])
    rows = np.sort(np.random.default_rng(seed).permutation(given.counting)[:n])
    return given.values[rows], weights_of(given.weights, rows)


def _fit_maps(
    given: Given, estimator: Any, until: float | None, seed: int | None, tell: Callable[[str], None]
) -> tuple[Any, Gain | None]:
    """Fit several maps to the rows of the one map, and measure what they gain on unseen rows.

    The fit gets half of the time that is left, and the comparison, of two fits, the rest.
    """
    values, weights = _to_learn_maps_from(given, seed)

    def limited(n_maps: int) -> Any:
        left = None if until is None else max((until - time.perf_counter()) / 2, LEAST_MAPS_SECONDS)
        return like(estimator, n_maps).set_params(random_state=seed, max_time=left)

    tell(f"fitting {name_of(estimator)}")
    n_maps, own = estimator.n_maps, (values, weights) if given.real else _each_once(values, weights)
    several = fit_copy(limited(n_maps), *own).set_params(max_time=None)
    if until is not None and until - time.perf_counter() < 2 * LEAST_MAPS_SECONDS:
        return several, None
    tell("comparing them with one map")
    try:
        return several, gain_of(values, limited(1), limited(n_maps), weights, seed)
    except OutOfTimeError:
        return several, None


def _each_once(values: Any, weights: np.ndarray | None) -> tuple[Any, np.ndarray | None]:
    """Keep equal rows of bits once, with their counts, if most are equal: few columns have few kinds of rows."""
    if hasattr(values, "tocsr") or values.shape[1] > FEW_COLUMNS:
        return values, weights
    codes = np.where(np.isnan(values), MISSING, values).astype(np.uint8)
    kinds, first, which = np.unique(codes, axis=0, return_index=True, return_inverse=True)
    if 2 * len(kinds) > len(values):
        return values, weights
    return values[first], np.bincount(which.reshape(-1), weights, len(kinds)).astype(np.float64)


def _rows_for_map(n_columns: int) -> int:
    """Count the rows that are enough, and not too many, to learn from.

    >>> _rows_for_map(64), _rows_for_map(1500), _rows_for_map(5000)
    (20000, 11184, 209)
    """
    cells = WIDE_MAP_CELLS if n_columns > WIDE else MAP_CELLS
    return min(MOST_MAP_ROWS, max(FEWEST_MAP_ROWS, cells // n_columns))


def _models(
    found: Search, given: Given, mapped: Any, budget: float | None, report: Callable[[str], None]
) -> Mapping[str, Refitted]:
    """Give the models to be shown; those of the search where it was interrupted."""
    if found.interrupted:
        return as_searched(found)
    left = None if budget is None else budget - found.seconds
    return refit(found, given.values, budget=left, report=report, ready=_on_the_map(found, given, mapped))


def _on_the_map(found: Search, given: Given, mapped: Any) -> Mapping[str, Any]:
    """Take the model of the map for the entry of two traits, where it has converged and both learn from all rows."""
    same_rows = found.n_used == len(given.counting) <= _rows_for_map(given.values.shape[1])
    if not (same_rows and found.units is None and mapped._finished):
        return {}
    return {name: mapped for name, model in found.fitted.items() if _asked_of(model) == _asked_of(mapped)}


def _asked_of(model: Any) -> tuple[type, str]:
    return type(model), str(model.get_params())


def content_of(
    given: Given,
    shown: Table,
    n_close: int,
    where: Map,
    found: Search,
    models: Mapping[str, Refitted],
    seed: int | None = 0,
    maps: Maps | None = None,
) -> Content:
    """Gather all that the page shows."""
    close = _in_units(shown.values[:n_close], found)
    weights = None if shown.weights is None else shown.weights[:n_close]

    def show(name: str, model: Any) -> Shown:
        return family(found.families[name]).summaries.show(name, model, close, models[name].n_rows, weights)

    shows = {entry.name: show(entry.name, models[entry.name].model) for entry in found.comparison.entries}
    own = {name: one.gallery for name, one in shows.items() if one.gallery is not None}
    others = {name: _other_galleries(show, name, found, models) for name in own}
    galleries = tuple(
        _gallery(one, [gallery for gallery, _ in others[name]], models[name].model, found) for name, one in own.items()
    )
    rows, sound = (
        tuple(_model_row(found, entry, shows[entry.name]) for entry in entries)
        for entries in (found.comparison.entries, found.sound)
    )
    unfinished = [row for row in rows if not row.converged]
    wanted = not shown.labels or shown.image_shape is not None  # for a sentence, or for a figure
    guesses = _guesses(given, found, seed) if wanted else None
    meanings = meanings_of(shown, where, galleries)
    unclear = not (shown.real or shown.weights is not None or is_sure(sound))
    together = go_together(shown.values) if unclear else None
    n_mapped = min(len(given.counting), _rows_for_map(given.values.shape[1]))
    traits = [
        gallery.layers[0].active
        for name, theirs in others.items()
        for gallery, converged in theirs
        if family(found.families[name]).straight and converged and gallery.layers
    ]
    return Content(
        title=f"{shown.source}: what is hidden in the {'numbers' if shown.real else 'bits'}",
        findings=findings(shown, where, sound, galleries, guesses, unfinished, meanings, together),
        table=shown,
        n_close=n_close,
        map=where,
        models=rows,
        sound=sound,
        unit="bits per row",
        how_compared=how_compared(found) + how_shown(found, models) + columns_kept(given),
        galleries=galleries,
        morph=next((one.morph for one in shows.values() if one.morph is not None), None),
        spectra=next((one.spectra for one in shows.values() if one.spectra is not None), None),
        courses=tuple(_course(name, found, models[name]) for name in shows if _learned(models[name].model)),
        guesses=guesses,
        methods=methods(given, found, rows, n_mapped, seed, 1 if maps is None else len(maps.shares)),
        meanings=meanings,
        poles=poles_of(shown, where),
        axes=axes_of(where, shown, n_mapped, traits),
        misfit=misfit_of(where, shown.values, shown.weights) if where.converged else None,
        together=together,
        maps=maps,
        reports=fit_reports(given, found, models),
        n_compared=found.n_used if found.n_used < found.n_rows else None,
    )


def _gallery(gallery: Gallery, others: Sequence[Gallery], model: Any, found: Search) -> Gallery:
    """Add a note on its causes, and put weights in the units of the table."""
    noted = with_note(with_rounds(gallery, others), bool(getattr(model, "_finished", True)))
    return _in_columns(noted, found)


def _other_galleries(
    show: Callable[[str, Any], Shown], name: str, found: Search, models: Mapping[str, Refitted]
) -> list[tuple[Gallery, bool]]:
    """Give the galleries of the fits of the same size to parts of the rows, and whether each has converged."""
    others = (model for model in found.rounds.get(name, ()) if model is not models[name].model)
    shown = ((show(name, model).gallery, bool(getattr(model, "_finished", True))) for model in others)
    return [(gallery, converged) for gallery, converged in shown if gallery is not None]


def _course(name: str, found: Search, learned: Refitted) -> Course:
    """Give the course in the units of the table; with missing numbers it is off by the same for all."""
    course = map_content.course_of(name, learned.model, learned.n_rows)
    return course if found.units is None else replace(course, values=course.values + np.log2(found.units[1]).sum())


def _guesses(given: Given, found: Search, seed: int | None) -> Guesses | None:
    """Let the best model that has converged guess a hidden part of unseen rows; None for other libraries'."""
    best = found.fitted[found.sound[0].name] if found.sound else None
    if not hasattr(best, "complete"):
        return None
    unseen = found.unseen[: min(MOST_GUESSED_ROWS, max(N_EXAMPLES, MOST_GUESSED_CELLS // given.values.shape[1]))]
    others = np.setdiff1d(given.counting, found.unseen)[: _rows_for_map(given.values.shape[1])]
    rows, known = (_in_units(_dense(given.values[numbers]), found) for numbers in (unseen, others))
    average = mean_seen(known, weights_of(given.weights, others))
    return guesses_of(best, rows, average, given.image_shape, given.real, seed, weights_of(given.weights, unseen))


def _in_units(values: np.ndarray, found: Search) -> np.ndarray:
    """Give rows as the models of a search take them."""
    return values if found.units is None else (values - found.units[0]) / found.units[1]


def _in_columns(gallery: Gallery, found: Search) -> Gallery:
    """Put weights in the units of the table."""
    if found.units is None:
        return gallery
    layers = tuple(replace(layer, weights=layer.weights * found.units[1]) for layer in gallery.layers)
    return replace(gallery, layers=layers)


def _dense(values: Any) -> np.ndarray:
    return np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)


def _learned(fitted: Any) -> bool:
    return len(getattr(fitted, "history_", ())) > 2


def _model_row(found: Search, entry: Any, shown: Shown) -> ModelRow:
    sizes = found.fold_sizes[entry.name]
    notes = [
        f"the rounds chose {', '.join(map(str, sizes))}" if len(set(sizes)) > 1 else "",
        found.cut_short.get(entry.name, ""),
        "" if entry.converged else "not converged",
    ]
    return ModelRow(
        name=entry.name,
        family=found.families[entry.name],
        size=found.sizes[entry.name],
        bits=entry.bits_per_row,
        error=entry.error,
        behind=entry.behind,
        behind_error=entry.behind_error,
        seconds=entry.seconds,
        trials=tuple(Trial(t.size, t.bits_per_row, t.error, t.converged) for t in found.trials[entry.name]),
        note="; ".join(note for note in notes if note),
        converged=entry.converged,
        n_rows=found.n_test if found.comparison.weights is None else round(found.comparison.weights.sum()),
        by_shares=shown.by_shares,
    )
