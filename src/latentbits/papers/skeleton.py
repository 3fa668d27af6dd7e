"""Skeleton of any paper: its parts, one after the other; what they found, drew and measured, judged and written.

A paper has a `Plan` of how much is done, and parts: functions of a `Run` that give what ``results.json`` holds.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from latentbits.core.atomic import write_atomically
from latentbits.core.errors import import_extra
from latentbits.core.version import __version__
from latentbits.papers import pages

__all__ = ["Fitted", "Part", "Run", "Say", "fitted", "in_style", "kept", "new_figure", "repeat", "silent"]

Say = Callable[[str], None]


def silent(text: str) -> None:
    """Say nothing."""


@dataclass
class Run:
    """A repetition under way."""

    plan: Any  # how much is done
    out: Path  # the folder of the files
    say: Say = silent  # called with a line whenever there is something to tell
    notes: list[str] = field(default_factory=list)  # lines for the page: what is not as it should be
    # numbers that expected.json has ranges for
    measured: dict[str, float | pages.Measured] = field(default_factory=dict)
    figures: dict[str, list[str]] = field(default_factory=dict)  # files of each figure

    def draw(self, number: str, figure: Any, name: str | None = None) -> None:
        """Write a figure as png and svg; `name` is that of the files, where the number does not make it."""
        name = f"figure_{number.replace('.', '_').replace(' ', '_')}" if name is None else name
        self.figures[number] = pages.save(figure, self.out, name)


Part = Callable[[Run], Any]


def repeat(
    package: str,
    run: Run,
    quick: bool,
    parts: Mapping[str, Part],
    report: Callable[[Mapping[str, Any], Mapping[str, Any]], str],
) -> dict[str, Any]:
    """Repeat the parts of a paper, and write ``results.json``, ``results.md`` and the figures.

    Parameters
    ----------
    package
        Of the paper: it has expected.json.
    report
        The page, from the results and from expected.json.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    import_extra("matplotlib", extra="plot", purpose="drawing the figures of the paper")  # before any fitting
    run.out.mkdir(parents=True, exist_ok=True)
    found = {name: part(run) for name, part in parts.items()}
    held_to = pages.expected(package)
    results = {
        "paper": package.rpartition(".")[2],
        "quick": quick,
        "machine": pages.machine(),
        "notes": run.notes,
        **found,
        "relations": pages.judge(held_to["relations"], run.measured),
        "figures": run.figures,
    }
    pages.write_results(run.out, results, report(results, held_to))
    return results


def kept(folder: Path, name: str, compute: Callable[[], Any], asked: Any = ()) -> Any:
    """Get what an experiment found: as the folder has it, or computed now and kept there, so that none is done twice.

    `folder`: mostly ``run.out / "runs"``; made if need be.  `name`: of the experiment, with its seed where it has one;
    letters that a file may have.  `compute`: gives numbers that JSON can hold.  They are given as JSON has them: tuples
    come as lists, keys as strings.  `asked`: all else that decides how it comes out (numbers of rows, settings): where
    it is another, or the version is, the experiment is done again.  Values that JSON cannot hold count by their `repr`.
    """
    words = json.dumps([__version__, name, asked], sort_keys=True, default=repr)
    path = folder / f"{name}-{hashlib.sha256(words.encode()).hexdigest()[:12]}.json"
    if not path.exists():
        text = json.dumps({"asked": json.loads(words), "found": compute()}, indent=1)
        folder.mkdir(parents=True, exist_ok=True)
        with write_atomically(path) as file:
            file.write(text.encode())
    return json.loads(path.read_text("utf-8"))["found"]


class Fitted(NamedTuple):
    """A learned model and the seconds it took."""

    model: Any
    seconds: float


def fitted(model: Any, X: np.ndarray) -> Fitted:
    """Learn a model; that a number of iterations ends it is meant."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X)
    return Fitted(model, time.perf_counter() - began)


# --- figures ---


def in_style(draw: Callable[..., Any]) -> Callable[..., Any]:
    """Set axes and titles alike in the style of all pictures."""

    @wraps(draw)
    def styled(*args: Any, **settings: Any) -> Any:
        from latentbits.figures.style import STYLE

        with import_extra("matplotlib", extra="plot", purpose="drawing the figures of the paper").rc_context(STYLE):
            return draw(*args, **settings)

    return styled


def new_figure(size: tuple[float, float], pad: float | None = 0.08) -> Any:
    """Make an empty figure, whose parts make room for each other; `pad` is in inches, None that of matplotlib."""
    from matplotlib import pyplot as plt

    figure = plt.figure(figsize=size, layout="constrained")
    if pad is not None:
        layout: Any = figure.get_layout_engine()
        layout.set(w_pad=pad, h_pad=pad)
    return figure
