"""The Chow-Liu tree: the tree of the bits themselves that has the largest likelihood, learned in one count of pairs.

All contenders find the tree of the largest mutual information, and P(bit | bit that it hangs from) with a little
smoothing: ours at its defaults; pgmpy by `TreeSearch` on all cores and its Bayesian estimate with an equivalent sample
size of 1; SPFlow by its leaf `CLTree` with 0.25 rows in each cell, the same prior; plain NumPy counts pairs by one
product in float32 and grows the tree by Prim's method.  What pgmpy's worker processes hold is not counted in its
memory.  Quality is the exact log-likelihood of test rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.growth import Growth
from benchmarks.peers.sets import COMPILED, public

TITLE = "Chow-Liu trees"


def bits(n: int, d: int) -> np.ndarray:
    """Rows of a tree in which each column hangs from one of the twelve before it."""
    rng = np.random.default_rng([1968, d])
    X = np.empty((n, d), np.uint8)
    X[:, 0] = rng.random(n) < 0.4
    for j in range(1, d):
        up = X[:, rng.integers(max(0, j - 12), j)]
        X[:, j] = np.where(rng.random(n, np.float32) < 0.75, up, rng.random(n, np.float32) < 0.5)
    return X


def tables(quick: bool) -> dict[str, Table | str]:
    n, d = (1_000, 10) if quick else (20_000, 100)
    X = bits(n + n // 5, d)
    made: dict[str, Table | str] = {f"simulated, {n} x {d}": Table(X[:n], X[n:])}
    if not quick:
        made |= {"digits": public("digits"), "plants": public("plants")}
    return made


def latentbits_(X: np.ndarray, *, seed: int) -> dict[str, Any]:
    from latentbits.estimators.latent_tree import ChowLiuTree

    model = ChowLiuTree(random_state=seed).fit(X)
    # the states are the bits
    return {"parent": model.parents_[0], "ones": model.transitions_[0, :, :, 1]}


def pgmpy_(X: np.ndarray, *, seed: int) -> dict[str, Any]:
    import pandas as pd
    from pgmpy.estimators import TreeSearch
    from pgmpy.models import DiscreteBayesianNetwork
    from pgmpy.parameter_estimator import DiscreteBayesianEstimator

    d = X.shape[1]
    data = pd.DataFrame(X)
    tree = TreeSearch(data).estimate(show_progress=False)
    model = DiscreteBayesianNetwork(tree.edges())
    prior = {"prior_type": "BDeu", "equivalent_sample_size": 1}
    model.fit(data, estimator=DiscreteBayesianEstimator({j: [0, 1] for j in range(d)}, **prior))
    parent, ones = np.full(d, -1), np.empty((d, 2))
    for j in range(d):
        table = model.get_cpds(j)
        above = table.get_evidence()
        parent[j] = above[0] if above else -1
        ones[j] = np.asarray(table.get_values())[1]
    return {"parent": parent, "ones": ones}


def spflow_(X: np.ndarray, *, seed: int) -> dict[str, Any]:
    import torch
    from spflow.meta import Scope
    from spflow.modules.leaves.cltree import CLTree

    d = X.shape[1]
    tree = CLTree(Scope(list(range(d))), K=2, alpha=0.25)
    tree.maximum_likelihood_estimation(torch.from_numpy(X))
    # of a column, in its one channel and repetition: its own value first, then that of the one it hangs from
    return {"parent": tree.parents.numpy(), "ones": np.exp(tree.log_cpt.detach().numpy()[:, 0, 0, 1].astype(float))}


def numpy_(X: np.ndarray, *, seed: int) -> dict[str, Any]:
    n, d = X.shape
    both = (X.T @ X).astype(float)
    ones = np.diag(both)
    # rows of each pair in each of the four cells, a quarter of a row more in each
    cells = np.array([[n - ones[:, None] - ones + both, ones - both], [ones[:, None] - both, both]]) + 0.25
    p = cells / (n + 1)
    information = (p * np.log(p / (p.sum(0)[None] * p.sum(1)[:, None]))).sum((0, 1))
    np.fill_diagonal(information, -np.inf)
    parent, best, near = np.full(d, -1), np.full(d, -np.inf), np.zeros(d, int)
    todo = np.ones(d, bool)
    last = 0
    for _ in range(d - 1):
        todo[last] = False
        closer = todo & (information[last] > best)
        best[closer], near[closer] = information[last][closer], last
        last = int(np.argmax(np.where(todo, best, -np.inf)))
        parent[last] = near[last]
    given = cells[:, 1, parent, np.arange(d)].T / cells[:, :, parent, np.arange(d)].sum(1).T
    given[parent < 0] = ((ones[parent < 0] + 0.5) / (n + 1))[:, None]
    return {"parent": parent, "ones": given}


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.latent_tree"),
    "plain NumPy": Contender(numpy_, "numpy", dtype=np.float32),
    "pgmpy": Contender(pgmpy_, "pgmpy", module="pgmpy.estimators"),
    "SPFlow": Contender(spflow_, "spflow", module="spflow.modules.leaves.cltree", dtype=np.float32),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    """`parent` (columns,), -1 for a root; `ones` (columns, 2): P(bit = 1 | the bit it hangs from)."""
    parent, ones = np.ravel(params["parent"]).astype(int), np.asarray(params["ones"], float)
    above = np.where(parent >= 0, test[:, parent], 0)
    p = ones[np.arange(len(parent)), above]
    return float(np.log(np.where(test == 1, p, 1 - p)).sum(1).mean())


def _one_pass(n: int, d: int) -> Any:
    from latentbits.estimators.latent_tree import ChowLiuTree

    X = bits(n, d)

    def fit() -> int:
        ChowLiuTree(random_state=0).fit(X)
        return 1

    return fit


# it has no hidden causes
GROWTH = {
    "rows": Growth((50_000, 100_000, 200_000, 400_000), lambda n: _one_pass(n, 100)),
    "columns": Growth((50, 100, 200, 400), lambda d: _one_pass(50_000, d)),
}
WHY = {
    "plain NumPy": "after the count of pairs, which alone gives the answer, ours passes over the rows a few more "
    "times by EM until nothing is left to gain (its log-likelihoods come with the fit); " + COMPILED,
    "pgmpy": COMPILED,
    "SPFlow": COMPILED,
}
