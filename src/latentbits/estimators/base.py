"""The face: one thin scikit-learn estimator over a `Model` record.

A family adds a constructor, `_model` (its record for the hyper-parameters) and `_expose` (its fitted attributes).
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

from sklearn.utils.validation import check_is_fitted

from latentbits.estimators.estimator_repr import as_html, as_text, found_by, keep_nested_lines
from latentbits.estimators.files import save
from latentbits.estimators.fitting import Fitting
from latentbits.estimators.scoring import Scoring

__all__ = ["LatentModel"]


class LatentModel(Fitting, Scoring):
    """Base of all estimators: settings, `fit`, answers, scores, files and how it is shown."""

    def save(self, path: str | PathLike[str]) -> None:
        """Write the model to a safetensors file; `latentbits.load` reads it back, bit for bit.

        Parameters
        ----------
        path : str or path
            Written under a temporary name first, so that a crash leaves no half file.
        """
        check_is_fitted(self, "params_")
        save(self, path)

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        line = super().__repr__(N_CHAR_MAX)
        return as_text(line, found_by(self)) if hasattr(self, "params_") else line

    def _html_repr(self) -> str:
        diagram = super()._html_repr()
        return as_html(diagram, found_by(self)) if hasattr(self, "params_") else diagram

    def _causes(self) -> Iterator[tuple[str, str]]:
        """Yield hidden causes, the most important first: the name and a description of each."""
        yield from ()

    def _provisos(self) -> Iterator[str]:
        """Yield reasons why `objective_` differs a little from the log-likelihood that it is said to be."""
        yield from ()

    def _input_names(self) -> list[str]:
        """Return the names of the columns; x0, x1 ... where they have none."""
        columns = getattr(self, "feature_names_in_", None)
        return [f"x{j}" for j in range(self.n_features_in_)] if columns is None else [str(c) for c in columns]


keep_nested_lines(LatentModel.__repr__)
