"""Callbacks of scikit-learn, from 1.9 on: learning is a task, its stages are tasks below it, and so are their passes.

Where the installed scikit-learn has none, estimators have no `set_callbacks`, and nothing is reported.
Its module of them takes its time to be imported, which is for those who use one.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Any, Self

from latentbits.engines.progress import listening

__all__ = ["WithCallbacks", "with_callbacks"]


class WithCallbacks:
    """An estimator that callbacks can be set for, as scikit-learn's `CallbackSupportMixin` has it."""

    if find_spec("sklearn.callback") is not None:

        def set_callbacks(self, *callbacks: Any) -> Self:
            """Let these callbacks follow the course of learning, such as ``sklearn.callback.ProgressBar()``.

            Parameters
            ----------
            *callbacks : callbacks of scikit-learn
                None takes those away that were set.
            """
            from sklearn.callback import CallbackSupportMixin

            return CallbackSupportMixin.set_callbacks(self, *callbacks)


@contextmanager
def with_callbacks(estimator: Any, X: Any, y: Any, sample_weight: Any) -> Iterator[None]:
    """Report all that is learned within to the callbacks of an estimator, if it has any.

    They get X, y and the weights with the task of the whole fit, and the fitted estimator at its end; of single passes
    they learn that they were made.  A callback that returns True ends learning as Ctrl-C would.
    """
    if not hasattr(estimator, "_skl_callbacks"):
        yield
        return
    from sklearn.callback._callback_support import CallbackSupportMixin, callback_management_context

    metadata = None if sample_weight is None else {"sample_weight": sample_weight}
    given = {"estimator": estimator, "X": X, "y": y, "metadata": metadata}
    with callback_management_context(estimator):
        context = CallbackSupportMixin._init_callback_context(estimator, max_subtasks=None)
        context.call_on_fit_task_begin(**given)
        course = _Course(estimator, context)
        with listening(course):
            yield
        course.end_stage()
        context.call_on_fit_task_end(**given, reconstruction_attributes=lambda: dict(vars(estimator)))


class _Course:
    """Course of learning as callbacks see it: tasks."""

    def __init__(self, estimator: Any, context: Any) -> None:
        self._estimator, self._root = estimator, context
        self._stage: Any = None
        self._pass: Any = None

    def begin_stage(self, name: str, max_iter: int) -> None:
        self.end_stage()
        # passes beside updates: the first, the last or the best point's, and one that is begun only
        self._stage = self._root.subcontext(task_name=name, max_subtasks=max_iter + 4)
        self._stage.call_on_fit_task_begin(estimator=self._estimator)
        self._begin_pass()

    def end_pass(self) -> bool:
        """Report the end of a pass; return whether a callback asks for an end."""
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
