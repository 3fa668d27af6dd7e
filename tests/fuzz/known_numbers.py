"""Known once: numbers that were wrong in silence (1, 5, 6, 7)."""

from __future__ import annotations

import json
import math

from tests.fuzz.before_after import Seen, check
from tests.fuzz.bench import Bench

BRUTE = """
import warnings, numpy as np, latentbits as lb
from latentbits.data import toys
from tests.fuzz.brute import answers, states_of
def told(caught):
    texts = [str(w.message) for w in caught]
    return [t for t in texts if "converge" not in t.lower() and "iterations" not in t]
"""


def _agree(value: float, true: float, stated: float = 0.0) -> bool:
    return abs(value - true) <= max(1e-3, 1e-6 * abs(true), 10 * stated)


@check("1a", "sparse coding of 300 + .01 X: `fit` prints a density that is not the model's")
def offset_300(bench: Bench) -> Seen:
    bench.python(
        "import numpy as np; from latentbits.data import toys\n"
        "np.savetxt('t.csv', 300 + .01 * toys.linear_bars(400, random_state=1).X, delimiter=',', fmt='%.17g')"
    )
    ran = bench.tool("fit", "t.csv", "-m", "binary-sparse-coding", "-k", "10", "--json")
    if ran.code:
        return Seen(not ran.traceback, f"refused: {ran.last}")
    told = json.loads(ran.out)
    true = bench.python(
        BRUTE
        + "m = lb.load('model.safetensors'); X = np.loadtxt('t.csv', delimiter=',')\n"
        + "print('true =', answers(states_of(m), X).log_likelihood.mean())"
    ).number("true")
    value = told["nats_per_row"]
    warned = "warning" in ran.err
    return Seen(
        _agree(value, true) or warned, f"{value:.4f} nats, brute force {true:.4f}{', warned' if warned else ''}"
    )


@check("1b", "sparse coding of 10000 + X: score and posteriors")
def offset_10000(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
X = 10000 + toys.linear_bars(400, random_state=1).X
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        m = lb.BinarySparseCoding(10, random_state=0).fit(X)
        score, z = m.score(X), m.transform(X)
        true = answers(states_of(m), X)
        print("score =", score); print("true =", true.log_likelihood.mean())
        print("off =", np.abs(z - true.latents).max())
    except ValueError as error:
        print("refused =", error)
print("warned =", len(told(caught)))
"""
    )
    if "refused = " in ran.out:
        return Seen(True, f"refused: {ran.value('refused')[:120]}")
    score, true, off = ran.number("score"), ran.number("true"), ran.number("off")
    good = (_agree(score, true) and off < 1e-3) or ran.number("warned") > 0
    return Seen(good, f"score {score:.2f}, brute force {true:.2f}; posteriors off by up to {off:.2g}")


@check("1c", "a stated error reaches the user: `score` of 10000 + X on the command line")
def error_is_told(bench: Bench) -> Seen:
    made = bench.python(
        BRUTE
        + """
X = 10000 + toys.linear_bars(400, random_state=1).X
np.savetxt("t.csv", X, delimiter=",", fmt="%.17g")
try:
    m = lb.BinarySparseCoding(10, random_state=0).fit(X)
    m.save("m.safetensors")
    known = m.log_likelihoods(X)
    print("stated =", float(np.mean(known.error)) + float(np.max(known.common_error)))
    print("true =", answers(states_of(m), X).log_likelihood.mean())
except ValueError as error:
    print("refused =", error)
"""
    )
    if "refused = " in made.out:
        return Seen(True, f"refused: {made.value('refused')[:120]}")
    stated, true = made.number("stated"), made.number("true")
    ran = bench.tool("score", "m.safetensors", "t.csv", "--json")
    if ran.code:
        return Seen("error: " in ran.err and not ran.traceback, f"stated error {stated:.3g}; score: {ran.last}")
    found = json.loads(ran.out)
    value = found["nats_per_row"]
    told = max(abs(v) for k, v in found.items() if "error" in k and isinstance(v, float))
    good = _agree(value, true) or "warning" in ran.err or told >= abs(value - true) / 10
    return Seen(good, f"{value:.2f} ± {told:.2g} told, brute force {true:.2f}; log_likelihoods states {stated:.3g}")


@check("1d", "a machine of reals at an offset of 30 000")
def machine_offset(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
rng = np.random.default_rng(0)
X = 30000 + (rng.random((400, 2)) < .5) @ (3 * rng.normal(size=(2, 5))) + rng.normal(size=(400, 5))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    try:
        m = lb.CombinationMachine(2, kind="real", random_state=0, n_epochs=10, max_iter=200).fit(X)
        known = m.log_likelihoods(X)
        print("score =", m.score(X)); print("true =", answers(states_of(m), X).log_likelihood.mean())
        print("stated =", float(np.max(known.error)) + float(np.max(known.common_error)))
    except ValueError as error:
        print("refused =", error)
print("warned =", len(told(caught)))
"""
    )
    if "refused = " in ran.out:
        return Seen(True, f"refused: {ran.value('refused')[:120]}")
    score, true, stated = ran.number("score"), ran.number("true"), ran.number("stated")
    good = _agree(score, true, stated) or ran.number("warned") > 0
    return Seen(good, f"score {score:.2f}, brute force {true:.2f}, stated error {stated:.2g}")


