"""Public data sets by name: bundled, from a folder (LATENTBITS_DATA), or downloaded once and checked.

``registry.json`` says of each set where it comes from and what it must hash to: the file, where the hash of
the file is known, or else the decoded array.  Downloads go to the folder that LATENTBITS_CACHE names, or to
the user's cache folder.
"""

from __future__ import annotations

import csv
import gzip
import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from latentbits.core.errors import DataError, DownloadError, did_you_mean
from latentbits.core.folders import cache_folder
from latentbits.data.archives import load_members, members
from latentbits.data.read import read

__all__ = ["Dataset", "DatasetInfo", "array_digest", "datasets", "load_dataset"]

RETRIES = 2  # after a failed download; pooch waits a little longer before each
ZOO_TYPES = ("mammal", "bird", "reptile", "fish", "amphibian", "insect", "mollusc.et.al")


class DatasetInfo(NamedTuple):
    """Facts about a set that is not loaded; `access` is "bundled", "download" or "folder"."""

    name: str
    shape: tuple[int, ...]
    access: str
    description: str
    source: str
    licence: str


@dataclass(frozen=True, eq=False)
class Dataset:
    """A loaded set.

    Attributes
    ----------
    name, description : str
    X : (n, d) array
        uint8 bits; float32 with NaN where bits are missing; float32 grey values for ``usps`` and, as
        (n, height, width), for natural images.
    splits : dict of (start, stop)
        The rows of "train", "valid" and "test", where the set is split by custom.
    labels : dict of (n,) arrays
    feature_names : tuple of d str, or None
    image_shape : (height, width), or None
    """

    name: str
    X: np.ndarray
    description: str
    splits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    labels: Mapping[str, np.ndarray] = field(default_factory=dict)
    feature_names: tuple[str, ...] | None = None
    image_shape: tuple[int, int] | None = None

    def split(self, name: str) -> Dataset:
        """Select the rows of one split as another set."""
        if name not in self.splits:
            there = ", ".join(self.splits) or "it is not split"
            raise DataError(f"{self.name} has no split {name!r}; {there}")
        rows = slice(*self.splits[name])
        labels = {key: values[rows] for key, values in self.labels.items()}
        return replace(self, X=self.X[rows], labels=labels, splits={})


class _Raw(NamedTuple):
    """A set as stored: integer codes by part (a split, or "all"), and labels over all rows."""

    parts: dict[str, np.ndarray]
    labels: dict[str, np.ndarray]


@cache
def _registry() -> dict[str, dict[str, Any]]:
    return json.loads(resources.files("latentbits.data").joinpath("registry.json").read_text("utf-8"))


def datasets() -> tuple[DatasetInfo, ...]:
    """Return all sets that `load_dataset` knows.

    Examples
    --------
    >>> [(info.name, info.shape) for info in datasets() if info.access == "bundled"]
    [('carcinoma', (118, 7)), ('digits', (1797, 64)), ('lsat6', (1000, 5)), ('lsat7', (1000, 5))]
    """
    return tuple(
        DatasetInfo(
            name,
            tuple(entry["shape"]),
            "bundled" if "folder" not in entry else "download" if _has_url(entry) else "folder",
            entry["description"],
            entry["source"],
            entry["licence"],
        )
        for name, entry in sorted(_registry().items())
    )


def _has_url(entry: Mapping[str, Any]) -> bool:
    return "files" in entry or "derived_from" in entry


