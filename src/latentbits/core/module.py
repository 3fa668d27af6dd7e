"""Records of arrays: frozen dataclasses whose fields JAX takes for leaves, as in `equinox.Module`.

Equinox itself brings layers, debugging and Pallas along, and takes longer to import than all of this package.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, dataclass_transform

import jax
import numpy as np

__all__ = ["Module", "static"]

T = TypeVar("T")


def static(default: Any = dataclasses.MISSING) -> Any:
    """Declare a field that is part of the structure: programs are compiled for its value."""
    return dataclasses.field(default=default, metadata={"static": True})


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
class Module:
    """Base class of records; a subclass only lists its fields.

    >>> class Line(Module):
    ...     slope: np.ndarray
    ...     degree: int = static(default=1)
    >>> jax.tree.leaves(Line(np.array(2.0)).replace(slope=3.0))
    [3.0]
    """

    if TYPE_CHECKING:
        __dataclass_fields__: ClassVar[dict[str, dataclasses.Field[Any]]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclasses.dataclass(frozen=True, eq=False)(cls)
        fields = dataclasses.fields(cls)
        leaves = tuple(field.name for field in fields if not field.metadata.get("static"))
        others = tuple(field.name for field in fields if field.metadata.get("static"))
        keys = [jax.tree_util.GetAttrKey(name) for name in leaves]

        def flatten(record: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
            held = vars(record)
            return tuple([held[name] for name in leaves]), tuple([held[name] for name in others])

        def flatten_with_keys(record: Any) -> tuple[tuple[tuple[Any, Any], ...], tuple[Any, ...]]:
            values, structure = flatten(record)
            return tuple(zip(keys, values)), structure

        def unflatten(structure: tuple[Any, ...], values: Any) -> Any:
            record = object.__new__(cls)  # leaves may be anything here: JAX fills trees with markers, too
            vars(record).update(zip(leaves, values))
            vars(record).update(zip(others, structure))
            return record

        jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)

    def replace(self: T, **changes: Any) -> T:
        """Return a copy with other values of some fields."""
        if unknown := changes.keys() - vars(self).keys():
            raise TypeError(f"{type(self).__name__} has no field {min(unknown)!r}: give some of {list(vars(self))}")
        record = object.__new__(type(self))  # unchecked: records of several maps or restarts have an axis in front
        vars(record).update(vars(self), **changes)
        return record

    def __eq__(self, other: object) -> bool:
        structure: Any = jax.tree.structure(self)
        if structure != jax.tree.structure(other):
            return False
        return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(self), jax.tree.leaves(other)))

    def __hash__(self) -> int:
        return hash(tuple(jax.tree.leaves(self)))
