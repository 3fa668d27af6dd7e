"""The examples in the docstrings of every module."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import pytest
from printed import same_but_for_the_last_digit

import latentbits

PACKAGE = Path(latentbits.__file__).parent
LONG = {
    "latentbits.choosing.sizes",
    *(
        f"latentbits.estimators.{name}"
        for name in (
            *("binary_sparse_coding", "class_covariates", "class_reports", "class_tests", "combination_machine"),
            *("latent_tree", "mixture", "noisy_or"),
        )
    ),
    *(
        f"latentbits.estimators.latent_trait.{name}"
        for name in (
            *("curved_trait", "item_dif", "item_reports", "item_response", "item_scores", "latent_trait"),
            "trait_maps",
        )
    ),
}


def modules(text=""):
    """Names of the modules that hold the text, which are not imported for that."""
    files = [path for path in sorted(PACKAGE.rglob("*.py")) if path.stem != "__main__"]
    names = {path: ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in files}
    return [name.removesuffix(".__init__") for path, name in names.items() if text in path.read_text("utf-8")]


def marked(name):
    marks = [pytest.mark.slow("fits of examples, which take seconds to compile")] if name in LONG else []
    return pytest.param(name, marks=marks)


class Checker(doctest.OutputChecker):
    def check_output(self, want, got, optionflags):
        return super().check_output(want, got, optionflags) or same_but_for_the_last_digit(got, want)


@pytest.mark.parametrize("name", list(map(marked, modules(">>> "))))
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
    tried = {name: sum(len(test.examples) for test in finder.find(import_module(name))) for name in modules()}
    assert sum(tried.values()) > 40
    assert {name for name, number in tried.items() if number} <= set(modules(">>> "))
    assert set(modules(">>> ")) >= LONG
