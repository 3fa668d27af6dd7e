"""Settings of all tests: how code is compiled, where compiled programs are kept, and when shapes are checked."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import hypothesis
import jax
import jaxtyping
import pytest
from jaxtyping import install_import_hook

# An example may take as long as a busy machine needs. Examples are the same in every run; `make fuzz` finds others.
hypothesis.settings.register_profile("any machine", deadline=None, derandomize=True, database=None)
hypothesis.settings.load_profile("any machine")

_hook = install_import_hook(["latentbits.core", "latentbits.models"], "beartype.beartype")

OPTIMISED = "optimised"
REAL_DATA = os.environ.get("LATENTBITS_DATA")  # as it was, before a test changes it
MAPS = 20_000  # of memory, when compiled functions are dropped; Linux grants 65530, and these are 3 GB by then


SHORT = ("core", "data", "figures", "fuzz", "metrics")  # folders of short files
SHAPES = ("contract", "core", "models")  # folders whose tests check shapes and types, at 18 % of their processor time


GARBAGE = 50_000  # new objects between two searches for garbage; by default these took 8 % of the processor time


def pytest_collection_finish(session):
    """Leave what all tests share out of every search for garbage, and search less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(GARBAGE, 20, 20)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    """Leave pages in a browser to `make test-all`; short files come last, so that no worker waits for a long one."""
    for item in items:
        if "browser" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.slow("a page in a browser"))
    items.sort(key=lambda item: item.path.parent.name in SHORT)


@pytest.fixture(scope="session", autouse=True)
def compile_cache(tmp_path_factory):
    """One folder of compiled programs for the run: what one worker compiled, the others and later files find.

    COMPILED_TESTS names one that several runs share.  JAX is asked for it in this process alone: the processes that
    tests start have caches of their own.
    """
    if jax.config.jax_compilation_cache_dir is None:
        base = tmp_path_factory.getbasetemp()
        run = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
        jax.config.update("jax_compilation_cache_dir", os.environ.get("COMPILED_TESTS", str(run / "compiled")))
        jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
        jax.config.update("jax_persistent_cache_min_entry_size_bytes", -1)
    # what is kept is that of JAX; programs in the user's folder are left alone
    os.environ.setdefault("LATENTBITS_CACHE", "off")


@pytest.fixture(scope="module", autouse=True)
def shapes(request):
    """Check jaxtyping's annotations by beartype at every call, in the folders of the equations and of the contract."""
    folder = request.path.relative_to(Path(__file__).parent).parts[0]
    jaxtyping.config.update("jaxtyping_disable", folder not in SHAPES)


@pytest.fixture(scope="module", autouse=True)
def compiled_code(request):
    """`make test` asks for code that is compiled fast and runs slowly; files marked ``optimised`` ask for better code.

    Thousands of compiled functions use up the memory maps, and the compiler crashes: then all are dropped.
    """
    compile_fast(fast=not request.node.get_closest_marker(OPTIMISED), drop=memory_maps() > MAPS)


@pytest.fixture(autouse=True)
def compiled_code_of_a_test(request, compiled_code):
    """A test that is marked so, in a file that is not, has better code too; what was compiled before is dropped."""
    before = jax.config.read("jax_disable_most_optimizations")
    compile_fast(fast=before and not request.node.get_closest_marker(OPTIMISED))
    yield
    compile_fast(fast=before)


def compile_fast(fast: bool, drop: bool = False) -> None:
    """Whether code is compiled fast from now on, where that is asked for; what was compiled otherwise is dropped."""
    fast = fast and os.environ.get("JAX_DISABLE_MOST_OPTIMIZATIONS") == "1"
    if drop or fast != jax.config.read("jax_disable_most_optimizations"):
        from latentbits.core import compilation

        jax.clear_caches()
        compilation.clear()
    jax.config.update("jax_disable_most_optimizations", fast)


def memory_maps() -> int:
    try:
        return Path("/proc/self/maps").read_bytes().count(b"\n")
    except OSError:  # not Linux, which alone counts them
        return 0


@pytest.fixture
def real_data() -> Path:
    """The folder of real data; tests that need it are skipped where there is none."""
    if not REAL_DATA:
        pytest.skip("the environment variable LATENTBITS_DATA names no folder of real data")
    return Path(REAL_DATA)
