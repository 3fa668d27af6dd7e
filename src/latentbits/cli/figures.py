"""Figures for print: the options that ask for them, and drawing one after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click

from latentbits.cli.console import in_one_line
from latentbits.cli.outputs import Outputs

__all__ = ["FORMATS", "check_figures", "draw_figures", "figure_options"]

FORMATS = ("png", "svg", "pdf")


def figure_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --figures and --figure-format."""
    kinds = click.option(
        "--figure-format", type=click.Choice(FORMATS), default="png", help="How --figures are written."
    )
    folder = click.option(
        "--figures", type=click.Path(file_okay=False), help="Also draw figures for print, into this folder."
    )
    return folder(kinds(command))


def check_figures(folder: str | None, names: tuple[str, ...], kind: str, command: str) -> None:
    """Refuse, before minutes of fitting, what would hinder drawing, and make the folder."""
    from latentbits.core.errors import import_extra

    if folder is None:
        return
    import_extra("matplotlib", extra="plot", purpose=f"drawing the figures of {command}")
    Path(folder).mkdir(parents=True, exist_ok=True)
    for name in names:
        Outputs({"--figures": Path(folder) / f"{name}.{kind}"})


def draw_figures(
    makers: Mapping[str, Callable[[], Any]], folder: str | None, kind: str, outputs: Outputs
) -> list[Path]:
    """Draw and write each figure; one that fails costs a message, and nothing else."""
    from latentbits import plot

    drawn: list[Path] = []
    for name, make in makers.items() if folder is not None else ():
        path = Path(str(folder)) / f"{name}.{kind}"
        try:
            drawn.append(plot.save_figure(make(), path))
        except Exception as error:  # whatever it is, what was learned is written and still to be printed
            outputs.fail(f"the figure {path} could not be drawn: {in_one_line(error)}")
    return drawn
