"""A fit that is killed and goes on ends with the bits of one that was not."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import jax
import numpy as np
import pytest
from safetensors import safe_open
from scripts import compiled_in
from sklearn.base import clone

from latentbits import (
    BernoulliMixture,
    BinarySparseCoding,
    Checkpoint,
    ClippedGaussian,
    CombinationMachine,
    LatentTrait,
    NoisyOrNetwork,
    compare,
    load,
)
from latentbits.core.errors import CheckpointError
from latentbits.core.packing import pack, unpack
from latentbits.engines import checkpoint
from latentbits.engines.checkpoint import Journal
from latentbits.engines.memory import MemoryEngine
from latentbits.engines.stream import StreamEngine

SLOW = pytest.mark.slow


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    chances = 1 / (1 + np.exp(-1.5 * rng.normal(size=(300, 2)) @ rng.normal(size=(2, 8))))
    return (rng.random((300, 8)) < chances).astype(np.uint8)


@pytest.fixture(autouse=True)
def at_every_pass(monkeypatch):
    monkeypatch.setattr(checkpoint, "SHARE", 0)


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
    try:
        clone(estimator).fit(table, checkpoint=Checkpoint(folder, 0 if place else np.inf))
    except Killed:
        pass
    monkeypatch.setattr(Journal, "stand", real)
    return len(passed)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning", "ignore::UserWarning")
@pytest.mark.parametrize(
    "estimator",
    [
        pytest.param(BernoulliMixture(3, n_init=3, random_state=0), id="restarts"),
        # a few passes of each stage: a file is written after every one
        pytest.param(BernoulliMixture(3, init="split", n_init=2, max_iter=10, random_state=0), id="growth", marks=SLOW),
        pytest.param(LatentTrait(2, max_iter=6, random_state=0), id="stages", marks=SLOW),
        pytest.param(ClippedGaussian(1, random_state=0), id="one pass"),
        pytest.param(
            CombinationMachine(3, learner="stochastic", n_epochs=6, annealing_steps=100, random_state=0),
            id="minibatches and chains",
            marks=SLOW,
        ),
        pytest.param(CombinationMachine(2, random_state=0), id="pursuit and gradient", marks=SLOW),
        pytest.param(NoisyOrNetwork((3,), random_state=0), id="sampled causes", marks=SLOW),
        pytest.param(
            NoisyOrNetwork((3, 2), learner="paper", max_iter=8, random_state=0), id="layer by layer", marks=SLOW
        ),
        pytest.param(BinarySparseCoding(3, random_state=0), id="several fits", marks=SLOW),
    ],
)
def test_a_killed_fit_goes_on_with_the_same_bits(estimator, table, tmp_path, monkeypatch):
    whole = clone(estimator).fit(table)
    n = killed_at(monkeypatch, estimator, table, tmp_path / "never", 0)
    for place in sorted({1, n // 2, n} - {0}):
        folder = tmp_path / str(place)
        killed_at(monkeypatch, estimator, table, folder, place)
        again = clone(estimator).fit(table, checkpoint=folder)
        for a, b in zip(numbers(whole), numbers(again), strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_seed_that_nobody_gave_is_kept(table, tmp_path, monkeypatch):
    estimator = BernoulliMixture(3, n_init=2)
    killed_at(monkeypatch, estimator, table, tmp_path, 3)
    first, second = (clone(estimator).fit(table, checkpoint=tmp_path) for _ in range(2))
    np.testing.assert_array_equal(first.means_, second.means_)


def test_two_are_kept(table, tmp_path):
    BernoulliMixture(3, n_init=3, random_state=0).fit(table, checkpoint=Checkpoint(tmp_path, 0))
    assert len(list(tmp_path.iterdir())) == 2


def test_another_fit_is_refused_with_what_differs(table, tmp_path):
    BernoulliMixture(3, n_init=1, random_state=0).fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="n_components was 3 and is 4"):
        BernoulliMixture(4, n_init=1, random_state=0).fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="model was 'BernoulliMixture' and is 'LatentTrait'"):
        LatentTrait(1, random_state=0).fit(table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another fit: data was"):
        BernoulliMixture(3, n_init=1, random_state=0).fit(1 - table, checkpoint=tmp_path)
    with pytest.raises(CheckpointError, match="another fit: data was"):
        BernoulliMixture(3, n_init=1, random_state=0).fit(table, sample_weight=np.full(300, 2.0), checkpoint=tmp_path)


def test_another_version_is_refused(table, tmp_path, monkeypatch):
    BernoulliMixture(3, n_init=1, random_state=0).fit(table, checkpoint=tmp_path)
    monkeypatch.setattr("latentbits.estimators.base.__version__", "99")
    with pytest.raises(CheckpointError, match=r"latentbits was .* and is '99'"):
        BernoulliMixture(3, n_init=1, random_state=0).fit(table, checkpoint=tmp_path)


@pytest.mark.parametrize("damage", ["cut", "a bit", "nothing left"])
def test_a_damaged_file_falls_back_to_the_one_before(table, tmp_path, monkeypatch, damage):
    estimator = BernoulliMixture(3, n_init=2, random_state=0)
    killed_at(monkeypatch, estimator, table, tmp_path, 5)
    newest = max(tmp_path.iterdir(), key=lambda path: int(path.stem.partition("-")[2]))
    content = bytearray(newest.read_bytes())
    content[-9] ^= 1
    newest.write_bytes({"cut": content[: len(content) // 2], "a bit": content, "nothing left": b""}[damage])
    with pytest.warns(UserWarning, match="going on from the checkpoint before it"):
        again = clone(estimator).fit(table, checkpoint=tmp_path)
    for a, b in zip(numbers(clone(estimator).fit(table)), numbers(again), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_but_damaged_files_is_an_error(table, tmp_path):
    (tmp_path / "checkpoint-1.safetensors").write_bytes(b"no such thing")
    with pytest.raises(CheckpointError, match="cannot be read"):
        BernoulliMixture(3, n_init=1, random_state=0).fit(table, checkpoint=tmp_path)


def test_a_full_disk_leaves_what_was_there(table, tmp_path, monkeypatch):
    estimator = BernoulliMixture(3, n_init=2, random_state=0)
    killed_at(monkeypatch, estimator, table, tmp_path, 4)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}

    def full(handle):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("latentbits.core.atomic.os.fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*checkpoint.*No space left"):
        clone(estimator).fit(table, checkpoint=tmp_path)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_is_fitted_to_what_finds_its_own(table, tmp_path, monkeypatch):
    """A comparison that is killed makes no finished fit again."""
    models = {name: BernoulliMixture(k, n_init=3, random_state=0) for name, k in (("two", 2), ("three", 3))}
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
    parts = StreamEngine(lambda: iter([table[:100], table[100:]]), 8)
    assert checkpoint.fingerprint(parts) == checkpoint.fingerprint(MemoryEngine(table))
    assert checkpoint.fingerprint(parts) != checkpoint.fingerprint(MemoryEngine(table[::-1]))


def test_trees_are_packed_and_unpacked(table):
    params = BernoulliMixture(2, n_init=1, random_state=0).fit(table).params_
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
checkpoint.SHARE = 0
model, folder, out = sys.argv[1:]
rng = np.random.default_rng(0)
X = (rng.random((400, 10)) < 1 / (1 + np.exp(-2 * rng.normal(size=(400, 2)) @ rng.normal(size=(2, 10))))).astype(int)
m = {
    "restarts": latentbits.BernoulliMixture(6, n_init=30, random_state=0),
    "minibatches": latentbits.CombinationMachine(3, learner="stochastic", n_epochs=60, annealing_steps=300,
                                                 random_state=0),
    "chains": latentbits.NoisyOrNetwork((4,), inference="gibbs", max_iter=200, random_state=0),
}[model]
print("ready", flush=True)
m.fit(X, checkpoint=latentbits.Checkpoint(folder, 0.2) if folder else None).save(out)
"""


