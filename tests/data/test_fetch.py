"""Public sets: bundled, from a folder, from a local server that stands for the network, and without either.

No test contacts a real host: `registry` replaces the addresses.
"""

import gzip
import hashlib
import http.server
import json
import sys
import threading

import numpy as np
import pytest

from latentbits.core.errors import DataError, DownloadError
from latentbits.data import datasets, load_dataset
from latentbits.data.fetch import array_digest

FETCH = sys.modules["latentbits.data.fetch"]
KNOWN = {info.name: info for info in datasets()}
RNG = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def alone(monkeypatch, tmp_path):
    """No folder of data, an empty cache, no waiting, no proxy."""
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    monkeypatch.setenv("LATENTBITS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    monkeypatch.setattr(FETCH, "RETRIES", 0)


@pytest.fixture
def registry(monkeypatch):
    """A copy of the registry that a test may change."""
    copy = json.loads(json.dumps(FETCH._registry()))
    monkeypatch.setattr(FETCH, "_registry", lambda: copy)
    return copy


@pytest.fixture
def server():
    """Serve the files in a dict from this machine; gives the dict and the address."""
    files: dict[str, bytes] = {}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            data = files.get(self.path)
            self.send_response(404 if data is None else 200)
            self.send_header("Content-Length", str(len(data or b"")))
            self.end_headers()
            self.wfile.write(data or b"")

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield files, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


def publish(registry, server, name, contents, hashed=False):
    """Serve `contents` (part -> bytes) as the files of a set."""
    files, address = server
    entry = registry[name]
    for part, data in contents.items():
        path = "/" + entry["files"][part][0].rpartition("/")[2]
        files[path] = data
        entry["files"][part] = [address + path, hashlib.sha256(data).hexdigest() if hashed else None]
    return entry


def as_text(bits, mark=","):
    return "".join(mark.join(map(str, row)) + "\n" for row in bits.tolist()).encode()


# --- what needs nothing ---


def test_all_sets_are_described():
    assert len(KNOWN) == 36
    for info in KNOWN.values():
        assert len(info.shape) in (2, 3)
        assert info.description
        assert info.source
        assert info.licence
    assert sum("density-estimation" in info.description for info in KNOWN.values()) == 20


def test_every_download_is_checked():
    for entry in FETCH._registry().values():
        hashes = [sha256 for _, sha256 in entry.get("files", {}).values()]
        assert all(hashes) or set(entry["digests"]) == set(entry["files"])


@pytest.mark.parametrize("name", [info.name for info in KNOWN.values() if info.access == "bundled"])
def test_bundled_sets_need_no_network(name):
    dataset = load_dataset(name)
    assert dataset.X.dtype == np.uint8
    assert dataset.X.shape == KNOWN[name].shape
    assert len(dataset.feature_names) == dataset.X.shape[1]
    digest = FETCH._registry()[name].get("digests", {}).get("all")
    assert digest in (None, array_digest(dataset.X))


def test_digits_are_the_default():
    dataset = load_dataset()
    assert dataset.name == "digits"
    assert dataset.image_shape == (8, 8)
    assert dataset.feature_names[11] == "r1c3"
    assert sorted(set(dataset.labels["digit"].tolist())) == list(range(10))
    assert 0.2 < dataset.X.mean() < 0.5


def test_wrong_names_are_answered():
    with pytest.raises(DataError, match="lsat6"):
        load_dataset("lsat")
    with pytest.raises(DataError, match="split"):
        load_dataset("lsat6", split="train")


# --- the folder ---


def test_a_folder_is_read(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path))
    (tmp_path / "debd").mkdir()
    (tmp_path / "votes").mkdir()
    (tmp_path / "usps").mkdir()
    parts = {
        name: RNG.integers(0, 2, (n, 17), dtype=np.uint8) for name, n in zip(("train", "valid", "test"), (5, 2, 3))
    }
    packed = {name: np.packbits(bits, axis=1) for name, bits in parts.items()}
    np.savez(tmp_path / "debd/msnbc.npz", **packed, n_features=17)
    dataset = load_dataset("msnbc")
    assert dict(dataset.splits) == {"train": (0, 5), "valid": (5, 7), "test": (7, 10)}
    np.testing.assert_array_equal(dataset.X, np.concatenate(list(parts.values())))
    np.testing.assert_array_equal(load_dataset("msnbc", split="test").X, parts["test"])

    votes = RNG.choice(np.array([0, 1, 255], np.uint8), (4, 16))
    np.savez(tmp_path / "votes/house_votes_84.npz", X=votes, party=["r", "d", "d", "r"])
    dataset = load_dataset("house_votes_84")
    np.testing.assert_array_equal(dataset.X, np.where(votes == 255, np.nan, votes))
    assert dataset.X.dtype == np.float32
    assert dataset.labels["party"].tolist() == ["r", "d", "d", "r"]

    grey = RNG.integers(-1000, 1001, (3, 16, 16)).astype(np.int16)
    digit = np.array([2, 3, 2], np.uint8)
    np.savez(tmp_path / "usps/usps.npz", X_train=grey[:2], X_test=grey[2:], y_train=digit[:2], y_test=digit[2:])
    test = load_dataset("usps", split="test")
    np.testing.assert_allclose(test.X, grey[2:].reshape(1, 256) / 1000, rtol=1e-6)
    assert test.labels["digit"].tolist() == [2]
    np.testing.assert_array_equal(load_dataset("usps_twos").X, grey[[0, 2]].reshape(2, 256) > 0)


