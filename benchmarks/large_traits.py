"""Variational EM of latent traits on a large table: milliseconds an iteration, beside its matrix products alone.

    python -m benchmarks.large_traits [--rows 200000] [--columns 256] [--components 2] [--iterations 10] [--rounds 3]

On the device that JAX chooses, with all its threads: of a round the fastest iteration and the fastest products, the
least disturbed.  Bits are those of `benchmarks/peers/families/latent_trait.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.peers.families.latent_trait import bits

from latentbits.engines.chunks import layout_for
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.models.latent_trait.model import model


def run(n: int, d: int, q: int, iterations: int, rounds: int) -> None:
    """Variational EM, iteration by iteration, against the products that an iteration cannot do without.

    With m = q (q + 1) / 2 entries of a symmetric matrix in latent space, r rows, and m' = (q + 1) (q + 2) / 2:
    the centre of the log odds (r, q) x (q, d) and their spread (r, m) x (m, d), which give xi; precision, linear term
    and constant of the posterior, (r, d) x (d, m + q + 1) from lambda and (r, d) x (d, q) from the bits; and the sums
    of the M-step over rows, (d, r) x (r, m') with lambda and (d, r) x (r, q + 1) with the bits.
    """
    X = bits(n, d, q)
    record = model(q, method="variational")
    pairs, more = q * (q + 1) // 2, (q + 1) * (q + 2) // 2

    names = ("bits", "lambdas", "mean", "packed", "moments", "weights", "squares", "through")
    each = [
        lambda a: a["mean"] @ a["weights"].T,
        lambda a: a["packed"] @ a["squares"].T,
        lambda a: a["lambdas"] @ a["through"],
        lambda a: a["bits"] @ a["weights"],
        lambda a: a["lambdas"].T @ a["moments"],
        lambda a: a["bits"].T @ a["moments"][:, : q + 1],
    ]
    together = jax.jit(lambda a: [one(a) for one in each])
    apart = [jax.jit(one) for one in each]

    def pieces(rows: int) -> list[dict[str, Any]]:
        """Arrays of the right shapes; the values do not matter to the time of a product."""
        rng = np.random.default_rng(0)
        right = [jnp.asarray(rng.standard_normal((d, k), np.float32)) for k in (q, pairs, pairs + q + 1)]
        made = []
        for first in range(0, n, rows):
            signs = jnp.asarray(X[first : first + rows], jnp.float32) - 0.5
            left = [jnp.asarray(rng.standard_normal((len(signs), k), np.float32)) for k in (q, pairs, more)]
            made.append(dict(zip(names, (signs, 0.25 - 0.1 * signs, *left, *right), strict=True)))
        return made

    def fastest(program: Callable[[dict[str, Any]], Any], made: list[dict[str, Any]]) -> float:
        times = []
        for _ in range(iterations + 2):
            began = time.perf_counter()
            with jax.default_matmul_precision("highest"):  # as the fit has it; it matters on a GPU
                jax.block_until_ready([program(piece) for piece in made])
            times.append(time.perf_counter() - began)
        return min(times[2:])

    def seconds_of_products() -> float:
        """Of the whole table or of chunks as the fit has them, one by one or in one program: what is fastest."""
        found = []
        for size in (n, rows):
            made = pieces(size)
            found += [fastest(together, made), sum(fastest(one, made) for one in apart)]
        return min(found)

    def seconds_of_iterations() -> float:
        limits = Limits(iterations + 3, -np.inf)
        history = fit(record, MemoryEngine(X), seed_key(0), limits=limits, dtype=np.float32).history
        # The first passes compile, and find a posterior for every row from nothing.
        return float(np.diff([r.seconds for r in history])[2:].min())

    rows = layout_for(record.row_floats(d), np.dtype(np.float32)).rows_per_chunk
    device = jax.devices()[0]
    print(f"{n} x {d} bits, {q} latent dimensions, float32, on {device.platform} ({device.device_kind})")
    print(f"{'':<10}{'ms/iteration':>14}{'ms/products':>14}{'ratio':>8}")
    ratios = []
    for number in range(rounds):
        alone, ours = seconds_of_products(), seconds_of_iterations()
        ratios.append(ours / alone)
        print(f"round {number + 1:<4}{1000 * ours:>14.2f}{1000 * alone:>14.2f}{ours / alone:>8.2f}", flush=True)
    print(f"an iteration takes {np.median(ratios):.2f} times its products alone (median)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--columns", type=int, default=256)
    parser.add_argument("--components", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    given = parser.parse_args()
    run(given.rows, given.columns, given.components, given.iterations, given.rounds)


if __name__ == "__main__":
    main()
