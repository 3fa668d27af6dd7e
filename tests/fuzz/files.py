"""Damaged and forged files: a ModelFileError or a model that works, a table or an error that says what is wrong."""

from __future__ import annotations

import gzip
import io
import json
import os
import resource
import shutil
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from tests.fuzz.models import BITS, LIGHT, REALS, new_model
from tests.fuzz.tables import FORMATS, some_bits, some_reals, to_file
from tests.fuzz.verdict import Case, Fault, attempt

__all__ = ["forge", "run"]

MOST_MEMORY = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 5  # that a file of some megabytes may cost


def run(case: Case) -> str:
    often = ("damaged model", "forged model", "forged model", "damaged table", "damaged table")
    way = case.pick(*often, *([] if case.light else ["bomb"]))
    ways = {
        "damaged model": _damaged_model,
        "forged model": _forged_model,
        "damaged table": _damaged_table,
        "bomb": _bomb,
    }
    return ways[way](case)


# --- model files ---


def _model_file(case: Case) -> tuple[str, Path]:
    """A sound model file of some family, fitted once a run."""
    name = case.pick(*(LIGHT if case.light else (*BITS, *REALS)))
    kept = case.shared / f"{name.replace(' ', '-')}.safetensors"
    if not kept.exists():
        rng = np.random.default_rng(0)
        X = rng.normal(size=(60, 5)) if name in REALS else (rng.random((60, 5)) < 0.4).astype(float)
        import warnings

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = new_model(name).fit(X)
        if case.chance(0.5):
            fitted.feature_names_in_ = np.array(list("abcde"), dtype=object)
        mine = case.folder / "kept.safetensors"
        fitted.save(mine)
        os.replace(shutil.copy(mine, f"{kept}.{os.getpid()}"), kept)
    case.say(name)
    return name, Path(shutil.copy(kept, case.folder / "m.safetensors"))


def _damage(case: Case, data: bytes) -> bytes:
    """Bits flipped, bytes written over, cut out, put in or appended."""
    raw = bytearray(data)
    rng = case.rng
    place = int(rng.integers(max(1, len(raw))))
    if case.chance(0.5):
        place = int(rng.integers(min(len(raw), 400) or 1))  # headers are the interesting part
    way = case.pick("flip", "flip", "write", "cut", "remove", "insert", "append", "zero")
    case.say(f"{way} at byte {place} of {len(raw)}")
    if way == "flip" and raw:
        for _ in range(int(rng.integers(1, 4))):
            raw[place] ^= 1 << int(rng.integers(8))
            place = int(rng.integers(len(raw)))
    elif way == "write":
        raw[place : place + 8] = rng.bytes(8)
    elif way == "cut":
        del raw[place:]
    elif way == "remove":
        del raw[place : place + int(rng.integers(1, 50))]
    elif way == "insert":
        raw[place:place] = rng.bytes(int(rng.integers(1, 50)))
    elif way == "append":
        raw += rng.bytes(int(rng.integers(1, 50)))
    else:
        raw[place : place + 64] = bytes(len(raw[place : place + 64]))
    return bytes(raw)


def _damaged_model(case: Case) -> str:
    name, path = _model_file(case)
    sound = path.read_bytes()
    path.write_bytes(_damage(case, sound))
    if path.read_bytes() == sound:
        return "result"
    return _load_and_use(case, name, path)


def forge(path: Path, change: Any) -> None:
    """Change header or tensors of a model file, and put the right checksum on it, as a forger would."""
    from safetensors.numpy import load_file
    from safetensors.numpy import save as to_bytes

    from latentbits.core.tree_serialization import digest

    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(json.loads(raw[8 : 8 + size])["__metadata__"]["latentbits"])
    tensors = {name: np.array(array) for name, array in load_file(path).items()}
    header.pop("sha256", None)
    change(header, tensors)
    header["sha256"] = digest(header, tensors)
    path.write_bytes(to_bytes(tensors, metadata={"latentbits": json.dumps(header)}))


NONSENSE = (None, True, -1, 0, 1, 2, 10**8, 10**30, -(10**9), 0.5, 1e308, 1e-308, "", "x", "float32", [], [1], {},
            {"a": 1}, [["a", 1]], {"items": [[1, 2]]}, "\x1b[31m", "0" * 5000)  # fmt: skip


