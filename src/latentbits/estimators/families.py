"""Every family of models, once: what it is called, its class, its sizes, and the module that reports what it has found.

Whatever lists families, or makes a model of one, does so from here: files, comparisons, searches, the page, the command
line, tests and tables of the docs.  A new family is one more record in `FAMILIES` (``docs/add-a-model.md``).  Classes
are named rather than imported, since JAX takes seconds and ``latentbits --help`` should not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

__all__ = ["FAMILIES", "Family", "File", "Sizes", "Steps", "families", "family", "family_of", "name_of", "size_of"]

Rows = Literal["bits", "reals"]

ROWS_PER_CAUSE = 10
MOST_CAUSES = 128
WEAK_PRIOR_SD = 3.0  # of the weights; without one, unseen rows of separable bits can cost any number


class Steps(NamedTuple):
    """Numbers of causes that a search tries: from `first`, `stride` times as many at once, from `least` to `most`."""

    first: int
    most: int
    stride: int
    least: int


@dataclass(frozen=True)
class Sizes:
    """Which numbers of causes are worth trying.

    Attributes
    ----------
    least
        A mixture of one is independent bits.
    first
        To begin with; None takes a quarter of the columns, up to 8.
    most
        More are not tried: of states, whose pairs are counted, each takes its square.
    stride
        How many times as many come next.  Where each cause makes all dearer, four times as many are not worth it.
    factors
        Whether they are factors: with more than half as many as columns, these cannot separate them.
    """

    least: int = 1
    first: int | None = None
    most: int = MOST_CAUSES
    stride: int = 4
    factors: bool = False

    def steps(self, n_columns: int, n_rows: int) -> Steps:
        """Choose the numbers of causes to try on a table to learn from.

        >>> Sizes(least=2).steps(5, 1000)
        Steps(first=2, most=64, stride=4, least=2)
        """
        most = min(self.most, n_rows // ROWS_PER_CAUSE)
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
    """One family.

    Attributes
    ----------
    name
        On the command line, and for `search` and `explore`.
    estimator
        Its class, as "module:name"; `cls` imports it.
    called
        Its name for people; "{}" is its size, "{s}" the plural's.
    summary
        What it takes the rows to be, in a line.
    paper, guide
        Where it comes from, and the page of the docs that explains it.
    size
        The parameter that holds the number of causes, or those of each layer; "" for a model without any.
    rows
        What it takes.
    summarized_by
        The module that reports what a fitted model has found: `tell` what is printed, `show` what is on the page.
    sizes
        Which to try in a search; None for a model without a size.
    cost
        The order in which a search begins with families, the cheapest first.
    compared
        Sizes that `compare` fits unless given others.
    usual_size
        On the command line; None takes the constructor's own.
    settings
        Of its models in comparisons and searches.
    real_settings
        For a number of real columns there; None: real rows need to be prepared by somebody who knows them.
    files
        By option: tables that the command line can write.
    figures
        Names of the figures that the command line can draw of one, as `figures.fitted` gives them.
    errors
        Whether it knows standard errors of what it has found.
    likelihood, missing
        How well log p(x) is known, and what becomes of missing cells, for the docs: in a few words.
    grows
        What the time of learning goes by, for the docs.
    stops_early
        Whether held-out rows can end learning, by default settings: ``fit(X, X_val=...)``.
    in_words
        How its name goes on in a sentence.
    hidden
        What is hidden, one and several; "{}" is its size where that is no number of them.
    restarts
        Whether there is more than one optimum to look for.
    alone
        Nothing is hidden: what any other model must beat.
    foreign
        Of another library: it takes no missing cells, and has neither files nor a place at the command line.
    searched
        Whether searches and comparisons try it without being asked: else it stands in for a family that they try.
    """

    name: str
    estimator: str
    called: str
    summary: str
    paper: str = ""
    guide: str = "models"
    size: str = ""
    rows: tuple[Rows, ...] = ("bits",)
    summarized_by: str = "latentbits.reports.summaries.plain"
    sizes: Sizes | None = None
    cost: int = 100
    compared: tuple[int, ...] = ()
    usual_size: int | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    real_settings: Callable[[int], Mapping[str, Any]] | None = None
    files: Mapping[str, File] = field(default_factory=dict)
    figures: tuple[str, ...] = ()
    errors: bool = False
    likelihood: str = "exact"
    missing: str = "left out, exactly"
    grows: str = "rows × columns × causes"
    stops_early: bool = False
    in_words: str = "the {}"
    hidden: tuple[str, str] = ("hidden cause", "hidden causes that act together")
    restarts: bool = True
    alone: bool = False
    foreign: bool = False
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


def _all_continuous(n_columns: int) -> Mapping[str, Any]:
    return {"column_types": ["continuous"] * n_columns}


def _as_they_are(n_columns: int) -> Mapping[str, Any]:
    return {}


FAMILIES: tuple[Family, ...] = (
    Family(
        "product",
        "latentbits.estimators.product:BernoulliProduct",
        "independent bits",
        "nothing is hidden: independent bits",
        paper="a baseline",
        summarized_by="latentbits.reports.summaries.product",
        cost=1,
        compared=(1,),
        in_words="the model of {}",
        restarts=False,
        alone=True,
        grows="rows × columns",
    ),
    Family(
        "independent-gaussians",
        "sklearn.mixture:GaussianMixture",
        "independent Gaussians",
        "nothing is hidden: independent numbers",
        paper="a baseline",
        rows=("reals",),
        summarized_by="latentbits.reports.summaries.nothing",
        cost=1,
        settings={"covariance_type": "diag"},
        real_settings=_as_they_are,
        in_words="the model of {}",
        restarts=False,
        alone=True,
        foreign=True,
    ),
    Family(
        "chow-liu-tree",
        "latentbits.estimators.latent_tree:ChowLiuTree",
        "Chow-Liu tree",
        "nothing is hidden: each bit depends on one other",
        paper="a baseline; Chow & Liu 1968",
        guide="latent-tree",
        summarized_by="latentbits.reports.summaries.latent_tree",
        cost=1,
        compared=(1,),
        files={"items": File("the column that each hangs from, and what they have in common")},
        figures=("tree",),
        hidden=("tree that joins the columns, with nothing hidden",) * 2,
        restarts=False,
        grows="rows × columns²",
    ),
    Family(
        "latent-tree",
        "latentbits.estimators.latent_tree:LatentTree",
        "latent tree of {} state{s}",
        "hidden causes with a few states each, joined by a tree",
        paper="Liu & Van den Broeck 2021; Chow & Liu 1968",
        guide="latent-tree",
        size="n_states",
        summarized_by="latentbits.reports.summaries.latent_tree",
        sizes=Sizes(least=2, first=4, most=32),
        cost=6,
        compared=(4,),
        usual_size=8,
        # EM crawls here for hundreds of passes, for less than unseen rows can show
        settings={"tol": 1e-3},
        files={"items": File("the column that each hangs from, what they have in common, and its states")},
        figures=("tree",),
        hidden=("tree of hidden causes", "tree of hidden causes with {} states each"),
        grows="rows × columns² once, then rows × columns × states²",
        stops_early=True,
    ),
    Family(
        "mixture",
        "latentbits.estimators.mixture:BernoulliMixture",
        "mixture of {}",
        "each row is of one hidden kind (latent classes)",
        paper="a baseline; Freund & Haussler 1994, section 4",
        size="n_components",
        summarized_by="latentbits.reports.summaries.mixture",
        sizes=Sizes(least=2),
        cost=2,
        compared=(2, 4, 8, 16, 32),
        usual_size=8,
        figures=("classes", "pairs"),
        hidden=("hidden kind of rows", "hidden kinds of rows"),
        grows="rows × columns × kinds",
        stops_early=True,
    ),
    Family(
        "latent-trait",
        "latentbits.estimators.latent_trait.latent_trait:LatentTrait",
        "{} latent trait{s}",
        "each row has a place along hidden traits (a map of the rows)",
        paper="Tipping 1998",
        guide="models",
        size="n_components",
        rows=("bits", "reals"),
        summarized_by="latentbits.reports.summaries.latent_trait",
        sizes=Sizes(first=2, stride=2, factors=True),
        cost=4,
        compared=(1, 2),
        settings={"weight_prior": WEAK_PRIOR_SD},
        real_settings=_all_continuous,
        files={"items": File("weights and intercept of each column")},
        figures=("pairs",),
        in_words="the model with {}",
        hidden=("hidden trait", "hidden traits"),
        likelihood="an integral by quadrature, with its error",
        grows="rows × columns × nodes, of which more than three traits need many",
        stops_early=True,
    ),
    Family(
        "item-response",
        "latentbits.estimators.latent_trait.item_response:ItemResponse",
        "{} factor{s} of a test",
        "item response theory: items with slopes, difficulties and guessing, people with abilities",
        paper="Birnbaum 1968; Rasch 1960",
        guide="item-response",
        size="n_factors",
        summarized_by="latentbits.reports.summaries.item_response",
        sizes=Sizes(first=2, stride=2, factors=True),
        cost=4,
        settings={"weight_prior": WEAK_PRIOR_SD},
        files={"items": File("discrimination, difficulty and intercept of each column (item)")},
        figures=("curves", "information", "wright", "pairs"),
        errors=True,
        in_words="the model with {}",
        hidden=("hidden ability", "hidden abilities"),
        likelihood="an integral by quadrature, with its error",
        grows="rows × columns × nodes, of which more than three factors need many",
        stops_early=True,
        searched=False,
    ),
    Family(
        "curved-trait",
        "latentbits.estimators.latent_trait.curved_trait:CurvedTrait",
        "{} latent trait{s}, curved",
        "each row has a place on a curved surface (a network; a map of the rows)",
        paper="Tipping 1998, with a network",
        guide="curved-trait",
        size="n_components",
        summarized_by="latentbits.reports.summaries.curved_trait",
        sizes=Sizes(first=2, stride=2, factors=True),
        cost=8,
        settings={"weight_prior": WEAK_PRIOR_SD},
        files={"items": File("the mean slopes of each column")},
        figures=("curves", "pairs"),
        in_words="the model with {}",
        hidden=("hidden trait", "hidden traits"),
        restarts=False,
        likelihood="an integral by nets of points, with its error",
        grows="rows × units of the network × points",
        stops_early=True,
        searched=False,
    ),
    Family(
        "trait-maps",
        "latentbits.estimators.latent_trait.trait_maps:TraitMaps",
        "maps of {} latent trait{s}",
        "each row is on one of several maps, and has a place there",
        paper="Tipping 1998, conclusion",
        guide="trait-maps",
        size="n_components",
        rows=("bits", "reals"),
        summarized_by="latentbits.reports.summaries.trait_maps",
        sizes=Sizes(first=2, most=3, stride=2, factors=True),
        cost=8,
        settings={"weight_prior": WEAK_PRIOR_SD},
        real_settings=_all_continuous,
        files={"items": File("weights and intercept of each column on each map")},
        in_words="the model with {}",
        hidden=("hidden trait on each map", "hidden traits on each map"),
        likelihood="an integral by quadrature, with its error",
        grows="rows × columns × nodes × maps",
        searched=False,
    ),
    Family(
        "clipped-gaussian",
        "latentbits.estimators.clipped_gaussian:ClippedGaussian",
        "clipped Gaussian of {}",
        "a Gaussian with few factors, cut at thresholds (tetrachoric correlations)",
        paper="Lee & Sompolinsky 1998",
        guide="tetrachoric",
        size="n_components",
        summarized_by="latentbits.reports.summaries.clipped_gaussian",
        sizes=Sizes(factors=True),
        cost=3,
        compared=(8,),
        # of few columns factors describe unseen rows better than components do; of many there is little between them
        settings={"extraction": "factors"},
        files={
            "items": File("the mean, threshold and weights of each column"),
            "correlations": File("the matrix of tetrachoric correlations", {"keep_pairs": True}),
        },
        errors=True,
        hidden=("hidden factor", "hidden factors"),
        restarts=False,
        likelihood="an integral by quadrature or importance sampling, with its error",
        missing="left out; moments of a pair are of the rows that show both",
        grows="rows × columns²",
    ),
    Family(
        "combination-machine",
        "latentbits.estimators.combination_machine:CombinationMachine",
        "combination machine of {}",
        "hidden switches that act together (a restricted Boltzmann machine)",
        paper="Freund & Haussler 1994",
        guide="combination-machine",
        size="n_hidden",
        rows=("bits", "reals"),
        summarized_by="latentbits.reports.summaries.combination_machine",
        sizes=Sizes(),
        cost=6,
        compared=(8,),
        files={"items": File("the bias of each column, and the weights of all units on it")},
        likelihood="exact up to 22 switches (30 on a GPU), above estimated, with its error",
        missing="summed out exactly up to 16 switches, above sampled",
        grows="rows × columns × switches, and 2^switches up to 16; above sampled",
        stops_early=True,
    ),
    Family(
        "binary-sparse-coding",
        "latentbits.estimators.binary_sparse_coding:BinarySparseCoding",
        "binary sparse coding of {}",
        "real numbers as sums of a few causes that are on or off, and noise",
        paper="Henniges et al. 2010",
        guide="sparse-coding",
        size="n_causes",
        rows=("reals",),
        summarized_by="latentbits.reports.summaries.binary_sparse_coding",
        sizes=Sizes(),
        cost=7,
        real_settings=_as_they_are,
        files={"items": File("what each cause adds to each column")},
        likelihood="exact up to 12 causes, above bounded, with its loss",
        grows="rows × columns × causes, and states of the causes near a row",
    ),
    Family(
        "noisy-or",
        "latentbits.estimators.noisy_or:NoisyOrNetwork",
        "noisy OR of {}",
        "hidden causes that turn bits on, in layers",
        paper="Lewicki & Sejnowski 1996",
        guide="noisy-or",
        size="layer_sizes",
        summarized_by="latentbits.reports.summaries.noisy_or",
        sizes=Sizes(),
        cost=5,
        compared=(8,),
        files={"items": File("the bias of each column, and the weights of the lowest layer on it")},
        likelihood="exact up to 2²² states of two layers, above estimated, with its error",
        grows="rows × columns × causes × sweeps",
    ),
)


def families(rows: Rows | None = None) -> Iterator[Family]:
    """List all families of this library, or, for `rows`, those that searches of such rows have."""
    return (one for one in FAMILIES if (not one.foreign if rows is None else one.searched_for(rows)))


def family(name: str) -> Family:
    """Find the family of this name; raise an error where there is none."""
    for one in FAMILIES:
        if one.name == name:
            return one
    raise ValueError(f"there is no family {name!r}; there are {', '.join(one.name for one in FAMILIES)}")


def family_of(estimator: Any) -> Family:
    """Find the family of an estimator.

    >>> from latentbits import NoisyOrNetwork
    >>> network = NoisyOrNetwork((16, 4))
    >>> family_of(network).name, size_of(network), name_of(network)
    ('noisy-or', 16, 'noisy OR of 16, 4')
    """
    for one in FAMILIES:
        if one.class_name == type(estimator).__name__:
            return one
    known = ", ".join(one.class_name for one in families())
    raise TypeError(f"an estimator must be one of {known}, found {type(estimator).__name__}")


def size_of(estimator: Any) -> int:
    """Return an estimator's number of causes; of layers, that of the lowest."""
    sizes = _sizes_of(estimator)
    return sizes[0] if sizes else 1


