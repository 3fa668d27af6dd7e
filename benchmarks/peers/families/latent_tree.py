"""Hidden Chow-Liu trees: every column hangs from a hidden variable with a few states, and these are joined by a tree.

All contenders find the tree from the same rows by mutual information, and learn by EM with exact sums, each from its
own random start, in at most 100 passes; for the rest ours runs at its defaults, by which it would go on until less than
1e-6 nats a row are left to gain, in hundreds.  SPFlow has its own tree, its own modules and its own
`expectation_maximization`, which takes all rows at once and keeps what it needs of them for the way back; its
`learn_hclt_binary` builds the same circuit, but from starts in which no state tells of another, where EM stands still,
so that the start is drawn here.  "PyTorch" is what Einsum Networks (Peharz et al. 2020) do, written here for this
circuit: all columns of one depth in one batched product, in units of the largest entry, 2048 rows at a time, and
expected counts as the gradient by the parameters, which PyTorch finds.  Both also end when a pass gains less than 1e-4
nats a row.  SPFlow's EM knows no smoothing and divides by zero where all rows leave a state: every five passes its
probabilities are moved away from 0 and 1 by 1e-4, and where they are no numbers the five before count.  PyJuice, the
library of such circuits, computes on a GPU alone.  Quality is the exact log-likelihood of test rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, Table
from benchmarks.peers.families.chow_liu import bits
from benchmarks.peers.families.chow_liu import numpy_ as chow_liu
from benchmarks.peers.growth import Growth
from benchmarks.peers.sets import COMPILED, public

TITLE = "Latent trees"
ENOUGH, MOST = 1e-4, 100  # nats a row, and passes
ROWS = 2048  # at a time, of PyTorch


def tables(quick: bool) -> dict[str, Table | str]:
    n, d, k = (500, 6, 2) if quick else (5_000, 30, 4)
    X = bits(n + n // 5, d)
    made: dict[str, Table | str] = {f"simulated, {n} x {d}, {k} states": Table(X[:n], X[n:], {"states": k})}
    if not quick:
        made["digits, 4 states"] = public("digits", states=4)
    return made


def latentbits_(X: np.ndarray, *, seed: int, states: int) -> dict[str, Any]:
    from latentbits.estimators.latent_tree import LatentTree

    model = LatentTree(states, max_iter=MOST, random_state=seed).fit(X)
    return {"parent": model.parents_[0], "transition": model.transitions_[0], "emission": model.emissions_[0]}


def spflow_(X: np.ndarray, *, seed: int, states: int) -> dict[str, Any]:
    import torch
    from spflow.learn.expectation_maximization import expectation_maximization
    from spflow.meta import Scope
    from spflow.modules.leaves import Bernoulli
    from spflow.modules.products import ElementwiseProduct
    from spflow.modules.sums import Sum
    from spflow.zoo.hclt.chow_liu import learn_chow_liu_tree_binary

    d, k, data = X.shape[1], states, torch.from_numpy(X)
    parent = _hung_up(learn_chow_liu_tree_binary(data), d)
    moves, emits = start(parent, k, seed)
    last = -np.inf
    for _ in range(MOST // 5):  # it has no tolerance: five passes at a time
        leaves = [Bernoulli(scope=Scope([j]), probs=torch.tensor(emits[j]).float()[None, :, None]) for j in range(d)]
        sums: dict[int, Any] = {}

        def message(column: int, leaves: list[Any] = leaves, sums: dict[int, Any] = sums, moves: Any = moves) -> Any:
            """P(bits at and below a column | state of the one above)."""
            children = [message(child) for child in np.flatnonzero(parent == column).tolist()]
            below = ElementwiseProduct(inputs=[leaves[column], *children]) if children else leaves[column]
            up = moves[column] if parent[column] >= 0 else moves[column, :1]
            sums[column] = Sum(inputs=below, weights=torch.tensor(up.T).float()[None, :, :, None].contiguous())
            return sums[column]

        circuit = message(int(np.flatnonzero(parent < 0)[0]))
        reached = float(expectation_maximization(circuit, data, max_steps=5)[-1])
        up = np.array([np.broadcast_to(sums[j].weights.detach().numpy()[0, :, :, 0].T, (k, k)) for j in range(d)])
        ones = np.array([leaves[j].probs.detach().numpy().reshape(k) for j in range(d)])
        if not (np.isfinite(reached) and np.isfinite(up).all() and np.isfinite(ones).all()):
            break  # a state has been left by all rows
        up = np.maximum(up.astype(float), 1e-6)
        moves, emits = up / up.sum(2, keepdims=True), np.clip(ones.astype(float), 1e-4, 1 - 1e-4)
        if reached - last < 5 * ENOUGH:
            break
        last = reached
    return {"parent": parent, "transition": moves, "emission": emits}


def _hung_up(edges: Any, d: int) -> np.ndarray:
    """The column that each hangs from, from column 0 down."""
    parent, order = np.full(d, -1), [0]
    near: dict[int, list[int]] = {j: [] for j in range(d)}
    for a, b in edges:
        near[int(a)].append(int(b))
        near[int(b)].append(int(a))
    for column in order:  # it grows
        for other in near[column]:
            if other != parent[column]:
                parent[other] = column
                order.append(other)
    return parent


def start(parent: np.ndarray, k: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Transitions and emissions that are drawn; a root's rows are all the same."""
    rng = np.random.default_rng(seed)
    moves = 0.1 + rng.random((len(parent), k, k))
    moves[parent < 0] = moves[parent < 0][:, :1]
    return moves / moves.sum(2, keepdims=True), 0.2 + 0.6 * rng.random((len(parent), k))


