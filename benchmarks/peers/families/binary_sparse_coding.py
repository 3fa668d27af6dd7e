"""Rows that are sums of components, each on or off, in Gaussian noise; on average two are on.

The smaller table is the bars test: every row and every column of an image is a component.  In the larger one they are
random.  All learn from one start of their own, as many causes as there are.  Ours, prosper and plain NumPy learn by
expectation truncation with the same candidates and the same most active causes (H' and gamma); ours otherwise at its
defaults.  prosper has its own start and its own schedule of 50 iterations (temperature down to 1 by 70 %, cut of rows
full by two thirds), but begins at temperature 4: from 2, as in its example, most starts end in a poor optimum of these
bars.  It runs in a process a core, by MPI.  tvo learns with evolved states (EVO), of which it keeps 30 a row, between
the 10 and 50 of its examples, for 40 epochs as there; it has no temperature.  Plain NumPy follows prosper's schedule in
float32, with the energies of all states of a chunk as one product of matrices.  A peer that would take more than a
minute on all cores, by its first iterations on few rows, is not waited for, and the table says what it would take.

Quality is the log-likelihood of test rows, in float64: exact, by all states of the causes, for the bars; for the larger
table, where there are too many, over the states with at most 6 of the 16 causes that match a row best and all single
ones, which is a lower bound for everybody.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import combinations
from math import comb
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.contender import Contender, NotWaitedFor, Table
from benchmarks.peers.growth import Growth

TITLE = "Binary sparse coding"

ACTIVE = 2.0  # components in a row, on average
STEPS, HOT, COLD_BY, CUT_BY = 50, 4.0, 0.7, 2 / 3  # of prosper and plain NumPy
STATES, PARENTS, CHILDREN, GENERATIONS, EPOCHS, BATCH = 30, 10, 3, 2, 40, 50  # of tvo
LONGEST = 60.0  # seconds of every core that a peer may take
EXACT = 16  # causes, up to which all states are summed for test rows
CHUNK = 1000


# --- tables ---


def bars(size: int) -> np.ndarray:
    """The 2 size components of the bars test."""
    rows = np.repeat(np.eye(size), size, axis=1)
    return 10 * np.concatenate([rows, np.tile(np.eye(size), size)])


def sums(W: np.ndarray, n: int, noise: float, seed: int = 0) -> np.ndarray:
    """Rows of a model with these components."""
    rng = np.random.default_rng([seed, n, *W.shape])
    s = rng.random((n, len(W)), dtype=np.float32) < ACTIVE / len(W)
    return (s @ W + noise * rng.standard_normal((n, W.shape[1]))).astype(np.float32)


def random_components(d: int, causes: int) -> np.ndarray:
    return np.random.default_rng([d, causes]).standard_normal((causes, d))


def tables(quick: bool) -> dict[str, Table]:
    small, large = (4, 10) if quick else (8, 40)
    n, more, d = (200, 400, 20) if quick else (1_000, 10_000, 144)
    truncated = {"candidates": 5, "most": 3} if quick else {"candidates": 8, "most": 5}
    few, many = sums(bars(small), 2 * n, 2.0), sums(random_components(d, large), more + n, 1.0)
    return {
        f"{n} x {small**2}, {2 * small} bars": Table(few[:n], few[n:], {"causes": 2 * small, **truncated}),
        f"{more} x {d}, {large} causes": Table(many[:more], many[more:], {"causes": large, **truncated}),
    }


# --- contenders ---


def latentbits_(X: np.ndarray, *, seed: int, causes: int, candidates: int, most: int) -> dict[str, Any]:
    from latentbits.estimators.binary_sparse_coding import BinarySparseCoding

    model = BinarySparseCoding(causes, max_active=most, n_candidates=candidates, n_init=1, random_state=seed).fit(X)
    return {"W": model.components_, "sigma": model.noise_std_, "pi": model.prior_}


def prosper_(X: np.ndarray, *, seed: int, **settings: int) -> dict[str, Any]:
    """In a process a core where there is an mpiexec, else in one."""
    cores = len(os.sched_getaffinity(0))
    command = [sys.executable, "-m", "benchmarks.peers.mpi_prosper"]
    if shutil.which("mpiexec"):
        command = ["mpiexec", "-n", str(cores), *command]
    # Open MPI runs as root where allowed to, and its idle processes leave the cores to others
    open_mpi = {"ALLOW_RUN_AS_ROOT": "1", "ALLOW_RUN_AS_ROOT_CONFIRM": "1", "MCA_mpi_yield_when_idle": "1"}
    threads = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "OPENBLAS", "MKL")}
    with tempfile.TemporaryDirectory() as name:
        table, out = Path(name, "X.npy"), Path(name, "out.npz")
        np.save(table, X)
        schedule = {"steps": STEPS, "hot": HOT, "cold_by": COLD_BY, "cut_by": CUT_BY, "longest": LONGEST}
        asked = json.dumps({"seed": seed, **settings, **schedule})
        done = subprocess.run(
            [*command, str(table), str(out), asked],
            env={**os.environ, **{f"OMPI_{name}": value for name, value in open_mpi.items()}, **threads},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            errors = [line for line in done.stderr.splitlines() if "Error: " in line]
            said = errors[-1].partition("Error: ")[2] if errors else done.stderr[-300:]
            raise NotWaitedFor(said) if said.startswith("would take") else RuntimeError(said)
        with np.load(out) as found:
            params = {key: found[key] for key in ("W", "sigma", "pi")}
        return {**params, **json.loads(done.stdout.splitlines()[-1])}


def tvo_(X: np.ndarray, *, seed: int, causes: int, candidates: int, most: int) -> dict[str, Any]:
    import torch
    from tvo.models import BSC
    from tvo.trainer.Trainer import Trainer
    from tvo.utils.data import TVODataLoader
    from tvo.utils.param_init import init_sigma2_default, init_W_data_mean
    from tvo.variational import EVOVariationalStates

    torch.manual_seed(seed)
    np.random.seed(seed)  # noqa: NPY002  (its first states are drawn from there)

    def trainer(Y: Any) -> Any:
        start = {
            "W_init": init_W_data_mean(Y, causes, dtype=Y.dtype).contiguous(),
            "sigma2_init": init_sigma2_default(Y, Y.dtype),
            "pies_init": torch.tensor([1 / causes]),
        }
        model = BSC(causes, Y.shape[1], **start, individual_priors=False, precision=Y.dtype)
        states = EVOVariationalStates(
            len(Y), causes, STATES, Y.dtype, "batch_fitparents", "randflip", PARENTS, GENERATIONS, CHILDREN
        )
        return Trainer(model, TVODataLoader(Y, batch_size=BATCH, shuffle=True), states)

    Y = torch.from_numpy(X)
    began = time.process_time()
    trainer(Y[: 4 * BATCH]).em_step()
    seconds = (time.process_time() - began) * EPOCHS * len(Y) / (4 * BATCH)
    if seconds > LONGEST * torch.get_num_threads():
        raise NotWaitedFor(f"would take {seconds / 60:.0f} minutes of one core")
    learner = trainer(Y)
    for _ in range(EPOCHS):
        learner.em_step()
    theta = {name: value.numpy() for name, value in learner.model.theta.items()}
    return {"W": theta["W"].T, "sigma": np.sqrt(theta["sigma2"]), "pi": theta["pies"]}


def states_of(candidates: int, most: int) -> np.ndarray:
    """All states of at most `most` candidates, the empty one first."""
    sets = [on for k in range(most + 1) for on in combinations(range(candidates), k)]
    table = np.zeros((len(sets), candidates))
    for row, on in zip(table, sets, strict=True):
        row[list(on)] = 1
    return table


def numpy_(X: np.ndarray, *, seed: int, causes: int, candidates: int, most: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    n, d = X.shape
    sigma, pi = float(X.std(0).mean()), 1 / causes
    W = X.mean(0) + sigma / 4 * rng.standard_normal((causes, d))
    squares = np.einsum("nd,nd->n", X, X, dtype=float)
    evidence = np.zeros(n)
    k = np.arange(most + 1)
    ways = np.array([comb(causes, one) for one in k])
    for step in range(STEPS):
        heat = max(1.0, HOT + (1 - HOT) * step / (COLD_BY * STEPS))
        chances = ways * pi**k * (1 - pi) ** (causes - k)
        used = int(n * (1 - (1 - chances.sum()) * min(1.0, step / (CUT_BY * STEPS))))
        # by the evidence of the pass before, which saves a pass
        least = np.partition(evidence, n - used)[n - used]
        products, seconds, evidence, kept = truncated_pass(
            X, squares, W, sigma, pi, heat, (candidates, most), evidence >= least
        )
        means = np.diagonal(seconds)
        left = squares[kept].sum() - 2 * np.sum(W * products) + np.sum((W @ W.T) * seconds)
        W = np.linalg.lstsq(seconds, products, rcond=None)[0]
        pi = float(chances.sum() * pi / (k @ chances) * means.sum() / kept.sum())
        sigma = float(np.sqrt(left / (kept.sum() * d)))
    return {"W": W, "sigma": sigma, "pi": pi}


def truncated_pass(
    X: np.ndarray,
    squares: np.ndarray,
    W: np.ndarray,
    sigma: float,
    pi: float,
    heat: float,
    truncation: tuple[int, int],
    kept: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Sums of <s> y and <s s'> over the rows that are kept, and the log evidence of every row up to a constant."""
    causes, (candidates, most), dtype = len(W), truncation, X.dtype
    states = states_of(candidates, most)
    first, second = np.triu_indices(candidates, 1)
    features = np.concatenate([states, states[:, first] * states[:, second]], 1).astype(dtype)
    precision, odds = 1 / (heat * sigma**2), np.log(pi) - np.log1p(-pi)
    gram = W @ W.T
    norms = np.diagonal(gram)
    pairs = (-precision * gram).astype(dtype).ravel()
    products, seconds, evidence = np.zeros(W.shape), np.zeros(causes**2), []
    for start in range(0, len(X), CHUNK):
        y = X[start : start + CHUNK]
        match = y @ W.astype(dtype).T
        chosen = np.argpartition(-match / np.sqrt(norms), candidates - 1, axis=1)[:, :candidates]
        lone = (precision * (match - norms / 2) + odds).astype(dtype)
        flat = chosen[:, first] * causes + chosen[:, second]
        energy = np.concatenate([np.take_along_axis(lone, chosen, 1), pairs[flat]], 1) @ features.T
        np.put_along_axis(lone, chosen, -np.inf, 1)
        top = np.maximum(energy.max(1), lone.max(1))[:, None]
        np.exp(energy - top, out=energy)
        np.exp(lone - top, out=lone)
        total = energy.sum(1) + lone.sum(1)
        weights = (kept[start : start + CHUNK] / total).astype(dtype)[:, None]
        moments = (energy @ features) * weights
        means = lone * weights
        np.put_along_axis(means, chosen, moments[:, :candidates], 1)
        products += means.T @ y
        seconds += np.bincount(flat.ravel(), moments[:, candidates:].ravel(), causes**2)
        seconds[:: causes + 1] += means.sum(0)
        evidence.append(top[:, 0] + np.log(total) - precision * squares[start : start + CHUNK] / 2)
    both = seconds.reshape(causes, causes)
    return products, both + both.T - np.diag(np.diagonal(both)), np.concatenate(evidence), kept