def load_dataset(name: str = "digits", *, split: str | None = None) -> Dataset:
    """Load a public set by its name; `datasets` lists them.

    Looked for in the folder that the environment variable LATENTBITS_DATA names, then in the cache folder
    (LATENTBITS_CACHE), then on the network.  Bundled sets need none of these.

    Parameters
    ----------
    name : str
        "digits" is scikit-learn's 8 x 8 digits, a pixel being 1 from half of the grey range on (8 of 16).
    split : str, optional
        Only the rows of "train", "valid" or "test".

    Examples
    --------
    >>> lsat = load_dataset("lsat6")
    >>> lsat.X.shape, lsat.X.mean(axis=0).tolist()
    ((1000, 5), [0.924, 0.709, 0.553, 0.763, 0.87])
    """
    entry = _registry().get(name)
    if entry is None:
        known = sorted(_registry())
        raise DataError(
            f"name must be a known set, found {name!r}; known are {', '.join(known)}.{did_you_mean(name, known)}"
        )
    if "folder" not in entry:
        raw = _load_digits() if name == "digits" else _load_patterns(entry)
    else:
        raw = _load_folder(name, entry) or _load_download(name, entry)
    dataset = _assemble(name, entry, raw)
    return dataset if split is None else dataset.split(split)


def array_digest(codes: np.ndarray) -> str:
    """Return the sha256 of an integer array: of its type, its shape and its bytes in C order.

    >>> array_digest(np.zeros((2, 3), np.uint8))[:16]
    '89cee3679845ae39'
    """
    kind = codes.dtype.newbyteorder("<")
    head = f"{kind.kind}{kind.itemsize} {' '.join(map(str, codes.shape))}\n".encode()
    return hashlib.sha256(head + np.ascontiguousarray(codes, kind).tobytes()).hexdigest()


def _assemble(name: str, entry: Mapping[str, Any], raw: _Raw) -> Dataset:
    """Turn integer codes into what users get."""
    codes = np.concatenate(list(raw.parts.values()))
    scale, missing = entry.get("scale"), entry.get("missing")
    if scale is not None:
        x = codes.astype(np.float32) / np.float32(scale)
    elif missing is not None:
        x = np.where(codes == missing, np.float32(np.nan), codes.astype(np.float32))
    else:
        x = codes
    splits = {key: (start, stop) for key, (start, stop) in entry.get("splits", {}).items()}
    if list(raw.parts) != ["all"]:
        stops = np.cumsum([len(part) for part in raw.parts.values()]).tolist()
        splits = dict(zip(raw.parts, zip([0, *stops[:-1]], stops)))
    shape = tuple(entry["image_shape"]) if "image_shape" in entry else None
    names = entry.get("feature_names")
    if names is None and shape is not None and x.ndim == 2:
        names = [f"r{row}c{column}" for row in range(shape[0]) for column in range(shape[1])]
    return Dataset(
        name, x, entry["description"], splits, raw.labels, tuple(names) if names else None, shape
    )  # fmt: skip


# --- bundled ---


def _load_digits() -> _Raw:
    from sklearn.datasets import load_digits

    pixels, digit = load_digits(return_X_y=True)
    return _Raw({"all": (pixels >= 8).astype(np.uint8)}, {"digit": digit})  # of 0 to 16


def _load_patterns(entry: Mapping[str, Any]) -> _Raw:
    """Load a set published as the counts of its response patterns; the rows come sorted."""
    patterns = np.array([[int(bit) for bit in pattern] for pattern in entry["patterns"]], dtype=np.uint8)
    return _Raw({"all": np.repeat(patterns, list(entry["patterns"].values()), axis=0)}, {})


# --- a folder of .npz ---


def _load_folder(name: str, entry: Mapping[str, Any]) -> _Raw | None:
    """Load the set from the folder that LATENTBITS_DATA names, or None if it is not there."""
    root = os.environ.get("LATENTBITS_DATA")
    if not root:
        return None
    if not Path(root).is_dir():
        raise DataError(f"LATENTBITS_DATA must name a folder, found {root!r}")
    where = entry["folder"]
    path = Path(root, where["file"])
    if not path.exists():
        return None
    try:
        label_keys = where.get("labels", {})
        tables = where.get("label_tables", [])
        wanted = [*where["arrays"].values(), *(key for keys in label_keys.values() for key in keys), *tables]
        archive = load_members(path, [*wanted, "n_features"], members(path))
        n_rows, *row = entry["shape"]
        if len(row) == 1 and "n_features" in archive:  # packed, the file knows best: sets are listed with other widths
            row = [int(archive["n_features"])]
        parts = {part: _unpack(archive[key], [n_rows, *row]) for part, key in where["arrays"].items()}
        labels = {label: np.concatenate([archive[key] for key in keys]) for label, keys in label_keys.items()}
        for key in tables:
            labels |= _columns_of_text(archive[key].item())
    except Exception as error:  # a broken archive raises whatever zipfile, zlib or NumPy stumble over
        raise DataError(f"{path}: cannot be read as the set {name} ({type(error).__name__}: {error})") from error
    return _Raw(parts, labels)


