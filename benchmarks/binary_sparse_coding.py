"""Binary sparse coding: microseconds a row and iteration, beside plain NumPy and beside two matrix products.

    python benchmarks/binary_sparse_coding.py [--rows 20000] [--sizes 256x200x8x5 676x700x10x8] [--iterations 12]
                                              [--rounds 3] [--few 5] [--cores one all]

A size is pixels x causes x candidates x most active causes (D, H, H', gamma).  Rows are drawn from a model with three
active causes a row; all contenders learn by expectation truncation from the same start, on all rows (no N_cut), without
parameter noise:

- "latentbits", in float32;
- "NumPy, products": float32, the same products of candidates' terms with a table of states, as a careful user would
  write them;
- "NumPy, W s": row by row, the reconstruction of every state and its distance to the row, all states of a row at once,
  float64, as public implementations have it.  It learns from few rows, `few` for every cause, and in one round only.

Each contender runs in a separate process, in turns, `rounds` times, tied to one core and one thread, or with all.
Ratios are taken within a round.  "products" is the time of Y W' and Y' <s> alone, in the process of ours and by the
same library: what an iteration cannot do without.  The free energy of what each has learned is computed here, in
float64: after a few iterations on the few rows alone, where all must agree, and after learning from all rows.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ACTIVE, NOISE = 3.0, 2.0
CHUNK = 1000
SHORT = 4  # iterations of all contenders on few rows, for the free energy


class Size(NamedTuple):
    """D, H, H' and gamma."""

    pixels: int
    causes: int
    candidates: int
    most: int

    @classmethod
    def of(cls, text: str) -> Size:
        return cls(*(int(part) for part in text.split("x")))


class Start(NamedTuple):
    """Parameters: components (H, D), the noise, and the probability of a cause."""

    W: np.ndarray
    sigma: float
    pi: float


def make_data(n: int, size: Size) -> tuple[np.ndarray, Start]:
    """Rows of a model, and a start that is not it."""
    rng = np.random.default_rng(0)
    truth = rng.standard_normal((size.causes, size.pixels))
    Y = np.empty((n, size.pixels), np.float32)
    for first in range(0, n, CHUNK):
        rows = min(CHUNK, n - first)
        s = rng.random((rows, size.causes)) < ACTIVE / size.causes
        Y[first : first + rows] = s @ truth + NOISE * rng.standard_normal((rows, size.pixels))
    return Y, Start(truth + 0.7 * rng.standard_normal(truth.shape), 1.5 * NOISE, 2 / size.causes)


# --- what the two NumPy versions share ---


class Sums(NamedTuple):
    """Sums over rows: y <s>^T, <s s^T>, log evidence and |y|^2."""

    products: np.ndarray
    seconds: np.ndarray
    log_evidence: float
    squares: float


def states_of(size: Size) -> np.ndarray:
    """All states of at most gamma candidates, the empty one first."""
    sets = [on for k in range(size.most + 1) for on in combinations(range(size.candidates), k)]
    table = np.zeros((len(sets), size.candidates))
    for row, on in zip(table, sets, strict=True):
        row[list(on)] = 1
    return table


def m_step(sums: Sums, here: Start, n: int, most: int) -> Start:
    """Equations (6) to (8), on all rows."""
    n_causes, n_pixels = here.W.shape
    W = np.linalg.solve(sums.seconds, sums.products)
    left = sums.squares - 2 * np.sum(W * sums.products) + np.sum((W @ W.T) * sums.seconds)
    k = np.arange(most + 1)
    log_ways = np.concatenate([[0.0], np.cumsum(np.log(n_causes - k[:-1]) - np.log(k[1:]))])
    chances = np.exp(log_ways + k * np.log(here.pi) + (n_causes - k) * np.log1p(-here.pi))
    correction = chances.sum() * here.pi / (k @ chances)
    return Start(W, np.sqrt(left / (n * n_pixels)), correction * np.trace(sums.seconds) / n)


# --- every W s, row by row ---


