"""Display of a fitted estimator: a few lines below scikit-learn's own, and a table below its diagram.

A family adds `_causes`: what it has found, the most important first.  All of it comes from what the fit has left
behind: no row is looked at again.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from latentbits.core.model import Measure, Stop
from latentbits.core.printable import printable
from latentbits.estimators.families import FAMILIES, name_of
from latentbits.reports.strongest import in_words, telling_weights

if TYPE_CHECKING:
    from latentbits.estimators.base import LatentModel

__all__ = ["as_html", "as_text", "found_by", "keep_nested_lines", "named_weights", "short"]


def found_by(model: LatentModel) -> Iterator[tuple[str, str]]:
    """List lines, each with its subject: size, bits per row, how learning ended, and the first of the causes."""
    yield "found", _size(model)
    yield from _worth(model)
    yield "learning", _ending(model)
    causes = model._causes()
    yield from islice(causes, 5)
    left = sum(1 for _ in causes)
    if left:
        yield "", f"and {left} more"


def as_text(line: str, found: Iterable[tuple[str, str]]) -> str:
    """Write lines below one of scikit-learn's, within the width of a terminal.

    >>> print(as_text("Model(2)", [("found", "2 kinds"), ("kind 1", "tea 0.9")]))
    Model(2)
      found   2 kinds
      kind 1  tea 0.9
    """
    lines = list(found)
    wide = max((len(about) for about, _ in lines), default=0)
    return "\n".join([line, *(f"  {about:<{wide}}  {_fitted_in(text, 76 - wide)}" for about, text in lines)])


def as_html(diagram: str, found: Iterable[tuple[str, str]]) -> str:
    """Write a table below a diagram of scikit-learn's."""
    cell = 'style="text-align:left;vertical-align:top;padding:.15em .8em .15em 0;border:0;background:none"'
    rows = "".join(
        f'<tr style="background:none"><th scope="row" {cell}>{html.escape(about)}</th>'
        f"<td {cell}>{html.escape(text)}</td></tr>"
        for about, text in found
    )
    table = f'<table class="latentbits-found" style="margin:.4em 0 0 .5em;border-collapse:collapse">{rows}</table>'
    return f"<div>{diagram}{table}</div>"


def named_weights(
    what: str, names: Sequence[str], weights: np.ndarray, form: str = "+.2f", values: np.ndarray | None = None
) -> Iterator[tuple[str, str]]:
    """Yield causes by the columns with their largest weights, the longest first; `values` are shown instead, if given.

    >>> list(named_weights("unit", ["tea", "milk"], np.array([[0.1, -0.5], [2.0, 1.0]])))
    [('unit 2', 'tea +2.00, milk +1.00'), ('unit 1', 'tea +0.10, milk -0.50')]
    """
    shown = [short(name) for name in names]
    for place in np.argsort(-np.linalg.norm(weights, axis=1), kind="stable").tolist():
        (columns,) = telling_weights(weights[place : place + 1], 4)
        yield f"{what} {place + 1}", in_words(shown, (weights if values is None else values)[place], columns, form)


def short(name: str) -> str:
    """Shorten the name of a column to its beginning: names can be whole questions."""
    return _cut(printable(name), 24)


def _size(model: LatentModel) -> str:
    known = any(one.class_name == type(model).__name__ for one in FAMILIES)
    name = name_of(model) if known else f"{model._n_features_out} latents"  # a family of another library
    n, d = model.n_rows_, model.n_features_in_
    idle = len(getattr(model, "_idle", ()))  # constant, or never observed
    size = f"{name}, from " + (f"{n:.10g} rows x {d} columns" if math.isfinite(n) else f"{d} columns")
    return size + (f", {idle} constant" if idle else "")


def _worth(model: LatentModel) -> Iterator[tuple[str, str]]:
    """Return bits that a row takes, or its log density, where learning knows it of its rows."""
    measures = model.history_table_["measure"]
    measure = measures[-1] if len(measures) else None
    if measure not in (Measure.LIKELIHOOD, Measure.BOUND) or not math.isfinite(model.objective_ / model.n_rows_):
        return
    nats = model.objective_ / model.n_rows_
    notes = [*(["a bound"] if measure == Measure.BOUND else []), *model._provisos()]
    tail = f" ({', '.join(notes)})" if notes else ""
    if model.real_valued:
        yield "log density", f"{nats:.4g} nats per row{tail}"
    else:
        yield "bits per row", f"{-nats / math.log(2):.4g}{tail}"


def _ending(model: LatentModel) -> str:
    reason, n = Stop(model.stop_reason_), model.n_iter_
    if reason is Stop.GIVEN:
        return "none: the parameters were given"
    named = "stopped by held-out rows" if reason is Stop.HELD_OUT else str(reason)
    how = named if reason.finished else f"not converged ({reason})"
    left = model.left_to_gain_
    rest = f", {float(f'{left:.2g}'):g} nats left" if not reason.finished and math.isfinite(left) else ""
    return f"{how} after {n} iteration{'' if n == 1 else 's'}{rest}"


def _cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "…"


def _fitted_in(text: str, longest: int) -> str:
    """Cut a text to what fits into a line; of a list whole entries.

    >>> _fitted_in("tea 0.9, milk 0.8", 16), _fitted_in("milk and honey", 12)
    ('tea 0.9, …', 'milk and ho…')
    """
    if len(text) <= longest:
        return text
    whole = text[: longest - 1].rpartition(", ")[0]
    return f"{whole}, …" if whole else _cut(text, longest)


def keep_nested_lines(method: Any) -> None:
    """Let scikit-learn write estimators with this `__repr__` inside of others as it writes its own, without ours.

    It looks its way of folding them up by that method, which would else be unknown to it.
    """
    from sklearn.base import BaseEstimator
    from sklearn.utils._pprint import _EstimatorPrettyPrinter

    ways = _EstimatorPrettyPrinter._dispatch
    ways[method] = ways[BaseEstimator.__repr__]