@pytest.mark.parametrize("width", [64, 65])
def test_a_packed_file_says_how_many_columns_it_has(tmp_path, monkeypatch, width):
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path))
    (tmp_path / "debd").mkdir()
    rows = RNG.integers(0, 2, (5, width), dtype=np.uint8)  # some list kdd with 64 columns, some with 65
    packed = np.packbits(rows, axis=1)
    np.savez(tmp_path / "debd/kdd.npz", train=packed, valid=packed, test=packed, n_features=width)
    np.testing.assert_array_equal(load_dataset("kdd", split="test").X, rows)


def test_a_bad_folder_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path / "none"))
    with pytest.raises(DataError, match="LATENTBITS_DATA"):
        load_dataset("zoo")
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path))
    (tmp_path / "votes").mkdir()
    for junk in (b"junk", b"PK\x03\x04"):
        (tmp_path / "votes/zoo.npz").write_bytes(junk)
        with pytest.raises(DataError, match=r"zoo\.npz"):
            load_dataset("zoo")
    np.savez(tmp_path / "votes/zoo.npz", X=np.zeros((3, 7), np.uint8))
    with pytest.raises(DataError, match="7 columns"):
        load_dataset("zoo")


@pytest.mark.parametrize("name", [info.name for info in KNOWN.values() if info.access == "folder"])
def test_sets_without_an_address_say_so(name):
    with pytest.raises(DownloadError, match="LATENTBITS_DATA"):
        load_dataset(name)


# --- the network ---


def test_offline_says_what_to_do(registry, tmp_path):
    # port 9 of this machine: nothing listens there
    registry["nltcs"]["files"]["train"][0] = "http://127.0.0.1:9/nltcs.train.data"
    with pytest.raises(DownloadError) as caught:
        load_dataset("nltcs")
    for part in ("127.0.0.1:9", str(tmp_path / "cache"), "LATENTBITS_DATA", "debd/nltcs.npz"):
        assert part in str(caught.value)
    assert isinstance(caught.value, OSError)


def test_download_once_then_from_the_cache(registry, server, tmp_path):
    parts = {name: RNG.integers(0, 2, (4, 16), dtype=np.uint8) for name in ("train", "valid", "test")}
    entry = publish(registry, server, "nltcs", {name: as_text(bits) for name, bits in parts.items()}, hashed=True)
    entry["digests"] = {name: array_digest(bits) for name, bits in parts.items()}
    np.testing.assert_array_equal(load_dataset("nltcs", split="valid").X, parts["valid"])
    server[0].clear()
    np.testing.assert_array_equal(load_dataset("nltcs").X, np.concatenate(list(parts.values())))
    assert (tmp_path / "cache/nltcs/nltcs.train.data").exists()


def test_a_wrong_file_is_refused(registry, server, tmp_path):
    bits = RNG.integers(0, 2, (4, 16), dtype=np.uint8)
    entry = publish(registry, server, "nltcs", dict.fromkeys(("train", "valid", "test"), as_text(bits)))
    entry["files"]["train"][1] = "0" * 64
    with pytest.raises(DownloadError, match="sha256"):
        load_dataset("nltcs")
    assert not (tmp_path / "cache/nltcs/nltcs.train.data").exists()


@pytest.mark.parametrize("data", [b"", b"<html>busy</html>", b"republican,y\n", b"\xff\xfe"])
def test_a_wrong_array_is_refused_and_not_kept(registry, server, tmp_path, data):
    publish(registry, server, "house_votes_84", {"all": data})
    with pytest.raises(DownloadError, match="is not the set"):
        load_dataset("house_votes_84")
    assert not list((tmp_path / "cache/house_votes_84").iterdir())


def test_not_found_is_a_download_error(registry, server):
    entry = publish(registry, server, "zoo", {"all": b""})
    server[0].clear()
    with pytest.raises(DownloadError, match="HTTPError"):
        load_dataset("zoo")
    assert entry["files"]["all"][0].startswith("http://127.0.0.1")


