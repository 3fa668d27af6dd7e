"""Does a change of the source change any number?  Fit every family to small fixed tables, and compare to the bit.

    python benchmarks/same_bits.py OUT.json [--only PREFIX ...] [--jobs 2]
    python benchmarks/same_bits.py --compare BEFORE.json AFTER.json

The first runs the cases with whatever latentbits can be imported, so PYTHONPATH says which source tree, and keeps a
digest of all that came out: fitted attributes, likelihoods, latents, completed and sampled rows, what a model is once
saved and loaded, and what the command line prints.  The second compares two such files of the same machine: for every
case which entries differ and by how much at most; it exits with 1 if any does.

Only the public face is used, and data are made here with NumPy (and scikit-learn's digits), so that modules may move.
Families are run in processes of their own with one thread for BLAS; nothing depends on the clock.  A call that raises
counts by its error.  Of arrays the bytes are hashed, and up to 4096 numbers are kept, to tell how far apart they are.

Nearly all of the time, some five minutes of two cores, goes to the compiler.  Cases of a family share their compiled
programs in a folder that is thrown away; with JAX_COMPILATION_CACHE_DIR these are kept, and a tree that has the same
programs runs much faster.
"""

from __future__ import annotations

import argparse
import dataclasses
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is imported
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import numpy as np

MOST_KEPT = 4096  # numbers of an array that are kept beside its hash
USED = 64  # rows that a fitted model is used on
TIMES = ("seconds", "output")  # of the command line's JSON: not the same from run to run, or a path

Found = dict[str, dict[str, Any]]  # digests by the names of what they are of


# ---------------------------------------------------------------- data


def blobs(n: int = 512, d: int = 12, k: int = 3) -> np.ndarray:
    """Bits of a mixture of products."""
    rng = np.random.default_rng(1)
    return (rng.random((n, d)) < rng.beta(0.5, 0.5, (k, d))[rng.integers(k, size=n)]).astype(np.uint8)


def items(n: int = 512, d: int = 20) -> np.ndarray:
    """Answers of people with one ability."""
    rng = np.random.default_rng(2)
    field = rng.standard_normal((n, 1)) * rng.uniform(0.6, 2, d) + rng.standard_normal(d)
    return (rng.random((n, d)) < 1 / (1 + np.exp(-field))).astype(np.uint8)


def digits(n: int = 256) -> np.ndarray:
    """Images of digits, 64 columns of which some are constant."""
    from sklearn.datasets import load_digits

    return (load_digits().data[:n] > 7).astype(np.uint8)


