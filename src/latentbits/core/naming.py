"""Names for programs that hold in every process: of a function with what it closes over, and of the shape of arguments.

A name says what a program computes, so that one that was compiled before is found again without being traced.  What the
code of the library itself says is covered by a digest of its sources; of functions from elsewhere nobody knows what
else they read, so that they have no name, and neither has an object that only its address tells from another.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import types
from enum import Enum
from pathlib import Path
from typing import Any

import jax
import numpy as np

__all__ = ["Nameless", "digest", "name_of", "sources"]

OURS = __name__.partition(".")[0]
VERSIONED = ("jax", "numpy", "equinox", "builtins")  # what these do, their versions say


class Nameless(Exception):
    """There is no telling in another process that it is the same."""


def digest(*parts: str) -> str:
    """A short name for long ones."""
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


@functools.cache
def sources() -> str:
    """A digest of the library's own code."""
    root, hashed = Path(__file__).parent.parent, hashlib.sha256()
    for path in sorted(root.rglob("*.py")):
        hashed.update(f"{path.relative_to(root)}\n".encode() + path.read_bytes())
    return hashed.hexdigest()


def name_of(thing: Any) -> str:
    """What an object is, in words.

    >>> name_of((1, "two", 3.0))
    "tuple(1, 'two', 3.0)"
    """
    return _name(thing, ())


def _name(thing: Any, within: tuple[int, ...]) -> str:
    if thing is None or isinstance(thing, bool | int | float | complex | str | bytes):
        return repr(thing)
    if isinstance(thing, Enum):
        return f"{_path(type(thing))}.{thing.name}"
    if isinstance(thing, np.dtype):
        return f"dtype {thing}"
    if isinstance(thing, np.ndarray | np.generic | jax.Array):
        values = np.asarray(thing)
        return f"array {values.dtype}{values.shape} {hashlib.sha256(values.tobytes()).hexdigest()}"
    if isinstance(thing, type | types.BuiltinFunctionType | np.ufunc):
        return _path(thing)
    if id(thing) in within:
        return "itself"
    within = (*within, id(thing))
    if isinstance(thing, jax.tree_util.PyTreeDef):
        return _tree(thing, within)
    if isinstance(thing, tuple | list):
        return f"{type(thing).__qualname__}({', '.join(_name(x, within) for x in thing)})"
    if isinstance(thing, dict):
        return f"dict({', '.join(sorted(f'{_name(k, within)}: {_name(x, within)}' for k, x in thing.items()))})"
    if isinstance(thing, set | frozenset):
        return f"set({', '.join(sorted(_name(x, within) for x in thing))})"
    if isinstance(thing, functools.partial):
        return f"partial({_name(thing.func, within)}, {_name(thing.args, within)}, {_name(thing.keywords, within)})"
    if isinstance(thing, types.MethodType):
        return f"{_name(thing.__func__, within)} of {_name(thing.__self__, within)}"
    if isinstance(thing, types.FunctionType):
        return _function(thing, within)
    if hasattr(thing, "__wrapped__"):  # jit, cache
        return f"{type(thing).__qualname__} of {_name(thing.__wrapped__, within)}"
    if dataclasses.is_dataclass(thing):
        fields = ((f.name, getattr(thing, f.name)) for f in dataclasses.fields(thing))
        return f"{_path(type(thing))}({', '.join(f'{name}={_name(x, within)}' for name, x in fields)})"
    if hasattr(thing, "func") and callable(thing):  # JAX's shell of a functools.partial
        return f"{_path(type(thing))}({_name(thing.func, within)}, {_name(vars(thing), within)})"
    text = repr(thing)
    if " at 0x" in text:
        raise Nameless(text)
    return f"{_path(type(thing))} {text}"


def _function(function: types.FunctionType, within: tuple[int, ...]) -> str:
    held = [cell.cell_contents for cell in function.__closure__ or ()]
    defaults = (function.__defaults__, function.__kwdefaults__)
    # two functions of one qualified name (lambdas) are told apart by their place
    place = function.__code__.co_firstlineno, function.__code__.co_code.hex()
    return f"{_path(function)} {place} {_name(held, within)} {_name(defaults, within)}"


def _path(thing: Any) -> str:
    module = getattr(thing, "__module__", None) or "builtins"
    if isinstance(thing, types.FunctionType) and module.partition(".")[0] not in (OURS, *VERSIONED):
        raise Nameless(f"{module}.{thing.__qualname__}")
    return f"{module}.{getattr(thing, '__qualname__', repr(thing))}"


def _tree(structure: Any, within: tuple[int, ...]) -> str:
    node = structure.node_data()
    if node is None:
        return "*"
    kind, constants = node
    children = ", ".join(_tree(child, within) for child in structure.children())
    return f"{_path(kind)}<{_name(constants, within)}>({children})"
