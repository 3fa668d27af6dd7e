"""What a clipped Gaussian found, as tables for people, for files and for JSON: spectra, correlations, weights."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from latentbits.cli.console import print_table, say
from latentbits.cli.inputs import Rows
from latentbits.cli.items import Items

__all__ = ["Found", "describe", "left_over", "show", "weights_of", "write_correlations"]

FEWEST_SHOWN, MOST_SHOWN = 8, 24  # eigenvalues printed; JSON has all


@dataclass(frozen=True, eq=False)
class Found:
    """The spectrum, and how many pairs are behind it.

    Attributes
    ----------
    n_components
        P.
    n_columns, n_constant
        Columns of the table; those that are constant, and were set aside.
    eigenvalues, binary_eigenvalues
        Of the correlations of the Gaussian and of the bits, largest first.
    negative_share
        Of the former, by size.
    n_pairs, n_corrected, n_undetermined
        Pairs of columns that are not constant; those with an empty cell, which was corrected; those that the data
        cannot tell.  The last two are None where pairs were not kept.
    left_over
        Root mean square of what P components leave over of a correlation; NaN where pairs were not kept, as is the
        negative share.
    """

    n_components: int
    n_columns: int
    n_constant: int
    eigenvalues: tuple[float, ...]
    binary_eigenvalues: tuple[float, ...]
    negative_share: float
    n_pairs: int
    n_corrected: int | None
    n_undetermined: int | None
    left_over: float


def describe(model: Any) -> Found:
    """What a fitted ClippedGaussian says of the table that it was fitted to."""
    import numpy as np

    kept = model.correlation_ is not None
    there = np.diag(model.correlation_) > 0 if kept else (model.means_ > 0) & (model.means_ < 1)
    n_there = int(np.sum(there))
    pairs = np.triu(np.outer(there, there), 1) if kept else None
    return Found(
        n_components=int(model.n_components_),
        n_columns=len(there),
        n_constant=int(np.sum(~there)),
        eigenvalues=tuple(model.eigenvalues_.tolist()),
        binary_eigenvalues=tuple(model.binary_eigenvalues_.tolist()),
        negative_share=float(model.negative_share_),
        n_pairs=n_there * (n_there - 1) // 2,
        n_corrected=int(np.sum(model.corrected_ & pairs)) if kept else None,
        n_undetermined=int(np.sum(model.undetermined_ & pairs)) if kept else None,
        left_over=left_over(model),
    )


def left_over(model: Any) -> float:
    """Root mean square of what the components leave over of a correlation; NaN where there is no pair, or none kept."""
    import numpy as np

    if model.correlation_ is None:
        return math.nan
    there = np.diag(model.correlation_) > 0
    pairs = np.triu(np.outer(there, there), 1)
    rest = (model.correlation_ - model.components_.T @ model.components_)[pairs]
    return float(np.sqrt(np.mean(rest**2))) if len(rest) else math.nan


def show(found: Found) -> None:
    """The spectra side by side and the counts, on stdout."""
    n = min(len(found.eigenvalues), MOST_SHOWN, max(FEWEST_SHOWN, found.n_components + 3))
    kept = found.n_corrected is not None
    # of the whole spectrum, by size; of a part of it, of the variances, which are 1
    total = (sum(abs(value) for value in found.eigenvalues) if kept else found.n_columns - found.n_constant) or math.nan
    lines = []
    for rank in range(n):
        value = found.eigenvalues[rank]
        taken = "" if rank >= found.n_components else "kept"
        lines.append(
            [str(rank + 1), f"{found.binary_eigenvalues[rank]:.3f}", f"{value:.3f}", f"{value / total:.1%}", taken]
        )
    some = f" ({n} of {found.n_columns})" if n < found.n_columns else ""
    print_table(["", "of the bits", "of the Gaussian", "share", ""], lines, title=f"Eigenvalues{some}")
    lines = [["components", str(found.n_components)], ["pairs of columns", str(found.n_pairs)]]
    if kept:
        lines[1:1] = [
            ["negative part of the spectrum", f"{found.negative_share:.1%}"],
            ["correlations left over, root mean square", f"{found.left_over:.4f}"],
        ]
        lines += [
            ["  with an empty cell, corrected", str(found.n_corrected)],
            ["  whose correlation the data cannot tell", str(found.n_undetermined)],
        ]
    if found.n_constant:
        lines.append(["constant columns, set aside", str(found.n_constant)])
    print_table(["", "value"], lines)


def write_correlations(model: Any, rows: Rows, path: str, errors: bool) -> None:
    """The matrix of tetrachoric correlations, one line a column; with errors, theirs to the right of all."""
    import numpy as np

    from latentbits.data.write import write

    names = rows.all_names
    values = np.array(model.correlation_)
    values[model.undetermined_] = np.nan  # an empty cell, not a correlation of 0
    constant = np.diag(model.correlation_) == 0
    values[constant] = values[:, constant] = np.nan
    header = list(names)
    if errors:
        values = np.column_stack([values, model.correlation_error_])
        header += [f"{name}_error" for name in names]
    write(path, values, header, {"column": names})
    say(f"wrote {path}: correlations of {len(names)} columns")


def weights_of(model: Any, rows: Rows) -> Items:
    """One line a column of the table: its mean, threshold, weights, and what they leave over."""
    import numpy as np

    names = ("mean", "threshold", *(f"weight_{k + 1}" for k in range(model.n_components_)), "noise_variance")
    values = np.column_stack([model.means_, model.thresholds_, model.components_.T, model.noise_variance_])
    return Items(rows.all_names, names, values, {})