def _forged_model(case: Case) -> str:
    name, path = _model_file(case)
    rng = case.rng

    def change(header: dict[str, Any], tensors: dict[str, np.ndarray]) -> None:
        for _ in range(case.pick(1, 1, 1, 2)):
            part = case.pick("header", "hyperparameter", "hyperparameter", "names", "extra", "tensor", "tensor")
            if part == "header":
                key = case.pick(*[k for k in header if k not in ("format",)])
                header[key] = case.pick(*NONSENSE)
                case.say(f"{key} = {str(header[key])[:40]!r}")
            elif part == "hyperparameter" and isinstance(header.get("hyperparameters"), dict):
                key = case.pick(*header["hyperparameters"])
                header["hyperparameters"][key] = case.pick(*NONSENSE)
                case.say(f"hyper-parameter {key} = {str(header['hyperparameters'][key])[:40]!r}")
            elif part == "names":
                header["feature_names"] = case.pick(
                    list("aabcd"), list("abcd"), [1, 2, 3, 4, 5], dict.fromkeys("abcde", 1), "abcde", [[]] * 5,
                    ["\x1b[31mred", "b", "c", "d", "e"], [None] * 5, [""] * 5,
                )  # fmt: skip
                case.say(f"names = {header['feature_names']}")
            elif part == "extra" and isinstance(header.get("extra"), dict):
                key = case.pick("unknown", *header["extra"])
                header["extra"][key] = case.pick(*NONSENSE)
                case.say(f"extra {key} = {str(header['extra'][key])[:40]!r}")
            elif part == "tensor":
                key = case.pick(*tensors)
                array = tensors[key]
                way = case.pick("nan", "inf", "large", "tiny", "negative", "shape", "dtype", "empty", "drop", "zero")
                case.say(f"tensor {key}: {way}")
                if way == "drop":
                    del tensors[key]
                elif way == "shape":
                    tensors[key] = np.ones(case.pick((1,), (2, 3), (5,), (0, 5), (5, 5), (2, 5), ()), array.dtype)
                elif way == "dtype":
                    tensors[key] = array.astype(case.pick(np.float32, np.int64, np.uint8, bool))
                elif way == "empty":
                    tensors[key] = array[..., :0].copy() if array.ndim else np.zeros((0,))
                elif array.dtype == np.float64:
                    values = {"nan": np.nan, "inf": np.inf, "large": 1e200, "tiny": 1e-300, "negative": -1.0, "zero": 0}
                    if array.ndim and array.size:
                        array.flat[int(rng.integers(array.size))] = values[way]
                    else:
                        tensors[key] = np.full_like(array, values[way])

    forge(path, change)
    return _load_and_use(case, name, path)


def _load_and_use(case: Case, name: str, path: Path) -> str:
    """A ModelFileError, or a model whose every method gives an answer or says why not."""
    import latentbits
    from latentbits.core.errors import ModelFileError

    case.say("load")
    try:
        model = latentbits.load(path)
    except ModelFileError as error:
        if not str(error).strip():
            raise Fault("a message", "none") from error
        return "refused"
    if not isinstance(model.n_iter_, int) or model.n_iter_ < 0 or not isinstance(model.stop_reason_, str):
        raise Fault("a number of iterations and a reason", f"{model.n_iter_!r} and {model.stop_reason_!r}")
    names = getattr(model, "feature_names_in_", None)
    if names is not None and len(set(names)) != len(names):
        raise Fault("names that differ, or a refusal", f"{list(names)}")
    X = some_reals(case, n=6, d=5) if name in REALS else some_bits(case, n=6, d=5, missing=0.1)
    import pandas as pd

    given = X if names is None else pd.DataFrame(X, columns=[str(n) for n in names])
    use = {
        "score_samples": lambda: model.score_samples(given),
        "transform": lambda: model.transform(given),
        "complete": lambda: model.complete(given),
        "sample": lambda: model.sample(3, random_state=0),
        "repr": lambda: repr(model),
        "save": lambda: model.save(case.folder / "again.safetensors"),
    }
    for what, act in use.items():
        answer = attempt(case, what, act, also=(ArithmeticError,))
        if what == "score_samples" and answer is not None and np.isnan(answer).any() and not case.warned:
            raise Fault("log-likelihoods, or a refusal", f"{int(np.isnan(answer).sum())} that are NaN, in silence")
    return "result"


# --- data files ---


