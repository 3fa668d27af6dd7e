"""Known once: results that were lost at the end, by outputs and by signals (8, 9, 10, 15)."""

from __future__ import annotations

import os
import signal
import stat
import threading

from tests.fuzz.before_after import Seen, check
from tests.fuzz.bench import Bench, Ran


def _small(bench: Bench) -> None:
    bench.python("import numpy as np; np.savetxt('t.csv', np.eye(9), fmt='%d', delimiter=',')")


def _fit(bench: Bench, output: str, **limits: object) -> Ran:
    return bench.tool("fit", "t.csv", "-m", "product", "-o", output, **limits)


@check("8a", "-o onto a device node like /dev/full")
def device(bench: Bench) -> Seen:
    _small(bench)
    path = bench.folder / "full"
    try:
        os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 7))
    except OSError as error:
        return Seen(False, f"cannot be tried here: {error}")
    ran = _fit(bench, "full")
    kept = stat.S_ISCHR(path.lstat().st_mode)
    good = kept and ran.code == 1 and "full" in ran.err and not ran.traceback
    return Seen(good, f"{ran.how}, {'still a device' if kept else 'now a regular file'}: {ran.last}")


@check("8b", "-o onto a FIFO")
def fifo(bench: Bench) -> Seen:
    _small(bench)
    path = bench.folder / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []

    def listen() -> None:
        with path.open("rb") as file:
            got.append(file.read())

    reader = threading.Thread(target=listen, daemon=True)
    reader.start()
    ran = _fit(bench, "pipe", seconds=120)
    kept = stat.S_ISFIFO(path.lstat().st_mode)
    reader.join(5)
    through = sum(map(len, got))
    return Seen(
        ran.code == 0 and kept and through > 100, f"{ran.how}, still a FIFO: {kept}, {through} bytes went through"
    )


@check("8c", "-o onto a symlink")
def symlink(bench: Bench) -> Seen:
    _small(bench)
    target, link = bench.folder / "target.safetensors", bench.folder / "link.safetensors"
    target.write_bytes(b"old")
    link.symlink_to("target.safetensors")
    ran = _fit(bench, "link.safetensors")
    followed = link.is_symlink() and target.read_bytes() != b"old"
    return Seen(ran.code == 0 and followed, f"{ran.how}, link kept and followed: {followed}")


def _kept_elsewhere(bench: Bench, ran: Ran) -> bool:
    """Whether stderr names a file, other than what was asked for, that holds the model."""
    words = ran.err.replace(",", " ").replace(";", " ").replace(":", " ").split()
    files = [word.strip("'\"`.()") for word in words if "safetensors" in word or "/tmp" in word]
    return any(
        os.path.isfile(os.path.join(bench.folder, f)) and os.path.getsize(os.path.join(bench.folder, f)) for f in files
    )


@check("9a", "an output that cannot be written is noticed before the fit")
def unwritable(bench: Bench) -> Seen:
    _small(bench)
    ran = _fit(bench, "x" * 300 + ".safetensors")
    before = "fitting" not in ran.err
    kept = _kept_elsewhere(bench, ran)
    good = ran.code == 1 and not ran.traceback and (before or kept)
    return Seen(good, f"{ran.how}, noticed {'before' if before else 'after'} the fit, kept elsewhere: {kept}")


@check("9b", "a disk that is full names the file")
def disk_full(bench: Bench) -> Seen:
    _small(bench)
    nowhere = {"LATENTBITS_CACHE": "/dev/null/nowhere", "JAX_COMPILATION_CACHE_DIR": ""}
    ran = _fit(bench, "named.safetensors", file_size=512, environment=nowhere)
    errors = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    good = ran.code == 1 and not ran.traceback and any("named.safetensors" in line for line in errors)
    return Seen(good, f"{ran.how}: {ran.last}")


@check("9c", "a full disk found after the fit: the model is kept elsewhere")
def disk_full_kept(bench: Bench) -> Seen:
    _small(bench)
    path = bench.folder / "full.safetensors"
    path.symlink_to("/dev/full")
    ran = _fit(bench, "full.safetensors")
    kept = _kept_elsewhere(bench, ran)
    link = path.is_symlink()
    before = ran.code == 1 and "fitting" not in ran.err and "error: " in ran.err
    return Seen(link and (kept or before), f"{ran.how}, link kept: {link}, model kept elsewhere: {kept}; {ran.last}")


LONG = "import numpy as np; np.save('t.npy', (np.random.default_rng(0).random((3000, 60)) < .4).astype(np.uint8))"
ENDLESS = ("--max-iter", "1000000", "--tol", "-1")


@check("10a", "SIGTERM in `fit`")
def term_fit(bench: Bench) -> Seen:
    bench.python(LONG)
    began = (signal.SIGTERM, lambda err: "fitting" in err, 15.0)
    ran = bench.tool("fit", "t.npy", "-m", "mixture", "-k", "8", *ENDLESS, interrupt=began, seconds=200)
    kept = (bench.folder / "model.safetensors").exists()
    return Seen(kept and ran.code in (130, 143) and not ran.traceback, f"{ran.how}, model kept: {kept}")


