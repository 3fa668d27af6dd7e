"""Columns of several kinds for `LatentTrait`: what it does with `column_types`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from latentbits.engines.passes import Engine
from latentbits.estimators import psychometrics
from latentbits.estimators.criteria import MOST_COUNTED, WithCriteria
from latentbits.estimators.tables.column_types import KINDS, Encoding, open_table
from latentbits.estimators.tables.weights import weighted
from latentbits.models.latent_trait.kinds import ALL_BITS, Columns

__all__ = ["WithMixedColumns"]


class WithMixedColumns(WithCriteria):
    """What `LatentTrait` does where columns are of several kinds; `_encoding` is None where all are bits."""

    column_types: Any
    noise: str

    components_: np.ndarray
    intercept_: np.ndarray
    difficulty_: np.ndarray
    discrimination_: np.ndarray
    noise_variance_: np.ndarray
    categories_: dict[Any, list[Any]]
    output_names_: list[str]

    _encoding: Encoding | None = None

    def _columns(self) -> Columns:
        columns = ALL_BITS if self._encoding is None else self._encoding.columns
        return columns._replace(shared_noise=True) if self.noise == "shared" and columns.n_reals else columns

    def _open_mixed(self, X: Any, *, reset: bool, sample_weight: Any) -> Engine:
        """The rows as numbers; at a fit also how they became so."""
        self._encoding, engine = open_table(
            self,
            X,
            column_types=self.column_types,
            encoding=None if reset else self._encoding,
            binarize=self.binarize,
        )
        return weighted(engine, sample_weight, X)

    def _bits_only(self, what: str, advice: str = "fit the binary columns alone") -> None:
        if self._columns() != ALL_BITS:
            kinds_there = ", ".join(kind for kind in KINDS if kind in self._encoding.kinds) if self._encoding else ""
            raise ValueError(f"{what} is for binary columns only, and here they are {kinds_there}: {advice}")

    @property
    def _n_bits(self) -> int:
        binary = self._columns().binary
        return (self.n_features_in_ if binary is None else len(binary)) - len(self._idle)

    def _freedom(self) -> int | None:
        columns = self._columns()
        if columns.n_reals or self._n_bits + len(columns.categorical) > MOST_COUNTED:
            return None
        return 2**self._n_bits * math.prod(columns.n_classes) - 1

    def _items_of(self, params: Any) -> tuple[np.ndarray | None, ...]:
        """Components, intercepts, difficulties, discriminations and noise variances of a map."""
        if self._encoding is None:
            weights, bias = params.weights, params.bias
            easy, steep = psychometrics.difficulty(weights, bias), psychometrics.discrimination(weights)
            return weights.T, bias, easy, steep, None
        weights, bias, noise = self._encoding.outputs(params)
        bits = np.array([kind == "binary" for kind in self._encoding.kinds])
        lines = [block.start for block, bit in zip(self._encoding.blocks, bits) if bit]
        easy, steep = np.full((2, len(bits)), np.nan)
        easy[bits] = psychometrics.difficulty(weights[lines], bias[lines])
        steep[bits] = psychometrics.discrimination(weights[lines])
        return weights.T, bias, easy, steep, noise

    def _expose_items(
        self, components: Any, intercept: Any, difficulty: Any, discrimination: Any, noise: np.ndarray | None
    ) -> None:
        self.components_, self.intercept_ = components, intercept
        self.difficulty_, self.discrimination_ = difficulty, discrimination
        if noise is not None:
            self.noise_variance_ = noise

    def _expose_names(self, encoding: Encoding) -> None:
        names = getattr(self, "feature_names_in_", None)
        self.output_names_ = encoding.output_names(names)
        self.categories_ = {
            place if names is None else str(names[place]): list(labels) for place, labels in encoding.categories.items()
        }

    def complete(self, X: Any) -> Any:
        """Fill in what is missing from what was observed of the row; observed entries are kept as they are.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_columns)
            NaN for missing.  A frame comes back as a frame.

        Returns
        -------
        ndarray or frame of shape (n_rows, n_columns)
            P(bit = 1) for a bit; the mean for a continuous column; the label of the most probable category.  An array
            holds numbers, or objects where X has text.
        """
        model = self._fitted()
        if self._encoding is None:
            return super().complete(X)
        return self._encoding.filled(X, self._map_rows(model.complete, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.column_types is not None:
            tags.input_tags.sparse = False
            tags.input_tags.categorical = tags.input_tags.string = True
        return tags
