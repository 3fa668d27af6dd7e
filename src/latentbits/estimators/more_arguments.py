"""Methods of all models, for families whose rows come with more than bits: groups, or covariates."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import wraps
from inspect import Parameter, signature
from typing import Any, TypeVar

__all__ = ["with_more"]

R = TypeVar("R")


def with_more(method: Callable[..., R], names: Sequence[str], first_line: str = "") -> Callable[..., R]:
    """Wrap a method so that it takes arguments of these names, too, which `_beside` of the estimator joins with X.

    Their section of the docstring is added; `first_line` replaces its first line.
    """

    @wraps(method)
    def taking(self: Any, X: Any, *args: Any, **named: Any) -> R:
        more = {name: named.pop(name, None) for name in names}
        return method(self, self._beside(X, **more), *args, **named)

    text = (method.__doc__ or "").rstrip()
    if first_line:
        text = first_line + text[text.index("\n") :]
    end = re.search(r"\n\n +(Returns|Warns|Examples)\n", text)  # of the section of parameters
    place = len(text) if end is None else end.start()
    indent = " " * 8
    about = f"{indent}{', '.join(names)} : array-like or None\n{indent}    Values of the rows, where `fit` had some."
    taking.__doc__ = f"{text[:place]}\n{about}{text[place:]}"
    own = signature(method)
    more = [Parameter(name, Parameter.KEYWORD_ONLY, default=None) for name in names]
    taking.__signature__ = own.replace(parameters=[*own.parameters.values(), *more])  # type: ignore[attr-defined]
    return taking
