"""Known once: files that were misread, names that were eaten, forgeries that were believed (2, 3, 4, 14, 16b, 17)."""

from __future__ import annotations

import gzip
from pathlib import Path

from tests.fuzz.before_after import Seen, check
from tests.fuzz.bench import Bench, Ran

ROWS = ((1, 1, 0), (0, 0, 1), (1, 0, 0), (0, 1, 1), (1, 1, 1), (0, 0, 0)) * 6


def _csv(bench: Bench, names: tuple[str, ...], file: str = "t.csv") -> str:
    lines = [",".join(f'"{name}"' for name in names), *(",".join(map(str, row[: len(names)])) for row in ROWS)]
    (bench.folder / file).write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def _line(ran: Ran, *words: str) -> Seen:
    """A clear line: exit 1, `error:`, no traceback, and the words that name the thing."""
    good = ran.code == 1 and "error: " in ran.err and not ran.traceback and all(word in ran.err for word in words)
    return Seen(good, f"{ran.how}: {ran.last}")


@check("2a", "0/255 images in .npz, --binarize 127")
def images(bench: Bench) -> Seen:
    bench.python(
        "import numpy as np; b = (np.random.default_rng(0).random((500, 20)) < .323).astype(np.uint8)\n"
        "np.savez('b.npz', X=b * 255); np.save('b.npy', b * 255); print('mean =', b.mean())"
    )
    told = []
    for name in ("b.npz", "b.npy"):
        ran = bench.tool("fit", name, "-m", "product", "--binarize", "127", "-o", f"{name}.safetensors")
        mean = bench.python(f"import latentbits as lb; print('m =', lb.load('{name}.safetensors').means_.mean())")
        told.append(mean.number("m") if ran.code == 0 else float("nan"))
    return Seen(abs(told[0] - told[1]) < 1e-9, f"mean {told[0]:.4f} from .npz, {told[1]:.4f} from .npy")


@check("2b", "a one-column .npz with `n_features` or `shape` beside it")
def one_column(bench: Bench) -> Seen:
    ran = bench.python(
        """
import numpy as np, latentbits as lb
X = np.random.default_rng(0).integers(2, size=(300, 1)).astype(np.uint8)
np.savez("a.npz", X=X, shape=X.shape); np.savez("b.npz", X=X, n_features=5)
for name in "ab":
    try:
        v = np.asarray(lb.read(name + ".npz").values)
        print(name, "=", v.shape, bool(v.shape == X.shape and (v == X).all()))
    except ValueError as error: print(name, "= refused", error)
"""
    )
    found = [ran.value(name) for name in "ab"]
    return Seen(
        all("True" in f or "refused" in f for f in found), f"shape beside it: {found[0]}; n_features: {found[1]}"
    )


def _pandas(bench: Bench, index: bool) -> Seen:
    ran = bench.python(
        f"""
import numpy as np, pandas as pd, latentbits as lb
X = np.random.default_rng(0).normal(size=(300, 5))
pd.DataFrame(X).to_csv("p.csv", index={index})
v = np.asarray(lb.read("p.csv").values)
print("shape =", v.shape); print("same =", v.shape == X.shape and bool(np.allclose(v, X, rtol=1e-6)))
"""
    )
    return Seen(ran.value("same") == "True", f"{ran.value('shape')} for (300, 5)")


@check("3a", "`pd.DataFrame(reals).to_csv` with its index")
def pandas_index(bench: Bench) -> Seen:
    return _pandas(bench, True)


@check("3b", "the same with index=False")
def pandas_header(bench: Bench) -> Seen:
    return _pandas(bench, False)


def _items(bench: Bench, names: tuple[str, ...], **more: str) -> Ran:
    return bench.tool(
        "fit",
        _csv(bench, names),
        "-m",
        "latent-trait",
        "-k",
        "1",
        "--max-iter",
        "5",
        environment={"COLUMNS": "300", **more},
    )


@check("4a", "columns income[low] and income[high]")
def brackets(bench: Bench) -> Seen:
    ran = _items(bench, ("income[low]", "income[high]", "c"))
    good = ran.code == 0 and "income[low]" in ran.out and "income[high]" in ran.out
    lines = [line.split()[0] for line in ran.out.splitlines() if "income" in line]
    return Seen(good, f"{ran.how}, printed as {' and '.join(lines)}")


@check("4b", "a column a[/b]")
def closing(bench: Bench) -> Seen:
    ran = _items(bench, ("a[/b]", "b", "c"))
    good = ran.code == 0 and "a[/b]" in ran.out
    return Seen(good, f"{ran.how}{', a traceback' if ran.traceback else ''}: {ran.last if ran.code else 'printed'}")


