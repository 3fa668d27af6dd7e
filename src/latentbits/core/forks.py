"""Forks: the child of a process whose threads were at work has none of them, and would wait for ever.

XLA's threads cannot be started again in the child, so that it is refused, where it would begin to wait.
"""

from __future__ import annotations

import os

from latentbits.core.errors import ForkedError

__all__ = ["at_work", "refuse"]


class _State:
    """Threads of this process: whether it has started any, and whether it lost them when it was forked."""

    begun = False
    lost = False


def at_work() -> None:
    """Take note that this process has threads that do not survive a fork."""
    _State.begun = True


def refuse() -> None:
    """Raise in a process that was forked from one with threads at work."""
    if _State.lost:
        raise ForkedError(
            "this process was forked from one in which latentbits had computed before, and JAX does not work after a "
            "fork. Start the workers without a fork: joblib's default backend (loky), "
            'multiprocessing.get_context("spawn"), or Dask'
        )


def _forked() -> None:
    _State.lost = _State.lost or _State.begun


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
