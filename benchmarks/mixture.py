"""Bernoulli mixtures: seconds per EM iteration and peak memory, beside pomegranate, StepMix and plain NumPy.

    python benchmarks/mixture.py [--rows 100000] [--columns 200] [--components 20] [--iterations 20] [--rounds 3]

All start from the same parameters on the same bits.  Each contender runs in a process of its own, in turns, `rounds`
times; the ratio of a round is taken within the round, since the machine may be slower in the next.  The time of an
iteration is the slope between a short and a long fit, so that compilation, conversion and validation drop out.
Memory is the peak resident size during the fit less the resident size before it, after a warm-up on a few rows;
"x data" divides it by the bytes of the table as it was handed over (each contender gets the type it likes best:
bytes, float32 or float64).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np


def make_data(n: int, d: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bits of a true mixture, and starting parameters that are not it."""
    rng = np.random.default_rng(0)
    truth = rng.beta(0.7, 0.7, (k, d)) * 0.96 + 0.02
    X = np.empty((n, d), np.uint8)
    for first in range(0, n, 10_000):
        part = slice(first, min(first + 10_000, n))
        rows = part.stop - part.start
        X[part] = rng.random((rows, d), dtype=np.float32) < truth[rng.integers(k, size=rows)]
    return X, np.full(k, 1 / k), rng.uniform(0.25, 0.75, (k, d))


# Each contender: (type of the table, fit(X, weights, means, iterations) -> (weights, means)).


def latentbits_(dtype):
    def fit(X, weights, means, iterations):
        from latentbits.engines.fit import fit, seed_key
        from latentbits.engines.memory import MemoryEngine
        from latentbits.engines.monitor import Limits
        from latentbits.estimators.tables.validate import encode_bits
        from latentbits.models.mixture import model as mixture

        engine = MemoryEngine(encode_bits(X, binarize=None))
        start = mixture.Params(weights, means)
        limits = Limits(iterations, -np.inf)
        result = fit(mixture.model(len(weights)), engine, seed_key(0), params=start, limits=limits, dtype=dtype)
        return result.params.weights, result.params.means

    return np.uint8, fit


def pomegranate_():
    def fit(X, weights, means, iterations):
        import torch
        from pomegranate.distributions import Bernoulli
        from pomegranate.gmm import GeneralMixtureModel

        parts = [Bernoulli(torch.tensor(m, dtype=torch.float32), check_data=False) for m in means]
        priors = torch.tensor(weights, dtype=torch.float32)
        model = GeneralMixtureModel(parts, priors=priors, max_iter=iterations, tol=-1e30, check_data=False)
        model.fit(torch.from_numpy(X))
        return model.priors.numpy(), np.stack([p.probs.numpy() for p in model.distributions])

    return np.float32, fit


