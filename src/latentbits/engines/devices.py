"""Several devices of one host: the chunks of a pass are dealt out to them in turn.

Which device computes a chunk follows from its number, so that what is kept of its rows stays where they are.  What
comes back is added in the order of the chunks (`engines/tree_sum.py`), whichever device computed it: a fit has the bits
that one device of the same kind would have found.  Models never know.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import jax

from latentbits.core.compilation import setting
from latentbits.engines.chunks import Layout

__all__ = ["Copies", "device_of", "devices", "on"]

T = TypeVar("T")


def devices() -> tuple[jax.Device, ...]:
    """List the devices that share the work: all of this host of JAX's preferred kind, or the one the user chose."""
    chosen = setting("jax_default_device")
    return tuple(jax.local_devices()) if chosen is None else (chosen,)


def device_of(number: int, layout: Layout) -> jax.Device | None:
    """Return the device of the chunk of this number; None for the first device, where everything else is.

    Small batches of rows wait for each other's updates: they stay there, too.
    """
    among = devices()
    turn = 0 if layout.rows_per_update is not None else number % len(among)
    return among[turn] if turn else None


@contextmanager
def on(device: jax.Device | None) -> Iterator[None]:
    """Context in which programs run on a device; None for the first."""
    if device is None:
        yield
    else:
        with jax.default_device(device):
            yield


class Copies:
    """Values for all chunks of a pass, moved to each device once."""

    def __init__(self) -> None:
        self._of: Any = None
        self._held: dict[jax.Device, Any] = {}

    def on(self, device: jax.Device | None, given: T) -> T:
        """Copy a tree to a device; the last copy is remembered."""
        if device is None:
            return given
        if self._of is not given:
            self._of, self._held = given, {}
        if device not in self._held:
            self._held[device] = jax.tree.map(lambda x: _moved(x, device), given)
        return self._held[device]


def _moved(x: Any, device: jax.Device) -> Any:
    return jax.device_put(x, device) if isinstance(x, jax.Array) else x  # what is on the host goes where it is used
