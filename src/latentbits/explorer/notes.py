"""Notes for a reader before believing a page: causes that say nothing yet, and what there was no time for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from latentbits.choosing.refit import Refitted
from latentbits.choosing.search import Search
from latentbits.estimators.base import LatentModel
from latentbits.estimators.families import family
from latentbits.explorer.tables import Given
from latentbits.reports.summaries.records import Gallery, Layer

__all__ = ["columns_kept", "how_compared", "how_shown", "told_budget", "tried", "with_note"]

LEAST_WEIGHT_SHOWN = 0.005  # weights below it are shown as 0.00
ALIKE_SHARE = 0.05  # of the largest weight: causes that differ by no more in any column are one
TIMES_BUDGET = 5  # times the budget, which is proposed where it was too short

NOT_CONVERGED = "This fit had not converged: what it shows may change."


def with_note(gallery: Gallery, converged: bool) -> Gallery:
    """Add to a gallery what is wrong with it, if anything is; leave out causes that carry nothing."""
    notes = [] if converged else [NOT_CONVERGED]
    if gallery.trees:
        if not any(tree.sure.any() for tree in gallery.trees):
            notes.append("No two columns have more in common than chance would give.")
        return replace(gallery, note=" ".join(notes))
    layer = gallery.layers[0]
    if _differences(gallery.kind, layer) < LEAST_WEIGHT_SHOWN:
        same = "all kinds are the same" if gallery.kind == "probability" else "all weights are about 0"
        notes.append(f"Its {len(layer.names)} {layer.title.lower()} carry nothing: {same}.")
        return replace(gallery, layers=(), note=" ".join(notes))
    if _are_alike(gallery.kind, layer):
        notes.append("Its causes are all about the same: the fit has not separated them.")
    return replace(gallery, note=" ".join(notes))


def _differences(kind: str, layer: Layer) -> float:
    """Compute how much the causes of a layer change at most: of kinds of rows, from one to another."""
    weights = _as_shown(kind, layer)
    change = np.ptp(weights, axis=0) if kind == "probability" else np.abs(weights)
    return float(np.max(change, initial=0.0))


def _are_alike(kind: str, layer: Layer) -> bool:
    """Say whether causes that are on or off are one and the same; traits are found one after the other."""
    if kind == "probability" or len(layer.names) < 2 or np.isnan(layer.usage).any():
        return False
    weights = _as_shown(kind, layer)
    return bool(np.max(np.ptp(weights, axis=0)) < ALIKE_SHARE * np.max(np.abs(weights)))


def _as_shown(kind: str, layer: Layer) -> np.ndarray:
    return -np.expm1(-layer.weights) if kind == "strength" else layer.weights


def how_compared(found: Search) -> str:
    """Say in a sentence which rows fitted, chose and scored."""
    end = " The search was interrupted: other models and sizes were not tried." if found.interrupted else ""
    several = [len(trials) > 1 for name, trials in found.trials.items() if family(found.families[name]).sizes]
    sampled = ""
    if found.n_used < found.n_rows:
        sampled = f"Of {found.n_rows:,} rows a random sample of {found.n_used:,} was taken. "
    text, unseen = f"learned from {found.n_train:,} rows", "rows that they had not seen"
    if any(several):
        where = "" if all(several) else " where several were tried"
        text = f"{text}, chose their size on {found.n_validation:,} others{where},"
        unseen = "rows that neither had seen"
    if found.n_folds > 1:
        return (
            f"{sampled}In each of {found.n_folds} rounds the models {text} and were scored on {unseen}; over the "
            f"rounds every row is scored once.{end}"
        )
    return f"{sampled}The models {text} and were scored on {found.n_test:,} {unseen}.{end}"


def tried(found: Search, budget: float | None, kept: bool) -> str:
    """Say which families are not there and why, and what more time would do; "" where all was tried.

    `kept` says whether fits are kept in a folder, so that another run goes on from them.
    """
    if not (found.left_out or found.was_short):
        return ""
    n_all = len(found.families) + len(found.left_out)
    text = f"All {n_all} families were fitted, but not in all sizes, or not to the end."
    if found.left_out:
        reasons: dict[str, list[str]] = {}
        for name, why in found.left_out.items():
            reasons.setdefault(why, []).append(name)
        why_not = "; ".join(f"{', '.join(names)} ({why})" for why, names in reasons.items())
        text = f"{len(found.families)} of {n_all} families were fitted; not fitted: {why_not}."
    if budget is None or not found.was_short:
        return text
    more = TIMES_BUDGET * budget
    resume = " --resume" if kept else ""
    return f"{text} The same command with --budget {told_budget(more)}{resume} (in Python budget={more:g}) " + (
        "would go on from here." if kept else "would go further."
    )


def told_budget(seconds: float) -> str:
    """Write a budget as the command line takes it.

    >>> told_budget(300.0), told_budget(100.0), told_budget(2.5)
    ('5m', '100s', '2.5s')
    """
    return f"{seconds / 60:g}m" if seconds % 60 == 0 else f"{seconds:g}s"


def how_shown(found: Search, models: Mapping[str, Refitted]) -> str:
    """Say in two sentences from which rows the models shown have learned, and what the time went to."""
    own = [model for name, model in models.items() if name in found.fitted and isinstance(model.model, LatentModel)]
    again = sum(model.again and found.n_used > found.n_train for model in own)
    which = "The models shown here were" if again == len(own) else f"{again} of the models shown here were"
    text = f" {which} fitted again, to all {found.n_used:,} of these rows." if again else ""
    return f"{text} Of {found.seconds:.0f} seconds {found.seconds_compiling:.0f} went into compiling programs."


def columns_kept(given: Given) -> str:
    """Say in a sentence which columns the page is about; nothing if it is all."""
    kept = given.values.shape[1]
    if kept == given.n_columns:
        return ""
    return f" Of the {given.n_columns:,} columns the page and its models have the {kept:,} that vary most."
