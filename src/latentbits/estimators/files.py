"""Model files: safetensors, with all that is not an array as JSON in the metadata.

Loading reads numbers and JSON and nothing else: no pickle, no import by name, no code.  The contents of a file are
checked against what the class would have written, and the work it asks for is bounded.  A checksum shows a damaged or
edited file; since anyone can make one, nothing relies on it.
"""

from __future__ import annotations

import dataclasses
import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save as to_bytes

from latentbits.core.atomic import write_atomically
from latentbits.core.errors import ModelFileError, did_you_mean_file
from latentbits.core.model import Measure, Stop
from latentbits.core.tree_serialization import digest
from latentbits.core.version import __version__
from latentbits.estimators.families import families
from latentbits.estimators.family_record import Family
from latentbits.estimators.history import history_table, stages_of

if TYPE_CHECKING:
    from latentbits.estimators.base import LatentModel

__all__ = ["check", "check_numbers", "load", "plain", "save"]

FORMAT = "latentbits-model"
FORMAT_VERSION = 1
FIELDS = (
    "format", "format_version", "library_version", "class", "hyperparameters", "n_features", "feature_names", "n_iter",
    "stop_reason", "objective", "left_to_gain", "n_rows", "stages", "extra",
)  # fmt: skip
LARGEST_WHOLE = 2**63 - 1
TABLES = (".csv", ".tsv", ".txt", ".npy", ".npz", ".parquet", ".zarr", ".h5ad")


def save(estimator: LatentModel, path: str | PathLike[str]) -> None:
    """Write a fitted estimator; see `LatentModel.save`."""
    header, tensors = _described(estimator)
    _check_work(estimator)
    header["sha256"] = digest(header, tensors)
    with write_atomically(path) as file:
        file.write(to_bytes(tensors, metadata={"latentbits": json.dumps(header)}))


def check(estimator: LatentModel) -> None:
    """Check a fitted estimator as `load` would: parts of it came from a checkpoint file."""
    _history(_described(estimator)[1])
    _check(_flatten(estimator.params_), estimator)


def check_numbers(estimator: LatentModel, params: Any) -> None:
    """Check parameters of an unfinished fit for numbers that a file may have.

    A scalar, such as log Z, may not be known yet.
    """
    for place, leaf in jax.tree_util.tree_leaves_with_path(params):
        name, array = getattr(place[0], "name", "") if place else "", np.asarray(leaf)
        if array.dtype.kind == "f" and array.dtype != np.float64:
            raise ModelFileError(f"parameter {name!r} must be float64, found {array.dtype}")
        if array.ndim:
            _check_finite(name, array, estimator)


def _described(estimator: LatentModel) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Make the header of a file, without its checksum, and the tensors."""
    tensors = {f"params.{name}": array for name, array in _flatten(estimator.params_).items()}
    tensors["history"] = np.array(estimator.history_table_["objective"])
    names = getattr(estimator, "feature_names_in_", None)
    header = {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "library_version": __version__,
        "class": type(estimator).__name__,
        "hyperparameters": {k: plain(k, v) for k, v in estimator.get_params(deep=False).items()},
        "n_features": int(estimator.n_features_in_),
        "feature_names": None if names is None else [str(name) for name in names],
        "n_iter": int(estimator.n_iter_),
        "stop_reason": estimator.stop_reason_,
        "objective": None if math.isnan(estimator.objective_) else estimator.objective_,
        "left_to_gain": None if math.isnan(estimator.left_to_gain_) else estimator.left_to_gain_,
        "n_rows": None if math.isnan(estimator.n_rows_) else estimator.n_rows_,
        "stages": [list(stage) for stage in stages_of(estimator.history_table_)],
        "extra": estimator._extra(),
    }
    _check_header(header)  # nothing is written that could not be loaded
    return header, tensors


def load(path: str | PathLike[str]) -> Any:
    """Read an estimator that was written by its `save`.

    Nothing in the file is executed.  A file that is truncated, was tampered with, or is no latentbits model raises
    `latentbits.core.errors.ModelFileError`.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    The fitted estimator, equal bit for bit to the one that was saved.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no model file {path}.{did_you_mean_file(path)}")
    if path.is_dir():
        raise ModelFileError(f"{path} is a folder, not a model file")
    header, tensors = _read(path)
    try:
        return _rebuild(header, tensors)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}") from error
    except (
        KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError, RecursionError, MemoryError,
    ) as error:  # fmt: skip
        raise ModelFileError(f"{path}: the file does not describe a valid model ({error})") from error


