"""Callbacks of scikit-learn, from 1.9 on: learning is a task, its stages are tasks below it, and so are their passes.

Where the installed scikit-learn has none, estimators have no `set_callbacks`, and nothing is told.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from latentbits.engines.progress import listening

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:  # scikit-learn 1.7 and 1.8

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "told_to_callbacks"]

T = TypeVar("T")
PASSES_MORE = 4  # than updates: one to begin with, one at the end or at the best point, and one that is begun only


@with_callbacks
def told_to_callbacks(estimator: Any, learn: Callable[[], T], X: Any, y: Any, sample_weight: Any) -> T:
    """Learn, and tell the callbacks of the estimator, if it has any, of what is done.

    They get X, y and the weights with the task of the whole fit, and the fitted estimator at its end; of single passes
    they learn that they were made.  A callback that returns True ends learning as Ctrl-C would.
    """
    if not hasattr(estimator, "_skl_callbacks"):
        return learn()
    context = estimator._init_callback_context(max_subtasks=None)
    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
    context.call_on_fit_task_begin(**given)
    course = _Course(estimator, context)
    with listening(course):
        found = learn()
    course.end_stage()
    context.call_on_fit_task_end(**given, reconstruction_attributes=lambda: dict(vars(estimator)))
    return found


class _Course:
    """What is heard of learning, as tasks."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._root = estimator, context
        self._stage: Any = None
        self._pass: Any = None

    def begin_stage(self, name: str, max_iter: int) -> None:
        self.end_stage()
        self._stage = self._root.subcontext(task_name=name, max_subtasks=max_iter + PASSES_MORE)
        self._stage.call_on_fit_task_begin(estimator=self._estimator)
        self._begin_pass()

    def end_pass(self) -> bool:
        """Whether a callback asks for an end."""
        stop = self._pass.call_on_fit_task_end(estimator=self._estimator)
        self._begin_pass()
        return stop

    def end_stage(self) -> None:
        if self._stage is not None:
            self._pass.call_on_fit_task_end(estimator=self._estimator)  # the one that was not made
            self._stage.call_on_fit_task_end(estimator=self._estimator)
            self._stage = None

    def _begin_pass(self) -> None:
        self._pass = self._stage.subcontext(task_name="pass")
        self._pass.call_on_fit_task_begin(estimator=self._estimator)