def name_of(estimator: Any) -> str:
    """Return an estimator's name for people.

    >>> from latentbits import BernoulliMixture, CurvedTrait, LatentTrait, TraitMaps
    >>> name_of(BernoulliMixture(4)), name_of(LatentTrait(1)), name_of(TraitMaps(3, 2))
    ('mixture of 4', '1 latent trait', '3 maps of 2 latent traits')
    >>> name_of(CurvedTrait(2))
    '2 latent traits, curved'
    >>> from latentbits import LatentTree
    >>> name_of(LatentTree(4, n_trees=2)), name_of(LatentTree(hidden=False))
    ('2 latent trees of 4 states', 'Chow-Liu tree')
    """
    record = family_of(estimator) if getattr(estimator, "hidden", True) else family("chow-liu-tree")
    title = record.title(getattr(estimator, record.size) if record.size else 1)
    n_trees = getattr(estimator, "n_trees", 1)
    if n_trees > 1:
        title = f"{n_trees} {title.replace(' tree', ' trees', 1)}"
    return f"{estimator.n_maps} {title}" if record.name == "trait-maps" else title


def _sizes_of(estimator: Any) -> tuple[int, ...]:
    parameter = family_of(estimator).size
    if not parameter:
        return ()
    size = getattr(estimator, parameter)
    sizes = tuple(size) if isinstance(size, list | tuple) else (size,)
    if any(isinstance(one, str) for one in sizes):
        raise ValueError(f"{parameter} must be a number here, found {size!r}")
    return tuple(int(one) for one in sizes)
