"""Where the time of a fit goes on an accelerator: validation, summary, copying, the first pass, the others.

    python benchmarks/gpu_passes.py [--rows 10000000] [--columns 256] [--only mixture8 mixture20 trait bsc]
        [--bandwidth 4.8e12] [--flops 6.7e13]

Floors are what the device would need at the least: bytes of a pass by its memory bandwidth, and the operations of
matrix products by its speed in float32.  Every model is fitted twice; the first time with its compilation.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

from latentbits import BernoulliMixture, BinarySparseCoding, LatentTrait
from latentbits.core.compilation import seconds_waited
from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.monitor import Limits
from latentbits.engines.summary import summarise

PASSES = 10
DISTINCT = 4096  # rows that a table repeats
SINGLE = np.dtype(np.float32)
NODES = 7  # of a latent trait, for each of two dimensions


class Case(NamedTuple):
    """A model, its table, and what a pass takes at the least: bytes, and operations of products."""

    estimator: Any
    table: Callable[[], np.ndarray]
    bytes: float
    flops: float


def bits(n: int, d: int) -> np.ndarray:
    """Rows of a mixture of 8: some thousand, again and again."""
    rng = np.random.default_rng(0)
    means = rng.beta(0.5, 0.5, (8, d))
    distinct = (rng.random((DISTINCT, d)) < means[rng.integers(8, size=DISTINCT)]).astype(np.uint8)
    return repeated(distinct, n)


def reals(n: int, d: int) -> np.ndarray:
    """Sums of a few components, in noise."""
    rng = np.random.default_rng(0)
    causes = (rng.random((DISTINCT, 50)) < 0.05) @ rng.normal(size=(50, d))
    return repeated(causes + 0.5 * rng.normal(size=(DISTINCT, d)), n)


def repeated(distinct: np.ndarray, n: int) -> np.ndarray:
    table = np.empty((n, distinct.shape[1]), distinct.dtype)
    for start in range(0, n, DISTINCT):
        part = table[start : start + DISTINCT]
        part[:] = distinct[: len(part)]
    return table


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    found = work()
    return time.perf_counter() - began, found


def put(engine: Any, layout: Any) -> None:
    jax.block_until_ready([chunk.values for chunk in engine.chunks(layout)])


def run(name: str, case: Case, bandwidth: float, flops: float) -> None:
    estimator, table = case.estimator, case.table()
    print(f"\n{name}: {len(table)} x {table.shape[1]} {table.dtype}, {table.nbytes / 1e9:.2f} GB")
    for which in ("first", "again"):
        waited = seconds_waited()
        seconds, _ = timed(lambda: estimator.fit(table))
        tell(f"whole fit, {which}", seconds, f"of which compiling {seconds_waited() - waited:.3f}")
    seconds, engine = timed(lambda: estimator._open(table, reset=True))
    tell("validation", seconds)
    if engine.table.dtype == np.uint8:  # which are counted on the device
        seconds, _ = timed(lambda: put(engine, layout_for(engine.n_features, np.dtype(np.float64))))
        tell("copying to the device", seconds, "with packing, where bits are packed")
    seconds, _ = timed(lambda: summarise(engine))
    tell("summary", seconds)
    model = estimator._model_for(engine)
    layout = layout_for(model.acting_in(model.stages[0]).row_floats(engine.n_features), SINGLE)
    seconds, _ = timed(lambda: put(engine, layout))
    tell("copying as the model has them", seconds, "nothing, where those are there already")
    waited = seconds_waited()
    result = fit(model, engine, seed_key(0), limits=Limits(estimator.max_iter, -np.inf), dtype=SINGLE)
    at = [record.seconds for record in result.history]
    tell("first pass, with the start", at[0], f"of which compiling {seconds_waited() - waited:.3f}")
    floors = f"floors: memory {case.bytes / bandwidth:.4f}, products {case.flops / flops:.4f}"
    tell(f"each of the {len(at) - 1} others, median", float(np.median(np.diff(at))), floors)
    tell("all of them", at[-1] - at[0])


def tell(what: str, seconds: float, note: str = "") -> None:
    print(f"  {what:36}{seconds:9.3f} s  {note}", flush=True)


def cases(n: int, d: int) -> dict[str, Case]:
    options = {"random_state": 0, "max_iter": PASSES - 1, "tol": -1.0e9, "n_init": 1}
    held = n * d / 8  # packed

    def mixture(k: int) -> Case:
        return Case(
            BernoulliMixture(k, dtype="float32", **options), lambda: bits(n, d), held, 6.0 * n * d * k
        )  # two products for the log-likelihoods, one for the sums

    m, pixels, causes = n // 50, 676, 700
    return {
        "mixture8": mixture(8),
        "mixture20": mixture(20),
        "trait": Case(  # columns at the nodes of each row, and back
            LatentTrait(2, method="quadrature", n_nodes=NODES, dtype="float32", **options),
            lambda: bits(n, d),
            held,
            4.0 * n * NODES**2 * 3 * d,
        ),
        "bsc": Case(  # rows with components, and rows with what causes them
            BinarySparseCoding(causes, dtype="float32", **options | {"max_iter": 80}),
            lambda: reals(m, pixels),
            4.0 * m * pixels,
            4.0 * m * pixels * causes,
        ),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000_000, help="of bits; a fiftieth of real numbers")
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--only", nargs="+", choices=["mixture8", "mixture20", "trait", "bsc"])
    parser.add_argument("--bandwidth", type=float, default=4.8e12, help="bytes a second (H200)")
    parser.add_argument("--flops", type=float, default=6.7e13, help="in float32, a second (H200)")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{jax.devices()[0].device_kind}, {len(jax.devices())} of them")
    for name, case in cases(options.rows, options.columns).items():
        if options.only is None or name in options.only:
            run(name, case, options.bandwidth, options.flops)


if __name__ == "__main__":
    main()
