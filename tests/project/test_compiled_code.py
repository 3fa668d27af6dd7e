"""Which code a test has: compiled fast where `make test` asks for it, and better where the test does."""

import os

import jax
import pytest

ASKED = os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"


def compiled_fast():
    return jax.config.read("jax_disable_most_optimizations")


def test_it_is_as_asked_for():
    assert compiled_fast() == ASKED


@pytest.mark.optimised
def test_one_test_may_have_better_code():
    assert not compiled_fast()


def test_the_next_one_has_what_was_before():
    assert compiled_fast() == ASKED
