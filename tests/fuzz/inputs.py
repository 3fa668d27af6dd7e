"""Tables of all kinds through every method of every estimator: a result of what the table means, or a refusal."""

from __future__ import annotations

from typing import Any

import numpy as np
from tests.fuzz.models import BITS, LIGHT, REALS, new_model
from tests.fuzz.tables import FORMATS, held_table, odd_table, some_bits, some_reals, to_file
from tests.fuzz.verdict import Case, Fault, attempt

__all__ = ["run"]


def run(case: Case) -> str:
    way = case.pick("held", "held", "odd", "odd", "file", "face")
    return {"held": _held, "odd": _odd, "file": _file, "face": _face}[way](case)


def _held(case: Case) -> str:
    """A table whose meaning is known, in some holder: shares of ones are those of the truth."""
    truth = some_bits(case)
    held = held_table(case, truth)
    case.say(f"bits {truth.shape} as {held.what}")
    return _means_agree(case, held.X, truth)


def _file(case: Case) -> str:
    """The same through a file, written by others: `read` gives the numbers that were written."""
    import latentbits

    real = case.chance(0.4)
    truth = some_reals(case, missing=case.pick(0.0, 0.1)) if real else some_bits(case)
    suffix = case.pick(*FORMATS)
    if suffix in (".csv", ".tsv", ".pandas.csv", ".csv.gz") and np.isnan(truth).all():
        truth[0, 0] = 1  # a line of nothing but marks may be taken for a header, rightly
    path = to_file(case, truth, suffix)
    table = attempt(case, "read", lambda: latentbits.read(path))
    if table is None:
        return "refused"
    values = table.values.toarray() if hasattr(table.values, "toarray") else np.asarray(table.values, float)
    if values.shape != truth.shape:
        raise Fault(f"a table of {truth.shape}", f"one of {values.shape}")
    if not np.array_equal(values, truth, equal_nan=True) and not np.allclose(
        values, truth, rtol=2e-7, atol=0, equal_nan=True
    ):
        raise Fault("the numbers that were written", f"others, e.g. {values[:1]} for {truth[:1]}")
    return "result" if real else _means_agree(case, table.values, truth)


def _means_agree(case: Case, X: Any, truth: np.ndarray) -> str:
    model = attempt(case, "BernoulliProduct(smoothing=0).fit", lambda: new_model("product", smoothing=0.0).fit(X))
    if model is None:
        return "refused"
    seen = ~np.isnan(truth)
    count = seen.sum(0)
    share = np.where(seen, truth, 0).sum(0) / np.maximum(count, 1)
    known = count > 0
    if len(model.means_) != truth.shape[1]:
        raise Fault(f"{truth.shape[1]} columns", f"{len(model.means_)}")
    if not np.allclose(model.means_[known], share[known], atol=1e-6):
        raise Fault(f"shares of ones {share}", f"{model.means_}")
    return "result"


def _odd(case: Case) -> str:
    """What is no table of bits: refused, or a result that holds together."""
    held = odd_table(case)
    name = case.pick(*(LIGHT if case.light else (*BITS, *REALS)))
    binarize = case.pick(None, None, 0.5)
    case.say(f"{held.what} for {name}, binarize={binarize}")
    model = attempt(case, "fit", lambda: new_model(name, binarize=binarize).fit(held.X), also=(ArithmeticError,))
    if model is None:
        return "refused"
    if _is_once(held.what):
        return "result"
    return _use(case, name, model, held.X, None)


def _is_once(what: str) -> bool:
    return what in ("an iterator", "a generator")


def _face(case: Case) -> str:
    """Every method, on a table that suits."""
    name = case.pick(*(LIGHT if case.light else (*BITS, *REALS)))
    real = name in REALS
    truth = some_reals(case, missing=case.pick(0.0, 0.2)) if real else some_bits(case)
    if real and case.chance(0.3):
        truth = truth[: case.pick(1, 2, 7)]
    if real and case.chance(0.2):
        truth[:, 0] = case.pick(0.0, 1.0, 1e6)
    dtype = case.pick("float32", "float32", "float64")
    held = held_table(case, truth) if not real else None
    X = truth if held is None else held.X
    case.say(f"{truth.shape} {'reals' if real else held and held.what} for {name}, {dtype}")
    model = attempt(case, "fit", lambda: new_model(name, dtype=dtype).fit(X), also=(ArithmeticError,))
    if model is None:
        return "refused"
    return _use(case, name, model, X, truth)


def _use(case: Case, name: str, model: Any, X: Any, truth: np.ndarray | None) -> str:
    import latentbits

    scores = attempt(case, "score_samples", lambda: model.score_samples(X))
    if scores is None:
        return "refused"
    impossible = name == "clipped Gaussian without noise"
    bad = np.isnan(scores) | (np.isposinf(scores)) | (np.isneginf(scores) & (not impossible))
    if bad.any():
        raise Fault("finite log-likelihoods", f"{scores[bad][:3]} in rows {np.flatnonzero(bad)[:3]}")
    if not model.real_valued and name not in REALS and (scores > 1e-3).any():
        raise Fault("log-probabilities of at most 0", f"{scores.max()}")
    latents = attempt(case, "transform", lambda: model.transform(X))
    if latents is not None and not np.isfinite(latents).all():
        raise Fault("finite latents", f"{int((~np.isfinite(latents)).sum())} that are not")
    filled = attempt(case, "complete", lambda: model.complete(X))
    if filled is not None and truth is not None and name not in REALS:
        values = np.asarray(filled, float)
        seen = ~np.isnan(truth)
        if values.shape != truth.shape or not np.allclose(values[seen], truth[seen]):
            raise Fault("observed bits as they were", "others")
        if not ((values >= -1e-6) & (values <= 1 + 1e-6)).all():
            raise Fault("probabilities", f"{values.min()} to {values.max()}")
    drawn = attempt(case, "sample", lambda: model.sample(3, random_state=0))
    if drawn is not None and (drawn.shape[0] != 3 or drawn.shape[1] != model.n_features_in_):
        raise Fault("3 rows", f"{drawn.shape}")
    if drawn is not None and np.asarray(drawn).dtype.kind == "f" and np.isinf(drawn).any():
        raise Fault("finite samples", "infinite ones")
    path = case.folder / "m.safetensors"
    saved = attempt(case, "save", lambda: (model.save(path), True)[1])
    if saved:
        case.say("load")
        again = latentbits.load(path)  # what was saved must load
        if not np.array_equal(again.score_samples(X), scores, equal_nan=True):
            raise Fault("the same scores from the file", "others")
    return "warned" if case.warned else "result"
