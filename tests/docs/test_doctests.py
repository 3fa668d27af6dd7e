"""The examples in the docstrings of every module."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

import latentbits

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(latentbits.__path__, "latentbits.") if not m.name.endswith("__main__")
)


@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    failed, _ = doctest.testmod(import_module(name), optionflags=doctest.NORMALIZE_WHITESPACE)
    assert failed == 0


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    tried = sum(len(test.examples) for name in MODULES for test in finder.find(import_module(name)))
    assert tried > 40