def _compare(bench: Bench, which: int) -> Seen:
    bench.python(LONG)
    began = (which, lambda err: "fitting" in err, 30.0)
    ran = bench.tool("compare", "t.npy", "--models", "product,mixture:2,noisy-or:40", interrupt=began, seconds=300)
    told = "product" in ran.out or "independent" in ran.out
    return Seen(told and ran.code in (130, 143), f"{ran.how}, finished fits told: {told}; {ran.last}")


@check("10b", "SIGTERM in `compare`")
def term_compare(bench: Bench) -> Seen:
    return _compare(bench, signal.SIGTERM)


@check("10c", "Ctrl-C in `compare`")
def interrupt_compare(bench: Bench) -> Seen:
    return _compare(bench, signal.SIGINT)


def _explore(bench: Bench, which: int) -> Seen:
    bench.python(LONG)
    tried = (which, lambda err: sum(" s  " in line for line in err.splitlines()) >= 4, 1.0)
    ran = bench.tool("explore", "t.npy", "--budget", "300s", "--out", "p.html", interrupt=tried, seconds=400)
    page = (bench.folder / "p.html").exists()
    told = "bits per row" in ran.out
    return Seen((page or told) and ran.code in (130, 143), f"{ran.how}, page: {page}, comparison: {told}; {ran.last}")


@check("10d", "SIGTERM in `explore`")
def term_explore(bench: Bench) -> Seen:
    return _explore(bench, signal.SIGTERM)


@check("10e", "Ctrl-C in `explore`")
def interrupt_explore(bench: Bench) -> Seen:
    return _explore(bench, signal.SIGINT)


@check("10f", "kill -9 in a save: what is left is cleaned up by a later save")
def killed_save(bench: Bench) -> Seen:
    made = "import os, numpy as np, latentbits as lb\nm = lb.BernoulliProduct().fit(np.eye(5))\n"
    die = "os.replace = os.rename = os.link = lambda *a, **k: os.kill(os.getpid(), 9)\nm.save('m.safetensors')"
    first = bench.python(made + die)
    left = [p for p in bench.folder.iterdir() if p.name.startswith(".")]
    for path in left:
        os.utime(path, (1e9, 1e9))
    bench.python(made + "m.save('m.safetensors')")
    after = [p.name for p in bench.folder.iterdir() if p.name.startswith(".")]
    return Seen(
        first.code == -9 and not after, f"{len(left)} hidden file(s) after the kill, {len(after)} after the next save"
    )


@check("15a", "Ctrl-C while compiling: 8 interrupts of `fit`")
def interrupt_compiling(bench: Bench) -> Seen:
    bench.python(LONG)
    ends, bad = [], 0
    for place, after in enumerate((0.3, 0.8, 1.2, 1.6, 2.0, 2.5, 3.2, 4.0)):
        began = (signal.SIGINT, lambda err: "fitting" in err, after)
        model = ("latent-trait", "combination-machine")[place % 2]
        ran = bench.tool(
            "fit",
            "t.npy",
            "-m",
            model,
            "-k",
            "3",
            "-o",
            f"{place}.safetensors",
            interrupt=began,
            cold=True,
            seconds=200,
        )
        bad += ran.code != 130 or ran.traceback or "max() arg" in ran.err or "index" in ran.last
        ends.append(f"{ran.code}{'T' if ran.traceback else ''}")
    return Seen(not bad, f"exit codes {', '.join(ends)} (T: traceback; 130 is right)")


@check("15b", "Ctrl-C after each compilation, in Python: no untrained model comes back")
def interrupt_python(bench: Bench) -> Seen:
    ran = bench.python(
        """
import os, signal, warnings, jax, numpy as np, latentbits as lb
warnings.simplefilter("ignore")
jax.config.update("jax_enable_compilation_cache", False)
X = (np.random.default_rng(0).random((400, 20)) < .4).astype(np.uint8)
at = count = 0
def compiled(event, seconds, **more):
    global count
    if "backend_compile" in event:
        count += 1
        if count == at: os.kill(os.getpid(), signal.SIGINT)
jax.monitoring.register_event_duration_secs_listener(compiled)
new = lambda n: lb.BernoulliMixture(3, random_state=0, max_iter=n)
untrained = new(0).fit(X).score(X)
jax.clear_caches(); count = 0; new(100).fit(X); n = count
for k in range(1, n + 1):
    jax.clear_caches(); count, at = 0, k
    try:
        m = new(100).fit(X); at = 0
        how = "returned, " + ("untrained" if m.score(X) <= untrained + 1e-6 else "trained")
    except KeyboardInterrupt: how = "KeyboardInterrupt"
    except Exception as error: how = f"{type(error).__name__}: {error}"
    at = 0
    print("found =", how)
""",
        cold=True,
        seconds=400,
    )
    found = [line.partition(" = ")[2] for line in ran.out.splitlines() if line.startswith("found")]
    told = ", ".join(f"{found.count(how)} {how}" for how in dict.fromkeys(found))
    bad = any("untrained" in how or "Error" in how for how in found)
    return Seen(ran.code == 0 and bool(found) and not bad, f"{ran.how}, of {len(found)} interrupts: {told or ran.last}")
