"""Whether fits at default settings arrive: simulated tables, against the best of twenty long runs in float64.

    python benchmarks/maximum.py [--family latent-trait] [--tables 200] [--sizes 1,2,4] [--starts 20] [--jobs N]
    python benchmarks/maximum.py --family mixture --sizes 3

For each table of each size a model with as many hidden dimensions (or classes) as the table has is fitted as a user
would, all settings being the defaults (mixtures without smoothing); then from many starts in float64, and the best of
these for long.  For latent traits half of the starts are those of other seeds and half random parameters, with many
nodes, and all that is found is scored by one fine rule; for mixtures it is plain EM in NumPy.  A line a table; at the
end, by size, the share of tables within 0.05 nats of the best, in all rows together, and the worst.  A default fit
above the best of the long runs counts as 0.

Tables are spread over `jobs` processes of one thread each.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Any, NamedTuple

import numpy as np

WITHIN = 0.05  # nats in all
POLISHED = 2  # of the starts, the best, are run for long


class Shortfall(NamedTuple):
    """How far a default fit is below the best that was found, in nats, and what was fitted."""

    size: int
    table: int
    shape: tuple[int, int]
    nats: float
    best: float
    seconds: float
    said: str


# ---------------------------------------------------------------- latent traits


def trait_table(q: int, number: int) -> np.ndarray:
    """Bits of a true latent trait model: 300 to 1000 rows, 5 to 20 columns for one dimension, 16 to 24 for four."""
    rng = np.random.default_rng([2017, q, number])
    n = int(rng.integers(300, 1001))
    d = int(rng.integers(*{1: (5, 21), 2: (10, 21)}.get(q, (4 * q, 6 * q + 1))))
    weights = 0.3 * rng.standard_normal((d, q))
    weights[np.arange(d), np.arange(d) % q] += 1.3 * np.exp(0.3 * rng.standard_normal(d))
    odds = rng.standard_normal((n, q)) @ weights.T + rng.standard_normal(d)
    return (rng.random((n, d)) < 1 / (1 + np.exp(-odds))).astype(np.uint8)


def traits(q: int, number: int, n_starts: int) -> Shortfall:
    """The default fit of one table, and the best of many."""
    from latentbits import LatentTrait
    from latentbits.core import nodes as rules
    from latentbits.engines.chunks import layout_for
    from latentbits.engines.fit import fit, seed_key
    from latentbits.engines.memory import MemoryEngine
    from latentbits.engines.monitor import Limits
    from latentbits.engines.passes import map_rows, start_pass
    from latentbits.models.latent_trait.column_kinds import ALL_BITS, Params
    from latentbits.models.latent_trait.model import model
    from latentbits.models.latent_trait.use import finer

    X, double = trait_table(q, number), np.dtype(np.float64)
    engine, (n, d) = MemoryEngine(X), X.shape
    on_grid, level = q <= rules.MOST_GRID, {1: 1, 2: 2, 3: 2}.get(q, len(rules.FINER_NETS) - 1)
    width = rules.BLOCK if on_grid else 2 ** rules.FINER_NETS[level]

    def score(params: Any) -> float:
        given = start_pass(model(q), double, params, seed_key(0, "use"))
        given = given._replace(shared=rules.finer(q, level)[0]) if on_grid else given
        parts = map_rows(finer(q, ALL_BITS, level), engine, layout_for(2 * width * d, double), given)
        return float(sum(np.sum(value) for value, _ in parts))

    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        default = LatentTrait(q, random_state=number).fit(X)
    seconds = time.process_time() - began

    rng, nothing = np.random.default_rng([2018, q, number]), np.zeros(0)
    mean = np.clip(X.mean(0), 0.5 / n, 1 - 0.5 / n)
    nodes = {1: (31, 61), 2: (15, 31), 3: (9, 15)}.get(q, (8, 12))
    ends = []
    for start in range(n_starts):
        weights = rng.standard_normal((d, q))
        params = Params(weights, np.log(mean / (1 - mean)), nothing, nothing, nothing) if start % 2 else None
        record = model(q, "quadrature", n_nodes=nodes[0])
        limits = Limits(2000, 1e-9, None)
        ends.append(fit(record, engine, seed_key(1000 + start), params=params, limits=limits, dtype=double))
    ends.sort(key=lambda end: -end.objective)
    record = model(q, "quadrature", n_nodes=nodes[1])
    long = Limits(10_000, 1e-11, None)
    polished = [
        fit(record, engine, seed_key(0), params=end.params, limits=long, dtype=double) for end in ends[:POLISHED]
    ]
    best = max(score(end.params) for end in polished)
    short = max(0.0, best - score(default.params_))
    return Shortfall(q, number, X.shape, short, best, seconds, "; ".join(str(one.message)[:60] for one in said))


# ---------------------------------------------------------------- mixtures


def mixture_table(k: int, number: int) -> np.ndarray:
    """Bits of a true mixture, of four kinds: ratings that agree by degrees, any, distinct, and of many rare bits."""
    rng = np.random.default_rng([2019, k, number])
    n, d = int(rng.choice([200, 500, 1000, 2000, 4000])), int(rng.choice([5, 6, 8, 10]))
    weights = rng.dirichlet(np.full(k, 3.0))
    means = (
        lambda: np.linspace(0.8, 0.05, k)[:, None] * rng.uniform(0.5, 1.2, (k, d)),
        lambda: rng.uniform(0.1, 0.9, (k, d)),
        lambda: rng.choice([0.1, 0.9], (k, d)),
        lambda: 0.01 + 0.98 * rng.beta(0.8, 0.8, (k, d)),
    )[number % 4]()
    return (rng.random((n, d)) < means[rng.choice(k, n, p=weights)]).astype(np.uint8)


def plain_em(
    patterns: np.ndarray, counts: np.ndarray, weights: np.ndarray, means: np.ndarray, n_iter: int
) -> tuple[float, np.ndarray, np.ndarray]:
    """EM on the distinct rows in float64, in NumPy alone, until fifty iterations gain nothing."""
    tiny, value, before = 1e-300, -np.inf, -np.inf
    for iteration in range(n_iter):
        joint = patterns @ np.log(np.maximum(means, tiny)).T + (1 - patterns) @ np.log(np.maximum(1 - means, tiny)).T
        joint += np.log(np.maximum(weights, tiny))
        total = np.logaddexp.reduce(joint, axis=1)
        value = float(counts @ total)
        share = np.exp(joint - total[:, None]) * counts[:, None]
        owned = share.sum(0)
        weights, means = owned / counts.sum(), np.clip(share.T @ patterns / np.maximum(owned, tiny)[:, None], 0, 1)
        if iteration % 50 == 0:
            if value - before < 1e-9:
                break
            before = value
    return value, weights, means


def mixtures(k: int, number: int, n_starts: int) -> Shortfall:
    """The default fit (but of maximum likelihood) of one table, and the best of many runs of plain EM."""
    from latentbits import BernoulliMixture

    X = mixture_table(k, number)
    began = time.process_time()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        default = BernoulliMixture(k, smoothing=0, random_state=number).fit(X)
    seconds = time.process_time() - began
    patterns, counts = np.unique(X, axis=0, return_counts=True)
    patterns, rng = patterns.astype(float), np.random.default_rng([2020, k, number])
    equal = np.full(k, 1 / k)
    ends = [plain_em(patterns, counts, equal, rng.uniform(0.1, 0.9, (k, X.shape[1])), 1500) for _ in range(n_starts)]
    ends.sort(key=lambda end: -end[0])
    best = max(plain_em(patterns, counts, weights, means, 20_000)[0] for _, weights, means in ends[: 2 * POLISHED])
    short = max(0.0, best - plain_em(patterns, counts, default.weights_, default.means_, 1)[0])
    return Shortfall(k, number, X.shape, short, best, seconds, "; ".join(str(one.message)[:60] for one in said))


FAMILIES: dict[str, Callable[[int, int, int], Shortfall]] = {"latent-trait": traits, "mixture": mixtures}


# ---------------------------------------------------------------- all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=FAMILIES, default="latent-trait")
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--sizes", default="1,2,4")
    parser.add_argument("--starts", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args()
    # before JAX is imported, in the processes that inherit it
    os.environ |= {"OMP_NUM_THREADS": "1", "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false"}
    sizes = [int(size) for size in options.sizes.split(",")]
    done: list[Shortfall] = []
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        run = FAMILIES[options.family]
        waiting = [pool.submit(run, q, number, options.starts) for q in sizes for number in range(options.tables)]
        for future in as_completed(waiting):
            one = future.result()
            done.append(one)
            rows, columns = one.shape
            print(
                f"size {one.size} table {one.table:3d} {rows:4d} x {columns:2d}  best {one.best:.3f}  short by "
                f"{one.nats:.4f}  {one.seconds:.1f} s  {one.said}",
                flush=True,
            )
    missed = False
    for size in sizes:
        short = np.array([one.nats for one in done if one.size == size])
        share = np.mean(short <= WITHIN)
        missed |= share < 0.98
        print(f"size {size}: {share:.1%} of {len(short)} tables within {WITHIN} nats, the worst {short.max():.4f}")
    sys.exit(int(missed))


if __name__ == "__main__":
    main()