@check("5a", "noisy OR: a column with one 1 in 20 000 rows")
def rare_column(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
rng = np.random.default_rng(0)
X = (rng.random((20000, 5)) < .3).astype(np.uint8); X[:, 0] = 0; X[7, 0] = 1
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    m = lb.NoisyOrNetwork((2,), n_updates=10, n_epochs=2, max_iter=20, random_state=0).fit(X)
s = states_of(m)
print("p =", float(np.exp(s.log_prior) @ np.exp(s.one[:, 0]))); print("warned =", "leak" in " ".join(told(caught)))
"""
    )
    p = ran.number("p")
    good = p < 2.5e-4 or ran.value("warned") == "True"
    return Seen(good, f"P = {p:.2g}, share 5e-05{', warned' if ran.value('warned') == 'True' else ''}")


@check("5b", "noisy OR: ones in samples of 300 rare columns")
def rare_columns(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
rng = np.random.default_rng(0)
X = (rng.random((3000, 300)) < 2e-4).astype(np.uint8); X[:, :4] = rng.random((3000, 4)) < .3
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    m = lb.NoisyOrNetwork((2,), n_updates=10, n_epochs=2, max_iter=20, random_state=0).fit(X)
S = m.sample(3000, random_state=0)
print("ratio =", S[:, 4:].sum() / X[:, 4:].sum()); print("warned =", "leak" in " ".join(told(caught)))
"""
    )
    ratio = ran.number("ratio")
    return Seen(ratio < 2 or ran.value("warned") == "True", f"{ratio:.1f} times as many ones as the data")


def _promised(bench: Bench) -> bool:
    """Whether the first page of the documentation promises the same parameters to the bit, without a but."""
    pages = [bench.tree / "docs" / name for name in ("index.md", "quickstart.md", "quick-start.md")]
    text = " ".join(page.read_text(encoding="utf-8") for page in pages if page.exists())
    return "same table gives the same parameters, to the bit" in text


def _engines(bench: Bench, setup: str, what: str) -> Seen:
    ran = bench.python(
        BRUTE
        + setup
        + """
warnings.simplefilter("ignore")
np.save("t.npy", X)
a = new().fit(X)
b = new().fit(lambda: (X[i:i + 100] for i in range(0, len(X), 100)))
c = new().fit(np.load("t.npy", mmap_mode="r"))
A, B, C = (np.ravel(m.components_ if hasattr(m, "components_") else m.weights_[0]) for m in (a, b, c))
print("stream =", np.abs(A - B).max()); print("map =", np.abs(A - C).max())
print("scores =", a.score(X), b.score(X), c.score(X))
""",
        seconds=400,
    )
    stream, memory_map = ran.number("stream"), ran.number("map")
    same = max(stream, memory_map) <= 1e-6
    promised = _promised(bench)
    said = "; the docs promise equality" if promised else "; the docs no longer promise equality"
    return Seen(
        same or (not promised and not math.isnan(stream)),
        f"{what} differ by {stream:.2g} (stream), {memory_map:.2g} (map); scores {ran.value('scores')}{said}",
    )


BITS = """
rng = np.random.default_rng(0)
field = 1.5 * rng.normal(size=(700, 2)) @ rng.normal(size=(2, 12))
X = (rng.random((700, 12)) < 1 / (1 + np.exp(-field))).astype(np.uint8)
"""


@check("6a", "latent trait: memory, stream and map")
def engines_trait(bench: Bench) -> Seen:
    return _engines(bench, BITS + "new = lambda: lb.LatentTrait(2, random_state=0)\n", "components")


@check("6b", "combination machine: memory, stream and map")
def engines_machine(bench: Bench) -> Seen:
    return _engines(
        bench, BITS + "new = lambda: lb.CombinationMachine(4, random_state=0, max_iter=100)\n", "components"
    )