def plain_pass(Y: np.ndarray, here: Start, size: Size) -> Sums:
    """Forms the reconstruction of every state of a row, and its distance to the row."""
    W, sigma, pi = here
    states = states_of(size)
    active = states.sum(1)
    norms = np.sqrt((W**2).sum(1))
    odds = np.log(pi) - np.log1p(-pi)
    base = size.causes * np.log1p(-pi) - 0.5 * size.pixels * np.log(2 * np.pi * sigma**2)
    products, seconds = np.zeros(W.shape), np.zeros((size.causes, size.causes))
    log_evidence = squares = 0.0
    for row in Y:
        y = row.astype(float)
        chosen = np.argsort(-(W @ y) / norms)[: size.candidates]
        others = np.setdiff1d(np.arange(size.causes), chosen)
        distances = np.square(y - states @ W[chosen]).sum(1)
        joint = base - 0.5 * distances / sigma**2 + active * odds
        lone = base - 0.5 * np.square(y - W[others]).sum(1) / sigma**2 + odds
        top = max(joint.max(), lone.max())
        p, p_lone = np.exp(joint - top), np.exp(lone - top)
        total = p.sum() + p_lone.sum()
        p, p_lone = p / total, p_lone / total
        mean = np.zeros(size.causes)
        mean[chosen], mean[others] = p @ states, p_lone
        products += np.outer(mean, y)
        seconds[np.ix_(chosen, chosen)] += (states * p[:, None]).T @ states
        seconds[others, others] += p_lone
        log_evidence += top + np.log(total)
        squares += y @ y
    return Sums(products, seconds, log_evidence, squares)


# --- products of a table of states ---


def products_pass(Y: np.ndarray, here: Start, size: Size) -> Sums:
    """Energies of all states of a chunk as one product of linear and pair terms with a table of states."""
    dtype = Y.dtype
    W, precision = here.W.astype(dtype), dtype.type(1 / here.sigma**2)
    states = states_of(size)
    first, second = np.triu_indices(size.candidates, 1)
    features = np.concatenate([states, states[:, first] * states[:, second]], 1).astype(dtype)
    gram = W @ W.T
    norms = np.diagonal(gram)
    odds = np.log(here.pi) - np.log1p(-here.pi)
    base = size.causes * np.log1p(-here.pi) - 0.5 * size.pixels * np.log(2 * np.pi * here.sigma**2)
    products, seconds = np.zeros(W.shape), np.zeros(size.causes**2)
    log_evidence = squares = 0.0
    for start in range(0, len(Y), CHUNK):
        y = Y[start : start + CHUNK]
        match = y @ W.T
        chosen = np.argpartition(-match / np.sqrt(norms), size.candidates - 1, axis=1)[:, : size.candidates]
        lone = precision * (match - norms / 2) + dtype.type(odds)
        flat = chosen[:, first] * size.causes + chosen[:, second]
        terms = np.concatenate([np.take_along_axis(lone, chosen, 1), -precision * gram.ravel()[flat]], 1)
        np.put_along_axis(lone, chosen, -np.inf, 1)
        energy = terms @ features.T
        top = np.maximum(energy.max(1), lone.max(1))[:, None]
        np.exp(energy - top, out=energy)
        np.exp(lone - top, out=lone)
        total = energy.sum(1) + lone.sum(1)
        moments = (energy @ features) / total[:, None]
        means = lone / total[:, None]
        np.put_along_axis(means, chosen, moments[:, : size.candidates], 1)
        products += means.T @ y
        pairs = moments[:, size.candidates :]
        seconds += np.bincount(flat.ravel(), pairs.ravel(), size.causes**2)
        seconds[:: size.causes + 1] += means.sum(0)
        length = np.einsum("nd,nd->n", y, y)
        log_evidence += float(np.sum(top[:, 0] + np.log(total) - precision * length / 2, dtype=float)) + base * len(y)
        squares += float(length.sum(dtype=float))
    both = seconds.reshape(size.causes, size.causes)
    return Sums(products, both + both.T - np.diag(np.diagonal(both)), log_evidence, squares)


# --- contenders: fit(Y, start, size, iterations) -> (parameters, seconds of each iteration, products alone) ---