def torch_(X: np.ndarray, *, seed: int, states: int) -> dict[str, Any]:
    import torch

    (n, d), k = X.shape, states
    parent = chow_liu(X, seed=seed)["parent"]
    depth = np.zeros(d, int)
    for j in range(d):
        up = parent[j]
        while up >= 0:
            depth[j], up = depth[j] + 1, parent[up]
    levels = [np.flatnonzero(depth == level) for level in range(depth.max() + 1)]
    is_root = torch.from_numpy(parent < 0)
    moves, emits = (torch.tensor(part, dtype=torch.float32) for part in start(parent, k, seed))
    table = torch.from_numpy(X)

    def log_p(x: Any, moves: Any, emits: Any) -> Any:
        """Of columns x rows."""
        gathered = None
        for level in reversed(levels):
            one, bit = emits[level][:, :, None], x[level][:, None, :]
            inside = torch.log(torch.where(bit == 1, one, 1 - one))
            if gathered is not None:
                inside = inside + gathered
            top = inside.max(1, keepdim=True).values
            message = torch.log(torch.bmm(moves[level], torch.exp(inside - top)).clamp_min(1e-37)) + top
            if depth[level[0]] == 0:
                return message[0, 0]
            above = levels[depth[level[0]] - 1]
            place = torch.from_numpy(np.searchsorted(above, parent[level]))
            gathered = torch.zeros(len(above), k, x.shape[1]).index_add(0, place, message)
        raise AssertionError("a tree has a root")

    last = -np.inf
    for _ in range(MOST):
        moves.requires_grad_()
        emits.requires_grad_()
        total, by_moves, by_emits = 0.0, 0.0, 0.0
        for first in range(0, n, ROWS):
            value = log_p(table[first : first + ROWS].T.contiguous(), moves, emits).sum()
            found = torch.autograd.grad(value, (moves, emits))
            total += float(value.detach())
            by_moves, by_emits = by_moves + found[0].double(), by_emits + found[1].double()
        moves, emits = moves.detach(), emits.detach()
        counts = moves * by_moves
        members = torch.where(is_root[:, None], counts[:, 0], counts.sum(1))
        counts[is_root] = counts[is_root][:, :1]
        # rows in a state times its P(1): ones follow from the gradient
        ones = emits * (members + (1 - emits) * by_emits)
        moves = ((counts + 1 / k**2) / (counts + 1 / k**2).sum(2, keepdim=True)).float()
        emits = ((ones + 0.5 / k) / (members + 1 / k)).clamp(1e-6, 1 - 1e-6).float()
        if total / n - last < ENOUGH:
            break
        last = total / n
    return {"parent": parent, "transition": moves.numpy(), "emission": emits.numpy()}


CONTENDERS = {
    "latentbits": Contender(latentbits_, "latentbits", module="latentbits.estimators.latent_tree"),
    "SPFlow": Contender(spflow_, "spflow", module="spflow.zoo.hclt.learn", dtype=np.float32),
    "PyTorch": Contender(torch_, "torch", dtype=np.float32),
}


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    """`parent` (d,), -1 for a root; `transition` (d, states above, states); `emission` (d, states) of P(1)."""
    parent = np.ravel(params["parent"]).astype(int)
    moves, emits = np.asarray(params["transition"], float), np.asarray(params["emission"], float)
    moves = moves / moves.sum(2, keepdims=True)
    emits = np.clip(emits, 1e-6, 1 - 1e-6)
    below: dict[int, np.ndarray] = {}
    total = np.zeros(len(test))
    for column in _leaves_first(parent):
        p = np.where(test[:, column, None] == 1, emits[column], 1 - emits[column])
        log_inside = np.log(p) + below.pop(column, 0.0)
        top = log_inside.max(1, keepdims=True)
        message = np.log(np.maximum(np.exp(log_inside - top) @ moves[column].T, 1e-300)) + top
        if parent[column] < 0:
            total += message[:, 0]
        else:
            below[parent[column]] = below.get(parent[column], 0.0) + message
    return float(total.mean())


def _leaves_first(parent: np.ndarray) -> list[int]:
    """Columns in an order in which each comes after all that hang from it."""
    order = [int(column) for column in np.flatnonzero(parent < 0)]
    for column in order:  # it grows
        order += [int(child) for child in np.flatnonzero(parent == column)]
    return order[::-1]


def _passes(n: int, d: int, k: int) -> Any:
    from latentbits.estimators.latent_tree import LatentTree

    X = bits(n, d)

    def fit() -> int:
        return LatentTree(k, random_state=0, max_iter=10, tol=1e-300).fit(X).n_iter_

    return fit


GROWTH = {
    "rows": Growth((2_500, 5_000, 10_000, 20_000), lambda n: _passes(n, 50, 8)),
    "columns": Growth((25, 50, 100, 200), lambda d: _passes(5_000, d, 8)),
    "causes": Growth((4, 8, 16, 32), lambda k: _passes(5_000, 50, k)),
}
LONGER = (
    "on digits EM is not at its end after a hundred passes: at its defaults ours goes on, to more than both have then; "
)
WHY = {
    "SPFlow": LONGER + COMPILED,
    "PyTorch": LONGER + COMPILED,
}