def command(model, folder, out):
    return [sys.executable, "-W", "ignore", "-c", SCRIPT, model, str(folder), str(out)]


def begun(model, folder, out):
    """What one process of a test compiles, the next ones find beside its model."""
    environment = compiled_in(out.with_name("compiled"))
    return subprocess.Popen(command(model, folder, out), stdout=subprocess.PIPE, text=True, env=environment)


def run(model, folder, out):
    """To the end; how long it took to learn."""
    with begun(model, folder, out) as process:
        process.stdout.readline()
        began = time.perf_counter()
    assert process.returncode == 0
    return time.perf_counter() - began


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no SIGTERM as batch queues send it")
def test_sigterm_writes_a_checkpoint_and_has_a_code_of_its_own(tmp_path):
    run("restarts", "", tmp_path / "whole")
    with begun("restarts", tmp_path / "run", tmp_path / "m") as killed:
        while not (tmp_path / "run").exists() or not list((tmp_path / "run").iterdir()):
            assert killed.poll() is None
            time.sleep(0.05)
        killed.send_signal(signal.SIGTERM)
    assert killed.returncode == 143
    run("restarts", tmp_path / "run", tmp_path / "m")
    assert (tmp_path / "m").read_bytes() == (tmp_path / "whole").read_bytes()
    assert load(tmp_path / "m").converged_


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="nobody is killed so here")
@pytest.mark.parametrize("model", ["restarts", "minibatches", "chains"])
def test_killed_at_random_moments(model, tmp_path):
    """As often as LATENTBITS_KILLS says; then on to the end, with the bits of the run that was not killed."""
    most = min(6.0, run(model, "", tmp_path / "whole") / 2)  # without what was compiled, half of the time or less
    rng = np.random.default_rng(list(model.encode()))
    kills = 0
    while kills < int(os.environ.get("LATENTBITS_KILLS", "2")):
        with begun(model, tmp_path / "run", tmp_path / "m") as killed:
            killed.stdout.readline()
            time.sleep(rng.uniform(0, most))
            killed.kill()
        if killed.returncode == -signal.SIGKILL:
            kills += 1
        else:  # it had come to its end: once more from the beginning
            assert_same_numbers(tmp_path / "m", tmp_path / "whole")
            shutil.rmtree(tmp_path / "run")
    run(model, tmp_path / "run", tmp_path / "m")
    assert_same_numbers(tmp_path / "m", tmp_path / "whole")


def assert_same_numbers(one, other):
    with safe_open(one, "numpy") as a, safe_open(other, "numpy") as b:
        assert set(a.keys()) == set(b.keys())
        for name in a.keys():  # noqa: SIM118
            np.testing.assert_array_equal(a.get_tensor(name), b.get_tensor(name))
