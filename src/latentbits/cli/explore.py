"""`latentbits explore`: from a table to a picture and three sentences."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from latentbits.cli.compare import as_dict, models_option, named_models, show_comparison
from latentbits.cli.console import common_options, give, say
from latentbits.cli.inputs import Reading, Rows, check_bits, load_rows, reading_options

if TYPE_CHECKING:
    from latentbits.report.map_summaries import TraitMap
    from latentbits.report.summaries import Exploration, Switches

__all__ = ["explore"]

TEST_SIZE = 0.25
N_EXAMPLES = 16
MOST_ON_MAP = 5000  # rows drawn
DEFAULT_NAME = "explore.png"
FIGURES = (".png", ".svg", ".pdf")


class ImageShape(click.ParamType):
    """HxW, two numbers."""

    name = "HxW"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        if isinstance(value, tuple):
            return value
        height, _, width = str(value).lower().partition("x")
        if not (height.isdecimal() and width.isdecimal() and int(height) * int(width) > 0):
            self.fail(f"{value!r} is not a height and a width such as 8x8.", param, ctx)
        return int(height), int(width)


@click.command(short_help="From a table to a picture and a few sentences (start here).")
@click.argument("source", metavar="[DATA]", default="digits")
@click.option(
    "--out",
    type=click.Path(),
    default="latentbits-explore",
    help="A folder, made if need be, or a file that ends in .png, .svg or .pdf.",
)
@click.option("--image", type=ImageShape(), help="Show each row as an image of this height and width, e.g. 8x8.")
@models_option
@reading_options
@common_options
def explore(
    source: str,
    reading: Reading,
    out: str,
    image: tuple[int, int] | None,
    models: str | None,
    restarts: int,
    seed: int,
    binarize: float | None,
    as_json: bool,
) -> None:
    """Find out what is in DATA: compare models, draw what the best one found, and say it in words.

    DATA is a file or the name of a public data set; without it, the bundled digits.
    """
    from latentbits.cli.cache import use_compile_cache
    from latentbits.core.errors import DataError, import_extra

    import_extra("matplotlib", extra="plot", purpose="drawing the figure of explore")  # before minutes of fitting
    rows = load_rows(source, reading)
    check_bits(rows, binarize)
    shape = image or rows.image_shape
    if shape is not None and shape[0] * shape[1] != rows.shape[1]:
        raise DataError(f"--image {shape[0]}x{shape[1]} needs {shape[0] * shape[1]} columns, found {rows.shape[1]}")
    path = _figure_path(out)
    use_compile_cache()
    from latentbits.estimators.compare import compare
    from latentbits.report.figures import draw_exploration, draw_map, save_figure
    from latentbits.report.summaries import findings

    named = named_models(models, rows.shape[0], seed, restarts, binarize)
    say(f"fitting {', '.join(named)} ({TEST_SIZE:.0%} of the rows held out)")
    found = compare(rows.values, named, test_size=TEST_SIZE, random_state=seed)
    if not as_json:
        show_comparison(found)
    say("looking at what was found")
    seen = _look(rows, shape, found, seed, binarize)
    say(f"drawing {path}")
    save_figure(draw_exploration(seen), path)
    mapped = _map(rows, shape, found, seed)
    map_path = None
    if mapped is not None:
        map_path = path.with_name("map.png" if path.name == DEFAULT_NAME else f"{path.stem}-map{path.suffix}")
        say(f"drawing {map_path}")
        save_figure(draw_map(mapped), map_path)
    sentences = findings(seen)

    def show() -> None:
        for sentence in sentences:
            click.echo(sentence)
        click.echo(f"Figure: {path}")
        if map_path is not None:
            click.echo(f"Map: {map_path}")

    pictures = {"figure": str(path), "map": None if map_path is None else str(map_path)}
    give({"source": source, **as_dict(found), **pictures, "findings": sentences}, as_json, show)


def _figure_path(out: str) -> Path:
    """Where the figure goes; its folder is made now, so that a bad name fails before the fits."""
    path = Path(out)
    if path.suffix and path.suffix.lower() not in FIGURES and not path.is_dir():
        raise ValueError(f"--out {out}: a figure is written as {', '.join(FIGURES)}")
    if path.suffix.lower() not in FIGURES:
        path = path / DEFAULT_NAME
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _look(rows: Rows, shape: tuple[int, int] | None, found: Any, seed: int, binarize: float | None) -> Exploration:
    """All that the figure shows: the best model, and how it does on the held-out rows."""
    import numpy as np

    from latentbits.estimators.compare import standard_error
    from latentbits.report import summaries

    names = [entry.name for entry in found.entries]
    # the simplest that is as good as the best; where that is independent bits, the first with something hidden to see
    candidates = [found.simplest, *found.row_bits]
    sizes = ("n_components", "n_hidden", "layer_sizes")
    best = next((name for name in candidates if any(hasattr(found.fitted[name], size) for size in sizes)), names[0])
    model = found.fitted[best]
    behind = [found.row_bits[name] - found.row_bits[best] for name in names]
    is_trait, is_clipped, is_machine = (
        _has_traits(model),
        hasattr(model, "eigenvalues_"),
        hasattr(model, "hidden_bias_") or hasattr(model, "biases_"),
    )
    weights, means = np.ones(0), np.ones((0, rows.shape[1]))
    if not is_trait and not is_machine:
        weights, means = getattr(model, "weights_", np.ones(1)), np.atleast_2d(model.means_)
    order = summaries.by_share(weights)
    held_out = summaries.dense_bits(rows.values[found.rows], binarize)
    rng = np.random.default_rng(seed)
    hidden = summaries.hide_lower_half(len(held_out), shape) if shape else summaries.hide_some(held_out.shape, rng)
    given = np.where(hidden, np.nan, held_out)
    completed = np.asarray(model.set_params(binarize=None).complete(given))
    average = np.asarray(model.complete(np.full((1, rows.shape[1]), np.nan)))
    examples = np.sort(rng.permutation(len(held_out))[:N_EXAMPLES])
    return summaries.Exploration(
        source=rows.source,
        n_rows=rows.shape[0],
        n_columns=rows.shape[1],
        n_held_out=found.n_rows,
        models=tuple(names),
        bits=np.array([e.bits_per_row for e in found.entries]),
        errors=np.array([e.error for e in found.entries]),
        behind=np.array([np.mean(b) for b in behind]),
        behind_errors=np.array([standard_error(b) for b in behind]),
        shown=best,
        weights=weights[order],
        means=means[order],
        column_names=rows.all_names,
        image_shape=shape,
        history=-model.history_ / (rows.shape[0] - found.n_rows) / np.log(2),
        truth=held_out[examples],
        given=given[examples],
        completed=completed[examples],
        right=summaries.share_right(completed, held_out, hidden),
        right_alone=summaries.share_right(np.broadcast_to(average, held_out.shape), held_out, hidden),
        trait=_places(model.set_params(binarize=binarize), rows, shape, seed) if is_trait else None,
        clipped=summaries.Clipped(model.components_, model.binary_eigenvalues_, model.eigenvalues_)
        if is_clipped
        else None,
        switches=_switches(model.set_params(binarize=binarize), rows, seed) if is_machine else None,
    )


def _has_traits(model: Any) -> bool:
    """Whether a model places rows in a space: the units of a combination machine are on or off."""
    return hasattr(model, "components_") and not hasattr(model, "hidden_bias_")


def _switches(model: Any, rows: Rows, seed: int) -> Switches:
    """The units of a combination machine, or of the lowest layer of a network, and how often they are on in the rows.

    Of many rows, a sample is taken.
    """
    from latentbits.report.summaries import switches_of

    weights = model.weights_[0] if hasattr(model, "biases_") else model.components_
    return switches_of(weights, model.transform(rows.values[_drawn(rows, seed)])[:, : len(weights)])


def _map(rows: Rows, shape: tuple[int, int] | None, found: Any, seed: int) -> TraitMap | None:
    """What the second figure shows: the rows by two latent traits, or by as many as there are; None without a model."""
    traits = [model for model in found.fitted.values() if _has_traits(model)]
    if not traits:
        return None
    # latent traits first: their curves are what the map draws
    order = min(traits, key=lambda model: (not hasattr(model, "intercept_"), abs(len(model.components_) - 2)))
    return _places(order, rows, shape, seed)


def _places(model: Any, rows: Rows, shape: tuple[int, int] | None, seed: int) -> TraitMap:
    """Where a latent trait model places the rows, or a sample of them, and what they are known to be."""
    import numpy as np

    from latentbits.report.map_summaries import TraitMap, kind_labels

    drawn = _drawn(rows, seed)
    label = kind_labels(rows.labels)
    components, intercept = _logistic(model)
    return TraitMap(
        source=rows.source,
        means=np.asarray(model.transform(rows.values[drawn]), np.float64),
        components=components,
        intercept=intercept,
        column_names=rows.all_names,
        image_shape=shape,
        labels=None if label is None else np.asarray(rows.labels[label])[drawn].tolist(),
        label_name=label,
    )


def _drawn(rows: Rows, seed: int) -> Any:
    """Numbers of the rows that are shown: all, or a sample."""
    import numpy as np

    every = np.arange(rows.shape[0])
    if len(every) <= MOST_ON_MAP:
        return every
    return np.sort(np.random.default_rng(seed).permutation(every)[:MOST_ON_MAP])


def _logistic(model: Any) -> tuple[Any, Any]:
    """Components and intercepts of logistic curves: a latent trait model's own, or near those of a clipped Gaussian."""
    import numpy as np

    if hasattr(model, "intercept_"):
        return model.components_, model.intercept_
    # Phi(a) and sigma(1.702 a) differ by less than 0.01; without noise the curves are steps
    steep = 1.702 / np.sqrt(np.maximum(model.noise_variance_, 1e-4))
    return steep * model.components_, steep * model.thresholds_
