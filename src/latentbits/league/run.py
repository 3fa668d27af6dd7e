"""Running the league: each family climbs its ladder on each set, what it chose is tested once, and all are stacked.

Below the folder of a run every set has a folder, and in it every entry has one:

    <set>/<entry>/<settings>.json         one for each fit: what it was worth on validation rows, and how it went
    <set>/<entry>/<settings>.safetensors  of the best so far: the model, and
    <set>/<entry>/<settings>.npz          log p(x) of the validation rows
    <set>/<entry>/chosen.json, rows.npz   of the one that was chosen: also its test rows
    <set>/results.json                    all entries and their stack

Each is written whole or not at all, as soon as it is known, so that the same command goes on after a kill.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.choosing.climb import LEAST_FIT_SECONDS, LEAST_SCORING_SECONDS, Place, next_places
from latentbits.core.atomic import write_atomically
from latentbits.core.errors import OutOfTimeError
from latentbits.core.version import __version__
from latentbits.league.entries import ENTRIES, Entry, entry
from latentbits.league.sets import LearningRows, learning_rows, test_rows
from latentbits.papers.side_by_side import Ended, Work, in_processes, processes, say_there

__all__ = ["Plan", "finish", "in_words", "league", "run_entry", "value_in_words"]

Say = Callable[[str, str], None]


class Plan(NamedTuple):
    """The order for one set: its name, the folder, seconds for each entry, and the seed of all fits."""

    name: str
    out: Path
    budget: float
    seed: int

    @property
    def folder(self) -> Path:
        return self.out / self.name


def league(
    sets: Sequence[str],
    entries: Sequence[str],
    out: Path,
    *,
    budget: float = 300.0,
    seed: int = 0,
    jobs: int | None = None,
    say: Say | None = None,
) -> Ended:
    """Run entries on sets; what is in the folder already is not done again.

    Parameters
    ----------
    sets, entries
        Their names.
    out
        The folder of the run, made if need be.
    budget
        Seconds that an entry may take on a set, compiling included.  The fit under way then ends, and counts as
        cut off.  Test rows are scored in addition.
    seed
        Of all fits.
    jobs
        Entries at a time, each in a process with its share of the cores; 1 does all in this process, None
        takes as many as there are cores.
    say
        Called with the name of a set and a line whenever there is news.

    Returns
    -------
    Ended
        By set: what its ``results.json`` holds; and the errors of sets that could not be had.
    """
    tell: Say = say or (lambda name, text: None)
    plans = {name: Plan(name, out, budget, seed) for name in sets}
    jobs = processes() if jobs is None else jobs
    if jobs > 1:
        work = {
            name: Work(partial(_trials, plan, tuple(entries), say_there), partial(finish, plan))
            for name, plan in plans.items()
        }
        return in_processes(work, jobs, tell, accelerated=True)
    ended = Ended({}, {})
    for name, plan in plans.items():
        try:
            for trial in _trials(plan, entries, tell):
                trial()
            ended.results[name] = finish(plan)
        except Exception as error:
            ended.failed[name] = error
            tell(name, f"failed: {error}")
    return ended


def _trials(plan: Plan, entries: Sequence[str], say: Say) -> list[Callable[[], None]]:
    """Make one trial for each entry; raise here where the set cannot be had."""
    learning_rows(plan.name)
    return [partial(run_entry, plan, name, say) for name in entries]


# --- one entry on one set ---


class Tried(NamedTuple):
    """A fit: its record, and, if it was made just now, the model and log p(x) of the validation rows."""

    record: dict[str, Any]
    model: Any = None
    valid: np.ndarray | None = None

    @property
    def worth(self) -> float:
        """Nats per validation row; -inf of what failed."""
        value = self.record["valid"]
        return -np.inf if value is None else float(value)


def run_entry(plan: Plan, name: str, say: Say) -> None:
    """Climb the ladder of an entry on a set, and test what was chosen; all of it goes into files."""
    one, rows = entry(name), learning_rows(plan.name)
    folder = plan.folder / name
    folder.mkdir(parents=True, exist_ok=True)
    best, found = _climb(plan, one, rows, folder, lambda text: say(plan.name, f"{one.name}: {text}"))
    found = {**_asked(plan, rows.digest), "entry": name, **found}
    before = _read(folder / "chosen.json")
    if best is None:
        _write(folder / "chosen.json", found)
    elif before is None or any(before.get(key) != found[key] for key in (*_asked(plan, ""), "settings", "valid")):
        _write(folder / "chosen.json", {**found, **_test(plan, best, folder)})
    else:
        _write(folder / "chosen.json", {**before, **found})


def _climb(
    plan: Plan, one: Entry, rows: LearningRows, folder: Path, say: Callable[[str], None]
) -> tuple[Tried | None, dict[str, Any]]:
    """Climb to the best on validation rows, and sum up all fits; None where nothing could be fitted."""
    axes = one.axes_for(rows.train.shape[1])
    same = {**_asked(plan, rows.digest), "fixed": dict(one.settings), "held_out": one.held_out}
    tried: dict[Place, Tried] = {}
    best: Tried | None = None
    spent, cut = 0.0, ""
    while places := next_places(axes, {at: fit.worth for at, fit in tried.items()}):
        place = places[0]
        settings = {axis.name: axis.values[number] for axis, number in zip(axes, place)}
        path = folder / f"{_file_name(settings, same)}.json"
        left = plan.budget - spent
        limit = max(LEAST_FIT_SECONDS, 0.7 * left)  # the fit is to be scored, too, and others may follow
        kept = _read(path)
        if kept is not None and _stands(kept, limit):
            fit = Tried(kept)
        else:
            longest = max((fit.record["seconds"] for fit in tried.values()), default=0.0)
            if tried and left < max(LEAST_FIT_SECONDS, 0.5 * longest):  # what comes next is no faster
                cut = f"{in_words(settings)} was not tried: {max(left, 0):.0f} of {plan.budget:.0f} s were left"
                say(cut)
                break
            say(f"{in_words(settings)} ...")
            fit = _attempt(one, settings, rows, limit, plan.seed)
            fit.record.update(set=plan.name, entry=one.name, **same)
            if kept is not None and Tried(kept).worth >= fit.worth:  # more time was of no use
                fit = Tried({**kept, "limit": fit.record["limit"], "seconds": fit.record["seconds"]})
            _keep(fit, path, best)
            say(f"{in_words(settings)}: {_outcome(fit, best)}")
        spent += fit.record["seconds"]
        tried[place] = fit
        if fit.worth > (-np.inf if best is None else best.worth):
            best = fit
    found = {
        "fits": len(tried),
        "seconds": round(spent, 1),
        "cut": cut,
        "failed": {in_words(f.record["settings"]): f.record["failed"] for f in tried.values() if f.record["failed"]},
    }
    return best, found if best is None else {**found, **_of_chosen(best.record)}


def _of_chosen(record: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("settings", "valid", "valid_error", "n_iter", "stop_reason", "converged", "warnings", "machine", "file")
    return {key: record[key] for key in keys}


def _stands(record: Mapping[str, Any], limit: float) -> bool:
    """Say whether a fit stands: one that failed may do so by chance, or for want of time."""
    return limit < 1.5 * record["limit"] if record["cut_off"] else not record["failed"]


def _attempt(one: Entry, settings: Mapping[str, Any], rows: LearningRows, limit: float, seed: int) -> Tried:
    """Make one fit, and score it on validation rows."""
    from latentbits.papers.pages import machine

    where = machine()  # and JAX is imported
    began = time.perf_counter()
    model, valid, failed, out_of_time = None, None, "", False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model, valid, error = _fit(one, settings, rows, limit, seed)
        except Exception as problem:  # of one setting: others may do, and the record says so
            failed, error = f"{type(problem).__name__}: {' '.join(str(problem).split())[:300]}", 0.0
            out_of_time = isinstance(problem, OutOfTimeError)
    mean = None if valid is None or not np.isfinite(valid).all() else float(valid.mean())
    stop = getattr(model, "stop_reason_", "")
    record = {
        "settings": settings,
        "valid": mean,
        "valid_error": None if valid is None or mean is None else _error(valid, error),
        "valid_common": error,
        "seconds": round(time.perf_counter() - began, 2),
        "limit": round(limit, 2),
        "n_iter": getattr(model, "n_iter_", None),
        "stop_reason": stop,
        "converged": bool(getattr(model, "converged_", False)),
        "cut_off": out_of_time or stop == "max_time",
        "failed": failed or ("" if mean is not None else "a validation row has no finite log-likelihood"),
        "warnings": list(dict.fromkeys(str(one.message) for one in caught if _is_kept(one.category))),
        "machine": where,
    }
    return Tried(json.loads(json.dumps(record)), model, valid)


def _fit(
    one: Entry, settings: Mapping[str, Any], rows: LearningRows, limit: float, seed: int
) -> tuple[Any, np.ndarray, float]:
    from latentbits.core.limits import within

    model = one.new(settings).set_params(random_state=seed, max_time=limit)
    model.fit(rows.train, **({"X_val": rows.valid} if one.held_out else {}))
    if model.stop_reason_ == "interrupted":
        raise KeyboardInterrupt  # a fit that is cut short by hand says nothing of its setting
    with within(max(limit, LEAST_SCORING_SECONDS), f"scoring {len(rows.valid)} rows"):
        return model, *_scored(model, rows.valid)


def _scored(model: Any, X: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute log p(x) of each row in nats, and the error of their mean as a sum of estimates."""
    from latentbits.choosing.compare import score_rows

    bits, error = score_rows(model, X)
    return -np.log(2) * bits, np.log(2) * error


