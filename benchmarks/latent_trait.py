"""Latent trait models: CPU seconds to fit and the likelihood reached, beside mirt (Python and R), girth and py-irt.

    python benchmarks/latent_trait.py [--rows 5000] [--cells 50x1,50x2,50x3,200x1,200x2,200x3] [--limit 120]
                                      [--peers NAME ...] [--peer-python PYTHON]
    python benchmarks/latent_trait.py --large [--rows 200000] [--columns 256] [--components 2]
    python benchmarks/latent_trait.py --check

A cell is columns x latent dimensions.  All fit the same bits: d intercepts from N(0, 1); each column has a main slope
from exp(N(0, 0.4^2)) on dimension (column mod q) and on every dimension an addition from N(0, 0.3^2), which may be
negative, as items are that read the other way round; the latents are standard normal.  The seed is fixed.

Each contender runs in a process of its own, tied to one core and told to use one thread.  What counts is the CPU time
of that process around the fit alone, not imports or conversion of the table.  A fit is repeated (at most twice) while
the contender has used less than ten seconds: "first" includes what is compiled or imported on the way (ours compiles,
so that it always gets a second fit), and "again" is the median of the repetitions, or the one fit there was.  A
contender that uses more than `limit` CPU seconds in one fit is stopped.  A peer that cannot be imported, or an Rscript
without the package mirt, is reported as absent; `--peer-python` names another interpreter for the Python peers, whose
requirements are heavy.

The likelihood of what each found is computed here, by one adaptive Gauss-Hermite quadrature in float64 that shares no
code with any of them; `--check` compares it with a dense grid.  "above best" is the difference to the lowest of the
cell, in nats a row: a contender far above it may be fast because it stopped early.

`--large` times an iteration of variational EM on a large table against its matrix products alone, on the device that
JAX chooses, with all its threads: of a round the fastest iteration and the fastest products, the least disturbed.
"""

from __future__ import annotations

import argparse
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

NODES = {1: 31, 2: 15, 3: 9}  # of the measure, a dimension
ENOUGH = 10.0  # CPU seconds after which a fit is not repeated
REPEATS = 3


class Found(NamedTuple):
    """What a contender hands back: log odds of a one = weights @ z + bias, with z ~ N(0, I)."""

    weights: np.ndarray  # (d, q)
    bias: np.ndarray  # (d,)


Fit = Callable[[], Found]
Contender = Callable[[np.ndarray, int], Fit]


def make_data(n: int, d: int, q: int) -> np.ndarray:
    """Bits of a true latent trait model (see above)."""
    rng = np.random.default_rng([1998, d, q])
    weights = 0.3 * rng.standard_normal((d, q))
    weights[np.arange(d), np.arange(d) % q] += np.exp(0.4 * rng.standard_normal(d))
    bias = rng.standard_normal(d)
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 10_000):
        rows = min(10_000, n - first)
        odds = rng.standard_normal((rows, q)) @ weights.T + bias
        X[first : first + rows] = rng.random((rows, d)) < 1 / (1 + np.exp(-odds))
    return X


# The measure.


def log_joint(x: np.ndarray, z: np.ndarray, found: Found) -> np.ndarray:
    """log p(x, z) up to the constant of the prior, for rows x (r, d) and points z (r, m, q): (r, m)."""
    odds = z @ found.weights.T + found.bias
    fit = np.einsum("rmd,rd->rm", odds, x)
    fit -= np.maximum(odds, 0).sum(-1)
    np.abs(odds, out=odds)
    np.negative(odds, out=odds)
    np.exp(odds, out=odds)
    odds += 1
    # One logarithm for many columns: each factor is at most 2, so that 1000 of them stay below the largest double.
    for first in range(0, odds.shape[-1], 1000):
        fit -= np.log(odds[..., first : first + 1000].prod(-1))
    return fit - 0.5 * (z**2).sum(-1)


def modes(x: np.ndarray, found: Found) -> tuple[np.ndarray, np.ndarray]:
    """The mode of p(z | x) for each row by Newton with halved steps, and the Hessian of -log p there."""
    r, q = len(x), found.weights.shape[1]
    z = np.zeros((r, q))
    value = log_joint(x, z[:, None], found)[:, 0]
    for _ in range(100):
        p = 1 / (1 + np.exp(-(z @ found.weights.T + found.bias)))
        gradient = (x - p) @ found.weights - z
        hessian = np.einsum("rd,dj,dk->rjk", p * (1 - p), found.weights, found.weights, optimize=True) + np.eye(q)
        step = np.linalg.solve(hessian, gradient[..., None])[..., 0]
        if np.abs(step).max() < 1e-9:
            return z, hessian
        size = np.ones((r, 1))
        for _ in range(30):
            new = log_joint(x, (z + size * step)[:, None], found)[:, 0]
            worse = new < value - 1e-12 * np.abs(value)
            if not worse.any():
                break
            size[worse] /= 2
        z, value = z + size * step, new
    raise ArithmeticError("no mode found")


