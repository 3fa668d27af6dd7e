"""Trees as JSON and arrays, and back: what a file can hold without any code in it.

Records (NamedTuples, dataclasses, enumerations) are named by their place in this library, and nothing else can be
named: to read a file imports nothing from elsewhere, and calls nothing but the constructors of classes that a module of
this library defines, each of the kind that is asked for.  A record holds in each field what its annotation says.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
from collections.abc import Callable, Mapping
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import jax
import numpy as np

from latentbits.core import tree

__all__ = ["digest", "pack", "unpack"]

OF_KIND: dict[str, Callable[[type], bool]] = {
    "enum": lambda cls: issubclass(cls, Enum),
    "record": lambda cls: issubclass(cls, tuple) and hasattr(cls, "_fields"),
    "module": dataclasses.is_dataclass,
}
NUMBERS: dict[Any, tuple[type, ...]] = {float: (float, int, np.floating), int: (int, np.integer)}


def pack(value: Any) -> tuple[Any, list[np.ndarray]]:
    """Split a tree into a part that JSON can hold, and its arrays in order.

    >>> pack({"a": np.arange(2), "b": (1, None)})
    ({'dict': [['a', {'array': 0}], ['b', {'tuple': [1, None]}]]}, [array([0, 1])])
    """
    arrays: list[np.ndarray] = []
    return _pack(value, arrays), arrays


def unpack(packed: Any, arrays: list[np.ndarray]) -> Any:
    """Return the inverse of `pack`; arrays that were on a device are put there again."""
    with tree.double():
        return _unpack(packed, arrays)


def digest(header: Any, tensors: dict[str, np.ndarray]) -> str:
    """Return a checksum of JSON and named arrays: it shows a damaged or edited file, but anyone can make one."""
    sha = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    for name in sorted(tensors):
        array = tensors[name]
        sha.update(f"{name} {array.dtype.str} {array.shape}".encode())
        sha.update(array.tobytes())
    return sha.hexdigest()


def _pack(value: Any, arrays: list[np.ndarray]) -> Any:
    if isinstance(value, Enum):
        return {"enum": _name(type(value), "enum"), "value": value.value}
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, np.dtype):
        return {"dtype": value.name}
    if isinstance(value, jax.Array) and jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        return {"key": _kept(jax.random.key_data(value), arrays)}
    if isinstance(value, jax.Array):
        return {"device": _kept(value, arrays)}
    if isinstance(value, np.ndarray):
        return {"array": _kept(value, arrays)}
    if isinstance(value, np.generic):
        return {"number": _kept(value, arrays)}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return {"record": _name(type(value), "record"), "fields": [_pack(part, arrays) for part in value]}
    if isinstance(value, tuple | list):
        return {type(value).__name__: [_pack(part, arrays) for part in value]}
    if isinstance(value, dict):
        return {"dict": [[_pack(key, arrays), _pack(part, arrays)] for key, part in value.items()]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {field.name: _pack(getattr(value, field.name), arrays) for field in dataclasses.fields(value)}
        return {"module": _name(type(value), "module"), "fields": parts}
    raise TypeError(f"a {type(value).__name__} cannot be packed")


def _kept(array: Any, arrays: list[np.ndarray]) -> int:
    arrays.append(np.asarray(array, order="C"))
    return len(arrays) - 1


def _name(cls: type, kind: str) -> str:
    name = f"{cls.__module__}:{cls.__qualname__}"
    try:
        found = _class(name, kind)
    except ValueError as error:
        raise TypeError(f"{name} cannot be found by its name: {error}") from error
    if found is not cls:
        raise TypeError(f"{name} cannot be found by its name")
    return name


def _class(name: str, kind: str) -> Any:
    """Find an enumeration, a NamedTuple ("record") or a dataclass ("module") where this library defines it.

    Each step leads to a class that the module itself defines: what it imports is out of reach.
    """
    module, _, place = name.partition(":")
    if module.partition(".")[0] != __name__.partition(".")[0]:
        raise ValueError(f"{name!r} is no part of this library")
    found: Any = importlib.import_module(module)
    for part in place.split("."):
        found = vars(found).get(part)
        if not isinstance(found, type) or found.__module__ != module:
            raise ValueError(f"{name!r} is no class of this library")
    if not OF_KIND[kind](found):
        raise ValueError(f"{name!r} is no {kind}")
    return found


def _unpack(packed: Any, arrays: list[np.ndarray]) -> Any:
    if not isinstance(packed, dict):
        return packed
    kind = next(iter(packed), None)
    inside: Any = packed.get(kind)
    match kind:
        case "enum":
            return _class(inside, kind)(packed["value"])
        case "dtype":
            found = np.dtype(inside)
            if found.name != inside or found.kind not in "biuf":
                raise ValueError(f"{inside!r} is no type of numbers")
            return found
        case "key":
            return jax.random.wrap_key_data(jax.device_put(arrays[inside]))
        case "device":
            return jax.device_put(arrays[inside])
        case "array":
            return arrays[inside]
        case "number":
            return arrays[inside][()]
        case "record":
            cls = _class(inside, kind)
            record = cls(*(_unpack(part, arrays) for part in packed["fields"]))
            for (name, hint), part in zip(_hints(cls).items(), record, strict=True):
                if not _holds(part, hint):
                    raise ValueError(f"{cls.__name__}.{name} cannot be a {type(part).__name__}")
            return record
        case "tuple":
            return tuple(_unpack(part, arrays) for part in inside)
        case "list":
            return [_unpack(part, arrays) for part in inside]
        case "dict":
            return {_unpack(key, arrays): _unpack(part, arrays) for key, part in inside}
        case "module":
            made: Any = object.__new__(_class(inside, kind))
            if packed["fields"].keys() != {field.name for field in dataclasses.fields(made)}:
                raise ValueError(f"{type(made).__name__} has other fields")
            for name, part in packed["fields"].items():
                object.__setattr__(made, name, _unpack(part, arrays))
            return made
    raise ValueError(f"{kind!r} is nothing that could be unpacked")


@cache
def _hints(record: type) -> dict[str, Any]:
    return get_type_hints(record)


def _holds(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; of trees, arrays and functions anything is.

    >>> _holds([(1, 2.0)], list[tuple[int, float]]), _holds(["1"], list[int]), _holds(None, int | None)
    (True, False, True)
    """
    origin, inside = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return any(_holds(value, one) for one in inside)
    if origin is list or (origin is tuple and inside[1:] == (...,)):
        return isinstance(value, origin) and all(_holds(part, inside[0]) for part in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inside) and all(map(_holds, value, inside))
    if origin in (dict, Mapping):
        return isinstance(value, dict) and all(
            _holds(part, one) for pair in value.items() for part, one in zip(pair, inside)
        )
    if hint in NUMBERS:
        return isinstance(value, NUMBERS[hint]) and not isinstance(value, bool)
    ours = isinstance(hint, type) and (hint in (bool, str, type(None), np.dtype) or issubclass(hint, tuple | Enum))
    return isinstance(value, hint) if ours else True
