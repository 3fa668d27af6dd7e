"""Meanings of the axes of the map and of causes: which labels they go with, by ranks, and how sure that is.

Every label is tested against every axis and every cause.  No model saw the labels, so that an axis goes with one is a
finding; how many ones a row has is tested beside them, since a trait is often little else, but models saw that.  Each
row counts once here, whatever its weight: weighted ranks have no simple chance.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from scipy import special, stats

from latentbits.choosing.real_tables import mean_seen
from latentbits.explorer.content import Labels, Map, Meaning, Table
from latentbits.reports.many_tests import adjusted
from latentbits.reports.summaries.records import Gallery

__all__ = [
    "axis_title",
    "colouring",
    "felt",
    "goes_with",
    "has_order",
    "in_words",
    "meanings_of",
    "name_of",
    "names_for",
    "poles_of",
    "strength",
]

MOST_P = 0.01  # adjusted p below which a meaning is reported
ORDERED_SHARE = 0.5  # of the variance that kinds explain, from which on their order is said to
LEAST_EFFECT = {"rank correlation": 0.3, "AUC": 0.7, "eta squared": 0.1}
FEWEST_ROWS = 8  # that a test is made of
FEWEST_OF_A_KIND = 5
FEWEST_ROWS_BY_FORMULA = 30  # below which chances come from shuffled labels
N_SHUFFLES = 99_999
SHUFFLED_CELLS = 2**20  # at a time
PLACE_DECIMALS = 6  # decimals in which rows differ; in more they do by rounding
MOST_POLES = 3  # columns at each end of an axis
ONES = "how many ones a row has"


class Scale(NamedTuple):
    """Rows along an axis of the map (`gallery` None) or by a cause; `values` (n,) of the first rows shown."""

    name: str
    values: np.ndarray
    gallery: str | None
    layer: int
    number: int


def meanings_of(table: Table, where: Map | None, galleries: Sequence[Gallery]) -> tuple[Meaning, ...]:
    """Find all that can be said of axes and causes, the strongest first.

    Parameters
    ----------
    table
        The rows shown, with what is known of them.
    where, galleries
        What places rows along axes and causes.
    """
    made = [found for labels in (*table.labels, *_ones(table)) for found in _tested(labels, where, galleries)]
    said = [
        replace(found, p=float(p))
        for found, p in zip(made, adjusted(np.array([found.p for found in made]), "holm"))
        if p < MOST_P and abs(found.value) >= LEAST_EFFECT[found.measure]
    ]
    return tuple(sorted(_once(said), key=strength, reverse=True))


def _once(said: Sequence[Meaning]) -> Iterator[Meaning]:
    """Keep one meaning of each label and cause: of numbers that were tested as kinds, too, the order if it says most.

    Grades go up or down along an axis; codes of kinds lie anywhere along it, and their order says little.
    """
    for one in said:
        measures = {
            other.measure: strength(other) ** 2
            for other in said
            if (other.label, other.of, other.gallery, other.layer) == (one.label, one.of, one.gallery, one.layer)
        }
        by_order, by_kind = measures.get("rank correlation", 0.0), measures.get("eta squared", 0.0)
        best = "rank correlation" if by_order >= ORDERED_SHARE * by_kind else "eta squared"
        if len(measures) == 1 or one.measure == best:
            yield one


def has_order(labels: Labels, meanings: Sequence[Meaning]) -> bool:
    """Say whether kinds are to be shown in their order: numbers of which no axis says that they are mere codes."""
    as_kinds = (one.label == labels.name and one.measure == "eta squared" and one.gallery is None for one in meanings)
    return labels.ordered and not any(as_kinds)


def strength(meaning: Meaning) -> float:
    """Compute a strength from 0 to 1, on one scale for all measures: that of a correlation."""
    if meaning.measure == "eta squared":
        return float(np.sqrt(meaning.value))
    return abs(2 * meaning.value - 1 if meaning.measure == "AUC" else meaning.value)


# --- in words ---


def name_of(meaning: Meaning) -> str:
    """Name what goes with an axis, with its direction: "party, left above right"."""
    ends = {"AUC": ", {} above {}", "eta squared": ", highest for {}"}.get(meaning.measure, "")
    return (meaning.label or ONES) + ends.format(*meaning.kinds)


def goes_with(meaning: Meaning) -> str:
    """Write the label in a sentence, with the number: "WatrCont (rank correlation -0.78)"."""
    return f"{name_of(meaning)} ({meaning.measure} {meaning.value:.2f})"


def names_for(meanings: Sequence[Meaning], gallery: str | None, layer: int, number: int) -> list[Meaning]:
    """Choose names of an axis or a cause: its strongest label, and the number of ones where that is stronger."""
    own = [m for m in meanings if (m.gallery, m.layer, m.number) == (gallery, layer, number)]
    labels = [m for m in own if m.label]
    return labels[:1] + [m for m in own[:1] if not m.label]


def in_words(meanings: Sequence[Meaning]) -> str:
    """Write these names in a sentence after "goes with"; "" where there is nothing."""
    return ", and more with ".join(goes_with(meaning) for meaning in meanings)


def axis_title(axis: int, meanings: Sequence[Meaning]) -> str:
    """Write the title of an axis, with the strongest of its names: "trait 1: WatrCont, rank correlation -0.78"."""
    if not meanings:
        return f"trait {axis + 1}"
    best = max(meanings, key=strength)
    name = name_of(best) if best.label else "number of ones"
    return f"trait {axis + 1}: {name}, {best.measure} " + f"{best.value:.2f}".replace("-", "\N{MINUS SIGN}")


def colouring(meanings: Sequence[Meaning], labels: Sequence[Labels]) -> tuple[int, str] | None:
    """Choose the label that colours the map at first, and say why: the one that axes go with most, else the first."""
    if not labels:
        return None
    names = [one.name for one in labels]
    meaning = next((m for m in meanings if m.gallery is None and m.label in names), None)
    if meaning is None:
        return 0, ""
    number = f"{meaning.measure} {meaning.value:.2f}".replace("-", "\N{MINUS SIGN}")
    return names.index(meaning.label), f"the label that the axes go with most: {meaning.of}, {number}"


def felt(spread: np.ndarray, table: Table) -> np.ndarray:
    """Compute how much columns vary with what is hidden, from the variance of what pulls at each.

    A pull on the log odds moves a rare bit little: the slope of its probability is p (1 - p).  Real numbers are
    compared in units of their spread.
    """
    share = mean_seen(table.values, table.weights)
    variance = mean_seen(np.square(table.values - share), table.weights)
    return np.nan_to_num(spread / variance.clip(1e-12) if table.real else spread * np.square(share * (1 - share)))


def poles_of(table: Table, where: Map) -> tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]:
    """Name the columns that grow most along each axis, and that fall most; pixels have no names that help."""
    if table.image_shape is not None:
        return ()
    moved = np.sign(where.weights) * np.sqrt(felt(np.square(where.weights), table))
    return tuple((_largest(along, table), _largest(-along, table)) for along in moved)


def _largest(moved: np.ndarray, table: Table) -> tuple[str, ...]:
    order = np.argsort(-moved, kind="stable")[:MOST_POLES]
    return tuple(table.columns[j] for j in order if moved[j] > 0)


# --- what is tested ---


def _ones(table: Table) -> tuple[Labels, ...]:
    """Count the ones of each row, as if it were a label; with holes the share, and for real numbers nothing."""
    known = (~np.isnan(table.values)).sum(axis=1)
    if table.real:
        return ()
    share = np.nansum(table.values, axis=1) / np.where(known > 0, known, np.nan)
    return (Labels("", (), np.where(known > 0, 0, -1), np.round(share, 9)),)


def _scales(where: Map | None, galleries: Sequence[Gallery]) -> Iterator[Scale]:
    if where is not None:
        for axis, means in enumerate(where.means.T):
            yield Scale(f"trait {axis + 1}", means, None, 0, axis)
    for gallery in galleries:
        for k, layer in enumerate(gallery.layers):
            for number, (name, active) in enumerate(zip(layer.names, layer.active.T)):
                yield Scale(name, active, gallery.name, k, number)


def _tested(labels: Labels, where: Map | None, galleries: Sequence[Gallery]) -> Iterator[Meaning]:
    """Test the label against every axis and cause that varies."""
    together: dict[int, list[Scale]] = {}  # those of the same rows
    for scale in _scales(where, galleries):
        together.setdefault(len(scale.values), []).append(scale)
    for n, scales in together.items():
        rows = _rows_of(labels, n)
        if len(rows) < FEWEST_ROWS:
            continue
        places = np.round(np.column_stack([scale.values[rows] for scale in scales]), PLACE_DECIMALS)
        varying = np.flatnonzero(np.ptp(places, axis=0) > 0)
        if len(varying) == 0:
            continue
        scales, ranks = [scales[i] for i in varying], stats.rankdata(places[:, varying], axis=0)
        if labels.numbers is None:
            yield from _of_kinds(labels, labels.codes[rows], scales, ranks)
            if labels.ordered:
                yield from _of_numbers(labels, labels.codes[rows], scales, ranks)
        elif np.ptp(labels.numbers[rows]) > 0:
            yield from _of_numbers(labels, labels.numbers[rows], scales, ranks)


def _rows_of(labels: Labels, n: int) -> np.ndarray:
    """Find the rows among the first n that are known, and of a kind that has several."""
    codes = labels.codes[:n]
    if labels.numbers is not None:
        return np.flatnonzero(codes >= 0)
    common = np.bincount(codes[codes >= 0], minlength=len(labels.levels)) >= FEWEST_OF_A_KIND
    return np.flatnonzero((codes >= 0) & common[codes]) if common.sum() > 1 else np.zeros(0, int)


def _of_numbers(labels: Labels, numbers: np.ndarray, scales: Sequence[Scale], ranks: np.ndarray) -> Iterator[Meaning]:
    own = stats.rankdata(numbers)[:, None]
    n, unit, label = len(own), _unit(ranks), _unit(own)
    rho = np.clip(label[:, 0] @ unit, -1, 1)
    if n < FEWEST_ROWS_BY_FORMULA:
        p = _by_shuffling(label, unit)
    else:
        t = rho * np.sqrt((n - 2) / np.maximum(1 - np.square(rho), 1e-300))
        p = _at_least(2 * stats.t.sf(np.abs(t), n - 2), own[:, 0], ranks)
    for scale, value, chance in zip(scales, rho, p):
        yield _meaning(scale, labels.name, "rank correlation", float(value), float(chance), n)


def _of_kinds(labels: Labels, codes: np.ndarray, scales: Sequence[Scale], ranks: np.ndarray) -> Iterator[Meaning]:
    there, codes = np.unique(codes, return_inverse=True)
    n, k, unit = len(codes), len(there), _unit(ranks)
    counts = np.bincount(codes)
    explained = np.array([np.sum(np.square(np.bincount(codes, one)) / counts) for one in unit.T])
    if n < FEWEST_ROWS_BY_FORMULA:
        p = _by_shuffling((codes[:, None] == np.arange(k)) / np.sqrt(counts), unit)
    else:
        p = _at_least(stats.chi2.sf((n - 1) * explained, k - 1), codes, ranks)
    for scale, rank, share, chance in zip(scales, ranks.T, explained, p):
        means = np.bincount(codes, rank) / counts
        first = int(np.argmax(means))
        if k == 2:  # as many rows of the other as lie before a row of the first, of all
            value = (means[first] - (counts[first] + 1) / 2) / counts[1 - first]
            kinds = (labels.levels[there[first]], labels.levels[there[1 - first]])
            yield _meaning(scale, labels.name, "AUC", float(value), float(chance), n, kinds)
        else:
            value = max(0.0, float((n - 1) * share - k + 1) / (n - k))  # 0 on average where there is nothing
            yield _meaning(scale, labels.name, "eta squared", value, float(chance), n, (labels.levels[there[first]],))


def _meaning(
    scale: Scale, label: str, measure: str, value: float, p: float, n: int, kinds: tuple[str, ...] = ()
) -> Meaning:
    return Meaning(scale.name, label, measure, value, p, n, kinds, scale.gallery, scale.layer, scale.number)


# --- by chance ---


def _unit(ranks: np.ndarray) -> np.ndarray:
    """Centre columns, and make their length 1."""
    centred = ranks - ranks.mean(axis=0)
    return centred / np.linalg.norm(centred, axis=0)


def _by_shuffling(label: np.ndarray, unit: np.ndarray) -> np.ndarray:
    """Compute the chance (m,) that a label (n, k), shuffled, explains as much of each column of `unit` (n, m).

    The measure is the squared length of the column's projection on the label's columns.
    """
    rng = np.random.default_rng(0)
    explained, n = np.square(label.T @ unit).sum(axis=0), len(label)
    as_much, left = np.ones(unit.shape[1]), N_SHUFFLES
    while left > 0:
        many = min(left, SHUFFLED_CELLS // max(n, unit.shape[1]))
        order = rng.permuted(np.tile(np.arange(n), (many, 1)), axis=1)
        shuffled = sum(np.square(column[order] @ unit) for column in label.T)
        as_much += (shuffled >= explained - 1e-9).sum(axis=0)
        left -= many
    return as_much / (N_SHUFFLES + 1)


def _at_least(p: np.ndarray, label: np.ndarray, ranks: np.ndarray) -> np.ndarray:
    """Compute chances by formula, where small no less than they can be."""
    least = [_least_chance(label, rank) if one < MOST_P else 0.0 for one, rank in zip(p, ranks.T)]
    return np.maximum(p, least)


def _least_chance(label: np.ndarray, rank: np.ndarray) -> float:
    """Compute the chance that shuffling the label gives the very table of label and rank that is there; no p is less.

    Where nearly all rows share one value, as with a cause that is hardly ever on, formulas for ranks promise far less:
    of 70 rows one alone is on, and one alone is of a kind; that they are the same has the chance 1 in 70.  There the
    table is of rows that share the value and rows that do not.

    >>> round(1 / _least_chance(np.arange(70) == 3, np.arange(70) == 3))
    70
    """
    (own, n_own), (other, n_other) = _coarse(label), _coarse(rank)
    pairs = np.unique(own.astype(np.int64) * len(n_other) + other, return_counts=True)[1]
    sides = special.gammaln(n_own + 1).sum() + special.gammaln(n_other + 1).sum()
    return float(np.exp(sides - special.gammaln(len(label) + 1) - special.gammaln(pairs + 1).sum()))


def _coarse(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Count how often each value occurs; all but one are as one where it has most rows."""
    _, codes, counts = np.unique(values, return_inverse=True, return_counts=True)
    if 2 * counts.max() > len(codes):
        codes = (codes != np.argmax(counts)).astype(int)
        counts = np.bincount(codes)
    return codes, counts