def _damaged_table(case: Case) -> str:
    import latentbits

    truth = some_reals(case, n=20) if case.chance(0.3) else some_bits(case, n=20, d=5)
    path = to_file(case, truth, case.pick(*FORMATS))
    target = path
    if path.is_dir():  # zarr: one of its files
        inside = sorted(p for p in path.rglob("*") if p.is_file())
        target = case.pick(*inside)
        case.say(target.name)
    target.write_bytes(_damage(case, target.read_bytes()))
    options = {"mmap": True} if path.suffix == ".npy" and case.chance(0.3) else {}
    return _read(case, lambda: latentbits.read(path, **options))


def _read(case: Case, act: Any) -> str:
    """A table or one of the library's own errors, without much memory."""
    from latentbits.core.errors import LatentBitsError

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        case.say("read")
        table = act()
    except LatentBitsError as error:
        if not str(error).strip():
            raise Fault("a message", "none") from error
        if "MemoryError" in str(error):
            raise Fault("a check of the size beforehand", str(error)) from error
        table = None
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024
    if grown > MOST_MEMORY:
        raise Fault(f"at most {MOST_MEMORY / 2**20:.0f} MiB for such a file", f"{grown / 2**20:.0f} MiB")
    if table is None:
        return "refused"
    n, d = table.values.shape
    kind = np.dtype(table.values.dtype).kind
    if not (n and d) or kind not in "buif" or (table.feature_names is not None and len(table.feature_names) != d):
        raise Fault("a table", f"{table.values.shape} {kind} with {table.feature_names}")
    return "result"


def _bomb(case: Case) -> str:
    """Small files that claim to be large."""
    import latentbits

    made = {"npz": _npz_bomb, "npy": _npy_bomb, "sparse": _sparse_bomb, "lines": _line_bomb}
    made |= {"gzip": _gzip_bomb} if case.chance(0.3) else {}  # dear to make
    what = case.pick(*made)
    case.say(f"{what} bomb")
    path = made[what](case)
    return _read(case, lambda: latentbits.read(path))


def _gzip_bomb(case: Case) -> Path:
    """Text that would not fit the memory of the machine: the same small member again and again."""
    path = case.folder / "b.csv.gz"
    line = case.pick(b"0,1\n", b"0" * 1000 + b"\n", b"\n", b" ")
    text = line * (2**26 // len(line))
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    member = gzip.compress(text, 9)
    with path.open("wb") as file:
        for _ in range(3 * memory // (2 * len(text))):
            file.write(member)
    return path


def _npy_header(shape: Any, descr: str = "|u1") -> bytes:
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}"
    header = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header


def _npz_bomb(case: Case) -> Path:
    path = case.folder / "b.npz"
    shape = case.pick((2**20, 2**12), (2**40, 5), (10**9, 3), (2**62, 2))
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("X.npy", "w", force_zip64=True) as file,
    ):
        file.write(_npy_header(shape))
        for _ in range(case.pick(1, 2**8)):
            file.write(bytes(2**22))
    return path


def _npy_bomb(case: Case) -> Path:
    path = case.folder / "b.npy"
    path.write_bytes(
        _npy_header(case.pick((2**40, 5), (10**9, 3), (2**62, 2), (-1, 3), (0, 3), (3,), (5, 0))) + bytes(64)
    )
    return path


def _sparse_bomb(case: Case) -> Path:
    path = case.folder / "b.npz"
    n = case.pick(10**9, 10**12, 2**62)
    file = io.BytesIO()
    arrays = {
        "format": np.array(case.pick("csr", "csc", "coo", "bsr", "dia")),
        "shape": np.array([n, 3]),
        "data": np.ones(1),
        "indices": np.zeros(1, np.int64),
        "indptr": np.array([0, 1, 1, 1]),
        "row": np.zeros(1, np.int64),
        "col": np.zeros(1, np.int64),
        "offsets": np.zeros(1, np.int64),
        "coords": np.zeros((2, 1), np.int64),
    }
    np.savez_compressed(file, **arrays)
    path.write_bytes(file.getvalue())
    return path


def _line_bomb(case: Case) -> Path:
    path = case.folder / "b.csv"
    path.write_bytes(
        case.pick(
            b'"' + b"0," * 10**5,
            b"," * 10**5 + b"\n",
            b"0\n" * 10**5,
            b"a" * 10**6 + b"\n0\n",
            b"0" * 10**5 + b"\n",
            b"1e" + b"9" * 10**4 + b"\n",
            b"\xef\xbb\xbf" * 100 + b"0,1\n",
            b"0,1\r" * 1000,
            b"a,b\n0,\x00\n",
            b"a,b\n" + b'0,"1\n' * 1000,
        )
    )
    return path
