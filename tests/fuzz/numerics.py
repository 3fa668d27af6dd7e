"""Numbers against float64 brute force: no silent difference, wherever the data lie and however they are held."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.fuzz.brute import answers, states_of
from tests.fuzz.models import BITS, LIGHT, REALS, new_model
from tests.fuzz.tables import some_bits, some_reals, to_file
from tests.fuzz.verdict import Case, Fault, attempt

__all__ = ["run"]

NATS = 1e-3  # what a log-likelihood may be off by, and a probability
STATED = 10.0  # as a multiple of the error that is stated
DIGITS = 1e-5  # or so much of the number itself: rows are computed in float32, and terms are larger than their sum
SUMMED = ("product", "mixture", "mixture by splitting", "sparse coding")  # fits that no engine may change
# EP's posteriors are documented as approximate; without noise a row is a cell, and a grid does not see it
ROUGH, CELLS = "clipped Gaussian", "clipped Gaussian without noise"


def run(case: Case) -> str:
    way = "bits" if case.light else case.pick("bits", "bits", "reals", "reals", "file", "engines")
    return {"bits": _bits, "reals": _reals, "file": _file, "engines": _engines}[way](case)


def _bits(case: Case) -> str:
    name = case.pick(*(LIGHT if case.light else [n for n in BITS if n != CELLS]))
    X = some_bits(case, n=case.pick(7, 40, 60), d=5)
    if case.chance(0.3):
        X[:, 0] = 0
        X[0, 0] = 1  # a rare bit
    options: dict[str, Any] = {"dtype": case.pick("float32", "float32", "float64")}
    if name.startswith(("product", "mixture")):
        options["smoothing"] = case.pick(0.0, 1e-9, 1.0)
    case.say(f"{X.shape} bits for {name}, {options}")
    model = attempt(case, "fit", lambda: new_model(name, **options).fit(X), also=(ArithmeticError,))
    if model is None:
        return "refused"
    others = (case.rng.random((8, 5)) < 0.5).astype(float)
    others[case.rng.random(others.shape) < 0.2] = np.nan
    rows = np.vstack([X, others])
    return _compare(case, name, model, rows, rows, np.ones(5))


def _somewhere(case: Case) -> tuple[np.ndarray, float]:
    """Reals at some offset and of some scale, and that scale."""
    scale = 10.0 ** case.pick(0, 0, 0, -6, -3, -2, 2, 6)
    offset = case.pick(0.0, 0.0, 10.0, 300.0, 1e4, 3e4, 1e6, 1e9)
    case.say(f"offset {offset:g}, scale {scale:g}")
    return offset + scale * some_reals(case, missing=case.pick(0.0, 0.0, 0.2)), scale


def _reals(case: Case) -> str:
    name = case.pick(*REALS)
    X, scale = _somewhere(case)
    dtype = case.pick("float32", "float32", "float64")
    case.say(f"{name}, {dtype}")
    model = attempt(case, "fit", lambda: new_model(name, dtype=dtype).fit(X), also=(ArithmeticError,))
    if model is None:
        return "refused"
    return _compare(case, name, model, X, X, np.full(X.shape[1], scale))


def _file(case: Case) -> str:
    """The same through a file: what `read` gives, and what a model then says, is of the numbers that were written."""
    import latentbits

    X, scale = _somewhere(case)
    if case.chance(0.2):
        X[:, 0] = np.arange(len(X)) + 1.7e9  # the time, in seconds
    suffix = case.pick(".csv", ".tsv", ".csv.gz", ".npy", ".npz", ".parquet", ".zarr")
    path = to_file(case, X, suffix)
    mmap = {"mmap": True} if suffix == ".npy" and case.chance(0.5) else {}
    table = attempt(case, f"read {mmap}", lambda: latentbits.read(path, **mmap))
    if table is None:
        return "refused"
    values = np.asarray(table.values, float)
    if values.shape != X.shape:
        raise Fault(f"a table of {X.shape}", f"one of {values.shape}")
    off = np.nanmax(np.abs(values - X), axis=0) / np.nanstd(X, axis=0)
    if (np.isnan(values) != np.isnan(X)).any() or ((off > NATS).any() and not case.warned_of_numbers):
        raise Fault(f"numbers within {NATS} of their standard deviation", f"off by {off} of it, without a warning")
    name = case.pick("sparse coding", "combination machine of reals")
    case.say(name)
    model = attempt(case, "fit", lambda: new_model(name).fit(table.values), also=(ArithmeticError,))
    if model is None:
        return "refused"
    return _compare(case, name, model, table.values, X, np.full(X.shape[1], scale))


def _compare(case: Case, name: str, model: Any, given: Any, X: np.ndarray, scale: np.ndarray) -> str:
    """What the model says of `given` against sums in float64 over X, which is the same table."""
    with np.errstate(divide="ignore", invalid="ignore"):
        states = states_of(model)
        true = answers(states, X)
    found = attempt(case, "log_likelihoods", lambda: model.log_likelihoods(given))
    if found is None:
        return "refused"
    value = np.asarray(found.value, np.float64)
    stated = np.asarray(found.error, np.float64) + float(np.max(found.common_error))
    slack = _float64_slack(states, X)
    allowed = np.maximum(np.maximum(NATS, STATED * np.nan_to_num(stated)), DIGITS * np.abs(true.log_likelihood)) + slack
    _within(case, "log p(x)", value, true.log_likelihood, allowed)
    total = attempt(case, "score", lambda: model.score(given))
    if total is not None:
        _within(case, "score", np.array([total]), true.log_likelihood.mean()[None], np.max(allowed)[None])
    if name in (ROUGH, CELLS):
        return "warned" if case.warned else "result"
    near = np.maximum(NATS, STATED * np.nan_to_num(stated)) + slack  # a quadrature errs in both by as much
    latents = attempt(case, "transform", lambda: model.transform(given))
    if latents is not None and latents.shape[1]:
        _within(case, "posterior means", latents, true.latents, near[:, None])
    filled = attempt(case, "complete", lambda: model.complete(given))
    if filled is not None:
        hole = np.isnan(X)
        width = scale if states.std is None else np.maximum(scale, states.std)  # beyond noise no digit means a thing
        allowed = near[:, None] * width + DIGITS * np.abs(true.filled)
        _within(case, "completion", np.asarray(filled, float)[hole], true.filled[hole], allowed[hole])
    return "warned" if case.warned else "result"


def _float64_slack(states: Any, X: np.ndarray) -> np.ndarray:
    """What float64 itself loses in the squares of a row, (n,): the sums here are no better."""
    if states.mean is None:
        return np.zeros(len(X))
    size = np.nanmax(np.abs(X), axis=1, initial=0) + np.abs(states.mean).max()
    away = np.nanmax(np.abs(X[:, None] - states.mean[None, :64]) / states.std, axis=(1, 2), initial=0)
    return 16 * X.shape[1] * np.finfo(float).eps * size / states.std.min() * (1 + away)


def _within(case: Case, what: str, found: np.ndarray, true: np.ndarray, allowed: np.ndarray) -> None:
    with np.errstate(invalid="ignore"):
        off = np.abs(found - true)
    allowed = np.broadcast_to(allowed, off.shape)
    bad = ~((off <= allowed) | (found == true))
    if bad.any() and not case.warned_of_numbers:
        worst = np.unravel_index(np.argmax(np.where(bad, np.nan_to_num(off, nan=np.inf), 0)), off.shape)
        raise Fault(
            f"{what} {true[worst]:.8g} (float64, all states)",
            f"{found[worst]:.8g} at {[int(i) for i in worst]}; {bad.sum()} of {bad.size} beyond {allowed[worst]:.2g}",
        )


def _engines(case: Case) -> str:
    """The same table in memory, as a stream and as a memory map: one answer."""
    name = case.pick(*SUMMED, "latent trait", "clipped Gaussian", "combination machine", "noisy OR")
    X = some_reals(case, missing=case.pick(0.0, 0.1)) if name in REALS else some_bits(case, n=60, d=5)
    path = case.folder / "map.npy"
    np.save(path, X)
    step = case.pick(1, 7, 59)
    ways = {
        "a stream": lambda: (X[i : i + step] for i in range(0, len(X), step)),
        "a memory map": np.load(path, mmap_mode="r"),
    }
    case.say(f"{name}, blocks of {step}")
    model = attempt(case, "fit in memory", lambda: new_model(name).fit(X), also=(ArithmeticError,))
    if model is None:
        return "refused"
    scores = model.score_samples(X)
    for way, held in ways.items():
        again = attempt(case, f"score of {way}", lambda held=held: model.score_samples(held))
        if again is None:
            raise Fault(f"scores of {way}", "a refusal")
        if not np.allclose(again, scores, rtol=1e-6, atol=1e-6):
            raise Fault(f"the scores of memory from {way}", f"up to {np.abs(again - scores).max():.2g} nats off")
        if name in SUMMED:
            other = attempt(case, f"fit of {way}", lambda held=held: new_model(name).fit(held))
            if other is None:
                raise Fault(f"a fit of {way}", "a refusal")
            if not np.allclose(other.score_samples(X), scores, rtol=1e-5, atol=1e-5):
                off = np.abs(other.score_samples(X) - scores).max()
                raise Fault(f"the fit of memory from {way}", f"one whose scores are up to {off:.2g} nats off")
    return "warned" if case.warned else "result"