def _error(rows: np.ndarray, common: float) -> float:
    from latentbits.reports.comparison import standard_error

    return float(np.hypot(standard_error(rows), common))


def _is_kept(category: type[Warning]) -> bool:
    from sklearn.exceptions import ConvergenceWarning

    return not issubclass(category, ConvergenceWarning)  # stop_reason says so


def _keep(fit: Tried, path: Path, best: Tried | None) -> None:
    """Write a fit: if it is the best so far, its model and rows first, in place of those of the best before."""
    fit.record["file"] = path.stem
    better = fit.model is not None and fit.worth > (-np.inf if best is None else best.worth)
    if better:
        fit.model.save(path.with_suffix(".safetensors"))
        _save_rows(path.with_suffix(".npz"), valid=fit.valid)
    _write(path, fit.record)
    if better and best is not None and best.record["file"] != path.stem:
        for suffix in (".safetensors", ".npz"):
            path.with_name(best.record["file"] + suffix).unlink(missing_ok=True)


def _test(plan: Plan, best: Tried, folder: Path) -> dict[str, Any]:
    """Score the test rows under what was chosen."""
    from latentbits.estimators.files import load

    stored = folder / best.record["file"]
    if best.model is None and not stored.with_suffix(".safetensors").exists():
        raise FileNotFoundError(f"{stored}.safetensors is gone: delete the folder {folder}, and run again")
    model = load(stored.with_suffix(".safetensors")) if best.model is None else best.model
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # as of the validation rows, whose warnings are kept
        test, common = _scored(model, test_rows(plan.name))
    with np.load(stored.with_suffix(".npz")) as kept:
        valid = kept["valid"]
    _save_rows(folder / "rows.npz", valid=valid, test=test, common=np.float64(common))
    return {
        "test": float(test.mean()) if np.isfinite(test).all() else None,
        "test_error": _error(test, common),
        "scoring_seconds": round(time.perf_counter() - began, 2),
    }


