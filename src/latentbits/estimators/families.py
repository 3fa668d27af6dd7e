"""Every family of models, once: what it is called, its class, its sizes, and the module that reports what it has found.

Whatever lists families, or makes a model of one, does so from here: files, comparisons, searches, the page, the command
line, tests and tables of the docs.  A new family is one more record in `FAMILIES` (``docs/add-a-model.md``).  Classes
are named rather than imported, since JAX takes seconds and ``latentbits --help`` should not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from latentbits.estimators.family_record import Family, File, Rows, Sizes

__all__ = ["FAMILIES", "WEAK_PRIOR_SD", "families", "family", "family_of", "family_of_maps", "name_of", "size_of"]

WEAK_PRIOR_SD = 3.0  # of the weights; without one, unseen rows of separable bits can cost any number


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
        sizes=Sizes(least=2, first=4, most=32, growth=1),
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
        guide="latent-classes",
        size="n_components",
        summarized_by="latentbits.reports.summaries.mixture",
        sizes=Sizes(least=2, growth=1),
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
        guide="latent-trait",
        size="n_components",
        rows=("bits", "reals"),
        summarized_by="latentbits.reports.summaries.latent_trait",
        sizes=Sizes(first=2, stride=2, factors=True, growth=4),
        cost=4,
        compared=(1, 2),
        settings={"weight_prior": WEAK_PRIOR_SD},
        real_settings=_all_continuous,
        files={"items": File("weights and intercept of each column")},
        figures=("pairs",),
        in_words="the model with {}",
        hidden=("hidden trait", "hidden traits"),
        maps="one",
        straight=True,
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
        sizes=Sizes(first=2, stride=2, factors=True, growth=4),
        cost=4,
        settings={"weight_prior": WEAK_PRIOR_SD},
        files={"items": File("discrimination, difficulty and intercept of each column (item)")},
        figures=("curves", "information", "wright", "pairs"),
        errors=True,
        in_words="the model with {}",
        hidden=("hidden ability", "hidden abilities"),
        straight=True,
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
        sizes=Sizes(first=2, stride=2, factors=True, growth=4),
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
        maps="several",
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
        sizes=Sizes(factors=True, growth=1),
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
        sizes=Sizes(growth=3),
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


def family_of_maps(several: bool = False) -> Family:
    """Find the family that draws the map of the page, or the one that draws several.

    >>> family_of_maps().name, family_of_maps(several=True).name
    ('latent-trait', 'trait-maps')
    """
    return next(one for one in FAMILIES if one.maps == ("several" if several else "one"))


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
