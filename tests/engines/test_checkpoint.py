"""A fit that is killed and goes on ends with the bits of one that was not."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings

import jax
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import save as to_bytes
from scripts import compiled_in
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from tests.tables import classes

from latentbits import (
    BernoulliMixture,
    BinarySparseCoding,
    Checkpoint,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
    compare,
    load,
)
from latentbits.core.errors import CheckpointError
from latentbits.core.tree_serialization import digest, pack, unpack
from latentbits.engines import checkpoint
from latentbits.engines.checkpoint import Journal
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.stream import StreamEngine

SLOW = pytest.mark.slow("another family, whose fit is kept and taken up as every other")


@pytest.fixture(scope="module")
def table():
    return classes(k=3).astype(np.uint8)


def mixture(k=3, n_init=2):
    """A few passes: a file is written after every one."""
    return BernoulliMixture(k, n_init=n_init, max_iter=6, accelerate=False, random_state=0)


@pytest.fixture(scope="module")
def whole(table):
    """The numbers of a fit that was not killed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return numbers(mixture().fit(table))


pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(autouse=True)
def at_every_pass(monkeypatch):
    monkeypatch.setattr(checkpoint, "TIME_PART", 0)


class Killed(Exception):
    pass


def numbers(m):
    kept = [*jax.tree.leaves(m.params_), m.history_table_["objective"], m.n_iter_, m.objective_, m.left_to_gain_]
    return [np.asarray(x) for x in kept]


def killed_at(monkeypatch, estimator, table, folder, place):
    """Fit until this many passes could have been kept, and no further; nothing is written on the way out."""
    real, passed = Journal.stand, []

    def stand(self, number, standing):
        real(self, number, standing)
        passed.append(number)
        if len(passed) == place:
            self._new = False
            raise Killed

    monkeypatch.setattr(Journal, "stand", stand)
    with pytest.raises(Killed):
        clone(estimator).fit(table, checkpoint=Checkpoint(folder, 0))
    monkeypatch.setattr(Journal, "stand", real)


