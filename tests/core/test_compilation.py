"""Programs: compiled once for each shape, ahead of time, and kept on disk by what they compute."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial, update_wrapper, wraps

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.experimental.compilation_cache import compilation_cache
from jax.tree_util import Partial

from latentbits.core import compilation, keys, program_cache
from latentbits.core.compilation import Program
from latentbits.core.module import Module, static


class Scale(Module):
    by: float
    power: int = static()


def scaled(scale, x):
    return scale.by * x**scale.power


def fresh():
    """A program that this process does not know yet."""
    return Program(lambda x: jnp.linalg.cholesky(x))


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A folder of our own, and no cache of JAX, as most users have it."""
    monkeypatch.setenv("LATENTBITS_CACHE", str(tmp_path))
    before = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    compilation_cache.reset_cache()
    yield tmp_path / "compiled"
    jax.config.update("jax_compilation_cache_dir", before)
    compilation_cache.reset_cache()


def compiled_by(call):
    before = len(compilation.made())
    value = call()
    return value, [one.compiled for one in compilation.made()[before:]]


def test_numbers_are_arguments_and_structure_is_a_constant():
    @Program
    def apply(function, x):
        return function(x)

    x = jnp.arange(3.0)
    for by, power, new in ((2.0, 1, [True]), (3.0, 1, []), (3.0, 2, [True])):
        value, made = compiled_by(partial(apply, Partial(scaled, Scale(by, power)), x))
        np.testing.assert_allclose(value, by * np.arange(3.0) ** power)
        assert made == new


def test_an_error_of_the_function_is_raised_where_it_is_called():
    @Program
    def broken(x):
        raise ValueError("no such thing")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such thing"):
            broken(np.ones(2))


def test_a_program_is_read_from_disk_by_another_that_computes_the_same(cache):
    x = np.eye(3, dtype=np.float32) * 4
    value, made = compiled_by(lambda: fresh()(x))
    again, read = compiled_by(lambda: fresh()(x))
    assert (made, read) == ([True], [False])
    np.testing.assert_array_equal(value, again)
    (file,) = cache.glob("*/*.program")
    assert file.stat().st_mode & 0o077 == 0 or cache.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("damage", ["cut", "one bit", "empty", "of another version", "others can write it"])
