"""What a picture shows, as plain arrays and sentences; nothing here draws."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from latentbits.report.map_summaries import TraitMap, decode

__all__ = [
    "Clipped",
    "Exploration",
    "Switches",
    "by_share",
    "dense_bits",
    "findings",
    "headline",
    "hide_lower_half",
    "hide_some",
    "share_right",
    "switches_of",
    "telling_columns",
    "tile",
]

HIDDEN_SHARE = 0.25  # of the bits of a table that are hidden to see how well they are guessed
SURE = 2.0  # standard errors from which a difference counts


class Clipped(NamedTuple):
    """Of a clipped Gaussian: `weights` (k, d), and the eigenvalues (d,) of the bits' covariances and of the
    correlations behind them."""

    weights: np.ndarray
    binary_eigenvalues: np.ndarray
    eigenvalues: np.ndarray


class Switches(NamedTuple):
    """Of a combination machine, or of the lowest layer of a noisy-OR network: `weights` (m, d) of its units, the one
    that is on most often first; in which share of the rows each is on (m,); and the share of rows in which 0, 1, ... m
    of them are (m + 1,)."""

    weights: np.ndarray
    shares: np.ndarray
    numbers: np.ndarray


class Exploration(NamedTuple):
    """All that `explore` found out.

    Attributes
    ----------
    source, n_rows, n_columns, n_held_out
        The table.
    models, bits, errors, behind, behind_errors
        The comparison, best first: held-out bits per row, and how many more than the model shown, with standard errors.
    shown
        Name of the model that the rest is about.
    weights, means
        Components of a mixture, the largest first: shares (k,), and P(bit = 1) of each column (k, d); else none.
    column_names, image_shape
        Of the d columns; the shape is None where rows are no images.
    history
        Its objective along the fit, in bits per row.
    truth, given, completed
        Some held-out rows (m, d); with some bits hidden (NaN); with these filled in by probabilities.
    right, right_alone
        Share of the hidden bits that were guessed right; and that the column means alone guess right.
    trait
        Where the model shown is one of latent traits or a clipped Gaussian: where it places the rows.
    clipped
        Where it is a clipped Gaussian: its weights and spectra.
    switches
        Where it is a combination machine or a noisy-OR network: its units, of the latter the lowest.
    """

    source: str
    n_rows: int
    n_columns: int
    n_held_out: int
    models: tuple[str, ...]
    bits: np.ndarray
    errors: np.ndarray
    behind: np.ndarray
    behind_errors: np.ndarray
    shown: str
    weights: np.ndarray
    means: np.ndarray
    column_names: tuple[str, ...]
    image_shape: tuple[int, int] | None
    history: np.ndarray
    truth: np.ndarray
    given: np.ndarray
    completed: np.ndarray
    right: float
    right_alone: float
    trait: TraitMap | None = None
    clipped: Clipped | None = None
    switches: Switches | None = None


def by_share(weights: np.ndarray) -> np.ndarray:
    """The order of the components, the largest first.

    >>> by_share(np.array([0.2, 0.5, 0.3])).tolist()
    [1, 2, 0]
    """
    return np.argsort(-np.asarray(weights), kind="stable")


def switches_of(weights: np.ndarray, on: np.ndarray) -> Switches:
    """The units of a combination machine in the order of how often they are on.

    Parameters
    ----------
    weights : (m, d) array
    on : (n, m) array
        P(unit is on | row).

    Examples
    --------
    >>> switches_of(np.array([[1.0], [2.0]]), np.array([[0.0, 1.0], [0.9, 1.0]])).numbers.tolist()
    [0.0, 0.5, 0.5]
    """
    order = by_share(on.mean(axis=0))
    together = np.sum(on > 0.5, axis=1)
    numbers = np.bincount(together, minlength=len(weights) + 1) / len(on)
    return Switches(np.asarray(weights)[order], on.mean(axis=0)[order], numbers)


def dense_bits(values: Any, binarize: float | None = None) -> np.ndarray:
    """A table as float64 bits with NaN for missing, whether it was sparse, real or already that."""
    dense = np.asarray(values.toarray() if hasattr(values, "toarray") else values, np.float64)
    if binarize is None:
        return dense
    return np.where(np.isnan(dense), np.nan, (dense > binarize).astype(np.float64))


def hide_lower_half(n: int, image_shape: tuple[int, int]) -> np.ndarray:
    """Which bits of n images are hidden if the lower half is; an odd row in the middle stays.

    >>> hide_lower_half(1, (3, 2)).tolist()
    [[False, False, False, False, True, True]]
    """
    height, width = image_shape
    line = np.repeat(np.arange(height) >= (height + 1) // 2, width)
    return np.tile(line, (n, 1))


def hide_some(shape: tuple[int, ...], rng: np.random.Generator, share: float = HIDDEN_SHARE) -> np.ndarray:
    """Which bits of a table are hidden if each is with the same probability."""
    return rng.random(shape) < share


def share_right(guess: np.ndarray, truth: np.ndarray, hidden: np.ndarray) -> float:
    """Share of the hidden bits that a probability is on the right side of 1/2 for; NaN if none can be checked.

    >>> share_right(np.array([[0.9, 0.2, 0.6]]), np.array([[1.0, 1.0, np.nan]]), np.array([[True, True, True]]))
    0.5
    """
    asked = hidden & ~np.isnan(truth)
    if not asked.any():
        return float("nan")
    return float(np.mean((guess[asked] > 0.5) == (truth[asked] > 0.5)))


def telling_columns(weights: np.ndarray, means: np.ndarray, most: int) -> np.ndarray:
    """The columns in which the components differ most, grouped by the component in which each is most frequent.

    Parameters
    ----------
    weights, means : (k,) and (k, d) arrays
    most : int
        Number of columns wanted.

    Returns
    -------
    (m,) array of column numbers, m = min(most, d)
    """
    share = np.asarray(weights) / np.sum(weights)
    spread = share @ np.square(means - share @ means)
    chosen = np.argsort(-spread, kind="stable")[:most]
    top = np.argmax(means[:, chosen], axis=0)
    return chosen[np.lexsort((-means[top, chosen], top))]


def tile(images: np.ndarray, image_shape: tuple[int, int], n_columns: int, gap: int = 1) -> np.ndarray:
    """Images side by side in one array, with NaN between them and where the last row has none.

    Parameters
    ----------
    images : (n, height * width) array
    image_shape : (height, width)
    n_columns : int
        Images in a row.
    gap : int
        Pixels between neighbours.
    """
    height, width = image_shape
    n_rows = -(-len(images) // n_columns)
    sheet = np.full((n_rows * (height + gap) - gap, n_columns * (width + gap) - gap), np.nan)
    for place, image in enumerate(images):
        top, left = (place // n_columns) * (height + gap), (place % n_columns) * (width + gap)
        sheet[top : top + height, left : left + width] = np.reshape(image, image_shape)
    return sheet


# --- in words ---


def headline(seen: Exploration) -> str:
    """The finding, as a title."""
    gain, error = _gain(seen)
    if gain is None:
        return f"{seen.source}: {_called(seen.models[0])} needs {seen.bits[0]:.1f} bits per row"
    if gain <= SURE * error:
        return f"{seen.source}: no clear sign of hidden causes in {seen.n_rows} rows"
    alone, then = (seen.bits[seen.models.index(name)] for name in ("independent bits", seen.shown))
    causes = f"{len(seen.weights)} hidden kinds of rows"
    if seen.trait is not None:
        causes = seen.shown.replace("latent", "hidden")
    if seen.clipped is not None:
        q = len(seen.clipped.weights)
        causes = f"{q} hidden Gaussian variable{'s' if q > 1 else ''}"
    if seen.switches is not None:
        m = len(seen.switches.shares)
        causes = "1 hidden cause" if m == 1 else f"{m} hidden causes that act together"
    return f"{seen.source}: {causes}; a row then takes {then:.1f} bits instead of {alone:.1f}"


def findings(seen: Exploration) -> list[str]:
    """At most three sentences that need no statistics to be understood."""
    gain, error = _gain(seen)
    if gain is not None and gain <= SURE * error:
        return [_best(seen)]  # what a mixture makes of independent bits is of no interest
    return [sentence for sentence in (_best(seen), _causes(seen), _guesses(seen)) if sentence]


def _gain(seen: Exploration) -> tuple[float | None, float]:
    """Bits per row by which the model shown beats independent bits, and the standard error; None if not compared."""
    if "independent bits" not in seen.models:
        return None, 0.0
    place = seen.models.index("independent bits")
    error = float(seen.behind_errors[place])
    return float(seen.behind[place]), 0.0 if np.isnan(error) else error


def _best(seen: Exploration) -> str:
    gain, error = _gain(seen)
    best, cost = seen.models[0], f"{seen.bits[0]:.1f} bits per row"
    if gain is None:
        return f"Of the models compared, {_called(best)} describes unseen rows best, in {cost}."
    alone = seen.bits[seen.models.index("independent bits")]
    if gain <= SURE * error:
        return (
            f"Nothing tried describes unseen rows clearly better than independent bits do ({alone:.1f} bits per row): "
            "there is no clear sign of hidden causes.  (`latentbits compare --folds 10` holds out every row and sees "
            "more.)"
        )
    then = seen.bits[seen.models.index(seen.shown)]
    places = 1 if error >= 0.1 else 2
    return (
        f"The bits are not independent: {_called(seen.shown)} describes an unseen row in {then:.1f} bits, "
        f"{gain:.{places}f} ± {error:.{places}f} ({gain / alone:.0%}) fewer than independent bits need."
    )


def _called(model: str) -> str:
    """A model in a sentence.

    >>> _called("2 latent traits"), _called("mixture of 4"), _called("combination machine of 8")
    ('the model with 2 latent traits', 'the mixture of 4', 'the combination machine of 8')
    """
    if "latent trait" in model:
        return f"the model with {model}"
    return f"the model of {model}" if model == "independent bits" else f"the {model}"


def _causes(seen: Exploration) -> str:
    if seen.trait is not None:
        text = _places(seen, seen.trait)
    elif seen.switches is not None:
        text = _units(seen, seen.switches)
    else:
        text = _kinds(seen)
    if text and seen.shown != seen.models[0]:
        text += f" ({_called(seen.models[0])} is not clearly better)"
    return text and f"{text}."


def _places(seen: Exploration, trait: TraitMap) -> str:
    q = trait.means.shape[1]
    where = "along one scale" if q == 1 else f"in a space of {q} dimensions"
    text = f"It places each row {where}"
    if not seen.image_shape:
        apart = _most(np.var(decode(trait.components, trait.intercept, trait.means), axis=0), seen)
        text += (
            f"; along it, rows differ most in {_and(apart)}" if q == 1 else f", where they differ most in {_and(apart)}"
        )
    return text


def _units(seen: Exploration, switches: Switches) -> str:
    weights, shares, _ = switches
    if len(shares) == 1:
        text = f"It explains each row by whether one hidden cause is on, as it is in {_percent(shares[0])} of them"
    else:
        text = (
            f"It explains each row by which of {len(shares)} hidden causes are on, {shares.sum():.1f} of them on "
            f"average; the commonest is on in {_percent(shares[0])} of the rows, the rarest in {_percent(shares[-1])}"
        )
    if not seen.image_shape:
        text += f"; they act most on {_and(_most(np.sum(np.square(weights), axis=0), seen))}"
    return text


def _kinds(seen: Exploration) -> str:
    k = len(seen.weights)
    if k < 2:
        return ""
    sizes = [int(name.rpartition(" ")[2]) for name in seen.models if name.startswith("mixture of ")]
    text = (
        f"It sorts the rows into {k} kinds; the commonest makes up {seen.weights[0]:.0%} of them, the rarest "
        f"{_percent(seen.weights[-1])}"
    )
    if not seen.image_shape:
        spread = seen.weights @ np.square(seen.means - seen.weights @ seen.means)
        text += f"; they differ most in {_and(_most(spread, seen))}"
    if k == max(sizes) and len(sizes) > 1:
        text += ", and since no larger number was tried, there may be more"
    return text


def _most(spread: np.ndarray, seen: Exploration) -> list[str]:
    """The three columns in which something is greatest, the first the most."""
    return [seen.column_names[j] for j in np.argsort(-spread, kind="stable")[:3]]


def _guesses(seen: Exploration) -> str:
    if np.isnan(seen.right):
        return ""
    part = "the lower half" if seen.image_shape else f"{HIDDEN_SHARE:.0%} of the bits"
    return (
        f"With {part} of an unseen row hidden, it guesses {seen.right:.0%} of the hidden bits right; "
        f"the average row alone would give {seen.right_alone:.0%}."
    )


def _percent(share: float) -> str:
    return f"{share:.0%}" if share >= 0.01 else f"{share:.1%}"


def _and(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
