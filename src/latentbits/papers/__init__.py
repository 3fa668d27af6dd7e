"""The papers behind the models: each folder repeats the experiments of one, and sets its numbers beside ours.

A folder has ``reproduce.py`` with a function `reproduce(out, *, quick, say)`, ``expected.json`` (what the paper
reports, and what we hold ourselves to) and ``README.md``.  What all of them share is in ``skeleton.py``
and ``pages.py``.  Nothing heavy is imported before an experiment runs.

``reproduce.py`` may also have `trials(out, *, quick)`: a list of experiments that do not depend on each other, each a
`functools.partial` of a function of its module, which keeps what it finds below ``out / "runs"`` (`skeleton.kept`).
They may be called in other processes, in any order; `reproduce` calls the same functions, and finds what is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

__all__ = ["PAPERS", "Paper", "reproduce"]


class Paper(NamedTuple):
    """The name of a folder here, the paper, what of it is repeated, and whether an accelerator is of use for it."""

    name: str
    citation: str
    repeated: str
    accelerated: bool = False


PAPERS = {
    paper.name: paper
    for paper in (
        Paper(
            "tipping_1998",
            "Tipping (1998), Probabilistic visualisation of high-dimensional binary data",
            "figures 1 to 4 and table 1, with LatentTrait",
        ),
        Paper(
            "lee_sompolinsky_1998",
            "Lee & Sompolinsky (1998), Learning a continuous hidden variable model for binary data",
            "figures 2 to 4 and the claims in the text, with ClippedGaussian",
        ),
        Paper(
            "freund_haussler_1994",
            "Freund & Haussler (1994), Unsupervised learning of distributions on binary vectors",
            "all three tables and figures 2.2 and 4.1 to 4.9, with CombinationMachine",
        ),
        Paper(
            "henniges_2010",
            "Henniges et al. (2010), Binary sparse coding",
            "figures 1 and 2 and the reliability on bars, with BinarySparseCoding",
            accelerated=True,  # natural images at the paper's size
        ),
        Paper(
            "lewicki_sejnowski_1996",
            "Lewicki & Sejnowski (1996), Bayesian unsupervised learning of higher order structure",
            "figures 1 to 4, lines and the shifter, with NoisyOrNetwork",
        ),
    )
}


def reproduce(
    name: str, out: str | Path, *, quick: bool = False, say: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """Repeat the experiments of a paper.

    Parameters
    ----------
    name
        One of `PAPERS`.
    out
        The folder for ``results.md``, ``results.json`` and the figures; made if need be.
    quick
        Smaller and fewer experiments, in a minute or two: to see that all works.
    say
        Called with a line whenever there is something to say; None says nothing.

    Returns
    -------
    dict
        What ``results.json`` holds.
    """
    if name not in PAPERS:
        raise ValueError(f"name must be a paper that can be repeated, found {name!r}; these are {', '.join(PAPERS)}")
    module = import_module(f"latentbits.papers.{name}.reproduce")
    return module.reproduce(Path(out), quick=quick, say=say or (lambda text: None))
