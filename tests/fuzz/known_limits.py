"""Known once: memory and time without bounds (11, 12, 13, 16a)."""

from __future__ import annotations

from tests.fuzz.before_after import Seen, check
from tests.fuzz.bench import Bench

WIDE = (
    "import warnings, numpy as np, latentbits as lb\nwarnings.simplefilter('ignore')\nrng = np.random.default_rng(0)\n"
)


@check("11", "LatentTrait at 40 x 12 000: peak memory")
def trait_memory(bench: Bench) -> Seen:
    ran = bench.python(
        WIDE
        + "X = (rng.random((40, 12000)) < .4).astype(np.uint8)\n"
        + "m = lb.LatentTrait(1, max_iter=2, random_state=0).fit(X); print('fitted = 1'); m.save('m.safetensors')",
        seconds=400,
    )
    fitted = "yes" if ran.code == 0 else f"no ({ran.how}: {ran.last})"
    return Seen(ran.code == 0 and ran.peak < 1500, f"peak {ran.peak:.0f} MB, fitted: {fitted}")


@check("12a", "ClippedGaussian at 40 x 1500: its file")
def clipped_file(bench: Bench) -> Seen:
    ran = bench.python(
        WIDE
        + """
X = (rng.random((40, 1500)) < .4).astype(np.uint8)
lb.ClippedGaussian(2, random_state=0).fit(X).save("m.safetensors")
import os; print("size =", os.path.getsize("m.safetensors") / 1e6)
""",
        seconds=400,
    )
    size = ran.number("size")
    return Seen(
        size < 5, f"{size:.1f} MB; fit in {ran.seconds:.0f} s, peak {ran.peak:.0f} MB" if ran.code == 0 else ran.last
    )


@check("12b", "ClippedGaussian at 40 x 3000: time and memory, max_time=5")
def clipped_time(bench: Bench) -> Seen:
    ran = bench.python(
        WIDE
        + """
import time
small = (rng.random((40, 50)) < .4).astype(np.uint8)
lb.ClippedGaussian(2, random_state=0).fit(small)
X = (rng.random((40, 3000)) < .4).astype(np.uint8)
began = time.process_time(); wall = time.perf_counter()
try:
    m = lb.ClippedGaussian(2, random_state=0, max_time=5).fit(X); print("how =", m.stop_reason_)
except (ValueError, MemoryError, ArithmeticError) as error:
    print("how = refused", error)
print("cpu =", time.process_time() - began); print("wall =", time.perf_counter() - wall)
""",
        seconds=500,
    )
    cpu = ran.number("cpu")
    return Seen(
        ran.code == 0 and cpu < 20 and ran.peak < 2000,
        f"{cpu:.0f} s of processor time ({ran.number('wall'):.0f} s), peak {ran.peak:.0f} MB: {ran.value('how')[:80]}",
    )


def _wide_table(bench: Bench, n: int, d: int) -> None:
    bench.python(
        f"import numpy as np; np.save('t.npy', (np.random.default_rng(0).random(({n}, {d})) < .4).astype(np.uint8))"
    )


@check("12c", "`explore --model clipped-gaussian` of 60 x 2500 with a budget of 10 s")
def explore_budget(bench: Bench) -> Seen:
    _wide_table(bench, 60, 2500)
    asked = ("explore", "t.npy", "--model", "clipped-gaussian", "--budget", "10s", "--out", "p.html")
    ran = bench.tool(*asked, seconds=500)
    page = (bench.folder / "p.html").exists()
    told = ran.code == 0 and page
    refused = ran.code == 1 and "error: " in ran.err and not ran.traceback
    good = (told or refused) and ran.processor < 60
    return Seen(
        good, f"{ran.processor:.0f} s of processor time ({ran.seconds:.0f} s), page {page}, {ran.how}: {ran.last}"
    )


@check("12d", "the search of `explore` in 60 x 9000 within 5 GiB: a family without memory is left out with its reason")
def search_memory(bench: Bench) -> Seen:
    _wide_table(bench, 60, 9000)
    ran = bench.python(
        """
import warnings, numpy as np
from latentbits.choosing.search import search
warnings.simplefilter("ignore")
found = search(np.load("t.npy"), families=["mixture", "clipped-gaussian"], budget=10, random_state=0)
print("left out =", dict(found.left_out)); print("best =", found.comparison.entries[0].name)
""",
        seconds=590,
        memory=5,
    )
    if ran.code != 0:
        return Seen(False, f"{ran.how} after {ran.seconds:.0f} s, peak {ran.peak:.0f} MB: {ran.last}")
    return Seen(True, f"best {ran.value('best')}; left out {ran.value('left out')[:120]}; peak {ran.peak:.0f} MB")


SPARSE = (
    "import numpy as np; from scipy import sparse; rng = np.random.default_rng(0); n, d, k = 60000, 100000, 20000\n"
    "X = sparse.csr_array((np.ones(k, np.uint8), (rng.integers(n, size=k), rng.integers(d, size=k))), shape=(n, d))\n"
    "X.sum_duplicates(); X.data[:] = 1; sparse.save_npz('s.npz', X)\n"
)


@check("13a", "`compare` of a sparse 60 000 x 100 000 table (20 000 ones) within 5 GiB")
def compare_sparse(bench: Bench) -> Seen:
    bench.python(SPARSE)
    ran = bench.tool("compare", "s.npz", "--models", "product", seconds=500, memory=5)
    asked = "nable to allocate" in ran.err
    good = ran.code == 0 or (ran.code == 1 and "error: " in ran.err and not asked and not ran.traceback)
    return Seen(good, f"{ran.how} after {ran.seconds:.0f} s, peak {ran.peak:.0f} MB: {ran.last}")


@check("13b", "`explore` of the same")
def explore_sparse(bench: Bench) -> Seen:
    bench.python(SPARSE)
    ran = bench.tool(
        "explore", "s.npz", "--budget", "10s", "--model", "mixture", "--out", "p.html", seconds=560, memory=5
    )
    asked = "nable to allocate" in ran.err
    good = ran.code == 0 or (ran.code == 1 and "error: " in ran.err and not asked and not ran.traceback)
    return Seen(good, f"{ran.how} after {ran.seconds:.0f} s, peak {ran.peak:.0f} MB: {ran.last}")


@check("16a", "RESOURCE_EXHAUSTED from the device")
def exhausted(bench: Bench) -> Seen:
    bench.python("import numpy as np; np.savetxt('t.csv', np.eye(9), fmt='%d', delimiter=',')")
    ran = bench.python(
        """
import jax, latentbits
from latentbits.cli.main import cli
def fit(self, X, y=None):
    raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 99999999999 bytes.")
latentbits.BernoulliMixture.fit = fit
cli(["fit", "t.csv", "-m", "mixture", "-k", "2"])
"""
    )
    good = ran.code == 1 and "error: " in ran.err and not ran.traceback
    return Seen(good, f"{ran.how}{', a traceback' if ran.traceback else ''}: {ran.last}")
