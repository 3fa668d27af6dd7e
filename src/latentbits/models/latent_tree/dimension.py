"""The number of parameters of a tree that rows identify: the dimension of its family of distributions of the bits.

They are fewer than are written down, as a state that hangs from nothing but two others, or from a bit and few states,
shows in no row.  First what can never show is taken away (Zhang 2004, "regular" trees):

- a variable between two neighbours that has as many states as one of them or more is none;
- of more states than all neighbours but the largest have together, as many are enough.

Then the tree is cut at its edges (Kocka & Zhang 2002): each variable with its neighbours, as if these were seen, is a
latent class model, and what two neighbours have in common is counted twice.
"""

from __future__ import annotations

from math import prod

import numpy as np

__all__ = ["dimension"]

Graph = dict[int, set[int]]


def dimension(parent: np.ndarray, sizes: np.ndarray, varies: np.ndarray) -> int:
    """Count the parameters of a hidden tree that rows can identify.

    Parameters
    ----------
    parent
        Of each column; that of a root is -1 or d.
    sizes
        States of each hidden variable.
    varies
        Which bits tell anything.

    >>> bits = np.ones(3, bool)
    >>> dimension(np.array([-1, 0, 1]), np.ones(3, int), bits), dimension(np.array([1, -1, 1]), np.full(3, 2), bits)
    (3, 7)
    """
    d = len(parent)
    # hidden variables are 0..d-1, and bits d..2d-1
    size = dict(enumerate([*map(int, sizes), *np.where(varies, 2, 1).tolist()]))
    graph: Graph = {node: set() for node in size}
    for column, up in enumerate(np.where(parent == d, -1, parent).tolist()):
        for one, other in ((column, up), (column, column + d)):
            if other >= 0:
                graph[one].add(other)
                graph[other].add(one)
    _regularise(graph, size, d)
    hidden = [node for node in graph if node < d]
    total = sum(_latent_classes(size[node], [size[one] for one in graph[node]]) for node in hidden)
    edges = [(a, b) for a in graph for b in graph[a] if a < b]
    total -= sum(size[a] * size[b] - 1 for a, b in edges if b < d)
    total += sum(size[a] * size[b] - 1 for a, b in edges if a >= d)  # bits that hang from each other
    return total + sum(size[node] - 1 for node in graph if node >= d and not graph[node])


def _regularise(graph: Graph, size: dict[int, int], d: int) -> None:
    """Remove variables and states that show in no row."""
    again = True
    while again:
        again = False
        for node in list(graph):
            near = graph[node]
            if size[node] == 1 or (node < d and len(near) < 2):  # alone, or at an end
                again = again or bool(near) or node < d
                _cut(graph, node)
                if node < d or size[node] == 1:
                    del graph[node]
                continue
            if node >= d:
                continue
            around = sorted(size[one] for one in near)
            if len(near) == 2 and size[node] >= around[0]:
                one, other = near
                _cut(graph, node)
                del graph[node]
                graph[one].add(other)
                graph[other].add(one)
                again = True
            elif size[node] > prod(around[:-1]):
                size[node] = prod(around[:-1])
                again = True


def _cut(graph: Graph, node: int) -> None:
    for one in graph[node]:
        graph[one].discard(node)
    graph[node] = set()


def _latent_classes(k: int, sizes: list[int]) -> int:
    """Count those of a model of k classes and variables of these sizes, all seen.

    So many as are written down, or as there are cells, or as a table of rank k has.  There are few exceptions (Abo,
    Ottaviani & Peterson 2009), with one less.
    """
    *rest, largest = sorted(sizes)
    n = prod(rest)
    written = k * (1 + sum(size - 1 for size in sizes)) - 1
    found = min(written, n * largest - 1, k * (n + largest - k) - 1 if k <= min(n, largest) else written)
    return found - _is_exception(k, [*rest, largest])


def _is_exception(k: int, sizes: list[int]) -> bool:
    match sizes:
        case [2, 2, a, b]:
            return a == b and k == 2 * a - 1
        case [3, a, b]:
            return (a == b and a % 2 == 1 and k == 3 * (a // 2) + 1) or (a == b == 4 and k == 5)
    return False