def _columns_of_text(text: str) -> dict[str, np.ndarray]:
    """Read columns of a table written as csv, without the first, which numbers its rows; None where nothing is known.

    >>> _columns_of_text("id,depth,kind\\n1,2.5,peat\\n2,3,")["kind"].tolist()
    ['peat', None]
    """
    header, *lines = csv.reader(text.splitlines())
    return {name: _numbers_or_words(cells) for name, *cells in list(zip(header, *lines))[1:]}


def _numbers_or_words(cells: list[str]) -> np.ndarray:
    known = [cell or None for cell in cells]
    try:
        return np.array([None if cell is None else float(cell) for cell in known], object)
    except ValueError:
        return np.array(known, object)


def _unpack(codes: np.ndarray, shape: list[int]) -> np.ndarray:
    """Return the array of a folder's file as (n, d) codes, or as (n, height, width) where the set is of images."""
    width = shape[1]
    if len(shape) == 3:
        return codes.reshape(-1, *shape[1:])
    if codes.dtype == np.uint8 and codes.ndim == 2 and codes.shape[1] == -(-width // 8) != width:
        return np.unpackbits(codes, axis=1, count=width)
    codes = codes.reshape(len(codes), -1)
    if codes.shape[1] != width:
        raise ValueError(f"{codes.shape[1]} columns, not {width}")
    return codes


# --- the network ---


def _load_download(name: str, entry: Mapping[str, Any]) -> _Raw:
    """Load the set from the files it is published as, each fetched once, then checked."""
    if not _has_url(entry):
        raise DownloadError(
            f"{name} cannot be downloaded, being published only in {entry['source']}: set LATENTBITS_DATA to "
            f"a folder that holds {entry['folder']['file']}"
        )
    if "derived_from" in entry:
        return _twos(_registry()["usps"])
    paths = {part: _fetch(name, entry, part) for part in entry["files"]}
    try:
        raw = DECODERS[entry["decoder"]](paths, entry)
        for part, codes in raw.parts.items():
            expected = entry.get("digests", {}).get(part)
            if expected is not None and array_digest(codes) != expected:
                raise DownloadError(f"the {part} array is {codes.shape} and does not match its sha256")
    except Exception as error:  # what is not the set can fail anywhere in its decoder
        for path in paths.values():  # or the bad file would be found again next time
            path.unlink(missing_ok=True)
        urls = ", ".join(url for url, _ in entry["files"].values())
        raise DownloadError(
            f"{name}: what came from {urls} is not the set ({error}); try again, or set LATENTBITS_DATA to a "
            f"folder that holds {entry['folder']['file']}"
        ) from error
    return raw


def _fetch(name: str, entry: Mapping[str, Any], part: str) -> Path:
    """Get one file of a set, from the cache or the network."""
    import pooch

    url, sha256 = entry["files"][part]
    base = cache_folder()
    if base is None:
        raise DownloadError(
            f"{name}: there is no folder to keep it in, since this user has no home; set LATENTBITS_CACHE to one, "
            f"or LATENTBITS_DATA to a folder that holds {entry['folder']['file']}"
        )
    folder = base / name
    file = url.rpartition("/")[2]
    known = None if sha256 is None else f"sha256:{sha256}"
    fetcher = pooch.create(folder, base_url="", registry={file: known}, urls={file: url}, retry_if_failed=RETRIES)
    try:
        return Path(fetcher.fetch(file, downloader=pooch.HTTPDownloader(timeout=60)))
    except (OSError, ValueError) as error:
        raise DownloadError(
            f"{name}: could not fetch {url} ({_reason(error)}); connect to the network, put the file into "
            f"{folder}, or set LATENTBITS_DATA to a folder that holds {entry['folder']['file']}"
        ) from error


def _reason(error: Exception) -> str:
    """Say what went wrong in few words: the errors of requests quote whole call chains."""
    return "its sha256 is wrong" if isinstance(error, ValueError) else type(error).__name__


def _twos(entry: Mapping[str, Any]) -> _Raw:
    """Return the twos of USPS, ink where the grey value is above 0."""
    usps = _load_folder("usps", entry) or _load_download("usps", entry)
    codes = np.concatenate(list(usps.parts.values()))
    return _Raw({"all": (codes[usps.labels["digit"] == 2] > 0).astype(np.uint8)}, {})


def _decode_bits(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    return _Raw({part: read(path, header=False).values for part, path in paths.items()}, {})


def _decode_usps(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    """Decode lines of a digit and 256 grey values with three decimals."""
    tables = {}
    for part, path in paths.items():
        with gzip.open(path, "rt", encoding="ascii") as file:
            tables[part] = np.loadtxt(file, dtype=np.float64, ndmin=2)
    digit = np.concatenate([table[:, 0] for table in tables.values()]).astype(np.uint8)
    return _Raw({part: np.rint(1000 * t[:, 1:]).astype(np.int16) for part, t in tables.items()}, {"digit": digit})


def _rows(paths: Mapping[str, Path]) -> list[list[str]]:
    with paths["all"].open(encoding="utf-8", newline="") as file:
        return [[cell.strip() for cell in row] for row in csv.reader(file) if row]


def _decode_votes(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    rows = _rows(paths)
    worth = {"y": 1, "n": 0, "?": 255}
    codes = np.array([[worth[cell] for cell in row[1:]] for row in rows], dtype=np.uint8)
    return _Raw({"all": codes}, {"party": np.array([row[0] for row in rows])})


def _decode_zoo(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    """Decode lines of a name, twelve traits, the number of legs, three traits, and the type by number."""
    rows = _rows(paths)
    codes = np.array([[int(cell) for cell in (*row[1:13], *row[14:17])] for row in rows], dtype=np.uint8)
    labels = {
        "type": np.array([ZOO_TYPES[int(row[17]) - 1] for row in rows]),
        "animal": np.array([row[0] for row in rows]),
        "legs": np.array([int(row[13]) for row in rows], dtype=np.uint8),
    }
    return _Raw({"all": codes}, labels)


def _decode_groceries(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    """Decode lines that name the contents of a basket."""
    place = {item: j for j, item in enumerate(entry["feature_names"])}
    rows = _rows(paths)
    codes = np.zeros((len(rows), len(place)), dtype=np.uint8)
    for i, row in enumerate(rows):
        codes[i, [place[item] for item in row if item]] = 1
    return _Raw({"all": codes}, {})


def _decode_spikes(paths: Mapping[str, Path], entry: Mapping[str, Any]) -> _Raw:
    """Decode a MATLAB file whose `spikes15` has a column for every time bin."""
    from scipy.io import loadmat

    return _Raw({"all": np.ascontiguousarray(loadmat(paths["all"])["spikes15"].T).astype(np.uint8)}, {})


DECODERS: dict[str, Callable[[Mapping[str, Path], Mapping[str, Any]], _Raw]] = {
    "bits": _decode_bits,
    "usps": _decode_usps,
    "votes": _decode_votes,
    "zoo": _decode_zoo,
    "groceries": _decode_groceries,
    "spikes": _decode_spikes,
}