@check("6c", "noisy OR: memory, stream and map")
def engines_network(bench: Bench) -> Seen:
    return _engines(bench, BITS + "new = lambda: lb.NoisyOrNetwork((3,), random_state=0, max_iter=50)\n", "weights")


@check("6d", "digits sorted by class, a machine of 20: memory and map")
def sorted_rows(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
from latentbits.data import load_dataset
warnings.simplefilter("ignore")
data = load_dataset("digits")
y = np.asarray(next(iter(data.labels.values())))
X = np.asarray(data.X)[np.argsort(y, kind="stable")]
np.save("t.npy", X)
new = lambda: lb.CombinationMachine(20, random_state=0)
print("memory =", new().fit(X).score(X))
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    m = new().fit(np.load("t.npy", mmap_mode="r"))
print("map =", m.score(X)); print("warned =", len(told(caught)))
""",
        seconds=500,
    )
    memory, memory_map = ran.number("memory"), ran.number("map")
    good = memory - memory_map < 0.3 or ran.number("warned") > 0
    return Seen(good, f"{memory:.2f} nats in memory, {memory_map:.2f} as a map")


@check("7a", "`read` of 100 consecutive timestamps")
def timestamps(bench: Bench) -> Seen:
    ran = bench.python(
        """
import warnings, numpy as np, latentbits as lb
t = 1.7e9 + np.arange(100.)
np.savetxt("t.csv", np.c_[t, t % 2], delimiter=",", fmt="%.1f"); np.save("t.npy", np.c_[t, t % 2])
for name in ("t.csv", "t.npy"):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            n = len(np.unique(np.asarray(lb.read(name).values)[:, 0]))
        except ValueError as error:
            n = "refused"
    print(name.replace(".", "_"), "=", n, "warned" if caught else "")
"""
    )
    found = [ran.value(name).strip() for name in ("t_csv", "t_npy")]
    return Seen(all(f in ("100", "refused") or "warned" in f for f in found), f"values that differ: {found} of 100")


@check("7b", "30 000 columns in float32: sums of log-probabilities")
def many_columns(bench: Bench) -> Seen:
    ran = bench.python(
        BRUTE
        + """
rng = np.random.default_rng(0)
X = (rng.random((40, 30000)) < rng.random(30000)).astype(np.uint8)
m = lb.BernoulliProduct().fit(X)
known = m.log_likelihoods(X)
off = np.asarray(known.value, float) - answers(states_of(m), X.astype(float)).log_likelihood
print("off =", np.abs(off).max()); print("one sign =", float(np.mean(off > 0)))
print("stated =", float(np.max(known.error)) + float(np.max(known.common_error)))
"""
    )
    off, stated, share = ran.number("off"), ran.number("stated"), ran.number("one sign")
    return Seen(
        off <= max(1e-3, 10 * stated),
        f"off by up to {off:.2g} nats a row, {share:.0%} of the rows too high; stated error {stated:.2g}",
    )


@check("7c", "datetime64 given to sparse coding")
def datetimes(bench: Bench) -> Seen:
    return _refused_types(bench, "M8[s]", ("BinarySparseCoding(2)", "CombinationMachine(2, kind='real')"))


@check("7d", "timedelta64 given to any model")
def timedeltas(bench: Bench) -> Seen:
    names = (
        "BernoulliProduct()",
        "BernoulliMixture(2)",
        "LatentTrait(1)",
        "NoisyOrNetwork((2,))",
        "ClippedGaussian(1)",
    )
    return _refused_types(bench, "m8[s]", (*names, "CombinationMachine(2)", "BinarySparseCoding(2)"))


def _refused_types(bench: Bench, kind: str, models: tuple[str, ...]) -> Seen:
    ran = bench.python(
        f"""
import warnings, numpy as np, latentbits as lb
warnings.simplefilter("ignore")
X = np.random.default_rng(0).integers(2, size=(30, 4)).astype({kind!r})
for text in {models!r}:
    try:
        m = eval("lb." + text); m.set_params(max_iter=2).fit(X); print("taken =", text)
    except (ValueError, TypeError) as error:
        pass
print("end = 1")
"""
    )
    taken = [line.partition(" = ")[2] for line in ran.out.splitlines() if line.startswith("taken")]
    if "end = 1" not in ran.out:
        return Seen(False, f"{ran.how}: {ran.last}")
    return Seen(not taken, f"taken as numbers by {', '.join(taken)}" if taken else f"refused by {len(models)} models")