def numpy_(one_pass: Any) -> Any:
    def fit(Y: np.ndarray, start: Start, size: Size, iterations: int) -> tuple[Start, list[float], float]:
        here, seconds = start, []
        for _ in range(iterations):
            began = time.perf_counter()
            here = m_step(one_pass(Y, here, size), here, len(Y), size.most)
            seconds.append(time.perf_counter() - began)
        return here, seconds, np.nan

    return fit


def latentbits_(Y: np.ndarray, start: Start, size: Size, iterations: int) -> tuple[Start, list[float], float]:
    from latentbits.engines.fit import fit, seed_key
    from latentbits.engines.memory import MemoryEngine
    from latentbits.engines.monitor import Limits
    from latentbits.models.binary_sparse_coding.model import Params, model
    from latentbits.models.binary_sparse_coding.recipes import OURS

    recipe = OURS._replace(temperature=1.0, cut=None, parameter_noise=0.0)
    record = model(size.causes, size.most, size.candidates, recipe, n_iter=iterations)
    nothing = np.asarray(0.0)
    params = Params(start.W, np.asarray(start.sigma), np.asarray(start.pi), reseeded=nothing, truncation_loss=nothing)
    found = fit(record, MemoryEngine(Y), seed_key(0), params=params, limits=Limits(iterations, -np.inf))
    # the first passes compile; the last stage only evaluates
    seconds = np.diff([one.seconds for one in found.history if one.stage == record.stages[0].name])[2:]
    learned = Start(found.params.components, float(found.params.noise_std), float(found.params.prior))
    return learned, seconds.tolist(), products_alone(Y, size, iterations)


def products_alone(Y: np.ndarray, size: Size, repeats: int) -> float:
    """Seconds of Y W' and Y' <s>, of the whole table or of chunks, one by one or in one program: what is fastest."""
    import jax
    import jax.numpy as jnp

    rng = np.random.default_rng(0)
    W = jnp.asarray(rng.standard_normal((size.causes, size.pixels), np.float32))
    one, other = jax.jit(lambda y, s: W @ y.T), jax.jit(lambda y, s: s @ y)
    both = jax.jit(lambda y, s: (W @ y.T, s @ y))
    found = []
    for rows in (len(Y), 4096, CHUNK):
        pieces = [jnp.asarray(Y[first : first + rows]) for first in range(0, len(Y), rows)]
        means = [jnp.asarray(rng.random((size.causes, len(piece)), np.float32)) for piece in pieces]
        for programs in ((both,), (one, other)):
            times = []
            for _ in range(repeats + 1):
                began = time.perf_counter()
                with jax.default_matmul_precision("highest"):  # as the fit has it; it matters on a GPU
                    jax.block_until_ready([p(y, s) for p in programs for y, s in zip(pieces, means, strict=True)])
                times.append(time.perf_counter() - began)
            found.append(min(times[1:]))
    return min(found)


CONTENDERS = {
    "latentbits": latentbits_,
    "NumPy, products": numpy_(products_pass),
    "NumPy, W s": numpy_(plain_pass),
}
SLOW = "NumPy, W s"