def test_a_damaged_program_is_not_run(cache, damage):
    x = np.eye(2, dtype=np.float32) * 9
    fresh()(x)
    (file,) = cache.glob("*/*.program")
    held = bytearray(file.read_bytes())
    if damage == "one bit":
        held[len(held) // 2] ^= 1
    elif damage == "of another version":  # whole, but nothing that can be loaded
        held = hashlib.sha256(b"no program").digest() + b"no program"
    elif damage == "others can write it":  # the folder may have been open to them
        file.chmod(0o666)
    else:
        held = held[: len(held) // 2 if damage == "cut" else 0]
    file.write_bytes(bytes(held))
    for compiled in (True, False):  # what is damaged makes room for what is not
        value, made = compiled_by(lambda: fresh()(x))
        np.testing.assert_allclose(value, 3 * np.eye(2))
        assert made == [compiled]
        assert file.stat().st_mode & 0o022 == 0


def test_where_a_user_has_a_cache_of_jax_it_is_left_to_that(cache, tmp_path):
    """What JAX has read from its cache cannot be written again: it would be found, and fail when it is called."""
    jax.config.update("jax_compilation_cache_dir", str(tmp_path / "of the user"))
    compilation_cache.reset_cache()
    fresh()(np.eye(2, dtype=np.float32))
    assert not list(cache.glob("*/*.program"))


def test_off_keeps_nothing(monkeypatch, tmp_path):
    monkeypatch.setenv("LATENTBITS_CACHE", "off")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    x = np.eye(2, dtype=np.float32)
    assert compiled_by(lambda: fresh()(x))[1] == [True]
    assert compiled_by(lambda: fresh()(x))[1] == [True]
    assert not list(tmp_path.rglob("*"))


def test_the_oldest_go_when_there_is_no_room(cache, monkeypatch):
    monkeypatch.setattr(program_cache, "FILES_BETWEEN_CHECKS", 1)
    for n in range(2, 5):
        fresh()(np.eye(n, dtype=np.float32))
    files = sorted(cache.glob("*/*.program"), key=lambda path: path.stat().st_mtime_ns)
    assert len(files) == 3
    monkeypatch.setattr(program_cache, "MOST_BYTES", sum(path.stat().st_size for path in files[1:]))
    fresh()(np.eye(5, dtype=np.float32))
    left = set(cache.glob("*/*.program"))
    assert files[0] not in left
    assert len(left) < 4


TABLE = np.arange(3.0)  # that a test exchanges


def table_times(x):
    return x * jnp.asarray(TABLE, x.dtype)


def by_variable(x):
    return x * float(os.environ["LATENTBITS_TEST_FACTOR"])


def executed(factor):
    names = {}
    exec(f"def function(x): return x * {factor}", names)
    return names["function"]


def wrapped(factor):
    @wraps(table_times)
    def function(x):
        return x * factor

    return function


@dataclass(frozen=True)
class Times:
    factor: float = 1.0

    def __call__(self, x):
        return x * self.factor


def patched_with(factor, monkeypatch):
    monkeypatch.setattr(f"{__name__}.TABLE", np.full(3, factor))
    return table_times


def reading(factor, monkeypatch):
    monkeypatch.setenv("LATENTBITS_TEST_FACTOR", str(factor))
    return by_variable


@pytest.mark.parametrize(
    "made_with",
    [
        pytest.param(patched_with, id="a global that was patched"),
        pytest.param(reading, id="a variable of the environment"),
        pytest.param(lambda factor, _: executed(factor), id="exec"),
        pytest.param(lambda factor, _: wrapped(factor), id="functools.wraps"),
        pytest.param(lambda factor, _: partial(Times.__call__, Times(factor)), id="an instance"),
    ],
)
def test_what_is_found_on_disk_is_what_would_be_compiled(cache, monkeypatch, made_with):
    """Other processes are other programs of functions with the same names."""

    def process(factor):
        function = made_with(factor, monkeypatch)
        value, made = compiled_by(lambda: Program(update_wrapper(lambda x: function(x), table_times))(np.ones(3)))
        np.testing.assert_array_equal(value, np.full(3, factor))
        return made

    assert [process(factor) for factor in (2.0, 3.0, 2.0)] == [[True], [True], [False]]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(lambda x, y: x + 1, lambda x, y: y + 1, id="the argument that is not used"),
        pytest.param(
            lambda x, y: x + np.arange(5000.0), lambda x, y: x + np.r_[np.arange(4999.0), 0], id="a large constant"
        ),
        pytest.param(lambda x, y: (x, x), lambda x, y: [x, x], id="the structure of what is returned"),
    ],
)
def test_programs_that_look_alike_are_distinguished(cache, one, other):
    arguments = np.arange(5000.0), np.full(5000, 2.0)
    for function in (one, other, one):
        jax.tree.map(
            np.testing.assert_allclose, Program(function)(*arguments), jax.tree.map(jnp.asarray, function(*arguments))
        )


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="the names of calls are those on CPUs")
def test_a_program_that_calls_this_process_has_no_name():
    """The call is by the address of what is called."""

    def name(function):
        lowered = jax.jit(function).lower(np.eye(2, dtype=np.float32))
        assert "custom_call" in lowered.as_text()
        return program_cache.name(lowered.as_text(), "", jax.local_devices()[0])

    def callback(x):
        return jax.pure_callback(np.sin, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    assert name(jnp.linalg.cholesky) is not None
    assert name(callback) is None
    assert name(lambda x: callback(jnp.linalg.cholesky(x))) is None


@pytest.mark.parametrize("seed", [0, 1, 2**31 - 2])
def test_keys_are_those_of_jax(seed):
    theirs = jax.random.key(seed, impl="threefry2x32")
    ours = keys.of_seed(seed)
    for number in (0, 5, 2**32 - 1):
        np.testing.assert_array_equal(jax.random.key_data(theirs), ours)
        theirs, ours = jax.random.fold_in(theirs, np.uint32(number)), keys.fold(ours, number)
    np.testing.assert_array_equal(keys.raw(keys.typed(ours)), ours)


FRESH = """
import numpy as np, sys, warnings
from latentbits import LatentTrait
from latentbits.core import compilation
import jax
before = dict(jax.config.values)
x = (np.random.default_rng(0).random((60, 5)) < 0.4).astype(np.uint8)
m = LatentTrait(1, max_iter=5, random_state=0).fit(x)
m.transform(x)
print(m.score(x).hex(), sum(one.compiled for one in compilation.made()), len(compilation.made()))
assert before == dict(jax.config.values)
"""


@pytest.mark.slow("another process")
def test_another_process_compiles_nothing(cache):
    """Two processes at the same time share the folder, and a third finds all there; JAX's settings stay as they are."""
    environment = {"LATENTBITS_CACHE": str(cache.parent), "PATH": "", "PYTHONPATH": ":".join(sys.path)}
    start = partial(subprocess.Popen, [sys.executable, "-c", FRESH], env=environment, stdout=subprocess.PIPE, text=True)
    at_once = [start() for _ in range(2)]
    answers = [process.communicate()[0].split() for process in at_once]
    assert all(process.returncode == 0 for process in at_once)
    score, compiled, made = start().communicate()[0].split()
    assert {score} == {one[0] for one in answers}
    assert (int(compiled), int(made) > 0) == (0, True)


def test_an_option_that_this_compiler_does_not_have_is_left_out(cache, monkeypatch):
    monkeypatch.setattr(compilation, "_no_options", set())
    monkeypatch.setattr(compilation, "OFTEN", ((float("inf"), {"xla_cpu_option_of_yesterday": True}),))
    program = Program(lambda x: x + 1)
    assert float(program(1.5)) == 2.5
    assert compilation._no_options == {"xla_cpu_option_of_yesterday"}


@pytest.mark.parametrize(("rows", "quickly"), [(1000, True), (100_000, False)])
def test_on_a_gpu_kernels_are_tried_for_large_arrays_alone(rows, quickly):
    def products(bits, weights, key):
        return bits @ weights, jax.random.uniform(key)

    arguments = jnp.zeros((rows, 64), jnp.uint8), jnp.zeros((64, 4)), jax.random.key(0)
    lowered = jax.jit(products).lower(*arguments)

    def options(program):
        return compilation._options(program._efforts({}, "gpu"), lowered, "gpu")

    assert options(Program(products)) == (compilation.UNTRIED if quickly else {})
    assert options(Program(products, seldom=True)) == compilation.UNTRIED


def test_one_thread_compiles_for_all():
    program, before = Program(lambda x: x + 4), len(compilation.made())
    with ThreadPoolExecutor(8) as pool:
        assert set(map(float, pool.map(program, [1.5] * 40))) == {5.5}
    assert len(compilation.made()) == before + 1


def test_a_program_that_failed_to_compile_is_tried_again():
    failures = [ValueError("once")]

    def work(x):
        if failures:
            raise failures.pop()
        return x + 5

    program = Program(work)
    with pytest.raises(ValueError, match="once"):
        program(1.5)
    assert float(program(1.5)) == 6.5


def test_programs_with_calls_that_wait_for_threads_run_one_at_a_time(cache):
    """A batched LAPACK call may wait, in a thread of XLA's, for other such threads: see `compilation._alone`."""

    def factors(x):
        for _ in range(3):  # one after the other, in a loop, as where it was found
            x = jnp.linalg.cholesky(x @ x.transpose(0, 2, 1) + jnp.eye(x.shape[1]))
        return x

    x = np.random.default_rng(0).normal(size=(500, 20, 20)).astype(np.float32)
    program = Program(factors)

    def alone(program):
        return program._ready(*jax.tree.flatten((x,)), {}).alone

    assert not alone(Program(jnp.sin))
    assert alone(program)
    compilation.clear()
    assert alone(program)  # read from disk, if not compiled again
    expected = program(x)
    with ThreadPoolExecutor(8) as pool:
        for found in pool.map(program, [x] * 40):
            np.testing.assert_array_equal(found, expected)
