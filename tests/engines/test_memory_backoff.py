"""Devices that have no room: by programs that refuse more rows than a limit, as a device does."""

import warnings

import jax
import numpy as np
import pytest
from jax.errors import JaxRuntimeError
from tests.tables import answers, classes

from latentbits import BernoulliMixture, LatentTrait, NoisyOrNetwork
from latentbits.engines import chunks, host, memory, passes
from latentbits.engines.chunks import Layout
from latentbits.engines.memory_backoff import Room

SAID = "no room for .* rows at a time"
OTHERS = pytest.mark.slow("families with states of rows, and with small batches")


@pytest.fixture(autouse=True)
def compiled(monkeypatch):
    """Let programs see the rows of small mixtures, too."""
    monkeypatch.setattr(host, "MOST_NUMBERS_OF_ROWS_ON_HOST", 0)


@pytest.fixture
def small_device(monkeypatch):
    """No program gets more than 64 rows; the shapes that were tried."""
    monkeypatch.setattr(chunks, "SMALLEST_PADDED_ROWS", 64)
    tried = []

    def limited(program):
        def call(function, given, raw, *args, **known):
            tried.append(len(raw))
            if len(raw) > 64:
                raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12345 bytes.")
            return program(function, given, raw, *args, **known)

        return call

    for name in ("chunk_stats", "chunk_rows"):
        monkeypatch.setattr(passes, name, limited(getattr(passes, name)))
    return tried


@pytest.mark.slow("a fit in chunks of several lengths")
@pytest.mark.parametrize(
    ("estimator", "table"),
    [
        (BernoulliMixture(2, random_state=0, n_init=2, max_iter=20, tol=1e-4), classes()),
        pytest.param(LatentTrait(1, random_state=0, dtype="float64"), answers(), marks=OTHERS),
        pytest.param(  # small batches, whose chains start again
            NoisyOrNetwork((2,), random_state=0, recipe={"inference": "gibbs"}, n_updates=3, batch_size=200),
            classes(),
            marks=OTHERS,
        ),
    ],
    ids=lambda x: type(x).__name__,
)
def test_a_fit_goes_on_with_fewer_rows_at_a_time(request, estimator, table):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = estimator.fit(table)
        expected = [*jax.tree.leaves(theirs.params_), theirs.transform(table)]
        tried = request.getfixturevalue("small_device")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        ours = type(estimator)(**estimator.get_params()).fit(table)
    assert sum("no room" in str(w.message) for w in said) == 1  # restarts and stages know it from each other
    with pytest.warns(RuntimeWarning, match=SAID):
        found = [*jax.tree.leaves(ours.params_), ours.transform(table)]
    assert max(tried) > 64
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-3, atol=2e-4)


def test_rows_that_were_given_out_are_not_given_again(monkeypatch):
    """The device runs out of memory in the midst of a table."""
    table = classes()
    m = BernoulliMixture(2, random_state=0, n_init=1).fit(table)
    expected = m.score_samples(table)
    program, calls = passes.chunk_rows, []

    def fails_once(*args, **known):
        calls.append(args)
        if len(calls) == 3:
            raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12345 bytes.")
        return program(*args, **known)

    monkeypatch.setattr(passes, "chunk_rows", fails_once)
    monkeypatch.setattr(type(m), "_layout", lambda self, dtype, *_, **__: Layout(64, np.dtype(dtype)))
    with pytest.warns(RuntimeWarning, match=SAID):
        np.testing.assert_allclose(m.score_samples(table), expected, rtol=1e-6)
    assert len(calls) > 240 // 64 + 1


def test_a_table_that_a_device_cannot_hold(monkeypatch):
    table = classes()
    theirs = BernoulliMixture(2, random_state=0, n_init=1).fit(table)

    def full(chunk, device):
        raise JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 12345 bytes.")

    monkeypatch.setattr(memory, "on_device", full)
    with pytest.warns(RuntimeWarning, match="no room for the 240 x 6 table") as said:
        ours = BernoulliMixture(2, random_state=0, n_init=1).fit(table)
    assert len(said) == 1
    for one, other in zip(jax.tree.leaves(ours.params_), jax.tree.leaves(theirs.params_), strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_errors_are_raised():
    layout, room = Layout(64, np.dtype(np.float32)), Room()
    for error, rows in [(JaxRuntimeError("INTERNAL: broken"), 64), (JaxRuntimeError("RESOURCE_EXHAUSTED"), 8)]:
        with pytest.raises(JaxRuntimeError, match=str(error)):
            room.less_after(error, layout._replace(rows_per_chunk=rows))
    assert room.halvings == 0