def environment(cores: str) -> dict[str, str]:
    """One thread for the libraries at hand, or as many as they like."""
    if cores == "all":
        return dict(os.environ)
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    return {**os.environ, **threads, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


def run_child(name: str, folder: Path, size: Size, iterations: int, few: int) -> None:
    """Time one contender in this process, and leave what it learned from few rows and from all rows."""
    Y, start = np.load(folder / "Y.npy"), Start(**np.load(folder / "start.npz"))
    start = Start(start.W, float(start.sigma), float(start.pi))
    fit = CONTENDERS[name]
    small, seconds, alone = fit(Y[:few], start, size, SHORT)
    mine, learned = Y[:few], small
    if name != SLOW:
        mine = Y
        learned, seconds, alone = fit(Y, start, size, iterations)
    np.savez(folder / "small.npz", **small._asdict())
    np.savez(folder / "learned.npz", **learned._asdict())
    print(json.dumps({"row": min(seconds) / len(mine), "products": alone / len(mine)}))


def run_round(
    name: str, folder: Path, size: Size, few: int, options: argparse.Namespace, cores: str
) -> dict[str, float] | None:
    """One contender in a separate process."""
    shape = "x".join(str(part) for part in size)
    command = [sys.executable, __file__, "--child", name, str(folder), shape]
    command += ["--iterations", str(options.iterations), "--few", str(few)]

    def tie() -> None:
        if cores == "one" and hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

    done = subprocess.run(command, capture_output=True, text=True, env=environment(cores), preexec_fn=tie)
    if done.returncode:
        print(f"{name}: not run ({(done.stderr.strip().splitlines() or ['?'])[-1]})", file=sys.stderr)
        return None
    return json.loads(done.stdout.splitlines()[-1])


def free_energy(file: Path, Y: np.ndarray, size: Size) -> float:
    """A row, in float64; a few rows are looked at with every W s, too."""
    found = np.load(file)
    here = Start(found["W"], float(found["sigma"]), float(found["pi"]))
    few = Y[:20].astype(float)
    np.testing.assert_allclose(*(one_pass(few, here, size).log_evidence for one_pass in (plain_pass, products_pass)))
    parts = [Y[first : first + CHUNK].astype(float) for first in range(0, len(Y), CHUNK)]
    return sum(products_pass(part, here, size).log_evidence for part in parts) / len(Y)


def run_size(size: Size, cores: str, options: argparse.Namespace) -> None:
    Y, start = make_data(options.rows, size)
    few = Y[: options.few * size.causes]
    results: dict[str, list[dict[str, float]]] = {name: [] for name in options.contenders}
    energies: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        np.save(folder / "Y.npy", Y)
        np.savez(folder / "start.npz", **start._asdict())
        for number in range(options.rounds):
            for name in options.contenders:
                if name == SLOW and number > 0:
                    continue
                found = run_round(name, folder, size, len(few), options, cores)
                if found is None:
                    continue
                results[name].append(found)
                if name not in energies:
                    small = free_energy(folder / "small.npz", few, size)
                    energies[name] = small, np.nan if name == SLOW else free_energy(folder / "learned.npz", Y, size)
    print(
        f"\n{options.rows} x {size.pixels}, {size.causes} causes, {size.candidates} candidates, at most {size.most} "
        f"active, {cores} core{'s' * (cores == 'all')}; medians of {options.rounds} rounds"
    )
    heads = f"{'us a row':>10}{'times ours':>12}{'products':>10}{'ratio':>8}"
    print(f"{'':<18}{heads}{f'nats, {SHORT} it. on few':>21}{f'{options.iterations} it. on all':>18}")
    ours = results.get("latentbits", [])
    for name, runs in results.items():
        if not runs:
            continue
        row = 1e6 * np.median([one["row"] for one in runs])
        times = np.median([one["row"] / own["row"] for one, own in zip(runs, ours, strict=False)]) if ours else np.nan
        alone = 1e6 * np.median([one["products"] for one in runs])
        ratio = np.median([one["row"] / one["products"] for one in runs])
        beside = f"{alone:>10.2f}{ratio:>8.2f}" if np.isfinite(alone) else f"{'':>18}"
        small, whole = energies[name]
        last = f"{whole:>18.4f}" if np.isfinite(whole) else ""
        print(f"{name:<18}{row:>10.1f}{times:>12.1f}{beside}{small:>21.4f}{last}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--sizes", nargs="+", default=["256x200x8x5", "676x700x10x8"], metavar="DxHxH'xG")
    parser.add_argument("--iterations", type=int, default=12)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--few", type=int, default=5, help="rows for every cause, for the version that forms every W s")
    parser.add_argument("--cores", nargs="+", default=["one", "all"], choices=["one", "all"])
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder, shape = options.child
        run_child(name, Path(folder), Size.of(shape), options.iterations, options.few)
        return
    for shape in options.sizes:
        for cores in options.cores:
            run_size(Size.of(shape), cores, options)


if __name__ == "__main__":
    main()