def nats(X: np.ndarray, found: Found, nodes: int | None = None) -> float:
    """Negative log-likelihood a row, by Gauss-Hermite quadrature around each row's mode, scaled by its curvature."""
    found = Found(np.asarray(found.weights, float), np.asarray(found.bias, float))
    d, q = found.weights.shape
    points, logs = np.polynomial.hermite_e.hermegauss(nodes or NODES[q])
    logs = np.log(logs) + 0.5 * points**2  # the weight without the Gaussian that the rule has built in
    grid = np.array(list(product(points, repeat=q)))
    grid_logs = np.array([sum(w) for w in product(logs, repeat=q)])
    total = 0.0
    size = max(1, 4_000_000 // (len(grid) * d))
    for first in range(0, len(X), size):
        x = X[first : first + size].astype(float)
        mode, hessian = modes(x, found)
        # z = mode + L^-T g, where hessian = L L^T
        root = np.linalg.cholesky(hessian)
        z = mode[:, None] + np.linalg.solve(np.swapaxes(root, 1, 2), grid.T).transpose(0, 2, 1)
        volume = -np.log(np.diagonal(root, axis1=1, axis2=2)).sum(1)
        value = log_joint(x, z, found) + grid_logs
        top = value.max(1)
        total += (top + np.log(np.exp(value - top[:, None]).sum(1)) + volume).sum()
    return q / 2 * np.log(2 * np.pi) - total / len(X)


def check() -> None:
    """The measure against the midpoint sum over a dense grid that reaches far into both tails."""
    for d, q, reach, points in ((20, 1, 9, 20_001), (12, 2, 8, 401), (8, 3, 7, 101), (100, 1, 9, 20_001)):
        X = make_data(20, d, q)
        rng = np.random.default_rng(d)
        found = Found(1.5 * rng.standard_normal((d, q)), rng.standard_normal(d))
        axis, step = np.linspace(-reach, reach, points, retstep=True)
        grid = np.stack(np.meshgrid(*[axis] * q, indexing="ij"), -1).reshape(-1, q)
        total = np.full(len(X), -np.inf)
        for part in np.array_split(grid, max(1, len(grid) // 20_000)):
            for row in range(len(X)):
                value = log_joint(X[row : row + 1].astype(float), part[None], found)[0]
                total[row] = np.logaddexp(total[row], np.logaddexp.reduce(value))
        dense = q / 2 * np.log(2 * np.pi) - q * np.log(step) - total.mean()
        ours = nats(X, found)
        print(f"{d:>4} x {q}: quadrature {ours:.10f}, dense grid {dense:.10f}, difference {ours - dense:+.1e}")


# The contenders: each takes (X, q), does what is not timed, and gives the fit that is.


def latentbits_(X: np.ndarray, q: int) -> Fit:
    from latentbits import LatentTrait

    def fit() -> Found:
        model = LatentTrait(q, random_state=0).fit(X)
        return Found(np.asarray(model.components_).T, np.asarray(model.intercept_))

    return fit


def mirt_(**options: Any) -> Contender:
    def contender(X: np.ndarray, q: int) -> Fit:
        from mirt import fit_mirt

        X = X.astype(np.int64)
        given = {**options, "n_quadpts": options["n_quadpts"][q]} if "n_quadpts" in options else options

        def fit() -> Found:
            result = fit_mirt(X, model="2PL", n_factors=q, compute_standard_errors=False, **given)
            return from_mirt(result.model, q)

        return fit

    return contender


def mirt_gvem(X: np.ndarray, q: int) -> Fit:
    from mirt.estimation.gvem import GVEMEstimator
    from mirt.models.dichotomous import TwoParameterLogistic

    X = X.astype(np.int64)

    def fit() -> Found:
        model = TwoParameterLogistic(X.shape[1], n_factors=q)
        return from_mirt(GVEMEstimator(use_gpu=False).fit(model, X).model, q)

    return fit


def from_mirt(model: Any, q: int) -> Found:
    """Its difficulty is not per dimension; the log odds at the origin are the bias whatever the convention."""
    weights = np.asarray(model.parameters["discrimination"], float).reshape(-1, q)
    p = np.asarray(model.probability(np.zeros((1, q))), float).reshape(-1)
    return Found(weights, np.log(p) - np.log1p(-p))


def girth_(X: np.ndarray, q: int) -> Fit:
    from girth import twopl_mml
    from girth.multidimensional import multidimensional_twopl_mml
    from scipy.stats import mvn

    items = np.ascontiguousarray(X.T.astype(int))
    # Its 41 points a dimension are 69 000 in three dimensions, several GB a table; 15 are what mirt in R takes there.
    options: dict[str, Any] = {"quadrature_n": 15} if q == 3 else {}
    if q > 1 and not hasattr(mvn, "mvnun"):
        options["initial_guess"] = False  # its guess calls this function, which SciPy has dropped

    def fit() -> Found:
        if q == 1:
            result = twopl_mml(items, options)
            slope = np.asarray(result["Discrimination"], float)
            return Found(slope[:, None], -slope * result["Difficulty"])
        result = multidimensional_twopl_mml(items, q, options)
        return Found(np.asarray(result["Discrimination"], float), np.asarray(result["Difficulty"], float))

    return fit


def py_irt(X: np.ndarray, q: int) -> Fit:
    import pandas as pd
    import pyro
    import torch
    from py_irt.config import IrtConfig
    from py_irt.dataset import Dataset
    from py_irt.training import IrtModelTrainer

    torch.set_num_threads(1)
    dataset = Dataset.from_pandas(pd.DataFrame(X, columns=[f"item{j}" for j in range(X.shape[1])]))
    kind = {"model_type": "2pl", "priors": "hierarchical"} if q == 1 else {"model_type": "multidim_2pl", "dims": q}

    def fit() -> Found:
        pyro.set_rng_seed(0)
        trainer = IrtModelTrainer(data_path=None, config=IrtConfig(**kind), dataset=dataset, verbose=False)
        trainer.train()
        store = pyro.get_param_store()

        def read(name: str) -> np.ndarray:
            value = store[name].detach().numpy().astype(float)
            return value.reshape(len(value), -1)

        slope = np.exp(read("loc_slope" if q == 1 else "loc_disc"))
        # Its population is estimated; here it is standard normal, so that its mean and spread go into the items.
        ability, spread = read("loc_ability"), read("scale_ability")
        mean, scale = ability.mean(0), np.sqrt(ability.var(0) + (spread**2).mean(0))
        order = [int(dataset.item_id_to_ix[f"item{j}"]) for j in range(X.shape[1])]
        bias = (slope * (mean - read("loc_diff"))).sum(1)
        return Found((slope * scale)[order], bias[order])

    return fit


def numpy_(X: np.ndarray, q: int) -> Fit:
    """What a careful user would write: EM by quadrature around each row's last posterior, in float32, by blocks.

    A step of re-weighted least squares a column is the M-step; then the latents' coordinates are changed so that all
    posteriors together have mean 0 and covariance I (parameter expansion), which saves most of the iterations.
    """
    n, d = X.shape
    points, logs = np.polynomial.hermite_e.hermegauss({1: 7, 2: 5, 3: 4}[q])
    logs = np.log(logs) + 0.5 * points**2
    grid = np.array(list(product(points, repeat=q)), np.float32)
    grid_logs = np.array([sum(w) for w in product(logs, repeat=q)], np.float32)
    j, k = np.triu_indices(q + 1)
    eye = np.eye(q, dtype=np.float32)
    rows = max(1, 500_000 // (len(grid) * d))

    def symmetric(packed: np.ndarray) -> np.ndarray:
        full = np.empty((*packed.shape[:-1], q + 1, q + 1), packed.dtype)
        full[..., j, k] = full[..., k, j] = packed
        return full

    def posterior_modes(x: np.ndarray, w: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        z = np.zeros((n, q), np.float32)
        squares = (w[:, :, None] * w[:, None]).reshape(d, -1)
        for _ in range(6):
            p = 1 / (1 + np.exp(-(z @ w.T + b)))
            hessian = ((p * (1 - p)) @ squares).reshape(n, q, q) + eye
            z = z + np.linalg.solve(hessian, ((x - p) @ w - z)[..., None])[..., 0]
        return z, np.linalg.inv(hessian)

    def e_step(x: np.ndarray, w: np.ndarray, b: np.ndarray, mean: np.ndarray, root: np.ndarray) -> tuple[Any, ...]:
        """Objective, gradient and curvature by column, and second moments of (z, 1), of some rows."""
        r, m = len(x), len(grid)
        z = mean[:, None] + grid @ np.swapaxes(root, 1, 2)
        odds = (z.reshape(-1, q) @ w.T + b).reshape(r, m, d)
        small = np.exp(-np.abs(odds))
        larger = 1 / (1 + small)
        p = np.where(odds > 0, larger, small * larger).reshape(-1, d)
        value = np.minimum((2 * x - 1)[:, None] * odds, 0).sum(-1) + grid_logs - 0.5 * (z**2).sum(-1)
        for first in range(0, d, 100):  # factors of at least 1/2: 100 of them do not underflow
            value += np.log(larger[..., first : first + 100].prod(-1))
        top = value.max(1, keepdims=True)
        share = np.exp(value - top)
        total = share.sum(1, keepdims=True)
        share /= total
        objective = (top + np.log(total)).sum(dtype=float) + np.log(np.einsum("rii->ri", root)).sum(dtype=float)
        extended = np.concatenate([z, np.ones((r, m, 1), np.float32)], -1)
        weighted = share[..., None] * extended[..., j] * extended[..., k]
        moments, weighted = weighted.sum(1), weighted.reshape(r * m, -1)
        gradient = x.T @ moments[:, k == q] - p.T @ weighted[:, k == q]
        return objective, gradient.astype(float), ((p * (1 - p)).T @ weighted).astype(float), moments

    def fit() -> Found:
        x = X.astype(np.float32)
        share = x.mean(0, dtype=float)
        table = (x - share.astype(np.float32)) / np.sqrt(share * (1 - share)).astype(np.float32)
        axes = np.linalg.eigh((table.T @ table).astype(float))[1][:, -q:]
        theta = np.column_stack([axes * np.sqrt(d / q), np.log(share / (1 - share))])
        before = -np.inf
        for iteration in range(500):
            w, b = theta[:, :q].astype(np.float32), theta[:, q].astype(np.float32)
            if iteration == 0:
                mean, covariance = posterior_modes(x, w, b)
            root = np.linalg.cholesky(covariance + 1e-6 * eye)
            parts = [slice(first, first + rows) for first in range(0, n, rows)]
            objectives, gradients, curvatures, moments = zip(
                *(e_step(x[part], w, b, mean[part], root[part]) for part in parts), strict=True
            )
            step = np.linalg.solve(symmetric(sum(curvatures)), sum(gradients)[..., None])[..., 0]
            second = symmetric(np.concatenate(moments))
            whole = second.mean(0, dtype=float)
            shift = whole[:q, q]
            factor = np.linalg.cholesky(whole[:q, :q] - np.outer(shift, shift))
            weights, bias = theta[:, :q] + step[:, :q], theta[:, q] + step[:, q]
            theta = np.column_stack([weights @ factor, bias + weights @ shift])
            inverse = np.linalg.inv(factor).astype(np.float32)
            mean = second[:, :q, q]
            covariance = inverse @ (second[:, :q, :q] - mean[:, :, None] * mean[:, None]) @ inverse.T
            mean = (mean - shift.astype(np.float32)) @ inverse.T
            if iteration > 2 and sum(objectives) - before < 1e-6 * n:
                break
            before = sum(objectives)
        return Found(theta[:, :q], theta[:, q])

    return fit


R_SCRIPT = """
suppressPackageStartupMessages(library(mirt))
args <- commandArgs(TRUE)
folder <- args[1]; q <- as.integer(args[2]); enough <- as.numeric(args[3]); repeats <- as.integer(args[4])
x <- as.data.frame(as.matrix(read.csv(file.path(folder, "X.csv"))))
seconds <- c()
repeat {
  before <- proc.time()
  fit <- mirt(x, q, itemtype = "2PL", method = "EM", SE = FALSE, verbose = FALSE)
  spent <- proc.time() - before
  seconds <- c(seconds, spent[["user.self"]] + spent[["sys.self"]])
  if (length(seconds) >= repeats || sum(seconds) > enough) break
}
items <- coef(fit, simplify = TRUE)$items
items <- items[, c(paste0("a", seq_len(q)), "d"), drop = FALSE]
write.table(items, file.path(folder, "found.csv"), sep = ",", row.names = FALSE, col.names = FALSE)
cat(paste(seconds, collapse = " "), "\n")
"""

CONTENDERS: dict[str, Contender] = {
    "latentbits": latentbits_,
    "NumPy": numpy_,
    "mirt": mirt_(),
    # By default it does not accelerate, and its 21 fixed points are too few for many columns; "fine" has those of R.
    "mirt SQUAREM": mirt_(accelerate="squarem"),
    "mirt fine": mirt_(accelerate="squarem", n_quadpts={1: 61, 2: 31, 3: 15}),
    "mirt GVEM": mirt_gvem,
    "girth": girth_,
    "py-irt": py_irt,
}
MODULES = {  # what must be importable; the others are always there
    "mirt": "mirt",
    "mirt SQUAREM": "mirt",
    "mirt fine": "mirt",
    "mirt GVEM": "mirt",
    "girth": "girth",
    "py-irt": "py_irt",
}
PEERS = ["NumPy", *MODULES, "R mirt"]


class Result(NamedTuple):
    """CPU seconds of each fit and what was found; or a word on why not."""

    seconds: list[float]
    found: Found | None
    word: str = ""


def one_thread() -> dict[str, str]:
    """The environment that tells the libraries at hand to keep to one thread."""
    names = ("OMP", "OPENBLAS", "MKL", "RAYON", "NUMBA", "NUMEXPR")
    flags = f"{os.environ.get('XLA_FLAGS', '')} --xla_cpu_multi_thread_eigen=false".strip()
    # No cache of compiled programs, which would hide the compilation that the first fit is to show.
    threads = {f"{name}_NUM_THREADS": "1" for name in names}
    return {**os.environ, **threads, "XLA_FLAGS": flags, "JAX_ENABLE_COMPILATION_CACHE": "0", "JAX_PLATFORMS": "cpu"}


def one_core() -> None:
    """Tie this process to one of its cores: the last, as the first is the busiest on most machines."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def cpu_limit(seconds: float) -> None:
    """Let the kernel end this process after so many CPU seconds from now."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (int(used + seconds) + 1, hard))


def run_child(name: str, folder: Path, q: int, limit: float) -> None:
    """Fit in this process, as often as there is time, and leave the result in the folder."""
    one_core()
    fit = CONTENDERS[name](np.load(folder / "X.npy"), q)
    seconds: list[float] = []
    compiles = name == "latentbits"  # in its first fit, which therefore does not count towards enough
    while len(seconds) < REPEATS and sum(seconds[compiles:]) < ENOUGH:
        cpu_limit(limit)
        began = time.process_time()
        found = fit()
        seconds.append(time.process_time() - began)
    np.savez(folder / "found.npz", weights=found.weights, bias=found.bias, seconds=seconds)


def run_peer(name: str, folder: Path, q: int, limit: float, python: str) -> Result:
    """One contender in a process of its own."""
    if name == "R mirt":
        rscript = shutil.which("Rscript")
        probe = 'quit(status = !requireNamespace("mirt", quietly = TRUE))'
        if rscript is None or subprocess.run([rscript, "-e", probe], capture_output=True).returncode:
            return Result([], None, "absent")
        command = [rscript, "-e", R_SCRIPT, str(folder), str(q), str(ENOUGH), str(REPEATS)]
    else:
        if name in MODULES:
            probe = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({MODULES[name]!r}) is None)"
            if subprocess.run([python, "-c", probe], capture_output=True).returncode:
                return Result([], None, "absent")
        else:
            python = sys.executable
        command = [python, __file__, "--child", name, str(folder), str(q), "--limit", str(limit)]

    def prepare() -> None:
        one_core()
        if name == "R mirt":  # the Python children set theirs at the start of each fit
            cpu_limit(limit + 20)

    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=one_thread(), preexec_fn=prepare, timeout=60 + 10 * limit
        )
    except subprocess.TimeoutExpired:
        return Result([], None, f"> {limit:.0f}")
    if done.returncode == -signal.SIGXCPU or done.returncode == 128 + signal.SIGXCPU:
        return Result([], None, f"> {limit:.0f}")
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        return Result([], None, f"failed ({last[:60]})")
    if name == "R mirt":
        items = np.loadtxt(folder / "found.csv", delimiter=",", ndmin=2)
        return Result([float(s) for s in done.stdout.split()], Found(items[:, :q], items[:, q]))
    result = np.load(folder / "found.npz")
    return Result(result["seconds"].tolist(), Found(result["weights"], result["bias"]))


def again(seconds: list[float]) -> float:
    """The time of a fit once everything is compiled."""
    return float(np.median(seconds[1:] or seconds))


def run_cell(n: int, d: int, q: int, contenders: list[str], limit: float, python: str) -> None:
    X = make_data(n, d, q)
    results: dict[str, Result] = {}
    values: dict[str, float] = {}
    for name in contenders:
        with tempfile.TemporaryDirectory() as folder:
            np.save(Path(folder) / "X.npy", X)
            if name == "R mirt":
                heads = ",".join(f"item{j}" for j in range(d))
                np.savetxt(Path(folder) / "X.csv", X, fmt="%d", delimiter=",", header=heads, comments="")
            results[name] = run_peer(name, Path(folder), q, limit, python)
        found = results[name].found
        if found is not None:
            values[name] = nats(X, found)
    best = min(values.values(), default=np.nan)
    own = results["latentbits"].seconds
    print(f"\n{n} x {d} bits, {q} latent dimension{'s' * (q > 1)}; CPU seconds, one thread")
    print(f"{'':<20}{'first':>10}{'again':>10}{'times ours':>12}{'nats/row':>14}{'above best':>12}")
    for name, result in results.items():
        if result.found is None:
            print(f"{name:<20}{result.word:>20}")
            continue
        first, warm = result.seconds[0], again(result.seconds)
        ratio = f"{warm / again(own):.1f}" if own else ""
        value = values[name]
        print(f"{name:<20}{first:>10.2f}{warm:>10.2f}{ratio:>12}{value:>14.4f}{value - best:>12.4f}", flush=True)


def run_large(n: int, d: int, q: int, iterations: int, rounds: int) -> None:
    """Variational EM, iteration by iteration, against the products that an iteration cannot do without.

    With m = q (q + 1) / 2 entries of a symmetric matrix in latent space, r rows, and m' = (q + 1) (q + 2) / 2:
    the centre of the log odds (r, q) x (q, d) and their spread (r, m) x (m, d), which give xi; precision, linear term
    and constant of the posterior, (r, d) x (d, m + q + 1) from lambda and (r, d) x (d, q) from the bits; and the sums
    of the M-step over rows, (d, r) x (r, m') with lambda and (d, r) x (r, q + 1) with the bits.
    """
    import jax
    import jax.numpy as jnp

    from latentbits.engines.chunks import layout_for
    from latentbits.engines.fit import fit, seed_key
    from latentbits.engines.memory import MemoryEngine
    from latentbits.engines.monitor import Limits
    from latentbits.models.latent_trait.model import model

    X = make_data(n, d, q)
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
            bits = jnp.asarray(X[first : first + rows], jnp.float32) - 0.5
            left = [jnp.asarray(rng.standard_normal((len(bits), k), np.float32)) for k in (q, pairs, more)]
            made.append(dict(zip(names, (bits, 0.25 - 0.1 * bits, *left, *right), strict=True)))
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
    parser.add_argument("--rows", type=int)
    parser.add_argument("--cells", default="50x1,50x2,50x3,200x1,200x2,200x3", help="columns x latent dimensions, ...")
    parser.add_argument("--limit", type=float, default=120, help="CPU seconds a fit may take")
    parser.add_argument("--peers", nargs="*", default=PEERS, choices=PEERS, metavar="NAME", help=", ".join(PEERS))
    parser.add_argument("--peer-python", default=sys.executable, help="the interpreter that has the Python peers")
    parser.add_argument("--large", action="store_true", help="variational EM against its matrix products")
    parser.add_argument("--columns", type=int, default=256, help="of --large")
    parser.add_argument("--components", type=int, default=2, help="of --large")
    parser.add_argument("--iterations", type=int, default=10, help="of --large")
    parser.add_argument("--rounds", type=int, default=3, help="of --large")
    parser.add_argument("--check", action="store_true", help="the measure against a dense grid")
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder, q = options.child
        run_child(name, Path(folder), int(q), options.limit)
    elif options.check:
        check()
    elif options.large:
        rows = options.rows or 200_000
        run_large(rows, options.columns, options.components, options.iterations, options.rounds)
    else:
        for cell in options.cells.split(","):
            d, q = (int(part) for part in cell.split("x"))
            run_cell(options.rows or 5000, d, q, ["latentbits", *options.peers], options.limit, options.peer_python)


if __name__ == "__main__":
    main()
