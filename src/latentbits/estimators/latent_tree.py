"""`LatentTree`: hidden causes on a tree; `ChowLiuTree`: the tree of the bits themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from sklearn.utils._param_validation import Interval

from latentbits.core.errors import ModelFileError
from latentbits.core.model import Model
from latentbits.estimators.base import LatentModel
from latentbits.estimators.criteria import WithFitReport
from latentbits.estimators.estimator_repr import short
from latentbits.models.latent_tree import model as latent_tree
from latentbits.models.latent_tree.dimension import dimension
from latentbits.models.latent_tree.structure import is_order

__all__ = ["ChowLiuTree", "LatentTree"]


class LatentTree(WithFitReport):
    """Hidden causes on a tree (hidden Chow-Liu tree), by EM with exact sums.

    Every column hangs from one hidden variable, which has a few states; these variables, one for each column, are
    joined by the tree that has the largest mutual information between columns in all (Chow & Liu 1968).  So neighbours
    on the tree are dependent, and states can carry what a single bit cannot.  Missing bits are marginalised exactly.

    One hidden variable for all columns, the latent class model, is `BernoulliMixture`.

    Parameters
    ----------
    n_states : int or sequence of int, default=8
        States of each hidden variable, one number for all or one for each column; 1 makes independent bits.
    n_trees : int, default=1
        Trees in a mixture; each row comes from one of them.
    hidden : bool, default=True
        Without, the states are the bits themselves: the Chow-Liu tree, which has no use for `n_states`.
    smoothing : float, default=1.0
        Rows that every variable is taken to have seen beside the data, spread evenly over its states, with the
        column's mean; 0 is maximum likelihood.
    softening : float, default=0.0
        While it learns, every bit is taken to have been flipped with this probability, less than 0.5: states then do
        not become too sure of what few rows say (data softening, Liu & Van den Broeck 2021).
    entropy : float, default=0.0
        How many nats per row a nat of the model's entropy is worth (entropy regularisation, Liu & Van den Broeck 2021):
        what is maximised is log-likelihood + prior + n_rows * entropy * H.  H is the entropy of tree, hidden states and
        bits together, ``H(shares) + sum over trees of share * H(states, bits of that tree)``, which of a single tree
        with ``hidden=False`` is that of the bits.  Above 0 it keeps the model from being too sure; 0.01 is little, 1
        much.
    validation_fraction : float, default=0.0
        Share of the rows of a table in memory that is held out: learning stops when they gain no more.  ``fit(X,
        X_val=...)`` takes rows of their own.
    random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.

    Attributes
    ----------
    weights_ : ndarray of shape (n_trees,)
        Share of each tree.
    parents_ : ndarray of int of shape (n_trees, n_columns)
        The column that each hangs from, -1 for a root.
    information_ : ndarray of shape (n_trees, n_columns)
        Mutual information of each column and the one it hangs from, in nats; 0 for a root.
    transitions_ : ndarray of shape (n_trees, n_columns, n_states, n_states)
        P(state of the column | state of the one it hangs from), the latter first; a root's rows are all the same.
        Where variables differ in their number of states, what one does not have is 0.
    emissions_ : ndarray of shape (n_trees, n_columns, n_states)
        P(bit = 1 | state).
    n_parameters_ : int
        Free parameters that rows determine: the dimension in which the probabilities of rows can change with each tree
        (Kocka & Zhang 2002), which is less than there are numbers in it; and the shares of the trees.
    history_ : ndarray
        Objective (log-likelihood with the prior of `smoothing`, nats, of bits that may be flipped where there is
        `softening`, with what the `entropy` is worth) of every iteration.
    n_iter_, converged_, stop_reason_, left_to_gain_, objective_, history_table_, dtype_
        As everywhere.
    n_rows_ : float
        Rows learned from, each as often as it counts; NaN where that is not known.
    n_features_in_ : int
        Number of columns.
    feature_names_in_ : ndarray of str
        Names of the columns, where X was a frame.

    Examples
    --------
    >>> import numpy as np
    >>> from latentbits import LatentTree
    >>> rng = np.random.default_rng(0)
    >>> X = np.cumsum(rng.random((500, 6)) < 0.2, axis=1) % 2  # each bit is mostly that on its left
    >>> m = LatentTree(2, random_state=0).fit(X)
    >>> edges = {tuple(sorted((j, p))) for j, p in enumerate(m.parents_[0].tolist()) if p >= 0}
    >>> edges == {(j, j + 1) for j in range(5)}
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "n_states": [Interval(Integral, 1, None, closed="left"), "array-like"],
        "n_trees": [Interval(Integral, 1, None, closed="left")],
        "hidden": ["boolean"],
        "smoothing": [Interval(Real, 0, None, closed="left")],
        "softening": [Interval(Real, 0, 0.5, closed="left")],
        "entropy": [Interval(Real, 0, None, closed="left")],
        "validation_fraction": [Interval(Real, 0, 1, closed="left")],
    }

    weights_: np.ndarray
    parents_: np.ndarray
    information_: np.ndarray
    transitions_: np.ndarray
    emissions_: np.ndarray

    _params_class: ClassVar[type] = latent_tree.Params
    _whole: ClassVar[frozenset[str]] = frozenset({"parent", "steps", "leaves"})
    _ranges: ClassVar[Mapping[str, tuple[float, float]]] = {
        "weights": (0, 1),
        "transition": (0, 1 + 1e-9),  # sums of shares may round
        "emission": (0, 1),
        "information": (0, np.log(2)),
    }

    def __init__(
        self,
        n_states: Any = 8,
        *,
        n_trees: int = 1,
        hidden: bool = True,
        smoothing: float = 1.0,
        softening: float = 0.0,
        entropy: float = 0.0,
        validation_fraction: float = 0.0,
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.n_states = n_states
        self.n_trees = n_trees
        self.hidden = hidden
        self.smoothing = smoothing
        self.softening = softening
        self.entropy = entropy
        self.validation_fraction = validation_fraction
        super().__init__(random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    def _sizes(self) -> int | tuple[int, ...]:
        """Return the number of states of all variables, or of each."""
        if isinstance(self.n_states, Integral):
            return int(self.n_states)
        sizes = np.asarray(self.n_states)
        if sizes.shape != (self.n_features_in_,) or sizes.dtype.kind not in "iu" or sizes.min() < 1:
            raise ValueError(
                f"n_states must be a number from 1 on, or one for each of the {self.n_features_in_} columns, "
                f"got {self.n_states!r}"
            )
        return tuple(sizes.tolist())

    def _held_out_share(self) -> float:
        return float(self.validation_fraction)

    @property
    def _has_prior(self) -> bool:
        return self.smoothing > 0

    def _model(self) -> Model:
        n_trees, hidden = int(self.n_trees), bool(self.hidden)
        strengths = float(self.smoothing), float(self.softening), float(self.entropy)
        return latent_tree.model(self._sizes(), n_trees, hidden, *strengths, closed=self._held_out is None)

    def _off_maximum(self) -> Iterator[str]:
        if self.smoothing > 0:
            yield f"smoothing={self.smoothing:g}"
        if self.softening > 0:
            yield f"softening={self.softening:g}"
        if self.entropy > 0:
            yield f"entropy={self.entropy:g}"

    def _provisos(self) -> Iterator[str]:
        if self.smoothing > 0:
            yield f"with the penalty of smoothing={self.smoothing:g}"
        if self.softening > 0:
            yield f"of bits that may be flipped (softening={self.softening:g})"

    def _causes(self) -> Iterator[tuple[str, str]]:
        """Yield the closest neighbours on the largest tree."""
        tree = int(np.argmax(self.weights_))
        names, parents, bits = self._input_names(), self.parents_[tree], self.information_[tree] / np.log(2)
        for column in np.argsort(-bits, kind="stable").tolist():
            if parents[column] >= 0:
                pair = f"{short(names[column])} and {short(names[parents[column]])}"
                yield "neighbours", f"{pair}: {bits[column]:.3f} bits in common"

    def _expose(self) -> None:
        p, d = self.params_, self.n_features_in_
        if not all(is_order(*one) for one in zip(p.parent, p.steps, p.leaves)):
            raise ModelFileError("'parent', 'steps' and 'leaves' are not those of a tree")
        self.weights_, self.transitions_, self.emissions_ = p.weights, p.transition, p.emission
        self.parents_, self.information_ = np.where(p.parent == d, -1, p.parent), p.information
        self.n_parameters_ = self._n_free()
        self._n_features_out = p.emission.size

    def _n_free(self) -> int:
        m, d, _ = self.emissions_.shape
        varies = ~np.isin(np.arange(d), self._idle)
        if self.hidden:
            sizes = np.broadcast_to(self._sizes(), d)
            return sum(dimension(parents, sizes, varies) for parents in self.parents_) + m - 1
        # two conditional probabilities of a bit that hangs from another, one of a bit that hangs from a constant
        moves = np.where((self.parents_ >= 0) & varies[self.parents_], 2, 1) * varies
        return int(moves.sum()) + m - 1

    def _shapes(self) -> dict[str, tuple[int | None, ...]]:
        m, d = int(self.n_trees), self.n_features_in_
        k = 2 if not self.hidden else int(np.max(self._sizes()))
        return {
            "weights": (m,),
            "parent": (m, d),
            "information": (m, d),
            "steps": (m, None, None),
            "leaves": (m, None, None),
            "transition": (m, d, k, k),
            "emission": (m, d, k),
        }


class ChowLiuTree(LatentTree):
    """The Chow-Liu tree: every bit depends on one other, and nothing is hidden; what hidden causes must beat.

    It is ``LatentTree(hidden=False)`` under another name.

    Parameters
    ----------
    smoothing : float, default=1.0
        Rows that every column is taken to have seen beside the data, spread evenly.
    random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize
        As everywhere.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **LatentModel._parameter_constraints,
        "smoothing": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        *,
        smoothing: float = 1.0,
        random_state: Any = None,
        n_init: int = 1,
        max_iter: int = 1000,
        max_time: float | None = None,
        tol: float = 1e-6,
        verbose: int = 0,
        dtype: Any = "auto",
        binarize: float | None = None,
    ) -> None:
        self.smoothing = smoothing
        LatentModel.__init__(self, random_state, n_init, max_iter, max_time, tol, verbose, dtype, binarize)

    # settings of a latent tree that are no options here
    n_states: Any = 2
    n_trees: int = 1
    hidden: bool = False
    softening: float = 0.0
    entropy: float = 0.0
    validation_fraction: float = 0.0  # one pass learns it: there is nothing to stop