GITHUB = "pip install git+https://github.com"
CONTENDERS = {
    "latentbits": Contender(
        latentbits_,
        "latentbits",
        module="latentbits.estimators.binary_sparse_coding",
        dtype=np.float32,
        note="one start (n_init=1), H' and gamma as given",
    ),
    "prosper": Contender(
        prosper_,
        "prosper",
        dtype=np.float64,
        note=f"{STEPS} iterations from temperature {HOT:g}, a process a core; its clock is around the learning alone",
        install=f"{GITHUB}/ml-uol/prosper mpi4py six tables scipy 'numpy<1.24'",
    ),
    "tvo": Contender(
        tvo_,
        "tvo",
        dtype=np.float32,
        note=f"EVO with {STATES} states, {PARENTS} parents, {CHILDREN} children, {GENERATIONS} generations; "
        f"{EPOCHS} epochs",
        install=f"{GITHUB}/tvlearn/tvo torch h5py",
    ),
    "plain NumPy": Contender(numpy_, "numpy", dtype=np.float32, note="the schedule of prosper, in float32"),
}


# --- quality ---


def held_out(params: dict[str, np.ndarray], test: np.ndarray) -> float:
    W, sigma = np.asarray(params["W"], float), float(np.ravel(params["sigma"])[0])
    causes, d = W.shape
    pi = np.broadcast_to(np.clip(np.ravel(params["pi"]).astype(float), 1e-9, 1 - 1e-9), causes)
    base = np.log1p(-pi).sum() - d / 2 * np.log(2 * np.pi * sigma**2)
    gram, odds = W @ W.T / sigma**2, np.log(pi) - np.log1p(-pi)
    energies = exact_energies if causes <= EXACT else near_energies
    found = []
    for start in range(0, len(test), 50):
        y = test[start : start + 50].astype(float)
        lone = y @ W.T / sigma**2 - np.diagonal(gram) / 2 + odds
        found.append(energies(lone, gram) - np.sum(y * y, 1) / (2 * sigma**2) + base)
    return float(np.concatenate(found).mean())


