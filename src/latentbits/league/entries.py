"""Entries of the league: every family of bits, with the settings to choose from, in the order of trying.

A family without a line in `TUNED` takes part with the sizes of its record.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from latentbits.choosing.climb import Axis, doublings
from latentbits.estimators.families import families, family
from latentbits.estimators.family_record import Family

__all__ = ["ENTRIES", "TUNED", "Entry", "by_its_record", "entry"]

MANY_COLUMNS = 300  # columns, more than which change no size


class Entry(NamedTuple):
    """One family in the league.

    Attributes
    ----------
    name
        On the command line, and of its folder.
    called
        For people.
    family
        Its record in `estimators.families`.
    axes
        What is chosen, in the order in which it is tried.
    settings
        What is the same for all.
    held_out
        Whether learning ends by the validation rows (`fit(X, X_val=...)`): where models learn in many passes, and the
        last of them are of use to the training rows alone.
    """

    name: str
    called: str
    family: str
    axes: tuple[Axis, ...]
    settings: Mapping[str, Any] = {}
    held_out: bool = False

    def axes_for(self, n_columns: int) -> tuple[Axis, ...]:
        """Leave out sizes that cannot be learned: half of the columns determine no more factors than that."""
        record = family(self.family)
        if record.sizes is None or not record.sizes.factors:
            return self.axes
        most = max(1, (n_columns - 1) // 2)
        return tuple(_up_to(axis, most) if axis.name == record.size else axis for axis in self.axes)

    def new(self, chosen: Mapping[str, Any]) -> Any:
        """Make a model with these settings, not fitted."""
        return family(self.family).cls(**{**family(self.family).settings, **self.settings, **chosen})


def _up_to(axis: Axis, most: int) -> Axis:
    values = tuple(value for value in axis.values if value <= most) or (most,)
    return axis._replace(values=values, first=min(axis.first, values[-1]))


def _smoothing(first: float, *values: float) -> Axis:
    return Axis("smoothing", values, first)


# Less than 1e-4 nats per row is no matter here, and standard errors are larger by far.
BY_PASSES = {"tol": 1e-4}

TUNED = (
    Entry("product", "independent bits", "product", (_smoothing(1.0, 0.1, 1.0, 10.0),)),
    Entry("chow-liu-tree", "Chow-Liu tree", "chow-liu-tree", (_smoothing(1.0, 0.3, 1.0, 3.0, 10.0),)),
    Entry(
        *("latent-tree", "latent tree", "latent-tree"),
        (
            _smoothing(1.0, 0.1, 0.3, 1.0, 3.0, 10.0),
            Axis("n_trees", (1, 4, 8, 16), 4),
            Axis("n_states", (4, 8, 12, 16, 24), 12),
            Axis("softening", (0.0, 0.002, 0.01), 0.0),
        ),
        BY_PASSES,
        held_out=True,
    ),
    Entry(
        *("mixture", "mixture", "mixture"),
        (
            Axis("n_components", (16, 32, 64, 128, 256, 512, 1024), 256),
            _smoothing(1.0, 0.3, 1.0, 3.0),
            Axis("init", ("random", "anneal"), "anneal"),
        ),
        {**BY_PASSES, "n_init": 1},
        held_out=True,
    ),
    Entry(
        *("combination-machine", "combination machine", "combination-machine"),
        (Axis("n_hidden", (8, 16, 64, 128, 256), 16), Axis("weight_prior", ("auto", 0.3, 1.0, 3.0), "auto")),
    ),
    Entry(
        *("curved-trait", "latent trait, curved", "curved-trait"),
        (Axis("n_components", (2, 4, 8), 4),),
        held_out=True,
    ),
    Entry(
        *("latent-trait", "latent trait", "latent-trait"),
        (Axis("n_components", (1, 2, 4, 8, 16), 2), Axis("weight_prior", (1.0, 3.0), 3.0)),
        BY_PASSES,
    ),
    Entry(
        *("noisy-or", "noisy OR", "noisy-or"),
        (Axis("layer_sizes", ((8,), (16,), (32,)), (8,)),),
    ),
    Entry(
        *("clipped-gaussian", "clipped Gaussian", "clipped-gaussian"),
        (Axis("n_components", (2, 4, 6, 10, 16, 32), 4), Axis("learner", ("moments", "likelihood"), "moments")),
        BY_PASSES,
    ),
)


def by_its_record(record: Family) -> Entry:
    """Make the entry of a family without a line in `TUNED`: its record says which sizes are worth trying.

    >>> by_its_record(family("mixture")).axes
    (Axis(name='n_components', values=(2, 4, 8, 16, 32, 64, 128), first=8, stride=2),)
    """
    called = record.called.partition(" of {")[0].replace("{} ", "").replace("{s}", "")
    if record.sizes is None:
        return Entry(record.name, called, record.name, ())
    steps = record.sizes.steps(MANY_COLUMNS, MANY_COLUMNS * MANY_COLUMNS)
    sizes = doublings(steps.first, steps.least, steps.most)
    values = tuple((size,) if record.has_layers else size for size in sizes)
    first = values[sizes.index(steps.first)]
    return Entry(record.name, called, record.name, (Axis(record.size, values, first, stride=2),))


ENTRIES = (*TUNED, *(by_its_record(one) for one in families("bits") if one.name not in {e.family for e in TUNED}))


def entry(name: str) -> Entry:
    """Find the entry of this name; an unknown name is an error."""
    for one in ENTRIES:
        if one.name == name:
            return one
    raise ValueError(f"there is no entry {name!r}; there are {', '.join(one.name for one in ENTRIES)}")