@check("4c", "escape sequences in names")
def escapes(bench: Bench) -> Seen:
    ran = _items(bench, ("\x1b[31mred", "\x1b]0;title\x07b", "c"))
    raw = (ran.out + ran.err).count("\x1b")
    return Seen(ran.code == 0 and not raw, f"{ran.how}, {raw} raw ESC bytes on the terminal")


# --- 14: forgeries and bombs ---

FORGE = """
import warnings, numpy as np, latentbits as lb
from pathlib import Path
from tests.fuzz.files import forge
warnings.simplefilter("ignore")
X = np.random.default_rng(0).integers(2, size=(40, 5))
"""


@check("14a", "a forged model file with annealing_steps=10**8: `score`")
def endless(bench: Bench) -> Seen:
    made = bench.python(
        FORGE
        + """
lb.NoisyOrNetwork((24,), n_updates=2, n_epochs=1, max_iter=2, random_state=0).fit(X).save("m.safetensors")
forge(Path("m.safetensors"), lambda h, t: h["hyperparameters"].update(annealing_steps=10**8))
np.savetxt("t.csv", X, fmt="%d", delimiter=",")
print("size =", Path("m.safetensors").stat().st_size)
"""
    )
    ran = bench.tool("score", "m.safetensors", "t.csv", seconds=150)
    good = "size = " in made.out and ran.code in (0, 1) and not ran.traceback
    return Seen(
        good, f"a file of {made.value('size')} bytes: {ran.how}{' of 150 s' if ran.code is None else ': ' + ran.last}"
    )


def _forged(bench: Bench, change: str) -> Seen:
    ran = bench.python(
        FORGE
        + f"""
lb.BernoulliMixture(2, random_state=0, max_iter=3).fit(X).save("m.safetensors")
def change(h, t): {change}
forge(Path("m.safetensors"), change)
try:
    m = lb.load("m.safetensors")
    print("found = loads:", m.n_iter_, repr(m.stop_reason_), list(getattr(m, "feature_names_in_", [])))
except lb.core.errors.ModelFileError as error:
    print("found = refused:", str(error)[-110:])
"""
    )
    return Seen(ran.value("found").startswith("refused"), ran.value("found"))


@check("14b", "a forged header: names as a dictionary")
def forged_dictionary(bench: Bench) -> Seen:
    return _forged(bench, "h['feature_names'] = dict.fromkeys('abcde', 1)")


@check("14c", "a forged header: names doubled")
def forged_doubled(bench: Bench) -> Seen:
    return _forged(bench, "h['feature_names'] = list('aabcd')")


@check("14d", "a forged header: -5 iterations")
def forged_iterations(bench: Bench) -> Seen:
    return _forged(bench, "h['n_iter'] = -5")


@check("14e", "a forged header: a stop reason that is a list")
def forged_reason(bench: Bench) -> Seen:
    return _forged(bench, "h['stop_reason'] = ['converged']")


@check("14f", "a sparse .npz of 1 kB that claims 10^9 rows")
def sparse_bomb(bench: Bench) -> Seen:
    ran = bench.python(
        """
import numpy as np, latentbits as lb
place = {"row": np.zeros(1, int), "col": np.zeros(1, int)}
np.savez_compressed("b.npz", format=np.array("coo"), shape=np.array([10**9, 3]), data=np.ones(1), **place)
import os; print("size =", os.path.getsize("b.npz"))
try:
    print("found = accepted:", lb.read("b.npz").values.shape)
except ValueError as error:
    print("found = refused:", str(error)[:140])
""",
        seconds=120,
    )
    good = ran.value("found").startswith("refused") and ran.peak < 2000 and "MemoryError" not in ran.value("found")
    return Seen(good, f"{ran.value('size')} bytes: {ran.value('found')}; peak {ran.peak:.0f} MB")


@check("14g", "a .csv.gz that unpacks to 48 GB")
def gzip_bomb(bench: Bench) -> Seen:
    member = gzip.compress(b"0,1\n" * 2**24, 9)
    with (bench.folder / "b.csv.gz").open("wb") as file:
        for _ in range(768):
            file.write(member)
    size = Path(bench.folder, "b.csv.gz").stat().st_size / 1e6
    ran = bench.python(
        """
import latentbits as lb
try:
    print("found = accepted:", lb.read("b.csv.gz").values.shape)
except ValueError as error:
    print("found = refused:", str(error)[:140])
""",
        seconds=180,
        memory=4,
    )
    good = ran.value("found").startswith("refused") and "MemoryError" not in ran.value("found")
    return Seen(good, f"{size:.0f} MB: {ran.value('found')}; peak {ran.peak:.0f} MB")


# --- 16b, 17 ---