def lines() -> np.ndarray:
    """The rows and columns of a 4 x 4 grid, (8, 16)."""
    place = np.arange(16)
    return np.array([place // 4 == k for k in range(4)] + [place % 4 == k for k in range(4)], float)


def bars(n: int = 256) -> np.ndarray:
    """Bits of a noisy OR of lines."""
    rng = np.random.default_rng(3)
    causes = rng.random((n, 8)) < 0.2
    return (rng.random((n, 16)) < 1 - 0.98 * np.exp(-2.5 * causes @ lines())).astype(np.uint8)


def sums(n: int = 256) -> np.ndarray:
    """Real numbers: sums of lines in noise."""
    rng = np.random.default_rng(4)
    return 10 * (rng.random((n, 8)) < 0.25) @ lines() + 2 * rng.standard_normal((n, 16))


def reals(n: int = 512) -> np.ndarray:
    """Real numbers with noise of variance 1, as a combination machine has them."""
    rng = np.random.default_rng(5)
    return (rng.random((n, 3)) < 0.4) @ (2 * rng.standard_normal((3, 8))) + rng.standard_normal((n, 8))


def mixed(n: int = 256) -> np.ndarray:
    """Bits, real numbers and categories with one cause, as objects."""
    rng = np.random.default_rng(6)
    latent = rng.standard_normal((n, 1))
    table = np.empty((n, 7), object)
    table[:, :4] = (latent + rng.standard_normal((n, 4)) > 0).astype(int)
    table[:, 4:6] = np.round(50 + 7 * latent + 5 * rng.standard_normal((n, 2)), 3)
    table[:, 6] = np.array(["blue", "green", "red"])[np.digitize(latent[:, 0] + rng.standard_normal(n), [-0.5, 0.5])]
    return table


def wide() -> np.ndarray:
    """More columns than are kept in pairs."""
    rng = np.random.default_rng(7)
    field = rng.standard_normal((150, 2)) @ rng.standard_normal((2, 1040)) + 0.5 * rng.standard_normal(1040)
    return (field + rng.standard_normal(field.shape) > 0).astype(np.uint8)


DATA: dict[str, Callable[[], np.ndarray]] = {
    "blobs": blobs,
    "40000 blobs": partial(blobs, 40_000),
    "12 rows": partial(blobs, 12),
    "20 columns": partial(blobs, 512, 20, 5),
    "26 columns": partial(blobs, 256, 26, 5),
    "items": items,
    "5000 items": partial(items, 5000),
    "digits": digits,
    "bars": bars,
    "4500 bars": partial(bars, 4500),
    "sums": sums,
    "far sums": lambda: sums() + 1000,
    "reals": reals,
    "far reals": lambda: reals() + 1000,
    "mixed": mixed,
    "wide": wide,
}


def with_holes(X: np.ndarray, share: float = 0.15) -> np.ndarray:
    """The table with missing entries, the same ones in every table of that shape."""
    table = X.copy() if X.dtype == object else X.astype(float)
    table[np.random.default_rng(8).random(X.shape) < share] = np.nan
    return table


def batches(X: np.ndarray) -> Callable[[], Iterator[np.ndarray]]:
    """The rows as a stream, in blocks of unequal sizes."""
    edges = [0, *np.cumsum([len(X) // 3, len(X) // 7]), len(X)]
    return lambda: (X[start:end] for start, end in pairwise(edges))


def on_disk(X: np.ndarray, folder: Path) -> np.ndarray:
    """The rows as a memory map."""
    np.save(folder / "rows.npy", X)
    return np.load(folder / "rows.npy", mmap_mode="r")


# ---------------------------------------------------------------- digests


def entries(name: str, value: Any) -> Found:
    """Digests of a value: of an array one, of a record, list or mapping one for each part."""
    if value is None or isinstance(value, str):
        return {name: {"value": value}}
    if isinstance(value, Mapping):
        parts = {f"{name}[{key}]": part for key, part in value.items()}
    elif hasattr(value, "_fields"):
        parts = {f"{name}.{field}": getattr(value, field) for field in value._fields}
    elif dataclasses.is_dataclass(value):
        parts = {f"{name}.{field.name}": getattr(value, field.name) for field in dataclasses.fields(value)}
    elif isinstance(value, list | tuple) and not all(isinstance(part, int | float) for part in value):
        parts = {f"{name}[{place}]": part for place, part in enumerate(value)}
    else:
        return {name: digest(np.asarray(value))}
    return {key: found for part_name, part in parts.items() for key, found in entries(part_name, part).items()}


def digest(array: np.ndarray) -> dict[str, Any]:
    """What is kept of an array."""
    listed = array.ravel().tolist()
    raw = json.dumps(listed).encode() if array.dtype.kind in "OU" else np.ascontiguousarray(array).tobytes()
    found = {"sha256": hashlib.sha256(raw).hexdigest(), "dtype": str(array.dtype), "shape": list(array.shape)}
    return {**found, "values": listed} if array.size <= MOST_KEPT else found


def collect(outputs: Iterable[tuple[str, Callable[[], Any]]]) -> Found:
    """Digests of the results of calls, or of the errors that these raise; and of the library's warnings."""
    found: Found = {}
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        for name, call in outputs:
            try:
                found |= entries(name, call())
            except Exception as error:
                found[name] = {"raised": f"{type(error).__name__}: {error}"}
    texts = [f"{item.category.__name__}: {item.message}" for item in warned if issubclass(item.category, UserWarning)]
    return {**found, "warnings": {"value": list(dict.fromkeys(texts))}}


# ---------------------------------------------------------------- fitted models


def fitted_attributes(model: Any) -> dict[str, Any]:
    """Public attributes of a fit, but for the tree of parameters, times, and strings such as the precision."""
    found = {}
    for name in dir(model):
        if name.startswith("_") or not name.endswith("_") or name == "params_" or "seconds" in name:
            continue
        value = getattr(model, name, None)
        if not isinstance(value, str) or name == "stop_reason_":
            found[name] = value
    return found


def uses(model: Any, X: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What every family can do with its rows."""
    yield "log_likelihoods", lambda: model.log_likelihoods(X)
    yield "score_samples", lambda: model.score_samples(X)
    yield "transform", lambda: model.transform(X)
    yield "complete", lambda: model.complete(with_holes(X, 0.2))
    yield "sample", lambda: model.sample(32, random_state=1)
    yield "inverse_transform", lambda: model.inverse_transform(model.transform(X))


def own_uses(family: str, model: Any, X: np.ndarray) -> Iterator[tuple[str, Callable[[], Any]]]:
    """What one family can do, and the model once saved and loaded."""
    yield "posterior", lambda: model.posterior(X)
    if family == "LatentTrait":
        yield "variational", lambda: model.variational(X)
        yield "criteria", lambda: [model.aic(X), model.bic(X)]
    elif family == "ItemResponse":
        yield "map", lambda: model.scores(X, "map")
        yield "wle", lambda: model.scores(X, "wle")
        yield "standard_errors", lambda: model.standard_errors(X)
        yield "item_information", lambda: model.item_information(model.transform(X))
        yield "item_fit", lambda: model.item_fit(X)
        yield "fit_report", lambda: model.fit_report(X)
        yield "plausible_values", lambda: model.plausible_values(X, 2, random_state=1)
    elif family == "TraitMaps":
        yield "responsibilities", lambda: model.responsibilities(X)
    elif family == "ClippedGaussian":
        yield "sample_posterior", lambda: model.sample_posterior(X[:8], 10, n_between=2, random_state=1)
        yield "morph", lambda: model.morph(X[0], X[1])
        yield "n_states", model.n_states
    elif family == "NoisyOrNetwork":
        yield "explain", lambda: [str(one) for one in model.explain(X[:8])]
        yield "layer", lambda: model.transform(X, layer=1)
        yield "clamped", lambda: model.sample(16, random_state=1, clamp={"h1_0": 1, "x0": 0})
    elif family == "BinarySparseCoding":
        yield "denoise", lambda: model.denoise(X)
    if family in ("ItemResponse", "ClippedGaussian"):
        yield "rotate", lambda: [model.rotate(method) for method in ("varimax", "oblimin")]
    yield "loaded", lambda: loaded(model, X)


def loaded(model: Any, X: np.ndarray) -> dict[str, Any]:
    """A model after its way through a file."""
    import latentbits

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        again = latentbits.load(path)
    return {**fitted_attributes(again), "score_samples": again.score_samples(X), "sample": again.sample(4, 1)}


def plain_fit(new: Callable[..., Any], rows: Any) -> Any:
    """The usual way to a fitted model; those below take others."""
    return new().fit(rows)


def warm_start(new: Callable[..., Any], rows: Any) -> Any:
    """A network that gets a second layer."""
    return new(layer_sizes=(8,)).fit(rows).set_params(layer_sizes=(8, 3), warm_start=True).fit(rows)


def from_parameters(new: Callable[..., Any], rows: Any, n_hidden: int = 3, **settings: Any) -> Any:
    """A machine that was never fitted."""
    import latentbits

    rng, d = np.random.default_rng(9), rows.shape[1]
    parameters = 0.4 * rng.standard_normal((n_hidden, d)), rng.standard_normal(n_hidden), 0.2 * rng.standard_normal(d)
    return latentbits.CombinationMachine.from_parameters(*parameters, random_state=0, **settings)


def estimated_again(new: Callable[..., Any], rows: Any) -> Any:
    """A machine with log Z estimated again."""
    machine = from_parameters(new, rows, 24, annealing=(32, 100))
    return machine.estimate_log_partition(64, 200, random_state=2)


def from_moments(new: Callable[..., Any], rows: Any, **settings: Any) -> Any:
    """A clipped Gaussian of given moments."""
    import latentbits

    return latentbits.ClippedGaussian.from_moments(rows.mean(0), np.cov(rows.T, bias=True), **settings)


def fit_case(
    family: str, data: str, holes: bool, source: str, used: str, make: Callable[..., Any], params: dict[str, Any]
) -> Found:
    """Digests of a fitted model and of its uses: see `fit_of`."""
    import latentbits

    X = with_holes(DATA[data]()) if holes else DATA[data]()
    new = partial(getattr(latentbits, family), **{"random_state": 0, **params})
    model: Any = None

    def attributes() -> dict[str, Any]:
        nonlocal model
        with tempfile.TemporaryDirectory() as folder:
            rows = batches(X) if source == "stream" else on_disk(X, Path(folder)) if source == "disk" else X
            model = make(new, rows)
        return fitted_attributes(model)

    found = collect([("fit", attributes)])
    if model is None:
        return found
    steps = [*uses(model, X[:USED]), *(own_uses(family, model, X[:USED]) if used == "all" else ())]
    results = collect(steps[:2] if used == "little" else steps)
    return {**found, **results, "warnings of use": results["warnings"], "warnings": found["warnings"]}


# ---------------------------------------------------------------- comparisons and the command line


def compare_case(n_folds: int | None) -> Found:
    """A comparison of three models."""
    import latentbits

    models = {
        "product": latentbits.BernoulliProduct(),
        "mixture": latentbits.BernoulliMixture(3, random_state=0),
        "trait": latentbits.LatentTrait(1, random_state=0),
    }

    def compared() -> dict[str, Any]:
        found = latentbits.compare(blobs(), models, n_folds=n_folds)
        lines_ = [{k: v for k, v in dataclasses.asdict(e).items() if k != "seconds"} for e in found.entries]
        return {"entries": lines_, **{k: getattr(found, k) for k in ("n_rows", "row_bits", "rows", "simplest")}}

    return collect([("compare", compared)])


def without_times(value: Any) -> Any:
    """Parsed JSON without what is never the same."""
    if isinstance(value, Mapping):
        return {key: without_times(part) for key, part in value.items() if key not in TIMES}
    return [without_times(part) for part in value] if isinstance(value, list) else value


def run_tool(folder: Path, *words: str) -> tuple[str, str]:
    """What the tool prints on stdout and on stderr, times taken out."""
    import latentbits

    source = str(Path(latentbits.__file__).resolve().parents[1])  # the tree of this process
    env = {**os.environ, "PYTHONPATH": source, "LATENTBITS_CACHE": str(folder / "cache"), "COLUMNS": "100"}
    command = [sys.executable, "-m", "latentbits", *words]
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    stderr = ended.stderr if ended.returncode == 0 else f"exit code {ended.returncode}\n{ended.stderr}"
    return ended.stdout, re.sub(r"\d+(\.\d+)? s\b", "_ s", stderr)


def tool_case(data: str, words: str, written: Iterable[str] = (), then: Iterable[str] = ()) -> Found:
    """One command with --json and without, the tables that it wrote, and commands that go on from its model."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        X = DATA[data]()
        names = ",".join(f"c{j}" for j in range(X.shape[1]))
        np.savetxt(folder / "rows.csv", X, delimiter=",", header=names, comments="", fmt="%.6g")
        holes = "\n".join(",".join("" if x != x else f"{x:.6g}" for x in row) for row in with_holes(X[:USED]))
        (folder / "holes.csv").write_text(f"{names}\n{holes}\n")

        def as_json(command: str) -> dict[str, Any]:
            out, stderr = run_tool(folder, *command.split(), "--json")
            return {"json": without_times(json.loads(out)) if out else None, "stderr": stderr}

        def as_text() -> dict[str, Any]:
            out, stderr = run_tool(folder, *words.split())
            return {"stdout": re.sub(r"\d+(\.\d+)? s\b", "_ s", out).splitlines(), "stderr": stderr.splitlines()}

        steps = [("with --json", partial(as_json, words))]
        if words.startswith("fit"):
            steps.append(("without", as_text))
        steps += [(command, partial(as_json, command)) for command in then]
        steps += [(f"file {file}", (folder / file).read_text) for file in written]
        return collect(steps)


# ---------------------------------------------------------------- cases

Case = Callable[[], Found]
Cases = dict[str, Case]


def fit_of(
    family: str,
    *,
    data: str = "blobs",
    holes: bool = False,
    source: str = "array",
    used: str = "much",
    make: Callable[..., Any] = plain_fit,
    **params: Any,
) -> Case:
    """The fit of a family to some data; "all" also tries what only this family can do, "little" only scores rows."""
    return partial(fit_case, family, data, holes, source, used, make, params)


def simple() -> Cases:
    """Products and mixtures."""
    product, mixture = partial(fit_of, "BernoulliProduct"), partial(fit_of, "BernoulliMixture")
    return {
        "product": product(used="all"),
        "product, no smoothing, holes": product(smoothing=0.0, holes=True),
        "product, digits, float64": product(data="digits", dtype="float64"),
        "product, stream": product(data="40000 blobs", source="stream"),
        "mixture": mixture(n_components=3, used="all"),
        "mixture, split": mixture(n_components=5, init="split", used="all"),
        "mixture, split, max_iter": mixture(data="digits", n_components=6, init="split", max_iter=2),
        "mixture, restarts": mixture(n_components=3, n_init=3),
        "mixture, no smoothing": mixture(n_components=3, smoothing=0.0),
        "mixture, holes": mixture(n_components=3, holes=True),
        "mixture, digits, float64": mixture(data="digits", n_components=8, dtype="float64"),
        "mixture, max_iter": mixture(n_components=3, max_iter=2),
        "mixture, max_iter 0": mixture(n_components=3, max_iter=0),
        "mixture, many rows": mixture(data="40000 blobs", n_components=3),
        "mixture, stream": mixture(data="40000 blobs", n_components=3, source="stream", holes=True),
        "mixture, disk": mixture(n_components=3, source="disk"),
        "mixture, binarize": mixture(data="sums", n_components=3, binarize=5.0),
        "mixture, real numbers refused": mixture(data="sums"),
    }


def latent_traits() -> Cases:
    """Latent traits, by all methods."""
    trait = partial(fit_of, "LatentTrait", data="items", n_samples=200)
    one, two = partial(trait, n_components=1), partial(trait, data="20 columns", n_components=2)
    kinds = ["binary"] * 4 + ["continuous"] * 2 + ["categorical"]
    return {
        "trait 1": one(used="all"),
        "trait 1, variational": one(method="variational"),
        "trait 1, quadrature": one(method="quadrature"),
        "trait 1, monte_carlo": one(method="monte_carlo"),
        "trait 2": two(used="all"),
        "trait 2, variational": two(method="variational"),
        "trait 2, quadrature": two(method="quadrature", max_iter=60),
        "trait 2, monte_carlo": two(method="monte_carlo"),
        "trait 4, variational": trait(n_components=4, method="variational", max_iter=50),
        "trait 4, quadrature": trait(n_components=4, weight_prior=2.0, max_iter=20),
        "trait 1, prior": one(weight_prior=1.0),
        "trait 1, variational, plain": one(method="variational", accelerate=False),
        "trait 1, quadrature, plain": one(method="quadrature", accelerate=False, max_iter=60),
        "trait 1, monte_carlo, plain": one(method="monte_carlo", accelerate=False),
        "trait 2, nodes": two(method="quadrature", n_nodes=7, max_iter=60),
        "trait 1, holes": one(holes=True),
        "trait 1, holes, monte_carlo": one(holes=True, method="monte_carlo"),
        "trait 1, kinds": one(data="mixed", column_types=kinds, used="all"),
        "trait 2, kinds, holes": trait(data="mixed", column_types="infer", weight_prior=2.0, holes=True),
        "trait 1, kinds, variational": one(data="mixed", column_types=kinds, method="variational"),
        "trait 1, restarts": one(n_init=2),
        "trait 1, float64": one(dtype="float64", used="little"),
        "trait 2, digits, prior": trait(data="digits", weight_prior=3.0, tol=1e-5, used="little"),
        "trait 2, max_iter": two(max_iter=2),
        "trait 1, many rows": one(data="5000 items"),
        "trait 1, stream": one(data="5000 items", source="stream"),
        **{f"items, {model}": fit_of("ItemResponse", data="items", model=model, used="all")
           for model in ("2PL", "1PL", "Rasch", "3PL")},
        "items, 2 factors": fit_of("ItemResponse", data="20 columns", n_factors=2, used="all"),
        "maps": fit_of("TraitMaps", data="20 columns", n_components=1, n_init=1, max_iter=60, used="all"),
        "curve": fit_of("CurvedTrait", data="20 columns", layer_sizes=(8,), n_nodes=6, n_epochs=3, used="all"),
    }  # fmt: skip


def clipped_gaussians() -> Cases:
    """Clipped Gaussians."""
    clipped = partial(fit_of, "ClippedGaussian")
    return {
        "clipped, components": clipped(extraction="components", used="all"),
        "clipped, factors": clipped(extraction="factors", used="all"),
        "clipped 5": clipped(data="20 columns", n_components=5),
        "clipped, parallel": clipped(n_components="parallel"),
        "clipped, positive": clipped(n_components="positive"),
        "clipped, digits": clipped(data="digits"),
        "clipped, holes": clipped(holes=True),
        "clipped, no bias": clipped(bias=False, used="all"),
        "clipped, no noise": clipped(noise="none", used="all"),
        "clipped, no noise, ep": clipped(noise="none", likelihood="ep"),
        "clipped, ep": clipped(likelihood="ep"),
        "clipped, repair": clipped(data="20 columns", repair=True),
        "clipped, no correction": clipped(correction=0.0),
        "clipped, wide": clipped(data="wide", used="all"),
        "clipped, wide, factors, holes": clipped(data="wide", extraction="factors", holes=True),
        "clipped, no pairs": clipped(keep_pairs=False),
        "clipped, few rows": clipped(data="12 rows"),
        "clipped, likelihood": clipped(n_components=1, learner="likelihood", max_iter=30),
        "clipped, likelihood, prior": clipped(learner="likelihood", weight_prior=2.0, holes=True, max_iter=10),
        "clipped, stream": clipped(data="40000 blobs", source="stream"),
        "clipped, moments": clipped(make=from_moments, used="all"),
        "clipped, moments, noise": clipped(make=partial(from_moments, n_components=2, noise="unique")),
    }


def machines() -> Cases:
    """Combination machines, by all learners."""
    three = partial(fit_of, "CombinationMachine", n_hidden=3)
    many = partial(fit_of, "CombinationMachine", n_epochs=4, recipe={"n_chains": 64}, annealing=(32, 100))
    real = partial(three, data="reals", kind="real")
    chains: dict[str, Any] = {"learner": "stochastic", "n_epochs": 10, "recipe": {"n_chains": 100}}
    return {
        "machine": three(used="all"),
        "machine, gradient": three(learner="gradient"),
        "machine, pursuit": three(learner="pursuit"),
        "machine, faithful": three(learner="pursuit", recipe="freund1994"),
        "machine, stochastic": three(**chains),
        "machine, real": real(),
        "machine, real, pursuit": real(learner="pursuit"),
        "machine, real, stochastic": real(**chains),
        "machine, real, holes": real(holes=True, n_epochs=5),
        "machine, real, far": three(data="far reals", kind="real", n_epochs=5, used="all"),
        "machine, no validation, no prior": three(validation_fraction=0.0, weight_prior=None, n_epochs=5),
        "machine, momentum": three(learner="gradient", recipe="freund1994", max_iter=40),
        "machine, holes": three(holes=True, n_epochs=10),
        "machine, holes, pursuit": three(holes=True, learner="pursuit"),
        "machine, holes, stochastic": three(holes=True, **chains),
        "machine 1": many(n_hidden=1, n_epochs=10),
        "machine, no input bias": three(input_bias=False, n_epochs=10),
        "machine, two active": three(n_hidden=5, max_active=2, learner="gradient", n_epochs=10),
        "machine 13, sampled": many(data="20 columns", n_hidden=13, n_epochs=1, max_iter=2),
        "machine 18": many(data="20 columns", n_hidden=18),
        "machine 24, annealed": many(data="26 columns", n_hidden=24, used="all"),
        "machine 24, annealed, holes": many(data="26 columns", n_hidden=24, holes=True),
        "machine 14, more than inputs": many(n_hidden=14, learner="gradient", n_epochs=2, max_iter=5),
        "machine, max_iter": three(max_iter=2, n_epochs=2),
        "machine, restarts": three(n_init=2, n_epochs=5, max_iter=20),
        "machine, stream": three(source="stream", n_epochs=5),
        "machine, disk, float64": three(source="disk", n_epochs=5, dtype="float64"),
        "machine, given": three(make=from_parameters),
        "machine, given, real": real(make=partial(from_parameters, kind="real")),
        "machine, estimated again": many(data="26 columns", make=estimated_again),
    }


def sparse_codes() -> Cases:
    """Binary sparse coding."""
    code = partial(fit_of, "BinarySparseCoding", data="sums", n_causes=8)
    given = partial(code, max_active=3, n_candidates=5, n_init=1)
    return {
        "code": code(used="all"),
        "code 14": code(n_causes=14, n_init=1, used="all"),
        "code, given size": given(n_init=2),
        "code, grows": code(max_active=5, n_candidates=7, n_init=1),
        "code, does not grow": code(max_active=5, n_candidates=7, grow=False, n_init=1),
        "code, exact": code(max_active=8, n_candidates=8, grow=False, n_init=1),
        "code, mean": given(recipe={"init": "mean", "init_scale": 1.0}),
        "code, data": given(recipe={"init": "data", "init_sparseness": 2.0}),
        "code, holes": given(holes=True, used="all"),
        "code, no cut": given(recipe={"cut": None}, max_iter=20),
        "code, cut": given(recipe={"cut": (5, 10), "ranking": "exact"}, max_iter=20),
        "code, paper": given(recipe={"temperature": 1.0, "parameter_noise": 0.0}),
        "code, kept": given(keep_components=True, max_iter=10),
        "code, max_iter": code(max_iter=2),
        "code, far": given(data="far sums", max_iter=10),
        "code, bits": given(data="bars", max_iter=20),
        "code, stream": given(source="stream", max_iter=20),
    }


def networks() -> Cases:
    """Noisy-OR networks."""
    one = partial(fit_of, "NoisyOrNetwork", data="bars", layer_sizes=(8,), n_updates=40)
    two = partial(one, layer_sizes=(8, 3))
    paper = {"schedule": "layers", "n_epochs": 5}
    many = partial(one, layer_sizes=(24,), n_updates=10, annealing=(16, 20))
    return {
        "network": one(n_updates=100, used="all"),
        "network, 2 layers": two(n_updates=70, used="all"),
        "network, paper": two(recipe=paper),
        "network, paper, stability": two(recipe=paper | {"schedule": "stability"}),
        "network, no bias": two(bias=False),
        "network, paper, no bias": two(recipe=paper, bias=False),
        "network, warm start": one(make=warm_start),
        "network, holes": one(holes=True),
        "network, chains": one(sampling=(3, 15)),
        "network, exact": one(recipe={"inference": "exact"}),
        "network, gibbs": two(recipe={"inference": "gibbs"}),
        "network, gibbs, batches": one(data="4500 bars", recipe={"inference": "gibbs"}, n_updates=20),
        "network, gamma prior": one(prior=(1.5, 1.5), leak=0.01),
        "network 24, annealed": many(used="all"),
        "network 24, annealed, holes": many(layer_sizes=(24, 4), holes=True),
        "network 24, restarts": many(n_init=2),
        "network, max_iter": two(max_iter=2),
        "network, stream": one(source="stream"),
        "network, disk": one(source="disk"),
    }


def others() -> Cases:
    """Comparisons, and the command line."""
    fitted = {
        "product": ("blobs", "--smoothing 0"),
        "latent-trait": ("items", "-k 1 --weight-prior 2 --items items.csv"),
        "item-response": ("items", "--weight-prior 2 --errors --items items.csv"),
        "clipped-gaussian": ("blobs", "-k parallel --extraction factors --correlations pairs.csv"),
        "combination-machine": ("blobs", "-k 3 --learner pursuit --items items.csv"),
        "binary-sparse-coding": ("sums", "-k 8 --max-active 3 --candidates 5 --init data --max-iter 15"),
        "noisy-or": ("bars", "--layers 6,2 --max-iter 20 --no-bias"),
    }
    written = {
        "latent-trait": ["items.csv"],
        "item-response": ["items.csv"],
        "clipped-gaussian": ["pairs.csv"],
        "combination-machine": ["items.csv"],
    }
    then = ["score model.safetensors holes.csv", "complete model.safetensors holes.csv -o filled.csv"]
    words = "fit rows.csv -m mixture -k 3 --init split --smoothing 0.5 --restarts 2 --seed 3"
    return {
        "compare": partial(compare_case, None),
        "compare, folds": partial(compare_case, 3),
        "tool, mixture": partial(tool_case, "blobs", words, ["filled.csv"], then),
        **{
            f"tool, {model}": partial(tool_case, data, f"fit rows.csv -m {model} {own}", written.get(model, []))
            for model, (data, own) in fitted.items()
        },
        "tool, compare": partial(tool_case, "blobs", "compare rows.csv --models mixture:2,latent-trait:1"),
    }


GROUPS: dict[str, Cases] = {
    group.__name__: group()
    for group in (machines, latent_traits, networks, others, clipped_gaussians, sparse_codes, simple)  # longest first
}


# ---------------------------------------------------------------- running


def run_group(group: str, prefixes: tuple[str, ...]) -> dict[str, Found]:
    """Digests of the cases of a group by name."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", folder)  # before JAX is imported
        for name, case in GROUPS[group].items():
            if name.startswith(prefixes):
                began = sum(os.times()[:4])
                found[name] = case()
                raised = [entry for entry, kept in found[name].items() if "raised" in kept]
                note = f", raised: {', '.join(raised)}" if raised else ""
                seconds = sum(os.times()[:4]) - began
                print(f"{seconds:6.1f} s  {name}: {len(found[name])} entries{note}", file=sys.stderr, flush=True)
    return found


def run_all(prefixes: tuple[str, ...], jobs: int) -> dict[str, Found]:
    """Digests of all cases by name, each group of them in a separate process."""
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        parts = pool.map(run_group, GROUPS, [prefixes] * len(GROUPS))
        return {name: found for part in parts for name, found in part.items()}


# ---------------------------------------------------------------- comparing


def numbers(values: list[Any]) -> np.ndarray:
    """Kept values as numbers; what is none, such as a word, fails."""
    return np.array(values, float)


def difference(a: dict[str, Any], b: dict[str, Any]) -> str:
    """How far two entries that differ are apart, in words."""
    for kept in (a, b):
        if "raised" in kept:
            return f"raises {kept['raised']!r}" if kept is b else f"raised {kept['raised']!r}"
    if a.get("shape") != b.get("shape"):
        return f"shape {a.get('shape')} and {b.get('shape')}"
    if a.get("dtype") != b.get("dtype"):
        return f"{a.get('dtype')} and {b.get('dtype')}"
    if "sha256" not in a:
        return f"{a.get('value')!r} and {b.get('value')!r}"
    try:
        x, y = numbers(a["values"]), numbers(b["values"])
    except KeyError:
        return "too large to say by how much"
    except (TypeError, ValueError):
        return "labels or words differ"
    apart = ~((x == y) | (np.isnan(x) & np.isnan(y)))
    if not apart.any():
        return "by the sign of a zero or the bits of a NaN"
    with np.errstate(invalid="ignore"):
        largest = np.max(np.abs(x[apart] - y[apart]))
    return f"by up to {largest:.3g}, {apart.sum()} of {len(x)} numbers"


def differing(a: Found, b: Found) -> dict[str, str]:
    """The entries of a case that are not the same, with what differs."""
    found = {}
    for name in dict.fromkeys([*a, *b]):
        if name not in a or name not in b:
            found[name] = "only in the second" if name in b else "only in the first"
        elif json.dumps(a[name]) != json.dumps(b[name]):  # as text, in which NaN equals NaN
            found[name] = difference(a[name], b[name])
    return found


def compare_files(first: Path, second: Path) -> int:
    """Print which cases are the same; 1 if any is not."""
    a, b = (json.loads(path.read_text()) for path in (first, second))
    if a["about"] != b["about"]:
        print(f"made with {a['about']} and {b['about']}")
    names, n_same = list(dict.fromkeys([*a["cases"], *b["cases"]])), 0
    width = max(map(len, names))
    for name in names:
        if name not in a["cases"] or name not in b["cases"]:
            print(f"{name:<{width}}  only in the {'second' if name in b['cases'] else 'first'} file")
            continue
        before = a["cases"][name]
        found = differing(before, b["cases"][name])
        n_same += not found
        state = f"{len(found)} entries differ, of {len(before)}" if found else f"same ({len(before)} entries)"
        print(f"{name:<{width}}  {state}")
        for entry, what in found.items():
            print(f"    {entry}: {what}")
    print(f"{n_same} of {len(names)} cases are the same")
    return int(n_same < len(names))


def about() -> dict[str, str]:
    """Versions of what computes."""
    import jax
    import scipy
    import sklearn

    libraries = {"jax": jax, "numpy": np, "scipy": scipy, "scikit-learn": sklearn}
    return {"python": sys.version.split()[0], **{name: library.__version__ for name, library in libraries.items()}}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path, nargs="?", help="where the digests go")
    parser.add_argument("--only", nargs="+", metavar="PREFIX", default=[""], help="cases whose names begin so")
    parser.add_argument("--jobs", type=int, default=2, help="processes at a time")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        return compare_files(*options.compare)
    if options.out is None:
        parser.error("say where the digests go, or --compare two files")
    import latentbits

    print(f"latentbits from {Path(latentbits.__file__).parent}", file=sys.stderr)
    began = time.perf_counter()
    found = run_all(tuple(options.only), options.jobs)
    options.out.write_text(json.dumps({"about": about(), "cases": found}))
    spent = os.times().children_user + os.times().children_system
    print(f"{len(found)} cases in {time.perf_counter() - began:.0f} s, {spent:.0f} s of all cores", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