def stepmix_():
    def fit(X, weights, means, iterations):
        import warnings

        from stepmix import StepMix

        class Started(StepMix):
            def _initialize_parameters(self, X, random_state):
                super()._initialize_parameters(X, random_state)
                self.weights_ = weights.copy()
                self._mm.parameters["pis"] = means.copy()

        model = Started(
            len(weights),
            measurement="binary",
            max_iter=iterations,
            abs_tol=0,
            rel_tol=0,
            progress_bar=0,
            random_state=0,
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.fit(X)
        return model.weights_, model.get_parameters()["measurement"]["pis"]

    return np.float64, fit


def numpy_(dtype):
    """What a careful user would write: two products an iteration, log space, nothing else."""

    def fit(X, weights, means, iterations):
        for _ in range(iterations):
            p = np.clip(means, 1e-12, 1 - 1e-12)
            odds = (np.log(p) - np.log1p(-p)).astype(dtype)
            joint = X @ odds.T + (np.log1p(-p).sum(1) + np.log(weights)).astype(dtype)
            joint -= joint.max(1, keepdims=True)
            np.exp(joint, out=joint)
            joint /= joint.sum(1, keepdims=True)
            members = joint.sum(0, dtype=float)
            means = (joint.T @ X) / members[:, None]
            weights = members / members.sum()
        return weights, means

    return dtype, fit


CONTENDERS = {
    "latentbits": lambda: latentbits_("float32"),
    "latentbits float64": lambda: latentbits_("float64"),
    "NumPy float32": lambda: numpy_(np.float32),
    "pomegranate": pomegranate_,
    "StepMix": stepmix_,
}


def log_likelihood(X: np.ndarray, weights: np.ndarray, means: np.ndarray) -> float:
    """In float64, block by block: the measure for all."""
    p = np.clip(np.asarray(means, float), 1e-12, 1 - 1e-12)
    log_weights = np.log(np.asarray(weights, float) / np.sum(weights, dtype=float))
    total = 0.0
    for first in range(0, len(X), 10_000):
        x = X[first : first + 10_000].astype(float)
        joint = x @ np.log(p).T + (1 - x) @ np.log1p(-p).T + log_weights
        total += np.logaddexp.reduce(joint, axis=1).sum()
    return total


def resident(field: str) -> float:
    """VmRSS or VmHWM of this process, in MB (Linux)."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    raise OSError(f"no {field} here")


def run_one(name: str, folder: Path, iterations: int) -> dict[str, float]:
    """Measure one contender, in this process."""
    dtype, fit = CONTENDERS[name]()
    start = np.load(folder / "start.npz")
    weights, means = start["weights"], start["means"]
    X = np.ascontiguousarray(np.load(folder / "X.npy").astype(dtype, copy=False))
    fit(X[:2000], weights, means, 2)  # imports, and what there is to compile
    fit(X, weights, means, 1)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far
    before = resident("VmRSS")
    began = time.perf_counter()
    fit(X, weights, means, 2)
    short = time.perf_counter() - began
    began = time.perf_counter()
    weights, means = fit(X, weights, means, iterations + 2)
    long = time.perf_counter() - began
    peak = resident("VmHWM") - before
    bits = np.load(folder / "X.npy")
    return {
        "iteration": (long - short) / iterations,
        "memory": peak,
        "data": X.nbytes / 2**20,
        "log_likelihood": log_likelihood(bits, weights, means) / len(bits),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--columns", type=int, default=200)
    parser.add_argument("--components", type=int, default=20)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--contenders", nargs="+", default=list(CONTENDERS), choices=list(CONTENDERS), metavar="NAME")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        name, folder = options.child
        print(json.dumps(run_one(name, Path(folder), options.iterations)))
        return
    with tempfile.TemporaryDirectory() as folder:
        X, weights, means = make_data(options.rows, options.columns, options.components)
        np.save(Path(folder) / "X.npy", X)
        np.savez(Path(folder) / "start.npz", weights=weights, means=means)
        results: dict[str, list[dict[str, float]]] = {name: [] for name in options.contenders}
        for _ in range(options.rounds):
            for name in options.contenders:
                command = [sys.executable, __file__, "--child", name, folder, "--iterations", str(options.iterations)]
                done = subprocess.run(command, capture_output=True, text=True)
                if done.returncode:
                    print(f"{name}: not run ({done.stderr.strip().splitlines()[-1]})", file=sys.stderr)
                    continue
                results[name].append(json.loads(done.stdout.splitlines()[-1]))
    print(f"{options.rows} x {options.columns} bits, {options.components} components, {options.rounds} rounds; medians")
    heads = f"{'ms/iteration':>14}{'times ours':>12}{'peak MB':>9}{'x data':>8}{'nats/row':>14}{'rel. to float64':>17}"
    print(f"{'':<20}{heads}")
    ours = results["latentbits"]
    wide = results.get("latentbits float64")
    reference = wide[0]["log_likelihood"] if wide else np.nan
    for name, runs in results.items():
        if runs:
            ratio = np.median([r["iteration"] / o["iteration"] for r, o in zip(runs, ours, strict=False)])
            ms, memory = (np.median([r[key] for r in runs]) for key in ("iteration", "memory"))
            value = runs[0]["log_likelihood"]
            print(
                f"{name:<20}{1000 * ms:>14.1f}{ratio:>12.2f}{memory:>9.0f}{memory / runs[0]['data']:>8.2f}"
                f"{value:>14.6f}{abs(value / reference - 1):>17.1e}"
            )


if __name__ == "__main__":
    main()
