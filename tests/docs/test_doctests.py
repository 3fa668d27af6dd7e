"""The examples in the docstrings of every module."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest
from printed import same_but_for_the_last_digit

import latentbits

MODULES = sorted(
    m.name for m in pkgutil.walk_packages(latentbits.__path__, "latentbits.") if not m.name.endswith("__main__")
)


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(want, got, optionflags) or same_but_for_the_last_digit(got, want)


def _marked(name):
    """The examples of these estimators fit what takes seconds to compile."""
    *_, layer, family = name.split(".")
    long = layer == "estimators" and family in (
        "combination_machine",
        "noisy_or",
        "latent_trait",
        "item_reports",
        "binary_sparse_coding",
        "mixture",
    )
    return pytest.param(name, marks=[pytest.mark.slow] if long else [])


@pytest.mark.parametrize("name", [_marked(name) for name in MODULES])
def test_examples(name):
    runner = doctest.DocTestRunner(Checker(), optionflags=doctest.NORMALIZE_WHITESPACE)
    for test in doctest.DocTestFinder(exclude_empty=True).find(import_module(name)):
        runner.run(test)
    assert runner.failures == 0


def test_what_may_differ():
    assert same_but_for_the_last_digit("[-0.0, 1.3, 0.6666666666666667]\n", "[0.0, 1.2, 0.6666666666666666]")
    assert same_but_for_the_last_digit("array([1. , 0.17])", "array([0.99, 0.17])")
    assert not same_but_for_the_last_digit("[0.0, 1.4]", "[0.0, 1.2]")
    assert not same_but_for_the_last_digit("12 rows", "13 rows")
    assert not same_but_for_the_last_digit("0.1 bits", "0.1 nats")


def test_there_are_examples():
    finder = doctest.DocTestFinder(exclude_empty=True)
    tried = sum(len(test.examples) for name in MODULES for test in finder.find(import_module(name)))
    assert tried > 40