def test_decoders(registry, server):
    def load(name, contents, digests):
        entry = publish(registry, server, name, contents)
        entry["digests"] = {part: array_digest(codes) for part, codes in digests.items()}
        return load_dataset(name)

    votes = np.array([[1, 0, 255] + [0] * 13], np.uint8)
    line = b"democrat,y,n,?," + b",".join([b"n"] * 13) + b"\n"
    assert load("house_votes_84", {"all": line}, {"all": votes}).labels["party"].tolist() == ["democrat"]

    zoo = np.array([[0, 0, 1, 0, 0, 1, 1, 1, 1, 0, 0, 1, 1, 0, 0]], np.uint8)
    loaded = load("zoo", {"all": b"bass,0,0,1,0,0,1,1,1,1,0,0,1,0,1,0,0,4\n"}, {"all": zoo})
    assert {key: values.tolist() for key, values in loaded.labels.items()} == {
        "type": ["fish"],
        "animal": ["bass"],
        "legs": [0],
    }

    items = registry["groceries"]["feature_names"]
    baskets = np.zeros((2, 169), np.uint8)
    baskets[0, [items.index("cream cheese"), 0]] = baskets[1, 168] = 1
    load("groceries", {"all": b"frankfurter,cream cheese \nbags\n"}, {"all": baskets})

    bits = RNG.integers(0, 2, (3, 784), dtype=np.uint8)
    parts = dict.fromkeys(("train", "valid", "test"), bits)
    amat = {part: as_text(bits, " ").replace(b"\n", b" \n") for part in parts}
    assert load("mnist_binarized", amat, parts).image_shape == (28, 28)

    grey = RNG.integers(-1000, 1001, (4, 256)).astype(np.int16)
    digit = [2, 7, 2, 1]
    rows = [f"{d:.4f} " + " ".join(f"{v / 1000:.4f}" for v in row) + " \n" for d, row in zip(digit, grey.tolist())]
    text = {
        part: gzip.compress("".join(rows[at]).encode()) for part, at in (("train", slice(3)), ("test", slice(3, 4)))
    }
    assert load("usps", text, {"train": grey[:3], "test": grey[3:]}).labels["digit"].tolist() == digit
    np.testing.assert_array_equal(load_dataset("usps_twos").X, grey[[0, 2]] > 0)


def test_matlab_spikes(registry, server, tmp_path):
    io = pytest.importorskip("scipy.io")
    spikes = RNG.integers(0, 2, (6, 15), dtype=np.uint8)
    io.savemat(tmp_path / "s.mat", {"spikes15": spikes.T.astype(float)})
    entry = publish(registry, server, "spikes15", {"all": (tmp_path / "s.mat").read_bytes()})
    entry["digests"] = {"all": array_digest(spikes)}
    np.testing.assert_array_equal(load_dataset("spikes15").X, spikes)


def test_columns_of_a_table_beside_the_bits_are_labels(registry, tmp_path, monkeypatch):
    """Numbers stay numbers, and empty cells are not known."""
    text = "id,water,shrub\n" + "\n".join(f"{i},{i / 2},{'' if i == 3 else 'few'}" for i in range(70))
    entry = FETCH._registry()["mite"]
    bits = np.zeros(entry["shape"], np.uint8)
    (tmp_path / "ecology").mkdir()
    sites = np.array([str(i) for i in range(70)])
    np.savez(tmp_path / "ecology/mite.npz", X=bits, sites=sites, env_csv=np.array(text))
    monkeypatch.setenv("LATENTBITS_DATA", str(tmp_path))
    labels = FETCH._load_folder("mite", entry).labels
    assert set(labels) == {"site", "water", "shrub"}
    assert labels["water"].tolist() == [i / 2 for i in range(70)]
    assert labels["shrub"].tolist() == [None if i == 3 else "few" for i in range(70)]


# --- the real folder ---


@pytest.mark.real_data
@pytest.mark.parametrize("name", [name for name, info in KNOWN.items() if info.access != "bundled"])
def test_real_sets_match_the_registry(name, real_data, monkeypatch):
    entry = FETCH._registry()[name]
    if not (real_data / entry["folder"]["file"]).exists():
        pytest.skip(f"the folder does not hold {entry['folder']['file']}")
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    raw = FETCH._load_folder(name, entry)
    assert {part: array_digest(codes) for part, codes in raw.parts.items()} == entry["digests"]
    monkeypatch.setattr(FETCH, "_load_folder", lambda *_: raw)  # it is read once
    dataset = load_dataset(name)
    assert dataset.X.shape == KNOWN[name].shape
    assert dataset.feature_names is None or len(dataset.feature_names) == dataset.X.shape[1]
    assert all(len(values) == len(dataset.X) for values in dataset.labels.values())


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["nltcs", "plants", "dna", "cwebkb"])
def test_real_bits_written_as_text_have_the_published_sha256(name, real_data, monkeypatch):
    """The text that the arrays came from hashes to what the registry demands of the download."""
    monkeypatch.setenv("LATENTBITS_DATA", str(real_data))
    dataset = load_dataset(name)
    for part, (_, sha256) in FETCH._registry()[name]["files"].items():
        assert hashlib.sha256(as_text(dataset.split(part).X)).hexdigest() == sha256
