"""Shared by the tests of the tool: small files, and a runner that leaves JAX's configuration alone."""

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from latentbits.cli.main import cli

NAMES = ("hair", "milk", "eggs", "wings", "fins", "legs")


class Tool:
    """The tool, run inside this process."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __call__(self, *arguments, code=0):
        result = CliRunner().invoke(cli, [str(a) for a in arguments])
        if result.exit_code != code:
            raise AssertionError(f"exit {result.exit_code}, not {code}: {result.output}") from result.exception
        return result

    def json(self, *arguments):
        """The object that the command prints, and nothing else may be on stdout."""
        return json.loads(self(*arguments, "--json").stdout)


@pytest.fixture
def tool(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTBITS_DATA", raising=False)
    return Tool(tmp_path)


@pytest.fixture(scope="session")
def process(tmp_path_factory):
    """The tool as a process of its own, with a cache folder that all these tests share."""
    cache = tmp_path_factory.mktemp("cache")
    inherited = {name: value for name, value in os.environ.items() if name != "JAX_COMPILATION_CACHE_DIR"}

    def begun(*arguments, **environment):
        return subprocess.Popen(
            [sys.executable, "-m", "latentbits.cli.main", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**inherited, "LATENTBITS_CACHE": str(cache), **environment},
        )

    def run(*arguments, **environment):
        with begun(*arguments, **environment) as tool:
            said = tool.communicate()
        return subprocess.CompletedProcess(tool.args, tool.returncode, *said)

    run.cache, run.begun = cache, begun
    return run


def make_bits(n=120, seed=0):
    """Rows of two kinds, and a missing cell in each tenth row."""
    rng = np.random.default_rng(seed)
    means = np.array([[0.9, 0.9, 0.1, 0.1, 0.1, 0.8], [0.1, 0.1, 0.9, 0.8, 0.2, 0.2]])
    table = (rng.random((n, 6)) < means[rng.integers(0, 2, n)]).astype(float)
    table[::10, 1] = np.nan
    return table


@pytest.fixture
def names():
    return NAMES


@pytest.fixture
def table():
    return make_bits()


@pytest.fixture
def write_csv(tmp_path):
    """A function that writes a table into the folder of the test."""

    def write(name, table, names=NAMES):
        return _write(tmp_path / name, table, names)

    return write


def _write(path, table, names):
    lines = [] if names is None else [",".join(names)]
    lines += [",".join("NA" if np.isnan(v) else str(int(v)) for v in row) for row in table]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def csv(write_csv, table):
    return write_csv("bits.csv", table)


@pytest.fixture
def model(tool, csv):
    return _learned(tool, csv, "m.safetensors", "-k", 2)


@pytest.fixture
def trait(tool, csv):
    """A model of one latent trait, with a prior: its table is nearly separable."""
    return _learned(tool, csv, "t.safetensors", "-m", "latent-trait", "-k", 1, "--weight-prior", 3)


LEARNED: dict[tuple, bytes] = {}


def _learned(tool, csv, name, *options):
    """The file of a model, which is fitted to a table once."""
    asked = (csv.read_bytes(), *options)
    path = tool.folder / name
    if asked not in LEARNED:
        tool("fit", csv, *options, "-o", name)
        LEARNED[asked] = path.read_bytes()
    path.write_bytes(LEARNED[asked])
    return path
