"""A picture of what each family takes to be hidden, all in one style; conf.py writes them into ``_static/causes``.

Above what is hidden, in orange; below a row of the table, in blue, full where a bit is 1.  A switch that is on is full,
a line between two things says that one depends on the other, and an arrow that the lower is made from the upper.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from pathlib import Path

__all__ = ["DRAWINGS", "svg", "write"]

WIDTH, HEIGHT = 260, 160
BITS = (1, 0, 1, 1, 0, 1)
COLUMNS = [40 + 36 * place for place in range(len(BITS))]  # x of their middles
ROW = 134  # y of the middle of the table's row
SIDE = 20

STYLE = """\
  .paper { fill: #ffffff; }
  .bit { stroke: #5b8ec4; stroke-width: 1.5; fill: #e3eefa; }
  .bit.on { fill: #5b8ec4; }
  .hidden { stroke: #cf7a52; stroke-width: 1.5; fill: #fbe9e0; }
  .hidden.on { fill: #cf7a52; }
  .curve { stroke: #cf7a52; stroke-width: 2; fill: none; }
  .line { stroke: #9aa7b3; stroke-width: 1.3; fill: none; }
  .arrow { stroke: #9aa7b3; stroke-width: 1.3; fill: none; marker-end: url(#head); }
  .cut { stroke: #3f4e5c; stroke-width: 1.3; stroke-dasharray: 3 2; }
  .head { fill: #9aa7b3; }
  .note { fill: #5d6b78; font-size: 13px; font-style: italic; text-anchor: middle; }
"""


# --- the parts of a drawing ---


def _square(x: float, y: float, on: bool, kind: str, side: float = SIDE) -> str:
    shown = f"{kind} on" if on else kind
    return (
        f'<rect class="{shown}" x="{x - side / 2:g}" y="{y - side / 2:g}" width="{side:g}" height="{side:g}" rx="3"/>'
    )


def _circle(x: float, y: float, on: bool = False, radius: float = 12) -> str:
    return f'<circle class="{"hidden on" if on else "hidden"}" cx="{x:g}" cy="{y:g}" r="{radius:g}"/>'


def _between(start: tuple[float, float], end: tuple[float, float], kind: str = "arrow") -> str:
    (x, y), (u, v) = start, end
    return f'<path class="{kind}" d="M{x:g} {y:g} L{u:g} {v:g}"/>'


def _to_columns(x: float, y: float, columns: Iterable[int], top: float, kind: str = "arrow") -> list[str]:
    return [_between((x, y), (COLUMNS[column], top), kind) for column in columns]


def _row_of_bits(y: float = ROW) -> list[str]:
    return [_square(x, y, bool(bit), "bit") for x, bit in zip(COLUMNS, BITS)]


def _row_of_numbers() -> list[str]:
    """Real numbers, as bars."""
    heights = (22, 8, 27, 16, 5, 19)
    return [
        f'<rect class="bit on" x="{x - 7}" y="{ROW + 14 - height}" width="14" height="{height}"/>'
        for x, height in zip(COLUMNS, heights)
    ]


def _bell(middle: float, base: float, width: float, height: float) -> str:
    places = [-2.6 + 0.2 * step for step in range(27)]
    points = (f"{middle + width * z:.1f} {base - height * math.exp(-z * z / 2):.1f}" for z in places)
    return f'<path class="curve" d="M{" L".join(points)}"/>'


def _note(text: str, y: float) -> str:
    return f'<text class="note" x="{WIDTH / 2:g}" y="{y:g}">{text}</text>'


TOP = ROW - SIDE / 2 - 2  # where arrows end


# --- a drawing for each family ---


def _product() -> list[str]:
    return [_note("nothing hidden", 62), *_row_of_bits()]


def _chow_liu_tree() -> list[str]:
    joined = ((0, 2), (2, 1), (2, 4), (4, 3), (4, 5))
    arcs = []
    for one, other in joined:
        x, u = COLUMNS[one], COLUMNS[other]
        arcs.append(f'<path class="line" d="M{x} {TOP:g} Q{(x + u) / 2:g} {TOP - 0.75 * abs(u - x):g} {u} {TOP:g}"/>')
    return [_note("nothing hidden", 36), *arcs, *_row_of_bits()]


def _latent_tree() -> list[str]:
    heights = (84, 84, 50, 84, 50, 84)
    joined = ((0, 2), (1, 2), (2, 4), (3, 4), (4, 5))
    places = list(zip(COLUMNS, heights))
    parts = [_between(places[one], places[other], "line") for one, other in joined]
    parts += [_between((x, y), (x, TOP)) for x, y in places]
    parts += [_circle(x, y, radius=11) for x, y in places]
    for place, (x, y) in enumerate(places):  # three states, of which one is taken
        parts += [_circle(x + dx, y, on=state == place % 3, radius=2.6) for state, dx in enumerate((-6, 0, 6))]
    return [*parts, *_row_of_bits()]


def _mixture() -> list[str]:
    frame = '<rect class="hidden" x="70" y="16" width="120" height="36" rx="18" stroke-dasharray="4 3"/>'
    kinds = [_circle(x, 34, on=x == 130) for x in (96, 130, 164)]
    return [*_to_columns(130, 46, range(6), TOP), frame, *kinds, *_row_of_bits()]


def _latent_trait() -> list[str]:
    axis = _between((50, 52), (214, 52), "curve")
    place = _circle(152, 52, on=True, radius=5)
    return [*_to_columns(152, 57, range(6), TOP), _bell(130, 52, 28, 34), axis, place, *_row_of_bits()]


def _item_response() -> list[str]:
    curves = [_between((x - 14, 34), (x + 14, 22), "curve") for x in COLUMNS]
    return [*_latent_trait(), *curves]


def _curved_trait() -> list[str]:
    bend = '<path class="curve" fill="none" d="M60 60 C100 4 170 4 204 60"/>'
    place = _circle(152, 22, on=True, radius=5)
    return [*_to_columns(152, 27, range(6), TOP), bend, place, *_row_of_bits()]


def _trait_maps() -> list[str]:
    axes = [_between((x - 34, 40), (x + 34, 40), "curve") for x in (84, 176)]
    place = _circle(190, 40, on=True, radius=5)
    bells = [_bell(x, 40, 20, 24) for x in (84, 176)]
    return [*_to_columns(190, 45, range(6), TOP), *bells, *axes, place, *_row_of_bits()]


def _clipped_gaussian() -> list[str]:
    middle = 96
    factors = [(90, (0, 1, 2, 3)), (170, (2, 3, 4, 5))]
    parts = [part for x, columns in factors for part in _to_columns(x, 34, columns, middle - 16)]
    parts += [
        part for x, _ in factors for part in (_bell(x, 34, 12, 22), _between((x - 34, 34), (x + 34, 34), "curve"))
    ]
    for x, bit in zip(COLUMNS, BITS):  # a number each, above its threshold or below
        height = 22 if bit else 8
        parts.append(f'<rect class="hidden on" x="{x - 5}" y="{middle + 12 - height}" width="10" height="{height}"/>')
        parts.append(_between((x - 11, middle - 2), (x + 11, middle - 2), "cut"))
    return [*parts, *_row_of_bits(ROW + 4)]


def _combination_machine() -> list[str]:
    switches = list(zip((58, 106, 154, 202), (1, 0, 1, 0)))
    parts = [part for x, _ in switches for part in _to_columns(x, 34, range(6), TOP, "line")]
    return [*parts, *(_square(x, 34, bool(on), "hidden") for x, on in switches), *_row_of_bits()]


def _binary_sparse_coding() -> list[str]:
    switches = list(zip((58, 106, 154, 202), (0, 1, 0, 1)))
    reached = ((0, 1, 2), (0, 2, 3), (3, 4), (2, 3, 5))
    parts = [part for (x, _), columns in zip(switches, reached) for part in _to_columns(x, 46, columns, ROW - 18)]
    return [*parts, *(_square(x, 34, bool(on), "hidden") for x, on in switches), *_row_of_numbers()]


def _noisy_or() -> list[str]:
    causes, middle = list(zip((58, 106, 154, 202), (1, 0, 1, 1))), 78
    above = [(82, 1, (0, 1)), (178, 1, (2, 3))]
    parts = [_between((x, 36), (causes[place][0], middle - 12)) for x, _, places in above for place in places]
    reached = ((0, 2), (1, 2), (2, 3), (4, 5))
    parts += [part for (x, _), columns in zip(causes, reached) for part in _to_columns(x, middle + 10, columns, TOP)]
    parts += [_square(x, 26, bool(on), "hidden") for x, on, _ in above]
    parts += [_square(x, middle, bool(on), "hidden") for x, on in causes]
    return [*parts, *_row_of_bits()]


# By the family's name: the drawing, and what it shows for those who do not see it.
DRAWINGS: dict[str, tuple[Callable[[], list[str]], str]] = {
    "product": (_product, "Six bits, and nothing above them"),
    "chow-liu-tree": (_chow_liu_tree, "Six bits, joined by the arcs of a tree, and nothing above them"),
    "latent-tree": (_latent_tree, "Above each of six bits a hidden cause with three states; lines join them to a tree"),
    "mixture": (_mixture, "Three hidden kinds, of which one is chosen; arrows from it to all six bits"),
    "latent-trait": (_latent_trait, "A place on a line, below a bell curve; arrows from it to all six bits"),
    "item-response": (
        _item_response,
        "A place on a line, below a bell curve; arrows from it to all six bits, each with a slope of its item",
    ),
    "curved-trait": (_curved_trait, "A place on a line that bends; arrows from it to all six bits"),
    "trait-maps": (_trait_maps, "Two lines below bell curves, a place on one of them; arrows from it to all six bits"),
    "clipped-gaussian": (
        _clipped_gaussian,
        "Two bell curves, arrows from them to a hidden number for each column, which is above or below its threshold, "
        "and below it the bit",
    ),
    "combination-machine": (_combination_machine, "Four hidden switches, each joined by lines to all six bits"),
    "binary-sparse-coding": (
        _binary_sparse_coding,
        "Four hidden switches with arrows to some of six bars, which are real numbers",
    ),
    "noisy-or": (
        _noisy_or,
        "Two hidden switches with arrows to four others below, and arrows from these to some of six bits",
    ),
}


def svg(name: str) -> str:
    """The picture of a family."""
    draw, words = DRAWINGS[name]
    parts = "\n".join(draw())
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-labelledby="d"
     font-family="system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif">
<desc id="d">{words}.</desc>
<style>
{STYLE}</style>
<defs><marker id="head" viewBox="0 0 10 10" refX="8" refY="5" markerWidth="6" markerHeight="6" orient="auto">
<path class="head" d="M0 0 L10 5 L0 10 z"/></marker></defs>
<rect class="paper" width="{WIDTH}" height="{HEIGHT}" rx="8"/>
{parts}
</svg>
"""


def write(folder: Path) -> None:
    """One file for each family."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in DRAWINGS:
        (folder / f"{name}.svg").write_text(svg(name), "utf-8")
