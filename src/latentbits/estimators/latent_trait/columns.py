"""Columns of several kinds: what `LatentTrait` and `TraitMaps` do with `column_types`."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import check_is_fitted

from latentbits.engines.passes import Engine
from latentbits.estimators.criteria import MOST_COUNTED_COLUMNS
from latentbits.estimators.estimator_repr import named_weights
from latentbits.estimators.latent_trait.base import LinearTrait, n_free
from latentbits.estimators.tables.column_types import KINDS, Encoding, open_table
from latentbits.estimators.tables.weights import weighted
from latentbits.models.latent_trait import column_kinds
from latentbits.models.latent_trait.column_kinds import ALL_BITS, Columns

__all__ = ["TraitOfColumns"]


class TraitOfColumns(LinearTrait):
    """A linear model whose columns may be binary, continuous or categorical; `_encoding` is None where all are bits."""

    column_types: Any
    noise: str

    components_: np.ndarray
    intercept_: np.ndarray
    noise_variance_: np.ndarray
    categories_: dict[Any, list[Any]]
    output_names_: list[str]

    _encoding: Encoding | None = None
    _column_constraints: ClassVar[dict[str, list[Any]]] = {
        "column_types": [None, StrOptions({"infer"}), "array-like", dict],
        "noise": [StrOptions({"own", "shared"})],
    }

    # ---------------------------------------------------------------- the kinds

    def _columns(self) -> Columns:
        columns = ALL_BITS if self._encoding is None else self._encoding.columns
        return columns._replace(shared_noise=True) if self.noise == "shared" and columns.n_reals else columns

    def _check(self) -> None:
        super()._check()
        if self.noise == "shared" and not self._columns().n_reals:
            raise ValueError("noise='shared' is for continuous columns, and there are none: column_types names them")

    def _open(self, X: Any, *, reset: bool, sample_weight: Any = None) -> Engine:
        """Open the rows as numbers; a fit also keeps how they became so."""
        if self.column_types is None:
            self._encoding = None
            return super()._open(X, reset=reset, sample_weight=sample_weight)
        known = None if reset else self._encoding
        self._encoding, engine = open_table(
            self, X, column_types=self.column_types, encoding=known, binarize=self.binarize
        )
        return weighted(engine, sample_weight, X)

    def _bits_only(self, what: str, advice: str) -> None:
        if self._columns() != ALL_BITS:
            there = ", ".join(kind for kind in KINDS if kind in self._encoding.kinds) if self._encoding else ""
            raise ValueError(f"{what} is for binary columns only, and here they are {there}: {advice}")

    @property
    def _n_bits(self) -> int:
        binary = self._columns().binary
        return (self.n_features_in_ if binary is None else len(binary)) - len(self._idle)

    def _freedom(self) -> int | None:
        columns = self._columns()
        if columns.n_reals or self._n_bits + len(columns.categorical) > MOST_COUNTED_COLUMNS:
            return None
        return 2**self._n_bits * math.prod(columns.n_classes) - 1

    def _what_varies(self) -> str:
        return f"{self._n_bits} binary columns" + (" and the categories" if self._columns().categorical else "")

    def _off_maximum(self) -> Iterator[str]:
        if self.method in ("variational", "monte_carlo"):
            yield f"method={self.method!r} maximises something near to it"
        yield from super()._off_maximum()

    # ---------------------------------------------------------------- what was learned

    def _outputs_of(self, params: column_kinds.Params) -> tuple[np.ndarray, ...]:
        """Return components and intercepts of a map by outputs, and noise variances where kinds of columns differ."""
        if self._encoding is None:
            return np.asarray(params.weights).T, np.asarray(params.bias)
        weights, bias, noise = self._encoding.outputs(params)
        return weights.T, bias, noise

    def _expose(self) -> None:
        for name in ("noise_variance_", "categories_", "output_names_"):
            self.__dict__.pop(name, None)  # of an earlier fit
        self._expose_outputs()
        self._sample_dtype = np.uint8 if self._encoding is None else np.float64
        if self._encoding is not None:
            names = getattr(self, "feature_names_in_", None)
            self.output_names_ = self._encoding.output_names(names)
            self.categories_ = {
                place if names is None else str(names[place]): list(labels)
                for place, labels in self._encoding.categories.items()
            }
        weights, bias, noise = (getattr(self.params_, name) for name in ("weights", "bias", "log_variance"))
        n_variances = min(noise.shape[-1], 1 if self.noise == "shared" else weights.shape[-2])
        each = n_free(weights, bias.shape[-1], len(self._idle)) + n_variances
        self.n_parameters_ = int(self.n_maps) * each + int(self.n_maps) - 1
        self._n_features_out = self._q

    def _expose_outputs(self) -> None:
        """Set `components_`, `intercept_` and, where there is noise, `noise_variance_`."""
        self.components_, self.intercept_, *noise = self._outputs_of(self.params_)
        if noise:
            (self.noise_variance_,) = noise

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        columns = self._columns()
        outputs, reals = columns.n_outputs(self.n_features_in_), columns.n_reals
        own = {"weights": (outputs, self._q), "bias": (outputs,), "log_variance": (reals,)}
        return {**own, "centre": (reals,), "scale": (reals,)}

    def _extra(self) -> dict[str, Any]:
        idle = super()._extra()
        return idle if self._encoding is None else {"columns": self._encoding.to_json(), **idle}

    def _take_extra(self, extra: dict[str, Any]) -> None:
        if self.column_types is not None:
            names = getattr(self, "feature_names_in_", None)
            self._encoding = Encoding.from_json(extra.get("columns"), self.n_features_in_, self.column_types, names)
            extra = {name: value for name, value in extra.items() if name != "columns"}
        super()._take_extra(extra)

    def _causes(self) -> Iterator[tuple[str, str]]:
        yield from named_weights("trait", self._output_words(), self.components_)

    def _output_words(self) -> list[str]:
        return getattr(self, "output_names_", None) or self._input_names()

    # ---------------------------------------------------------------- use

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Compute the mean of each column at given points of the latent space: P(bit = 1 | latents) for bits.

        Parameters
        ----------
        X : array-like of shape (n_rows, n_components)
            Latents, as `transform` gives them.

        Returns
        -------
        ndarray of shape (n_rows, n_outputs)
            For a categorical column the probabilities of its categories; `output_names_` has the names.
        """
        return self._in_units(super().inverse_transform(X))

    def _in_units(self, means: np.ndarray) -> np.ndarray:
        """Turn means of continuous columns into the user's units."""
        if self._encoding is None:
            return means
        means = means.astype(np.float64)
        for place in self._columns().continuous:
            means[:, self._encoding.blocks[place]] += self._encoding.offset[place]
        return means

    def sample(self, n: int = 1, random_state: Any = None) -> Any:
        """Draw rows from the model.

        Parameters
        ----------
        n : int, default=1
            Number of rows.
        random_state : int, RandomState or None
            Seed.

        Returns
        -------
        ndarray or frame of shape (n, n_columns)
            Bits; with `column_types` values of the columns, as a frame where the model was fitted to one.  Else an
            array of numbers, or of objects where categories are text.
        """
        drawn = super().sample(n, random_state)
        if self._encoding is None:
            return drawn
        return self._encoding.drawn(drawn, getattr(self, "feature_names_in_", None))

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
        check_is_fitted(self, "params_")
        if self._encoding is None:
            return super().complete(X)
        return self._encoding.filled(X, self._map_rows(self._fitted().complete, X))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        if self.column_types is not None:
            tags.input_tags.sparse = False
            tags.input_tags.categorical = tags.input_tags.string = True
        return tags
