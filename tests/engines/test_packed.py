"""Complete bits eight to a byte: on the device and on the way to it; counted there, and learned from alike."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.base import clone
from tests import tables
from tests.tables import as_bytes

from latentbits import BernoulliMixture
from latentbits.core import processor
from latentbits.core.batch import Packed, make_batch
from latentbits.data import write_packed
from latentbits.engines import summary
from latentbits.engines.chunks import Layout
from latentbits.engines.fit import fit, seed_key
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.monitor import Limits
from latentbits.engines.order import in_random_order
from latentbits.engines.stream import StreamEngine
from latentbits.models import product
from latentbits.models.clipped_gaussian import model as clipped_gaussian
from latentbits.models.latent_trait import model as latent_trait
from latentbits.models.noisy_or import model as noisy_or

SINGLE = np.dtype(np.float32)


def bits(n=240, d=6, k=2, missing=0.0):
    return as_bytes(tables.classes(n, d, k, missing=missing))


# whose statistics are sums, which keep something of every row, which pack rows themselves, which learn from batches
FAMILIES = {
    "product": (product.model(), bits(d=11)),
    "latent trait": (latent_trait.model(1, "variational"), as_bytes(tables.answers(d=11))),
    "clipped Gaussian": (clipped_gaussian.model(1), as_bytes(tables.answers(d=11))),
    "noisy-OR network": (
        noisy_or.model((3,), alpha=1.2, n_updates=4, n_joint=0, n_sweeps=4, n_samples=3, batch_size=500),
        bits(d=11),
    ),
}


@pytest.fixture
def accelerator(monkeypatch):
    """What is done on other devices than the processor, on the processor."""
    monkeypatch.setattr(processor, "accelerated", lambda: True)


def assert_same(a, b):
    jax.tree.map(np.testing.assert_array_equal, a, b)


@pytest.mark.parametrize("d", [8, 11])
def test_packed_rows_are_the_batch_of_their_bits(d):
    rows = bits(40, d)
    rest = jnp.uint32(0), jnp.uint32(40), jax.random.key(0), True, SINGLE
    packed = make_batch(Packed(jnp.asarray(np.packbits(rows, axis=1)), d), *rest)
    assert packed.observed is None
    np.testing.assert_array_equal(packed.values, make_batch(jnp.asarray(rows), *rest).values)


@pytest.mark.parametrize("d", [8, 21])
def test_a_table_is_held_packed(monkeypatch, d):
    """By threads, slice by slice, and cut as the bytes would be."""
    monkeypatch.setattr("latentbits.engines.threads.SLICE_BYTES", 500)
    rows, layout = bits(700, d), Layout(256, SINGLE)
    plain, packed = (list(MemoryEngine(rows, packs=packs).chunks(layout)) for packs in (False, True))
    assert [chunk[1:] for chunk in plain] == [chunk[1:] for chunk in packed]
    for a, b in zip(plain, packed):
        assert b.values.values.shape == (256, -(-d // 8))
        np.testing.assert_array_equal(b.values.bits(), a.values)


def test_holes_and_real_numbers_are_not_packed():
    assert not MemoryEngine(bits(missing=0.1), packs=True).packs
    assert not MemoryEngine(np.zeros((3, 2)), packs=True).packs


ALIKE = pytest.mark.slow("models that take what is unpacked as every other does")
SLOW = {"latent trait", "noisy-OR network"}


@pytest.mark.parametrize("family", [pytest.param(name, marks=[ALIKE] if name in SLOW else []) for name in FAMILIES])
def test_every_way_of_learning_learns_the_same(family):
    """To rounding: what is compiled around the unpacking may add in another order."""
    model, table = FAMILIES[family]
    budget = 2**14 if model.start_rows is None else None  # several chunks
    how = {"limits": Limits(3, -np.inf), "memory_budget": budget, "dtype": np.float64}
    plain, packed = (fit(model, MemoryEngine(table, packs=packs), seed_key(0), **how) for packs in (False, True))
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-9), plain.params, packed.params)
    assert packed.objective == pytest.approx(plain.objective, rel=1e-9)


def test_chunks_of_bits_serve_every_precision():
    engine, layout = MemoryEngine(bits(700)), Layout(256, SINGLE)
    first = list(engine.chunks(layout))
    assert [a is b for a, b in zip(first, engine.chunks(layout._replace(dtype=np.dtype(np.float64))))] == [True] * 3
    weighted = MemoryEngine(bits(700), np.ones(700))
    kinds = [{c.weights.dtype for c in weighted.chunks(layout._replace(dtype=d))} for d in (SINGLE, np.dtype(float))]
    assert kinds == [{SINGLE}, {np.dtype(np.float64)}]


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_the_device_counts_what_the_host_counts(monkeypatch, missing):
    table = bits(2000, 9, missing=missing)
    here = summary.summarise(MemoryEngine(table))
    monkeypatch.setattr(processor, "accelerated", lambda: True)
    monkeypatch.setattr("latentbits.engines.threads.SLICE_BYTES", 9000)
    called, counts = [], summary.column_counts
    monkeypatch.setattr(summary, "column_counts", lambda raw: called.append(type(raw)) or counts(raw))
    assert_same(here, summary.summarise(MemoryEngine(table)))
    assert {issubclass(kind, Packed) for kind in called} == {missing == 0}


def test_rows_are_looked_at_once(monkeypatch):
    looks = []
    real = summary._on_host
    monkeypatch.setattr(summary, "_on_host", lambda engine: looks.append(engine) or real(engine))
    engine = MemoryEngine(np.random.default_rng(0).normal(size=(300, 4)))
    summary.summarise(engine)
    moments, powers = summary.column_moments(engine), summary.row_powers(engine)
    assert looks == [engine]
    np.testing.assert_allclose(moments.variance, engine.table.var(0))
    assert powers.mean == pytest.approx(np.square(engine.table).sum(1).mean())
    assert powers.largest == pytest.approx(np.square(engine.table).sum(1).max())


def test_a_packed_file_stays_packed_on_the_way(tmp_path, accelerator):
    """The fit of an array in memory, and of the same file unpacked by the thread that reads it."""
    table = bits(2000)
    path = write_packed(tmp_path / "bits.zarr", table)
    options = {"max_iter": 3, "tol": -1e9, "dtype": "float32", "smoothing": 0.1, "accelerate": False}
    model = BernoulliMixture(2, n_init=1, random_state=0, **options)
    with pytest.warns(match="max_iter"):
        streamed, held = (clone(model).fit(X) for X in (str(path), table))
    np.testing.assert_array_equal(streamed.means_, held.means_)
    np.testing.assert_array_equal(streamed.score_samples(str(path)), held.score_samples(table))


def test_a_packed_stream_is_cut_and_counted_like_its_bits(monkeypatch):
    table = bits(3000, 11)
    packed = np.packbits(table, axis=1)
    engine = StreamEngine(lambda: iter(np.array_split(packed, 7)), 11, (3000, table.__getitem__), packed=True)
    plain = StreamEngine(lambda: iter(np.array_split(table, 5)), 11, (3000, table.__getitem__))
    layout = Layout(256, SINGLE)
    for chunk, same in zip(engine.chunks(layout), plain.chunks(layout), strict=True):
        np.testing.assert_array_equal(chunk.values, same.values)
        assert chunk[1:] == same[1:]
    assert_same(summary.summarise(engine), summary.summarise(plain))
    monkeypatch.setattr(processor, "accelerated", lambda: True)
    for chunk, same in zip(engine.chunks(layout), plain.chunks(layout), strict=True):
        np.testing.assert_array_equal(chunk.values.bits(), same.values)
        assert chunk[1:] == same[1:]
    np.testing.assert_array_equal(
        np.concatenate(list(in_random_order(engine).blocks())), np.concatenate(list(in_random_order(plain).blocks()))
    )