def _read(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    try:
        with safe_open(path, framework="numpy") as file:
            text = (file.metadata() or {}).get("latentbits")
            if text is None:
                raise ModelFileError(f"{path} is a safetensors file, but not one that latentbits wrote")
            header = json.loads(text)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (
        SafetensorError,
        OSError,
        ValueError,
        TypeError,
        KeyError,
        AttributeError,
        RecursionError,
        MemoryError,
    ) as error:
        if isinstance(error, ModelFileError):
            raise
        if path.suffix.lower() in TABLES:
            raise ModelFileError(f"{path} is by its name a table, and no model that was saved") from error
        raise ModelFileError(f"{path} is no readable model file: truncated, damaged or foreign ({error})") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is a safetensors file, but not one that latentbits wrote")
    return header, tensors


def _rebuild(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> LatentModel:
    version: Any = header.get("format_version")
    if not _is_whole(version) or version != FORMAT_VERSION:
        raise ModelFileError(
            f"format version {version!r} (written by latentbits {header.get('library_version')}); "
            f"this latentbits {__version__} reads version {FORMAT_VERSION}"
        )
    # the header, by its checksum and field by field
    claimed = header.pop("sha256", None)
    if claimed != digest(header, tensors):
        raise ModelFileError("the checksum does not match: the file was changed after it was written")
    history = _history(tensors)
    _check_header(header)
    # an estimator with these hyper-parameters
    cls = _known()[header["class"]].cls
    estimator = cls(**{name: _unplain(value) for name, value in header["hyperparameters"].items()})
    estimator._validate_params()
    _check_work(estimator)
    # its arrays, against what it would have written
    arrays = {name.removeprefix("params."): array for name, array in tensors.items()}
    estimator.n_features_in_ = header["n_features"]
    if header["feature_names"] is not None:
        estimator.feature_names_in_ = np.array(header["feature_names"], dtype=object)
    estimator._take_extra(header["extra"])
    estimator.params_ = _unflatten(estimator._params_type(), arrays)
    _check(arrays, estimator)
    # the course of learning
    estimator.history_table_ = _table(header["stages"], history)
    estimator.held_out_history_ = np.zeros(0)  # which is of the fit, and not kept
    estimator.n_iter_, estimator.stop_reason_ = header["n_iter"], header["stop_reason"]
    estimator.objective_ = math.nan if header["objective"] is None else header["objective"]
    estimator.left_to_gain_ = math.nan if header["left_to_gain"] is None else header["left_to_gain"]
    estimator.n_rows_ = math.nan if header["n_rows"] is None else header["n_rows"]
    estimator._expose()
    estimator._model().row_floats(estimator.n_features_in_)  # complains of settings that do not go together
    return estimator


def _check_header(header: dict[str, Any]) -> None:
    """Check the header against what `save` writes; an error names the field."""
    if set(header) != set(FIELDS):
        absent, unknown = sorted(set(FIELDS) - set(header)), sorted(set(header) - set(FIELDS))
        raise ModelFileError(f"the header lacks {absent}" if absent else f"the header has unknown fields {unknown}")
    n, names = header["n_features"], header["feature_names"]
    texts = isinstance(names, list) and all(isinstance(name, str) for name in names)
    whole = list(_whole_numbers(header["hyperparameters"]))
    for field, holds, must in (
        ("library_version", isinstance(header["library_version"], str), "be a text"),
        ("class", isinstance(header["class"], str), "be a text"),
        ("hyperparameters", isinstance(header["hyperparameters"], dict), "be an object"),
        ("hyperparameters", all(abs(x) <= LARGEST_WHOLE for x in whole), "hold no whole number of 2^63 or more"),
        ("n_features", _is_whole(n) and 1 <= n <= LARGEST_WHOLE, "be a whole number from 1"),
        ("feature_names", names is None or texts, "be a list of texts"),
        ("feature_names", names is None or (texts and len(names) == n), f"be {n} names, one a column"),
        ("feature_names", names is None or (texts and len(set(names)) == len(names)), "be different names"),
        ("n_iter", _is_whole(header["n_iter"]) and 0 <= header["n_iter"] <= LARGEST_WHOLE, "be a whole number from 0"),
        ("stop_reason", header["stop_reason"] in [*Stop], f"be one of {', '.join(Stop)}"),
        ("objective", _is_number_or_none(header["objective"]), "be a number"),
        ("left_to_gain", _is_number_or_none(header["left_to_gain"]), "be a number"),
        ("n_rows", _is_number_or_none(header["n_rows"]) and (header["n_rows"] or 1) > 0, "be a number above 0"),
        ("stages", _are_stages(header["stages"]), "be names with a measure and a number of passes"),
        ("extra", isinstance(header["extra"], dict), "be an object"),
    ):
        if not holds:
            raise ModelFileError(f"the field {field!r} must {must}, found {reprlib.repr(header[field])}")
    if header["class"] not in _known():
        raise ModelFileError(f"unknown class {header['class']!r}; known are {', '.join(sorted(_known()))}")


def _known() -> dict[str, Family]:
    """Map the classes that a file may name to their families."""
    return {one.class_name: one for one in families()}


def _is_number_or_none(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isfinite(value))


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _are_stages(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(stage, list) and _is_stage(*stage) for stage in value)


def _is_stage(name: Any = None, measure: Any = None, n_passes: Any = None, *more: Any) -> bool:
    named = isinstance(name, str) and len(name) <= 100 and measure in [*Measure]
    return named and _is_whole(n_passes) and n_passes > 0 and not more


def _whole_numbers(value: Any) -> Iterator[int]:
    """Yield all whole numbers in a value from JSON."""
    if isinstance(value, dict | list):
        for part in value.values() if isinstance(value, dict) else value:
            yield from _whole_numbers(part)
    elif _is_whole(value):
        yield value


def _check_work(estimator: LatentModel) -> None:
    """Refuse hyper-parameters with which using the model would take for ever."""
    names, most = estimator._most_work
    asked = math.prod(int(x) for name in names for x in np.ravel(np.asarray(getattr(estimator, name), object)))
    if asked > most:
        raise ModelFileError(
            f"{' x '.join(names)} is {asked}, and a model file may ask for at most {most}: set_params to less, and "
            "save again"
        )


def _history(tensors: dict[str, np.ndarray]) -> np.ndarray:
    """Take the objectives of all passes out of the tensors."""
    history = tensors.pop("history", None)
    if history is None or history.dtype != np.float64 or history.ndim != 1 or not np.isfinite(history).all():
        raise ModelFileError("'history' must be a list of finite numbers")
    return history


def _table(stages: list[tuple[str, str, int]], history: np.ndarray) -> np.ndarray:
    """Rebuild `history_table_`: the objectives of all passes, with their stages."""
    if sum(n for _, _, n in stages) != len(history):
        raise ModelFileError(f"the stages do not have the {len(history)} passes of the history")
    kinds = [(name, measure) for name, measure, n in stages for _ in range(n)]
    return history_table([(*kind, objective) for kind, objective in zip(kinds, history.tolist())])


def _check(arrays: dict[str, np.ndarray], estimator: LatentModel) -> None:
    """Check the arrays against shapes, types and ranges of the class with these hyper-parameters."""
    for name, shape in estimator._shapes().items():
        array = arrays[name]
        kind = np.dtype(bool if name in estimator._flags else np.int32 if name in estimator._whole else np.float64)
        if array.dtype != kind:
            raise ModelFileError(f"parameter {name!r} must be {kind}, found {array.dtype}")
        if len(array.shape) != len(shape) or any(b not in (a, None) for a, b in zip(array.shape, shape)):
            raise ModelFileError(f"parameter {name!r} must have shape {shape}, found {array.shape}")
        _check_finite(name, array, estimator)
        low, high = estimator._ranges.get(name, (-np.inf, np.inf))
        if ((array < low) | (array > high)).any():
            raise ModelFileError(f"parameter {name!r} must lie between {low} and {high}")


def _check_finite(name: str, array: np.ndarray, estimator: LatentModel) -> None:
    if np.isinf(array).any() or (name not in estimator._with_holes and np.isnan(array).any()):
        raise ModelFileError(f"parameter {name!r} is not finite")


def _flatten(params: Any) -> dict[str, np.ndarray]:
    """Return fields of a Params module by name; the arrays of a tuple field by name and number."""
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(params):
        value = getattr(params, field.name)
        if isinstance(value, list | tuple):
            arrays.update({f"{field.name}.{i}": np.asarray(a, order="C") for i, a in enumerate(value)})
        else:
            arrays[field.name] = np.asarray(value, order="C")  # ascontiguousarray would make (1,) of a scalar
    return arrays


def _unflatten(cls: type, arrays: dict[str, np.ndarray]) -> Any:
    """Undo `_flatten`; an error names arrays that are missing or left over."""
    template: Any = object.__new__(cls)
    left = dict(arrays)
    for field in dataclasses.fields(cls):
        if field.name in left:
            value: Any = left.pop(field.name)
        else:
            numbered = sorted(
                (int(name.rpartition(".")[2]), name) for name in left if name.startswith(f"{field.name}.")
            )
            if [i for i, _ in numbered] != list(range(len(numbered))) or not numbered:
                raise ModelFileError(f"parameter {field.name!r} is missing")
            value = tuple(left.pop(name) for _, name in numbered)
        object.__setattr__(template, field.name, value)
    if left:
        raise ModelFileError(f"unknown parameters {sorted(left)}")
    return template


def plain(name: str, value: Any) -> Any:
    """Turn a hyper-parameter into what JSON can hold."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, type | np.dtype):
        return np.dtype(value).name
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain(name, v) for v in value]
    if isinstance(value, Mapping):
        return {"items": [[plain(name, k), plain(name, v)] for k, v in value.items()]}  # keys need not be text
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if name == "random_state":
        return None  # a generator has been used up by fit, and no prediction depends on it
    raise TypeError(f"hyper-parameter {name}={value!r} cannot be written to a model file")


def _unplain(value: Any) -> Any:
    """Undo `plain`; a list comes back as a tuple."""
    if isinstance(value, list):
        return tuple(value)
    return {name: _unplain(part) for name, part in value["items"]} if isinstance(value, dict) else value
