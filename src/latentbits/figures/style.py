"""How all pictures look, and what drawing them shares: colours, type, new axes, sheets of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from latentbits.core.errors import import_extra
from latentbits.core.printable import printable

__all__ = [
    "ACCENT",
    "EDGE",
    "GREY",
    "INK",
    "PALETTE",
    "PAPER",
    "SMALL",
    "SQUARE",
    "STYLE",
    "VEIL",
    "WIDE",
    "axes_or_new",
    "bare",
    "for_words",
    "ink",
    "one_colour",
    "short",
    "show",
    "signed",
    "size_in_points",
]

INK, GREY, ACCENT, PAPER, VEIL = "#22303c", "#8a949e", "#c8553d", "#ffffff", "#f3e3c3"
EDGE = "#c9d0d6"
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": EDGE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 11,
    "axes.titleweight": "bold",
    "axes.titlepad": 10,
    "axes.axisbelow": True,
    "grid.color": "#e6eaed",
    "xtick.color": INK,
    "ytick.color": INK,
    "xtick.major.size": 0,
    "ytick.major.size": 0,
    "svg.fonttype": "none",
    "figure.facecolor": PAPER,
    "savefig.facecolor": PAPER,
}
# Okabe and Ito's, that the colour-blind can tell apart, without yellow, which white paper swallows; and three more, so
# that ten digits have ten colours
PALETTE = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#22303c", "#6a3d9a", "#8c510a", "#9aa51e")
SMALL = 8.0  # points: names within a picture
WIDE, SQUARE = (7.2, 4.6), (5.6, 5.6)  # inches of an axes


def axes_or_new(ax: Any, size: tuple[float, float] | None = None) -> Any:
    """Return the Axes given, or new ones in a figure of pyplot, of a size in inches if one is given."""
    if ax is not None:
        return ax
    plt = import_extra("matplotlib.pyplot", extra="plot", purpose="drawing")
    with plt.rc_context(STYLE):
        return plt.subplots(figsize=size, layout="constrained")[1]


def size_in_points(ax: Any) -> tuple[float, float]:
    """Measure width and height that the layout leaves to the Axes: text must fit into these."""
    figure = ax.figure
    engine = figure.figure.get_layout_engine()  # of a subfigure, the figure
    if engine is not None:
        engine.execute(figure.figure)
    box = ax.get_position(original=True).transformed(figure.transSubfigure)
    return box.width * 72 / figure.dpi, box.height * 72 / figure.dpi


def for_words(colour: str) -> str:
    """Darken a colour until small type can be read in it."""
    from matplotlib.colors import to_hex, to_rgb

    red, green, blue = (0.65 * own + 0.35 * dark for own, dark in zip(to_rgb(colour), to_rgb(INK)))
    return to_hex((red, green, blue))


def show(ax: Any, sheet: np.ndarray) -> None:
    """Show a sheet of images, white where there is none, without axes."""
    ax.imshow(sheet, cmap=ink(), vmin=0, vmax=1, interpolation="nearest")
    bare(ax)


def bare(ax: Any) -> None:
    """Remove ticks and spines."""
    ax.set_xticks([])
    ax.set_yticks([])
    for spine in ax.spines.values():
        spine.set_visible(False)


def ink() -> Any:
    """Make the scale from a light grey, so that an empty image still has an edge, to ink."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("ink", ["#eef1f3", "#8fa1b0", INK]).with_extremes(bad=PAPER)


def signed() -> Any:
    """Make the scale from blue for minus through near white to red for plus."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", [PALETTE[0], "#f2f4f5", ACCENT]).with_extremes(bad=PAPER)


def one_colour(colour: str) -> Any:
    from matplotlib.colors import ListedColormap

    return ListedColormap([colour]).with_extremes(bad=(1, 1, 1, 0))


def short(name: str, most: int = 22) -> str:
    """Shorten a name to the room of a picture; drawn with ``parse_math=False``, since a user's $ is a $.

    >>> short("line one\\nline two"), short("a name that is too long", 10)
    ('line one\\\\nline two', 'a name th…')
    """
    name = printable(name)
    return name if len(name) <= most else name[: most - 1] + "…"
