"""Tetrachoric correlations: CPU seconds for all pairs of columns, beside R's psych and lavaan, ordinalcorr and girth.

    python benchmarks/tetrachoric.py [--rows 5000] [--columns 50,200,784] [--limit 120]
                                     [--peers NAME ...] [--peer-python PYTHON]
    python benchmarks/tetrachoric.py --large [--rows 1000000] [--columns 1000] [--rounds 3]

All get the same bits: three standard normal factors with weights from N(0, 0.6^2), noise that makes the variance 1, and
thresholds from N(0, 0.8^2).  The seed is fixed.  What counts is the table in memory in, the matrix of correlations out:
counting the pairs included, and standard errors where they come with it (ours).

Each contender runs in a process of its own, tied to one core and told to use one thread.  What counts is the CPU time
of that process around the call alone.  It is repeated while the contender has used less than two seconds (at most 20
times), and the smallest is taken, the least disturbed.  A contender that needs more than `limit` CPU seconds is
stopped; one that cannot be imported, or an R package that Rscript does not find, is reported as absent.
`--peer-python` names another interpreter for the Python peers (girth needs SciPy before 1.14).  "NumPy" is a plain
prototype: Newton's method in asin(rho) on Owen's T for all pairs at once.

"off" is the largest difference to lavaan's correlations (to ours where lavaan is absent) over pairs without an empty
cell; the contenders treat those with one differently.  Last comes the inversion alone (covariances in, correlations
out) against the eigendecomposition of a matrix of that size, in the same process.

`--large` learns a `ClippedGaussian` from rows that are kept as packed bits and handed over block by block, with all
threads: seconds against the float32 matrix products X.T @ X that count the pairs of the same blocks, unpacked and
converted already, and the peak memory above that after a warm-up, at a tenth of the rows and at all of them.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ENOUGH, REPEATS = 2.0, 20  # CPU seconds after which a call is not repeated, and calls at most
SHORT = 0.2  # CPU seconds: shorter calls are measured several at a time, as the clock may tick slowly
BLOCK = 20_000  # rows of --large that are unpacked at a time

Call = Callable[[], np.ndarray]


def make_data(n: int, d: int) -> np.ndarray:
    """Bits of a clipped Gaussian (see above)."""
    rng = np.random.default_rng([1998, d])
    weights = 0.6 * rng.standard_normal((d, 3))
    weights /= np.sqrt(1 + np.sum(weights**2, 1, keepdims=True))
    noise = np.sqrt(1 - np.sum(weights**2, 1))
    phi = 0.8 * rng.standard_normal(d)
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, BLOCK):
        rows = min(BLOCK, n - first)
        own = noise * rng.standard_normal((rows, d), np.float32)
        X[first : first + rows] = rng.standard_normal((rows, 3), np.float32) @ weights.T + own + phi > 0
    return X


# The contenders: each takes the table, does what is not timed, and gives the call that is.


def latentbits_(X: np.ndarray) -> Call:
    from latentbits.models.clipped_gaussian.tetrachoric import correlations, count

    return lambda: correlations(count(X)).latent


def numpy_(X: np.ndarray) -> Call:
    """What a careful user would write with SciPy: no blocks, no care for extreme means, no standard errors."""
    from scipy.special import ndtri, owens_t

    n, d = X.shape
    i, j = np.triu_indices(d, 1)

    def call() -> np.ndarray:
        bits = X.astype(np.float32)
        counts = (bits.T @ bits).astype(float)
        ones = np.diag(counts)
        both, left, right = counts[i, j], ones[i], ones[j]
        agree = (both == 0) | (n - left - right + both == 0)
        differ = (both == left) | (both == right)
        share, p, q = (both + 0.5 * agree - 0.5 * differ) / n, left / n, right / n
        phi = ndtri(ones / n)
        h, k = phi[i], phi[j]
        opposite = np.where(h * k < 0, 0.5, 0.0)
        theta = np.clip(np.pi / 2 * (share - p * q) / np.sqrt(p * (1 - p) * q * (1 - q)), -1.4, 1.4)
        for _ in range(30):
            rho, c = np.sin(theta), np.cos(theta)
            u, v = (k - rho * h) / c, (h - rho * k) / c
            found = (p + q) / 2 - owens_t(h, u / h) - owens_t(k, v / k) - opposite
            step = (share - found) * 2 * np.pi * np.exp(0.5 * (h * h + u * u))
            theta = np.clip(theta + np.clip(step, -0.3, 0.3), -1.57, 1.57)
            if np.abs(step).max() < 1e-9:
                break
        latent = np.eye(d)
        latent[i, j] = latent[j, i] = np.sin(theta)
        return latent

    return call


def girth_(X: np.ndarray) -> Call:
    from girth.common import polychoric  # needs a SciPy that still has mvn.mvnun

    items = np.ascontiguousarray(X.T.astype(int))
    return lambda: polychoric.polychoric_correlation_serial(items, 0, 1)


def ordinalcorr_(X: np.ndarray) -> Call:
    from ordinalcorr import tetrachoric

    d = X.shape[1]
    columns = [np.ascontiguousarray(column) for column in X.T.astype(int)]

    def call() -> np.ndarray:
        latent = np.eye(d)
        for i in range(d):
            for j in range(i):
                try:
                    value = tetrachoric(columns[i], columns[j])
                except AssertionError:  # of its own, in an empty cell
                    value = np.nan
                latent[i, j] = latent[j, i] = value
        return latent

    return call


R_SCRIPT = """
args <- commandArgs(TRUE)
folder <- args[1]; package <- args[2]; enough <- as.numeric(args[3]); repeats <- as.integer(args[4])
options(mc.cores = 1)
suppressPackageStartupMessages(library(package, character.only = TRUE))
x <- as.data.frame(as.matrix(read.csv(file.path(folder, "X.csv"))))
seconds <- c()
repeat {
  before <- proc.time()
  if (package == "psych") found <- suppressMessages(tetrachoric(x, smooth = FALSE))$rho
  else found <- unclass(lavCor(x, ordered = names(x), output = "cor"))
  spent <- proc.time() - before
  seconds <- c(seconds, spent[["user.self"]] + spent[["sys.self"]])
  if (length(seconds) >= repeats || sum(seconds) > enough) break
}
write.table(format(found, digits = 17), file.path(folder, "found.csv"),
            sep = ",", quote = FALSE, row.names = FALSE, col.names = FALSE)