@check("16b", "`explore --figures` with a column $\\frac{$")
def mathtext(bench: Bench) -> Seen:
    rows = [row * 2 for row in ROWS]
    names = ["$\\frac{$", "b$", "c", "d", "e", "f"]
    text = "\n".join([",".join(names), *(",".join(map(str, row)) for row in rows)])
    (bench.folder / "t.csv").write_text(text + "\n")
    ran = bench.tool(
        "explore", "t.csv", "--model", "mixture", "--budget", "5s", "--out", "p.html", "--figures", "f", seconds=400
    )
    page = (bench.folder / "p.html").exists()
    drawn = len(list(bench.folder.glob("f/*.png")))
    good = ran.code == 0 and page and drawn >= 1 and "bits per row" in ran.out
    told = "printed" if "bits per row" in ran.out else "not printed"
    return Seen(good, f"{ran.how}, page {page}, {drawn} figures, comparison {told}: {ran.last if ran.code else ''}")


@check("17a", "parquet with one name twice")
def parquet_twice(bench: Bench) -> Seen:
    bench.python(
        "import pyarrow as pa, pyarrow.parquet as pq\n"
        "pq.write_table(pa.table([pa.array([0, 1] * 9)] * 3, names=['same', 'same', 'c']), 't.parquet')"
    )
    seen = _line(bench.tool("fit", "t.parquet", "-m", "product"), "same")
    return Seen(seen.ok and "FieldRef" not in seen.text, seen.text)  # else it is the file that is blamed


def _python_line(bench: Bench, code: str, *words: str) -> Seen:
    ran = bench.python(
        f"""
import warnings, numpy as np, pandas as pd, latentbits as lb
warnings.simplefilter("ignore")
bits = np.random.default_rng(0).integers(2, size=(30, 3))
try:
    {code}
except Exception as error:
    print("found =", type(error).__name__ + ":", " ".join(str(error).split()))
"""
    )
    found = ran.value("found")
    taken = found.startswith("taken")
    kind = found.partition(":")[0] in ("DataError", "ValueError", "TypeError")
    good = (taken and "wrong" not in found) or (kind and all(word in found for word in words))
    return Seen(good, found[:160])


@check("17b", "pandas with one name twice")
def pandas_twice(bench: Bench) -> Seen:
    frame = "pd.DataFrame(bits, columns=['same', 'same', 'c'])"
    code = f"lb.BernoulliProduct().fit({frame}).save('m.safetensors'); m = lb.load('m.safetensors')"
    return _python_line(bench, f"{code}; m.score({frame}); print('found = taken, saved and loaded')", "same")


@check("17c", "pandas with one name twice: complete")
def pandas_complete(bench: Bench) -> Seen:
    frame = "pd.DataFrame(bits, columns=['same', 'same', 'c']).astype(object).where(bits >= 0)"
    code = f"m = lb.BernoulliMixture(2, max_iter=3, random_state=0).fit({frame}); f = m.complete({frame})"
    return _python_line(bench, f"{code}; print('found = taken', f.shape)", "same")


@check("17d", "pd.NA in an object array")
def missing_object(bench: Bench) -> Seen:
    code = "X = bits.astype(object); X[0, 0] = pd.NA; m = lb.BernoulliProduct(smoothing=0).fit(X)"
    told = "print('found = taken' if abs(m.means_[0] - bits[1:, 0].mean()) < 1e-6 else 'found = taken, wrong')"
    return _python_line(bench, f"{code}; {told}", "NA", "row")


@check("17e", "--labels ²")
def superscript(bench: Bench) -> Seen:
    return _line(bench.tool("fit", _csv(bench, ("a", "b", "c")), "-m", "product", "--labels", "²"), "²", "label")


@check("17f", "a terminal that is not UTF-8")
def ascii_terminal(bench: Bench) -> Seen:
    ran = _items(bench, ("é", "日本", "c"), PYTHONIOENCODING="ascii")
    saved = (bench.folder / "model.safetensors").exists()
    return Seen(
        ran.code == 0 and saved and "c" in ran.out, f"{ran.how}, saved {saved}: {ran.last if ran.code else 'printed'}"
    )


@check("17g", "formulas in csv files that the tool writes")
def formulas(bench: Bench) -> Seen:
    ran = bench.tool(
        "fit", _csv(bench, ("=1+1", "@b", "c")), "-m", "latent-trait", "-k", "1", "--max-iter", "5", "--items", "i.csv"
    )
    path = bench.folder / "i.csv"
    cells = [line.split(",")[0].strip('"') for line in path.read_text().splitlines()[1:]] if path.exists() else []
    guarded = bool(cells) and not any(cell[:1] in "=@+-" for cell in cells)
    return Seen(guarded, f"{ran.how}, cells {cells}")
