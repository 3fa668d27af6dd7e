"""The record of a family of models: its name, its class, its sizes, and all else that lists of families say of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

__all__ = ["Family", "File", "Rows", "Sizes", "Steps"]

Rows = Literal["bits", "reals"]


class Steps(NamedTuple):
    """Numbers of causes that a search tries: from `first`, `stride` times as many at once, from `least` to `most`."""

    first: int
    most: int
    stride: int
    least: int


@dataclass(frozen=True)
class Sizes:
    """Numbers of causes that are worth trying."""

    least: int = 1  # a mixture of one is independent bits
    first: int | None = None  # to begin with; None takes a quarter of the columns, up to 8
    most: int = 128  # more are not tried: of states, whose pairs are counted, each takes its square
    # how many times as many come next.  Where each cause makes all dearer, four times as many are not worth it.
    stride: int = 4
    # whether they are factors: with more than half as many as columns, these cannot separate them
    factors: bool = False
    # the power of the size with which the seconds of a fit are expected to grow: on the digits, from one size to twice
    # as many causes, mixtures had .8 to 1.1, clipped Gaussians .1 to 1.6, trees .6, machines 2.8, traits 4
    growth: float = 2.0

    def steps(self, n_columns: int, n_rows: int) -> Steps:
        """Choose the numbers of causes to try on a table to learn from.

        >>> Sizes(least=2).steps(5, 1000)
        Steps(first=2, most=64, stride=4, least=2)
        """
        most = min(self.most, n_rows // 10)
        if self.factors:
            most = min(most, (n_columns - 1) // 2)
        most = max(self.least, _power_of_two(most))
        first = min(8, _power_of_two(n_columns / 4)) if self.first is None else self.first
        return Steps(max(self.least, min(first, most)), most, self.stride, self.least)


class File(NamedTuple):
    """A table that the command line can write: what is in it, and settings of the model that it needs."""

    about: str
    settings: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True)
class Family:
    """One family."""

    name: str  # on the command line, and for `search` and `explore`
    estimator: str  # its class, as "module:name"; `cls` imports it
    called: str  # its name for people; "{}" is its size, "{s}" the plural's
    summary: str  # its view of the rows, in a line
    # paper, guide: where it comes from, and the page of the docs that explains it
    paper: str = ""
    guide: str = "models"
    size: str = ""  # the parameter that holds the number of causes, or those of each layer; "" for a model without any
    rows: tuple[Rows, ...] = ("bits",)  # kinds of rows that it takes
    # the module of the family's summary: `summarize` gives the printed part, `show` that of the page
    summarized_by: str = "latentbits.reports.summaries.plain"
    sizes: Sizes | None = None  # which to try in a search; None for a model without a size
    cost: int = 100  # the order in which a search begins with families, the cheapest first
    compared: tuple[int, ...] = ()  # sizes that `compare` fits unless given others
    usual_size: int | None = None  # on the command line; None takes the constructor's own
    settings: Mapping[str, Any] = field(default_factory=dict)  # settings of its models in comparisons and searches
    # for a number of real columns there; None: real rows need to be prepared by hand
    real_settings: Callable[[int], Mapping[str, Any]] | None = None
    files: Mapping[str, File] = field(default_factory=dict)  # by option: tables that the command line can write
    # names of the figures that the command line can draw of one, as `figures.fitted` gives them
    figures: tuple[str, ...] = ()
    errors: bool = False  # whether it knows standard errors of what it has found
    # likelihood, missing: how well log p(x) is known, and what becomes of missing cells, for the docs: in a few words
    likelihood: str = "exact"
    missing: str = "left out, exactly"
    grows: str = "rows × columns × causes"  # numbers that the time of learning is proportional to, for the docs
    stops_early: bool = False  # whether held-out rows can end learning, by default settings: ``fit(X, X_val=...)``
    in_words: str = "the {}"  # how its name goes on in a sentence
    # name of the hidden causes, one and several; "{}" is its size where that is no number of them
    hidden: tuple[str, str] = ("hidden cause", "hidden causes that act together")
    # "one" for the family whose two traits are the map of the page, "several" for the one with several maps
    maps: Literal["", "one", "several"] = ""
    straight: bool = False  # whether its hidden causes are traits along straight axes, as those of the map are
    restarts: bool = True  # whether there is more than one optimum to look for
    alone: bool = False  # nothing is hidden: what any other model must beat
    # it belongs to another library: it takes no missing cells, and has neither files nor a place at the command line
    foreign: bool = False
    # whether searches and comparisons try it without being asked: else it stands in for a family that they try
    searched: bool = True

    @property
    def class_name(self) -> str:
        return self.estimator.partition(":")[2]

    @property
    def cls(self) -> Any:
        """The class, imported when it is asked for."""
        module, _, name = self.estimator.partition(":")
        return getattr(import_module(module), name)

    @property
    def summaries(self) -> Any:
        """The module of `summarized_by`, imported on demand."""
        return import_module(self.summarized_by)

    def searched_for(self, rows: Rows) -> bool:
        """Return whether searches and comparisons of such rows try it without being asked."""
        return self.searched and self.takes(rows)

    def takes(self, rows: Rows) -> bool:
        """Return whether searches and comparisons of such rows can have it."""
        return rows in self.rows and (rows == "bits" or self.real_settings is not None)

    def new(self, size: int | str | tuple[int, ...] = 1, rows: Rows = "bits", n_columns: int = 0) -> Any:
        """Make a model of this size, as comparisons and searches take it.

        >>> from latentbits.estimators.families import family
        >>> family("noisy-or").new(8).layer_sizes
        (8,)
        """
        settings = dict(self.settings)
        if rows == "reals":
            if self.real_settings is None:
                raise ValueError(f"{self.name} is no family for searches of real numbers")
            settings |= self.real_settings(n_columns)
        if self.size:
            settings[self.size] = (size,) if self.has_layers and not isinstance(size, tuple) else size
        return self.cls(**settings)

    @property
    def has_layers(self) -> bool:
        return self.size.endswith("_sizes")

    def title(self, size: Any = 1) -> str:
        """Return its name for people, with a size.

        >>> from latentbits.estimators.families import family
        >>> family("latent-trait").title(1), family("latent-trait").title(2), family("mixture").title(4)
        ('1 latent trait', '2 latent traits', 'mixture of 4')
        >>> family("clipped-gaussian").title("parallel"), family("noisy-or").title((16, 4))
        ('clipped Gaussian (parallel)', 'noisy OR of 16, 4')
        >>> family("latent-tree").title(1), family("latent-tree").title([2, 4, 2])
        ('latent tree of 1 state', 'latent tree of 2 to 4 states')
        """
        if isinstance(size, str):  # a word for how to find one
            return f"{self.called.partition(' of ')[0]} ({size})"
        several = list(size) if hasattr(size, "__len__") else [size]
        if not self.has_layers and len(several) > 1:  # one for each column, of which there are many
            several = [f"{min(several)} to {max(several)}"] if min(several) < max(several) else several[:1]
        text = ", ".join(map(str, several))
        return self.called.format(text, s="" if text == "1" else "s")


def _power_of_two(limit: float) -> int:
    """Return the largest power of two that is not above the limit, but at least 1."""
    return 1 << max(0, int(limit).bit_length() - 1)