def exact_energies(lone: np.ndarray, gram: np.ndarray) -> np.ndarray:
    """Log of the sum over all states, the empty one as 1."""
    causes = len(gram)
    states = (np.arange(2**causes)[:, None] >> np.arange(causes) & 1).astype(float)
    pairs = np.einsum("sh,sh->s", states @ np.triu(gram, 1), states)
    return np.logaddexp.reduce(lone @ states.T - pairs, axis=1)


def near_energies(lone: np.ndarray, gram: np.ndarray, candidates: int = 16, most: int = 6) -> np.ndarray:
    """The same over few of the best candidates, and every cause alone."""
    states = states_of(candidates, most)
    first, second = np.triu_indices(candidates, 1)
    chosen = np.argpartition(-lone, candidates - 1, axis=1)[:, :candidates]
    terms = np.concatenate([np.take_along_axis(lone, chosen, 1), -gram[chosen[:, first], chosen[:, second]]], 1)
    inside = terms @ np.concatenate([states, states[:, first] * states[:, second]], 1).T
    others = lone.copy()
    np.put_along_axis(others, chosen, -np.inf, 1)
    return np.logaddexp(np.logaddexp.reduce(inside, axis=1), np.logaddexp.reduce(others, axis=1))


# --- growth ---


def _passes(n: int, d: int, causes: int) -> Any:
    """A fit of as many passes as asked for, from one start."""
    from latentbits.estimators.binary_sparse_coding import BinarySparseCoding

    X = sums(random_components(d, causes), n, 1.0)

    def fit() -> int:
        model = BinarySparseCoding(causes, max_active=4, n_candidates=8, n_init=1, max_iter=12, random_state=0)
        return model.fit(X).n_iter_

    return fit


GROWTH = {
    "rows": Growth((5_000, 10_000, 20_000, 40_000), lambda n: _passes(n, 100, 50)),
    "columns": Growth((100, 200, 400, 800), lambda d: _passes(10_000, d, 50)),
    "causes": Growth((25, 50, 100, 200), lambda causes: _passes(10_000, 100, causes)),
}
PROGRAMS = "ours compiles its programs at the first fit, and they and their compiler stay in memory"
MORE_PASSES = "; a fit of ours goes through 80 passes, the last 20 with all states, where this one goes through 50"
WHY = {"prosper": PROGRAMS, "tvo": PROGRAMS, "plain NumPy": PROGRAMS + MORE_PASSES}