def places_of(monkeypatch, estimator, table, folder):
    """Fit to the end; how many passes could have been kept."""
    real, passed = Journal.stand, []
    monkeypatch.setattr(Journal, "stand", lambda *given: passed.append(real(*given)))
    found = clone(estimator).fit(table, checkpoint=Checkpoint(folder, np.inf))
    monkeypatch.setattr(Journal, "stand", real)
    return found, len(passed)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(mixture(), id="restarts"),
        pytest.param(BernoulliMixture(3, init="split", n_init=2, max_iter=10, random_state=0), id="growth", marks=SLOW),
        pytest.param(LatentTrait(2, max_iter=6, random_state=0), id="stages", marks=SLOW),
        pytest.param(
            CombinationMachine(3, learner="stochastic", n_epochs=6, annealing=(512, 100), random_state=0),
            id="minibatches and chains",
            marks=SLOW,
        ),
        pytest.param(CombinationMachine(2, random_state=0), id="pursuit and gradient", marks=SLOW),
        pytest.param(NoisyOrNetwork((3,), random_state=0), id="sampled causes", marks=SLOW),
        pytest.param(
            NoisyOrNetwork((3, 2), recipe="lewicki1996", max_iter=8, random_state=0), id="layer by layer", marks=SLOW
        ),
        pytest.param(BinarySparseCoding(3, random_state=0), id="several fits", marks=SLOW),
    ],
)
def test_a_killed_fit_goes_on_with_the_same_bits(estimator, table, tmp_path, monkeypatch):
    """One fit is killed at its first pass, half-way, and at its last."""
    whole, n = places_of(monkeypatch, estimator, table, tmp_path / "whole")
    for place in (1, n // 2, n - 1 - n // 2):
        killed_at(monkeypatch, estimator, table, tmp_path / "killed", place)
    again = clone(estimator).fit(table, checkpoint=tmp_path / "killed")
    for a, b in zip(numbers(whole), numbers(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_fit_that_is_kept_is_that_of_a_fit_that_is_not(table, whole, tmp_path):
    """Two files are kept of it."""
    kept = mixture().fit(table, checkpoint=Checkpoint(tmp_path, 0))
    for a, b in zip(whole, numbers(kept), strict=True):
        np.testing.assert_array_equal(a, b)
    assert len(list(tmp_path.iterdir())) == 2


def test_a_drawn_seed_is_kept(table, tmp_path, monkeypatch):
    estimator = mixture().set_params(random_state=None)
    killed_at(monkeypatch, estimator, table, tmp_path, 3)
    first, second = (clone(estimator).fit(table, checkpoint=tmp_path) for _ in range(2))
    np.testing.assert_array_equal(first.means_, second.means_)


def test_another_fit_is_refused_with_what_differs(table, tmp_path):
    mixture().fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="n_components was 3 and is 4"):
        mixture(4).fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="model was 'BernoulliMixture' and is 'LatentTrait'"):
        LatentTrait(1, random_state=0).fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another fit: data was"):
        mixture().fit(1 - table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another fit: data was"):
        mixture().fit(table, sample_weight=np.full(240, 2.0), checkpoint=tmp_path)


def test_another_version_is_refused(table, tmp_path, monkeypatch):
    mixture().fit(table, checkpoint=tmp_path)
    monkeypatch.setattr("latentbits.estimators.fitting.__version__", "99")
    with pytest.raises(CheckpointError, match=r"latentbits was .* and is '99'"):
        mixture().fit(table, checkpoint=tmp_path)


@pytest.mark.parametrize("damage", ["cut", "a bit", "nothing left"])
def test_a_damaged_file_falls_back_to_the_one_before(table, whole, tmp_path, monkeypatch, damage):
    estimator = mixture()
    killed_at(monkeypatch, estimator, table, tmp_path, 5)
    newest = max(tmp_path.iterdir(), key=lambda path: int(path.stem.partition("-")[2]))
    content = bytearray(newest.read_bytes())
    content[-9] ^= 1
    newest.write_bytes({"cut": content[: len(content) // 2], "a bit": content, "nothing left": b""}[damage])
    with pytest.warns(UserWarning, match="going on from the checkpoint before it"):
        again = clone(estimator).fit(table, checkpoint=tmp_path)
    for a, b in zip(whole, numbers(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_but_damaged_files_is_an_error(table, tmp_path):
    (tmp_path / "checkpoint-1.safetensors").write_bytes(b"no such thing")
    with pytest.raises(CheckpointError, match="cannot be read"):
        mixture().fit(table, checkpoint=tmp_path)


def forged(path, change):
    """Write a file that change was made to, by its header and arrays, with a new checksum."""
    with safe_open(path, framework="numpy") as file:
        header = json.loads(file.metadata()["latentbits"])
        arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    del header["sha256"]
    change(header, arrays)
    header["sha256"] = digest(header, arrays)
    path.write_bytes(to_bytes(arrays, metadata={"latentbits": json.dumps(header)}))


def filled(value):
    def change(header, arrays):
        arrays |= {name: np.full_like(a, value) for name, a in arrays.items() if a.dtype.kind == "f"}

    return change


def rows_doubled(header, arrays):
    arrays |= {name: np.concatenate([a, a]) for name, a in arrays.items() if a.ndim}


def in_single(header, arrays):
    arrays |= {name: a.astype(np.float32) for name, a in arrays.items() if a.dtype.kind == "f"}


def other_content(header, arrays):
    header["content"] = {"tuple": [{"dict": [[0, 3]]}, {"tuple": [0, 3]}]}


def huge_seed(header, arrays):
    header["seed"] = 10**30


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("change", [filled(np.nan), filled(np.inf), rows_doubled, in_single, other_content, huge_seed])
def test_a_forged_file_is_refused_by_its_name(table, tmp_path, monkeypatch, change, finished):
    """A checksum anybody can make: what is read is held to what a model file is held to."""
    if finished:
        mixture().fit(table, checkpoint=Checkpoint(tmp_path, np.inf))
    else:
        killed_at(monkeypatch, mixture(), table, tmp_path, 1)
    (path,) = tmp_path.iterdir()
    forged(path, change)
    with pytest.raises(CheckpointError, match=re.escape(str(path))):
        mixture().fit(table, checkpoint=tmp_path)


def test_a_forged_result_out_of_range_is_refused(table, tmp_path):
    mixture().fit(table, checkpoint=tmp_path)
    forged(tmp_path / "checkpoint-1.safetensors", filled(-1.0))
    with pytest.raises(CheckpointError, match="parameter 'weights' must lie between"):
        mixture().fit(table, checkpoint=tmp_path)


def test_places_that_hold_no_checkpoints(table, tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(CheckpointError, match=r"cannot be kept in .*file"):
        mixture().fit(table, checkpoint=tmp_path / "file")
    (tmp_path / "checkpoint-1.safetensors").mkdir()
    with pytest.raises(CheckpointError, match=r"checkpoint-1.*it is no file"):
        mixture().fit(table, checkpoint=tmp_path)


def test_a_full_disk_leaves_what_was_there_and_costs_no_fit(table, whole, tmp_path, monkeypatch):
    """A checkpoint that cannot be written is a warning, given once."""
    estimator = mixture()
    killed_at(monkeypatch, estimator, table, tmp_path, 4)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("latentbits.core.atomic.os.fsync", full)
    with pytest.warns(UserWarning, match=r"cannot keep a checkpoint in .*No space left.*learning goes on") as warned:
        again = clone(estimator).fit(table, checkpoint=checkpoint.Checkpoint(tmp_path, 0.0))
    assert sum("keep a checkpoint" in str(one.message) for one in warned) == 1
    for a, b in zip(whole, numbers(again), strict=True):
        np.testing.assert_array_equal(a, b)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_folder_that_becomes_a_file_costs_no_fit(table, tmp_path):
    journal = Journal(checkpoint.Checkpoint(tmp_path / "kept", 0.0), {"model": "x"}, 0)
    shutil.rmtree(journal.folder)
    journal.folder.write_text("no folder")
    with pytest.warns(UserWarning, match="cannot keep a checkpoint"):
        journal.stand(0, [1.0])
    journal.folder.unlink()
    journal.folder.mkdir()
    journal.write()  # what could not be written before
    assert checkpoint.holds_one(journal.folder)


def test_what_is_fitted_to_what_finds_its_own(table, tmp_path, monkeypatch):
    """A comparison that is killed makes no finished fit again."""
    models = {name: mixture(n_init=n) for name, n in (("one start", 1), ("two starts", 2))}
    whole = compare(table, models)
    real, count = BernoulliMixture._finish, []

    def finish(self, engine, result):
        count.append(self.n_components)
        if len(count) == 2:
            raise Killed
        return real(self, engine, result)

    monkeypatch.setattr(BernoulliMixture, "_finish", finish)
    with pytest.raises(Killed):
        compare(table, models, checkpoint=tmp_path)
    monkeypatch.setattr(BernoulliMixture, "_finish", real)
    made = []
    monkeypatch.setattr(Journal, "finish", lambda self, number, result, *, cut_short: made.append(number))
    again = compare(table, models, checkpoint=tmp_path)
    assert not made  # both had learned before
    for name in models:
        np.testing.assert_array_equal(whole.row_bits[name], again.row_bits[name])


def test_streams_and_arrays_have_one_fingerprint(table):
    parts = StreamEngine(lambda: iter([table[:100], table[100:]]), 6)
    assert checkpoint.fingerprint(parts) == checkpoint.fingerprint(MemoryEngine(table))
    assert checkpoint.fingerprint(parts) != checkpoint.fingerprint(MemoryEngine(table[::-1]))


def test_trees_are_packed_and_unpacked(table):
    params = mixture().fit(table).params_
    rows = {3: (None, [1.5, "x"], np.float32(2))}
    tree = {"params": params, "rows": rows, "key": jax.random.key(3), "dtype": np.dtype("f4")}
    packed, arrays = pack(tree)
    again = unpack(json.loads(json.dumps(packed)), arrays)
    assert jax.tree.structure(again) == jax.tree.structure(tree)
    assert again["rows"] == rows
    assert again["dtype"] == np.float32
    for a, b in zip(jax.tree.leaves(params), jax.tree.leaves(again["params"])):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(jax.random.key_data(again["key"]), jax.random.key_data(tree["key"]))
    with pytest.raises(TypeError, match="cannot be packed"):
        pack(print)
    with pytest.raises(ValueError, match="no part of this library"):
        unpack({"record": "os:system", "fields": ["true"]}, [])


SCRIPT = """
import sys, numpy as np, latentbits
from latentbits.engines import checkpoint
checkpoint.TIME_PART = 0
folder, out = sys.argv[1:]
rng = np.random.default_rng(0)
X = (rng.random((400, 10)) < 1 / (1 + np.exp(-2 * rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10))))).astype(int)
m = latentbits.BernoulliMixture(6, n_init=30, random_state=0)
print("ready", flush=True)
m.fit(X, checkpoint=latentbits.Checkpoint(folder, 0.1) if folder else None).save(out)
"""


def begun(folder, out):
    """What one process of a test compiles, the next ones find beside its model."""
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, str(folder), str(out)]
    environment = compiled_in(out.with_name("compiled"))
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def run(folder, out):
    """To the end; how long it took to learn."""
    with begun(folder, out) as process:
        process.stdout.readline()
        began = time.perf_counter()
    assert process.returncode == 0
    return time.perf_counter() - began


@pytest.mark.slow("processes that are killed")
@pytest.mark.timeout(1800)
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM as batch queues send it, and no SIGKILL")
def test_killed_at_random_moments(tmp_path):
    """SIGTERM writes a checkpoint and has a separate code, SIGKILL comes as often as LATENTBITS_KILLS says.

    Then on to the end, with the bits of the run that was not killed.
    """
    most = min(6.0, run("", tmp_path / "whole") / 2)  # without what was compiled, half of the time or less
    with begun(tmp_path / "run", tmp_path / "m") as killed:
        while not (tmp_path / "run").exists() or not list((tmp_path / "run").iterdir()):
            assert killed.poll() is None
            time.sleep(0.05)
        killed.send_signal(signal.SIGTERM)
    assert killed.returncode == 143
    rng, kills = np.random.default_rng(0), 0
    while kills < int(os.environ.get("LATENTBITS_KILLS", "1")):
        with begun(tmp_path / "run", tmp_path / "m") as killed:
            killed.stdout.readline()
            time.sleep(rng.uniform(0, most))
            killed.kill()
        if killed.returncode == -signal.SIGKILL:
            kills += 1
        else:  # it had come to its end: once more from the beginning
            assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
            shutil.rmtree(tmp_path / "run")
    run(tmp_path / "run", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert load(tmp_path / "m").converged_