# --- one set ---


def finish(plan: Plan) -> dict[str, Any]:
    """Write ``results.json`` of a set: all entries that were run with this seed on these rows, and their stack."""
    rows = learning_rows(plan.name)
    asked = _asked(plan, rows.digest)
    found = {one.name: _read(plan.folder / one.name / "chosen.json") for one in ENTRIES}
    entries = {
        name: {key: value for key, value in one.items() if key not in (*asked, "entry", "file")}
        for name, one in found.items()
        if one is not None and all(one.get(key) == value for key, value in asked.items())
    }
    results = {
        "set": plan.name,
        "columns": int(rows.train.shape[1]),
        "rows": {"train": len(rows.train), "valid": len(rows.valid), "test": len(test_rows(plan.name))},
        "budget": plan.budget,
        **asked,
        "entries": entries,
        "stack": _stacked(plan, [name for name, one in entries.items() if one.get("test") is not None]),
    }
    plan.folder.mkdir(parents=True, exist_ok=True)
    _write(plan.folder / "results.json", results)
    return results


def _stacked(plan: Plan, names: Sequence[str]) -> dict[str, Any] | None:
    """Stack what the entries chose, with weights that validation rows chose; None for fewer than two."""
    from latentbits.choosing.stack import log_mixture, stack

    if len(names) < 2:
        return None
    kept = {}
    for name in names:
        with np.load(plan.folder / name / "rows.npz") as file:
            kept[name] = {key: file[key] for key in ("valid", "test", "common")}
    valid, test = (np.stack([one[part] for one in kept.values()], axis=1) for part in ("valid", "test"))
    found = stack(valid)
    scored = log_mixture(test, found.weights)
    common = np.sqrt(np.sum((found.weights * [one["common"] for one in kept.values()]) ** 2))
    return {
        "weights": {name: weight for name, weight in zip(names, found.weights.tolist()) if weight > 0},
        "valid": found.log_likelihood,
        "test": float(scored.mean()),
        "test_error": _error(scored, float(common)),
    }