cat(paste(seconds, collapse = " "), "\\n")
"""

CONTENDERS: dict[str, Callable[[np.ndarray], Call]] = {
    "latentbits": latentbits_,
    "NumPy": numpy_,
    "girth": girth_,
    "ordinalcorr": ordinalcorr_,
}
MODULES = {"girth": "girth", "ordinalcorr": "ordinalcorr"}  # what must be importable; the others are always there
PACKAGES = {"R psych": "psych", "R lavaan": "lavaan"}
PEERS = ["NumPy", *PACKAGES, *MODULES]


class Result(NamedTuple):
    """CPU seconds of each call and what was found; or a word on why not."""

    seconds: list[float]
    found: np.ndarray | None
    word: str = ""


def one_thread() -> dict[str, str]:
    """The environment that tells the libraries at hand to keep to one thread."""
    names = ("OMP", "OPENBLAS", "MKL", "NUMBA", "NUMEXPR")
    return {**os.environ, **{f"{name}_NUM_THREADS": "1" for name in names}}


def one_core() -> None:
    """Tie this process to one of its cores: the last, as the first is the busiest on most machines."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cpu_limit(seconds: float) -> None:
    """Let the kernel end this process after so many CPU seconds from now."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, hard))


def repeated(call: Callable[[], Any], limit: float) -> tuple[list[float], Any]:
    """CPU seconds of a call, as often as there is time, and what the last gave."""
    seconds: list[float] = []
    spent = 0.0
    while len(seconds) < REPEATS and spent < ENOUGH:
        cpu_limit(limit)
        calls, began, used = 0, time.process_time(), 0.0
        while used < SHORT:
            found = call()
            calls, used = calls + 1, time.process_time() - began
        seconds.append(used / calls)
        spent += used
    return seconds, found


def run_child(name: str, folder: Path, limit: float) -> None:
    """Call in this process and leave the result in the folder."""
    one_core()
    X = np.load(folder / "X.npy")
    if name == "inversion":
        np.savez(folder / "found.npz", found=np.nan, seconds=inversion(X, limit))
        return
    seconds, found = repeated(CONTENDERS[name](X), limit)
    np.savez(folder / "found.npz", found=found, seconds=seconds)


def inversion(X: np.ndarray, limit: float) -> tuple[float, float]:
    """Smallest CPU seconds of inverting all covariances, and of an eigendecomposition, in turns."""
    from latentbits.models.clipped_gaussian.tetrachoric import correlations, count, covariance, invert, thresholds

    given = correlations(count(X))
    i, j = np.triu_indices(len(given.means), 1)
    phi = thresholds(given.means)
    h, k = phi[i], phi[j]
    binary = covariance(h, k, given.latent[i, j])  # of the corrected tables
    square = np.asarray(given.latent)
    times = [
        min(repeated(call, limit)[0])
        for _ in range(3)  # in turns, as the machine may be slower in the next
        for call in (lambda: invert(h, k, binary), lambda: np.linalg.eigh(square))
    ]
    return min(times[::2]), min(times[1::2])


def run_contender(name: str, folder: Path, limit: float, python: str) -> Result:
    """One contender in a process of its own."""
    if name in PACKAGES:
        rscript = shutil.which("Rscript")
        probe = f'quit(status = !requireNamespace("{PACKAGES[name]}", quietly = TRUE))'
        if rscript is None or subprocess.run([rscript, "-e", probe], capture_output=True).returncode:
            return Result([], None, "absent")
        command = [rscript, "-e", R_SCRIPT, str(folder), PACKAGES[name], str(ENOUGH), str(REPEATS)]
    else:
        if name in MODULES:
            probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULES[name]!r}) is None)"
            if subprocess.run([python, "-c", probe], capture_output=True).returncode:
                return Result([], None, "absent")
        else:
            python = sys.executable
        command = [python, __file__, "--child", name, str(folder), "--limit", str(limit)]

    def prepare() -> None:
        one_core()
        if name in PACKAGES:  # the Python children set theirs at the start of each call
            cpu_limit(limit + 10)

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=one_thread(), preexec_fn=prepare, timeout=60 + 10 * limit
        )
    except subprocess.TimeoutExpired:
        return Result([], None, f"> {limit:.0f}")
    if done.returncode in (-signal.SIGXCPU, 128 + signal.SIGXCPU):
        return Result([], None, f"> {limit:.0f}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return Result([], None, f"failed ({last[:60]})")
    if name in PACKAGES:
        found = np.loadtxt(folder / "found.csv", delimiter=",", ndmin=2)
        return Result([float(s) for s in done.stdout.split()], found)
    result = np.load(folder / "found.npz")
    return Result(result["seconds"].tolist(), result["found"])


def full_cells(X: np.ndarray) -> np.ndarray:
    """Pairs of columns, i < j, whose 2 x 2 table has no empty cell."""
    bits = X.astype(np.float32)
    both = bits.T @ bits
    ones = np.diag(both)
    only = ones[:, None] - both
    return np.triu((both > 0) & (only > 0) & (only.T > 0) & (len(X) - ones - only > 0), 1)


def run_table(n: int, d: int, contenders: list[str], limit: float, python: str) -> None:
    X = make_data(n, d)
    results: dict[str, Result] = {}
    for name in [*contenders, "inversion"]:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", X)
            if name in PACKAGES:
                heads = ",".join(f"item{j}" for j in range(d))
                np.savetxt(Path(folder) / "X.csv", X, fmt="%d", delimiter=",", header=heads, comments="")
            results[name] = run_contender(name, Path(folder), limit, python)
    alone = results.pop("inversion")
    full = full_cells(X)
    lavaan = results.get("R lavaan", Result([], None)).found
    base = results["latentbits"].found if lavaan is None else lavaan
    own = results["latentbits"].seconds
    print(f"\n{n} x {d} bits, {full.sum()} of {d * (d - 1) // 2} pairs without an empty cell; CPU seconds, one thread")
    print(f"{'':<14}{'seconds':>10}{'times ours':>12}{'off':>12}{' (to ours)' * (lavaan is None)}")
    for name, result in results.items():
        if result.found is None:
            print(f"{name:<14}{result.word:>10}")
            continue
        ratio = f"{min(result.seconds) / min(own):.1f}" if own else ""
        off = "" if base is None else f"{np.nanmax(np.abs(result.found - base)[full]):.1e}"
        print(f"{name:<14}{min(result.seconds):>10.4f}{ratio:>12}{off:>12}", flush=True)
    if alone.seconds:
        mine, eigen = alone.seconds
        print(f"inversion alone {mine:.4f}, eigendecomposition {eigen:.4f}: ratio {mine / eigen:.2f}", flush=True)
    else:
        print(f"inversion alone: {alone.word}")


def packed(n: int, d: int) -> np.ndarray:
    """Many rows of packed bits that are cheap to make: those of `make_data`, mixed byte by byte."""
    base = np.packbits(make_data(50_000, d), axis=1)
    rng = np.random.default_rng(0)
    rows = np.empty((n, base.shape[1]), np.uint8)
    for first in range(0, n, BLOCK):  # a row of that table, with one byte in 16 of another row
        last = min(first + BLOCK, n)
        one, other = rng.integers(len(base), size=(2, last - first))
        mix = rng.random((last - first, base.shape[1]), np.float32) < 1 / 16
        rows[first:last] = np.where(mix, base[other], base[one])
    return rows


def unpacked(rows: np.ndarray, d: int) -> Iterator[np.ndarray]:
    for first in range(0, len(rows), BLOCK):
        yield np.unpackbits(rows[first : first + BLOCK], axis=1, count=d)


def run_large_child(n: int, d: int, rounds: int) -> None:
    """Seconds of a fit and of the products alone, and peak memory of the fit, as JSON."""
    import warnings

    from peers.resident import forget_peak, resident

    from latentbits import ClippedGaussian

    warnings.simplefilter("ignore")
    rows = packed(n, d)
    ClippedGaussian().fit(lambda: unpacked(rows[: 3 * BLOCK], d))  # compiles
    before = forget_peak()
    fits, products = [], []
    for number in range(rounds):
        began = time.perf_counter()
        model = ClippedGaussian().fit(lambda: unpacked(rows, d))
        fits.append(time.perf_counter() - began)
        if number == 0:
            peak = resident("VmHWM") - before
        counts = np.zeros((d, d))
        spent = 0.0
        for block in unpacked(rows, d):
            bits = block.astype(np.float32)
            began = time.perf_counter()
            part = bits.T @ bits  # of which NumPy has the symmetric half computed only
            spent += time.perf_counter() - began
            counts += part
        products.append(spent)
        if not np.allclose(np.diag(counts) / n, model.means_):
            raise ArithmeticError("the fit did not see these rows")
    print(json.dumps({"fits": fits, "products": products, "peak": peak, "bytes": rows.nbytes}))


def run_large(n: int, d: int, rounds: int) -> None:
    print(f"{d} columns, packed bits, blocks of {BLOCK} rows; seconds, all threads")
    print(f"{'rows':>10}{'table, MB':>11}{'fit':>9}{'products':>10}{'ratio':>8}{'peak, MB':>10}")
    for size in (max(n // 10, 3 * BLOCK), n):
        extra = ["--rows", str(size), "--columns", str(d), "--rounds", str(rounds)]
        command = [sys.executable, __file__, "--large-child", *extra]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise SystemExit(done.stderr)
        result = json.loads(done.stdout.strip().splitlines()[-1])
        fit, product = min(result["fits"]), min(result["products"])
        print(
            f"{size:>10}{result['bytes'] / 2**20:>11.0f}{fit:>9.2f}{product:>10.2f}{fit / product:>8.2f}"
            f"{result['peak']:>10.0f}",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--columns", help="a list, as 50,200,784; one number with --large")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds a call may take")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the Python peers")
    parser.add_argument("--large", action="store_true", help="a million rows of packed bits")
    parser.add_argument("--rounds", type=int, default=3, help="of --large")
    parser.add_argument("--large-child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder = options.child
        run_child(name, Path(folder), options.limit)
    elif options.large or options.large_child:
        run = run_large_child if options.large_child else run_large
        run(options.rows or 1_000_000, int(options.columns or 1000), options.rounds)
    else:
        for d in (options.columns or "50,200,784").split(","):
            run_table(options.rows or 5000, int(d), ["latentbits", *options.peers], options.limit, options.peer_python)


if __name__ == "__main__":
    main()
