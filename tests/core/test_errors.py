"""Errors travel: between processes of a search, and from the workers of a cluster."""

import pickle

import pytest

from latentbits.core import errors

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]


@pytest.mark.parametrize("kind", KINDS)
def test_an_error_is_the_same_after_a_journey(kind):
    arrived = pickle.loads(pickle.dumps(kind("it needs 93 GB")))
    assert type(arrived) is kind
    assert str(arrived) == "it needs 93 GB"


@pytest.mark.parametrize("kind", KINDS)
def test_and_from_a_dask_worker(kind):
    """`distributed` sends errors with their tracebacks, in tblib's way."""
    tblib = pytest.importorskip("tblib.pickling_support")
    make, arguments, *_ = tblib.pickle_exception(kind("it needs 93 GB"))
    arrived = make(*arguments)
    assert type(arrived) is kind
    assert str(arrived) == "it needs 93 GB"