# --- files and words ---


def _asked(plan: Plan, digest: str) -> dict[str, Any]:
    """List what decides how a fit comes out, beside its settings."""
    return {"latentbits": __version__, "seed": plan.seed, "digest": digest}


def _file_name(settings: Mapping[str, Any], asked: Mapping[str, Any]) -> str:
    words = "_".join(f"{key}-{value}" for key, value in settings.items())
    words = "".join(sign for sign in words.replace(".", "p") if sign.isalnum() or sign in "-_")
    return f"{words}-{hashlib.sha256(json.dumps([settings, asked], sort_keys=True).encode()).hexdigest()[:12]}"


def in_words(settings: Mapping[str, Any]) -> str:
    """Write settings for people.

    >>> in_words({"n_states": 12, "smoothing": 1.0, "layer_sizes": (8,)})
    'n_states 12, smoothing 1, layer_sizes 8'
    """
    return ", ".join(f"{key} {value_in_words(value)}" for key, value in settings.items())


def value_in_words(value: Any) -> str:
    """Write one of them; layers with a dash between."""
    if isinstance(value, list | tuple):
        return "-".join(map(value_in_words, value))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _outcome(fit: Tried, best: Tried | None) -> str:
    record = fit.record
    if record["failed"]:
        return f"failed after {record['seconds']:.0f} s: {record['failed']}"
    ahead = best is None or fit.worth > best.worth
    how = "cut off by the budget" if record["cut_off"] else f"ended: {record['stop_reason']}"
    return f"{fit.worth:.4f} nats per validation row{', the best so far' * ahead} ({record['seconds']:.1f} s, {how})"


def _read(path: Path) -> dict[str, Any] | None:
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _write(path: Path, found: Mapping[str, Any]) -> None:
    with write_atomically(path) as file:
        file.write((json.dumps(found, indent=1) + "\n").encode())


def _save_rows(path: Path, **arrays: Any) -> None:
    with write_atomically(path) as file:
        np.savez_compressed(file, **arrays)
