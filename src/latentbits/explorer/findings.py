"""Findings of a page in words: a title, and at most three sentences that need no statistics to be understood."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from latentbits.choosing.real_tables import median
from latentbits.estimators.families import family
from latentbits.explorer.column_dependence import Together
from latentbits.explorer.content import Guesses, Labels, Map, Meaning, ModelRow, Table
from latentbits.explorer.meanings import PLACE_DECIMALS, felt, goes_with, in_words, names_for
from latentbits.reports.numbers import percent, with_error
from latentbits.reports.summaries.records import Gallery, Tree
from latentbits.reports.trees import edges_of, touching

__all__ = ["findings", "headline", "is_sure", "neighbours_alike"]

SURE_ERRORS = 2.0  # standard errors from which a difference counts
SURE_BITS = 10.0  # of all rows together
SURE_ERRORS_OF_CAUSES = 3.0  # the best of several models has more chances to seem better, and costs of rows are skewed
SURE_P_OF_PAIRS = 1e-4  # chance of so much correlation where all columns are independent
MOST_RIVALS = 2
NEAR_BITS_SHARE = 0.1  # of the bits of the best, that a fit which was cut off may have left to gain
SAME_AS_ONES = 0.9  # rank correlation from which on a trait is little else than how many ones a row has
LEAST_BETTER_GUESSED_SHARE = 0.01  # of the hidden cells, that a model guesses better than the average row
MOST_NEIGHBOURS = 5000  # rows of which the neighbours are looked at
N_SHUFFLES = 100  # of labels, to see what chance does


def headline(
    source: str, models: Sequence[ModelRow], unfinished: Sequence[ModelRow] = (), together: Together | None = None
) -> str:
    """Write the finding as a title: of the models that have converged, the best first, beside those that have not."""
    if all(family(model.family).alone for model in models):
        return f"{source}: no model with causes {'has converged' if unfinished else 'was fitted'}"
    best, alone = models[0], _alone(models)
    if alone is None:
        return f"{source}: {_called(best)} needs {best.bits:.1f} bits per row"
    if not is_sure(models):
        if _ahead(models, unfinished):
            return f"{source}: the fits that are ahead have not converged"
        if _go_together(together):
            return f"{source}: columns go together, but no model shows clearly by what"
        return f"{source}: no clear sign of hidden causes"
    return f"{source}: {_hidden(best)}; a row then takes {best.bits:.1f} bits instead of {alone.bits:.1f}"


def findings(
    table: Table,
    where: Map | None,
    models: Sequence[ModelRow],
    galleries: Sequence[Gallery],
    guesses: Guesses | None,
    unfinished: Sequence[ModelRow] = (),
    meanings: Sequence[Meaning] = (),
    together: Together | None = None,
) -> tuple[str, ...]:
    """Write at most three findings: how well the best model does, what it found, and what that is good for.

    Parameters
    ----------
    table, where, galleries, guesses, meanings
        What the page shows.  A map that has not converged has no findings.
    models
        The comparison of those that have converged, best first.
    unfinished
        Those that have not: where one is ahead or near, that is said, and nothing of what it found.
    together
        How much columns go together, with no model: bits may be far from independent, and yet no model describe unseen
        rows clearly better.
    """
    where = where if where is not None and where.converged else None
    first = _best(models, table, unfinished, together)
    axes = [] if where is None else [one for one in meanings if one.gallery is None]
    known = "" if where is None else _labels(table.labels, where.means, axes)
    if not models or (_alone(models) is not None and not is_sure(models)):
        return tuple(text for text in (first, known) if text)  # what a model makes of independent bits is no finding
    gallery = next((g for g in galleries if g.name == models[0].name and (g.layers or g.trees)), None)
    use = known or _ones(axes) or _guesses(guesses, table.real) or ("" if where is None else _surprise(where, table))
    texts = (first, "" if gallery is None else _causes(gallery, table), use)
    return tuple(text for text in texts if text)


# --- how well ---


def _alone(models: Sequence[ModelRow]) -> ModelRow | None:
    return next((model for model in models if family(model.family).alone), None)


def is_sure(models: Sequence[ModelRow]) -> bool:
    """Say whether the best model beats the one without causes by more than chance.

    In small tables of rare bits a better guess of the shares alone gains a little in every row, with a small standard
    error; so all rows together must also be a thousand times as probable.  In wide tables of rare bits that gain can be
    large, and is left out of what counts.
    """
    alone = _alone(models)
    if alone is None or alone.behind * alone.n_rows < SURE_BITS:
        return False
    return alone.behind - alone.by_shares > SURE_ERRORS_OF_CAUSES * np.nan_to_num(alone.behind_error, nan=np.inf)


def _best(models: Sequence[ModelRow], table: Table, unfinished: Sequence[ModelRow], together: Together | None) -> str:
    if not models:
        return "No fit has converged."
    real, still_open = table.real, _open(models, unfinished)
    best, alone = models[0], _alone(models)
    if alone is None:
        among = "Of the models compared, " if len(models) > 1 and not still_open else ""
        text = f"{among}{_called(best)} describes unseen rows{' best' if among else ''}, in {best.bits:.1f} bits"
        return f"{text[0].upper()}{text[1:]} per row{still_open}."
    if all(family(model.family).alone for model in models):
        none = "No model with anything hidden " + ("has converged" if unfinished else "was fitted")
        return f"{none}; {alone.name} need {alone.bits:.1f} bits for an unseen row."
    text = f"The {'columns' if real else 'bits'} are not independent: "
    if not np.isfinite(alone.bits):
        return (
            f"{text}{_describes(best, still_open)}{_rivals(models)}; {alone.name} hold some of these rows impossible"
            f"{still_open}."
        )
    if not is_sure(models):
        better = f"describes unseen rows clearly better than {alone.name} do ({alone.bits:.1f} bits per row)"
        if _ahead(models, unfinished):
            return f"No model that has converged {better}{still_open}."
        if together is not None and _go_together(together):
            return f"{_in_pairs(together, table)}, but nothing tried {better}{_closest(models)}{still_open}."
        return f"Nothing tried {better}: there is no clear sign of hidden causes{still_open}."
    gain, error = alone.behind, alone.behind_error
    less = with_error(gain, error, f".{1 if error >= 0.1 else 2}f") + ("" if real else f" ({gain / alone.bits:.0%})")
    return f"{text}{_describes(best, still_open)}, {less} fewer than {alone.name} need{_rivals(models)}{still_open}."


def _describes(model: ModelRow, still_open: str) -> str:
    """Say what a row costs by a model, which is not called the best while that is open."""
    if still_open:
        return f"by {_called(model)} an unseen row takes {model.bits:.1f} bits"
    return f"{_called(model)} describes an unseen row in {model.bits:.1f} bits"


def _go_together(together: Together | None) -> bool:
    return together is not None and together.p < SURE_P_OF_PAIRS


def _in_pairs(together: Together, table: Table) -> str:
    """Say that columns go together."""
    first, second = table.columns[together.first], table.columns[together.second]
    pairs = f", most {first} and {second}, with a correlation of {together.correlation:.2f}"
    return f"The bits are not independent: columns go together{pairs if together.n_pairs > 1 else ''}"


def _closest(models: Sequence[ModelRow]) -> str:
    """Name the best model, where it is ahead of the one without causes at all."""
    best, alone = models[0], _alone(models)
    if alone is None or best is alone or not np.isfinite(alone.behind_error):
        return ""
    places = 1 if alone.behind_error >= 0.1 else 3
    fewer = with_error(alone.behind, alone.behind_error, f".{places}f")
    return f"; {_called(best)} comes closest, with {fewer} bits fewer"


def _rivals(models: Sequence[ModelRow]) -> str:
    close = [
        m for m in models[1:] if not family(m.family).alone and m.behind <= SURE_ERRORS * np.nan_to_num(m.behind_error)
    ]
    if not close:
        return ""
    return f" ({_and([_called(model) for model in close[:MOST_RIVALS]])} cannot be distinguished from it on these rows)"


def _open(models: Sequence[ModelRow], unfinished: Sequence[ModelRow]) -> str:
    """Say that the best model is not known, where fits that have not converged are ahead, or else near."""
    found = _ahead(models, unfinished) or [
        model for model in unfinished if models and model.bits - models[0].bits <= NEAR_BITS_SHARE * abs(models[0].bits)
    ]
    if not found:
        return ""
    return f"; which model is best is open, since {_and([_called(model) for model in found])} had not converged"


def _ahead(models: Sequence[ModelRow], unfinished: Sequence[ModelRow]) -> list[ModelRow]:
    """List fits that have not converged and yet describe unseen rows better than all that have."""
    return [model for model in unfinished if not models or model.bits < models[0].bits]


def _called(model: ModelRow) -> str:
    """Name a model in a sentence."""
    return family(model.family).in_words.format(model.name)


def _hidden(model: ModelRow) -> str:
    one, several = family(model.family).hidden
    if model.size is None or model.size <= 1:
        return f"1 {one}"
    return f"1 {several.format(model.size)}" if "{}" in several else f"{model.size} {several}"


# --- what it found ---


def _causes(gallery: Gallery, table: Table) -> str:
    if gallery.trees:
        return _tree(gallery.trees[0], table)
    layer = gallery.layers[0]
    share, m = layer.usage, len(layer.names)
    if gallery.kind == "probability":
        spread = share @ np.square(layer.weights - share @ layer.weights)
        text = (
            f"It sorts the rows into {m} kinds; the commonest makes up {percent(share.max())} of them, the rarest "
            f"{percent(share.min())}"
        )
        return f"{text}{_most(spread, table, '; they differ most in ')}." if m > 1 else ""
    if np.isnan(share).all():  # traits: a row is always somewhere along each
        weights = None if table.weights is None else table.weights[: len(layer.active)]
        about = np.square(layer.active - np.average(layer.active, axis=0, weights=weights))
        spread = felt(np.average(about, axis=0, weights=weights) @ np.square(layer.weights), table)
        space = "along one scale" if m == 1 else f"in a space of {m} dimensions"
        return f"It places each row {space}{_most(spread, table, '; rows differ most in ')}."
    pulled = felt(share * (1 - share) @ np.square(layer.weights), table)
    acts = _most(pulled, table, "; they act most on " if m > 1 else "; it acts most on ")
    if m == 1:
        return f"It explains each row by whether one hidden cause is on, as it is in {percent(share[0])} of them{acts}."
    return (
        f"It explains each row by which of {m} hidden causes are on, {share.sum():.1f} of them on average; the "
        f"commonest is on in {percent(share.max())} of the rows, the rarest in {percent(share.min())}{acts}."
    )


def _tree(tree: Tree, table: Table) -> str:
    """Name the strongest edges; for pixels, count the edges that join pixels that touch."""
    edges = edges_of(tree.parents, tree.information)
    edges = edges[tree.sure[edges]]
    if not len(edges):
        return ""
    text = "It joins the columns to a tree"
    text += ", each by its hidden cause" if tree.hidden else ", with nothing hidden"
    if table.image_shape is not None:
        near, n = touching(np.where(tree.sure, tree.parents, -1), table.image_shape)
        return f"{text}: {near} of the {n} edges that are more than chance join pixels that touch."
    words = [
        f"{table.columns[tree.parents[j]]} and {table.columns[j]} ({tree.information[j]:.2f} bits)" for j in edges[:3]
    ]
    return f"{text}; most in common have {_and(words)}."


def _most(spread: np.ndarray, table: Table, words: str) -> str:
    """Name the three columns in which something is greatest; pixels have no names that help."""
    if table.image_shape is not None:
        return ""
    return words + _and([table.columns[j] for j in np.argsort(-spread, kind="stable")[:3]])


# --- what that is good for ---


def _guesses(guesses: Guesses | None, real: bool) -> str:
    if guesses is None or not guesses.right - (0.0 if real else guesses.right_alone) >= LEAST_BETTER_GUESSED_SHARE:
        return ""
    text = f"With {guesses.hidden} of an unseen row hidden, it"
    if real:
        return f"{text} explains {max(0.0, guesses.right):.0%} of how they vary."
    return (
        f"{text} guesses {guesses.right:.0%} of the hidden bits right; the average row alone would give "
        f"{guesses.right_alone:.0%}."
    )


def _ones(meanings: Sequence[Meaning]) -> str:
    """Say that a trait is how many ones a row has, which is the first thing to know of the map."""
    ones = next((one for one in meanings if not one.label and abs(one.value) >= SAME_AS_ONES), None)
    return "" if ones is None else f"On the map {ones.of} is little else than {goes_with(ones)}."


def _surprise(where: Map, table: Table) -> str:
    odd = int(np.argmax(where.cost))
    name = f"row {table.numbers[odd]}" if table.row_names is None else table.row_names[odd]
    return (
        f"The most surprising row is {name}: it takes {where.cost[odd]:.0f} bits on the map, where half of the rows "
        f"take less than {median(where.cost, table.weights):.0f}."
    )


def _labels(labels: Sequence[Labels], means: np.ndarray, meanings: Sequence[Meaning]) -> str:
    """Say what the axes of the map mean; else whether rows that are near each other are alike."""
    if any(meaning.label for meaning in meanings):
        return _axes(meanings)
    kinds = next((one for one in labels if one.numbers is None), None)
    if kinds is not None:
        return _neighbours(kinds, means)
    names = [one.name for one in labels if (one.codes >= 0).any()]
    return f"Neither axis of the map goes with {_and(names, 'or')}." if names else ""


def _axes(meanings: Sequence[Meaning]) -> str:
    """Say what each axis goes with, and that no model saw the labels."""
    axes = [(axis, names_for(meanings, None, 0, axis)) for axis in range(2)]
    words = [f"trait {axis + 1} goes with {in_words(own)}" for axis, own in axes if own]
    names = dict.fromkeys(meaning.label for _, own in axes for meaning in own if meaning.label)
    return f"On the map {'; '.join(words)}. No model saw {_and(list(names), 'or')}."


def _neighbours(labels: Labels, means: np.ndarray) -> str:
    known = np.flatnonzero(labels.codes >= 0)[:MOST_NEIGHBOURS]  # rows shown begin with a random sample
    if len(known) < 2:
        return ""
    codes = labels.codes[known]
    alike = neighbours_alike(means[known], codes)
    by_chance = neighbours_alike(means[known], *_shuffled(codes))
    chance = float(by_chance.mean())
    numbers = f"the row nearest to a row has the same {labels.name} {percent(float(alike[0]))} of the time, "
    numbers += f"{percent(chance)} by chance"
    if alike[0] - chance <= SURE_ERRORS * by_chance.std():
        return f"The map does not separate rows by {labels.name}: {numbers}."
    return f"On the map rows lie together by {labels.name}, which no model saw: {numbers}."


def _shuffled(codes: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.permutation(codes) for _ in range(N_SHUFFLES)]


def neighbours_alike(means: np.ndarray, *labellings: np.ndarray) -> np.ndarray:
    """Compute for each labelling how often the nearest other row has the same label.

    Rows of the same bits are at the same place: then any of the others there is nearest, and all count alike.

    >>> neighbours_alike(np.array([[0.0], [0.1], [5.0], [5.1]]), np.array([0, 0, 1, 1])).tolist()
    [1.0]
    >>> neighbours_alike(np.zeros((4, 1)), np.array([0, 0, 0, 1])).tolist()
    [0.5]
    """
    places, where, sizes = np.unique(np.round(means, PLACE_DECIMALS), axis=0, return_inverse=True, return_counts=True)
    where = where.reshape(-1)  # NumPy 2.0 gives it two axes
    shared, beside = sizes[where] > 1, where
    if len(places) > 1:
        from sklearn.neighbors import NearestNeighbors

        near = NearestNeighbors(n_neighbors=2).fit(places).kneighbors(return_distance=False, n_neighbors=1)[:, 0]
        beside = np.where(shared, where, near[where])
    shares = []
    for codes in labellings:
        counts = np.zeros((len(places), codes.max() + 1))
        np.add.at(counts, (where, codes), 1)
        shares.append(np.mean((counts[beside, codes] - shared) / (sizes[beside] - shared)))
    return np.array(shares)


def _and(words: list[str], word: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {word} {words[-1]}"
